"""Attention of sentences on a GPU equals torch's formula, with the gradients, whatever its dropout drops.

Without a GPU, `TRITON_INTERPRET=1` runs the kernels on the CPU if Triton is installed; else torch only traces them.
"""

import os
from collections.abc import Callable
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from mtkit.model.gpu import attention
from mtkit.model.masks import causal_bias, padding_bias

DEVICE = torch.device("cuda" if attention.has_kernels() else "cpu")
# Triton's interpreter calculates with numpy, which has no bfloat16.
DTYPE, ATOL = (torch.bfloat16, 0.03) if DEVICE.type == "cuda" else (torch.float32, 1e-5)
can_run = attention.has_kernels() or (os.environ.get("TRITON_INTERPRET") == "1" and find_spec("triton") is not None)
runs_kernels = pytest.mark.skipif(not can_run, reason="needs Triton, and a GPU or TRITON_INTERPRET=1")


def heads(n_sentences: int, n: int, n_heads: int = 2, d_head: int = 32) -> tuple[Tensor, Tensor, Tensor]:
    """Return three views (B, H, n, d_head) of a packed product."""
    packed = torch.randn(n_sentences, n, 3, n_heads, d_head, device=DEVICE, dtype=DTYPE)
    q, k, v = (part.transpose(1, 2).detach().requires_grad_() for part in packed.unbind(2))
    return q, k, v


def with_gradients(mixed: Tensor, leaves: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    weights = torch.linspace(-1, 1, mixed.numel(), device=mixed.device, dtype=mixed.dtype).view(mixed.shape)
    return (mixed.detach(), *torch.autograd.grad((mixed * weights).sum(), leaves))


def formula(leaves: tuple[Tensor, ...], bias: Tensor | None, factors: Tensor | float = 1.0) -> tuple[Tensor, ...]:
    """Return the result and the gradients in float64; factors: what dropout multiplies the weights by."""
    leaves = tuple(x.detach().double().requires_grad_() for x in leaves)
    q, k, v = leaves
    scores = q @ k.transpose(-1, -2) * q.size(-1) ** -0.5
    weights = (scores if bias is None else scores + bias).softmax(dim=-1)
    return with_gradients((weights * factors) @ v, leaves)


def assert_near(have: tuple[Tensor, ...], want: tuple[Tensor, ...]) -> None:
    for a, b in zip(have, want, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=ATOL, atol=ATOL * float(b.abs().max() + 0.1))


def dropped_factors(shape: tuple[int, int, int, int], p: float) -> Tensor:
    """Return what dropout multiplies weights of this shape by: equal scores and an identity matrix show it."""
    n_sentences, n_heads, n_queries, n_keys = shape
    eye = torch.eye(n_keys, 32, device=DEVICE, dtype=DTYPE).expand(n_sentences, n_heads, n_keys, 32)
    q, k = (torch.zeros(n_sentences, n_heads, n, 32, device=DEVICE, dtype=DTYPE) for n in (n_queries, n_keys))
    return attention.attend(q, k, eye, None, p, causal=False)[..., :n_keys] * n_keys


@runs_kernels
@pytest.mark.parametrize(("n_queries", "n_keys", "d_head"), [(1, 1, 16), (5, 9, 32), (33, 17, 64), (70, 20, 32)])
def test_queries_look_at_every_key_but_padding(n_queries, n_keys, d_head):
    torch.manual_seed(0)
    q, (_, k, v) = heads(3, n_queries, d_head=d_head)[0], heads(3, n_keys, d_head=d_head)
    bias = padding_bias(torch.arange(n_keys, device=DEVICE) >= torch.tensor([[n_keys], [1], [5]], device=DEVICE))
    have = with_gradients(attention.attend(q, k, v, bias, 0.0, causal=False), (q, k, v))
    assert_near(have, formula((q, k, v), bias))


@runs_kernels
@pytest.mark.parametrize("length", [1, 20, 128])
def test_queries_look_at_no_later_key(length):
    torch.manual_seed(0)
    leaves = heads(2, length)
    have = with_gradients(attention.attend(*leaves, None, 0.0, causal=True), leaves)
    assert_near(have, formula(leaves, causal_bias(length, DEVICE)))


@runs_kernels
def test_a_sentence_of_padding_alone_has_finite_gradients():
    torch.manual_seed(0)
    leaves, bias = heads(1, 6), padding_bias(torch.ones(1, 6, dtype=torch.bool, device=DEVICE))
    assert all(x.isfinite().all() for x in with_gradients(attention.attend(*leaves, bias, 0.1, causal=False), leaves))


@runs_kernels
def test_dropout_keeps_its_share_of_weights_and_scales_them():
    torch.manual_seed(0)
    factors = dropped_factors((16, 2, 30, 20), p=0.3)
    kept = factors > 0.5
    torch.testing.assert_close(factors[kept], torch.full_like(factors[kept], 1 / 0.7), rtol=0.02, atol=0)
    assert not factors[~kept].any()
    for share in (kept.double().mean(), *(kept.double().mean(dim=axes).min() for axes in ((0, 1, 2), (0, 1, 3)))):
        assert float(share) == pytest.approx(0.7, abs=0.06)  # 4 standard deviations of the smallest sample


@runs_kernels
def test_both_passes_drop_the_same_weights():
    leaves = heads(2, 20)
    torch.manual_seed(3)
    factors = dropped_factors((2, 2, 20, 20), p=0.3)
    torch.manual_seed(3)
    have = with_gradients(attention.attend(*leaves, None, 0.3, causal=False), leaves)
    assert_near(have, formula(leaves, None, factors.double()))


@runs_kernels
def test_torchs_seed_alone_decides_what_is_dropped():
    leaves = heads(2, 20)
    same, again, other = (
        (torch.manual_seed(seed), attention.attend(*leaves, None, 0.3, causal=False))[1] for seed in (3, 3, 4)
    )
    assert torch.equal(same, again)
    assert not torch.equal(same, other)


@runs_kernels
def test_packed_parts_get_packed_gradients():
    torch.manual_seed(0)
    packed = torch.randn(2, 9, 3, 2, 32, device=DEVICE, dtype=DTYPE, requires_grad=True)
    mixed = attention.attend_packed([packed], None, 0.0, causal=True)
    mixed, by_packed = with_gradients(mixed.transpose(1, 2), (packed,))
    want = formula(tuple(part.transpose(1, 2) for part in packed.unbind(2)), causal_bias(9, DEVICE))
    assert_near((mixed, *(part.transpose(1, 2) for part in by_packed.unbind(2))), want)


def compiled(backend: str, p: float) -> Callable[..., Tensor]:
    return torch.compile(
        lambda q, k, v: attention.attend(q, k, v, None, p, causal=True) * 2,
        backend=backend,
        dynamic=True,
        fullgraph=True,
    )


@runs_kernels
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_torch_compiles_it_for_all_lengths_at_once(backend):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    function = compiled(backend, 0.0)
    for n_sentences, length in ((3, 12), (5, 40)):
        leaves = heads(n_sentences, length)
        want = formula(leaves, causal_bias(length, DEVICE))
        have = with_gradients(function(*leaves), leaves)
        assert_near(have, tuple(2 * x for x in want))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_tracing_it_needs_no_gpu():
    with FakeTensorMode():
        leaves = heads(2, 9)
        mixed = attention.attend(*leaves, None, 0.1, causal=True)
        gradients = torch.autograd.grad(mixed.sum(), leaves)
    assert mixed.shape == (2, 2, 9, 32)
    assert mixed.transpose(1, 2).is_contiguous()  # joining the heads takes no copy
    assert [x.shape for x in gradients] == [x.shape for x in leaves]

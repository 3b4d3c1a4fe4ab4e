"""Operations in one pass over memory: each against torch's own in float64, forwards and backwards."""

import math
import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

from mtkit.model.cpu import fused
from mtkit.model.dropout import Dropout
from mtkit.model.masks import BLOCKED, causal_bias, padding_bias
from mtkit.model.ops import add_dropout

pytest.importorskip("numba")
from mtkit.model.cpu import jit

SHAPES = [(1,), (7, 5), (3, 50, 64), (2, 1030), (3, 11, 1000)]  # whole blocks of 1,024 elements, and not
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2**-8}  # of the size of the numbers
both_precisions = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


@pytest.fixture
def threads():
    """A function that sets torch's threads, which are put back in the end."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def leaf(*shape, dtype=torch.float32, scale=1.0):
    return (scale * torch.randn(*shape)).to(dtype).requires_grad_()


def in_double(*tensors):
    return [x.detach().double().requires_grad_() for x in tensors]


def assert_near(result, expected, dtype):
    atol = TOLERANCE[dtype] * max(1.0, expected.abs().max().item())
    torch.testing.assert_close(result.double(), expected.double(), rtol=0, atol=atol)


@both_precisions
@pytest.mark.parametrize("shape", SHAPES)
def test_dropout_scales_what_it_keeps_and_drops_the_same_backwards(shape, dtype):
    x = leaf(*shape, dtype=dtype)
    y = fused.dropout(x, 0.3, seed=5)
    kept = fused.dropout(torch.ones(shape), 0.3, seed=5) != 0
    assert_near(y, x.double() * kept / 0.7, dtype)
    grad = torch.randn(shape).to(dtype)
    y.backward(grad)
    assert_near(x.grad, grad.double() * kept / 0.7, dtype)


@pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.3, 0.5, 0.999])
def test_each_element_is_dropped_as_often_as_the_others(share):
    n = 400
    x = torch.ones(n, 2048)  # two blocks of 1,024 in each row: an element has the same place in all
    dropped = fused.dropout(x, share, seed=3) == 0
    spread = math.sqrt(share * (1 - share))
    assert dropped.float().mean().item() == pytest.approx(share, abs=5 * spread / math.sqrt(n * 2048))
    assert (dropped.float().mean(dim=0) - share).abs().max() < 5.5 * spread / math.sqrt(n) + 1 / n
    assert (dropped.float().mean(dim=1) - share).abs().max() < 5.5 * spread / math.sqrt(2048) + 1 / 2048


def test_neighbours_parts_of_a_word_blocks_and_seeds_are_independent():
    signs = torch.stack([fused.dropout(torch.ones(2**20), 0.5, seed=seed) - 1 for seed in (0, 1, 2**62)])
    n = signs.size(1)
    for distance in (1, 2, 256, 512, 1024, 4096):
        correlation = (signs * signs.roll(distance, dims=1)).mean(dim=1)
        assert correlation.abs().max() < 5 / math.sqrt(n), distance
    for one, other in [(0, 1), (1, 2), (0, 2)]:
        assert (signs[one] * signs[other]).mean().abs() < 5 / math.sqrt(n)


@both_precisions
@pytest.mark.parametrize("shape", SHAPES)
def test_the_residual_sum(shape, dtype):
    x, y = leaf(*shape), leaf(*shape, dtype=dtype)
    z = fused.add_dropout(x, y, 0.3, seed=5)
    kept = fused.dropout(torch.ones(shape), 0.3, seed=5) != 0
    assert z.dtype == torch.float32
    assert_near(z, x + y.double() * kept / 0.7, torch.float32)
    grad = torch.randn(shape)
    z.backward(grad)
    assert torch.equal(x.grad, grad)
    assert_near(y.grad, grad * kept / 0.7, dtype)


@both_precisions
@pytest.mark.parametrize("p", [0.0, 0.3])
@pytest.mark.parametrize("shape", SHAPES)
def test_relu_with_bias_and_dropout(shape, p, dtype):
    x, bias = leaf(*shape, dtype=dtype), leaf(shape[-1])
    y = fused.relu_dropout(x, bias, p, seed=5)
    kept = fused.dropout(torch.ones(shape), p, seed=5) != 0
    ours, theirs = (x, bias), in_double(x, bias)
    expected = (theirs[0] + theirs[1]).relu() * kept / (1 - p)
    assert_near(y, expected, dtype)
    grad = torch.randn(shape).to(dtype)
    y.backward(grad)
    expected.backward(grad.double())
    for one, other in zip(ours, theirs, strict=True):
        assert_near(one.grad, other.grad, dtype)


@both_precisions
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != (1,)])
def test_layer_norm(shape, dtype):
    ours = leaf(*shape, scale=3.0), leaf(shape[-1]), leaf(shape[-1])
    theirs = in_double(*ours)
    y = fused.layer_norm(*ours, 1e-5, dtype)
    expected = F.layer_norm(theirs[0], shape[-1:], *theirs[1:])
    assert y.dtype == dtype
    assert_near(y, expected, dtype)
    grad = torch.randn(shape).to(dtype)
    y.backward(grad)
    expected.backward(grad.double())
    for one, other in zip(ours, theirs, strict=True):
        assert_near(one.grad, other.grad, torch.float32)


@both_precisions
@pytest.mark.parametrize("n_keys", [1, 15, 16, 19, 200])
@pytest.mark.parametrize("kind", ["padding", "causal", "by head", "none"])
def test_softmax(kind, n_keys, dtype):
    n_queries = n_keys if kind == "causal" else 5
    scores = leaf(3 * 4, n_queries, n_keys, dtype=dtype, scale=8.0)
    pad_mask = torch.zeros(3, n_keys, dtype=torch.bool)
    pad_mask[1, 1:] = True
    bias = {
        "padding": padding_bias(pad_mask),
        "causal": causal_bias(n_keys),
        "by head": padding_bias(pad_mask) + torch.randn(1, 4, n_queries, n_keys),
        "none": None,
    }[kind]
    weights = fused.softmax(scores, bias, scale=0.3, n_heads=4)
    (exact,) = in_double(scores)
    expected = (exact.view(3, 4, n_queries, n_keys) * 0.3 + (0.0 if bias is None else bias)).softmax(dim=-1)
    assert_near(weights, expected.view_as(weights), dtype)
    if kind == "padding":
        assert weights.view(3, 4, 5, -1)[1, ..., 1:].count_nonzero() == 0
    grad = torch.randn(scores.shape).to(dtype)
    weights.backward(grad)
    expected.backward(grad.double().view_as(expected))
    assert_near(scores.grad, exact.grad, dtype)


@both_precisions
@pytest.mark.parametrize("n_passes", [1, 2])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_cross_entropy(label_smoothing, n_passes, dtype):
    logits, bias, targets = leaf(n_passes, 9, 50, dtype=dtype, scale=3.0), torch.randn(50), torch.randint(50, (9,))
    given, (exact,) = logits.detach().clone(), in_double(logits)
    log_probs = (exact + bias).log_softmax(dim=-1)
    smoothed = [F.cross_entropy(one + bias, targets, reduction="sum", label_smoothing=label_smoothing) for one in exact]
    expected = torch.stack(smoothed).mean()
    if n_passes == 2:
        p, q = log_probs
        expected = expected + 3 / 4 * ((p.exp() * (p - q)).sum() + (q.exp() * (q - p)).sum())
    expected.backward()
    loss, nll, by_bias = fused.cross_entropy_(given, bias, targets, label_smoothing, 3.0)
    assert loss == pytest.approx(expected.item(), rel=1e-6)
    assert nll == pytest.approx(sum(F.nll_loss(one, targets, reduction="sum").item() for one in log_probs) / n_passes)
    assert_near(given, exact.grad, dtype)
    assert_near(by_bias, exact.grad.sum(dim=(0, 1)), torch.float32)


def test_rows_that_only_fill_up_are_left_alone_and_no_target_is_out_of_range():
    logits, bias, targets = torch.randn(2, 9, 50), torch.randn(50), torch.randint(50, (6,))
    alone, whole = logits[:, :6].clone(), logits.clone()
    assert fused.cross_entropy_(alone, bias, targets, 0.1, 3.0)[:2] == pytest.approx(
        fused.cross_entropy_(whole, bias, targets, 0.1, 3.0)[:2], rel=1e-12
    )
    assert torch.equal(whole[:, :6], alone)
    assert torch.equal(whole[:, 6:], logits[:, 6:])
    for wrong in (-1, 50):
        with pytest.raises(IndexError, match=f"{wrong}"):
            fused.cross_entropy_(logits.clone(), bias, torch.tensor([3, wrong]), 0.1, 0.0)


def test_weights_in_bf16_are_read_as_such():
    gain, bias = leaf(64, dtype=torch.bfloat16), leaf(64, dtype=torch.bfloat16)
    x, logits = torch.randn(5, 64), torch.randn(1, 5, 64)
    y = fused.layer_norm(x, gain, bias, 1e-5, torch.float32)
    torch.testing.assert_close(y, F.layer_norm(x, (64,), gain.float(), bias.float()))
    y.sum().backward()
    assert gain.grad.dtype == bias.grad.dtype == torch.bfloat16
    added = bias.detach()
    ours = fused.softmax(logits, added.view(1, 1, 1, 64), 1.0, 1)
    torch.testing.assert_close(ours, (logits + added.float()).softmax(dim=-1))
    losses = [fused.cross_entropy_(logits.clone(), b, torch.arange(5), 0.1, 0.0)[0] for b in (added, added.float())]
    assert losses[0] == losses[1]


@both_precisions
def test_the_memory_of_weights_can_be_freed_and_gathered_again(dtype):
    """As FSDP2 does; torch refuses to resize memory that numpy has seen."""
    x, gain, bias, by_token = torch.randn(5, 64), leaf(64, dtype=dtype), leaf(64, dtype=dtype), leaf(50, dtype=dtype)
    fused.relu_dropout(fused.layer_norm(x, gain, bias, 1e-5, dtype), bias, 0.1, seed=1).sum().backward()
    fused.cross_entropy_(torch.randn(2, 5, 50), by_token, torch.arange(5), 0.1, 3.0)
    assert all(weights.untyped_storage().resizable() for weights in (gain, bias, by_token))


def test_what_is_smaller_is_broadcast_in_a_residual_sum():
    assert add_dropout(torch.ones(4, 3000), torch.zeros(3000), 0.5).tolist() == [[1.0] * 3000] * 4


def test_what_is_not_a_number_is_not_hidden():
    bad = torch.tensor([[1.0, math.nan, -1.0, math.inf]])
    bias = torch.zeros(4)
    for y in (
        fused.relu_dropout(bad, bias, 0, seed=1),
        fused.add_dropout(torch.zeros(1, 4), bad, 0.01, seed=1),
        fused.dropout(bad, 0.01, seed=1),
    ):
        assert y[0, 1].isnan() and not y[0, 3].isfinite()
    assert fused.softmax(bad[None], None, 1.0, 1).isnan().all()
    loss, nll, _ = fused.cross_entropy_(bad[None].clone(), bias, torch.tensor([0]), 0.1, 0.0)
    assert math.isnan(loss) and math.isnan(nll)


def test_exponentials_are_exact_to_two_units_in_the_last_place():
    from numba import njit

    @njit
    def exponentials(x):
        for i in range(x.size):
            x[i] = jit.exp(x[i])

    x = torch.cat([torch.linspace(-87, 0, 100_001), torch.tensor([-88.0, -1e4, -math.inf, math.nan])])
    expected = x.double().exp()
    powers = x.clone()
    exponentials(powers.numpy())
    assert (powers[:-4] / expected[:-4] - 1).abs().max() < 2 * 2**-23
    assert powers[-4:-1].tolist() == [0, 0, 0]
    assert powers[-1].isnan()


def test_numbers_are_rounded_to_bf16_as_torch_rounds_them():
    x = torch.cat(
        [torch.randn(5000) * 10.0 ** torch.randint(-30, 30, (5000,)), torch.tensor([1 + 2**-8, 1 + 3 * 2**-8])]
    )
    ours = fused._dropped(x, torch.bfloat16, 0, seed=1)
    assert torch.equal(ours, x.to(torch.bfloat16))


def test_threads_change_nothing_but_the_order_of_a_sum(threads):
    results = []
    for n in (1, 3):
        threads(n)
        torch.manual_seed(0)
        x, bias = leaf(300, 1000), leaf(1000)
        y = fused.add_dropout(x, fused.relu_dropout(x, bias, 0.3, seed=4), 0.1, seed=9)
        weights = fused.softmax(y.view(30, 100, 100), None, 0.1, 3)
        logits = weights.detach().clone().view(1, 300, 1000)
        loss, _, _ = fused.cross_entropy_(logits, bias, torch.arange(300), 0.1, 0.0)
        (weights * torch.randn(30, 100, 100)).sum().backward()
        results.append((y, weights, logits, x.grad, bias.grad, loss))
    (*one, bias_of_one, loss_of_one), (*three, bias_of_three, loss_of_three) = results
    assert all(torch.equal(*pair) for pair in zip(one, three, strict=True))
    torch.testing.assert_close(bias_of_one, bias_of_three)
    assert loss_of_one == pytest.approx(loss_of_three, rel=1e-12)


def test_what_kernels_are_not_for_is_torchs():
    for x in (torch.zeros(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float16), torch.zeros(3, device="meta")):
        assert not fused.has_kernels(x)
    assert fused.has_kernels(torch.zeros(3))
    compiled = torch.compile(lambda x: x + fused.has_kernels(x), backend="eager")
    assert compiled(torch.zeros(3)).tolist() == [0, 0, 0]


def test_an_empty_tensor_stays_empty():
    assert Dropout(0.3)(torch.zeros(0, 8)).shape == (0, 8)


@pytest.fixture(scope="module")
def with_a_broken_numba(tmp_path_factory):
    """A process that translates, and then trains with a numba that cannot be loaded for one of three reasons."""
    folder = tmp_path_factory.mktemp("broken")
    (folder / "numba").mkdir()
    broken = "print('loading numba')\nraise error('Numba needs NumPy 2.3 or less')\n"
    (folder / "numba" / "__init__.py").write_text(broken, "utf-8")
    program = """
import builtins, torch
from mtkit import cores
from mtkit.config.model import ModelConfig
from mtkit.console import set_up_logging
from mtkit.model.cpu import fused
from mtkit.model.dropout import Dropout
from mtkit.model.transformer import Transformer
from mtkit.runtime import log_missing_numba
model = Transformer(ModelConfig(d_model=16, d_ff=32, n_heads=2, n_encoder_layers=1, n_decoder_layers=1), 9, 9).eval()
with torch.no_grad():
    model(torch.tensor([[4, 5]]), torch.tensor([[2, 6]]))
print("translated")
set_up_logging(quiet=False)
for builtins.error in (ImportError, OSError, SystemError):  # as in three processes
    cores._import_numba.cache_clear()
    log_missing_numba("an update faster")
    print(fused.has_numba(), Dropout(0.1)(torch.zeros(4)).tolist())
"""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)


def test_translating_does_not_wait_for_numba(with_a_broken_numba):
    before, _, after = with_a_broken_numba.stdout.partition("translated\n")
    assert (before, after.count("loading numba") > 0) == ("", True), with_a_broken_numba.stderr


def test_training_does_without_a_broken_numba_and_says_why(with_a_broken_numba):
    assert with_a_broken_numba.stdout.count("False [0.0, 0.0, 0.0, 0.0]\n") == 3, with_a_broken_numba.stderr
    assert with_a_broken_numba.stderr.count("Numba needs NumPy") == 3


def test_where_all_is_blocked_nothing_becomes_nan():
    weights = fused.softmax(torch.zeros(1, 1, 20), torch.full((1, 1, 1, 20), BLOCKED), 1.0, 1)
    torch.testing.assert_close(weights, torch.full((1, 1, 20), 0.05))


def test_blocked_positions_weigh_nothing_however_low_the_others_are():
    scores = torch.tensor([[[-200.0, 500.0]]])
    assert fused.softmax(scores, torch.tensor([[[[0.0, BLOCKED]]]]), 1.0, 1).tolist() == [[[1.0, 0.0]]]

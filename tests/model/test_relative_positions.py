"""Relative positions and linear biases against loops over pairs of positions, written from the two papers."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from mtkit.config.model import ModelConfig
from mtkit.model import ops
from mtkit.model.attention import SelfAttention
from mtkit.model.cpu import fused
from mtkit.model.distances import by_distance, by_key
from mtkit.model.masks import causal_bias, padding_bias
from mtkit.model.positions import LinearBiases, alibi_slopes, distances_between
from mtkit.model.transformer import Transformer

B, LENGTH, HEADS, WIDTH = 2, 7, 2, 8  # sentences, positions, heads, width of all heads together


def attention_of(positions: str, reach: int, *, causal: bool) -> SelfAttention:
    torch.manual_seed(5)
    cfg = ModelConfig(d_model=WIDTH, n_heads=HEADS, d_ff=8, positions=positions, max_relative_distance=reach)
    attention = SelfAttention(cfg, causal=causal)
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter)
    return attention


def attended(attention: SelfAttention, x: Tensor, *, causal: bool) -> Tensor:
    """The attention's output with the bias that the model would give it."""
    pad_mask = torch.zeros(B, LENGTH, dtype=torch.bool)
    pad_mask[1, 5:] = not causal
    bias = causal_bias(LENGTH) if causal else padding_bias(pad_mask)
    if attention.relative is None:
        bias = bias + LinearBiases(HEADS)(distances_between(LENGTH))
    return attention(x, bias)


def by_loops(attention: SelfAttention, x: Tensor, reach: int, *, causal: bool) -> Tensor:
    """The same by the papers' sums, query by query and key by key, in float64.

    Shaw et al. 2018: e_ij = x_i W_Q (x_j W_K + a^K_clip(j - i))^T / sqrt(d), z_i = sum_j softmax(e_i)_j (x_j W_V +
    a^V_clip(j - i)). Press et al. 2022: e_ij = q_i k_j / sqrt(d) - m_h |i - j|, with m_h = 2^-4, 2^-8 for two heads.
    """
    d, positions = WIDTH // HEADS, attention.relative
    w, b = attention.qkv_proj.weight.double(), attention.qkv_proj.bias.double()
    q, k, v = (x.double() @ w.T + b).chunk(3, dim=-1)
    outputs = []
    for sentence, h, i in itertools.product(range(B), range(HEADS), range(LENGTH)):
        own = slice(h * d, (h + 1) * d)
        energies: list[Tensor] = []
        values: list[Tensor] = []
        for j in range(i + 1) if causal else range(5 if sentence == 1 else LENGTH):
            key, value, fading = k[sentence, j, own], v[sentence, j, own], 0.0
            if positions is None:
                fading = (0.0625, 0.00390625)[h] * abs(i - j)
            else:
                row = max(-reach, min(reach, j - i)) + reach
                key, value = key + positions.keys[row].double(), value + positions.values[row].double()
            energies.append((q[sentence, i, own] * key).sum() / math.sqrt(d) - fading)
            values.append(value)
        powers = [energy.exp() for energy in energies]
        weights = torch.stack(powers) / sum(powers)
        outputs.append(weights @ torch.stack(values))
    mixed = torch.stack(outputs).view(B, HEADS, LENGTH, d).transpose(1, 2).flatten(2)
    return mixed @ attention.out_proj.weight.double().T + attention.out_proj.bias.double()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("positions", "reach"), [("relative", 1), ("relative", 3), ("relative", 40), ("alibi", 16)])
def test_attention_and_gradients_equal_the_papers_sums_over_pairs(positions: str, reach: int, causal: bool) -> None:
    attention = attention_of(positions, reach, causal=causal)
    x, weights = torch.randn(B, LENGTH, WIDTH, requires_grad=True), torch.randn(B, LENGTH, WIDTH)
    expected = by_loops(attention, x, reach, causal=causal)
    with torch.no_grad():  # without gradients, the softmax is computed in another way
        torch.testing.assert_close(attended(attention, x, causal=causal).double(), expected, atol=1e-5, rtol=1e-5)
    y = attended(attention, x, causal=causal)
    torch.testing.assert_close(y.double(), expected, atol=1e-5, rtol=1e-5)
    leaves = [x, *attention.parameters()]
    ours, theirs = (torch.autograd.grad((z * weights).sum(), leaves) for z in (y, expected))
    torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["plain formulas", "autocast", "without numba"])
@pytest.mark.parametrize("positions", ["relative", "alibi"])
def test_every_way_to_compute_it_agrees(positions: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    attention, x = attention_of(positions, 3, causal=True), torch.randn(B, LENGTH, WIDTH)
    expected = attended(attention, x, causal=True).detach()
    if name == "plain formulas":
        for operation in ("attend", "attend_relative"):
            plain = getattr(ops, operation).__wrapped__
            monkeypatch.setattr(f"mtkit.model.attention.{operation}", plain)
    monkeypatch.setattr(fused, "has_numba", lambda: name == "autocast")
    with torch.autocast("cpu", torch.bfloat16, enabled=name == "autocast"):
        y = attended(attention, x, causal=True)
    tolerance = 0.08 if name == "autocast" else 1e-5  # bfloat16 has 8 bits
    torch.testing.assert_close(y.float(), expected, atol=tolerance * float(expected.abs().max()), rtol=0)
    y.float().sum().backward()
    assert all(parameter.grad is not None for parameter in attention.parameters())


def test_compiled_attention_is_the_same_at_every_length() -> None:
    attention = attention_of("relative", 2, causal=False).double()
    expected: list[tuple[Tensor, ...]] = []
    xs = [torch.randn(2, n, WIDTH, dtype=torch.float64) for n in (3, 6, 1)]
    for compiled in (False, True):
        if compiled:
            attention.compile(dynamic=True, backend="eager")
        for number, x in enumerate(xs):
            y = attention(x, None)
            grads = torch.autograd.grad(y.square().sum(), list(attention.parameters()))
            if compiled:
                torch.testing.assert_close((y, *grads), expected[number])
            else:
                expected.append((y, *grads))


def test_slopes_are_those_of_the_paper() -> None:
    assert alibi_slopes(8) == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]  # section 3
    assert alibi_slopes(16) == pytest.approx([2 ** (-i / 2) for i in range(1, 17)])  # "1/2^0.5, 1/2^1, 1/2^1.5, ..."
    assert alibi_slopes(4) == [1 / 4, 1 / 16, 1 / 64, 1 / 256]
    assert alibi_slopes(1) == [1 / 256]


@pytest.mark.parametrize("n_heads", [3, 5, 6, 7, 12, 20])
def test_other_numbers_of_heads_get_the_next_powers_slopes_and_every_other_one_of_the_larger(n_heads: int) -> None:
    below = max(n for n in (1, 2, 4, 8, 16) if n <= n_heads)
    larger = alibi_slopes(2 * below)
    assert alibi_slopes(n_heads) == [*alibi_slopes(below), *larger[::2][: n_heads - below]]
    assert len(set(alibi_slopes(n_heads))) == n_heads


@pytest.mark.parametrize("length", [1, 2, 5])
def test_numbers_by_distance_and_by_key_name_the_same_pairs(length: int) -> None:
    rows = torch.arange(1.0, length * 2 * length + 1).view(1, length, 2 * length)
    keyed = by_key(rows, length)
    for i in range(length):
        for j in range(length):
            assert keyed[0, i, j] == rows[0, i, j - i + length - 1]
    back = by_distance(keyed, 2 * length)
    assert torch.equal(by_key(back, length), keyed)
    assert back.count_nonzero() == length * length


def test_decoders_have_no_vectors_for_later_positions() -> None:
    cfg = ModelConfig(d_model=8, d_ff=8, n_heads=2, positions="relative", max_relative_distance=5)
    weights = Transformer(cfg, 9, 9).state_dict()
    for side, n_distances in (("encoder", 11), ("decoder", 6)):
        for name in ("keys", "values"):
            assert weights[f"{side}_layers.1.self_attention.relative.{name}"].shape == (n_distances, 4)


@pytest.mark.parametrize("name", ["keys", "values"])
def test_a_vector_has_its_distance_and_those_beyond_the_clip(name: str) -> None:
    attention, x = attention_of("relative", 2, causal=False).double(), 0.1 * torch.randn(1, LENGTH, WIDTH)
    before = attention(x.double(), None)
    with torch.no_grad():
        attention.get_parameter(f"relative.{name}")[0] += 1.0  # two tokens before the query, or more
    changed = (attention(x.double(), None) - before).abs().amax(-1)[0] > 1e-9
    assert changed.tolist() == [False, False, *[True] * (LENGTH - 2)]

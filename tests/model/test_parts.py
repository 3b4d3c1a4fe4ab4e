"""Masks, positions, dropout and attention, each against values worked out apart from the code."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from mtkit.model.cpu import fused
from mtkit.model.cpu.fused import has_numba
from mtkit.model.dropout import Dropout
from mtkit.model.masks import BLOCKED, causal_bias, padding_bias
from mtkit.model.ops import attend
from mtkit.model.positions import LearnedPositions, RotaryPositions, SinusoidalPositions, sinusoid_table


def test_masks_block_what_they_should() -> None:
    b = BLOCKED
    assert causal_bias(3)[0, 0].tolist() == [[0, b, b], [0, 0, b], [0, 0, 0]]
    pad_mask = torch.tensor([[False, False, True], [True, True, True]])
    assert padding_bias(pad_mask)[:, 0, 0].tolist() == [[0, 0, b], [b, b, b]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_blocked_means_exactly_no_weight_and_never_nan_in_every_precision(dtype: torch.dtype) -> None:
    scores = torch.tensor([[3.0, BLOCKED], [BLOCKED, BLOCKED]]).to(dtype)
    weights = scores.softmax(dim=-1)
    assert weights[0].tolist() == [1, 0]
    assert weights[1].tolist() == [0.5, 0.5]


def test_sinusoids_have_the_values_of_the_papers_formula() -> None:
    table = sinusoid_table(50, 6)
    for position, i in [(0, 0), (1, 0), (7, 1), (49, 2)]:
        angle = position / 10000 ** (2 * i / 6)
        assert table[position, i].item() == pytest.approx(math.sin(angle), abs=1e-6)
        assert table[position, 3 + i].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_marians_sinusoids_end_with_a_turn_of_a_ten_thousandth_a_position() -> None:
    table = SinusoidalPositions(6, "marian").table
    assert table[49, [0, 2]].tolist() == pytest.approx([math.sin(49), math.sin(49 / 10000)], abs=1e-6)
    assert table[49, [4, 5]].tolist() == pytest.approx([math.cos(49 / 100), math.cos(49 / 10000)], abs=1e-6)


def test_fairseqs_sinusoids_count_from_two() -> None:
    positions = SinusoidalPositions(6, "fairseq")
    grown = positions(torch.zeros(700, 6))
    for table in (positions.table, grown):
        assert table[47, [0, 2]].tolist() == pytest.approx([math.sin(49), math.sin(49 / 10000)], abs=1e-6)
        assert table[0, [0, 4]].tolist() == pytest.approx([math.sin(2), math.cos(2 / 100)], abs=1e-6)


def test_positions_grow_with_the_sentence_and_start_where_told() -> None:
    positions = SinusoidalPositions(6)
    long = positions(torch.zeros(1, 700, 6))
    torch.testing.assert_close(long[0], sinusoid_table(700, 6))
    torch.testing.assert_close(positions(torch.zeros(1, 1, 6), start=650)[0, 0], long[0, 650])


def test_learned_positions_say_where_they_end() -> None:
    positions = LearnedPositions(4, max_positions=3)
    with pytest.raises(ValueError, match=r"4.*max_positions=3"):
        positions(torch.zeros(1, 2, 4), start=2)


@given(shift=st.integers(0, 300), distance=st.integers(0, 40))
def test_rotary_products_depend_on_the_distance_alone(shift: int, distance: int) -> None:
    rotary = RotaryPositions(8)
    q, k = torch.randn(2, 1, 8, generator=torch.Generator().manual_seed(0))
    at_zero = rotary(q, distance) @ rotary(k, 0).T
    shifted = rotary(q, distance + shift) @ rotary(k, shift).T
    torch.testing.assert_close(shifted, at_zero, atol=1e-4, rtol=1e-4)
    if distance == 0:
        torch.testing.assert_close(at_zero, q @ k.T, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("numba", [True, False])
@pytest.mark.parametrize("p", [0.0005, 0.001, 0.01, 0.1, 0.3, 0.5])
def test_dropout_drops_its_share_and_keeps_the_mean(p: float, numba: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "has_numba", lambda: numba and has_numba())
    torch.manual_seed(0)
    y = Dropout(p)(torch.ones(1000, 1003))
    dropped = (y == 0).float()
    variance = p * (1 - p) + 1 / 1024  # 256 elements share a threshold: 256 x (at most 1/4) / 256^2 more for each
    assert dropped.mean(dtype=torch.float64).item() == pytest.approx(p, abs=4 * math.sqrt(variance / y.numel()))
    assert y.max().item() == pytest.approx(1 / (1 - p), rel=1e-6)
    columns = dropped.mean(dim=0)  # every byte of the random words is as random as the others
    assert (columns - p).abs().max().item() < 5.5 * math.sqrt(p * (1 - p) / 1000) + 1 / 1000


def test_dropout_follows_the_seed_and_does_nothing_in_evaluation() -> None:
    dropout, x = Dropout(0.3), torch.ones(100)
    torch.manual_seed(7)
    first = dropout(x)
    torch.manual_seed(7)
    assert torch.equal(dropout(x), first)
    assert dropout.eval()(x) is x


@pytest.mark.parametrize("n_keys", [5, 200])  # below and above the bound between the two kernels
def test_attention_equals_the_formula(n_keys: int) -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 3, 170, 4), torch.randn(2, 3, n_keys, 4), torch.randn(2, 3, n_keys, 4)
    pad_mask = torch.zeros(2, n_keys, dtype=torch.bool)
    pad_mask[1, 3:] = True
    mixed = attend(q, k, v, padding_bias(pad_mask))
    scores = torch.einsum("bhqd,bhld->bhql", q, k) / 2.0
    weights = F.softmax(scores.masked_fill(pad_mask[:, None, None], -math.inf), dim=-1)
    torch.testing.assert_close(mixed, torch.einsum("bhql,bhld->bhqd", weights, v), atol=1e-5, rtol=1e-5)

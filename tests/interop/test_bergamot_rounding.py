"""Rounding to 8 bits for the inputs of a sample."""

import itertools

import pytest
import torch

from mtkit.interop.bergamot.rounding import rounded


def inputs(n, size, seed=1):
    """Inputs of which some go together, as those of a layer do."""
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(n, 8, generator=draw) @ torch.randn(8, size, generator=draw)


def error(x, weight, other):
    return float((x @ (weight - other).T).square().sum().sqrt())


def nearest(weight):
    scale = 127 / weight.abs().max()
    return (weight * scale).round() / scale


def test_the_products_of_a_sample_change_less_than_with_the_nearest_steps():
    weight = torch.randn(20, 32, generator=torch.Generator().manual_seed(2))
    seen, unseen = inputs(200, 32), inputs(200, 32)[100:]
    whole = rounded(weight, seen.double().T @ seen.double())
    steps = whole * 127 / weight.abs().max()
    assert torch.allclose(steps, steps.round(), atol=1e-3) and steps.abs().max() == pytest.approx(127)
    for x in (seen, unseen):
        assert error(x, weight, whole) < error(x, weight, nearest(weight)) / 2


def test_small_changes_of_whole_weights_are_kept():
    """Tuning moves the weights of a model from a browser by less than half a step."""
    draw = torch.Generator().manual_seed(3)
    base = torch.randint(-120, 121, (20, 64), generator=draw).float() / 1270
    base[0, 0] = 0.1
    change = 1e-4 * torch.randn(20, 1, generator=draw) * torch.ones(64)
    change[0, 0] = 0
    x = inputs(300, 64).abs()
    assert torch.equal(nearest(base + change), nearest(base)), "rounding to the nearest step undoes the change"
    whole = rounded(base + change, x.double().T @ x.double())
    assert error(x, base + change, whole) < error(x, base + change, base) / 4


def test_whole_weights_stay():
    weight = torch.randint(-127, 128, (9, 16), generator=torch.Generator().manual_seed(4)).float() * 0.0125
    weight[3, 5] = 127 * 0.0125
    x = inputs(50, 16).double()
    assert torch.allclose(rounded(weight, x.T @ x), weight, atol=1e-6)


def test_it_is_nearly_the_best_rounding_of_a_row():
    weight = torch.tensor([[1.0, 0.3141, -0.2718, 0.1618]])
    x = inputs(40, 4, seed=5) + 1
    steps = (weight * 127)[0]
    choices = [[float(value.floor()), float(value.ceil())] for value in steps]
    best = min(error(x, weight, torch.tensor([whole]) / 127) for whole in itertools.product(*choices))
    assert best <= error(x, weight, rounded(weight, x.double().T @ x.double())) * 1.0001 <= 3 * best + 1e-3


def test_inputs_that_are_always_zero_do_no_harm():
    weight = torch.randn(5, 6, generator=torch.Generator().manual_seed(6))
    assert torch.allclose(rounded(weight, torch.zeros(6, 6, dtype=torch.float64)), nearest(weight), atol=1e-6)

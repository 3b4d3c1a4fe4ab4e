"""The recurrent unit of the decoder, against the formula written out in numpy, and in a model that learns."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import tiny_transformer
from torch import Tensor

from mtkit.model.ssru import SSRU
from mtkit.model.transformer import Transformer

BOS, EOS = 2, 3


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # tensors here are tiny: more threads would only wait for each other
    yield
    torch.set_num_threads(before)


@pytest.fixture
def unit() -> SSRU:
    torch.manual_seed(1)
    unit = SSRU(6)
    unit.reset_parameters()
    with torch.no_grad():
        unit.forget_bias.normal_()
    return unit


def formula(unit: SSRU, x: Tensor) -> Tensor:
    """Kim et al. 2019, section 3.1, position by position, in float64."""
    w, w_forget = (part.T for part in unit.in_proj.weight.detach().double().numpy().reshape(2, 6, 6))
    bias = unit.forget_bias.detach().double().numpy()
    inputs = x.detach().double().numpy()
    cell = np.zeros((x.size(0), 6))
    outputs = []
    for t in range(x.size(1)):
        forget = 1 / (1 + np.exp(-(inputs[:, t] @ w_forget + bias)))
        cell = forget * cell + (1 - forget) * (inputs[:, t] @ w)
        outputs.append(np.maximum(cell, 0))
    return torch.from_numpy(np.stack(outputs, axis=1)).float()


def test_all_positions_follow_the_formula(unit: SSRU) -> None:
    x = torch.randn(3, 7, 6)
    torch.testing.assert_close(unit(x), formula(unit, x))


def test_steps_follow_the_formula_when_hypotheses_change_places(unit: SSRU) -> None:
    x = torch.randn(3, 7, 6)  # three hypotheses of one sentence
    cache = unit.new_cache(1, 3, like=x)
    for t in range(4):
        output = unit.step(x[None, :, t], cache)
    torch.testing.assert_close(output[0], formula(unit, x)[:, 3])
    parents = torch.tensor([2, 0, 2])
    cache.reorder(parents[None])
    moved = torch.cat([x[parents, :4], torch.randn(3, 1, 6)], dim=1)
    torch.testing.assert_close(unit.step(moved[None, :, 4], cache)[0], formula(unit, moved)[:, 4])


def test_a_sentence_keeps_its_cells_when_others_leave(unit: SSRU) -> None:
    x = torch.randn(4, 2, 2, 6)  # positions, sentences, hypotheses
    whole, partly = unit.new_cache(2, 2, like=x), unit.new_cache(2, 2, like=x)
    for t in range(3):
        unit.step(x[t], whole)
        unit.step(x[t], partly)
    partly.select(torch.tensor([1]))
    torch.testing.assert_close(unit.step(x[3, 1:], partly), unit.step(x[3], whole)[1:])


def test_gradients_are_those_of_finite_differences(unit: SSRU) -> None:
    unit = unit.double()
    x = torch.randn(2, 5, 6, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(2, 5, 6, dtype=torch.float64)

    def loss() -> Tensor:
        return (unit(x) * weights).sum()

    loss().backward()
    for tensor in (x, unit.in_proj.weight, unit.forget_bias):
        assert tensor.grad is not None
        flat = tensor.data.view(-1)
        for place in range(0, flat.numel(), 7):
            before = flat[place].item()
            values = []
            for shift in (1e-3, -1e-3):  # the gates are float32 inside: no smaller steps
                flat[place] = before + shift
                values.append(loss().item())
            flat[place] = before
            assert tensor.grad.view(-1)[place].item() == pytest.approx((values[0] - values[1]) / 2e-3, abs=2e-3)


def small_model(**changes: Any) -> Transformer:
    shape: dict[str, Any] = {"d_model": 32, "d_ff": 64, "n_heads": 4, "n_decoder_layers": 2, "decoder": "ssru"}
    no_dropout = {"embedding_dropout": 0.0, "residual_dropout": 0.0}
    return tiny_transformer(20, seed=5, **{**shape, **no_dropout, **changes})


@pytest.mark.parametrize("positions", ["sinusoidal", "marian", "learned", "rotary"])
def test_step_by_step_decoding_equals_all_at_once(positions: str) -> None:
    model = small_model(positions=positions)
    src = torch.tensor([[5, 6, 7, 3], [8, 9, 3, 0]])
    tgt_in = torch.randint(4, 20, (2, 9))
    cache = model.start_decoding(src, 1)
    logits = [model.decode_step(tgt_in[:, t : t + 1], cache) for t in range(9)]
    torch.testing.assert_close(torch.cat(logits, dim=1), model(src, tgt_in), atol=1e-5, rtol=1e-5)


def test_later_tokens_change_nothing_before_them() -> None:
    model = small_model()
    src, tgt_in = torch.tensor([[5, 6, 3]]), torch.randint(4, 20, (1, 8))
    changed = tgt_in.clone()
    changed[:, 5:] = 4
    torch.testing.assert_close(model(src, tgt_in)[:, :5], model(src, changed)[:, :5], atol=0, rtol=0)


def test_new_weights_come_from_the_seed_and_nothing_else() -> None:
    first, second = small_model(), small_model()
    for weights in (second.decoder_layers[0].self_attention.parameters(), second.decoder_layers[1].parameters()):
        for weight in weights:
            torch.nn.init.constant_(weight, 7.0)
    torch.manual_seed(6)
    first.reset_parameters()
    torch.manual_seed(6)
    second.decoder_layers[1].load_state_dict(first.decoder_layers[1].state_dict())  # norms keep what they have
    second.reset_parameters()
    for name, weight in first.state_dict().items():
        assert torch.equal(weight, second.state_dict()[name]), name


def test_it_learns_to_reverse_digits() -> None:
    model = small_model(n_decoder_layers=1, d_model=48, d_ff=96).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    generator = torch.Generator().manual_seed(1)

    def batch(n: int) -> tuple[Tensor, Tensor, Tensor]:
        digits = torch.randint(4, 14, (n, 4), generator=generator)
        ends = torch.full((n, 1), EOS)
        starts = torch.full((n, 1), BOS)
        return (
            torch.cat([digits, ends], 1),
            torch.cat([starts, digits.flip(1)], 1),
            torch.cat([digits.flip(1), ends], 1),
        )

    for _ in range(200):
        src, tgt_in, tgt_out = batch(64)
        loss = torch.nn.functional.cross_entropy(model(src, tgt_in).flatten(0, 1), tgt_out.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    src, _, tgt_out = batch(100)
    cache = model.eval().start_decoding(src, 1)
    last, decoded = torch.full((100, 1), BOS), []
    for _ in range(5):
        last = model.decode_step(last, cache).argmax(-1)
        decoded.append(last)
    assert (torch.cat(decoded, 1) == tgt_out).all(dim=1).float().mean() > 0.9

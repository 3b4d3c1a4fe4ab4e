"""The linear layer of training computes what torch's does, forwards and backwards."""

import pytest
import torch
from torch import nn

import mtkit.model.linear
from mtkit.model.linear import Linear

SHAPES = [(7, 5, 24), (1, 1, 24), (300, 24), (24,)]


def outputs_and_gradients(layer, x):
    x = x.clone().requires_grad_()
    y = layer(x)
    y.backward(torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y))
    return [y, x.grad, *(parameter.grad for parameter in layer.parameters())]


def both(bias=True, dtype=torch.float32):
    ours, theirs = (layer(24, 40, bias=bias, dtype=dtype) for layer in (Linear, nn.Linear))
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_results_and_gradients_are_those_of_torch(shape, bias):
    ours, theirs = both(bias)
    x = torch.randn(shape)
    for one, other in zip(outputs_and_gradients(ours, x), outputs_and_gradients(theirs, x), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_an_input_and_a_gradient_that_are_not_contiguous_are_read_right():
    ours, theirs = both()
    x = torch.randn(24, 9, 5)
    found = []
    for layer in (ours, theirs):
        leaf = x.clone().requires_grad_()
        y = layer(leaf.permute(2, 1, 0)).transpose(0, 1).flip(0)
        (y**2).sum().backward()
        layer(leaf.permute(2, 1, 0)).sum().backward()  # whose gradient is one number, seen everywhere
        found.append((y, leaf.grad, layer.weight.grad))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-4)


def test_the_result_can_be_changed_in_place():
    ours, theirs = both()
    x = torch.randn(5, 3, 24)
    torch.testing.assert_close(ours(x).relu_(), theirs(x).relu_())


def test_compiled_layers_are_torchs_own(monkeypatch):
    ours, theirs = both()
    monkeypatch.setattr(mtkit.model.linear, "onednn_product", None)  # nothing that could be called
    ours.compile(backend="aot_eager", dynamic=True)
    x = torch.randn(3, 24)
    for one, other in zip(outputs_and_gradients(ours, x), outputs_and_gradients(theirs, x), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_float32_on_a_cpu_takes_the_faster_products(monkeypatch):
    calls = []
    onednns = mtkit.model.linear.onednn_product
    monkeypatch.setattr(mtkit.model.linear, "onednn_product", lambda *given: calls.append(1) or onednns(*given))
    ours, _ = both()
    outputs_and_gradients(ours, torch.randn(3, 24))
    assert len(calls) == (2 if torch.backends.mkldnn.is_available() else 0)
    with torch.no_grad():
        ours(torch.randn(3, 24))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ours(torch.randn(3, 24)).dtype == torch.bfloat16
    in_double, _ = both(dtype=torch.float64)
    outputs_and_gradients(in_double, torch.randn(3, 24, dtype=torch.float64))
    assert len(calls) == (2 if torch.backends.mkldnn.is_available() else 0), "not for others"


def test_frozen_weights_get_no_gradient():
    ours, _ = both()
    ours.weight.requires_grad_(False)
    x = torch.randn(3, 24, requires_grad=True)
    ours(x).sum().backward()
    assert ours.weight.grad is None
    assert ours.bias.grad.tolist() == [3.0] * 40
    torch.testing.assert_close(x.grad, ours.weight.sum(dim=0).expand(3, -1))


def test_a_batch_of_nothing_gives_nothing():
    ours, _ = both()
    assert ours(torch.empty(0, 24)).shape == (0, 40)

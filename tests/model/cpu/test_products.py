"""The products of training compute what torch's linear layer does, forwards and backwards."""

import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from mtkit.model.cpu import fused, products
from mtkit.model.cpu.products import onednn_multiplies, round_up_size
from mtkit.model.linear import Linear

SHAPES = [(7, 5, 24), (1, 1, 24), (300, 24), (24,)]


def outputs_and_gradients(layer, x):
    x = x.clone().requires_grad_()
    y = layer(x)
    y.backward(torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y))
    return [y, x.grad, *(parameter.grad for parameter in layer.parameters())]


@pytest.fixture(autouse=True, params=[False, True], ids=["oneDNN", "MKL"])
def is_mkl_faster(request, monkeypatch):
    """Each test on a processor for which oneDNN multiplies in float32, and on one for which it does not."""
    monkeypatch.setattr(products, "mkl_is_faster", lambda: request.param)
    return request.param


@pytest.mark.parametrize(
    ("is_intel", "capability", "expected"),
    [(True, "AVX512", True), (False, "AVX512", False), (False, "AVX2", True), (False, "DEFAULT", False)],
)
def test_mkl_multiplies_where_it_uses_all_instructions(is_intel, capability, expected, monkeypatch):
    monkeypatch.undo()  # what the fixture does
    monkeypatch.setattr(products, "made_by_intel", lambda: is_intel)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert products.mkl_is_faster.__wrapped__() is expected


def both(bias=True, dtype=torch.float32, n_out=40):
    ours, theirs = (layer(24, n_out, bias=bias, dtype=dtype) for layer in (Linear, nn.Linear))
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n_out", [7, 40, 100])
def test_results_and_gradients_are_those_of_torch(shape, bias, n_out):
    ours, theirs = both(bias, n_out=n_out)
    x = torch.randn(shape)
    for one, other in zip(outputs_and_gradients(ours, x), outputs_and_gradients(theirs, x), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_an_input_and_a_gradient_that_are_not_contiguous_are_read_right():
    ours, theirs = both()
    x = torch.randn(24, 9, 5)
    results = []
    for layer in (ours, theirs):
        leaf = x.clone().requires_grad_()
        y = layer(leaf.permute(2, 1, 0)).transpose(0, 1).flip(0)
        (y**2).sum().backward()
        layer(leaf.permute(2, 1, 0)).sum().backward()  # whose gradient is one number, seen everywhere
        results.append((y, leaf.grad, layer.weight.grad))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-4)


def test_the_result_can_be_changed_in_place():
    ours, theirs = both()
    x = torch.randn(5, 3, 24)
    torch.testing.assert_close(ours(x).relu_(), theirs(x).relu_())


def test_compiled_layers_use_torchs_products(monkeypatch):
    ours, theirs = both()
    monkeypatch.setattr(products, "onednn_product", None)  # nothing that could be called
    ours.compile(backend="aot_eager", dynamic=True)
    x = torch.randn(3, 24)
    for one, other in zip(outputs_and_gradients(ours, x), outputs_and_gradients(theirs, x), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_autocast_gives_what_torchs_layer_gives_in_bf16():
    ours, theirs = both()
    x = torch.randn(100, 24)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        results = [outputs_and_gradients(layer, x) for layer in (ours, theirs)]
    for one, other in zip(*results, strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("n", [1, 63, 64, 100])
def test_relu_in_the_same_pass_is_relu_afterwards(n, dtype, monkeypatch):
    if dtype == torch.bfloat16:  # numba's kernel rounds after relu, so that a sum near 0 may have another sign
        monkeypatch.setattr(fused, "has_numba", lambda: False)
    ours, theirs = both()
    x = torch.randn(n, 24)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        together = outputs_and_gradients(RectifiedBy(ours), x)
        apart = outputs_and_gradients(nn.Sequential(theirs, nn.ReLU()), x)
        with torch.no_grad():
            torch.testing.assert_close(ours(x, relu=True), apart[0])
    for one, other in zip(together, apart, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5 if dtype == torch.float32 else 1e-2, atol=1e-2)


class RectifiedBy(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x, relu=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_products_by_onednn_have_few_sizes(dtype, is_mkl_faster, monkeypatch):
    sizes = []
    onednns = products.onednn_product
    monkeypatch.setattr(products, "onednn_product", lambda x, *rest: sizes.append(len(x)) or onednns(x, *rest))
    ours, _ = both()
    for n in range(1000, 1101):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            outputs_and_gradients(ours, torch.randn(n, 24))
    is_used = onednn_multiplies(dtype) and not (is_mkl_faster and dtype == torch.float32)
    assert set(sizes) == ({1008, 1024, 1056, 1088, 1120} if is_used else set())


@given(st.integers(1, 10**9))
def test_a_size_is_rounded_up_by_little_and_never_down(n):
    assert n <= round_up_size(n) <= n * 33 / 32
    assert round_up_size(round_up_size(n)) == round_up_size(n)


def test_torch_multiplies_without_gradients_and_in_other_precisions(monkeypatch):
    monkeypatch.setattr(products, "onednn_product", None)  # nothing that could be called
    ours, _ = both()
    with torch.no_grad():
        ours(torch.randn(3, 24))
    in_double, theirs = both(dtype=torch.float64)
    x = torch.randn(3, 24, dtype=torch.float64)
    for one, other in zip(outputs_and_gradients(in_double, x), outputs_and_gradients(theirs, x), strict=True):
        torch.testing.assert_close(one, other)


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


@pytest.mark.parametrize("is_mkl_faster", [True], ids=["MKL"], indirect=True)  # of no effect in the other process
def test_without_bf16_in_the_processor_torch_multiplies():
    program = """
import torch
from mtkit.model.cpu.products import onednn_multiplies
from mtkit.model.linear import Linear
from mtkit.training.update.loss import smoothed_cross_entropy_sum
assert not onednn_multiplies(torch.bfloat16)
layer = Linear(24, 40)
with torch.autocast("cpu", dtype=torch.bfloat16):
    hidden = layer(torch.randn(5, 24), relu=True)
    loss, _ = smoothed_cross_entropy_sum(
        hidden[None], torch.randn(9, 40, requires_grad=True), torch.zeros(9), torch.arange(5), 0.1
    )
loss.backward()
print(tuple(layer.weight.grad.shape))
"""
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "(40, 24)\n"

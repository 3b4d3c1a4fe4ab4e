"""The product with ReLU in its kernel equals torch's operations, with the gradients."""

import pytest
import torch
import torch.nn.functional as F

from mtkit.model import ops
from mtkit.model.gpu import products

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


def arguments(device: str) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape, device=device, requires_grad=True) for shape in ((3, 5, 16), (24, 16), (24,))]


def with_gradients(result: torch.Tensor, leaves: list[torch.Tensor]) -> list[torch.Tensor]:
    weights = torch.linspace(-1, 1, result.numel(), device=result.device).view(result.shape)
    return [result.detach().float(), *torch.autograd.grad((result * weights).sum(), leaves)]


def formula(leaves: list[torch.Tensor]) -> list[torch.Tensor]:
    return with_gradients(F.relu(F.linear(*leaves)), leaves)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
def test_it_is_a_linear_layer_with_relu(device):
    leaves = arguments(device)
    torch.testing.assert_close(with_gradients(products.relu_linear(*leaves), leaves), formula(leaves))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own
def test_torch_compiles_it_for_all_lengths_at_once():
    torch._dynamo.reset()
    compiled = torch.compile(products.relu_linear, backend="aot_eager", dynamic=True, fullgraph=True)
    x, weight, bias = arguments("cpu")
    for length in (2, 4):
        leaves = [x[:, :length].detach().requires_grad_(), weight, bias]
        torch.testing.assert_close(with_gradients(compiled(*leaves), leaves), formula(leaves))


@needs_gpu
def test_a_gpu_takes_it_in_bfloat16():
    leaves = arguments("cuda")
    with torch.autocast("cuda", torch.bfloat16):
        x, weight, bias = leaves
        assert products.has_relu_linear(x)
        have = with_gradients(ops.relu_linear(x, weight, bias, 0.0, True), leaves)
    torch.testing.assert_close(have, formula(leaves), rtol=0.05, atol=0.1)

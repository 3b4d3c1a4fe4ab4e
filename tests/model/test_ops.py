"""The plain formulas of the operations agree with their faster overrides, which have the same arguments."""

import inspect

import pytest
import torch
from torch import Tensor

from mtkit.model import ops
from mtkit.model.cpu import overrides
from mtkit.model.masks import causal_bias, padding_bias

OVERRIDES = {
    name: function
    for name, function in inspect.getmembers(overrides, inspect.isfunction)
    if function.__module__ == overrides.__name__ and not name.startswith("_")
}


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


def cases() -> dict[str, tuple[object, ...]]:
    torch.manual_seed(0)
    pad_mask = torch.tensor([[False, False, True, True, True], [False] * 5])
    return {
        "linear": (leaf(2, 5, 8), leaf(12, 8), leaf(12)),
        "relu_linear": (leaf(2, 5, 8), leaf(12, 8), leaf(12), 0.0, True),
        "attend": (leaf(2, 3, 4, 8), leaf(2, 3, 5, 8), leaf(2, 3, 5, 8), padding_bias(pad_mask)),
        "attend_relative": (
            *(leaf(2, 3, 5, 8) for _ in range(3)),
            *(leaf(10, 8) for _ in range(2)),
            padding_bias(pad_mask),
        ),
        "product_gradients": (torch.randn(7, 12), torch.randn(7, 8), torch.randn(12, 8)),
    }


@pytest.mark.parametrize("name", cases())
def test_an_override_computes_what_the_formula_says(name: str) -> None:
    chosen, plain = getattr(ops, name), getattr(ops, name).__wrapped__
    arguments = cases()[name]
    results = []
    for function in (chosen, plain):
        y = function(*arguments)
        if isinstance(y, tuple):
            results.append(y)
            continue
        leaves = [x for x in arguments if isinstance(x, Tensor) and x.requires_grad]
        weights = torch.linspace(-1, 1, y.numel()).view_as(y)
        results.append((y, *torch.autograd.grad((y * weights).sum(), leaves)))
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("length", [6, 80])  # a GPU uses the flash kernel for long sentences only
def test_a_causal_bias_is_what_torchs_flash_kernel_assumes(length: int) -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 3, length, 8)
    plain, with_bias = (
        ops.attend.__wrapped__(q, k, v, bias, causal=True)  # type: ignore[attr-defined]
        for bias in (None, causal_bias(length))
    )
    torch.testing.assert_close(with_bias, plain)
    torch.testing.assert_close(ops.attend(q, k, v, causal_bias(length), causal=True), plain)


@pytest.mark.parametrize("n_passes", [1, 2])
def test_both_cross_entropies_give_the_same_loss_and_gradients(n_passes: int) -> None:
    torch.manual_seed(0)
    arguments = torch.randn(n_passes, 9, 8), torch.randn(50, 8), torch.randn(50), torch.randint(50, (6,))
    fast, plain = (
        function(*arguments, 0.1, 3.0, True)
        for function in (ops.cross_entropy, ops.cross_entropy.__wrapped__)  # type: ignore[attr-defined]
    )
    torch.testing.assert_close([float(x) for x in fast[:2]], [float(x) for x in plain[:2]], rtol=1e-5, atol=0)
    torch.testing.assert_close(torch.stack(list(fast[2])), torch.stack(list(plain[2])), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(fast[3], plain[3], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("has_gaps", [False, True])
def test_both_steps_without_a_schedule_give_the_same_weights(has_gaps: bool) -> None:
    torch.manual_seed(0)
    shapes = [(300, 512), (7,), (3, 5)]  # the first is cut into strips
    numbers = 0.01, 0.9, 0.98, 0.3, 1e-8, 0.1, 0.25
    results: list[list[list[Tensor]]] = []
    weights = [[torch.randn(shape).abs() for shape in shapes] for _ in range(4)]  # y, z, squares, gradients
    for function in (ops.schedule_free_step, ops.schedule_free_step.__wrapped__):  # type: ignore[attr-defined]
        arguments = [[torch.stack([x, x], -1)[..., 0] if has_gaps else x.clone() for x in own] for own in weights]
        y, z, squares, gradients = arguments
        assert function(y, z, squares, gradients, numbers)
        results.append(arguments)
    torch.testing.assert_close(*results, rtol=1e-6, atol=1e-6)
    for now, before in zip(results[0][:3], weights[:3], strict=True):
        assert not any(map(torch.equal, now, before))


@pytest.mark.parametrize("name", OVERRIDES)
def test_an_override_has_the_arguments_of_its_operation(name: str) -> None:
    operation = getattr(ops, name)
    ours, theirs = (
        [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]
        for function in (operation.__wrapped__, OVERRIDES[name])
    )
    assert ours == theirs

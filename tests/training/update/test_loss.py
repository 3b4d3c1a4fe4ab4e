"""The chunked loss against torch's cross-entropy."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from mtkit.model import ops
from mtkit.model.cpu import fused, products
from mtkit.training.update.loss import smoothed_cross_entropy_sum


@pytest.fixture(autouse=True, params=[True, False], ids=["numba", "torch"])
def _in_one_pass_or_not(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        pytest.importorskip("numba")
    monkeypatch.setattr(fused, "has_numba", lambda: request.param)


@pytest.fixture(autouse=True, params=[True, False], ids=["MKL", "oneDNN"])
def _library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Multiply in float32 by MKL and by oneDNN."""
    monkeypatch.setattr(products, "mkl_is_faster", lambda: request.param)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("n_rows", [1, 1024, 2500])
def test_loss_and_gradients_equal_torchs(n_rows: int, label_smoothing: float) -> None:
    torch.manual_seed(0)
    hidden, weight, bias = torch.randn(n_rows, 8), torch.randn(31, 8), torch.randn(31)
    targets = torch.randint(31, (n_rows,))
    ours = [x.clone().requires_grad_() for x in (hidden, weight, bias)]
    theirs = [x.clone().requires_grad_() for x in (hidden, weight, bias)]
    loss, nll = smoothed_cross_entropy_sum(ours[0][None], ours[1], ours[2], targets, label_smoothing)
    logits = theirs[0] @ theirs[1].T + theirs[2]
    expected = F.cross_entropy(logits, targets, label_smoothing=label_smoothing, reduction="sum")
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll, F.cross_entropy(logits, targets, reduction="sum"))
    (loss / 7).backward()
    (expected / 7).backward()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad, other.grad, atol=2e-4, rtol=1e-4)


def test_under_autocast_the_loss_is_near_and_the_gradients_are_float32() -> None:
    torch.manual_seed(0)
    hidden, weight, bias = (torch.randn(*shape, requires_grad=True) for shape in [(64, 16), (31, 16), (31,)])
    targets = torch.randint(31, (64,))
    exact, _ = smoothed_cross_entropy_sum(hidden[None], weight, bias, targets, 0.1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, _ = smoothed_cross_entropy_sum(hidden[None], weight, bias, targets, 0.1)
    torch.testing.assert_close(loss, exact, rtol=2e-2, atol=0.0)
    assert loss.item() != exact.item()
    loss.backward()
    assert weight.grad is not None and weight.grad.dtype == torch.float32


class _Products(TorchDispatchMode):
    """Counts the products of matrices, whoever makes them."""

    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        self.n += name in ("mm", "addmm", "_linear_pointwise")
        return func(*args, **(kwargs or {}))


def test_without_gradients_no_product_is_made_for_them() -> None:
    torch.manual_seed(0)
    hidden, weight, bias = (torch.randn(*shape, requires_grad=True) for shape in [(3, 4), (5, 4), (5,)])
    targets = torch.tensor([1, 2, 3])
    with _Products() as with_gradients:
        loss, nll = smoothed_cross_entropy_sum(hidden[None], weight, bias, targets, 0.1)
    with _Products() as without, torch.no_grad():
        same_loss, same_nll = smoothed_cross_entropy_sum(hidden[None], weight, bias, targets, 0.1)
    assert (with_gradients.n, without.n) == (3, 1)
    torch.testing.assert_close((same_loss, same_nll), (loss, nll))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_last_chunk_has_one_of_few_sizes_where_onednn_multiplies(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: set[int] = set()
    product_gradients = ops.product_gradients

    def counted(grad: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        sizes.update((len(grad), len(x)))
        return product_gradients(grad, x, weight)

    monkeypatch.setattr(ops, "product_gradients", counted)
    weight, bias = torch.randn(31, 8, requires_grad=True), torch.randn(31, requires_grad=True)
    lengths = range(500, 1100, 9)
    for n in lengths:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            smoothed_cross_entropy_sum(torch.randn(1, n, 8), weight, bias, torch.zeros(n, dtype=torch.long), 0.1)
    assert len(sizes) <= (8 if products.by_onednn(weight.to(dtype)) else len(lengths) + 1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, as it compiles
@pytest.mark.parametrize(
    ("r_drop", "compiled"), [(0.0, False), (5.0, False), pytest.param(5.0, True, marks=pytest.mark.slow)]
)
def test_two_passes_are_averaged_and_drawn_together_as_torchs_divergence_says(r_drop: float, compiled: bool) -> None:
    torch.manual_seed(0)
    tensors = [torch.randn(*shape) for shape in [(2, 700, 8), (31, 8), (31,)]]
    targets = torch.randint(31, (700,))
    ours, theirs = ([x.clone().requires_grad_() for x in tensors] for _ in range(2))
    loss, nll = smoothed_cross_entropy_sum(ours[0], ours[1], ours[2], targets, 0.1, r_drop, compiled=compiled)
    hidden, weight, bias = theirs
    p, q = ((x @ weight.T + bias).log_softmax(dim=1) for x in hidden)
    apart = F.kl_div(p, q, log_target=True, reduction="sum") + F.kl_div(q, p, log_target=True, reduction="sum")
    each = [F.cross_entropy(logits, targets, label_smoothing=0.1, reduction="sum") for logits in (p, q)]
    expected = sum(each) / 2 + r_drop / 4 * apart
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(
        nll, (F.nll_loss(p, targets, reduction="sum") + F.nll_loss(q, targets, reduction="sum")) / 2
    )
    (loss / 7).backward()
    (expected / 7).backward()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad, other.grad, atol=1e-3, rtol=1e-4)

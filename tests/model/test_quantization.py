"""Fast linear layers: as exact as their precision allows, each row by itself, and in place of every linear layer."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tiny_models import tiny_transformer
from torch import Tensor, nn

from mtkit.config.decoding import DecodeConfig
from mtkit.engines.labels import LabelEngine
from mtkit.model import ops
from mtkit.model.cpu import packed
from mtkit.model.cpu.packed import Int8Linear, PackedLinear
from mtkit.model.quantization import quantize, supported_precision
from mtkit.model.transformer import Transformer

ACCELERATED = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")


def linear_layer(n_in: int, n_out: int, *, bias: bool = True) -> nn.Linear:
    torch.manual_seed(3)
    layer = nn.Linear(n_in, n_out, bias=bias)
    with torch.no_grad():
        layer.weight *= torch.rand(n_out, 1) * 10  # outputs of very different size
    return layer


def rows_of(n_rows: int, n_in: int) -> Tensor:
    generator = torch.Generator().manual_seed(n_rows)
    return torch.randn(n_rows, n_in, generator=generator) * torch.rand(n_rows, 1, generator=generator) * 5


@pytest.fixture(params=[torch.int8, torch.float32])
def integers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The type that holds 8-bit integers, as on processors with and without instructions for them."""
    can_multiply = packed.can_multiply
    has = request.param == torch.int8
    monkeypatch.setattr(packed, "can_multiply", lambda name: has if name == "int8" else can_multiply(name))


held_either_way = pytest.mark.usefixtures("integers")


@held_either_way
@pytest.mark.parametrize("bias", [True, False])
def test_int8_is_within_the_bound_of_its_rounding(bias: bool) -> None:
    layer, x = linear_layer(64, 48, bias=bias), rows_of(20, 64)
    # With x = a (i + e), w = b (j + f), |e|, |f| <= 1/2, |i|, |j| <= 127, the product of one pair is off by
    # a b |i f + j e + e f|: summed over n_in, at most n_in a b (127/2 + 127/2 + 1/4).
    a, b = x.abs().amax(1, keepdim=True) / 127, layer.weight.abs().amax(1) / 127
    bound = 64 * a * b * (127 + 0.25)
    error = (Int8Linear(layer)(x) - layer(x)).abs()
    assert (error <= bound).all()
    assert error.mean() < 0.02 * layer(x).std()  # errors of random sign cancel: far below the bound


@held_either_way
def test_int8_is_exact_where_nothing_is_rounded() -> None:
    layer = linear_layer(16, 8)
    with torch.no_grad():
        layer.weight.copy_(torch.randint(-127, 128, (8, 16)).float())
        layer.weight[:, 0] = 127.0  # so the scale is 1
    x = torch.randint(-127, 128, (5, 16)).float()
    x[:, 1] = -127.0
    expected = x.double() @ layer.weight.detach().double().T + layer.bias.detach().double()
    torch.testing.assert_close(Int8Linear(layer)(x), expected.float(), rtol=1e-6, atol=1e-3)


@held_either_way
def test_int8_of_zeros_is_the_bias() -> None:
    layer = linear_layer(16, 8)
    assert torch.equal(Int8Linear(layer)(torch.zeros(3, 16)), layer.bias.detach().expand(3, 8))


@held_either_way
@pytest.mark.parametrize("n_rows", [1, 2, 7, 255, 300])
def test_an_int8_row_does_not_depend_on_the_rows_beside_it(n_rows: int) -> None:
    fast, x = Int8Linear(linear_layer(64, 48)), rows_of(300, 64)
    assert torch.equal(fast(x[:n_rows]), fast(x)[:n_rows])


@ACCELERATED
@pytest.mark.parametrize("n_rows", [1, 7, 8, 33])
def test_packing_changes_no_result(n_rows: int) -> None:
    layer, x = linear_layer(64, 48), rows_of(n_rows, 64)
    packed = PackedLinear(layer, torch.float32)
    torch.testing.assert_close(packed(x), layer(x), rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(packed(x, relu=True), F.relu(layer(x)), rtol=1e-5, atol=1e-4)


def small_model(**choices: Any) -> Transformer:
    shape: dict[str, Any] = {"d_model": 32, "d_ff": 48, "n_encoder_layers": 2, "n_decoder_layers": 3}
    return tiny_transformer(20, **{**shape, **choices})


@ACCELERATED
@pytest.mark.parametrize("choices", [{}, {"activation": "swiglu", "positions": "rotary"}, {"decoder": "ssru"}])
@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-5), ("bf16", 0.04), ("int8", 0.04)])
@torch.no_grad()
def test_a_quantized_model_computes_nearly_what_the_model_does(
    precision: str, tolerance: float, choices: dict[str, object]
) -> None:
    if precision == "bf16" and not packed.can_multiply("bf16"):
        pytest.skip("this processor lacks the instructions")
    model = small_model(**choices)
    fast = quantize(model, precision)
    src, tgt = torch.randint(4, 20, (3, 9)), torch.randint(4, 20, (3, 12))
    expected, logits = model(src, tgt), fast(src, tgt)
    assert (logits - expected).abs().max() < tolerance * expected.std() * 3
    assert (precision == "fp32") or not torch.equal(logits, expected)
    cache = fast.start_decoding(src, 1)
    steps = torch.cat([fast.decode_step(column[:, None], cache) for column in tgt.T], dim=1)
    torch.testing.assert_close(steps, logits, rtol=0, atol=float(tolerance * expected.std() * 3))


@ACCELERATED
def test_quantizing_replaces_every_linear_layer_and_leaves_the_model_as_it_was() -> None:
    model = small_model(tie="all")
    n_layers = sum(isinstance(module, nn.Linear) for module in model.modules())
    before = {name: value.clone() for name, value in model.state_dict().items()}
    fast = quantize(model, "fp32")
    assert not any(isinstance(module, nn.Linear) for module in fast.modules())
    assert sum(isinstance(module, PackedLinear) for module in fast.modules()) == n_layers
    assert sum(isinstance(module, nn.Linear) for module in model.modules()) == n_layers
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert fast.tgt_embedding.weight is model.tgt_embedding.weight
    fast.train()
    assert not model.training


@pytest.mark.parametrize(
    ("capabilities", "asked", "given"),
    [
        ({"avx512_vnni": True}, "int8", "int8"),
        ({"avx512_vnni": False, "avx512_bf16": True}, "int8", "bf16"),
        ({"avx2": True}, "int8", "fp32"),
        ({}, "bf16", "fp32"),
        ({"amx_bf16": True}, "bf16", "bf16"),
        ({"avx512_vnni": True, "avx512_bf16": True}, "fp32", "fp32"),
    ],
)
def test_a_processor_without_the_instructions_gets_the_next_more_exact_precision(
    capabilities: dict[str, bool], asked: Any, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    monkeypatch.setattr(packed, "onednn_multiplies", lambda dtype: True)
    assert supported_precision(asked, torch.device("cpu")) == given
    made = []
    monkeypatch.setattr(ops, "inference_linear", lambda layer, precision: made.append(precision) or layer)
    assert LabelEngine(small_model(), DecodeConfig(precision=asked)).precision == given
    assert set(made) == {given}

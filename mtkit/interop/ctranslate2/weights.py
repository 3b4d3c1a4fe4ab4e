"""Turn the variables of a CTranslate2 Transformer into the shape and the weights of a model of mtkit."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mtkit.config.model import ModelConfig
from mtkit.errors import DataError
from mtkit.interop.ctranslate2.binary import Array, Variables
from mtkit.interop.imported import checked
from mtkit.model.positions import LinearBiases, SinusoidalPositions, SinusoidKind, sinusoid_table
from mtkit.model.transformer import Transformer

_ACTIVATIONS = {0: "relu", 2: "silu", 3: "gelu"}
_OTHERS = {1: "gelu with tanh", 4: "gelu with sigmoid", 5: "tanh", 6: "sigmoid"}
_SIDES = {"src": "encoder", "tgt": "decoder"}
_DEFAULTS = {"num_heads": 8.0, "pre_norm": 1.0, "activation": 0.0}  # CTranslate2's
_ALIKE = 1e-3  # the rounding of a table of sinusoids in 16 bits
_N_DEFAULT_POSITIONS = 2048  # of a model without a table
# Settings without effect on the result, or that `_positions` has checked.
_WITHOUT_EFFECT = {
    *("alignment_layer", "alignment_heads", "embeddings_merge", "relative_attention_max_distance"),
    *("alibi", "with_relative_position", "rotary_dim", "rotary_interleave", "rotary_base", "start_from_zero_embedding"),
}


class _Left:
    """The variables that no part of the model has taken yet."""

    def __init__(self, variables: Variables) -> None:
        self.path: Path = variables.path
        self.arrays: dict[str, Array] = dict(variables.arrays)
        self.numbers: dict[str, float] = dict(variables.numbers)
        self.flags = variables.flags
        self.n_rows: dict[str, int] = {}  # of the arrays taken

    def array(self, *names: str) -> Array:
        """Take the first of these arrays that exists. Raises DataError if none does."""
        for name in names:
            if name in self.arrays:
                array = self.arrays.pop(name)
                self.n_rows[name] = len(array)
                return array
        raise DataError(f"{self.path}: {names[0]} is missing")

    def setting(self, key: str) -> float:
        """Take a setting that encoder and decoder must share. Older files have it once, for both, or not at all."""
        common = self.numbers.pop(key, _DEFAULTS[key])
        src, tgt = (self.numbers.pop(f"{side}/{key}", common) for side in _SIDES.values())
        if src != tgt:
            raise self.unsupported(f"decoder/{key}={tgt:g}", f"only the encoder's value, {src:g}")
        return src

    def unsupported(self, what: str, only: str) -> DataError:
        """Return the error for what mtkit cannot compute."""
        return DataError(f"{self.path}: {what} is not supported; {only}")


def to_model(variables: Variables, *, src_end: bool, end_first: bool = False) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Return the model section and the weights, the vocabularies in CTranslate2's order.

    src_end: whether sources end with the end-of-sentence token. end_first: whether the decoder reads it before the
    token of the target language. Raises DataError, naming the variable, if mtkit cannot compute the model, or if a
    variable is missing or has another shape.
    """
    left = _Left(variables)
    ends = _ends(left)
    positions, tables = _positions(left, ends["src_embedding.weight"].shape[1])
    settings = {**_shape(left, ends), **positions, "src_end": src_end, "end_first": end_first, "tie": _tie(ends)}
    cfg = checked(ModelConfig, settings, left.path)
    state = {**ends, **tables}
    for ours, theirs in _entries(cfg):
        state[ours] = _joined(left, cfg, theirs)
    _refuse_unknown(left)
    tensors = {name: torch.from_numpy(array.copy()) for name, array in state.items()}  # aliases share memory
    n_src, n_tgt = (len(tensors[f"{side}_embedding.weight"]) for side in _SIDES)
    with torch.device("meta"):
        expected = Transformer(cfg, n_src, n_tgt).state_dict()
    for name, tensor in expected.items():
        if tensors[name].shape != tensor.shape:
            actual, wanted = tuple(tensors[name].shape), tuple(tensor.shape)
            raise DataError(f"{left.path}: the weights of {name} are {actual}, but the others ask for {wanted}")
    return cfg, {name: tensors[name] for name in expected}


def _ends(left: _Left) -> dict[str, Array]:
    """Take embeddings and output; embeddings as mtkit has them, which multiplies them by the root of their width."""
    ends: dict[str, Array] = {}
    for ours, theirs in _SIDES.items():
        table = left.array(f"{theirs}/embeddings_0/weight", f"{theirs}/embeddings/weight")
        if table.ndim != 2:
            raise DataError(f"{left.path}: {theirs}/embeddings/weight has {table.ndim} dimensions instead of 2")
        root = math.sqrt(table.shape[1])
        if (factor := _embedding_factor(left, theirs, root)) != root:
            table = np.multiply(table, factor / root, dtype=np.float32)
        ends[f"{ours}_embedding.weight"] = table
    output = ends["output.weight"] = left.array("decoder/projection/weight")
    bias = left.arrays.pop("decoder/projection/bias", None)
    ends["output.bias"] = np.zeros(len(output), np.float32) if bias is None else bias
    return ends


def _embedding_factor(left: _Left, side: str, root: float) -> float:
    """Take the number that CTranslate2 multiplies embeddings by: given as such, or as a flag for the root."""
    names = [f"{side}/scale_embeddings", f"{side}/embeddings_0/multiply_by_sqrt_depth"]
    names.append(f"{side}/embeddings/multiply_by_sqrt_depth")
    given = {name: left.numbers.pop(name) for name in names if name in left.numbers}
    for name, value in given.items():
        return (root if value else 1.0) if name in left.flags else value
    return root


def _tie(ends: dict[str, Array]) -> str:
    src, tgt, output = (ends[f"{name}.weight"] for name in ("src_embedding", "tgt_embedding", "output"))
    if tgt is not output and not np.array_equal(tgt, output):
        return "none"
    return "all" if src is tgt or np.array_equal(src, tgt) else "decoder"


def _shape(left: _Left, ends: dict[str, Array]) -> dict[str, Any]:
    """Take the settings of the layers; return keys of the model section."""
    activation = int(left.setting("activation"))
    is_gated = "encoder/layer_0/ffn/linear_0_noact/weight" in left.arrays
    if activation not in _ACTIVATIONS or (is_gated and _ACTIVATIONS[activation] != "silu"):
        name = f"gated {_ACTIVATIONS[activation]}" if activation in _ACTIVATIONS else _OTHERS.get(activation, "unknown")
        raise left.unsupported(f"activation={activation} ({name})", "only relu, gelu and silu, and gated silu")
    pre = left.setting("pre_norm") != 0
    if pre != ("encoder/layer_norm/gamma" in left.arrays):
        raise left.unsupported(
            f"pre_norm={int(pre)} {'without' if pre else 'with'} a norm after the last layer", "only one of the two"
        )
    return {
        "d_model": ends["src_embedding.weight"].shape[1],
        "d_ff": len(left.arrays.get("encoder/layer_0/ffn/linear_0/weight", ())),
        "n_heads": int(left.setting("num_heads")),
        "n_encoder_layers": _n_layers(left, "encoder"),
        "n_decoder_layers": _n_layers(left, "decoder"),
        "activation": "swiglu" if is_gated else _ACTIVATIONS[activation],
        "norm": "layernorm" if "encoder/layer_0/ffn/layer_norm/beta" in left.arrays else "rmsnorm",
        "norm_position": "pre" if pre else "post",
    }


def _n_layers(left: _Left, side: str) -> int:
    n_layers = 0
    while f"{side}/layer_{n_layers}/ffn/linear_0/weight" in left.arrays:
        n_layers += 1
    return n_layers


def _positions(left: _Left, d_model: int) -> tuple[dict[str, Any], dict[str, Array]]:
    """Take what concerns positions; return keys of the model section, and weights."""
    first = "encoder/layer_0/self_attention"
    common = left.numbers.get("num_heads", _DEFAULTS["num_heads"])
    n_heads = int(left.numbers.get("encoder/num_heads", common)) or 1
    if f"{first}/relative_position_keys" in left.arrays:
        reach = (len(left.arrays[f"{first}/relative_position_keys"]) - 1) // 2
        return {"positions": "relative", "max_relative_distance": reach}, {}
    if f"{first}/rotary_dim" in left.numbers:
        width = left.numbers[f"{first}/rotary_dim"] or d_model // n_heads
        base = left.numbers.get(f"{first}/rotary_base", 10000)
        if left.numbers.get(f"{first}/rotary_interleave", 1) or base != 10000 or width != d_model // n_heads:
            only = "only those of all dimensions, in two halves, with the base 10000"
            raise left.unsupported(f"this kind of rotary positions ({first})", only)
        return {"positions": "rotary"}, {}
    if f"{first}/relative_attention_bias" in left.arrays:
        _take_linear_biases(left, n_heads)
        return {"positions": "alibi"}, {}
    tables = [left.arrays.pop(f"{side}/position_encodings/encodings", None) for side in _SIDES.values()]
    return _added_positions(tables, d_model)


def _added_positions(tables: list[Array | None], d_model: int) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the kind of sinusoids that both tables hold, or else the tables, as learned positions.

    Without a table, CTranslate2 adds Marian's sinusoids, but from position 1 on.
    """
    if all(table is not None for table in tables):
        kinds: tuple[SinusoidKind, ...] = ("sinusoidal", "marian", "fairseq")
        for kind in kinds:
            if all(_is_sinusoid(table, d_model, kind) for table in tables):
                return {"positions": kind}, {}
    default = sinusoid_table(_N_DEFAULT_POSITIONS + 1, d_model, marian=True)[1:].numpy()
    both = [default if table is None else table for table in tables]
    n_rows = min(map(len, both))
    names = [f"{side}_positions.table" for side in _SIDES]
    return {"positions": "learned", "max_positions": n_rows}, dict(
        zip(names, (table[:n_rows] for table in both), strict=True)
    )


def _is_sinusoid(table: Array | None, d_model: int, kind: SinusoidKind) -> bool:
    if table is None or table.ndim != 2 or table.shape[1] != d_model:
        return False
    expected = SinusoidalPositions(d_model, kind).table_of(*table.shape)
    return np.allclose(table, expected.numpy(), rtol=0, atol=_ALIKE)


def _take_linear_biases(left: _Left, n_heads: int) -> None:
    """Take biases by distance. Raises DataError if they are not those of mtkit's alibi positions."""
    own = left.numbers.get("decoder/alibi"), left.numbers.get("decoder/alibi_use_positive_positions", 0)
    for layer in range(_n_layers(left, "encoder")):
        table = left.array(f"encoder/layer_{layer}/self_attention/relative_attention_bias")
        near = len(table) // 4  # the others are farther away, or the same for later keys
        if own != (1, 0) or table.ndim != 2 or table.shape[1] != n_heads or not _is_linear(table[:near]):
            raise left.unsupported("relative_attention_bias", "only linear biases (alibi) in encoder and decoder")


def _is_linear(table: Array) -> bool:
    """Whether the biases (distances, H) are those of mtkit's alibi positions."""
    expected = LinearBiases(table.shape[1])(torch.arange(len(table))[None])[0, :, 0].T.numpy()
    return np.allclose(table, expected, rtol=1e-2)


def _entries(cfg: ModelConfig) -> Iterator[tuple[str, list[str]]]:
    """Yield mtkit's name of each weight but embeddings and output, and the variables that it joins."""
    for side, n_layers in (("encoder", cfg.n_encoder_layers), ("decoder", cfg.n_decoder_layers)):
        if cfg.norm_position == "pre":
            yield from _norm(cfg, f"{side}_norm", f"{side}/layer_norm")
        for layer in range(n_layers):
            ours, theirs = f"{side}_layers.{layer}", f"{side}/layer_{layer}"
            yield from _attention(cfg, f"{ours}.self_attention", f"{theirs}/self_attention", ("qkv_proj", "out_proj"))
            if cfg.positions == "relative":
                for part in ("keys", "values"):
                    name = f"{theirs}/self_attention/relative_position_{part}"
                    yield f"{ours}.self_attention.relative.{part}", [name]
            if side == "decoder":
                parts = ("q_proj", "kv_proj", "out_proj")
                yield from _attention(cfg, f"{ours}.cross_attention", f"{theirs}/attention", parts)
            gates = ["linear_0", "linear_0_noact"] if cfg.activation == "swiglu" else ["linear_0"]
            for part, linears in {"in_proj": gates, "out_proj": ["linear_1"]}.items():
                for kind in ("weight", "bias"):
                    yield f"{ours}.feed_forward.{part}.{kind}", [f"{theirs}/ffn/{name}/{kind}" for name in linears]
            yield from _norm(cfg, f"{ours}.feed_forward_residual.norm", f"{theirs}/ffn/layer_norm")


def _attention(cfg: ModelConfig, ours: str, theirs: str, parts: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    for number, part in enumerate(parts):
        for kind in ("weight", "bias"):
            yield f"{ours}.{part}.{kind}", [f"{theirs}/linear_{number}/{kind}"]
    yield from _norm(cfg, f"{ours}_residual.norm", f"{theirs}/layer_norm")


def _norm(cfg: ModelConfig, ours: str, theirs: str) -> Iterator[tuple[str, list[str]]]:
    yield f"{ours}.weight", [f"{theirs}/gamma"]
    if cfg.norm == "layernorm":
        yield f"{ours}.bias", [f"{theirs}/beta"]


def _joined(left: _Left, cfg: ModelConfig, theirs: list[str]) -> Array:
    """Take these variables and join them. A bias that is missing is 0."""
    parts = []
    for name in theirs:
        if name.endswith("/bias") and name not in left.arrays:
            parts.append(np.zeros(left.n_rows[name.removesuffix("bias") + "weight"], np.float32))
            continue
        array = left.array(name)
        if "/relative_position_" in name and name.startswith("decoder/"):
            array = array[: cfg.max_relative_distance + 1]  # a decoder looks at no later positions
        parts.append(array)
    if len({part.shape[1:] for part in parts}) > 1:
        raise DataError(f"{left.path}: {' and '.join(theirs)} have different widths: the file is damaged")
    return np.concatenate(parts)


def _refuse_unknown(left: _Left) -> None:
    settings = (name for name, value in left.numbers.items() if value)
    unknown = sorted([*left.arrays, *(name for name in settings if name.split("/")[-1] not in _WITHOUT_EFFECT)])
    if unknown:
        more = ", ..." if len(unknown) > 5 else ""
        raise DataError(f"{left.path}: mtkit has no counterpart of {', '.join(unknown[:5])}{more}")

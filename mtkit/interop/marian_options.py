"""Convert Marian's description of a model to the model section of a config, and back."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from mtkit.config.model import ModelConfig
from mtkit.config.reading.yaml_text import yaml_value
from mtkit.console import log
from mtkit.errors import DataError, MtkitError
from mtkit.interop.imported import checked
from mtkit.model.transformer import alignment_layer

DESCRIPTION = "special:model.yml"  # the name of the options among the parameters
_ACTIVATIONS = {"relu": "relu", "swish": "silu"}  # Marian's gelu is x sigmoid(1.702 x), not mtkit's

# Options that must have their default: key, default, further values with the same meaning to mtkit.
_FIXED: dict[str, tuple[Any, ...]] = {
    "type": ("transformer",),
    "transformer-no-projection": (False,),
    "transformer-rnn-projection": (False,),
    "transformer-pool": (False,),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-tied-layers": ([],),
    "transformer-train-position-embeddings": (False,),
    "transformer-train-positions": (False,),
    "transformer-disable-position-embeddings": (False,),
    "transformer-postprocess-emb": ("d", ""),
    "transformer-no-bias": (False,),
    "transformer-no-affine": (False,),
    "transformer-attention-mask": ("default",),
    "transformer-alibi-shift": (False,),
    "input-types": ([], ["sequence", "sequence"]),
    "factors-dim-emb": (0,),
    "lemma-dim-emb": (0,),
    "lemma-dependency": ("",),
    "output-omit-bias": (False,),
    "right-left": (False,),
    "ulr": (False,),
}


def read_description(text: bytes, path: Path) -> dict[str, Any]:
    """Parse the options in a model file; path appears in messages. Raises DataError if there are none."""
    try:
        options = yaml_value(text.rstrip(b"\0").decode("utf-8"))  # Marian pads it with NULs
    except ValueError as error:
        raise DataError(f"{path}: its {DESCRIPTION} cannot be read: {error}") from error
    if not isinstance(options, dict):
        raise DataError(f"{path}: its {DESCRIPTION} contains no options")
    return options


def as_description(options: Mapping[str, Any]) -> bytes:
    """Return the options as a model file contains them."""
    return yaml.safe_dump(dict(options), sort_keys=True).encode("utf-8") + b"\0"


def model_config(options: Mapping[str, Any], path: Path | str) -> ModelConfig:
    """Return the model section for Marian's options; path appears in messages.

    Raises MtkitError, naming key and value, for what mtkit does not support.
    """
    for key, known in _FIXED.items():
        if (value := options.get(key, known[0])) not in known:
            raise _unsupported(path, key, value, f"only {_listed(known)}")
    activation = options.get("transformer-ffn-activation", "swish")
    if activation not in [*_ACTIVATIONS]:  # a list, since it may be unhashable
        raise _unsupported(path, "transformer-ffn-activation", activation, f"only {_listed(tuple(_ACTIVATIONS))}")
    d_ff = _number(options, "transformer-dim-ffn", path)
    if options.get("transformer-decoder-dim-ffn", 0) not in (0, d_ff):
        value = options["transformer-decoder-dim-ffn"]
        raise _unsupported(path, "transformer-decoder-dim-ffn", value, f"only the encoder's value, {d_ff}")
    settings = {
        "d_model": _number(options, "dim-emb", path),
        "d_ff": d_ff,
        "n_heads": _number(options, "transformer-heads", path),
        "n_encoder_layers": _number(options, "enc-depth", path),
        "n_decoder_layers": _number(options, "dec-depth", path),
        "activation": _ACTIVATIONS[activation],
        "decoder": _decoder(options, path),
        "norm_position": _norm_position(options, path),
        "positions": "marian",
        "tie": _tie(options),
        # The options do not record dropout. Students, which most such files are, never had any, and lose by it.
        "embedding_dropout": 0.0,
        "residual_dropout": 0.0,
    }
    return checked(ModelConfig, settings, path)


def model_options(cfg: ModelConfig, vocab_sizes: tuple[int, int]) -> dict[str, Any]:
    """Return Marian's options for a model without `export_problems`."""
    pre, ssru = cfg.norm_position == "pre", cfg.decoder == "ssru"
    theirs = {ours: name for name, ours in _ACTIVATIONS.items()}
    aligning = alignment_layer(cfg.n_decoder_layers) + 1
    return {
        **{key: known[0] for key, known in _FIXED.items() if key != "transformer-train-positions"},
        "version": "mtkit",
        "dim-vocabs": list(vocab_sizes),
        "dim-emb": cfg.d_model,
        "enc-depth": cfg.n_encoder_layers,
        "dec-depth": cfg.n_decoder_layers,
        "dec-cell": "ssru" if ssru else "gru",
        "dec-cell-base-depth": 2,
        "dec-cell-high-depth": 1,
        "transformer-heads": cfg.n_heads,
        "transformer-dim-ffn": cfg.d_ff,
        "transformer-decoder-dim-ffn": 0,
        "transformer-ffn-activation": theirs[cfg.activation],
        "transformer-decoder-autoreg": "rnn" if ssru else "self-attention",
        # by which the engine places tags: "last", or a number from 1
        "transformer-guided-alignment-layer": "last" if aligning == cfg.n_decoder_layers else str(aligning),
        "transformer-preprocess": "n" if pre else "",
        "transformer-postprocess": "da" if pre else "dan",
        "transformer-postprocess-top": "n" if pre else "",
        "tied-embeddings": cfg.tie == "decoder",
        "tied-embeddings-src": False,
        "tied-embeddings-all": cfg.tie == "all",
    }


def _decoder(options: Mapping[str, Any], path: Path | str) -> str:
    kind = options.get("transformer-decoder-autoreg", "self-attention")
    if kind == "self-attention":
        return "attention"
    if kind != "rnn":
        raise _unsupported(path, "transformer-decoder-autoreg", kind, "only self-attention, or rnn with dec-cell ssru")
    for key, known in {"dec-cell": ("ssru",), "dec-cell-base-depth": (1, 2)}.items():
        if (value := options.get(key)) not in known:
            raise _unsupported(path, key, value, f"with transformer-decoder-autoreg rnn only {_listed(known)}")
    return "ssru"


def _norm_position(options: Mapping[str, Any], path: Path | str) -> str:
    """Return the position of the norms, ignoring d (dropout)."""
    version = re.match(r"v?(\d+)\.(\d+)", str(options.get("version", "")))
    keys = ("transformer-preprocess", "transformer-postprocess", "transformer-postprocess-top")
    values = [str(options.get(key) or "") for key in keys]
    steps = tuple(value.replace("d", "") for value in values)
    positions = {("n", "a", "n"): "pre", ("", "an", ""): "post"}
    if steps not in positions:
        pairs = ", ".join(f'{key}: "{value}"' for key, value in zip(keys, values, strict=True))
        known = '"n", "da", "n" (pre-norm) or "", "dan", "" (post-norm)'
        raise MtkitError(f"{path}: {pairs} is not supported; only {known}")
    if positions[steps] == "pre" and version and tuple(map(int, version.groups())) < (1, 12):
        log.warning(
            f"{path}: Marian {version[0]} made this model with norms before the layers. mtkit normalises the keys and "
            "values of self-attention, as version 1.12 does in training; older versions may not: compare some "
            "translations before you rely on it"
        )
    return positions[steps]


def _tie(options: Mapping[str, Any]) -> str:
    src, output = bool(options.get("tied-embeddings-src")), bool(options.get("tied-embeddings"))
    if options.get("tied-embeddings-all") or (src and output):
        return "all"
    return "decoder" if output else "none"


def _number(options: Mapping[str, Any], key: str, path: Path | str) -> int:
    value = options.get(key)
    if not isinstance(value, int):
        raise MtkitError(f"{path}: {key}: {value} in its description is not a number")
    return value


def _unsupported(path: Path | str, key: str, value: Any, known: str) -> MtkitError:
    return MtkitError(f"{path}: {key}: {value} is not supported; {known}")


def _listed(values: tuple[Any, ...]) -> str:
    return " or ".join(f'"{value}"' if value == "" else str(value) for value in values)

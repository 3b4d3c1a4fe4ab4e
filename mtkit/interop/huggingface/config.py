"""Convert the JSON files of a Hugging Face folder to the model and decode sections of a config, and back."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mtkit.config.decoding import DecodeConfig
from mtkit.config.model import ModelConfig
from mtkit.errors import DataError, MtkitError
from mtkit.files import parse_json
from mtkit.interop.imported import checked, number
from mtkit.interop.support import export_problems

_ACTIVATIONS = {"relu": "relu", "swish": "silu", "silu": "silu", "gelu": "gelu"}
_NORMALIZATIONS = {0.0: "none", 1.0: "average"}  # by length_penalty
M2M100 = "m2m_100"  # NLLB has this architecture, too
_FIXED: dict[str, dict[str, tuple[Any, ...]]] = {
    "marian": {
        "scale_embedding": (True,),
        "normalize_before": (False, None),
        "normalize_embedding": (False, None),
        "add_final_layer_norm": (False, None),
        "add_bias_logits": (False, None),
        "static_position_embeddings": (True, None),
    },
    M2M100: {"scale_embedding": (True, None), "tie_word_embeddings": (True, None, False)},
}
_SIZES = {"d_model": "d_model", "d_ff": "encoder_ffn_dim", "n_heads": "encoder_attention_heads"}


def read_json(path: Path) -> dict[str, Any]:
    """Read the object in a JSON file. Raises MtkitError if there is none."""
    try:
        values = parse_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MtkitError(f"{path}: cannot be read ({error.strerror or error})") from error
    except ValueError as error:
        raise MtkitError(f"{path}: not valid JSON ({error})") from error
    if not isinstance(values, dict):
        raise MtkitError(f"{path}: not a JSON object")
    return values


def row_ids(path: Path) -> dict[str, int]:
    """Read the pieces in a JSON file with their ids. Raises MtkitError if it contains anything else."""
    rows = read_json(path)
    if not all(isinstance(row, int) for row in rows.values()):
        raise DataError(f"{path}: not a JSON object of pieces with their ids")
    return rows


def generation(folder: Path, config: Mapping[str, Any]) -> tuple[Path, Mapping[str, Any]]:
    """Return the file with the settings of decoding, generation_config.json or else config.json, and its content.

    config: the content of config.json.
    """
    path = folder / "generation_config.json"
    return (path, read_json(path)) if path.is_file() else (folder / "config.json", config)


def model_config(config: Mapping[str, Any], positions: str, path: Path) -> ModelConfig:
    """Return the model section. Raises MtkitError, naming key and value, for what mtkit does not support."""
    kind = config.get("model_type")
    if kind not in [*_FIXED]:  # a list, since it may be unhashable
        raise _unsupported(path, "model_type", kind, f"only {', '.join(_FIXED)}")
    for key, known in _FIXED[kind].items():
        if (value := config.get(key)) not in known:
            raise _unsupported(path, key, value, f"only {json.dumps(known[0])}")
    activation = config.get("activation_function", "gelu")
    if activation not in [*_ACTIVATIONS]:  # a list, since it may be unhashable
        raise _unsupported(path, "activation_function", activation, f"only {', '.join(_ACTIVATIONS)}")
    for side in ("ffn_dim", "attention_heads"):
        if config.get(f"decoder_{side}") != config.get(f"encoder_{side}"):
            theirs, ours = (config.get(f"{name}_{side}") for name in ("decoder", "encoder"))
            raise _unsupported(path, f"decoder_{side}", theirs, f"only the encoder's value, {ours}")
    numbers = {**_SIZES, "n_encoder_layers": "encoder_layers", "n_decoder_layers": "decoder_layers"}
    for key in numbers.values():
        if not isinstance(config.get(key), int):
            raise MtkitError(f"{path}: {key}: {config.get(key)} is not a number")
    tied, shared = (config.get(key, True) for key in ("tie_word_embeddings", "share_encoder_decoder_embeddings"))
    if kind == "marian" and shared and not tied:
        only = "with share_encoder_decoder_embeddings: true only true"
        raise _unsupported(path, "tie_word_embeddings", tied, only)
    dropout = number(config, "dropout", 0.1, path)
    settings = {
        **{ours: config[theirs] for ours, theirs in numbers.items()},
        "activation": _ACTIVATIONS[activation],
        "norm_position": "post" if kind == "marian" else "pre",
        "end_first": kind == M2M100,
        "positions": positions,
        "embedding_dropout": dropout,
        "residual_dropout": dropout,
        "attention_dropout": number(config, "attention_dropout", 0.0, path),
        "ffn_dropout": number(config, "activation_dropout", 0.0, path),
        "tie": ("all" if shared else "decoder") if tied else "none",
    }
    return checked(ModelConfig, settings, path)


def decode_config(generate: Mapping[str, Any], path: Path, config: Mapping[str, Any]) -> DecodeConfig:
    """Return the decode section, with limits if the model was trained on texts shorter than mtkit's usual limit.

    transformers divides a score by length^length_penalty; mtkit has that for 0 and 1 only. path: for messages.
    """
    settings: dict[str, Any] = {}
    if (beam_size := generate.get("num_beams")) is not None:
        settings["beam_size"] = beam_size
    alpha = max(0.0, number(generate, "length_penalty", 1.0, path))
    settings["length_normalization"] = _NORMALIZATIONS.get(alpha, "gnmt")
    settings["length_penalty"] = alpha
    longest = config.get("max_position_embeddings")
    if isinstance(longest, int) and longest <= DecodeConfig().max_src_tokens:
        settings |= {"max_src_tokens": longest - 1, "max_len": longest - 1}  # </s>
    return checked(DecodeConfig, settings, path)


def config_files(cfg: ModelConfig, ids: Mapping[str, Any], decode: DecodeConfig, folder: Path) -> dict[str, Any]:
    """Return the contents of config.json and generation_config.json; ids: the keys that name or count tokens.

    folder: of the bundle, for messages. Raises MtkitError, naming the key, for what transformers cannot compute.
    """
    if problems := export_problems(cfg, "hf"):
        raise MtkitError(f"{folder}: {'; '.join(problems)}")
    marian = {
        "normalize_before": False,
        "static_position_embeddings": True,
        "share_encoder_decoder_embeddings": cfg.tie == "all",
    }
    shape: dict[str, Any] = {
        "model_type": M2M100 if cfg.end_first else "marian",
        "architectures": ["M2M100ForConditionalGeneration" if cfg.end_first else "MarianMTModel"],
        "is_encoder_decoder": True,
        "d_model": cfg.d_model,
        "activation_function": "swish" if cfg.activation == "silu" else cfg.activation,
        "scale_embedding": True,
        "max_position_embeddings": 1024 if cfg.end_first else 512,
        "dropout": cfg.residual_dropout,
        "attention_dropout": cfg.attention_dropout,
        "activation_dropout": cfg.ffn_dropout,
        "tie_word_embeddings": cfg.tie != "none",
        **({} if cfg.end_first else marian),
    }
    for side, n_layers in {"encoder": cfg.n_encoder_layers, "decoder": cfg.n_decoder_layers}.items():
        shape |= {f"{side}_layers": n_layers, f"{side}_ffn_dim": cfg.d_ff, f"{side}_attention_heads": cfg.n_heads}
    sizes = ("vocab_size", "decoder_vocab_size")
    alphas = {name: alpha for alpha, name in _NORMALIZATIONS.items()}
    end = {} if cfg.end_first else {"forced_eos_token_id": ids["eos_token_id"]}
    search = {
        "num_beams": decode.beam_size,
        "length_penalty": alphas.get(decode.length_normalization, decode.length_penalty),
        "max_length": 200 if cfg.end_first else 512,  # that of the published models
    }
    return {
        "config.json": {**shape, **{key: value for key, value in ids.items() if key != "bad_words_ids"}, **end},
        "generation_config.json": {
            **{key: value for key, value in ids.items() if key not in sizes and value is not None},
            **search,
            **end,
        },
    }


def _unsupported(path: Path, key: str, value: Any, known: str) -> MtkitError:
    return MtkitError(f"{path}: {key}: {json.dumps(value)} is not supported; {known}")

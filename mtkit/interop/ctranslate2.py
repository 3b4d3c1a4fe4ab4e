"""A model of ours as a CTranslate2 model folder.

Beside CTranslate2's own files the folder holds `export.json`: what our engine must know that theirs does not tell.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from mtkit.config.schema import ModelConfig
from mtkit.data.special_ids import BOS_ID, EOS_ID, UNK_ID
from mtkit.engines.ctranslate2 import ABOUT, ctranslate2_library
from mtkit.errors import MtkitError
from mtkit.interop.support import Quantization, export_problems
from mtkit.model.attention import CrossAttention, SelfAttention
from mtkit.model.layers import FeedForward
from mtkit.model.transformer import Transformer

if TYPE_CHECKING:
    from ctranslate2.specs import TransformerSpec

# Sinusoids go on for ever, but the file holds a table, since CTranslate2's own are at another rate. This many positions
# are ten times the longest input that is not split (decode.max_src_tokens).
_N_SINUSOIDS = 2048


def export_ctranslate2(
    model: Transformer, src_pieces: Sequence[str], tgt_pieces: Sequence[str], folder: Path, quantization: Quantization
) -> None:
    """Write the model into the folder, which exists and is empty.

    src_pieces, tgt_pieces: what each id stands for. Raises MtkitError if CTranslate2 has no place for the model.
    """
    if problems := export_problems(model.cfg, "ctranslate2"):
        raise MtkitError("; ".join(problems))
    library = ctranslate2_library()
    spec = _spec(model)
    vocabularies = _distinct(src_pieces), _distinct(tgt_pieces)
    spec.register_source_vocabulary(vocabularies[0])
    spec.register_target_vocabulary(vocabularies[1])
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = (
        vocabularies[1][token_id] for token_id in (UNK_ID, BOS_ID, EOS_ID)
    )
    spec.config.decoder_start_token = spec.config.bos_token
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = _epsilon(model)
    spec.validate()
    spec.optimize(quantization="int8_float32" if quantization == "int8" else quantization)
    spec.save(str(folder))
    about = {"ctranslate2": library.__version__, "quantization": quantization, "max_positions": _n_positions(model.cfg)}
    (folder / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def _distinct(pieces: Sequence[str]) -> list[str]:
    """The pieces, each that has been there already with a mark of its own: id -> string -> id must lead back."""
    seen: set[str] = set(pieces)
    taken: set[str] = set()
    distinct = []
    for token_id, piece in enumerate(pieces):
        if piece in taken:
            piece = f"{piece}#{token_id}"
            while piece in seen:
                piece += "#"
            seen.add(piece)
        taken.add(piece)
        distinct.append(piece)
    return distinct


def _n_positions(cfg: ModelConfig) -> int | None:
    """How many positions the exported model can tell; None: any number."""
    if cfg.positions == "rotary":
        return None
    return cfg.max_positions if cfg.positions == "learned" else _N_SINUSOIDS


def _epsilon(model: Transformer) -> float:
    norm: Any = model.encoder_layers[0].feed_forward_residual.norm
    return float(norm.eps)


def _spec(model: Transformer) -> "TransformerSpec":
    """CTranslate2's description of the model, filled with its weights."""
    from ctranslate2.specs import TransformerDecoderSpec, TransformerEncoderSpec, TransformerSpec
    from ctranslate2.specs.common_spec import Activation

    cfg = model.cfg
    rotary = cfg.positions == "rotary"
    shape: dict[str, Any] = {
        "num_heads": cfg.n_heads,
        "pre_norm": cfg.norm_position == "pre",
        "activation": {
            "relu": Activation.RELU,
            "gelu": Activation.GELU,
            "silu": Activation.SWISH,
            "swiglu": Activation.SWISH,
        }[cfg.activation],
        "ffn_glu": cfg.activation == "swiglu",
        "rms_norm": cfg.norm == "rmsnorm",
        "rotary_dim": cfg.d_model // cfg.n_heads if rotary else None,
        "rotary_interleave": False,
    }
    spec = TransformerSpec(
        TransformerEncoderSpec(cfg.n_encoder_layers, **shape), TransformerDecoderSpec(cfg.n_decoder_layers, **shape)
    )
    if rotary:  # the encoder's description has a place for positions all the same
        del spec.encoder.position_encodings
    else:
        spec.encoder.position_encodings.encodings = _positions(model.src_positions, cfg)
        spec.decoder.position_encodings.encodings = _positions(model.tgt_positions, cfg)
    [spec.encoder.embeddings[0].weight, spec.decoder.embeddings.weight] = (
        _array(embedding.weight) for embedding in (model.src_embedding, model.tgt_embedding)
    )
    _set_linear(spec.decoder.projection, model.output.weight, model.output.bias)
    if cfg.norm_position == "pre":
        _set_norm(spec.encoder.layer_norm, model.encoder_norm)
        _set_norm(spec.decoder.layer_norm, model.decoder_norm)
    for place, encoder_layer in zip(spec.encoder.layer, model.encoder_layers, strict=True):
        _set_self_attention(place.self_attention, encoder_layer.self_attention)
        _set_norm(place.self_attention.layer_norm, encoder_layer.self_attention_residual.norm)
        _set_feed_forward(place.ffn, encoder_layer.feed_forward)
        _set_norm(place.ffn.layer_norm, encoder_layer.feed_forward_residual.norm)
    for place, decoder_layer in zip(spec.decoder.layer, model.decoder_layers, strict=True):
        _set_self_attention(place.self_attention, decoder_layer.self_attention)
        _set_norm(place.self_attention.layer_norm, decoder_layer.self_attention_residual.norm)
        _set_cross_attention(place.attention, decoder_layer.cross_attention)
        _set_norm(place.attention.layer_norm, decoder_layer.cross_attention_residual.norm)
        _set_feed_forward(place.ffn, decoder_layer.feed_forward)
        _set_norm(place.ffn.layer_norm, decoder_layer.feed_forward_residual.norm)
    return spec


def _positions(positions: nn.Module, cfg: ModelConfig) -> Any:
    """The table of what is added at each position."""
    return _array(positions(torch.zeros(_n_positions(cfg) or 0, cfg.d_model)))


def _set_self_attention(place: Any, attention: nn.Module) -> None:
    assert isinstance(attention, SelfAttention)  # what export_problems has seen to
    _set_linear(place.linear[0], attention.qkv_proj.weight, attention.qkv_proj.bias)
    _set_linear(place.linear[1], attention.out_proj.weight, attention.out_proj.bias)


def _set_cross_attention(place: Any, attention: CrossAttention) -> None:
    for linear, ours in zip(place.linear, (attention.q_proj, attention.kv_proj, attention.out_proj), strict=True):
        _set_linear(linear, ours.weight, ours.bias)


def _set_feed_forward(place: Any, feed_forward: FeedForward) -> None:
    weight, bias = feed_forward.in_proj.weight, feed_forward.in_proj.bias
    if feed_forward.activation == "swiglu":
        (gate, value), (gate_bias, value_bias) = weight.chunk(2), bias.chunk(2)
        _set_linear(place.linear_0, gate, gate_bias)
        _set_linear(place.linear_0_noact, value, value_bias)
    else:
        _set_linear(place.linear_0, weight, bias)
    _set_linear(place.linear_1, feed_forward.out_proj.weight, feed_forward.out_proj.bias)


def _set_linear(place: Any, weight: Tensor, bias: Tensor) -> None:
    place.weight, place.bias = _array(weight), _array(bias)


def _set_norm(place: Any, norm: nn.Module) -> None:
    place.gamma = _array(norm.weight)
    if isinstance(norm, nn.LayerNorm):
        place.beta = _array(norm.bias)


def _array(weight: Any) -> Any:
    """The weight as a numpy array of its own, since quantization writes into it."""
    return weight.detach().to("cpu", torch.float32).numpy().copy()

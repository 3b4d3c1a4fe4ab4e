"""Export bundles as CTranslate2 model folders, and check that both translate alike.

Besides CTranslate2's own files, the folder contains `export.json`, which tells mtkit's engine about the model.
"""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.bundle import BundleFiles, add_to_bundle, load_model
from mtkit.config.model import ModelConfig
from mtkit.engines.ctranslate2 import ABOUT, CTranslate2Engine, ctranslate2_library
from mtkit.engines.native import NativeEngine
from mtkit.errors import MtkitError
from mtkit.files import atomic_folder
from mtkit.interop.handover import README, write_readme
from mtkit.interop.parity import (
    ComparedText,
    Comparison,
    Parity,
    Tolerance,
    measure_parity,
    measure_types,
    remark_on,
)
from mtkit.interop.support import Quantization, export_problems
from mtkit.interop.vocabulary import with_exchanged, with_language_tokens
from mtkit.model.attention import CrossAttention, SelfAttention
from mtkit.model.layers import FeedForward
from mtkit.model.positions import LinearBiases, NoPositions
from mtkit.model.transformer import Transformer
from mtkit.search.hypothesis import Engine
from mtkit.tokens.special_ids import BOS_ID, EOS_ID, UNK_ID
from mtkit.tokens.tokenizer import language_piece
from mtkit.translation.translator import Translator

if TYPE_CHECKING:
    from ctranslate2.specs import TransformerSpec

FOLDER = "ctranslate2"  # of the export in its bundle
CERTIFICATE = "parity.json"
TOKENIZERS = ("src.spm", "tgt.spm")
# CTranslate2's sinusoids have another rate, and its encoder has no linear biases. The file therefore contains tables.
# They end at ten times the longest input that is not split (decode.max_src_tokens).
_TABLE_END = 2048


def export_bundle(
    files: BundleFiles,
    out: Path | None,
    quantization: Quantization,
    texts: Sequence[ComparedText],
    tolerance: Tolerance,
    threads: int,
    tick: Callable[[int], object] = lambda n_lines: None,
) -> Parity:
    """Write the model to out, or into the bundle, with its certificate, `parity.json`.

    texts, tick: see `measure_parity`. Raises MtkitError, and changes nothing, if CTranslate2 cannot
    express the model or the export is beyond the tolerance.
    """
    if out is not None and out.exists():
        _check_earlier(out)
    parities: list[Parity] = []

    def write(folder: Path) -> None:
        parities.append(
            write_compared(files, folder, quantization, texts, tolerance, threads, tick, for_others=out is not None)
        )

    if out is None:
        add_to_bundle(files, FOLDER, write)
    else:
        with atomic_folder(out) as folder:
            write(folder)
            for name in TOKENIZERS:
                shutil.copyfile(files.folder / name, folder / name)
            write_readme(folder, files, "ctranslate2")
    return parities[0]


def _check_earlier(out: Path) -> None:
    """Raise MtkitError unless a folder is empty, or has nothing but the files of an earlier export."""
    if not out.is_dir() or (any(out.iterdir()) and not (out / ABOUT).is_file()):
        raise MtkitError(f"{out}: exists and is not an earlier export; choose a new folder with --out")
    ours = {*TOKENIZERS, README, ABOUT, CERTIFICATE, "config.json", "model.bin"}
    others = sorted(path.name for path in out.iterdir() if path.name not in ours and not path.match("*_vocabulary.*"))
    if others:
        raise MtkitError(
            f"{out}: contains {others[0]}, which the export would remove with the earlier one; choose a new folder "
            "with --out, or move the file"
        )


def write_compared(
    files: BundleFiles,
    folder: Path,
    quantization: Quantization,
    texts: Sequence[ComparedText],
    tolerance: Tolerance,
    threads: int,
    tick: Callable[[int], object],
    *,
    for_others: bool,
    names_languages: bool = False,
) -> Parity:
    """Write the model and its certificate into an empty folder. Arguments and errors as for `export_bundle`.

    for_others: whether to compare it in all types that this machine computes in, because other programs choose one.
    names_languages: whether tokens of languages keep mtkit's names instead of those that M2M-100 and NLLB have.
    """
    model = load_model(files)
    texts = [as_read(files, text) for text in texts]
    tokenizers = files.src_tokenizer.with_placeholders(()), files.tgt_tokenizer.with_placeholders(())
    src_pieces, tgt_pieces = (tokenizer.pieces(range(tokenizer.vocab_size)) for tokenizer in tokenizers)
    language_id = None
    if model.cfg.end_first:  # other programs find <start>, which training changes, under the name of the language
        language_id, piece = BOS_ID, language_piece(files.config.data.tgt_lang)
        src_pieces, tgt_pieces = (with_exchanged(side, piece, side[BOS_ID]) for side in (src_pieces, tgt_pieces))
        if not names_languages:
            src_pieces, tgt_pieces = map(with_language_tokens, (src_pieces, tgt_pieces))
    write_model(model, src_pieces, tgt_pieces, folder, quantization)

    def engine(kind: str = "default") -> CTranslate2Engine:
        return CTranslate2Engine(folder, "cpu", threads, kind, language_id)

    exported = engine()
    language = files.config.data.tgt_lang

    def translators(engine: Engine) -> list[Translator]:
        decodes = (files.config.decode.model_copy(update={"tag": text.tag}) for text in texts)
        return [Translator(engine, *tokenizers, decode, tgt_lang=language) for decode in decodes]

    both = translators(NativeEngine([model])), translators(exported)
    comparisons = [Comparison(*one) for one in zip(texts, *both, strict=True)]
    parity = measure_parity(comparisons, threads, tick)
    if types := _other_types(exported.computes_in) if for_others else ():
        agreements = measure_types(comparisons, lambda kind: translators(engine(kind)), types)
        parity = replace(parity, agreement_by_type=agreements)
    if failures := parity.failures(tolerance):
        raise MtkitError(
            f"the {quantization} export{remark_on(parity.computes_in)} differs too much from the model and is not "
            f"written: {'; '.join(failures)}"
        )
    (folder / CERTIFICATE).write_text(json.dumps(parity.as_json(), indent=2) + "\n", encoding="utf-8")
    return parity


def _other_types(default: str) -> list[str]:
    """Return the types that CTranslate2 computes in on this CPU, besides the one it chooses itself."""
    library = ctranslate2_library()
    names = {"int8": "int8_float32"}  # on a CPU
    return sorted({names.get(kind, kind) for kind in library.get_supported_compute_types("cpu")} - {default})


def as_read(files: BundleFiles, text: ComparedText) -> ComparedText:
    """Return the text with reserved tokens for its placeholders.

    They are ordinary text here: only the native engine can require them, and both engines must search alike.
    """
    placeholders, references = files.src_tokenizer.placeholders, text.references
    if placeholders is None:
        return text
    replaced = [placeholders.replace(source) for source in text.sources]
    if references is not None:
        rows = zip(references, replaced, strict=True)
        references = [placeholders.replace_translation(reference, src) for reference, src in rows]
    return replace(text, sources=[src.text for src in replaced], references=references)


def write_model(
    model: Transformer,
    src_pieces: Sequence[str],
    tgt_pieces: Sequence[str],
    folder: Path,
    quantization: Quantization,
) -> None:
    """Write the model into a folder that exists and is empty.

    src_pieces, tgt_pieces: in the order of their ids. Raises MtkitError if CTranslate2 cannot express the model.
    """
    if problems := export_problems(model.cfg, "ctranslate2"):
        raise MtkitError("; ".join(problems))
    library = ctranslate2_library()
    spec = _spec(model)
    vocabularies = distinct(src_pieces), distinct(tgt_pieces)
    spec.register_source_vocabulary(vocabularies[0])
    spec.register_target_vocabulary(vocabularies[1])
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = (
        vocabularies[1][token_id] for token_id in (UNK_ID, BOS_ID, EOS_ID)
    )
    end_first = model.cfg.end_first  # then the caller puts </s> after a source, and forces the token of the language
    spec.config.decoder_start_token = spec.config.eos_token if end_first else spec.config.bos_token
    spec.config.add_source_eos = model.cfg.src_end and not end_first
    spec.config.layer_norm_epsilon = _epsilon(model)
    spec.validate()
    spec.optimize(quantization="int8_float32" if quantization == "int8" else quantization)
    spec.save(str(folder))
    n_positions = _n_positions(model.cfg)
    max_positions = n_positions - 1 if n_positions and end_first else n_positions
    about = {"ctranslate2": library.__version__, "quantization": quantization, "max_positions": max_positions}
    (folder / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def distinct(pieces: Sequence[str]) -> list[str]:
    """Mark repeated pieces so that all strings differ, because CTranslate2 looks ids up by string."""
    used: set[str] = set(pieces)
    taken: set[str] = set()
    distinct = []
    for token_id, piece in enumerate(pieces):
        if piece in taken:
            piece = f"{piece}#{token_id}"
            while piece in used:
                piece += "#"
            used.add(piece)
        taken.add(piece)
        distinct.append(piece)
    return distinct


def _n_positions(cfg: ModelConfig) -> int | None:
    """Return how many positions the exported model has; None: no limit."""
    if cfg.positions in ("rotary", "relative"):
        return None
    return cfg.max_positions if cfg.positions == "learned" else _TABLE_END


def _epsilon(model: Transformer) -> float:
    norm: Any = model.encoder_layers[0].feed_forward_residual.norm
    return float(norm.eps)


def _spec(model: Transformer) -> "TransformerSpec":
    """Return CTranslate2's specification of the model with its weights."""
    # Imported here because it is optional.
    from ctranslate2.specs import TransformerDecoderSpec, TransformerEncoderSpec, TransformerSpec
    from ctranslate2.specs.common_spec import Activation

    cfg = model.cfg
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
        "rotary_dim": cfg.d_model // cfg.n_heads if cfg.positions == "rotary" else None,
        "rotary_interleave": False,
        "relative_position": cfg.positions == "relative",
    }
    alibi = cfg.positions == "alibi"
    spec = TransformerSpec(
        TransformerEncoderSpec(cfg.n_encoder_layers, relative_attention_bias=alibi, **shape),
        TransformerDecoderSpec(cfg.n_decoder_layers, alibi=alibi, alibi_use_positive_positions=False, **shape),
    )
    if cfg.positions == "rotary":  # the encoder's specification has an entry for positions even then
        del spec.encoder.position_encodings
    elif not isinstance(model.src_positions, NoPositions):
        spec.encoder.position_encodings.encodings = _positions(model.src_positions, cfg)
        spec.decoder.position_encodings.encodings = _positions(model.tgt_positions, cfg)
    [spec.encoder.embeddings[0].weight, spec.decoder.embeddings.weight] = (
        _array(embedding.weight) for embedding in (model.src_embedding, model.tgt_embedding)
    )
    _set_linear(spec.decoder.projection, model.output.weight, model.output.bias)
    if cfg.norm_position == "pre":
        _set_norm(spec.encoder.layer_norm, model.encoder_norm)
        _set_norm(spec.decoder.layer_norm, model.decoder_norm)
    for layer_spec, encoder_layer in zip(spec.encoder.layer, model.encoder_layers, strict=True):
        _set_self_attention(layer_spec.self_attention, encoder_layer.self_attention)
        if model.linear_biases is not None:
            _set_linear_biases(layer_spec.self_attention, model.linear_biases)
        _set_norm(layer_spec.self_attention.layer_norm, encoder_layer.self_attention_residual.norm)
        _set_feed_forward(layer_spec.ffn, encoder_layer.feed_forward)
        _set_norm(layer_spec.ffn.layer_norm, encoder_layer.feed_forward_residual.norm)
    for layer_spec, decoder_layer in zip(spec.decoder.layer, model.decoder_layers, strict=True):
        _set_self_attention(layer_spec.self_attention, decoder_layer.self_attention)
        _set_norm(layer_spec.self_attention.layer_norm, decoder_layer.self_attention_residual.norm)
        _set_cross_attention(layer_spec.attention, decoder_layer.cross_attention)
        _set_norm(layer_spec.attention.layer_norm, decoder_layer.cross_attention_residual.norm)
        _set_feed_forward(layer_spec.ffn, decoder_layer.feed_forward)
        _set_norm(layer_spec.ffn.layer_norm, decoder_layer.feed_forward_residual.norm)
    return spec


def _positions(positions: nn.Module, cfg: ModelConfig) -> Any:
    """Return the table of position embeddings."""
    return _array(positions(torch.zeros(_n_positions(cfg) or 0, cfg.d_model)))


def _set_self_attention(spec: Any, attention: nn.Module) -> None:
    assert isinstance(attention, SelfAttention)  # export_problems refuses all others
    _set_linear(spec.linear[0], attention.qkv_proj.weight, attention.qkv_proj.bias)
    _set_linear(spec.linear[1], attention.out_proj.weight, attention.out_proj.bias)
    if attention.relative is not None:
        reach = attention.relative.max_distance
        for name, vectors in (("keys", attention.relative.keys), ("values", attention.relative.values)):
            n_unused = 2 * reach + 1 - len(vectors)  # a decoder has no later positions; CTranslate2 reserves their rows
            setattr(spec, f"relative_position_{name}", _array(F.pad(vectors, (0, 0, 0, n_unused))))


def _set_linear_biases(spec: Any, linear_biases: LinearBiases) -> None:
    """Give an encoder layer linear biases as T5's table of biases by distance.

    CTranslate2 has linear biases for decoders alone. T5's table has four parts of equal size: the biases of earlier
    keys, by distance; those farther away, in steps that grow; and the same two parts for later keys.
    """
    near = linear_biases(torch.arange(_TABLE_END)[None])[0, :, 0].T  # (distances, H)
    far = near[-1:].expand_as(near)
    spec.relative_attention_bias = _array(torch.cat([near, far, near, far]))
    spec.relative_attention_max_distance = np.int32(2 * _TABLE_END)


def _set_cross_attention(spec: Any, attention: CrossAttention) -> None:
    for linear, ours in zip(spec.linear, (attention.q_proj, attention.kv_proj, attention.out_proj), strict=True):
        _set_linear(linear, ours.weight, ours.bias)


def _set_feed_forward(spec: Any, feed_forward: FeedForward) -> None:
    weight, bias = feed_forward.in_proj.weight, feed_forward.in_proj.bias
    if feed_forward.activation == "swiglu":
        (gate, value), (gate_bias, value_bias) = weight.chunk(2), bias.chunk(2)
        _set_linear(spec.linear_0, gate, gate_bias)
        _set_linear(spec.linear_0_noact, value, value_bias)
    else:
        _set_linear(spec.linear_0, weight, bias)
    _set_linear(spec.linear_1, feed_forward.out_proj.weight, feed_forward.out_proj.bias)


def _set_linear(spec: Any, weight: Tensor, bias: Tensor) -> None:
    spec.weight, spec.bias = _array(weight), _array(bias)


def _set_norm(spec: Any, norm: nn.Module) -> None:
    spec.gamma = _array(norm.weight)
    if isinstance(norm, nn.LayerNorm):
        spec.beta = _array(norm.bias)


def _array(weight: Any) -> Any:
    """Copy the weight to a numpy array: quantization writes into it."""
    return weight.detach().to("cpu", torch.float32).numpy().copy()

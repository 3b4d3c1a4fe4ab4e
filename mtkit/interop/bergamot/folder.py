"""Import the models that browsers use (Bergamot) as bundles, and export bundles as such models.

A model is a folder: Marian's binary model, a SentencePiece model for both sides or one for each, a binary lexicon and
the engine's settings. Such models are distilled, with 8-bit matrices and a recurrent decoder (SSRU). An import turns
the matrices into float32; only Bergamot's engine needs the multipliers of activations ("QuantMultA").
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
import yaml
from torch import Tensor, nn

from mtkit.bundle import Bundle, BundleFiles, load_bundle
from mtkit.config.decoding import DecodeConfig
from mtkit.config.model import ModelConfig
from mtkit.config.reading.yaml_text import yaml_value
from mtkit.engines.shortlist import SHORTLIST, Shortlist, shortlist_of
from mtkit.errors import DataError, MtkitError
from mtkit.files import atomic_folder
from mtkit.interop.bergamot.activations import Inputs, measured_inputs
from mtkit.interop.bergamot.arithmetic import ACTIVATIONS, OUTPUTS, as_in_browser
from mtkit.interop.bergamot.lexicon import read_lexicon, write_lexicon
from mtkit.interop.bergamot.rounding import rounded
from mtkit.interop.handover import write_readme
from mtkit.interop.imported import Languages, Origin, checked, number, save_imported
from mtkit.interop.marian import layer_parameters, to_parameters, to_state
from mtkit.interop.marian_binary import MarianModel, marian_binary, read_marian_binary
from mtkit.interop.marian_options import model_config, model_options
from mtkit.interop.support import export_problems
from mtkit.interop.vocabulary import (
    BANNED,
    Layout,
    export_state,
    import_state,
    names_of,
    original_spm,
    read_spm,
    spm_layout,
    src_tokenizer,
    tgt_tokenizer,
)
from mtkit.model.transformer import Transformer
from mtkit.tokens.sentencepiece_file import Piece, PieceType, SentencePieceModel, parse
from mtkit.tokens.special_ids import BOS_ID, PAD_ID, UNK_ID

FORMAT = "bergamot"
_LANGUAGES = re.compile(r"\.(?:([a-z]{2,3})([a-z]{2})|([a-z]{2,3})-([a-z]{2,3}))\.")  # in model.enpt.intgemm.alphas.bin
_SETTINGS = "config.intgemm8bitalpha.yml"
_MAX_LENGTH_FACTOR = 2.0  # the engine for browsers always has this limit
_BLOCK = 8  # the number of target tokens must be a multiple of this in the engine


@dataclass(frozen=True)
class _Files:
    """The files of one model."""

    model: Path
    vocabularies: tuple[Path, ...]  # one for both sides, or source and target
    lexicon: Path | None
    settings: Path | None  # YAML of the engine: beam size, limits

    @classmethod
    def find(cls, path: Path) -> "_Files":
        """Find the files in a folder, or next to a model file. Raises DataError for a missing or ambiguous one."""
        folder = path if path.is_dir() else path.parent
        model = _only(folder, "*.bin", lambda name: not name.startswith("lex")) if path.is_dir() else path
        if model is None:
            raise DataError(
                f"{folder}: no model found; a Bergamot model is a file such as model.enpt.intgemm.alphas.bin"
            )
        both = _only(folder, "srcvocab*.spm"), _only(folder, "trgvocab*.spm")
        vocabularies = both if any(both) else (_only(folder, "*.spm"),)
        present = tuple(path for path in vocabularies if path is not None)
        if len(present) < len(vocabularies):
            raise DataError(
                f"{folder}: no vocabulary found; it is a file such as vocab.enpt.spm, or two such as srcvocab.enpt.spm "
                "and trgvocab.enpt.spm"
            )
        return cls(model, present, _only(folder, "lex*.bin"), _only(folder, "config*.yml"))


def import_model(path: Path, out: Path, languages: Languages | None = None) -> None:
    """Write a model as a bundle; its lexicon, if it has one, becomes the shortlist.

    path: the folder of model, vocabularies and lexicon, or the model file in it.
    languages: by default those in the name of the model file.
    Raises MtkitError, naming the file and the key or parameter, if mtkit cannot compute the model.
    """
    files = _Files.find(path)
    marian = read_marian_binary(files.model)
    cfg = model_config(marian.options, files.model)
    _check_tying(cfg, files)
    spms = [read_spm(vocabulary) for vocabulary in files.vocabularies]
    weights = {name: value for name, value in marian.tensors.items() if not name.endswith(ACTIVATIONS)}
    src, tgt = _layouts(marian, spms, files)
    state = import_state(to_state(weights, cfg, files.model), cfg.tie, src, tgt)
    state["output.bias"][UNK_ID] = BANNED  # Marian never writes it
    shared = cfg.tie == "all"
    lexicon = None if files.lexicon is None else read_lexicon(files.lexicon, src, tgt, shared=shared)
    of_tgt = tgt_tokenizer(spms[-1], names_of(spms[-1]), tgt)
    save_imported(
        out,
        state,
        cfg,
        (of_tgt if shared else src_tokenizer(spms[0], names_of(spms[0]), src), of_tgt),
        _decode_config(files.settings, shortlist=lexicon is not None),
        languages or _languages_of(files.model),
        Origin.from_file(files.model, FORMAT, src, tgt, {}),
        {} if lexicon is None else {SHORTLIST: lexicon.save},
    )


def export_bundle(folder: Path, out: Path, sources: Sequence[str]) -> None:
    """Write a bundle as a folder for Bergamot's engine.

    sources: lines to measure the activations on. Raises MtkitError, naming the key or file, if the engine cannot
    compute the model or the bundle has no shortlist.
    """
    bundle = load_bundle(folder)
    cfg, shortlist = bundle.config.model, usable_shortlist(bundle, bundle.model)
    if not any(source.strip() for source in sources):
        raise MtkitError(f"{folder}: no text to measure the activations on, which int8 needs; give some with --src")
    src, tgt = _export_layouts(bundle)
    state = export_state(bundle.model.state_dict(), src, tgt)
    for token_id in (PAD_ID, BOS_ID):
        if (row := tgt.rows[token_id]) >= 0:
            state["output.bias"][row] = BANNED
    sizes = _padded_size(src), _padded_size(tgt)
    inputs = measured_inputs(bundle.model, bundle.src_tokenizer.encode_batch(sources))
    state = _in_8_bits(state, cfg, inputs)
    multipliers = {layer: of_layer.multiplier for layer, of_layer in inputs.items()}
    pair = _pair(bundle)
    with atomic_folder(out) as temporary:
        model, lexicon = f"model.{pair}.intgemm.alphas.bin", f"lex.50.50.{pair}.s2t.bin"
        (temporary / model).write_bytes(_model_file(state, cfg, sizes, multipliers))
        write_lexicon(temporary / lexicon, shortlist, src, tgt, sizes[0])
        vocabularies = _write_vocabularies(temporary, bundle, (src, tgt), sizes, pair)
        settings = {"relative-paths": True, "models": [model], "vocabs": vocabularies, "shortlist": [lexicon, False]}
        settings |= {"beam-size": 1, "normalize": 1.0, "word-penalty": 0, "max-length-factor": _MAX_LENGTH_FACTOR}
        text = yaml.safe_dump({**settings, "gemm-precision": "int8shiftAlphaAll"}, sort_keys=False)
        (temporary / _SETTINGS).write_text(text, encoding="utf-8", newline="\n")
        write_readme(temporary, bundle, "bergamot")


def _in_8_bits(state: Mapping[str, Tensor], cfg: ModelConfig, inputs: Mapping[str, Inputs]) -> dict[str, Tensor]:
    """Return the state with each matrix of the file rounded for its inputs; an embedding for its use as the output."""
    changed = dict(state)
    for layer, of_layer in inputs.items():
        n_matrices = 1 if layer == "output" else len(layer_parameters(cfg, layer))
        matrices = state[f"{layer}.weight"].chunk(n_matrices)
        changed[f"{layer}.weight"] = torch.cat([rounded(matrix, of_layer.gram) for matrix in matrices])
    tied = ("src_embedding", "tgt_embedding") if cfg.tie == "all" else ("tgt_embedding",)
    return changed | {f"{name}.weight": changed["output.weight"] for name in tied}


def usable_shortlist(files: BundleFiles, model: Transformer | None = None) -> Shortlist:
    """Return the shortlist of a bundle that Bergamot's engine can use.

    model: its model, if it is loaded, whose weights are checked too. Raises MtkitError, naming the key or file, if the
    engine cannot compute the model or the bundle has no shortlist.
    """
    if problems := export_problems(files.config.model, "bergamot", model):
        command = f"mtkit make-student --teacher {files.folder} --budget TIME --out FOLDER"
        remedy = f"`{command}` makes a student of this model, which runs in browsers"
        raise MtkitError(f"{files.folder}: {'; '.join(problems)}; {remedy}")
    return shortlist_of(files)


def browser_model(exported: Path, imported: Transformer) -> Transformer:
    """Return the model of a folder that `export_bundle` wrote and `import_model` read, as browsers compute it."""
    return as_in_browser(imported, read_marian_binary(_Files.find(exported).model).tensors)


def model_size(model: Transformer) -> int:
    """Return the bytes of the model file that `export_bundle` writes for a model that mtkit trains with this shape."""
    src, tgt = (_layout(side.num_embeddings) for side in (model.src_embedding, model.tgt_embedding))
    layers = (name for name, module in model.named_modules() if isinstance(module, nn.Linear))
    state = export_state(model.state_dict(), src, tgt)
    sizes = _padded_size(src), _padded_size(tgt)
    return len(_model_file(state, model.cfg, sizes, dict.fromkeys(layers, 1.0)))


def _model_file(
    state: dict[str, Tensor], cfg: ModelConfig, sizes: tuple[int, int], multipliers: Mapping[str, float]
) -> bytes:
    """Return the content of the model file. sizes: rows of the vocabularies; multipliers: by linear layer."""
    parameters = to_parameters(_padded(state, *sizes), cfg)
    for layer, multiplier in multipliers.items():
        for name in OUTPUTS if layer == "output" else layer_parameters(cfg, layer):
            parameters[name + ACTIVATIONS] = np.array([[multiplier]], dtype=np.float32)
    return marian_binary(parameters, model_options(cfg, sizes))


def _export_layouts(bundle: Bundle) -> tuple[Layout, Layout]:
    """Return the layouts of an imported model's file, or those of a model that mtkit trained."""
    origin = Origin.from_bundle(bundle, FORMAT)
    if origin.file:
        return origin.src, origin.tgt
    return _layout(bundle.src_tokenizer.vocab_size), _layout(bundle.tgt_tokenizer.vocab_size)


def _layout(vocab_size: int) -> Layout:
    """Return Marian's order: `</s>`, `<unk>`, all others, then mtkit's `<pad>` and `<start>`."""
    return Layout(vocab_size, unk=1, eos=0, pad=vocab_size - 2, bos=vocab_size - 1)


def _padded_size(layout: Layout) -> int:
    return layout.size + -layout.size % _BLOCK


def _padded(state: dict[str, Tensor], src_size: int, tgt_size: int) -> dict[str, Tensor]:
    """Add rows that the engine never chooses."""
    padded = dict(state)
    for name, size in (
        ("src_embedding.weight", src_size),
        ("tgt_embedding.weight", tgt_size),
        ("output.weight", tgt_size),
    ):
        padded[name] = F.pad(state[name], (0, 0, 0, size - state[name].size(0)))
    padded["output.bias"] = F.pad(state["output.bias"], (0, tgt_size - state["output.bias"].numel()), value=BANNED)
    return padded


def _write_vocabularies(
    folder: Path, bundle: Bundle, layouts: tuple[Layout, Layout], sizes: tuple[int, int], pair: str
) -> list[str]:
    """Write the tokenizers in the order of the file; return the file names of source and target."""
    shared = bundle.config.model.tie == "all"
    names = [f"vocab.{pair}.spm"] * 2 if shared else [f"srcvocab.{pair}.spm", f"trgvocab.{pair}.spm"]
    sides = zip(names, (bundle.src_tokenizer, bundle.tgt_tokenizer), layouts, sizes, strict=True)
    for name, tokenizer, layout, size in sides:
        model = parse(original_spm(read_spm(tokenizer.path), layout))
        unused = [Piece(f"<unused{number}>", type=PieceType.UNUSED) for number in range(1, size - layout.size + 1)]
        (folder / name).write_bytes(model.with_pieces([*model.pieces, *unused], layout.special).serialize())
    return names


def _check_tying(cfg: ModelConfig, files: _Files) -> None:
    """Raise DataError unless the vocabularies are those of the embeddings, and the output is one of them."""
    if cfg.tie == "none":
        raise DataError(f"{files.model}: tied-embeddings: False is not supported; only tied-embeddings(-all): true")
    if (cfg.tie == "all") != (len(files.vocabularies) == 1):
        names = " and ".join(path.name for path in files.vocabularies)
        raise DataError(
            f"{files.model}: tied-embeddings-all: {cfg.tie == 'all'} does not fit {names}; a model has one vocabulary "
            "for both sides, or srcvocab and trgvocab"
        )


def _layouts(marian: MarianModel, spms: Sequence[SentencePieceModel], files: _Files) -> tuple[Layout, Layout]:
    """Return the layouts of source and target. Raises DataError if a vocabulary does not fit its embeddings."""
    layouts = []
    tables = ("Wemb",) if len(spms) == 1 else ("encoder_Wemb", "decoder_Wemb")
    for spm, name, path in zip(spms, tables, files.vocabularies, strict=True):
        layout, table = spm_layout(spm), marian.tensors.get(name)
        if table is not None and table.shape[0] != layout.size:
            raise DataError(
                f"{path}: {layout.size:,} pieces, but {files.model} has {table.shape[0]:,}; "
                "give the vocabulary that the model was trained with"
            )
        if layout.bos is not None and name != "encoder_Wemb" and (table is None or table[layout.bos].any()):
            layout = replace(layout, bos=None)  # Marian's decoder starts from zeros, not from <s>
        layouts.append(layout)
    return layouts[0], layouts[-1]


def _decode_config(path: Path | None, *, shortlist: bool) -> DecodeConfig:
    """Return the engine's settings; by default those of browsers: greedy, with the lexicon."""
    settings: Any = {}
    if path is not None:
        try:
            settings = yaml_value(path.read_text(encoding="utf-8")) or {}
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: cannot be read: {error}") from error
    if not isinstance(settings, dict):
        raise DataError(f"{path}: contains no settings, such as beam-size: 1")
    factor = number(settings, "max-length-factor", 3.0, str(path))  # Marian's default; it counts the source with </s>
    values = {
        "beam_size": settings.get("beam-size", 1),
        "length_normalization": "average",
        "max_len_factor": factor,
        "max_len_constant": max(0, math.ceil(factor) - 1),  # </s> of the source allows `factor` more, </s> included
        "shortlist": shortlist,
    }
    return checked(DecodeConfig, values, str(path))


def _languages_of(model: Path) -> Languages:
    match = _LANGUAGES.search(model.name)
    return Languages(*(code for code in match.groups() if code)) if match else Languages()


def _pair(bundle: Bundle) -> str:
    """Return the languages for file names, such as enfr, or eng-fra if a code has more than two letters."""
    src, tgt = bundle.config.data.src_lang, bundle.config.data.tgt_lang
    return src + tgt if len(src) == len(tgt) == 2 else f"{src}-{tgt}"


def _only(folder: Path, pattern: str, fits: Any = lambda name: True) -> Path | None:
    paths = sorted(path for path in folder.glob(pattern) if fits(path.name))
    if len(paths) > 1:
        names = " and ".join(path.name for path in paths[:3])
        raise DataError(f"{folder}: {names}: several models; give the path of one model file")
    return paths[0] if paths else None

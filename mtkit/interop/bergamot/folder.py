"""Import the models that browsers use (Bergamot): turn a Marian binary model, its vocabulary and lexicon into a bundle.

These are distilled models with 8-bit matrices, a recurrent decoder (SSRU) and one vocabulary for both sides. The
matrices become float32; only Bergamot's engine needs the multipliers of activations ("QuantMultA").
"""

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.bundle import add_to_bundle
from mtkit.config.decoding import DecodeConfig
from mtkit.config.reading.yaml_text import yaml_value
from mtkit.engines.shortlist import SHORTLIST, Shortlist
from mtkit.errors import DataError
from mtkit.interop.imported import Languages, Origin, checked, number, save_imported
from mtkit.interop.marian import to_state
from mtkit.interop.marian_binary import MarianModel, read_marian_binary
from mtkit.interop.marian_options import model_config
from mtkit.interop.vocabulary import BANNED, Layout, import_state, names_of, read_spm, spm_layout, tgt_tokenizer
from mtkit.tokens.special_ids import UNK_ID

FORMAT = "bergamot"
_ACTIVATIONS = "_QuantMultA"  # the names of the activations' multipliers end with it
_LEXICON_MAGIC = 0xF11A48D5013417F5
_LEXICON_HEADER = struct.Struct("<6Q")  # magic, checksum, firstNum, bestNum, number of offsets, number of ids
_LANGUAGES = re.compile(r"\.([a-z]{2,3})([a-z]{2})\.")  # in model.enpt.intgemm.alphas.bin


@dataclass(frozen=True)
class _Files:
    """The files of one model."""

    model: Path
    vocabulary: Path
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
        vocabulary = _only(folder, "*.spm")
        if vocabulary is None:
            raise DataError(f"{folder}: no vocabulary found; it is a file such as vocab.enpt.spm")
        return cls(model, vocabulary, _only(folder, "lex*.bin"), _only(folder, "config*.yml"))


def import_model(path: Path, out: Path, languages: Languages | None = None) -> None:
    """Write a model as a bundle; its lexicon, if it has one, becomes the shortlist.

    path: the folder of model, vocabulary and lexicon, or the model file in it.
    languages: by default those in the name of the model file.
    Raises MtkitError, naming the file and the key or parameter, if mtkit cannot compute the model.
    """
    files = _Files.find(path)
    marian = read_marian_binary(files.model)
    cfg = model_config(marian.options, files.model)
    if cfg.tie != "all":
        raise DataError(
            f"{files.model}: tied-embeddings-all: {marian.options.get('tied-embeddings-all')} is not supported; "
            "only models with one vocabulary for both sides (true)"
        )
    spm = read_spm(files.vocabulary)
    layout = replace(spm_layout(spm), bos=None)  # Marian's decoder starts from zeros, not from <s>
    weights = {name: value for name, value in marian.tensors.items() if not name.endswith(_ACTIVATIONS)}
    _check_vocabulary(marian, layout, files)
    state = import_state(to_state(weights, cfg, files.model), cfg.tie, layout, layout)
    state["output.bias"][UNK_ID] = BANNED  # Marian never writes it
    lexicon = None if files.lexicon is None else read_lexicon(files.lexicon, layout)
    tokenizer = tgt_tokenizer(spm, names_of(spm), layout)
    save_imported(
        out,
        state,
        cfg,
        (tokenizer, tokenizer),
        _decode_config(files.settings, shortlist=lexicon is not None),
        languages or _languages_of(files.model),
        Origin.from_file(files.model, FORMAT, layout, layout, {}),
    )
    if lexicon is not None:
        add_to_bundle(out, SHORTLIST, lexicon.save)


def read_lexicon(path: Path, layout: Layout) -> Shortlist:
    """Read the binary lexicon of a model, with mtkit's ids; layout: of the shared vocabulary.

    Raises DataError if the file is not one, is cut off, or has ids outside the vocabulary.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    if len(data) < _LEXICON_HEADER.size or struct.unpack_from("<Q", data)[0] != _LEXICON_MAGIC:
        raise DataError(f"{path}: not a binary lexicon of Marian: its first 8 bytes are wrong")
    _, _, n_first, _, n_offsets, n_ids = _LEXICON_HEADER.unpack_from(data)
    expected = _LEXICON_HEADER.size + 8 * n_offsets + 4 * n_ids
    if len(data) != expected:
        raise DataError(f"{path}: {len(data):,} bytes, but its header promises {expected:,}; copy it again")
    if n_offsets != layout.size + 1:
        raise DataError(f"{path}: a lexicon for {n_offsets - 1:,} tokens, but the vocabulary has {layout.size:,}")
    offsets = np.frombuffer(data, "<u8", n_offsets, _LEXICON_HEADER.size).astype(np.int64)
    ids = np.frombuffer(data, "<u4", n_ids, _LEXICON_HEADER.size + 8 * n_offsets).astype(np.int64)
    if offsets[0] != 0 or offsets[-1] != n_ids or (np.diff(offsets) < 0).any():
        raise DataError(f"{path}: damaged: its lists overlap or are cut off; copy it again")
    if n_ids and ids.max() >= layout.size:
        raise DataError(f"{path}: it contains token {ids.max()}, but the vocabulary has {layout.size:,}")
    return _to_shortlist(offsets, ids, int(n_first), layout)


def _to_shortlist(offsets: NDArray[np.int64], ids: NDArray[np.int64], n_first: int, layout: Layout) -> Shortlist:
    rows = np.array(layout.rows)
    ours = np.zeros(layout.size, dtype=np.int64)
    ours[rows[rows >= 0]] = np.flatnonzero(rows >= 0)
    lists: Sequence[NDArray[np.int64]] = np.split(ours[ids], offsets[1:-1])
    none = np.empty(0, dtype=np.int64)
    return Shortlist.from_lexicon(
        [none if row < 0 else lists[row] for row in rows], ours[: min(n_first, layout.size)], rows.size
    )


def _check_vocabulary(marian: MarianModel, layout: Layout, files: _Files) -> None:
    table = marian.tensors.get("Wemb")
    if table is not None and table.shape[0] != layout.size:
        raise DataError(
            f"{files.vocabulary}: {layout.size:,} pieces, but {files.model} has {table.shape[0]:,}; "
            "give the vocabulary that the model was trained with"
        )


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
        "max_len_constant": max(1, round(factor)),
        "shortlist": shortlist,
    }
    return checked(DecodeConfig, values, str(path))


def _languages_of(model: Path) -> Languages:
    match = _LANGUAGES.search(model.name)
    return Languages(match[1], match[2]) if match else Languages()


def _only(folder: Path, pattern: str, fits: Any = lambda name: True) -> Path | None:
    paths = sorted(path for path in folder.glob(pattern) if fits(path.name))
    if len(paths) > 1:
        names = " and ".join(path.name for path in paths[:3])
        raise DataError(f"{folder}: {names}: several models; give the path of one model file")
    return paths[0] if paths else None

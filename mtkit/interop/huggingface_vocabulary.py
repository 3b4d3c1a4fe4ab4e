"""The vocabularies of a MarianMT folder (vocab.json, source.spm, target.spm) as tokenizers, and back."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from mtkit.bundle import Bundle
from mtkit.errors import DataError, MtkitError
from mtkit.interop.huggingface_config import read_json
from mtkit.interop.imported import Languages, Origin
from mtkit.interop.marian_vocabulary import Vocabularies, Vocabulary, in_order
from mtkit.interop.vocabulary import Layout, original_names, read_spm, spelled_as_unknown, text_spm

_TOKENIZER = "tokenizer_config.json"
_SPM = {"src": "source.spm", "tgt": "target.spm"}


def read(folder: Path, *, shared: bool) -> Vocabularies:
    """Both sides' vocabularies; shared: their matrices are one. Their kind is joint or separate.

    Raises MtkitError if a file is missing, or if vocabularies are separate whose matrices are one.
    """
    options = _options(folder)
    separate = bool(options.get("separate_vocabs", False))
    if separate and shared:
        raise MtkitError(f"{folder / _TOKENIZER}: separate_vocabs: true, but the model has one matrix for both sides")
    files = {"src": folder / "vocab.json", "tgt": folder / ("target_vocab.json" if separate else "vocab.json")}
    src, tgt = (_read_side(files[side], folder / _SPM[side], options) for side in ("src", "tgt"))
    extra = tuple(spelled_as_unknown(src.model, src.names))
    src = replace(src, layout=replace(src.layout, n_unknown=len(extra)))
    if shared:
        tgt = replace(tgt, layout=src.layout)
    return Vocabularies(src, tgt, "separate" if separate else "joint", shared, extra)


def starting_from(both: Vocabularies, start: int) -> Vocabularies:
    """With the row `start` as bos; a row of its own if that one has another meaning, as <pad> has."""
    layout = both.tgt.layout
    bos = None if start in (layout.pad, layout.unk, layout.eos) else start
    tgt = replace(both.tgt, layout=replace(layout, bos=bos))
    src = replace(both.src, layout=replace(both.src.layout, bos=bos)) if both.shared else both.src
    return replace(both, src=src, tgt=tgt)


def languages(folder: Path) -> Languages:
    """Those that the tokenizer's config names."""
    options = _options(folder)
    src, tgt = options.get("source_lang"), options.get("target_lang")
    return Languages(str(src), str(tgt)) if src and tgt else Languages()


def write(folder: Path, bundle: Bundle, origin: Origin, *, separate: bool) -> None:
    """Write the bundle's tokenizers as a MarianMT folder has them."""
    sides = {"src": (bundle.src_tokenizer, origin.src), "tgt": (bundle.tgt_tokenizer, origin.tgt)}
    names = {}
    for side, (tokenizer, layout) in sides.items():
        model = read_spm(tokenizer.path)
        names[side] = original_names(model, layout)
        (folder / _SPM[side]).write_bytes(text_spm(model, layout))
    if not separate and names["src"] != names["tgt"]:
        raise MtkitError(f"{bundle.folder}: src.spm and tgt.spm differ, but the model has one matrix for both sides")
    for side, name in {"src": "vocab.json", "tgt": "target_vocab.json"}.items():
        if side == "src" or separate:
            _write_json(folder / name, {piece: row for row, piece in enumerate(names[side])})
    special = {"unk_token": origin.tgt.unk, "eos_token": origin.tgt.eos, "pad_token": origin.tgt.pad}
    options: dict[str, Any] = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": bundle.config.data.src_lang,
        "target_lang": bundle.config.data.tgt_lang,
        "separate_vocabs": separate,
        "model_max_length": 512,
        **{name: names["tgt"][row] for name, row in special.items() if row is not None},
    }
    _write_json(folder / _TOKENIZER, options)


def _read_side(path: Path, spm: Path, options: dict[str, Any]) -> Vocabulary:
    rows = read_json(path)
    if not all(isinstance(row, int) for row in rows.values()):
        raise DataError(f"{path}: not pieces with their ids")
    names = in_order(rows, path)
    found = {}
    for key, default in {"unk": "<unk>", "eos": "</s>", "pad": "<pad>"}.items():
        value = options.get(f"{key}_token", default)
        found[key] = value.get("content", default) if isinstance(value, dict) else value
    for key in ("unk", "eos"):
        if found[key] not in rows:
            raise DataError(f"{path}: the vocabulary has no {found[key]}")
    bos = rows.get("<s>")
    layout = Layout(len(names), rows[found["unk"]], rows[found["eos"]], rows.get(found["pad"]), bos)
    return Vocabulary(path, read_spm(spm), names, layout)


def _options(folder: Path) -> dict[str, Any]:
    path = folder / _TOKENIZER
    return read_json(path) if path.is_file() else {}


def _write_json(path: Path, values: dict[str, Any]) -> None:
    text = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8", newline="\n")

"""Read and write the vocabularies of a MarianMT folder (vocab.json, source.spm, target.spm)."""

import json
from pathlib import Path
from typing import Any

from mtkit.bundle import Bundle
from mtkit.errors import MtkitError
from mtkit.interop.huggingface.config import read_json, row_ids
from mtkit.interop.imported import Languages, Origin
from mtkit.interop.vocabulary import (
    Layout,
    Vocabularies,
    Vocabulary,
    in_order,
    original_names,
    read_spm,
    text_spm,
)

_TOKENIZER = "tokenizer_config.json"
_SPM = {"src": "source.spm", "tgt": "target.spm"}


def read(folder: Path, *, shared: bool) -> Vocabularies:
    """Read the vocabularies of both sides; shared: they have one matrix.

    Raises MtkitError if a file is missing, or if vocabularies with one matrix are separate.
    """
    options = _options(folder)
    separate = bool(options.get("separate_vocabs", False))
    if separate and shared:
        raise MtkitError(f"{folder / _TOKENIZER}: separate_vocabs: true, but the model has one matrix for both sides")
    files = {"src": folder / "vocab.json", "tgt": folder / ("target_vocab.json" if separate else "vocab.json")}
    src, tgt = (_read_side(files[side], folder / _SPM[side], options) for side in ("src", "tgt"))
    return Vocabularies.from_sides(src, tgt, "separate" if separate else "joint", shared=shared)


def languages(folder: Path) -> Languages:
    """Return the languages that the tokenizer's config names."""
    options = _options(folder)
    src, tgt = options.get("source_lang"), options.get("target_lang")
    return Languages(str(src), str(tgt)) if src and tgt else Languages()


def write(folder: Path, bundle: Bundle, origin: Origin, *, separate: bool) -> None:
    """Write the bundle's tokenizers in the form of a MarianMT folder."""
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
    names = in_order(row_ids(path), path)
    special = {}
    for key, default in {"unk": "<unk>", "eos": "</s>", "pad": "<pad>"}.items():
        value = options.get(f"{key}_token", default)
        special[key] = str(value.get("content", default) if isinstance(value, dict) else value)
    return Vocabulary(path, read_spm(spm), names, Layout.from_names(names, path, **special))


def _options(folder: Path) -> dict[str, Any]:
    path = folder / _TOKENIZER
    return read_json(path) if path.is_file() else {}


def _write_json(path: Path, values: dict[str, Any]) -> None:
    text = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8", newline="\n")

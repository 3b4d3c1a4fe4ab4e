"""`mtkit import`: a model of another system in; a bundle out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import check_new_folder
from mtkit.errors import MtkitError, UsageError
from mtkit.interop import bergamot, huggingface, imported, marian, marian_vocabulary

_NPZ = b"PK\x03\x04"  # a zip file
_NPY = b"\x93NUMPY"


def import_model(
    path: Annotated[Path, typer.Argument(help="Marian's .npz or .bin model, or a folder of Hugging Face's MarianMT.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the new bundle.")],
    src_vocab: Annotated[
        Path | None, typer.Option(help="Marian: the source's vocabulary, .spm or .yml; default: as its decoder config.")
    ] = None,
    tgt_vocab: Annotated[Path | None, typer.Option(help="The target's; default: --src-vocab.")] = None,
    src_spm: Annotated[
        Path | None, typer.Option(help="With .yml: the source's SentencePiece model; default: source.spm beside it.")
    ] = None,
    tgt_spm: Annotated[Path | None, typer.Option(help="The target's; default: target.spm.")] = None,
    src_lang: Annotated[str | None, typer.Option(help="Name of the source language, for people.")] = None,
    tgt_lang: Annotated[str | None, typer.Option(help="Name of the target language.")] = None,
) -> None:
    """Make a bundle of a model of Marian's or of Hugging Face's MarianMT (OPUS-MT).

    What the file is shows in its content. The folder of the bundle is printed.
    """
    if not path.exists():
        raise MtkitError(f"{path}: no such file or folder")
    if (src_lang is None) != (tgt_lang is None):
        raise UsageError("give both --src-lang and --tgt-lang, or neither")
    if src_vocab is None and any(option is not None for option in (tgt_vocab, src_spm, tgt_spm)):
        raise UsageError("--tgt-vocab, --src-spm and --tgt-spm need --src-vocab, too")
    check_new_folder(out)
    kind = _kind(path)
    if kind != "npz" and src_vocab is not None:
        raise UsageError(f"{path}: its vocabularies are those beside it: leave --src-vocab out")
    if kind == "folder":
        _import_folder(path, out, src_lang, tgt_lang)
    elif kind == "npz":
        _import_npz(path, out, (src_vocab, tgt_vocab, src_spm, tgt_spm), src_lang, tgt_lang)
    else:
        _import_bin(path, out, src_lang, tgt_lang)
    print(out)


def _kind(path: Path) -> str:
    """folder, npz or bin, by content."""
    if path.is_dir():
        if (path / "config.json").is_file():
            return "folder"
        if any(path.glob("*.bin")):
            return "bin"
        raise MtkitError(f"{path}: no model in it: neither Hugging Face's config.json nor a .bin of Marian")
    with path.open("rb") as file:
        start = file.read(8)
    if start.startswith(_NPZ):
        return "npz"
    if start == (1).to_bytes(8, "little"):  # the version of Marian's binary format
        return "bin"
    hint = "a single numpy array" if start.startswith(_NPY) else f"it starts with {start!r}"
    raise MtkitError(f"{path}: neither an .npz nor a .bin model of Marian ({hint})")


def _import_folder(path: Path, out: Path, src_lang: str | None, tgt_lang: str | None) -> None:
    named = imported.Languages(src_lang, tgt_lang) if src_lang and tgt_lang else None
    huggingface.import_model(path, out, named)


def _import_npz(
    path: Path, out: Path, vocabularies: tuple[Path | None, ...], src_lang: str | None, tgt_lang: str | None
) -> None:
    src, tgt, src_spm, tgt_spm = vocabularies
    sources = marian_vocabulary.Sources(src, tgt or src, src_spm, tgt_spm) if src else None
    marian.import_model(path, out, sources, imported.Languages(src_lang, tgt_lang) if src_lang and tgt_lang else None)


def _import_bin(path: Path, out: Path, src_lang: str | None, tgt_lang: str | None) -> None:
    bergamot.import_model(path, out, imported.Languages(src_lang, tgt_lang) if src_lang and tgt_lang else None)

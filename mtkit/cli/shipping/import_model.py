"""`mtkit import`: convert another system's model to a bundle."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import check_new_folder
from mtkit.console import log
from mtkit.errors import MtkitError, UsageError

_ZIP = b"PK\x03\x04"
_PACKAGE = ".argosmodel"
_NPY = b"\x93NUMPY"


VOCABULARY = "Vocabulary of a Marian .npz model or a CTranslate2 folder"

ModelArgument = Annotated[
    Path,
    typer.Argument(
        metavar="PATH",
        help="Marian model (.npz or .bin), folder of Hugging Face (MarianMT, M2M-100, NLLB) or CTranslate2, or Argos "
        "package.",
    ),
]
SrcVocabOption = Annotated[
    Path | None,
    typer.Option(
        rich_help_panel=VOCABULARY, help="Source vocabulary, .spm or .yml. Default: from the model's decoder config."
    ),
]
TgtVocabOption = Annotated[
    Path | None, typer.Option(rich_help_panel=VOCABULARY, help="Target vocabulary. Default: --src-vocab.")
]
SrcSpmOption = Annotated[
    Path | None,
    typer.Option(
        rich_help_panel=VOCABULARY,
        help="Source SentencePiece model of a .yml vocabulary or a CTranslate2 folder. Default: source.spm next to it.",
    ),
]
TgtSpmOption = Annotated[
    Path | None,
    typer.Option(
        rich_help_panel=VOCABULARY,
        help="Target SentencePiece model. Default: target.spm next to it; CTranslate2: --src-spm.",
    ),
]
SrcLangOption = Annotated[str | None, typer.Option(metavar="CODE", help="Source language, such as en.")]
TgtLangOption = Annotated[str | None, typer.Option(metavar="CODE", help="Target language, such as fr.")]


def import_model(
    path: ModelArgument,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="The new bundle.")],
    src_vocab: SrcVocabOption = None,
    tgt_vocab: TgtVocabOption = None,
    src_spm: SrcSpmOption = None,
    tgt_spm: TgtSpmOption = None,
    src_lang: SrcLangOption = None,
    tgt_lang: TgtLangOption = None,
) -> None:
    """Convert a model of Marian, Hugging Face (OPUS-MT, NLLB), CTranslate2 or Argos Translate to a bundle.

    The command detects the format from the content, and prints the folder of the bundle. A model of many languages
    needs the usual ones; `mtkit translate` can choose others.
    """
    if not path.exists():
        from mtkit.bundle import hint_of_hub

        hint = hint_of_hub(path)
        raise MtkitError(f"{path}: no such file or folder{f'; {hint}' if hint else ''}")
    if (src_lang is None) != (tgt_lang is None):
        raise UsageError("give both --src-lang and --tgt-lang, or neither")
    check_new_folder(out)
    kind = _kind(path)
    _check_files(path, kind, src_vocab, tgt_vocab, src_spm, tgt_spm)

    from mtkit.bundle import read_bundle
    from mtkit.interop import argos, imported, marian, marian_vocabulary
    from mtkit.interop.bergamot import folder as bergamot
    from mtkit.interop.ctranslate2 import folder as ctranslate2
    from mtkit.interop.huggingface import folder as huggingface

    languages = imported.Languages(src_lang, tgt_lang) if src_lang and tgt_lang else None
    if kind == "ctranslate2":
        tokenizers = ctranslate2.Tokenizers(src_spm, tgt_spm or src_spm) if src_spm else None
        ctranslate2.import_model(path if path.is_dir() else path.parent, out, languages, tokenizers)
    elif kind == "argos":
        argos.import_model(path, out, languages)
    elif kind == "folder":
        huggingface.import_model(path, out, languages)
    elif kind == "bin":
        bergamot.import_model(path, out, languages)
    else:
        sources = marian_vocabulary.Sources(src_vocab, tgt_vocab or src_vocab, src_spm, tgt_spm) if src_vocab else None
        marian.import_model(path, out, sources, languages)
    if remark := imported.remark_on_tags(read_bundle(out)):
        log.info(remark)
    print(out)


def _check_files(
    path: Path, kind: str, src_vocab: Path | None, tgt_vocab: Path | None, src_spm: Path | None, tgt_spm: Path | None
) -> None:
    """Raise UsageError for files that a model of this kind does not need, or needs together with others."""
    if kind != "npz" and (src_vocab is not None or tgt_vocab is not None):
        raise UsageError(f"{path}: mtkit reads the vocabularies of this model from its folder: leave out --src-vocab")
    if kind == "npz" and src_vocab is None and any(option is not None for option in (tgt_vocab, src_spm, tgt_spm)):
        raise UsageError("--tgt-vocab, --src-spm and --tgt-spm need --src-vocab, too")
    if kind == "ctranslate2" and src_spm is None and tgt_spm is not None:
        raise UsageError("--tgt-spm needs --src-spm, too")
    if kind not in ("npz", "ctranslate2") and (src_spm is not None or tgt_spm is not None):
        raise UsageError(f"{path}: mtkit reads the tokenizers of this model from its folder: leave out --src-spm")


def is_foreign(path: Path) -> bool:
    """Return whether the path is a model that this command reads, and not a run or bundle folder."""
    from mtkit.bundle import MANIFEST

    if not path.exists() or any((folder / MANIFEST).is_file() for folder in (path, path / "model")):
        return False
    try:
        _kind(path)
    except MtkitError:
        return False
    return True


def _kind(path: Path) -> str:
    """Return "ctranslate2", "argos", "folder" (Hugging Face), "npz" or "bin", depending on the content."""
    from mtkit.bundle import MANIFEST

    if _is_ctranslate2(path):
        return "ctranslate2"
    if path.is_dir():
        if (path / "config.json").is_file():
            return "folder"
        if any(path.glob("*.bin")):
            return "bin"
        if (path / MANIFEST).is_file():
            raise MtkitError(f"{path}: already a model of mtkit; use it with --model {path}")
        raise MtkitError(
            f"{path}: contains no model: neither a config.json of Hugging Face nor a .bin of Marian or CTranslate2"
        )
    with path.open("rb") as file:
        start = file.read(8)
    if start.startswith(_ZIP) or path.suffix == _PACKAGE:
        return "argos" if _is_package(path) else "npz"
    if start == (1).to_bytes(8, "little"):  # the version of Marian's binary format
        return "bin"
    hint = "a single numpy array" if start.startswith(_NPY) else f"it starts with {start!r}"
    raise MtkitError(f"{path}: neither an .npz nor a .bin model of Marian ({hint})")


def _is_ctranslate2(path: Path) -> bool:
    """Whether the path is a folder of CTranslate2, perhaps without its vocabulary, or the model file in it."""
    folder = path if path.is_dir() else path.parent
    is_whole = path.is_dir() or path.name == "model.bin"
    has_others = any(folder.glob("*_vocabulary.*")) or (folder / "config.json").is_file()
    return is_whole and (folder / "model.bin").is_file() and has_others


def _is_package(path: Path) -> bool:
    """Whether the zip file is a package of Argos Translate; other zip files may be Marian's."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("metadata.json") for name in archive.namelist())
    except (OSError, ValueError, zipfile.BadZipFile):
        return path.suffix == _PACKAGE

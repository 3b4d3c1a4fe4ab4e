"""`mtkit import`: convert another system's model to a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import check_new_folder
from mtkit.errors import MtkitError, UsageError

_NPZ = b"PK\x03\x04"  # a zip file
_NPY = b"\x93NUMPY"


VOCABULARY = "Vocabulary of a Marian .npz model"

ModelArgument = Annotated[
    Path, typer.Argument(metavar="PATH", help="Marian model (.npz or .bin), or MarianMT folder of Hugging Face.")
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
        help="Source SentencePiece model of a .yml vocabulary. Default: source.spm in the same folder.",
    ),
]
TgtSpmOption = Annotated[
    Path | None,
    typer.Option(
        rich_help_panel=VOCABULARY, help="Target SentencePiece model. Default: target.spm in the same folder."
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
    """Convert a Marian model, or a Hugging Face MarianMT model (OPUS-MT), to a bundle.

    The command detects the format from the content, and prints the folder of the bundle.
    """
    if not path.exists():
        from mtkit.bundle import hint_of_hub

        hint = hint_of_hub(path)
        raise MtkitError(f"{path}: no such file or folder{f'; {hint}' if hint else ''}")
    if (src_lang is None) != (tgt_lang is None):
        raise UsageError("give both --src-lang and --tgt-lang, or neither")
    if src_vocab is None and any(option is not None for option in (tgt_vocab, src_spm, tgt_spm)):
        raise UsageError("--tgt-vocab, --src-spm and --tgt-spm need --src-vocab, too")
    check_new_folder(out)
    kind = _kind(path)
    if kind != "npz" and src_vocab is not None:
        raise UsageError(f"{path}: mtkit reads the vocabularies of this model from its folder: leave out --src-vocab")

    from mtkit.interop import bergamot, huggingface, imported, marian, marian_vocabulary

    languages = imported.Languages(src_lang, tgt_lang) if src_lang and tgt_lang else None
    if kind == "folder":
        huggingface.import_model(path, out, languages)
    elif kind == "bin":
        bergamot.import_model(path, out, languages)
    else:
        sources = marian_vocabulary.Sources(src_vocab, tgt_vocab or src_vocab, src_spm, tgt_spm) if src_vocab else None
        marian.import_model(path, out, sources, languages)
    print(out)


def _kind(path: Path) -> str:
    """Return "folder", "npz" or "bin", depending on the content."""
    if path.is_dir():
        if (path / "config.json").is_file():
            return "folder"
        if any(path.glob("*.bin")):
            return "bin"
        raise MtkitError(f"{path}: contains no model: neither a config.json of Hugging Face nor a .bin of Marian")
    with path.open("rb") as file:
        start = file.read(8)
    if start.startswith(_NPZ):
        return "npz"
    if start == (1).to_bytes(8, "little"):  # the version of Marian's binary format
        return "bin"
    hint = "a single numpy array" if start.startswith(_NPY) else f"it starts with {start!r}"
    raise MtkitError(f"{path}: neither an .npz nor a .bin model of Marian ({hint})")

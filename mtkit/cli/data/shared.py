"""Arguments and options that the commands of `mtkit data` have in common."""

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import file_named

CorporaArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="CORPUS",
        help="Files with both sides (.tsv, .csv, .jsonl, .tmx, .xlf, .xliff, .po, .zip as from OPUS), two text files "
        "in a row (train.en train.de), or configs (.yaml), whose data.train is meant. All but .zip may end in .gz, "
        ".xz or .zst.",
    ),
]


def files_named(param: typer.CallbackParam, outputs: list[Path] | None) -> list[Path] | None:
    """Check the names and folders of output files, so that a mistake shows before long work."""
    for path in outputs or []:
        file_named()(param, path)
    return outputs


def plain_text(path: Path) -> Path:
    """Check that the first of two text files is one; for a single file with both sides, the error says what to do."""
    from mtkit.corpora.cleaning import sources

    sources.check_plain_text(path)
    return path


OutputsOption = Annotated[
    list[Path],
    typer.Option(
        "--output",
        "-o",
        callback=files_named,
        help="File to write: .tsv, .csv, .jsonl or .tmx. Or, with the option given twice, two text files, source "
        "first. May end in .gz, .xz or .zst, too.",
    ),
]
LangsOption = Annotated[
    str | None,
    typer.Option(
        metavar="SRC-TGT",
        help="Source and target language, such as en-de. Default: from the names of the files, a config, or the "
        "languages that a file has.",
    ),
]

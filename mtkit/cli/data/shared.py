"""Arguments and options that the commands of `mtkit data` share."""

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import file_named

CorporaArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="CORPUS",
        help="Files with both sides (.tsv, .csv, .jsonl, .tmx, .xlf, .xliff, .po, .zip as from OPUS), two text "
        "files in a row (train.en train.de), or configs (.yaml), of which the command reads data.train. All but "
        ".zip may end in .gz, .xz or .zst.",
    ),
]


def files_named(param: typer.CallbackParam, outputs: list[Path] | None) -> list[Path] | None:
    """Check the names and folders of output files, so that mistakes show before hours of work."""
    for path in outputs or []:
        file_named()(param, path)
    return outputs


def plain_text(path: Path) -> Path:
    """Check that the first of two text files is plain text; if it holds both sides, the error gives the remedy."""
    from mtkit.corpora.cleaning import sources

    sources.check_plain_text(path)
    return path


OutputsOption = Annotated[
    list[Path],
    typer.Option(
        "--output",
        "-o",
        callback=files_named,
        help="Write to this .tsv, .csv, .jsonl or .tmx file, or to two text files, source first, if you give the "
        "option twice. May also end in .gz, .xz or .zst.",
    ),
]
LangsOption = Annotated[
    str | None,
    typer.Option(
        metavar="SRC-TGT",
        help="Source and target language, such as en-de. Default: from the names of the files, from a config, or "
        "from the contents of a file.",
    ),
]

"""`mtkit data convert`: convert corpora to another format."""

from __future__ import annotations

from typing import Annotated

import typer

from mtkit.cli.data.shared import CorporaArgument, LangsOption, OutputsOption
from mtkit.console import log
from mtkit.pair_files import encodings


def convert(
    corpora: CorporaArgument,
    output: OutputsOption,
    langs: LangsOption = None,
    encoding: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[,NAME]",
            help="Encoding of text files that are not in UTF-8, such as cp1252; utf-8,cp1252 tries both on each line.",
        ),
    ] = None,
) -> None:
    """Convert corpora to another format.

    The command logs how many units it read and wrote, and how many it left out and why: no text in one of the
    languages, untranslated, fuzzy or obsolete. Line breaks and tabs inside a text become spaces.
    """
    from mtkit.corpora import convert as conversion
    from mtkit.corpora.cleaning import sources

    names = encoding.split(",") if encoding else []
    encodings.check_encodings(names)
    files, languages = sources.find_corpora(corpora, langs, names)
    tally = conversion.convert(files, languages, output, names)
    log.info(f"{' '.join(map(str, output))}: {tally}")

"""`mtkit memory build`: index translation memories for fast searches."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.data.shared import CorporaArgument, LangsOption
from mtkit.cli.options import file_named
from mtkit.console import counted, log


def build(
    corpora: CorporaArgument,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", callback=file_named(), help="Write to this file (SQLite)."),
    ],
    langs: LangsOption = None,
) -> None:
    """Index translation memories, or any corpora, for `decode.memory` and `mtkit memory search`.

    Equal pairs become one unit. If a source has several translations, the most frequent one is used, and of equally
    frequent ones the latest.
    """
    from mtkit.corpora.cleaning import sources
    from mtkit.data import corpus
    from mtkit.memory import index
    from mtkit.pair_files.corpus_files import check_distinct

    files, languages = sources.find_corpora(corpora, langs)
    inputs = [*corpora, *(path for one in files for path in one.paths)]
    check_distinct([("--output", output)], inputs)
    n_units = index.write_memory(output, corpus.read_pairs(files), languages)
    log.info(f"{output}: {counted(n_units, 'unit')}, {'-'.join(languages)}")

"""`mtkit data select`: choose the lines of a text that are worth translating."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.lines import arriving_windows, line_writer
from mtkit.cli.options import InputOption, OutputOption
from mtkit.console import counted, log

_AT_ONCE = 10_000  # lines


def select(
    n_lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="Number of lines to choose.")],
    input_path: InputOption = None,
    output: OutputOption = None,
    known: Annotated[
        list[Path] | None,
        typer.Option(
            "--known",
            metavar="FILE",
            help="Text that already has translations, one sentence a line, such as the source side of the training "
            "text; repeat for several. The command looks for what is not in there.",
        ),
    ] = None,
) -> None:
    """Choose the lines of a text whose translations add most: frequent words and word pairs that are new.

    The weight of a line is the sum of the frequencies of its new words and pairs, divided by its length (Eck et al.
    2005). The best line comes first, so that the first half of the output is the choice for half as many lines. The
    text must fit into memory.
    """
    from mtkit.corpora import select as selection
    from mtkit.pair_files import corpus_files
    from mtkit.pair_files.lines import read_lines

    inputs = [*filter(None, [input_path]), *(known or [])]
    corpus_files.check_distinct([("--output", output)], inputs)
    windows = arriving_windows(_AT_ONCE) if input_path is None else [read_lines(input_path)]
    texts = [line for line in chain.from_iterable(windows) if line.strip()]
    made = selection.select_lines(texts, n_lines, chain.from_iterable(map(read_lines, known or [])))
    with line_writer(output) as write:
        for index in made.indices:
            write(texts[index])
    log.info(
        f"{len(made.indices):,} of {counted(len(texts), 'line')}: they raise the share of the text's words and word "
        f"pairs that have a translation from {made.coverage_before:.1%} to {made.coverage:.1%}"
    )
    if len(made.indices) < min(n_lines, len(texts)):
        log.info("the other lines contain no further word or word pair")

"""`mtkit memory search`: find the units of a translation memory that are most like a text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import JsonOption
from mtkit.config.decoding import LEAST_MATCH


def search(
    memory: Annotated[Path, typer.Argument(metavar="FILE", help="A memory that `mtkit memory build` has written.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A sentence in the source language.")],
    threshold: Annotated[
        int, typer.Option(min=LEAST_MATCH, max=100, help="Lowest score of a match in percent; 100 means equal.")
    ] = 70,
    n: Annotated[int, typer.Option("-n", min=1, max=1000, help="Show at most this many matches.")] = 5,
    as_json: JsonOption = False,
) -> None:
    """Find the units of a translation memory that are most like a text.

    Prints the score in percent, source, target and origin of each, separated by tabs, the best first. The score is the
    share of words that need no change (1 - word edit distance / words of the longer text); only equal texts have 100 %.
    """
    from mtkit.memory.index import Memory

    for match in Memory.open(memory).search(text, threshold / 100, most=n):
        if as_json:
            print(json.dumps(match.as_json(), ensure_ascii=False))
        else:
            print(match.percent, match.src, match.tgt, match.place, sep="\t")

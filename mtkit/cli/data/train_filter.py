"""`mtkit data train-filter`: train a classifier that tells good pairs of a corpus from bad ones."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.data.shared import CorporaArgument, LangsOption
from mtkit.cli.options import SetOption, check_budget
from mtkit.console import log


def train_filter(
    corpora: CorporaArgument,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Run folder of the filter.")],
    budget: Annotated[
        str, typer.Option(metavar="TIME", help="Time limit of the whole command, such as 20m or 1h30m.")
    ] = "20m",
    pairs: Annotated[
        int, typer.Option(min=1000, metavar="N", help="Learn from at most N pairs, sampled evenly from the corpora.")
    ] = 200_000,
    langs: LangsOption = None,
    overrides: SetOption = None,
) -> None:
    """Train a filter: a model that reads both sides of a pair and estimates whether one translates the other.

    It learns from pairs that the rules of `mtkit data clean` keep, and from the same pairs with mistakes: another
    sentence's translation, another number or name, words lost, added or replaced, and so on. Give it the best part of
    your text. `mtkit data score` then scores any text in the two languages. The command prints the folder of the
    finished model; the same command resumes an interrupted training.
    """
    from mtkit.corpora.cleaning import sources

    since = time.monotonic()
    check_budget(budget)
    files, languages = sources.find_corpora(corpora, langs)
    sources.require_regular_files(files)

    from mtkit.corpora.filter import pair_filter
    from mtkit.runs import train as training

    cfg = pair_filter.prepare_run(output, files, languages, overrides or [], budget=budget, most=pairs)
    result = training.train(cfg, since)
    pair_filter.complete(result.bundle, output)
    log.info(f"to score text with it: mtkit data score CORPUS -o scores.txt --model {output}")
    print(result.bundle)

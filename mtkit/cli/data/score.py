"""`mtkit data score`: score with a trained filter how likely each pair of a corpus is good."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.data.shared import CorporaArgument, LangsOption
from mtkit.cli.options import OUTPUT, DecodeSetOption, DeviceOption, JsonOption, ModelOption, file_named
from mtkit.cli.sharing import (
    ExecutorOption,
    RayAddressOption,
    RestartOption,
    Where,
    WorkersOption,
)
from mtkit.console import log
from mtkit.cores import usable_cores


def score(
    corpora: CorporaArgument,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            callback=file_named(),
            rich_help_panel=OUTPUT,
            help="Write the scores to this file; may end in .gz, .xz or .zst.",
        ),
    ],
    model: ModelOption = None,
    langs: LangsOption = None,
    overrides: DecodeSetOption = None,
    device: DeviceOption = "auto",
    workers: WorkersOption = None,
    executor: ExecutorOption = "local",
    ray_address: RayAddressOption = None,
    restart: RestartOption = False,
    as_json: JsonOption = False,
) -> None:
    """Score how likely each pair is a good translation, with a filter from `mtkit data train-filter`.

    The output has one number from 0 to 1 per pair, one pair per line, for all corpora in order. `mtkit data clean`
    drops pairs below a limit (clean.score, clean.min_score); data.train[].scores in a config leaves them out of
    training. The same command resumes an interrupted job.
    """
    from mtkit import runtime
    from mtkit.corpora.cleaning import sources
    from mtkit.corpora.filter import pair_scores
    from mtkit.pair_files import corpus_files

    files = pair_scores.read_filter(model, overrides or [])
    log.info(f"model: {files.folder}")
    found = pair_scores.corpora_for(files, corpora, langs)
    sources.require_regular_files(found)
    inputs = [*corpora, *(path for corpus in found for path in corpus.paths)]
    corpus_files.check_distinct([("--output", output)], inputs)
    if workers is None and executor == "local" and runtime.choose_device(device).type != "cpu":
        workers = 1  # a GPU is busy with one process
    result = pair_scores.run_scoring(
        found,
        files,
        output,
        overrides=overrides or [],
        device=device,
        executor=Where(workers, executor, ray_address).executor_for(usable_cores()),
        restart=restart,
    )
    if as_json:
        print(json.dumps(dataclasses.asdict(result)))
        return
    for line in pair_scores.table(result):
        log.info(line)
    log.info(
        "read the pairs with the lowest scores first; to drop those below a limit, such as 0.2: "
        f"mtkit data clean ... --set clean.score={output} --set clean.min_score=0.2"
    )

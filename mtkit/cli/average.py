"""`mtkit average`: a run's checkpoints, or several models, in; a bundle with the mean of their weights out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit import bundle
from mtkit.cli.options import check_new_folder
from mtkit.console import log
from mtkit.errors import UsageError
from mtkit.runs import averaging


def average(
    models: Annotated[list[Path], typer.Argument(help="One run, or several runs or bundles of one architecture.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the new bundle.")],
    checkpoints: Annotated[
        str | None,
        typer.Option(metavar="STEPS", help="Which of the run's checkpoints, such as 1000,1500; default: all it keeps."),
    ] = None,
) -> None:
    """Average the weights of one run's checkpoints, or of several models that were fine-tuned from the same one.

    Models that were trained apart from the beginning have nothing in common that could be averaged: use them as an
    ensemble (several --model). Whether the mean is better, `mtkit evaluate --model OUT` tells.
    """
    check_new_folder(out)
    if checkpoints is not None and len(models) > 1:
        raise UsageError("--checkpoints chooses among those of one run; several were given")
    steps = _steps(checkpoints)

    if len(models) == 1:
        averaged = averaging.average_checkpoints(models[0], steps, out)
        log.info(f"{out}: the mean of the weights of step {', '.join(map(str, averaged))}")
    else:
        averaging.average_bundles([bundle.find_model(model) for model in models], out)
        log.info(f"{out}: the mean of the weights of {len(models)} models")
    print(out)


def _steps(text: str | None) -> list[int]:
    try:
        return [] if text is None else [int(number) for number in text.split(",")]
    except ValueError:
        raise UsageError(f"--checkpoints {text}: give steps with commas between them, such as 1000,1500") from None

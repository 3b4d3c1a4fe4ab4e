"""`mtkit average`: write a bundle with the mean weights of a run's checkpoints, or of several models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import check_new_folder
from mtkit.console import counted, log
from mtkit.errors import UsageError


def average(
    models: Annotated[
        list[Path], typer.Argument(metavar="FOLDER", help="One run, or several runs or bundles of one architecture.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="The new bundle.")],
    checkpoints: Annotated[
        str | None,
        typer.Option(
            metavar="STEPS", help="Steps of the run's checkpoints to average, such as 1000,1500. Default: all."
        ),
    ] = None,
) -> None:
    """Average the weights of one run's checkpoints, or of several models that were fine-tuned from the same one.

    Do not average models that were trained from different initial weights; use them as an ensemble (several --model).
    Run `mtkit evaluate --model OUT` to see whether the mean is better.
    """
    from mtkit import bundle

    check_new_folder(out)
    if checkpoints is not None and len(models) > 1:
        raise UsageError(f"--checkpoints needs a single run, but you gave {len(models)} folders; leave it out")
    steps = _steps(checkpoints)

    from mtkit.runs import averaging

    if len(models) == 1:
        averaged = averaging.average_checkpoints(models[0], steps, out)
        log.info(f"{out}: wrote the mean of the weights of step {', '.join(map(str, averaged))}")
    else:
        averaging.average_bundles([bundle.find_model(model) for model in models], out)
        log.info(f"{out}: wrote the mean of the weights of {counted(len(models), 'model')}")
    print(out)


def _steps(text: str | None) -> list[int]:
    try:
        return [] if text is None else [int(number) for number in text.split(",")]
    except ValueError:
        raise UsageError(f"--checkpoints {text}: give steps separated by commas, such as 1000,1500") from None

"""`mtkit make-student`: make a small, fast student of a model, and export it for browsers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import check_budget, check_other_folder
from mtkit.config.schema import Preset
from mtkit.errors import UsageError


def make_student(
    teacher: Annotated[Path, typer.Option(metavar="FOLDER", help="Teacher, a run or bundle.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for the student's run; resumes there.")
    ],
    budget: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Wall time of translating and training, such as 30m or 2h; the export comes after it."
        ),
    ],
    shape: Annotated[Preset, typer.Option(help="Shape of the student, as in the key `model`.")] = "student",
    text: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also learn from this text in the source language, one sentence a line."),
    ] = None,
) -> None:
    """Make a small, fast student of a model, and export it for browsers.

    The teacher translates its training text, and that of --text, in at most a third of the budget; the student trains
    in the rest. Of five translations it learns the one most similar to the reference, or for --text the teacher's best.
    If there is no time for all lines, it learns the others of the training text from their references. If the training
    text is missing, it learns that of --text alone.
    FOLDER/model is the student, and FOLDER/browser contains it in Bergamot's format. The command prints the dev BLEU,
    the size of the weights, and the speed of both models; FOLDER/report.html has a picture of them, with the teacher's
    other students next to FOLDER. The same command resumes; a longer budget trains for longer.
    """
    since = time.monotonic()
    check_other_folder(out)
    check_budget(budget)
    if text is not None and not text.is_file():
        raise UsageError(f"--text {text}: no such file")

    from mtkit.runs.students import make

    made = make.make_student(teacher, out, budget, shape, text, since)
    print(f"{'':<8}{'dev BLEU':>9}{'MB':>7}{'sentences/s':>13}{'words/s':>9}  (of the source, one core)")
    for name, figures in (("teacher", made.teacher_figures), ("student", made.figures)):
        print(
            f"{name:<8}{figures.bleu:>9.2f}{figures.megabytes:>7.1f}{figures.sentences_per_s:>13.1f}{figures.words_per_s:>9,.0f}"
        )
    print(made.bundle)
    if made.browser is not None:
        print(made.browser)

"""`mtkit corrections`: what users of a service suggested, and what becomes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from mtkit.console import counted, log
from mtkit.errors import UsageError
from mtkit.serving import correction_file

FileOption = Annotated[
    Path,
    typer.Option("--file", metavar="FILE", help="The file that corrections.file of the service's settings names."),
]
IdsArgument = Annotated[list[int], typer.Argument(metavar="ID...", help="Numbers, as `mtkit corrections list` prints.")]
StateOption = Annotated[
    Literal["held", "vetted", "accepted", "rejected", "all"],
    typer.Option(
        "--state",
        help="Of which state: held by a check, vetted by all checks, accepted or rejected by the operator.",
    ),
]


def print_list(file: FileOption, state: StateOption = "all") -> None:
    """List corrections, the newest last, separated by tabs.

    The service takes what is accepted or rejected at once, without a restart.
    """
    found = correction_file.read_file(file, state)
    print("id", "state", "languages", "text", "suggestion", "caller", "created", "reasons", sep="\t")
    for one in found:
        texts = (text.replace("\n", "\\n") for text in (one.text, one.suggestion))
        print(one.id, one.state, f"{one.src}-{one.tgt}", *texts, one.caller, one.created, one.reasons, sep="\t")


def accept(ids: IdsArgument, file: FileOption) -> None:
    """Accept corrections: they act for all callers."""
    correction_file.decide(file, ids, "accepted")


def reject(ids: IdsArgument, file: FileOption) -> None:
    """Reject corrections: they act for nobody, also if they are suggested again."""
    correction_file.decide(file, ids, "rejected")


def export(
    file: FileOption,
    src: Annotated[str, typer.Option("--src", metavar="CODE", help="Language of the texts, such as en.")],
    tgt: Annotated[str, typer.Option("--tgt", metavar="CODE", help="Language of the translations.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="TSV file to write.")],
    state: Annotated[
        Literal["accepted", "vetted"],
        typer.Option(help="accepted: what the operator accepted; vetted: also what only passed the checks."),
    ] = "accepted",
) -> None:
    """Write corrections as a corpus to train on, a pair of text and translation on each line, without doubles."""
    n_pairs = correction_file.export(file, output, src, tgt, with_vetted=state == "vetted")
    if not n_pairs:
        raise UsageError(f"{file} has no {state} corrections of {src}-{tgt}; see `mtkit corrections list`")
    log.info(f"{output}: {counted(n_pairs, 'pair')}")

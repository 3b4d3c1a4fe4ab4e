"""`mtkit corrections`: list, accept, reject and export the corrections that users of a service suggest."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mtkit.cli.options import JsonOption
from mtkit.console import counted, log
from mtkit.errors import UsageError
from mtkit.pair_files import compression
from mtkit.text.characters import tidied

if TYPE_CHECKING:
    from mtkit.serving.records import corrections as serving

FileOption = Annotated[
    Path,
    typer.Option("--file", metavar="FILE", help="File of corrections: corrections.file in the service's settings."),
]
IDS = typer.Argument(metavar="ID", help="Numbers of suggestions, from `list`.")


def print_list(
    file: FileOption,
    state: Annotated[
        Literal["held", "vetted", "accepted", "rejected"] | None,
        typer.Option(help="Show only suggestions in this state."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the suggestions of users, separated by tabs.

    A suggestion is held if checks such as the rules of `mtkit data clean` doubt it, for the reasons in the column
    `reasons`; otherwise it is vetted. You then accept or reject it.
    """
    from mtkit.serving.records import corrections as serving

    found = _open(file).list(serving.STATES if state is None else (state,))
    if as_json:
        print(json.dumps([asdict(one) for one in found], indent=2, ensure_ascii=False))
        return
    print("id", "state", "languages", "caller", "source", "suggestion", "translation", "reasons", sep="\t")
    for one in found:
        cells = (one.source, one.suggestion, one.translation or "", one.reasons.replace("\n", "; "))
        print(one.id, one.state, f"{one.src}-{one.tgt}", one.caller, *map(_shown, cells), sep="\t")


def _shown(text: str) -> str:
    """Return a text for one line of a terminal: control characters, which could change the display, become escapes."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda found: f"\\x{ord(found[0]):02x}", tidied(text))


def accept(
    file: FileOption,
    ids: Annotated[list[int] | None, IDS] = None,
    all_vetted: Annotated[bool, typer.Option("--all-vetted", help="Accept all vetted suggestions.")] = False,
) -> None:
    """Accept suggestions, so that they apply to all callers. A running service uses them within seconds."""
    if bool(ids) == all_vetted:
        raise UsageError("give the numbers of the suggestions, or --all-vetted")
    store = _open(file)
    chosen = ids or [one.id for one in store.list(("vetted",))]
    store.decide("accepted", chosen)
    log.info(f"accepted {counted(len(chosen), 'suggestion')}")


def reject(ids: Annotated[list[int], IDS], file: FileOption) -> None:
    """Reject suggestions, also accepted ones. A running service stops using them within seconds."""
    _open(file).decide("rejected", ids)
    log.info(f"rejected {counted(len(ids), 'suggestion')}")


def export(
    file: FileOption,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Write to this TSV file: source, suggestion.")
    ],
    vetted: Annotated[bool, typer.Option("--vetted", help="Include suggestions that await a decision.")] = False,
    src_lang: Annotated[str | None, typer.Option(help="Export only suggestions from this source language.")] = None,
    tgt_lang: Annotated[str | None, typer.Option(help="Export only suggestions into this target language.")] = None,
) -> None:
    """Write the accepted corrections as a corpus for `mtkit train`: add {tsv: FILE} to data.train."""
    from mtkit.pair_files import corpus_files
    from mtkit.serving.records import corrections as serving

    corpus_files.check_distinct([("--output", output)], [file])
    found = _open(file).list(("vetted", "accepted") if vetted else ("accepted",))
    pairs = serving.pairs_to_train(found, src_lang, tgt_lang)
    with compression.open_output(output) as lines:
        lines.writelines(f"{source}\t{suggestion}\n" for source, suggestion in pairs)
    log.info(f"written: {output}, {counted(len(pairs), 'pair')}")


def _open(file: Path) -> serving.CorrectionFile:
    from mtkit.serving.records import corrections as serving

    if not file.is_file():
        raise UsageError(f"{file}: no such file; use the path in corrections.file of the service's settings")
    return serving.CorrectionFile(file)

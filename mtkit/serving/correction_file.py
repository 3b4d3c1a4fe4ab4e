"""Look at a file of corrections, decide on them, and make a corpus of them; a service may use it meanwhile."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from mtkit.errors import UsageError
from mtkit.files import write_text
from mtkit.languages import normal_code
from mtkit.serving.corrections import Correction, State, open_file, read
from mtkit.serving.database import Database


def _open(path: Path) -> Database:
    if not path.is_file():
        raise UsageError(f"{path}: no such file; name the one that corrections.file of the service's settings names")
    return open_file(path)


def read_file(path: Path, state: State | Literal["all"]) -> list[Correction]:
    """Return the corrections in a state, or all, the newest last. Raises MtkitError if the file is none."""
    states: tuple[State, ...] = get_args(State) if state == "all" else (state,)
    database = _open(path)
    try:
        return database.transact(lambda connection: read(connection, states))
    finally:
        database.close()


def decide(path: Path, ids: Sequence[int], state: State) -> None:
    """Put corrections into a state: all, or none if one does not exist.

    Raises UsageError for ids that do not exist.
    """
    database = _open(path)

    def update(connection: sqlite3.Connection) -> None:
        for id in ids:
            if not connection.execute("UPDATE correction SET state = ? WHERE id = ?", (state, id)).rowcount:
                raise UsageError(f"{path}: no correction {id}; see `mtkit corrections list`")

    try:
        database.transact(update)
    finally:
        database.close()


def export(path: Path, target: Path, src: str, tgt: str, *, with_vetted: bool) -> int:
    """Write the corrections between two languages as TSV, the newest of each text; return how many.

    Those that the operator accepted come before others of the same text. Without any, nothing is written.
    """
    pair = normal_code(src), normal_code(tgt)
    pairs: dict[str, str] = {}
    for state in ("vetted", "accepted") if with_vetted else ("accepted",):
        for one in read_file(path, state):
            if (one.src, one.tgt) == pair:
                pairs[one.text] = " ".join(one.suggestion.split())
    if pairs:
        write_text(target, "".join(f"{text}\t{suggestion}\n" for text, suggestion in pairs.items()))
    return len(pairs)

"""Corrections that users suggest: kept in a SQLite file, vetted, and looked up for each text and sentence.

A suggestion is `held` if a check fails, else `vetted`; the operator makes it `accepted` or `rejected`.
An accepted one acts for all callers. A vetted one acts for the caller who suggested it, if the settings allow that.

Callers without a key are one caller: what one of them suggests would act for all of them. So their suggestions wait
for a person, unless only users of this machine can reach the service.
"""

import asyncio
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, get_args

from mtkit.config.serving import ServeConfig
from mtkit.errors import UsageError
from mtkit.serving.caller import Caller
from mtkit.serving.records.database import Database
from mtkit.serving.records.vetting import doubts_about
from mtkit.serving.refusals import BadRequest, Refusal, TooLarge, TooManyRequests
from mtkit.text.characters import tidied

State = Literal["held", "vetted", "accepted", "rejected"]
STATES: tuple[State, ...] = get_args(State)

MOST_CHARS = 2_000  # of a source and of a suggestion
_MOST_OF_A_CALLER = 2_000  # suggestions that wait for a person
_MOST = 20_000  # of all callers together; as many rejected ones are kept
_LOOK_EVERY_S = 1.0  # for what `mtkit corrections` has changed
_SCHEMA = (
    """
    CREATE TABLE correction (
        -- never used again: a person accepts the suggestion that was listed, not one that has taken its place
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        state TEXT NOT NULL,
        reasons TEXT NOT NULL,
        src TEXT NOT NULL,
        tgt TEXT NOT NULL,
        key TEXT NOT NULL,
        source TEXT NOT NULL,
        translation TEXT,
        suggestion TEXT NOT NULL,
        caller TEXT NOT NULL,
        time TEXT NOT NULL
    )
    """,
    "CREATE INDEX correction_of_source ON correction (src, tgt, key)",
    "CREATE INDEX correction_of_caller ON correction (caller, state)",
    "CREATE INDEX correction_in_state ON correction (state)",
)
_COLUMNS = "id, state, reasons, src, tgt, source, translation, suggestion, caller, time"


@dataclass(frozen=True)
class Verdict:
    """The state of a suggestion after the checks, with the reasons."""

    accepted: bool  # nothing is wrong with it
    reasons: Sequence[str]  # why a person should look at it
    acts: bool  # from now on, for who gave it


@dataclass(frozen=True)
class Correction:
    """A suggestion and its state."""

    id: int
    state: State
    reasons: str
    src: str  # language codes
    tgt: str
    source: str
    translation: str | None  # the model's, when it was suggested; None: not known
    suggestion: str
    caller: str  # name of the key; "" without one
    time: str  # as in 2026-11-25T04:43:13Z


class CorrectionFile:
    """A file of suggestions."""

    def __init__(self, path: Path) -> None:
        """Open the file or create it. Raises MtkitError if it cannot be used."""
        self.database = Database(path, "corrections", _SCHEMA)

    async def add(
        self,
        src: str,
        tgt: str,
        source: str,
        suggestion: str,
        caller: str,
        translation: str | None,
        doubts: Sequence[str],
    ) -> None:
        """Keep a suggestion; it replaces the caller's own pending one for this source.

        Raises TooManyRequests if too many suggestions are pending, Busy if the file cannot be written now.
        """
        state: State = "held" if doubts else "vetted"
        key, now = tidied(source), datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                "DELETE FROM correction WHERE (src, tgt, key, caller) = (?, ?, ?, ?) AND state IN ('held', 'vetted')",
                [src, tgt, key, caller],
            )
            count = "SELECT count(*) FROM correction WHERE state IN ('held', 'vetted')"
            [n_own] = connection.execute(f"{count} AND caller = ?", [caller]).fetchone()
            [n] = connection.execute(count).fetchone()
            if n_own >= _MOST_OF_A_CALLER or n >= _MOST:
                raise TooManyRequests(
                    f"{max(n_own, n):,} suggestions are pending; wait until the operator has reviewed some",
                    retry_after_s=3600,
                )
            row = [state, "\n".join(doubts), src, tgt, key, source, translation, suggestion, caller, now]
            connection.execute("INSERT INTO correction VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

        await self.database.run(work)

    def list(self, states: Sequence[State] = STATES) -> list[Correction]:
        """Return the suggestions in these states, in order of their ids."""

        def work(connection: sqlite3.Connection) -> list[Correction]:
            marks = ", ".join("?" * len(states))
            rows = connection.execute(f"SELECT {_COLUMNS} FROM correction WHERE state IN ({marks}) ORDER BY id", states)
            return [Correction(*row) for row in rows]

        return self.database.run_now(work)

    def decide(self, state: Literal["accepted", "rejected"], ids: Sequence[int]) -> None:
        """Accept or reject suggestions; accepting one replaces the accepted suggestion for the same source.

        Raises UsageError for an id that does not exist, and then changes nothing.
        """

        def work(connection: sqlite3.Connection) -> None:
            for id in ids:
                found = connection.execute("SELECT src, tgt, key FROM correction WHERE id = ?", [id]).fetchone()
                if found is None:
                    raise UsageError(f"no suggestion has the id {id}; see `mtkit corrections list`")
                if state == "accepted":
                    connection.execute(
                        "UPDATE correction SET state = 'rejected', reasons = ? "
                        "WHERE (src, tgt, key) = (?, ?, ?) AND state = 'accepted' AND id != ?",
                        [f"replaced by {id}", *found, id],
                    )
                connection.execute("UPDATE correction SET state = ? WHERE id = ?", [state, id])
            connection.execute(
                "DELETE FROM correction WHERE id IN "
                "(SELECT id FROM correction WHERE state = 'rejected' ORDER BY id DESC LIMIT -1 OFFSET ?)",
                [_MOST],
            )

        self.database.run_now(work)

    def close(self) -> None:
        """Close the file."""
        self.database.close()


class Corrections:
    """The corrections that a service applies."""

    def __init__(self, cfg: ServeConfig) -> None:
        """Read the file. Raises MtkitError if it cannot be used."""
        assert cfg.corrections.file is not None
        self._file = CorrectionFile(cfg.corrections.file)
        self._vetted_act = cfg.corrections.apply == "vetted"
        self._is_private = cfg.is_private
        self._accepted: dict[tuple[str, str, str], str] = {}  # suggestion by src, tgt and key
        self._vetted: dict[tuple[str, str, str, str], str] = {}  # by src, tgt, key and caller
        self._version: int | None = None  # SQLite's count of what others have changed
        self._looking: asyncio.Task[None] | None = None
        self._read(self._file.list(("vetted", "accepted")))

    async def suggest(
        self, src: str, tgt: str, source: str, suggestion: str, caller: Caller, translation: str | None = None
    ) -> Verdict:
        """Check a suggestion and store it. translation: the model's, if known.

        Raises TooLarge, BadRequest for blank text, TooManyRequests and Busy.
        """
        if max(len(source), len(suggestion)) > MOST_CHARS:
            raise TooLarge(f"a correction has at most {MOST_CHARS:,} characters on each side")
        if not source.strip() or not suggestion.strip():
            raise BadRequest("a correction needs a text and its translation")
        if any(map(_is_surrogate, source + suggestion)):
            raise BadRequest("half of a surrogate pair is not text")
        doubts = await asyncio.to_thread(doubts_about, source, suggestion, src, tgt)
        await self._file.add(src, tgt, source, suggestion, caller.name, translation, doubts)
        place = src, tgt, tidied(source), caller.name
        self._vetted.pop(place, None)
        if not doubts:
            self._vetted[place] = suggestion
        return Verdict(not doubts, doubts, not doubts and self._acts_at_once(caller))

    def lookup(self, src: str, tgt: str, text: str, caller: Caller) -> str | None:
        """Return the correction that acts on a text, or sentence, for this caller; None if there is none.

        It gets the white space at the ends of the text.
        """
        self._look()
        if not (self._accepted or self._vetted):
            return None
        place = src, tgt, tidied(text)
        own = None
        if self._acts_at_once(caller):
            own = self._vetted.get((*place, caller.name))
        suggestion = own or self._accepted.get(place)
        if suggestion is None:
            return None
        bare = text.strip()
        start = text.index(bare)
        return text[:start] + suggestion.strip() + text[start + len(bare) :]

    def _acts_at_once(self, caller: Caller) -> bool:
        """Return whether this caller's suggestions act before the operator accepts them, which needs a key."""
        return self._vetted_act and bool(caller.name or self._is_private)

    def close(self) -> None:
        """Close the file."""
        if self._looking is not None:
            self._looking.cancel()
        self._file.close()

    def _look(self) -> None:
        """From the first request on, check every second whether `mtkit corrections` has changed the file."""
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._keep_looking())

    async def _keep_looking(self) -> None:
        while True:
            await self._look_now()
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _look_now(self) -> None:
        def version(connection: sqlite3.Connection) -> int:
            return int(connection.execute("PRAGMA data_version").fetchone()[0])

        with suppress(Refusal):  # it is in the log
            found = await self._file.database.run(version)
            if found != self._version:
                self._read(await asyncio.to_thread(self._file.list, ("vetted", "accepted")))
                self._version = found

    def _read(self, corrections: Iterable[Correction]) -> None:
        self._accepted, self._vetted = {}, {}
        for one in corrections:
            place = one.src, one.tgt, tidied(one.source)
            if one.state == "accepted":
                self._accepted[place] = one.suggestion
            else:
                self._vetted[*place, one.caller] = one.suggestion


def pairs_to_train(
    corrections: Iterable[Correction], src: str | None = None, tgt: str | None = None
) -> list[tuple[str, str]]:
    """Return sources and suggestions for a training corpus: one line each, of one pair of languages, each source once.

    Of several suggestions for a source, take an accepted one, else the last.
    Raises UsageError if there are several pairs of languages to choose from, or none.
    """
    chosen = [one for one in corrections if src in (None, one.src) and tgt in (None, one.tgt)]
    languages = sorted({(one.src, one.tgt) for one in chosen})
    if not chosen:
        raise UsageError("no corrections match; accept some with `mtkit corrections accept`")
    if len(languages) > 1:
        names = ", ".join("-".join(pair) for pair in languages)
        raise UsageError(
            f"the corrections are for several language pairs ({names}); choose one with --src-lang and --tgt-lang"
        )
    ordered = sorted(chosen, key=lambda one: (one.state == "accepted", one.id))
    return list({tidied(one.source): (tidied(one.source), tidied(one.suggestion)) for one in ordered}.values())


def _is_surrogate(character: str) -> bool:
    return "\ud800" <= character <= "\udfff"

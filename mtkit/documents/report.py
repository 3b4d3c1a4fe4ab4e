"""Say how a document was translated, and list each segment that a person should look at."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from mtkit.console import counted
from mtkit.documents.filling import CHECK, LEFT, PLACED, Result
from mtkit.files import write_text

_MOST_LISTED = 10  # notes on stderr
_KINDS = {
    LEFT: "left in the source language",
    CHECK: "with a translation that looks wrong",
    PLACED: "with tags or placeholders whose places are guesses",
}


def summary(result: Result, *, listed: bool = True) -> Iterator[str]:
    """Yield lines that say what was done; listed: with the first segments to look at."""
    counts = Counter(note.kind for note in result.notes)
    yield (
        f"{counted(result.n_segments, 'segment')}, {counted(result.n_sentences, 'sentence')}, "
        f"{counted(result.n_codes, 'tag')}; "
        + (", ".join(f"{counts[kind]:,} {what}" for kind, what in _KINDS.items() if counts[kind]) or "nothing to check")
    )
    if not listed:
        return
    for note in result.notes[:_MOST_LISTED]:
        yield f"  {note.place}: {_KINDS[note.kind]} ({note.reason}): {_short(note.src)}"
    if len(result.notes) > _MOST_LISTED:
        yield f"  and {len(result.notes) - _MOST_LISTED:,} more: --report FILE.html lists them all"


def write_report(path: Path, source: Path, target: Path, result: Result) -> None:
    """Write a page, or, for a name that ends in .jsonl, a line of JSON for each segment to look at."""
    if path.suffix == ".jsonl":
        write_text(path, "".join(json.dumps(asdict(note), ensure_ascii=False) + "\n" for note in result.notes))


def _short(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= 60 else f"{text[:57]}...")

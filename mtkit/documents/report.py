"""Report how a document was translated, and list each segment that a person should check."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from mtkit.console import counted
from mtkit.documents.filling import CHECK, LEFT, MATCH, PLACED, TranslatedDocument
from mtkit.files import write_text
from mtkit.pages.page import thousands, write_page
from mtkit.pair_files.pairs import Languages

_MOST_LISTED = 10  # notes on stderr
_TITLES = {
    LEFT: "left in the source language",
    CHECK: "translation looks wrong",
    PLACED: "place of a tag or placeholder is a guess",
    MATCH: "from the translation memory",
}
_BEGINNINGS = {LEFT: "not translated, because ", CHECK: "its translation ", PLACED: ""}  # of lines; a reason follows
_MEANINGS = {
    LEFT: "mtkit did not translate these segments. Translate them by hand.",
    CHECK: "These translations look suspect. They are shown without tags.",
    PLACED: "All tags and placeholders are in the translation, once each and correctly nested, but check their places.",
    MATCH: "The translation of an exact match (100 %) is used unchanged. Others are shown for comparison.",
}


def summary(result: TranslatedDocument, *, listed: bool = True) -> Iterator[str]:
    """Yield lines about the result. listed: include the first segments to check."""
    counts = Counter(note.kind for note in result.notes)
    to_check = ", ".join(f"{title}: {counts[kind]:,}" for kind, title in _TITLES.items() if counts[kind])
    if not result.n_segments:
        yield "the document has no text to translate, so the output equals it"
        return
    yield (
        f"{counted(result.n_segments, 'segment')}, {counted(result.n_sentences, 'sentence')}, "
        f"{counted(result.n_codes, 'tag')}; {to_check or 'nothing to check'}"
    )
    if not listed:
        return
    for note in result.notes[:_MOST_LISTED]:
        yield f"  {note.place}: {_BEGINNINGS[note.kind]}{note.reason}: {_short(note.src)}"
    if len(result.notes) > _MOST_LISTED:
        yield f"  and {len(result.notes) - _MOST_LISTED:,} more: --report FILE.html lists them all"


def write_report(path: Path, source: Path, target: Path, result: TranslatedDocument, langs: Languages) -> None:
    """Write an HTML page or, if the file extension is .jsonl, a line of JSON for each segment to check or match."""
    if path.suffix == ".jsonl":
        notes = (*result.notes, *result.matches)
        write_text(path, "".join(json.dumps(asdict(note), ensure_ascii=False) + "\n" for note in notes))
        return
    groups = [
        (title, _MEANINGS[kind], [note for note in (*result.notes, *result.matches) if note.kind == kind])
        for kind, title in _TITLES.items()
    ]
    facts = {
        "segments": thousands(result.n_segments),
        "sentences": thousands(result.n_sentences),
        "tags": thousands(result.n_codes),
        "to check": thousands(len(result.notes)),
    }
    write_page(
        path,
        "document",
        title=f"{source.name}, translated",
        facts=list(facts.items()),
        source=source.name,
        target=target.name,
        is_good=not result.notes,
        groups=[group for group in groups if group[2]],
        codes=[code or "und" for code in langs],
    )


def _short(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= 60 else f"{text[:57]}...")

"""Put real documents through the readers: translated into themselves, in upper case, and damaged.

    find /usr/share/doc -name "*.html" | PYTHONPATH=tests .venv/bin/python scripts/bench/documents.py --damaged 1000

Reads names of files from standard input. Each is translated into itself, which must give the same bytes (of a zip: of
all members), and into upper case; segments that are left out then are counted. --damaged: so many copies with random
damage, of which a reader must say what is wrong, or which it must read, without another error, and within --seconds.
Exits with 1 if anything of this fails.
"""

import argparse
import io
import random
import sys
import time
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from tiny_documents import loud_around_placeholders, translated

from mtkit.documents.reading import Options, format_of
from mtkit.errors import DataError, UsageError


def members(raw: bytes) -> dict[str, bytes]:
    """Return the members of a zip, or all of another file."""
    if not raw.startswith(b"PK"):
        return {"": raw}
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def damaged(raw: bytes, rng: random.Random) -> bytes:
    """Return the bytes with one kind of damage: cut off, or with some bytes changed, left out, doubled or moved.

    Of a zip, mostly one of the members with text is damaged, and packed again.
    """
    if raw.startswith(b"PK") and rng.random() < 0.9:
        return _with_a_damaged_member(raw, rng)
    start = rng.randrange(len(raw) + 1)
    end = min(len(raw), start + rng.randint(1, 200))
    kind = rng.choice(["cut", "changed", "lost", "doubled", "moved", "noise"])
    if kind == "cut":
        return raw[:start]
    if kind == "changed":
        places = {rng.randrange(max(1, len(raw))): rng.randrange(256) for _ in range(rng.randint(1, 20))}
        return bytes(places.get(index, byte) for index, byte in enumerate(raw))
    if kind == "lost":
        return raw[:start] + raw[end:]
    if kind == "doubled":
        return raw[:end] + raw[start:]
    if kind == "noise":
        return raw[:start] + rng.randbytes(rng.randint(1, 20)) + raw[start:]
    rest = raw[:start] + raw[end:]
    place = rng.randrange(len(rest) + 1)
    return rest[:place] + raw[start:end] + rest[place:]


def _with_a_damaged_member(raw: bytes, rng: random.Random) -> bytes:
    """Return a zip in which one of the members with text is damaged."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw)) as archive, zipfile.ZipFile(packed, "w") as spoilt:
        named = [
            name for name in archive.namelist() if name.endswith((".xml", ".xhtml", ".html", ".opf", ".ncx", ".rels"))
        ]
        chosen = rng.choice(named)
        for info in archive.infolist():
            content = archive.read(info)
            spoilt.writestr(info, damaged(content, rng) if info.filename == chosen else content)
    return packed.getvalue()


def documents() -> Iterator[tuple[Path, str, bytes]]:
    """Yield the files that standard input names, with their formats; others are named on stderr."""
    for name in sys.stdin.read().splitlines():
        path = Path(name)
        try:
            yield path, format_of(path, Options()), path.read_bytes()
        except (UsageError, OSError) as error:
            print(error, file=sys.stderr)


def check_whole(path: Path, format_name: str, raw: bytes, counts: Counter[str]) -> None:
    """Translate a document into itself and into upper case; count what happened."""
    counts["files"] += 1
    try:
        same = translated(raw, format_name)
    except DataError as error:
        counts["refused"] += 1
        print(f"{path}: refused: {error}")
        return
    counts["segments"] += same.n_segments
    if members(same.raw) != members(raw):
        counts["changed"] += 1
        print(f"{path}: changed by being translated into itself")
    left = [note for note in translated(raw, format_name, loud_around_placeholders).notes if note.kind == "left"]
    counts["left out"] += len(left)
    for note in left[:1]:
        print(f"{path}: {note.place}: left out: {note.reason}: {note.src[:60]!r}")


def check_damaged(format_name: str, raw: bytes, rng: random.Random, counts: Counter[str], limit_s: float) -> None:
    """Read a damaged document, and translate it if it can be read."""
    spoilt, began = damaged(raw, rng), time.process_time()
    try:
        translated(spoilt, format_name, loud_around_placeholders)
        counts["damaged, read"] += 1
    except DataError:
        counts["damaged, refused"] += 1
    except Exception as error:
        counts["damaged, failed"] += 1
        print(f"{format_name}: {type(error).__name__}: {error}")
    if time.process_time() - began > limit_s:
        counts["damaged, slow"] += 1


def main() -> int:
    """Check all documents, and print a line for each format."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--damaged", type=int, default=0, help="damaged copies, of all documents together")
    parser.add_argument("--seconds", type=float, default=20.0, help="of CPU time for a damaged one")
    args = parser.parse_args()
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    kept = []
    for path, format_name, raw in documents():
        check_whole(path, format_name, raw, counts[format_name])
        kept.append((format_name, raw))
    rng = random.Random(1)
    for number in range(args.damaged if kept else 0):
        format_name, raw = kept[number % len(kept)]
        check_damaged(format_name, raw, rng, counts[format_name], args.seconds)
    for format_name, found in sorted(counts.items()):
        print(f"{format_name}: " + ", ".join(f"{n:,} {what}" for what, n in found.items()))
    bad = ("changed", "damaged, failed", "damaged, slow")
    return int(any(found[what] for found in counts.values() for what in bad))


if __name__ == "__main__":
    sys.exit(main())

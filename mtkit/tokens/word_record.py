"""The record in a bundle of the words on the source side of its training text, by which text as it is typed is read.

People ship bundles, so the record lists only frequent words. It has checksums of the rare ones, which may be names.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mtkit.arrays import read_arrays
from mtkit.errors import BundleError
from mtkit.text.capitals import changeable_words
from mtkit.tokens.openings import OpeningCounts
from mtkit.tokens.spelling import FEWEST, TYPED, checksum

FILE = "words.npz"  # of a bundle
_MOST_WORDS = 200_000  # of which it is known that the text has them


class WordRecord(NamedTuple):
    """What is recorded of a text."""

    counts: Counter[str]  # of each frequent word that people type letter by letter
    openings: Mapping[str, str]  # the final mark of lines that begin with these words, see `OpeningCounts.marks`
    rare: Set[int] = frozenset()  # checksums of the other words

    def joined(self, tuning: "WordRecord") -> "WordRecord":
        """Return the record of this text and of the smaller one of a tuning, whose openings are too few to count."""
        return WordRecord(self.counts + tuning.counts, self.openings, self.rare | tuning.rare)


def record_words(texts: Iterable[str]) -> WordRecord:
    """Count the words of lines, and learn their final marks."""
    counts, openings = Counter[str](), OpeningCounts()
    for text in texts:
        counts.update(word[0] for word in changeable_words(text) if TYPED.fullmatch(word[0]))
        openings.add(text)
    frequent = Counter({word: n for word, n in counts.items() if n >= FEWEST})
    rare = frozenset(checksum(word) for word, n in counts.most_common(_MOST_WORDS) if n < FEWEST)
    return WordRecord(frequent, openings.marks(), rare)


def save_words(path: Path, record: WordRecord) -> None:
    """Write a record."""
    rows, rare = sorted(record.counts.items()), np.array(sorted(record.rare), np.uint32)
    openings = _packed(f"{opening}\t{mark}" for opening, mark in sorted(record.openings.items()))
    counts = np.array([n for _, n in rows], np.int64)
    with path.open("wb") as file:
        np.savez_compressed(file, words=_packed(word for word, _ in rows), counts=counts, openings=openings, rare=rare)


def load_words(path: Path) -> WordRecord:
    """Read what `save_words` wrote. Raises BundleError if it is damaged."""
    try:
        arrays = read_arrays(path)
        words, openings = (
            arrays[name].tobytes().decode().splitlines() if name in arrays else [] for name in ("words", "openings")
        )
        counts = dict(zip(words, arrays["counts"].tolist(), strict=True))
        marks = {opening: mark for opening, _, mark in (line.partition("\t") for line in openings)}
        return WordRecord(Counter(counts), marks, frozenset(arrays["rare"].tolist() if "rare" in arrays else ()))
    except (ValueError, KeyError, TypeError) as error:
        raise BundleError(f"{path}: cannot read the words ({error}); copy the bundle again") from None


def _packed(lines: Iterable[str]) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer("\n".join(lines).encode(), np.uint8)

"""Turn the lines of one text into word ids, for counting which words translate which."""

import itertools
import re
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from mtkit.text.characters import without_accents
from mtkit.text.words import MARKS, UNSPACED

_WORD = re.compile(rf"[{UNSPACED}]|\d+|[^\W\d_{UNSPACED}]+(?:[{MARKS}]+[^\W\d_{UNSPACED}]*)*|[^\w\s]")
_STEM = 6  # letters of a word that count: endings vary, and the lexicon is learnt from little text
_COGNATE = 5  # letters that words spelled alike in two languages share
_SHORTEST_COGNATE = 4
_MOST_WORDS = 128  # of a line, which bounds memory; enough to recognise it

Ints = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Side:
    """The lines of one text as word ids, end to end; ids are shared by both texts."""

    ids: Ids
    starts: Ints  # (lines + 1,) the first word of each line
    n_chars: Ints  # (lines,) without the white space at the ends; 0: a blank line

    def __len__(self) -> int:
        return len(self.n_chars)

    @property
    def n_words(self) -> Ints:
        """How many words each line has."""
        return np.diff(self.starts)

    def words_of(self, first: int, end: int | None = None) -> Ids:
        """Return the words of a line, or of the lines from the first up to the end."""
        return self.ids[self.starts[first] : self.starts[first + 1 if end is None else end]]

    def line_of_word(self) -> Ints:
        """Return the line that each word stands in."""
        return np.repeat(np.arange(len(self)), self.n_words)

    def take(self, lines: Ints) -> "Side":
        """Return a text of these lines."""
        sizes = self.n_words[lines]
        words = self.ids[ranges(self.starts[lines], sizes)]
        return Side(words, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), self.n_chars[lines])

    @cached_property
    def occurrences(self) -> tuple[Ints, Ints]:
        """Which word stands in which line, each once: words in rising order, and their lines."""
        n = max(1, len(self))
        words, lines = np.divmod(np.unique(self.ids.astype(np.int64) * n + self.line_of_word()), n)
        return words, lines


def ranges(starts: Ints, sizes: Ints) -> Ints:
    """Return start, start + 1, ... of each range, end to end."""
    ends = np.cumsum(sizes)
    return np.arange(int(sizes.sum())) + np.repeat(starts - ends + sizes, sizes)


class Vocabulary:
    """The words of both texts: an id for each, and a key that words spelled alike share."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._keys: dict[str, int] = {}
        self._key_of = array("i")
        self._certain = array("b")

    def __len__(self) -> int:
        return len(self._ids)

    def read(self, lines: Iterable[str]) -> Side:
        """Return the lines as ids of words, which are lower-cased and cut to their first letters."""
        ids, starts, n_chars = array("i"), array("q", [0]), array("q")
        known = self._ids
        for line in lines:
            for word in itertools.islice(_WORD.finditer(line.lower()), _MOST_WORDS):
                stem = word[0][:_STEM]
                index = known.get(stem)
                ids.append(self._add(stem) if index is None else index)
            starts.append(len(ids))
            n_chars.append(len(line.strip()))
        return Side(np.array(ids, np.int32), np.array(starts, np.int64), np.array(n_chars, np.int64))

    def _add(self, stem: str) -> int:
        index = self._ids[stem] = len(self._ids)
        key = _spelling_key(stem)
        self._key_of.append(-1 if key is None else self._keys.setdefault(key, len(self._keys)))
        self._certain.append(not stem.isalpha())
        return index

    @property
    def keys(self) -> Ids:
        """The key of each word; -1 for words too short to tell a cognate by."""
        return np.array(self._key_of, np.int32)

    @property
    def is_symbol(self) -> npt.NDArray[np.bool_]:
        """True for numbers and punctuation, which translations usually keep."""
        return np.array(self._certain, np.bool_)


def _spelling_key(stem: str) -> str | None:
    """Return what a word has in common with its cognates: its first letters without accents; None if it is short."""
    if not stem.isalpha():
        return stem
    bare = without_accents(stem)
    return bare[:_COGNATE] if len(bare) >= _SHORTEST_COGNATE else None

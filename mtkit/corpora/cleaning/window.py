"""A window of pairs as the rules see it: normalised text, and arrays of figures about all its lines."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from mtkit.quality.faults import MOST_REPEATED, repeated_share
from mtkit.text import scripts
from mtkit.text.scripts import BROKEN, LETTER, SPACE
from mtkit.text.words import words_of

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Lines:
    """One side of a window. Arrays have an entry a line, unless they say characters."""

    def __init__(self, texts: Sequence[str], lang: str) -> None:
        """lang: the language that the lines should be in, such as de or pt-BR."""
        self.texts = texts
        self.lang = lang

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def n_characters(self) -> Ints:
        """Return how many characters each line has."""
        return np.fromiter(map(len, self.texts), np.int64, len(self.texts))

    @cached_property
    def characters(self) -> npt.NDArray[np.uint32]:
        """Return the code points of all lines, one after the other, each line followed by LF."""
        joined = "".join(itertools.chain.from_iterable((text, "\n") for text in self.texts))
        return np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), np.uint32)

    @cached_property
    def kinds(self) -> npt.NDArray[np.uint8]:
        """Return the kind of each character, as `scripts.character_kinds` has it."""
        return scripts.character_kinds()[self.characters]

    @cached_property
    def _ends(self) -> Ints:
        """Return the index in `characters` of each line's LF."""
        return np.cumsum(self.n_characters + 1) - 1

    def count(self, mask: npt.NDArray[np.bool_]) -> Ints:
        """Count, line by line, the characters for which the mask is True."""
        return self.sum(mask.view(np.uint8))

    def sum(self, values: npt.NDArray[np.uint8]) -> Ints:
        """Sum the characters' values line by line; LF's value must be 0."""
        total = np.cumsum(values, dtype=np.int64)[self._ends]
        return np.diff(total, prepend=0)

    def lines_of(self, at: Ints) -> Ints:
        """Return the index of the line of each of these characters, given by index."""
        return np.searchsorted(self._ends, at)

    @cached_property
    def n_letters(self) -> Ints:
        """Return each line's length in letters of an alphabet, as `text.words.n_letters` counts them."""
        weights = scripts.letter_weights()[self.characters]
        weights[self._ends] = 0
        return self.sum(weights)

    @cached_property
    def n_alphabetic(self) -> Ints:
        """Count the letters of each line, with the marks on them."""
        return self.count(self.kinds & LETTER != 0)

    @cached_property
    def n_visible(self) -> Ints:
        """Count the characters of each line that are not white space."""
        return self.count(self.kinds & SPACE == 0)

    @cached_property
    def n_broken(self) -> Ints:
        """Count the characters of each line that a wrong encoding left."""
        return self.count(self.kinds & BROKEN != 0)

    def n_in(self, names: tuple[str, ...]) -> Ints:
        """Count the letters of each line that belong to one of these scripts."""
        return self.count(scripts.letters_in(names)[self.characters])

    def with_run(self, mask: npt.NDArray[np.bool_], longer_than: int) -> dict[int, int]:
        """Return the lines in which more than so many characters in a row have mask True: the longest run of each."""
        edges = np.flatnonzero(np.diff(mask.view(np.int8), prepend=0, append=0))
        starts, lengths = edges[::2], edges[1::2] - edges[::2]
        runs = lengths > longer_than
        longest: dict[int, int] = {}
        for line, length in zip(self.lines_of(starts[runs]).tolist(), lengths[runs].tolist(), strict=True):
            longest[line] = max(length, longest.get(line, 0))
        return longest

    @cached_property
    def words(self) -> list[list[str]]:
        """Return the words of each line in lower case, as `text.words.words_of` splits them."""
        return [words_of(text.casefold()) for text in self.texts]

    def with_repeated_words(self, longest_period: int) -> Iterable[int]:
        """Return the lines in which a row of words comes again at once, often enough to be a loop, or may do so.

        longest_period: the most words of a row to look for. Every loop in the sense of `quality.faults.find_loop`
        with at most so many words a period is in one of these lines.
        """
        words = [word for words in self.words for word in (*words, "\n")]
        ids = {word: index for index, word in enumerate(dict.fromkeys(words))}
        flat = np.fromiter(map(ids.__getitem__, words), np.int64, len(words))
        ends = np.cumsum(np.fromiter((len(words) + 1 for words in self.words), np.int64, len(self.words))) - 1
        flat[ends] = -1 - np.arange(len(ends))  # nothing equals the end of a line
        lines: set[int] = set()
        for period in range(1, min(longest_period, len(flat) - 1) + 1):
            # A loop has as many words more than its period: twice the period if it is short, else once.
            least = {1: 2, 2: 4, 3: 6}.get(period, period)
            edges = np.flatnonzero(np.diff((flat[period:] == flat[:-period]).view(np.int8), prepend=0, append=0))
            starts = edges[::2][edges[1::2] - edges[::2] >= least]
            lines.update(np.searchsorted(ends, starts + period).tolist())
        lines.update(i for i, words in enumerate(self.words) if repeated_share(words) > MOST_REPEATED)
        return lines

    def with_repeated_characters(self) -> Iterable[int]:
        """Return the lines in which a row of at most ten characters comes four times or more."""
        lines: set[int] = set()
        visible = self.characters[self.kinds & SPACE == 0]
        line_of = np.repeat(np.arange(len(self)), self.n_visible)
        for period in range(1, 11):
            if len(visible) <= period:
                break
            same = (visible[period:] == visible[:-period]) & (line_of[period:] == line_of[:-period])
            edges = np.flatnonzero(np.diff(same.view(np.int8), prepend=0, append=0))
            starts = edges[::2][edges[1::2] - edges[::2] >= 3 * period]
            lines.update(line_of[starts].tolist())
        return lines

    def holding(self, mask: npt.NDArray[np.bool_]) -> list[int]:
        """Return the lines with a character for which mask is True."""
        return np.unique(self.lines_of(np.flatnonzero(mask))).tolist()  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Window:
    """Pairs in a row."""

    src: Lines
    tgt: Lines
    places: Sequence[int]  # of each pair: its line in its file, from 1
    scores: Sequence[float] | None = None  # of each pair, from outside
    has_translations: bool = True  # otherwise, this is text in the source language alone

    @property
    def sides(self) -> tuple[Lines, ...]:
        """Return the source and, if the text has translations, the target side."""
        return (self.src, self.tgt) if self.has_translations else (self.src,)

    def __len__(self) -> int:
        return len(self.src)

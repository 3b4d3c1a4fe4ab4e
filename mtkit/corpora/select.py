"""Choose the lines of a text whose translations teach the most: those with frequent words and n-grams that are new.

The weight of a line is the sum of the frequencies, in the text, of its n-grams that no chosen line has, divided by its
length in words (Eck, Vogel and Waibel 2005, "Low cost portability for statistical machine translation based on n-gram
frequency and TF-IDF", with n-grams of one and two words). The line with the highest weight comes next.
"""

import heapq
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mtkit.console import progress_bar
from mtkit.text.words import words_of

_ORDERS = (1, 2)


@dataclass(frozen=True)
class Selection:
    """The chosen lines, best first, and the share of the text's n-grams (all occurrences) that is in known lines."""

    indices: list[int]
    coverage_before: float
    coverage: float


def select_lines(lines: Sequence[str], n: int, known: Iterable[str] = ()) -> Selection:
    """Choose at most n lines; fewer if the others contain nothing new. known: lines that need no choosing.

    A weight only falls while others are chosen, so the heap holds old weights, and only the first one is computed
    again (Minoux 1978).
    """
    ids: dict[str, int] = {}
    frequencies = array("q")
    with progress_bar(len(lines), "counting n-grams", "line", delay=2.0) as bar:
        grams_of = []
        for line in lines:
            grams = array("q")
            for gram in _ngrams(line):
                index = ids.setdefault(gram, len(ids))
                if index == len(frequencies):
                    frequencies.append(0)
                frequencies[index] += 1
                grams.append(index)
            grams_of.append(grams)
            bar.update()
    total = sum(frequencies)
    new = bytearray(b"\1") * len(ids)
    for line in known:
        for gram in _ngrams(line):
            if (index := ids.get(gram, -1)) >= 0:
                new[index] = 0
    before = _covered(frequencies, new)
    lengths = [max(1, len(words_of(line))) for line in lines]

    def weight(row: int) -> float:
        return sum(frequencies[index] for index in set(grams_of[row]) if new[index]) / lengths[row]

    heap = [(-weight(row), row) for row in range(len(lines))]
    heapq.heapify(heap)
    chosen: list[int] = []
    with progress_bar(n, "choosing", "line", delay=2.0) as bar:
        while heap and len(chosen) < n:
            old, row = heap[0]
            if not old:
                break
            current = -weight(row)
            if current != old:
                heapq.heapreplace(heap, (current, row))
                continue
            heapq.heappop(heap)
            chosen.append(row)
            for index in grams_of[row]:
                new[index] = 0
            bar.update()
    return Selection(chosen, before / max(1, total), _covered(frequencies, new) / max(1, total))


def _ngrams(line: str) -> Iterator[str]:
    words = words_of(line.casefold())
    for order in _ORDERS:
        for start in range(len(words) - order + 1):
            yield " ".join(words[start : start + order])


def _covered(frequencies: Sequence[int], new: Sequence[int]) -> int:
    return sum(frequency for frequency, is_new in zip(frequencies, new, strict=True) if not is_new)

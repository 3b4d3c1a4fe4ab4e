"""Where lines and characters stand in a document, also those of a text whose lines stand apart, as in a quotation."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mtkit.text.lines import NEWLINE


@dataclass(frozen=True)
class Source:
    """The text of a block without what stands before its lines, in runs that stand in the document side by side."""

    text: str
    firsts: Sequence[int]  # where each run begins in `text`
    starts: Sequence[int]  # and in the document
    ends: Sequence[int]  # and where it ends there

    @classmethod
    def of_lines(cls, document: str, lines: Sequence[tuple[int, int]]) -> "Source":
        """Return the text of lines, which stand at these characters of a document."""
        firsts, at = [], 0
        for start, end in lines:
            firsts.append(at)
            at += end - start + 1
        text = "\n".join(document[start:end] for start, end in lines)
        return cls(text, firsts, *([line[side] for line in lines] for side in (0, 1)))

    def place(self, index: int) -> int:
        """Return where a character stands in the document."""
        run = bisect_right(self.firsts, index) - 1
        return self.starts[run] + index - self.firsts[run]

    def interval(self, start: int, end: int) -> tuple[int, int]:
        """Return where characters stand in the document. end: that of a run, or a character within one."""
        run = max(0, bisect_left(self.firsts, end) - 1)
        is_whole = end == (self.firsts[run + 1] if run + 1 < len(self.firsts) else len(self.text))
        return self.place(start), self.ends[run] if is_whole else self.starts[run] + end - self.firsts[run]


def line_of(text: str) -> Callable[[int], str]:
    """Return a function that names the line of a character, such as "line 12"."""
    starts = [0, *(match.end() for match in NEWLINE.finditer(text))]
    return lambda index: f"line {bisect_right(starts, index)}"

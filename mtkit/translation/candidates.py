"""The result of translating a line: its candidate translations and the suspected faults of the best one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mtkit.quality.faults import Fault
from mtkit.text.sentences import ends_without_space

if TYPE_CHECKING:
    from mtkit.memory.index import Match


@dataclass(frozen=True)
class Candidate:
    """One translation of a line. For a line that was split, log_prob and score are sums over its segments."""

    text: str
    ids: list[int] = field(repr=False)  # target tokens, without EOS
    log_prob: float  # nats
    score: float  # log_prob after the length penalty
    finished: bool  # False: the length limit ended it
    n_moved: int = 0  # placeholders that the search lost or doubled: put at the end, or left out
    n_placed: int = 0  # protected parts of the source, such as addresses, that the alignment placed between words
    is_from_memory: bool = False  # no part of it is the model's, so log_prob and score mean nothing


BLANK = Candidate("", [], 0.0, 0.0, True)  # the translation of a blank line


def join_candidates(parts: Sequence[list[Candidate]], gaps: Sequence[str | None] = ()) -> list[Candidate]:
    """Build a line's candidates from those of its segments: the k-th of the line joins the k-th of every segment.

    If a segment has only one candidate, such as a copy of text without words, each candidate of the line contains it.
    gaps: as for `join_segments`.
    """
    if not parts:
        return [BLANK]
    if len(parts) == 1:
        return parts[0]
    n_best = max(map(len, parts))
    parts = [part * n_best if len(part) == 1 else part for part in parts]
    return [
        Candidate(
            text=join_segments([part.text for part in kth], gaps),
            ids=[token_id for part in kth for token_id in part.ids],
            log_prob=sum(part.log_prob for part in kth),
            score=sum(part.score for part in kth),
            finished=all(part.finished for part in kth),
            n_placed=sum(part.n_placed for part in kth),
            n_moved=sum(part.n_moved for part in kth),
            is_from_memory=all(part.is_from_memory for part in kth),
        )
        for kth in zip(*parts, strict=False)
    ]


def join_segments(texts: Sequence[str], gaps: Sequence[str | None] = ()) -> str:
    """Join translated segments into one line.

    gaps: the white space before each segment, see `gap_after`; default: a space.
    """
    line = ""
    for text, gap in zip(texts, gaps or [" "] * len(texts), strict=True):
        line += gap_after(line, gap) + text if text else ""
    return line


def gap_after(line: str, gap: str | None) -> str:
    """Return the white space to put between a line and the translation of its next segment.

    gap: the white space in the source; None if it has none between two sentences, as in Chinese. Then there is a space
    unless the translation puts none between its sentences, either.
    """
    if not line:
        return ""
    return ("" if ends_without_space(line) else " ") if gap is None else gap


@dataclass(frozen=True, repr=False)
class Translation:
    """A line and its candidates, best first. A blank line has a single, empty candidate."""

    src: str
    n_best: list[Candidate]
    faults: tuple[Fault, ...] = ()  # what looks wrong with the best candidate
    n_segments: int = 1  # into which a line that was too long, or had several sentences, was split
    is_long: bool = False  # the line was too long for the model
    respelt: tuple[tuple[str, str], ...] = ()  # words that the model has read as others: as written, as read
    matches: "tuple[Match, ...]" = ()  # of a translation memory: the best one of the line, or of each of its segments

    @property
    def text(self) -> str:
        """The best candidate's text."""
        return self.n_best[0].text

    @property
    def score(self) -> float:
        """The best candidate's score."""
        return self.n_best[0].score

    @property
    def finished(self) -> bool:
        """False if the length limit ended the best candidate, or a segment of it."""
        return self.n_best[0].finished

    def __repr__(self) -> str:
        n_best = f", n_best={len(self.n_best)}" if len(self.n_best) > 1 else ""
        limit = "" if self.finished else ", finished=False"
        faults = f", faults={[fault.kind for fault in self.faults]}" if self.faults else ""
        return f"Translation({self.src!r} -> {self.text!r}, score={self.score:.4g}{n_best}{limit}{faults})"

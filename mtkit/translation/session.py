"""Translate one text window by window into reviewed translations, and report length limits, faults and terms."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mtkit.console import counted, log
from mtkit.translation.candidates import Candidate, Translation, join_segments
from mtkit.translation.direction import DirectionCheck
from mtkit.translation.piece_search import PieceSearch
from mtkit.translation.pieces import Piece, with_prefix
from mtkit.translation.review import Review
from mtkit.translation.terminology import TermReport

_MOST_LISTED = 20  # lines


class Session:
    """Translates and reviews one text window by window, and counts faults, length limits and terms."""

    def __init__(
        self,
        search: PieceSearch,
        review: Review,
        *,
        n_best: int = 1,
        prefix: str = "",
        terms: TermReport | None = None,
        direction: DirectionCheck | None = None,
    ) -> None:
        """n_best: as for `Translator.stream`. prefix: whole words that begin every translation.

        terms: counts which terms were met. direction: warns if the text is not in the model's source language.
        """
        self.review = review
        self.terms = terms
        self.n_lines = 0
        self.n_unfinished = 0
        self.n_moved = 0  # translations with a placeholder that the model did not place
        self.lines_moved: list[int] = []  # numbers of the first of them
        self.n_respelt = 0  # words that the model has read as others
        self.respelt: list[str] = []  # the first of them
        self.memory = Counter[str]()  # texts that were looked up in a translation memory, and those with matches
        self._search, self._reader = search, search.reader
        self._n_best = n_best
        self._prefix = prefix
        self._direction = direction

    def translate(self, lines: Sequence[str], first_line: int | None = None) -> list[Translation]:
        """Translate the next lines. first_line: line number of the first one, if lines before it were skipped."""
        first_line = first_line or self.n_lines + 1
        pieces = self._reader.pieces(lines, self._search.max_src_tokens(), first_line)
        return self.translate_cut(lines, pieces, first_line)

    def translate_cut(
        self, lines: Sequence[str], pieces: Sequence[Sequence[Piece]], first_line: int
    ) -> list[Translation]:
        """Translate the next lines, given their pieces."""
        if self._direction is not None:
            self._direction.add(lines)
        self.review.tally.n_before = first_line - 1 - self.n_lines
        if self._prefix:
            pieces = [self._with_prefix(of_line) for of_line in pieces]
        flat = [piece for of_line in pieces for piece in of_line]
        return self._reviewed(lines, pieces, self._search.candidates(flat, n_best=self._n_best), first_line)

    def add(self, line: str, pieces: Sequence[Piece], candidates: Sequence[list[Candidate]]) -> Translation:
        """Review and count the next line, given its pieces and their translations."""
        if self._direction is not None:
            self._direction.add([line])
        [translation] = self._reviewed([line], [pieces], candidates, self.n_lines + 1)
        return translation

    def _reviewed(
        self,
        lines: Sequence[str],
        pieces: Sequence[Sequence[Piece]],
        candidates: Sequence[list[Candidate]],
        first_line: int,
    ) -> list[Translation]:
        reviewed = self.review.window(pieces, candidates)
        translations = [
            replace(
                translation,
                src=line,
                matches=tuple(piece.match for piece in of_line if piece.match),
                respelt=tuple(words for piece in of_line if piece.respelt for words in piece.respelt.words),
            )
            for line, of_line, translation in zip(lines, pieces, reviewed, strict=True)
        ]
        for piece in (piece for of_line in pieces for piece in of_line if piece.is_settled or not piece.is_blank):
            self.memory.update(["texts", *(["exact" if piece.is_settled else "similar"] if piece.match else [])])
        self.n_lines += len(lines)
        self.n_unfinished += sum(not translation.finished for translation in translations)
        moved = [line for line, t in enumerate(translations, start=first_line) if t.n_best[0].n_moved]
        self._add_moved(len(moved), moved)
        words = [f"{typed} as {read}" for translation in translations for typed, read in translation.respelt]
        self._add_respelt(len(words), words)
        if self.terms is not None:
            for line, (of_line, translation) in enumerate(zip(pieces, translations, strict=True), start=first_line):
                as_read = join_segments([piece.as_read for piece in of_line], [piece.gap for piece in of_line])
                self.terms.add(self._reader.replaced(as_read).text, translation.text, line)
        return translations

    def _with_prefix(self, pieces: Sequence[Piece]) -> list[Piece]:
        """Return a line's pieces, with the prefix on the first one that the model reads."""
        [ids] = self._search.tgt_tokenizer.encode_translations([self._prefix], [pieces[0].text])
        return with_prefix(pieces, tuple(ids))

    def note(self) -> dict[str, Any]:
        """Return the counts so far as JSON, for `absorb`."""
        return {
            "lines": self.n_lines,
            "unfinished": self.n_unfinished,
            "moved": [self.n_moved, self.lines_moved],
            "respelt": [self.n_respelt, self.respelt],
            "memory": self.memory,
            "review": self.review.tally.note(),
            **({"terms": self.terms.note()} if self.terms is not None else {}),
        }

    def absorb(self, note: Mapping[str, Any]) -> None:
        """Add the counts of another session with the same settings over the following lines."""
        self.n_lines += note["lines"]
        self.n_unfinished += note["unfinished"]
        self._add_moved(*note["moved"])
        self._add_respelt(*note.get("respelt", (0, ())))
        self.memory.update(note.get("memory", {}))
        self.review.tally.absorb(note["review"])
        if self.terms is not None:
            self.terms.absorb(note["terms"])

    def _add_moved(self, n: int, lines: Sequence[int]) -> None:
        self.n_moved += n
        self.lines_moved = [*self.lines_moved, *lines][:_MOST_LISTED]

    def _add_respelt(self, n: int, words: Sequence[str]) -> None:
        self.n_respelt += n
        self.respelt = list(dict.fromkeys([*self.respelt, *words]))[:_MOST_LISTED]

    def report(self) -> None:
        """Log the counts, if any is above 0."""
        warn_unfinished(self.n_unfinished, self.n_lines)
        _warn_moved(self.n_moved, self.lines_moved, self.n_lines)
        self.review.warn()
        self.report_aids()

    def report_aids(self) -> None:
        """Log which words were read as others, how many texts the memory has, and which terms were met."""
        if self.n_respelt:
            listed = ", ".join(self.respelt) + (", ..." if len(self.respelt) == _MOST_LISTED else "")
            similar = "a similar one" if self.n_respelt == 1 else "similar ones"
            log.info(
                f"read {counted(self.n_respelt, 'unknown word')} as {similar} of the training text: {listed}; "
                "decode.as_typed=true reads text as it is"
            )
        if self._reader.matcher is not None:
            n = self.memory
            log.info(
                f"translation memory: {n['exact']:,} of {counted(n['texts'], 'text')} had an exact match, whose "
                f"translation is used; {n['similar']:,} had a similar one"
            )
        if self.terms is not None:
            for line in self.terms.lines():
                log.info(line)


def warn_unfinished(n_unfinished: int, n_lines: int) -> None:
    """Warn about translations that the length limit ended, if there are any."""
    if n_unfinished:
        log.warning(
            f"{n_unfinished} of {counted(n_lines, 'translation')} hit the length limit (decode.max_len_factor, "
            "decode.max_len_constant, decode.max_len): they may be incomplete or repeat themselves"
        )


def _warn_moved(n_moved: int, lines: Sequence[int], n_lines: int) -> None:
    """Warn about translations in which mtkit moved or removed a placeholder, if there are any; lines: the first."""
    if n_moved:
        listed = ", ".join(map(str, lines)) + (", ..." if n_moved > len(lines) else "")
        log.warning(
            f"{n_moved:,} of {counted(n_lines, 'translation')} lost or repeated a placeholder; mtkit put missing "
            f"ones at the end (line{'s' if n_moved > 1 else ''} {listed})"
        )

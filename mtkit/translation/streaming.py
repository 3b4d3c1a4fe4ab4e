"""Translate one text and emit its translation piece by piece during the search, without ever revising a piece."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

from mtkit.engines.native import NativeEngine
from mtkit.errors import MtkitError
from mtkit.search.hypothesis import Hypothesis
from mtkit.text.lines import keep_edges
from mtkit.tokens.placeholders import fill
from mtkit.translation.candidates import Candidate, Translation, gap_after
from mtkit.translation.pieces import Piece
from mtkit.translation.translator import Translator

_INCOMPLETE = "\ufffd"  # how decoding shows the first bytes of a character whose last bytes are still to come


class LiveTranslator:
    """Translates one line after the other, and emits each part of a translation once all hypotheses agree on it.

    The parts concatenate to the translation. With greedy search they are single tokens; a beam holds back what its
    hypotheses do not have in common. A text that is too long is emitted segment by segment. The session reports what
    looks broken; no second search could replace what was emitted.
    """

    def __init__(self, translator: Translator) -> None:
        """Raise MtkitError for an engine or settings that do not support streaming."""
        if not isinstance(translator.engine, NativeEngine):
            raise MtkitError(f"the {translator.engine.name} engine cannot stream tokens; use decode.engine=native")
        if translator.decode.mbr_samples or translator.terminology:
            raise MtkitError(
                "only a plain search can stream tokens; set neither decode.mbr_samples nor decode.terminology"
            )
        self.session = translator.session(searches_again=False)
        self._translator, self._engine, self._search = translator, translator.engine, translator.piece_search

    def translate(self, text: str, emit: Callable[[str], None]) -> Translation:
        """Translate the next line, and call emit with each part."""
        done = ""  # the translation of the segments before
        candidates: list[list[Candidate]] = []
        [pieces] = self._translator.pieces([text], first_line=self.session.n_lines + 1)
        for piece in pieces:
            candidates.append([self._translate(piece, emit, gap_after(done, piece.gap))])
            done += gap_after(done, piece.gap) * bool(candidates[-1][0].text) + candidates[-1][0].text
        return self.session.add(text, pieces, candidates)

    def _translate(self, piece: Piece, emit: Callable[[str], None], start: str) -> Candidate:
        """Translate a piece, and emit its parts, with the space before it first."""
        shown = ""

        def show(part: str) -> None:
            nonlocal shown
            if len(part) > len(shown) and part.startswith(shown):
                emit((start if not shown else "") + part[len(shown) :])
                shown = part

        if not self._may_grow(piece):
            [[candidate, *_]] = self._search.candidates([piece])
        else:
            segment = self._search.segment(piece)
            for hypotheses in self._engine.stream(segment, self._translator.decode):
                # without an end that later tokens may change: an incomplete character, a space that may be the last
                beginning = self._search.text_of(_common_prefix(hypotheses), segment)
                if segment.case == "small" and " " not in beginning:
                    continue  # the whole first word decides about its first letter
                edged = keep_edges(segment.text, beginning.rstrip(_INCOMPLETE).rstrip())  # perhaps without a full stop
                show(fill(edged, segment.values))
            [best] = hypotheses
            candidate = self._search.candidate(best, segment)
            edged = keep_edges(segment.text, candidate.text)
            candidate = replace(candidate, text=edged if edged.startswith(shown) else candidate.text)
        show(candidate.text)
        return candidate

    def _may_grow(self, piece: Piece) -> bool:
        """Return whether the model writes all of the translation: no protected text, no marks to add at its edges."""
        has_protected = piece.inline is not None or piece.kept
        return not piece.is_blank and not has_protected and keep_edges(piece.text, "word") == "word"


def _common_prefix(hypotheses: Sequence[Hypothesis]) -> list[int]:
    columns = zip(*(hypothesis.ids for hypothesis in hypotheses), strict=False)
    return [column[0] for column in itertools.takewhile(lambda column: len(set(column)) == 1, columns)]

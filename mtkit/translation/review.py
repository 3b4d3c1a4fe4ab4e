"""Check translations for faults before returning them, and handle faults as `decode.on_suspect` requires.

"retry" searches a faulty line again. If it has several sentences, mtkit searches them one by one. If the translation is
empty, loops or has an unlikely length, mtkit searches with rules against that, and in shorter segments; else it takes
the best candidate of the beam with fewer faults. All these searches together cost at most about as much as the first
one. A new translation replaces the old one only if the same checks find less wrong with it. All of this depends on the
line alone, never on its batch or on n_best.

The segments of a long line are checked and searched again one by one. Then the joined line is checked for its length:
each segment may lose too little to be noticed.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise, starmap
from typing import Any

from mtkit.alignment.checks import Checks
from mtkit.config.decoding import DecodeConfig
from mtkit.console import log
from mtkit.quality.faults import (
    FAULT_KINDS,
    TOO_LONG,
    TOO_SHORT,
    WHY_LEFT,
    Fault,
    FaultKind,
    find_left,
    is_likely_length,
    length_error,
)
from mtkit.text.words import n_letters
from mtkit.translation.candidates import Candidate, Translation, join_candidates, join_segments
from mtkit.translation.piece_search import PieceSearch
from mtkit.translation.pieces import Piece

_NO_REPEAT_NGRAM = 3
_OF_SEVERAL: frozenset[FaultKind] = frozenset({"empty", "loop", "length", "omission"})  # of a model of single sentences
_MIN_LEN_FACTOR = 0.6  # target tokens a source token, for a translation that was too short
_SEVERITY: dict[FaultKind, int] = {
    "empty": 5,
    "loop": 3,
    "length": 3,
    "omission": 3,
    "copy": 3,
    "number": 1,
    "url": 1,
    "left": 3,
}
# Tokens a segment, for text that the model does not translate well at its length: sentences of everyday language have
# 8 to 32.
_SHORT_SEGMENTS = (32, 16)
_LETTERS_A_TOKEN = 3  # a shorter text than this cannot be split into such segments
_MAX_LINES_LISTED = 20
_MAX_SEGMENTS_LISTED = 10
_VERBS: dict[FaultKind, tuple[str, str]] = {  # singular, plural
    "empty": ("is empty", "are empty"),
    "loop": ("loops", "loop"),
    "length": ("has an unlikely length", "have an unlikely length"),
    "omission": ("leaves out a part of the source", "leave out a part of the source"),
    "copy": ("copies the source", "copy the source"),
    "number": ("loses a number", "lose a number"),
    "url": ("loses a URL", "lose a URL"),
    "left": (f"leaves text untranslated ({WHY_LEFT})", f"leave text untranslated ({WHY_LEFT})"),
}


@dataclass
class Tally:
    """The counts over the lines that a review has checked."""

    n_lines: int = 0
    n_before: int = 0  # lines of the text before the first of these, reviewed elsewhere
    n_faulty: int = 0
    n_changed: int = 0  # suspect at first; a second search found a translation that does not look so
    kinds: Counter[FaultKind] = field(default_factory=Counter)  # lines with such a fault
    lines: list[str] = field(default_factory=list)  # numbers of the first faulty ones, from 1, with their segments

    def add(self, faults: Sequence[Fault], *, changed: bool, n_segments: int = 1) -> None:
        """Count the next line, which was translated in n_segments segments."""
        self.n_lines += 1
        self.n_changed += changed
        self.kinds.update({fault.kind for fault in faults})
        if faults:
            self.n_faulty += 1
            if len(self.lines) < _MAX_LINES_LISTED:
                self.lines.append(f"{self.n_before + self.n_lines}{_in_segments(faults, n_segments)}")

    def note(self) -> dict[str, Any]:
        """Return the counts as JSON, for `absorb`."""
        return {key: value for key, value in vars(self).items() if key != "n_before"}

    def absorb(self, note: Mapping[str, Any]) -> None:
        """Add the counts of the lines that come next."""
        self.n_lines += note["n_lines"]
        self.n_faulty += note["n_faulty"]
        self.n_changed += note["n_changed"]
        self.kinds.update(note["kinds"])
        self.lines = [*self.lines, *note["lines"]][:_MAX_LINES_LISTED]

    def message(self) -> str:
        """Return a one-line summary for the log; "" if no line was faulty."""
        of_all = f"of {self.n_lines:,} translation{'' if self.n_lines == 1 else 's'}"
        it = "it" if self.n_changed == 1 else "them"
        if not self.n_faulty:
            return f"{self.n_changed:,} {of_all} looked suspect; a second search changed {it}" if self.n_changed else ""
        kinds = [
            f"{self.kinds[kind]:,} {_VERBS[kind][self.kinds[kind] > 1]}" for kind in FAULT_KINDS if self.kinds[kind]
        ]
        lines = ", ".join(self.lines) + (", ..." if self.n_faulty > len(self.lines) else "")
        text = (
            f"{self.n_faulty:,} {of_all} look{'s' if self.n_faulty == 1 else ''} suspect: "
            f"{', '.join(kinds)} (line{'s' if self.n_faulty > 1 else ''} {lines})"
        )
        return (
            f"{text}; {self.n_changed:,} more looked suspect, and a second search changed {it}"
            if self.n_changed
            else text
        )


def _in_segments(faults: Sequence[Fault], n_segments: int) -> str:
    numbers = sorted({fault.segment for fault in faults if fault.segment is not None})
    if not numbers:
        return ""
    more = ", ..." if len(numbers) > _MAX_SEGMENTS_LISTED else ""
    shown = ", ".join(f"{number:,}" for number in numbers[:_MAX_SEGMENTS_LISTED])
    return f" [segment{'s' if len(numbers) > 1 else ''} {shown}{more} of {n_segments:,}]"


class Review:
    """Reviews the translations of one text; `tally` counts its lines over all windows."""

    def __init__(
        self,
        search: PieceSearch,
        decode: DecodeConfig,
        *,
        checks: Checks,
        rules_in_beam: bool = True,
    ) -> None:
        """decode: the settings of the first search; its on_suspect chooses how to handle faults.

        checks: find them. rules_in_beam: False for an engine that supports min_len and no_repeat_ngram in greedy search
        only.
        """
        self.decode = decode
        self.tally = Tally()
        self._piece_search = search
        self._checks = checks
        self._rules_in_beam = rules_in_beam

    def window(
        self,
        lines: Sequence[Sequence[Piece]],
        candidates: Sequence[list[Candidate]],
    ) -> list[Translation]:
        """Review the candidates (best first) of all pieces of the next lines, and return the lines' translations.

        A line that was searched again has its new translation first and the old ones after it, as many as before; so
        its scores need not decrease.
        """
        pieces = [piece for line in lines for piece in line]
        by_line = list(starmap(range, pairwise(accumulate(map(len, lines), initial=0))))  # indices of pieces
        if self.decode.on_suspect == "off":
            translations = [Translation(piece.text, n_best) for piece, n_best in zip(pieces, candidates, strict=True)]
            return [_join(pieces, translations, indices) for indices in by_line]
        translations = [
            Translation(piece.text, n_best, self._faults(piece, n_best[0]))
            for piece, n_best in zip(pieces, candidates, strict=True)
        ]
        was_faulty = [bool(translation.faults) for translation in translations]
        searched = self._retry(pieces, translations) if self.decode.on_suspect == "retry" else set()
        reviewed = []
        for indices in by_line:
            line = _join(pieces, translations, indices)
            may_change = any(was_faulty[index] for index in indices)
            if self.decode.on_suspect == "retry" and len(indices) > 1 and _joined_length(line):
                may_change = True
                self._shorten(pieces, translations, [index for index in indices if index not in searched])
                line = _join(pieces, translations, indices)
            if len(indices) > 1 and not any(fault.kind == "length" for fault in line.faults):
                line = replace(line, faults=(*line.faults, *_joined_length(line)))
            read = [pieces[index].text for index in indices if not pieces[index].is_settled]
            left = [fault for text in read for fault in find_left(text)]
            line = replace(line, faults=(*line.faults, *left)) if left else line
            self.tally.add(line.faults, changed=may_change and not line.faults, n_segments=line.n_segments)
            reviewed.append(line)
        return reviewed

    def _shorten(self, pieces: Sequence[Piece], translations: list[Translation], indices: Sequence[int]) -> None:
        """Search one line's segments again in shorter parts; replace, in place, those whose length becomes likelier."""
        for limit in _SHORT_SEGMENTS[: self.decode.beam_size]:
            long = [index for index in indices if n_letters(translations[index].src) > _LETTERS_A_TOKEN * limit]
            beam_size = max(1, self.decode.beam_size // len(_SHORT_SEGMENTS))
            settings = _narrower(self.decode, beam_size).model_copy(update={"max_src_tokens": limit})
            found = self._search([pieces[index] for index in long], settings)
            for index, new in zip(long, found, strict=True):
                old, faults = translations[index], self._faults(pieces[index], new[0])
                better = length_error(old.src, new[0].text) < length_error(old.src, old.text)
                if better and _severity(faults) <= _severity(old.faults):
                    translations[index] = replace(old, n_best=[new[0], *old.n_best][: len(old.n_best)], faults=faults)

    def warn(self) -> None:
        """Log the tally, if any line was faulty."""
        if message := self.tally.message():
            (log.warning if self.tally.n_faulty else log.info)(message)

    def _faults(self, piece: Piece, candidate: Candidate, before: Sequence[Fault] = ()) -> tuple[Fault, ...]:
        """Return the faults of a candidate. before: those of an earlier one, whose words must be translated now."""
        if piece.is_blank:  # its translation is a copy
            return ()
        ids = piece.ids[0], candidate.ids
        return self._checks.faults(piece.text, candidate.text, ids, finished=candidate.finished, before=before)

    def _retry(self, pieces: Sequence[Piece], translations: list[Translation]) -> set[int]:
        """Search faulty pieces again, and replace in place those that improve; return the indices of those searched."""
        left = [self.decode.beam_size] * len(pieces)  # hypotheses that the searches for a piece may still take
        for index in self._search_by_sentence(pieces, translations):
            left[index] //= 2
        plans = [
            retry_settings(_narrower(self.decode, n), line.src, line.faults, self._rules_in_beam) if n else []
            for n, line in zip(left, translations, strict=True)
        ]
        searched = {index for index, plan in enumerate(plans) if plan or left[index] < self.decode.beam_size}
        while any(plans):
            groups: dict[DecodeConfig, list[int]] = {}
            for index, plan in enumerate(plans):
                if plan and translations[index].faults:
                    groups.setdefault(plan[0], []).append(index)
            plans = [plan[1:] for plan in plans]
            for settings, indices in groups.items():
                candidates = self._search([pieces[index] for index in indices], settings)
                for index, new in zip(indices, candidates, strict=True):
                    translations[index] = self._better(pieces[index], translations[index], new)
        return searched

    def _search_by_sentence(self, pieces: Sequence[Piece], translations: list[Translation]) -> Collection[int]:
        """Search the sentences of faulty pieces one by one, with half of the beam; replace in place those that improve.

        Returns the indices of the pieces that were searched.
        """
        faulty = [i for i, t in enumerate(translations) if any(fault.kind in _OF_SEVERAL for fault in t.faults)]
        by_line = {index: self._piece_search.reader.sentences(pieces[index]) for index in faulty}
        cut = {index: sentences for index, sentences in by_line.items() if len(sentences) > 1}
        if not cut:
            return ()
        settings = _narrower(self.decode, -(-self.decode.beam_size // 2))
        found = iter(self._search([sentence for sentences in cut.values() for sentence in sentences], settings))
        for index, sentences in cut.items():
            joined = join_candidates([next(found) for _ in sentences], [sentence.gap for sentence in sentences])
            new = self._better(pieces[index], translations[index], joined)
            if new is not translations[index]:
                translations[index] = replace(new, n_segments=len(sentences))
        return cut

    def _search(self, pieces: Sequence[Piece], settings: DecodeConfig) -> list[list[Candidate]]:
        return self._piece_search.candidates(
            pieces, decode=settings, n_best=1 if settings.sampling else settings.beam_size
        )

    def _better(self, piece: Piece, translation: Translation, new: list[Candidate]) -> Translation:
        """Put the least faulty of the new candidates first, if it is less faulty than the best so far."""
        best, faults = translation.n_best[0], translation.faults
        for candidate in new:
            candidate_faults = self._faults(piece, candidate, translation.faults)
            if _severity(candidate_faults) < _severity(faults):
                best, faults = candidate, candidate_faults
        if best is translation.n_best[0]:
            return translation
        others = [candidate for candidate in translation.n_best if candidate.text != best.text]
        return replace(translation, n_best=[best, *others][: len(translation.n_best)], faults=faults)


def retry_settings(
    decode: DecodeConfig, src: str, faults: Sequence[Fault], rules_in_beam: bool = True
) -> list[DecodeConfig]:
    """Return the settings for further searches of such a line, to be tried in order while faults remain.

    Against a fault that a rule prevents, the first search has the rule, and the others split the text into shorter
    segments. Against others, one search considers all hypotheses of its beam. The searches share the beam of the first
    pass, so that text which the model does not know takes about twice as long as other text, and not many times.
    """
    if not faults:
        return []
    if decode.sampling:
        return [decode.model_copy(update={"seed": (decode.seed + 1) % 2**32})]
    rules = _rules_against(faults, decode)
    if not rules:
        is_first = decode.beam_size == 1 and not decode.mbr_samples
        return [] if is_first else [decode.model_copy(update={"mbr_samples": 0})]
    limits = [limit for limit in _SHORT_SEGMENTS if n_letters(src) > _LETTERS_A_TOKEN * limit][: decode.beam_size - 1]
    beam_size = decode.beam_size // (1 + len(limits))
    return [
        _narrower(decode, beam_size if rules_in_beam else 1).model_copy(update=rules),
        *(_narrower(decode, beam_size).model_copy(update={"max_src_tokens": limit}) for limit in limits),
    ]


def _narrower(decode: DecodeConfig, beam_size: int) -> DecodeConfig:
    """Return the settings of a search, not of draws to choose from, with another beam size."""
    if beam_size == decode.beam_size:
        return decode.model_copy(update={"mbr_samples": 0})
    return decode.model_copy(update={"beam_size": beam_size, "beam_groups": 1, "mbr_samples": 0})


def _join(pieces: Sequence[Piece], translations: Sequence[Translation], indices: Sequence[int]) -> Translation:
    """Join the translations of a line's segments, which have these indices, and number the segments in their faults."""
    segments, gaps = [translations[index] for index in indices], [pieces[index].gap for index in indices]
    if len(segments) == 1:
        return segments[0]
    read = [index for index in indices if not pieces[index].is_blank]
    faults = (replace(f, segment=n) for n, index in enumerate(read, start=1) for f in translations[index].faults)
    return Translation(
        join_segments([segment.src for segment in segments], gaps),
        join_candidates([segment.n_best for segment in segments], gaps),
        tuple(faults) if len(read) > 1 else tuple(f for segment in segments for f in segment.faults),
        n_segments=max(1, len(read)),
        is_long=any(pieces[index].is_of_long for index in indices),
    )


def _joined_length(line: Translation) -> list[Fault]:
    """Return the fault of a joined line whose length is unlikely, even if the length of each segment is likely."""
    n_src, n_text = n_letters(line.src), n_letters(line.text)
    if is_likely_length(n_src, n_text):
        return []
    return [Fault("length", TOO_SHORT if n_text < n_src else TOO_LONG)]


def _rules_against(faults: Sequence[Fault], decode: DecodeConfig) -> dict[str, object]:
    rules: dict[str, object] = {}
    for fault in faults:
        if fault.kind == "empty" or fault.detail == TOO_SHORT:
            rules["min_len"] = max(decode.min_len, 1)
            rules["min_len_factor"] = max(decode.min_len_factor, _MIN_LEN_FACTOR)
        elif fault.kind in ("loop", "length"):
            rules["no_repeat_ngram"] = min(decode.no_repeat_ngram or _NO_REPEAT_NGRAM, _NO_REPEAT_NGRAM)
    return rules


def marked(text: str, faults: Iterable[Fault]) -> str:
    """Put the kinds of fault before a line of plain output: "[suspect: loop, number] ..."; unchanged without faults."""
    kinds = list(dict.fromkeys(fault.kind for fault in faults))
    return f"[suspect: {', '.join(kinds)}] {text}".rstrip() if kinds else text


def _severity(faults: Sequence[Fault]) -> int:
    return sum(_SEVERITY[fault.kind] for fault in faults)

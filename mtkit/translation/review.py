"""The look at translations before they are given out: texts and candidates in, candidates and their faults out.

What is done about a fault is `decode.on_suspect`. "retry" searches the line again, first with a wider beam of which the
best candidate without a fault is taken, then, for one that loops or has an unlikely length, with rules against that;
the new translation is kept only if less is wrong with it. All of this depends on the line alone, never on its batch,
and not on how many candidates were asked for.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mtkit.config.schema import DecodeConfig
from mtkit.console import log
from mtkit.quality.faults import FAULT_KINDS, TOO_SHORT, Fault, FaultKind, find_faults

if TYPE_CHECKING:
    from mtkit.translation.translator import Candidate, Searcher

_WIDER = 8  # candidates looked at in a second search, at least
_NO_REPEAT_NGRAM = 3
_MIN_LEN_FACTOR = 0.6  # target tokens a source token, for a translation that was too short
_BADNESS: dict[FaultKind, int] = {"empty": 5, "loop": 3, "length": 3, "copy": 3, "number": 1, "url": 1}
_LINES_NAMED = 20
_VERBS: dict[FaultKind, tuple[str, str]] = {  # of one, of several
    "empty": ("is empty", "are empty"),
    "loop": ("loops", "loop"),
    "length": ("has an unlikely length", "have an unlikely length"),
    "copy": ("copies the source", "copy the source"),
    "number": ("loses a number", "lose a number"),
    "url": ("loses a URL", "lose a URL"),
}


@dataclass(frozen=True)
class Reviewed:
    """One line's candidates, and what is wrong with the first of them."""

    candidates: "list[Candidate]"
    faults: tuple[Fault, ...]


@dataclass
class Tally:
    """What a review has seen so far. Parts of one text that were reviewed apart can be added up in order."""

    n_lines: int = 0
    n_before: int = 0  # lines that somebody else has reviewed before the first of these
    n_suspect: int = 0
    n_mended: int = 0  # suspect at first, faultless after a second search
    kinds: Counter[FaultKind] = field(default_factory=Counter)  # lines with such a fault
    lines: list[int] = field(default_factory=list)  # the first suspect ones, from 1

    def add(self, faults: Sequence[Fault], *, mended: bool) -> None:
        """Count the next line."""
        self.n_lines += 1
        self.n_mended += mended
        self.kinds.update({fault.kind for fault in faults})
        if faults:
            self.n_suspect += 1
            if len(self.lines) < _LINES_NAMED:
                self.lines.append(self.n_before + self.n_lines)

    def extend(self, following: "Tally") -> None:
        """Add what was seen in the lines that follow these."""
        self.lines += [self.n_lines + line for line in following.lines][: _LINES_NAMED - len(self.lines)]
        self.n_lines += following.n_lines
        self.n_suspect += following.n_suspect
        self.n_mended += following.n_mended
        self.kinds.update(following.kinds)

    def message(self) -> str:
        """One line about all of it, for people; "" if there is nothing to tell."""
        mended = f"{self.n_mended:,} looked suspect and {_was(self.n_mended)} mended by a second search"
        if not self.n_suspect:
            return f"{mended}, of {_counted(self.n_lines)}" if self.n_mended else ""
        found = [
            f"{self.kinds[kind]:,} {_VERBS[kind][self.kinds[kind] > 1]}" for kind in FAULT_KINDS if self.kinds[kind]
        ]
        lines = ", ".join(map(str, self.lines)) + (", ..." if self.n_suspect > len(self.lines) else "")
        text = (
            f"{self.n_suspect:,} of {_counted(self.n_lines)} look{'s' if self.n_suspect == 1 else ''} suspect: "
            f"{', '.join(found)} (line{'s' if self.n_suspect > 1 else ''} {lines})"
        )
        return f"{text}; {mended}" if self.n_mended else text


class Review:
    """The guard of one text; `tally` counts its lines, from the first window to the last."""

    def __init__(
        self,
        searcher: "Searcher",
        decode: DecodeConfig,
        *,
        tgt_lang: str | None = None,
        rules_in_beam: bool = True,
    ) -> None:
        """decode: the settings that the candidates were found with; its on_suspect says what to do.

        tgt_lang: language of the translations, such as "fr". rules_in_beam: False for an engine that knows min_len and
        no_repeat_ngram in greedy search only.
        """
        self.decode = decode
        self.tally = Tally()
        self._searcher = searcher
        self._tgt_lang = tgt_lang
        self._rules_in_beam = rules_in_beam

    def window(
        self,
        texts: Sequence[str],
        candidates: "Sequence[list[Candidate]]",
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
    ) -> list[Reviewed]:
        """The next lines with their candidates, best first; prefixes: what their translations were made to begin with.

        A line that was translated again has its new translation first and the others behind it, as many as before:
        its scores need not fall from one to the next.
        """
        if self.decode.on_suspect == "off":
            return [Reviewed(found, ()) for found in candidates]
        reviewed = [
            Reviewed(found, self._faults(text, found[0])) for text, found in zip(texts, candidates, strict=True)
        ]
        suspect_at_first = [bool(line.faults) for line in reviewed]
        if self.decode.on_suspect == "retry":
            self._retry(texts, reviewed, prefixes)
        for line, was_suspect in zip(reviewed, suspect_at_first, strict=True):
            self.tally.add(line.faults, mended=was_suspect and not line.faults)
        return reviewed

    def warn(self) -> None:
        """Say on stderr what was found, if anything was."""
        if message := self.tally.message():
            (log.warning if self.tally.n_suspect else log.info)(message)

    def _faults(self, text: str, candidate: "Candidate") -> tuple[Fault, ...]:
        return find_faults(text, candidate.text, finished=candidate.finished, tgt_lang=self._tgt_lang)

    def _retry(self, texts: Sequence[str], reviewed: list[Reviewed], prefixes: Sequence[Sequence[int]] | None) -> None:
        """Replace in `reviewed` what a second or third search does better."""
        plans = [retry_settings(self.decode, line.faults, self._rules_in_beam) for line in reviewed]
        while any(plans):
            groups: dict[DecodeConfig, list[int]] = {}
            for number, plan in enumerate(plans):
                if plan and reviewed[number].faults:
                    groups.setdefault(plan[0], []).append(number)
            plans = [plan[1:] for plan in plans]
            for settings, numbers in groups.items():
                found = self._searcher.search(
                    [texts[number] for number in numbers],
                    decode=settings,
                    n_best=_WIDER if settings.sampling else settings.beam_size,
                    prefixes=None if prefixes is None else [prefixes[number] for number in numbers],
                )
                for number, others in zip(numbers, found, strict=True):
                    reviewed[number] = self._better(texts[number], reviewed[number], others)

    def _better(self, text: str, line: Reviewed, others: "list[Candidate]") -> Reviewed:
        """The line with the least faulty of these first; as it is, if none is less faulty."""
        best, faults = line.candidates[0], line.faults
        for other in others:
            found = self._faults(text, other)
            if _badness(found) < _badness(faults):
                best, faults = other, found
        if best is line.candidates[0]:
            return line
        rest = [candidate for candidate in line.candidates if candidate.text != best.text]
        return Reviewed([best, *rest][: len(line.candidates)], faults)


def retry_settings(decode: DecodeConfig, faults: Sequence[Fault], rules_in_beam: bool = True) -> list[DecodeConfig]:
    """With what a line with such faults is searched again, one after the other as long as faults are left.

    First with what sees more candidates, then, where there are any, with rules that forbid what went wrong.
    """
    if not faults:
        return []
    rules = _rules_against(faults, decode)
    if rules and not rules_in_beam and not decode.sampling:
        rules |= {"beam_size": 1, "beam_groups": 1}
    ruled = [decode.model_copy(update={**rules, "mbr_samples": 0})] if rules else []
    if decode.sampling:
        return [decode.model_copy(update={"seed": (decode.seed + 1) % 2**32}), *ruled]
    groups = -(-max(2 * decode.beam_size, _WIDER) // decode.beam_groups)
    return [decode.model_copy(update={"beam_size": groups * decode.beam_groups, "mbr_samples": 0}), *ruled]


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
    """A line of plain output that tells its faults: "[suspect: loop, number] " and the text; as it is without any."""
    kinds = list(dict.fromkeys(fault.kind for fault in faults))
    return f"[suspect: {', '.join(kinds)}] {text}".rstrip() if kinds else text


def _badness(faults: Sequence[Fault]) -> int:
    return sum(_BADNESS[fault.kind] for fault in faults)


def _counted(n_lines: int) -> str:
    return f"{n_lines:,} translation{'' if n_lines == 1 else 's'}"


def _was(number: int) -> str:
    return "was" if number == 1 else "were"

"""A terminology file in, constraints for each source sentence out; and a report of the terms met."""

import difflib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from mtkit.data.corpus import read_lines
from mtkit.data.special_ids import UNK_ID
from mtkit.data.tokenizer import Tokenizer
from mtkit.errors import DataError
from mtkit.search.constraints import (
    Constraints,
    Matcher,
    Phrase,
    Requirement,
    Spelling,
    any_case,
    capitalised,
    chunks,
    folded,
)

COLUMNS = ("source", "target", "forbidden")
EVERYWHERE = "*"  # as a source: applies to every sentence
_SEPARATOR = " | "  # between alternatives


@dataclass(frozen=True, eq=False)
class Term:
    """One line of the file."""

    source: str  # EVERYWHERE, or what must occur in the source sentence
    target: tuple[Phrase, ...]  # one of these must appear, as often as the source occurs; none: nothing must
    forbidden: tuple[Phrase, ...]
    line: int

    @cached_property
    def required(self) -> Matcher:
        """Finds what must appear."""
        return Matcher([phrase.text for phrase in self.target])

    @cached_property
    def banned(self) -> Matcher:
        """Finds what must not appear."""
        return Matcher([phrase.text for phrase in self.forbidden])

    def __str__(self) -> str:
        """The term as a report names it."""
        targets, banned = (
            _SEPARATOR.join(phrase.text for phrase in phrases) for phrases in (self.target, self.forbidden)
        )
        return " ".join([self.source, *(["->", targets] if targets else []), *(["not", banned] if banned else [])])


class Terminology:
    """Terms, and where they apply.

    A source term is found as whole words; without capitals in any case, with capitals as it is written. Where terms
    overlap the one that begins first is taken, of several that begin there the longest.
    """

    def __init__(self, terms: Sequence[Term], spelling: Spelling) -> None:
        """spelling: of the target tokenizer that the terms' phrases were made with."""
        self.terms = tuple(terms)
        self._spelling = spelling
        self._everywhere = [term for term in terms if term.source == EVERYWHERE]
        # By first chunk, in lower case; longest first, and of equally long ones those with capitals.
        self._by_start: dict[str, list[tuple[list[str], Term]]] = {}
        for term in terms:
            if term.source != EVERYWHERE:
                parts = chunks(term.source)
                self._by_start.setdefault(folded(parts[0]), []).append((parts, term))
        for candidates in self._by_start.values():
            candidates.sort(key=lambda item: (-len(item[0]), any_case(item[1].source)))

    @classmethod
    def load(cls, path: Path, tgt_tokenizer: Tokenizer) -> "Terminology":
        """The terms in a TSV file (`.gz` is read as such), whose first line names its columns.

        source: where it applies (nothing, or *: everywhere); target: what must appear there; forbidden: what must not;
        the latter two with ` | ` between alternatives. Blank lines are ignored, and quotes mean themselves.
        Raises DataError, with file and line, for columns that are not known, a source that comes twice, a line that
        asks for nothing or contradicts itself, or text that the tokenizer cannot write.
        """
        return cls(*_Reader(path, tgt_tokenizer).read())

    def constraints_for(self, src: str) -> Constraints | None:
        """What the terms ask of this sentence's translation; None if nothing.

        A phrase that one term asks for and another one forbids is not asked for.
        """
        occurring = self.occurrences(src)
        forbidden = tuple(phrase for term in occurring for phrase in term.forbidden)
        targets = asked_for(occurring)
        required = tuple(Requirement(targets[term], times) for term, times in occurring.items() if targets[term])
        if not required and not forbidden:
            return None
        return Constraints(self._spelling, required, forbidden)

    def occurrences(self, src: str) -> dict[Term, int]:
        """The terms that apply to the sentence, and how often: everywhere counts as once, but not for a blank one."""
        words = chunks(_tidy(src))
        counts = dict.fromkeys(self._everywhere if words else [], 1)
        lower = [folded(word) for word in words]
        position = 0
        while position < len(words):
            n, term = self._longest_at(words, lower, position)
            if term:
                counts[term] = counts.get(term, 0) + 1
            position += n
        return counts

    def _longest_at(self, words: list[str], lower: list[str], start: int) -> tuple[int, Term | None]:
        """How far to go on from here, and the term that is passed, if one is."""
        for parts, term in self._by_start.get(lower[start], []):
            end = start + len(parts)
            if any_case(term.source):
                found = lower[start:end] == parts
            else:
                found = words[start:end] in (parts, [capitalised(parts[0]), *parts[1:]])
            if found:
                return len(parts), term
        return 1, None


def asked_for(occurring: Iterable[Term]) -> dict[Term, tuple[Phrase, ...]]:
    """The targets of each of these terms of one sentence, without those that one of the terms forbids."""
    terms = list(occurring)
    blocker = Matcher([phrase.text for term in terms for phrase in term.forbidden])
    return {term: tuple(phrase for phrase in term.target if not blocker.count(phrase.text)) for term in terms}


@dataclass
class TermCounts:
    """What became of one term."""

    in_source: int = 0  # how often it applied
    required: int = 0  # how often a target was asked for
    met: int = 0  # how often a target stood in the translation, at most as often as asked for in each sentence
    forbidden: int = 0  # how often a forbidden phrase stood there


@dataclass
class TermReport:
    """Counts of terms met, over the translations that it is shown."""

    terminology: Terminology
    counts: dict[Term, TermCounts] = field(default_factory=dict)  # of terms that applied

    def add(self, src: str, translation: str) -> None:
        """Count the terms of one sentence."""
        occurring = self.terminology.occurrences(src)
        targets = asked_for(occurring)
        for term, times in occurring.items():
            counts = self.counts.setdefault(term, TermCounts())
            counts.in_source += times
            if targets[term]:
                counts.required += times
                counts.met += min(times, term.required.count(translation))
            counts.forbidden += term.banned.count(translation)

    @property
    def n_required(self) -> int:
        """How often a target was asked for."""
        return sum(counts.required for counts in self.counts.values())

    @property
    def n_met(self) -> int:
        """How often one was there."""
        return sum(counts.met for counts in self.counts.values())

    @property
    def n_forbidden(self) -> int:
        """How often a forbidden phrase was there."""
        return sum(counts.forbidden for counts in self.counts.values())

    def lines(self) -> list[str]:
        """The report for people: a line of totals, then one for each term that was not met, or forbidden and there."""
        lines = [
            f"terminology: {self.n_met:,} of {self.n_required:,} terms met, {self.n_forbidden:,} forbidden phrases"
        ]
        for term, counts in self._in_order():
            missed = counts.required - counts.met
            problems = [f"not met {missed:,} of {counts.required:,} times"] if missed else []
            problems += [f"forbidden {counts.forbidden:,} times"] if counts.forbidden else []
            if problems:
                lines.append(f"  line {term.line}: {term}: {', '.join(problems)}")
        return lines

    def as_json(self) -> dict[str, Any]:
        """The report for programs: totals, and every term that applied."""
        terms = [
            {
                "line": term.line,
                "source": term.source,
                "target": [phrase.text for phrase in term.target],
                "forbidden": [phrase.text for phrase in term.forbidden],
                "in_source": counts.in_source,
                "required": counts.required,
                "met": counts.met,
                "forbidden_seen": counts.forbidden,
            }
            for term, counts in self._in_order()
        ]
        totals = {"required": self.n_required, "met": self.n_met, "forbidden_seen": self.n_forbidden}
        return {**totals, "terms": terms}

    def _in_order(self) -> list[tuple[Term, TermCounts]]:
        return sorted(self.counts.items(), key=lambda item: item[0].line)


class _Reader:
    """Reads and checks one file."""

    def __init__(self, path: Path, tokenizer: Tokenizer) -> None:
        self._path, self._tokenizer = path, tokenizer
        self._spelling = Spelling.of(tokenizer)

    def read(self) -> tuple[list[Term], Spelling]:
        lines = ((n, line) for n, line in enumerate(read_lines(self._path), start=1) if line.strip())
        header = next(lines, None)
        if header is None:
            raise DataError(f"{self._path}: empty; its first line must name the columns: {', '.join(COLUMNS)}")
        columns = self._columns(*header)
        terms: list[Term] = []
        lines_of: dict[str, int] = {}
        for number, line in lines:
            term = self._term(number, self._cells(number, line, columns))
            first = lines_of.setdefault(term.source, number)
            if first != number and term.source != EVERYWHERE:
                raise self._error(
                    number,
                    f"source {term.source!r} has line {first} already; put both into one line, "
                    f"alternatives with {_SEPARATOR!r} between them",
                )
            terms.append(term)
        self._check_contradictions(terms)
        return terms, self._spelling

    def _columns(self, number: int, line: str) -> list[str]:
        columns = [cell.strip() for cell in line.split("\t")]
        known = f"the columns are {', '.join(COLUMNS)}, with tabs between them"
        for name in columns:
            if name not in COLUMNS:
                close = difflib.get_close_matches(name.lower(), COLUMNS, n=1)
                hint = f"did you mean {close[0]}? " if close else ""
                raise self._error(number, f"unknown column {name!r}; {hint}{known}")
        if doubled := [name for name in COLUMNS if columns.count(name) > 1]:
            raise self._error(number, f"column {doubled[0]!r} comes twice; {known}")
        if columns == ["source"]:
            raise self._error(number, f"neither target nor forbidden, so nothing is asked for; {known}")
        return columns

    def _cells(self, number: int, line: str, columns: list[str]) -> Mapping[str, str]:
        """The cells by column; those missing at the end are empty."""
        cells = line.split("\t")
        if len(cells) > len(columns):
            raise self._error(number, f"{len(cells)} columns, but the first line names {len(columns)}")
        return dict(zip(columns, cells, strict=False))

    def _term(self, number: int, cells: Mapping[str, str]) -> Term:
        source = _tidy(cells.get("source", "")) or EVERYWHERE
        target, forbidden = (
            tuple(self._phrase(number, name, text) for text in _alternatives(cells.get(name, "")))
            for name in ("target", "forbidden")
        )
        if not target and not forbidden:
            raise self._error(number, f"{source!r} has neither a target nor a forbidden phrase")
        return Term(source, target, forbidden, number)

    def _phrase(self, number: int, column: str, text: str) -> Phrase:
        written = _tidy(self._tokenizer.normalize(text))
        if not written:
            raise self._error(number, f"{column} {text!r}: the tokenizer leaves nothing of it")
        if UNK_ID in self._tokenizer.encode(written):
            unknown = dict.fromkeys(repr(c) for c in written if c != " " and UNK_ID in self._tokenizer.encode(c))
            raise self._error(
                number,
                f"{column} {text!r}: the target tokenizer cannot write {', '.join(unknown)}; "
                "spell the term without, or use a model whose tokenizer has byte_fallback",
            )
        return Phrase.spelled(written, self._tokenizer, self._spelling)

    def _check_contradictions(self, terms: Sequence[Term]) -> None:
        """Refuse a term none of whose targets can appear: its own line, or one for all sentences, forbids each."""
        everywhere = [term for term in terms if term.source == EVERYWHERE]
        for term in terms:
            forbidding = {
                other.line
                for other in (term, *everywhere)
                if any(other.banned.count(phrase.text) for phrase in term.target)
            }
            blocker = Matcher([phrase.text for other in (term, *everywhere) for phrase in other.forbidden])
            if term.target and all(blocker.count(phrase.text) for phrase in term.target):
                lines = ", ".join(map(str, sorted(forbidding)))
                raise self._error(term.line, f"every target of {term.source!r} is forbidden (line {lines})")

    def _error(self, number: int, what: str) -> DataError:
        return DataError(f"{self._path}: line {number}: {what}")


def _alternatives(cell: str) -> Iterator[str]:
    return (text for part in f" {cell} ".split(_SEPARATOR) if (text := part.strip()))


def _tidy(text: str) -> str:
    """The text in composed characters, with single spaces between words."""
    return " ".join(unicodedata.normalize("NFC", text).split())

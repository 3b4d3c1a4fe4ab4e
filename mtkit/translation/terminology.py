"""Read a terminology file, derive constraints for each source sentence, and report the terms met."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from mtkit.console import counted, log
from mtkit.errors import DataError, did_you_mean
from mtkit.pair_files.lines import read_lines
from mtkit.search.constraints import Constraints
from mtkit.search.phrases import Matcher, Phrase, Requirement, Spelling, any_case, capitalised, chunks, folded
from mtkit.text.capitals import changeable_words
from mtkit.text.characters import tidied
from mtkit.text.sentences import final_marks
from mtkit.tokens.special_ids import UNK_ID
from mtkit.tokens.tokenizer import Tokenizer

COLUMNS = ("source", "target", "forbidden")
EVERYWHERE = "*"  # as a source: applies to every sentence
_MAX_LINES_LISTED = 20
_MAX_SHOWN = 120  # characters of a term in reports
_SEPARATOR = " | "  # between alternatives
_BAR = re.compile(r"(?<=[^\W\d_]) ?\| ?(?=[^\W\d_])")


@dataclass(frozen=True, eq=False)
class Term:
    """One line of the terminology file."""

    source: str  # EVERYWHERE, or the words to find in the source sentence
    target: tuple[Phrase, ...]  # one of these must appear, as often as the source occurs; may be empty
    forbidden: tuple[Phrase, ...]
    line: int

    @cached_property
    def required(self) -> Matcher:
        """Matches the phrases that must appear."""
        return Matcher([phrase.text for phrase in self.target])

    @cached_property
    def banned(self) -> Matcher:
        """Matches the phrases that must not appear."""
        return Matcher([phrase.text for phrase in self.forbidden])

    def __str__(self) -> str:
        """Return the term as reports show it."""
        targets, banned = (
            _SEPARATOR.join(phrase.text for phrase in phrases) for phrases in (self.target, self.forbidden)
        )
        parts = [self.source, *(["->", targets] if targets else []), *(["not", banned] if banned else [])]
        text = " ".join(parts)
        return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."


class Terminology:
    """Terms, and where they apply.

    A source term matches whole words: in any case if it has no capitals, else as written. Where terms overlap, the one
    that begins first applies, and of several that begin there, the longest.
    """

    def __init__(self, terms: Sequence[Term], spelling: Spelling, name: str = "terminology") -> None:
        """spelling: that of the target tokenizer with which the terms' phrases were encoded. name: of the file."""
        self.terms = tuple(terms)
        self.name = name
        self._spelling = spelling
        self._everywhere = [term for term in terms if term.source == EVERYWHERE]
        # By chunks in lower case, with capitals first; and by the first chunk, the lengths that follow, longest first.
        self._by_chunks: dict[tuple[str, ...], list[tuple[list[str], Term]]] = {}
        lengths: dict[str, set[int]] = {}
        for term in sorted(terms, key=lambda term: any_case(term.source)):
            if term.source != EVERYWHERE:
                parts = chunks(term.source)
                lower = tuple(map(folded, parts))
                self._by_chunks.setdefault(lower, []).append((parts, term))
                lengths.setdefault(lower[0], set()).add(len(parts))
        self._lengths = {start: sorted(found, reverse=True) for start, found in lengths.items()}
        texts = {phrase.text for term in terms for phrase in term.target}
        marked = ((text, final_marks(text)) for text in sorted(texts))
        self.with_marks = [(text.removesuffix(mark), mark) for text, mark in marked if mark]  # such as Yahoo and !

    @classmethod
    def load(cls, path: Path, tgt_tokenizer: Tokenizer) -> "Terminology":
        """Load the terms in a TSV file (`.gz`, `.xz`, `.zst`: compressed). Its first line names its columns.

        source: where the term applies (empty or *: everywhere); target: what must appear; forbidden: what must not; the
        last two with ` | ` between alternatives. Blank lines are ignored; quotes have no special meaning.
        Raises DataError with file and line for an unknown column, a source that appears twice, a line that requires
        nothing or contradicts itself, or text that the tokenizer cannot encode.
        """
        terminology = cls(*_Reader(str(path), tgt_tokenizer).read(read_lines(path)), path.name)
        terminology._warn_of_bars(path)
        return terminology

    @classmethod
    def from_lines(cls, lines: Sequence[str], tgt_tokenizer: Tokenizer) -> "Terminology":
        """Read the lines of such a file."""
        name = "terminology"  # in messages
        return cls(*_Reader(name, tgt_tokenizer).read(lines), name)

    @cached_property
    def source_words(self) -> frozenset[str]:
        """The words of the source terms, in lower case."""
        return frozenset(word[0].lower() for term in self.terms for word in changeable_words(term.source))

    def _warn_of_bars(self, path: Path) -> None:
        """Warn of phrases that look like several, because spaces lack around the bar between them."""
        barred = [
            (term.line, phrase.text)
            for term in self.terms
            for phrase in (*term.target, *term.forbidden)
            if _BAR.search(phrase.text)
        ]
        if barred:
            line, text = barred[0]
            more = f", and {counted(len(barred) - 1, 'more such phrase')}" if len(barred) > 1 else ""
            log.warning(
                f"{path}: line {line}: {text!r} is one phrase{more}; if these are alternatives, put spaces around the "
                f"bar: {_BAR.sub(_SEPARATOR, text)!r}"
            )

    def constraints_for(self, src: str, src_tokenizer: Tokenizer | None = None) -> Constraints | None:
        """Return what the terms require and forbid in this sentence's translation; None if nothing.

        A phrase that one term requires and another one forbids is not required. src_tokenizer: with it, the
        constraints also tell which source tokens each term occupies.
        """
        places = self._places(src)
        forbidden = tuple(phrase for term in places for phrase in term.forbidden)
        targets = required_targets(places)
        if not forbidden and not any(targets.values()):
            return None
        positions = _SrcPositions(tidied(src), src_tokenizer) if src_tokenizer else None
        required = tuple(
            Requirement(targets[term], len(spans), positions.of(spans) if positions else ())
            for term, spans in places.items()
            if targets[term]
        )
        return Constraints(self._spelling, required, forbidden)

    def occurrences(self, src: str) -> dict[Term, int]:
        """Count how often each term applies to a sentence; EVERYWHERE applies once, except to a blank sentence."""
        return {term: len(spans) for term, spans in self._places(src).items()}

    def _places(self, src: str) -> dict[Term, list[tuple[int, int]]]:
        """Return the spans of each term, in characters of the tidy sentence; (0, 0) for EVERYWHERE."""
        words = chunks(tidied(src))
        places: dict[Term, list[tuple[int, int]]] = {}
        for term in self._everywhere if words else []:
            places[term] = [(0, 0)]
        lower = [folded(word) for word in words]
        position = character = 0
        while position < len(words):
            n, matching = self._longest_at(words, lower, position)
            end = character + sum(map(len, words[position : position + n]))
            if matching:
                places.setdefault(matching, []).append((character, end))
            position, character = position + n, end
        return places

    def _longest_at(self, words: list[str], lower: list[str], start: int) -> tuple[int, Term | None]:
        """Return the number of words to advance, and the term that they match, if any."""
        for n in self._lengths.get(lower[start], ()):
            for parts, term in self._by_chunks.get(tuple(lower[start : start + n]), ()):
                written = (parts, [capitalised(parts[0]), *parts[1:]])
                if any_case(term.source) or words[start : start + n] in written:
                    return n, term
        return 1, None


class _SrcPositions:
    """The mapping from a sentence's character spans to its tokens."""

    def __init__(self, src: str, tokenizer: Tokenizer) -> None:
        self._src, self._tokenizer = src, tokenizer
        self._ids = tokenizer.encode(src)
        self._n_tags = len(self._ids) - len(tokenizer.untagged(self._ids))

    def of(self, spans: Iterable[tuple[int, int]]) -> tuple[int, ...]:
        """Return the indices of the tokens in these spans, in rising order."""
        found = {index for start, end in spans for index in range(self._n_before(start), self._n_before(end))}
        return tuple(sorted(index for index in found if index < len(self._ids)))

    def _n_before(self, end: int) -> int:
        return len(self._tokenizer.encode(self._src[:end].rstrip())) or self._n_tags


def required_targets(occurring: Iterable[Term]) -> dict[Term, tuple[Phrase, ...]]:
    """Return the targets of each of these terms of one sentence, without those that one of the terms forbids."""
    terms = list(occurring)
    blocker = Matcher([phrase.text for term in terms for phrase in term.forbidden])
    return {term: tuple(phrase for phrase in term.target if not blocker.count(phrase.text)) for term in terms}


@dataclass
class TermCounts:
    """Counts of one term over all sentences."""

    in_source: int = 0  # times it applied
    required: int = 0  # times a target was required
    met: int = 0  # times a target appeared; in each sentence at most as often as required
    forbidden: int = 0  # times a forbidden phrase appeared
    unmet_lines: list[int] = field(default_factory=list)  # numbers of the first lines that miss a target


@dataclass
class TermReport:
    """Counts the terms met in translations."""

    terminology: Terminology
    counts: dict[Term, TermCounts] = field(default_factory=dict)  # only of terms that applied

    def add(self, src: str, translation: str, line: int) -> None:
        """Count the terms of one line, given its number."""
        occurring = self.terminology.occurrences(src)
        targets = required_targets(occurring)
        for term, times in occurring.items():
            counts = self.counts.setdefault(term, TermCounts())
            counts.in_source += times
            if targets[term]:
                met = min(times, term.required.count(translation))
                counts.required += times
                counts.met += met
                if met < times and len(counts.unmet_lines) <= _MAX_LINES_LISTED:
                    counts.unmet_lines.append(line)
            counts.forbidden += term.banned.count(translation)

    def note(self) -> dict[str, list[Any]]:
        """Return the counts as JSON, for `absorb`."""
        return {str(term.line): list(vars(counts).values()) for term, counts in self.counts.items()}

    def absorb(self, note: Mapping[str, Sequence[Any]]) -> None:
        """Add the counts of the lines that come next."""
        terms = {str(term.line): term for term in self.terminology.terms}
        for line, values in note.items():
            counts, other = self.counts.setdefault(terms[line], TermCounts()), TermCounts(*values)
            counts.in_source += other.in_source
            counts.required += other.required
            counts.met += other.met
            counts.forbidden += other.forbidden
            counts.unmet_lines = [*counts.unmet_lines, *other.unmet_lines][: _MAX_LINES_LISTED + 1]

    @property
    def n_required(self) -> int:
        """The number of required targets."""
        return sum(counts.required for counts in self.counts.values())

    @property
    def n_met(self) -> int:
        """The number of required targets that appeared."""
        return sum(counts.met for counts in self.counts.values())

    @property
    def n_forbidden(self) -> int:
        """The number of forbidden phrases that appeared."""
        return sum(counts.forbidden for counts in self.counts.values())

    def lines(self) -> list[str]:
        """Return the report as text: a line of totals, then one for each term missed or forbidden phrase used."""
        lines = [
            f"terminology: {self.n_met:,} of {counted(self.n_required, 'term')} met, {self.n_forbidden:,} forbidden "
            "phrases"
        ]
        for term, counts in self._in_order():
            missed = counts.required - counts.met
            problems = [f"not met {missed:,} of {counts.required:,} times{_in_lines(counts)}"] if missed else []
            problems += [f"forbidden {counts.forbidden:,} times"] if counts.forbidden else []
            if problems:
                lines.append(f"  {self.terminology.name} line {term.line}: {term}: {', '.join(problems)}")
        return lines

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON: totals, and every term that applied."""
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
                "unmet_lines": counts.unmet_lines,
            }
            for term, counts in self._in_order()
        ]
        totals = {"required": self.n_required, "met": self.n_met, "forbidden_seen": self.n_forbidden}
        return {**totals, "terms": terms}

    def _in_order(self) -> list[tuple[Term, TermCounts]]:
        return sorted(self.counts.items(), key=lambda item: item[0].line)


def _in_lines(counts: TermCounts) -> str:
    shown = ", ".join(map(str, counts.unmet_lines[:_MAX_LINES_LISTED]))
    more = ", ..." if len(counts.unmet_lines) > _MAX_LINES_LISTED else ""
    return f" (line{'s' if len(counts.unmet_lines) > 1 else ''} {shown}{more})"


class _Reader:
    """Reads and checks the lines of one file."""

    def __init__(self, name: str, tokenizer: Tokenizer) -> None:
        self._name, self._tokenizer = name, tokenizer
        self._spelling = Spelling.from_tokenizer(tokenizer)

    def read(self, text: Iterable[str]) -> tuple[list[Term], Spelling]:
        lines = ((n, line) for n, line in enumerate(text, start=1) if line.strip())
        header = next(lines, None)
        if header is None:
            raise DataError(f"{self._name}: empty; its first line must name the columns: {', '.join(COLUMNS)}")
        columns = self._columns(*header)
        terms: list[Term] = []
        lines_of: dict[str, int] = {}
        for line_number, line in lines:
            term = self._term(line_number, self._cells(line_number, line, columns))
            first = lines_of.setdefault(term.source, line_number)
            if first != line_number and term.source != EVERYWHERE:
                raise self._error(
                    line_number,
                    f"source {term.source!r} is already on line {first}; put both on one line, alternatives separated "
                    f"by {_SEPARATOR!r}",
                )
            terms.append(term)
        self._check_contradictions(terms)
        return terms, self._spelling

    def _columns(self, line_number: int, line: str) -> list[str]:
        columns = [cell.strip() for cell in line.split("\t")]
        known = f"the columns are {', '.join(COLUMNS)}, with tabs between them"
        for name in columns:
            if name not in COLUMNS:
                close = did_you_mean(name.lower(), COLUMNS)
                # Only then is its text shown: a model from elsewhere may name any file of this machine.
                shown = f" {name!r}" if close or any(column in name.lower() for column in COLUMNS) else ""
                hint = f"{close} " if close else ""
                raise self._error(line_number, f"unknown column{shown}; {hint}{known}")
        if doubled := [name for name in COLUMNS if columns.count(name) > 1]:
            raise self._error(line_number, f"column {doubled[0]!r} appears twice; {known}")
        if columns == ["source"]:
            raise self._error(line_number, f"there is neither a target nor a forbidden column; {known}")
        return columns

    def _cells(self, line_number: int, line: str, columns: list[str]) -> Mapping[str, str]:
        """Return the cells by column; missing cells at the end are empty."""
        cells = line.split("\t")
        if len(cells) > len(columns):
            raise self._error(line_number, f"{len(cells)} columns, but the first line names {len(columns)}")
        return dict(zip(columns, cells, strict=False))

    def _term(self, line_number: int, cells: Mapping[str, str]) -> Term:
        source = tidied(cells.get("source", "")) or EVERYWHERE
        target, forbidden = (
            tuple(self._phrase(line_number, name, text) for text in _alternatives(cells.get(name, "")))
            for name in ("target", "forbidden")
        )
        if not target and not forbidden:
            raise self._error(line_number, f"{source!r} has neither a target nor a forbidden phrase")
        return Term(source, target, forbidden, line_number)

    def _phrase(self, line_number: int, column: str, text: str) -> Phrase:
        written = tidied(self._tokenizer.normalize(text))
        if not written:
            raise self._error(line_number, f"{column} {text!r}: empty after the tokenizer's normalisation")
        if UNK_ID in self._tokenizer.encode(written):
            unknown = dict.fromkeys(repr(c) for c in written if c != " " and UNK_ID in self._tokenizer.encode(c))
            raise self._error(
                line_number,
                f"{column} {text!r}: the target tokenizer cannot encode {', '.join(unknown)}; "
                "spell the term without, or use a model trained with tokenizer.byte_fallback",
            )
        return Phrase.from_text(written, self._tokenizer, self._spelling)

    def _check_contradictions(self, terms: Sequence[Term]) -> None:
        """Refuse a term if its own line, or a line for all sentences, forbids each of its targets."""
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

    def _error(self, line_number: int, what: str) -> DataError:
        return DataError(f"{self._name}: line {line_number}: {what}")


def _alternatives(cell: str) -> Iterator[str]:
    return (text for part in f" {cell} ".split(_SEPARATOR) if (text := part.strip()))

"""A sentence pair, as every reader yields it, and the counts that a reader keeps."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from mtkit.console import counted
from mtkit.languages import normal_code, script_of_code

_IN_UNITS = re.compile(r"\.(tmx|xlf|xliff)(\.(gz|xz|zst))?$", re.IGNORECASE)
EMPTY = "the corpus is empty: no line, no unit"
Languages = tuple[str, str]  # codes of source and target


class Pair(NamedTuple):
    """A sentence, its translation, and their place."""

    src: str
    tgt: str
    file: str  # the source side's file, or the one that holds both sides; of an archive's member ARCHIVE:MEMBER
    line: int  # from 1; in TMX and XLIFF the number of the unit

    @property
    def place(self) -> str:
        """Return the place of the pair, as messages and reports show it."""
        return place_of(self.file, self.line)


def place_of(file: str, number: int) -> str:
    """Return the place of line `number`, or of that unit of a TMX or XLIFF: "a.en:7", "m.tmx: unit 7"."""
    return f"{file}: unit {number}" if counts_units(file) else f"{file}:{number}"


def counts_units(file: str) -> bool:
    """Return whether places in a file of this name are numbers of units, not of lines."""
    return _IN_UNITS.search(file) is not None


@dataclass
class Tally:
    """The counts of a reader over a file, to be reported at its end."""

    n_units: int = 0  # lines, rows, or units of a TMX and the like
    left_out: Counter[str] = field(default_factory=Counter)  # units without a pair, by reason
    n_variants: int = 0  # further texts of a unit in a language that it already has; only the first is used
    n_with_cr: int = 0  # pairs of lines with a CR inside on both sides, which may have been meant as ends of lines
    languages: Counter[str] = field(default_factory=Counter)  # texts by language code, as the file spells it
    joined: dict[str, Counter[str]] = field(default_factory=dict)  # by language asked for, the codes taken for it
    n_bad_references: int = 0  # references to characters that XML forbids, such as &#1;; they are dropped
    n_without_segment: int = 0  # variants of a TMX that have no <seg>, so that their text is not read
    n_with_more: int = 0  # lines of TSV with more columns than source and target, which are not used
    n_bytes_read: Callable[[], int] = lambda: 0  # of the file, on disk; of two files, of the source side's

    def __str__(self) -> str:
        reasons = ", ".join(f"{n:,} {reason}" for reason, n in self.left_out.items())
        left_out = f"; left out: {reasons}" if reasons else ""
        further = f"; not used: {counted(self.n_variants, 'further text')} in a language that the unit has already"
        n_pairs = counted(self.n_units - self.left_out.total(), "pair")
        with_cr = (
            f"; CR inside both lines of {counted(self.n_with_cr, 'pair')}: if it should end lines, as LF does, convert "
            "the files first: sed 's/\\r$//' FILE | tr '\\r' '\\n'"
        )
        references = (
            f"; dropped: {counted(self.n_bad_references, 'reference')} to characters that XML forbids, such as &#1;"
        )
        segments = f"; not read: {counted(self.n_without_segment, '<tuv>')} without <seg>"
        columns = f"; not used: the columns after the second, in {counted(self.n_with_more, 'line')}"
        return (
            f"{n_pairs} of {counted(self.n_units, 'unit')}{left_out}{further if self.n_variants else ''}"
            f"{with_cr if self.n_with_cr else ''}{references if self.n_bad_references else ''}"
            f"{segments if self.n_without_segment else ''}"
            f"{columns if self.n_with_more else ''}{''.join(map(self._joined_codes, self.joined))}"
        )

    def _joined_codes(self, lang: str) -> str:
        """Describe the codes that were taken for a language; "" if they differ in nothing but case and hyphens."""
        codes = self.joined[lang]
        if len({*map(normal_code, codes)}) < 2:
            return ""
        scripts = sorted({script for code in codes if (script := script_of_code(code))})
        listed = ", ".join(f"{code} ({n:,})" for code, n in codes.most_common())
        of_scripts = f", in the scripts {' and '.join(scripts)}" if len(scripts) > 1 else ""
        return f"; joined as {lang}: {listed}{of_scripts}"

    def remark(self) -> str:
        """Return the remarks on the corpus: that it is empty, or lacks pairs; "" without remarks."""
        if not self.n_units:
            return EMPTY
        counts = self.left_out, self.n_variants, self.n_with_cr, self.n_bad_references, self.n_with_more
        return str(self) if any(counts) or any(map(self._joined_codes, self.joined)) else ""

    def add(self, other: "Tally") -> None:
        """Add the counts of another file."""
        self.n_units += other.n_units
        self.left_out += other.left_out
        self.n_variants += other.n_variants
        self.n_with_cr += other.n_with_cr
        self.languages += other.languages
        self.n_bad_references += other.n_bad_references
        self.n_without_segment += other.n_without_segment
        self.n_with_more += other.n_with_more
        for lang, codes in other.joined.items():
            self.joined.setdefault(lang, Counter()).update(codes)


def segment(text: str) -> str:
    """Return the text as one line: a run of line breaks and tabs becomes a space, or nothing at the ends."""
    if text.isprintable():
        return text
    parts = text.translate(_BREAKS).split("\n")
    return text if len(parts) == 1 else " ".join(stripped for part in parts if (stripped := part.strip(" ")))


# What some program takes for the end of a line, and tabs.
_BREAKS = str.maketrans(dict.fromkeys("\t\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", "\n"))

"""Describe where two files slip, and write them repaired."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mtkit.corpora.alignment.slips import Diagnosis, Slip, Span
from mtkit.errors import DataError
from mtkit.pair_files import corpus_files
from mtkit.pair_files.compression import open_output
from mtkit.pair_files.lines import count_lines, read_lines
from mtkit.pair_files.pairs import Languages, segment

_SHOWN = 3  # lines of a block
_LONGEST = 90  # characters of a line
_LISTED = 500  # slips of a kind as line numbers
_WIDTH = 110  # characters of a line of them


@dataclass(frozen=True)
class TwoFiles:
    """Two files and their lines."""

    paths: tuple[Path, Path]
    lines: tuple[list[str], list[str]]

    @classmethod
    def read(cls, src: Path, tgt: Path) -> "TwoFiles":
        """Read both. Raises DataError for what is not lines of UTF-8, or empty."""
        for path in (src, tgt):
            if not count_lines(path):
                raise DataError(f"{path}: no lines, so there is nothing to compare; give the file with the text")
        return cls((src, tgt), (list(read_lines(src)), list(read_lines(tgt))))

    @property
    def names(self) -> tuple[str, str]:
        """The names of the files, or their paths if the names are equal."""
        src, tgt = self.paths
        return (str(src), str(tgt)) if src.name == tgt.name else (src.name, tgt.name)


def not_related(files: TwoFiles, diagnosis: Diagnosis) -> str:
    """Return the message about files that are not translations of each other."""
    few = "; so few lines teach little about two languages" if min(diagnosis.n_src, diagnosis.n_tgt) < 200 else ""
    return (
        f"{files.paths[0]} and {files.paths[1]} do not look like translations of each other: {diagnosis.share:.0%} "
        f"of the lines find a partner, and {diagnosis.related:.0%} of those fit it better than some other line (chance "
        "alone gives 50 %); check that these are the right files" + few
    )


def describe(slip: Slip, files: TwoFiles) -> Iterator[str]:
    """Yield the description of a slip and the lines around it."""
    yield _headline(slip, files.names)
    width = max(len(f"{name}:{len(lines)}") for name, lines in zip(files.names, files.lines, strict=True))
    for name, lines, span in zip(files.names, files.lines, (slip.src, slip.tgt), strict=True):
        before, after = span[0] - 1, span[1]
        if before >= 0:
            yield _line("  ", f"{name}:{before + 1}", lines[before], width)
        for number in range(span[0], min(span[1], span[0] + _SHOWN)):
            yield _line("> ", f"{name}:{number + 1}", lines[number], width)
        if span[1] - span[0] > _SHOWN:
            yield _line("> ", "...", f"({span[1] - span[0] - _SHOWN:,} more)", width)
        if after < len(lines):
            yield _line("  ", f"{name}:{after + 1}", lines[after], width)


def listed(slips: Sequence[Slip], files: TwoFiles) -> Iterator[str]:
    """Yield slips of one kind as line numbers: source=target, - where a side has no line."""
    head = f"another {len(slips):,} {slips[0].kind}, lines of {' = '.join(files.names)}: "
    places = ", ".join(f"{_numbers(slip.src)}={_numbers(slip.tgt)}" for slip in slips[:_LISTED])
    yield from textwrap.wrap(head + places, _WIDTH, break_long_words=False, break_on_hyphens=False)
    if len(slips) > _LISTED:
        yield f"... and {len(slips) - _LISTED:,} more; --json has all"


def _numbers(span: Span) -> str:
    first, end = span
    if first == end:
        return "-"
    return f"{first + 1}" if end - first == 1 else f"{first + 1}-{end}"


def _line(mark: str, place: str, text: str, width: int) -> str:
    return f"  {mark}{place:<{width}} | {text if len(text) <= _LONGEST else text[: _LONGEST - 3] + '...'}"


def _place(name: str, span: Span) -> str:
    return f"{name}:{span[0] + 1}" + (f"-{span[1]}" if span[1] - span[0] > 1 else "")


def _headline(slip: Slip, names: tuple[str, str]) -> str:
    src, tgt = _place(names[0], slip.src), _place(names[1], slip.tgt)
    n_src, n_tgt = slip.src[1] - slip.src[0], slip.tgt[1] - slip.tgt[0]
    if slip.kind == "missing" and n_src and n_tgt:
        return f"missing: {src} and {tgt} stand at the same place, and neither has a partner"
    if slip.kind == "missing":
        alone, other, place, n = (src, names[1], slip.tgt[0], n_src) if n_src else (tgt, names[0], slip.src[0], n_tgt)
        after = f"after line {place:,}" if place else "at the start"
        if n == 1:
            return f"missing: {alone} has no partner; {other} lacks a line {after}, or this one is extra"
        return f"missing: {alone} have no partner; {other} lacks {n:,} lines {after}, or these are extra"
    if slip.kind == "merged":
        one, two = (tgt, src) if n_src > n_tgt else (src, tgt)
        return f"merged: {one} holds the translation of {two}"
    if slip.kind == "moved":
        return f"moved: {src} and {tgt} belong together, but stand at different places"
    if slip.kind == "swapped":
        return f"swapped: {src} and {tgt} are each in the other file's language"
    return f"unlike: {src} and {tgt} do not look like translations of each other"


def record(diagnosis: Diagnosis, files: TwoFiles) -> dict[str, object]:
    """Return the diagnosis for --json; lines are from 1, both ends included, null where a side has none."""
    slips = [
        {
            "kind": slip.kind,
            **{
                side: {"first": span[0] + 1, "last": span[1], "text": lines[span[0]]} if span[1] > span[0] else None
                for side, span, lines in zip(("src", "tgt"), (slip.src, slip.tgt), files.lines, strict=True)
            },
            "before": {"src": slip.src[0], "tgt": slip.tgt[0]},
        }
        for slip in diagnosis.slips
    ]
    sizes = {"src_lines": diagnosis.n_src, "tgt_lines": diagnosis.n_tgt, "pairs": len(diagnosis.pairs)}
    return {**sizes, "slips": slips}


def write_repaired(
    diagnosis: Diagnosis, files: TwoFiles, outputs: Sequence[Path], aside: Path, langs: Languages
) -> int:
    """Write the pairs in the order of the source, and what is in none of them to `aside`; return the number of pairs.

    Lines that were merged on one side are joined with a space on the other. aside is a TSV: file, line, text.
    """
    with corpus_files.writing(outputs, langs) as write, open_output(aside) as aside_out:
        for src, tgt, turned in zip(
            diagnosis.pairs.src.tolist(), diagnosis.pairs.tgt.tolist(), diagnosis.swapped.tolist(), strict=True
        ):
            texts = _joined(files.lines[0][slice(*src)]), _joined(files.lines[1][slice(*tgt)])
            write(*(texts[::-1] if turned else texts))
        for path, lines, rest in zip(files.paths, files.lines, diagnosis.unplaced(), strict=True):
            aside_out.writelines(f"{path}\t{line + 1}\t{segment(lines[line])}\n" for line in rest)
    return len(diagnosis.pairs)


def _joined(lines: list[str]) -> str:
    return lines[0] if len(lines) == 1 else " ".join(line.strip() for line in lines)

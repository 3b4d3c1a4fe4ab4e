"""Make a training corpus from candidate translations that another system wrote, by choosing among them.

A file has candidates of sources, one or several in a line, with or without scores:
- TSV: source, candidate, candidate, ...; or source, candidate, score, candidate, score, ...
- JSON lines: {"src": ..., "hypotheses": [...]}, as `mtkit translate --n-best 5` writes them, or "candidates". Each is a
  text or {"text": ..., "score": ...}.
Lines with the same source, in all files, belong together.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from mtkit.alignment.checks import Checks
from mtkit.augmentation.back_translation import Translated, counts_of, summary
from mtkit.config.data import CorpusFiles
from mtkit.console import counted, log, progress_bar
from mtkit.data.corpus import corpus_name, read_pairs
from mtkit.errors import DataError
from mtkit.evaluation.metrics.scores import sentence_scores
from mtkit.evaluation.metrics.settings import MetricSettings, tokenizer_for
from mtkit.files import parse_json
from mtkit.pair_files.lines import as_column, read_lines
from mtkit.pair_files.pairs import Pair
from mtkit.text.near_texts import squeezed

By = Literal["score", "bleu", "chrf"]

_JSON_LINES = (".jsonl", ".jsonl.gz", ".jsonl.xz", ".jsonl.zst")
_KEYS = ("hypotheses", "candidates")


class Candidate(NamedTuple):
    """A translation with its score, if the file has scores; higher is better."""

    text: str
    score: float | None = None


@dataclass
class Source:
    """A source with all its candidates and references."""

    text: str
    candidates: list[Candidate] = field(default_factory=list)
    references: list[str] = field(default_factory=list)


def read_candidates(paths: Iterable[Path]) -> dict[str, Source]:
    """Return the sources of candidate files in order, by their squeezed text.

    Raises DataError, with file and line, for a line that is unusable, and if only some candidates have a score.
    """
    sources: dict[str, Source] = {}
    scored: dict[bool, str] = {}  # where a candidate with a score, and one without, came first
    for path in paths:
        is_json = path.name.lower().endswith(_JSON_LINES)
        for number, src, candidates in _read_json(path) if is_json else _read_tsv(path):
            source = sources.setdefault(squeezed(src), Source(as_column(src).strip()))
            source.candidates += candidates
            for candidate in candidates:
                scored.setdefault(candidate.score is not None, f"{path}: line {number}")
    if len(scored) > 1:
        raise DataError(
            f"{scored[False]} has a candidate without a score, but {scored[True]} has scores; give all candidates a "
            "score, or none"
        )
    return sources


def _read_tsv(path: Path) -> Iterator[tuple[int, str, list[Candidate]]]:
    rows = [(number, line.split("\t")) for number, line in enumerate(read_lines(path), start=1) if line.strip()]
    for number, row in rows:
        if len(row) < 2:
            raise DataError(
                f"{path}: line {number}: no tab; write the source, a tab and the candidates, separated by tabs"
            )
    unscored = [number for number, row in rows if not (len(row) % 2 and all(map(_is_score, row[2::2])))]
    has_scores = bool(rows) and not unscored
    n_with_score = sum(not _is_score(row[0]) and any(map(_is_score, row[2::2])) for _, row in rows)
    if unscored and 2 * n_with_score > len(rows):  # otherwise a score could become a translation
        raise DataError(
            f"{path}: line {unscored[0]}: not each candidate has a score, but most lines have scores; write the "
            "source and then a candidate and its score in turn, separated by tabs, or leave all scores out"
        )
    for number, (src, *rest) in rows:
        if has_scores:
            yield number, src, [Candidate(text, float(score)) for text, score in zip(*[iter(rest)] * 2, strict=True)]
        else:
            yield number, src, list(map(Candidate, rest))


def _is_score(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _read_json(path: Path) -> Iterator[tuple[int, str, list[Candidate]]]:
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            record = parse_json(line)
            key = next(key for key in _KEYS if key in record)
            src, candidates = _text(record["src"]), _candidates(record[key])
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, StopIteration):
            raise DataError(
                f'{path}: line {number}: not an object such as {{"src": "...", "candidates": ["...", "..."]}} or '
                '{"src": "...", "candidates": [{"text": "...", "score": -1.5}]}'
            ) from None
        yield number, src, candidates


def _candidates(values: object) -> list[Candidate]:
    if not isinstance(values, list):  # a text or an object would be read letter by letter or key by key
        raise TypeError(values)
    return list(map(_candidate, values))


def _candidate(value: str | Mapping[str, Any]) -> Candidate:
    if isinstance(value, str):
        return Candidate(value)
    score = 0.0 if value.get("from_memory") else value.get("score")  # `mtkit translate --json`: no doubt about it
    if score is not None and (isinstance(score, bool) or not math.isfinite(score)):
        raise ValueError(score)
    return Candidate(_text(value["text"]), None if score is None else float(score))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def add_references(sources: Mapping[str, Source], pairs: Iterable[Pair]) -> int:
    """Give the sources the targets of pairs with the same source; return how many sources have one."""
    for pair in pairs:
        source = sources.get(squeezed(pair.src))
        if source is not None and pair.tgt.strip():
            source.references.append(pair.tgt)
    return sum(bool(source.references) for source in sources.values())


def choose_candidates(paths: Sequence[Path], corpora: Sequence[CorpusFiles], chooser: "Chooser") -> list[Translated]:
    """Return each source of candidate files with what the chooser takes. corpora: with the references, if it needs any.

    Raises DataError for unusable files, for corpora without these sources, and if no candidate is usable.
    """
    sources = read_candidates(paths)
    names = " ".join(map(str, paths))
    n_candidates = sum(len(source.candidates) for source in sources.values())
    log.info(f"{names}: {counted(n_candidates, 'candidate')} of {counted(len(sources), 'source')}")
    if corpora:
        n_without = len(sources) - add_references(sources, read_pairs(corpora))
        if n_without == len(sources):
            raise DataError(
                f"{names}: no source is in {', '.join(map(corpus_name, corpora))}, which has the references"
            )
        if n_without:
            log.warning(f"{counted(n_without, 'source')} without a reference: taking the candidate by score")
    with progress_bar(len(sources), "choosing", "source", delay=2.0) as bar:
        chosen = []
        for source in sources.values():
            chosen.append(chooser.choose(source))
            bar.update()
    counts = counts_of(chosen)
    if not counts["pairs"]:
        raise DataError(f"{names}: no candidate is usable: {summary(len(chosen), counts)}")
    log.info(f"{names}: {summary(len(chosen), counts)}")
    return chosen


class Chooser:
    """Chooses the best usable candidates of each source."""

    def __init__(self, by: By, n_best: int, tgt_lang: str | None, *, keep_suspect: bool = False) -> None:
        """by: the score in the file (without scores, its order), or the likeness to the closest reference.

        A source without references is judged by score. n_best: how many to keep; keep_suspect: drop only empty ones.
        """
        self.by, self.n_best, self.keep_suspect = by, n_best, keep_suspect
        self._checks = Checks(tgt_lang)
        self._settings = MetricSettings(tokenizer_for(tgt_lang))

    def choose(self, source: Source) -> Translated:
        """Return the chosen candidates, best first, all different."""
        if not source.text:
            return Translated(source.text, [], "blank")
        by_score = sorted(source.candidates, key=lambda candidate: -(candidate.score or 0.0))  # stable
        texts = list(dict.fromkeys(as_column(candidate.text).strip() for candidate in by_score))
        faults = {text: self._fault(source.text, text) for text in texts}
        usable = [text for text in texts if not faults[text]]
        if not usable:
            first = texts[0] if texts else ""
            return Translated(source.text, [], faults.get(first) or "empty", first)
        return Translated(source.text, self._best_first(usable, source.references)[: self.n_best])

    def _fault(self, src: str, text: str) -> str:
        if self.keep_suspect:
            return "" if text else "empty"
        return next((fault.kind for fault in self._checks.faults(src, text)), "")

    def _best_first(self, texts: Sequence[str], references: Sequence[str]) -> list[str]:
        if self.by == "score" or not references or len(texts) < 2:
            return list(texts)
        by_reference = [sentence_scores(texts, reference, self.by, self._settings) for reference in references]
        closest = dict(zip(texts, map(max, zip(*by_reference, strict=True)), strict=True))
        return sorted(texts, key=lambda text: -closest[text])

"""Tables of `mtkit data clean`: how many pairs each rule drops, alone and in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from mtkit.config import durations
from mtkit.console import counted, shortened
from mtkit.pair_files.pairs import place_of

if TYPE_CHECKING:
    from mtkit.config.cleaning import CleanConfig
    from mtkit.corpora.cleaning.job import CleanResult
    from mtkit.corpora.cleaning.sample import SampleResult

_LOUD = 0.2  # share of the pairs from which a rule's toll is worth a warning
_HINTS = {
    "empty": "check that neither side is a file of blank lines",
    "encoding": "the encoding may be wrong: convert the original text with mtkit data convert --encoding",
    "max_length_ratio": "the lines may have slipped: mtkit data doctor SRC TGT",
    "min_script_share": "are the languages and the order of the sides right? See --langs",
    "language": "are the languages and the order of the sides right? See --langs",
    "copies": "check that both sides are translated",
    "numbers": "the lines may have slipped: mtkit data doctor SRC TGT",
    "duplicates": "normal for crawled text and translation memories; --set clean.duplicates=false keeps them",
}
_MOST_SHOWN = 100  # characters of a text in an example


def result_table(result: CleanResult) -> Iterator[str]:
    """Yield the lines of the table of a finished cleaning."""
    yield from _counts(result.alone, result.dropped, result.n_pairs)
    kept = _share(result.n_kept, result.n_pairs)
    pairs = counted(result.n_pairs, "pair")
    yield f"kept {result.n_kept:,} of {pairs} ({kept}); repaired the text of {result.n_changed:,}"


def sample_table(result: SampleResult, cfg: CleanConfig, n_workers: int) -> Iterator[str]:
    """Yield the lines of a dry run's report."""
    yield f"{result.n_sampled:,} of {counted(result.n_pairs, 'pair')} judged"
    yield ""
    yield from _counts(result.alone, result.dropped, result.n_sampled)
    n_kept = result.n_sampled - sum(result.dropped.values())
    kept = _share(n_kept, result.n_sampled)
    yield f"would keep {n_kept:,} of them ({kept}), and repair the text of {result.n_changed:,}"
    for rule, examples in result.examples.items():
        if not examples:
            continue
        yield f"\n{rule}"
        for example in examples:
            yield f"  {place_of(example.file, example.line)}: {example.value}"
            yield f"    {shortened(example.src, _MOST_SHOWN)}"
            yield f"    {shortened(example.tgt, _MOST_SHOWN)}"
    yield ""
    after = [f"{name} ({'on' if getattr(cfg, name) else 'off'})" for name in ("duplicates", "near_duplicates")]
    after += [f"translations ({cfg.translations})"] + (["min_score"] if cfg.score is not None else [])
    yield f"Only a full cleaning shows: {', '.join(after)}."
    if result.n_pairs:
        seconds = durations.duration_of(max(1.0, result.estimated_s))
        yield f"A full cleaning will take about {seconds} with {counted(n_workers, 'process')} (--workers)."


def high_tolls(dropped: Mapping[str, int], n_pairs: int) -> Iterator[str]:
    """Yield a warning for each rule that drops many of the pairs."""
    for rule, n in dropped.items():
        if n > _LOUD * n_pairs:
            hint = _HINTS.get(rule, f"check what it drops; clean.{rule} changes the rule or turns it off")
            yield f"{rule} drops {_share(n, n_pairs)} of the pairs: {hint}"


def _counts(alone: Mapping[str, int], dropped: Mapping[str, int], n_pairs: int) -> Iterator[str]:
    yield f"{'rule':<18} {'alone':>22} {'in order':>22}"
    for rule in dict.fromkeys([*alone, *dropped]):
        cells = [
            _cell(counts[rule], n_pairs) if rule in counts else ""
            for counts in (alone, {**dict.fromkeys(alone, 0), **dropped})
        ]
        yield f"{rule:<18} {cells[0]:>22} {cells[1]:>22}"


def _cell(n: int, n_pairs: int) -> str:
    return f"{n:,} ({_share(n, n_pairs):>7})" if n else "0"


def _share(n: int, n_pairs: int) -> str:
    return f"{n / max(1, n_pairs):.2%}"

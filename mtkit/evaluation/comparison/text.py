"""Write a comparison as text for a terminal and as a structure for JSON."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from difflib import SequenceMatcher
from string import ascii_uppercase
from typing import Any

from mtkit.console import counted
from mtkit.evaluation.comparison.comparison import Bucket, Comparison, FeatureComparison, Judged, Pair
from mtkit.evaluation.metrics.buckets import FEWEST
from mtkit.evaluation.metrics.scores import fixed
from mtkit.evaluation.metrics.settings import METRICS
from mtkit.evaluation.metrics.significance import LEVEL
from mtkit.quality.faults import FOUND_KINDS, FaultKind
from mtkit.text.words import MARKS, words_of

_PIECE = re.compile(rf"\s*(?:\w[\w{MARKS}]*|[^\w\s][{MARKS}]*)|\s+")  # a word or a mark with the space before it
FAULT_NAMES: dict[FaultKind, str] = {
    "empty": "empty",
    "loop": "loops",
    "length": "unlikely length",
    "omission": "leaves out text",
    "copy": "copies the source",
    "number": "loses a number",
    "url": "loses a URL",
}
_N_SHOWN = 3  # gains and losses in a terminal


def word_differences(a: str, b: str) -> tuple[list[str], list[str]]:
    """Split each text into parts that are alternately equal in both texts (perhaps "") and different."""
    a_words, b_words = list(_words(a)), list(_words(b))
    matcher = SequenceMatcher(None, [w.strip() for w in a_words], [w.strip() for w in b_words], autojunk=False)
    a_parts, b_parts = [""], [""]
    opcodes = matcher.get_opcodes()
    for index, (kind, a_start, a_end, b_start, b_end) in enumerate(opcodes):
        # Two differences with only an equal mark between them (Êtes-vous, Es-tu) read better as one.
        between = 0 < index < len(opcodes) - 1
        same = kind == "equal" and not (between and not words_of("".join(a_words[a_start:a_end])))
        _append(a_parts, a_words[a_start:a_end], same)
        _append(b_parts, b_words[b_start:b_end], same)
    return a_parts, b_parts


def in_brackets(parts: Sequence[str], start: str, end: str) -> str:
    """Join the parts, with brackets around those that differ."""
    return "".join(f"{start}{part}{end}" if index % 2 else part for index, part in enumerate(parts))


def _words(text: str) -> Iterator[str]:
    """Yield words and marks, each with the space before it; in a script without spaces, each character."""
    for piece in _PIECE.findall(text):
        word = piece.lstrip()
        characters = words_of(word)
        if len(characters) > 1 and "".join(characters) == word:
            yield piece[: len(piece) - len(word)] + characters[0]
            yield from characters[1:]
        else:
            yield piece


def _append(parts: list[str], words: Sequence[str], same: bool) -> None:
    """Add words to the parts: to the last part if it is of the same kind, else as a new part."""
    text = "".join(words)
    if not text:
        return
    if same == (len(parts) % 2 == 1):
        parts[-1] += text
        return
    bare = text if same else text.lstrip()
    parts[-1] += text[: len(text) - len(bare)]  # space before a difference does not belong to it
    if bare:
        parts.append(bare)


def verdict(pair: Pair, metric: str) -> str:
    """Describe which system is better in this metric, by how much, and whether the difference is significant."""
    paired = pair.differences[metric]
    if not paired.difference:
        return f"{metric}: {pair.system} and {pair.baseline} score the same"
    better, worse = pair.system, pair.baseline
    if paired.difference < 0:
        better, worse = worse, better
    text = f"{metric}: {better} is better than {worse} by {fixed(metric, abs(paired.difference))}"
    if paired.p_holm is None or paired.better is None:
        return f"{text}; fewer than {FEWEST} sentences are too few for a test"
    share = paired.better if paired.difference > 0 else 1 - paired.better
    sure = "significant" if paired.is_sure else "not significant"
    return f"{text}: {sure} ({p_value(paired.p_holm)}, better in {share:.1%} of resampled test sets)"


def p_value(p: float) -> str:
    """Return the p with its sign, such as "p = 0.012"; a star and this text never contradict each other."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.4f}" if round(p, 3) == LEVEL else f"p = {p:.3f}"


def n_tested(comparison: Comparison) -> int:
    """Return how many differences in buckets are tested."""
    return sum(
        paired.p is not None
        for feature in comparison.features
        if len(feature.buckets) > 1
        for bucket in feature.buckets
        for by_metric in bucket.differences
        for paired in by_metric.values()
    )


def how_tested(comparison: Comparison) -> str:
    """Describe how mtkit computes the p of a difference on the whole test set."""
    n, n_trials = len(comparison.pairs), comparison.chance.n_randomization
    text = f"p: the share of {n_trials:,} trials that exchange translations at random and differ as much"
    return f"{text}, corrected for {n} systems" if n > 1 else text


def headline(comparison: Comparison) -> Iterator[str]:
    """Yield the most important lines: scores and verdicts, without kinds of sentences and examples."""
    test_set = comparison.test_set
    n_refs = len(test_set.references)
    yield f"{counted(len(test_set.sources), 'sentence')}, {counted(n_refs, 'reference')} each"
    yield ""
    yield from _systems(comparison)
    for pair in comparison.pairs:
        yield ""
        yield from (verdict(pair, metric) for metric in comparison.metrics)
        yield (
            f"sentences by chrF2: {pair.system} better on {pair.wins:,}, worse on {pair.losses:,}, "
            f"equal on {pair.ties:,} ({pair.n_identical:,} with the same text)"
        )
    if any(paired.p is not None for pair in comparison.pairs for paired in pair.differences.values()):
        yield how_tested(comparison)


def report(comparison: Comparison) -> Iterator[str]:
    """Yield the lines of the whole report."""
    yield from headline(comparison)
    yield from _kinds(comparison)
    for pair in comparison.pairs:
        yield from _examples(comparison, pair)


def breakdown(comparison: Comparison) -> Iterator[str]:
    """Yield the lines that `mtkit evaluate --breakdown` adds: diagnostics, and scores by kind of sentence."""
    if comparison.pairs:
        for letter, judged in _lettered(comparison):
            yield f"{letter} {judged.name}" + (" (baseline)" if judged is comparison.systems[0] else "")
    yield from _diagnostics(comparison)
    yield from _kinds(comparison)


def _kinds(comparison: Comparison) -> Iterator[str]:
    for feature in comparison.features:
        yield ""
        yield from _feature(comparison, feature)
    n = n_tested(comparison)
    yield ""
    if n:
        yield f"* p < {LEVEL:g}, corrected for the {n} differences tested in buckets (Holm): if systems are equal,"
        yield f"  at most one comparison in {1 / LEVEL:.0f} has any star."
    if comparison.pairs:
        yield f"Buckets of fewer than {FEWEST} sentences are not tested."
    yield "The counts behind a feature's buckets add up to those of all sentences."
    yield from (f"{feature.name}: {feature.how}" for feature in comparison.features if len(feature.buckets) > 1)


def breakdown_structure(comparison: Comparison) -> dict[str, Any]:
    """Return the structure that `mtkit evaluate --breakdown --json` adds, which `mtkit compare --json` has, too."""
    return {
        "systems": [
            {"name": judged.name, **asdict(judged.score), **asdict(judged.diagnostics)} for judged in comparison.systems
        ],
        "features": [asdict(feature) for feature in comparison.features],
    }


def as_structure(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as `mtkit compare --json` prints it."""
    test_set = comparison.test_set
    return {
        "n_sentences": len(test_set.sources),
        "n_references": len(test_set.references),
        "signatures": comparison.signatures,
        **asdict(comparison.chance),
        **breakdown_structure(comparison),
        "pairs": [{key: value for key, value in asdict(pair).items() if key != "gains"} for pair in comparison.pairs],
        "sentences": [_sentence(comparison, index) for index in range(len(test_set.sources))],
    }


def diagnostic_rows(comparison: Comparison) -> list[tuple[str, str, list[str]]]:
    """Return rows of a table, without rows of zeros: the name of a figure, its meaning, and each system's value."""
    systems = [judged.diagnostics for judged in comparison.systems]
    rows = [
        (
            "length ratio",
            "words of the translations per word of the reference, as BLEU counts them",
            [f"{system.length_ratio:.3f}" for system in systems],
        ),
        (
            "untranslated words",
            "lower-case words copied from the source that are not in the reference",
            [f"{system.untranslated:.2%}" for system in systems],
        ),
    ]
    for kind in FOUND_KINDS:
        if any(system.faults[kind] for system in systems):
            rows.append((FAULT_NAMES[kind], "sentences", [f"{system.faults[kind]:,}" for system in systems]))
    for side, what in (("unknown_src", "source pieces unknown"), ("unknown_tgt", "output pieces unknown")):
        unknown_pieces = [getattr(system, side) for system in systems]
        if any(unknown_pieces):
            shares = ["–" if unknown is None else f"{unknown.share:.2%}" for unknown in unknown_pieces]
            rows.append((what, "share of bytes or <unk> in all pieces", shares))
    calibrations = [system.calibration for system in systems]
    if any(calibrations):
        errors = ["–" if known is None else f"{known.calibration_error:.3f}" for known in calibrations]
        good = next(system.good_chrf for system in systems if system.calibration)
        meaning = f"mean distance of confidence and share of good translations (chrF2 of {good:g} or more)"
        rows.append(("calibration error", meaning, errors))
    return rows


def absent_faults(comparison: Comparison) -> list[str]:
    """Return the kinds of faults that no system has."""
    systems = [judged.diagnostics for judged in comparison.systems]
    return [FAULT_NAMES[kind] for kind in FOUND_KINDS if not any(system.faults[kind] for system in systems)]


def _systems(comparison: Comparison) -> Iterator[str]:
    width = max(len(name) for name in comparison.names) + 2
    columns = [(metric, max(8, len(metric) + 2)) for metric in comparison.metrics]
    yield " " * (width + 1) + "".join(f"{metric:>{wide}}" for metric, wide in columns)
    for letter, judged in _lettered(comparison):
        scores = (f"{fixed(metric, judged.score.scores[metric]):>{wide}}" for metric, wide in columns)
        yield f"{letter} {judged.name:<{width - 1}}{''.join(scores)}"
    yield ""
    yield from _diagnostics(comparison)


def _diagnostics(comparison: Comparison) -> Iterator[str]:
    if comparison.pairs:
        yield " " * 24 + "".join(f"{letter:>10}" for letter, _ in _lettered(comparison))
    for name, _, values in diagnostic_rows(comparison):
        yield f"{name:<24}" + "".join(f"{value:>10}" for value in values)
    if absent := absent_faults(comparison):
        yield f"not found: {', '.join(absent)}"


def _feature(comparison: Comparison, feature: FeatureComparison) -> Iterator[str]:
    letters = [letter for letter, _ in _lettered(comparison)] if comparison.pairs else [""]
    if len(feature.buckets) == 1:
        yield f"by {feature.name}: all are {feature.buckets[0].name!r}"
        return
    heading = f"{'by ' + feature.name:<19}{'n':>7}"
    for metric in comparison.metrics:
        first, *others = [f"{metric} {letters[0]}".rstrip(), *letters[1:]]
        wide, wider = _widths(comparison, metric)
        heading += f" {first:>{wider}}" + "".join(f"{other:>{wide}}" for other in others)
        heading += "".join(f"{f'{letter}-{letters[0]}':>{wide}} " for letter in letters[1:])
    yield heading.rstrip()
    for bucket in feature.buckets:
        yield _bucket(comparison, bucket)
    yield _bucket(comparison, comparison.everything)


def _widths(comparison: Comparison, metric: str) -> tuple[int, int]:
    """Return the width of the metric's columns, and that of its first one, whose head is the metric's name."""
    wide = len(fixed(metric, 10)) + (2 if metric in METRICS else 1)
    return wide, max(wide + 1, len(metric) + (2 if comparison.pairs else 0))


def _bucket(comparison: Comparison, bucket: Bucket) -> str:
    line = f"  {bucket.name:<17}{bucket.n:>7,}"
    for metric in comparison.metrics:
        wide, wider = _widths(comparison, metric)
        first, *others = [fixed(metric, score.scores[metric]) for score in bucket.scores]
        line += f" {first:>{wider}}" + "".join(f"{other:>{wide}}" for other in others)
        for paired in (by_metric[metric] for by_metric in bucket.differences):
            line += f"{fixed(metric, paired.difference, sign='+'):>{wide}}{'*' if paired.is_sure else ' '}"
    return line.rstrip()


def _examples(comparison: Comparison, pair: Pair) -> Iterator[str]:
    for heading, indices in (
        (f"where {pair.system} gains most over {pair.baseline}", pair.largest_gains(_N_SHOWN)),
        (f"where {pair.system} loses most against {pair.baseline}", pair.largest_losses(_N_SHOWN)),
    ):
        if indices:
            yield ""
            yield f"{heading}:"
        for index in indices:
            yield from _example(comparison, pair, index)


def _example(comparison: Comparison, pair: Pair, index: int) -> Iterator[str]:
    test_set, (baseline, system) = comparison.test_set, comparison.sides(pair)
    before, after = word_differences(baseline.system.texts[index], system.system.texts[index])
    rows = [("source", test_set.sources[index])]
    rows += [("reference", given[index]) for given in test_set.references]
    rows.append((f"{baseline.name} {baseline.sentence_chrf[index]:.1f}", in_brackets(before, "[-", "-]")))
    rows.append((f"{system.name} {system.sentence_chrf[index]:.1f}", in_brackets(after, "{+", "+}")))
    width = max(len(name) for name, _ in rows) + 2
    yield f"  line {index + 1:,}: {pair.gains[index]:+.1f} chrF2"
    yield from (f"    {name:<{width}}{text or '(empty)'}" for name, text in rows)


def _sentence(comparison: Comparison, index: int) -> dict[str, Any]:
    test_set = comparison.test_set
    return {
        "line": index + 1,
        "src": test_set.sources[index],
        "refs": [given[index] for given in test_set.references],
        "buckets": {feature.name: feature.bucket_of[index] for feature in test_set.features},
        "systems": [
            {
                "text": judged.system.texts[index],
                "chrf": judged.sentence_chrf[index],
                "faults": [{"kind": fault.kind, "detail": fault.detail} for fault in judged.faults[index]],
                "confidence": judged.system.confidences[index] if judged.system.confidences else None,
            }
            for judged in comparison.systems
        ],
    }


def _lettered(comparison: Comparison) -> list[tuple[str, Judged]]:
    """Return the systems with a short name for columns."""
    letters = [*ascii_uppercase, *(f"S{number}" for number in range(27, len(comparison.systems) + 1))]
    return list(zip(letters, comparison.systems, strict=False))

"""Write a comparison as text for a terminal and as a structure for JSON."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from difflib import SequenceMatcher
from string import ascii_uppercase
from typing import Any

from mtkit.evaluation.comparison.comparison import Bucket, Comparison, FeatureComparison, Habits, Pair
from mtkit.evaluation.metrics.buckets import FEWEST, PART_METRICS, PairedDifference, PartMetric
from mtkit.evaluation.metrics.significance import LEVEL
from mtkit.quality.faults import FAULT_KINDS, FaultKind, words_of

_PIECE = re.compile(r"\s*(?:\w+|[^\w\s])|\s+")  # a word or a mark with the space before it
FAULT_NAMES: dict[FaultKind, str] = {
    "empty": "empty",
    "loop": "loops",
    "length": "unlikely length",
    "copy": "copies the source",
    "number": "loses a number",
    "url": "loses a URL",
}
_N_SHOWN = 3  # gains and losses in the terminal


def word_differences(a: str, b: str) -> tuple[list[str], list[str]]:
    """Each text in parts that are in turn the same in both (perhaps "") and different; joined, they are the text."""
    a_words, b_words = list(_words(a)), list(_words(b))
    matcher = SequenceMatcher(None, [w.strip() for w in a_words], [w.strip() for w in b_words], autojunk=False)
    a_parts, b_parts = [""], [""]
    opcodes = matcher.get_opcodes()
    for number, (kind, a_start, a_end, b_start, b_end) in enumerate(opcodes):
        # A mark that is the same between two differences (Êtes-vous, Es-tu) is better read as a part of one.
        between = 0 < number < len(opcodes) - 1
        same = kind == "equal" and not (between and not words_of("".join(a_words[a_start:a_end])))
        _append(a_parts, a_words[a_start:a_end], same)
        _append(b_parts, b_words[b_start:b_end], same)
    return a_parts, b_parts


def in_brackets(parts: Sequence[str], start: str, end: str) -> str:
    """The parts as plain text, with brackets around those that differ."""
    return "".join(f"{start}{part}{end}" if number % 2 else part for number, part in enumerate(parts))


def _words(text: str) -> Iterator[str]:
    """Words and marks, each with the space before it; of a script that sets no spaces, each character."""
    for piece in _PIECE.findall(text):
        word = piece.lstrip()
        characters = words_of(word)
        if len(characters) > 1 and "".join(characters) == word:
            yield piece[: len(piece) - len(word)] + characters[0]
            yield from characters[1:]
        else:
            yield piece


def _append(parts: list[str], words: Sequence[str], same: bool) -> None:
    """Add words to the part list, which ends with a part of the same kind or of the other one."""
    text = "".join(words)
    if not text:
        return
    if same == (len(parts) % 2 == 1):
        parts[-1] += text
        return
    bare = text if same else text.lstrip()
    parts[-1] += text[: len(text) - len(bare)]  # the space before a difference is none
    if bare:
        parts.append(bare)


def verdict(pair: Pair, metric: PartMetric) -> str:
    """In words: who is better in this metric, by how much and how surely."""
    found = pair.differences[metric]
    if not found.difference:
        return f"{metric}: {pair.system} and {pair.baseline} score the same"
    better, worse = pair.system, pair.baseline
    if found.difference < 0:
        better, worse = worse, better
    text = f"{metric}: {better} is better than {worse} by {abs(found.difference):.2f}"
    if found.p is None or found.better is None:
        return f"{text}; fewer than {FEWEST} sentences are too few to say how sure that is"
    share = found.better if found.difference > 0 else 1 - found.better
    sure = "a sure difference" if found.is_sure else "not sure, it may be chance"
    return f"{text}, {sure} (p = {found.p:.3f}; better in {share:.1%} of resampled test sets)"


def n_by_chance(comparison: Comparison) -> tuple[int, float]:
    """How many differences in buckets are tested, and how many of them chance alone would let look sure."""
    differences = (
        found
        for feature in comparison.features
        if len(feature.buckets) > 1
        for bucket in feature.buckets
        for by_metric in bucket.differences
        for found in by_metric.values()
    )
    n = sum(found.p is not None for found in differences)
    return n, LEVEL * n


def headline(comparison: Comparison) -> Iterator[str]:
    """The lines that say the most: scores and who is better, without kinds of sentences and examples."""
    test_set = comparison.test_set
    n_refs = len(test_set.references)
    yield f"{_count(len(test_set.sources), 'sentence')}, {_count(n_refs, 'reference')} each"
    yield ""
    yield from _systems(comparison)
    for pair in comparison.pairs:
        yield ""
        yield from (verdict(pair, metric) for metric in PART_METRICS)
        yield (
            f"sentences by chrF2: {pair.system} better on {pair.wins:,}, worse on {pair.losses:,}, "
            f"equal on {pair.ties:,} ({pair.n_identical:,} the same text)"
        )


def report(comparison: Comparison) -> Iterator[str]:
    """The lines of a summary for people."""
    yield from headline(comparison)
    yield from _kinds(comparison)
    for pair in comparison.pairs:
        yield from _examples(comparison, pair)


def breakdown(comparison: Comparison) -> Iterator[str]:
    """The lines below scores that are known: habits, and scores by kind of sentence."""
    if comparison.pairs:
        yield from _legend(comparison)
    yield from _habits(comparison)
    yield from _kinds(comparison)


def _legend(comparison: Comparison) -> Iterator[str]:
    for letter, judged in _lettered(comparison):
        yield f"{letter} {judged.name}" + (" (baseline)" if judged is comparison.systems[0] else "")


def _kinds(comparison: Comparison) -> Iterator[str]:
    for feature in comparison.features:
        yield ""
        yield from _feature(comparison, feature)
    n, by_chance = n_by_chance(comparison)
    yield ""
    if n:
        yield f"* p < {LEVEL:g}, paired bootstrap; of the {n} differences tested in buckets chance alone"
        yield f"  would mark about {by_chance:.1f}."
    if comparison.pairs:
        yield f"Buckets of fewer than {FEWEST} sentences are not tested."
    yield "The counts behind a feature's buckets add up to those behind the score of all."
    yield from (f"{feature.name}: {feature.how}" for feature in comparison.features if len(feature.buckets) > 1)


def breakdown_structure(comparison: Comparison) -> dict[str, Any]:
    """What `mtkit evaluate --breakdown --json` has besides the scores, and `mtkit compare --json`, too."""
    return {
        "systems": [
            {"name": judged.name, **asdict(judged.score), **asdict(judged.habits)} for judged in comparison.systems
        ],
        "features": [asdict(feature) for feature in comparison.features],
    }


def as_structure(comparison: Comparison) -> dict[str, Any]:
    """The comparison as `mtkit compare --json` prints it."""
    test_set = comparison.test_set
    return {
        "n_sentences": len(test_set.sources),
        "n_references": len(test_set.references),
        "signatures": comparison.signatures,
        "n_bootstrap": comparison.n_bootstrap,
        "seed": comparison.seed,
        **breakdown_structure(comparison),
        "pairs": [{key: value for key, value in asdict(pair).items() if key != "gains"} for pair in comparison.pairs],
        "sentences": [_sentence(comparison, number) for number in range(len(test_set.sources))],
    }


def habit_rows(habits: Sequence[Habits]) -> list[tuple[str, str, list[str]]]:
    """Rows of a table: what is counted, what that means, each system's figure. Rows of zeros are left out."""
    rows = [
        (
            "length ratio",
            "words of the translations for each word of the reference, as BLEU counts them",
            [f"{found.length_ratio:.3f}" for found in habits],
        ),
        (
            "untranslated words",
            "words in small letters taken over from the source that the reference does not have",
            [f"{found.untranslated:.2%}" for found in habits],
        ),
    ]
    for kind in FAULT_KINDS:
        if any(found.faults[kind] for found in habits):
            rows.append((FAULT_NAMES[kind], "sentences", [f"{found.faults[kind]:,}" for found in habits]))
    for side, what in (("unknown_src", "source pieces unknown"), ("unknown_tgt", "output pieces unknown")):
        found_pieces = [getattr(found, side) for found in habits]
        if any(found_pieces):
            shares = ["–" if found is None else f"{found.share:.2%}" for found in found_pieces]
            rows.append((what, "bytes or <unk> instead of pieces of text, of all pieces", shares))
    if any(found.calibration for found in habits):
        errors = ["–" if f.calibration is None else f"{f.calibration.calibration_error:.3f}" for f in habits]
        good = next(found.good_chrf for found in habits if found.calibration)
        how = f"mean distance of confidence and share of good translations (chrF2 of {good:g} or more)"
        rows.append(("calibration error", how, errors))
    return rows


def clean_faults(habits: Sequence[Habits]) -> list[str]:
    """What was looked for in the translations and not found."""
    return [FAULT_NAMES[kind] for kind in FAULT_KINDS if not any(found.faults[kind] for found in habits)]


def _systems(comparison: Comparison) -> Iterator[str]:
    width = max(len(name) for name in comparison.names) + 2
    yield f"{'':{width + 2}}{'BLEU':>7}{'chrF2':>8}"
    for letter, judged in _lettered(comparison):
        yield f"{letter} {judged.name:<{width}}{judged.score.scores['BLEU']:>7.2f}{judged.score.scores['chrF2']:>8.2f}"
    yield ""
    yield from _habits(comparison)


def _habits(comparison: Comparison) -> Iterator[str]:
    if comparison.pairs:
        yield " " * 24 + "".join(f"{letter:>10}" for letter, _ in _lettered(comparison))
    habits = [judged.habits for judged in comparison.systems]
    for name, _, values in habit_rows(habits):
        yield f"{name:<24}" + "".join(f"{value:>10}" for value in values)
    if clean := clean_faults(habits):
        yield f"not found: {', '.join(clean)}"


def _feature(comparison: Comparison, feature: FeatureComparison) -> Iterator[str]:
    letters = [letter for letter, _ in _lettered(comparison)] if comparison.pairs else [""]
    if len(feature.buckets) == 1:
        yield f"by {feature.name}: all are {feature.buckets[0].name!r}"
        return
    heading = f"{'by ' + feature.name:<19}{'n':>7}"
    for metric in PART_METRICS:
        first, *others = [f"{metric} {letters[0]}".rstrip(), *letters[1:]]
        heading += f" {first:>8}" + "".join(f"{other:>7}" for other in others)
        heading += "".join(f"{f'{letter}-{letters[0]}':>7} " for letter in letters[1:])
    yield heading.rstrip()
    for bucket in feature.buckets:
        yield _bucket(bucket)
    yield _bucket(comparison.everything)


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _bucket(bucket: Bucket) -> str:
    line = f"  {bucket.name:<17}{bucket.n:>7,}"
    for metric in PART_METRICS:
        first, *others = [score.scores[metric] for score in bucket.scores]
        line += f" {first:>8.2f}" + "".join(f"{other:>7.2f}" for other in others)
        line += "".join(_signed(found[metric]) for found in bucket.differences)
    return line.rstrip()


def _signed(found: PairedDifference) -> str:
    return f"{found.difference:>+7.2f}{'*' if found.is_sure else ' '}"


def _examples(comparison: Comparison, pair: Pair) -> Iterator[str]:
    for heading, numbers in (
        (f"where {pair.system} gains most over {pair.baseline}", pair.largest_gains(_N_SHOWN)),
        (f"where {pair.system} loses most against {pair.baseline}", pair.largest_losses(_N_SHOWN)),
    ):
        if numbers:
            yield ""
            yield f"{heading}:"
        for number in numbers:
            yield from _example(comparison, pair, number)


def _example(comparison: Comparison, pair: Pair, number: int) -> Iterator[str]:
    test_set, by_name = comparison.test_set, {judged.name: judged for judged in comparison.systems}
    baseline, system = by_name[pair.baseline], by_name[pair.system]
    before, after = word_differences(baseline.system.texts[number], system.system.texts[number])
    rows = [("source", test_set.sources[number])]
    rows += [("reference", given[number]) for given in test_set.references]
    rows.append((f"{baseline.name} {baseline.sentence_chrf[number]:.1f}", in_brackets(before, "[-", "-]")))
    rows.append((f"{system.name} {system.sentence_chrf[number]:.1f}", in_brackets(after, "{+", "+}")))
    width = max(len(name) for name, _ in rows) + 2
    yield f"  line {number + 1:,}: {pair.gains[number]:+.1f} chrF2"
    yield from (f"    {name:<{width}}{text or '(empty)'}" for name, text in rows)


def _sentence(comparison: Comparison, number: int) -> dict[str, Any]:
    test_set = comparison.test_set
    return {
        "line": number + 1,
        "src": test_set.sources[number],
        "refs": [given[number] for given in test_set.references],
        "buckets": {feature.name: feature.bucket_of[number] for feature in test_set.features},
        "systems": [
            {
                "text": judged.system.texts[number],
                "chrf": judged.sentence_chrf[number],
                "faults": [asdict(fault) for fault in judged.faults[number]],
                "confidence": judged.system.confidences[number] if judged.system.confidences else None,
            }
            for judged in comparison.systems
        ],
    }


def _lettered(comparison: Comparison) -> "list[tuple[str, Any]]":
    """The systems with a short name for columns."""
    letters = [*ascii_uppercase, *(f"S{number}" for number in range(27, len(comparison.systems) + 1))]
    return list(zip(letters, comparison.systems, strict=False))

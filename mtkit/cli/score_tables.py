"""Scores of one system, or of several beside a baseline, as a person reads them and as a program does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mtkit.evaluation.comparison import text
from mtkit.evaluation.metrics import significance

if TYPE_CHECKING:
    from mtkit.evaluation.comparison.comparison import Comparison
    from mtkit.evaluation.comparison.systems import System, TestSet
    from mtkit.evaluation.metrics.scores import MetricScore


def as_text(
    test_set: TestSet,
    systems: Sequence[significance.SystemScores],
    groups: Sequence[significance.SeedScores],
    chance: significance.Chance,
    comparison: Comparison | None = None,
) -> Iterator[str]:
    """Lines for the terminal. comparison: of the same systems, by kind of sentence."""
    yield from _scores(test_set, systems, groups, chance)
    if comparison is not None:
        yield ""
        yield from text.breakdown(comparison)


def _scores(
    test_set: TestSet,
    systems: Sequence[significance.SystemScores],
    groups: Sequence[significance.SeedScores],
    chance: significance.Chance,
) -> Iterator[str]:
    n = f"{len(test_set.references[0]):,} sentences"
    if (n_references := len(test_set.references)) > 1:
        n += f", {n_references} references of each"
    if len(systems) == 1:
        yield f"{n}, {systems[0].length_ratio:.3f} words for each word of the reference"
        yield from _one_system(systems[0].scores)
        return
    baseline = next(system.name for system in systems if not system.differences)
    yield f"{n}, {len(systems)} systems; baseline: {baseline}"
    yield ""
    yield from _several_systems(systems, chance)
    if groups:
        yield ""
        yield from _groups(groups)


def as_record(
    test_set: TestSet,
    found: Sequence[System],
    systems: Sequence[significance.SystemScores],
    groups: Sequence[significance.SeedScores],
    chance: significance.Chance,
    comparison: Comparison | None = None,
) -> dict[str, Any]:
    """For JSON: one system's scores stand at the top, several systems' in a list; what comparison tells, below."""
    record = _record(test_set, found, systems, groups, chance)
    if comparison is not None:
        record["breakdown"] = text.breakdown_structure(comparison)
    return record


def _record(
    test_set: TestSet,
    found: Sequence[System],
    systems: Sequence[significance.SystemScores],
    groups: Sequence[significance.SeedScores],
    chance: significance.Chance,
) -> dict[str, Any]:
    n = {"n_sentences": len(test_set.references[0])}
    if len(systems) == 1:
        [system], scores = systems, [asdict(score) for score in systems[0].scores]
        return {**found[0].origin, **test_set.origin, **n, "length_ratio": system.length_ratio, "scores": scores}
    return {
        **test_set.origin,
        **n,
        "baseline": next(system.name for system in systems if not system.differences),
        **asdict(chance),
        "systems": [
            {
                "name": system.name,
                **texts.origin,
                "length_ratio": system.length_ratio,
                "n_different": system.n_different,
                "scores": [_score_record(systems, system, number) for number in range(len(system.scores))],
            }
            for texts, system in zip(found, systems, strict=True)
        ],
        "groups": [asdict(group) for group in groups],
    }


def _score_record(
    systems: Sequence[significance.SystemScores], system: significance.SystemScores, number: int
) -> dict[str, Any]:
    score = system.scores[number]
    is_best = score.score == significance.best([other.scores[number] for other in systems])
    nothing = dict.fromkeys(("difference", "p_bootstrap", "p_randomization"))
    difference = asdict(system.differences[number]) if system.differences else nothing
    return {**asdict(score), "best": is_best, **difference}


def _one_system(scores: Sequence[MetricScore]) -> Iterator[str]:
    yield f"{'':<7}{'score':>7}   {'95 % interval':<17}signature"
    for score in scores:
        yield f"{score.name:<7}{score.score:>7.2f}   {_interval(score):<17}{score.signature}"
    if any(score.name == "TER" for score in scores):
        yield "TER counts edits: lower is better."


def _several_systems(systems: Sequence[significance.SystemScores], chance: significance.Chance) -> Iterator[str]:
    """A block for each metric, then what the marks mean."""

    width = max(7, *(len(system.name) for system in systems))
    for number, first in enumerate(systems[0].scores):
        columns = f"{'95 % interval':<16}{'differs':>8}{'p bs':>8}{'p ar':>9}"
        yield f"{first.name:<{width}}{'score':>8}       {columns}" + (f"{'length':>9}" if number == 0 else "")
        top = significance.best([system.scores[number] for system in systems])
        for system in systems:
            score = system.scores[number]
            mark = "best" if score.score == top else ""
            compared = _compared(system.differences[number]) if system.differences else "baseline"
            length = f"{system.length_ratio:>8.3f}" if number == 0 else ""
            figures = f"{score.score:>8.2f} {mark:<4}  {_interval(score):<16}{compared:<26}{length}"
            yield f"{system.name:<{width}}{figures}".rstrip()
        yield from (f"signature: {first.signature}", "")
    yield "best: the highest score; of TER, which counts edits, the lowest."
    yield "length: words for each word of the reference."
    level = significance.LEVEL
    yield f"*: differs from the baseline, p < {level}; p is how often chance alone makes a difference this large,"
    bootstrap, randomization = f"{chance.n_bootstrap:,} samples", f"{chance.n_randomization:,} trials"
    yield f"   by paired bootstrap (bs, {bootstrap}) and approximate randomization (ar, {randomization})."
    if any(difference.difference == 0 for system in systems for difference in system.differences):
        yield "same: the very score of the baseline, so there is nothing to test."


def _compared(difference: significance.Difference) -> str:
    if difference.difference == 0:
        return "    same"
    by_bootstrap, by_randomization = ("*" if small else " " for small in difference.significant)
    ps = f"{difference.p_bootstrap:>8.4f}{by_bootstrap}{difference.p_randomization:>8.4f}{by_randomization}"
    return f"{difference.difference:>+8.2f}{ps}"


def _groups(groups: Sequence[significance.SeedScores]) -> Iterator[str]:
    width = max(5, *(len(group.name) for group in groups))
    yield f"{'group':<{width}}{'systems':>9}" + "".join(f"{score.name:>17}" for score in groups[0].scores)
    for group in groups:
        figures = "".join(f"{f'{score.mean:.2f} ± {score.deviation:.2f}':>17}" for score in group.scores)
        yield f"{group.name:<{width}}{len(group.systems):>9}{figures}"
    yield "Mean ± standard deviation over the group's systems."


def _interval(score: MetricScore) -> str:
    return f"{score.low:.2f} to {score.high:.2f}"

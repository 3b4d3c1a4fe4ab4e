"""Print the scores of one system, or of several beside a baseline, as tables or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mtkit.evaluation.comparison import text
from mtkit.evaluation.metrics import significance

if TYPE_CHECKING:
    from mtkit.evaluation.evaluate import Evaluation
    from mtkit.evaluation.metrics.scores import MetricScore


def as_text(result: Evaluation) -> Iterator[str]:
    """Yield lines for the terminal."""
    scores, references = result.scores, result.test_set.references
    n = f"{len(references[0]):,} sentences"
    if len(references) > 1:
        n += f", {len(references)} references of each"
    if len(scores) == 1:
        yield f"{n}, {scores[0].length_ratio:.3f} words for each word of the reference"
        yield from _one_system(scores[0].scores)
    else:
        yield f"{n}, {len(scores)} systems; baseline: {_baseline(scores)}"
        yield ""
        yield from _several_systems(scores, result.chance)
        if result.groups:
            yield ""
            yield from _groups(result.groups)
    if result.comparison is not None:
        yield ""
        yield from text.breakdown(result.comparison)


def as_record(result: Evaluation) -> dict[str, Any]:
    """Return the result for JSON: one system's scores at the top, those of several in a list, then the breakdown."""
    record: dict[str, Any] = {**result.test_set.origin, "n_sentences": len(result.test_set.references[0])}
    scores = result.scores
    if len(scores) == 1:
        [system], all_scores = scores, [asdict(score) for score in scores[0].scores]
        record = {**result.systems[0].origin, **record, "length_ratio": system.length_ratio, "scores": all_scores}
    else:
        record |= {"baseline": _baseline(scores), **asdict(result.chance)}
        record["systems"] = [
            {
                "name": system.name,
                **texts.origin,
                "length_ratio": system.length_ratio,
                "n_different": system.n_different,
                "scores": [_score_record(scores, system, index) for index in range(len(system.scores))],
            }
            for texts, system in zip(result.systems, scores, strict=True)
        ]
        record["groups"] = [asdict(group) for group in result.groups]
    if result.comparison is not None:
        record["breakdown"] = text.breakdown_structure(result.comparison)
    return record


def _baseline(scores: Sequence[significance.SystemScores]) -> str:
    return next(system.name for system in scores if not system.differences)


def _score_record(
    systems: Sequence[significance.SystemScores], system: significance.SystemScores, index: int
) -> dict[str, Any]:
    score = system.scores[index]
    is_best = score.score == significance.best([other.scores[index] for other in systems])
    nothing = dict.fromkeys(("difference", "p_bootstrap", "p_randomization"))
    difference = asdict(system.differences[index]) if system.differences else nothing
    return {**asdict(score), "best": is_best, **difference}


def _one_system(scores: Sequence[MetricScore]) -> Iterator[str]:
    yield f"{'':<7}{'score':>7}   {'95 % interval':<17}signature"
    for score in scores:
        yield f"{score.name:<7}{score.score:>7.2f}   {_interval(score):<17}{score.signature}"
    if any(score.name == "TER" for score in scores):
        yield "TER counts edits: lower is better."


def _several_systems(systems: Sequence[significance.SystemScores], chance: significance.Chance) -> Iterator[str]:
    """Yield a block for each metric, then what the marks mean."""
    width = max(7, *(len(system.name) for system in systems))
    for index, first in enumerate(systems[0].scores):
        columns = f"{'95 % interval':<16}{'differs':>8}{'p bs':>8}{'p ar':>9}"
        yield f"{first.name:<{width}}{'score':>8}       {columns}" + (f"{'length':>9}" if index == 0 else "")
        top = significance.best([system.scores[index] for system in systems])
        for system in systems:
            score = system.scores[index]
            mark = "best" if score.score == top else ""
            compared = _compared(system.differences[index]) if system.differences else "baseline"
            length = f"{system.length_ratio:>8.3f}" if index == 0 else ""
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
        yield "same: the same score as the baseline, so there is nothing to test."


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

"""Print the scores of one system, or of several compared with a baseline, as tables or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mtkit.console import counted
from mtkit.evaluation.comparison import text
from mtkit.evaluation.metrics import scores as metric_scores
from mtkit.evaluation.metrics import significance

if TYPE_CHECKING:
    from mtkit.evaluation.evaluate import Evaluation
    from mtkit.evaluation.metrics.scores import MetricScore


def as_text(result: Evaluation) -> Iterator[str]:
    """Yield lines for the terminal."""
    scores, references = result.scores, result.test_set.references
    n = counted(len(references[0]), "sentence")
    if len(references) > 1:
        n += f", {len(references)} references of each"
    if len(scores) == 1:
        yield f"{n}, {scores[0].length_ratio:.3f} words per word of the reference"
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
    """Return the result for JSON: the scores of one system at the top level or of several in a list, then the
    breakdown.
    """
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
    return {**asdict(score), "best": is_best, **_difference_record(system, index)}


def _difference_record(system: significance.SystemScores, index: int) -> dict[str, Any]:
    """Return the difference from the baseline; the keys of its interval start with difference_."""
    keys = "difference", "p", "p_holm", "sacrebleu_p_bootstrap", "sacrebleu_p_randomization"
    if not system.differences:
        return dict.fromkeys(["difference", "difference_low", "difference_high", *keys[1:]])
    found = asdict(system.differences[index])
    interval = {f"difference_{end}": found[end] for end in ("low", "high")}
    return {"difference": found["difference"], **interval, **{key: found[key] for key in keys[1:]}}


def _one_system(scores: Sequence[MetricScore]) -> Iterator[str]:
    width = max(7, *(len(score.name) + 1 for score in scores))
    yield f"{'':<{width}}{'score':>7}   {'95 % interval':<17}signature"
    for score in scores:
        value = metric_scores.fixed(score.name, score.score)
        yield f"{score.name:<{width}}{value:>7}   {_interval(score) + ' ':<17}{score.signature}"
    if any(score.name == "TER" for score in scores):
        yield "TER counts edits: lower is better."


def _several_systems(systems: Sequence[significance.SystemScores], chance: significance.Chance) -> Iterator[str]:
    """Yield a block for each metric, then the meaning of the marks."""
    width = max(7, *(len(system.name) for system in systems), *(len(score.name) for score in systems[0].scores))
    for index, first in enumerate(systems[0].scores):
        columns = f"{'95 % interval':<17}{'differs':>8}{'p':>8}   {'p bs':>6}{'p ar':>8}"
        yield f"{first.name:<{width}}{'score':>8}       {columns}" + (f"{'length':>8}" if index == 0 else "")
        top = significance.best([system.scores[index] for system in systems])
        for system in systems:
            score = system.scores[index]
            mark = "best" if score.score == top else ""
            compared = _compared(score.name, system.differences[index]) if system.differences else "baseline"
            length = f"{system.length_ratio:>8.3f}" if index == 0 else ""
            value = metric_scores.fixed(score.name, score.score)
            figures = f"{value:>8} {mark:<4}  {_interval(score):<17}{compared:<33}{length}"
            yield f"{system.name:<{width}}{figures}".rstrip()
        yield from (f"signature: {first.signature}", "")
    yield from _legend(systems, chance)


def _legend(systems: Sequence[significance.SystemScores], chance: significance.Chance) -> Iterator[str]:
    yield "best: the highest score, or for TER, which counts edits, the lowest."
    yield "length: words per word of the reference."
    n_others = len(systems) - 1
    several = f", corrected for {n_others} systems (Holm)" if n_others > 1 else ""
    yield f"*: differs from the baseline, p < {significance.LEVEL}; p is the share of {chance.n_randomization:,} trials"
    yield f"   that exchange translations at random and differ as much{several}."
    yield "p bs, p ar: sacreBLEU's --paired-bs and --paired-ar, uncorrected, to compare with papers."
    if any(difference.difference == 0 for system in systems for difference in system.differences):
        yield "same: the same score as the baseline, so there is nothing to test."


def _compared(metric: str, difference: significance.PairedDifference) -> str:
    if difference.difference == 0:
        return "    same"
    star = "*" if difference.is_sure else " "
    theirs = f"{difference.sacrebleu_p_bootstrap:>8.4f}{difference.sacrebleu_p_randomization:>8.4f}"
    return f"{metric_scores.fixed(metric, difference.difference, sign='+'):>8}{difference.p_holm:>8.4f}{star}{theirs}"


def _groups(groups: Sequence[significance.SeedScores]) -> Iterator[str]:
    width = max(5, *(len(group.name) for group in groups))
    yield f"{'group':<{width}}{'systems':>9}" + "".join(f"{score.name:>17}" for score in groups[0].scores)
    for group in groups:
        both = (
            (metric_scores.fixed(score.name, score.mean), metric_scores.fixed(score.name, score.deviation))
            for score in group.scores
        )
        figures = "".join(f"{f'{mean} ± {deviation}':>17}" for mean, deviation in both)
        yield f"{group.name:<{width}}{len(group.systems):>9}{figures}"
    yield "Mean ± standard deviation over the group's systems."


def _interval(score: MetricScore) -> str:
    return f"{metric_scores.fixed(score.name, score.low)} to {metric_scores.fixed(score.name, score.high)}"

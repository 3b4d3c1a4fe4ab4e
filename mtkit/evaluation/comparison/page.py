"""A comparison in, one self-contained page for people out."""

import json
from pathlib import Path
from typing import Any

from markupsafe import Markup

from mtkit.evaluation.comparison.comparison import Comparison, FeatureComparison, Judged, Pair
from mtkit.evaluation.comparison.text import (
    FAULT_NAMES,
    clean_faults,
    habit_rows,
    n_by_chance,
    verdict,
    word_differences,
)
from mtkit.evaluation.metrics.buckets import FEWEST, PART_METRICS
from mtkit.evaluation.metrics.significance import LEVEL
from mtkit.pages.charts import Bars, bar_chart
from mtkit.pages.page import write_page
from mtkit.quality.faults import FAULT_KINDS

_N_SHOWN = 10  # gains and losses side by side
_MOST_BYTES = 1_300_000  # of the table of sentences: the page is to stay under 2 MB


def write_report(path: Path, comparison: Comparison) -> None:
    """Write the page. Of very large test sets it holds the sentences on which the systems differ most, and says so."""
    n_tested, by_chance = n_by_chance(comparison)
    table = _sentence_table(comparison)
    write_page(
        path,
        "compare",
        title=" against ".join([comparison.names[-1], comparison.names[0]])
        if len(comparison.systems) == 2
        else f"{len(comparison.systems)} systems compared",
        names=comparison.names,
        n_sentences=len(comparison.test_set.sources),
        n_references=len(comparison.test_set.references),
        systems=comparison.systems,
        pairs=[_pair(comparison, pair) for pair in comparison.pairs],
        differences={comparison.names[0]: None, **{pair.system: pair.differences for pair in comparison.pairs}},
        habits=habit_rows([judged.habits for judged in comparison.systems]),
        clean=clean_faults([judged.habits for judged in comparison.systems]),
        calibrations=[_calibration(judged) for judged in comparison.systems if judged.habits.calibration],
        features=[_feature(comparison, feature) for feature in comparison.features],
        metrics=PART_METRICS,
        signatures=comparison.signatures,
        n_bootstrap=comparison.n_bootstrap,
        seed=comparison.seed,
        level=LEVEL,
        fewest=FEWEST,
        n_tested=n_tested,
        by_chance=by_chance,
        table=table,
    )


def _pair(comparison: Comparison, pair: Pair) -> dict[str, Any]:
    return {
        "baseline": pair.baseline,
        "system": pair.system,
        "verdicts": [verdict(pair, metric) for metric in PART_METRICS],
        "differences": pair.differences,
        "wins": pair.wins,
        "ties": pair.ties,
        "losses": pair.losses,
        "n_identical": pair.n_identical,
        "gains": [_example(comparison, pair, number) for number in pair.largest_gains(_N_SHOWN)],
        "worst": [_example(comparison, pair, number) for number in pair.largest_losses(_N_SHOWN)],
    }


def _example(comparison: Comparison, pair: Pair, number: int) -> dict[str, Any]:
    by_name = {judged.name: judged for judged in comparison.systems}
    baseline, system = by_name[pair.baseline], by_name[pair.system]
    before, after = word_differences(baseline.system.texts[number], system.system.texts[number])
    return {
        "line": number + 1,
        "gain": pair.gains[number],
        "src": comparison.test_set.sources[number],
        "refs": [given[number] for given in comparison.test_set.references],
        "sides": [
            {
                "name": judged.name,
                "chrf": judged.sentence_chrf[number],
                "text": marked(parts, tag),
                "faults": [FAULT_NAMES[FAULT_KINDS[kind]] for kind in _faults(judged, number)],
            }
            for judged, parts, tag in ((baseline, before, "del"), (system, after, "ins"))
        ],
    }


def marked(parts: list[str], tag: str) -> Markup:
    """The parts as HTML, in turn plain and within the tag."""
    template = Markup(f"<{tag}>{{}}</{tag}>")
    return Markup("").join(template.format(part) if number % 2 else part for number, part in enumerate(parts))


def _feature(comparison: Comparison, feature: FeatureComparison) -> dict[str, Any]:
    charts = _charts(comparison, feature) if len(feature.buckets) > 1 else []
    rows = [*feature.buckets, comparison.everything]
    return {"name": feature.name, "how": feature.how, "rows": rows, "charts": charts}


def _charts(comparison: Comparison, feature: FeatureComparison) -> list[Markup]:
    """Scores by bucket; and differences with intervals, if a bucket has enough sentences for one."""
    groups = [f"{bucket.name} ({bucket.n:,})" for bucket in feature.buckets]
    scores = [
        Bars(name, [bucket.scores[number].scores["chrF2"] for bucket in feature.buckets])
        for number, name in enumerate(comparison.names)
    ]
    charts = [bar_chart(groups, scores, y_label="chrF2", title=f"chrF2 by {feature.name}")]
    differences = [Bars(f"{comparison.names[0]} = 0", [None] * len(groups))]  # keeps each system's colour
    for number, pair in enumerate(comparison.pairs):
        found = [bucket.differences[number]["chrF2"] for bucket in feature.buckets]
        values = [None if gain.p is None else gain.difference for gain in found]
        lows, highs = [gain.low for gain in found], [gain.high for gain in found]
        differences.append(Bars(pair.system, values, lows, highs))
    if any(value is not None for bars in differences for value in bars.values):
        title = f"Difference from {comparison.names[0]} with 95 % intervals, where it was tested"
        charts.append(bar_chart(groups, differences, y_label="difference in chrF2", title=title))
    return charts


def _calibration(judged: Judged) -> dict[str, Any]:
    found = judged.habits.calibration
    assert found is not None  # asked only of those that have one
    groups = [f"{entry.low:.1f}–{entry.high:.1f}" for entry in found.bins if entry.n]
    bins = [entry for entry in found.bins if entry.n]
    series = [
        Bars("mean confidence", [entry.confidence for entry in bins]),
        Bars("share that is good", [entry.good for entry in bins]),
    ]
    chart = bar_chart(groups, series, y_label="share", title=f"{judged.name}: confidence, and what came of it")
    return {"name": judged.name, "report": found, "good_chrf": judged.habits.good_chrf, "chart": chart, "bins": bins}


def _sentence_table(comparison: Comparison) -> dict[str, Any]:
    """The data of the table that can be sorted and filtered, as few sentences as fit, in their order."""
    test_set = comparison.test_set
    rows = [_sentence(comparison, number) for number in range(len(test_set.sources))]
    sizes = [len(json.dumps(row, ensure_ascii=False).encode()) for row in rows]
    by_interest = sorted(range(len(rows)), key=lambda n: (-max(abs(pair.gains[n]) for pair in comparison.pairs), n))
    shown, total = [], 0
    for number in by_interest:
        total += sizes[number]
        if total > _MOST_BYTES:
            break
        shown.append(number)
    return {
        "names": comparison.names,
        "features": [
            {"name": feature.name, "buckets": list(feature.buckets)}
            for feature in test_set.features
            if len(feature.buckets) > 1
        ],
        "faults": [FAULT_NAMES[kind] for kind in FAULT_KINDS],
        "rows": [rows[number] for number in sorted(shown)],
        "n": len(rows),
    }


def _sentence(comparison: Comparison, number: int) -> list[Any]:
    """Line, source, references, bucket of each feature, and of each system: chrF2 and faults.

    After them, for all but the baseline: the system's text and the baseline's, in parts that are in turn the same in
    both and different.
    """
    test_set = comparison.test_set
    baseline, *others = comparison.systems
    systems: list[list[Any]] = [[round(baseline.sentence_chrf[number], 2), _faults(baseline, number)]]
    for other in others:
        before, after = word_differences(baseline.system.texts[number], other.system.texts[number])
        systems.append([round(other.sentence_chrf[number], 2), _faults(other, number), after, before])
    features = [feature for feature in test_set.features if len(feature.buckets) > 1]
    buckets = [feature.buckets.index(feature.bucket_of[number]) for feature in features]
    return [number + 1, test_set.sources[number], [given[number] for given in test_set.references], buckets, systems]


def _faults(judged: Judged, number: int) -> list[int]:
    return sorted({FAULT_KINDS.index(fault.kind) for fault in judged.faults[number]})

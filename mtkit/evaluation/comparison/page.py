"""Write a comparison as a self-contained HTML page."""

import json
from pathlib import Path
from typing import Any

from markupsafe import Markup

from mtkit.evaluation.comparison.comparison import Comparison, FeatureComparison, Judged, Pair
from mtkit.evaluation.comparison.text import (
    FAULT_NAMES,
    absent_faults,
    diagnostic_rows,
    how_tested,
    n_tested,
    verdict,
    word_differences,
)
from mtkit.evaluation.metrics.buckets import FEWEST
from mtkit.evaluation.metrics.scores import fixed
from mtkit.evaluation.metrics.significance import LEVEL
from mtkit.pages.charts import Bars, bar_chart
from mtkit.pages.page import write_page
from mtkit.quality.faults import FOUND_KINDS

_N_SHOWN = 10  # gains and losses side by side
_MAX_BYTES = 1_300_000  # of the table of sentences, which keeps the page under 2 MB


def write_report(path: Path, comparison: Comparison) -> None:
    """Write the page; for a very large test set it holds only the sentences on which the systems differ most."""
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
        diagnostics=diagnostic_rows(comparison),
        absent=absent_faults(comparison),
        calibrations=[_calibration(judged) for judged in comparison.systems if judged.diagnostics.calibration],
        features=[_feature(comparison, feature) for feature in comparison.features],
        metrics=comparison.metrics,
        signatures=comparison.signatures,
        score=fixed,
        chance=comparison.chance,
        how_tested=how_tested(comparison),
        level=LEVEL,
        fewest=FEWEST,
        n_tested=n_tested(comparison),
        table=_sentence_table(comparison),
    )


def _pair(comparison: Comparison, pair: Pair) -> dict[str, Any]:
    return {
        **vars(pair),
        "verdicts": [verdict(pair, metric) for metric in comparison.metrics],
        "largest_gains": [_example(comparison, pair, index) for index in pair.largest_gains(_N_SHOWN)],
        "largest_losses": [_example(comparison, pair, index) for index in pair.largest_losses(_N_SHOWN)],
    }


def _example(comparison: Comparison, pair: Pair, index: int) -> dict[str, Any]:
    baseline, system = comparison.sides(pair)
    before, after = word_differences(baseline.system.texts[index], system.system.texts[index])
    return {
        "line": index + 1,
        "gain": pair.gains[index],
        "src": comparison.test_set.sources[index],
        "refs": [given[index] for given in comparison.test_set.references],
        "sides": [
            {
                "name": judged.name,
                "chrf": judged.sentence_chrf[index],
                "text": marked(parts, tag),
                "faults": [FAULT_NAMES[FOUND_KINDS[kind]] for kind in _faults(judged, index)],
            }
            for judged, parts, tag in ((baseline, before, "del"), (system, after, "ins"))
        ],
    }


def marked(parts: list[str], tag: str) -> Markup:
    """Return the parts as HTML, alternately plain and within the tag."""
    template = Markup(f"<{tag}>{{}}</{tag}>")
    return Markup("").join(template.format(part) if index % 2 else part for index, part in enumerate(parts))


def _feature(comparison: Comparison, feature: FeatureComparison) -> dict[str, Any]:
    charts = _charts(comparison, feature) if len(feature.buckets) > 1 else []
    rows = [*feature.buckets, comparison.everything]
    return {"name": feature.name, "how": feature.how, "rows": rows, "charts": charts}


def _charts(comparison: Comparison, feature: FeatureComparison) -> list[Markup]:
    """Draw scores by bucket, and differences with intervals if any bucket has enough sentences for one."""
    groups = [f"{bucket.name} ({bucket.n:,})" for bucket in feature.buckets]
    scores = [
        Bars(name, [bucket.scores[index].scores["chrF2"] for bucket in feature.buckets])
        for index, name in enumerate(comparison.names)
    ]
    charts = [bar_chart(groups, scores, y_label="chrF2", title=f"chrF2 by {feature.name}")]
    differences = [Bars(f"{comparison.names[0]} = 0", [None] * len(groups))]  # keeps each system's colour
    for index, pair in enumerate(comparison.pairs):
        gains = [bucket.differences[index]["chrF2"] for bucket in feature.buckets]
        values = [None if gain.p is None else gain.difference for gain in gains]
        differences.append(Bars(pair.system, values, [gain.low for gain in gains], [gain.high for gain in gains]))
    if any(value is not None for bars in differences for value in bars.values):
        title = f"Difference from {comparison.names[0]} with 95 % intervals, where tested"
        charts.append(bar_chart(groups, differences, y_label="difference in chrF2", title=title))
    return charts


def _calibration(judged: Judged) -> dict[str, Any]:
    calibration, good_chrf = judged.diagnostics.calibration, judged.diagnostics.good_chrf
    assert calibration is not None  # the caller leaves out systems without one
    bins = [entry for entry in calibration.bins if entry.n]
    groups = [f"{entry.low:.1f}–{entry.high:.1f}" for entry in bins]
    series = [
        Bars("mean confidence", [entry.confidence for entry in bins]),
        Bars("share of good translations", [entry.good for entry in bins]),
    ]
    chart = bar_chart(groups, series, y_label="share", title=f"{judged.name}: confidence and share of good ones")
    return {"name": judged.name, "report": calibration, "good_chrf": good_chrf, "chart": chart, "bins": bins}


def _sentence_table(comparison: Comparison) -> dict[str, Any]:
    """Return the data of the table that can be sorted and filtered: as many sentences as fit, in their order."""
    test_set = comparison.test_set
    rows = [_sentence(comparison, index) for index in range(len(test_set.sources))]
    sizes = [len(json.dumps(row, ensure_ascii=False).encode()) for row in rows]
    by_interest = sorted(range(len(rows)), key=lambda n: (-max(abs(pair.gains[n]) for pair in comparison.pairs), n))
    shown, total = [], 0
    for index in by_interest:
        total += sizes[index]
        if total > _MAX_BYTES:
            break
        shown.append(index)
    return {
        "names": comparison.names,
        "features": [
            {"name": feature.name, "buckets": list(feature.buckets)}
            for feature in test_set.features
            if len(feature.buckets) > 1
        ],
        "faults": [FAULT_NAMES[kind] for kind in FOUND_KINDS],
        "rows": [rows[index] for index in sorted(shown)],
        "n": len(rows),
    }


def _sentence(comparison: Comparison, index: int) -> list[Any]:
    """Return line, source, references, bucket of each feature, and each system's chrF2 and faults.

    All but the baseline also have their text and the baseline's, in parts that are alternately equal and different.
    """
    test_set = comparison.test_set
    baseline, *others = comparison.systems
    systems: list[list[Any]] = [[round(baseline.sentence_chrf[index], 2), _faults(baseline, index)]]
    for other in others:
        before, after = word_differences(baseline.system.texts[index], other.system.texts[index])
        systems.append([round(other.sentence_chrf[index], 2), _faults(other, index), after, before])
    features = [feature for feature in test_set.features if len(feature.buckets) > 1]
    buckets = [feature.buckets.index(feature.bucket_of[index]) for feature in features]
    return [index + 1, test_set.sources[index], [given[index] for given in test_set.references], buckets, systems]


def _faults(judged: Judged, index: int) -> list[int]:
    kinds = {fault.kind for fault in judged.faults[index]}
    return [i for i, kind in enumerate(FOUND_KINDS) if kind in kinds]

"""Show a classifier's scores on labelled text: a page with curves, a table for a terminal, a record for JSON."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from markupsafe import Markup

from mtkit.console import counted
from mtkit.data.corpus import evenly_spaced
from mtkit.evaluation.labelled import LabelledEvaluation
from mtkit.evaluation.metrics import classification as metrics
from mtkit.pages.charts import Bars, Series, bar_chart, line_chart
from mtkit.pages.page import write_page

_MOST_CURVES = 8
_MOST_POINTS = 200  # of a curve
_LARGEST_MATRIX = 30  # labels
_MOST_CONFUSIONS = 10


def as_text(result: LabelledEvaluation) -> Iterator[str]:
    """Yield lines for the terminal."""
    yield f"{counted(result.n, 'example')}, {len(result.labels)} labels"
    yield f"{'':<20}{'score':>7}   95 % interval"
    for score in result.scores:
        yield f"{score.name:<20}{score.score:>7.4f}   {score.low:.4f} to {score.high:.4f}"
    yield f"{'calibration error':<20}{result.calibration_error:>7.4f}"
    yield ""
    width = max(5, *(len(label) for label in result.labels))
    columns = "".join(f"   {name:<22}" for name in ("precision", "recall", "F1", "AUC"))
    yield f"{'label':<{width}}{'examples':>10}{'found':>8}{columns}".rstrip()
    for label, one in zip(result.labels, metrics.scores_by_label(result.probs, result.right), strict=True):
        shares = "".join(f"   {_with_interval(share):<22}" for share in (one.precision, one.recall, one.f1, one.auc))
        yield f"{label:<{width}}{one.n:>10,}{one.n_found:>8,}{shares}".rstrip()
    if confusions := result.confusions():
        yield ""
        yield "most frequent mistakes:"
        for right, found, n in confusions[:_MOST_CONFUSIONS]:
            yield f"{n:>8,}  {right} labelled {found}"


def _with_interval(share: metrics.Share) -> str:
    if math.isnan(share.value):
        return "-"
    if math.isnan(share.low):
        return f"{share.value:.3f}"
    return f"{share.value:.3f} ({share.low:.3f}-{share.high:.3f})"


def as_record(result: LabelledEvaluation) -> dict[str, Any]:
    """Return the result for JSON; what is not defined, such as the AUC of a label that never occurs, is null."""
    by_label = metrics.scores_by_label(result.probs, result.right)
    record = {
        "model": str(result.model),
        "files": [str(path) for path in result.files],
        "n_examples": result.n,
        "n_blank": result.n_blank,
        "n_cut": result.n_cut,
        "scores": [asdict(score) for score in result.scores],
        "calibration_error": result.calibration_error,
        "labels": [{"label": label, **asdict(one)} for label, one in zip(result.labels, by_label, strict=True)],
        "calibration": [asdict(one) for one in metrics.calibration(result.probs, result.right)],
        "confusion": result.confusion.tolist(),
        "mistakes": [asdict(mistake) for mistake in result.mistakes],
    }
    cleaned: dict[str, Any] = _without_nan(record)
    return cleaned


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def write_labelled_page(path: Path, result: LabelledEvaluation) -> None:
    """Write an .html page: scores, ROC curves, calibration, confusion matrix, and mistakes to read."""
    record = as_record(result)
    n_labels = len(result.labels)
    is_drawn = n_labels <= _LARGEST_MATRIX
    write_page(
        path,
        "labelled",
        title=f"Results of the classifier {_name(result.model)}",
        result=result,
        record=record,
        roc=_roc_chart(result, [one["n"] for one in record["labels"]]),
        calibration=_calibration_chart(result),
        matrix=result.confusion.tolist() if is_drawn else None,
        confusions=result.confusions()[:_MOST_CONFUSIONS],
    )


def _name(model: Path) -> str:
    return model.parent.name if model.name == "model" else model.name


def _roc_chart(result: LabelledEvaluation, counts: Sequence[int]) -> Markup:
    """Draw the curves of the most frequent labels; of two labels, that of the second one."""
    frequent = sorted(range(len(result.labels)), key=lambda label: -counts[label])[:_MOST_CURVES]
    shown = [1] if len(result.labels) == 2 else sorted(frequent)
    series = []
    for label in shown:
        xs, ys = metrics.roc_curve(result.probs[:, label], result.right == label)
        points = evenly_spaced(list(zip(xs.tolist(), ys.tolist(), strict=True)), _MOST_POINTS)
        if points:
            points[-1] = (1.0, 1.0)
            series.append(Series(result.labels[label], [x for x, _ in points], [y for _, y in points]))
    series.append(Series("guessing", [0.0, 1.0], [0.0, 1.0]))
    return line_chart(
        series,
        x_label="share of the other examples that are above the same threshold",
        y_label="share of the label's examples",
        title="ROC curves",
    )


def _calibration_chart(result: LabelledEvaluation) -> Markup:
    bins = metrics.calibration(result.probs, result.right)
    return bar_chart(
        [f"{one.low:.1f} to {one.high:.1f}" for one in bins],
        [
            Bars("mean probability", [one.confidence for one in bins]),
            Bars(
                "share of right labels",
                [one.right.value for one in bins],
                [one.right.low for one in bins],
                [one.right.high for one in bins],
            ),
        ],
        y_label="0 to 1",
        title="Calibration: share of right labels by the probability of the label",
    )

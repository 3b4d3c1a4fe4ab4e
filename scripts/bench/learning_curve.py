"""Fit the learning curve that forecasts BLEU to measured runs, and show how far off it is.

    .venv/bin/python scripts/bench/learning_curve.py scripts/results/curves.tsv

The curve is in `mtkit.training.preparation.learning_curve`. A line of the file is a validation: text, run, pairs,
trigrams, width of the model, `lexicon` or `random` for its first weights, tokens of all batches in millions, dev BLEU,
and `fit` or `check`. The squares of the differences of logarithms are least for the lines with `fit`; a text with
several runs weighs as much as the root of their number. Each text is then left out in turn, and the last validations of
its runs are compared with the curve of the others. Runs with `check` were made after the fit and are compared with the
curve of all. `--picture FILE` draws the longest run of each text, of its widest model, whose points are the
validations, beside the curve.
"""

import argparse
import csv
import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from mtkit.training.preparation.learning_curve import CurveNumbers
from mtkit.training.preparation.rule import NARROW_MODEL

NARROW = NARROW_MODEL["d_model"]
_FROM_BLEU, _FROM_MILLIONS = 5.0, 0.15  # below, a validation says little


@dataclass(frozen=True)
class Validation:
    """A point of a run's curve."""

    text: str
    run: str
    pairs: int
    trigrams: float
    d_model: int
    has_lexicon: bool
    millions: float
    bleu: float
    role: str


def main() -> None:
    """Print the curve, and each run beside the curve of all other texts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--picture", type=Path, help="draw the runs here (.png or .svg; needs matplotlib)")
    parser.add_argument("--texts", default="", help="draw only those whose name begins so")
    arguments = parser.parse_args()
    with arguments.runs.open(encoding="utf-8", newline="") as file:
        points = read(csv.DictReader(file, delimiter="\t"))
    fitted = [point for point in points if point.role == "fit"]
    curve = fit(fitted)
    print(", ".join(f"{name} {value:.2f}" for name, value in curve._asdict().items()))
    sizes = []
    for text in sorted({point.text for point in fitted}):
        others = fit([point for point in fitted if point.text != text])
        sizes.append(abs(statistics.fmean(shown(run, others) for run in ends(fitted) if run.text == text)))
    nearest = math.ceil(0.8 * (len(sizes) + 1))  # with as many known, a further one is as near with a chance of 80 %
    print(f"four of five texts are closer than {sorted(sizes)[nearest - 1]:.3f} (natural logarithm)\nchecks:")
    for run in ends([point for point in points if point.role == "check"]):
        shown(run, curve)
    if arguments.picture:
        draw([point for point in points if point.text.startswith(arguments.texts)], curve, arguments.picture)


def draw(points: Sequence[Validation], curve: CurveNumbers, path: Path) -> None:
    """Draw the longest run of each text beside the curve: BLEU on dev by millions of tokens, one colour for a text."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 6))
    longest = sorted(ends(points), key=lambda point: (point.d_model, point.millions))
    runs = {point.text: point.run for point in longest}
    by_size = sorted(runs, key=lambda text: -max(point.pairs for point in points if point.text == text))
    for text in by_size:
        own = [point for point in points if point.run == runs[text]]
        from_to = torch.linspace(math.log(_FROM_MILLIONS), math.log(own[-1].millions), 50).exp().tolist()
        expected = [expected_bleu(replace(own[0], millions=millions), curve) for millions in from_to]
        [line] = axes.plot(from_to, expected, linewidth=1)
        places = [[point.millions for point in own], [point.bleu for point in own]]
        axes.plot(*places, "o", color=line.get_color(), label=text, markersize=5)
    axes.set_xscale("log")
    axes.set_xticks(ticks := [0.2, 0.5, 1, 2, 5], [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("million tokens in all batches (log scale)")
    axes.set_ylabel("BLEU on dev")
    axes.set_title("What runs with a budget reach: points are measured, lines are the forecast's curve", fontsize=11)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=9, frameon=False)
    figure.savefig(path, dpi=110, bbox_inches="tight")


def read(rows: Iterable[Mapping[str, str]]) -> list[Validation]:
    """Return the lines of the file."""

    def validation(row: Mapping[str, str]) -> Validation:
        trigrams, millions, bleu = (float(row[key]) for key in ("trigrams", "millions", "dev_bleu"))
        pairs, d_model = int(row["pairs"]), int(row["d_model"])
        has_lexicon = row["start"] == "lexicon"
        return Validation(row["text"], row["run"], pairs, trigrams, d_model, has_lexicon, millions, bleu, row["role"])

    return [validation(row) for row in rows]


def fit(points: Sequence[Validation]) -> CurveNumbers:
    """Return the curve with the least weighted squares of differences of logarithms."""
    points = [point for point in points if point.bleu >= _FROM_BLEU and point.millions >= _FROM_MILLIONS]
    n_points = {run: len(list(group)) for run, group in itertools.groupby(sorted(p.run for p in points))}
    runs_of = {text: len({p.run for p in points if p.text == text}) for text in {p.text for p in points}}
    weights = torch.tensor([n_points[p.run] ** -1.0 * runs_of[p.text] ** -0.5 for p in points], dtype=torch.float64)
    columns = [[p.trigrams, p.pairs / 10_000, p.millions, p.bleu] for p in points]
    trigrams, pairs, millions, bleu = torch.tensor(columns, dtype=torch.float64).log().T
    is_narrow = torch.tensor([float(p.d_model == NARROW) for p in points], dtype=torch.float64)
    has_lexicon = torch.tensor([p.has_lexicon for p in points])
    values = torch.tensor([4.0, 1.5, -1.2, 0.3, 0.6, 0.7, -1.0], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([values], max_iter=500, line_search_fn="strong_wolfe", tolerance_change=1e-12)

    def loss() -> float:
        optimizer.zero_grad()
        ceiling, power, half, half_power, slope, narrow, head_start = values
        halves = half + half_power * pairs + narrow * is_narrow
        reached = torch.where(has_lexicon, torch.logaddexp(millions, head_start + halves), millions)
        steps = slope.exp() * (halves - reached)
        squares = (weights * (ceiling + power * trigrams - torch.nn.functional.softplus(steps) - bleu) ** 2).sum()
        squares.backward()
        return float(squares.item())

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    ceiling, power, half, half_power, slope, narrow, head_start = values.tolist()
    positive = math.exp(slope), math.exp(narrow), math.exp(head_start)
    return CurveNumbers(math.exp(ceiling), power, math.exp(half), half_power, *positive)


def ends(points: Sequence[Validation]) -> list[Validation]:
    """Return the last validation of each run."""
    return list({point.run: point for point in points}.values())


def expected_bleu(point: Validation, curve: CurveNumbers) -> float:
    """Return what the curve gives for the run of a validation, after its tokens."""
    return curve.bleu(point.pairs, point.trigrams, point.millions, point.d_model, point.has_lexicon)


def shown(point: Validation, curve: CurveNumbers) -> float:
    """Print a validation beside the curve; return the difference of their logarithms."""
    expected = expected_bleu(point, curve)
    difference = math.log(point.bleu / expected)
    print(f"{point.run:<24} {point.text:<20} expected {expected:5.1f} came {point.bleu:5.1f} ({difference:+.2f})")
    return difference


if __name__ == "__main__":
    main()

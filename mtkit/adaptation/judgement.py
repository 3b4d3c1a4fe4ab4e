"""Judge an adaptation: scores before and after with paired tests, the loss elsewhere, and examples of what changed."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from mtkit.adaptation.curve import Point
from mtkit.evaluation.comparison.page import marked
from mtkit.evaluation.comparison.text import p_value, word_differences
from mtkit.evaluation.metrics.scores import DEFAULTS, sentence_scores
from mtkit.evaluation.metrics.settings import MetricName, MetricSettings
from mtkit.evaluation.metrics.significance import LEVEL, compare
from mtkit.files import parse_json, write_text
from mtkit.pages.page import write_page

FILE, PAGE = "judgement.json", "report.html"
ON_MEMORY = "agreement with the base on the memory's test"
_METRICS: tuple[MetricName, ...] = ("BLEU", "chrF2")
_TUNED_ALONE = "For text like the memory's alone, run/model has the tuned weights."
_N_GAINS, _N_LOSSES = 8, 4  # examples


@dataclass(frozen=True)
class Change:
    """One metric on one text, before and after."""

    metric: str
    before: float
    after: float
    low: float | None  # 95 % of the differences of resampled test sets lie from low to high
    high: float | None
    p: float | None  # by approximate randomization; None: too few sentences

    @property
    def difference(self) -> float:
        """After - before."""
        return self.after - self.before

    @property
    def is_gain(self) -> bool:
        """Whether the score is significantly higher."""
        return self.difference > 0 and self.is_sure

    @property
    def is_sure(self) -> bool:
        """Whether the difference is significant."""
        return self.p is not None and self.p < LEVEL


@dataclass(frozen=True)
class Example:
    """A sentence of the domain's test text, and its translations."""

    src: str
    reference: str
    before: str
    after: str
    gain: float  # of its chrF2


@dataclass(frozen=True)
class Judgement:
    """What an adaptation has brought."""

    base: str  # folder of the model
    model: str | None  # folder of the better one; None: the base remains the model to use
    memory: str
    n_read: int  # pairs of the memory
    n_clean: int
    n_train: int
    n_test: int
    unseen: list[str]  # characters that the model has no piece for, in words
    n_mix: int  # general pairs that were mixed in, with references or with the base's own translations
    domain: list[Change]
    general: list[Change]
    general_of: str  # what `general` measures, in words
    n_general: int
    curve: list[Point]
    examples: list[Example]
    changed: str = ""  # what training changes in the memory because of them, in words
    new_pieces: list[str] = field(default_factory=list)  # what --new-pieces brings for each side, in words
    most_lost: float | None = None  # of the general text's first metric; None: there is no general text

    @property
    def is_better(self) -> bool:
        """Whether the domain's first metric is significantly higher than the base's, at a tolerable loss elsewhere."""
        return bool(self.domain) and self.domain[0].is_gain and not self.loses_too_much

    @property
    def loses_too_much(self) -> bool:
        """Whether the general text's first metric is significantly lower, by more than may be lost."""
        if self.most_lost is None or not self.general:
            return False
        return self.general[0].is_sure and self.general[0].difference < -self.most_lost

    def save(self, folder: Path) -> None:
        """Write the page, then the file that marks the end of the adaptation."""
        base = Path(self.base)  # perhaps the bundle in the folder of its run
        write_page(
            folder / PAGE,
            "adaptation",
            title=f"Adaptation of {base.parent.name if base.name == 'model' else base.name} to {self.memory}",
            judged=self,
            verdict=self.verdict(),
            level=LEVEL,
            p_value=p_value,
            examples=[
                {**asdict(one), "sides": [marked(parts, tag) for parts, tag in zip(sides, ("del", "ins"), strict=True)]}
                for one in self.examples
                for sides in [word_differences(one.before, one.after)]
            ],
        )
        write_text(folder / FILE, json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Self | None:
        """Read what `save` wrote; None if the adaptation has not ended."""
        if not (folder / FILE).exists():
            return None
        values: dict[str, Any] = parse_json((folder / FILE).read_text(encoding="utf-8"))
        for key, kind in {"domain": Change, "general": Change, "curve": Point, "examples": Example}.items():
            values[key] = [kind(**entry) for entry in values[key]]
        return cls(**values)

    def verdict(self) -> str:
        """Return the judgement in one or two sentences."""
        first = self.domain[0]
        figures = f"{first.metric} {first.before:.2f} before, {first.after:.2f} after"
        remains = f"{self.base} remains the model to use."
        if not first.is_gain:
            how_sure = "there are too few sentences for a test" if first.p is None else p_value(first.p)
            return (
                f"The adapted model is not significantly better on the memory's test text ({figures}; {how_sure}). "
                f"{remains} A larger memory or a longer --budget may lead to a better one."
                f"{self._gain_that_costs_too_much()}"
            )
        better = f"The adapted model is better on the memory's test text ({figures}; {p_value(first.p or 0.0)})"
        if self.loses_too_much:
            lost = self.general[0]
            return (
                f"{better}, but it loses too much elsewhere ({self.general_of}: {lost.metric} {lost.before:.2f} "
                f"before, {lost.after:.2f} after; at most {self.most_lost:g} may be lost). {remains} More general text "
                f"(--general) or a longer --budget may lead to a better one. {_TUNED_ALONE}"
            )
        if self.general_of == ON_MEMORY:
            return f"{better}. What it loses on other text is unknown: give such text with --general to measure it."
        return f"{better}."

    def _gain_that_costs_too_much(self) -> str:
        """Say that the tuned weights alone gain more, if the chosen mean has fewer of them for the general text."""
        chosen = next((point for point in self.curve if point.is_chosen), None)
        if chosen is None or chosen.general is None:
            return ""
        base, tuned = self.curve[0], self.curve[-1]
        if (
            chosen.share == tuned.share
            or base.general is None
            or tuned.general is None
            or tuned.domain <= chosen.domain
        ):
            return ""
        return (
            f" The tuned weights alone gain more on dev ({base.domain:.2f} before, {tuned.domain:.2f} after), but lose "
            f"too much elsewhere ({self.general_of}: {base.general:.2f} before, {tuned.general:.2f} after). "
            f"{_TUNED_ALONE}"
        )

    def lines(self) -> Iterator[str]:
        """Yield the judgement as a table for the terminal."""
        texts = ((f"memory's test, {self.n_test}", self.domain), (f"{self.general_of}, {self.n_general}", self.general))
        rows = [(f"{change.metric} ({text})", change) for text, changes in texts for change in changes]
        width = max(len(name) for name, _ in rows)
        yield f"{'':<{width}} {'before':>8} {'after':>8} {'change':>8}  95 % interval"
        for name, change in rows:
            between = "" if change.low is None else f"{change.low:+.2f} to {change.high:+.2f}"
            sure = "" if change.p is None else f", {p_value(change.p)}"
            figures = f"{change.before:>8.2f} {change.after:>8.2f} {change.difference:>+8.2f}"
            yield f"{name:<{width}} {figures}  {between}{sure}"


def changes_of(
    before: Sequence[str], after: Sequence[str], references: Sequence[str], settings: MetricSettings = DEFAULTS
) -> list[Change]:
    """Score translations before and after by each metric, and test the differences."""
    systems = {"before": before, "after": after}
    base, tuned = compare(systems, [references], metrics=_METRICS, settings=settings)
    return [
        Change(score.name, old.score, score.score, difference.low, difference.high, difference.p_holm)
        for old, score, difference in zip(base.scores, tuned.scores, tuned.differences, strict=True)
    ]


def examples_of(
    sources: Sequence[str], references: Sequence[str], before: Sequence[str], after: Sequence[str]
) -> list[Example]:
    """Return the sentences that gained most, then those that lost most, by chrF2."""
    examples = []
    for src, reference, old, new in zip(sources, references, before, after, strict=True):
        if old != new:
            then, now = sentence_scores([old, new], reference, "chrf")
            examples.append(Example(src, reference, old, new, now - then))
    examples.sort(key=lambda one: -one.gain)
    gains = [one for one in examples if one.gain > 0][:_N_GAINS]
    losses = [one for one in examples if one.gain < 0][-_N_LOSSES:]
    return [*gains, *reversed(losses)]

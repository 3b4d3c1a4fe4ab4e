"""What the keys of a classifier's config must be, and which of them a translator's cannot have."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mtkit.config.data import CorpusFiles

if TYPE_CHECKING:
    from mtkit.config.schema import Config

METRICS = {"translate": ("bleu", "chrf", "loss"), "classify": ("accuracy", "f1", "auc", "loss")}
MOST_LABELS = 1000


def problem_of_translator(cfg: "Config") -> str | None:
    """Return which key only a classifier can have."""
    if cfg.data.labels or cfg.data.pairs is not None:
        key = "labels" if cfg.data.labels else "pairs"
        return f"data.{key} is for a classifier: set task to classify, or remove it"
    return _problem_of_metric(cfg)


def problem_of_classifier(cfg: "Config") -> str | None:
    """Return what a classifier cannot use, or cannot do without."""
    for key, corpus in _corpora(cfg):
        if corpus.tsv is None:
            return (
                f"{key}: task=classify reads labels from a TSV file: set tsv to one with text, tab, label on each line"
            )
        if corpus.tag is not None:
            return f"{key}.tag={corpus.tag}: task=classify has no tags; remove it"
    labels = cfg.data.labels
    if len(labels) == 1 or len(labels) > MOST_LABELS:
        return f"data.labels: a classifier chooses among 2 to {MOST_LABELS:,} labels, not {len(labels):,}"
    for label in labels:
        if labels.count(label) > 1:
            return f"data.labels: {label!r} is there twice"
        if not label or label != label.strip() or "\t" in label:
            return f"data.labels: {label!r}: a label has text, no tab, and no space at its ends"
    for key, has_no_effect in (
        ("data.max_length_ratio", cfg.data.max_length_ratio is not None),
        ("distill.teachers", bool(cfg.distill.teachers)),
        ("train.suite", cfg.train.suite is not None),
    ):
        if has_no_effect:
            return f"{key} is for translators: with task=classify, remove it"
    if not cfg.tokenizer.shared:
        return "task=classify has one tokenizer, for both texts of a pair, too: set tokenizer.shared to true"
    return _problem_of_metric(cfg)


def _problem_of_metric(cfg: "Config") -> str | None:
    choices = METRICS[cfg.task]
    if cfg.train.metric in choices:
        return None
    return f"train.metric={cfg.train.metric}: with task={cfg.task} choose one of {', '.join(choices)}"


def _corpora(cfg: "Config") -> Iterator[tuple[str, CorpusFiles]]:
    yield from ((f"data.train.{i}", corpus) for i, corpus in enumerate(cfg.data.train))
    yield "data.dev", cfg.data.dev
    if cfg.data.test is not None:
        yield "data.test", cfg.data.test

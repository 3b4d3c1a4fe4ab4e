"""Checks of the keys that only a classifier's config, or only a translator's config, may have."""

from collections.abc import Iterator

from mtkit.config.augment import AugmentConfig
from mtkit.config.data import CorpusFiles, DataConfig
from mtkit.config.distillation import DistillConfig
from mtkit.config.tokenizer import TokenizersConfig
from mtkit.config.training import TrainConfig

METRICS = {"translate": ("bleu", "chrf", "loss"), "classify": ("accuracy", "f1", "auc", "loss")}
MOST_LABELS = 1000


def problem_of_translator(data: DataConfig, train: TrainConfig) -> str | None:
    """Return which key only a classifier can have."""
    if data.labels or data.pairs is not None:
        key = "labels" if data.labels else "pairs"
        return f"data.{key} needs a classifier: set task to classify, or remove the key"
    return _problem_of_metric("translate", train)


def problem_of_classifier(
    data: DataConfig,
    distill: DistillConfig,
    augment: AugmentConfig,
    tokenizer: TokenizersConfig,
    train: TrainConfig,
) -> str | None:
    """Return the problems of a classifier's config: keys that it cannot use, and keys that it lacks."""
    for key, corpus in _corpora(data):
        if corpus.tsv is None:
            return (
                f"{key}: task=classify reads labels from a TSV file: set tsv to one with text, tab, label on each line"
            )
        if corpus.tag is not None:
            return f"{key}.tag={corpus.tag}: task=classify has no tags; remove it"
    labels = data.labels
    if len(labels) == 1 or len(labels) > MOST_LABELS:
        return f"data.labels: a classifier needs 2 to {MOST_LABELS:,} labels, not {len(labels):,}"
    for label in labels:
        if labels.count(label) > 1:
            return f"data.labels: lists {label!r} twice"
        if not label or label != label.strip() or "\t" in label:
            return f"data.labels: {label!r}: a label must have text, no tab, and no space at its start or end"
    for key, has_no_effect in (
        ("data.max_length_ratio", data.max_length_ratio is not None),
        ("data.placeholders", bool(data.placeholders)),
        ("distill.teachers", bool(distill.teachers)),
        *((f"augment.{name}", True) for name in augment.rates),
        ("train.suite", train.suite is not None),
        ("train.guided_alignment", train.guided_alignment > 0),
    ):
        if has_no_effect:
            return f"{key} applies only to translators: with task=classify, remove it"
    if not tokenizer.shared:
        return "task=classify uses a single tokenizer, also for the two texts of a pair: set tokenizer.shared to true"
    return _problem_of_metric("classify", train)


def _problem_of_metric(task: str, train: TrainConfig) -> str | None:
    choices = METRICS[task]
    if train.metric in choices:
        return None
    return f"train.metric={train.metric}: with task={task} choose one of {', '.join(choices)}"


def _corpora(data: DataConfig) -> Iterator[tuple[str, CorpusFiles]]:
    yield from ((f"data.train.{i}", corpus) for i, corpus in enumerate(data.train))
    yield from ((corpus.key, corpus) for corpus in data.dev)
    if data.test is not None:
        yield "data.test", data.test

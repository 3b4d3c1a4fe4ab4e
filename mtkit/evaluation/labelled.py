"""Evaluate a classifier on labelled text, and return its scores with intervals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mtkit.bundle import BundleFiles
from mtkit.classification.classifier import Classifier
from mtkit.config.data import CorpusFiles
from mtkit.data.corpus import require_files
from mtkit.data.dev_text import Split, corpus_of_split
from mtkit.data.examples import Example, Labelling, label_id, label_ids, read_examples
from mtkit.errors import DataError
from mtkit.evaluation.metrics import classification as metrics
from mtkit.evaluation.metrics.scores import MetricScore
from mtkit.pair_files.lines import windows

_MOST_MISTAKES = 10  # examples to read


@dataclass(frozen=True)
class Mistake:
    """An example that gets a wrong label."""

    place: str  # file and line
    texts: tuple[str, ...]
    label: str  # the right one
    found: str
    probability: float  # of the label that it gets


@dataclass(frozen=True)
class LabelledEvaluation:
    """A classifier's scores on labelled text."""

    model: Path
    files: list[Path]
    labels: tuple[str, ...]
    probs: metrics.Probs  # (N, L)
    right: metrics.LabelIndices  # (N,)
    n_blank: int  # examples without text, which get no label and are left out
    n_cut: int  # judged by their beginning
    mistakes: list[Mistake]  # the surest ones first

    @property
    def n(self) -> int:
        """The number of scored examples."""
        return len(self.right)

    @property
    def confusion(self) -> metrics.Confusion:
        """The counts of examples by right label, then by predicted label."""
        return metrics.confusion(self.probs, self.right)

    @property
    def scores(self) -> list[MetricScore]:
        """Accuracy and macro F1."""
        return metrics.scores_with_intervals(self.confusion)

    @property
    def calibration_error(self) -> float:
        """The mean difference between the probability of the predicted label and its accuracy."""
        return metrics.calibration_error(self.probs, self.right)

    def confusions(self) -> list[tuple[str, str, int]]:
        """Return the counts of each right label with each wrong prediction, most frequent first."""
        counts = self.confusion
        pairs = [(int(right), int(found)) for right, found in np.argwhere(counts) if right != found]
        pairs.sort(key=lambda pair: (-counts[pair], pair))
        return [(self.labels[right], self.labels[found], int(counts[right, found])) for right, found in pairs]


def evaluate_classifier(
    classifier: Classifier, corpus: CorpusFiles, *, advance: Callable[[int], object] = lambda _: None
) -> LabelledEvaluation:
    """Classify labelled text and score it. advance: called with the number of rows just done.

    Raises DataError, with file and line, for a row with other columns or a label that the classifier does not know.
    """
    labelling = Labelling(classifier.labels, 1 + classifier.reads_pairs)
    ids = label_ids(labelling)
    probs: list[list[float]] = []
    right: list[int] = []
    mistakes: list[Mistake] = []
    for examples in windows(read_examples([corpus], labelling.n_texts), classifier.window):
        indices = [label_id(example, ids) - 1 for example in examples]  # before the work
        found = classifier.classify_window([_text(example) for example in examples])
        for example, index, one in zip(examples, indices, found, strict=True):
            if one.label is not None:
                probs.append([one.probabilities[label] for label in classifier.labels])
                right.append(index)
                if one.label != example.label:
                    surest = one.probabilities[one.label]
                    mistakes.append(Mistake(example.place, example.texts, example.label, one.label, surest))
        mistakes = sorted(mistakes, key=lambda mistake: -mistake.probability)[:_MOST_MISTAKES]
        advance(len(examples))
    if not right:
        raise DataError(f"{', '.join(map(str, corpus.paths))}: no text to score; write {labelling.row} on each line")
    return LabelledEvaluation(
        classifier.files.folder,
        corpus.paths,
        classifier.labels,
        np.array(probs),
        np.array(right),
        classifier.n_blank,
        classifier.n_cut,
        mistakes,
    )


def labelled_corpus(files: BundleFiles, tsv: Path | None, split: Split, dev_set: str | None = None) -> CorpusFiles:
    """Return the file to score: tsv, else the split of the model's config; dev_set: the name of one of several.

    Raises DataError if there is none, UsageError if it is not clear which.
    """
    if tsv is not None:
        corpus = CorpusFiles(tsv=tsv)
        require_files("--tsv", [corpus], config="the command", remedy="correct the path")
        return corpus
    config, remedy = files.folder / "config.yaml", "use --tsv with a labelled file"
    return corpus_of_split(files.config.data, split, dev_set, config=config, remedy=remedy)


def _text(example: Example) -> str | tuple[str, str]:
    texts: Sequence[str] = example.texts
    return texts[0] if len(texts) == 1 else (texts[0], texts[1])

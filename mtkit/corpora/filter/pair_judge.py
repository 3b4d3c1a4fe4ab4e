"""Judge pairs by a network and a lexicon together: the probability that each pair is a good translation.

The lexicon knows words after seconds of learning, the network what words alone do not show. A logistic regression on
the figures of both, and their products, weighs them; it learns from held-out examples, so its probabilities are
calibrated on these.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mtkit.arrays import read_arrays
from mtkit.bundle import BundleFiles, add_to_bundle, bundle_file
from mtkit.classification.classifier import Classifier
from mtkit.corpora.filter.lexicon import Floats, Lexicon
from mtkit.errors import BundleError
from mtkit.evaluation.metrics.classification import auc

GOOD = "good"  # the label of good pairs; all others are mistakes
FILE = "pair_filter.npz"
_LEAST = 1e-4  # of a probability: the network's have four decimals
_RIDGE = 3.0  # penalty of the regression, on columns with deviation 1
_STEPS = 25  # of Newton's method; it converges in about ten

Texts = tuple[str, str]


class Scores(NamedTuple):
    """A filter's verdicts on some pairs, in order."""

    probs: Floats  # that they are good; 0 if unread
    is_unread: npt.NDArray[np.bool_]  # a side is blank
    is_cut: npt.NDArray[np.bool_]  # the network read only the beginning of a side


@dataclass(frozen=True)
class Regression:
    """Logistic regression on columns, their squares and their products."""

    mean: Floats
    scale: Floats
    weights: Floats

    @classmethod
    def fit(cls, columns: Floats, is_good: npt.NDArray[np.bool_]) -> "Regression":
        """Fit to the rows of columns (N, C), by Newton's method with a ridge penalty."""
        expanded = _with_products(columns)
        mean, scale = expanded.mean(axis=0), expanded.std(axis=0) + 1e-9
        rows = np.column_stack([(expanded - mean) / scale, np.ones(len(columns))])
        ridge = np.full(rows.shape[1], _RIDGE)
        ridge[-1] = 1e-6  # the constant
        weights = np.zeros(rows.shape[1])
        for _ in range(_STEPS):
            probs = _sigmoid(rows @ weights)
            hessian = (rows * (probs * (1 - probs))[:, None]).T @ rows + np.diag(ridge)
            weights += np.linalg.solve(hessian, rows.T @ (is_good - probs) - ridge * weights)
        return cls(mean, scale, weights)

    def probabilities(self, columns: Floats) -> Floats:
        """Return the probability that each row (N, C) is good: (N,)."""
        rows = (_with_products(columns) - self.mean) / self.scale
        return _sigmoid(rows @ self.weights[:-1] + self.weights[-1])


@dataclass(frozen=True)
class PairJudge:
    """A trained pair filter."""

    classifier: Classifier
    lexicon: Lexicon
    regression: Regression

    @classmethod
    def learn(
        cls, classifier: Classifier, lexicon: Lexicon, pairs: Sequence[Texts], is_good: npt.NDArray[np.bool_]
    ) -> tuple["PairJudge", float]:
        """Fit the weights of network and lexicon on examples that neither has learned from; return their AUC as well.

        The AUC is that of each half of the examples under weights from the other half.
        """
        columns, *_ = _columns(classifier, lexicon, pairs)
        probs, is_second = np.zeros(len(columns)), np.arange(len(columns)) % 2 == 1
        for half in (is_second, ~is_second):
            probs[half] = Regression.fit(columns[~half], is_good[~half]).probabilities(columns[half])
        return cls(classifier, lexicon, Regression.fit(columns, is_good)), auc(probs, is_good)

    @classmethod
    def load(cls, classifier: Classifier) -> "PairJudge":
        """Load lexicon and weights from the classifier's bundle. Raises BundleError if one is missing or damaged."""
        path = lexicon_file(classifier.files)
        data = classifier.files.config.data
        try:
            arrays = read_arrays(path)
            lexicon = Lexicon.from_arrays(arrays, (data.src_lang, data.tgt_lang))
            return cls(classifier, lexicon, Regression(arrays["mean"], arrays["scale"], arrays["weights"]))
        except (ValueError, KeyError) as error:
            raise BundleError(f"{path}: not the lexicon of a pair filter: {error}") from None

    def save(self) -> None:
        """Add the lexicon and the weights to the classifier's bundle."""

        def write(path: Path) -> None:
            arrays: dict[str, Any] = {**self.lexicon.arrays(), **vars(self.regression)}
            with path.open("wb") as file:
                np.savez_compressed(file, **arrays)

        add_to_bundle(self.classifier.files, FILE, write)

    def scores(self, pairs: Sequence[Texts]) -> Scores:
        """Judge pairs."""
        columns, is_unread, is_cut = _columns(self.classifier, self.lexicon, pairs)
        return Scores(np.where(is_unread, 0.0, self.regression.probabilities(columns)), is_unread, is_cut)


def lexicon_file(files: BundleFiles) -> Path:
    """Return the file of the bundle's lexicon. Raises BundleError if there is none, or another one."""
    path = bundle_file(files, FILE)
    if path is None:
        raise BundleError(
            f"{files.folder}: a pair filter without its lexicon; run the command that began it, mtkit data "
            "train-filter, again: it adds what is missing"
        )
    return path


def _columns(
    classifier: Classifier, lexicon: Lexicon, pairs: Sequence[Texts]
) -> tuple[Floats, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return the figures of each pair, and whether it was not read, or only its beginning."""
    read = list(classifier.stream(pairs))
    good = np.array([one.probabilities.get(GOOD, 0.0) for one in read])
    logits = np.log((good + _LEAST) / (1 - good + _LEAST))
    columns = np.column_stack([lexicon.features(pairs), logits])
    return columns, np.array([one.label is None for one in read], bool), np.array([one.is_cut for one in read], bool)


def _with_products(columns: Floats) -> Floats:
    first, second = np.triu_indices(columns.shape[1])
    return np.column_stack([columns, columns[:, first] * columns[:, second]])


def _sigmoid(values: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(values, -50, 50))))

"""Score a classifier on the dev text: loss, accuracy, F1, AUC; calibrate it there."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mtkit.config.schema import Config
from mtkit.console import counted, log
from mtkit.data.batching import Batch
from mtkit.data.encoded import EncodedCorpus
from mtkit.data.examples import Example
from mtkit.evaluation.metrics import classification as metrics
from mtkit.evaluation.metrics.scores import MetricScore
from mtkit.model.network import Network
from mtkit.runtime import Precision, autocast
from mtkit.training.validation.validator import DevScores, Sample, dev_plan, each_batch

_LOWEST, _HIGHEST = 1e-3, 1e3  # temperatures to search between
_N_HALVINGS = 60  # of a range of six powers of ten: beyond float64's precision
_LITTLE_BETTER = 0.02  # than always giving the most frequent label


@dataclass(frozen=True)
class ClassificationScores:
    """A classifier's scores on dev, all from 0 to 1 except the loss."""

    loss: float  # nats per example, without label smoothing
    logits: Tensor  # (N, L), in the order of the text
    labels: Tensor  # (N,): indices of the right labels

    @property
    def counts(self) -> metrics.Confusion:
        """The counts of examples by right label and predicted label."""
        return metrics.confusion(self.probs, self.labels.numpy())

    @property
    def probs(self) -> metrics.Probs:
        """The probability of each label, for each example."""
        return np.asarray(self.logits.double().softmax(dim=1).numpy())

    def figures(self) -> dict[str, float]:
        """Return the scores by name."""
        counts = self.counts
        figures = {
            "loss": self.loss,
            "accuracy": float(metrics.accuracy(counts)),
            "f1": float(metrics.macro_f1(counts)),
        }
        if len(counts) == 2 and counts.sum(axis=1).all():
            figures["auc"] = metrics.auc(self.probs[:, 1], self.labels.numpy() == 1)
        return figures

    def finding(self) -> str | None:
        """Return advice about a classifier that is hardly better than a constant answer; None for a better one."""
        counts = self.counts
        n_right, n_most, n = np.trace(counts), counts.sum(axis=1).max(), counts.sum()
        if n_right >= n_most + _LITTLE_BETTER * n or n_right == n:
            return None
        return (
            f"An accuracy of {n_right / n:.1%} is hardly better than always giving the most frequent label "
            f"({n_most / n:.1%}). The model needs more text or longer training, or the labels do not depend on the "
            "text; if a label is rare, look at F1 and AUC."
        )

    def __str__(self) -> str:
        figures = self.figures()
        shares = f"loss {self.loss:.3f}, accuracy {figures['accuracy']:.2%}, F1 {figures['f1']:.2%}"
        return shares + (f", AUC {figures['auc']:.4f}" if "auc" in figures else "")


class ClassificationValidator:
    """Scores a classifier on all of a dev set. Satisfies `Validator`."""

    def __init__(
        self, cfg: Config, corpus: EncodedCorpus, examples: Mapping[int, Example], precision: Precision
    ) -> None:
        """corpus: dev as token ids; examples: the text of a few examples by their index, to show the results for."""
        self.corpus = corpus
        self.names = cfg.data.labels
        self.examples = examples
        self.precision = precision
        self.plan = dev_plan(cfg, corpus)

    @property
    def fingerprint(self) -> str:
        """The checksum of dev, as encoded."""
        return self.corpus.fingerprint

    @property
    def n_pairs(self) -> int:
        """How many examples dev has."""
        return self.corpus.n_pairs

    @property
    def n_sentences(self) -> int:
        """How many examples dev has."""
        return self.corpus.n_pairs

    def run(self, model: Network) -> ClassificationScores:
        """Score the model, and leave it in evaluation mode."""
        model.eval()
        device = next(model.parameters()).device

        def logits_of(batch: Batch) -> Tensor:
            there = batch.to(device)
            with autocast(device, self.precision):
                hidden = model.hidden(there.src, there.tgt_in)
            output = model.output
            logits = torch.nn.functional.linear(hidden[:, 0].float(), output.weight, output.bias)
            return logits.cpu()

        parts = each_batch(self.corpus, self.plan, logits_of)
        order = np.argsort(np.concatenate(self.plan))
        logits = torch.cat(parts)[torch.from_numpy(order)]
        labels = torch.from_numpy(self.corpus.tgt.ids.astype(np.int64)) - model.first_target
        return scores_of(logits, labels)

    def samples(self, scores: DevScores) -> list[Sample]:
        """Return the same few examples each time, with the label that the model gives them and its probability."""
        assert isinstance(scores, ClassificationScores)
        samples = []
        for index, example in self.examples.items():
            best = int(scores.probs[index].argmax())
            found = f"{self.names[best]} ({scores.probs[index, best]:.1%})"
            samples.append(Sample(" | ".join(example.texts), example.label, found))
        return samples

    def signed_scores(self, scores: DevScores) -> dict[str, list[MetricScore]]:
        """Return accuracy and macro F1 with intervals."""
        assert isinstance(scores, ClassificationScores)
        return {"dev": metrics.scores_with_intervals(scores.counts)}

    def share_better(self, scores: DevScores, others: DevScores) -> float:
        """Return 0: without translations there is no BLEU."""
        return 0.0

    def describe(self) -> str:
        """Describe the dev set that a validation scores."""
        return f"dev: {counted(self.corpus.n_pairs, 'example')} of {len(self.names)} labels"


@torch.no_grad()
def calibrate(model: Network, scores: ClassificationScores) -> tuple[ClassificationScores, dict[str, Any]]:
    """Scale the model's output so that its probabilities are right on dev; return its new scores and a record.

    This changes the probabilities of the labels, but not their order.
    """
    temperature = _best_temperature(scores.logits, scores.labels)
    model.output.weight.div_(temperature)
    model.output.bias.div_(temperature)
    scaled = scores_of(scores.logits / temperature, scores.labels)
    before, after = (metrics.calibration_error(each.probs, each.labels.numpy()) for each in (scores, scaled))
    log.info(
        f"calibrated on dev with temperature {temperature:.2f}: the probability of a label now differs from its "
        f"accuracy by {after:.1%} on average, before by {before:.1%}"
    )
    return scaled, {"temperature": temperature, "calibration_error": {"before": before, "after": after}}


def scores_of(logits: Tensor, labels: Tensor) -> ClassificationScores:
    """Return the scores of these logits (N, L)."""
    nll = -logits.double().log_softmax(dim=1).gather(1, labels[:, None])
    return ClassificationScores(math.fsum(nll.flatten().tolist()) / len(labels), logits, labels)


def _best_temperature(logits: Tensor, labels: Tensor) -> float:
    """Return the T for which the softmax of logits / T has the lowest cross-entropy with the labels.

    Temperature scaling makes probabilities match how often the classifier is right (Guo et al. 2017, section 4.2).
    logits: (N, L); labels: (N,) indices. The right label counts as (N + 1) / (N + L), each other one as 1 / (N + L), as
    Platt 1999 (section 2.2) does for two labels: N examples cannot show that a classifier errs less often than that, so
    one that makes no mistake among them does not become infinitely sure.
    """
    z = logits.double()
    n, n_labels = z.shape
    targets = torch.full_like(z, 1 / (n + n_labels)).scatter_(1, labels[:, None], (n + 1) / (n + n_labels))
    wanted = (targets * z).sum()

    def slope(log_beta: float) -> float:
        """Return the sign of the derivative of the cross-entropy, which is convex in beta = 1 / T."""
        probs = (z * torch.tensor(log_beta, dtype=z.dtype).exp()).softmax(dim=1)
        return float((probs * z).sum() - wanted)

    low, high = torch.tensor([1 / _HIGHEST, 1 / _LOWEST], dtype=z.dtype).log().tolist()
    for _ in range(_N_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return float(torch.tensor(-(low + high) / 2, dtype=z.dtype).exp())

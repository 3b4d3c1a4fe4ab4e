"""The protocol of a validation on the dev text, for both tasks, and the ranking of a run's validated steps."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import torch

from mtkit.config.schema import Config
from mtkit.config.training import TrainConfig
from mtkit.data.batching import Batch, Indices, make_batch, plan_epoch
from mtkit.data.encoded import EncodedCorpus
from mtkit.errors import TrainingError
from mtkit.evaluation.metrics.scores import MetricScore
from mtkit.model.network import Network
from mtkit.runtime import Precision, is_out_of_memory
from mtkit.training.update.optimizer_step import batch_loss
from mtkit.training.update.state import Scored, TrainState

_T = TypeVar("_T")


@dataclass(frozen=True)
class Sample:
    """A dev sentence, its reference and the model's translation; or a text, its label and the model's label."""

    src: str
    reference: str
    translation: str


class DevScores(Protocol):
    """A model's scores on dev."""

    @property
    def loss(self) -> float:
        """Nats per target, without label smoothing."""

    def figures(self) -> dict[str, float]:
        """Return the scores by name; train.metric is one of them."""

    def finding(self) -> str | None:
        """Return advice about these scores; None if there is none."""


class Validator(Protocol):
    """Scores a model on dev."""

    @property
    def fingerprint(self) -> str:
        """The checksum of dev, as encoded."""

    @property
    def n_pairs(self) -> int:
        """The number of pairs or examples in dev."""

    @property
    def n_sentences(self) -> int:
        """The number of dev sentences that the scores come from; the loss always covers all."""

    def run(self, model: Network) -> DevScores:
        """Score the model, and leave it in evaluation mode."""

    def samples(self, scores: DevScores) -> list[Sample]:
        """Return a few examples of the model's output."""

    def signed_scores(self, scores: DevScores) -> dict[str, list[MetricScore]]:
        """Return the scores with signatures and intervals, by dev set; the first one of each is the main score."""

    def share_better(self, scores: DevScores, others: DevScores) -> float:
        """Return the share of resampled dev sets in which the scores have a higher BLEU than others; 0 for labels."""

    def describe(self) -> str:
        """Describe the dev text that a validation scores."""


def dev_plan(cfg: Config, corpus: EncodedCorpus) -> list[Indices]:
    """Return the indices of the pairs in each batch of dev, the same at each validation."""
    lengths, size = (corpus.src_lengths, corpus.tgt_lengths), cfg.train.n_batch_tokens
    return plan_epoch(*lengths, batch_tokens=size, seed=cfg.seed, epoch=0, shuffle=False)


def dev_loss(model: Network, corpus: EncodedCorpus, plan: Sequence[Indices], precision: Precision) -> float:
    """Return the model's loss on all of dev, in nats per target token."""
    sums = each_batch(corpus, plan, lambda batch: batch_loss(model, batch, 0.0, precision)[1])
    n_targets = int(corpus.tgt_lengths.sum(dtype=np.int64)) + corpus.n_pairs
    return math.fsum(torch.stack(sums).tolist()) / n_targets


@torch.no_grad()  # not inference_mode: training also uses the position tables that the model may grow here
def each_batch(corpus: EncodedCorpus, plan: Sequence[Indices], work: Callable[[Batch], _T]) -> list[_T]:
    """Return work(batch) for each batch of dev. Raises TrainingError, with the place of the longest pair, if memory
    runs out.
    """
    results = []
    for batch in (make_batch(corpus, indices) for indices in plan):
        try:
            results.append(work(batch))
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise _out_of_memory(corpus, batch) from error
            raise
    return results


def _out_of_memory(corpus: EncodedCorpus, batch: Batch) -> TrainingError:
    lengths = np.maximum(corpus.src_lengths[batch.indices], corpus.tgt_lengths[batch.indices])
    longest = int(lengths.argmax())
    return TrainingError(
        f"{corpus.line_of(int(batch.indices[longest]))}: out of memory for the loss of this dev pair of "
        f"{lengths[longest]:,} tokens with {len(lengths) - 1} others; in a new run, shorten it if it is unusually "
        "long, or lower train.batch_tokens"
    )


def scored(step: int, scores: DevScores, cfg: TrainConfig) -> Scored:
    """Return the step with the scores that rank it."""
    return Scored(step, scores.figures()[cfg.metric], scores.loss)


def quality(one: Scored, cfg: TrainConfig) -> tuple[float, float]:
    """Return a sort key that rises with quality: the metric, then the loss."""
    return (-one.value if cfg.metric == "loss" else one.value, -one.loss)


def rank(state: TrainState, scores: DevScores, cfg: TrainConfig) -> bool:
    """Add the state's step to its validated steps, and to the best if it is one; return whether it is the best."""
    new = scored(state.step, scores, cfg)
    is_best = not state.best or quality(new, cfg) > quality(state.best[0], cfg)
    n_best = 1 if cfg.average_last else cfg.average_best
    state.best = sorted([*state.best, new], key=lambda one: quality(one, cfg), reverse=True)[:n_best]
    state.last = [*state.last, new][-cfg.average_last :] if cfg.average_last else []
    state.bad_validations = 0 if is_best else state.bad_validations + 1
    state.validated_step = state.step
    return is_best

"""Combine the validators of several dev sets to one, whose scores are those of each set and their mean."""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from statistics import fmean

from mtkit.config.schema import Config
from mtkit.data.dev_text import shared
from mtkit.evaluation.metrics.scores import MetricScore
from mtkit.model.network import Network
from mtkit.training.validation.validator import DevScores, Sample, Validator

_N_SAMPLES = 4  # of all sets
_WORDS = {"bleu": "BLEU", "chrf": "chrF", "accuracy": "accuracy", "f1": "F1", "auc": "AUC", "loss": "loss"}


@dataclass(frozen=True)
class SeveralScores:
    """A model's scores on each of several dev sets. Satisfies `DevScores`."""

    names: Sequence[str]  # of the sets
    parts: Sequence[DevScores]  # in their order
    metric: str  # train.metric
    metric_on: str | None  # train.metric_on

    @property
    def loss(self) -> float:
        """Nats per target, without label smoothing: the mean of the sets' losses, or that of train.metric_on."""
        return fmean(part.loss for part in self._ranking)

    def figures(self) -> dict[str, float]:
        """Return the scores that rank the model by name, and those of each set as dev.SET.NAME."""
        of_parts = [part.figures() for part in self.parts]
        ranking = [part.figures() for part in self._ranking]
        # The behaviour checks are not a set's own: the first set's validator makes them.
        checks = {key: value for key, value in of_parts[0].items() if key.partition(".")[0] == "suite"}
        figures = {
            key: fmean(part[key] for part in ranking if key in part)  # AUC needs examples of both labels
            for key in dict.fromkeys(key for part in ranking for key in part if key not in checks)
        }
        if "perplexity" in figures:
            figures["perplexity"] = math.exp(min(self.loss, 700.0))
        for name, part in zip(self.names, of_parts, strict=True):
            figures |= {f"dev.{name}.{key}": value for key, value in part.items() if key not in checks}
        return figures | checks

    def finding(self) -> str | None:
        """Return advice about the scores of the sets; None if there is none."""
        findings = [(name, part.finding()) for name, part in zip(self.names, self.parts, strict=True)]
        return "\n".join(f"dev ({name}): {finding}" for name, finding in findings if finding) or None

    def __str__(self) -> str:
        each = "; ".join(f"({name}) {part}" for name, part in zip(self.names, self.parts, strict=True))
        which = f"of {self.metric_on}" if self.metric_on else "on average"
        value = self.figures()[self.metric]
        return f"{each}; {_WORDS[self.metric]} {which} {value:.{2 if self.metric in ('bleu', 'chrf') else 4}f}"

    @property
    def _ranking(self) -> list[DevScores]:
        """The scores whose mean ranks the model."""
        pairs = zip(self.names, self.parts, strict=True)
        return [part for name, part in pairs if self.metric_on in (None, name)]


class SeveralDevSets:
    """Scores a model on several dev sets. Satisfies `Validator`."""

    def __init__(self, cfg: Config, parts: Sequence[Validator]) -> None:
        """parts: a validator for each set of data.dev."""
        self.names = [str(corpus.name) for corpus in cfg.data.dev]
        self.labels = [corpus.label for corpus in cfg.data.dev]
        self.parts = parts
        self.train = cfg.train

    @property
    def fingerprint(self) -> str:
        """The checksum of all sets, as encoded."""
        return of_all_sets([part.fingerprint for part in self.parts])

    @property
    def n_pairs(self) -> int:
        """The number of pairs or examples in all sets."""
        return sum(part.n_pairs for part in self.parts)

    @property
    def n_sentences(self) -> int:
        """The number of sentences in all sets that the scores come from."""
        return sum(part.n_sentences for part in self.parts)

    def run(self, model: Network) -> SeveralScores:
        """Score the model on each set, and leave it in evaluation mode."""
        return self.scores([part.run(model) for part in self.parts])

    def scores(self, parts: Sequence[DevScores]) -> SeveralScores:
        """Return the scores of all sets as one object."""
        return SeveralScores(self.names, parts, self.train.metric, self.train.metric_on)

    def samples(self, scores: DevScores) -> list[Sample]:
        """Return a few examples, from the sets in turn."""
        of_parts = [part.samples(score) for part, score in self._each(scores)]
        in_turn = [sample for samples in zip_longest(*of_parts) for sample in samples if sample is not None]
        return in_turn[: max(_N_SAMPLES, len(self.parts))]

    def signed_scores(self, scores: DevScores) -> dict[str, list[MetricScore]]:
        """Return the scores with signatures and intervals, by set."""
        return {
            label: scored
            for label, (part, score) in zip(self.labels, self._each(scores), strict=True)
            for scored in part.signed_scores(score).values()
        }

    def share_better(self, scores: DevScores, others: DevScores) -> float:
        """Return the mean over the sets that rank the checkpoints."""
        assert isinstance(scores, SeveralScores) and isinstance(others, SeveralScores)
        return fmean(
            part.share_better(ours, theirs)
            for name, part, ours, theirs in zip(self.names, self.parts, scores.parts, others.parts, strict=True)
            if self.train.metric_on in (None, name)
        )

    def describe(self) -> str:
        """Describe the dev sets that a validation scores."""
        each = (part.describe().removeprefix("dev: ") for part in self.parts)
        return "; ".join(f"{label}: {what}" for label, what in zip(self.labels, each, strict=True))

    def _each(self, scores: DevScores) -> list[tuple[Validator, DevScores]]:
        assert isinstance(scores, SeveralScores)
        return list(zip(self.parts, scores.parts, strict=True))


def of_all_sets(fingerprints: Sequence[str]) -> str:
    """Return the checksum of the dev sets from those of each of them."""
    return fingerprints[0] if len(fingerprints) == 1 else hashlib.sha256("\n".join(fingerprints).encode()).hexdigest()


def validator_of(cfg: Config, make: Callable[[int, int | None], Validator], sizes: Sequence[int]) -> Validator:
    """Return the validator of the config's one or several dev sets.

    make: returns the validator of the set of this index that translates this many sentences (None: all). sizes: pairs
    of each set. The sets share train.validate_sentences.
    """
    n_sentences = cfg.train.validate_sentences
    shares = [None] * len(sizes) if n_sentences is None else shared(n_sentences, sizes)
    parts = [make(index, share) for index, share in enumerate(shares)]
    return parts[0] if len(parts) == 1 else SeveralDevSets(cfg, parts)


def parts_of(validator: Validator) -> Sequence[Validator]:
    """Return the validators of the single dev sets."""
    return validator.parts if isinstance(validator, SeveralDevSets) else [validator]

"""The parts of a prepared run: settings, text, batches, validator, model and checkpoints."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from mtkit.config.data import DataConfig
from mtkit.config.schema import Config
from mtkit.data.corpus import corpus_name
from mtkit.data.encoded import EncodedCorpus
from mtkit.data.feed import BatchStream, EpochSize
from mtkit.data.mixture import CorpusUse, Draw, Mixture, draws_of, scores_fingerprint, uses
from mtkit.data.overlap import Overlap
from mtkit.training.preparation.learning_curve import ExpectedBleu, LearningCurve
from mtkit.training.preparation.text import TrainingText
from mtkit.training.update.checkpoint import Checkpoints
from mtkit.training.update.optimizer_step import Updater
from mtkit.training.validation.validator import Validator


@dataclass(frozen=True)
class Prepared:
    """The parts of a run, from `prepare`."""

    cfg: Config  # with a number for train.batch_tokens, and with a budget for train.validate_sentences
    run_dir: Path
    text: TrainingText
    feed: BatchStream
    mixtures: list[Mixture]  # what an epoch draws from the corpora in each stage of the run
    epoch_sizes: list[EpochSize]  # in each stage
    overlaps: dict[str, Overlap]  # of dev and test with the training text; only process 0 counts them
    validator: Validator
    updater: Updater  # its model has the initial weights
    checkpoints: Checkpoints
    update_s: float = 0.0  # measured seconds of an update; 0: no budget, or a run that has started
    validation_s: float = 0.0  # expected seconds of a validation; with a budget only
    text_s: float = 0.0  # in which this start learnt tokenizers and encoded text; 0 if it found them
    reasons: dict[str, str] = field(default_factory=dict)  # each value that mtkit chose, with its reason, by key
    start: list[str] = field(default_factory=list)  # checksums of the model in train.init_from, at the first start

    @property
    def corpus(self) -> EncodedCorpus:
        """The training text."""
        return self.text.train

    @property
    def train_fingerprint(self) -> str:
        """The checksum of the encoded training text, and of the scores that select its pairs."""
        return with_scores(self.corpus.fingerprint, self.cfg.data)

    @property
    def epoch_size(self) -> EpochSize:
        """The size of an epoch; for several stages, the mean weighted by their shares of the run."""
        if len(self.epoch_sizes) == 1:
            return self.epoch_sizes[0]
        shares = [mixture.end - mixture.begin for mixture in self.mixtures]

        def mean(values: Iterable[float]) -> float:
            return sum(share * value for share, value in zip(shares, values, strict=True))

        return EpochSize(
            round(mean(size.n_batches for size in self.epoch_sizes)),
            max(1, round(mean(size.n_updates for size in self.epoch_sizes))),
            mean(size.padding_share for size in self.epoch_sizes),
            is_exact=False,
        )

    @cached_property
    def learning_curve(self) -> LearningCurve | None:
        """The BLEU on dev to expect during the run; None if it is unlike the measured runs."""
        return self.text.learning_curve(self.cfg)

    @property
    def tokens_an_update(self) -> int:
        """The tokens of the longer side in the batches of an update, at most."""
        return self.cfg.train.n_batch_tokens * self.cfg.train.accumulate

    def expected_bleu(self, n_updates: int) -> ExpectedBleu | None:
        """Return the BLEU on dev to expect after n_updates; None outside the range of the measured runs."""
        curve = self.learning_curve
        return None if curve is None else curve.after(n_updates * self.tokens_an_update)

    def uses_in(self, n_updates: int, stages: Sequence[int] | None = None) -> list[CorpusUse]:
        """Return how much a run of this many updates draws from each corpus, in these stages or in all."""
        epochs = [
            n_updates * (mixture.end - mixture.begin) / max(1, size.n_updates) * (stages is None or stage in stages)
            for stage, (mixture, size) in enumerate(zip(self.mixtures, self.epoch_sizes, strict=True))
        ]
        return uses(list(map(corpus_name, self.cfg.data.train)), self.draws, epochs)

    @cached_property
    def draws(self) -> list[list[Draw]]:
        """The number of pairs that an epoch draws from each corpus, by stage."""
        return [draws_of(mixture, self.corpus) for mixture in self.mixtures]


def with_scores(text: str, data: DataConfig) -> str:
    """Return the checksum of the training text together with its scores. text: the checksum of the encoded text."""
    scores = scores_fingerprint(data)
    return hashlib.sha256((text + scores).encode()).hexdigest() if scores else text

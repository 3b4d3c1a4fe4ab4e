"""The protocol of a run's training text, for both tasks: the text and the parts that depend on the task."""

from collections.abc import Mapping
from typing import Any, Protocol

from mtkit.alignment.lexicon import AlignmentLexicon
from mtkit.bundle import FileWriters
from mtkit.config.schema import Config
from mtkit.data.encoded import EncodedCorpus
from mtkit.data.feed import Sampler
from mtkit.model.network import Network
from mtkit.runtime import Precision
from mtkit.tokens.tokenizer import Tokenizer
from mtkit.tokens.word_record import WordRecord
from mtkit.training.preparation.learning_curve import LearningCurve
from mtkit.training.preparation.tokenizer_report import TokenizerReport
from mtkit.training.validation.forecast import ValidationCost
from mtkit.training.validation.validator import DevScores, Validator


class TrainingText(Protocol):
    """The text of a run: `ParallelText` for a translator, `LabelledText` for a classifier."""

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """The tokenizers of the source and the target side; a shared one appears twice."""

    @property
    def train(self) -> EncodedCorpus:
        """The training text as token ids."""

    @property
    def worth(self) -> Mapping[int, str]:
        """For each number of updates, the expected quality of a run with fewer, in words."""

    def learning_curve(self, cfg: Config) -> LearningCurve | None:
        """Return the BLEU on dev to expect during the run; None if it is unlike the measured runs."""

    def sampler(self, cfg: Config) -> Sampler | None:
        """Return the sampler that segments the training text differently in each epoch; None without sampling."""

    def validator(self, cfg: Config, precision: Precision) -> Validator:
        """Return the validator that scores the model on dev."""

    def forecast(self, validator: Validator, model: Network, limit_s: float) -> ValidationCost:
        """Forecast a validation of the trained model; measuring takes about limit_s."""

    def rehearse_scores(self, validator: Validator) -> None:
        """Do the same work as the scores with intervals at the end, so that the caller can measure it."""

    def calibrate(self, model: Network, scores: DevScores) -> tuple[DevScores, dict[str, Any]]:
        """Calibrate the finished model on dev; return its new scores, and a record for the manifest."""

    @property
    def alignment_lexicon(self) -> AlignmentLexicon | None:
        """The lexicon of tokens, which mtkit learns from the training text at the first use; None for single texts."""

    @property
    def words(self) -> WordRecord | None:
        """What the bundle records of the words of the source side, counted at the first use; None if unknown."""

    @property
    def facts(self) -> dict[str, Any]:
        """The facts about the training text that decide how to use the model, for the manifest."""

    def files_for_bundle(self) -> FileWriters:
        """Return the further files that the model needs."""

    def tokenizer_figures(self) -> dict[str, TokenizerReport]:
        """Return the figures of the tokenizers on the dev text, by side."""

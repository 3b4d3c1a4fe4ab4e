"""What a run learns from, whatever the task: the text and all that depends on what it is text of."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from mtkit.config.schema import Config
from mtkit.data.encoded import EncodedCorpus
from mtkit.data.feed import Sampler
from mtkit.model.network import Network
from mtkit.runtime import Precision
from mtkit.scoring.alignment_lexicon import AlignmentLexicon
from mtkit.tokens.tokenizer import Tokenizer
from mtkit.training.preparation.tokenizer_report import TokenizerReport
from mtkit.training.validation.forecast import ValidationCost
from mtkit.training.validation.validator import DevScores, Validator


class TrainingText(Protocol):
    """The text of a run. `ParallelText` is that of a translator, `LabelledText` that of a classifier."""

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """Those of the source and the target side, or twice the one of both."""

    @property
    def train(self) -> EncodedCorpus:
        """The training text as token ids."""

    @property
    def worth(self) -> Mapping[int, str]:
        """What a run with fewer updates than these is worth, in words."""

    def sampler(self, cfg: Config) -> Sampler | None:
        """Return what segments the training text differently in each epoch; None if nothing does."""

    def validator(self, cfg: Config, precision: Precision) -> Validator:
        """Return what scores the model on dev."""

    def forecast(self, validator: Validator, model: Network, limit_s: float) -> ValidationCost:
        """Forecast a validation of the trained model; measuring takes about limit_s."""

    def rehearse_scores(self, validator: Validator) -> None:
        """Do as much work as the scores with intervals at the end, so that the caller can measure it."""

    def calibrate(self, model: Network, scores: DevScores) -> tuple[DevScores, dict[str, Any]]:
        """Adjust the finished model's output to dev; return its scores now, and what was done, for the manifest."""

    @property
    def alignment_lexicon(self) -> AlignmentLexicon | None:
        """Which tokens translate which, learned from the training text when first needed; None of single texts."""

    def complete_bundle(self, folder: Path) -> None:
        """Add to a new bundle what the model's users need besides."""

    def tokenizer_figures(self) -> dict[str, TokenizerReport]:
        """Return the figures of the tokenizers on the dev text, by side."""

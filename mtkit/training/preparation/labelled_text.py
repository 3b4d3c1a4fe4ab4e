"""The text of a classifier's run: encoded labelled sentences or pairs, and their validation and calibration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mtkit.bundle import FileWriters
from mtkit.config.data import DevCorpus
from mtkit.config.schema import Config
from mtkit.console import log
from mtkit.data.corpus import evenly_spaced, read_side, require_files
from mtkit.data.encoded import EncodedCorpus
from mtkit.data.encoding import encode
from mtkit.data.examples import Example, Labelling, listed, read_examples, with_found_labels
from mtkit.data.labelled import LabelEncoding, longest_text
from mtkit.data.mixture import require_scores
from mtkit.data.subwords import SubwordSampler
from mtkit.errors import ConfigError, DataError
from mtkit.model.network import Network
from mtkit.runtime import Precision
from mtkit.tokens.tokenizer import Tokenizer
from mtkit.training.preparation.run_tokenizers import text_sides
from mtkit.training.preparation.tokenizer_report import TokenizerReport, report_by_counts
from mtkit.training.preparation.warm_start import run_tokenizers
from mtkit.training.validation.classification import ClassificationScores, ClassificationValidator, calibrate, scores_of
from mtkit.training.validation.dev_sets import SeveralScores, parts_of, validator_of
from mtkit.training.validation.forecast import ValidationCost, forecast_loss
from mtkit.training.validation.validator import DevScores, Validator

_N_SAMPLES = 3  # examples of dev to show with their labels


@dataclass(frozen=True)
class LabelledText:
    """Labelled examples. Satisfies `TrainingText`."""

    cfg: Config
    tokenizers: tuple[Tokenizer, Tokenizer]  # one tokenizer, as the files of every run and bundle are two
    train: EncodedCorpus
    dev: list[EncodedCorpus]  # of each dev set
    worth: Mapping[int, str] = field(default_factory=dict)  # how many updates a classifier needs, its task decides

    def learning_curve(self, cfg: Config) -> None:
        """Return None: classifiers have no BLEU."""

    def sampler(self, cfg: Config) -> SubwordSampler | None:
        """Segment the text, but not the labels."""
        sampling = cfg.tokenizer.src.sampling
        longest = int(self.train.src_lengths.max())
        return SubwordSampler(*self.tokenizers, sampling, 0.0, cfg.seed, max_tokens=longest) if sampling else None

    def validator(self, cfg: Config, precision: Precision) -> Validator:
        """See TrainingText."""

        def make(index: int, _n_sentences: int | None) -> ClassificationValidator:
            examples = _some_examples(cfg, cfg.data.dev[index], self.dev[index])
            return ClassificationValidator(cfg, self.dev[index], examples, precision)

        return validator_of(cfg, make, [corpus.n_pairs for corpus in self.dev])

    def forecast(self, validator: Validator, model: Network, limit_s: float) -> ValidationCost:
        """See TrainingText; the whole cost is the one pass that also gives the loss."""
        parts = [part for part in parts_of(validator) if isinstance(part, ClassificationValidator)]
        limit_s /= len(parts)
        return ValidationCost(
            sum(forecast_loss(part.corpus, part.plan, part.precision, model, limit_s) for part in parts), 0.0
        )

    def rehearse_scores(self, validator: Validator) -> None:
        """Do nothing: the scores take no time."""

    def calibrate(self, model: Network, scores: DevScores) -> tuple[DevScores, dict[str, Any]]:
        """Scale the temperature of the model's probabilities."""
        if not isinstance(scores, SeveralScores):
            assert isinstance(scores, ClassificationScores)
            return calibrate(model, scores)
        parts = [part for part in scores.parts if isinstance(part, ClassificationScores)]
        together = scores_of(torch.cat([part.logits for part in parts]), torch.cat([part.labels for part in parts]))
        _, done = calibrate(model, together)
        scaled = [scores_of(part.logits / done["temperature"], part.labels) for part in parts]
        return replace(scores, parts=scaled), done

    @property
    def alignment_lexicon(self) -> None:
        """None, because a classifier does not translate."""
        return None

    @property
    def words(self) -> None:
        """None, because a classifier reads text as it is."""
        return None

    @property
    def facts(self) -> dict[str, Any]:
        """See TrainingText: a classifier needs none."""
        return {}

    def files_for_bundle(self) -> FileWriters:
        """Return none."""
        return {}

    def tokenizer_figures(self) -> dict[str, TokenizerReport]:
        """Return the figures of the tokenizer on all text of dev, as figures of the source side."""
        tokenizer = self.tokenizers[0]
        lines = (line for side in text_sides(self.cfg) for line in read_side(self.cfg.data.dev, side))
        return {"src": report_by_counts(tokenizer, lines, self.train.src.occurrences(tokenizer.vocab_size))}


def _some_examples(cfg: Config, files: DevCorpus, encoded: EncodedCorpus) -> dict[int, Example]:
    """Return a few examples of a dev set by their index."""
    indices = {encoded.line_of(index): index for index in evenly_spaced(range(encoded.n_pairs), _N_SAMPLES)}
    examples: dict[int, Example] = {}
    for example in read_examples([files], labelling_of(cfg).n_texts):
        index = indices.get(f"{example.file}:{example.line}")
        if index is not None:
            examples[index] = example
    return examples


def labelling_of(cfg: Config) -> Labelling:
    """Return the labels and the number of texts of a config that `with_labels` has completed."""
    return Labelling(tuple(cfg.data.labels), 2 if cfg.data.pairs else 1)


def with_labels(cfg: Config) -> Config:
    """Return the config of a classifier with the labels, and with data.pairs, of its training text.

    Keeps labels in the config. Raises DataError or ConfigError if the text or the config does not suit a classifier.
    """
    cfg = cfg.model_copy(update={"data": with_found_labels(cfg.data)})
    n_labels = len(cfg.data.labels)
    if cfg.train.metric == "auc" and n_labels != 2:
        raise ConfigError(f"train.metric=auc: needs two labels, but the text has {n_labels}; choose f1 or accuracy")
    longest = longest_text(cfg)
    if longest is not None and cfg.data.max_tokens > longest:
        raise ConfigError(
            f"data.max_tokens={cfg.data.max_tokens}: with model.max_positions={cfg.model.max_positions}, a "
            f"{'pair of texts' if cfg.data.pairs else 'text'} with <start> and <end> can have {longest} tokens"
            f"{' a text' if cfg.data.pairs else ''}; lower the first or raise the second"
        )
    return cfg


def prepare_labelled(cfg: Config, run_dir: Path, *, is_verified: bool) -> LabelledText:
    """Return the tokenizer and the encoded text, from the run's folder where they exist.

    is_verified: another process of this machine has just verified the encoded text.
    """
    data, cache = cfg.data, run_dir / "cache"
    require_files("data.train", data.train)
    require_scores(data)
    for corpus in data.dev:
        require_files(corpus.key, [corpus])
    tokenizers = run_tokenizers(cfg, run_dir)
    of_train, of_dev = label_encodings(cfg, tokenizers)
    # dev first: it is small, and a mistake in it shows before hours of other work
    dev = [encode([corpus], of_dev, cache, is_verified=is_verified) for corpus in data.dev]
    _require_both_labels(cfg, dev)
    train = encode(data.train, of_train, cache, is_verified=is_verified)
    if not is_verified:  # else the other process warns
        _warn_of_missing_labels(cfg, train, dev)
    return LabelledText(cfg, tokenizers, train, dev)


def label_encodings(cfg: Config, tokenizers: tuple[Tokenizer, Tokenizer]) -> tuple[LabelEncoding, LabelEncoding]:
    """Return how a run encodes its training text and its dev sets."""
    encoding = partial(LabelEncoding, tokenizers[0], labelling_of(cfg))
    return encoding(cfg.data.max_tokens), encoding(longest_text(cfg))


def _warn_of_missing_labels(cfg: Config, train: EncodedCorpus, dev: Sequence[EncodedCorpus]) -> None:
    """Warn about labels without training examples, and about a dev set in which all examples have the same label."""
    labels = cfg.data.labels

    def present(corpus: EncodedCorpus) -> list[str]:
        counts = corpus.tgt.occurrences(1 + len(labels))[1:]
        return [label for label, n in zip(labels, counts, strict=True) if n]

    in_training = present(train)
    if unseen := [label for label in labels if label not in in_training]:
        log.warning(
            f"data.labels: no example of data.train has {listed(unseen)}, so the model cannot learn it; add some, or "
            "remove the label"
        )
    for corpus, encoded in zip(cfg.data.dev, dev, strict=True):
        if len(present(encoded)) == 1:
            log.warning(
                f"{corpus.key}: every example has the label {listed(present(encoded))}, so scores and calibration do "
                "not cover the other labels; choose dev at random from the same text as data.train"
            )


def _require_both_labels(cfg: Config, dev: Sequence[EncodedCorpus]) -> None:
    """Raise DataError if train.metric is auc, which needs examples of two labels, but dev has only one of them."""
    sets = zip(cfg.data.dev, dev, strict=True)
    n_labels = {
        corpus.key: len(np.unique(of.tgt.ids)) for corpus, of in sets if cfg.train.metric_on in (None, corpus.name)
    }
    if cfg.train.metric == "auc" and max(n_labels.values()) < len(cfg.data.labels):
        keys = " and ".join(n_labels)
        raise DataError(
            f"{keys}: train.metric=auc needs examples of both labels, {' and '.join(cfg.data.labels)}; add some, or "
            "choose f1 or accuracy"
        )

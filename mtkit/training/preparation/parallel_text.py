"""The text of a translator's run: encoded sentence pairs, and their tokenizers, validation and lexicon."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from mtkit.alignment.coverage import FILE as ALIGNMENT_FILE
from mtkit.alignment.lexicon import AlignmentLexicon
from mtkit.bundle import (
    AUGMENTED,
    LETTERS_RATIO,
    SHARE_OF_SEVERAL,
    SHARE_OF_SMALL,
    FileWriters,
    bundle_file,
    find_model,
    read_bundle,
)
from mtkit.config.data import UNNAMED, CorpusFiles, DevCorpus
from mtkit.config.schema import Config
from mtkit.console import counted, log
from mtkit.data.corpus import read_pairs, read_side, require_files
from mtkit.data.encoded import EncodedCorpus
from mtkit.data.encoding import PairEncoding, encode
from mtkit.data.feed import Sampler
from mtkit.data.mixture import require_scores
from mtkit.data.modifiers import PairSampler
from mtkit.data.sides import FILE as SIDES_FILE
from mtkit.data.sides import Sides, save_counts
from mtkit.data.subwords import SubwordSampler
from mtkit.errors import BundleError, DataError
from mtkit.evaluation.behaviour.suite import Suite, load_suite
from mtkit.evaluation.metrics.scores import evaluate
from mtkit.languages import SIDES, primary_code
from mtkit.model.network import Network
from mtkit.pair_files.pairs import Pair
from mtkit.runtime import Precision
from mtkit.text.capitals import is_in_small_letters
from mtkit.text.sentences import share_of_several
from mtkit.text.words import n_letters
from mtkit.tokens.tokenizer import Tokenizer
from mtkit.tokens.word_record import FILE as WORDS_FILE
from mtkit.tokens.word_record import WordRecord, load_words, record_words, save_words
from mtkit.training.preparation.learning_curve import LearningCurve, learning_curve
from mtkit.training.preparation.orientation import check_texts
from mtkit.training.preparation.pace import WORTH_OF_TRANSLATOR, worth_by_updates
from mtkit.training.preparation.tokenizer_report import TokenizerReport, report_by_counts
from mtkit.training.preparation.warm_start import run_tokenizers
from mtkit.training.validation.dev_sets import parts_of, validator_of
from mtkit.training.validation.forecast import ValidationCost, forecast_validation
from mtkit.training.validation.translation import TranslationValidator
from mtkit.training.validation.validator import DevScores, Validator

_MOST_LOOKED_AT = 20_000  # training sentences, to measure the facts about the text
_MOST_READ = 1_000_000  # the same, to record words of the source side, which takes 10 microseconds a sentence
_READ_AT_ONCE = 20_000  # of them
_MOST_MEASURED = 2_000  # of them, for the usual length of a translation


@dataclass(frozen=True)
class ParallelText:
    """Sentence pairs. Satisfies `TrainingText`."""

    cfg: Config
    tokenizers: tuple[Tokenizer, Tokenizer]
    train: EncodedCorpus
    dev: list[EncodedCorpus]  # of each dev set
    dev_pairs: list[list[Pair]]  # the same as text
    suite: Suite | None
    worth: Mapping[int, str] = field(default_factory=lambda: WORTH_OF_TRANSLATOR)

    def learning_curve(self, cfg: Config) -> LearningCurve | None:
        """See TrainingText; of the dev sets whose BLEU ranks the model."""
        sets = zip(self.dev, cfg.data.dev, strict=True)
        return learning_curve(cfg, self.train, [of for of, one in sets if cfg.train.metric_on in (None, one.name)])

    def sampler(self, cfg: Config) -> Sampler | None:
        """See TrainingText."""
        subwords = SubwordSampler.from_config(cfg, *self.tokenizers)
        return PairSampler.from_config(cfg, self.tokenizers, subwords) or subwords

    def validator(self, cfg: Config, precision: Precision) -> Validator:
        """See TrainingText."""

        def make(index: int, n_sentences: int | None) -> TranslationValidator:
            suite = self.suite if index == 0 else None  # once a validation
            encoded, pairs, tag = self.dev[index], self.dev_pairs[index], cfg.data.dev[index].tag
            return TranslationValidator(
                cfg, encoded, pairs, self.tokenizers, precision, suite, tag=tag, n_sentences=n_sentences
            )

        return validator_of(cfg, make, list(map(len, self.dev_pairs)))

    def forecast(self, validator: Validator, model: Network, limit_s: float) -> ValidationCost:
        """See TrainingText."""
        parts = translation_validators(validator)
        costs = [forecast_validation(part, model, limit_s / len(parts)) for part in parts]
        return ValidationCost.of_several(costs, [part.n_sentences for part in parts])

    def rehearse_scores(self, validator: Validator) -> None:
        """Score partly right translations, to measure the time."""
        for part in translation_validators(validator):
            evaluate([reference.partition(" ")[2] for reference in part.references], part.references)

    def calibrate(self, model: Network, scores: DevScores) -> tuple[DevScores, dict[str, Any]]:
        """Do nothing: translators are not calibrated."""
        return scores, {}

    @cached_property
    def alignment_lexicon(self) -> AlignmentLexicon:
        """See TrainingText."""
        src, tgt = self.tokenizers
        if self.cfg.train.guided_alignment:
            log.info("guided alignment: learning which tokens translate which")
        lexicon = AlignmentLexicon.learn(self.train.src, self.train.tgt, src.vocab_size, tgt.vocab_size)
        self.train.release()
        return lexicon

    @cached_property
    def facts(self) -> dict[str, Any]:
        """See TrainingText: what lines are like and how long the sides, of even samples, and what `augment` changes."""
        sources = list(self._texts("src", _MOST_LOOKED_AT))
        shares = {
            SHARE_OF_SEVERAL: round(share_of_several(sources), 4),
            SHARE_OF_SMALL: round(sum(map(is_in_small_letters, sources)) / max(1, len(sources)), 4),
        }
        src, tgt = (sum(map(n_letters, self._texts(side, _MOST_MEASURED))) for side in SIDES)
        augmented = {AUGMENTED: rates} if (rates := self.cfg.augment.rates) else {}
        return {**shares, LETTERS_RATIO: round(tgt / max(src, 1.0), 4), **augmented}

    def _texts(self, side: str, n: int) -> Iterator[str]:
        """Yield one side of n training pairs, without tags, evenly spaced, or of all."""
        sample = np.linspace(0, self.train.n_pairs - 1, min(self.train.n_pairs, n), dtype=np.int64)
        src, tgt = self.tokenizers
        readers = [src.tagged(corpus.tag) if side == "src" else tgt for corpus in self.cfg.data.train]
        for first in range(0, len(sample), _READ_AT_ONCE):
            part = sample[first : first + _READ_AT_ONCE]
            taken = (self.train.src if side == "src" else self.train.tgt).take(part)
            self.train.release()
            corpora = self.train.corpora_of(part)
            yield from (readers[corpora[i]].decode(taken[i].tolist()) for i in range(len(part)))

    @cached_property
    def words(self) -> WordRecord | None:
        """See TrainingText. Those of the model in train.init_from count, too; None if they are unknown."""
        own = record_words(self._texts("src", _MOST_READ))
        if self.cfg.train.init_from is None:
            return own
        try:
            start = read_bundle(find_model(self.cfg.train.init_from))
        except BundleError as error:
            log.warning(f"train.init_from: its words are unknown, so the new model reads typos as they are ({error})")
            return None
        langs = {primary_code(cfg.data.src_lang) for cfg in (start.config, self.cfg)}
        if len(langs - {UNNAMED[0]}) > 1:
            return own
        path = bundle_file(start, WORDS_FILE)
        return None if path is None else load_words(path).joined(own)

    def files_for_bundle(self) -> FileWriters:
        """Return the lexicon of tokens, the words and, if the sides share a tokenizer, counts that distinguish them."""
        src, tgt = self.tokenizers
        files: dict[str, Callable[[Path], object]] = {ALIGNMENT_FILE: self.alignment_lexicon.save}
        if words := self.words:
            files[WORDS_FILE] = partial(save_words, record=words)
        if Sides.from_tokenizers(src, tgt) is None:
            counts = self.train.src.occurrences(src.vocab_size), self.train.tgt.occurrences(tgt.vocab_size)
            files[SIDES_FILE] = lambda path: save_counts(path, *counts)
        return files

    def tokenizer_figures(self) -> dict[str, TokenizerReport]:
        """See TrainingText."""
        figures: dict[str, TokenizerReport] = {}
        for side, tokenizer in zip(SIDES, self.tokenizers, strict=True):
            encoded = self.train.src if side == "src" else self.train.tgt
            dev_lines = read_side(self.cfg.data.dev, side)
            figures[side] = report_by_counts(tokenizer, dev_lines, encoded.occurrences(tokenizer.vocab_size))
        return figures


def prepare_pairs(cfg: Config, run_dir: Path, *, is_verified: bool) -> ParallelText:
    """Return tokenizers and encoded text, from the run's folder where they exist.

    is_verified: another process of this machine has just verified the encoded text.
    """
    data, cache = cfg.data, run_dir / "cache"
    require_files("data.train", data.train)
    require_scores(data)
    dev_pairs = [read_dev(corpus) for corpus in data.dev]  # before the tokenizers, which take minutes
    require_text("data.train", data.train, read_pairs(data.train))
    suite = _load_suite(cfg)
    tokenizers = run_tokenizers(cfg, run_dir)
    for corpus in data.dev:
        if corpus.tag is None and all(of_train.tag for of_train in data.train):
            log.warning(
                f"{corpus.key} has no tag, but every corpus of data.train has one, so training never shows the model "
                f"text like that of validations; set its tag, for example to {data.train[0].tag}"
            )
    of_train, of_dev = pair_encodings(cfg, tokenizers)
    train = encode(data.train, of_train, cache, is_verified=is_verified)
    check_texts(cfg, tokenizers, train)
    dev = [encode([corpus], of_dev, cache, is_verified=is_verified) for corpus in data.dev]
    return ParallelText(cfg, tokenizers, train, dev, dev_pairs, suite, worth_by_updates(train.n_pairs))


def pair_encodings(cfg: Config, tokenizers: tuple[Tokenizer, Tokenizer]) -> tuple[PairEncoding, PairEncoding]:
    """Return how a run encodes its training text and its dev sets."""
    longest = cfg.model.max_positions - 1 if cfg.model.positions == "learned" else None
    of_train = PairEncoding(*tokenizers, cfg.data.max_tokens, cfg.data.max_length_ratio)
    return of_train, PairEncoding(*tokenizers, longest, None)


def read_dev(corpus: DevCorpus) -> list[Pair]:
    """Return the pairs of a dev set. Raises DataError if its files are missing or have no text."""
    require_files(corpus.key, [corpus])
    pairs = list(read_pairs([corpus]))
    require_text(corpus.key, [corpus], pairs)
    return pairs


def translation_validators(validator: Validator) -> list[TranslationValidator]:
    """Return the validators of a translator's dev sets."""
    parts = [part for part in parts_of(validator) if isinstance(part, TranslationValidator)]
    assert parts, "of a translator's run"
    return parts


def _load_suite(cfg: Config) -> Suite | None:
    if cfg.train.suite is None:
        return None
    suite = load_suite(cfg.train.suite)
    if warning := suite.languages.warning(cfg.data.src_lang, cfg.data.tgt_lang):
        log.warning(f"{suite.path}: this run {warning}")
    return suite


def require_text(key: str, corpora: Sequence[CorpusFiles], pairs: Iterable[Pair]) -> None:
    """Raise DataError, with the config's key and its files, if no pair has text on both sides."""
    n_read = 0
    for pair in pairs:
        if pair.src.strip() and pair.tgt.strip():
            return
        n_read += 1
    files = [str(path) for corpus in corpora for path in corpus.paths]
    raise DataError(f"{key}: none of the {counted(n_read, 'line')} in {', '.join(files)} has text on both sides")

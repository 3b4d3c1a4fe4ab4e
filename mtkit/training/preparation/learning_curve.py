"""Forecast the dev BLEU of a translator by a learning curve that was fitted to measured runs.

    BLEU = ceiling / (1 + (half / (tokens + start)) ** slope)
    ceiling = 57.17 * trigrams ** 1.46        the BLEU that ever more updates would approach
    half = 0.29 * (pairs / 10,000) ** 0.25    million tokens after which half of it is reached; 1.95 times as many for
                                              a model that is 128 wide
    start = 0.37 * half                       of a run that begins with the lexicon; otherwise 0

tokens: of all batches so far, in millions (slope: 1.63). trigrams: the share of the dev translations' sequences of
three tokens that also occur in the training translations. It is low if there is little training text, if dev is about
something else, and if the target language has many word forms. `scripts/results/curves.tsv` has the points, and
`scripts/bench/learning_curve.py` fits the numbers. `mtkit.alignment.lexicon.start_from` makes a run begin with the
lexicon: it then begins as if it had already read `start` tokens. The runs behind this number are
English-German, at two learning rates.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mtkit.config.distillation import has_teachers_text
from mtkit.config.schema import Config
from mtkit.data.encoded import EncodedCorpus, EncodedSide, Int64s
from mtkit.tokens.special_ids import PAD_ID
from mtkit.training.preparation.rule import NARROW_MODEL

LANGUAGES = "English, German and French"  # of the measured runs
SPREAD = 0.24  # of the natural logarithm of BLEU: four of five texts were closer to the curve of the others
_BITS = 21  # of a token's id, which is below 2^21
_PAIRS, _MILLION_TOKENS = (3_000, 300_000), (0.15, 10.0)  # the measured range, a little widened
_NARROW, _WIDTH, _MOST_LAYERS = NARROW_MODEL["d_model"], 256, 3


class CurveNumbers(NamedTuple):
    """The numbers of the formula above."""

    ceiling: float
    ceiling_power: float
    half: float
    half_power: float
    slope: float
    narrow: float
    head_start: float

    def bleu(self, n_pairs: int, trigrams: float, millions: float, d_model: int, has_lexicon: bool) -> float:
        """Return the BLEU of a run. millions: of tokens in all its batches. d_model: 128 or 256.

        has_lexicon: whether it begins with the lexicon.
        """
        half = self.half * (n_pairs / 10_000) ** self.half_power * (self.narrow if d_model == _NARROW else 1)
        reached = millions + has_lexicon * self.head_start * half
        return float(self.ceiling * trigrams**self.ceiling_power / (1 + (half / reached) ** self.slope))


NUMBERS = CurveNumbers(
    ceiling=57.17, ceiling_power=1.46, half=0.29, half_power=0.25, slope=1.63, narrow=1.95, head_start=0.37
)


@dataclass(frozen=True)
class ExpectedBleu:
    """A forecast of BLEU, 0 to 100; four of five texts, each left out of the fit in turn, were between low and high."""

    low: float
    middle: float
    high: float

    def __str__(self) -> str:
        return f"{self.middle:.0f} ({self.low:.0f} to {self.high:.0f})"


@dataclass(frozen=True)
class LearningCurve:
    """The BLEU on dev to expect after each number of tokens, for one training text and one dev text."""

    n_pairs: int
    trigrams: float  # share, 0 to 1
    d_model: int = _WIDTH  # the records of older runs lack it
    has_lexicon: bool = False  # older records lack it, too, even of runs that began with the lexicon

    def after(self, n_tokens: float) -> ExpectedBleu | None:
        """Return the forecast after batches of n_tokens in all; None outside the range of the measured runs."""
        millions = n_tokens / 1e6
        if not _MILLION_TOKENS[0] <= millions <= _MILLION_TOKENS[1] or not self.trigrams:
            return None
        middle = NUMBERS.bleu(self.n_pairs, self.trigrams, millions, self.d_model, self.has_lexicon)
        return ExpectedBleu(middle * math.exp(-SPREAD), middle, min(100.0, middle * math.exp(SPREAD)))


def learns_anew(cfg: Config) -> bool:
    """Return whether a run starts from no other model, and learns text that no teacher has translated."""
    return cfg.train.init_from is None and not cfg.distill.teachers and not has_teachers_text(cfg.data.train)


def unlike_measured(cfg: Config, n_pairs: int, n_tokens: float | None = None) -> str:
    """Return which property of the measured runs a run lacks, so that it has no forecast; "" if none.

    n_tokens: of all its batches; None: not yet known.
    """
    model, millions = cfg.model, n_tokens and n_tokens / 1e6
    n_layers = max(model.n_encoder_layers, model.n_decoder_layers)
    if not learns_anew(cfg):
        return "they learn from references, without train.init_from"
    if not _PAIRS[0] <= n_pairs <= _PAIRS[1]:
        return f"they learn from {_PAIRS[0]:,} to {_PAIRS[1]:,} pairs"
    if cfg.tokenizer.src.type == "char" or (cfg.tokenizer.tgt.type == "char" and not cfg.tokenizer.shared):
        return "they have pieces of words, not tokenizer.*.type=char"
    if cfg.train.schedule != "schedule_free":
        return "they have train.budget and its schedule, schedule_free"
    if model.d_model not in (_NARROW, _WIDTH) or n_layers > _MOST_LAYERS or model.decoder != "attention":
        widths = f"{_NARROW} or {_WIDTH} wide"
        return f"their models are {widths}, with at most {_MOST_LAYERS} layers on each side, and attention"
    if millions is not None and not _MILLION_TOKENS[0] <= millions <= _MILLION_TOKENS[1]:
        return "their batches have {:g} to {:g} million tokens in all".format(*_MILLION_TOKENS)
    return ""


def learning_curve(cfg: Config, train: EncodedCorpus, dev: Sequence[EncodedCorpus]) -> LearningCurve | None:
    """Return the curve of a run; None for runs that are `unlike_measured` ones."""
    if unlike_measured(cfg, train.n_pairs):
        return None
    known, wanted = np.unique(_trigrams(train.tgt)), np.concatenate([_trigrams(corpus.tgt) for corpus in dev])
    train.release()
    trigrams = round(float(np.isin(wanted, known).mean()), 4)
    return LearningCurve(train.n_pairs, trigrams, cfg.model.d_model, has_lexicon=cfg.train.begins_with_lexicon)


def _trigrams(side: EncodedSide) -> Int64s:
    """Return a number for each sequence of three tokens in sentences that have two PADs before and after them."""
    ids = np.insert(side.ids.astype(np.int64), np.repeat(side.starts, 2), PAD_ID)
    return (ids[:-2] << 2 * _BITS) | (ids[1:-1] << _BITS) | ids[2:]

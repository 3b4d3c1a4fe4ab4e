"""Detect which side of a model's training text a text resembles: the source, the target or neither.

Each word is split into pieces by both tokenizers, and leans to the side on which its pieces are more frequent. So the
test knows the languages of this model and no others, and it works for any languages, as long as the two differ.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from mtkit.arrays import read_arrays
from mtkit.errors import DataError
from mtkit.text.words import words_of
from mtkit.tokens.tokenizer import Tokenizer

Verdict = Literal["src", "tgt", "neither", "unclear"]
Counts = npt.NDArray[np.int64]
LogProbs = npt.NDArray[np.float64]

FILE = "sides.npz"  # in a bundle whose tokenizers do not tell the sides apart
_DECIDED = 2.0  # nats by which the likelier side must lead for a word to count
# In trials on Tatoeba dev, FLORES and software messages, the share of words that lean to the target was 0.00 to 0.26
# for text in the source language and 0.74 to 1.00 for text in the target language: the limit is 0.6.
_ODDS = 1.5
_FOREIGN = 2.75  # times the usual nats a character; right language: at most 2.5, from captions to software messages
_FOREIGN_WORDS = 30
# Of fewer words. In trials on Tatoeba dev, captions and FLORES no sentence of 5 to 29 words in the right language was
# beyond it, and 34 to 84 % of those in a third language were (4 to 76 % with one tokenizer for both sides).
FEW_WORDS, _FOREIGN_FEW = 5, 3.0
# The same from which text in the right language is unlike the training text. In trials with five models, no part of 30
# words of their own dev and test text was beyond it (2,429 parts), and at most 0.1 % of the lines with 5 to 29 words.
# Captions and Tatoeba are beyond it for the model of the sample corpus, which translates them at BLEU 2 and 8.
_UNFAMILIAR, _UNFAMILIAR_FEW = 1.75, 2.6
_ENOUGH_WORDS = 5000
_MOST_REMEMBERED = 50_000  # words, some 10 MB; a service sees new ones for as long as it runs


@dataclass(frozen=True)
class Side:
    """One side's tokenizer and how frequent its pieces are: a model of the words of that language."""

    tokenizer: Tokenizer
    log_probs: LogProbs  # (V,)

    def nats(self, word: str) -> float:
        """Return how hard a word, or several words with spaces between them, are to predict."""
        return -float(self.log_probs[self.tokenizer.encode(word)].sum())

    def foreignness(self, words: Sequence[str]) -> float:
        """Return how many times harder to predict than usual words are, in nats a character; about 1 if known."""
        n_chars = sum(len(word) + 1 for word in words)  # each with its space
        return self.nats(" ".join(words)) / max(1, n_chars) / self.usual

    @cached_property
    def usual(self) -> float:
        """The nats per character of text with these frequencies."""
        pieces = self.tokenizer.pieces(range(self.tokenizer.vocab_size))
        is_byte = set(self.tokenizer.byte_ids())
        lengths = np.array([0.3 if i in is_byte else len(piece) for i, piece in enumerate(pieces)])
        probs = np.exp(self.log_probs)
        probs[:4] = 0  # special ids
        return float(-(probs * self.log_probs).sum() / (probs * lengths).sum())


class Sides:
    """The two sides of a model's training text."""

    def __init__(self, src: Side, tgt: Side) -> None:
        self.src, self.tgt = src, tgt
        self._words: dict[str, tuple[float, float]] = {}

    @classmethod
    def from_tokenizers(cls, src: Tokenizer, tgt: Tokenizer) -> Self | None:
        """Take the frequencies from two unigram tokenizers; None for other tokenizers, or a shared one."""
        log_probs = src.piece_log_probs(), tgt.piece_log_probs()
        if src.fingerprint == tgt.fingerprint or log_probs[0] is None or log_probs[1] is None:
            return None
        return cls(Side(src.tagged(None), log_probs[0]), Side(tgt, log_probs[1]))

    @classmethod
    def from_counts(cls, src: Tokenizer, tgt: Tokenizer, src_counts: Counts, tgt_counts: Counts) -> Self:
        """Take the frequencies from how often each piece occurs in the training text."""
        return cls(Side(src.tagged(None), _log_probs(src_counts)), Side(tgt, _log_probs(tgt_counts)))

    def own_text(self, line: str) -> str:
        """Return the line without its placeholders, which belong to no language."""
        placeholders = self.src.tokenizer.placeholders
        return placeholders.without(line) if placeholders else line

    def lean(self, word: str) -> tuple[float, float]:
        """Return by how many nats the word is likelier on the target side, and its nats on the source side."""
        lean = self._words.get(word)
        if lean is None:
            if len(self._words) >= _MOST_REMEMBERED:
                self._words.clear()
            src = self.src.nats(word)
            lean = self._words[word] = src - self.tgt.nats(word), src
        return lean

    @property
    def usual(self) -> float:
        """The nats per character of the source side."""
        return self.src.usual


class Resemblance:
    """Collects the words of a text, and decides which side they resemble."""

    def __init__(self, sides: Sides) -> None:
        self._sides = sides
        self.n_src = self.n_tgt = self.n_words = 0  # words that lean to each side, and all
        self._nats = self._chars = 0.0

    @property
    def is_enough(self) -> bool:
        """Return whether more text would leave the verdict unchanged."""
        return self.n_words >= _ENOUGH_WORDS

    def add(self, lines: Iterable[str]) -> Self:
        """Add lines until there are enough words; words with digits do not count, since many are international."""
        for line in lines:
            if self.is_enough:
                break
            for word in words_of(self._sides.own_text(line)):
                if any(c.isdigit() for c in word):
                    continue
                lead, nats = self._sides.lean(word.lower() if word.isupper() else word)
                self.n_words += 1
                self.n_tgt += lead > _DECIDED
                self.n_src += lead < -_DECIDED
                self._nats += nats
                self._chars += len(word) + 1  # its space
        return self

    def verdict(self, margin: int, fewest: int = _FOREIGN_WORDS) -> Verdict:
        """Return which side the text resembles.

        margin: number of words in excess of chance that decide for a side. fewest: number of words needed to decide for
        neither.
        """
        if self.n_tgt >= _ODDS * self.n_src + margin:
            return "tgt"
        limit = _FOREIGN if self.n_words >= _FOREIGN_WORDS else _FOREIGN_FEW
        if self.n_words >= fewest and self.foreignness > limit:
            return "neither"
        return "src" if self.n_src >= _ODDS * self.n_tgt + margin else "unclear"

    @property
    def is_unfamiliar(self) -> bool:
        """Whether the text is unlike the training text, even if it is in the same language."""
        limit = _UNFAMILIAR if self.n_words >= _FOREIGN_WORDS else _UNFAMILIAR_FEW
        return self.n_words >= FEW_WORDS and self.foreignness > limit

    @property
    def foreignness(self) -> float:
        """How many times rarer than usual the text's pieces are, in nats a character."""
        return self._nats / max(1.0, self._chars) / self._sides.usual


def save_counts(path: Path, src_counts: Counts, tgt_counts: Counts) -> None:
    """Write how often each piece occurs on each side."""
    with path.open("wb") as file:
        np.savez_compressed(file, src=src_counts, tgt=tgt_counts)


def load_counts(path: Path, src: Tokenizer, tgt: Tokenizer) -> tuple[Counts, Counts]:
    """Read what `save_counts` wrote. Raises DataError if it does not belong to these tokenizers."""
    try:
        arrays = read_arrays(path)
        counts = arrays["src"], arrays["tgt"]
    except (ValueError, KeyError) as error:
        raise DataError(f"{path}: cannot read the file ({error}); copy the bundle again") from None
    for side, tokenizer in zip(counts, (src, tgt), strict=True):
        if side.shape != (tokenizer.vocab_size,) or side.dtype != np.int64 or side.min() < 0:
            raise DataError(f"{path}: not the counts of the {tokenizer.vocab_size:,} pieces of {tokenizer.path}")
    return counts


def _log_probs(counts: Counts) -> LogProbs:
    smoothed = counts + 0.5
    return np.asarray(np.log(smoothed / smoothed.sum()))

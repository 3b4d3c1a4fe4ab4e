"""Find words of a source that no word of its translation stands for, by a lexicon of the training text.

This needs no model and loads no torch, so it works with every engine. A good translation is often free, so words
without a counterpart count only where the translation is also short.
"""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mtkit.arrays import read_arrays
from mtkit.bundle import LETTERS_RATIO, BundleFiles, bundle_file
from mtkit.config.tags import TOKENS
from mtkit.errors import BundleError
from mtkit.quality.faults import log_length_ratio
from mtkit.text.words import STANDS_ALONE, has_letters, n_letters
from mtkit.tokens.tokenizer import SPACE, Tokenizer

FILE = "alignment.npz"  # of a bundle
# Chosen on dev and test of Tatoeba and Multi30k in eight directions: 0.0 to 0.6 % of the references have such words
# (en-de dev 0.9 %), and 55 to 85 % of those from which one of several clauses was removed.
_LEAST = 0.02  # probability of a source word, given one of the translation, from which that may stand for it
_SHORT = 0.47  # how far the logarithm of translation / source, in letters, is below that of the training text
_USUAL_RATIO = 1.185  # of a bundle that does not say: that of Tatoeba (en-fr)
_FEWEST_LETTERS = 5  # of neighbouring words without a counterpart
_SHORTEST_COPY = 3  # letters of a word that may be copied

Ids = NDArray[np.int64]


class Coverage:
    """The probabilities of source tokens, given target tokens, of the text that a model was trained on."""

    def __init__(self, keys: Ids, probs: NDArray[np.float32], n_src: int, tokenizer: Tokenizer) -> None:
        """keys: rising; of each pair, the target id times n_src plus the source id. tokenizer: of the source side."""
        self._keys, self._probs, self._n_src, self._tokenizer = keys, probs, n_src, tokenizer

    @classmethod
    def from_bundle(cls, files: BundleFiles, tokenizer: Tokenizer) -> Self | None:
        """Read the lexicon of a bundle; None if it has none. Raises BundleError if it is damaged.

        tokenizer: of the source side, with the tags that begin its texts.
        """
        path = bundle_file(files, FILE)
        return None if path is None else cls.load(path, tokenizer)

    @classmethod
    def load(cls, path: Path, tokenizer: Tokenizer) -> Self:
        """Read the file of an `AlignmentLexicon`. Raises BundleError if it is damaged."""
        try:
            arrays = read_arrays(path)
            keys, probs = arrays["backward_steps"].cumsum(), arrays["backward_probs"].astype(np.float32)
            if not len(keys) or keys.shape != probs.shape:
                raise ValueError("its arrays do not fit together")
            return cls(keys, probs, int(arrays["backward_size"]), tokenizer)
        except (ValueError, KeyError, TypeError) as error:
            raise BundleError(f"{path}: not a lexicon of alignments: {error}") from None

    def left_out(self, src_ids: Sequence[int], tgt_ids: Sequence[int], text: str, among: str = "") -> str:
        """Return the longest run of source words that no word of the translation stands for; "" without one.

        src_ids, tgt_ids: the tokens of source and translation. text: the translation. among: consider only runs with
        one of these words.
        """
        runs, folded = [""], text.casefold()
        for word, probability in self._words(self._tokenizer.untagged(src_ids), tgt_ids):
            copied = len(word) >= _SHORTEST_COPY and word.casefold() in folded
            if has_letters(word) and probability < _LEAST and not copied and word not in TOKENS:
                runs[-1] += f" {word}"
            elif has_letters(word):
                runs.append("")
        wanted = set(among.split())
        longest = max((run for run in runs if not wanted or wanted & set(run.split())), key=n_letters, default="")
        return longest.strip() if sum(map(n_letters, _NO_LETTERS.split(longest))) >= _FEWEST_LETTERS else ""

    def _words(self, src_ids: Sequence[int], tgt_ids: Sequence[int]) -> list[tuple[str, float]]:
        """Return the source's words, each with the probability by the likeliest pair of its and the target's tokens."""
        best = self._given(np.array(src_ids, np.int64), np.array(tgt_ids, np.int64)).max(0, initial=0.0)
        words: list[tuple[list[int], float]] = []
        before = ""
        for piece, src_id, probability in zip(self._tokenizer.pieces(src_ids), src_ids, best.tolist(), strict=True):
            alone = STANDS_ALONE.search(before + piece) or before in TOKENS or piece in TOKENS
            if not words or alone or piece.startswith(SPACE):
                words.append(([], 0.0))
            ids, highest = words[-1]
            words[-1] = [*ids, src_id], max(highest, probability)
            before = piece
        return [(self._tokenizer.decode(ids).strip(_MARKS), highest) for ids, highest in words]

    def _given(self, src: Ids, tgt: Ids) -> NDArray[np.float32]:
        """Return the probability of each source token, given each target token: (T, S)."""
        wanted = tgt[:, None] * self._n_src + src[None, :]
        at = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return np.where(self._keys[at] == wanted, self._probs[at], np.float32(0))


def usual_ratio(files: BundleFiles | None) -> float:
    """Return the letters of a usual translation by a bundle's model, for each letter of its source."""
    ratio = None if files is None else files.manifest.get("training", {}).get(LETTERS_RATIO)
    return ratio if isinstance(ratio, int | float) and ratio > 0 else _USUAL_RATIO


def is_short(src: str, text: str, usual_ratio: float) -> bool:
    """Return whether a translation is so short that words without a counterpart count."""
    return log_length_ratio(src, text) - math.log(usual_ratio) < -_SHORT


_MARKS = " .,;:!?…\"'«»“”‘’()"
_NO_LETTERS = re.compile(r"[\W\d_]+")

"""Subword regularisation: segment training pairs differently in each epoch, with the same vocabulary."""

import itertools

import numpy as np
import numpy.typing as npt

from mtkit.config.schema import Config
from mtkit.console import log
from mtkit.data.encoded import EncodedPairs, EncodedSide, Ids, PairsInMemory, concatenate
from mtkit.errors import ConfigError
from mtkit.tokens.segmentation import (
    BpeSegmentation,
    Int64s,
    Keys,
    Segmentation,
    UnigramSegmentation,
    derived_keys,
)
from mtkit.tokens.sentencepiece_file import Piece, PieceType, parse
from mtkit.tokens.tokenizer import Tokenizer

_NO_CHARACTER = 0x110000  # one more than the last code point
_CODE_POINT_BITS = 21


class SubwordSampler:
    """Draws the segmentations of the sentences of an encoded corpus.

    A draw depends on seed, epoch, window and the index of the pair alone, not on earlier calls or on the other pairs of
    the call. A pair repeated within a call gets another draw each time.
    """

    def __init__(
        self,
        src_tokenizer: Tokenizer,
        tgt_tokenizer: Tokenizer,
        src_sampling: float,
        tgt_sampling: float,
        seed: int,
        *,
        max_tokens: int | None = None,
    ) -> None:
        """sampling: the dropout of a BPE tokenizer, the alpha of a unigram one; 0 keeps the tokenizer's segmentation.

        max_tokens: a sentence keeps the tokenizer's segmentation if the new one is longer than this.
        Raises ConfigError for sampling with another type of tokenizer.
        """
        self._src = _SideSampler(src_tokenizer, src_sampling, max_tokens) if src_sampling else None
        self._tgt = _SideSampler(tgt_tokenizer, tgt_sampling, max_tokens) if tgt_sampling else None
        self._seed = seed

    @classmethod
    def from_config(cls, cfg: Config, src_tokenizer: Tokenizer, tgt_tokenizer: Tokenizer) -> "SubwordSampler | None":
        """Return the sampler of a config, None if it has none. Raises ConfigError as the constructor does."""
        src, tgt = cfg.tokenizer.src, cfg.tokenizer.src if cfg.tokenizer.shared else cfg.tokenizer.tgt
        if cfg.tokenizer.tgt.sampling not in (0, tgt.sampling):
            log.warning(
                f"tokenizer.tgt.sampling={cfg.tokenizer.tgt.sampling} has no effect: tokenizer.shared=true uses "
                f"tokenizer.src.sampling={src.sampling} for both sides"
            )
        if not src.sampling and not tgt.sampling:
            return None
        max_tokens = cfg.data.max_tokens
        return cls(src_tokenizer, tgt_tokenizer, src.sampling, tgt.sampling, cfg.seed, max_tokens=max_tokens)

    def sample(self, corpus: EncodedPairs, indices: Int64s, epoch: int, window: int = 0) -> PairsInMemory:
        """Return the pairs (N,), in this order, in the segmentations of this window of the epoch."""
        taken = PairsInMemory(corpus.src.take(indices), corpus.tgt.take(indices))
        return self.segmented(taken, indices, epoch, window)

    def segmented(self, pairs: EncodedPairs, indices: Int64s, epoch: int, window: int = 0) -> PairsInMemory:
        """Return pairs that have been taken from a corpus, perhaps changed, in the segmentations of this window.

        indices (N,): of the pairs in the corpus.
        """
        repetitions = repetitions_of(indices)
        sides = []
        for side_index, (sampler, side) in enumerate(((self._src, pairs.src), (self._tgt, pairs.tgt))):
            if sampler:
                start = (
                    np.random.SeedSequence([self._seed, epoch, side_index, window]).generate_state(2).view(np.uint64)
                )
                side = sampler.sample(side, derived_keys(derived_keys(start, indices), repetitions))
            sides.append(side)
        return PairsInMemory(*sides)


class _SideSampler:
    def __init__(self, tokenizer: Tokenizer, sampling: float, max_tokens: int | None) -> None:
        model = parse(tokenizer.serialized())
        self._segmentation: Segmentation
        if model.algorithm == "bpe":
            self._segmentation = BpeSegmentation(model.pieces, sampling)
        elif model.algorithm == "unigram":
            self._segmentation = UnigramSegmentation(model.pieces, sampling)
        else:
            raise ConfigError(
                f"{tokenizer.path}: a {model.algorithm} tokenizer has a single segmentation of each text; set sampling "
                "to 0, or train a unigram or bpe tokenizer"
            )
        self._joints = _Joints(model.pieces)
        self._max_tokens = max_tokens

    def sample(self, side: EncodedSide, keys: Keys) -> EncodedSide:
        """Segment the sentences of a side. keys (N,): one per sentence, for its random numbers."""
        if not len(side.ids):
            return side
        starts = np.flatnonzero(self._joints.stretch_starts(side))
        sentences = np.searchsorted(side.starts, starts, side="right") - 1
        firsts = np.searchsorted(starts, side.starts)  # the first stretch of each sentence
        places = np.arange(len(starts)) - firsts[sentences]
        stretches, indices = _distinct(side.ids, starts)
        ids, lengths = self._segmentation.sample(stretches, indices, derived_keys(keys[sentences], places))
        ends = np.concatenate([[0], np.cumsum(lengths)])
        new_starts = ends[firsts]
        sampled = EncodedSide(ids.astype(side.ids.dtype), new_starts, np.diff(new_starts).astype(np.int32))
        if self._max_tokens is None:
            return sampled
        rows = np.arange(len(side.lengths))
        too_long = sampled.lengths > self._max_tokens
        return concatenate([sampled, side]).take(np.where(too_long, len(rows) + rows, rows))


class _Joints:
    """Finds the boundaries that every segmentation of a sentence shares.

    The stretches between them, usually words, are segmented independently of each other.
    """

    def __init__(self, pieces: tuple[Piece, ...]) -> None:
        texts = [
            [ord(c) for c in piece.text] if piece.type is PieceType.NORMAL else [_NO_CHARACTER] for piece in pieces
        ]
        inside = np.array(sorted({pair for text in texts for pair in itertools.pairwise(text)}), dtype=np.int64)
        self._inside = _pair(*inside.reshape(-1, 2).T)
        self._first = np.array([text[0] for text in texts])
        self._last = np.array([text[-1] for text in texts])

    def stretch_starts(self, side: EncodedSide) -> npt.NDArray[np.bool_]:
        """Return for each id of the side whether a stretch begins with it."""
        begins = np.ones(len(side.ids), dtype=bool)
        begins[1:] = ~np.isin(_pair(self._last[side.ids[:-1]], self._first[side.ids[1:]]), self._inside)
        begins[side.starts[:-1][side.lengths > 0]] = True
        return begins


def _pair(left: Int64s, right: Int64s) -> Int64s:
    return left << _CODE_POINT_BITS | right


def _distinct(ids: Ids, starts: Int64s) -> tuple[list[tuple[int, ...]], Int64s]:
    """Return the distinct stretches of ids that begin at these indices, and which of them begins at each."""
    size, blob = ids.dtype.itemsize, ids.tobytes()
    bounds = [*(starts * size).tolist(), len(blob)]
    indices: dict[bytes, int] = {}
    which = [indices.setdefault(blob[i:j], len(indices)) for i, j in itertools.pairwise(bounds)]
    stretches = [tuple(np.frombuffer(stretch, ids.dtype).tolist()) for stretch in indices]
    return stretches, np.array(which, dtype=np.int64)


def repetitions_of(indices: Int64s) -> Int64s:
    """Return how often each index has occurred before."""
    order = np.argsort(indices, kind="stable")
    ordered = indices[order]
    firsts = np.searchsorted(ordered, ordered)
    repetitions = np.empty_like(order)
    repetitions[order] = np.arange(len(indices)) - firsts
    return repetitions

"""Pairs that stand in two encoded corpora: what a dev set shares with the training text."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mtkit.data.encoded import EncodedCorpus, EncodedSide, Int64s

_PAIRS_AT_ONCE = 1_000_000
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], dtype=np.uint64)  # odd, else any

_Keys = npt.NDArray[np.uint64]


def pairs_also_in(
    dev: EncodedCorpus, train: EncodedCorpus, n_dev_tags: int, n_train_tags: Sequence[int]
) -> dict[int, int]:
    """The pairs of dev whose source and target stand in train as one pair too: their numbers, there and here.

    n_dev_tags, n_train_tags: the tags before each source of dev and of train's corpora, which are not compared. Of
    several equal pairs of train the first is told. Both corpora are encoded by the same tokenizers.
    """
    wanted: dict[tuple[bytes, bytes], list[int]] = {}
    for i in range(dev.n_pairs):
        wanted.setdefault(_text(dev, i, n_dev_tags), []).append(i)
    dev_keys = np.unique(_keys(dev, slice(0, dev.n_pairs), n_dev_tags))
    found: list[tuple[int, int]] = []
    first = 0
    for size, n_tags in zip(train.sizes, n_train_tags, strict=True):
        end = first + size
        for start in range(first, end, _PAIRS_AT_ONCE):
            part = slice(start, min(start + _PAIRS_AT_ONCE, end))
            for i in (np.flatnonzero(np.isin(_keys(train, part, n_tags), dev_keys)) + start).tolist():
                found += [(dev_pair, i) for dev_pair in wanted.pop(_text(train, i, n_tags), [])]
            train.release()
        first = end
    return dict(sorted(found))


def _text(corpus: EncodedCorpus, i: int, n_tags: int) -> tuple[bytes, bytes]:
    return corpus.src[i][n_tags:].astype(np.uint32).tobytes(), corpus.tgt[i].astype(np.uint32).tobytes()


def _keys(corpus: EncodedCorpus, part: slice, n_tags: int) -> _Keys:
    """A number for each of these pairs, the same for equal ones: of each side its length, first and last token."""
    keys = np.zeros(part.stop - part.start, dtype=np.uint64)
    for side, n_left_out in ((corpus.src, n_tags), (corpus.tgt, 0)):
        for numbers, factor in zip(_told_by(side, part, n_left_out), _FACTORS, strict=True):
            keys = (keys ^ numbers.astype(np.uint64)) * factor  # wraps
            keys ^= keys >> np.uint64(29)
    return keys


def _told_by(side: EncodedSide, part: slice, n_left_out: int) -> tuple[Int64s, Int64s, Int64s]:
    lengths = side.lengths[part].astype(np.int64) - n_left_out
    starts = side.starts[part] + n_left_out
    return lengths, side.ids[starts].astype(np.int64), side.ids[starts + lengths - 1].astype(np.int64)

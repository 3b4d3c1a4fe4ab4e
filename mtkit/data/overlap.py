"""Find the pairs that a dev set shares with the training text, both encoded."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mtkit.data.encoded import EncodedCorpus, EncodedSide, Int64s

_PAIRS_AT_ONCE = 1_000_000
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], dtype=np.uint64)  # any odd numbers

_Keys = npt.NDArray[np.uint64]


def pairs_also_in(
    dev: EncodedCorpus, train: EncodedCorpus, n_dev_tags: int, n_train_tags: Sequence[int]
) -> dict[int, int]:
    """Map the index of each dev pair that train contains, too, to the index of its first copy there.

    n_dev_tags, n_train_tags: how many tags precede each source of dev, and of each of train's corpora; the comparison
    skips them. Both corpora are encoded by the same tokenizers.
    """
    wanted: dict[tuple[bytes, bytes], list[int]] = {}
    for i in range(dev.n_pairs):
        wanted.setdefault(_text(dev, i, n_dev_tags), []).append(i)
    dev_keys = np.unique(_keys(dev, slice(0, dev.n_pairs), n_dev_tags))
    shared: list[tuple[int, int]] = []
    first = 0
    for size, n_tags in zip(train.sizes, n_train_tags, strict=True):
        end = first + size
        for start in range(first, end, _PAIRS_AT_ONCE):
            part = slice(start, min(start + _PAIRS_AT_ONCE, end))
            for i in (np.flatnonzero(np.isin(_keys(train, part, n_tags), dev_keys)) + start).tolist():
                shared += [(dev_pair, i) for dev_pair in wanted.pop(_text(train, i, n_tags), [])]
            train.release()
        first = end
    return dict(sorted(shared))


def _text(corpus: EncodedCorpus, i: int, n_tags: int) -> tuple[bytes, bytes]:
    return corpus.src[i][n_tags:].astype(np.uint32).tobytes(), corpus.tgt[i].astype(np.uint32).tobytes()


def _keys(corpus: EncodedCorpus, part: slice, n_tags: int) -> _Keys:
    """Hash each of these pairs by the length, first and last token of both sides."""
    keys = np.zeros(part.stop - part.start, dtype=np.uint64)
    for side, n_skipped in ((corpus.src, n_tags), (corpus.tgt, 0)):
        for features, factor in zip(_features(side, part, n_skipped), _FACTORS, strict=True):
            keys = (keys ^ features.astype(np.uint64)) * factor  # wraps
            keys ^= keys >> np.uint64(29)
    return keys


def _features(side: EncodedSide, part: slice, n_skipped: int) -> tuple[Int64s, Int64s, Int64s]:
    lengths = side.lengths[part].astype(np.int64) - n_skipped
    starts = side.starts[part] + n_skipped
    return lengths, side.ids[starts].astype(np.int64), side.ids[starts + lengths - 1].astype(np.int64)

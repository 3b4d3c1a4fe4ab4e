"""The output-vocabulary shortlist: the target tokens that may translate a sentence, by a lexicon of its source tokens.

A decoder step then computes the scores of some hundred tokens instead of tens of thousands. In a bundle the lexicon is
`shortlist.npz`: plain arrays, nothing pickled.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mtkit.arrays import read_arrays
from mtkit.bundle import BundleFiles, bundle_file
from mtkit.errors import BundleError
from mtkit.tokens.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID

SHORTLIST = "shortlist.npz"  # the file's name in a bundle
_SPECIAL_IDS = (PAD_ID, UNK_ID, BOS_ID, EOS_ID)

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Shortlist:
    """The target tokens that each source token may need."""

    always: Ids  # target ids that every sentence may use, in rising order, special ids included
    offsets: Ids  # (source vocabulary + 1,): token s has best[offsets[s] : offsets[s + 1]]
    best: Ids  # target ids
    tgt_vocab_size: Ids  # a single value

    def __post_init__(self) -> None:
        """Raise ValueError if the arrays do not fit each other."""
        size = int(self.tgt_vocab_size)
        if self.offsets.ndim != 1 or self.best.ndim != 1 or self.always.ndim != 1 or self.offsets.size < 2:
            raise ValueError("the arrays of a shortlist must have one dimension")
        if self.offsets[0] != 0 or self.offsets[-1] != self.best.size or (np.diff(self.offsets) < 0).any():
            raise ValueError("the offsets do not divide the list of best ids")
        for ids in (self.always, self.best):
            if ids.size and not 0 <= ids.min() <= ids.max() < size:
                raise ValueError(f"target id {ids.max() if ids.min() >= 0 else ids.min()} is not below {size}")
        if not np.isin(_SPECIAL_IDS, self.always).all():
            raise ValueError(f"`always` lacks special ids: {_SPECIAL_IDS}")

    @classmethod
    def from_lexicon(cls, best: Sequence[ArrayLike], always: ArrayLike, tgt_vocab_size: int) -> "Shortlist":
        """Make a shortlist of the best target ids of each source id and of the ids for any sentence, in any order.

        always: special ids may be left out. Raises ValueError for an id that is not in the vocabulary.
        """
        lists = [np.asarray(ids, dtype=np.int64) for ids in best]
        return cls(
            always=np.union1d(np.asarray(always, dtype=np.int64), _SPECIAL_IDS),
            offsets=np.cumsum([0, *map(len, lists)]),
            best=np.concatenate([*lists, np.empty(0, np.int64)]),
            tgt_vocab_size=np.array(tgt_vocab_size),
        )

    @classmethod
    def load(cls, path: Path) -> "Shortlist":
        """Read what `save` wrote; raise BundleError for anything else."""
        try:
            arrays = read_arrays(path)
            return cls(**{field.name: arrays[field.name].astype(np.int64) for field in fields(cls)})
        except (KeyError, ValueError) as error:
            raise BundleError(f"{path}: not a shortlist ({error}); make it again with `mtkit shortlist`") from error

    def save(self, path: Path) -> None:
        """Write the arrays as .npz, whatever the path's suffix."""
        arrays = {field.name: getattr(self, field.name).astype(np.int32) for field in fields(self)}
        arrays["offsets"] = self.offsets
        with path.open("wb") as file:
            np.savez_compressed(file, **arrays)

    @property
    def src_vocab_size(self) -> int:
        """How many source ids the shortlist covers."""
        return self.offsets.size - 1

    def ids_of(self, src_ids: Sequence[int]) -> Ids:
        """Return the target ids that one sentence may use, in rising order."""
        return np.unique(self._listed(src_ids))

    def joined(self, other: "Shortlist") -> "Shortlist":
        """Return a shortlist that allows what either does; one may have more tokens, at the end of its vocabularies."""
        n_src = max(self.src_vocab_size, other.src_vocab_size)
        best = [np.union1d(self._best_of(src_id), other._best_of(src_id)) for src_id in range(n_src)]
        tgt_vocab_size = max(int(self.tgt_vocab_size), int(other.tgt_vocab_size))
        return Shortlist.from_lexicon(best, np.union1d(self.always, other.always), tgt_vocab_size)

    def _listed(self, src_ids: Sequence[int]) -> Ids:
        """Return the target ids that one sentence may use; some may be repeated."""
        lists = [self.best[self.offsets[src_id] : self.offsets[src_id + 1]] for src_id in set(src_ids)]
        return np.concatenate([self.always, *lists])

    def _best_of(self, src_id: int) -> Ids:
        return self.best[slice(*self.offsets[src_id : src_id + 2])] if src_id < self.src_vocab_size else self.best[:0]

    def union(
        self, sentences: Sequence[Sequence[int]], extra: Sequence[Sequence[int]] | None = None
    ) -> tuple[Ids, NDArray[np.bool_]]:
        """Return the ids (U,) that any of the sentences may use, in rising order, and which each may use: bool (B, U).

        A sentence may use only its own `ids_of`, so its translation does not depend on the others.
        extra: further target ids for each sentence.
        """
        allowed = np.zeros((len(sentences), int(self.tgt_vocab_size)), dtype=np.bool_)
        for row, src_ids, tgt_ids in zip(allowed, sentences, extra or [()] * len(sentences), strict=True):
            row[self._listed(src_ids)] = True
            row[list(tgt_ids)] = True
        ids = np.flatnonzero(allowed.any(axis=0))
        return ids, allowed[:, ids]


def shortlist_of(files: BundleFiles) -> Shortlist:
    """Return the bundle's shortlist; raise BundleError if it has none, or one for another vocabulary."""
    path = bundle_file(files, SHORTLIST)
    if path is None:
        raise BundleError(
            f"{files.folder}: no {SHORTLIST}, which decode.shortlist=true and models for browsers need; make one with "
            "`mtkit shortlist`"
        )
    shortlist = Shortlist.load(path)
    sizes = shortlist.src_vocab_size, int(shortlist.tgt_vocab_size)
    if sizes != (files.src_tokenizer.vocab_size, files.tgt_tokenizer.vocab_size):
        raise BundleError(
            f"{path}: made for vocabularies of {sizes[0]:,} and {sizes[1]:,} tokens, but the bundle's have "
            f"{files.src_tokenizer.vocab_size:,} and {files.tgt_tokenizer.vocab_size:,}; make it again with "
            "`mtkit shortlist`"
        )
    return shortlist

"""Sentence pairs as token ids, in memory or in memory-mapped files from `encoding`."""

import json
import mmap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mtkit.console import counted
from mtkit.tokens.special_ids import BOS_ID, EOS_ID, PAD_ID

_COUNTED_AT_ONCE = 1_000_000  # ids; counting widens them to 64 bits
META = "meta.json"

Ids = npt.NDArray[np.integer[Any]]  # uint16 where the vocabulary fits, else uint32
Int64s = npt.NDArray[np.int64]
Lengths = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Words:
    """The words for rows of a text in messages."""

    one: str  # a row
    blank: str  # ... that is left out because it is blank
    target: str  # one of those that an update predicts


PAIRS = Words("pair", "with a blank side", "target token")


@dataclass(frozen=True)
class EncodeCounts:
    """The numbers of pairs read, kept and left out; a pair counts under the first reason that applies."""

    n_read: int = 0
    n_blank: int = 0  # a side is empty, at least after normalisation
    n_too_long: int = 0  # a side has more than max_tokens
    n_ratio: int = 0  # the sides' token counts differ by more than max_length_ratio
    n_kept: int = 0
    n_placeholders: int = 0  # of those kept: a side has a placeholder that the other one lacks

    def described(self, words: Words) -> str:
        """Return the numbers of rows kept and left out. words: for the rows."""
        dropped = {words.blank: self.n_blank, "too long": self.n_too_long, "of different length": self.n_ratio}
        reasons = ", ".join(f"{n:,} {reason}" for reason, n in dropped.items() if n)
        return f"{self.n_kept:,} of {counted(self.n_read, words.one)} kept" + (
            (f" (left out: {reasons})" if reasons else "")
            + (
                f"; {self.n_placeholders:,} have a placeholder on one side only, which mtkit treats as text"
                if self.n_placeholders
                else ""
            )
        )


@dataclass(frozen=True)
class EncodedSide:
    """The sentences of one side, end to end, without special ids."""

    ids: Ids  # (tokens of all sentences,)
    starts: Int64s  # (N + 1,): sentence i is ids[starts[i] : starts[i + 1]]
    lengths: Lengths  # (N,) tokens

    def __getitem__(self, i: int) -> Ids:
        return self.ids[self.starts[i] : self.starts[i + 1]]

    def take(self, indices: npt.NDArray[np.integer[Any]]) -> "EncodedSide":
        """Copy these sentences, in this order."""
        lengths = self.lengths[indices]
        starts = starts_of(lengths)
        # Index of each token in self.ids: the start of its sentence plus its index in the sentence.
        token_indices = np.arange(starts[-1]) + np.repeat(self.starts[indices] - starts[:-1], lengths)
        return replace(self, ids=self.ids[token_indices], starts=starts, lengths=lengths)

    def padded(self, indices: npt.NDArray[np.integer[Any]], n_before: int) -> Int64s:
        """Return these sentences as rows, with n_before PADs on the left and at least one on the right."""
        taken = self.take(indices)
        rows = np.full((len(indices), n_before + int(taken.lengths.max()) + 1), PAD_ID, dtype=np.int64)
        is_token = np.arange(rows.shape[1] - n_before) < taken.lengths[:, None]
        rows[:, n_before:][is_token] = taken.ids
        return rows

    def targets(self, indices: npt.NDArray[np.integer[Any]]) -> tuple[Int64s, Int64s]:
        """Return what the network reads of these sentences as targets, (B, T), and what it predicts at each position.

        For text, these are BOS and the ids, and the ids and EOS.
        """
        rows = self.padded(indices, n_before=1)
        tgt_in = rows[:, :-1].copy()
        tgt_in[:, 0] = BOS_ID
        tgt_out = rows[:, 1:]
        tgt_out[np.arange(len(indices)), self.lengths[indices]] = EOS_ID
        return tgt_in, np.ascontiguousarray(tgt_out)

    def occurrences(self, vocab_size: int) -> Int64s:
        """Count each id: (V,)."""
        counts = np.zeros(vocab_size, dtype=np.int64)
        for first in range(0, len(self.ids), _COUNTED_AT_ONCE):
            counts += np.bincount(self.ids[first : first + _COUNTED_AT_ONCE], minlength=vocab_size)
        return counts


@dataclass(frozen=True)
class Labels(EncodedSide):
    """A label for each example: one id, from 1, which a classifier predicts without reading a target."""

    def targets(self, indices: npt.NDArray[np.integer[Any]]) -> tuple[Int64s, Int64s]:
        """Return BOS and the label."""
        tgt_out = self.take(indices).ids.astype(np.int64)[:, None]
        return np.full_like(tgt_out, BOS_ID), tgt_out


class EncodedPairs(Protocol):
    """Sentence pairs as token ids: src[i] and tgt[i] translate each other."""

    @property
    def src(self) -> EncodedSide: ...  # noqa: D102

    @property
    def tgt(self) -> EncodedSide: ...  # noqa: D102


@dataclass(frozen=True)
class PairsInMemory:
    """Some pairs of a corpus, copied."""

    src: EncodedSide
    tgt: EncodedSide


class EncodedCorpus:
    """Sentence pairs as token ids, in the order of the text; made by `encode`.

    The arrays are memory-mapped files: the system reads parts on access, and counts them as memory of the process until
    `release`.
    """

    tgt_kind: type[EncodedSide] = EncodedSide
    words = PAIRS

    def __init__(self, folder: Path, files: Sequence[str], fingerprint: str) -> None:
        """Open an encoded corpus. files: the name of each corpus, for messages.

        Raises ValueError if the files do not have the sizes that meta.json gives.
        """
        meta = json.loads((folder / META).read_text(encoding="utf-8"))
        self.fingerprint = fingerprint
        self.counts = EncodeCounts(**meta["counts"])
        self.n_pairs = self.counts.n_kept
        self._maps: list[mmap.mmap] = []
        self.src = self._open_side(folder, "src", np.dtype(meta["dtypes"]["src"]))
        self.tgt = self.tgt_kind(**vars(self._open_side(folder, "tgt", np.dtype(meta["dtypes"]["tgt"]))))
        self._lines = self._open(folder / "lines", np.dtype(np.int64), self.n_pairs)
        self._files = files
        self.sizes: list[int] = meta["kept_per_corpus"]  # pairs of each corpus, one after the other
        self._corpus_ends = np.cumsum(self.sizes)

    @property
    def src_lengths(self) -> Lengths:
        """Source tokens of each pair, without special ids."""
        return self.src.lengths

    @property
    def tgt_lengths(self) -> Lengths:
        """Target tokens of each pair, without special ids."""
        return self.tgt.lengths

    def line_of(self, i: int) -> str:
        """Return the place of pair i in the text as "file:line"."""
        [corpus] = self.corpora_of(np.array([i]))
        return f"{self._files[corpus]}:{self._lines[i]}"

    def corpora_of(self, indices: npt.NDArray[np.integer[Any]]) -> Int64s:
        """Return the index of the corpus that each of these pairs comes from."""
        return np.searchsorted(self._corpus_ends, indices, side="right")

    def lines_of(self, corpus: int) -> Int64s:
        """Return the line in its text, from 1, of each pair of a corpus, given by its index."""
        end = int(self._corpus_ends[corpus])
        return self._lines[end - self.sizes[corpus] : end]

    def take(self, indices: npt.NDArray[np.integer[Any]]) -> PairsInMemory:
        """Copy these pairs, in this order."""
        return PairsInMemory(self.src.take(indices), self.tgt.take(indices))

    def release(self) -> None:
        """Free the memory of the parts read so far; the files stay open."""
        if hasattr(mmap, "MADV_DONTNEED"):
            for mapped in self._maps:
                mapped.madvise(mmap.MADV_DONTNEED)

    def _open_side(self, folder: Path, side: str, dtype: np.dtype[Any]) -> EncodedSide:
        lengths = self._open(folder / f"{side}.lengths", np.dtype(np.int32), self.n_pairs)
        starts = self._open(folder / f"{side}.starts", np.dtype(np.int64), self.n_pairs + 1)
        return EncodedSide(self._open(folder / f"{side}.ids", dtype, int(starts[-1])), starts, lengths)

    def _open(self, path: Path, dtype: np.dtype[Any], n: int) -> npt.NDArray[Any]:
        """Map a file of n numbers into memory."""
        if path.stat().st_size != n * dtype.itemsize:
            raise ValueError(f"{path.name} has {path.stat().st_size:,} bytes instead of {n * dtype.itemsize:,}")
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._maps.append(mapped)
        return np.frombuffer(mapped, dtype)


def starts_of(lengths: Lengths) -> Int64s:
    """Return the starts of sentences with these lengths (N,), end to end, and the end of the last: (N + 1,)."""
    starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def concatenate(sides: Sequence[EncodedSide]) -> EncodedSide:
    """Join the sentences of all sides in memory."""
    lengths = np.concatenate([side.lengths for side in sides])
    return replace(
        sides[0], ids=np.concatenate([side.ids for side in sides]), starts=starts_of(lengths), lengths=lengths
    )

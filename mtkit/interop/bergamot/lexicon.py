"""Read and write Bergamot's binary lexicon, which lists the target tokens that each source token may need.

The layout, all little-endian: magic number, checksum, how many tokens at the beginning of the vocabulary every sentence
may use, the most tokens that a list has, number of offsets and number of ids, 64 bits each; the
offsets, 64 bits each; then the ids of all lists, 32 bits each. The engine reads the list of each token of a sentence,
`</s>` included, and with one vocabulary for both sides adds the sentence's own tokens.
"""

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mtkit.engines.shortlist import Shortlist
from mtkit.errors import DataError
from mtkit.interop.vocabulary import Layout

_MAGIC = 0xF11A48D5013417F5
_HEADER = struct.Struct("<6Q")  # magic, checksum, firstNum, bestNum, number of offsets, number of ids

Ids = NDArray[np.int64]


def read_lexicon(path: Path, src: Layout, tgt: Layout, *, shared: bool) -> Shortlist:
    """Read a lexicon, with mtkit's ids. src, tgt: the vocabularies; shared: they are one.

    Raises DataError if the file is not one, is cut off, or has ids outside the vocabulary.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    if len(data) < _HEADER.size or struct.unpack_from("<Q", data)[0] != _MAGIC:
        raise DataError(f"{path}: not a binary lexicon of Marian: its first 8 bytes are wrong")
    _, _, n_first, _, n_offsets, n_ids = _HEADER.unpack_from(data)
    expected = _HEADER.size + 8 * n_offsets + 4 * n_ids
    if len(data) != expected:
        raise DataError(f"{path}: {len(data):,} bytes, but its header promises {expected:,}; copy it again")
    if n_offsets != src.size + 1:
        raise DataError(f"{path}: a lexicon for {n_offsets - 1:,} tokens, but the vocabulary has {src.size:,}")
    offsets = np.frombuffer(data, "<u8", n_offsets, _HEADER.size).astype(np.int64)
    ids = np.frombuffer(data, "<u4", n_ids, _HEADER.size + 8 * n_offsets).astype(np.int64)
    if offsets[0] != 0 or offsets[-1] != n_ids or (np.diff(offsets) < 0).any():
        raise DataError(f"{path}: damaged: its lists overlap or are cut off; copy it again")
    if n_ids and ids.max() >= tgt.size:
        raise DataError(f"{path}: it contains token {ids.max()}, but the vocabulary has {tgt.size:,}")
    lists: Sequence[Ids] = np.split(_ids_by_row(tgt)[ids], offsets[1:-1])
    return _to_shortlist(lists, int(n_first), src, tgt, shared=shared)


def _to_shortlist(lists: Sequence[Ids], n_first: int, src: Layout, tgt: Layout, *, shared: bool) -> Shortlist:
    """lists: by the other system's row, with mtkit's ids."""
    first = _ids_by_row(tgt)[: min(n_first, tgt.size)]
    best = []
    for token_id, row in enumerate(src.rows):
        ids = lists[row] if 0 <= row != src.eos else np.empty(0, dtype=np.int64)
        best.append(np.union1d(ids, [token_id]) if shared and row >= 0 else ids)
    return Shortlist.from_lexicon(best, np.concatenate([first, lists[src.eos]]), len(tgt.rows))


def write_lexicon(path: Path, shortlist: Shortlist, src: Layout, tgt: Layout, n_rows: int) -> None:
    """Write a shortlist. src, tgt: the vocabularies in the file's order; n_rows: of the source, including unused ones.

    Every sentence may use the beginning of the vocabulary and the list of `</s>`, which ends every source.
    """
    rows = np.array(tgt.rows)
    always = _known(rows[shortlist.always])
    n_first = next((row for row, listed in enumerate(always) if row != listed), always.size)
    lists = [np.empty(0, dtype=np.int64)] * n_rows
    for token_id, row in enumerate(src.rows[: shortlist.src_vocab_size]):
        if row >= 0:
            lists[row] = _known(rows[shortlist.best[shortlist.offsets[token_id] : shortlist.offsets[token_id + 1]]])
    lists[src.eos] = always[n_first:]
    if not lists[-1].size:
        lists[-1] = np.array([tgt.eos])  # the engine's check refuses an empty list at the end of the file
    offsets = np.cumsum([0, *map(len, lists)])
    header = (n_first, max(map(len, lists)), offsets.size, int(offsets[-1]))
    body = struct.pack("<4Q", *header) + offsets.astype("<u8").tobytes() + np.concatenate(lists).astype("<u4").tobytes()
    path.write_bytes(struct.pack("<QQ", _MAGIC, checksum(body)) + body)


def checksum(body: bytes) -> int:
    """Return Marian's checksum of whole 64-bit words, which combines hashes as boost's hash_combine does."""
    seed, mask = 0, 2**64 - 1
    for word in np.frombuffer(body, "<u8", len(body) // 8).tolist():
        seed ^= (word + 0x9E3779B9 + (seed << 6) + (seed >> 2)) & mask
    return seed


def _ids_by_row(layout: Layout) -> Ids:
    """Return mtkit's id of each row."""
    rows = np.array(layout.rows)
    ids = np.zeros(layout.size, dtype=np.int64)
    ids[rows[rows >= 0]] = np.flatnonzero(rows >= 0)
    return ids


def _known(rows: Ids) -> Ids:
    """Return the rows that the other system has, in rising order."""
    return np.unique(rows[rows >= 0])

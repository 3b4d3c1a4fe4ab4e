"""Corpora as token ids in memory-mapped files: encoded once, then opened from the cache."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from mtkit.config.schema import CorpusFiles
from mtkit.console import log, progress_bar
from mtkit.data.corpus import corpus_name, count_pairs, read_pairs, text_checksums, windows
from mtkit.data.tokenizer import Tokenizer
from mtkit.errors import DataError
from mtkit.files import atomic_folder, sha256_file

_FORMAT_VERSION = 1  # raise it whenever the files or the meaning of the filters change
_CHUNK_PAIRS = 10_000
_META = "meta.json"

Ids = npt.NDArray[np.integer[Any]]  # uint16 where the vocabulary fits, else uint32
Int64s = npt.NDArray[np.int64]
Lengths = npt.NDArray[np.int32]


@dataclass(frozen=True)
class EncodeCounts:
    """What became of the pairs that were read; a pair is counted under the first reason that applies."""

    n_read: int = 0
    n_blank: int = 0  # a side is empty, or normalisation leaves nothing of it
    n_too_long: int = 0  # a side has more than max_tokens
    n_ratio: int = 0  # the sides' token counts differ by more than max_length_ratio
    n_kept: int = 0

    def __str__(self) -> str:
        dropped = {"with a blank side": self.n_blank, "too long": self.n_too_long, "of unlike length": self.n_ratio}
        reasons = ", ".join(f"{n:,} {reason}" for reason, n in dropped.items() if n)
        return f"{self.n_kept:,} of {self.n_read:,} pairs kept" + (f" (left out: {reasons})" if reasons else "")


@dataclass(frozen=True)
class EncodedSide:
    """One side's sentences, laid end to end. Without special ids."""

    ids: Ids  # (tokens of all sentences,)
    starts: Int64s  # (N + 1,): sentence i is ids[starts[i] : starts[i + 1]]
    lengths: Lengths  # (N,) tokens

    def __getitem__(self, i: int) -> Ids:
        return self.ids[self.starts[i] : self.starts[i + 1]]


class EncodedCorpus:
    """Sentence pairs as token ids, in the order of the text; `encode_corpus` makes one."""

    def __init__(self, folder: Path, files: Sequence[str], fingerprint: str) -> None:
        """Open an encoded corpus. files: the name of each corpus, for messages.

        Raises ValueError if the folder does not hold what its meta.json says.
        """
        meta = json.loads((folder / _META).read_text(encoding="utf-8"))
        self.fingerprint = fingerprint
        self.counts = EncodeCounts(**meta["counts"])
        self.n_pairs = self.counts.n_kept
        self.src = _open_side(folder, "src", meta, self.n_pairs)
        self.tgt = _open_side(folder, "tgt", meta, self.n_pairs)
        self._lines = _open(folder / "lines", np.dtype(np.int64), self.n_pairs)
        self._files = files
        self._corpus_ends = np.cumsum(meta["kept_per_corpus"])

    @property
    def src_lengths(self) -> Lengths:
        """Source tokens of each pair, special ids not counted."""
        return self.src.lengths

    @property
    def tgt_lengths(self) -> Lengths:
        """Target tokens of each pair, special ids not counted."""
        return self.tgt.lengths

    def line_of(self, i: int) -> str:
        """Where pair i stands in the text, as "file:line"."""
        corpus = int(np.searchsorted(self._corpus_ends, i, side="right"))
        return f"{self._files[corpus]}:{self._lines[i]}"


def encode_corpus(
    corpora: Sequence[CorpusFiles],
    src_tokenizer: Tokenizer,
    tgt_tokenizer: Tokenizer,
    cache: Path,
    *,
    max_tokens: int | None,
    max_length_ratio: float | None,
) -> EncodedCorpus:
    """The corpora's pairs as token ids, from `cache/` if the same text was encoded in the same way before.

    max_tokens, max_length_ratio: pairs beyond them are left out; None leaves out none. Blank pairs always are.
    Raises DataError if the text cannot be read or no pair is left.
    """
    recipe = {
        "format": _FORMAT_VERSION,
        "text": text_checksums(corpora),
        "tokenizers": [sha256_file(src_tokenizer.path), sha256_file(tgt_tokenizer.path)],
        "filters": [max_tokens, max_length_ratio],
    }
    fingerprint = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()
    folder = cache / fingerprint[:16]
    names = [corpus_name(corpus) for corpus in corpora]
    if folder.exists():
        try:
            encoded = EncodedCorpus(folder, names, fingerprint)
            log.info(f"{', '.join(names)}: encoded before; {encoded.counts}")
            return encoded
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning(f"{folder}: damaged ({error}); encoding again")
    filters = _Filters(max_tokens, max_length_ratio)
    with atomic_folder(folder) as temporary:
        _encode(corpora, src_tokenizer, tgt_tokenizer, filters, temporary)
    encoded = EncodedCorpus(folder, names, fingerprint)
    log.info(f"{', '.join(names)}: {encoded.counts}")
    return encoded


@dataclass(frozen=True)
class _Filters:
    max_tokens: int | None
    max_length_ratio: float | None

    def reason(self, n_src: int, n_tgt: int) -> str:
        """The count under which a pair of so many tokens goes."""
        shorter, longer = sorted((n_src, n_tgt))
        if not shorter:
            return "n_blank"
        if self.max_tokens is not None and longer > self.max_tokens:
            return "n_too_long"
        if self.max_length_ratio is not None and longer > self.max_length_ratio * shorter:
            return "n_ratio"
        return "n_kept"


def _encode(
    corpora: Sequence[CorpusFiles], src_tokenizer: Tokenizer, tgt_tokenizer: Tokenizer, filters: _Filters, folder: Path
) -> None:
    """Fill the folder with the encoded pairs, chunk by chunk."""
    counts = dict.fromkeys(asdict(EncodeCounts()), 0)
    kept_per_corpus = []
    dtypes = {"src": _id_dtype(src_tokenizer), "tgt": _id_dtype(tgt_tokenizer)}
    names = ", ".join(map(corpus_name, corpora))
    with ExitStack() as stack:
        files = {
            name: stack.enter_context((folder / name).open("wb"))
            for name in ("src.ids", "src.lengths", "tgt.ids", "tgt.lengths", "lines")
        }
        bar = stack.enter_context(progress_bar(count_pairs(corpora), "encoding", "pair"))
        for corpus in corpora:
            kept_before = counts["n_kept"]
            for pairs in windows(read_pairs([corpus]), _CHUNK_PAIRS):
                src_ids = src_tokenizer.encode_batch([pair.src for pair in pairs])
                tgt_ids = tgt_tokenizer.encode_batch([pair.tgt for pair in pairs])
                reasons = [filters.reason(len(src), len(tgt)) for src, tgt in zip(src_ids, tgt_ids, strict=True)]
                kept = [number for number, reason in enumerate(reasons) if reason == "n_kept"]
                _write_side(files, "src", [src_ids[number] for number in kept], dtypes["src"])
                _write_side(files, "tgt", [tgt_ids[number] for number in kept], dtypes["tgt"])
                _write(files["lines"], np.array([pairs[number].line for number in kept], dtype=np.int64))
                for reason in reasons:
                    counts[reason] += 1
                bar.update(len(pairs))
            kept_per_corpus.append(counts["n_kept"] - kept_before)
    counts["n_read"] = sum(counts.values())
    if not counts["n_kept"]:
        raise DataError(f"{names}: no pair is left; {EncodeCounts(**counts)}")
    meta = {
        "counts": counts,
        "kept_per_corpus": kept_per_corpus,
        "dtypes": {side: dtype.name for side, dtype in dtypes.items()},
    }
    (folder / _META).write_text(json.dumps(meta, indent=2) + "\n", encoding="utf-8")


def _id_dtype(tokenizer: Tokenizer) -> np.dtype[Any]:
    return np.dtype(np.uint16 if tokenizer.vocab_size <= 2**16 else np.uint32)


def _write_side(files: Mapping[str, BinaryIO], side: str, sentences: list[list[int]], dtype: np.dtype[Any]) -> None:
    lengths = np.array([len(ids) for ids in sentences], dtype=np.int32)
    _write(files[f"{side}.lengths"], lengths)
    _write(files[f"{side}.ids"], np.fromiter(chain.from_iterable(sentences), dtype, count=int(lengths.sum())))


def _write(file: BinaryIO, array: npt.NDArray[Any]) -> None:
    file.write(array.tobytes())


def _open_side(folder: Path, side: str, meta: dict[str, Any], n_pairs: int) -> EncodedSide:
    lengths = np.array(_open(folder / f"{side}.lengths", np.dtype(np.int32), n_pairs))
    starts = np.zeros(n_pairs + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    ids = _open(folder / f"{side}.ids", np.dtype(meta["dtypes"][side]), int(starts[-1]))
    return EncodedSide(ids, starts, lengths)


def _open(path: Path, dtype: np.dtype[Any], n: int) -> npt.NDArray[Any]:
    """The file's n numbers, memory-mapped."""
    if path.stat().st_size != n * dtype.itemsize:
        raise ValueError(f"{path.name} has {path.stat().st_size:,} bytes, not {n * dtype.itemsize:,}")
    return np.memmap(path, dtype=dtype, mode="r", shape=(n,))

"""Encode corpora as token ids in files, once; later runs open them from the cache."""

import hashlib
import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from mtkit.config.data import CorpusFiles
from mtkit.config.tags import tags_of
from mtkit.console import log, progress_bar
from mtkit.cores import usable_cores
from mtkit.data.corpus import corpus_name, count_pairs, read_pairs, text_checksums
from mtkit.data.encoded import META, PAIRS, EncodeCounts, EncodedCorpus, Lengths, Words, starts_of
from mtkit.data.prefetcher import Prefetcher
from mtkit.errors import DataError
from mtkit.files import atomic_folder, sha256_file
from mtkit.pair_files.pairs import Pair
from mtkit.tokens.tokenizer import Tokenizer

_FORMAT_VERSION = 2  # raise it whenever the files or the meaning of the filters change
_CHUNK_PAIRS, _CHUNK_CHARACTERS = 10_000, 5_000_000  # encoded at a time: bounds the memory, some 50 bytes a character
_MANIFEST = "manifest.json"  # the sha256 of each other file

_T = TypeVar("_T")


class Encoding(Protocol):
    """How the rows of a text become examples as token ids."""

    words: Words
    dtypes: dict[str, np.dtype[Any]]  # of the ids of each side

    def recipe(self, corpora: Sequence[CorpusFiles]) -> dict[str, Any]:
        """Return everything that the ids depend on, except the text."""

    def chunks(self, corpus: CorpusFiles) -> Generator["Chunk", None, None]:
        """Yield the examples of one corpus, filtered, some at a time."""

    def open(self, folder: Path, files: Sequence[str], fingerprint: str) -> EncodedCorpus:
        """Open the encoded examples."""


@dataclass(frozen=True)
class Chunk:
    """A chunk of encoded examples."""

    lines: list[int]  # of all that were read
    kept: list[int]  # indices among them
    src: list[list[int]]  # ids of those kept
    tgt: list[list[int]]
    counts: dict[str, int]  # of EncodeCounts, all but n_read


class PairEncoding:
    """Sentence pairs: each side by its tokenizer."""

    words = PAIRS

    def __init__(
        self,
        src_tokenizer: Tokenizer,
        tgt_tokenizer: Tokenizer,
        max_tokens: int | None,
        max_length_ratio: float | None,
    ) -> None:
        """max_tokens, max_length_ratio: leave out pairs beyond them; None: no limit."""
        self.tokenizers = src_tokenizer, tgt_tokenizer
        self.filters = _Filters(max_tokens, max_length_ratio)
        self.dtypes = {"src": id_dtype(src_tokenizer.vocab_size), "tgt": id_dtype(tgt_tokenizer.vocab_size)}

    def recipe(self, corpora: Sequence[CorpusFiles]) -> dict[str, Any]:
        """See Encoding."""
        max_tokens, max_length_ratio = self.filters.max_tokens, self.filters.max_length_ratio
        recipe: dict[str, Any] = {
            "tokenizers": [sha256_file(tokenizer.path) for tokenizer in self.tokenizers],
            "tags": [corpus.tag for corpus in corpora],
            "filters": [max_tokens, max_length_ratio],
        }
        if placeholders := self.tokenizers[0].placeholders:
            recipe["placeholders"] = placeholders.patterns
        if max_length_ratio is not None and any(corpus.tag for corpus in corpora):
            recipe["ratio"] = "of the text, without its tags"  # marks caches in which ratios do not count the tags
        return recipe

    def chunks(self, corpus: CorpusFiles) -> Generator[Chunk, None, None]:
        """See Encoding."""
        src_tokenizer, tgt_tokenizer = self.tokenizers[0].tagged(corpus.tag), self.tokenizers[1]
        n_tags = len(tags_of(corpus.tag))
        for pairs in in_chunks(read_pairs([corpus]), lambda pair: len(pair.src) + len(pair.tgt)):
            srcs, tgts, differing = self._texts(pairs)
            src, tgt = src_tokenizer.encode_replaced(srcs), tgt_tokenizer.encode_replaced(tgts)
            kept, counts = self.filters.apply(lengths_of(src), lengths_of(tgt), n_tags)
            counts["n_placeholders"] = len(differing.intersection(kept))
            lines = [pair.line for pair in pairs]
            yield Chunk(lines, kept, [src[index] for index in kept], [tgt[index] for index in kept], counts)

    def _texts(self, pairs: Sequence[Pair]) -> tuple[list[str], list[str], set[int]]:
        """Return the sources and the targets, with reserved tokens for the placeholders that both sides have.

        Also return the indices of the pairs with a placeholder on one side only.
        """
        placeholders = self.tokenizers[0].placeholders
        if placeholders is None:
            return [pair.src for pair in pairs], [pair.tgt for pair in pairs], set()
        replaced = [placeholders.replace_pair(pair.src, pair.tgt) for pair in pairs]
        differing = {index for index, (_, _, agree) in enumerate(replaced) if not agree}
        return [src for src, _, _ in replaced], [tgt for _, tgt, _ in replaced], differing

    def open(self, folder: Path, files: Sequence[str], fingerprint: str) -> EncodedCorpus:
        """See Encoding."""
        return EncodedCorpus(folder, files, fingerprint)


def encode(
    corpora: Sequence[CorpusFiles], encoding: Encoding, cache: Path, *, is_verified: bool = False
) -> EncodedCorpus:
    """Encode the text of the corpora, or open it from `cache` if it holds the same text in the same encoding.

    Leaves out examples with a blank text. is_verified: another process has just compared the cache with its checksums.
    Raises DataError if the text cannot be read or changes meanwhile, or if no example remains.
    """
    fingerprint = fingerprint_of(corpora, encoding)
    folder = cache / fingerprint[:16]
    names = [corpus_name(corpus) for corpus in corpora]
    if folder.exists():
        try:
            if not is_verified:
                _verify(folder)
            encoded = encoding.open(folder, names, fingerprint)
            log.info(f"{', '.join(names)}: opened from the cache; {encoded.counts.described(encoded.words)}")
            return encoded
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            log.warning(f"{folder}: damaged, or written by an older mtkit ({error}); encoding the text again")
    with atomic_folder(folder) as temporary:
        _encode(corpora, encoding, temporary)
        if fingerprint_of(corpora, encoding) != fingerprint:
            raise DataError(f"{', '.join(names)}: the text changed while mtkit encoded it; wait until it is complete")
        _write_manifest(temporary)
    encoded = encoding.open(folder, names, fingerprint)
    log.info(f"{', '.join(names)}: {encoded.counts.described(encoded.words)}")
    return encoded


def fingerprint_of(corpora: Sequence[CorpusFiles], encoding: Encoding) -> str:
    """Return the checksum of the text of the corpora, and of everything else that its ids depend on."""
    recipe = {"format": _FORMAT_VERSION, "text": text_checksums(corpora), **encoding.recipe(corpora)}
    return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()


def _write_manifest(folder: Path) -> None:
    text = json.dumps({"sha256": _checksums(folder)}, indent=1)
    (folder / _MANIFEST).write_text(text + "\n", encoding="utf-8")


def _verify(folder: Path) -> None:
    """Raise ValueError if a file of the cache has changed since mtkit wrote it."""
    recorded = dict(json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))["sha256"])
    if differing := sorted(dict(recorded.items() ^ _checksums(folder).items())):
        raise ValueError(f"{', '.join(differing)}: the checksum differs from the one in {_MANIFEST}")


def _checksums(folder: Path) -> dict[str, str]:
    paths = sorted(path for path in folder.iterdir() if path.name != _MANIFEST)
    with ThreadPoolExecutor(usable_cores()) as pool:  # hashing releases the GIL
        return dict(zip([path.name for path in paths], pool.map(sha256_file, paths), strict=True))


@dataclass(frozen=True)
class _Filters:
    max_tokens: int | None
    max_length_ratio: float | None

    def apply(self, src_lengths: Lengths, tgt_lengths: Lengths, n_tags: int) -> tuple[list[int], dict[str, int]]:
        """Return the indices of the pairs to keep, and the counts by reason.

        src_lengths: include n_tags tags, which the ratio ignores.
        """
        text_lengths = np.maximum(src_lengths - n_tags, 0)
        shorter, longer = np.minimum(text_lengths, tgt_lengths), np.maximum(text_lengths, tgt_lengths)
        left, counts = np.ones(len(shorter), dtype=bool), {}
        for reason, applies in (
            ("n_blank", shorter == 0),
            ("n_too_long", np.maximum(src_lengths, tgt_lengths) > (self.max_tokens or np.inf)),
            ("n_ratio", longer > (np.inf if self.max_length_ratio is None else self.max_length_ratio * shorter)),
        ):
            counts[reason] = int((left & applies).sum())
            left &= ~applies
        kept = np.flatnonzero(left).tolist()
        return kept, {**counts, "n_kept": len(kept)}


def _encode(corpora: Sequence[CorpusFiles], encoding: Encoding, folder: Path) -> None:
    """Fill the folder with the encoded examples, chunk by chunk."""
    counts = dict.fromkeys(asdict(EncodeCounts()), 0)
    kept_per_corpus = []
    names, dtypes = ", ".join(map(corpus_name, corpora)), encoding.dtypes
    with ExitStack() as stack:
        files = {
            name: stack.enter_context((folder / name).open("wb"))
            for name in ("src.ids", "src.lengths", "src.starts", "tgt.ids", "tgt.lengths", "tgt.starts", "lines")
        }
        bar = stack.enter_context(progress_bar(count_pairs(corpora), "encoding", encoding.words.one))
        for corpus in corpora:
            kept_before = counts["n_kept"]
            with closing(Prefetcher(encoding.chunks(corpus), depth=1)) as chunks:
                for chunk in chunks:
                    _write_side(files, "src", chunk.src, dtypes["src"])
                    _write_side(files, "tgt", chunk.tgt, dtypes["tgt"])
                    _write(files["lines"], np.array(chunk.lines, dtype=np.int64)[chunk.kept])
                    for reason, n in chunk.counts.items():
                        counts[reason] += n
                    bar.update(len(chunk.lines))
            kept_per_corpus.append(counts["n_kept"] - kept_before)
        for side, dtype in dtypes.items():
            _write(files[f"{side}.starts"], np.array([files[f"{side}.ids"].tell() // dtype.itemsize], dtype=np.int64))
    counts["n_read"] = sum(counts.values()) - counts["n_placeholders"]  # which are among those kept
    if not counts["n_kept"]:
        described = EncodeCounts(**counts).described(encoding.words)
        raise DataError(f"{names}: mtkit left out every {encoding.words.one}; {described}")
    meta = {
        "counts": counts,
        "kept_per_corpus": kept_per_corpus,
        "dtypes": {side: dtype.name for side, dtype in dtypes.items()},
    }
    (folder / META).write_text(json.dumps(meta, indent=2) + "\n", encoding="utf-8")


def in_chunks(items: Iterable[_T], size_of: Callable[[_T], int]) -> Iterator[list[_T]]:
    """Yield lists of items to encode at a time. size_of: characters of an item."""
    chunk: list[_T] = []
    n_characters = 0
    for item in items:
        chunk.append(item)
        n_characters += size_of(item)
        if len(chunk) == _CHUNK_PAIRS or n_characters >= _CHUNK_CHARACTERS:
            yield chunk
            chunk, n_characters = [], 0
    if chunk:
        yield chunk


def lengths_of(sentences: Sequence[list[int]]) -> Lengths:
    """Return the number of ids of each sentence."""
    return np.fromiter(map(len, sentences), np.int32, count=len(sentences))


def id_dtype(vocab_size: int) -> np.dtype[Any]:
    """Return the smallest type for ids below vocab_size."""
    return np.dtype(np.uint16 if vocab_size <= 2**16 else np.uint32)


def _write_side(files: Mapping[str, BinaryIO], side: str, sentences: list[list[int]], dtype: np.dtype[Any]) -> None:
    lengths = lengths_of(sentences)
    starts = starts_of(lengths)
    ids = files[f"{side}.ids"]
    _write(files[f"{side}.starts"], ids.tell() // dtype.itemsize + starts[:-1])  # _encode appends the last end
    _write(files[f"{side}.lengths"], lengths)
    _write(ids, np.fromiter(chain.from_iterable(sentences), dtype, count=int(starts[-1])))


def _write(file: BinaryIO, array: npt.NDArray[Any]) -> None:
    file.write(array.tobytes())

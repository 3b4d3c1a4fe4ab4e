"""Read, count and identify the sentence pairs of the corpora in a config, one pair at a time."""

import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from mtkit.config.data import CorpusFiles
from mtkit.console import log
from mtkit.cores import usable_cores
from mtkit.errors import DataError
from mtkit.languages import Side
from mtkit.pair_files.compression import reading
from mtkit.pair_files.corpus_files import read_one_file, read_tsv, read_two_files
from mtkit.pair_files.lines import count_lines, read_lines, require_regular
from mtkit.pair_files.moses import unequal
from mtkit.pair_files.one_file import check_extension, extension
from mtkit.pair_files.pairs import EMPTY, Pair, Tally

_CHUNK_BYTES = 1 << 20
_SETTLED_NS = 2_000_000_000  # a file changed more recently may change again within the resolution of its time stamp

_T = TypeVar("_T")

_reported: set[tuple[str, str]] = set()  # names of corpora, and the remark on each
_known_checksums: dict[tuple[int | str, ...], str] = {}  # by device, inode, size, times and suffix


def first_missing(corpora: Iterable[CorpusFiles]) -> Path | None:
    """Return the first file of the corpora that does not exist."""
    return next((path for path in _files_of(corpora) if not path.exists()), None)


def require_files(
    key: str,
    corpora: Iterable[CorpusFiles],
    *,
    config: Path | str = "the config",
    remedy: str = "correct the path (relative paths start from the config's folder), or put the file there",
) -> None:
    """Raise DataError, with the config's key and the remedy, if a file is missing, a pipe, or of an unknown format."""
    corpora = list(corpora)
    if (path := first_missing(corpora)) is not None:
        raise DataError(f"{path}: no such file, though {config} names it as {key}: {remedy}")
    for path in _files_of(corpora):
        require_regular(path)
    for corpus in corpora:
        if corpus.file:
            check_extension(corpus.file)


def evenly_spaced(items: Sequence[_T], n: int) -> list[_T]:
    """Return n evenly spaced items, starting with the first; all items if there are fewer."""
    n = min(n, len(items))
    return [items[i * len(items) // n] for i in range(n)]


def read_pairs(corpora: Sequence[CorpusFiles]) -> Iterator[Pair]:
    """Yield every pair of every corpus, in order; log once what the reader of a file leaves out.

    Raises DataError if two files have unequal line counts (at the end of the shorter), or a line, row or unit of a file
    cannot be read.
    """
    for corpus in corpora:
        tally = Tally()
        yield from read_corpus(corpus, tally)
        log_remark(corpus, tally.remark())


def log_remark(corpus: CorpusFiles, remark: str) -> None:
    """Log remarks about a corpus once, and warn if it is empty."""
    name = corpus_name(corpus)
    if remark and (name, remark) not in _reported:
        _reported.add((name, remark))
        (log.warning if remark == EMPTY else log.info)(f"{name}: {remark}")


def read_corpus(corpus: CorpusFiles, tally: Tally, encodings: Sequence[str] = ()) -> Iterator[Pair]:
    """Yield the pairs of one corpus, and add the pairs that its reader finds and leaves out to the tally.

    Text in the source language alone gives pairs with empty target sides.
    encodings: the encodings of text that is not in UTF-8; if there are several, the first that fits each line.
    """
    if corpus.file:
        yield from read_one_file(corpus.file, corpus.langs, tally, encodings)
        return
    if corpus.tsv:
        yield from read_tsv(corpus.tsv, tally, encodings)
    elif corpus.src and corpus.is_untranslated:
        for line_number, line in enumerate(read_lines(corpus.src), start=1):
            tally.n_units += 1
            yield Pair(line, "", str(corpus.src), line_number)
    else:
        yield from read_two_files(*_two_files(corpus), tally, encodings)


def read_side(corpora: Sequence[CorpusFiles], side: Side) -> Iterator[str]:
    """Yield the sentences of one side, in order."""
    for corpus in corpora:
        if len(corpus.paths) == 1:
            yield from (getattr(pair, side) for pair in read_pairs([corpus]))
        else:
            yield from read_lines(_two_files(corpus)[side == "tgt"])


def count_pairs(corpora: Sequence[CorpusFiles]) -> int:
    """Count the pairs that read_pairs yields. Raises DataError if two files have unequal line counts."""
    return sum(map(_count, corpora))


def _count(corpus: CorpusFiles) -> int:
    if corpus.file and extension(corpus.file) != ".tsv":
        require_regular(corpus.file)
        return sum(1 for _ in read_pairs([corpus]))
    if len(corpus.paths) == 1:
        return count_lines(corpus.paths[0])
    src, tgt = _two_files(corpus)
    n_src, n_tgt = count_lines(src), count_lines(tgt)
    if n_src != n_tgt:
        raise unequal(str(src), n_src, str(tgt), n_tgt)
    return n_src


def corpus_name(corpus: CorpusFiles) -> str:
    """Return the name of the corpus in messages: the file with both sides, or the source file."""
    return str(corpus.file or corpus.tsv or corpus.src)


def text_checksums(corpora: Sequence[CorpusFiles]) -> list[dict[str, str]]:
    """Return the sha256 of each corpus' text by role (src, tgt, tsv, file), whatever its path and compression.

    The checksum of a file is followed by the languages to read from it.
    """
    files = [{role: getattr(corpus, role) for role in ("src", "tgt", "tsv", "file")} for corpus in corpora]
    with ThreadPoolExecutor(usable_cores()) as pool:  # hashing and unpacking release the GIL
        checksums = [{role: pool.submit(checksum, path) for role, path in roles.items() if path} for roles in files]
        return [
            {role: ":".join((checksum.result(), *(corpus.langs or ()))) for role, checksum in roles.items()}
            for corpus, roles in zip(corpora, checksums, strict=True)
        ]


def _files_of(corpora: Iterable[CorpusFiles]) -> list[Path]:
    return [path for corpus in corpora for path in corpus.paths]


def _two_files(corpus: CorpusFiles) -> tuple[Path, Path]:
    assert corpus.src is not None and corpus.tgt is not None  # the schema ensures it
    return corpus.src, corpus.tgt


def checksum(path: Path) -> str:
    """Return the sha256 of a file's content, unpacked."""
    with reading(path) as file:
        stat = os.fstat(file.fileno())
        state = stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, path.suffix
        if state in _known_checksums:  # one start needs the same checksum several times
            return _known_checksums[state]
        digest = hashlib.sha256()
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    if time.time_ns() - stat.st_ctime_ns > _SETTLED_NS:
        _known_checksums[state] = digest.hexdigest()
    return digest.hexdigest()

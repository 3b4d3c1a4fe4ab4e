"""Read the sentence pairs of the corpora that a config names, one at a time; count and identify them."""

import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from mtkit.config.schema import CorpusFiles
from mtkit.console import counted
from mtkit.cores import usable_cores
from mtkit.errors import DataError
from mtkit.formats.compression import reading
from mtkit.formats.lines import count_lines, read_lines, require_regular
from mtkit.formats.pairs import Pair, Side

_CHUNK_BYTES = 1 << 20
_SETTLED_NS = 2_000_000_000  # a file changed more recently may change again within the resolution of its time stamp

_T = TypeVar("_T")

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
    """Raise DataError, with the config's key and the remedy, if one of the files does not exist or is a pipe."""
    corpora = list(corpora)
    if (path := first_missing(corpora)) is not None:
        raise DataError(f"{path}: no such file, though {config} names it as {key}: {remedy}")
    for path in _files_of(corpora):
        require_regular(path)


def evenly_spaced(items: Sequence[_T], n: int) -> list[_T]:
    """Return n of the items at equal distances, from the first on; all if there are fewer."""
    n = min(n, len(items))
    return [items[i * len(items) // n] for i in range(n)]


def read_pairs(corpora: Sequence[CorpusFiles]) -> Iterator[Pair]:
    """Yield every pair of every corpus, in order.

    Raises DataError if two files have unequal line counts (at the end of the shorter), or a TSV line has no tab.
    """
    for corpus in corpora:
        yield from _read_tsv(corpus.tsv) if corpus.tsv else _read_two_files(*_two_files(corpus))


def read_side(corpora: Sequence[CorpusFiles], side: Side) -> Iterator[str]:
    """Yield the sentences of one side, in order."""
    for corpus in corpora:
        if corpus.tsv:
            yield from (getattr(pair, side) for pair in _read_tsv(corpus.tsv))
        else:
            yield from read_lines(_two_files(corpus)[side == "tgt"])


def count_pairs(corpora: Sequence[CorpusFiles]) -> int:
    """Count the pairs that read_pairs yields. Raises DataError if two files have unequal line counts."""
    total = 0
    for corpus in corpora:
        if corpus.tsv:
            total += count_lines(corpus.tsv)
            continue
        src, tgt = _two_files(corpus)
        n_src, n_tgt = count_lines(src), count_lines(tgt)
        if n_src != n_tgt:
            raise DataError(_unequal(src, n_src, tgt, n_tgt))
        total += n_src
    return total


def corpus_name(corpus: CorpusFiles) -> str:
    """Return the name of the corpus in messages: its source file, or the TSV."""
    return str(corpus.tsv or corpus.src)


def text_checksums(corpora: Sequence[CorpusFiles]) -> list[dict[str, str]]:
    """Return the sha256 of each corpus' text by role (src, tgt, tsv), whatever its path and compression."""
    files = [{role: getattr(corpus, role) for role in ("src", "tgt", "tsv")} for corpus in corpora]
    with ThreadPoolExecutor(usable_cores()) as pool:  # hashing and unpacking release the GIL
        checksums = [{role: pool.submit(_checksum, path) for role, path in roles.items() if path} for roles in files]
        return [{role: checksum.result() for role, checksum in roles.items()} for roles in checksums]


def _files_of(corpora: Iterable[CorpusFiles]) -> list[Path]:
    return [path for corpus in corpora for path in (corpus.src, corpus.tgt, corpus.tsv) if path is not None]


def _two_files(corpus: CorpusFiles) -> tuple[Path, Path]:
    assert corpus.src is not None and corpus.tgt is not None  # the schema ensures it
    return corpus.src, corpus.tgt


def _read_two_files(src_path: Path, tgt_path: Path) -> Iterator[Pair]:
    src_lines, tgt_lines = read_lines(src_path), read_lines(tgt_path)
    name, n = str(src_path), 0
    for src in src_lines:
        tgt = next(tgt_lines, None)
        if tgt is None:
            raise DataError(_unequal(src_path, n + 1 + sum(1 for _ in src_lines), tgt_path, n))
        n += 1
        yield Pair(src, tgt, name, n)
    if next(tgt_lines, None) is not None:
        raise DataError(_unequal(src_path, n, tgt_path, n + 1 + sum(1 for _ in tgt_lines)))


def _unequal(src: Path, n_src: int, tgt: Path, n_tgt: int) -> str:
    return (
        f"{src} has {counted(n_src, 'line')}, {tgt} has {n_tgt:,}; line n of one must translate line n of the other "
        f"(use a blank line for a missing sentence); to see where they slip: mtkit data doctor {src} {tgt}"
    )


def _read_tsv(path: Path) -> Iterator[Pair]:
    name = str(path)
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.split("\t", 2)
        if len(columns) < 2:
            raise DataError(f"{path}: line {number}: no tab; write each line as source, tab, target")
        yield Pair(columns[0], columns[1], name, number)


def _checksum(path: Path) -> str:
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

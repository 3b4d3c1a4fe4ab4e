"""Cut corpora into windows of pairs that can be read in any order; this is the first stage of a job over corpora.

A plain text file is not copied: the window notes at which byte it begins. Other files are read once, and their windows
are written to the work folder.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from mtkit.config.data import CorpusFiles
from mtkit.data.corpus import corpus_name, log_remark, read_corpus, read_pairs
from mtkit.jobs.job import Job, Stage
from mtkit.jobs.shards import shard_folder
from mtkit.pair_files.compression import MAGIC, reading
from mtkit.pair_files.lines import LINE_FRAME, decode_line, max_line_bytes
from mtkit.pair_files.pairs import Pair, Tally, counts_units

WINDOW_PAIRS = 50_000
_WINDOW_BYTES = 1 << 25  # a window of very long lines has fewer pairs
_INDEX = "windows.json"


class _Window(NamedTuple):
    file: str
    first_line: int
    n_pairs: int
    offsets: tuple[int, int] | None  # in the two files of the corpus; None: the window is a file of its own


@dataclass(frozen=True)
class Windows:
    """The pairs of corpora, in windows; picklable."""

    corpora: Sequence[CorpusFiles]
    stage: Path
    windows: Sequence[tuple[int, int, _Window]]  # corpus, number of the window in it, window

    def __len__(self) -> int:
        return len(self.windows)

    @property
    def sizes(self) -> list[int]:
        """Return how many pairs each window has."""
        return [window.n_pairs for _, _, window in self.windows]

    def read(self, index: int) -> list[Pair]:
        """Read the pairs of one window. Raises DataError as `read_pairs` does."""
        corpus, number, window = self.windows[index]
        if window.offsets is None:
            return list(_read_copy(_copy(shard_folder(self.stage, corpus), number), window.file))
        src_path, tgt_path = self.corpora[corpus].src, self.corpora[corpus].tgt
        assert src_path is not None and tgt_path is not None
        src = _lines_from(src_path, window.offsets[0], window)
        tgt = _lines_from(tgt_path, window.offsets[1], window)
        sides = enumerate(zip(src, tgt, strict=True), start=window.first_line)
        return [Pair(src_line, tgt_line, window.file, line) for line, (src_line, tgt_line) in sides]

    def corpus(self, index: int) -> int:
        """Return which of the corpora a window is from."""
        return self.windows[index][0]

    def is_untranslated(self, index: int) -> bool:
        """Return whether a window has text in the source language alone."""
        return self.corpora[self.corpus(index)].is_untranslated

    def file(self, index: int) -> str:
        """Return the name of the file that a window's pairs are from, as `Pair` has it."""
        return self.windows[index][2].file

    def place(self, index: int) -> str:
        """Return the place of a window, for messages."""
        window = self.windows[index][2]
        first = "unit" if counts_units(window.file) else "line"
        return f"{window.file}, {window.n_pairs:,} pairs from {first} {window.first_line:,} on"


def cut(job: Job, corpora: Sequence[CorpusFiles], window_pairs: int = WINDOW_PAIRS) -> Windows:
    """Cut corpora into windows that hold pairs of one file; a stage of its own, called cut.

    Raises DataError if the two files of a corpus have unequal numbers of lines, or one cannot be read.
    """
    job.run(Stage("cut", _Cut(corpora, window_pairs), len(corpora), place=lambda index: corpus_name(corpora[index])))
    stage = job.folder / "cut"
    windows: list[tuple[int, int, _Window]] = []
    for index, corpus in enumerate(corpora):
        content = json.loads((shard_folder(stage, index) / _INDEX).read_text("utf-8"))
        log_remark(corpus, content["remark"])
        for number, (file, first_line, n_pairs, offsets) in enumerate(content["windows"]):
            windows.append((index, number, _Window(file, first_line, n_pairs, offsets and tuple(offsets))))
    return Windows(corpora, stage, windows)


@dataclass(frozen=True)
class _Cut:
    """Cuts one corpus a shard."""

    corpora: Sequence[CorpusFiles]
    window_pairs: int

    def __call__(self, index: int, folder: Path) -> dict[str, int]:
        corpus = self.corpora[index]
        files = [path for path in (corpus.src, corpus.tgt) if path is not None]
        tally = Tally()
        if len(files) == 2 and not any(path.suffix in MAGIC for path in files):
            windows = list(self._find_windows(corpus, files[0], files[1], tally))
        else:
            windows = list(self._write_windows(read_corpus(corpus, tally), folder))
        # The process that calls `cut` logs the remark: this one may be a worker, without a log.
        content = {"windows": windows, "remark": tally.remark()}
        (folder / _INDEX).write_text(json.dumps(content, ensure_ascii=False), "utf-8")
        return {"pairs": sum(window.n_pairs for window in windows)}

    def _find_windows(self, corpus: CorpusFiles, src_path: Path, tgt_path: Path, tally: Tally) -> Iterator[_Window]:
        longest, name = max_line_bytes() + LINE_FRAME, str(src_path)
        first_line, n, begin, end = 1, 0, (0, 0), (0, 0)
        with reading(src_path) as src, reading(tgt_path) as tgt:
            for src_line, tgt_line in zip(_raw_lines(src, longest), _raw_lines(tgt, longest), strict=False):
                n += 1
                tally.n_units += 1
                tally.n_with_cr += _has_cr(src_line) and _has_cr(tgt_line)
                end = end[0] + len(src_line), end[1] + len(tgt_line)
                if n == self.window_pairs or sum(end) - sum(begin) >= _WINDOW_BYTES:
                    yield _Window(name, first_line, n, begin)
                    first_line, n, begin = first_line + n, 0, end
            unequal = src.tell() != end[0] or src.read(1) or tgt.read(1)
        if n:
            yield _Window(name, first_line, n, begin)
        if unequal:
            for _ in read_pairs([corpus]):  # raises the error, with the numbers of lines
                pass

    def _write_windows(self, pairs: Iterable[Pair], folder: Path) -> Iterator[_Window]:
        window: list[Pair] = []
        n_written = n_bytes = 0
        for pair in pairs:
            if window and (len(window) == self.window_pairs or n_bytes >= _WINDOW_BYTES or pair.file != window[0].file):
                yield _write_copy(_copy(folder, n_written), window)
                window, n_written, n_bytes = [], n_written + 1, 0
            window.append(pair)
            n_bytes += len(pair.src) + len(pair.tgt)
        if window:
            yield _write_copy(_copy(folder, n_written), window)


def _raw_lines(file: BinaryIO, longest: int) -> Iterator[bytes]:
    """Yield the lines up to the first that is too long."""
    while (raw := file.readline(longest)) and (len(raw) < longest or raw.endswith(b"\n")):
        yield raw


def _has_cr(raw: bytes) -> bool:
    """Return whether there is a CR inside the line."""
    return b"\r" in raw and b"\r" in raw.rstrip(b"\r\n")


def _lines_from(path: Path, offset: int, window: _Window) -> Iterator[str]:
    max_bytes = max_line_bytes()
    with reading(path) as file:
        file.seek(offset)
        for number in range(window.first_line, window.first_line + window.n_pairs):
            yield decode_line(file.readline(max_bytes + LINE_FRAME), number, path, max_bytes)


def _copy(folder: Path, number: int) -> Path:
    return folder / f"{number:06d}.jsonl"


def _write_copy(path: Path, window: Sequence[Pair]) -> _Window:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps([pair.src, pair.tgt, pair.line], ensure_ascii=False) + "\n" for pair in window)
    return _Window(window[0].file, window[0].line, len(window), None)


def _read_copy(path: Path, file_name: str) -> Iterator[Pair]:
    with path.open(encoding="utf-8", newline="\n") as file:
        for row in file:
            src, tgt, line = json.loads(row)
            yield Pair(src, tgt, file_name, line)

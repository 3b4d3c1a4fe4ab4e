"""A job over lines: it turns windows of lines into the same number of output lines, in the order of the input.

The job does not know the meaning of the lines: its caller passes a function that loads the work, such as a model, in
each process. The bytes of the output do not depend on the number of processes or on interruptions.
"""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from mtkit.console import log
from mtkit.errors import UsageError
from mtkit.jobs.executors import Executor
from mtkit.jobs.identity import stamp
from mtkit.jobs.job import Job, Stage, run_job
from mtkit.pair_files.compression import pack, packing, unpacked
from mtkit.pair_files.lines import read_lines, windows

_MOST_SHARDS = 10_000  # each is a folder; a longer text has several windows a shard
_LINES = "lines"
_INDEX = "windows.json"
_OUTPUT = "output"
_NOTES = "notes.json"

Note = Mapping[str, Any]
# Takes a window of lines and the line number of the first one, from 1. Returns as many output lines, and a note for the
# caller of the job: JSON, such as {"unfinished": 2}. Both must depend on nothing else.
Work = Callable[[Sequence[str], int], tuple[Sequence[str], Note]]


@dataclass(frozen=True)
class Text:
    """The input of a job."""

    read: Callable[[], Iterable[str]]  # yields the lines without LF; picklable if the executor has processes
    files: Sequence[Path]  # that they come from
    encoding: str | None = None  # of these, if it is not UTF-8

    @classmethod
    def of_file(cls, path: Path, encoding: str | None = None) -> "Text":
        """Return the lines of a file, plain or compressed."""
        return cls(partial(read_lines, path, encoding), [path], encoding)


@dataclass(frozen=True)
class LineJobResult:
    """The result of a finished job, over all its processes and starts."""

    n_lines: int
    notes: Sequence[Note]  # of the windows, in order

    @property
    def counts(self) -> Counter[str]:
        """Return the sums of notes that hold only whole numbers."""
        return sum(map(Counter, self.notes), Counter[str]())


# Takes all output lines and what was done, and writes the job's own output from them.
Finish = Callable[[Iterator[str], LineJobResult], None]


def can_be_a_job(input_path: Path, output_path: Path) -> bool:
    """Return whether a job can read and write these: regular files, not pipes or terminals."""
    return input_path.is_file() and (output_path.is_file() or not output_path.exists())


def run_line_job(
    text: Text,
    output: Path,
    load: Callable[[], Work],
    settings: Mapping[str, Any],
    executor: Executor,
    *,
    window_lines: int,
    name: str = "translate",
    unit: str = "line",
    restart: bool = False,
    restart_hint: str = "start over with --restart",
    finish: Finish | None = None,
) -> LineJobResult:
    """Write the output lines of a text to a file, or hand them to `finish`; resume an interrupted job.

    An output named `.gz`, `.xz` or `.zst` is compressed, window by window.
    load: returns the work. Each process that works calls it once, so it must be picklable unless the executor makes all
    shards in this process.
    settings: JSON of all that the output depends on besides the text, such as the checksum of a model.
    window_lines: number of lines for one call of the work. name, unit: the activity and its object, for messages.
    restart: discard an interrupted job. restart_hint: how a user does that, for messages.
    finish: writes the output itself; if it is interrupted, the next start calls it again.

    Raises UsageError if the output is a file of the text, and MtkitError as `jobs.job.run_job` does. After any
    exception, including errors of the work and KeyboardInterrupt (also from SIGTERM), the job keeps the finished
    windows.
    """
    for path in text.files:
        if output.exists() and path.exists() and output.samefile(path):
            raise UsageError(f"{output} is the input file {path}: choose another --output")
    encoding = {"encoding": text.encoding} if text.encoding else {}
    suffix = packing(output)  # of the name as given, not of a link's target, as for reading

    def make(job: Job) -> LineJobResult:
        stamps = [stamp(path) for path in text.files]
        job.run(Stage("cut", _Cut(text.read, window_lines), 1))
        cut = _Windows(job.shard("cut", 0), window_lines)
        shards = range(len(cut.sizes))
        job.run(Stage(name, _Work(load, cut, suffix), len(shards), cut.sizes, unit, partial(cut.place, unit)))
        notes = [note for shard in shards for note in json.loads(job.intact(name, shard, _NOTES).read_text("utf-8"))]
        result = LineJobResult(cut.n_lines, notes)

        def write() -> None:
            if finish is not None:
                finish(_output_lines(job, name, shards, suffix), result)
                return
            empty = pack(b"", suffix) if not shards else b""  # an empty .gz file still has a header
            job.concatenate(name, shards, _OUTPUT, output, header=empty)

        job.finish(write)
        _warn_of_changes(dict(zip(text.files, stamps, strict=True)), output)
        return result

    return run_job(
        output,
        make,
        inputs=text.files,
        settings={**settings, **encoding, "window_lines": window_lines, "compressed": suffix or "no"},
        executor=executor,
        restart=restart,
        restart_hint=restart_hint,
    )


def _warn_of_changes(stamps: Mapping[Path, Any], output: Path) -> None:
    """Warn of each file that has changed since its stamp was taken."""
    for path, before in stamps.items():
        if not path.exists() or stamp(path) != before:
            log.warning(f"{path}: changed after the job had read it; {output} belongs to the earlier content")


@dataclass(frozen=True)
class _Cut:
    """Copies the lines and records where windows begin, so that each shard reads only its own lines."""

    read: Callable[[], Iterable[str]]
    window_lines: int

    def __call__(self, _index: int, folder: Path) -> dict[str, int]:
        offsets, n_lines = [], 0
        with (folder / _LINES).open("wb") as file:
            for lines in windows(self.read(), self.window_lines):
                offsets.append(file.tell())
                file.write(_as_bytes(lines))
                n_lines += len(lines)
        (folder / _INDEX).write_text(json.dumps({"n_lines": n_lines, "offsets": offsets}), encoding="utf-8")
        return {"lines": n_lines}


@dataclass(frozen=True)
class _Windows:
    """The windows of each shard; picklable."""

    folder: Path
    window_lines: int

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the index, which takes megabytes for a long text, because each process reads it from the folder."""
        return {"folder": self.folder, "window_lines": self.window_lines}

    @cached_property
    def _index(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / _INDEX).read_text("utf-8")))

    @property
    def n_lines(self) -> int:
        """Return how many lines there are in all."""
        return int(self._index["n_lines"])

    @property
    def _shard_windows(self) -> int:
        return max(1, -(-len(self._index["offsets"]) // _MOST_SHARDS))

    @cached_property
    def sizes(self) -> list[int]:
        """Return how many lines each shard has."""
        size = self._shard_windows * self.window_lines
        return [min(size, self.n_lines - first) for first in range(0, self.n_lines, size)]

    def first_line(self, index: int) -> int:
        """Return the line number of a shard's first line."""
        return index * self._shard_windows * self.window_lines + 1

    def read(self, index: int) -> Iterator[tuple[int, list[str]]]:
        """Yield the windows of a shard, each with the line number of its first line."""
        with (self.folder / _LINES).open("rb") as file:
            file.seek(self._index["offsets"][index * self._shard_windows])
            lines = (raw.decode("utf-8").removesuffix("\n") for raw in itertools.islice(file, self.sizes[index]))
            for number, window in enumerate(windows(lines, self.window_lines)):
                yield self.first_line(index) + number * self.window_lines, window

    def place(self, unit: str, index: int) -> str:
        """Return the place of a shard, for messages."""
        first = self.first_line(index)
        return f"{unit}s {first:,} to {first + self.sizes[index] - 1:,}"


@dataclass(frozen=True)
class _Work:
    """Works on the windows of a shard, one after the other."""

    load: Callable[[], Work]
    windows: _Windows
    suffix: str
    keeps_state = True  # what load returns

    @cached_property
    def _work(self) -> Work:
        return self.load()

    def __call__(self, index: int, folder: Path) -> Mapping[str, int]:
        notes, n_lines = [], 0
        with (folder / _OUTPUT).open("wb") as file:
            for first_line, lines in self.windows.read(index):
                output, note = self._work(lines, first_line)
                if len(output) != len(lines):
                    raise ValueError(f"{len(output)} output lines for {len(lines)} lines")
                file.write(pack(_as_bytes(output), self.suffix))
                notes.append(note)
                n_lines += len(lines)
        (folder / _NOTES).write_text(json.dumps(notes, ensure_ascii=False), encoding="utf-8")
        return {"lines": n_lines}


def _as_bytes(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8")


def _output_lines(job: Job, name: str, shards: Iterable[int], suffix: str) -> Iterator[str]:
    for index in shards:
        with job.intact(name, index, _OUTPUT).open("rb") as raw, unpacked(raw, suffix) as file:
            for line in file:
                yield line.decode("utf-8").removesuffix("\n")

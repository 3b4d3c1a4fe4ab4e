"""Translate a file to a file as `file_job` does, with the same bytes, by processes that share the windows of lines."""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mtkit.bundle import read_bundle
from mtkit.errors import UsageError
from mtkit.formats.compression import pack, packing, unpacked
from mtkit.formats.lines import read_windows, windows
from mtkit.jobs.executors import Executor
from mtkit.jobs.job import Job, Share, Stage
from mtkit.jobs.job import run_job as run_shared
from mtkit.translation.file_job import Finish, JobResult, TranslateWindow
from mtkit.translation.translator import Translator

_SHARD_WINDOWS = 8  # a shard should take much longer than its overhead of milliseconds
_SIZES = "sizes.json"
_OUTPUT = "output"


@dataclass(frozen=True)
class Sharing:
    """Who translates the windows of a job."""

    executor: Executor
    share: Share
    # Makes the function that translates a window, once in each process; picklable if the executor has processes.
    load: Callable[[], TranslateWindow]


@dataclass(frozen=True)
class LoadTranslator:
    """Makes the translator of bundle folders in a process of a job; an ensemble if several."""

    folders: Sequence[Path]
    overrides: Sequence[str]
    device: str

    def __call__(self) -> Translator:
        """Return the translator, with one thread."""
        members = [read_bundle(folder, [*self.overrides, "decode.workers=1"]) for folder in self.folders]
        return Translator.from_bundles(members, device=self.device, threads=1)


def run_job(
    input_path: Path,
    output_path: Path,
    sharing: Sharing,
    identity: Mapping[str, Any],
    *,
    window_lines: int,
    restart: bool = False,
    finish: Finish | None = None,
) -> JobResult | None:
    """Translate one file into another, with the arguments of `file_job.run_job`; None in all processes but one.

    Raises MtkitError as `jobs.job.run_job` does.
    """
    if output_path.exists() and input_path.exists() and output_path.samefile(input_path):
        raise UsageError(f"{output_path} is the input file {input_path}: give another --output")
    suffix = packing(output_path)

    def make(job: Job) -> JobResult:
        job.run(Stage("cut", _Cut(input_path, _SHARD_WINDOWS * window_lines), 1))
        parts = _Parts(job.shard("cut", 0))
        n, sizes = len(parts.sizes), parts.sizes
        task = _Translate(sharing.load, parts, window_lines, suffix)
        counts: Counter[str] = Counter()
        for of_shard in job.run(Stage("translate", task, n, sizes, "line", parts.place)):
            counts.update(of_shard)
        if finish is None:
            empty = pack(b"", suffix) if not n else b""  # an empty .gz file still has a header
            job.finish(lambda: job.concatenate("translate", range(n), _OUTPUT, output_path, header=empty))
        else:
            job.finish(lambda: finish(_output_lines(job, n, suffix)))
        return JobResult(sum(sizes), 0, dict(counts))

    return run_shared(
        output_path,
        make,
        inputs=[input_path],
        settings={**identity, "window_lines": window_lines},
        executor=sharing.executor,
        share=sharing.share,
        restart=restart,
    )


@dataclass(frozen=True)
class _Cut:
    """Copies the lines of each shard, so that no shard reads what comes before; says how many lines each has."""

    input_path: Path
    shard_lines: int

    def __call__(self, _index: int, folder: Path) -> dict[str, int]:
        sizes = []
        for number, (lines, _) in enumerate(read_windows(self.input_path, self.shard_lines)):
            (folder / f"{number:06d}").write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8"))
            sizes.append(len(lines))
        (folder / _SIZES).write_text(json.dumps(sizes), encoding="utf-8")
        return {"lines": sum(sizes)}


@dataclass(frozen=True)
class _Parts:
    """The lines of each shard."""

    folder: Path

    @cached_property
    def sizes(self) -> list[int]:
        """Return how many lines each has."""
        return list(json.loads((self.folder / _SIZES).read_text("utf-8")))

    @cached_property
    def first_lines(self) -> list[int]:
        """Return the line number of the first line of each."""
        return list(itertools.accumulate(self.sizes, initial=1))

    def read(self, index: int) -> list[str]:
        """Return the lines of one."""
        return (self.folder / f"{index:06d}").read_bytes().decode("utf-8").split("\n")[:-1]

    def place(self, index: int) -> str:
        """Return the place of one, for messages."""
        return f"lines {self.first_lines[index]:,} to {self.first_lines[index + 1] - 1:,}"


@dataclass(frozen=True)
class _Translate:
    """Translates the lines of one part a shard, window by window."""

    load: Callable[[], TranslateWindow]
    parts: _Parts
    window_lines: int
    suffix: str
    keeps_state = True  # the model

    @cached_property
    def _translate_window(self) -> TranslateWindow:
        return self.load()

    def __call__(self, index: int, folder: Path) -> Mapping[str, int]:
        first_line, counts = self.parts.first_lines[index], Counter[str]()
        with (folder / _OUTPUT).open("wb") as file:
            for lines in windows(self.parts.read(index), self.window_lines):
                output, of_window = self._translate_window(lines, first_line)
                if len(output) != len(lines):
                    raise ValueError(f"{len(output)} output lines for {len(lines)} lines")
                file.write(pack("".join(f"{line}\n" for line in output).encode("utf-8"), self.suffix))
                counts.update(of_window)
                first_line += len(lines)
        return counts


def _output_lines(job: Job, n_shards: int, suffix: str) -> Iterator[str]:
    for index in range(n_shards):
        with job.intact("translate", index, _OUTPUT).open("rb") as raw, unpacked(raw, suffix) as file:
            for line in file:
                yield line.decode("utf-8").removesuffix("\n")

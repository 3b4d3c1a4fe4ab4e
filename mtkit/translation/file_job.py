"""A file in, its translation out, in bounded memory; however a process ends, the next one goes on where it stopped.

Until the output is whole, two files stand beside it: NAME.mtkit-part, the output so far, and NAME.mtkit-journal, one
JSON object a line: first what the job is, then, after each window of lines, how far it has come. A window is in the
journal once its output is on disk, so at every moment the journal tells how much of the part can be kept.

The job knows nothing of models: it is given a function that translates a window of lines.
"""

import gzip
import hashlib
import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

from mtkit.config.differences import differences
from mtkit.console import log, progress_bar, redraw
from mtkit.data.corpus import read_windows
from mtkit.errors import MtkitError, UsageError
from mtkit.files import open_locked, sha256_file, sync

_FORMAT = 1
_PART = ".mtkit-part"
_JOURNAL = ".mtkit-journal"
_COPIED_AT_ONCE = 1 << 24  # bytes

# Lines, and the number of the first of them (from 1), to as many output lines and to what is counted over the whole
# job, such as {"unfinished": 2}. The output must depend on nothing else.
TranslateWindow = Callable[[Sequence[str], int], tuple[Sequence[str], Mapping[str, int]]]
# Given all output lines in place of the output file: puts what is made of them where it belongs.
Finish = Callable[[Iterator[str]], None]


@dataclass(frozen=True)
class JobResult:
    """What a finished job has done, over all the processes that worked on it."""

    n_lines: int
    n_lines_before: int  # of these, what earlier processes had done
    counts: Mapping[str, int]  # the sums of what translate_window counted


def can_resume(input_path: Path, output_path: Path) -> bool:
    """Whether a job between these can be taken up again: neither is a pipe, a terminal or the like."""
    return input_path.is_file() and (output_path.is_file() or not output_path.exists())


def run_job(
    input_path: Path,
    output_path: Path,
    translate_window: TranslateWindow,
    identity: Mapping[str, Any],
    *,
    window_lines: int,
    restart: bool = False,
    anew: str = "start anew with --restart",
    finish: Finish | None = None,
) -> JobResult:
    """Translate a file into another, `.gz` by name, going on with an interrupted job of the same identity.

    identity: all that the output depends on but the input's text, as JSON: checksum of the model, settings, version.
    The text is compared itself, as far as it had been translated. window_lines: lines translated and kept at a time.
    restart: forget an interrupted job instead; anew: how people do that, for errors. The output appears when all is
    done; `.gz` has a member per window.
    finish: makes the output itself, of the lines that would have been in it; called again if it was interrupted.

    Raises MtkitError, saying what differs, if another job had been interrupted in writing this output; if a process
    is writing it now; if the disk is full. Whatever is raised, KeyboardInterrupt (of SIGTERM too) and errors of
    translate_window and of the input included, what was done is kept and a warning says so.
    """
    packed = output_path.suffix == ".gz"  # by the name that was given, as it is when the file is read
    output_path = output_path.resolve()
    if output_path.exists() and input_path.exists() and output_path.samefile(input_path):
        raise UsageError(f"{input_path} would be overwritten by its translation: give another --output")
    identity = json.loads(json.dumps({**identity, "window_lines": window_lines, "compressed": packed}))
    with open_locked(_beside(output_path, _JOURNAL)) as file, _termination_as_interrupt():
        if file is None:
            raise MtkitError(
                f"{output_path}: another mtkit is writing this file; wait until it has ended, or give another --output"
            )
        with _Job(file, input_path, output_path, identity, packed=packed, restart=restart, anew=anew) as job:
            n_lines_before = job.done.lines
            job.run(translate_window, window_lines, finish)
        return JobResult(job.done.lines, n_lines_before, job.done.counts)


@dataclass(frozen=True)
class _Done:
    """How far a job has come: a line of the journal."""

    lines: int = 0
    src_sha256: str = ""  # of these lines, each with LF
    out_bytes: int = 0  # of the part, on disk
    out_sha256: str = ""
    counts: dict[str, int] = field(default_factory=dict)


class _Job:
    """A job at work: its journal and its part, open."""

    def __init__(
        self,
        journal: BinaryIO,
        input_path: Path,
        output_path: Path,
        identity: Mapping[str, Any],
        *,
        packed: bool,
        restart: bool,
        anew: str,
    ) -> None:
        self.journal = journal
        self.input_path = input_path
        self.output_path = output_path
        self.identity = identity
        self.packed = packed
        self.anew = anew
        self.done = _Done()
        self.out_sha256 = hashlib.sha256()
        self.part_path = _beside(output_path, _PART)
        if restart:
            journal.truncate(0)
        # Opened to append: what is written goes to the end, also after a truncation. No buffer: what a full disk does
        # not take is not tried again when the file is closed.
        self.part: BinaryIO = self.part_path.open("a+b", buffering=0)

    def __enter__(self) -> "_Job":
        try:
            self._resume()
        except BaseException:
            self.part.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.part.close()
        if kind is None or not self.done.lines:
            remove_job(self.output_path)
        elif not issubclass(kind, _InputChanged):
            log.warning(
                f"{self.output_path}: {self.done.lines:,} lines are translated and kept; the same command goes on "
                "from there"
            )

    def run(self, translate_window: TranslateWindow, window_lines: int, finish: Finish | None) -> None:
        """Translate what is left to do, and put the output in its place."""
        # smoothing=0: the time left follows from the mean speed
        with progress_bar(None, "translating", "line", initial=self.done.lines, smoothing=0) as bar:
            for window in self._windows_to_do(window_lines):
                n_lines = self.done.lines + len(window.lines)
                bar.total = max(n_lines, round(n_lines * self.input_path.stat().st_size / window.input_bytes))
                redraw(bar)
                lines, counts = translate_window(window.lines, self.done.lines + 1)
                if len(lines) != len(window.lines):
                    raise ValueError(f"{len(lines)} output lines for {len(window.lines)} lines")
                self._keep(lines, counts, window.src_sha256)
                bar.update(len(lines))
            bar.total = bar.n
        with self._writing():
            if self.done.lines == 0:
                _write(self.part, self._packed(b""))  # an empty .gz is not a file without bytes
            if finish is None:
                self.part_path.replace(self.output_path)
                sync(self.output_path.parent)
            else:
                finish(self._output_lines())

    def _output_lines(self) -> Iterator[str]:
        with gzip.open(self.part_path) if self.packed else self.part_path.open("rb") as file:
            for raw in file:
                yield raw.decode("utf-8").removesuffix("\n")

    def _windows_to_do(self, window_lines: int) -> "Iterator[_Window]":
        """What has not been translated; the lines before it are those that were.

        Raises MtkitError if they are not.
        """
        n_lines, sha256 = 0, hashlib.sha256()
        for lines, input_bytes in read_windows(self.input_path, window_lines):
            sha256.update("".join(f"{line}\n" for line in lines).encode("utf-8"))
            begin, n_lines = n_lines, n_lines + len(lines)
            if begin >= self.done.lines:
                yield _Window(lines, sha256.hexdigest(), input_bytes)
            elif n_lines > self.done.lines or (
                n_lines == self.done.lines and sha256.hexdigest() != self.done.src_sha256
            ):
                raise self._input_changed()
        if n_lines < self.done.lines:
            raise self._input_changed()

    def _input_changed(self) -> "_InputChanged":
        return _InputChanged(
            f"{self.input_path}: its first {self.done.lines:,} lines are not those that an interrupted job has "
            f"translated into {self.part_path}; {self.anew}"
        )

    def _keep(self, lines: Sequence[str], counts: Mapping[str, int], src_sha256: str) -> None:
        """Put the window's output on disk, then into the journal."""
        data = self._packed("".join(f"{line}\n" for line in lines).encode("utf-8"))
        sha256 = self.out_sha256.copy()
        sha256.update(data)
        done = _Done(
            lines=self.done.lines + len(lines),
            src_sha256=src_sha256,
            out_bytes=self.done.out_bytes + len(data),
            out_sha256=sha256.hexdigest(),
            counts=dict(Counter(self.done.counts) + Counter(counts)),
        )
        with self._writing():
            _write(self.part, data)
            self._note(asdict(done))
        self.done, self.out_sha256 = done, sha256

    def _packed(self, data: bytes) -> bytes:
        # No time in the header: the same text gives the same bytes.
        return gzip.compress(data, mtime=0) if self.packed else data

    def _note(self, entry: Mapping[str, Any]) -> None:
        _write(self.journal, json.dumps(entry, ensure_ascii=False).encode("utf-8") + b"\n")

    def _resume(self) -> None:
        """Go on with what the journal holds; what was written after it, and not noted, is cut off."""
        job, entries, n_journal_bytes = self._read_journal()
        if job is not None and (found := differences(job["identity"], self.identity)):
            changes = [f"{name} was {then}, now {now}" for name, then, now in found]
            raise MtkitError(
                f"{self.part_path}: holds {_last(entries).lines:,} lines of another job that was interrupted: "
                f"{'; '.join(changes)}; go on with that one as it was, or {self.anew}"
            )
        with self._writing():
            self._take_back_output(entries)
            n_good = self._verify(entries)
            self.part.truncate(self.done.out_bytes)
            self.journal.truncate(n_journal_bytes[n_good] if job is not None else 0)
            if job is None:
                self._note({"mtkit_job": _FORMAT, "input": str(self.input_path), "identity": self.identity})
            sync(self.output_path.parent)
        if n_good < len(entries):
            log.warning(f"{self.part_path}: changed since it was written; only its beginning is used")
        if self.done.lines:
            log.info(f"{self.output_path}: going on after line {self.done.lines:,}, where a former run ended")

    def _take_back_output(self, entries: Sequence[_Done]) -> None:
        """Copy the output into the part if it is the part: its process was killed before it removed the journal."""
        if not entries or self.part.seek(0, os.SEEK_END) or not self.output_path.is_file():
            return
        if sha256_file(self.output_path) == entries[-1].out_sha256:
            with self.output_path.open("rb") as output:
                while data := output.read(_COPIED_AT_ONCE):
                    _write(self.part, data)

    def _verify(self, entries: Sequence[_Done]) -> int:
        """Take over the entries that the part bears out, and return their number."""
        self.part.seek(0)
        for number, entry in enumerate(entries):
            sha256 = self.out_sha256.copy()
            sha256.update(self.part.read(entry.out_bytes - self.done.out_bytes))
            if sha256.hexdigest() != entry.out_sha256:
                return number
            self.done, self.out_sha256 = entry, sha256
        return len(entries)

    def _read_journal(self) -> tuple[dict[str, Any] | None, list[_Done], list[int]]:
        """The first line (None: the journal is empty), the entries, and where the first line and each entry end.

        A line that was being written when its process was killed is no entry.
        """
        self.journal.seek(0)
        raw_lines = [line for line in self.journal.read().splitlines(keepends=True) if line.endswith(b"\n")]
        job: dict[str, Any] | None = None
        entries: list[_Done] = []
        ends: list[int] = []
        try:
            for raw in raw_lines:
                values = json.loads(raw)
                if job is None:
                    job = dict(values)
                    if job["mtkit_job"] != _FORMAT:
                        raise ValueError
                else:
                    entries.append(_Done(**values))
                ends.append(len(raw) + (ends[-1] if ends else 0))
        except (ValueError, KeyError, TypeError):
            raise MtkitError(f"{_beside(self.output_path, _JOURNAL)}: cannot be read; {self.anew}") from None
        return job, entries, ends

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A block that writes; what went wrong with it is explained, and half-written output given back to the disk."""
        try:
            yield
        except OSError as error:
            with suppress(OSError):
                self.part.truncate(self.done.out_bytes)
            raise MtkitError(
                f"{self.output_path}: cannot be written ({error.strerror or error}); mend that (free some space?) and "
                "run the same command again"
            ) from error


class _InputChanged(MtkitError):
    """What was translated is another text's beginning."""


@dataclass(frozen=True)
class _Window:
    lines: list[str]
    src_sha256: str  # of all lines up to the end of these
    input_bytes: int  # read so far


def remove_job(output_path: Path) -> None:
    """Remove what an interrupted job for this output, if there was one, has left beside it."""
    for suffix in (_JOURNAL, _PART):  # in this order: a journal without its part would be taken for a damaged job
        _beside(output_path, suffix).unlink(missing_ok=True)


def _write(file: BinaryIO, data: bytes) -> None:
    """Append all of data to an unbuffered file, and wait until it is on disk."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]
    os.fsync(file.fileno())


def _beside(output_path: Path, suffix: str) -> Path:
    return output_path.with_name(output_path.name + suffix)


def _last(entries: Sequence[_Done]) -> _Done:
    return entries[-1] if entries else _Done()


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt in the block, as Ctrl-C does; one that is ignored stays so."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        numbers = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
        wanted = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
        previous = {number: signal.signal(number, interrupt) for number in wanted}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)

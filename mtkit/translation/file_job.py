"""Translate a file to a file in bounded memory; if the process is killed, the next one resumes where it stopped.

Until the output is complete, there are two files beside it: NAME.mtkit-part, the output so far, and
NAME.mtkit-journal, with one JSON object a line: first the job's identity, then the progress after each window of lines.
A window enters the journal when its output is on disk, so the journal always tells how much of the part is valid. The
checksums of each entry tell whether that much of the part and of the input is still what it was.

The job knows nothing about models: its caller passes a function that translates a window of lines.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from mtkit.config.differences import differences
from mtkit.console import counted, log, progress_bar, redraw
from mtkit.errors import MtkitError, UsageError
from mtkit.files import open_locked, parse_json, sha256_file, sync
from mtkit.formats.compression import pack, packing, unpacked
from mtkit.formats.lines import read_windows
from mtkit.jobs.interrupts import termination_as_interrupt

_FORMAT = 1
_PART = ".mtkit-part"
_JOURNAL = ".mtkit-journal"
_COPY_CHUNK = 1 << 24  # bytes

# Takes lines and the line number of the first one, from 1. Returns as many output lines, and what to add up over the
# job, such as {"unfinished": 2}. The output must depend on nothing else.
TranslateWindow = Callable[[Sequence[str], int], tuple[Sequence[str], Mapping[str, int]]]
# Takes all output lines and writes the job's own output from them.
Finish = Callable[[Iterator[str]], None]


@dataclass(frozen=True)
class JobResult:
    """Totals of a finished job, over all processes that worked on it."""

    n_lines: int
    n_lines_before: int  # of these, translated by earlier processes
    counts: Mapping[str, int]  # the sums of translate_window's counts


def can_resume(input_path: Path, output_path: Path) -> bool:
    """Return whether a job between these can be resumed: neither is a pipe, a terminal or the like."""
    return input_path.is_file() and (output_path.is_file() or not output_path.exists())


def run_job(
    input_path: Path,
    output_path: Path,
    translate_window: TranslateWindow,
    identity: Mapping[str, Any],
    *,
    window_lines: int,
    restart: bool = False,
    restart_hint: str = "start over with --restart",
    finish: Finish | None = None,
) -> JobResult:
    """Translate one file into another, and resume an interrupted job of the same identity.

    Files named `.gz`, `.xz` or `.zst` are compressed, the output window by window. It appears when it is complete.
    identity: JSON of everything that the output depends on except the input's text: checksum of the model, settings,
    version. The text itself is compared as far as it was translated. window_lines: lines to translate and save at once.
    restart: discard an interrupted job. restart_hint: how a user does that, for error messages.
    finish: writes the output itself, from the output lines; called again if it was interrupted.

    Raises MtkitError if another job was interrupted while writing this output (the message says what differs), if
    another process is writing it now, or if the disk is full. After any exception, including KeyboardInterrupt (also
    from SIGTERM) and errors in translate_window and the input, the work done so far is kept and logged.
    """
    compressed = packing(output_path)  # of the name as given, not of a link's target, as for reading
    output_path = output_path.resolve()
    if output_path.exists() and input_path.exists() and output_path.samefile(input_path):
        raise UsageError(f"{output_path} is the input file {input_path}: give another --output")
    identity = json.loads(json.dumps({**identity, "window_lines": window_lines, "compressed": compressed or "no"}))
    with open_locked(_beside(output_path, _JOURNAL)) as file, termination_as_interrupt():
        if file is None:
            raise MtkitError(
                f"{output_path}: another mtkit process is writing it; wait until it ends, or give another --output"
            )
        with _Job(
            file, input_path, output_path, identity, compressed=compressed, restart=restart, restart_hint=restart_hint
        ) as job:
            n_lines_before = job.done.lines
            job.run(translate_window, window_lines, finish)
        return JobResult(job.done.lines, n_lines_before, job.done.counts)


@dataclass(frozen=True)
class _Done:
    """A job's progress: one line of the journal."""

    lines: int = 0
    src_sha256: str = ""  # of these input lines, each with LF
    out_bytes: int = 0  # of the part, on disk
    out_sha256: str = ""
    counts: dict[str, int] = field(default_factory=dict)


class _Job:
    """A running job with its open journal and part."""

    def __init__(
        self,
        journal: BinaryIO,
        input_path: Path,
        output_path: Path,
        identity: Mapping[str, Any],
        *,
        compressed: str,
        restart: bool,
        restart_hint: str,
    ) -> None:
        self.journal = journal
        self.input_path = input_path
        self.output_path = output_path
        self.identity = identity
        self.compressed = compressed
        self.restart_hint = restart_hint
        self.done = _Done()
        self.out_sha256 = hashlib.sha256()
        self.part_path = _beside(output_path, _PART)
        if restart:
            journal.truncate(0)
        # Append mode: writes go to the end, also after a truncation. No buffer: closing the file must not retry what a
        # full disk refused.
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
                f"{self.output_path}: {counted(self.done.lines, 'line')} translated and saved so far; run the same "
                "command again to continue"
            )

    def run(self, translate_window: TranslateWindow, window_lines: int, finish: Finish | None) -> None:
        """Translate the remaining lines, and move the output into place."""
        # smoothing=0: estimate the time left from the mean speed
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
                _write(self.part, self._encoded(b""))  # an empty compressed file still has a header
            if finish is None:
                self.part_path.replace(self.output_path)
                sync(self.output_path.parent)
            else:
                finish(self._output_lines())

    def _output_lines(self) -> Iterator[str]:
        with self.part_path.open("rb") as part, unpacked(part, self.compressed) as file:
            for raw in file:
                yield raw.decode("utf-8").removesuffix("\n")

    def _windows_to_do(self, window_lines: int) -> "Iterator[_Window]":
        """Yield the windows that are not translated yet.

        Raises MtkitError if the lines before them are not those that were translated.
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
            f"{self.input_path}: its first {counted(self.done.lines, 'line')} changed after an interrupted job had "
            f"translated them into {self.part_path}; {self.restart_hint}"
        )

    def _keep(self, lines: Sequence[str], counts: Mapping[str, int], src_sha256: str) -> None:
        """Write the window's output to disk, then its entry to the journal."""
        data = self._encoded("".join(f"{line}\n" for line in lines).encode("utf-8"))
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

    def _encoded(self, data: bytes) -> bytes:
        return pack(data, self.compressed)

    def _note(self, entry: Mapping[str, Any]) -> None:
        _write(self.journal, json.dumps(entry, ensure_ascii=False).encode("utf-8") + b"\n")

    def _resume(self) -> None:
        """Resume from the journal; cut off output that it does not list."""
        job, entries, n_journal_bytes = self._read_journal()
        if job is not None and (differing := differences(job["identity"], self.identity)):
            changes = [f"{name} was {then}, now {now}" for name, then, now in differing]
            raise MtkitError(
                f"{self.part_path}: holds {counted(_last(entries).lines, 'line')} of an interrupted job with other "
                f"settings: {'; '.join(changes)}; continue it with the old settings, or {self.restart_hint}"
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
            log.warning(f"{self.part_path}: changed since it was written; using only the lines before the change")
        if self.done.lines:
            log.info(f"{self.output_path}: resuming after line {self.done.lines:,}")

    def _take_back_output(self, entries: Sequence[_Done]) -> None:
        """Copy the output back into the part if a process was killed between moving it and removing the journal."""
        if not entries or self.part.seek(0, os.SEEK_END) or not self.output_path.is_file():
            return
        if sha256_file(self.output_path) == entries[-1].out_sha256:
            with self.output_path.open("rb") as output:
                while data := output.read(_COPY_CHUNK):
                    _write(self.part, data)

    def _verify(self, entries: Sequence[_Done]) -> int:
        """Accept the entries that agree with the part, up to the first that does not; return how many."""
        self.part.seek(0)
        for index, entry in enumerate(entries):
            sha256 = self.out_sha256.copy()
            sha256.update(self.part.read(entry.out_bytes - self.done.out_bytes))
            if sha256.hexdigest() != entry.out_sha256:
                return index
            self.done, self.out_sha256 = entry, sha256
        return len(entries)

    def _read_journal(self) -> tuple[dict[str, Any] | None, list[_Done], list[int]]:
        """Return the first line (None: the journal is empty), the entries, and where the first line and each entry end.

        An incomplete last line is ignored: its process was killed while writing it.
        """
        self.journal.seek(0)
        raw_lines = [line for line in self.journal.read().splitlines(keepends=True) if line.endswith(b"\n")]
        job: dict[str, Any] | None = None
        entries: list[_Done] = []
        ends: list[int] = []
        try:
            for raw in raw_lines:
                values = parse_json(raw)
                if job is None:
                    job = dict(values)
                    if job["mtkit_job"] != _FORMAT:
                        raise ValueError
                else:
                    entries.append(_Done(**values))
                ends.append(len(raw) + (ends[-1] if ends else 0))
        except (ValueError, KeyError, TypeError):
            raise MtkitError(f"{_beside(self.output_path, _JOURNAL)}: cannot be read; {self.restart_hint}") from None
        return job, entries, ends

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Turn an OSError of the block into an MtkitError, and remove half-written output from the disk."""
        try:
            yield
        except OSError as error:
            with suppress(OSError):
                self.part.truncate(self.done.out_bytes)
            raise MtkitError(
                f"{self.output_path}: cannot write ({error.strerror or error}); free some space if the disk is full, "
                "then run the same command again"
            ) from error


class _InputChanged(MtkitError):
    """The input no longer begins with the lines that were translated."""


@dataclass(frozen=True)
class _Window:
    lines: list[str]
    src_sha256: str  # of the input up to the end of these lines
    input_bytes: int  # read so far


def remove_job(output_path: Path) -> None:
    """Remove the files of an interrupted job for this output, if there was one."""
    for suffix in (_JOURNAL, _PART):  # in this order: a journal without its part would look like a damaged job
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

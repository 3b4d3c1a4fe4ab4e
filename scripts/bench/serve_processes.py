"""The processes of `serve.py`: a server with its workers, and the library beside it.

As a program it is a library that translates what it is asked to: JSON lines in and out. See `Library`.
"""

import json
import os
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

_START_S = 120.0
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process so far; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def pss_mb(pid: int) -> float:
    """Return the memory of a process, shared pages by their share; 0 if it is gone."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii")
    except OSError:
        return 0.0
    return int(re.findall(r"^Pss:\s+(\d+)", text, re.MULTILINE)[0]) / 1000


class Server:
    """`mtkit serve` in processes of its own, on a free port of this machine."""

    def __init__(self, model: Path, log: Path, settings: Sequence[str] = ()) -> None:
        """Start it, and wait until it serves."""
        options = [word for setting in settings for word in ("--set", setting)]
        command = [sys.executable, "-m", "mtkit", "serve", "--model", str(model), "--port", "0", *options]
        self._log = log
        with log.open("wb") as file:
            self._process = subprocess.Popen(command, stdout=file, stderr=file, stdin=subprocess.DEVNULL)
        self.port = self._wait_for_port()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._process.poll() is None:
            self.end()

    def _wait_for_port(self) -> int:
        until = time.monotonic() + _START_S
        while time.monotonic() < until and self._process.poll() is None:
            if found := re.search(r"serving at http://[\w.]+:(\d+)", self.log()):
                return int(found[1])
            time.sleep(0.05)
        self._process.kill()
        raise SystemExit(f"the server did not start:\n{self.log()[-2000:]}")

    def log(self) -> str:
        """Return what the server has said."""
        return self._log.read_text("utf-8", errors="replace")

    @property
    def pid(self) -> int:
        """The id of the process that speaks HTTP."""
        return self._process.pid

    @property
    def workers(self) -> list[int]:
        """The ids of its workers."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return [int(pid) for pid in children.read_text("ascii").split()] if children.exists() else []

    def cpu_s(self) -> tuple[float, float]:
        """Return the CPU time so far of the process that speaks HTTP, and of all workers that live."""
        return cpu_s(self.pid), sum(map(cpu_s, self.workers))

    def pss_mb(self) -> tuple[float, float]:
        """Return the memory of the process that speaks HTTP, and of all workers together."""
        return pss_mb(self.pid), sum(map(pss_mb, self.workers))

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def end(self, timeout_s: float = 60.0) -> int:
        """End it as an administrator would; return the exit code, -9 if it had to be killed."""
        self._process.terminate()
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


class Library:
    """mtkit in Python, in processes of its own that stay, so that each measurement begins with a warm model."""

    def __init__(self, model: Path, overrides: Sequence[str], n_processes: int, threads: int) -> None:
        """threads: of each process."""
        arguments = json.dumps([str(model), list(overrides), threads])
        self._processes = [
            subprocess.Popen(
                [sys.executable, __file__, arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for _ in range(n_processes)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def seconds(self, lines: Sequence[str]) -> float:
        """Return how long the translation of lines takes, in the batches that mtkit chooses."""
        start = time.monotonic()
        self._ask("all", lines)
        return time.monotonic() - start

    def median_s(self, lines: Sequence[str]) -> float:
        """Return the median time of `translate_text` for a line alone."""
        return statistics.median(self._ask("alone", lines)[1])

    def texts(self, lines: Sequence[str]) -> list[str]:
        """Return what `translate_text` makes of each text by itself."""
        return self._ask("alone", lines)[0]

    def _ask(self, what: str, lines: Sequence[str]) -> tuple[list[str], list[float]]:
        n, answers = len(self._processes), [list[Any]() for _ in self._processes]

        def ask(index: int) -> None:
            process = self._processes[index]
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(json.dumps([what, lines[index::n]]) + "\n")
            process.stdin.flush()
            answers[index] = json.loads(process.stdout.readline())

        threads = [threading.Thread(target=ask, args=[index]) for index in range(n)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        texts = [answers[index % n][0][index // n] for index in range(len(lines))]
        return texts, [seconds for _, some in answers for seconds in some]


def main() -> None:
    """Answer requests of a `Library`: [all | alone, lines] in, [texts, seconds of each] out."""
    import mtkit
    from mtkit.bundle import read_bundle

    folder, overrides, threads = json.loads(sys.argv[1])
    translator = mtkit.Translator.from_bundles([read_bundle(Path(folder), overrides)], device="cpu", threads=threads)
    for request in sys.stdin:
        what, lines = json.loads(request)
        texts: list[str] = []
        seconds: list[float] = []
        if what == "all":
            texts = translator.translate(lines)
        else:
            for line in lines:
                start = time.perf_counter()
                texts.append(mtkit.translate_text(translator, line))
                seconds.append(time.perf_counter() - start)
        print(json.dumps([texts, seconds]), flush=True)


if __name__ == "__main__":
    main()

"""`killed_jobs.py HOW INPUT OUTPUT [LIMIT...]`: a process for test_line_job.py, which forks jobs and kills them.

Prints their outcomes as JSON. The jobs turn a line into its number and the line in capitals.
"""

import json
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from mtkit.errors import MtkitError
from mtkit.jobs import executors, identity, job, line_job, shards

WINDOW_LINES = 4
JOB_FILES = {module.__file__ for module in (identity, job, line_job, shards)}
EVERY = 3  # how many lines of the code to go on before the next kill


def capitals(lines: Sequence[str], first_line: int) -> tuple[list[str], dict[str, int]]:
    return [f"{first_line + i} {line.upper()}" for i, line in enumerate(lines)], {"long": sum(map(len, lines))}


def slowly(lines: Sequence[str], first_line: int) -> tuple[list[str], dict[str, int]]:
    time.sleep(random.uniform(0, 0.002))
    return capitals(lines, first_line)


def run(
    input_path: Path,
    output_path: Path,
    work: line_job.Work = capitals,
    finish: line_job.Finish | None = None,
) -> dict[str, Any]:
    """Run the job; return how many lines there are, how many of them it worked on itself, and the counts."""
    n_worked = 0

    def counted(lines: Sequence[str], first_line: int) -> tuple[Sequence[str], line_job.Note]:
        nonlocal n_worked
        n_worked += len(lines)
        return work(lines, first_line)

    result = line_job.run_line_job(
        line_job.Text.of_file(input_path),
        output_path,
        lambda: counted,
        {"model": "capitals"},
        executors.InProcess(),
        window_lines=WINDOW_LINES,
        finish=finish,
    )
    left = [path.name for path in output_path.parent.iterdir() if ".mtkit-" in path.name]
    return {"n_lines": result.n_lines, "n_worked": n_worked, "counts": dict(result.counts), "left": left}


def run_and_finish(input_path: Path, output_path: Path) -> dict[str, Any]:
    """The same with an output that is made of all lines at the end."""

    def finish(lines: Iterator[str], _: line_job.LineJobResult) -> None:
        output_path.write_text("".join(f"{line}!\n" for line in lines), encoding="utf-8")

    return run(input_path, output_path, finish=finish)


def killed_at_every_line(
    input_path: Path, output_path: Path, run: Callable[[Path, Path], dict[str, Any]] = run
) -> list[dict[str, Any]]:
    """Kill a job just before the n-th line of the job's code that it runs, for many n, and let another one finish."""
    outcomes: list[dict[str, Any]] = []
    for n in range(1, 100_000, EVERY):
        if not (pid := os.fork()):
            sys.settrace(killer(n))
            run(input_path, output_path)
            os._exit(0)
        if os.waitpid(pid, 0)[1] == 0:
            output_path.unlink()
            return outcomes
        outcomes.append(run(input_path, output_path) | {"output": output_path.read_bytes().hex()})
        output_path.unlink()
    raise RuntimeError("a job without an end")


def killer(n: int) -> Callable[[FrameType, str, object], Any]:
    """A trace function that kills its process at the n-th line of the job's code."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        if frame.f_code.co_filename not in JOB_FILES:
            return None
        count += event == "line"
        if count == n:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    return trace


def killed_at_random(input_path: Path, output_path: Path) -> list[dict[str, Any]]:
    """Kill jobs after random times until one comes to its end; many times over."""
    random.seed(1)
    outcomes: list[dict[str, Any]] = []
    while sum(outcome["n_killed"] for outcome in outcomes) < 20:
        n_killed, status = -1, 1
        while status:
            n_killed += 1
            if not (pid := os.fork()):
                random.seed(n_killed)
                run(input_path, output_path, slowly)
                os._exit(0)
            time.sleep(random.uniform(0, 0.01 * (1 + n_killed)))  # also a busy machine comes to the end
            os.kill(pid, signal.SIGKILL)
            status = os.waitpid(pid, 0)[1]
        outcomes.append({"n_killed": n_killed, "output": output_path.read_bytes().hex()})
        output_path.unlink()
    return outcomes


def on_a_full_disk(input_path: Path, output_path: Path, limits: Sequence[int]) -> list[dict[str, Any]]:
    """Files may not grow beyond so many bytes, then somewhat more, then without limit."""
    outcomes: list[dict[str, Any]] = []
    for limit in (*limits, resource.RLIM_INFINITY):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            outcomes.append(run(input_path, output_path) | {"output": output_path.read_bytes().hex()})
        except MtkitError as error:
            outcomes.append({"error": str(error), "exists": output_path.exists()})
    return outcomes


if __name__ == "__main__":
    os.fsync = lambda fd: None  # files survive a killed process without it, and a busy disk takes its time
    how, source, target, *limits = sys.argv[1:]
    paths = Path(source), Path(target)
    if how == "full":
        print(json.dumps(on_a_full_disk(*paths, [int(limit) for limit in limits])))
    else:
        ways: dict[str, Callable[[Path, Path], Any]] = {
            "every-line": killed_at_every_line,
            "random": killed_at_random,
        }
        ways["finish"] = partial(killed_at_every_line, run=run_and_finish)
        print(json.dumps(ways[how](*paths)))

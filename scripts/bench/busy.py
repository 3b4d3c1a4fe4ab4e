"""Measure how much of its fair share of the cores mtkit uses while other programs run.

.venv/bin/python scripts/bench/busy.py --model runs/sample-en-fr --arm before=../mtkit-before --arm after=.

Each job runs alone (idle), beside one process that computes without pause, and beside four. All arms are measured in
turn in each round. The fair share is what a program with a thread on each core gets if every core divides its time
equally: on two cores, 75 % of them next to one busy process, and 33 % next to four. A part of a command with a single
thread can get more.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
_LOADS = {"idle": 0, "one busy": 1, "four busy": 4}
_JOBS = ("train", "train-1024", "validate", "native", "ctranslate2", "doctor", "workers")
_LONGEST_S = 600.0  # that a load lasts, whatever happens to this script
_SETTLED_S = 0.3  # until the scheduler has spread a new load
_DISTURBED = 0.1  # cores that programs other than ours use: the measurement is repeated
_MOST_TRIES = 3
_SPIN = """
import os, sys, time
parent, end = os.getppid(), time.monotonic() + float(sys.argv[1])
while time.monotonic() < end and os.getppid() == parent:
    for _ in range(100_000):
        pass
"""


@dataclass(frozen=True)
class Arm:
    """A checkout of mtkit with environment variables."""

    name: str
    folder: Path
    variables: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> "Arm":
        """Read NAME=FOLDER or NAME=FOLDER,VARIABLE=VALUE,..."""
        name, _, rest = text.partition("=")
        folder, *variables = rest.split(",")
        pairs = (variable.partition("=") for variable in variables)
        return cls(name, Path(folder).resolve(), {key: value for key, _, value in pairs})

    @property
    def environment(self) -> dict[str, str]:
        """This process's environment without thread settings, plus the arm's."""
        others = {key: value for key, value in os.environ.items() if not key.startswith(("OMP_", "GOMP_", "KMP_"))}
        return {**others, "PYTHONPATH": str(self.folder), **self.variables}


def fair_share(n_busy: int, n_cores: int) -> float:
    """Return the share of n_cores that a program with a thread on each gets if each core divides its time equally.

    The busy processes spread evenly over the cores. One on two cores leaves a whole core and a half: 0.75.
    """
    fewest, n_more = divmod(n_busy, n_cores)
    return (n_more / (fewest + 2) + (n_cores - n_more) / (fewest + 1)) / n_cores


@contextmanager
def busy_processes(n: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Keep n processes computing for the length of the block."""
    processes = [subprocess.Popen([sys.executable, "-c", _SPIN, str(_LONGEST_S)]) for _ in range(n)]
    try:
        time.sleep(_SETTLED_S)
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


class Worker:
    """A process of an arm that does a job for some seconds when told to, and tells its speed."""

    def __init__(self, arm: Arm, job: str, settings: Sequence[str]) -> None:
        command = [sys.executable, __file__, "--job", job, *settings]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=arm.environment, cwd=arm.folder
        )

    def work(self, seconds: float) -> tuple[float, float]:
        """Return units a second (tokens, sentences or commands), and the CPU time that they took."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(seconds, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"a worker ended with exit code {self.process.wait()}")
        speed, cpu_seconds = json.loads(answer)
        return speed, cpu_seconds

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


def undisturbed_speed(worker: Worker, busy: Sequence[subprocess.Popen[bytes]], seconds: float) -> float:
    """Measure the worker's speed again while programs other than ours compute; in the end, with a note on stderr."""
    for _ in range(_MOST_TRIES):
        started, before = time.monotonic(), all_cpu_seconds() - cpu_seconds_of(busy)
        speed, own = worker.work(seconds)
        others = (all_cpu_seconds() - cpu_seconds_of(busy) - before - own) / (time.monotonic() - started)
        if others <= _DISTURBED:
            return speed
    print(f"disturbed: other programs used {others:.2f} cores", file=sys.stderr)
    return speed


def all_cpu_seconds() -> float:
    """Return the CPU time that all programs have taken since the machine started."""
    row = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return sum(int(row[column]) for column in (1, 2, 3, 6, 7)) / os.sysconf("SC_CLK_TCK")  # no idle, no waiting


def cpu_seconds_of(processes: Sequence[subprocess.Popen[bytes]]) -> float:
    """Return the CPU time that the processes have taken."""
    ticks = 0
    for process in processes:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(arms: Sequence[Arm], job: str, arguments: argparse.Namespace) -> dict[str, dict[str, list[float]]]:
    """Return the speeds of each arm under each load, one a round."""
    settings = ["--model", str(arguments.model.resolve()), "--src", str(arguments.src.resolve())]
    settings += ["--config", str(arguments.config.resolve()), "--lines", str(arguments.lines)]
    speeds: dict[str, dict[str, list[float]]] = {arm.name: {load: [] for load in _LOADS} for arm in arms}
    with ExitStack() as stack:
        workers = {arm.name: Worker(arm, job, settings) for arm in arms}
        for worker in workers.values():
            stack.callback(worker.close)
            worker.work(1.0)  # loads, compiles
        for _ in range(arguments.rounds):
            for load, n_busy in _LOADS.items():
                with busy_processes(n_busy) as processes:
                    for name, worker in workers.items():
                        speeds[name][load].append(undisturbed_speed(worker, processes, arguments.seconds))
            workers = dict(reversed(workers.items()))
    return speeds


def table(job: str, speeds: dict[str, dict[str, list[float]]], n_cores: int) -> str:
    """Return a row for each arm: speed and share of the fair share under each load; 100 % is the first arm, idle."""
    rows = []
    base = statistics.median(next(iter(speeds.values()))["idle"])
    for name, by_load in speeds.items():
        cells = []
        for load, n_busy in _LOADS.items():
            speed = statistics.median(by_load[load])
            cells.append(f"{speed:10.2f} {speed / (base * fair_share(n_busy, n_cores)):6.0%}")
        rows.append(f"{job:<12}{name:<14}{'  '.join(cells)}")
    return "\n".join(rows)


# What follows runs in the workers, with the arm's mtkit.


def _training(arguments: argparse.Namespace, scratch: Path, *overrides: str) -> Iterator[int]:
    """Train, and yield the target tokens of each update."""
    from mtkit.config.reading.loading import load_config
    from mtkit.training.preparation.prepare import prepare
    from mtkit.training.trainer import Trainer
    from mtkit.training.update.checkpoint import Checkpoints

    settings = [
        f"run_dir={scratch}",
        "train.log_every=1000000",
        "train.max_epochs=1000",
        "train.device=cpu",
        *overrides,
    ]
    trainer = Trainer(prepare(load_config(arguments.config, settings), scratch, Checkpoints(scratch / "checkpoints")))
    with trainer.feed:
        while True:
            yield trainer.update().n_tgt_tokens


def _validating(arguments: argparse.Namespace) -> Iterator[int]:
    """Translate sixteen lines at a time in this process, as a validation does; yield their number."""
    import mtkit
    from mtkit.runtime import keep_freed_memory, set_threads

    set_threads(None)
    keep_freed_memory()
    translator = mtkit.Translator.load(arguments.model, device="cpu", engine="native", workers=1)
    lines = _lines(arguments.src)
    while True:
        for first in range(0, len(lines) - 15, 16):
            yield len(translator.translate(lines[first : first + 16]))


def _commands(arguments: argparse.Namespace, scratch: Path) -> Iterator[int]:
    """Run a command to its end again and again; yield 1 for each."""
    lines = scratch / "lines.txt"
    lines.write_text("\n".join(_lines(arguments.src)[: arguments.lines]) + "\n", encoding="utf-8")
    translate = ["translate", "--input", str(lines), "--output", str(scratch / "out.txt"), "--restart", "--engine"]
    options = {
        "native": [*translate, "native"],
        "ctranslate2": [*translate, "ctranslate2"],
        "workers": [*translate, "native", "--set", "decode.workers=2"],
        "doctor": ["doctor", "decode", "--n", "16", "--src", str(lines)],
    }
    command = [
        sys.executable,
        "-m",
        "mtkit",
        *options[arguments.job],
        "--device",
        "cpu",
        "--model",
        str(arguments.model),
    ]
    while True:
        (scratch / "out.txt").unlink(missing_ok=True)
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        yield 1


def _lines(path: Path) -> list[str]:
    from mtkit.pair_files.lines import read_lines

    return list(read_lines(path))


def _work(arguments: argparse.Namespace) -> None:
    """Do the job for as many seconds as each line of stdin asks for, and at least one unit; print units a second."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        if arguments.job in ("train", "train-1024"):
            tokens = 1024 if arguments.job == "train-1024" else 4096
            units = _training(arguments, scratch, f"train.batch_tokens={tokens}")
        else:
            units = _validating(arguments) if arguments.job == "validate" else _commands(arguments, scratch)
        next(units)
        for line in sys.stdin:
            started, cpu_before, done = time.monotonic(), sum(os.times()[:4]), 0
            while not done or time.monotonic() - started < float(line):
                done += next(units)
            speed = done / (time.monotonic() - started)
            print(json.dumps([speed, sum(os.times()[:4]) - cpu_before]), flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arm", action="append", type=Arm.parse, help="NAME=FOLDER[,VARIABLE=VALUE...]; repeat")
    parser.add_argument("--only", action="append", choices=_JOBS, help="jobs to measure; repeat; default: all")
    parser.add_argument("--model", type=Path, default=_ROOT / "runs/sample-en-fr", help="run or bundle")
    parser.add_argument("--src", type=Path, default=_ROOT / "data/sample/test.en", help="text to translate")
    parser.add_argument("--config", type=Path, default=_ROOT / "configs/sample-en-fr.yaml", help="run to train")
    parser.add_argument("--lines", type=int, default=300, help="lines of a file to translate")
    parser.add_argument("--seconds", type=float, default=3.0, help="of a measurement, at least")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write all speeds to this file")
    parser.add_argument("--job", choices=_JOBS, help=argparse.SUPPRESS)  # in a worker
    arguments = parser.parse_args()
    if arguments.job:
        _work(arguments)
        return
    arms = arguments.arm or [Arm("mtkit", _ROOT, {})]
    n_cores = len(os.sched_getaffinity(0))
    heads = [f"{load} {fair_share(n_busy, n_cores):.0%}" for load, n_busy in _LOADS.items()]
    print(f"{'':26}" + "  ".join(f"{head:>17}" for head in heads), flush=True)
    results: dict[str, Any] = {}
    for job in arguments.only or _JOBS:
        results[job] = measure(arms, job, arguments)
        print(table(job, results[job], n_cores), flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

"""`squares.py OUTPUT [--workers N] [--ray] [--slow S] [--n N]`: a job of three stages, for tests.

Stage one writes numbers of the input's lines, stage two their squares, stage three their cubes from both.
"""

import argparse
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mtkit.console import set_up_logging
from mtkit.errors import MtkitError
from mtkit.jobs import line_job
from mtkit.jobs.executors import Executor, InProcess, Processes
from mtkit.jobs.job import Job, Stage, run_job
from mtkit.jobs.shards import shard_folder


@dataclass(frozen=True)
class Numbers:
    """Writes five numbers a shard."""

    slow_s: float
    faults: Path | None = None

    def __call__(self, index: int, folder: Path) -> dict[str, int]:
        time.sleep(self.slow_s)
        if self.faults is not None:  # a file kill-INDEX holds how often the shard kills its process
            (self.faults / f"made-{index}-{time.monotonic_ns()}").touch()
            while (self.faults / f"wait-{index}").exists():
                time.sleep(0.02)
            if (self.faults / f"refuse-{index}").exists():
                raise MtkitError("line 17 is bad")
            fault = self.faults / f"kill-{index}"
            if fault.exists() and (n_left := int(fault.read_text())):
                fault.write_text(str(n_left - 1))
                os.kill(os.getpid(), signal.SIGKILL)
        numbers = range(5 * index, 5 * index + 5)
        (folder / "numbers").write_text("".join(f"{number}\n" for number in numbers))
        return {"numbers": 5, "sum": sum(numbers)}


@dataclass(frozen=True)
class Products:
    """Writes the product of each number of two stages, one after the other."""

    left: Path
    right: Path
    slow_s: float

    def __call__(self, index: int, folder: Path) -> dict[str, int]:
        time.sleep(self.slow_s)
        left, right = (shard_folder(stage, index) / "numbers" for stage in (self.left, self.right))
        pairs = zip(left.read_text().split(), right.read_text().split(), strict=True)
        (folder / "numbers").write_text("".join(f"{int(a) * int(b)}\n" for a, b in pairs))
        return {"numbers": 5}


class CountsItsUses:
    """Loads something at its first shard; counts the shards for which it did."""

    keeps_state = True

    def __init__(self) -> None:
        self.loaded = False

    def __call__(self, index: int, folder: Path) -> dict[str, int]:
        time.sleep(0.05)
        first, self.loaded = not self.loaded, True
        return {"loads": int(first)}


@dataclass(frozen=True)
class LoadCapitals:
    """Makes the work of a line job: capitals. At line 21, a file named kill ends the process, once."""

    folder: Path

    def __call__(self) -> line_job.Work:
        def capitals(lines: Sequence[str], first_line: int) -> tuple[list[str], dict[str, int]]:
            if first_line == 21 and (kill := self.folder / "kill").exists():
                kill.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
            return [line.upper() for line in lines], {"lines": len(lines)}

        return capitals


def loads(output: Path, executor: Executor, n: int) -> int:
    """Return how often n shards loaded what they need."""

    def make(job: Job) -> int:
        counts = job.run(Stage("loading", CountsItsUses(), n))
        job.finish(output.touch)
        return sum(count["loads"] for count in counts)

    return run_job(output, make, inputs=(), settings={}, executor=executor)


def cubes(
    output: Path,
    executor: Executor,
    *,
    n: int = 7,
    slow_s: float = 0.0,
    faults: Path | None = None,
    inputs: tuple[Path, ...] = (),
    settings: dict | None = None,
    restart: bool = False,
) -> int:
    """Write the cubes of 5 * n numbers; return the sum of the numbers."""

    def make(job: Job) -> int:
        counts = job.run(Stage("numbers", Numbers(slow_s, faults), n, sizes=[5] * n, unit="number"))
        numbers, squares = job.folder / "numbers", job.folder / "squares"
        job.run(Stage("squares", Products(numbers, numbers, slow_s), n))
        job.run(Stage("cubes", Products(squares, numbers, slow_s), n))
        job.finish(lambda: job.concatenate("cubes", range(n), "numbers", output))
        return sum(count["sum"] for count in counts)

    return run_job(
        output,
        make,
        inputs=inputs,
        settings={"n": n, **(settings or {})},
        executor=executor,
        restart=restart,
    )


def main() -> None:
    """Run the job from the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("output", type=Path)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--ray-address")
    parser.add_argument("--slow", type=float, default=0.0)
    parser.add_argument("--n", type=int, default=7)
    parser.add_argument("--faults", type=Path)
    args = parser.parse_args()
    set_up_logging(quiet=False)
    executor: Executor = Processes(args.workers) if args.workers else InProcess()
    if args.ray or args.ray_address:
        from mtkit.jobs.on_ray import OnRay

        executor = OnRay(args.ray_address, 2)
    try:
        print(cubes(args.output, executor, n=args.n, slow_s=args.slow, faults=args.faults))
    except MtkitError as error:
        raise SystemExit(f"mtkit: {error}") from None


if __name__ == "__main__":
    main()

"""`killed_runs.py CONFIG FOLDER SEED N`: for test_kills.py; kill a training N times at random moments, until it ends.

Prints a JSON line for each kind of trial: the weights' checksums of the bundle, and how often the run was killed.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

from mtkit.config.reading.loading import load_config
from mtkit.console import set_up_logging
from mtkit.files import sha256_file
from mtkit.runs.train import train


def start(config: Path, run_dir: Path) -> int:
    """Train in a child process; return its id."""
    if pid := os.fork():
        return pid
    code = 1
    try:
        train(load_config(config, [f"run_dir={run_dir}"]))
        code = 0
    finally:
        os._exit(code)


def ended(pid: int) -> bool:
    """Whether the child has ended well; raises RuntimeError if it failed."""
    done, status = os.waitpid(pid, os.WNOHANG)
    if done and status:
        raise RuntimeError(f"the run ended with status {status}")
    return bool(done)


def killed(config: Path, run_dir: Path, rng: random.Random, most: int) -> int:
    """Kill starts of a run after random times, at most `most` times, then let it end; return how many were killed."""
    n_killed = 0
    longest = 1.0
    while True:
        pid, until = start(config, run_dir), time.monotonic() + rng.uniform(0, longest)
        while not (done := ended(pid)) and (n_killed >= most or time.monotonic() < until):
            time.sleep(0.005)
        if done:
            return n_killed
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        n_killed += 1
        longest *= 1.1  # also a busy machine comes to the end


def stopped(config: Path, run_dir: Path, rng: random.Random, most: int) -> int:
    """Stop and continue a run at random moments (SIGSTOP, SIGCONT); return how often."""
    n_stopped, pid = 0, start(config, run_dir)
    while not ended(pid):
        time.sleep(rng.uniform(0.02, 0.2))
        if n_stopped < most and not ended_or_stop(pid):
            time.sleep(rng.uniform(0.05, 0.3))
            os.kill(pid, signal.SIGCONT)
            n_stopped += 1
    return n_stopped


def ended_or_stop(pid: int) -> bool:
    """Stop the child; it stays a child that can be waited for, so the signal never reaches another process."""
    os.kill(pid, signal.SIGSTOP)
    return False


def main(config: Path, folder: Path, seed: int, n: int) -> None:
    """Compare a run that nothing disturbs with runs that are killed and stopped."""
    os.fsync = lambda fd: None  # files survive a killed process without it
    set_up_logging(quiet=True)
    rng, n_killed = random.Random(seed), 0
    trials = {
        "undisturbed": lambda place: killed(config, place, rng, 0),
        "stopped": lambda place: stopped(config, place, rng, 4),
    }
    for name, trial in trials.items():
        print(
            json.dumps([name, trial(folder / name), sha256_file(folder / name / "model" / "model.safetensors")]),
            flush=True,
        )
    while n_killed < n:
        times = killed(config, folder / "killed", rng, min(5, n - n_killed))
        n_killed += max(1, times)
        print(json.dumps(["killed", times, sha256_file(folder / "killed" / "model" / "model.safetensors")]), flush=True)
        shutil.rmtree(folder / "killed")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))

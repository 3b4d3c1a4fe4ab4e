"""Compare what `mtkit plan` predicts for a config with what the run takes: time, memory, disk, steps.

python scripts/bench/plan.py --config CONFIG [--config CONFIG ...] [--set KEY=VALUE ...] [--seconds 30]

Each run goes into a folder of its own, which is removed; a config's run_dir is not touched. Other work on the machine
spoils the seconds; the seconds of processor, foreseen with the share of it that the probe got, suffer less.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

# `mtkit train`, and then the most GPU memory that it has had, on the last line of stdout.
_TRAIN = """
import sys, torch
from mtkit.cli import app
app(sys.argv[1:], standalone_mode=False)
print(torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0)
"""


def main() -> None:
    """Plan and run each config; a line a figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, action="append", required=True)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--seconds", type=float, default=30.0)
    args = parser.parse_args()
    for config in args.config:
        with tempfile.TemporaryDirectory() as folder:
            compare(config, args.set, args.seconds, Path(folder) / "run")


def compare(config: Path, overrides: list[str], seconds: float, run_dir: Path) -> None:
    """Print what was foreseen for the config, what happened, and the ratio."""
    settings = [f"--config={config}", *(f"--set={item}" for item in (*overrides, f"run_dir={run_dir}"))]
    printed, planning = run(["-m", "mtkit", "--quiet", "plan", "--json", f"--seconds={seconds}", *settings])
    foreseen: dict[str, Any] = json.loads(printed)
    if run_dir.exists():
        raise SystemExit(f"{run_dir}: mtkit plan has left something there")
    printed, training = run(["-c", _TRAIN, "--quiet", "train", *settings])
    manifest = json.loads((run_dir / "model" / "manifest.json").read_text(encoding="utf-8"))
    disk = sum(file.stat().st_size for file in run_dir.rglob("*") if file.is_file())
    memory = float(printed.splitlines()[-1]) if foreseen["device"].startswith("cuda") else training.resident
    total = foreseen["time"]["total"] or 0.0
    rows = {
        "seconds": (total, training.seconds),
        "seconds of processor": (total * planning.cpu_seconds / planning.seconds, training.cpu_seconds),
        "memory, MiB": (foreseen["memory"]["peak"] / 2**20, memory / 2**20),
        "disk, MiB": (foreseen["disk"]["total"] / 2**20, disk / 2**20),
        "steps": (foreseen["steps"] or 0, manifest["training"]["step"]),
    }
    print(f"{config.stem + ' ' + ' '.join(overrides):<40}{'foreseen':>12}{'happened':>12}{'ratio':>8}")
    for name, (before, after) in rows.items():
        print(f"  {name:<38}{before:>12,.1f}{after:>12,.1f}{before / after:>8.2f}", flush=True)


class Usage(NamedTuple):
    """What a process took."""

    seconds: float
    cpu_seconds: float  # of all its threads
    resident: float  # bytes, at most


def run(arguments: list[str]) -> tuple[str, Usage]:
    """What Python prints with these arguments, and what that took."""
    started = time.monotonic()
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"failed: {' '.join(arguments)}")
    resident = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return printed, Usage(time.monotonic() - started, usage.ru_utime + usage.ru_stime, resident)


if __name__ == "__main__":
    main()

"""What `mtkit plan` says about a config, and what a run of it then takes: time, memory, disk, steps.

python scripts/bench/plan.py --config CONFIG [--config CONFIG ...] [--set KEY=VALUE ...] [--seconds 30]

Each run goes into a folder of its own, which is removed; a config's run_dir is not touched.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

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
    settings = [f"--set={item}" for item in (*overrides, f"run_dir={run_dir}")]
    foreseen = plan([*settings, f"--config={config}", f"--seconds={seconds}"])
    if run_dir.exists():
        raise SystemExit(f"{run_dir}: mtkit plan has left something there")
    happened = train([*settings, f"--config={config}"], run_dir, on_gpu=foreseen["device"].startswith("cuda"))
    rows = {
        "seconds": (foreseen["time"]["total"], happened["seconds"]),
        "memory, MiB": (foreseen["memory"]["measured"] / 2**20, happened["memory"] / 2**20),
        "disk, MiB": (foreseen["disk"]["total"] / 2**20, happened["disk"] / 2**20),
        "steps": (foreseen["steps"], happened["steps"]),
    }
    print(f"{config.stem + ' ' + ' '.join(overrides):<40}{'foreseen':>12}{'happened':>12}{'ratio':>8}")
    for name, (before, after) in rows.items():
        print(f"  {name:<38}{before or 0:>12,.1f}{after:>12,.1f}{(before or 0) / after:>8.2f}", flush=True)


def plan(arguments: list[str]) -> dict[str, Any]:
    """What `mtkit plan` says."""
    command = [sys.executable, "-m", "mtkit", "--quiet", "plan", "--json", *arguments]
    found: dict[str, Any] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return found


def train(arguments: list[str], run_dir: Path, *, on_gpu: bool) -> dict[str, float]:
    """What `mtkit train` takes: seconds, bytes of memory at most, bytes on disk at the end, steps."""
    started = time.monotonic()
    command = [sys.executable, "-c", _TRAIN, "--quiet", "train", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        printed = process.stdout.read().splitlines()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"mtkit train failed: {' '.join(command[3:])}")
    seconds = time.monotonic() - started
    manifest = json.loads((run_dir / "model" / "manifest.json").read_text(encoding="utf-8"))
    resident = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {
        "seconds": seconds,
        "memory": float(printed[-1]) if on_gpu else resident,
        "disk": sum(file.stat().st_size for file in run_dir.rglob("*") if file.is_file()),
        "steps": manifest["training"]["step"],
    }


if __name__ == "__main__":
    main()

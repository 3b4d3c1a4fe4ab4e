"""One process and two that train the same model on the CPU: loss curve, weights, BLEU; other numbers; a killed worker.

    OMP_NUM_THREADS=1 .venv/bin/python scripts/bench/processes.py --folder build/processes --steps 300

Real commands (`python -m mtkit train`, alone or under torchrun) on a part of the sample corpus, with dropout 0.1 and
the same four batches an update. Each run is compared with that of one process: the largest relative difference of the
loss that a step logs, among the first 20 steps and among all; the length of the difference of all weights after the
last step, relative to the weights'; dev loss and BLEU of the finished model. Sums are taken in another order, and Adam
makes a whole step of a gradient that is nothing but rounding, so that the runs part slowly. The bias of attention keys
is left out: it adds the same to all of a query's scores, so that its gradient is never more than rounding. Exit code 1
if a loss differs by more than 1e-5 in the first 20 steps, or by more than 1e-2 later, or if a job fails.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from sample_part import write_sample_part
from torch import Tensor

_FIRST_STEPS = 20
_BOUNDS = (1e-5, 1e-2)  # of a loss' relative difference: in the first steps, in all
_PATIENCE_S = 1800
_SETTINGS = (
    *("model.d_model=64", "model.d_ff=256", "train.batch_tokens=256", "train.accumulate=4", "train.max_epochs=null"),
    *("train.lr=3.0e-3", "train.log_every=1", "train.validate_sentences=50", "train.average_best=1"),
    *("train.precision=fp32", "train.threads=1", "train.device=cpu", "train.schedule=inverse_sqrt"),
)


@dataclass(frozen=True)
class Run:
    """A run folder and what its starts are to be."""

    name: str
    starts: tuple[tuple[int, float], ...]  # processes, and the share of all steps at which this start ends
    settings: tuple[str, ...] = ()


_SPREAD = ("train.shard_above_gib=0",)
RUNS = (
    Run("one process", ((1, 1.0),)),
    Run("two, DDP", ((2, 1.0),)),
    Run("two, FSDP2", ((2, 1.0),), _SPREAD),
    Run("one, two (DDP), one", ((1, 1 / 3), (2, 2 / 3), (1, 1.0))),
    Run("two (FSDP2), one", ((2, 0.5), (1, 1.0)), _SPREAD),
)


def main() -> int:
    """Make the runs, print the table and how the killed job ended; returns the exit code."""
    args = _arguments()
    if args.folder.exists():
        raise SystemExit(f"{args.folder} exists: take another folder, or remove it")
    sixth = max(1, args.steps // 6)
    settings = [*_SETTINGS, f"train.validate_every={sixth}", f"train.warmup_steps={sixth}"]
    settings += write_sample_part(args.folder / "data", 6000)
    reference, within = args.folder / "one-process", True
    print(
        f"| training | seconds | loss, {_FIRST_STEPS} steps | loss, all | weights | dev loss | dev BLEU |\n{'|-' * 7}|"
    )
    for run in RUNS:
        folder = args.folder / re.sub(r"\W+", "-", run.name).strip("-")
        started = time.monotonic()
        for n_processes, share in run.starts:
            limit = f"train.max_steps={round(share * args.steps)}"
            job = _start(n_processes, folder, [*settings, *run.settings, limit])
            if job.wait(_PATIENCE_S):
                raise SystemExit(f"{run.name}: exit code {job.returncode}, see {folder / 'log.txt'}")
        within &= _report(run.name, time.monotonic() - started, folder, reference)
    folder = args.folder / "killed"
    settings = [*settings, f"train.max_steps={args.steps}"]
    ending = _kill_a_worker(folder, settings)
    started = time.monotonic()
    if _start(2, folder, settings).wait(_PATIENCE_S):
        raise SystemExit(f"the start after the kill failed, see {folder / 'log.txt'}")
    within &= _report("two, one killed, started again", time.monotonic() - started, folder, reference)
    print(ending)
    return 0 if within else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="for all runs; must not exist yet")
    parser.add_argument("--steps", type=int, default=300)
    return parser.parse_args()


def _start(n_processes: int, run_dir: Path, settings: list[str]) -> "subprocess.Popen[bytes]":
    run_dir.mkdir(parents=True, exist_ok=True)
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={n_processes}"]
    config = Path(__file__).resolve().parents[2] / "configs" / "sample-en-fr.yaml"
    options = [part for setting in [*settings, f"run_dir={run_dir.resolve()}"] for part in ("--set", setting)]
    program = [*(torchrun if n_processes > 1 else []), "-m", "mtkit", "train", "--config", str(config), *options]
    with (run_dir / "log.txt").open("ab") as log:
        return subprocess.Popen([sys.executable, *program], stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def _report(name: str, seconds: float, folder: Path, reference: Path) -> bool:
    """Print a line of the table; returns whether all steps are there, and their losses alike."""
    losses, expected = _losses(folder), _losses(reference)
    apart = {step: abs(losses[step] / expected[step] - 1) for step in losses.keys() & expected.keys()}
    bounded = max(apart[step] for step in apart if step <= _FIRST_STEPS), max(apart.values())
    newest = f"checkpoints/step-{max(expected)}/model.safetensors"
    weights, theirs = (_flat(load_file(run_dir / newest)) for run_dir in (folder, reference))
    dev = json.loads((folder / "model" / "manifest.json").read_text(encoding="utf-8"))["training"]["dev"]
    figures = [f"{seconds:.0f}", *(f"{part:.1e}" for part in (*bounded, (weights - theirs).norm() / theirs.norm()))]
    print("|", " | ".join([name, *figures, f"{dev['loss']:.5f}", f"{dev['bleu']:.2f}"]), "|", flush=True)
    return losses.keys() == expected.keys() and all(part <= bound for part, bound in zip(bounded, _BOUNDS, strict=True))


def _losses(run_dir: Path) -> dict[int, float]:
    lines = (run_dir / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return {entry["step"]: entry["loss"] for entry in map(json.loads, lines) if entry["kind"] == "train"}


def _flat(weights: dict[str, Tensor]) -> Tensor:
    """All weights in a row."""
    return torch.cat([weight.flatten() for _, weight in sorted(weights.items())]).double()


def _kill_a_worker(run_dir: Path, settings: list[str]) -> str:
    """Kill the second of two processes after the first checkpoint; returns how the job ended."""
    job = _start(2, run_dir, settings)
    until = time.monotonic() + _PATIENCE_S
    while not any((run_dir / "checkpoints").glob("step-*")):
        if job.poll() is not None or time.monotonic() > until:
            raise SystemExit(f"no checkpoint comes, see {run_dir / 'log.txt'}")
        time.sleep(0.02)
    os.kill(_worker(job.pid, rank=1), signal.SIGKILL)
    killed = time.monotonic()
    code = job.wait(_PATIENCE_S)
    seconds = time.monotonic() - killed
    log = (run_dir / "log.txt").read_text(encoding="utf-8", errors="replace")
    said = [line for line in log.splitlines() if line.startswith("mtkit: ")]
    ended = f"Process 1 killed (SIGKILL): the job ended after {seconds:.1f} s with exit code {code}, and said:"
    return "\n".join(["", ended, *said])


def _worker(torchrun: int, rank: int) -> int:
    for pid in Path(f"/proc/{torchrun}/task/{torchrun}/children").read_text(encoding="ascii").split():
        if f"\0RANK={rank}\0" in Path(f"/proc/{pid}/environ").read_text(encoding="utf-8", errors="replace"):
            return int(pid)
    raise SystemExit(f"torchrun (pid {torchrun}) has no process of rank {rank}")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())

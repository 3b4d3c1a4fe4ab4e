"""A training run that is killed at random moments and started again, against the same run that is never stopped.

    .venv/bin/python scripts/bench/kill.py --kills 50 --folder build/kill

Real processes (`python -m mtkit train`), on a part of the sample corpus or, with --config, on anything small. The
moments are drawn from a seed: a step and a phase (start-up, training, validation, saving, making the model), then a
moment within it. Which phase a kill hit in truth is read off the disk afterwards. At the end the two runs' checkpoints,
models and metrics are compared bit for bit, times left out. Exit code 1 if anything differs or a phase was not hit.

With --signal HUP (or TERM, INT) the process is asked to stop, saves and leaves; it must do so by itself.
"""

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sample_part import write_sample_part

from mtkit.config.reading.loading import load_config
from mtkit.config.training import TrainConfig

PHASES = {"training": 5, "validation": 3, "saving": 3, "start": 1, "model": 1}  # and how often each is aimed at
SECONDS = {"training": 0.1, "validation": 0.05, "saving": 0.01, "start": 4.0, "model": 0.3}  # a kill falls within these
MUST_BE_HIT = ("training", "validation", "saving")
TIMES = {"seconds", "timing", "tokens_per_s", "run_s", "minutes"}
PATIENCE_S = 600
_SMALL = (
    *("model.d_model=32", "model.d_ff=64", "model.n_heads=2", "model.n_encoder_layers=1", "model.n_decoder_layers=1"),
    *("train.batch_tokens=512", "train.accumulate=2", "train.max_epochs=null", "train.max_steps=200"),
    *("train.warmup_steps=20", "train.log_every=1", "train.validate_every=10", "train.validate_sentences=8"),
    *("train.average_best=3", "train.device=cpu", "decode.max_len_factor=1.0", "decode.max_len_constant=5"),
)


def main() -> int:
    """Run both, print the table of kills and what differs in the end; returns the exit code."""
    args = _arguments()
    reference, killed = args.folder / "never-stopped", args.folder / "killed"
    if reference.exists() or killed.exists():
        raise SystemExit(f"{args.folder} holds the runs of an earlier test: take another folder, or remove it")
    config, settings = _settings(args.config, args.set, args.folder)
    cfg = load_config(config, settings).train
    if cfg.max_steps is None or not isinstance(cfg.validate_every, int) or cfg.log_every != 1:
        raise SystemExit("kill.py needs train.max_steps, train.validate_every in steps and train.log_every=1")
    options = [option for setting in settings for option in ("--set", setting)]
    command = [sys.executable, "-m", "mtkit", "train", "--config", str(config), *options]
    print("$", " ".join(command[1:]), flush=True)
    if args.fork:
        import mtkit.runs.train  # noqa: F401
    started = time.monotonic()
    faults = _faults("the run that is never stopped", _Child(command, reference, args.fork).wait())
    print(f"never stopped: {time.monotonic() - started:.1f} s", flush=True)
    hits = Counter(_kill_often(command, killed, args, cfg))
    faults += _faults("the last start", _Child(command, killed, args.fork).wait())
    print("kills by phase:", ", ".join(f"{phase} {n}" for phase, n in hits.most_common()))
    wanted = MUST_BE_HIT if args.signal == "KILL" else ()  # a run that is asked to stop ends its saving first
    faults += [f"no kill hit {phase}: take another --seed or more --kills" for phase in wanted if not hits[phase]]
    faults += [f"{n} starts {phase}, before they were killed" for phase, n in hits.items() if phase.startswith("ended")]
    faults += [f"DIFFERS: {difference}" for difference in compare(reference, killed)]
    if faults:
        print("\n".join(faults))
        return 1
    print(f"model.safetensors: sha256 {_sha256(killed / 'model' / 'model.safetensors')}")
    print(f"after {hits.total() - hits['nothing']} kills equal, bit for bit: checkpoints, model, metrics")
    return 0


def _faults(start: str, code: int) -> list[str]:
    return [f"{start} ended with exit code {code}: see log.txt in its folder"] if code else []


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="for both runs; must not hold any yet")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--signal", choices=("KILL", "HUP", "TERM", "INT"), default="KILL")
    parser.add_argument("--fork", action="store_true", help="fork the processes from this one: quicker starts")
    parser.add_argument("--config", type=Path, help="another one: with max_steps, validate_every in steps, log_every 1")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE, as in mtkit train")
    return parser.parse_args()


def _settings(config: Path | None, overrides: Sequence[str], folder: Path) -> tuple[Path, list[str]]:
    """The config to train, and what is set beside it."""
    if config is not None:
        return config.resolve(), list(overrides)
    sample = Path(__file__).resolve().parents[2] / "configs" / "sample-en-fr.yaml"
    data = write_sample_part(folder / "data", 3000)
    return sample, [*_SMALL, "train.threads=1", "train.precision=fp32", *data, *overrides]


class _Child:
    """A process that trains: a program of its own, or forked from this one, which has loaded torch already."""

    def __init__(self, command: Sequence[str], run_dir: Path, forked: bool) -> None:
        run_dir.mkdir(parents=True, exist_ok=True)
        arguments = [*command, "--set", f"run_dir={run_dir.resolve()}"]
        self.code: int | None = None
        with (run_dir / "log.txt").open("ab") as file:
            if not forked:
                self.pid = subprocess.Popen(arguments, stdout=file, stderr=file, stdin=subprocess.DEVNULL).pid
            elif not (pid := os.fork()):
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
                self._run(arguments)
            else:
                self.pid = pid

    @staticmethod
    def _run(arguments: Sequence[str]) -> None:
        from mtkit.cli import main as mtkit

        code: Any = 1
        sys.argv = ["mtkit", *arguments[3:]]
        try:
            mtkit()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)

    def poll(self) -> int | None:
        """The exit code, or minus the signal; None while it runs."""
        if self.code is None and (status := os.waitpid(self.pid, os.WNOHANG))[0]:
            self.code = os.waitstatus_to_exitcode(status[1])
        return self.code

    def wait(self) -> int:
        """The exit code; a process that takes too long is killed."""
        until = time.monotonic() + PATIENCE_S
        while (code := self.poll()) is None:
            if time.monotonic() > until:
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(0.01)
        return code


def _kill_often(command: Sequence[str], run_dir: Path, args: argparse.Namespace, cfg: TrainConfig) -> Iterator[str]:
    """Start and kill the run; yields the phase that each kill hit, or that the process ended by itself."""
    every, n_steps = cfg.validate_every, cfg.max_steps
    assert isinstance(every, int) and n_steps is not None
    rng = random.Random(args.seed)
    number = getattr(signal, f"SIG{args.signal}")
    codes = {-number} if args.signal == "KILL" else {-number, 130}  # before it listens, it ends as any process would
    last = n_steps - 1 if args.signal == "KILL" else n_steps - 3 * every  # what a request saves must be gone at the end
    targets = sorted(rng.randrange(1, last) for _ in range(args.kills))
    phases = rng.choices([*PHASES], [*PHASES.values()], k=args.kills)
    if args.signal == "KILL":
        phases = [*(p if p != "model" else "training" for p in phases[:-2]), "model", "model"]
    else:
        phases = [phase if phase in MUST_BE_HIT else "training" for phase in phases]
    print(
        f"{'kill':>4} {'aimed at':<12}{'from step':>9}  {'hit':<12}{'newest step':>11} {'checkpoints':<22}{'code':>5}"
    )
    for i, (target, phase) in enumerate(zip(targets, phases, strict=True), start=1):
        moment = _Moment(run_dir, every, n_steps)
        process = _Child(command, run_dir, args.fork)
        if moment.wait_for(phase, target, process, rng):
            os.kill(process.pid, number)
        code = process.wait()
        missed = phase == "model" and code == 0  # the last moments of a run: it may end before it is killed
        hit = "nothing" if missed else moment.phase() if code in codes else f"ended with exit code {code}"
        names = " ".join(path.name for path in sorted((run_dir / "checkpoints").glob("step-*")))
        print(f"{i:>4} {phase:<12}{target:>9}  {hit:<12}{moment.newest()[1]:>11} {names:<22}{code:>5}", flush=True)
        yield hit


class _Moment:
    """Where a start of the run stands, as its files tell."""

    def __init__(self, run_dir: Path, validate_every: int, n_steps: int) -> None:
        self.run_dir = run_dir
        self.every = validate_every
        self.n_steps = n_steps
        self._before = self._metrics_file()

    def wait_for(self, phase: str, step: int, process: _Child, rng: random.Random) -> bool:
        """Wait for the phase, at this step or later, and then for a random moment in it; False: the process ended."""
        until = time.monotonic() + PATIENCE_S
        while phase != "start" and not self._is_in(phase, step):
            if process.poll() is not None or time.monotonic() > until:
                return False
            time.sleep(0.0005)
        time.sleep(rng.uniform(0, SECONDS[phase]))
        return process.poll() is None

    def phase(self) -> str:
        """What the run was doing, as seen after it ended."""
        return next(
            phase for phase in ("start", "saving", "model", "validation", "training") if self._is_in(phase, step=0)
        )

    def newest(self) -> tuple[str, int]:
        """Kind and step of the metrics log's last line of figures."""
        path = self.run_dir / "metrics.jsonl"
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        for entry in map(json.loads, reversed(lines)):
            if entry["kind"] in ("train", "validation"):
                return entry["kind"], entry["step"]
        return "none", 0

    def _is_in(self, phase: str, step: int) -> bool:
        if self._metrics_file() == self._before:
            return phase == "start"
        kind, newest = self.newest()
        saved = (self.run_dir / "checkpoints" / f"step-{newest}" / "manifest.json").exists()
        writing = [*(self.run_dir / "checkpoints").glob(".step-*")]
        return (
            newest >= step
            and {
                "start": False,
                "training": kind == "train" or (saved and newest < self.n_steps),
                "validation": kind == "train" and newest % self.every == 0 and not writing,
                "saving": bool(writing) or (kind == "validation" and not saved),
                "model": kind == "validation" and saved and newest == self.n_steps,
            }[phase]
        )

    def _metrics_file(self) -> int | None:
        """Another one from the moment on that the run is ready to make updates: then it is written again."""
        try:
            return (self.run_dir / "metrics.jsonl").stat().st_ino
        except FileNotFoundError:
            return None


def compare(reference: Path, killed: Path) -> Iterator[str]:
    """What differs between the two runs: checkpoints, model and metrics; times and picture left out."""
    for name in ("checkpoints", "model"):
        files = [_files(run_dir / name) for run_dir in (reference, killed)]
        for file in sorted(files[0].symmetric_difference(files[1])):
            yield f"{name}/{file}: in one of the runs only"
        for file in sorted(files[0] & files[1]):
            contents = [_untimed(run_dir / name / file) for run_dir in (reference, killed)]
            if contents[0] != contents[1]:
                yield f"{name}/{file}"
    lines = [(run_dir / "metrics.jsonl").read_text(encoding="utf-8").splitlines() for run_dir in (reference, killed)]
    metrics = [[_without_times(json.loads(line)) for line in each] for each in lines]
    if metrics[0] != metrics[1]:
        steps = [new["step"] for old, new in zip(*metrics, strict=False) if old != new]
        yield f"metrics.jsonl: {len(metrics[0])} and {len(metrics[1])} lines; the first that differs: step {steps[:1]}"


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def _untimed(path: Path) -> Any:
    """The file's content; of JSON and of a config without what cannot be the same."""
    if path.suffix == ".json":
        return _without_times(json.loads(path.read_text(encoding="utf-8")))
    if path.name == "config.yaml":
        return [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("run_dir:")]
    return _sha256(path)


def _without_times(values: Any) -> Any:
    if isinstance(values, list):
        return [_without_times(value) for value in values]
    if isinstance(values, dict):  # the checksums of files that hold times are left out too: the files are compared
        skipped = TIMES | {"state.json", "config.yaml"}
        return {key: _without_times(value) for key, value in values.items() if key not in skipped}
    return values


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())

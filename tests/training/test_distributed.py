"""Several processes, started by torchrun on the CPU, train the model that one would, and end together."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from mtkit.config.loading import dump_config
from mtkit.config.schema import TrainConfig
from mtkit.errors import ConfigError
from mtkit.training import trainer
from mtkit.training.distributed import Processes
from mtkit.training.metrics_log import read_metrics
from mtkit.training.process_group import ProcessGroup
from mtkit.training.sharding import must_shard
from mtkit.training.trainer import train

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available() or not Path("/proc/self/environ").exists(),
    reason="needs torch.distributed, and Linux to find the processes",
)
PATIENCE_S = 300  # for what takes seconds: other work on the machine must not fail a test
STEPS = 30
# 9 batches an epoch: of its last update the second of two processes gets none
SETTINGS = {"batch_tokens": 265, "log_every": 1, "validate_every": 10, "max_steps": STEPS}


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch):
    """Drawing takes longer than these runs."""
    monkeypatch.setattr(trainer, "plot_curves", lambda run_dir: None)


@pytest.fixture(scope="module")
def alone(tmp_path_factory, config_of):
    """The folder of a run that one process made."""
    run_dir = tmp_path_factory.mktemp("alone") / "run"
    train(config_of(run_dir, **SETTINGS))
    return run_dir


class Job:
    """`torchrun ... -m mtkit train` with a config; it is ended with the block."""

    def __init__(self, cfg, n_processes=2):
        folder = cfg.run_dir.parent
        (folder / "config.yaml").write_text(dump_config(cfg), encoding="utf-8")
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={n_processes}"]
        self.log = folder / "job.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*torchrun, "-m", "mtkit", "train", "--config", str(folder / "config.yaml")],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"},
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in self.workers().values():
            os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()

    def workers(self):
        """Process ids by rank."""
        pids = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        found = {}
        for pid in pids.read_text().split() if pids.exists() else []:
            rank = re.search(r"\0RANK=(\d+)", Path(f"/proc/{pid}/environ").read_text())
            if rank:
                found[int(rank[1])] = int(pid)
        return found

    def finish(self):
        """Exit code and everything that was printed."""
        code = self.process.wait(PATIENCE_S)
        return code, self.log.read_text(encoding="utf-8", errors="replace")

    def wait_for(self, path):
        until = time.monotonic() + PATIENCE_S
        while not path.exists():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < until, f"{path} does not appear"
            time.sleep(0.05)


def figures(run_dir, kind="train"):
    """By step, the logged figures that do not depend on time."""
    entries = [entry for entry in read_metrics(run_dir / "metrics.jsonl") if entry["kind"] == kind]
    return {e.pop("step"): {k: v for k, v in e.items() if k not in ("kind", "tokens_per_s", "run_s")} for e in entries}


def assert_alike(run_dir, reference, relative):
    """The same figures of every step and of every validation, and the same weights."""
    for kind, n in (("train", STEPS), ("validation", STEPS // 10)):
        found, expected = figures(run_dir, kind), figures(reference, kind)
        assert len(expected) == n
        assert found.keys() == expected.keys()
        for step, values in expected.items():
            assert found[step] == pytest.approx(values, rel=relative), f"step {step}"
    for name in (f"checkpoints/step-{STEPS}/model.safetensors", "model/model.safetensors"):
        weights = load_file(run_dir / name)
        for key, weight in load_file(reference / name).items():
            if key.endswith(("qkv_proj.bias", "kv_proj.bias")):
                continue  # the keys' bias has no influence: its gradient is rounding noise, which Adam magnifies
            torch.testing.assert_close(weights[key], weight, rtol=0, atol=1e-4, msg=key)


def test_two_processes_have_the_loss_curve_and_the_weights_of_one(config_of, alone, tmp_path):
    with Job(config_of(tmp_path / "run", **SETTINGS)) as job:
        code, printed = job.finish()
    assert code == 0, printed
    n_batches = int(re.search(r"; (\d+) batches an epoch", printed)[1])
    assert n_batches % 2 == 1, "the last update of an epoch must leave the second process without a batch"
    assert printed.count("batches an epoch") == 1, "only the first process logs"
    assert printed.count(f"{tmp_path / 'run' / 'model'}\n") == 2, "the log's last line, and the result, once each"
    assert_alike(tmp_path / "run", alone, relative=1e-4)


def test_a_worker_that_is_killed_ends_the_job_and_the_next_start_goes_on(config_of, alone, tmp_path):
    cfg = config_of(tmp_path / "run", **{**SETTINGS, "max_steps": 100_000})
    with Job(cfg) as job:
        job.wait_for(cfg.run_dir / "checkpoints" / "step-10")
        killed = job.workers()[1]
        os.kill(killed, signal.SIGKILL)
        code, printed = job.finish()
    assert code == 1
    assert printed.count("mtkit: ") == 1
    assert f"mtkit: process 1 (pid {killed}) of the 2 that train together has died" in printed
    assert "run the same command again" in printed
    assert "forcefully exiting" not in printed, "the other ends by itself, torchrun need not kill it after 30 s"
    newest = max(int(path.name.removeprefix("step-")) for path in (cfg.run_dir / "checkpoints").glob("step-*"))
    train(config_of(cfg.run_dir, **{**SETTINGS, "max_steps": max(newest + 5, STEPS)}))
    found, expected = figures(cfg.run_dir), figures(alone)
    assert list(found) == list(range(1, len(found) + 1)), "no step is missing, none is there twice"
    assert all(found[step] == pytest.approx(values, rel=1e-4) for step, values in expected.items())


def test_what_is_wrong_with_the_data_is_said_once(config_of, tmp_path):
    (tmp_path / "bad.en").write_text("one\n\n")
    (tmp_path / "bad.fr").write_text("\nun\n")
    files = {"src": str(tmp_path / "bad.en"), "tgt": str(tmp_path / "bad.fr")}
    with Job(config_of(tmp_path / "run", data={"train": [files], "dev": files})) as job:
        code, printed = job.finish()
    assert code == 1
    assert printed.count("none has text on both sides") == 1
    assert printed.count("mtkit: ") == 1


@pytest.mark.slow
def test_a_run_goes_on_with_two_processes_and_with_one_again(config_of, alone, tmp_path):
    train(config_of(tmp_path / "run", **{**SETTINGS, "max_steps": 10}))
    with Job(config_of(tmp_path / "run", **{**SETTINGS, "max_steps": 20})) as job:
        code, printed = job.finish()
    assert code == 0, printed
    assert "resuming after step 10" in printed
    train(config_of(tmp_path / "run", **SETTINGS))
    assert_alike(tmp_path / "run", alone, relative=1e-4)


@pytest.mark.slow
def test_weights_spread_over_processes_train_alike_and_leave_the_same_files(config_of, alone, tmp_path):
    """In two starts: what the first has saved is spread again."""
    for steps in (10, STEPS):
        with Job(config_of(tmp_path / "run", **{**SETTINGS, "max_steps": steps, "shard_above_gib": 0})) as job:
            code, printed = job.finish()
        assert code == 0, printed
    assert_alike(tmp_path / "run", alone, relative=1e-3)
    state, expected = (
        torch.load(folder / f"checkpoints/step-{STEPS}/optimizer.pt", weights_only=True)
        for folder in (tmp_path / "run", alone)
    )
    assert state["param_groups"] == expected["param_groups"]
    for number, values in expected["state"].items():
        assert {name: value.shape for name, value in values.items()} == {
            name: value.shape for name, value in state["state"][number].items()
        }


@pytest.mark.slow
@pytest.mark.parametrize("who", ["torchrun", 1])
def test_a_stop_request_reaches_all_processes_and_saves(config_of, tmp_path, who):
    cfg = config_of(tmp_path / "run", **{**SETTINGS, "max_steps": 100_000, "validate_every": 100_000})
    with Job(cfg) as job:
        job.wait_for(cfg.run_dir / "metrics.jsonl")
        while len(figures(cfg.run_dir)) < 5:
            time.sleep(0.1)
        os.kill(job.process.pid if who == "torchrun" else job.workers()[who], signal.SIGTERM)
        code, printed = job.finish()
    assert code != 0
    assert printed.count("mtkit: interrupted") == 1
    saved = list((cfg.run_dir / "checkpoints").glob("step-*"))
    assert len(saved) == 1
    assert int(saved[0].name.removeprefix("step-")) >= 5


def test_batches_that_cannot_be_shared_out_are_refused():
    group = ProcessGroup.__new__(ProcessGroup)
    group.size = 4
    with pytest.raises(ConfigError, match=r"train\.accumulate=6: .* among the 4 processes; .* such as 4"):
        group.check(TrainConfig(accumulate=6, max_steps=5000))
    group.check(TrainConfig(accumulate=8, max_steps=5000))


def test_a_process_alone_shares_with_nobody():
    alone = Processes()
    assert alone.is_main
    assert alone.on_main(lambda: 3) == 3
    assert alone.sums(1, 2.5) == [1, 2.5]


@pytest.mark.parametrize(("limit", "spread"), [(None, False), (0.0, True), (1e-6, False), (9e-7, True)])
def test_weights_are_spread_above_a_size(limit, spread):
    """61 weights need 61 x 16 bytes, 9.09e-7 GiB; on a CPU without a limit they never are."""
    model = torch.nn.Linear(60, 1)
    assert must_shard(model, TrainConfig(max_steps=5000, shard_above_gib=limit)) == spread

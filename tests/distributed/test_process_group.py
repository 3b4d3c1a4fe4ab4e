"""Several processes that torchrun starts on the CPU train the model that one would, and end together."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import cast

import forked_job
import pytest
import torch
from safetensors.torch import load_file

import mtkit.__main__
from mtkit.config.model import ModelConfig
from mtkit.config.reading.loading import dump_config
from mtkit.config.training import TrainConfig
from mtkit.distributed.communicator import Communicator
from mtkit.distributed.launch import processes_of_job
from mtkit.distributed.process_group import ProcessGroup
from mtkit.distributed.weights import CopiedWeights, empty_batch, must_shard
from mtkit.errors import ConfigError, MtkitError, TrainingError
from mtkit.model.transformer import Transformer
from mtkit.runs.train import train
from mtkit.tokens.special_ids import BOS_ID, PAD_ID
from mtkit.training.metrics_log import read_metrics
from mtkit.training.preparation.prepare import prepare
from mtkit.training.update.checkpoint import Checkpoints
from mtkit.training.update.optimizer_step import batch_loss

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available() or not Path("/proc/self/environ").exists(),
    reason="needs torch.distributed, and Linux to find the processes",
)
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "mtkit"]
PATIENCE_S = 300  # for what takes seconds: other work on the machine must not fail a test
STEPS = 30
# 9 batches an epoch: of its last update the second of two processes gets none
SETTINGS = {
    "batch_tokens": 265,
    "log_every": 1,
    "validate_every": 10,
    "max_steps": STEPS,
    "schedule": "schedule_free",  # with a mean that each process holds or shares
    "model": {"positions": "marian"},  # with rows that training leaves as they are
}


@pytest.fixture(scope="module")
def config_of(config_of, corpus, tmp_path_factory):
    """With a dev sentence that is longer than a table of positions is at first: it grows in one process alone."""
    dev = tmp_path_factory.mktemp("dev") / "dev.tsv"
    pairs = zip(*(Path(corpus["dev"][side]).read_text().splitlines() for side in ("src", "tgt")), strict=True)
    lines = ["\t".join(pair) for pair in pairs]
    dev.write_text("".join(f"{line}\n" for line in [*lines, "\t".join([lines[0].split("\t")[0] + " a" * 150] * 2)]))
    two = {"data": {**corpus, "dev": {"tsv": str(dev)}}, "accumulate": 2}  # an update has a batch for each process
    return lambda run_dir, **changes: config_of(run_dir, **{**two, **changes})


@pytest.fixture(scope="module")
def alone(tmp_path_factory, config_of):
    """The folder of a run that one process made."""
    run_dir = tmp_path_factory.mktemp("alone") / "run"
    train(config_of(run_dir, **SETTINGS))
    return run_dir


def forks(n, program=mtkit.__main__.__file__):
    """What to start instead of torchrun where a test is not about it; it loads torch once for n processes."""
    return [forked_job.__file__, str(n), str(program)]


class Job:
    """`torchrun ... -m mtkit train`, or another program that does it, with a config; it is ended with the block."""

    def __init__(self, cfg, program=TORCHRUN):
        folder = cfg.run_dir.parent
        (folder / "config.yaml").write_text(dump_config(cfg), encoding="utf-8")
        self.log = folder / "job.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, *program, "train", "--config", str(folder / "config.yaml")],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"},
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in self.children():
            os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()

    def children(self):
        pids = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in pids.read_text().split()] if pids.exists() else []

    def workers(self):
        """Process ids by rank, of processes that torchrun has started."""
        ranks = {pid: re.search(r"\0RANK=(\d+)", Path(f"/proc/{pid}/environ").read_text()) for pid in self.children()}
        return {int(rank[1]): pid for pid, rank in ranks.items() if rank}

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
            torch.testing.assert_close(weights[key], weight, rtol=0, atol=1e-4, msg=key)
        assert not weights["tgt_embedding.weight"][BOS_ID].any()
        assert not weights["encoder_layers.0.self_attention.qkv_proj.bias"][16:32].any(), "the keys' bias"


def test_two_processes_have_the_loss_curve_and_the_weights_of_one(config_of, alone, tmp_path):
    with Job(config_of(tmp_path / "run", **SETTINGS)) as job:
        code, printed = job.finish()
    assert code == 0, printed
    counted = re.search(r"; (\d+) batches an epoch", printed)
    assert counted
    n_batches = int(counted[1])
    assert n_batches % 2 == 1, "the last update of an epoch must leave the second process without a batch"
    assert printed.count("batches an epoch") == 1, "only the first process logs"
    assert printed.count(f"{tmp_path / 'run' / 'model'}\n") == 2, "the log's last line, and the result, once each"
    assert_alike(tmp_path / "run", alone, relative=1e-4)


@pytest.mark.slow  # as the other errors of a process: three processes that load torch show each of them
def test_a_killed_worker_ends_the_job_and_the_next_start_resumes(config_of, alone, tmp_path):
    cfg = config_of(tmp_path / "run", **{**SETTINGS, "max_steps": 100_000})
    with Job(cfg) as job:
        job.wait_for(cfg.run_dir / "checkpoints" / "step-10")
        killed = job.workers()[1]
        os.kill(killed, signal.SIGKILL)
        code, printed = job.finish()
    assert code == 1
    assert printed.count("mtkit: ") == 1
    assert re.search(rf"mtkit: process 1 \(pid {killed}\) of 2 .* run the same command again", printed)
    assert "forcefully exiting" not in printed, "the other ends by itself, torchrun need not kill it after 30 s"
    newest = max(int(path.name.removeprefix("step-")) for path in (cfg.run_dir / "checkpoints").glob("step-*"))
    train(config_of(cfg.run_dir, **{**SETTINGS, "max_steps": max(newest + 5, STEPS)}))
    found, expected = figures(cfg.run_dir), figures(alone)
    assert list(found) == list(range(1, len(found) + 1)), "no step is missing, none is there twice"
    assert all(found[step] == pytest.approx(values, rel=1e-4) for step, values in expected.items())


@pytest.mark.slow
def test_an_error_in_the_data_is_reported_once(config_of, tmp_path):
    (tmp_path / "bad.en").write_text("one\n\n")
    (tmp_path / "bad.fr").write_text("\nun\n")
    files = {"src": str(tmp_path / "bad.en"), "tgt": str(tmp_path / "bad.fr")}
    with Job(config_of(tmp_path / "run", data={"train": [files], "dev": files})) as job:
        code, printed = job.finish()
    assert code == 1
    assert printed.count("mtkit: ") == 1
    ours, torchruns_report = printed.split("Root Cause")
    for text in (ours, torchruns_report):
        assert text.count("has text on both sides") == 1


@pytest.mark.slow
@pytest.mark.parametrize("error", ["torch.OutOfMemoryError('CUDA out of memory')", "ValueError('a fault of the code')"])
def test_an_error_in_one_process_is_reported_once_and_ends_all(config_of, tmp_path, error):
    program = tmp_path / "program.py"
    program.write_text(f"""
import os, torch
from mtkit.cli import main
from mtkit.model.transformer import Transformer

hidden = Transformer.hidden
def fail(self, *args):
    if os.environ["RANK"] == "1" and self.training:
        raise {error}
    return hidden(self, *args)

Transformer.hidden = fail
main()
""")
    with Job(config_of(tmp_path / "run", **SETTINGS), [*TORCHRUN[:-2], str(program)]) as job:
        code, printed = job.finish()
    ours, _ = printed.split("Root Cause")
    assert code == 1
    if "memory" in error:
        assert ours.count("mtkit: ") == 1
        assert re.search(r"mtkit: step 1: .*\(CUDA out of memory\).* train\.batch_tokens=265", ours)
    else:
        assert "mtkit: " not in ours
        assert ours.count("ValueError: a fault of the code") == 1
    assert "forcefully exiting" not in printed


@pytest.mark.slow
def test_processes_that_diverge_before_the_first_checkpoint_go_back_to_the_start_once(config_of, tmp_path):
    with Job(config_of(tmp_path / "run", **{**SETTINGS, "lr": 1e30})) as job:
        code, printed = job.finish()
    assert code == 1
    assert len(re.findall(r"went back to step 0 .* learning rate x 0\.5", printed)) == 1
    assert printed.count("mtkit: step 2: the loss is nan") == 1


@pytest.mark.slow
def test_a_run_goes_on_with_two_processes_and_with_one_again(config_of, alone, tmp_path):
    train(config_of(tmp_path / "run", **{**SETTINGS, "max_steps": 10}))
    with Job(config_of(tmp_path / "run", **{**SETTINGS, "max_steps": 20})) as job:
        code, printed = job.finish()
    assert code == 0, printed
    assert "resuming after step 10" in printed
    train(config_of(tmp_path / "run", **SETTINGS))
    assert_alike(tmp_path / "run", alone, relative=1e-4)


def test_sharded_weights_train_alike_and_leave_the_same_files(config_of, alone, tmp_path):
    """Two processes go on with what one has saved, and spread it."""
    train(config_of(tmp_path / "run", **{**SETTINGS, "max_steps": 10}))
    with Job(config_of(tmp_path / "run", **{**SETTINGS, "shard_above_gib": 0}), forks(2)) as job:
        code, printed = job.finish()
    assert code == 0, printed
    assert printed.count("resuming after step 10") == 1, "only the first process logs"
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
@pytest.mark.parametrize(
    ("who", "what"), [("torchrun", signal.SIGTERM), ("torchrun", signal.SIGINT), (1, signal.SIGTERM)]
)
def test_a_stop_request_reaches_all_processes_and_saves(config_of, tmp_path, who, what):
    cfg = config_of(tmp_path / "run", **{**SETTINGS, "max_steps": 100_000, "validate_every": 100_000})
    with Job(cfg) as job:
        job.wait_for(cfg.run_dir / "metrics.jsonl")
        while len(figures(cfg.run_dir)) < 5:
            time.sleep(0.1)
        os.kill(job.process.pid if who == "torchrun" else job.workers()[who], what)
        code, printed = job.finish()
    assert code != 0
    assert printed.count("mtkit: interrupted") == 1
    saved = list((cfg.run_dir / "checkpoints").glob("step-*"))
    assert len(saved) == 1
    assert int(saved[0].name.removeprefix("step-")) >= 5


def group_of(size, **attributes):
    """A group of processes that were never started."""
    group = ProcessGroup.__new__(ProcessGroup)
    vars(group).update(size=size, **attributes)
    return group


def weights_of(model, **attributes):
    """The weights that three processes hold which were never started."""
    weights = CopiedWeights.__new__(CopiedWeights)
    weights.model, weights.processes = model, group_of(3, **attributes)
    return weights


def test_batches_that_do_not_divide_equally_are_refused():
    group = group_of(4)
    with pytest.raises(ConfigError, match=r"train\.accumulate=6: .*\b4\b.* such as 4"):
        group.check(TrainConfig(accumulate=6, max_steps=5000))
    group.check(TrainConfig(accumulate=8, max_steps=5000))


def test_a_process_without_a_device_of_its_own_is_refused(monkeypatch):
    group = group_of(4, n_local=4, local_rank=3)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert group.device(torch.device("cpu")) == torch.device("cpu")
    with pytest.raises(MtkitError, match=r"4 processes.* 2 CUDA.* --nproc-per-node"):
        group.device(torch.device("cuda"))
    with pytest.raises(MtkitError, match=r"train\.device=mps: "):
        group.device(torch.device("mps"))


def test_weights_that_differ_between_processes_are_not_saved():
    model = cast(Transformer, torch.nn.Linear(2, 1))
    weights_of(model, gather=lambda values: [values] * 3).check_equal(step=7)
    other = weights_of(model, gather=lambda values: [values, values, [0.0]])
    with pytest.raises(TrainingError, match=r"step 7: .* process 2 .* process 0"):
        other.check_equal(step=7)


def test_an_empty_batch_adds_zero_to_every_gradient():
    """DDP waits for the gradient of every weight."""
    model = Transformer(ModelConfig(d_model=8, d_ff=8, n_heads=2, n_encoder_layers=1, n_decoder_layers=1), 9, 9, PAD_ID)
    loss, nll = batch_loss(model, empty_batch(), 0.1, "fp32")
    loss.backward()
    assert (loss, nll) == (0, 0)
    assert all(parameter.grad is not None and not parameter.grad.any() for parameter in model.parameters())


@pytest.mark.parametrize(("settings", "key"), [({"ema": 0.99}, "ema"), ({"precision": "fp16"}, "precision=fp16")])
def test_settings_that_sharding_does_not_support_are_refused(settings, key):
    from mtkit.distributed.sharding import ShardedWeights  # here: each process that collects tests would wait a second

    model = cast(Transformer, torch.nn.Linear(2, 1))
    with pytest.raises(ConfigError, match=rf"train\.{key} .* train\.shard_above_gib"):
        ShardedWeights(model, batch_loss, group_of(2), TrainConfig(max_steps=5000, **settings))


def test_sharding_refuses_fp16_that_auto_chose(monkeypatch):
    from mtkit.distributed import sharding

    monkeypatch.setattr(sharding, "choose_precision", lambda name, device: "fp16" if name == "auto" else name)
    model = cast(Transformer, torch.nn.Linear(2, 1))
    with pytest.raises(ConfigError, match=r"train\.precision=fp16 "):
        sharding.ShardedWeights(model, batch_loss, group_of(2), TrainConfig(max_steps=5000))


def test_several_processes_that_torchrun_has_not_started_are_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(MtkitError, match=r"WORLD_SIZE=2 .* RANK: .* torchrun"), processes_of_job():
        pass


def test_process_0_sends_the_others_results_and_each_machine_s_first_goes_before_its_others(config_of, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""
import os
import time
from mtkit.distributed.launch import processes_of_job

if os.environ["RANK"] != "0":  # as if on a second machine
    os.environ["LOCAL_RANK"] = str(int(os.environ["RANK"]) - 1)

def interrupt():
    raise KeyboardInterrupt

with processes_of_job() as processes:
    for _ in range(2):
        text = processes.on_main(lambda: "a long text " * 1_000_000)
        print(f"length {len(text)}", flush=True)
    print(processes.text_of_first(f"by {processes.rank}", is_mine=processes.rank == 1), flush=True)
    with processes.main_first():
        time.sleep(0.3 * (2 - processes.rank))
        print(f"turn of {processes.rank}, first here: {processes.is_first_here}", flush=True)
    try:
        processes.on_main(interrupt)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
""")
    with Job(config_of(tmp_path / "run", **SETTINGS), forks(3, program)) as job:
        code, printed = job.finish()
    assert code == 0, printed
    assert printed.count("length 12000000") == 6
    assert printed.count("by 1") == 3
    assert printed.count("interrupted") == 3
    turns = re.findall(r"turn of (\d), first here: (\w+)", printed)
    assert turns == [("0", "True"), ("1", "True"), ("2", "False")]


def test_a_machine_with_a_disk_of_its_own_verifies_its_encoded_text(config_of, corpus, tmp_path):
    class FirstOfAnother(Communicator):
        rank = 1

    cfg = config_of(tmp_path / "run", data=corpus)
    checkpoints = Checkpoints(tmp_path / "run" / "checkpoints")
    ids = prepare(cfg, tmp_path / "run", checkpoints).corpus.src.ids.tolist()
    for path in (tmp_path / "run" / "cache").glob("*/src.ids"):
        path.write_bytes(b"\1" + path.read_bytes()[1:])
    assert prepare(cfg, tmp_path / "run", checkpoints, FirstOfAnother()).corpus.src.ids.tolist() == ids


def test_a_single_process_returns_its_own_values():
    alone = Communicator()
    assert alone.is_main
    assert alone.on_main(lambda: 3) == 3
    assert alone.sums(1, 2.5) == [1, 2.5]


@pytest.mark.parametrize(("limit", "spread"), [(None, False), (0.0, True), (1e-6, False), (9e-7, True)])
def test_weights_are_sharded_above_a_size(limit, spread):
    """61 weights need 61 x 16 bytes, 9.09e-7 GiB; on a CPU without a limit they never are."""
    model = cast(Transformer, torch.nn.Linear(60, 1))
    assert must_shard(model, TrainConfig(max_steps=5000, shard_above_gib=limit)) == spread

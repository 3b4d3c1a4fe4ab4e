"""Whole runs on a tiny corpus: stopped, killed, damaged and resumed runs end like one that was never stopped."""

import errno
import json
import logging
import multiprocessing
import os
import random
import re
import shutil
import signal
import time
from itertools import count

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from mtkit.config.reading.loading import load_config
from mtkit.config.schema import Config
from mtkit.data.feed import Position
from mtkit.errors import ConfigError, TrainingError
from mtkit.files import sha256_file
from mtkit.runs import finish
from mtkit.runs.folder import shaping_differences, with_its_choices
from mtkit.runs.train import train
from mtkit.training import trainer
from mtkit.training.metrics_log import MetricsLog, read_metrics
from mtkit.training.preparation.prepare import prepare
from mtkit.training.trainer import Trainer
from mtkit.training.update.budget import Budget
from mtkit.training.update.checkpoint import Checkpoints, Start
from mtkit.training.update.optimizer_step import Updater
from mtkit.training.update.state import TrainState
from mtkit.training.validation.translation import TranslationValidator
from mtkit.translation.translator import Translator

PATIENCE_S = 300  # for a run of a second: other work on the machine must not fail the test
TIMES = {"tokens_per_s", "run_s"}  # figures that differ between two runs that are otherwise alike


@pytest.fixture(autouse=True)
def log_lines(caplog):
    caplog.set_level(logging.INFO, "mtkit")


@pytest.fixture(scope="module")
def config_of(config_of):
    """With two batches an update, as only these tests need them."""
    return lambda run_dir, **changes: config_of(run_dir, **{"accumulate": 2, **changes})


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory, config_of):
    """The folder of a run of 20 steps that was never stopped."""
    run_dir = tmp_path_factory.mktemp("finished") / "run"
    train(config_of(run_dir))
    return run_dir


@pytest.fixture
def copied_run(finished_run, tmp_path):
    return shutil.copytree(finished_run, tmp_path / "run")


@pytest.fixture
def signal_at(monkeypatch):
    """Call it to have signals sent to this process in the midst of an update."""

    def send(step, *signals):
        def update(self, batches, number, *rest):
            if number == step:
                for signal_number in signals:
                    os.kill(os.getpid(), signal_number)
            return original(self, batches, number, *rest)

        original = Updater.update
        monkeypatch.setattr(Updater, "update", update)

    return send


def untimed_metrics(run_dir):
    return [{k: v for k, v in entry.items() if k not in TIMES} for entry in read_metrics(run_dir / "metrics.jsonl")]


def assert_runs_equal(run_dir, reference):
    """The same weights and optimizer bit for bit, the same metrics, the same model."""
    for name in ("checkpoints/step-20/model.safetensors", "model/model.safetensors"):
        assert (run_dir / name).read_bytes() == (reference / name).read_bytes(), name
    moments, expected = (
        torch.load(folder / "checkpoints/step-20/optimizer.pt", weights_only=True)["state"]
        for folder in (run_dir, reference)
    )
    for number, values in moments.items():
        assert all(torch.equal(value, expected[number][name]) for name, value in values.items())
    assert untimed_metrics(run_dir) == untimed_metrics(reference)


def steps_saved(run_dir):
    return sorted(int(path.name.removeprefix("step-")) for path in (run_dir / "checkpoints").glob("step-*"))


def test_a_run_leaves_a_model_that_translates(config_of, tmp_path, caplog):
    result = train(config_of(tmp_path / "run", max_steps=60, validate_every=30, accumulate=1, lr=0.02))
    assert result.steps == 60
    assert result.stopped_by == "max_steps"
    assert result.dev_scores["loss"] < 2, "from log(300) = 5.7 nats"
    assert re.search(r"dev: .*\b3 translated .*nrefs:1\|case:mixed\|.*\|tok:13a\|", caplog.text)
    translator = Translator.load(result.bundle, device="cpu")
    assert len(translator.translate(["red cat", "blue dog"])) == 2


def test_the_manifest_records_where_the_model_comes_from(finished_run):
    training = json.loads((finished_run / "model" / "manifest.json").read_text())["training"]
    assert (training["step"], training["stopped_by"]) == (20, "max_steps")
    assert set(training["dev"]) == {"loss", "perplexity", "bleu", "chrf"}
    bleu = training["dev_metrics"][0]
    assert (bleu["name"], bleu["score"]) == ("BLEU", training["dev"]["bleu"])
    assert "case:mixed" in bleu["signature"]


def test_the_metrics_log_has_every_interval_and_validation(finished_run):
    entries = untimed_metrics(finished_run)
    assert [entry["step"] for entry in entries if entry["kind"] == "train"] == [4, 8, 12, 16, 20]
    assert [entry["step"] for entry in entries if entry["kind"] == "validation"] == [6, 12, 18, 20]
    first, *_, last = [entry for entry in entries if entry["kind"] == "train"]
    assert last["loss"] < first["loss"]
    assert first["lr"] == pytest.approx(0.01), "the end of the warm-up"
    assert last["lr"] == pytest.approx(0.01 * (4 / 20) ** 0.5)
    assert 0 < first["padding_share"] < 0.5


def test_two_runs_from_one_seed_are_equal_and_another_seed_differs(config_of, finished_run, tmp_path):
    train(config_of(tmp_path / "run"))
    assert_runs_equal(tmp_path / "run", finished_run)
    train(config_of(tmp_path / "other", seed=2))
    assert untimed_metrics(tmp_path / "other") != untimed_metrics(finished_run)


def test_key_biases_of_a_checkpoint_that_has_some_stay_in_a_run_that_resumes(copied_run, config_of):
    """As the first versions of mtkit trained them; new models have none."""
    checkpoint = copied_run / "checkpoints" / "step-20"
    weights = load_file(checkpoint / "model.safetensors")
    name = "decoder_layers.0.cross_attention.kv_proj.bias"
    assert not weights[name][:16].any()
    weights[name][:16] = torch.linspace(-1, 1, 16)
    save_file(weights, checkpoint / "model.safetensors")
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    manifest["sha256"]["model.safetensors"] = sha256_file(checkpoint / "model.safetensors")
    (checkpoint / "manifest.json").write_text(json.dumps(manifest))
    train(config_of(copied_run, max_steps=24))
    after = load_file(copied_run / "checkpoints" / "step-24" / "model.safetensors")[name]
    assert torch.equal(after[:16], weights[name][:16])
    assert (after[16:] != weights[name][16:]).all()


@pytest.mark.parametrize("updates_of_epoch", [0, 2])
def test_a_run_of_an_earlier_batch_order_goes_on_and_says_so(config_of, tmp_path, caplog, updates_of_epoch):
    trainer = Trainer(prepare(config_of(tmp_path / "run"), tmp_path / "run", Checkpoints(tmp_path / "checkpoints")))
    state = TrainState(step=7, position=Position(epoch=1, update=updates_of_epoch)).to_dict()
    del state["batch_order"]
    state |= {"train_fingerprint": trainer.state.train_fingerprint, "dev_fingerprint": trainer.state.dev_fingerprint}
    weights, optimizer = dict(trainer.updater.model.named_parameters()), trainer.updater.optimizer.state_dict()
    trainer.resume(Start(TrainState.from_dict(state), weights, optimizer))
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    told = [text for text in warnings if "wrote step 7" in text and "epoch 2" in text]
    assert len(told) == bool(updates_of_epoch)  # an epoch that begins loses nothing
    assert trainer.state.batch_order == TrainState().batch_order


def test_r_drop_from_the_middle_equals_a_run_that_resumes_with_it(config_of, tmp_path, caplog):
    train(config_of(tmp_path / "one", r_drop=2.0, r_drop_from=0.6))
    assert "train.r_drop=2.0 " not in caplog.text
    assert "step 1: without R-Drop until 60% of the run" in caplog.text
    assert "step 13: with R-Drop (train.r_drop=2)" in caplog.text, "12 of 20 steps are 60 %"
    train(config_of(tmp_path / "two", max_steps=12))
    config = tmp_path / "two" / "config.yaml"  # a run refuses other settings than those it was started with
    config.write_text(config.read_text().replace("r_drop: 0.0", "r_drop: 2.0"))
    train(config_of(tmp_path / "two", r_drop=2.0))
    assert_runs_equal(tmp_path / "one", tmp_path / "two")
    train(config_of(tmp_path / "none"))
    assert untimed_metrics(tmp_path / "one")[:3] == untimed_metrics(tmp_path / "none")[:3]
    assert untimed_metrics(tmp_path / "one") != untimed_metrics(tmp_path / "none")


def test_a_run_killed_at_random_moments_ends_as_if_never_stopped(config_of, finished_run, tmp_path):
    cfg = config_of(tmp_path / "run")
    context = multiprocessing.get_context("forkserver")  # loads once what takes seconds
    context.set_forkserver_preload(["mtkit.runs.train", "mtkit.model.cpu.kernels", "torch._dynamo"])
    rng = random.Random(0)
    n_killed = 0
    while True:
        process = context.Process(target=train, args=(cfg,))
        process.start()
        try:
            if n_killed < 4:
                wait_for_step(cfg.run_dir, rng.choice([4, 8, 12, 16]), process)
                process.join(rng.uniform(0, 0.04))
                process.kill()
            process.join(PATIENCE_S)
        finally:
            process.kill()  # nothing is left behind, whatever happens
        if process.exitcode != -signal.SIGKILL:
            break
        n_killed += 1
    assert process.exitcode == 0
    assert n_killed >= 3
    assert_runs_equal(cfg.run_dir, finished_run)


def wait_for_step(run_dir, step, process):
    """Wait until the process has logged a step beyond this one, or is through."""
    while process.is_alive():
        path = run_dir / "metrics.jsonl"
        if path.exists() and max((entry["step"] for entry in read_metrics(path)), default=0) >= step:
            return
        time.sleep(0.01)


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_after_its_update_and_a_save(
    config_of, finished_run, tmp_path, signal_at, signal_number, caplog
):
    cfg = config_of(tmp_path / "run")
    signal_at(9, signal_number)
    with pytest.raises(KeyboardInterrupt):
        train(cfg)
    assert steps_saved(cfg.run_dir) == [6, 9]
    assert not (cfg.run_dir / "model").exists()
    assert "saving a checkpoint" in caplog.text
    assert "step 9 is saved; the same command " in caplog.text
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    train(cfg)
    assert "resuming after step 9" in caplog.text
    assert_runs_equal(cfg.run_dir, finished_run)


def test_a_second_ctrl_c_leaves_at_once(config_of, tmp_path, signal_at):
    cfg = config_of(tmp_path / "run")
    signal_at(9, signal.SIGINT, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        train(cfg)
    assert steps_saved(cfg.run_dir) == [6]


def test_ctrl_c_interrupts_a_validation_which_the_next_start_repeats(config_of, finished_run, tmp_path, monkeypatch):
    cfg = config_of(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(TranslationValidator, "run", lambda *_: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            train(cfg)
    assert steps_saved(cfg.run_dir) == [6]
    train(cfg)
    assert_runs_equal(cfg.run_dir, finished_run)


def test_a_damaged_newest_checkpoint_costs_only_its_interval(config_of, finished_run, copied_run, caplog):
    (copied_run / "model" / "manifest.json").unlink()
    damaged = copied_run / "checkpoints" / "step-20" / "optimizer.pt"
    damaged.write_bytes(damaged.read_bytes()[:1000])
    train(config_of(copied_run))
    assert f"{damaged}: damaged (1000 bytes" in caplog.text
    assert "resuming after step 18" in caplog.text
    assert_runs_equal(copied_run, finished_run)


def test_a_checkpoint_is_not_blamed_for_a_lack_of_memory(config_of, copied_run, monkeypatch):
    def no_memory(*args):
        raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(Trainer, "_load", no_memory)
    with pytest.raises(TrainingError, match=r"step-\d+: not enough memory to load .*close other programs"):
        train(config_of(copied_run, max_steps=99))


def test_tags_are_settings_that_shape_a_run(config_of, copied_run):
    cfg = config_of(copied_run)
    values = cfg.model_dump()
    values["data"]["train"][0]["tag"] = values["data"]["dev"]["tag"] = "<2fr>"
    tagged = Config.model_validate(values)
    assert shaping_differences(cfg, tagged) == [
        ("data.train[].tag", [None], ["<2fr>"]),
        ("data.dev.tag", None, "<2fr>"),
    ]


def test_a_finished_model_keeps_its_decode_settings_with_a_message(config_of, copied_run, caplog):
    settings = {"beam_size": 7, "max_len_factor": 1.0, "max_len_constant": 5}
    model = sha256_file(copied_run / "model" / "config.yaml")
    train(config_of(copied_run, decode=settings))
    assert sha256_file(copied_run / "model" / "config.yaml") == model
    assert "decode.beam_size: 1 there, 7 here;" in caplog.text
    caplog.clear()
    train(config_of(copied_run))
    assert "decode.beam_size" not in caplog.text


def test_a_finished_model_keeps_its_test_text_with_a_message(config_of, copied_run, caplog):
    cfg = config_of(copied_run)
    data = cfg.data.model_copy(update={"test": cfg.data.dev[0]})
    train(cfg.model_copy(update={"data": data}))
    assert f"data.test: none there, {cfg.data.dev[0].paths[0]} here; " in caplog.text
    assert "`mtkit evaluate`" in caplog.text and "--ref" in caplog.text
    caplog.clear()
    train(cfg)
    assert "data.test" not in caplog.text


@pytest.fixture
def ticking(monkeypatch):
    """A clock that tells a twentieth of a second more at each look, so that a budget ends on a busy machine, too."""
    looks = count()
    monkeypatch.setattr(trainer, "Budget", lambda cfg, since: Budget(cfg, 0.0, lambda: next(looks) / 20))


@pytest.mark.parametrize(
    ("first", "then"), [({"max_steps": 6}, {"budget": "30s"}), ({"budget": "4s"}, {"max_steps": 9})]
)
def test_a_run_with_a_new_limit_keeps_what_auto_chose(config_of, tmp_path, ticking, first, then):
    others = {"max_steps": None, "budget": None, "max_minutes": None}
    cfg = config_of(tmp_path / "run", **{**others, **first, "warmup_steps": 2, "validate_every": 5})
    train(cfg)
    schedule = "schedule_free" if "budget" in first else "inverse_sqrt"
    assert load_config(tmp_path / "run" / "config.yaml").train.schedule == schedule
    other = with_its_choices(config_of(tmp_path / "run", **{**others, **then}, warmup_steps=2), started=True)
    assert other.train.schedule == schedule
    assert shaping_differences(load_config(tmp_path / "run" / "config.yaml"), other) == []


def test_a_run_along_a_cosine_needs_to_know_its_new_end(config_of, tmp_path, ticking):
    cosine = {"schedule": "cosine", "warmup_steps": 2, "validate_every": 5}
    train(config_of(tmp_path / "run", max_steps=None, budget="4s", **cosine))
    with pytest.raises(ConfigError, match=r"/run: .*schedule=cosine needs a fixed end: set max_steps"):
        train(config_of(tmp_path / "run", max_steps=None, patience=3, warmup_steps=2, validate_every=5))


def test_a_finished_run_says_so_and_goes_on_if_the_limit_is_raised(config_of, copied_run, caplog):
    model = sha256_file(copied_run / "model" / "model.safetensors")
    result = train(config_of(copied_run))
    assert re.search(r"after 20 steps \(train\.max_steps=20\); raise train\.max_steps", caplog.text)
    assert result.steps == 20
    assert result.dev_scores["loss"] > 0
    train(config_of(copied_run, average_best=1))
    assert re.search("train.average_best=3.* 1; `mtkit average`", caplog.text)
    assert sha256_file(copied_run / "model" / "model.safetensors") == model
    assert train(config_of(copied_run, max_steps=22)).steps == 22
    assert "resuming after step 20" in caplog.text
    assert sha256_file(copied_run / "model" / "model.safetensors") != model


def test_a_finished_run_writes_a_damaged_model_again(config_of, finished_run, copied_run, caplog):
    path = copied_run / "model" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    assert train(config_of(copied_run)).steps == 20
    assert "model: the model is damaged" in caplog.text
    assert_runs_equal(copied_run, finished_run)


def test_a_finished_run_without_its_checkpoints_is_not_started_over(config_of, copied_run):
    shutil.rmtree(copied_run / "checkpoints")
    with pytest.raises(ConfigError, match=r"/run: .*checkpoints/.* remove model/"):
        train(config_of(copied_run))
    assert (copied_run / "model" / "manifest.json").exists()


def test_the_config_of_a_finished_run_stays(config_of, copied_run):
    before = (copied_run / "config.yaml").read_text()
    train(config_of(copied_run, decode={"beam_size": 7}))
    assert (copied_run / "config.yaml").read_text() == before


def test_a_run_that_goes_on_writes_its_config(config_of, copied_run):
    cfg = config_of(copied_run, max_steps=21, schedule="inverse_sqrt")
    train(cfg)
    assert load_config(copied_run / "config.yaml") == cfg


def test_a_run_killed_between_its_last_checkpoint_and_its_bundle_makes_the_bundle(config_of, finished_run, copied_run):
    shutil.rmtree(copied_run / "model")
    assert train(config_of(copied_run)).steps == 20
    assert_runs_equal(copied_run, finished_run)


def test_epochs_are_a_limit(config_of, tmp_path):
    result = train(config_of(tmp_path / "run", max_steps=None, max_epochs=2, accumulate=1))
    assert result.stopped_by == "max_epochs"
    [*_, last] = untimed_metrics(tmp_path / "run")
    assert last["epoch"] == 2.0


def test_minutes_are_a_limit_over_all_starts(config_of, tmp_path, monkeypatch):
    monkeypatch.setattr(time, "monotonic", iter(range(10**6)).__next__)  # each look at the clock takes 1 s
    cfg = config_of(tmp_path / "run", max_steps=None, max_minutes=1.0)
    result = train(cfg)
    assert result.stopped_by == "max_minutes"
    assert 5 < result.steps < 60
    assert train(cfg).steps == result.steps, "its minutes are used up"
    assert train(config_of(tmp_path / "run", max_steps=None, max_minutes=2.0)).steps > result.steps


@pytest.mark.parametrize("part", ["train", "dev"])
def test_other_text_is_refused_once_there_are_checkpoints(config_of, copied_run, corpus, tmp_path, part):
    text = tmp_path / "other.en"
    text.write_text("red cat\n" * 300)
    files = {"src": str(text), "tgt": str(text)}
    before = (copied_run / "config.yaml").read_text()
    with pytest.raises(ConfigError, match=r"start a new run \(another run_dir\)"):
        train(config_of(copied_run, max_steps=30, data={**corpus, part: files if part == "dev" else [files]}))
    assert (copied_run / "config.yaml").read_text() == before


@pytest.mark.parametrize("part", ["train", "dev"])
def test_a_finished_run_is_refused_once_its_text_has_changed(config_of, corpus, tmp_path, part):
    def copied(files):
        return {side: tmp_path / shutil.copy(path, tmp_path) for side, path in files.items()}

    data = {**corpus, "train": [copied(files) for files in corpus["train"]], "dev": copied(corpus["dev"])}
    train(config_of(tmp_path / "run", data=data, max_steps=5))
    changed = data["train"][0]["tgt"] if part == "train" else data["dev"]["tgt"]
    lines = changed.read_text().splitlines(keepends=True)
    changed.write_text("".join([*lines[1:], lines[0]]))
    with pytest.raises(ConfigError, match=rf"data\.{part}\b.* changed .*another run_dir"):
        train(config_of(tmp_path / "run", data=data, max_steps=5))
    changed.unlink()
    assert train(config_of(tmp_path / "run", data=data, max_steps=5)).steps == 5, "without the text, it stays finished"


def test_text_that_has_only_moved_is_accepted(config_of, copied_run, corpus, tmp_path):
    [files] = corpus["train"]
    moved = {side: shutil.copy(path, tmp_path / f"moved.{side}") for side, path in files.items()}
    assert train(config_of(copied_run, max_steps=21, data={**corpus, "train": [moved]})).steps == 21


def test_exchanged_tokenizers_are_refused(config_of, copied_run, tmp_path):
    train(config_of(tmp_path / "other", tokenizer={"src": {"type": "unigram", "vocab_size": 290}}))
    shutil.copy(tmp_path / "other" / "src.spm", copied_run / "src.spm")
    (copied_run / "tokenizers.json").unlink()  # as if somebody had put both there
    with pytest.raises(ConfigError, match=r"/run: the text of data\.train\b"):
        train(config_of(copied_run, max_steps=30))


def test_a_model_that_cannot_be_written_is_explained(config_of, copied_run, monkeypatch):
    def full(*_, **__):
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(finish, "save_bundle", full)
    shutil.rmtree(copied_run / "model")
    with pytest.raises(TrainingError, match=r"model: .*No space left .* run the same command again"):
        train(config_of(copied_run))


def test_a_full_disk_is_explained(config_of, tmp_path, monkeypatch):
    def full(self, *_):
        raise OSError(errno.ENOSPC, "No space left on device", str(self.path))

    monkeypatch.setattr(MetricsLog, "write", full)
    with pytest.raises(TrainingError, match=r"metrics\.jsonl: No space left on device; .* run the same command again"):
        train(config_of(tmp_path / "run"))


@pytest.fixture
def ctrl_c_while_saving(monkeypatch):
    """Call it with a step; returns the steps that are saved from then on."""

    def interrupt(step):
        def save(self, state, *rest):
            steps.append(state.step)
            if state.step == step:
                os.kill(os.getpid(), signal.SIGINT)
            return original(self, state, *rest)

        original = Checkpoints.save
        steps: list[int] = []
        monkeypatch.setattr(Checkpoints, "save", save)
        return steps

    return interrupt


def test_ctrl_c_during_a_save_does_not_save_again(config_of, tmp_path, ctrl_c_while_saving):
    steps = ctrl_c_while_saving(6)
    with pytest.raises(KeyboardInterrupt):
        train(config_of(tmp_path / "run"))
    assert steps == [6]


def test_ctrl_c_during_the_last_save_exits_before_the_bundle(config_of, tmp_path, ctrl_c_while_saving):
    cfg = config_of(tmp_path / "run")
    ctrl_c_while_saving(20)
    with pytest.raises(KeyboardInterrupt):
        train(cfg)
    assert steps_saved(cfg.run_dir) == [18, 20]
    assert not (cfg.run_dir / "model").exists()

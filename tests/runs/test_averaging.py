"""Means of chosen checkpoints and of several models: their weights, and what is refused."""

import json
import os
import shutil
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from mtkit.bundle import (
    LETTERS_RATIO,
    SHARE_OF_SEVERAL,
    SHARE_OF_SMALL,
    add_to_bundle,
    bundle_file,
    load_bundle,
    read_bundle,
    save_bundle,
)
from mtkit.cli import app
from mtkit.config.reading.loading import load_config
from mtkit.errors import BundleError, CheckpointError, UsageError
from mtkit.runs.averaging import average_bundles, average_checkpoints, interpolated, save_interpolated
from mtkit.runs.train import train
from mtkit.tokens.spelling import checksum
from mtkit.tokens.word_record import WordRecord, load_words, save_words
from mtkit.training.preparation.parallel_text import ParallelText


@pytest.fixture(scope="module")
def runs(tmp_path_factory, config_of):
    """Two finished runs of one shape and one text, a and b, and a third, wide, of another shape."""
    folder = tmp_path_factory.mktemp("runs")
    train(config_of(folder / "a"))
    train(config_of(folder / "b", seed=2, ema=0.9))
    train(config_of(folder / "wide", model={"d_ff": 64}))
    return folder


def assert_mean(bundle, *files):
    made, *parts = (load_file(path) for path in (bundle / "model.safetensors", *files))
    assert made.keys() == parts[0].keys()
    for name, weight in made.items():
        mean = torch.stack([part[name].double() for part in parts]).mean(0)
        torch.testing.assert_close(weight.double(), mean, rtol=1e-6, atol=1e-8)


def checkpoint_file(run, step, name="model.safetensors"):
    [path] = (run / "checkpoints").glob(f"*-{step}/{name}")
    return path


def test_the_chosen_checkpoints_of_a_run_are_averaged(runs, tmp_path):
    assert average_checkpoints(runs / "a", [20, 18], tmp_path / "two") == [18, 20]
    assert_mean(tmp_path / "two", *(checkpoint_file(runs / "a", step) for step in (18, 20)))
    bundle = load_bundle(tmp_path / "two")
    [corpus] = load_config(runs / "a" / "config.yaml").data.train
    src, tgt = (len(path.read_text(encoding="utf-8").replace("\n", "")) for path in corpus.paths)
    # No line of this text has two sentences or a capital.
    of_text = {SHARE_OF_SEVERAL: 0.0, SHARE_OF_SMALL: 1.0, LETTERS_RATIO: round(tgt / src, 4)}
    assert bundle.manifest["training"] == {"step": 20, "averaged_steps": [18, 20], **of_text}
    assert load_bundle(runs / "a" / "model").manifest["training"].items() >= of_text.items()
    words = load_words(runs / "a" / "model" / "words.npz")
    counts = Counter(corpus.paths[0].read_text("utf-8").split())
    assert words.counts == Counter({word: n for word, n in counts.items() if n >= 10})
    assert words.rare == {checksum(word) for word, n in counts.items() if n < 10}
    assert bundle.src_tokenizer.fingerprint == load_bundle(runs / "a" / "model").src_tokenizer.fingerprint


@pytest.mark.parametrize("model", ["a", "a/model"])
def test_a_mean_keeps_what_is_known_of_the_training_text(runs, tmp_path, model):
    (average_checkpoints if model == "a" else lambda folder, _, out: average_bundles([folder], out))(
        runs / model, [], tmp_path / "out"
    )
    assert bundle_file(read_bundle(tmp_path / "out"), "sides.npz") is None  # as in the run
    for name in ("alignment.npz", "words.npz"):
        copied = bundle_file(read_bundle(tmp_path / "out"), name)
        assert copied is not None
        assert copied.read_bytes() == (runs / "a" / "model" / name).read_bytes()


def test_an_interruption_never_leaves_a_mean_without_what_is_known_of_the_text(runs, tmp_path, monkeypatch):
    added = set[str]()

    def interrupted(*names):
        replace_path(*names)
        added.update(path.name for path in (tmp_path / "out").glob("*.npz"))
        raise KeyboardInterrupt

    replace_path = os.replace
    monkeypatch.setattr(os, "replace", interrupted)  # after the first step that others see
    with pytest.raises(KeyboardInterrupt):
        average_bundles([runs / "a" / "model"], tmp_path / "out")
    assert added == {"alignment.npz", "words.npz"}


def test_an_adapted_model_knows_the_words_of_its_base(runs, tmp_path):
    shutil.copytree(runs / "b" / "model", tmp_path / "tuned")
    add_to_bundle(tmp_path / "tuned", "alignment.npz", lambda path: path.write_bytes(b"of little text"))
    of_both = WordRecord(Counter({"gadget": 12}), {"can": "?"}, frozenset({7}))  # as training writes it
    add_to_bundle(tmp_path / "tuned", "words.npz", lambda path: save_words(path, of_both))
    add_to_bundle(tmp_path / "tuned", "shortlist.npz", lambda path: path.write_bytes(b"words of both"))
    base, tuned = read_bundle(runs / "a" / "model"), read_bundle(tmp_path / "tuned")
    save_interpolated(base, tuned, 0.5, tmp_path / "out")
    assert (tmp_path / "out" / "shortlist.npz").read_bytes() == b"words of both"
    assert_mean(tmp_path / "out", *(folder / "model.safetensors" for folder in (base.folder, tuned.folder)))
    copied = bundle_file(read_bundle(tmp_path / "out"), "alignment.npz")
    assert copied is not None and copied.read_bytes() == (base.folder / "alignment.npz").read_bytes()
    assert load_words(tmp_path / "out" / "words.npz") == of_both


def test_a_token_that_an_imported_model_never_writes_stays_so_after_tuning():
    """Training begins at -30, from where a memory with many unknown characters teaches <unk>."""
    base, tuned = torch.tensor([-30_000.0, -20.0, 1.0]), torch.tensor([-29.0, -10.0, 2.0])
    mean = interpolated({"output.bias": base, "norm.bias": base}, {"output.bias": tuned, "norm.bias": tuned}, 1.0)
    assert mean["output.bias"].tolist() == [-30_000, -10, 2]
    assert mean["norm.bias"].tolist() == tuned.tolist()


def test_a_tuned_model_knows_the_words_of_the_model_that_it_began_with(runs, tmp_path, config_of, monkeypatch):
    monkeypatch.setattr(ParallelText, "_texts", lambda *_: [*10 * ["gadget"], "gizmo"])
    start = tmp_path / "start"
    shutil.copytree(runs / "a" / "model", start)
    cfg = config_of(tmp_path / "tuned", init_from=str(start))
    add_to_bundle(start, "words.npz", lambda path: save_words(path, WordRecord(Counter({"the": 20}), {"the": "."})))

    def words(cfg):
        unused: Any = None
        return ParallelText(cfg, unused, unused, [], [], None).words

    own = WordRecord(Counter({"gadget": 10}), {}, frozenset({checksum("gizmo")}))
    assert words(cfg) == WordRecord(Counter({"the": 20, "gadget": 10}), {"the": "."}, own.rare)
    assert words(config_of(tmp_path / "tuned")) == own
    english, german = (
        cfg.model_copy(update={"data": cfg.data.model_copy(update={"src_lang": c})}) for c in ("en", "de")
    )
    with monkeypatch.context() as patch:
        of_german = replace(read_bundle(start), config=german)
        patch.setattr("mtkit.training.preparation.parallel_text.read_bundle", lambda _: of_german)
        assert words(english) == own  # the model read another language
        assert words(german).counts.keys() == {"the", "gadget"}
    manifest = read_bundle(start).manifest
    del manifest["sha256"]["words.npz"]
    (start / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert words(cfg) is None  # of an older mtkit, with unknown words
    shutil.rmtree(start)
    assert words(cfg) is None


def test_an_adapted_model_has_the_facts_of_its_bases_text_and_its_search(runs, tmp_path):
    base, tuned = read_bundle(runs / "a" / "model"), read_bundle(runs / "b" / "model")
    of_memory = {"step": 7, SHARE_OF_SEVERAL: 0.9, LETTERS_RATIO: 3.0, "augmented": {"capitals": 0.5}, "dev": {}}
    decode = tuned.config.decode.model_copy(update={"engine": "native"})
    tuned = replace(
        tuned,
        manifest={**tuned.manifest, "training": of_memory},
        config=tuned.config.model_copy(update={"decode": decode}),
    )
    save_interpolated(base, tuned, 0.5, tmp_path / "out")
    adapted, expected = read_bundle(tmp_path / "out"), {"step": 7, "share_of_tuned_weights": 0.5}
    facts = (SHARE_OF_SEVERAL, LETTERS_RATIO)  # all that this base records
    assert adapted.manifest["training"] == expected | {key: base.manifest["training"][key] for key in facts}
    assert adapted.config.decode == base.config.decode


@pytest.mark.parametrize(
    ("of_base", "of_tuned", "expected"),
    [(0.0, 0.01, 0.01), (0.01, 0.7, 0.7), (0.7, 0.0, 0.7), (None, 0.0, None), (0.0, None, None)],
)
def test_an_adapted_model_has_seen_the_small_letters_of_both_texts(runs, tmp_path, of_base, of_tuned, expected):
    base, tuned = (
        replace(files, manifest={**files.manifest, "training": {} if share is None else {SHARE_OF_SMALL: share}})
        for files, share in [
            (read_bundle(runs / "a" / "model"), of_base),
            (read_bundle(runs / "b" / "model"), of_tuned),
        ]
    )
    save_interpolated(base, tuned, 0.5, tmp_path / "out")
    assert read_bundle(tmp_path / "out").manifest["training"].get(SHARE_OF_SMALL) == expected


def test_without_a_choice_all_that_the_run_keeps_are_averaged(runs, tmp_path):
    steps = average_checkpoints(runs / "a", [], tmp_path / "all")
    assert {18, 20} <= set(steps)
    assert_mean(tmp_path / "all", *(checkpoint_file(runs / "a", step) for step in steps))


def test_the_running_means_of_a_run_are_averaged(runs, tmp_path):
    average_checkpoints(runs / "b", [18, 20], tmp_path / "out")
    assert_mean(tmp_path / "out", *(checkpoint_file(runs / "b", step, "ema.safetensors") for step in (18, 20)))


def test_several_models_are_averaged(runs, tmp_path):
    folders = [runs / name / "model" for name in ("a", "b")]
    average_bundles(folders, tmp_path / "out")
    assert load_bundle(tmp_path / "out").manifest["training"][SHARE_OF_SEVERAL] == 0.0
    assert_mean(tmp_path / "out", *(folder / "model.safetensors" for folder in folders))
    load_bundle(tmp_path / "out")


def test_models_of_different_origin_get_a_warning(runs, tmp_path, config_of, caplog):
    average_bundles([runs / name / "model" for name in ("a", "b")], tmp_path / "apart")
    assert "(train.init_from)" in caplog.text
    caplog.clear()
    average_checkpoints(runs / "a", [18, 20], tmp_path / "mean")
    train(config_of(tmp_path / "tuned", init_from=str(runs / "a")))
    average_bundles([runs / "a" / "model", tmp_path / "mean", tmp_path / "tuned" / "model"], tmp_path / "together")
    assert "(train.init_from)" not in caplog.text


def test_a_missing_step_is_named_with_the_existing_ones(runs, tmp_path):
    with pytest.raises(UsageError, match=r"step 7, 8; .*18, 20"):
        average_checkpoints(runs / "a", [8, 7, 20], tmp_path / "out")


def test_a_damaged_checkpoint_is_not_averaged(runs, tmp_path):
    run = shutil.copytree(runs / "a", tmp_path / "run")
    checkpoint_file(run, 20).write_bytes(b"")
    with pytest.raises(CheckpointError, match="step 20"):
        average_checkpoints(run, [18, 20], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_models_of_other_shapes_or_tokenizers_are_refused(runs, tmp_path):
    with pytest.raises(BundleError, match=r"model\.d_ff: 32 there, 64 here"):
        average_bundles([runs / "a" / "model", runs / "wide" / "model"], tmp_path / "out")
    run = shutil.copytree(runs / "a", tmp_path / "run")
    (run / "src.spm").write_bytes((run / "tgt.spm").read_bytes())  # of unlike size, so not loadable with the weights
    bundle = load_bundle(runs / "a" / "model")
    state = {**bundle.model.state_dict()}
    state["src_embedding.weight"] = state["tgt_embedding.weight"].clone()
    save_bundle(tmp_path / "other", state, bundle.config, run / "src.spm", run / "tgt.spm", training={})
    with pytest.raises(BundleError, match=r"src\.spm"):
        average_bundles([runs / "a" / "model", tmp_path / "other"], tmp_path / "out")


def test_the_command(runs, tmp_path):
    run = str(runs / "a")
    result = CliRunner().invoke(app, ["average", run, "--checkpoints", "18,20", "-o", str(tmp_path / "out")])
    assert (result.exit_code, result.stdout) == (0, f"{tmp_path / 'out'}\n")
    assert_mean(tmp_path / "out", *(checkpoint_file(runs / "a", step) for step in (18, 20)))
    for arguments, message in [
        ([run, "-o", str(tmp_path / "out")], "exists and is not empty"),
        (
            [run, run, "--checkpoints", "18", "-o", str(tmp_path / "new")],
            "--checkpoints needs a single run, but you gave 2 folders",
        ),
        ([run, "--checkpoints", "last", "-o", str(tmp_path / "new")], "give steps separated by commas"),
    ]:
        result = CliRunner().invoke(app, ["average", *arguments])
        assert result.exit_code == 2
        assert message in result.stderr

"""The whole of an adaptation, with a stand-in for the training: what it trains on, judges, writes and says."""

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tiny_models import save_tiny_bundle, write_lines
from typer.testing import CliRunner

from mtkit.adaptation import adapt as adapting
from mtkit.bundle import add_to_bundle, load_model, read_bundle, save_bundle
from mtkit.cli import app
from mtkit.config.data import CorpusFiles
from mtkit.config.durations import seconds_of
from mtkit.engines.shortlist import SHORTLIST, Shortlist
from mtkit.errors import TrainingError

pytestmark = pytest.mark.usefixtures("few_draws")


def mtkit(*args):
    return CliRunner().invoke(app, ["adapt", *map(str, args)])


def test_a_better_model_is_written_with_its_judgement(base, memory, tmp_path, stand_ins, monkeypatch):
    made_fast: list[Path] = []
    monkeypatch.setattr(adapting, "add_fast_forms", lambda folder, device: made_fast.append(folder))
    trained = stand_ins(1.0, lambda share: 0.9 if share == 0.5 else 0.5 * share)
    result = mtkit(base, memory, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == str(tmp_path / "out" / "model")
    assert len({line.index(".") for line in result.stdout.splitlines()[1:5]}) == 1, "the columns are aligned"
    before, after = (load_file(folder / "model.safetensors") for folder in (base, tmp_path / "out" / "model"))
    assert all(torch.allclose(after[name], weight + 0.5, atol=1e-6) for name, weight in before.items())
    facts = read_bundle(tmp_path / "out" / "model").manifest["training"]
    assert facts == {"averaged_steps": [8], "share_of_tuned_weights": 0.5}, "the scores are of other weights"
    judged = json.loads((tmp_path / "out" / "judgement.json").read_text())
    assert [point["share"] for point in judged["curve"] if point["is_chosen"]] == [0.5]
    assert judged["domain"][0]["metric"] == "BLEU" and judged["domain"][0]["p"] < 0.01
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Before and after" in page and "<ins>" in page
    [cfg] = trained
    assert cfg.train.init_from == base and cfg.train.budget.endswith("s")
    assert cfg.data.train[0].src.name == "train.src"
    assert cfg.train.label_smoothing == 0 and cfg.train.adam_eps == 1e-5, "what the memory does not concern stays"
    engines = cfg.decode.engine, read_bundle(tmp_path / "out" / "model").config.decode.engine
    assert engines == ("native", "auto") and made_fast == [tmp_path / "out" / "model"], "only the result is exported"
    again = mtkit(base, memory, "--out", tmp_path / "out", "--json")
    assert json.loads(again.stdout) == judged and len(trained) == 1, "it has ended"


def test_the_mean_halfway_to_a_share_that_loses_too_much_is_tried(base, memory, tmp_path, stand_ins):
    pairs = write_lines(
        tmp_path / "general.tsv", [f"word{i} and word{i + 1}\tmot{i} et mot{i + 1}" for i in range(400)]
    )
    stand_ins(1.0, lambda share: 1 - share if share > 0.9 else 0.3 + share / 2)
    assert mtkit(base, memory, "--out", tmp_path / "out", "--general", pairs).exit_code == 0
    curve = json.loads((tmp_path / "out" / "judgement.json").read_text())["curve"]
    assert [point["share"] for point in curve] == [0.0, 0.5, 0.75, 0.875, 1.0]
    assert [point["share"] for point in curve if point["is_chosen"]] == [0.875]


def test_a_model_that_is_not_better_leaves_the_base_and_exits_with_1(base, memory, tmp_path, stand_ins):
    stand_ins(0.0, lambda share: 0.3)
    result = mtkit(base, memory, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "not significantly better" in result.stdout and f"{base} remains" in result.stdout
    assert not (tmp_path / "out" / "model").exists() and (tmp_path / "out" / "report.html").exists()
    assert mtkit(base, memory, "--out", tmp_path / "out").exit_code == 1


def test_an_unchanged_model_agrees_with_itself_on_general_text(base, memory, general, tmp_path, stand_ins):
    stand_ins(0.0, lambda share: 0.3)
    mtkit(base, memory, "--out", tmp_path / "out", "--general", general)
    judged = json.loads((tmp_path / "out" / "judgement.json").read_text())
    assert judged["n_general"] == 30 and "agreement" in judged["general_of"]
    scores = [change[when] for change in judged["general"] for when in ("before", "after")]
    assert [*scores, judged["curve"][0]["general"]] == pytest.approx([100.0] * 5)


def test_new_pieces_are_in_the_model_and_their_gain_in_the_report(base, memory, tmp_path, stand_ins, monkeypatch):
    trained = stand_ins(1.0, lambda share: 0.5 * share)
    command = (base, memory, "--out", tmp_path / "out", "--new-pieces", 40)

    def stop(self, prepared):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(adapting._Adaptation, "_tune", stop)
        assert mtkit(*command).exit_code == 130
    made_at = (tmp_path / "out" / "extended" / "manifest.json").stat().st_mtime_ns
    result = mtkit(*command)
    assert result.exit_code == 0, result.output
    [cfg] = trained
    assert cfg.train.init_from == tmp_path / "out" / "extended"
    assert (cfg.train.init_from / "manifest.json").stat().st_mtime_ns == made_at, "it resumes"
    old, new = (read_bundle(folder).src_tokenizer for folder in (base, tmp_path / "out" / "model"))
    assert new.vocab_size == old.vocab_size + 40
    [test] = (tmp_path / "out" / "memory").rglob("test.src")
    lines = test.read_text(encoding="utf-8").splitlines()
    before, after = (sum(map(len, one.encode_batch(lines))) / len(lines) for one in (old, new))
    assert after < before
    gain = f"{before:.1f} pieces a line of the memory's test text before, {after:.1f} after"
    assert (
        gain in result.stderr and gain in json.loads((tmp_path / "out" / "judgement.json").read_text())["new_pieces"][0]
    )
    assert f"{after:.1f} after" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "another number of new pieces" in mtkit(*command[:-2]).stderr


def test_models_translate_with_the_shortlist_that_they_are_used_with(base, tmp_path):
    def with_shortlist(name, piece_id):
        folder, files = tmp_path / name, read_bundle(base)
        decode = files.config.decode.model_copy(update={"shortlist": True})
        cfg = files.config.model_copy(update={"decode": decode})
        save_bundle(folder, load_file(base / "model.safetensors"), cfg, base / "src.spm", base / "tgt.spm", training={})
        sizes = files.src_tokenizer.vocab_size, files.tgt_tokenizer.vocab_size
        add_to_bundle(folder, SHORTLIST, Shortlist.from_lexicon([[piece_id]] * sizes[0], [], sizes[1]).save)
        return read_bundle(folder)

    tokenizer = read_bundle(base).tgt_tokenizer
    old, new = (tokenizer.encode(word)[0] for word in ("chat", "table"))
    before, tuned = with_shortlist("before", old), with_shortlist("tuned", new)
    one = adapting._Adaptation(before, [], tmp_path / "out", "10m", [], 0.0, {})
    text = adapting._Text(["The cat sleeps."], [""])
    for files, piece_id in ((None, old), (tuned, new)):
        [translation] = one._translate(load_model(before), text, "", files)
        assert {*tokenizer.encode(translation)} == {piece_id}


def test_a_model_that_aligns_words_goes_on_learning_it(base, memory, tmp_path, stand_ins):
    trained = stand_ins(0.0, lambda share: 0.3)
    files, guided = read_bundle(base), tmp_path / "guided"
    train = files.config.train.model_copy(update={"guided_alignment": 0.2})
    cfg = files.config.model_copy(update={"train": train})
    save_bundle(guided, load_file(base / "model.safetensors"), cfg, base / "src.spm", base / "tgt.spm", training={})
    mtkit(guided, memory, "--out", tmp_path / "out")
    assert [cfg.train.guided_alignment for cfg in trained] == [0.2]


def test_the_text_that_the_model_can_learn_is_trained_on(base, memory, tmp_path, stand_ins, monkeypatch):
    trained, text = stand_ins(0.0, lambda share: 0.3), write_lines(tmp_path / "read.tsv", ["a\tb"])

    def shorter(one, model, folder, name):
        assert model.folder == base
        return replace(one, train=CorpusFiles(src=text, tgt=text)), "training uses less"

    monkeypatch.setattr(adapting, "as_read", shorter)
    assert "training uses less" in mtkit(base, memory, "--out", tmp_path / "out").stderr
    [cfg] = trained
    assert cfg.data.train[0].src == text
    assert json.loads((tmp_path / "out" / "judgement.json").read_text())["n_train"] == 1
    assert "<li>Training uses less.</li>" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


@pytest.fixture
def clock(monkeypatch):
    """The seconds of the clock that adaptation looks at."""
    seconds = [0.0]
    monkeypatch.setattr(adapting, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    return seconds


def takes(seconds, clock, monkeypatch):
    """Let each translation of a text take seconds(number of sentences, number of earlier texts)."""
    translate = adapting._Adaptation._translate
    earlier: list[str] = []

    def timed(self, model, text, what, files=None):
        clock[0] += seconds(len(text.sources), len(earlier))
        earlier.append(what)
        return translate(self, model, text, what)

    monkeypatch.setattr(adapting._Adaptation, "_translate", timed)


def test_the_first_sentence_does_not_count_in_the_expected_time(base, memory, tmp_path, stand_ins, clock, monkeypatch):
    trained = stand_ins(0.0, lambda share: 0.3)
    takes(lambda n_sentences, n_earlier: 0.01 * n_sentences if n_earlier else 30, clock, monkeypatch)
    adapting.adapt(base, [memory], tmp_path / "out", "5m", since=0.0)
    [cfg] = trained
    assert seconds_of(cfg.train.budget) >= 300 - 30 - 10  # 10 for judging, loading and writing


def test_a_budget_without_time_to_train_is_refused_with_one_that_suffices(
    base, memory, tmp_path, stand_ins, clock, monkeypatch
):
    pairs = write_lines(tmp_path / "pairs.tsv", [f"word{i} and word{i + 1}\tmot{i} et mot{i + 1}" for i in range(2000)])
    trained = stand_ins(0.0, lambda share: 0.3)
    takes(lambda n_sentences, n_earlier: 0.05 * n_sentences, clock, monkeypatch)
    monkeypatch.setattr(adapting, "sentences_for_fast_forms", lambda *about: 1500)
    with pytest.raises(TrainingError) as error:
        adapting.adapt(base, [memory], tmp_path / "out", "2m", [pairs], since=clock[0])
    [enough] = re.findall(r"--budget (\w+),", str(error.value))
    adapting.adapt(base, [memory], tmp_path / "out", enough, [pairs], since=clock[0])
    [cfg] = trained
    assert seconds_of(cfg.train.budget) > 0.3 * seconds_of(enough)


def test_the_dev_text_of_the_base_is_general_text(memory, tmp_path, stand_ins, base):
    pairs = [f"word{i} and word{i + 1}\tmot{i} et mot{i + 1}" for i in range(100)]
    with_dev = tmp_path / "with-dev"
    save_tiny_bundle(with_dev, None, dev={"tsv": str(write_lines(tmp_path / "dev.tsv", pairs))})
    stand_ins(1.0, lambda share: 0.5 * share)
    mtkit(with_dev, memory, "--out", tmp_path / "out")
    (tmp_path / "dev.tsv").unlink()
    judged = json.loads((tmp_path / "out" / "judgement.json").read_text())
    assert judged["n_general"] == 30 and judged["general_of"] == "the base's dev text" and judged["most_lost"] == 0.5
    assert (tmp_path / "out" / "general" / "dev.src").read_text().splitlines()[0] == "word0 and word1"


def test_training_text_of_the_base_is_mixed_in_with_its_references_and_dropout(memory, tmp_path, stand_ins, base):
    def text(name):
        return {"tsv": str(write_lines(tmp_path / f"{name}.tsv", [f"{name} word{i}\tmot{i}" for i in range(100)]))}

    with_text = tmp_path / "with-text"
    dropouts: dict[str, Any] = {"residual_dropout": 0.3, "embedding_dropout": 0.0}
    save_tiny_bundle(with_text, None, train=text("train"), dev=text("dev"), **dropouts)
    trained = stand_ins(1.0, lambda share: 0.5 * share)
    mtkit(with_text, memory, "--out", tmp_path / "out")
    mixed = {part: (tmp_path / "out" / "general" / f"mix.{part}").read_text().splitlines() for part in ("src", "tgt")}
    assert {"train word0", "train word99"} <= set(mixed["src"])
    assert [src.split("word")[1] for src in mixed["src"]] == [tgt.removeprefix("mot") for tgt in mixed["tgt"]]
    [cfg] = trained
    assert {key: getattr(cfg.model, key) for key in dropouts} == dropouts

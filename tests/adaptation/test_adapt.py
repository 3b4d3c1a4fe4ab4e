"""The whole of an adaptation, with a stand-in for the training: what it judges, writes and says."""

import json
import math
import random
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import load_file
from tiny_models import SRC, save_tiny_bundle, write_lines
from typer.testing import CliRunner

from mtkit.adaptation import adapt as adapting
from mtkit.bundle import add_to_bundle, load_model, read_bundle, save_bundle
from mtkit.cli import app
from mtkit.config.data import CorpusFiles
from mtkit.config.durations import seconds_of
from mtkit.engines.shortlist import SHORTLIST, Shortlist
from mtkit.errors import DataError, MtkitError, TrainingError
from mtkit.interop import marian_vocabulary
from mtkit.interop.ctranslate2 import export as ctranslate2
from mtkit.interop.ctranslate2.folder import Tokenizers
from mtkit.interop.huggingface import folder as huggingface
from mtkit.interop.parity import ComparedText, Tolerance
from mtkit.runs.finish import TrainResult
from mtkit.training.update.budget import BudgetError, Shortage
from mtkit.training.update.checkpoint import Checkpoints

pytestmark = pytest.mark.usefixtures("few_draws")


@pytest.fixture
def base(tmp_path):
    save_tiny_bundle(tmp_path / "base", None)
    return tmp_path / "base"


@pytest.fixture
def memory(tmp_path, monkeypatch):
    """200 different pairs; the rules of cleaning let them pass."""
    monkeypatch.setattr("mtkit.corpora.cleaning.clean.active_rules", lambda cfg: ["empty", "max_letters"])
    draw = random.Random(1)
    lines = [
        "\t".join(" ".join("".join(draw.choices(letters, k=5)) for _ in range(6)) for letters in ("abcdefg", "lmnopqr"))
        for _ in range(200)
    ]
    return write_lines(tmp_path / "memory.tsv", lines)


@pytest.fixture
def general(tmp_path):
    """Text without translations."""
    return write_lines(tmp_path / "general.txt", [f"word{i} and word{i + 1}" for i in range(100)])


@pytest.fixture
def stand_ins(base, monkeypatch):
    """stand_ins(step, quality): training adds `step` to the weights, and a model's translations are `quality` of it.

    quality: from the share of the tuned weights to the share of sentences that are translated as the reference.
    Returns the configs that were trained.
    """
    weights = load_file(base / "model.safetensors")
    name = next(name for name, weight in weights.items() if weight.ndim == 2 and "layers" in name)
    trained = []

    def make(step, quality):
        def train(cfg):
            trained.append(cfg)
            files, folder = read_bundle(cfg.train.init_from), cfg.run_dir / "model"
            stored = load_file(files.folder / "model.safetensors")
            tuned = load_model(files).state_dict() | {key: weight + step for key, weight in stored.items()}
            facts = {"averaged_steps": [8 if step else 0], "dev": {"bleu": 1.0}, "dev_metrics": []}
            spm = files.folder / "src.spm", files.folder / "tgt.spm"
            save_bundle(folder, tuned, files.config, *spm, training=facts)
            return TrainResult(folder, 8, "budget", {}, (8,))

        def translate(self, model, text, what, files=None):
            moved = float((model.state_dict()[name] - weights[name]).mean())
            n_right = round(quality(moved / step if step else 0.0) * len(text.sources))
            return [*text.references[:n_right], *["ce ne sont que des mots"] * (len(text.sources) - n_right)]

        monkeypatch.setattr(adapting, "train", train)
        monkeypatch.setattr(adapting._Adaptation, "_translate", translate)
        return trained

    return make


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


def test_a_longer_budget_gives_more_time_to_a_run_that_could_not_start(base, memory, tmp_path, stand_ins, monkeypatch):
    def too_short(cfg):
        left = seconds_of(cfg.train.budget)  # of 600 s; judging and the other text get 35 % of what is added
        raise BudgetError(Shortage(cfg.train.budget, 400.0, 200.0, 20.0, 0.0, enough=left + 0.65 * 595))

    trained = stand_ins(0.0, lambda share: 0.3)
    with monkeypatch.context() as patch:
        patch.setattr(adapting, "train", too_short)
        refused = mtkit(base, memory, "--out", tmp_path / "out").stderr
        assert "leaves too little" in refused and "take 10m" in refused and "train.budget" not in refused
        assert "--budget 20m" in refused
    mtkit(base, memory, "--out", tmp_path / "out", "--budget", "20m")
    [cfg] = trained
    assert seconds_of(cfg.train.budget) > seconds_of("10m")


def test_a_longer_budget_continues_an_adaptation_that_has_ended(base, memory, tmp_path, stand_ins, monkeypatch):
    trained = stand_ins(0.0, lambda share: 0.3)
    monkeypatch.setattr(Checkpoints, "exist", lambda self: bool(trained))
    for budget in ("10m", "10m", "30m", "30m"):
        mtkit(base, memory, "--out", tmp_path / "out", "--budget", budget)
    first, second = (seconds_of(cfg.train.budget) for cfg in trained)
    assert second - first == 20 * 60


def test_a_memory_that_has_grown_starts_again_from_the_base(base, memory, tmp_path, stand_ins):
    trained = stand_ins(1.0, lambda share: 0.5 * share)
    mtkit(base, memory, "--out", tmp_path / "out")
    lines = memory.read_text(encoding="utf-8").splitlines()
    (tmp_path / "out" / "run" / "of-the-first").write_text("")
    write_lines(memory, [*lines[20:], *(f"{line[::-1]}" for line in lines[:40])])
    result = mtkit(base, memory, "--out", tmp_path / "out")
    assert result.exit_code == 0 and "the memory has changed" in result.stderr
    assert json.loads((tmp_path / "out" / "judgement.json").read_text())["n_read"] == 220
    assert len(trained) == 2 and not (tmp_path / "out" / "run" / "of-the-first").exists()
    mtkit(base, memory, "--out", tmp_path / "out")
    assert len(trained) == 2, "it has ended"


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


def test_what_the_base_has_translated_is_not_translated_again(base, memory, general, tmp_path, stand_ins, monkeypatch):
    stand_ins(0.0, lambda share: 0.3)
    translate, searched = adapting._Adaptation._translate, dict[str, list[str]]()

    def listed(self, model, text, what, files=None):
        searched[what] = text.sources
        return translate(self, model, text, what)

    def again():
        (tmp_path / "out" / "judgement.json").unlink()
        searched.clear()
        mtkit(base, memory, "--out", tmp_path / "out", "--general", general)
        return {what: sources for what, sources in searched.items() if "before" in what or "first" in what}

    monkeypatch.setattr(adapting._Adaptation, "_translate", listed)
    mtkit(base, memory, "--out", tmp_path / "out", "--general", general)
    assert {"memory's test, before", "general test, before", "general dev, before"} < {*searched}
    first = searched["memory's test, before"]
    assert again() == {}, "it resumes"
    lines = memory.read_text(encoding="utf-8").splitlines()
    write_lines(memory, [*lines, *(f"{line[::-1]}" for line in lines[:40])])
    grown = again()
    assert grown.keys() <= {"first sentence", "memory's test, before"}, "the general text has not changed"
    assert not {*grown.get("memory's test, before", [])} & {*first}


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
    stand_ins(0.0, lambda share: 0.3)
    takes(lambda n_sentences, n_earlier: 0.2 * n_sentences, clock, monkeypatch)
    with pytest.raises(TrainingError) as error:
        adapting.adapt(base, [memory], tmp_path / "out", "1m", since=0.0)
    needed, enough = re.findall(r"(?:take|--budget) (\w+)[;,]", str(error.value))
    assert seconds_of(enough) - seconds_of(needed) > 0.3 * seconds_of(enough)


def test_a_folder_of_another_adaptation_is_refused(base, memory, tmp_path, stand_ins):
    stand_ins(0.0, lambda share: 0.3)
    mtkit(base, memory, "--out", tmp_path / "out")
    other = write_lines(tmp_path / "other.tsv", ["a\tb"])
    result = mtkit(base, other, "--out", tmp_path / "out")
    assert result.exit_code == 1 and "another memory" in result.stderr and "--out" in result.stderr


def test_a_memory_that_cannot_be_read_leaves_the_folder_to_another(base, memory, tmp_path, stand_ins):
    stand_ins(0.0, lambda share: 0.3)
    wrong = write_lines(tmp_path / "notes.txt", ["one side"])
    assert mtkit(base, wrong, "--out", tmp_path / "out", "--new-pieces", 40).exit_code == 2
    assert "not significantly better" in mtkit(base, memory, "--out", tmp_path / "out").stdout


def test_a_memory_that_cannot_be_read_again_keeps_the_folder(base, memory, tmp_path, stand_ins, monkeypatch):
    trained, out = stand_ins(0.0, lambda share: 0.3), tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(adapting._Adaptation, "_tune", Mock(side_effect=KeyboardInterrupt))
        assert mtkit(base, memory, "--out", out).exit_code == 130
    lines = memory.read_text(encoding="utf-8").splitlines()
    assert mtkit(base, write_lines(tmp_path / "notes.txt", lines), "--out", out).exit_code == 2
    other = write_lines(tmp_path / "other.tsv", [line[::-1] for line in lines])
    refused = mtkit(base, other, "--out", out)
    assert refused.exit_code == 1 and "another memory" in refused.stderr and not trained
    assert "not significantly better" in mtkit(base, memory, "--out", out).stdout


def test_the_translations_of_another_base_are_not_used(base, memory, tmp_path, stand_ins, monkeypatch):
    stand_ins(0.0, lambda share: 0.3)
    translate, searched, out = adapting._Adaptation._translate, list[str](), tmp_path / "out"

    def listed(self, model, text, what, files=None):
        searched.append(what)
        return translate(self, model, text, what)

    monkeypatch.setattr(adapting._Adaptation, "_translate", listed)
    mtkit(base, memory, "--out", out)
    with monkeypatch.context() as patch:
        patch.setattr(adapting, "as_read", Mock(side_effect=DataError("nothing to learn")))
        write_lines(memory, [*memory.read_text(encoding="utf-8").splitlines(), "one more\tun de plus"])
        assert "nothing to learn" in mtkit(base, memory, "--out", out).stderr
    searched.clear()
    other = tmp_path / "other"
    save_tiny_bundle(other, None, d_ff=48)
    mtkit(other, memory, "--out", out)
    assert "memory's test, before" in searched


def test_a_memory_that_cannot_be_learned_leaves_the_folder_to_another(base, memory, tmp_path, stand_ins, monkeypatch):
    stand_ins(0.0, lambda share: 0.3)
    pairs = [line.split("\t") for line in memory.read_text(encoding="utf-8").splitlines()]
    other = write_lines(tmp_path / "other.tsv", [f"{src[::-1]}\t{tgt[::-1]}" for src, tgt in pairs])
    out = tmp_path / "out"

    def nothing(one, model, folder, name):
        raise DataError(f"{name}: nothing to learn")

    with monkeypatch.context() as patched:
        patched.setattr(adapting, "as_read", nothing)
        assert "nothing to learn" in mtkit(base, memory, "--out", out).stderr
    assert not (out / "adaptation.json").exists() and not (out / "memory").exists()
    assert "not significantly better" in mtkit(base, other, "--out", out).stdout


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("opus/config.json", b"{}"),
        ("marian/model.npz", b"PK\x03\x04"),
        ("marian/any.name", b"PK\x03\x04"),
        ("marian/model.bin", (1).to_bytes(8, "little")),
        ("en_fr.argosmodel", b""),
    ],
)
def test_a_model_of_another_system_is_imported_first(tmp_path, monkeypatch, name, start):
    imported: list[Path] = []

    def import_model(path, out, src_lang, tgt_lang):
        imported.append(out)
        save_tiny_bundle(out, None)
        print(out)

    def adapt(folder, *_):
        raise DataError(f"adapting {folder}")

    monkeypatch.setattr("mtkit.cli.shipping.import_model.import_model", import_model)
    monkeypatch.setattr(adapting, "adapt", adapt)
    model = tmp_path / name
    model.parent.mkdir(exist_ok=True)
    model.write_bytes(start)
    memory = write_lines(tmp_path / "memory.tsv", ["a\tb"])
    for _ in range(2):
        result = mtkit(model.parent if name == "opus/config.json" else model, memory, "--out", tmp_path / "out")
        [base] = imported
        assert base.parent == tmp_path / "out"
        assert f"adapting {base}" in result.stderr and result.stdout == ""
    model.write_bytes(start + b"another model")
    mtkit(model.parent if name == "opus/config.json" else model, memory, "--out", tmp_path / "out")
    assert len({*imported}) == 2


def test_a_language_of_the_other_side_makes_another_base(tmp_path, monkeypatch):
    bases: list[Path] = []

    def import_model(path, out, src_lang, tgt_lang):
        bases.append(out)
        raise MtkitError("enough")

    monkeypatch.setattr("mtkit.cli.shipping.import_model.import_model", import_model)
    (tmp_path / "model.npz").write_bytes(b"PK\x03\x04")
    memory = write_lines(tmp_path / "memory.tsv", ["a\tb"])
    for side in ("--src-lang", "--tgt-lang"):
        mtkit(tmp_path / "model.npz", memory, "--out", tmp_path / "out", side, "pt")
    assert len({*bases}) == 2


def packed_for_one_processor(path: Path) -> None:
    raise MtkitError(f"{path}: convert the model again with `marian-conv --gemm-type intgemm8`")


@pytest.mark.parametrize(
    ("problem", "option", "needs_import"),
    [
        (marian_vocabulary.beside, "--src-vocab", True),
        (Tokenizers.find, "--src-spm", True),
        (packed_for_one_processor, "--gemm-type", False),
    ],
)
def test_only_an_import_that_lacks_files_advises_its_options(tmp_path, monkeypatch, problem, option, needs_import):
    def import_model(path, out, src_lang, tgt_lang):
        problem(path)

    monkeypatch.setattr("mtkit.cli.shipping.import_model.import_model", import_model)
    (tmp_path / "model.npz").write_bytes(b"PK\x03\x04")
    memory = write_lines(tmp_path / "memory.tsv", ["a\tb"])
    result = mtkit(tmp_path / "model.npz", memory, "--out", tmp_path / "out")
    assert result.exit_code == 1 and option in result.stderr
    assert (f"mtkit import {tmp_path / 'model.npz'} --out" in result.stderr) is needs_import


@pytest.mark.parametrize("form", ["hf", "float32", "float16", "int8"])
def test_a_folder_of_another_system_is_tuned_from_its_own_weights(base, memory, tmp_path, stand_ins, form):
    shutil.rmtree(base)
    save_tiny_bundle(base, None, norm_position="post", positions="marian", tie="all")
    if form == "hf":
        huggingface.export_bundle(base, tmp_path / "folder")
    else:
        texts, any_difference = [ComparedText("text", None, SRC, None)], Tolerance(0, math.inf, math.inf)
        ctranslate2.export_bundle(read_bundle(base), tmp_path / "folder", form, texts, any_difference, 1)
    stand_ins(1.0, lambda share: 0.5 if share > 0.95 else 0.0)
    result = mtkit(tmp_path / "folder", memory, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    [imported] = [path.parent for path in (tmp_path / "out").glob("base-*/manifest.json")]
    before, after = (load_file(folder / "model.safetensors") for folder in (imported, tmp_path / "out" / "model"))
    for name, weight in before.items():
        if name != "output.bias":  # of tokens that are never written
            assert torch.allclose(after[name], weight + 1, atol=1e-5), name
    own = load_file(base / "model.safetensors")
    [name] = [name for name in own if "encoder_layers.0.feed_forward.in_proj.weight" in name]
    assert torch.allclose(before[name], own[name], atol=0 if form in ("hf", "float32") else 0.05)


def test_a_model_of_many_languages_is_imported_for_those_of_the_memory(make_m2m100, tmp_path, monkeypatch):
    bases = []

    def adapt(folder, *_):
        bases.append(read_bundle(folder))
        raise DataError("enough")

    monkeypatch.setattr(adapting, "adapt", adapt)
    model = make_m2m100(tmp_path / "nllb", "nllb")
    command = (model, write_lines(tmp_path / "memory.tsv", ["a\tb"]), "--out", tmp_path / "out")
    refused = mtkit(*command)
    assert refused.exit_code == 1 and "--src-lang" in refused.stderr and "mtkit import" not in refused.stderr
    for src, tgt in (("en", "fr"), ("fr", "en")):
        assert "enough" in mtkit(*command, "--src-lang", src, "--tgt-lang", tgt).stderr
    asked = [(base.config.data.src_lang, base.config.data.tgt_lang) for base in bases]
    assert asked == [("eng_Latn", "fra_Latn"), ("fra_Latn", "eng_Latn")]


def test_the_languages_of_a_bundle_are_not_given_again(base, memory, tmp_path):
    refused = mtkit(base, memory, "--out", tmp_path / "out", "--src-lang", "en", "--tgt-lang", "fr")
    assert refused.exit_code == 2 and "leave out --src-lang" in refused.stderr


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

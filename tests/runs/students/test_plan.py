"""The plan of students: their sizes, speeds and updates in a budget, and what is refused."""

import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from typer.testing import CliRunner

from mtkit.bundle import read_bundle
from mtkit.cli import app
from mtkit.config.model import PRESETS
from mtkit.data.corpus import read_pairs
from mtkit.model.transformer import Transformer
from mtkit.runs.students import make
from mtkit.runs.students import plan as student_plan
from mtkit.runs.students.frontier import Figures
from mtkit.runs.students.plan import MeasuredRun, ShapePlan, StudentsPlan, plan_students
from mtkit.tokens.special_ids import EOS_ID

pytestmark = pytest.mark.usefixtures("work")


@pytest.fixture
def small_shape(monkeypatch) -> None:
    """Make student-tiny, the only shape to plan, a model that is trained in moments."""
    sizes = {"d_model": 64, "d_ff": 64, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}
    monkeypatch.setitem(PRESETS, "student-tiny", PRESETS["student-tiny"] | sizes)
    monkeypatch.setattr(student_plan, "SHAPES", ["student-tiny"])


def prepared(cfg, folder, checkpoints, since, text_times):
    """Stand in for the preparation of a run, in which an update takes 0.1 seconds."""
    assert time.monotonic() - since >= 45.0, "translating, and the text"
    tokenizer = SimpleNamespace(vocab_size=cfg.tokenizer.src.vocab_size)
    return SimpleNamespace(
        cfg=cfg,
        text=SimpleNamespace(tokenizers=(tokenizer, tokenizer)),
        update_s=0.1,
        validation_s=1.0,
        validator=SimpleNamespace(n_sentences=100),
        updater=SimpleNamespace(device=torch.device("cpu")),
        epoch_size=SimpleNamespace(n_updates=1000),
    )


def test_a_plan_has_size_speed_and_updates_and_leaves_the_teacher_unchanged(
    teacher, work, small_shape, tmp_path, monkeypatch
):
    before = {path: path.read_bytes() for path in teacher.rglob("*") if path.is_file()}
    monkeypatch.setattr(student_plan, "SHAPES", ["student-tiny", "student-tiny"])
    folders = []
    monkeypatch.setattr(student_plan, "ready_text", lambda cfg, folder: folders.append(folder) or (None, {}, 5.0))
    monkeypatch.setattr(student_plan, "prepare", prepared)
    monkeypatch.setattr(student_plan, "_TIMED", 40)
    monkeypatch.setattr(student_plan, "_search_of_teacher", lambda files, dev: 0.0075 * len(dev[0].pairs))
    monkeypatch.setattr(student_plan, "_search_of_student", lambda model, course, dev: 0.0025 * len(dev[0].pairs))
    plan = plan_students(teacher, "10h")
    assert len(folders) == 1, "both shapes have the same vocabulary"
    assert {path: path.read_bytes() for path in teacher.rglob("*") if path.is_file()} == before
    assert (plan.n_sentences, plan.n_lines) == (400, 400)
    assert (plan.translated_share, plan.translating_s) == (1.0, pytest.approx(40.0)), "0.1 s a line"
    [shape] = plan.shapes
    # The teacher takes 10 ms a sentence, 7.5 ms of them in its search; the student's search takes 2.5 ms.
    assert (shape.sentences_per_s, shape.words_per_s) == (pytest.approx(200.0), pytest.approx(1200.0))
    assert 330_000 < shape.updates < 360_000, "most of ten hours"
    assert shape.epochs == shape.updates / 1000
    assert shape.problem == shape.expect == ""
    n_weights = 400 * 64 + 400 + 16 * 64**2 + 25 * 64  # embeddings, output bias, matrices, vectors
    assert n_weights < 1e6 * shape.megabytes < n_weights + 30_000
    assert (shape.exports["bergamot"], len(shape.exports["ctranslate2"])) == ([], 1)
    assert [run.pair for run in shape.measured] == ["en-fr", "en-fr", "en-de"], "all runs of this shape"


def test_a_plan_prepares_a_sample_of_a_large_text(save_model, small_shape, tmp_path, texts, monkeypatch):
    (tmp_path / "few.tsv").write_text("a\tb\nc\td\n")
    files = read_bundle(save_model(tmp_path / "any", train=[texts, {"tsv": str(tmp_path / "few.tsv")}]))
    monkeypatch.setattr(student_plan, "_PAIRS_PER_PIECE", 0.25)  # of 400 pieces
    cfg, _ = make.student_config(files, tmp_path, "1h", "student-tiny", make.text_of(files), [1.0])
    sampled, times = student_plan._sampled(cfg, tmp_path / "scratch")
    many, few = sampled.data.train
    assert [len([*read_pairs([corpus])]) for corpus in (many, few)] == [99, 1], "400 and 2, times 100 / 402, but one"
    assert times == pytest.approx(402 / 100, rel=0.01)
    assert sampled.run_dir == tmp_path / "scratch"


def test_a_random_student_writes_as_much_as_the_references_have(save_model, tmp_path, monkeypatch):
    files = read_bundle(save_model(tmp_path / "any"))
    [dev] = make.dev_text(files)
    model = Transformer(files.config.model, 300, 300)
    torch.nn.init.constant_(model.output.bias[EOS_ID], 50.0)  # by itself, it would write nothing
    lengths = {}

    def search_s(engine, segments, decode):
        lengths.update({index: len(best.ids) for index, [best] in engine.decode(segments, decode, 1)})
        return 1.0

    monkeypatch.setattr(student_plan, "_search_s", search_s)
    tokenizers = files.src_tokenizer, files.tgt_tokenizer
    course = student_plan._Course(files.config, tokenizers, 1, 1.0, "")
    student_plan._search_of_student(model, course, [replace(dev, pairs=dev.pairs[:20])])
    expected = [len(files.tgt_tokenizer.encode(pair.tgt)) + 1 for pair in dev.pairs[:20]]  # and <end>
    assert [lengths[index] for index in range(20)] == expected


def test_the_measured_students_are_those_of_the_table():
    table = Path(__file__).parents[3] / "scripts" / "results" / "students.tsv"
    names, *rows = (line.split("\t") for line in table.read_text().splitlines())
    runs = [dict(zip(names, row, strict=True)) for row in rows]
    expected = [(one["shape"], one["pair"], int(one["updates"]), float(one["epochs"])) for one in runs]
    assert [(one.shape, one.pair, one.updates, one.epochs) for one in student_plan.MEASURED] == expected
    lost = [float(one["teacher_test_bleu"]) - float(one["test_bleu"]) for one in runs]
    assert [one.bleu_lost for one in student_plan.MEASURED] == pytest.approx(lost)


def planned(*options: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["plan", *options])
    return result.exit_code, result.stdout, result.stderr


def test_the_plan_is_a_table_with_the_measured_runs(teacher, monkeypatch):
    runs = [MeasuredRun("student-tiny", pair, 2666, 1.6, lost) for pair, lost in (("en-fr", 10.2), ("en-de", 9.1))]
    shapes = [
        ShapePlan(
            "student-tiny",
            9.97,
            900.0,
            5432.0,
            2700,
            1.75,
            "",
            "expect little",
            runs,
            {"bergamot": [], "ctranslate2": ["no"]},
        ),
        ShapePlan(
            "student-ct2",
            11.2,
            700.0,
            4321.0,
            0,
            0.0,
            "too short a budget",
            "",
            [],
            {"bergamot": [], "ctranslate2": []},
        ),
    ]
    plan = StudentsPlan(Figures(39.0, 27.0, 500.0, 3000.0), 500, 149_231, 0.53, 169.0, shapes, "1.4 of 2 cores")
    monkeypatch.setattr(student_plan, "plan_students", lambda *_: plan)
    code, text, _ = planned("--student", str(teacher), "--budget", "18m")
    assert code == 0
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in text.splitlines() if line.strip()}
    assert rows["student-tiny"] == "10.0 5,432 2,700 1.8 9.1 to 10.2 (2 runs) yes no"
    assert rows["student-ct2"] == "11.2 4,321 too short not measured yes yes"
    assert "39.00 on 500 sentences" in text and "27.0 3,000" in rows["teacher"]
    assert "53% of them in 2m49s" in rows["text"] and "1.4 of 2 cores" in text
    assert "student-tiny: 2,700 updates: expect little" in text and "student-ct2: 0" not in text
    assert "en-de: 9.1 after 2,666 updates, 1.6 epochs" in text
    code, text, _ = planned("--student", str(teacher), "--budget", "18m", "--json")
    assert json.loads(text)["shapes"][0]["measured"][1]["bleu_lost"] == 9.1


def test_what_cannot_be_planned_is_refused(teacher, save_model, small_shape, tmp_path, monkeypatch):
    monkeypatch.setattr(student_plan, "_search_s", lambda *_: 1.0)
    of_teacher = "--student", str(teacher)
    code, _, said = planned(*of_teacher)
    assert code == 2 and "--budget" in said
    code, _, said = planned(*of_teacher, "--budget", "soon")
    assert code == 2 and "--budget soon" in said
    code, _, said = planned("config.yaml", *of_teacher, "--budget", "3m")
    assert code == 2 and "--student" in said
    code, _, said = planned("--budget", "3m")
    assert code == 2 and "config" in said
    code, _, said = planned(*of_teacher, "--budget", "3m", "--set", "seed=1")
    assert code == 2 and "--set" in said
    code, text, said = planned(*of_teacher, "--budget", "5s")
    assert code == 1 and "--budget 5s" in said and "too short" in text
    (tmp_path / "of-a-student").mkdir()
    bundle = save_model(tmp_path / "of-a-student" / "model")
    (bundle.parent / "student.json").write_text("{}")
    code, _, said = planned("--student", str(bundle.parent), "--budget", "3m")
    assert code == 1 and f"{bundle.parent}: this is a student" in said
    (tmp_path / "a.en").unlink()
    code, _, said = planned(*of_teacher, "--budget", "3m")
    assert code == 1 and "a.en: no such file" in said and "data.dev" in said
    (tmp_path / "a.en").write_text("x\n")
    gone = save_model(tmp_path / "gone", train=[{"src": str(tmp_path / "gone.en"), "tgt": str(tmp_path / "a.fr")}])
    code, _, said = planned("--student", str(gone), "--budget", "3m")
    assert code == 1 and "gone.en: no such file" in said and "--text of `mtkit make-student`" in said

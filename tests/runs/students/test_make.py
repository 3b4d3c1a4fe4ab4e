"""Students: their plan, what they take from the teacher, how the budget divides the text, and what is refused.

Stand-ins translate, train, export and measure: each has tests of its own.
"""

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from typer.testing import CliRunner

from mtkit.bundle import read_bundle, save_bundle
from mtkit.cli import app
from mtkit.config.distillation import DistillConfig
from mtkit.config.model import PRESETS
from mtkit.config.schema import Config
from mtkit.config.tokenizer import TokenizersConfig
from mtkit.data.corpus import read_pairs
from mtkit.errors import ConfigError, DataError, MtkitError, TrainingError
from mtkit.model.transformer import Transformer
from mtkit.runs.students import frontier, make
from mtkit.runs.students import plan as student_plan
from mtkit.runs.students.frontier import Figures
from mtkit.runs.students.make import figures_of, make_student, share_in
from mtkit.runs.students.plan import MeasuredRun, ShapePlan, StudentsPlan, plan_students
from mtkit.tokens.special_ids import EOS_ID
from mtkit.tokens.tokenizer import Tokenizer
from mtkit.training.update.budget import BudgetError, Shortage
from mtkit.translation.translator import Translator

SOURCES = [f"source {n}" for n in range(400)]


@pytest.fixture
def texts(tmp_path) -> dict[str, str]:
    (tmp_path / "a.en").write_text("".join(f"{line}\n" for line in SOURCES))
    (tmp_path / "a.fr").write_text("".join(f"target {line}\n" for line in SOURCES))
    return {"src": str(tmp_path / "a.en"), "tgt": str(tmp_path / "a.fr")}


@pytest.fixture
def save_model(tmp_path, spm, texts):
    """save_model(folder, augment={...}, train=[...]): a bundle whose config has tokenizers of 300 and 400 pieces."""

    def save(folder: Path, augment: dict[str, float] | None = None, **data: object) -> Path:
        sizes = {"d_model": 16, "d_ff": 32, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}
        pieces = {side: {"type": "bpe", "vocab_size": size} for side, size in (("src", 300), ("tgt", 400))}
        corpora = {"train": [{**texts, "weight": 2.0}], "dev": texts, "src_lang": "en", "tgt_lang": "fr"}
        values = {"data": {**corpora, **data}, "tokenizer": pieces, "model": sizes, "train": {"threads": 1}}
        values["augment"] = augment or {}
        cfg = Config.model_validate(values)
        vocab_size = Tokenizer.load(spm).vocab_size
        model = Transformer(cfg.model, vocab_size, vocab_size)
        save_bundle(folder, model.state_dict(), cfg, spm, spm, training={"dev": {"bleu": 12.5}})
        return folder

    return save


@pytest.fixture
def teacher(save_model, tmp_path) -> Path:
    return save_model(tmp_path / "teacher")


class StandIns:
    """What takes time: a line takes the teacher 0.1 seconds, and its translations are their sources in capitals."""

    def __init__(self, save_model) -> None:
        self.save_model = save_model
        self.timings = 0
        self.distilled: list[DistillConfig] = []
        self.trained: list[Config] = []
        self.sources: list[str] = []
        self.references: list[str] = []

    def seconds_per_line(self, files, lines):
        self.timings += 1
        return 0.1

    def with_teachers_text(self, cfg):
        self.distilled.append(cfg.distill)
        corpora = []
        for n, corpus in enumerate(cfg.data.train):
            path = cfg.run_dir / f"made-{n}.tsv"
            self.sources += [pair.src for pair in read_pairs([corpus])]
            self.references += [pair.tgt for pair in read_pairs([corpus])]
            path.write_text("".join(f"{line}\t{line.upper()}\n" for line in self.sources))
            corpora.append(corpus.model_copy(update={"src": None, "tgt": None, "tsv": path}))
        return cfg.model_copy(update={"data": cfg.data.model_copy(update={"train": corpora})})

    def train(self, cfg, since):
        self.trained.append(cfg)
        dump = cfg.data.model_dump(mode="json")
        return SimpleNamespace(bundle=self.save_model(cfg.run_dir / "model", train=dump["train"]))

    def export_bundle(self, files, to, out, *rest):
        assert to == "bergamot"
        assert (files.folder / "shortlist.npz").exists()
        out.mkdir(exist_ok=True)
        (out / "model.enfr.bin").write_bytes(b"1234")
        return SimpleNamespace(searches=[SimpleNamespace(equal_lines=3, bleu_change=-0.25)])

    def figures(self, files, weights, dev):
        return Figures(40.0, weights.stat().st_size, 100.0, 600.0)


@pytest.fixture(autouse=True)
def work(monkeypatch, save_model) -> StandIns:
    torch.set_num_threads(1)
    work = StandIns(save_model)
    for name in ("with_teachers_text", "train", "export_bundle"):
        monkeypatch.setattr(make, name, getattr(work, name))
    monkeypatch.setattr(make, "_seconds_per_line", work.seconds_per_line)
    monkeypatch.setattr(make, "figures_of", work.figures)
    return work


@pytest.mark.parametrize(
    ("seconds", "n_lines", "share"),
    [(20.0, 400, 0.5), (100.0, 400, 1.0), (1.0, 400, 0.25), (1.0, 50, 1.0)],  # at least 100 lines
)
def test_the_teacher_translates_what_there_is_time_for(seconds, n_lines, share):
    assert share_in(seconds, 0.1, n_lines) == share


def test_languages_text_and_tokenizer_are_the_teachers(teacher, work, tmp_path):
    made = make_student(teacher, tmp_path / "out", "3m")
    [cfg] = work.trained
    assert (cfg.data.src_lang, cfg.data.tgt_lang, cfg.train.budget, cfg.train.guided_alignment) == (
        *("en", "fr"),
        *("3m", 0.1),
    )
    assert "tgt" not in cfg.tokenizer.model_fields_set, "which would cause a warning"
    assert (cfg.tokenizer.shared, cfg.tokenizer.src.type, cfg.tokenizer.src.vocab_size) == (True, "bpe", 400)
    assert (cfg.model.d_model, cfg.model.decoder, cfg.model.tie) == (256, "ssru", "all")
    assert [corpus.weight for corpus in cfg.data.train] == [2.0]
    assert cfg.augment.rates.keys() == {"lower_case", "no_final_mark", "typos"}, "as people type on a page"
    assert work.sources == SOURCES
    assert (made.bundle, made.browser) == (tmp_path / "out" / "model", tmp_path / "out" / "browser")
    assert made.figures.megabytes == 4, "of the file that the browser loads"
    measured = frontier.read(tmp_path / "out")
    assert measured is not None
    assert (measured.teacher, measured.student) == (made.teacher_figures, made.figures)
    assert measured.n_sentences == len(SOURCES)


def test_the_teachers_own_shares_of_changed_text_stay(save_model, work, tmp_path):
    make_student(save_model(tmp_path / "teacher", augment={"typos": 0.25}), tmp_path / "out", "3m")
    assert work.trained[0].augment.rates == {"typos": 0.25}


@pytest.mark.parametrize(
    ("shape", "n_characters", "n_pieces"),
    [
        ("student-shallow", 100, 4400),
        ("student-tiny", 100, 4400),  # 100 letters, alone and at the start of a word
        ("student-tiny", 1500, 6000),
        ("student-tiny", 4000, 8000),
        ("student-base-memory", 100, 8000),
    ],
)
def test_the_smallest_student_has_fewer_pieces_unless_the_script_needs_them(teacher, shape, n_characters, n_pieces):
    letters = [chr(0x4E00 + n) for n in range(n_characters)]
    words = [*letters, *(f"\u2581{letter}" for letter in letters), "word", "\u2581word"]
    tokenizer: Any = SimpleNamespace(vocab_size=len(words), pieces=lambda ids: [words[n] for n in ids])
    files = read_bundle(teacher)
    sizes = {side: {"vocab_size": size} for side, size in (("src", 3000), ("tgt", 8000))}
    config = files.config.model_copy(update={"tokenizer": TokenizersConfig.model_validate(sizes)})
    files = replace(files, config=config, src_tokenizer=tokenizer, tgt_tokenizer=tokenizer)
    assert make._n_pieces(files, shape) == n_pieces


def test_without_time_for_all_lines_the_others_stay_as_they_are(teacher, work, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_student(teacher, Path("out"), "60s")  # 20 s for translating: 200 lines
    [cfg] = work.trained
    made, others = cfg.data.train
    assert work.sources == SOURCES[1::2]
    assert others.weight == made.weight == 2.0
    assert others.tsv == tmp_path / "out" / "text" / "1.rest.tsv", "which another folder finds"
    assert [(pair.src, pair.tgt) for pair in read_pairs([others])] == [
        (line, f"target {line}") for line in SOURCES[::2]
    ]


@pytest.fixture
def mono(tmp_path) -> Path:
    (tmp_path / "mono.en").write_text("".join(f"line {n}\n" for n in range(100)))
    return tmp_path / "mono.en"


def test_text_in_the_source_language_joins_the_training_text(teacher, work, mono, tmp_path):
    make_student(teacher, tmp_path / "out", "3m", text=mono)
    assert work.sources == [*SOURCES, *mono.read_text().splitlines()]
    assert work.references == [*(f"target {line}" for line in SOURCES), *[""] * 100], "none to choose by"
    [distill] = work.distilled
    assert (distill.n_best, distill.choose) == (5, "chrf")
    assert len(work.trained[0].data.train) == 2


def test_both_texts_share_the_time_and_only_pairs_are_learnt_from_references(teacher, work, mono, tmp_path, caplog):
    caplog.set_level("INFO", "mtkit")
    make_student(teacher, tmp_path / "out", "75s", text=mono)  # 25 s for translating: 250 of 500 lines
    assert work.sources == [*SOURCES[1::2], *mono.read_text().splitlines()[1::2]]
    assert work.references == [*(f"target {line}" for line in SOURCES[1::2]), *[""] * 50]
    *_, others = work.trained[0].data.train
    assert len(work.trained[0].data.train) == 3
    assert {pair.src: pair.tgt for pair in read_pairs([others])} == {line: f"target {line}" for line in SOURCES[::2]}
    assert "50% of 500 lines" in caplog.text and "others of the training text from their references" in caplog.text


def test_without_the_training_text_the_student_learns_the_other_text_alone(
    save_model, teacher, work, mono, tmp_path, texts, caplog
):
    caplog.set_level("INFO", "mtkit")
    source, out = Path(texts["src"]), tmp_path / "out"
    dev = {"src": str(source), "tgt": texts["tgt"]}
    missing = save_model(tmp_path / "missing", train=[{"src": str(tmp_path / "gone.en"), "tgt": texts["tgt"]}], dev=dev)
    make_student(missing, out, "3m", text=mono)
    assert work.sources == mono.read_text().splitlines()
    assert f"--text {mono} without the training text" in caplog.text and "gone.en is missing" in caplog.text
    (tmp_path / "gone.en").write_bytes(source.read_bytes())
    make_student(missing, out, "4m", text=mono)
    assert work.trained[0].data == work.trained[1].data, "as it was started"
    make_student(missing, tmp_path / "both", "3m", text=mono)
    (tmp_path / "gone.en").unlink()
    with pytest.raises(DataError, match=r"gone\.en: no such file.*data\.train.*put the files back$"):
        make_student(missing, tmp_path / "both", "4m", text=mono)


def test_of_a_part_of_the_training_text_nothing_joins_the_other_text(save_model, work, mono, tmp_path, texts, caplog):
    caplog.set_level("INFO", "mtkit")
    (tmp_path / "scores").write_text("0.5\n" * len(SOURCES))
    train = [{**texts, "scores": str(tmp_path / "scores"), "min_score": 0.4}]
    make_student(save_model(tmp_path / "filtered", train=train), tmp_path / "out", "3m", text=mono)
    assert work.sources == mono.read_text().splitlines()
    assert "data.train has min_score" in caplog.text


def test_a_student_whose_text_replaced_the_training_text_is_refused(teacher, mono, tmp_path):
    record = make_student(teacher, tmp_path / "out", "60s", text=mono).bundle.parent / "student.json"
    settings = json.loads(record.read_text())
    del settings["text_alone"]
    record.write_text(json.dumps(settings))
    with pytest.raises(ConfigError, match=r"earlier version.*--text.*--out"):
        make_student(teacher, tmp_path / "out", "60s", text=mono)


def test_the_same_command_resumes_and_another_is_refused(teacher, work, tmp_path):
    out = tmp_path / "out"
    make_student(teacher, out, "60s")
    make_student(teacher, out, "10m")
    assert work.timings == 1
    first, second = work.trained
    assert first.data == second.data, "although the longer budget has time for more lines"
    with pytest.raises(MtkitError, match=rf"{out} holds a student of another shape; .*--out"):
        make_student(teacher, out, "60s", "student-base-memory")
    with pytest.raises(MtkitError, match=r"not empty; .*--out"):
        make_student(teacher, teacher, "60s")


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"share": null}'])
def test_a_damaged_record_of_an_earlier_start_is_named(teacher, tmp_path, content):
    record = make_student(teacher, tmp_path / "out", "60s").bundle.parent / "student.json"
    record.write_text(content)
    with pytest.raises(ConfigError, match=rf"{record}: .*damaged.*--out"):
        make_student(teacher, tmp_path / "out", "60s")


def test_a_start_that_failed_before_translating_leaves_every_choice_open(teacher, work, tmp_path, monkeypatch):
    out, mono = tmp_path / "out", tmp_path / "mono.en"
    mono.write_text("one\ntwo\n")
    with monkeypatch.context() as patch:
        patch.setattr(make, "check_early", Mock(side_effect=DataError("no such tag")))
        with pytest.raises(DataError, match="no such tag"):
            make_student(teacher, out, "60s")
    make_student(teacher, out, "3m", "student-base-memory", mono)
    assert work.sources == [*SOURCES, "one", "two"] and not (out / "text").exists()
    with pytest.raises(ConfigError, match="another shape"):  # now it has translations
        make_student(teacher, out, "60s", text=mono)


def test_text_that_has_changed_between_two_starts_is_named(teacher, work, tmp_path, texts):
    mono = tmp_path / "mono.en"
    mono.write_text("one\ntwo\n")
    for text, changed, out in ((mono, mono, tmp_path / "of-mono"), (None, texts["tgt"], tmp_path / "of-teacher")):
        make_student(teacher, out, "60s", text=text)
        before = Path(changed).read_bytes()
        Path(changed).write_bytes(before.upper())
        with pytest.raises(ConfigError, match=rf"{changed}: .* has changed since {out} .*--out"):
            make_student(teacher, out, "60s", text=text)
        Path(changed).write_bytes(before)
        make_student(teacher, out, "60s", text=text)
        settings = json.loads((out / "student.json").read_text())
        del settings["checksums"]
        if text is None:
            del settings["text_alone"]
        (out / "student.json").write_text(json.dumps(settings))
        make_student(teacher, out, "60s", text=text)  # as an earlier version has started it
    assert len(work.trained) == 6


def test_an_export_that_differs_too_much_leaves_the_student(teacher, work, tmp_path, monkeypatch):
    def refuse(*_):
        raise MtkitError("differs too much")

    monkeypatch.setattr(make, "export_bundle", refuse)
    made = make_student(teacher, tmp_path / "out", "60s")
    assert made.browser is None
    assert made.figures.megabytes > 1000, "of the model itself"


def test_a_refused_export_says_that_an_earlier_one_remains(teacher, work, tmp_path, monkeypatch, caplog):
    first = make_student(teacher, tmp_path / "out", "60s")
    monkeypatch.setattr(make, "export_bundle", Mock(side_effect=MtkitError("differs too much")))
    made = make_student(teacher, tmp_path / "out", "90s")
    assert made.browser is None
    assert f"{first.browser} still contains an earlier student" in caplog.text


def test_what_cannot_become_a_student_is_refused_before_the_work(
    teacher, save_model, work, tmp_path, monkeypatch, texts
):
    def refused(*options: str) -> str:
        command = ["make-student", "--teacher", str(teacher), "--budget", "60s", "-o", str(tmp_path / "out"), *options]
        result = CliRunner().invoke(app, command)
        assert result.exit_code in (1, 2)
        return str(result.exception) + result.stderr

    assert "model.positions=sinusoidal" in refused("--shape", "small")
    assert "nowhere.en: no such file" in refused("--text", "nowhere.en")
    assert f"--out {texts['src']}: this is a file" in refused("-o", texts["src"])
    assert "--budget" in refused("--budget", "soon")
    (tmp_path / "blank.en").write_text(" \n\n")
    assert "blank.en: no text" in refused("--text", str(tmp_path / "blank.en"))
    check = Mock(side_effect=DataError("looks like the target language"))
    with monkeypatch.context() as changed:
        changed.setattr(make, "check_source_text", check)
        assert "target language" in refused("--text", texts["tgt"])
    [(named, lines, files), _] = check.call_args
    assert (named, next(lines), files.folder) == (f"--text {texts['tgt']}", f"target {SOURCES[0]}", teacher)
    (tmp_path / "scores").write_text("0.5\n" * len(SOURCES))
    filtered = save_model(
        tmp_path / "filtered", train=[{**texts, "scores": str(tmp_path / "scores"), "min_score": 0.4}]
    )
    with pytest.raises(ConfigError, match=r"min_score.*--text"):
        make_student(filtered, tmp_path / "out", "60s")
    (tmp_path / "a.en").rename(tmp_path / "b.en")
    with pytest.raises(DataError, match=r"a\.en: no such file"):
        make_student(teacher, tmp_path / "out", "60s")
    dev = {"src": str(tmp_path / "b.en"), "tgt": str(tmp_path / "a.fr")}
    with pytest.raises(DataError, match=r"a\.en: no such file.*data\.train.*--text"):
        make_student(save_model(tmp_path / "other", dev=dev), tmp_path / "out", "60s")
    files = read_bundle(teacher)
    classifier = replace(files, config=files.config.model_copy(update={"task": "classify"}))
    monkeypatch.setattr("mtkit.bundle.load_written_config", lambda *_: classifier.config)
    with pytest.raises(MtkitError, match="classif"):
        make_student(teacher, tmp_path / "out", "60s")
    assert not (tmp_path / "out").exists()
    assert not work.trained


def test_speeds_count_the_time_of_the_processor(save_model, texts, monkeypatch):
    files, now = read_bundle(save_model(Path(texts["src"]).parent / "any")), [0.0]

    def translate(lines):
        now[0] += 0.5
        return lines

    monkeypatch.setattr(time, "process_time", lambda: now[0])
    monkeypatch.setattr(Translator, "from_bundles", lambda *_, **__: SimpleNamespace(translate=translate))
    figures = figures_of(files, files.folder / "model.safetensors", make.dev_text(files, 20))
    assert (figures.sentences_per_s, figures.words_per_s) == (40.0, 80.0), "20 lines of two words in 0.5 s"


def test_too_short_a_budget_names_only_what_the_command_can_set(teacher, work, tmp_path, monkeypatch):
    problem = BudgetError(Shortage("60s", 50.0, 20.0, 5.0, 0.0, enough=180.0))
    assert re.fullmatch(r"train\.budget=60s .*to 3m, or lower train\.validate_sentences", str(problem))
    monkeypatch.setattr(make, "train", Mock(side_effect=problem))
    with pytest.raises(TrainingError, match=r"--budget 60s .*to 3m$") as error:
        make_student(teacher, tmp_path / "out", "60s")
    assert "train." not in str(error.value)


@pytest.fixture
def small_shape(monkeypatch) -> None:
    """Make student-tiny, the only shape to plan, a model that is trained in moments."""
    sizes = {"d_model": 64, "d_ff": 64, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}
    monkeypatch.setitem(PRESETS, "student-tiny", PRESETS["student-tiny"] | sizes)
    monkeypatch.setattr(student_plan, "SHAPES", ["student-tiny"])


def prepared(cfg, folder, checkpoints, since):
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
    cfg, _ = make.student_config(files, tmp_path, "1h", "student-tiny", make.text_of(files), 1.0)
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

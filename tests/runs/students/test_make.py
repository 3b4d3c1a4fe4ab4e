"""Students: what they take from the teacher, how the budget divides the text, what resumes, and what is refused."""

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from pretended_students import SOURCES
from typer.testing import CliRunner

from mtkit.bundle import CHOSEN, read_bundle
from mtkit.cli import app
from mtkit.config.tokenizer import TokenizersConfig
from mtkit.data.corpus import read_pairs
from mtkit.errors import ConfigError, DataError, MtkitError, TrainingError
from mtkit.runs.students import frontier, make
from mtkit.runs.students.make import figures_of, make_student, share_in
from mtkit.training.update.budget import BudgetError, Shortage
from mtkit.translation.translator import Translator

pytestmark = pytest.mark.usefixtures("work")


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
        ("student", 100, 4400),
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


def test_a_size_chosen_for_the_budget_of_the_teacher_does_not_bind_the_student(teacher):
    files = read_bundle(teacher)
    assert make._n_pieces(files, "student-base-memory") == 400
    training = {**files.manifest.get("training", {}), CHOSEN: ["model.n_decoder_layers", "tokenizer.tgt.vocab_size"]}
    files = replace(files, manifest={**files.manifest, "training": training})
    assert make._n_pieces(files, "student-base-memory") == 8000


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


def test_a_corpus_too_small_for_a_part_is_learnt_from_its_references(save_model, tmp_path, texts):
    (tmp_path / "few.tsv").write_text("a\tb\nc\td\n")
    files = read_bundle(save_model(tmp_path / "any", train=[texts, {"tsv": str(tmp_path / "few.tsv")}]))
    cfg, others = make.student_config(files, tmp_path, "1h", "student-tiny", make.text_of(files), [0.3])
    assert [corpus.paths[0].name for corpus in cfg.data.train] == ["1.tsv"], "no empty file for the teacher"
    assert [corpus.paths[0].name for corpus in others] == ["1.rest.tsv", "2.rest.tsv"]


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


def test_a_longer_budget_translates_more_lines_if_training_has_not_begun(teacher, work, tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO", "mtkit")
    problem = BudgetError(Shortage("60s", 50.0, 20.0, 5.0, 0.0, enough=180.0))
    with monkeypatch.context() as patch:
        patch.setattr(make, "train", Mock(side_effect=problem))
        for budget in ("60s", "61s", "90s"):  # a third of them has time for 200, 203 and 300 lines
            work.sources.clear()
            with pytest.raises(TrainingError):
                make_student(teacher, tmp_path / "out", budget)
            assert work.sources[:200] == SOURCES[1::2], "so that their translations stay"
            assert work.sources[200:] == ([] if budget != "90s" else SOURCES[2::4])
    assert "75% of them instead of 50%" in caplog.text
    work.sources.clear()
    make_student(teacher, tmp_path / "out", "90s")
    assert work.sources == [*SOURCES[1::2], *SOURCES[2::4]]
    assert [pair.src for pair in read_pairs(work.trained[0].data.train[2:])] == SOURCES[::4], "the others"
    work.sources.clear()
    make_student(teacher, tmp_path / "out", "10m")
    assert work.trained[0].data == work.trained[1].data, "because training had begun"


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"share": null}', '{"shares": [null]}'])
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

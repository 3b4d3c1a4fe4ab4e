"""Students that also learn other text in the source language: make-student --text."""

import json
from pathlib import Path
from unittest.mock import Mock

import pytest
from pretended_students import SOURCES

from mtkit.data.corpus import read_pairs
from mtkit.errors import ConfigError, DataError
from mtkit.runs.students import make
from mtkit.runs.students.make import make_student

pytestmark = pytest.mark.usefixtures("work")


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


def test_a_longer_budget_translates_all_of_both_texts_after_a_part_of_them(teacher, work, mono, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(make, "train", Mock(side_effect=KeyboardInterrupt))
        for budget in ("60s", "105s"):  # 200 and 350 of 500 lines
            with pytest.raises(KeyboardInterrupt):
                make_student(teacher, tmp_path / "out", budget, text=mono)
    work.sources.clear()
    work.references.clear()
    make_student(teacher, tmp_path / "out", "10m", text=mono)
    assert work.sources[:200] == [line for text in (SOURCES, mono.read_text().splitlines()) for line in in_fifths(text)]
    assert sorted(work.sources) == sorted([*SOURCES, *mono.read_text().splitlines()]), "each once"
    targets = dict(zip(work.sources, work.references, strict=True))
    assert targets == {line: f"target {line}" if line in SOURCES else "" for line in work.sources}
    assert len(work.trained[0].data.train) == 6, "two texts in three parts"


def in_fifths(lines):
    """Return two of each five lines, evenly spaced."""
    return [line for n, line in enumerate(lines) if n % 5 in (2, 4)]


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

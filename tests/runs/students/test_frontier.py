"""The measured points of students and their teacher: kept, compared, and on the page."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mtkit.runs.folder import write_config
from mtkit.runs.report import write_report
from mtkit.runs.students import frontier
from mtkit.runs.students.frontier import Figures, Measured

TEACHER = Figures(39.0, 27.0, 500.0, 3000.0)
STUDENT = Figures(37.05, 10.9, 900.0, 5400.0)


@pytest.fixture
def measured_run(tmp_path, config_of):
    """measured_run("tiny", teacher_sha256="a"): the folder of a finished run with these figures."""

    def make(name: str, *, sha: str = "a", teacher: Figures = TEACHER, student: Figures = STUDENT) -> Path:
        folder = tmp_path / "runs" / name
        cfg = config_of(folder)
        (folder / "model").mkdir(parents=True)
        write_config(cfg, {})
        (folder / "metrics.jsonl").write_text("")
        training = {"step": 0, "stopped_by": "budget", "averaged_steps": [1], "minutes": 1, "data_fingerprint": "f"}
        manifest = {"sha256": {"model.safetensors": name}, "training": {**training, "dev": {}, "dev_metrics": []}}
        (folder / "model" / "manifest.json").write_text(json.dumps(manifest))
        frontier.keep(folder, Measured(sha, 500, teacher, student))
        return folder

    return make


def test_the_figures_of_other_weights_are_not_shown(measured_run):
    folder = measured_run("tiny")
    assert frontier.read(folder) == Measured("a", 500, TEACHER, STUDENT)
    manifest = folder / "model" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"tiny"', '"trained again"'))
    assert frontier.read(folder) is None
    assert frontier.read(folder.parent) is None


def test_students_of_the_same_teacher_are_compared_at_the_speed_of_one_machine(measured_run):
    tiny = measured_run("tiny")
    measured_run("other", sha="b")
    (measured_run("broken") / frontier.FRONTIER).write_text("[1]")
    busy = Figures(39.0, 27.0, 250.0, 1500.0)  # the teacher at half the speed
    measured_run("memory", teacher=busy, student=Figures(38.0, 21.9, 300.0, 1800.0))
    measured = frontier.read(tiny)
    assert measured is not None
    assert frontier.other_students(tiny, measured) == {"memory": Figures(38.0, 21.9, 600.0, 3600.0)}


def test_the_report_shows_each_model_in_a_picture_and_a_table(measured_run):
    measured_run("memory", student=Figures(38.0, 21.9, 600.0, 3600.0))
    page = write_report(measured_run("tiny")).read_text(encoding="utf-8")
    section = page[page.index('id="frontier"') : page.index('id="curves"')]
    drawing = ElementTree.fromstring(section[section.index("<figure") : section.index("</figure>") + len("</figure>")])
    labels = [text.text or "" for text in drawing.iter("text")]
    assert {"teacher, 27.0 MB", "tiny (this student), 10.9 MB", "memory, 21.9 MB"} <= set(labels)
    assert any("source words a second" in label for label in labels) and any("BLEU" in label for label in labels)
    across = {c.findtext("title", "").partition(":")[0]: float(c.get("cx", "nan")) for c in drawing.iter("circle")}
    assert across["teacher"] < across["memory"] < across["tiny (this student)"]
    for cell in (
        "39.00",
        "27.0",
        "3\N{NARROW NO-BREAK SPACE}000",
        "37.05",
        "10.9",
        "5\N{NARROW NO-BREAK SPACE}400",
        "900",
    ):
        assert f">{cell}</td>" in section, cell
    assert "500 sentences" in section


def test_other_runs_have_no_such_part(measured_run):
    folder = measured_run("tiny")
    (folder / frontier.FRONTIER).unlink()
    assert 'id="frontier"' not in write_report(folder).read_text(encoding="utf-8")

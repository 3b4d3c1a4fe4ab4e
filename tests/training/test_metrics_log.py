"""metrics.jsonl, the TensorBoard copy of it, and the picture drawn from it."""

import json
import re
import sys

import pytest

from mtkit.training.metrics_log import MetricsLog, read_metrics


def write(run_dir, *steps, resumed_at=0):
    with MetricsLog(run_dir, resumed_at) as metrics:
        for step in steps:
            values = {"epoch": step / 10, "lr": 1e-3, "loss": 5 / step, "nll": 4 / step, "grad_norm": 1.0}
            metrics.write("train", step, values)
            metrics.write("validation", step, {"loss": 4.5 / step, "bleu": float(step), "chrf": 2.0 * step})


def test_each_line_is_json_with_kind_and_step(tmp_path):
    write(tmp_path, 10)
    first, second = map(json.loads, (tmp_path / "metrics.jsonl").read_text().splitlines())
    assert (first["kind"], first["step"], first["loss"]) == ("train", 10, 0.5)
    assert (second["kind"], second["step"], second["bleu"]) == ("validation", 10, 10.0)


def test_a_resumed_run_drops_the_lines_that_it_will_write_again(tmp_path):
    write(tmp_path, 10, 20, 30)
    write(tmp_path, 30, 40, resumed_at=20)
    steps = [entry["step"] for entry in read_metrics(tmp_path / "metrics.jsonl") if entry["kind"] == "train"]
    assert steps == [10, 20, 30, 40]


def test_a_validation_missing_from_the_state_is_dropped(tmp_path):
    write(tmp_path, 10, 20)
    MetricsLog(tmp_path, 20, None, 10).__exit__(None, None, None)  # saved at 20, then killed after its validation
    entries = read_metrics(tmp_path / "metrics.jsonl")
    assert [(entry["kind"], entry["step"]) for entry in entries] == [("train", 10), ("validation", 10), ("train", 20)]


def test_a_line_cut_off_by_a_crash_is_dropped(tmp_path):
    write(tmp_path, 10, 20)
    path = tmp_path / "metrics.jsonl"
    path.write_text(path.read_text() + '{"kind": "train", "st')
    write(tmp_path, 30, resumed_at=20)
    assert [entry["step"] for entry in read_metrics(path)] == [10, 10, 20, 20, 30, 30]


@pytest.mark.parametrize("damaged", [b"\0\0\0", b'{"kind": \xff', b"[1, 2]", b'{"kind": "train"}'])
def test_unreadable_lines_are_skipped_with_one_warning(tmp_path, caplog, damaged):
    write(tmp_path, 10, 20)
    path = tmp_path / "metrics.jsonl"
    first, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + damaged + b"\n" + damaged + b"\n" + b"".join(rest))
    write(tmp_path, 30, resumed_at=20)
    assert [entry["step"] for entry in read_metrics(path)] == [10, 10, 20, 20, 30, 30]
    [warning] = [record.getMessage() for record in caplog.records]
    assert re.search(rf"^{re.escape(str(path))}: .*\b2\b.*line 2\b", warning)


def test_tensorboard_gets_the_same_figures(tmp_path):
    pytest.importorskip("tensorboard", reason="the tensorboard extra is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    write(tmp_path, 10, 20)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("validation/bleu")] == [(10, 10.0), (20, 20.0)]


def test_without_tensorboard_there_is_only_the_file(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)  # importing it raises ImportError
    write(tmp_path, 10)
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]

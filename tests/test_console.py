"""Progress bars on a terminal and in a file."""

import io
import sys
import types
from datetime import datetime

import pytest

from mtkit.console import counted, log, progress_bar, set_up_logging


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def logging_as_before():
    level, handlers, propagate = log.level, log.handlers, log.propagate
    yield
    log.level, log.handlers, log.propagate = level, handlers, propagate


def shown(stream, monkeypatch, quiet=False, **options):
    """What is written when three updates are made, and a line is logged between them."""
    monkeypatch.setattr(sys, "stderr", stream)
    set_up_logging(quiet)
    with progress_bar(3, "train", "step", **options) as bar:
        for step in (1, 2, 3):
            bar.update()
            if step == 2:
                log.info("validated")
    return stream.getvalue()


def test_in_a_file_a_bar_is_lines(monkeypatch):
    lines = shown(io.StringIO(), monkeypatch, mininterval=0, delay=0).split("\n")
    assert [line.split(":")[0] for line in lines] == [*3 * ["train"], "validated", *2 * ["train"], ""]
    assert "| 0/3 [" in lines[0] and "| 2/3 [" in lines[2] and "| 3/3 [" in lines[-2]
    assert all(line == line.strip() for line in lines)


def test_in_a_file_a_short_bar_is_nothing(monkeypatch):
    assert shown(io.StringIO(), monkeypatch) == "validated\n"


def test_on_a_terminal_it_is_drawn_over(monkeypatch):
    assert shown(Terminal(), monkeypatch, mininterval=0).count("\r") > 3


def test_quiet_shows_no_bar(monkeypatch):
    for stream in (io.StringIO(), Terminal()):
        assert shown(stream, monkeypatch, quiet=True, mininterval=0, delay=0) == ""


def test_in_a_file_bars_below_one_another_are_lines_too(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    set_up_logging(quiet=False)
    with progress_bar(2, "comparing", "system", mininterval=0, delay=0) as outer:
        for _ in range(2):
            with progress_bar(1, "scoring", "line", mininterval=0, delay=0) as inner:
                inner.update()
            outer.update()
    assert all(line.startswith(("comparing", "scoring")) for line in stream.getvalue().splitlines())


@pytest.mark.parametrize(
    ("n", "noun", "text"),
    [(0, "line", "0 lines"), (1, "line", "1 line"), (2000, "file", "2,000 files"), (2, "batch", "2 batches")],
)
def test_a_count_has_its_noun_in_the_right_number(n, noun, text):
    assert counted(n, noun) == text


def test_lines_of_programs_that_run_for_days_begin_with_the_time(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    set_up_logging(quiet=False, with_times=True)
    log.warning("hot")
    time, said = stream.getvalue().split(" ", 1)
    assert said == "warning: hot\n"
    assert datetime.strptime(time, "%Y-%m-%dT%H:%M:%S%z").tzinfo is not None


def test_a_line_is_written_while_another_thread_imports_the_bars(monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))  # without any names yet
    set_up_logging(quiet=False)
    log.info("half of the model is loaded")
    assert capfd.readouterr().err == "half of the model is loaded\n"

"""A job that processes share writes the same bytes as `file_job` does in one."""

import gzip
from dataclasses import dataclass

import pytest

from mtkit.errors import DataError, UsageError
from mtkit.jobs.executors import InProcess, Processes
from mtkit.jobs.job import Share
from mtkit.translation import file_job, shared_job
from mtkit.translation.shared_job import Sharing


@dataclass(frozen=True)
class Upper:
    """What a process loads: translates into capitals and line numbers."""

    def __call__(self):
        return translate


def translate(lines, first_line):
    translated = [f"{number} {line.upper()}" for number, line in enumerate(lines, start=first_line)]
    return translated, {"letters": sum(map(len, lines))}


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("n_lines", [0, 1, 3, 24, 25, 100])
def test_the_bytes_are_those_of_one_process(tmp_path, suffix, n_lines):
    text, one, shared = tmp_path / "text", tmp_path / f"one{suffix}", tmp_path / f"shared{suffix}"
    text.write_text("".join(f"line\u2028 {n}\r\n" for n in range(n_lines)), "utf-8", newline="")
    expected = file_job.run_job(text, one, translate, {}, window_lines=3)
    result = shared_job.run_job(text, shared, Sharing(InProcess(), Share(), Upper()), {}, window_lines=3)
    assert result == expected
    assert shared.read_bytes() == one.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"text", one.name, shared.name}


def test_processes_load_and_finish_takes_all_lines_in_order(tmp_path):
    (tmp_path / "text.gz").write_bytes(gzip.compress(b"".join(b"%d\n" % n for n in range(60))))
    lines: list[str] = []
    sharing = Sharing(Processes(2), Share(), Upper())
    result = shared_job.run_job(
        tmp_path / "text.gz", tmp_path / "out", sharing, {}, window_lines=2, finish=lambda output: lines.extend(output)
    )
    assert lines == [f"{n + 1} {n}" for n in range(60)]
    assert result is not None
    assert result.counts == {"letters": 110}


def test_bad_lines_and_the_input_as_output_are_refused(tmp_path):
    (tmp_path / "text").write_bytes(b"good\nb\xe4d\n")
    sharing = Sharing(InProcess(), Share(), Upper())
    with pytest.raises(DataError, match="text: line 2, byte 2"):
        shared_job.run_job(tmp_path / "text", tmp_path / "out", sharing, {}, window_lines=2)
    with pytest.raises(UsageError, match="is the input file"):
        shared_job.run_job(tmp_path / "text", tmp_path / "text", sharing, {}, window_lines=2)
    assert [path.name for path in tmp_path.iterdir()] == ["text"]

"""Jobs over lines: the same bytes however many processes share them or are killed, and clear errors."""

import gzip
import json
import lzma
import os
import pickle
import signal
import subprocess
import sys
import time
import tracemalloc
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import zstandard

from mtkit.errors import DataError, MtkitError, UsageError
from mtkit.jobs import job, line_job
from mtkit.jobs.executors import InProcess, Processes
from mtkit.jobs.line_job import Text, can_be_a_job, run_line_job
from mtkit.pair_files.compression import open_output
from mtkit.pair_files.lines import read_lines

KILLED_JOBS = Path(__file__).with_name("killed_jobs.py")
LINES = [f"ligne {i} " + "é" * (i % 7) for i in range(1, 19)]  # 18: four windows of 4, and one of 2
TRANSLATED = "".join(f"{i} {line.upper()}\n" for i, line in enumerate(LINES, start=1)).encode()
N_LETTERS = sum(map(len, LINES))
IDENTITY = {"model": "abc", "decode": {"beam_size": 4}}


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    """An empty folder, and no waiting for the disk."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def text() -> Path:
    Path("in.txt").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return Path("in.txt")


class Capitals:
    """Turns lines into capitals, and is interrupted at a line if it is told so; notes where its windows began."""

    def __init__(self, stop_at: str = ""):
        self.stop_at = stop_at
        self.first_lines: list[int] = []

    def __call__(self, lines, first_line):
        self.first_lines.append(first_line)
        if self.stop_at and any(line.startswith(self.stop_at) for line in lines):
            raise KeyboardInterrupt
        return [f"{first_line + i} {line.upper()}" for i, line in enumerate(lines)], {"letters": sum(map(len, lines))}


def run(work=None, output="out.txt", settings=IDENTITY, executor=None, **options):
    made = work or Capitals()
    options = {"window_lines": 4, **options}
    return run_line_job(
        Text.of_file(Path("in.txt")), Path(output), lambda: made, settings, executor or InProcess(), **options
    )


def interrupt(stop_at="ligne 10 ", **options):
    """A job that ends in its third window, so that eight lines are done."""
    with pytest.raises(KeyboardInterrupt):
        run(Capitals(stop_at), **options)


def shards() -> list[Path]:
    """The windows that an interrupted job has done; the last is at the end."""
    return sorted(Path().glob("out.txt.mtkit-job/*/translate/0*"))


def unpacked(path) -> bytes:
    data = Path(path).read_bytes()
    if Path(path).suffix == ".zst":
        return zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()
    return {".gz": gzip.decompress, ".xz": lzma.decompress}.get(Path(path).suffix, bytes)(data)


def killed_jobs(how: str, output: str, *limits: int) -> list[dict]:
    command = [sys.executable, str(KILLED_JOBS), how, "in.txt", output, *map(str, limits)]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=900, env=env).stdout)


@pytest.mark.slow
def test_a_job_that_makes_its_output_at_the_end_may_be_killed_anywhere(text):
    text.write_text("".join(f"{line}\n" for line in LINES[:6]))
    outcomes = killed_jobs("finish", "out.txt")
    assert len(outcomes) > 100, "places where the job was killed"
    expected = "".join(f"{i} {line.upper()}!\n" for i, line in enumerate(LINES[:6], start=1))
    assert {bytes.fromhex(outcome["output"]).decode() for outcome in outcomes} == {expected}
    assert all(outcome["left"] == [] for outcome in outcomes)
    assert all(outcome["counts"] == {"long": sum(map(len, LINES[:6]))} for outcome in outcomes)


@pytest.mark.slow
@pytest.mark.parametrize("output", ["out.txt", "out.txt.gz"])
def test_a_job_killed_anywhere_is_finished_by_the_next(text, output):
    text.write_text("".join(f"{line}\n" for line in LINES[:6]))
    outcomes = killed_jobs("every-line", output)
    assert len(outcomes) > 100, "places where the job was killed"
    assert {outcome["n_worked"] for outcome in outcomes} == {0, 2, 6}
    assert all(outcome["n_lines"] == 6 for outcome in outcomes)
    assert all(outcome["left"] == [] for outcome in outcomes)
    assert all(outcome["counts"] == {"long": sum(map(len, LINES[:6]))} for outcome in outcomes)
    run(output="uninterrupted-" + output)
    assert {outcome["output"] for outcome in outcomes} == {Path("uninterrupted-" + output).read_bytes().hex()}
    assert TRANSLATED.startswith(unpacked("uninterrupted-" + output))
    assert sorted(path.name for path in Path().iterdir()) == ["in.txt", "uninterrupted-" + output]


@pytest.mark.parametrize("output", ["out.txt", "out.txt.gz"])
def test_a_job_killed_again_and_again_gives_the_same_bytes(text, output):
    outcomes = killed_jobs("random", output)
    assert sum(outcome["n_killed"] for outcome in outcomes) >= 20
    run(output="uninterrupted-" + output)
    assert {outcome["output"] for outcome in outcomes} == {Path("uninterrupted-" + output).read_bytes().hex()}


def test_a_full_disk_is_explained_and_what_was_done_is_kept(text):
    text.write_text("".join(f"{'x' * (500 if number < 13 else 5000)}\n" for number in range(1, 19)))
    wanted = "".join(f"{i} {line.upper()}\n" for i, line in enumerate(read_lines(text), start=1))
    too_small, *failures, last = killed_jobs("full", "out.txt", 50, 30_000, 36_030)
    for failure in (too_small, *failures):
        assert "out.txt" in failure["error"] and "File too large" in failure["error"]
        assert "same command again" in failure["error"]
        assert not failure["exists"]
    assert last["n_worked"] == 0, "the output itself was what did not fit"
    assert bytes.fromhex(last["output"]).decode() == wanted


@pytest.mark.parametrize("window_lines", [1, 5, 18, 100])
@pytest.mark.parametrize("output", ["new/folder/out.txt", "out.gz", "out.xz", "out.zst"])
def test_the_windows_do_not_show_in_the_text(text, window_lines, output):
    result = run(output=output, window_lines=window_lines)
    assert unpacked(output) == TRANSLATED
    assert (result.n_lines, result.counts) == (18, {"letters": N_LETTERS})


def test_compressed_windows_are_one_file_to_every_reader(text):
    run(output="out.gz")
    assert Path("out.gz").read_bytes().count(b"\x1f\x8b\x08") == 5
    assert list(read_lines(Path("out.gz"))) == TRANSLATED.decode().splitlines()
    assert subprocess.run(["gzip", "-dc", "out.gz"], capture_output=True, check=True).stdout == TRANSLATED


@pytest.mark.parametrize("output", ["out.txt", "out.gz"])
def test_no_line_gives_an_empty_file(output):
    Path("in.txt").write_bytes(b"")
    assert run(output=output).n_lines == 0
    assert unpacked(output) == b""
    assert Path(output).read_bytes()[:2] == (b"\x1f\x8b" if output == "out.gz" else b"")


def test_lines_that_are_done_are_not_done_again(text):
    interrupt()
    work = Capitals()
    result = run(work)
    assert work.first_lines == [9, 13, 17]
    assert (result.n_lines, result.counts) == (18, {"letters": N_LETTERS}), "of all the lines"
    assert Path("out.txt").read_bytes() == TRANSLATED


def test_an_output_already_in_place_is_not_made_again(text):
    with pytest.raises(KeyboardInterrupt), pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "remove_folder", _interrupt)
        run()
    work = Capitals()
    assert run(work).counts == {"letters": N_LETTERS}
    assert work.first_lines == []
    assert Path("out.txt").read_bytes() == TRANSLATED
    assert sorted(path.name for path in Path().iterdir()) == ["in.txt", "out.txt"]


def test_the_old_output_stays_until_the_new_one_is_whole(text):
    Path("out.txt").write_text("old")
    interrupt()
    assert Path("out.txt").read_text() == "old"
    run()
    assert Path("out.txt").read_bytes() == TRANSLATED


@pytest.mark.parametrize("name", ["output", "notes.json", "done.json"])
@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"7" + data[1:], None])
def test_a_window_that_was_damaged_is_done_again(text, name, damage):
    interrupt()
    path = shards()[0] / name
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage(path.read_bytes()))
    work = Capitals()
    assert run(work).counts == {"letters": N_LETTERS}
    assert work.first_lines == [1, 9, 13, 17]
    assert Path("out.txt").read_bytes() == TRANSLATED


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("ligne 8 ", "ligne 8! "),
        lambda text: text[:30],
        lambda text: "\n" + text,
        lambda text: "",
        lambda text: text + "more\n",
    ],
)
def test_another_text_is_refused_until_asked_to_start_over(text, change, caplog):
    interrupt()
    text.write_text(changed := change(text.read_text()))
    caplog.clear()
    with pytest.raises(MtkitError, match=r"out.txt.mtkit-job: .*in.txt was .*, now .*--restart"):
        run()
    run(restart=True)
    assert len(Path("out.txt").read_text().splitlines()) == len(changed.splitlines())


def _interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("identity", "options", "message"),
    [
        ({"model": "abc", "decode": {"beam_size": 1}}, {}, "decode.beam_size was 4, now 1;"),
        ({"model": "xyz", "decode": {"beam_size": 4}}, {}, "model was abc, now xyz;"),
        ({"model": "abc", "n_best": 2}, {}, "decode.beam_size was 4, now missing; settings.n_best was missing, now 2;"),
        (IDENTITY, {"window_lines": 5}, "window_lines was 4, now 5;"),
    ],
)
def test_another_job_is_refused_with_the_differences(text, identity, options, message):
    interrupt()
    with pytest.raises(MtkitError, match=rf"out.txt.mtkit-job: .*settings\.{message}.*--restart"):
        run(settings=identity, **options)
    run(work := Capitals())
    assert work.first_lines == [9, 13, 17], "the former job was left alone"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_a_resumable_job_and_a_message(text, caplog, number):
    before = signal.getsignal(number)

    def signalled(lines, first_line):
        if first_line == 5:
            signal.raise_signal(number)
        return Capitals()(lines, first_line)

    with pytest.raises(KeyboardInterrupt):
        run(signalled)
    assert "out.txt.mtkit-job: mtkit keeps the finished work" in caplog.text and "same command again" in caplog.text
    assert signal.getsignal(number) == before
    run(work := Capitals())
    assert work.first_lines == [5, 9, 13, 17]


@pytest.mark.parametrize("executor", [InProcess, lambda: Processes(2)])
def test_a_bad_byte_is_located_before_any_work_and_leaves_nothing(text, executor):
    text.write_bytes(text.read_bytes().replace(b"ligne 10 ", b"ligne 10 \xff"))
    with pytest.raises(DataError, match=r"^in.txt: line 10, byte 10: 0xff is not UTF-8"):
        run_line_job(Text.of_file(text), Path("out.txt"), load_capitals, {}, executor(), window_lines=4)
    assert [path.name for path in Path().iterdir()] == ["in.txt"]


def test_a_truncated_compressed_input_is_reported(text):
    whole = gzip.compress(text.read_bytes(), mtime=0)
    Path("in.txt.gz").write_bytes(whole[:-10])
    arguments = (Text.of_file(Path("in.txt.gz")), Path("out.txt"), Capitals, IDENTITY, InProcess())
    with pytest.raises(DataError, match=r"^in.txt.gz: the gzip file ends too early"):
        run_line_job(*arguments, window_lines=4)
    Path("in.txt.gz").write_bytes(whole)
    assert run_line_job(*arguments, window_lines=4) is not None
    assert Path("out.txt").read_bytes() == TRANSLATED


def test_an_error_before_anything_is_done_leaves_the_text_cut_and_nothing_else(text):
    with pytest.raises(ZeroDivisionError):
        run(lambda lines, first_line: ([1 // 0], {}))
    assert not Path("out.txt").exists()
    assert shards() == []


def test_too_few_output_lines_are_an_error_in_the_code(text):
    with pytest.raises(ValueError, match="3 output lines for 4 lines"):
        run(lambda lines, first_line: (lines[:3], {}))


def test_one_process_at_a_time_writes_an_output(text):
    def meanwhile(lines, first_line):
        with pytest.raises(MtkitError, match=r"out.txt.mtkit-job: another mtkit process"):
            run()
        run(output="other.txt")
        return Capitals()(lines, first_line)

    run(meanwhile)
    assert Path("out.txt").read_bytes() == Path("other.txt").read_bytes() == TRANSLATED


def test_a_text_is_not_overwritten_by_its_translation(text):
    Path("link.txt").symlink_to("in.txt")
    with pytest.raises(UsageError, match=r"in.txt: choose another --output"):
        run(output="link.txt")


def test_a_link_still_points_to_the_output(text):
    Path("disk").mkdir()
    Path("out.txt").symlink_to("disk/out.txt")
    interrupt()
    run(work := Capitals())
    assert work.first_lines[0] == 9
    assert Path("out.txt").is_symlink()
    assert Path("disk/out.txt").read_bytes() == TRANSLATED


@pytest.mark.parametrize("command", ["as a job", "at once"])
def test_the_name_that_is_given_says_whether_to_compress(text, command):
    Path("out.txt.gz").symlink_to("blob")
    if command == "as a job":
        run(output="out.txt.gz")
    else:
        with open_output(Path("out.txt.gz")) as file:
            file.write(TRANSLATED.decode())
    assert gzip.decompress(Path("blob").read_bytes()) == TRANSLATED
    assert list(read_lines(Path("out.txt.gz"))) == TRANSLATED.decode().splitlines()


def test_plain_text_does_not_continue_compressed_text(text):
    Path("out.gz").symlink_to("blob")
    interrupt(output="out.gz")
    with pytest.raises(MtkitError, match=r"compressed was \.gz, now no"):
        run(output="blob")


def test_only_files_can_be_resumed(text):
    os.mkfifo("pipe")
    assert can_be_a_job(text, Path("out.txt"))
    assert can_be_a_job(text, text)
    assert not can_be_a_job(Path("pipe"), Path("out.txt"))
    assert not can_be_a_job(text, Path("pipe"))
    assert not can_be_a_job(text, Path("/dev/null"))


@dataclass(frozen=True)
class LoadCapitals:
    """Notes in a folder which processes loaded the work."""

    folder: Path

    def __call__(self):
        (self.folder / str(os.getpid())).touch()
        return Capitals()


def load_capitals():
    return Capitals()


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("n_lines", [0, 1, 3, 100])
def test_processes_load_the_work_once_each_and_give_the_same_bytes(tmp_path, suffix, n_lines):
    Path("in.txt").write_text("".join(f"line\u2028 {n}\r\n" for n in range(n_lines)), "utf-8", newline="")
    alone = run(output=f"one{suffix}")
    (loads := tmp_path / "loads").mkdir()
    text, executor = Text.of_file(Path("in.txt")), Processes(2)
    output = Path(f"shared{suffix}")
    result = run_line_job(text, output, LoadCapitals(loads), IDENTITY, executor, window_lines=4)
    assert result == alone
    assert output.read_bytes() == Path(f"one{suffix}").read_bytes()
    assert len(list(loads.iterdir())) <= 2
    assert str(os.getpid()) not in [path.name for path in loads.iterdir()]


def test_a_long_text_has_several_windows_a_shard(text, monkeypatch):
    run(output="expected.txt", window_lines=2)
    monkeypatch.setattr(line_job, "_MOST_SHARDS", 4)
    with pytest.raises(KeyboardInterrupt):
        run(Capitals("ligne 18"), window_lines=2)
    assert [json.loads((folder / "done.json").read_text())["counts"]["lines"] for folder in shards()] == [6, 6]
    assert run(window_lines=2).n_lines == 18
    assert Path("out.txt").read_bytes() == Path("expected.txt").read_bytes() == TRANSLATED


def test_memory_does_not_grow_with_the_file():
    peaks = []
    for n_lines in (5_000, 50_000):
        Path("in.txt").write_text("a line of some length, as lines are\n" * n_lines)
        tracemalloc.start()
        run(lambda lines, _: (lines, {}), window_lines=500)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0], "the longer file has 1.8 MB"


def test_what_each_process_gets_does_not_grow_with_the_text(text, tmp_path):
    line_job._Cut(partial(map, str, range(10_000)), 1)(0, tmp_path)
    windows = line_job._Windows(tmp_path, 1)
    assert len(windows.sizes) == 10_000
    copy = pickle.dumps(windows)
    assert len(copy) < 1000
    assert list(pickle.loads(copy).read(9_999)) == [(10_000, ["9999"])]


@pytest.mark.slow
@pytest.mark.parametrize("output", ["out.txt", "out.gz"])
def test_the_command_itself_is_killed_and_given_again(shared_bundle, output):
    lines = [f"The cat sees {n} oranges, and you sleep {n % 7} times." for n in range(90)]
    Path("in.gz").write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))

    def start(output):
        command = [sys.executable, "-m", "mtkit", "translate", "--model", str(shared_bundle), "--json"]
        command += [
            "--set",
            "decode.batch_sentences=1",
            "--beam-size",
            "1",
            "--on-suspect",
            "off",
            "--input",
            "in.gz",
            "--output",
            output,
        ]
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        return subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)

    for n_windows in (1, 2, 4):
        process = start(output)
        while process.poll() is None and len(list(Path().glob(f"{output}.mtkit-job/*/translate/0*"))) < n_windows:
            time.sleep(0.01)
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    process = start(output)
    errors = process.communicate()[1]
    assert process.returncode == 0
    assert "of 90 lines done before" in errors
    uninterrupted = start("whole-" + output)
    uninterrupted.communicate()
    assert Path(output).read_bytes() == Path("whole-" + output).read_bytes()
    assert [json.loads(line)["line"] for line in unpacked(output).splitlines()] == list(range(1, 91))

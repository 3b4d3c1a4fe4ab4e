"""Jobs from file to file: the same bytes however often their process is killed, and clear errors."""

import gzip
import json
import lzma
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest
import zstandard

from mtkit.console import log
from mtkit.errors import DataError, MtkitError, UsageError
from mtkit.formats.compression import open_output
from mtkit.formats.lines import read_lines, read_windows
from mtkit.translation import file_job
from mtkit.translation.file_job import can_resume, run_job

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
    """Translates into capitals, and is interrupted at a line if it is told so; notes where its windows began."""

    def __init__(self, stop_at: str = ""):
        self.stop_at = stop_at
        self.first_lines: list[int] = []

    def __call__(self, lines, first_line):
        self.first_lines.append(first_line)
        if self.stop_at and any(line.startswith(self.stop_at) for line in lines):
            raise KeyboardInterrupt
        return [f"{first_line + i} {line.upper()}" for i, line in enumerate(lines)], {"letters": sum(map(len, lines))}


def run(translate=None, output="out.txt", identity=IDENTITY, **options):
    return run_job(Path("in.txt"), Path(output), translate or Capitals(), identity, **{"window_lines": 4, **options})


def interrupt(stop_at="ligne 10 ", **options):
    """A job that ends in its third window, so that eight lines are done."""
    with pytest.raises(KeyboardInterrupt):
        run(Capitals(stop_at), **options)


def unpacked(path) -> bytes:
    data = Path(path).read_bytes()
    if Path(path).suffix == ".zst":
        return zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()
    return {".gz": gzip.decompress, ".xz": lzma.decompress}.get(Path(path).suffix, bytes)(data)


def killed_jobs(how: str, output: str, *limits: int) -> list[dict]:
    command = [sys.executable, str(KILLED_JOBS), how, "in.txt", output, *map(str, limits)]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=900, env=env).stdout)


def test_a_job_that_makes_its_output_at_the_end_may_be_killed_anywhere(text):
    text.write_text("".join(f"{line}\n" for line in LINES[:6]))
    outcomes = killed_jobs("finish", "out.txt")
    assert len(outcomes) > 100, "places where the job was killed"
    expected = "".join(f"{i} {line.upper()}!\n" for i, line in enumerate(LINES[:6], start=1))
    assert {bytes.fromhex(outcome["output"]).decode() for outcome in outcomes} == {expected}
    assert all(outcome["left"] == [] for outcome in outcomes)
    assert all(outcome["counts"] == {"long": sum(map(len, LINES[:6]))} for outcome in outcomes)


@pytest.mark.parametrize("output", ["out.txt", "out.txt.gz"])
def test_a_job_killed_anywhere_is_finished_by_the_next(text, output):
    text.write_text("".join(f"{line}\n" for line in LINES[:6]))
    outcomes = killed_jobs("every-line", output)
    assert len(outcomes) > 100, "places where the job was killed"
    assert {outcome["n_lines_before"] for outcome in outcomes} == {0, 4, 6}
    assert all(outcome["n_lines"] == 6 for outcome in outcomes)
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


@pytest.mark.parametrize("line_bytes", [10, 500])  # the journal, or the part, is what does not fit
def test_a_full_disk_is_explained_and_what_was_done_is_kept(text, line_bytes):
    lines = ["x" * line_bytes] * 18
    text.write_text("".join(f"{line}\n" for line in lines))
    wanted = "".join(f"{i} {line.upper()}\n" for i, line in enumerate(lines, start=1))
    *failures, last = killed_jobs("full", "out.txt", 50, 4 * line_bytes + 400, 8 * line_bytes + 600)
    for failure in failures:
        assert failure["error"].startswith(str(Path("out.txt").resolve()))
        assert "(File too large)" in failure["error"] and "same command again" in failure["error"]
    assert [bytes.fromhex(failure["part"]).decode() for failure in failures] == [
        "",
        "".join(wanted.splitlines(keepends=True)[:4]),
        "".join(wanted.splitlines(keepends=True)[:8]),
    ], "whole windows only"
    assert last["n_lines_before"] == 8
    assert bytes.fromhex(last["output"]).decode() == wanted


@pytest.mark.parametrize("window_lines", [1, 5, 18, 100])
@pytest.mark.parametrize("output", ["new/folder/out.txt", "out.gz", "out.xz", "out.zst"])
def test_the_windows_do_not_show_in_the_text(text, window_lines, output):
    result = run(output=output, window_lines=window_lines)
    assert unpacked(output) == TRANSLATED
    assert (result.n_lines, result.n_lines_before, result.counts) == (18, 0, {"letters": N_LETTERS})


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


@pytest.mark.parametrize("output", ["out.txt", "out.gz"])
def test_an_output_already_in_place_is_not_made_again(text, output):
    with pytest.raises(KeyboardInterrupt), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "unlink", _interrupt)  # the journal stays
        run(output=output)
    translate = Capitals()
    result = run(translate, output=output)
    assert translate.first_lines == []
    assert (result.n_lines, result.n_lines_before, result.counts) == (18, 18, {"letters": N_LETTERS})
    assert unpacked(output) == TRANSLATED
    assert sorted(path.name for path in Path().iterdir()) == ["in.txt", output]


def test_translated_lines_are_not_translated_again(text):
    interrupt()
    translate = Capitals()
    result = run(translate)
    assert translate.first_lines == [9, 13, 17]
    assert (result.n_lines, result.n_lines_before) == (18, 8)
    assert Path("out.txt").read_bytes() == TRANSLATED


def test_the_old_output_stays_until_the_new_one_is_whole(text):
    Path("out.txt").write_text("old")
    interrupt()
    assert Path("out.txt").read_text() == "old"
    run()
    assert Path("out.txt").read_bytes() == TRANSLATED


@pytest.mark.parametrize(
    ("suffix", "rubbish"),
    [("part", b"half a window"), ("journal", b'{"lines": 12, "src'), ("journal", b"\0\0\0"), ("journal", b'{"li')],
)
def test_half_written_output_is_cut_off(text, suffix, rubbish):
    interrupt()
    with Path(f"out.txt.mtkit-{suffix}").open("ab") as file:
        file.write(rubbish)
    interrupt(stop_at="ligne 14 ")  # and nothing is appended to the rubbish
    assert run().n_lines_before == 12
    assert Path("out.txt").read_bytes() == TRANSLATED


@pytest.mark.parametrize(("place", "kept"), [(5, 0), (-1, 4)])
def test_a_part_that_was_changed_is_used_up_to_there(text, caplog, place, kept):
    interrupt()
    part = bytearray(Path("out.txt.mtkit-part").read_bytes())
    part[place] ^= 1
    Path("out.txt.mtkit-part").write_bytes(part)
    assert run().n_lines_before == kept
    [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"][-1:]
    assert "out.txt.mtkit-part: changed" in warning
    assert Path("out.txt").read_bytes() == TRANSLATED


def test_a_missing_part_is_made_again(text):
    interrupt()
    Path("out.txt.mtkit-part").unlink()
    assert run().n_lines_before == 0
    assert Path("out.txt").read_bytes() == TRANSLATED


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("ligne 8 ", "ligne 8! "),
        lambda text: text[:30],
        lambda text: "\n" + text,
        lambda text: "",
    ],
)
def test_another_text_is_refused_until_asked_to_start_over(text, change, caplog):
    interrupt()
    text.write_text(changed := change(text.read_text()))
    caplog.clear()
    with pytest.raises(MtkitError, match=r"^in.txt: .*first 8 lines.*out.txt.mtkit-part.*--restart"):
        run()
    assert "same command" not in caplog.text
    assert run(restart=True).n_lines_before == 0
    assert len(Path("out.txt").read_text().splitlines()) == len(changed.splitlines())


def test_text_that_changed_where_nothing_was_done_yet_is_translated_as_it_is_now(text):
    interrupt()
    text.write_text(text.read_text().replace("ligne 9 ", "ligne neuf ") + "more\n")
    assert run().n_lines_before == 8
    assert Path("out.txt").read_text() == TRANSLATED.decode().replace("LIGNE 9 ", "LIGNE NEUF ") + "19 MORE\n"


def test_text_that_grew_after_the_last_line_was_done_is_refused(text):
    with pytest.raises(KeyboardInterrupt), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", _interrupt)
        run()
    text.write_text(text.read_text() + "more\n")
    with pytest.raises(MtkitError, match="first 18 lines"):
        run()


def _interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("identity", "options", "message"),
    [
        ({"model": "abc", "decode": {"beam_size": 1}}, {}, "decode.beam_size was 4, now 1;"),
        ({"model": "xyz", "decode": {"beam_size": 4}}, {}, "model was abc, now xyz;"),
        ({"model": "abc", "n_best": 2}, {}, "decode.beam_size was 4, now None; n_best was None, now 2;"),
        (IDENTITY, {"window_lines": 5}, "window_lines was 4, now 5;"),
    ],
)
def test_another_job_is_refused_with_the_differences(text, identity, options, message):
    interrupt()
    with pytest.raises(MtkitError, match=rf"out.txt.mtkit-part: .*8 lines.*: {message}.*--restart"):
        run(identity=identity, **options)
    assert run().n_lines_before == 8, "the former job was left alone"


def test_a_journal_of_another_kind_is_refused(text):
    for content in ('{"mtkit_job": 2, "identity": {}}\n', "shopping list\n", "[]\n"):
        Path("out.txt.mtkit-journal").write_text(content)
        with pytest.raises(MtkitError, match=r"out.txt.mtkit-journal: .*--restart"):
            run()
    assert run(restart=True).n_lines == 18


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_a_resumable_job_and_a_message(text, caplog, number):
    before = signal.getsignal(number)

    def signalled(lines, first_line):
        if first_line == 5:
            signal.raise_signal(number)
        return Capitals()(lines, first_line)

    with pytest.raises(KeyboardInterrupt):
        run(signalled)
    assert "out.txt: 4 lines" in caplog.text and "same command again" in caplog.text
    assert signal.getsignal(number) == before
    assert run().n_lines_before == 4


def test_a_bad_byte_is_located_and_can_be_repaired(text):
    good = text.read_bytes()
    text.write_bytes(good.replace(b"ligne 10 ", b"ligne 10 \xff"))
    with pytest.raises(DataError, match=r"^in.txt: line 10, byte 10: 0xff is not UTF-8"):
        run()
    text.write_bytes(good)
    assert run().n_lines_before == 8
    assert Path("out.txt").read_bytes() == TRANSLATED


def test_a_truncated_compressed_input_is_reported_and_can_be_repaired(text):
    whole = gzip.compress(text.read_bytes(), mtime=0)
    Path("in.txt.gz").write_bytes(whole[:-10])
    arguments = (Path("in.txt.gz"), Path("out.txt"), Capitals(), IDENTITY)
    with pytest.raises(DataError, match=r"^in.txt.gz: the gzip file ends too early"):
        run_job(*arguments, window_lines=4)
    Path("in.txt.gz").write_bytes(whole)
    assert run_job(*arguments, window_lines=4).n_lines == 18
    assert Path("out.txt").read_bytes() == TRANSLATED


def test_an_error_before_anything_is_done_leaves_nothing(text):
    text.write_bytes(b"\xff\n")
    with pytest.raises(DataError, match="line 1, byte 1"):
        run()
    assert [path.name for path in Path().iterdir()] == ["in.txt"]


def test_too_few_output_lines_are_an_error_in_the_code(text):
    with pytest.raises(ValueError, match="3 output lines for 4 lines"):
        run(lambda lines, first_line: (lines[:3], {}))


def test_one_process_at_a_time_writes_an_output(text):
    def meanwhile(lines, first_line):
        with pytest.raises(MtkitError, match=r"out.txt: .*another --output"):
            run()
        run(output="other.txt")
        return Capitals()(lines, first_line)

    run(meanwhile)
    assert Path("out.txt").read_bytes() == Path("other.txt").read_bytes() == TRANSLATED


def test_a_text_is_not_overwritten_by_its_translation(text):
    Path("link.txt").symlink_to("in.txt")
    with pytest.raises(UsageError, match=r"in.txt: give another --output"):
        run(output="link.txt")


def test_a_link_still_points_to_the_output(text):
    Path("disk").mkdir()
    Path("out.txt").symlink_to("disk/out.txt")
    interrupt()
    assert run().n_lines_before == 8
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
    assert can_resume(text, Path("out.txt"))
    assert can_resume(text, text)
    assert not can_resume(Path("pipe"), Path("out.txt"))
    assert not can_resume(text, Path("pipe"))
    assert not can_resume(text, Path("/dev/null"))


def test_the_bar_estimates_the_length_of_the_job_early(monkeypatch):
    totals = []

    class Bar:
        def __init__(self, total, *_, initial, **__):
            self.n, self.total = initial, total

        def __enter__(self):
            return self

        def __exit__(self, *_):
            totals.append(self.total)

        def update(self, n):
            self.n += n

        def refresh(self):
            totals.append(self.total)

    monkeypatch.setattr(file_job, "progress_bar", Bar)
    monkeypatch.setattr(log, "disabled", True)
    for name in ("in.txt", "in.gz"):
        with gzip.open(name, "wb") if name == "in.gz" else Path(name).open("wb") as file:
            for i in range(50_000):
                file.write(b"number %d squared is %d\n" % (i, i * i))
        totals.clear()
        run_job(Path(name), Path("out"), lambda lines, _: (lines, {}), IDENTITY, window_lines=4096)
        assert all(40_000 < total < 60_000 for total in totals[1:]), "the first window is read from afar"
        assert totals[-1] == 50_000


def test_bytes_read_reach_the_size_of_the_file(text):
    Path("in.txt.gz").write_bytes(gzip.compress(text.read_bytes()))
    for path in (text, Path("in.txt.gz")):
        windows = list(read_windows(path, 5))
        assert [line for lines, _ in windows for line in lines] == LINES
        assert [len(lines) for lines, _ in windows] == [5, 5, 5, 3]
        assert windows[-1][1] == path.stat().st_size
    assert next(read_windows(text, 5))[1] == len("".join(f"{line}\n" for line in LINES[:5]).encode())


def test_memory_does_not_grow_with_the_file():
    peaks = []
    for n_lines in (5_000, 50_000):
        Path("in.txt").write_text("a line of some length, as lines are\n" * n_lines)
        tracemalloc.start()
        run(lambda lines, _: (lines, {}), window_lines=500)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0], "the longer file has 1.8 MB"


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

    journal = Path(output + ".mtkit-journal")
    for n_windows in (1, 2, 4):
        process = start(output)
        while process.poll() is None and (not journal.exists() or journal.read_bytes().count(b"\n") <= n_windows):
            time.sleep(0.01)
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    process = start(output)
    errors = process.communicate()[1]
    assert process.returncode == 0
    assert "resuming after line" in errors
    uninterrupted = start("whole-" + output)
    uninterrupted.communicate()
    assert Path(output).read_bytes() == Path("whole-" + output).read_bytes()
    assert [json.loads(line)["line"] for line in unpacked(output).splitlines()] == list(range(1, 91))

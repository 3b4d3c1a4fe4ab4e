"""A machine that misbehaves: a clock that jumps, a disk without room or names, an input that grows while it is read."""

import os
import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.jobs import executors, line_job
from mtkit.runs.train import train

MTKIT = Path(line_job.__file__).parents[1]


def capitals(lines, first_line):
    return [line.upper() for line in lines], {}


def job(source: Path, target: Path, work=capitals):
    text, executor = line_job.Text.of_file(source), executors.InProcess()
    return line_job.run_line_job(text, target, lambda: work, {"model": "capitals"}, executor, window_lines=400)


def test_a_clock_that_jumps_does_not_end_a_run_that_has_a_time_limit(make_config):
    rng = random.Random(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: rng.uniform(0, 4e9))  # from 1970 to 2096
        result = train(make_config(max_steps=8, max_minutes=5, validate_every=8))
    assert result.steps == 8


def test_durations_are_never_taken_from_a_clock_that_can_jump():
    users = [path.name for path in MTKIT.rglob("*.py") if "time.time()" in path.read_text(encoding="utf-8")]
    assert users == ["launch.py"], "a time stamp in torchrun's error file"


def test_of_an_input_that_grows_the_job_has_what_it_held_and_says_so(tmp_path, caplog):
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text(before := "".join(f"line {i}\n" for i in range(1000)))

    def growing(lines, first_line):
        with source.open("a") as file:
            file.write("more\n" if first_line < 500 else "")
        return capitals(lines, first_line)

    assert job(source, target, growing).n_lines == 1000
    assert target.read_text() == before.upper()
    assert f"{source}: changed after the job had read it" in caplog.text


@pytest.fixture(params=["size=64k", "size=4m,nr_inodes=40"])
def small_disk(request, tmp_path):
    """A file system with no room for the output, or with names for few files only."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    if (
        os.geteuid()
        or not mount
        or subprocess.run([mount, "-t", "tmpfs", "-o", request.param, "tmpfs", place], check=False).returncode
    ):
        pytest.skip("needs root, to mount a small file system")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_full_disk_is_named_and_the_job_goes_on_after_it(small_disk, tmp_path):
    source, target = tmp_path / "in.txt", small_disk / "out.txt"
    source.write_text("".join(f"line {i} of a text that is larger than the disk\n" for i in range(2000)))
    fillers = []
    for i in range(36):  # take most names
        try:
            fillers.append(small_disk / f"filler{i}")
            fillers[-1].touch()
        except OSError:
            fillers.pop()
    with pytest.raises((MtkitError, OSError), match=r"No space left.*out\.txt|out\.txt.*No space left"):
        job(source, target)
    assert not target.exists()
    for path in fillers:
        path.unlink()
    if os.statvfs(small_disk).f_blocks * os.statvfs(small_disk).f_frsize > 2**20:  # only names were missing
        assert job(source, target).n_lines == 2000
        assert target.read_text() == source.read_text().upper()

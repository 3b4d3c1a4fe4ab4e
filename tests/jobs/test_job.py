"""A job ends with the same output, whoever made its shards and whatever happened meanwhile."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from jobs.squares import Products, cubes, loads

from mtkit.errors import MtkitError
from mtkit.files import sha256_file
from mtkit.jobs import identity
from mtkit.jobs.executors import InProcess, Processes
from mtkit.jobs.job import Job

SCRIPT = Path(__file__).with_name("squares.py")
CUBES_OF_35 = "".join(f"{number**3}\n" for number in range(35))


def start(*args):
    """Start the job in a process of its own, which leads a group."""
    command = [sys.executable, str(SCRIPT), *map(str, args)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def failed(process):
    """Wait for a process that should fail; return its stderr."""
    _, stderr = process.communicate(timeout=300)
    assert process.returncode == 1
    return stderr


def end(process):
    """Wait for a process that should end well; return its stdout and stderr."""
    stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 0, stderr
    return stdout, stderr


def work_of(output):
    return output.with_name(output.name + ".mtkit-job")


def interrupted(output, **how):
    """Leave a job in the middle: its second stage fails at shard 4."""

    def fail(self, index, folder):
        if index == 4:
            raise KeyboardInterrupt
        return call(self, index, folder)

    call = Products.__call__
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Products, "__call__", fail)
        cubes(output, InProcess(), **how)


def test_a_job_writes_the_shards_in_order_and_leaves_nothing_else(tmp_path):
    assert cubes(tmp_path / "out", InProcess()) == sum(range(35))
    assert (tmp_path / "out").read_text() == CUBES_OF_35
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_processes_give_the_same_output(tmp_path):
    assert cubes(tmp_path / "out", Processes(2)) == sum(range(35))
    assert (tmp_path / "out").read_text() == CUBES_OF_35


def test_a_job_without_shards_writes_an_empty_file(tmp_path):
    cubes(tmp_path / "out", InProcess(), n=0)
    assert (tmp_path / "out").read_text() == ""


def test_an_interrupted_job_makes_only_what_is_missing(tmp_path):
    (faults := tmp_path / "faults").mkdir()
    interrupted(tmp_path / "out", faults=faults)
    assert work_of(tmp_path / "out").is_dir()
    assert not (tmp_path / "out").exists()
    assert cubes(tmp_path / "out", InProcess(), faults=faults) == sum(range(35))
    assert (tmp_path / "out").read_text() == CUBES_OF_35
    assert len(list(faults.iterdir())) == 7  # the first stage was made once


@pytest.mark.parametrize("damage", ["cut", "changed", "removed", "no done file", "bad done file"])
def test_a_damaged_shard_is_made_again(tmp_path, damage):
    (faults := tmp_path / "faults").mkdir()
    interrupted(tmp_path / "out", faults=faults)
    [folder] = work_of(tmp_path / "out").glob("*/numbers/000002")
    numbers, done = folder / "numbers", folder / "done.json"
    match damage:
        case "cut":
            numbers.write_text(numbers.read_text()[:-3])
        case "changed":
            numbers.write_text(numbers.read_text().replace("1", "7"))
        case "removed":
            numbers.unlink()
        case "no done file":
            done.unlink()
        case "bad done file":
            done.write_text(done.read_text()[:-5])
    cubes(tmp_path / "out", InProcess(), faults=faults)
    assert (tmp_path / "out").read_text() == CUBES_OF_35
    assert len([path for path in faults.iterdir() if path.name.startswith("made-2-")]) == 2
    assert len(list(faults.iterdir())) == 8


def test_a_shard_that_is_damaged_while_the_job_runs_is_refused_and_made_again(tmp_path, monkeypatch):
    def damaged(self, stage, shards, name, output):
        path = self.shard(stage, 2) / name
        path.write_bytes(b"7" + path.read_bytes()[1:])
        concatenate(self, stage, shards, name, output)

    concatenate = Job.concatenate
    with monkeypatch.context() as patch:
        patch.setattr(Job, "concatenate", damaged)
        with pytest.raises(MtkitError, match=r"000002: damaged; run the same command again"):
            cubes(tmp_path / "out", InProcess())
    assert not (tmp_path / "out").exists()
    cubes(tmp_path / "out", InProcess())
    assert (tmp_path / "out").read_text() == CUBES_OF_35


def test_a_job_with_other_settings_is_refused_until_restart(tmp_path):
    interrupted(tmp_path / "out", settings={"rules": {"max_ratio": 3}})
    with pytest.raises(MtkitError, match=r"settings\.rules\.max_ratio was 3, now 4; .*--restart"):
        cubes(tmp_path / "out", InProcess(), settings={"rules": {"max_ratio": 4}})
    cubes(tmp_path / "out", InProcess(), settings={"rules": {"max_ratio": 4}}, restart=True)
    assert (tmp_path / "out").read_text() == CUBES_OF_35
    assert not work_of(tmp_path / "out").exists()


def test_a_job_with_other_input_is_refused(tmp_path):
    (text := tmp_path / "a.en").write_text("one\n")
    interrupted(tmp_path / "out", inputs=(text,))
    before = text.stat()
    text.write_text("two\n")
    os.utime(text, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(MtkitError, match=r"a\.en was .*, now .*--restart"):
        cubes(tmp_path / "out", InProcess(), inputs=(text,))
    text.write_text("one\n")  # another time stamp, the same text
    cubes(tmp_path / "out", InProcess(), inputs=(text,))
    assert (tmp_path / "out").read_text() == CUBES_OF_35


def test_a_folder_that_is_no_job_is_left_alone(tmp_path):
    work_of(tmp_path / "out").mkdir()
    (work_of(tmp_path / "out") / "thesis.txt").write_text("precious")
    with pytest.raises(MtkitError, match=r"out\.mtkit-job: already exists, but is not"):
        cubes(tmp_path / "out", InProcess())
    assert (work_of(tmp_path / "out") / "thesis.txt").read_text() == "precious"


def test_a_damaged_job_file_is_named(tmp_path):
    interrupted(tmp_path / "out")
    (work_of(tmp_path / "out") / "job.json").write_text("{")
    with pytest.raises(MtkitError, match=r"job\.json: cannot read the job file; .*--restart"):
        cubes(tmp_path / "out", InProcess())


def test_a_process_that_dies_is_replaced(tmp_path, caplog):
    (faults := tmp_path / "faults").mkdir()
    (faults / "kill-3").write_text("2")
    cubes(tmp_path / "out", Processes(2), faults=faults)
    assert (tmp_path / "out").read_text() == CUBES_OF_35
    assert len([path for path in faults.iterdir() if path.name.startswith("made-3-")]) == 3


def test_processes_run_no_module_of_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "re.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')\nraise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    assert cubes(tmp_path / "out", Processes(1)) == sum(range(35))
    assert not (tmp_path / "run").exists()


def test_a_process_loads_what_its_shards_need_once(tmp_path):
    assert loads(tmp_path / "out", Processes(2), 12) in (1, 2)


def test_a_shard_that_kills_three_processes_ends_the_job(tmp_path):
    (faults := tmp_path / "faults").mkdir()
    (faults / "kill-3").write_text("9")
    with pytest.raises(MtkitError, match=r"shard 3 of stage numbers: .* 3 times .*SIGKILL"):
        cubes(tmp_path / "out", Processes(2), faults=faults)
    assert (faults / "kill-3").read_text() == "6"


def test_the_same_job_twice_is_refused(tmp_path):
    (faults := tmp_path / "faults").mkdir()
    (faults / "wait-3").touch()
    first = start(tmp_path / "out", "--faults", faults)
    while not list(tmp_path.glob("out.mtkit-job/*/numbers/000002")):
        time.sleep(0.02)
    second = start(tmp_path / "out")
    assert "another mtkit process is working on this job" in failed(second)
    with pytest.raises(MtkitError, match="end that process before you use --restart"):
        cubes(tmp_path / "out", InProcess(), restart=True)
    (faults / "wait-3").unlink()
    end(first)
    assert (tmp_path / "out").read_text() == CUBES_OF_35


@pytest.mark.parametrize("n_kills", [2, pytest.param(25, marks=pytest.mark.slow)])
@pytest.mark.parametrize("how", [("--workers", 2), ("--workers", 0)])
def test_a_driver_killed_at_random_moments_still_ends_with_the_same_output(tmp_path, how, n_kills):
    rng, killed = random.Random(n_kills), 0
    while True:
        process, until = start(tmp_path / "out", "--slow", 0.05, *how), time.monotonic() + rng.uniform(0.1, 2.0)
        while process.poll() is None and (killed >= n_kills or time.monotonic() < until):
            time.sleep(0.01)
        if process.poll() is not None:
            end(process)
            assert (tmp_path / "out").read_text() == CUBES_OF_35
            if killed >= n_kills:
                break
            (tmp_path / "out").unlink()
        else:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
            killed += 1
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_the_workers_of_a_killed_driver_end(tmp_path):
    process = start(tmp_path / "out", "--slow", 60, "--workers", 2)
    while not list(tmp_path.glob("out.mtkit-job/*/numbers/.0*")):
        time.sleep(0.02)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert children
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    until = time.monotonic() + 300
    while any(Path(f"/proc/{child}/cmdline").exists() and alive(child) for child in children):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_input_that_changes_while_it_is_read_is_noticed(tmp_path, monkeypatch):
    def read_before_a_change(path):
        checksum = sha256_file(path)
        path.write_text("longer\n")
        return checksum

    (text := tmp_path / "a.en").write_text("one\n")
    monkeypatch.setattr(identity, "sha256_file", read_before_a_change)
    with pytest.raises(MtkitError, match=r"a\.en was .*, now"):
        cubes(tmp_path / "out", InProcess(), inputs=(text,))


def test_jobs_for_names_that_begin_alike_leave_each_other_alone(tmp_path):
    live = [tmp_path / f".out.gz.mtkit-job.{'0a' * 16}.mtkit-tmp", tmp_path / ".out.gz.abc_1234.mtkit-tmp"]
    dead = [tmp_path / f".out.mtkit-job.{'0a' * 16}.mtkit-tmp", tmp_path / ".out.abc_1234.mtkit-tmp"]
    for path in (live[0], dead[0]):
        path.mkdir()
    for path in (live[1], dead[1]):
        path.touch()
    cubes(tmp_path / "out", InProcess())
    assert {path.name for path in tmp_path.iterdir()} == {"out", *(path.name for path in live)}


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")")[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_what_a_job_notes_about_a_shard(tmp_path):
    interrupted(tmp_path / "out")
    [folder] = work_of(tmp_path / "out").glob("*/numbers/000002")
    done = json.loads((folder / "done.json").read_text())
    checksum = subprocess.run(["sha256sum", folder / "numbers"], capture_output=True, text=True, check=True).stdout[:64]
    assert done == {"files": {"numbers": checksum}, "counts": {"numbers": 5, "sum": 10 + 11 + 12 + 13 + 14}}

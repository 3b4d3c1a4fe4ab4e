"""A job on Ray ends with the same output as one in this process."""

import os
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from jobs.squares import CountsItsUses
from jobs.test_job import CUBES_OF_35, end, start

from mtkit.errors import MtkitError
from mtkit.jobs.on_ray import OnRay

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray: pip install 'mtkit[ray]'"),
]
# for processes that import from tests
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])}


def test_two_workers_of_ray_give_the_same_output_and_keep_stdout_clean(tmp_path):
    stdout, stderr = end(start(tmp_path / "out", "--ray"))
    assert stdout == f"{sum(range(35))}\n"
    assert (tmp_path / "out").read_text() == CUBES_OF_35
    assert "Traceback" not in stderr


def test_a_worker_of_ray_that_dies_is_replaced(tmp_path):
    (faults := tmp_path / "faults").mkdir()
    (faults / "kill-3").write_text("2")
    end(start(tmp_path / "out", "--ray", "--faults", faults))
    assert (tmp_path / "out").read_text() == CUBES_OF_35
    assert len([path for path in faults.iterdir() if path.name.startswith("made-3-")]) == 3


def test_a_shard_that_kills_three_workers_of_ray_ends_the_job(tmp_path):
    (faults := tmp_path / "faults").mkdir()
    (faults / "kill-3").write_text("9")
    process = start(tmp_path / "out", "--ray", "--faults", faults)
    stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 1
    assert re.search("mtkit: shard 3 of stage numbers: .*ended 3 times", stderr)
    assert stdout == ""
    assert (faults / "kill-3").read_text() == "6"


def test_a_driver_of_ray_that_is_killed_resumes(tmp_path):
    (faults := tmp_path / "faults").mkdir()
    process = start(tmp_path / "out", "--ray", "--slow", 0.3, "--faults", faults)
    until = time.monotonic() + 300
    while len(list(tmp_path.glob("out.mtkit-job/*/numbers/0*"))) < 3:
        assert time.monotonic() < until
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    n_made = len(list(tmp_path.glob("out.mtkit-job/*/numbers/0*")))
    assert n_made < 7
    end(start(tmp_path / "out", "--ray", "--faults", faults))
    assert (tmp_path / "out").read_text() == CUBES_OF_35


def test_machines_may_join_and_leave_a_cluster_while_it_works(tmp_path):
    script = f"""
import subprocess, sys, time
from pathlib import Path
from ray.cluster_utils import Cluster

machine = dict(num_cpus=1, object_store_memory=100_000_000)
cluster = Cluster(initialize_head=True, head_node_args=dict(include_dashboard=False, **machine))
folder = Path({str(tmp_path)!r})
(folder / "faults").mkdir()
how = ["--ray-address", cluster.address, "--slow", "0.4", "--n", "20", "--faults", "faults"]
command = [sys.executable, {str(Path(__file__).with_name("squares.py"))!r}, "out", *how]
job = subprocess.Popen(command, cwd=folder)  # of whose paths some are relative to a folder of its own

def wait_for(n):
    while len(list(folder.glob("out.mtkit-job/*/*/0*"))) < n:
        assert job.poll() is None
        time.sleep(0.05)

wait_for(3)
late = cluster.add_node(**machine)
wait_for(20)
cluster.remove_node(late, allow_graceful=False)
print("left")
sys.exit(job.wait())
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() in (["4950", "left"], ["left", "4950"])
    assert (tmp_path / "out").read_text() == "".join(f"{number**3}\n" for number in range(100))


def test_ray_listens_on_this_machine_only(tmp_path):
    process = start(tmp_path / "out", "--ray", "--slow", 2)
    while not list(tmp_path.glob("out.mtkit-job/*/numbers/.0*")):
        time.sleep(0.05)
    session = {process.pid, *descendants(process.pid)}
    addresses = listening(session)
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=300)
    assert addresses
    assert {address for address, _ in addresses} == {"127.0.0.1"}


def descendants(pid):
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        children += map(int, task.read_text().split())
    return [*children, *(far for child in children for far in descendants(child))]


def listening(pids):
    """The addresses and ports at which these processes listen for TCP connections."""
    inodes: set[str] = set()
    for pid in pids:
        for entry in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                target = str(entry.readlink())
            except OSError:
                continue
            if target.startswith("socket:"):
                inodes.add(target[8:-1])
    found: set[tuple[str, int]] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for row in Path(table).read_text().splitlines()[1:]:
            fields = row.split()
            if fields[3] == "0A" and fields[9] in inodes:
                address, port = fields[1].split(":")
                if len(address) == 8:
                    name = ".".join(str(byte) for byte in reversed(bytes.fromhex(address)))
                else:
                    name = {"0" * 32: "::", "0000000000000000FFFF00000100007F": "127.0.0.1"}.get(address, address)
                found.add((name, int(port, 16)))
    return found


def test_an_address_without_a_cluster_is_named():
    with pytest.raises(MtkitError, match=r"--ray-address 127\.0\.0\.1:1: .*ray start --head"), OnRay("127.0.0.1:1", 1):
        pass


def test_a_task_that_keeps_state_is_loaded_once_a_worker(tmp_path):
    script = f"""
from pathlib import Path
from jobs.squares import loads
from mtkit.jobs.on_ray import OnRay
print(loads(Path({str(tmp_path)!r}) / "out", OnRay(None, 2), 12))
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert CountsItsUses.keeps_state
    assert 1 <= int(done.stdout) <= 2  # of 12 shards, those that found nothing loaded


def test_a_worker_that_keeps_state_and_dies_is_replaced(tmp_path):
    (tmp_path / "in").write_text("".join(f"line {number}\n" for number in range(100)))
    (tmp_path / "kill").touch()
    script = f"""
from pathlib import Path
from jobs.squares import LoadCapitals
from mtkit.jobs.line_job import Text, run_line_job
from mtkit.jobs.on_ray import OnRay
folder = Path({str(tmp_path)!r})
text, executor = Text.of_file(folder / "in"), OnRay(None, 2)
result = run_line_job(text, folder / "out", LoadCapitals(folder), {{}}, executor, window_lines=10)
print(result.counts["lines"])
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "100\n"
    assert (tmp_path / "out").read_text() == (tmp_path / "in").read_text().upper()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"], "the process was killed"

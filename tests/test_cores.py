import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from mtkit import cores
from mtkit.cores import CpuTime, has_instructions_for, usable_cores

COUNT = [sys.executable, "-c", "from mtkit.cores import usable_cores; print(usable_cores())"]


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Return a function that pretends a system: this process's groups, mounts and the groups' files, on 64 cores."""

    def pretend(groups: str, mounts: str, files: dict[str, str]) -> None:
        (tmp_path / "self").mkdir()
        (tmp_path / "self/cgroup").write_text(groups)
        (tmp_path / "self/mountinfo").write_text(mounts.replace("/sys", f"{tmp_path}/sys"))
        for name, content in files.items():
            path = tmp_path / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    monkeypatch.setattr(cores, "_PROC", tmp_path)
    monkeypatch.setattr(cores, "_own_cores", lambda: set(range(64)))
    return pretend


MOUNT_2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"


@pytest.mark.parametrize(
    ("limit", "n"), [("200000 100000", 2), ("150000 100000", 2), ("20000 100000", 1), ("max 100000", 64), ("?", 64)]
)
def test_a_quota_limits_the_cores(system, limit, n):
    system("0::/job\n", MOUNT_2, {"/sys/fs/cgroup/job/cpu.max": limit})
    assert usable_cores() == n


def test_a_quota_of_an_outer_group_counts_too(system):
    files = {"a/b/cpu.max": "800000 100000", "a/cpu.max": "300000 100000"}
    system("0::/a/b\n", MOUNT_2, {f"/sys/fs/cgroup/{name}": content for name, content in files.items()})
    assert usable_cores() == 3


def test_a_container_sees_its_own_group_as_the_topmost(system):
    system("0::/\n", MOUNT_2, {"/sys/fs/cgroup/cpu.max": "250000 50000"})
    assert usable_cores() == 5


@pytest.mark.parametrize(("quota", "n"), [("400000", 4), ("-1", 64)])
def test_a_quota_of_version_1_limits_the_cores(system, quota, n):
    mounts = (
        "31 24 0:27 /docker/7 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "32 24 0:28 /docker/7 /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    )
    folder = "/sys/fs/cgroup/cpu,cpuacct/"
    files = {f"{folder}cpu.cfs_quota_us": quota, f"{folder}cpu.cfs_period_us": "100000"}
    system("5:memory:/docker/7\n4:cpu,cpuacct:/docker/7\n0::/\n", mounts, files)
    assert usable_cores() == n


def test_without_control_groups_the_affinity_mask_counts(monkeypatch, tmp_path):
    monkeypatch.setattr(cores, "_PROC", tmp_path)  # empty
    assert usable_cores() == len(os.sched_getaffinity(0))


def test_a_process_bound_to_one_core_uses_one():
    core = str(min(os.sched_getaffinity(0)))
    bound = f"import os; os.sched_setaffinity(0, [{core}]); {COUNT[2]}"
    assert subprocess.run([*COUNT[:2], bound], capture_output=True, check=True).stdout == b"1\n"


def test_a_real_quota_of_one_core_is_seen():
    group = Path(f"/sys/fs/cgroup/cpu/mtkit-test-{os.getpid()}")
    try:
        group.mkdir()
    except OSError:
        pytest.skip("needs root and control groups of version 1")
    try:
        (group / "cpu.cfs_quota_us").write_text("90000")  # of a period of 100,000
        join = f'echo $$ > {group}/cgroup.procs && exec "$@"'
        done = subprocess.run(["sh", "-c", join, "sh", *COUNT], capture_output=True, check=True)
        assert done.stdout == b"1\n"
    finally:
        group.rmdir()


def test_what_others_use_is_all_minus_our_own():
    before, after = CpuTime(wall=100.0, own=3.0, total=1000.0), CpuTime(wall=110.0, own=9.0, total=1020.0)
    assert after.cores_of_others(before) == pytest.approx(1.4)  # 20 s of all in 10 s, 6 of them ours


def test_only_the_cores_of_this_process_count(monkeypatch, tmp_path):
    ticks = os.sysconf("SC_CLK_TCK")
    row = " ".join(str(ticks * seconds) for seconds in (1, 2, 3, 100, 100, 4, 5, 6, 7, 8))
    (tmp_path / "stat").write_text(f"cpu  {row}\ncpu0 {row}\ncpu1 {row}\ncpu10 {row}\nintr 5\n")
    monkeypatch.setattr(cores, "_PROC", tmp_path)
    monkeypatch.setattr(cores, "_own_cores", lambda: {1})
    now = CpuTime.now()
    assert now is not None
    assert now.total == 1 + 2 + 3 + 4 + 5  # user, nice, system, interrupts; not idle, waiting, stolen


@pytest.mark.parametrize(("others", "said"), [(1.4, "1.4 of 2 cores"), (0.1, None)])
def test_a_shared_machine_is_told_with_numbers(monkeypatch, others, said):
    monkeypatch.setattr(cores, "_own_cores", lambda: {0, 1})
    monkeypatch.setattr(cores, "_cores_in_quota", lambda: None)
    monkeypatch.setattr(CpuTime, "now", lambda: CpuTime(10.0, 0.0, 10 * others))
    assert cores.use_of_others(CpuTime(0.0, 0.0, 0.0)) == said


def test_others_on_cores_that_a_quota_denies_us_do_not_matter(monkeypatch):
    monkeypatch.setattr(cores, "_own_cores", lambda: set(range(64)))
    monkeypatch.setattr(cores, "_cores_in_quota", lambda: 4.0)
    monkeypatch.setattr(CpuTime, "now", lambda: CpuTime(10.0, 0.0, 10 * 50.0))
    assert cores.use_of_others(CpuTime(0.0, 0.0, 0.0)) is None


def test_a_program_that_computes_beside_us_is_noticed():
    n_cores = len(os.sched_getaffinity(0))
    programs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range((n_cores + 1) // 2)]
    until, amount = time.monotonic() + 300, 0.0
    try:
        while amount <= 0.3 * n_cores:  # they may start slowly, or share their cores with other programs
            assert time.monotonic() < until, f"noticed {amount} of {n_cores} cores"
            began = CpuTime.now()
            time.sleep(0.4)
            used, _, rest = (cores.use_of_others(began) or f"0 of {n_cores} cores").partition(" of ")
            assert rest == f"{n_cores} cores"
            amount = float(used)
    finally:
        for program in programs:
            program.kill()
            program.wait()


WAITING = "import mtkit, os; print(os.environ.get('GOMP_SPINCOUNT'), os.environ.get('OMP_WAIT_POLICY'))"


@pytest.mark.parametrize(
    ("users", "in_force"),
    [({}, "500 None"), ({"GOMP_SPINCOUNT": "7"}, "7 None"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "None ACTIVE")],
)
def test_threads_sleep_soon_unless_the_user_says_otherwise(users, in_force):
    rest = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    done = subprocess.run([sys.executable, "-c", WAITING], env=rest | users, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == in_force


@pytest.mark.parametrize(
    ("capabilities", "for_int8", "for_bf16"),
    [
        ({"avx2": True, "avx_vnni": True, "avx512_vnni": False, "avx512_bf16": False}, True, False),
        ({"avx512_vnni": True, "avx512_bf16": False, "amx_bf16": True}, True, True),
        ({"avx512_vnni": False, "amx_int8": False, "avx512_bf16": False}, False, False),
        ({"neon": True}, None, None),
        ({}, None, None),
    ],
)
def test_a_processor_has_instructions_for_a_format_or_is_not_known(monkeypatch, capabilities, for_int8, for_bf16):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    assert (has_instructions_for("int8"), has_instructions_for("bf16")) == (for_int8, for_bf16)

"""Detect what this process computes with: the processor's cores, maker and instructions, and numba."""

import math
import os
import platform
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.context import SpawnContext

_PROC = Path("/proc")
# Instructions of x86 processors that multiply numbers of these formats, by torch's names for them; one is enough.
_MULTIPLY = {"int8": ("avx512_vnni", "avx_vnni", "amx_int8"), "bf16": ("avx512_bf16", "amx_bf16")}


def usable_cores() -> int:
    """Return how many cores this process may use, at least 1; in a container or a job the machine may have more.

    The affinity mask (taskset, docker --cpuset-cpus) counts cores; a quota of the control groups (docker --cpus, a
    Kubernetes limit) counts their time. A quota of 1.5 cores is 2: each thread then works three quarters of the time.
    """
    quota = _cores_in_quota()
    n_cores = len(_own_cores())
    return n_cores if quota is None else max(1, min(n_cores, math.ceil(quota)))


def _own_cores() -> set[int]:
    """Return the numbers of the cores that this process may run on."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def _cores_in_quota() -> float | None:
    """Return how many cores' time the control groups of this process allow it, None if they set no limit."""
    limits = [_quota(folder) for folder in _cpu_groups()]
    return min((limit for limit in limits if limit is not None), default=None)  # a group has no more than its parent


def _cpu_groups() -> Iterator[Path]:
    """Yield the folders of the control groups, version 1 or 2, that may limit this process's CPU time."""
    try:
        own = [line.split(":", 2) for line in (_PROC / "self/cgroup").read_text("utf-8").splitlines()]
        mounts = [line.split() for line in (_PROC / "self/mountinfo").read_text("utf-8").splitlines()]
    except OSError:  # not Linux
        return
    of_version_1 = [group for _, controllers, group in own if "cpu" in controllers.split(",")]
    of_version_2 = [group for _, controllers, group in own if not controllers]
    for fields in mounts:  # number, parent, device, root, folder, options, ... "-", type, source, type's own options
        kind, options = fields[fields.index("-") + 1], fields[-1].split(",")
        limiting = {"cgroup": of_version_1 if "cpu" in options else [], "cgroup2": of_version_2}.get(kind, [])
        for group in map(Path, limiting):
            root, folder = Path(fields[3]), Path(fields[4])
            inner = group.relative_to(root) if group.is_relative_to(root) else Path()
            yield from (folder / part for part in (inner, *inner.parents))


def _quota(group: Path) -> float | None:
    """Return the cores' time that this one group allows, None for no limit."""
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text("utf-8").split()
        else:
            quota, period = ((group / f"cpu.cfs_{name}_us").read_text("utf-8") for name in ("quota", "period"))
        return None if quota == "max" or int(quota) <= 0 else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):  # the topmost group has no such file
        return None


@dataclass(frozen=True)
class CpuTime:
    """A measurement of the processor time that other programs use."""

    wall: float
    own: float  # CPU time of this process and its ended children
    total: float  # CPU time of all programs on the cores that this process may use

    @classmethod
    def now(cls) -> "CpuTime | None":
        """Read the clocks; None where the system does not report them, such as outside Linux."""
        try:
            lines = (_PROC / "stat").read_text("utf-8").splitlines()
        except OSError:
            return None
        names = {f"cpu{core}" for core in _own_cores()}
        rows = [line.split() for line in lines if line.split(" ", 1)[0] in names]
        # user, nice, system, idle, iowait, irq, softirq; of time stolen by other virtual machines we know too little
        ticks = sum(int(row[column]) for row in rows for column in (1, 2, 3, 6, 7))
        own = os.times()
        return cls(time.monotonic(), sum(own[:4]), ticks / os.sysconf("SC_CLK_TCK"))

    def cores_of_others(self, since: "CpuTime") -> float:
        """Return how many cores other programs have used on average since then."""
        return max(0.0, (self.total - since.total) - (self.own - since.own)) / max(self.wall - since.wall, 1e-9)


def use_of_others(since: CpuTime | None) -> str | None:
    """Return "1.4 of 2 cores" if other programs have used that much since then and left this process too little.

    None if they left at least nine tenths of what it may use.
    """
    now = CpuTime.now()
    if now is None or since is None:
        return None
    others, n_cores = now.cores_of_others(since), len(_own_cores())
    return f"{others:.1f} of {n_cores} cores" if n_cores - others < 0.9 * usable_cores() else None


def let_threads_sleep() -> None:
    """Make OpenMP's threads sleep soon when they wait for each other; call it before torch is imported.

    GNU's OpenMP, which torch and CTranslate2 bring for Linux, reads the variable once, when it is loaded. By default a
    thread that waits keeps its core for milliseconds, even from the thread that it waits for. After 500 rounds, some 10
    microseconds, it sleeps: on an idle machine that costs nothing. A value that the user has set stays.
    """
    if not any(name in os.environ for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")):
        os.environ["GOMP_SPINCOUNT"] = "500"


def spawn_context() -> "SpawnContext":
    """Return multiprocessing's way to start fresh processes; threads, as torch has them, do not survive a fork.

    The processes look for modules where this one does: without PYTHONSAFEPATH they would first look in the current
    folder, and run a file there that is named like a module of Python.
    """
    import multiprocessing  # here: few commands need it

    os.environ["PYTHONSAFEPATH"] = "1"
    return multiprocessing.get_context("spawn")


def has_instructions_for(number_format: str) -> bool | None:
    """Return whether the processor has instructions that multiply numbers of this format: int8 or bf16.

    None for a processor that is not x86, of which torch names other instructions or none.
    """
    import torch  # here: the processes that clean text need no torch

    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    answers = [capabilities[name] for name in _MULTIPLY[number_format] if name in capabilities]
    return any(answers) if answers else None


@cache
def made_by_intel() -> bool:
    """Return whether Intel made the processor."""
    try:
        description = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux
        description = platform.processor()
    return "GenuineIntel" in description


def numba_version() -> str | None:
    """Return the version of numba, or None if it is missing or broken; the first call imports it (half a second)."""
    version, _ = _import_numba()
    return version


def numba_error() -> Exception | None:
    """Return what an installed numba raises when it is imported; None if it works or is not installed."""
    _, error = _import_numba()
    return error


@cache
def _import_numba() -> tuple[str | None, Exception | None]:
    if find_spec("numba") is None:
        return None, None
    try:
        import numba
    except Exception as error:  # it accepts few versions of numpy, and loads shared libraries
        return None, error
    return str(numba.__version__), None

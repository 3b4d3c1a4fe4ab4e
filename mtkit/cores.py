"""What this process computes with: the processor's cores, its maker, and numba, which compiles for it."""

import os
import platform
from functools import cache
from importlib.util import find_spec
from pathlib import Path


def usable_cores() -> int:
    """Return how many cores this process may run on; in a container or a job the machine may have more."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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

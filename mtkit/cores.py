"""The processor that this process runs on: how many cores of it, and whose."""

import os
import platform
from functools import cache
from pathlib import Path


def usable_cores() -> int:
    """The cores that the system lets this process run on: fewer than the machine has, in a container or a job."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def made_by_intel() -> bool:
    """Whether the processor is Intel's."""
    try:
        found = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux
        found = platform.processor()
    return "GenuineIntel" in found

"""How many CPU cores this process may use."""

import os


def usable_cores() -> int:
    """The cores that the system lets this process run on: fewer than the machine has, in a container or a job."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

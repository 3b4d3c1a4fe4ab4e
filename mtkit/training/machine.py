"""The machine and the software that a run uses, in words for people."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from mtkit.cores import usable_cores

_PACKAGES = ("mtkit", "torch", "sentencepiece", "sacrebleu", "numba", "numpy")


def machine(device: torch.device) -> dict[str, str]:
    """Name to value: processor, cores, memory, system, and the GPU if the device is one."""
    found = {
        "processor": _processor(),
        "CPU cores": str(usable_cores()),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.release()} ({platform.machine()})",
    }
    if device.type == "cuda":
        gpu = torch.cuda.get_device_properties(device)
        found["GPU"] = f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB"
    return {name: value for name, value in found.items() if value}


def software() -> dict[str, str]:
    """Name to version, of Python and of the packages that a result depends on."""
    found = {"Python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # not installed as a package: run from its folder
            continue
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def _memory() -> str:
    try:
        n_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not POSIX
        return ""
    return f"{n_bytes / 2**30:.0f} GiB"

"""The machine that a run uses: device, working precision, threads."""

import ctypes
import os
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from importlib.util import find_spec
from mmap import PAGESIZE
from typing import Literal

import torch

from mtkit.console import log
from mtkit.cores import made_by_intel, usable_cores
from mtkit.errors import MtkitError

Precision = Literal["fp32", "bf16", "fp16"]
_DTYPES: dict[Precision, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def choose_device(name: str) -> torch.device:
    """The device that the config names; `auto` takes a GPU where there is one. A GPU is made torch's current one.

    Raises MtkitError if the machine has no such device.
    """
    # cuDNN's attention plans each shape anew, which takes half a second, and batches differ in shape: flash attention
    # and its kin are left to choose from.
    torch.backends.cuda.enable_cudnn_sdp(False)
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise MtkitError(f"device={name}: this machine has {torch.cuda.device_count()} CUDA devices; use auto or cpu")
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)  # by which torch answers what the machine can do
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise MtkitError("device=mps: not available on this machine; use auto or cpu")
    return device


def choose_precision(name: str, device: torch.device) -> Precision:
    """The precision of matrix products; `auto` is bf16 where the device computes in it natively, else fp32."""
    if name in _DTYPES:
        if name == "fp16" and device.type == "cpu":
            raise MtkitError("train.precision=fp16 is for GPUs; on a CPU use bf16 or fp32")
        return name
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
    if device.type == "cpu" and _cpu_multiplies_bf16():
        return "bf16"
    return "fp32"


def _cpu_multiplies_bf16() -> bool:
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """Context in which matrix products of this device run in the given precision."""
    if precision == "fp32":
        return nullcontext()
    return torch.autocast(device.type, dtype=_DTYPES[precision])


def set_threads(n_threads: int | None) -> int:
    """Let torch use n_threads CPU threads, by default one per core this process may use; returns the number."""
    n = n_threads or usable_cores()
    torch.set_num_threads(n)
    return n


def environment(device: torch.device, precision: Precision) -> dict[str, str]:
    """What the last bits of a result depend on besides config and data."""
    kinds = {"cpu": _vectors, "cuda": torch.cuda.get_device_name}
    made_by = {"numba": numba_version() or "none"} if device.type == "cpu" else {}
    return {
        "torch": torch.__version__,
        "device": kinds[device.type]() if device.type in kinds else device.type,
        "precision": precision,
        "threads": str(torch.get_num_threads()),
        **made_by,
    }


@cache
def numba_version() -> str | None:
    """The version of numba, which compiles passes over memory on a CPU; None if it is not there, or does not work.

    Loads it, which takes half a second.
    """
    if find_spec("numba") is None:
        return None
    try:
        import numba
    except Exception as error:  # it is particular about numpy's version, and has libraries of its own to load
        log.warning(f"numba is installed, but does not work ({error}); training goes on without it, a tenth slower")
        return None
    return str(numba.__version__)


def _vectors() -> str:
    """The instructions that torch uses, and whether MKL multiplies with all of them."""
    return torch.backends.cpu.get_cpu_capability() + (" of Intel" if made_by_intel() else "")


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether torch failed for want of memory; it has a class of error for that on GPUs only."""
    reason = str(error).lower()
    causes = ("out of memory", "not enough memory", "can't allocate memory", "cublas_status_alloc_failed")
    return any(words in reason for words in causes)


def keep_freed_memory() -> None:
    """Let the C library keep all memory that is freed, instead of giving it back to the system.

    Tensors of a few megabytes come and go at every step; each time their pages would have to be made anew, which can
    take longer than computing what is in them. A gigabyte is asked for at once, so that it can be of large pages, of
    which five hundred times fewer have to be made; none is made before it is used. The other threads have pools of
    their own, of 64 megabytes each, which are kept as well. For this process alone, glibc only; elsewhere nothing
    happens.
    """
    with suppress(OSError, AttributeError, TypeError):  # the last from Windows
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_TRIM_THRESHOLD, -1)  # never
        libc.mallopt(_M_MMAP_MAX, 0)  # a mapping for one block alone would go with it
        libc.mallopt(_M_TOP_PAD, _LEFT_TO_THREADS)
        libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        libc.free.restype, libc.free.argtypes = None, [ctypes.c_void_p]
        libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        if block := libc.malloc(_AT_ONCE):
            libc.madvise(-(-block // PAGESIZE) * PAGESIZE, _AT_ONCE - PAGESIZE, _MADV_HUGEPAGE)
            libc.free(block)


def bound_kernel_stores(n_threads: int) -> None:
    """Keep the kernels of at most so many sizes of products on a CPU; to be called before the first of them.

    Each size of a batch needs its own, of about a megabyte. oneDNN keeps them, and torch beside it in every thread that
    starts products; only what both have dropped is freed. By default each keeps 1,024: a run of a model 256 wide in two
    threads grew to 3.9 GB. What the user has set, by oneDNN's and torch's own variables, stays.
    """
    os.environ.setdefault(_ONEDNN_STORE, str(_KERNELS_KEPT))
    os.environ.setdefault(_TORCH_STORE, str(max(64, _KERNELS_KEPT // n_threads)))


_ONEDNN_STORE, _TORCH_STORE = "ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"  # environment variables
_KERNELS_KEPT = 512  # of some 50 for an update of one shape: those of the latest shapes
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4  # malloc.h
_MADV_HUGEPAGE = 14  # sys/mman.h
_AT_ONCE = 1 << 30
_LEFT_TO_THREADS = 1 << 27  # free memory that a thread's pool keeps at its end: more than a pool has

"""Set how a run uses the machine: device, precision of matrix products, threads, memory."""

import ctypes
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from mmap import PAGESIZE
from typing import Literal

import torch

from mtkit.console import log
from mtkit.cores import has_instructions_for, made_by_intel, numba_error, numba_version, usable_cores
from mtkit.errors import MtkitError

Precision = Literal["fp32", "bf16", "fp16"]
_DTYPES: dict[Precision, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def choose_device(name: str) -> torch.device:
    """Return the device that the config names; `auto` prefers a GPU. A numbered GPU becomes torch's current one.

    Raises MtkitError if the machine has no such device.
    """
    # cuDNN plans its attention for each new shape, which takes half a second, and every batch has another shape.
    # Without it, torch chooses among flash attention and the other kernels.
    torch.backends.cuda.enable_cudnn_sdp(False)
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise MtkitError(f"device={name}: this machine has {torch.cuda.device_count()} CUDA devices; use auto or cpu")
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)  # torch.cuda.is_bf16_supported asks the current device
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise MtkitError("device=mps: not available on this machine; use auto or cpu")
    return device


def choose_precision(name: str, device: torch.device) -> Precision:
    """Return the precision of matrix products; `auto` is bf16 where the device has instructions for it, else fp32.

    A GPU without bf16 gets fp16. Raises MtkitError for fp16 on a CPU.
    """
    if name in _DTYPES:
        if name == "fp16" and device.type == "cpu":
            raise MtkitError("train.precision=fp16 is for GPUs; on a CPU use bf16 or fp32")
        return name
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
    if device.type == "cpu" and has_instructions_for("bf16"):
        return "bf16"
    return "fp32"


def warn_of_slow_precision(precision: Precision, device: torch.device) -> None:
    """Log a warning if the precision is bf16, and the GPU or the x86 processor has no instructions for it.

    On a processor with AVX2 alone, a product in bf16 took 20 times as long as in fp32.
    """
    if device.type == "cuda":
        is_slow = not torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        is_slow = device.type == "cpu" and has_instructions_for("bf16") is False
    if precision == "bf16" and is_slow:
        log.warning(
            f"train.precision=bf16: this {'GPU' if device.type == 'cuda' else 'CPU'} has no instructions for it, so "
            "training is slow; with train.precision=auto, mtkit takes the fastest precision"
        )


def require_compiler() -> None:
    """Raise MtkitError unless the C++ compiler that torch uses is there."""
    name = os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")
    if shutil.which(name) is None:
        raise MtkitError(
            f"train.compile needs a C++ compiler, and there is no {name}: install one, set the environment variable "
            "CXX to another one, or set train.compile to false, which makes training slower on a GPU"
        )


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """Return a context in which the device's matrix products run in this precision."""
    if precision == "fp32":
        return nullcontext()
    return torch.autocast(device.type, dtype=_DTYPES[precision])


def set_threads(n_threads: int | None) -> int:
    """Let torch use n_threads CPU threads, by default one per core this process may use; return their number."""
    n = n_threads or usable_cores()
    torch.set_num_threads(n)
    return n


def environment(device: torch.device, precision: Precision) -> dict[str, str]:
    """Return the properties of the machine that affect the last bits of a result."""
    kinds = {"cpu": _vectors, "cuda": torch.cuda.get_device_name}
    made_by = {"numba": numba_version() or "none"} if device.type == "cpu" else {}
    return {
        "torch": torch.__version__,
        "device": kinds[device.type]() if device.type in kinds else device.type,
        "precision": precision,
        "threads": str(torch.get_num_threads()),
        **made_by,
    }


def log_missing_numba(gain: str) -> None:
    """Log that numba is missing or broken; gain: what it would make faster, and how much."""
    if error := numba_error():
        log.warning(f"numba cannot be imported ({error}); it would make {gain}")
    elif numba_version() is None:
        log.info(f"numba would make {gain}; install the extra `fast`")


def log_missing_loops(parts: Sequence[str]) -> None:
    """Log that parts of a model, as model.KEY=VALUE, have no compiled loops for decoding, if there are any."""
    if parts:
        log.info(
            f"{', '.join(parts)}: mtkit has no compiled loops for this, so on a CPU a single sentence takes about five "
            "times as long"
        )


def _vectors() -> str:
    """Return the vector instructions that torch uses, and whether Intel made the processor, which MKL asks, too."""
    return torch.backends.cpu.get_cpu_capability() + (" of Intel" if made_by_intel() else "")


def is_out_of_memory(error: RuntimeError) -> bool:
    """Return whether torch failed to get memory; only for GPUs does it have an error class of its own."""
    reason = str(error).lower()
    causes = ("out of memory", "not enough memory", "can't allocate memory", "cublas_status_alloc_failed")
    return any(words in reason for words in causes)


def keep_freed_memory() -> None:
    """Let the C library keep freed memory for this process instead of returning it to the system; glibc only.

    Every step allocates and frees tensors of some megabytes. If the system had to map their pages each time, that
    could take longer than computing what is in them. The first gigabyte is requested at once, so that the system can
    map large pages, which are 512 times fewer; no page is mapped before it is used. Other threads allocate from pools
    of 64 MB each, which stay, too.
    """
    with suppress(OSError, AttributeError, TypeError):  # TypeError: from Windows
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_TRIM_THRESHOLD, -1)  # never
        libc.mallopt(_M_MMAP_MAX, 0)  # a block with a mapping of its own is unmapped when it is freed
        libc.mallopt(_M_TOP_PAD, _THREAD_PAD)
        libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        libc.free.restype, libc.free.argtypes = None, [ctypes.c_void_p]
        libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        if block := libc.malloc(_FIRST_BLOCK):
            libc.madvise(-(-block // PAGESIZE) * PAGESIZE, _FIRST_BLOCK - PAGESIZE, _MADV_HUGEPAGE)
            libc.free(block)


_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4  # malloc.h
_MADV_HUGEPAGE = 14  # sys/mman.h
_FIRST_BLOCK = 1 << 30
_THREAD_PAD = 1 << 27  # bytes of free memory that a thread keeps at the end of its pool: more than a pool has


def bound_kernel_stores(n_threads: int, n_kept: int = 512) -> None:
    """Limit how many compiled matrix-product kernels oneDNN and torch keep; call it before the first product.

    oneDNN compiles a kernel of about a megabyte for each size of a product. It keeps the latest, and torch keeps the
    latest of each thread; a kernel is freed when neither keeps it. By default each store holds 1,024: a run of a model
    256 wide with two threads grew to 3.9 GB. Limits that the user has set in the variables of oneDNN and torch stay.
    n_kept: kernels in each store; an update of one shape needs some 50.
    """
    os.environ.setdefault(_ONEDNN_STORE, str(n_kept))
    os.environ.setdefault(_TORCH_STORE, str(max(64, n_kept // n_threads)))


_ONEDNN_STORE, _TORCH_STORE = "ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"  # environment variables

"""Compile loops with numba and store the code; the small functions that several kernels share."""

import os
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

import numba
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.sigutils import normalize_signature
from numba.extending import intrinsic

LANES = 16  # numbers that a vectorised loop handles at a time; shorter rows are padded to a multiple of it

_SUMS = {"reassoc", "contract", "nsz"}  # let the compiler choose the order of a sum; it is the same each time


class _Store(FunctionCache):
    """A folder of compiled code; a damaged or unwritable folder does not end a run.

    numba's own folder is next to the source, or NUMBA_CACHE_DIR. Unless the latter is set, code is stored for the user,
    so that a new environment or checkout with the same kernels does not compile them again.
    numba uses no lock, so of two processes that write at the same time, one can store its code under the other's name.
    numba compiles again after a change of the kernel's own file; we do so after a change of any file in this folder,
    because a kernel contains functions from other files.
    """

    def __init__(self, function):
        super().__init__(function)
        digest = _digest_of_sources()
        if not numba.config.CACHE_DIR and (folder := _folder_of_user(digest)) is not None:
            self._cache_path = str(folder)
        self._cache_file = IndexDataCacheFile(self._cache_path, self._impl.filename_base, digest)

    def load_overload(self, sig, target_context):
        """Return the stored code for arguments of these types; None, so that numba compiles, if none works."""
        try:
            stored = super().load_overload(sig, target_context)
        except Exception:  # half-written, or by another numba; without the flush, saving would read it again
            with suppress(OSError):
                self.flush()
            return None
        wanted, _ = normalize_signature(sig)
        return stored if stored is not None and tuple(stored.signature.args) == tuple(wanted) else None

    def save_overload(self, sig, data):
        """Store the code, unless the disk refuses it."""
        with suppress(OSError):
            super().save_overload(sig, data)


def _folder_of_user(digest):
    """Return a folder below ~/.cache; None if there can be none, or if another user could have put code there."""
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        first = next(path for path in (base, *base.parents) if path.exists())
        if first.stat().st_uid != os.geteuid():
            return None
        folder = base / "mtkit" / f"kernels-{digest[:16]}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder if os.access(folder, os.W_OK) else None
    except (OSError, RuntimeError):  # there is no home folder
        return None


@cache
def _digest_of_sources():
    files = sorted(Path(__file__).parent.glob("*.py"))
    versions = f"{numba.__version__} {np.__version__}".encode()
    return sha256(b"".join([versions, *(file.read_bytes() for file in files)])).hexdigest()


def compiled(function):
    """Compile the function; store the code for later processes if there is a folder for it."""
    kernel = njit(nogil=True, fastmath=_SUMS, error_model="numpy")(function)  # a check for zero stops vectors
    with suppress(RuntimeError):  # no folder is writable
        kernel._cache = _Store(function)
    return kernel


# Kernels inline the functions that they share. If they called them, a process that compiles a kernel and one that loads
# it would call differently compiled functions, and the last bits of sums would differ.
inlined = njit(fastmath=_SUMS, forceinline=True)
INLINE = {"forceinline": True}


@intrinsic
def float_of_bits(_context, bits):
    """Return the float32 that has these bits (uint32)."""

    def generate(_, builder, _signature, arguments):
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.uint32), generate


@intrinsic
def bits_of_float(_context, number):
    """Return the bits (uint32) of a float32."""

    def generate(_, builder, _signature, arguments):
        return builder.bitcast(arguments[0], ir.IntType(32))

    return types.uint32(types.float32), generate


@njit(fastmath={"contract"}, forceinline=True)  # in another order, the small terms would be lost
def exp(x):
    """Return e^x for float32 x <= 0, to two units in the last place; 0 below -87, where float32 loses its last bits.

    x = n ln 2 + r with |r| <= ln 2 / 2. ln 2 is the sum of two constants, the first with so few bits that n times it is
    exact. The result is 2^n times the first seven terms of the series of e^r.
    """
    whole = np.int32(max(x, np.float32(-88.0)) * np.float32(1.4426950408889634) - np.float32(0.5))
    n = np.float32(whole)
    r = (x - n * np.float32(0.693359375)) - n * np.float32(-2.12194440e-4)
    series = np.float32(1 / 720)
    series = series * r + np.float32(1 / 120)
    series = series * r + np.float32(1 / 24)
    series = series * r + np.float32(1 / 6)
    series = series * r + np.float32(0.5)
    series = series * r + np.float32(1.0)
    series = series * r + np.float32(1.0)
    power = float_of_bits(np.uint32(np.uint32(whole + np.int32(127)) << np.uint32(23)))
    return np.float32(0.0) if x < np.float32(-87.0) else series * power


@inlined
def largest_of(row):
    """Return the largest number of a row of float32, or NaN if it has one.

    It compares integers in the same order, because the compiler vectorises only those: the bits of a float32 are an
    integer that grows with it or, below 0, shrinks.
    """
    bits = row.view(np.int32)
    largest = np.int32(-(2**31))
    for j in range(bits.size):
        largest = max(largest, np.int32(bits[j] ^ ((bits[j] >> np.int32(31)) & np.int32(0x7FFFFFFF))))
    return float_of_bits(np.uint32(largest ^ ((largest >> np.int32(31)) & np.int32(0x7FFFFFFF))))


@inlined
def exp_row(row):
    """Turn row into e^(row - its largest number); return that number and the sum. NaN makes the sum NaN."""
    largest = largest_of(row)
    total = np.float32(0.0)
    for j in range(row.size):
        row[j] = exp(row[j] - largest)
        total += row[j]
    return largest, total

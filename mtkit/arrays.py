"""Read the arrays of an .npz file that may be damaged or forged."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# RuntimeError: encrypted, or a compression that Python lacks; MemoryError: a header may claim any number of numbers.
_DAMAGE = (OSError, EOFError, KeyError, ValueError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error)


def read_arrays(path: Path, most_growth: float | None = None) -> dict[str, NDArray[Any]]:
    """Return the arrays by name.

    most_growth: upper limit of the size of the arrays, as a multiple of the size of the file; None: no limit.
    Raises ValueError, with the reason, if the file does not hold plain arrays.
    """
    try:
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):  # np.load would read a single array, too
                raise ValueError("not an .npz file")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                n_bytes, file_size = sum(entry.file_size for entry in archive.zip.infolist()), path.stat().st_size
                if most_growth is not None and n_bytes > most_growth * file_size:
                    raise ValueError(f"{n_bytes:,} bytes unpacked, {file_size:,} packed")
                return {name: archive[name] for name in archive.files}
    except _DAMAGE as error:
        raise ValueError(str(error) or type(error).__name__) from error

"""Read a binary file of another system from start to end, whatever lengths a damaged file claims."""

import struct
from pathlib import Path

from mtkit.errors import DataError


class BinaryReader:
    """The bytes of a little-endian file, read from start to end. Raises DataError where the file is cut off."""

    def __init__(self, path: Path) -> None:
        """Raises DataError if the file cannot be read."""
        try:
            self.data = path.read_bytes()
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
        self.path, self.offset = path, 0

    def read(self, layout: str) -> tuple[int, ...]:
        """Return the next numbers; layout: as for `struct`, without the byte order."""
        layout = "<" + layout
        return struct.unpack_from(layout, self.data, self.skip(struct.calcsize(layout)))

    def bytes(self, n_bytes: int) -> bytes:
        """Return the next bytes."""
        start = self.skip(n_bytes)
        return self.data[start : self.offset]

    def skip(self, n_bytes: int) -> int:
        """Skip the next bytes; return where they start."""
        start, end = self.offset, self.offset + n_bytes
        if end > len(self.data):
            raise DataError(
                f"{self.path}: cut off: it needs {end:,} bytes or more, but has {len(self.data):,}; copy it again"
            )
        self.offset = end
        return start

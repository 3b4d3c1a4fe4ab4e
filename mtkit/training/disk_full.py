"""A full disk told as what it means for a run: where, and what to do."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mtkit.errors import TrainingError

MAKE_ROOM = "what was saved before is untouched: make room and run the same command again"


@contextmanager
def disk_full_explained(folder: Path) -> Iterator[None]:
    """Turn the system's error for a full disk into one that says where and what to do."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise TrainingError(f"{error.filename or folder}: {error.strerror}; {MAKE_ROOM}") from error

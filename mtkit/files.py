"""Files written whole or not at all: temporary name, fsync, rename; the checksum that tells a changed one; a lock."""

import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO

from mtkit.errors import MtkitError, TrainingError

# The ends of hidden names that no other program gives: what is being written, and a folder that is being replaced.
_TEMPORARY = ".mtkit-tmp"
_MOVED_ASIDE = ".old" + _TEMPORARY
MAKE_ROOM = "what was saved before is untouched: make room and run the same command again"


def sha256_file(path: Path) -> str:
    """Hex digest of the file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Block until the file's content, or the folder's list of names, is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Give a temporary name beside path to write to; if the block ends well the file takes path's place.

    If the block raises (a full disk too), path stays as it was and the temporary file is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=_TEMPORARY, dir=path.parent)
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        os.chmod(temporary, 0o666 & ~_umask())
        sync(temporary)
        os.replace(temporary, path)
        sync(path.parent)
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Give a temporary folder beside path to fill; if the block ends well it takes path's place.

    A folder that stood at path is moved aside first and removed last, so that at no moment its content is lost. A link
    stays, and the folder that it leads to is replaced.
    """
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=_TEMPORARY, dir=path.parent))
    try:
        yield temporary
        os.chmod(temporary, 0o777 & ~_umask())
        for entry in sorted(temporary.rglob("*"), reverse=True):
            if entry.is_file() and not entry.is_symlink():  # safetensors writes what nobody else may read
                os.chmod(entry, 0o666 & ~_umask())
            sync(entry)
        sync(temporary)
        old = None
        if path.exists():
            old = path.with_name(f".{path.name}{_MOVED_ASIDE}")
            shutil.rmtree(old, ignore_errors=True)
            os.replace(path, old)
        os.replace(temporary, path)
        sync(path.parent)
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically."""
    with atomic_file(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    write_bytes(path, text.encode("utf-8"))


def remove_leftovers(folder: Path) -> None:
    """Remove what a killed process left half-written in this folder; a folder moved aside is put back."""
    for entry in folder.glob(f".*{_TEMPORARY}"):
        if entry.name.endswith(_MOVED_ASIDE):
            place = entry.with_name(entry.name.removeprefix(".").removesuffix(_MOVED_ASIDE))
            if not place.exists():
                os.replace(entry, place)
                continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other mtkit processes out of the folder during the block; however this process ends, the lock ends with it.

    The folder is made if it is not there, and removed again if the block leaves nothing in it. Raises MtkitError,
    naming the other process, if one is in there. Does nothing where the system has no such locks.
    """
    path, is_new = folder / ".lock", not folder.exists()
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        with open(path, "a+", encoding="utf-8") as file:
            if not _take_lock(file):
                file.seek(0)
                pid = file.read().strip() or "unknown"
                raise MtkitError(
                    f"{folder}: another mtkit is working in this run (pid {pid}); wait until it has ended, or choose "
                    "another run_dir"
                )
            if not _is_at(path, file):
                continue  # removed just before it was locked
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            try:
                yield
            finally:
                with suppress(OSError):
                    if is_new and os.listdir(folder) == [path.name]:
                        path.unlink()
                        folder.rmdir()
            return


@contextmanager
def open_locked(path: Path) -> Iterator[BinaryIO | None]:
    """The file, made if it is not there, to read and append to; None if another mtkit process has it open like this.

    It has no buffer. The block may remove the file. The lock ends with the block or the process.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with open(path, "a+b", buffering=0) as file:
            if not _take_lock(file):
                yield None
                return
            if _is_at(path, file):  # else it was removed just before it was locked: its name means another file now
                yield file
                return


def _take_lock(file: IO[Any]) -> bool:
    """Whether no other process has locked the file; then it is ours until it is closed."""
    try:
        import fcntl
    except ImportError:  # not POSIX
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network file systems know no locks
        pass
    return True


def _is_at(path: Path, file: IO[Any]) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def disk_full_explained(folder: Path) -> Iterator[None]:
    """Turn the system's error for a full disk into one that says where and what to do."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise TrainingError(f"{error.filename or folder}: {error.strerror}; {MAKE_ROOM}") from error

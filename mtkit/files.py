"""Write files and folders atomically (temporary name, fsync, rename), compute checksums, and lock files."""

import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO

from mtkit.console import log
from mtkit.errors import MtkitError, TrainingError

# Suffixes of hidden names: a file or folder being written, and a folder being replaced.
TEMPORARY = ".mtkit-tmp"
LOCK = ".lock"  # the file in a locked folder
_MOVED_ASIDE = ".old" + TEMPORARY
MAKE_ROOM = "earlier files are unchanged: free some space and run the same command again"


def sha256_file(path: Path) -> str:
    """Return the hex digest of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text. Raises ValueError, also for brackets that are nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("brackets are nested too deeply") from None


def sync(path: Path) -> None:
    """Wait until the file's content, or the folder's list of names, is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def atomic_file(path: Path, mode: int = 0o666) -> Iterator[Path]:
    """Yield a temporary path beside path to write to, and move it to path at the end of the block.

    A file that exists keeps its owner, group and mode; a warning is logged if this user may not keep the owner.
    mode: who may read and write a new file, as for chmod, before the umask.
    If the block raises, for example because the disk is full, path stays as it was and the temporary file is removed.
    """
    with full_disk_named(path), atomic_files([path], mode) as [temporary]:
        yield temporary


@contextmanager
def atomic_files(paths: Sequence[Path], mode: int = 0o666) -> Iterator[list[Path]]:
    """Do the same for files that belong together, such as the two sides of a corpus.

    None of them moves before all are on disk, so that a full disk or a signal never leaves new files next to old ones.
    """
    temporaries: list[Path] = []
    try:
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            with _folder_named(path.parent):
                descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=TEMPORARY, dir=path.parent)
            os.close(descriptor)
            temporaries.append(Path(name))
        yield temporaries
        both = list(zip(paths, temporaries, strict=True))
        for path, temporary in both:
            with full_disk_named(path):
                _copy_access(path, temporary, mode & ~_umask())
                sync(temporary)
        for path, temporary in both:
            with full_disk_named(path):
                os.replace(temporary, path)
        for folder in {path.parent for path in paths}:
            sync(folder)
    finally:
        for temporary in temporaries:
            with suppress(OSError):
                temporary.unlink()


def _copy_access(path: Path, temporary: Path, mode: int) -> None:
    """Give a temporary file the owner, group and mode of the file that it will replace; without one, this mode."""
    try:
        old = path.stat()
    except FileNotFoundError:
        os.chmod(temporary, mode)
        return
    access, new, problem = old.st_mode & 0o777, temporary.stat(), None
    if old.st_gid != new.st_gid:  # apart from the owner, because a member of the group may keep the group alone
        try:
            os.chown(temporary, -1, old.st_gid)
        except OSError as error:
            problem = error
            access &= ~0o070 | (access & 0o007) << 3  # the new group gets no rights that only the old one had
    if old.st_uid != new.st_uid:
        try:
            os.chown(temporary, old.st_uid, -1)
        except OSError as error:
            problem = error
    if problem is not None:
        log.warning(
            f"{path}: cannot keep the owner and group of the file ({problem.strerror}), so its reader may lose access "
            f"to it; run as root: chown {old.st_uid}:{old.st_gid} {path}"
        )
    os.chmod(temporary, access)


@contextmanager
def full_disk_named(path: Path) -> Iterator[None]:
    """Make errors for a full disk in the block name this file or folder, instead of none or a temporary one."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) and (
            error.filename is None or TEMPORARY in str(error.filename)
        ):
            error.filename = str(path)
        raise


@contextmanager
def _folder_named(folder: Path) -> Iterator[None]:
    """Make an error in the block name the folder that it cannot write to, instead of a temporary file or folder."""
    try:
        yield
    except OSError as error:
        error.filename = str(folder)
        raise


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside path to fill, and move it to path at the end of the block.

    An old folder at path is first moved aside and finally removed, so its content is never lost in between. If path is
    a link, the folder that it points to is replaced.
    """
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    old = path.with_name(f".{path.name}{_MOVED_ASIDE}")
    _put_back(old, path)  # after a killed process
    with _folder_named(path.parent):
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=TEMPORARY, dir=path.parent))
    try:
        with full_disk_named(path):
            yield temporary
        os.chmod(temporary, 0o777 & ~_umask())
        for entry in sorted(temporary.rglob("*"), reverse=True):
            if entry.is_file() and not entry.is_symlink():  # safetensors writes files that only their owner can read
                os.chmod(entry, 0o666 & ~_umask())
            sync(entry)
        sync(temporary)
        shutil.rmtree(old, ignore_errors=True)
        if path.exists():
            os.replace(path, old)
        os.replace(temporary, path)
        sync(path.parent)
    finally:
        _put_back(old, path)
        for folder in (old, temporary):
            shutil.rmtree(folder, ignore_errors=True)


def _put_back(old: Path, path: Path) -> None:
    """Move a folder that was moved aside back to its place, unless there is a new one."""
    if old.exists() and not path.exists():
        os.replace(old, path)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically."""
    with atomic_file(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    """Write text as UTF-8, atomically."""
    write_bytes(path, text.encode("utf-8"))


def file_in_the_way(folder: Path) -> Path | None:
    """Return the part of a folder's path, or the whole of it, that is a file, so that the folder cannot exist."""
    return next((part for part in (*reversed(folder.parents), folder) if part.exists() and not part.is_dir()), None)


def remove_leftovers(folder: Path) -> None:
    """Remove the half-written files of a killed process from this folder, and put back a folder that it moved aside."""
    for entry in folder.glob(f".*{TEMPORARY}"):
        if entry.name.endswith(_MOVED_ASIDE):
            place = entry.with_name(entry.name.removeprefix(".").removesuffix(_MOVED_ASIDE))
            if not place.exists():
                os.replace(entry, place)
                continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def remove_leftovers_of(path: Path) -> None:
    """Remove half-written files of killed processes next to this file or folder, under its temporary names.

    Files of another name that begins with this one's stay, such as those of text.gz for text.
    """
    pattern = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-z_]{{8,}}{re.escape(TEMPORARY)}")  # of 8 or of 32 letters
    for entry in path.parent.glob(f".*{TEMPORARY}"):
        if pattern.fullmatch(entry.name):
            shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() else entry.unlink(missing_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder against other mtkit processes during the block; the lock ends at the latest with this process.

    Creates the folder if needed, and removes a folder that it created if the block leaves it empty. Raises MtkitError
    with the process id if another process holds the lock. Does nothing on systems without such locks.
    """
    path, is_new = folder / LOCK, not folder.exists()
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        with open(path, "a+", encoding="utf-8") as file:
            if not _take_lock(file):
                file.seek(0)
                pid = file.read().strip() or "unknown"
                raise MtkitError(
                    f"{folder}: another mtkit process is using this run (pid {pid}); wait until it ends, or choose "
                    "another run_dir"
                )
            if not _is_at(path, file):
                continue  # another process removed it just before this one locked it
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
def working_folder(place: Path, beginning: str) -> Iterator[Path]:
    """Yield a new folder in `place` that only this user can read, locked during the block; delete it after the block.

    beginning: of its name, for `remove_unlocked_folders`.
    """
    folder = Path(tempfile.mkdtemp(prefix=f".{beginning}", dir=place))
    try:
        with locked(folder):  # before it has the name that others look for
            folder = folder.rename(folder.with_name(folder.name.removeprefix(".")))
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_unlocked_folders(place: Path, beginning: str) -> None:
    """Delete the working folders of this user's processes that were killed."""
    for folder in place.glob(f"{beginning}*"):
        with suppress(MtkitError, OSError):  # it is in use, or has just been deleted
            is_ours = not folder.is_symlink() and folder.stat().st_uid == os.geteuid()
            if is_ours and (folder / LOCK).exists():
                with locked(folder):
                    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def open_locked(path: Path) -> Iterator[BinaryIO | None]:
    """Open a file, unbuffered, for reading and appending, and lock it; None if another mtkit process holds the lock.

    Creates the file if needed. The block may remove it. The lock ends with the block or the process.
    """
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a+b", buffering=0) as file:
            if not _take_lock(file):
                yield None
                return
            if _is_at(path, file):  # if not, another process removed it just before this one locked it: try again
                yield file
                return


def _take_lock(file: IO[Any]) -> bool:
    """Lock the file until it is closed; return False if another process holds the lock."""
    try:
        import fcntl
    except ImportError:  # not POSIX
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network file systems have no locks
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
    """Turn the system's error for a full disk into one with the place and the remedy."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise TrainingError(f"{error.filename or folder}: {error.strerror}; {MAKE_ROOM}") from error

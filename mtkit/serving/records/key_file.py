"""A file of API keys: their names, checksums and limits. mtkit shows a key only once, when it creates it.

SHA-256 without salt or rounds is enough: a key has 256 random bits, so no one finds it by trying, however fast the
hash, while each request has to compute it.
"""

import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from pydantic import ValidationError

from mtkit.config.reading.loading import load_key_file
from mtkit.config.reading.yaml_text import format_yaml
from mtkit.config.serving import KeyEntry
from mtkit.console import log
from mtkit.errors import ConfigError, MtkitError, UsageError
from mtkit.files import atomic_file, open_locked
from mtkit.serving.refusals import Unready

_PREFIX = "mtk_"  # so that searches for leaked secrets can recognise a key
_N_BYTES = 32
_OTHERS_MAY_WRITE = 0o022
_RETRY_S = 10  # after which a client may ask again while the file cannot be used


def read_keys(path: Path) -> list[KeyEntry]:
    """Return the keys of a file. Raises ConfigError if it cannot be read, or if other users may change it."""
    entries = load_key_file(path).keys
    if os.name == "posix" and (mode := path.stat().st_mode) & _OTHERS_MAY_WRITE:
        raise ConfigError(f"{path}: other users may add keys to it (mode {mode & 0o777:o}); run: chmod 600 {path}")
    return entries


def add_key(path: Path, name: str, *, requests_per_minute: int | None = None, max_chars: int | None = None) -> str:
    """Create a key, store its checksum in the file, which is created if missing, and return the key.

    Raises UsageError if the name already has a key.
    """
    key = _PREFIX + secrets.token_urlsafe(_N_BYTES)
    with _to_change(path):
        entries = read_keys(path) if path.exists() else []
        if any(entry.name == name for entry in entries):
            command = f"mtkit keys remove {name} --file {path}"
            raise UsageError(f"{path}: {name} already has a key; to replace it, first run: {command}")
        limits = {"requests_per_minute": requests_per_minute, "max_chars": max_chars}
        values = {"name": name, "sha256": checksum(key), "created": time.strftime("%Y-%m-%d"), **limits}
        try:
            entry = KeyEntry.model_validate(values)
        except ValidationError:
            raise UsageError(f"{name!r} cannot name a key: use up to 64 letters, digits and . _ @ + -") from None
        _write(path, [*entries, entry])
    return key


def remove_key(path: Path, name: str) -> None:
    """Remove a key from the file; a running service refuses it from then on. Raises UsageError if there is none."""
    with _to_change(path):
        entries = read_keys(path)
        left = [entry for entry in entries if entry.name != name]
        if len(left) == len(entries):
            names = ", ".join(entry.name for entry in entries) or "none"
            raise UsageError(f"{path}: no key is named {name}; the names are {names}")
        _write(path, left)


def checksum(key: str) -> str:
    """Return the entry that the file stores for a key."""
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


@contextmanager
def _to_change(path: Path) -> Iterator[None]:
    """Lock the file against other processes during the block. Raises MtkitError if another one holds the lock."""
    lock = path.with_name(f".{path.name}.lock")
    with open_locked(lock) as file:
        if file is None:
            raise MtkitError(f"{path}: another mtkit process is changing it; try again")
        try:
            yield
        finally:
            lock.unlink()


def _write(path: Path, entries: Sequence[KeyEntry]) -> None:
    values = [entry.model_dump(exclude_defaults=True) for entry in entries]
    with atomic_file(path.resolve(), mode=0o600) as temporary:
        temporary.write_text(format_yaml({"keys": values}), encoding="utf-8")


class Keys:
    """The current keys of a file: a change to the file takes effect at the next request."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigError if the file cannot be used."""
        self._path = path
        self._state = _state(path)
        self._by_checksum: dict[str, KeyEntry] | None = _by_checksum(read_keys(path))  # None: the file cannot be used
        self._problem = ""  # that was logged last

    def find(self, key: str) -> KeyEntry | None:
        """Return the entry of a key; None for an unknown one.

        The search compares checksums, so its duration reveals nothing about a valid key.
        Raises Unready while the file cannot be used, because a key that was valid before may have been removed.
        """
        self._read_again_if_changed()
        if self._by_checksum is None:
            raise Unready("the service cannot read its API keys; its log says why", retry_after_s=_RETRY_S)
        return self._by_checksum.get(checksum(key))

    def _read_again_if_changed(self) -> None:
        state = _state(self._path)
        if state == self._state and self._by_checksum is not None:
            return
        self._state = state
        try:
            self._by_checksum, problem = _by_checksum(read_keys(self._path)), ""
        except (ConfigError, OSError) as error:
            self._by_checksum, problem = None, f"the service refuses every API key until it can read the file: {error}"
        if problem and problem != self._problem:
            log.error(problem)
        self._problem = problem


def _state(path: Path) -> tuple[int, int, int, int] | None:
    """Return values that change when the file, its owner or its mode changes; None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def _by_checksum(entries: Sequence[KeyEntry]) -> dict[str, KeyEntry]:
    return {entry.sha256: entry for entry in entries}

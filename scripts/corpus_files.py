"""Copy, download and verify corpora; shared by the scripts that fill data/."""

import http.client
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from mtkit.console import log, set_up_logging
from mtkit.errors import DataError, MtkitError
from mtkit.files import atomic_file, sha256_file, write_text

DATA = Path(__file__).resolve().parents[1] / "data"
_TIMEOUT_S = 60


def run(get: Callable[[], None]) -> None:
    """Call get; an expected error becomes a message and exit code 1."""
    set_up_logging(quiet=False)
    try:
        get()
    except MtkitError as error:
        sys.exit(f"{Path(sys.argv[0]).name}: {error}")
    except OSError as error:  # a full disk, no permission
        place = f"{error.filename}: " if error.filename is not None else ""
        sys.exit(f"{Path(sys.argv[0]).name}: {place}{error.strerror or error}; check free space and permissions")


def is_complete(folder: Path, checksums: Mapping[str, str]) -> bool:
    """Return whether the folder holds exactly these files (name to sha256)."""
    return all((folder / name).is_file() and sha256_file(folder / name) == want for name, want in checksums.items())


def copy_verified(source: Path, folder: Path, checksums: Mapping[str, str]) -> None:
    """Copy the files (name to sha256) from one folder to the other.

    Raises DataError, with nothing written, if one is missing or is not the file that it should be.
    """
    contents = {}
    for name, expected in checksums.items():
        if not (source / name).is_file():
            raise DataError(f"{source / name}: no such file; expected in that folder: {', '.join(checksums)}")
        if sha256_file(source / name) != expected:
            raise DataError(
                f"{source / name}: another version, or damaged: its sha256 is not {expected}; get the file again"
            )
        contents[name] = (source / name).read_bytes()
    write_all(folder, contents)


def write_all(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write the files into the folder, each whole or not at all."""
    for name, content in contents.items():
        with atomic_file(folder / name) as temporary:
            temporary.write_bytes(content)
    log.info(f"{folder}: {len(contents)} files written")


def write_licence(folder: Path, text: str) -> None:
    """Write the corpus's licence beside it."""
    write_text(folder / "LICENCE.txt", text)


def download(url: str, instead: str) -> bytes:
    """Return the content of the address. instead: what the error message advises without a network."""
    log.info(f"downloading {url}")
    # Some servers refuse urllib's own name.
    request = urllib.request.Request(url, headers={"User-Agent": "Mozilla/5.0 (compatible; mtkit)"})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
            content: bytes = response.read()
    except (OSError, http.client.HTTPException) as error:  # URLError, timeouts; connections that break on the way
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise DataError(f"{url}: cannot be downloaded ({reason}); {instead}") from error
    return content

"""Record in the work folder what the result of a job depends on: settings, input files and mtkit's version."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mtkit.config.reading.differences import differences
from mtkit.cores import usable_cores
from mtkit.errors import MtkitError
from mtkit.files import parse_json, sha256_file
from mtkit.version import __version__

JOB_FILE = "job.json"
_FORMAT = 1


def job_file(inputs: Sequence[Path], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the job file of a new job."""
    stamps = dict(zip(_keys(inputs), map(stamp, inputs), strict=True))  # first: a file may change meanwhile
    return {"mtkit_job": _FORMAT, "identity": _identity(settings, inputs, {}, {}), "stamps": stamps}


def check_identity(work: Path, inputs: Sequence[Path], settings: Mapping[str, Any], restart_hint: str) -> str:
    """Return the checksum of the identity of the job in the work folder.

    Raises MtkitError with the differences if the job has another identity.

    restart_hint: how a user discards it.
    """
    try:
        content = parse_json((work / JOB_FILE).read_bytes())
        if content["mtkit_job"] != _FORMAT:
            raise ValueError
        identity, stamps = dict(content["identity"]), dict(content["stamps"])
        now = _identity(settings, inputs, dict(identity["inputs"]), stamps)
    except (ValueError, KeyError, TypeError):
        raise MtkitError(f"{work / JOB_FILE}: cannot read the job file; {restart_hint}") from None
    if changes := [f"{name} was {_short(old)}, now {_short(new)}" for name, old, new in differences(identity, now)]:
        raise MtkitError(
            f"{work}: holds an interrupted job that differs: {'; '.join(changes)}; run the original command to "
            f"continue it, or {restart_hint}"
        )
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def stamp(path: Path) -> list[int]:
    """Return the properties of a file that change when a program writes to it.

    Programs such as cp -p and rsync set the time of the last change; only the system sets the last of these times.
    """
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _identity(
    settings: Mapping[str, Any], inputs: Sequence[Path], checksums: Mapping[str, str], stamps: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the identity of a job. checksums: of the inputs with these stamps; it reads inputs without one."""
    missing = object()

    def checksum(key: str, path: Path) -> str:
        return checksums[key] if stamps.get(key, missing) == stamp(path) else sha256_file(path)

    with ThreadPoolExecutor(usable_cores()) as pool:  # hashing releases the GIL
        keys = _keys(inputs)
        identity = {
            "version": __version__,
            "settings": settings,
            "inputs": dict(zip(keys, pool.map(checksum, keys, inputs), strict=True)),
        }
    return dict(json.loads(json.dumps(identity)))  # as it will be read from the file


def _keys(inputs: Sequence[Path]) -> list[str]:
    """Return the inputs' names in the identity; the folder may have another name on another machine."""
    return [f"{number} {path.name}" for number, path in enumerate(inputs, start=1)]


def _short(value: object) -> str:
    """Return a value for a message; shorten checksums."""
    text = "missing" if value is None else str(value)
    return f"{text[:12]}..." if len(text) == 64 else text

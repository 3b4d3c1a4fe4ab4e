"""Read a document that is a zip archive, check its members, and write it again with some of them changed."""

import io
import stat
import struct
import zipfile
from collections.abc import Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any

from mtkit.documents.document import Document, Part, shown
from mtkit.documents.reading import MOST_BYTES
from mtkit.errors import DataError
from mtkit.pair_files.compression import DAMAGE

MOST_UNPACKED = 5 * MOST_BYTES  # including pictures and films, which are never all in memory
_MOST_RATIO = 200  # the XML of documents becomes 5 to 50 times larger
_HARMLESS_BYTES = 10_000_000  # a member that unpacks to this much may have any ratio
_MOST_DIRECTORY_BYTES = 8_000_000  # of the list of members, about 100 for each
_OLE = bytes.fromhex("d0cf11e0a1b11ae1")  # an OLE compound file
_ZIP_END = struct.Struct("<4s4H2LH")  # the end of central directory record; APPNOTE.TXT, 4.3.16
_ZIP64_FIELD = 1  # of the extra fields; `zipfile` writes its own


class Archive:
    """A zip archive whose members have all been checked."""

    def __init__(self, raw: bytes, kind: str) -> None:
        """Read and check an archive. kind: the expected format, for messages, such as "DOCX".

        Raises DataError if it is another format or is not safe.
        """
        self._raw, self._kind = raw, kind
        self._zip = _opened(raw, kind)
        self._infos = {info.filename: info for info in self._zip.infolist()}
        _check(self._zip.infolist(), kind)
        for name in self._infos:  # all, so that damage is found before the document is translated
            self._read(name, keep=False)

    @property
    def names(self) -> Sequence[str]:
        """The names of the members, in order."""
        return list(self._infos)

    def __contains__(self, name: str) -> bool:
        return name in self._infos

    def member(self, name: str) -> bytes:
        """Return the bytes of a member that holds text. Raises DataError if it is missing or too large."""
        if name not in self._infos:
            raise DataError(f"has no member {shown(name)}, so it is damaged or not {self._kind}; save it again")
        size = self._infos[name].file_size
        if size > MOST_BYTES:
            raise DataError(f"{shown(name)}: {size / 1e6:,.0f} MB of text; the limit is {MOST_BYTES / 1e6:.0f} MB")
        return self._read(name)

    def document(self, parts: Sequence[Part[Any]], placeholders: Sequence[str]) -> Document:
        """Return a document that consists of these members."""
        return Document(parts, partial(self._packed, [part.name for part in parts]), placeholders)

    def _packed(self, names: Sequence[str], contents: Sequence[bytes]) -> bytes:
        changed = {name: raw for name, raw in zip(names, contents, strict=True) if raw != self._read(name)}
        return self.with_changes(changed)

    def with_changes(self, changed: Mapping[str, bytes]) -> bytes:
        """Return the archive with new bytes for some members; without changes, exactly the bytes that were read."""
        if not changed:
            return self._raw
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as target:
            target.comment = self._zip.comment
            for name, info in self._infos.items():
                entry = _like(info)
                target.writestr(entry, changed[name] if name in changed else self._read(name))
                entry.external_attr = info.external_attr  # `writestr` replaces 0; this goes into the directory
        return packed.getvalue()

    def _read(self, name: str, *, keep: bool = True) -> bytes:
        try:
            with self._zip.open(self._infos[name]) as file:
                if keep:
                    return file.read()
                while file.read(1 << 20):
                    pass
                return b""
        except (zipfile.BadZipFile, *DAMAGE, NotImplementedError, OSError, ValueError, RuntimeError) as error:
            raise DataError(f"{shown(name)}: is damaged ({error}); copy the whole file again") from None


def _opened(raw: bytes, kind: str) -> zipfile.ZipFile:
    if not raw:
        raise DataError(f"is empty, so it is not a {kind} file; copy it again")
    if raw.startswith(_OLE):
        raise DataError(f"is encrypted or in an old format such as .doc; save it as {kind} without a password")
    end = raw.rfind(b"PK\5\6", -(1 << 16) - _ZIP_END.size)
    if end < 0 or len(raw) < end + _ZIP_END.size:
        raise DataError(
            f"is not a {kind} file, which is a zip archive, or is only a part of one; copy the whole file again, or "
            "give its format with --format"
        )
    n_bytes = _ZIP_END.unpack_from(raw, end)[5]
    if n_bytes > _MOST_DIRECTORY_BYTES:
        raise DataError(
            f"has a list of members of {n_bytes:,} bytes, far more than {kind} files need; unpack it to see them"
        )
    try:
        return zipfile.ZipFile(io.BytesIO(raw))
    except (zipfile.BadZipFile, *DAMAGE, NotImplementedError, OSError, ValueError) as error:
        raise DataError(f"is a damaged zip archive ({error}); copy the whole file again") from None


def _check(infos: Sequence[zipfile.ZipInfo], kind: str) -> None:
    """Raise DataError for members that only a damaged or malicious document has."""
    names: set[str] = set()
    for info in infos:
        name = shown(info.filename)
        if info.filename in names:
            raise DataError(f"contains {name} twice, and programs may read either; save it again as {kind}")
        names.add(info.filename)
        if info.flag_bits & 1:
            raise DataError(f"{name}: is encrypted; save the document without a password")
        path = info.filename.replace("\\", "/")
        if path.startswith("/") or ".." in path.split("/") or path[1:2] == ":":
            raise DataError(
                f"contains {name}, a path out of its folder, which could overwrite other files when unpacked"
            )
        if stat.S_ISLNK(info.external_attr >> 16):
            raise DataError(f"contains {name}, a symbolic link, which {kind} files never have; save it again")
        if info.file_size > _HARMLESS_BYTES and info.file_size > _MOST_RATIO * info.compress_size:
            raise DataError(
                f"{name}: {info.compress_size:,} bytes unpack to {info.file_size:,}, as in a zip bomb; if you trust "
                "the file, split the document"
            )
    total = sum(info.file_size for info in infos)
    if total > MOST_UNPACKED:
        raise DataError(
            f"unpacks to {total / 1e6:,.0f} MB; the limit is {MOST_UNPACKED / 1e6:.0f} MB: split the document, or make "
            "its pictures smaller"
        )


def _like(info: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """Return a copy of an entry for another archive."""
    entry = copy(info)
    entry.extra = _without_zip64(info.extra)
    return entry


def _without_zip64(extra: bytes) -> bytes:
    kept, at = b"", 0
    while at + 4 <= len(extra):
        number, size = struct.unpack_from("<HH", extra, at)
        field = extra[at : at + 4 + size]
        at += len(field)
        kept += field if number != _ZIP64_FIELD else b""
    return kept

"""Small zips, as office documents and books are."""

import io
import zipfile
from collections.abc import Mapping

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"
X = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "application/vnd.openxmlformats-officedocument"


def zipped(members: Mapping[str, str | bytes], *, stored: tuple[str, ...] = ()) -> bytes:
    """Return a zip of members, in order."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name, (2020, 2, 3, 4, 5, 6))
            info.compress_type = zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return packed.getvalue()


def member(raw: bytes, name: str) -> str:
    """Return a member of a zip as text."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        return archive.read(name).decode()


def types(overrides: Mapping[str, str]) -> str:
    """Return the list of an office document's members and their types."""
    listed = "".join(f'<Override PartName="/{name}" ContentType="{kind}"/>' for name, kind in overrides.items())
    return (
        '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        f'<Default Extension="xml" ContentType="application/xml"/>{listed}</Types>'
    )

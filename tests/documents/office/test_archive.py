"""Zips: everything but the changed members stays, and what an honest document never has is refused."""

import io
import stat
import struct
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_archives import zipped

from mtkit.documents.office import archive
from mtkit.documents.office.archive import Archive
from mtkit.errors import DataError

MEMBERS: dict[str, str | bytes] = {
    **{"mimetype": "application/x", "a/b.xml": "<a/>", "empty/": ""},
    "picture.png": bytes(range(256)) * 4,
}


def described(raw: bytes) -> list[tuple[object, ...]]:
    with zipfile.ZipFile(io.BytesIO(raw)) as opened:
        return [
            (i.filename, i.date_time, i.compress_type, i.comment, i.external_attr, i.extra, i.CRC)
            for i in opened.infolist()
        ]


def rich() -> bytes:
    """A zip with everything that its entries can say."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as opened:
        opened.comment = b"of the archive"
        for number, (name, content) in enumerate(MEMBERS.items()):
            info = zipfile.ZipInfo(name, (1999, 1, 2, 3, 4, 2 * number))
            info.compress_type = zipfile.ZIP_DEFLATED if number % 2 else zipfile.ZIP_STORED
            info.comment, info.extra = b"of %d" % number, struct.pack("<HHI", 0x6375, 4, number)
            opened.writestr(info, content)
            info.external_attr = number and (stat.S_IFREG | 0o644) << 16
    return packed.getvalue()


def test_a_zip_without_changes_has_the_same_bytes():
    assert Archive(rich(), "DOCX").with_changes({}) == rich()


def test_only_the_changed_member_changes():
    changed = Archive(rich(), "DOCX").with_changes({"a/b.xml": b"<b/>"})
    before, after = described(rich()), described(changed)
    assert [entry[:-1] for entry in after] == [entry[:-1] for entry in before]
    assert [a == b for a, b in zip(after, before, strict=True)] == [True, False, True, True]
    with zipfile.ZipFile(io.BytesIO(changed)) as opened:
        assert opened.comment == b"of the archive"
        assert opened.read("a/b.xml") == b"<b/>"
        assert opened.testzip() is None


@pytest.mark.parametrize(
    ("raw", "facts"),
    [
        (b"", ["empty", "DOCX"]),
        (b"plain text, not a zip", ["not a DOCX file", "zip"]),
        (bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600), ["encrypted", "old", "without a password", "DOCX"]),
        (zipped(MEMBERS)[:-30], ["zip", "copy"]),
        (zipped({"../x.xml": "<a/>"}), ["../x.xml", "out of its folder"]),
        (zipped({"/etc/x.xml": "<a/>"}), ["/etc/x.xml"]),
        (zipped({"a/..\\..\\x": "<a/>"}), ["out of its folder"]),
        (zipped({"C:/x": "<a/>"}), ["C:/x"]),
        (zipped({"bomb.xml": bytes(20_000_000)}), ["bomb.xml", "20,000,000", "bomb"]),
    ],
)
def test_a_zip_that_is_none_or_unsafe_is_refused(raw, facts):
    with pytest.raises(DataError) as caught:
        Archive(raw, "DOCX")
    assert all(fact in str(caught.value) for fact in facts)


def test_a_member_that_is_there_twice_is_refused():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as opened:
        opened.writestr("a.xml", "one")
        with pytest.warns(UserWarning, match="Duplicate"):
            opened.writestr("a.xml", "two")
    with pytest.raises(DataError, match=r"a\.xml twice"):
        Archive(packed.getvalue(), "DOCX")


def test_a_link_is_refused():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as opened:
        info = zipfile.ZipInfo("link.xml")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        opened.writestr(info, "/etc/passwd")
    with pytest.raises(DataError, match=r"link\.xml.*symbolic link"):
        Archive(packed.getvalue(), "DOCX")


def test_an_encrypted_member_is_refused():
    raw = bytearray(zipped({"a.xml": "<a/>"}))
    for signature, offset in [(b"PK\3\4", 6), (b"PK\1\2", 8)]:
        raw[raw.index(signature) + offset] |= 1
    with pytest.raises(DataError, match=r"a\.xml.*encrypted.*password"):
        Archive(bytes(raw), "DOCX")


def test_a_damaged_member_is_named_before_any_work():
    raw = bytearray(zipped(MEMBERS, stored=("picture.png",)))
    raw[raw.index(bytes(range(100)))] ^= 1
    with pytest.raises(DataError, match=r"picture\.png: is damaged"):
        Archive(bytes(raw), "DOCX")


def test_a_list_of_members_that_is_far_too_long_is_refused():
    raw = bytearray(zipped(MEMBERS))
    struct.pack_into("<L", raw, raw.rindex(b"PK\5\6") + 12, 9_000_000)
    with pytest.raises(DataError, match="9,000,000 bytes"):
        Archive(bytes(raw), "DOCX")


def test_too_much_in_all_is_refused(monkeypatch):
    monkeypatch.setattr(archive, "MOST_UNPACKED", 2_000_000)
    with pytest.raises(DataError, match=r"3 MB.*2 MB"):
        Archive(zipped({str(number): bytes(1_000_000) for number in range(3)}), "DOCX")


@given(st.data())
def test_any_damage_is_an_error_that_says_so_or_does_no_harm(data):
    raw = bytearray(rich())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = Archive(bytes(raw[: data.draw(st.integers(0, len(raw)))]), "DOCX")
    except DataError:
        return
    for name in found.names:
        found.member(name)
    found.with_changes({found.names[0]: b"x"} if found.names else {})

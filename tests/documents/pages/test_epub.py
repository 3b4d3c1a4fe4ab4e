"""EPUB: chapters, contents and the title of a book."""

import io
import zipfile

import pytest
from tiny_archives import member, zipped
from tiny_documents import loud, translated

from mtkit.errors import DataError

CONTAINER = (
    '<?xml version="1.0"?><container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0"><rootfiles>'
    '<rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)
PACKAGE = (
    '<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
    "<metadata><dc:title>my book</dc:title><dc:creator>a writer</dc:creator></metadata><manifest>"
    '<item id="a" href="text/chapter%201.xhtml" media-type="application/xhtml+xml"/>'
    '<item id="b" href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
    '<item id="c" href="https://example.com/x.xhtml" media-type="application/xhtml+xml"/></manifest></package>'
)
CHAPTER = (
    '<?xml version="1.0" encoding="utf-8"?>\r\n<!DOCTYPE html>\r\n<html xmlns="http://www.w3.org/1999/xhtml"><head>'
    "<title>one</title></head><body><p>a <b>big</b>&nbsp;dog<br/>runs</p><pre>code</pre></body></html>"
)
CONTENTS = (
    '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><docTitle><text>my book</text></docTitle><navMap>'
    '<navPoint id="x"><navLabel><text>one</text></navLabel><content src="text/chapter%201.xhtml"/></navPoint>'
    "</navMap></ncx>"
)


def encryption(algorithm: str) -> str:
    return f'<x xmlns:e="http://www.w3.org/2001/04/xmlenc#"><e:EncryptionMethod Algorithm="{algorithm}"/></x>'


def epub(**changed: str) -> bytes:
    members = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": CONTAINER,
        "OEBPS/book.opf": PACKAGE,
        "OEBPS/text/chapter 1.xhtml": CHAPTER,
        "OEBPS/toc.ncx": CONTENTS,
        "OEBPS/unlisted.xhtml": "<p>not part of the book</p>",
    }
    return zipped(members | changed, stored=("mimetype",))


def test_a_book_that_is_translated_into_itself_has_the_same_bytes():
    assert translated(epub(), "epub").raw == epub()


def test_chapters_contents_and_title_change_and_nothing_else():
    found = translated(epub(), "epub", loud).raw
    changes = [
        ("my book", "MY BOOK"),
        (">one<", ">ONE<"),
        ("a <b>big</b>&nbsp;dog", "A <b>BIG</b> DOG"),
        ("runs", "RUNS"),
    ]
    for name, before in [("book.opf", PACKAGE), ("text/chapter 1.xhtml", CHAPTER), ("toc.ncx", CONTENTS)]:
        for old, new in changes:
            before = before.replace(old, new)
        assert member(found, f"OEBPS/{name}").replace("\xa0", " ") == before
    assert member(found, "OEBPS/unlisted.xhtml") == "<p>not part of the book</p>"
    with zipfile.ZipFile(io.BytesIO(found)) as archive:
        first = archive.infolist()[0]
        assert (first.filename, first.compress_type, first.extra) == ("mimetype", zipfile.ZIP_STORED, b"")


@pytest.mark.parametrize(
    ("changed", "facts"),
    [
        ({"META-INF/container.xml": "<x/>"}, ["META-INF/container.xml", "no package"]),
        ({"META-INF/container.xml": CONTAINER.replace("book.opf", "gone.opf")}, ["OEBPS/gone.opf"]),
        ({"OEBPS/book.opf": PACKAGE[:-20]}, ["OEBPS/book.opf", "line 1"]),
        ({"META-INF/encryption.xml": encryption("http://www.w3.org/2001/04/xmlenc#aes128-cbc")}, ["DRM", "protection"]),
    ],
)  # fmt: skip
def test_a_damaged_or_protected_book_is_refused(changed, facts):
    with pytest.raises(DataError) as caught:
        translated(epub(**changed), "epub")
    assert all(fact in str(caught.value) for fact in facts)


def test_a_book_with_obfuscated_fonts_alone_is_read():
    fonts = encryption("http://www.idpf.org/2008/embedding")
    assert translated(epub(**{"META-INF/encryption.xml": fonts}), "epub").n_segments


def test_a_chapter_with_a_self_closed_script_and_a_document_type_is_translated():
    chapter = CHAPTER.replace("<title>", '<script src="a.js"/><title>').replace(
        "<!DOCTYPE html>", '<!DOCTYPE html [<!ENTITY nbsp "&#160;">]>'
    )
    found = translated(epub(**{"OEBPS/text/chapter 1.xhtml": chapter}), "epub", loud)
    assert found.notes == ()
    text = member(found.raw, "OEBPS/text/chapter 1.xhtml")
    assert text.startswith(chapter[: chapter.index("<title>")])
    assert "A <b>BIG</b>" in text

"""EPUB: the chapters, the tables of contents, and the title and the description of a book."""

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from mtkit.documents.document import Document, Part
from mtkit.documents.office.archive import Archive
from mtkit.documents.office.ooxml import member_part, member_xml, texts_of
from mtkit.documents.pages import html
from mtkit.documents.reading import Options
from mtkit.errors import DataError
from mtkit.markup.xml_tree import Xml
from mtkit.text.placeholders import PROSE

_PREFIXES: Mapping[str, str] = {
    "urn:oasis:names:tc:opendocument:xmlns:container": "container",
    "http://www.idpf.org/2007/opf": "opf",
    "http://purl.org/dc/elements/1.1/": "dc",
    "http://www.daisy.org/z3986/2005/ncx/": "ncx",
    "http://www.w3.org/2001/04/xmlenc#": "enc",
}
_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
_FONTS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")  # the obfuscation of fonts
_PACKAGE = texts_of(["dc:title", "dc:description", "dc:subject"], _PREFIXES)
_CONTENTS = texts_of(["ncx:text"], _PREFIXES)
_XHTML, _NCX = "application/xhtml+xml", "application/x-dtbncx+xml"


def read(raw: bytes, options: Options) -> Document:
    """Read a book. Raises DataError if it is another format, damaged, or protected against copying."""
    archive = Archive(raw, "EPUB")
    _refuse_protected(archive)
    parts = list(_parts(archive, Options(src_lang=options.src_lang)))
    pages = [(part.name, part.parsed) for part in parts if isinstance(part.parsed, html.Page)]
    remarks = [f"{name}: {remark}" for name, page in pages for remark in page.remarks]
    return replace(archive.document(parts, PROSE), remarks=remarks)


def _refuse_protected(archive: Archive) -> None:
    if _ENCRYPTION not in archive:
        return
    xml = member_xml(archive, _ENCRYPTION, _PREFIXES).parsed
    for index, name in enumerate(xml.names):
        is_method = name == "enc:EncryptionMethod" and xml.tokens[index].kind != "close"
        if is_method and xml.attribute(index, "Algorithm") not in _FONTS:
            raise DataError(f"{_ENCRYPTION}: the book is encrypted (DRM); use a copy without copy protection")


def _parts(archive: Archive, options: Options) -> Iterator[Part[Any]]:
    container = member_xml(archive, _CONTAINER, _PREFIXES).parsed
    packages = [
        container.attribute(index, "full-path")
        for index, name in enumerate(container.names)
        if name == "container:rootfile" and container.tokens[index].kind != "close"
    ]
    if not packages:
        raise DataError(f"{_CONTAINER}: has no package; the book is damaged: copy it again")
    done: set[str] = set()
    for package in packages:
        part = member_part(archive, package, *_PACKAGE)
        yield part
        for name, kind in _manifest(part.parsed, posixpath.dirname(package)):
            if name in done or name not in archive:  # a file that is listed and missing, or on the web
                continue
            done.add(name)
            if kind == _XHTML:
                yield html.page_part(archive.member(name), options, name=name, claims_xml=True)
            elif kind == _NCX:
                yield member_part(archive, name, *_CONTENTS)


def _manifest(package: Xml, folder: str) -> Iterator[tuple[str, str]]:
    """Yield the names and kinds of the files of a book."""
    for index, name in enumerate(package.names):
        if name == "opf:item" and package.tokens[index].kind != "close":
            path = unquote(package.attribute(index, "href"))
            yield posixpath.normpath(posixpath.join(folder, path)), package.attribute(index, "media-type")

"""TMX 1.1 to 1.4, the exchange format of translation memories: read units in many languages, write pairs."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import BinaryIO, TextIO
from xml.sax.saxutils import escape, quoteattr

from mtkit.console import counted, log
from mtkit.languages import are_one_language
from mtkit.pair_files.pairs import Languages, Tally
from mtkit.pair_files.units import Unit
from mtkit.pair_files.xml_units import XmlUnits
from mtkit.version import __version__


def units(file: BinaryIO, name: str, tally: Tally) -> Iterator[Unit]:
    """Yield the units: the segments of each <tu> by language; unit n is the file's n-th <tu>.

    The text inside <hi> belongs to the segment; <bpt>, <ept>, <ph>, <it> and <ut> contain codes of the document.
    """
    return _Tmx(name, tally).read(file)


class _Tmx(XmlUnits[Unit]):
    root = "tmx"
    codes = frozenset(("bpt", "ept", "ph", "it", "ut"))

    def __init__(self, name: str, tally: Tally) -> None:
        super().__init__(name)
        self.tally = self._counts = tally
        self._source = self._unit_source = ""  # the source language that the header names, and the unit
        self._language = ""
        self._has_segment = False  # the last <tuv>
        self._texts: list[tuple[str, str]] = []

    def open(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "tuv":
            language = attributes.get("xml:lang") or attributes.get("lang")
            if not self._is_in_unit:
                raise self.error(f"a <tuv> outside a <tu>, after unit {self.n_units}; put <tu> before it, or remove it")
            if not language:
                raise self.error(f"unit {self.n_units}: <tuv> has no language; add xml:lang")
            self._language, self._has_segment = language.strip(), False
        elif tag == "seg":
            self._has_segment = True
            self.begin_segment()
        elif tag == "tu":
            self.begin_unit(tag)
            self._texts = []
            self._unit_source = attributes.get("srclang") or self._source
        elif tag == "header":
            self._source = attributes.get("srclang", "")

    def close(self, tag: str, text: str | None) -> None:
        if text is not None:
            self._texts.append((self._language, text))
        elif tag == "tuv" and not self._has_segment:
            self._counts.n_without_segment += 1
        elif tag == "tu":
            self.end_unit(Unit(self.n_units, self._source_first()))

    def _source_first(self) -> list[tuple[str, str]]:
        """Return the texts of the unit, those in its source language first."""
        source = self._unit_source
        if not source or not self._texts or self._texts[0][0] == source:
            return self._texts
        return sorted(self._texts, key=lambda text: not _are_one_language(text[0], source))


_are_one_language = lru_cache(1000)(are_one_language)  # a file has few languages, but millions of units


@contextmanager
def writing(file: TextIO, langs: Languages) -> Iterator[Callable[[str, str], None]]:
    """Yield a function that writes a pair as a unit; the end of the block completes the file."""
    src, tgt = map(quoteattr, langs)
    n_dropped = 0
    file.write(
        '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n'
        f'<header creationtool="mtkit" creationtoolversion="{__version__}" segtype="sentence" o-tmf="mtkit" '
        f'adminlang="en" srclang={src} datatype="plaintext"/>\n<body>\n'
    )

    def as_xml(text: str) -> str:
        nonlocal n_dropped
        if not text.isprintable():
            text, n = _NOT_IN_XML.subn("", text)
            n_dropped += n
        return escape(text)

    def write(src_text: str, tgt_text: str) -> None:
        file.write(
            f"<tu>\n<tuv xml:lang={src}><seg>{as_xml(src_text)}</seg></tuv>\n"
            f"<tuv xml:lang={tgt}><seg>{as_xml(tgt_text)}</seg></tuv>\n</tu>\n"
        )

    yield write
    file.write("</body>\n</tmx>\n")
    if n_dropped:
        log.warning(f"left out {counted(n_dropped, 'control character')}, which TMX cannot contain")


_NOT_IN_XML = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

"""TMX 1.1 to 1.4, the exchange format of translation memories: read units in many languages, write pairs."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import BinaryIO, TextIO
from xml.sax.saxutils import escape, quoteattr

from mtkit.pair_files.pairs import Languages, Tally
from mtkit.pair_files.units import Unit
from mtkit.pair_files.xml_units import XmlUnits
from mtkit.version import __version__


def units(file: BinaryIO, name: str, _tally: Tally) -> Iterator[Unit]:
    """Yield the units: the segments of each <tu> by language; unit n is the file's n-th <tu>.

    The text inside <hi> belongs to the segment; <bpt>, <ept>, <ph>, <it> and <ut> contain codes of the document.
    """
    return _Tmx(name).read(file)


class _Tmx(XmlUnits[Unit]):
    root = "tmx"
    codes = frozenset(("bpt", "ept", "ph", "it", "ut"))

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._language = ""
        self._texts: list[tuple[str, str]] = []

    def open(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "tuv":
            language = attributes.get("xml:lang") or attributes.get("lang")
            if not language:
                raise self.error(f"unit {self.n_units}: <tuv> has no language; add xml:lang")
            self._language = language.strip()
        elif tag == "seg":
            self.begin_segment()
        elif tag == "tu":
            self.begin_unit(tag)
            self._texts = []

    def close(self, tag: str, text: str | None) -> None:
        if text is not None:
            self._texts.append((self._language, text))
        elif tag == "tu":
            self.end_unit(Unit(self.n_units, self._texts))


@contextmanager
def writing(file: TextIO, langs: Languages) -> Iterator[Callable[[str, str], None]]:
    """Yield a function that writes a pair as a unit; the end of the block completes the file."""
    src, tgt = map(quoteattr, langs)
    file.write(
        '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n'
        f'<header creationtool="mtkit" creationtoolversion="{__version__}" segtype="sentence" o-tmf="mtkit" '
        f'adminlang="en" srclang={src} datatype="plaintext"/>\n<body>\n'
    )

    def write(src_text: str, tgt_text: str) -> None:
        file.write(
            f"<tu>\n<tuv xml:lang={src}><seg>{_escaped(src_text)}</seg></tuv>\n"
            f"<tuv xml:lang={tgt}><seg>{_escaped(tgt_text)}</seg></tuv>\n</tu>\n"
        )

    yield write
    file.write("</body>\n</tmx>\n")


def _escaped(text: str) -> str:
    return escape(text if text.isprintable() else text.translate(_NOT_IN_XML))


# XML 1.0 has no way to write these characters.
_NOT_IN_XML = dict.fromkeys(
    [*range(9), 0xB, 0xC, *range(0xE, 0x20), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF], "\N{REPLACEMENT CHARACTER}"
)

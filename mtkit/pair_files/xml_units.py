"""Read units of text from an XML file of any size in bounded memory: the common part of TMX and XLIFF."""

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import BinaryIO, Generic, TypeVar

from mtkit.console import counted
from mtkit.markup.xml_parser import MOST_LEVELS, XmlParser
from mtkit.pair_files.compression import packed_unnoticed
from mtkit.pair_files.lines import max_line_bytes
from mtkit.pair_files.pairs import Tally
from mtkit.text.placeholders import placeholder_pattern

_CHUNK_BYTES = 1 << 16
_SEGMENT_COST = 100  # characters that each text of a unit counts in addition to its own, because it takes memory, too
_MOST_NAMES = 100_000  # different names of elements and attributes
_REFERENCE = re.compile(rb"&#(?:x([0-9a-fA-F]{1,8})|([0-9]{1,10}));")
_LONGEST_REFERENCE = 13  # bytes
# A code that separates words: the end of a line, a paragraph or a cell, or a tab, of HTML, of Office or of RTF.
_SEPARATES = re.compile(r"[\n\t]|<(?:\w+:)?(?:br|lb|tab|p|tr|td|th|li|cell)\b|\\(?:line|tab|par|cell)\b", re.IGNORECASE)
_SPACES = re.compile("  +")
_ENCODING = re.compile(r"""(\sencoding\s*=\s*["'])[^"']*(["'])""")  # in the declaration

_Unit = TypeVar("_Unit")


class XmlUnits(XmlParser, Generic[_Unit]):
    """Handles the elements of one file; subclasses implement the format. Complete units wait in `done`."""

    root: str  # the name of the root element
    codes: frozenset[str]  # elements inside a segment whose content, if any, is code of the document, not text

    def __init__(self, name: str, encoding: str | None = None) -> None:
        super().__init__(name, encoding)
        self._parser.buffer_text = True
        self.tally: Tally | None = None  # if set, references to characters that XML forbids are dropped and counted
        self.done: list[_Unit] = []
        self.n_units = 0
        self._max_characters = max_line_bytes()
        self._is_in_unit = False
        self._prefix: str | None = None  # of the format's elements, with its colon
        self._foreign_depth = 0  # of the element of another format that we are in
        self._segment_depth = 0  # of the element whose text is read; 0: none
        self._code_depth = 0
        self._text: list[str] = []
        self._code: list[str] = []  # content of the code element
        self._has_codes = False
        self._breaks_line = False
        self._n_characters = 0  # of the unit

    def open(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Handle the start of an element outside segments."""
        raise NotImplementedError

    def close(self, tag: str, text: str | None) -> None:
        """Handle the end of an element outside segments; text: of the segment, if it is one."""
        raise NotImplementedError

    def begin_unit(self, tag: str) -> None:
        """Count the unit that begins with this tag, and start to measure its text."""
        if self._is_in_unit:
            what = f"a <{tag}> inside it; end it with </{tag}> before the next begins"
            raise self.error(f"unit {self.n_units}: {what}")
        self._is_in_unit = True
        self.n_units += 1
        self._n_characters = 0

    def end_unit(self, unit: _Unit) -> None:
        """Add the unit, which is complete."""
        self._is_in_unit = False
        self.done.append(unit)

    def begin_segment(self) -> None:
        """Collect the text of the element that has just started."""
        self._segment_depth = self._depth
        self._n_characters += _SEGMENT_COST
        self._parser.CharacterDataHandler = self._characters

    def too_early(self) -> str:
        """Return the message for a file whose end is missing."""
        return f"the file ends too early, after {counted(self.n_units, 'unit')}; copy it again, as a whole"

    def read(self, file: BinaryIO) -> Iterator[_Unit]:
        """Yield the units of the file."""
        n_bytes = 0
        chunks = iter(partial(file.read, _CHUNK_BYTES), b"")
        for chunk in chunks if self.tally is None else _without_bad_references(chunks, self.tally):
            if not n_bytes and (packed := packed_unnoticed(self.name, chunk)):
                raise self.error(packed)
            self.feed(chunk if n_bytes else _as_utf16(chunk))
            n_bytes += len(chunk)
            self._check_size(n_bytes)
            yield from self.done
            self.done.clear()
        self.feed(b"", is_last=True)
        yield from self.done
        self.done.clear()

    def _check_size(self, n_bytes: int) -> None:
        """Refuse anything that would fill the memory: a tag or comment without end, or millions of different names."""
        if n_bytes - max(self._parser.CurrentByteIndex, 0) > self._max_characters + _CHUNK_BYTES:
            raise self.error(
                f"a tag or comment has more than {self._max_characters:,} bytes; allow more with $MTKIT_MAX_LINE_BYTES"
            )
        if len(self._parser.intern) > _MOST_NAMES:
            raise self.error(f"more than {_MOST_NAMES:,} different names of elements; not a {self.root} file")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Handle the start of any element."""
        self._depth += 1
        if self._depth > MOST_LEVELS:
            raise self.too_deep()
        if self._foreign_depth:
            return
        if self._prefix is None:
            self._prefix = tag.removesuffix(self.root)
            if not tag.endswith(self.root) or (self._prefix and self._prefix[-1] != ":"):
                raise self.error(
                    f"not a {self.root} file: its root element is <{tag[:50]}>; give it the file extension of its "
                    "format, or choose a document's format with --format"
                )
        if ":" in tag or self._prefix:
            tag = tag[len(self._prefix) :] if tag.startswith(self._prefix) else ":"
            if ":" in tag:
                self._foreign_depth = self._depth
                return
        if not self._segment_depth:
            self.open(tag, attributes)
        elif not self._code_depth and tag in self.codes:
            self._start_code(attributes)

    def end(self, tag: str) -> None:
        """Handle the end of any element."""
        depth = self._depth
        self._depth -= 1
        if self._foreign_depth:
            if depth == self._foreign_depth:
                self._foreign_depth = 0
            return
        if self._prefix:
            tag = tag[len(self._prefix) :]
        if depth == self._segment_depth:
            self._segment_depth = 0
            self._parser.CharacterDataHandler = None
            text = "".join(self._text)
            self._text.clear()
            if self._has_codes:
                self._has_codes = False
                text = _SPACES.sub(" ", text).strip(" ")
            self.close(tag, text)
        elif not self._segment_depth:
            self.close(tag, None)
        elif depth == self._code_depth:
            self._end_code()

    def _characters(self, text: str) -> None:
        self._n_characters += len(text)
        if self._n_characters > self._max_characters:
            raise self.error(
                f"unit {self.n_units} has more than {self._max_characters:,} characters; allow more with "
                "$MTKIT_MAX_LINE_BYTES"
            )
        if not self._foreign_depth:
            (self._code if self._code_depth else self._text).append(text)

    def _start_code(self, attributes: Mapping[str, str]) -> None:
        self._code_depth = self._depth
        self._breaks_line = "lb" in (attributes.get("type"), attributes.get("ctype"), attributes.get("subType"))
        shown = attributes.get("equiv-text") or attributes.get("equiv") or attributes.get("disp")
        self._code = [shown] if shown else []

    def _end_code(self) -> None:
        """Add the visible text of a code: a placeholder, or a space for a line break."""
        code = "".join(self._code)
        self._code_depth = 0
        self._has_codes = True
        if placeholder_pattern().fullmatch(code):
            self._text.append(code)
        elif self._breaks_line or _SEPARATES.search(code):
            self._text.append(" ")


def _as_utf16(chunk: bytes) -> bytes:
    """Return the beginning of a file; if it starts with the mark of UTF-16, it declares UTF-16, too.

    Windows saves text as UTF-16 without changing the declaration.
    """
    codec = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}.get(chunk[:2])
    end = chunk.find("?>".encode(codec)) if codec else -1
    if codec is None or end < 0:
        return chunk
    declaration = _ENCODING.sub(r"\1UTF-16\2", chunk[:end].decode(codec, "replace"), count=1)
    return declaration.encode(codec) + chunk[end:]


def _without_bad_references(chunks: Iterable[bytes], tally: Tally) -> Iterator[bytes]:
    """Yield the bytes without references such as &#1;, with which the whole file would not be XML, and count them."""

    def checked(reference: re.Match[bytes]) -> bytes:
        number = int(reference[1], 16) if reference[1] else int(reference[2])
        if number in (9, 10, 13) or 0x20 <= number < 0xD800 or 0xE000 <= number < 0xFFFE or 0xFFFF < number < 0x110000:
            return reference[0]
        tally.n_bad_references += 1
        return b""

    rest = b""
    for chunk in chunks:
        if rest or b"&#" in chunk:
            chunk = _REFERENCE.sub(checked, rest + chunk)
        start = chunk.rfind(b"&", len(chunk) - _LONGEST_REFERENCE)  # of a reference that may end in the next chunk
        rest = chunk[start:] if start >= 0 and b";" not in chunk[start:] else b""
        if chunk := chunk[: len(chunk) - len(rest)]:
            yield chunk
    if rest:
        yield rest

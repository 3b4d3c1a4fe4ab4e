"""Read XML with expat, without its dangerous features; an error names the line and the remedy."""

import re
from collections import Counter
from collections.abc import Collection
from functools import partial
from xml.parsers import expat

from mtkit.errors import DataError

MOST_LEVELS = 200  # elements inside each other


class XmlParser:
    """A parser that checks XML. Subclasses handle its elements in `start` and `end`."""

    def __init__(self, name: str = "", encoding: str | None = None) -> None:
        """name: of the file, for messages. encoding: used instead of the one that the XML declares."""
        self.name = name
        self._is_decoded = encoding is not None
        self._parser = expat.ParserCreate(encoding, intern={})
        self._parser.StartElementHandler, self._parser.EndElementHandler = self.start, self.end
        self._parser.StartDoctypeDeclHandler, self._parser.SkippedEntityHandler = self._doctype, self._entity
        self._depth = 0
        self._n_before = 0  # characters of the first line that are not of the text
        self._n_bytes = 0  # of the chunks before the last
        self._chunk = b""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Handle the start of an element; what overrides this counts the depth, too."""
        self._depth += 1
        if self._depth > MOST_LEVELS:
            raise self.too_deep()

    def end(self, tag: str) -> None:
        """Handle the end of an element."""
        self._depth -= 1

    def feed(self, chunk: bytes, *, is_last: bool = False) -> None:
        """Read the next bytes. Raises DataError if they are not well-formed, declare entities or nest too deeply."""
        self._n_bytes += len(self._chunk)
        self._chunk = chunk
        try:
            self._parser.Parse(chunk, is_last)
        except expat.ExpatError as error:
            raise DataError(self._malformed(error)) from None
        except (ValueError, LookupError) as error:  # an encoding of several bytes a character, or an unknown one
            raise self.error(f"{error}; convert the file to UTF-8, and name that in its first line") from None

    def begin_fragment(self) -> None:
        """Open an element around a text that has none; feed "</fragment>" behind the text."""
        self._n_before = len("<fragment>")
        self.feed(b"<fragment>")

    def error(self, what: str) -> DataError:
        """Return an error that names the place."""
        return DataError(f"{self._place(self._parser.CurrentLineNumber)}: {what}")

    def too_deep(self) -> DataError:
        """Return the error for an element inside too many others."""
        return self.error(f"more than {MOST_LEVELS} elements inside each other")

    def too_early(self) -> str:
        """Return the message for XML whose end is missing."""
        return "the XML ends too early; copy the file again, as a whole"

    def _place(self, line: int) -> str:
        return f"{self.name}: line {line}" if self.name else f"line {line}"

    def _malformed(self, error: expat.ExpatError) -> str:
        what = expat.ErrorString(error.code)
        place = f"{self._place(error.lineno)}, column {error.offset + 1 - (self._n_before if error.lineno == 1 else 0)}"
        if what in _TOO_EARLY:
            return f"{place}: {self.too_early()}"
        return f"{place}: not valid XML: {what}{self._remedy(what)}"

    def _remedy(self, what: str) -> str:
        if what == expat.errors.XML_ERROR_UNDEFINED_ENTITY:
            return "; replace it by the character itself"
        if what == expat.errors.XML_ERROR_BAD_CHAR_REF:
            return "; remove it, because XML has no such character"
        if what == expat.errors.XML_ERROR_TAG_MISMATCH:
            return "; the element that is open has another name: an end tag is missing before this one, or a start tag"
        if what != expat.errors.XML_ERROR_INVALID_TOKEN:
            return ""
        at = max(self._parser.ErrorByteIndex - self._n_bytes, 0)
        before, byte = self._chunk[max(at - _LONGEST_NAME, 0) : at], self._chunk[at : at + 1]
        if _BARE_AMPERSAND.search(before):
            return "; write & as &amp;"
        if before.endswith(b"<"):
            return "; write < as &lt;"
        if byte < b" " and byte not in b"\t\n\r":
            return f"; remove the control character 0x{byte.hex()}"
        if byte < b"\x80" or self._is_decoded:
            return ""
        return (
            f"; byte 0x{byte.hex()} is not UTF-8: if the text is in another encoding, name that in the first line, for "
            'example <?xml version="1.0" encoding="windows-1252"?>'
        )

    def _doctype(self, _name: str, _system_id: str | None, _public_id: str | None, has_declarations: bool) -> None:
        if has_declarations:
            raise self.error(
                "the DOCTYPE has declarations between [ and ], which could expand to gigabytes; remove them if the "
                "file is from a source that you trust"
            )

    def _entity(self, name: str, _is_parameter: bool) -> None:
        raise self.error(f"&{name}; is not declared; replace it by the character itself")


_LONGEST_NAME = 100  # bytes of an entity's name
_BARE_AMPERSAND = re.compile(rb"&[\w.-]*\Z")
_TOO_EARLY = (
    expat.errors.XML_ERROR_NO_ELEMENTS,
    expat.errors.XML_ERROR_UNCLOSED_TOKEN,
    expat.errors.XML_ERROR_UNCLOSED_CDATA_SECTION,
)


def check(text: str, *, is_fragment: bool = False) -> None:
    """Raise DataError, with the line, if a text is not well-formed XML, declares entities or is nested too deeply.

    is_fragment: it may have several elements, and text, without an element around them.
    """
    parser = XmlParser(encoding="utf-8")  # the text has been decoded, whatever encoding it declares
    if is_fragment:
        parser.begin_fragment()
        text += "</fragment>"
    parser.feed(text.encode(), is_last=True)


def facts_of(text: str, text_attributes: Collection[str]) -> Counter[object]:
    """Count the elements, with their attributes, the declarations, the instructions and the comments of a page.

    text_attributes: whose values are left out. Entities may be undeclared, and none is resolved.
    Raises DataError, with the line, if the page is not well-formed.
    """
    facts = Counter[object]()

    def count(*fact: object) -> None:
        facts[fact] += 1

    def start(name: str, attributes: dict[str, str]) -> None:
        count(name, *(item for item in sorted(attributes.items()) if item[0] not in text_attributes))

    parser = expat.ParserCreate("utf-8")
    parser.UseForeignDTD(True)  # so that entities such as &nbsp; are passed over
    parser.DefaultHandler = lambda data: None  # so that declared ones are not resolved
    parser.StartElementHandler = start
    parser.CommentHandler, parser.ProcessingInstructionHandler = (
        partial(count, "comment"),
        partial(count, "instruction"),
    )
    parser.StartDoctypeDeclHandler, parser.EntityDeclHandler = partial(count, "doctype"), partial(count, "entity")
    try:
        parser.Parse(text.encode("utf-8", "replace"), True)
    except expat.ExpatError as error:
        what = f"line {error.lineno}, column {error.offset + 1}: not valid XML: {expat.ErrorString(error.code)}"
        raise DataError(what) from None
    return facts

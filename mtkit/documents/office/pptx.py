"""PPTX: the paragraphs of slides, notes, comments, charts and diagrams; formats are codes."""

from mtkit.documents.document import Document, Reading
from mtkit.documents.office import ooxml
from mtkit.documents.office.archive import Archive
from mtkit.documents.office.ooxml import DRAWINGS, LAYOUTS, PREFIXES, PROPERTIES, Reader
from mtkit.documents.placeholders import PROSE
from mtkit.documents.reading import Options
from mtkit.markup.xml_tree import Frame

_PARTS = ("slide", "notesSlide", "chart", "diagramData", "diagramDrawing")
_MAIN = tuple(
    f"{kind}.{macros}main"
    for kind in ("presentation", "slideshow", "template")
    for macros in ("", "macroEnabled.", "macroEnabledTemplate.")
)


def read(raw: bytes, options: Options) -> Document:
    """Read a PPTX, or one of its kinds such as PPTM and POTX. Raises DataError if it is none, damaged or encrypted."""
    archive = Archive(raw, "PPTX")
    readers = dict.fromkeys((f".{name}" for name in _PARTS), DRAWINGS) | {"core-properties": PROPERTIES}
    readers |= {"presentationml.comments": Reader(_read_comments, Frame(PREFIXES, ()))}
    readers |= {".slideLayout": LAYOUTS, ".slideMaster": LAYOUTS, "ms-powerpoint.comments": DRAWINGS}
    return archive.document(list(ooxml.parts(archive, readers, _MAIN, "PPTX")), PROSE)


def _read_comments(text: str) -> Reading:
    return ooxml.read_texts(text, frozenset(["p:text"]), PREFIXES)

"""PPTX: the paragraphs of slides, notes, comments, charts and diagrams; formats are codes."""

from functools import partial

from mtkit.documents.document import Document
from mtkit.documents.office import ooxml
from mtkit.documents.office.archive import Archive
from mtkit.documents.office.ooxml import DRAWINGS, LAYOUTS, PROPERTIES
from mtkit.documents.reading import Options
from mtkit.text.placeholders import PROSE

_PARTS = ("slide", "notesSlide", "chart", "diagramData", "diagramDrawing")
_MAIN = tuple(
    f"{kind}.{macros}main"
    for kind in ("presentation", "slideshow", "template")
    for macros in ("", "macroEnabled.", "macroEnabledTemplate.")
)


def read(raw: bytes, options: Options) -> Document:
    """Read a PPTX, PPTM, POTX or the like. Raises DataError if it is another format, damaged or encrypted."""
    archive = Archive(raw, "PPTX")
    slides = DRAWINGS._replace(read=partial(ooxml.read_drawing, src_lang=options.src_lang))
    readers = dict.fromkeys((f".{name}" for name in _PARTS), slides) | {"core-properties": PROPERTIES}
    readers |= {"presentationml.comments": ooxml.texts_of(["p:text"])}
    readers |= {".slideLayout": LAYOUTS, ".slideMaster": LAYOUTS, "ms-powerpoint.comments": DRAWINGS}
    return archive.document(list(ooxml.parts(archive, ooxml.types(archive), readers, _MAIN, "PPTX")), PROSE)

"""XLIFF 1.0 to 1.2, and 2: source and target segments of documents in translation."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from mtkit.pair_files.pairs import Tally
from mtkit.pair_files.units import ANY, Unit
from mtkit.pair_files.xml_units import XmlUnits

# States of a target that is not a translation yet: often a copy of the source. The first three are of XLIFF 1.2, which
# has "needs-adaptation", too: only what is not text needs work, so the translation is good. The last is of XLIFF 2.
_UNTRANSLATED = frozenset(["new", "needs-translation", "needs-l10n", "initial"])
_IS_TO_TRANSLATE = {"yes": True, "no": False}


@dataclass(slots=True)
class XliffUnit:
    """A <trans-unit> (1.x) or a <segment> (2) of a file."""

    number: int  # in the file, from 1
    start: int  # byte at which it begins
    is_to_translate: bool  # not translate="no": of itself, or of the group or file around it
    is_approved: bool
    state: str
    texts: list[tuple[str, str]]  # languages and texts of source and target
    end: int = 0  # byte at which its closing tag begins

    @property
    def is_untranslated(self) -> bool:
        """Whether its state says that the target, if there is one, is not a translation yet."""
        return self.state in _UNTRANSLATED and not self.is_approved


def units(file: BinaryIO, name: str, tally: Tally) -> Iterator[Unit]:
    """Yield source and target of each <trans-unit> (1.x) or <segment> (2); unit n is the file's n-th.

    Left out are units whose state says that they are not translated, or that must not be: translate="no" of a unit, or
    of the group or file around it. Each <file> has languages of its own; those of <xliff> (2) hold for all.
    The text inside <g>, <pc> and <mrk> belongs to the segment; the other inline elements are codes of the document.
    """
    parser = _Xliff(name, None)
    parser.tally = tally
    for unit in parser.read(file):
        if unit.is_to_translate and not unit.is_untranslated:
            yield Unit(unit.number, unit.texts)
        else:
            tally.n_units += 1
            why = "not translated yet, by their state" if unit.is_to_translate else "not to be translated"
            tally.left_out[why] += 1


def xliff_units(file: BinaryIO, encoding: str | None = None) -> Iterator[XliffUnit]:
    """Yield all units of a file. encoding: used instead of the one that the file declares."""
    return _Xliff("", encoding).read(file)


class _Xliff(XmlUnits[XliffUnit]):
    root = "xliff"
    codes = frozenset(("bpt", "ept", "ph", "it", "x", "bx", "ex", "sc", "ec", "sm", "em", "cp"))

    def __init__(self, name: str, encoding: str | None) -> None:
        super().__init__(name, encoding)
        self._languages = {"source": ANY, "target": ANY}  # of the file
        self._root_languages = self._languages
        self._parents: list[tuple[str, bool]] = []  # elements, and whether their text is to be translated
        self._unit: XliffUnit
        self._language = ANY  # of the source or target

    def open(self, tag: str, attributes: Mapping[str, str]) -> None:
        parent, is_to_translate = self._parents[-1] if self._parents else ("", True)
        if "translate" in attributes:
            is_to_translate = _IS_TO_TRANSLATE.get(attributes["translate"], is_to_translate)
        self._parents.append((tag, is_to_translate))
        if tag in ("source", "target"):
            if parent in ("trans-unit", "segment"):
                if tag == "target" and parent == "trans-unit":
                    self._unit.state = attributes.get("state", "")
                self._language = attributes.get("xml:lang") or self._languages[tag]
                self.begin_segment()
        elif tag in ("trans-unit", "segment"):
            self.begin_unit(tag)
            is_approved = attributes.get("approved") == "yes"
            state = attributes.get("state", "") if tag == "segment" else ""  # of a <trans-unit>, its target has it
            start = self._parser.CurrentByteIndex
            self._unit = XliffUnit(self.n_units, start, is_to_translate, is_approved, state, [])
        elif tag == "xliff":
            self._root_languages = self._languages = {
                "source": attributes.get("srcLang", ANY),
                "target": attributes.get("trgLang", ANY),
            }
        elif tag == "file":
            self._languages = {
                side: attributes.get(f"{side}-language", language) for side, language in self._root_languages.items()
            }

    def close(self, tag: str, text: str | None) -> None:
        self._parents.pop()
        if text is not None:
            self._unit.texts.append((self._language, text))
        elif tag in ("trans-unit", "segment"):
            self._unit.end = self._parser.CurrentByteIndex
            self.end_unit(self._unit)

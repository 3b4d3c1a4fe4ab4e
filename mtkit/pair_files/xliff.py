"""XLIFF 1.0 to 1.2, and 2: source and target segments of documents in translation."""

from collections.abc import Iterator, Mapping
from typing import BinaryIO

from mtkit.pair_files.pairs import Tally
from mtkit.pair_files.units import ANY, Unit
from mtkit.pair_files.xml_units import XmlUnits

# States of a target that is not a translation yet: often a copy of the source.
_UNTRANSLATED = frozenset(("new", "needs-translation", "needs-adaptation", "needs-l10n", "initial"))


def units(file: BinaryIO, name: str, tally: Tally) -> Iterator[Unit]:
    """Yield source and target of each <trans-unit> (1.x) or <segment> (2); unit n is the file's n-th.

    Left out are units whose state says that they are not translated, or that must not be: translate="no" of a unit, or
    of the group or file around it. Each <file> has languages of its own; those of <xliff> (2) hold for all.
    The text inside <g>, <pc> and <mrk> belongs to the segment; the other inline elements are codes of the document.
    """
    return _Xliff(name, tally).read(file)


class _Xliff(XmlUnits):
    root = "xliff"
    codes = frozenset(("bpt", "ept", "ph", "it", "x", "bx", "ex", "sc", "ec", "sm", "em", "cp"))

    def __init__(self, name: str, tally: Tally) -> None:
        super().__init__(name, tally)
        self._languages = {"source": ANY, "target": ANY}  # of the file
        self._root_languages = self._languages
        self._parents: list[tuple[str, bool]] = []  # elements, and whether their text is to be translated
        self._texts: list[tuple[str, str]] = []
        self._reason = ""  # for leaving the unit out

    def open(self, tag: str, attributes: Mapping[str, str]) -> None:
        parent, is_to_translate = self._parents[-1] if self._parents else ("", True)
        is_to_translate = {"yes": True, "no": False}.get(attributes.get("translate", ""), is_to_translate)
        self._parents.append((tag, is_to_translate))
        if tag in ("source", "target"):
            if parent in ("trans-unit", "segment"):
                if tag == "target" and attributes.get("state") in _UNTRANSLATED:
                    self._reason = "not translated yet, by their state"
                self._texts.append((attributes.get("xml:lang") or self._languages[tag], ""))
                self.begin_segment()
        elif tag in ("trans-unit", "segment"):
            self.begin_unit()
            self._texts = []
            self._reason = "not translated yet, by their state" if attributes.get("state") == "initial" else ""
            if not is_to_translate:
                self._reason = "not to be translated"
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
            self._texts[-1] = (self._texts[-1][0], text)
        elif tag in ("trans-unit", "segment"):
            if self._reason:
                self.tally.n_units += 1
                self.tally.left_out[self._reason] += 1
            else:
                self.done.append(Unit(self.n_units, self._texts))

"""A file with strings of a program: its text becomes segments, and everything else is unchanged."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from mtkit.documents.document import Document
from mtkit.documents.messages.readable import is_language
from mtkit.documents.messages.values import DAMAGED, Apostrophes, Template, lacks_placeholder, template_of
from mtkit.documents.places import line_of
from mtkit.documents.reading import Options, text_part
from mtkit.documents.skeleton import Edit, Filled, Reading, Segment
from mtkit.errors import DataError
from mtkit.languages import has_one_shared
from mtkit.text.inline import Inline
from mtkit.text.placeholders import STRINGS

_ONE = re.compile(r"(?<=[._])(?<!ordinal_)one\Z")  # a key of i18next or Rails
_SURROGATE = "has half of a surrogate pair, such as \\ud83d alone, which is not a character; correct it"


@dataclass(frozen=True)
class Value:
    """A string of a file, which stands at characters start to end as `write` writes it."""

    start: int
    end: int
    text: str
    write: Callable[[str], str]
    path: str = ""  # its keys in the file, such as "menu.open"
    is_text: bool = True  # whether it may be language: not a key, or a remark for translators
    apostrophes: Apostrophes = Apostrophes.THEMSELVES
    fault: str = ""  # why it must not be translated, though it is language


@dataclass(frozen=True)
class Scan:
    """The contents of a text.

    values: all its strings, in order.
    outline: its other contents, as another parser reads them.
    """

    values: Sequence[Value]
    outline: object


def strings_document(
    raw: bytes,
    scan: Callable[[str], Scan],
    options: Options,
    declared: Callable[[str], str | None] | None = None,
) -> Document:
    """Read a file of strings.

    scan: raises DataError if a text is not of the format. options, declared: as for `text_part`.
    """
    part = text_part(raw, lambda text: Reading(text, ()), str, options, declared=declared)
    found = scan(part.text)
    builder = _Builder(line_of(part.text), found.values, has_one_shared(options.tgt_lang))
    reading = builder.reading(part.text)
    translated = frozenset(builder.templates)

    def structure(text: str) -> object:
        again = found if text is part.text else scan(text)
        kept = [None if index in translated else value.text for index, value in enumerate(again.values)]
        return kept, again.outline

    whole = replace(part, read=lambda text: reading if text is part.text else _refuse(), structure=structure)
    return Document([whole], placeholders=STRINGS)


def _refuse() -> Reading:
    raise ValueError("reads only the text that it was made for")


@dataclass
class _Builder:
    line: Callable[[int], str]
    values: Sequence[Value]
    is_one_shared: bool  # in the target language the plural form "one" is also for other numbers than 1
    segments: list[Segment] = field(default_factory=list)
    templates: dict[int, tuple[Template, int]] = field(default_factory=dict)  # by value; index of its first segment
    owners: list[int] = field(default_factory=list)  # the value of each segment

    def reading(self, text: str) -> Reading:
        for index, value in enumerate(self.values):
            if value.is_text and is_language(value.text, value.path.rpartition(".")[2]):
                self._add(index, value)
        return Reading(text, self.segments, also=self._edits)

    def _add(self, index: int, value: Value) -> None:
        place = ", ".join(filter(None, [self.line(value.start), value.path]))
        try:
            value.text.encode("utf-8")
        except UnicodeEncodeError:
            text = value.text.encode("utf-8", "replace").decode("utf-8")
            self._add_refused(replace(value, text=text), index, place, _SURROGATE)
            return
        template = template_of(self._plural_text(value), value.apostrophes, is_one_shared=self.is_one_shared)
        if template is None or value.fault:
            self._add_refused(value, index, place, value.fault or DAMAGED)
        elif template.texts:
            self.templates[index] = template, len(self.segments)
            for each in template.texts:
                inline, write = each.message.inline, each.message.write
                self._append(index, Segment(inline, place, put=_no_edits, write=write, refuse=each.refuse))

    def _plural_text(self, value: Value) -> str:
        """Return the text to translate: that of the form "other" for a form "one" that would lack a number."""
        form = _ONE.search(value.path) if self.is_one_shared else None
        other = self._by_path.get(f"{value.path[: form.start()]}other", "") if form else ""
        return other if lacks_placeholder(value.text, other) else value.text

    @cached_property
    def _by_path(self) -> dict[str, str]:
        return {value.path: value.text for value in self.values}

    def _add_refused(self, value: Value, index: int, place: str, why: str) -> None:
        refuse: Callable[[str], str] = partial(_why, why)
        self._append(index, Segment(Inline(value.text, value.text, ()), place, put=_no_edits, refuse=refuse))

    def _append(self, index: int, segment: Segment) -> None:
        self.segments.append(segment)
        self.owners.append(index)

    def _edits(self, translations: Mapping[int, Filled]) -> list[Edit]:
        """Return an edit for each string that translations change."""
        of_value: dict[int, dict[int, str]] = {}
        for index, filled in translations.items():
            owner = self.owners[index]
            of_value.setdefault(owner, {})[index - self.templates[owner][1]] = filled.text
        edits = []
        for owner, texts in of_value.items():
            value = self.values[owner]
            text = self.templates[owner][0].filled(texts)
            if text != value.text:
                edits.append(Edit(value.start, value.end, value.write(text)))
        return edits


def _no_edits(_filled: Filled) -> Sequence[Edit]:
    return ()


def _why(why: str, _translation: str) -> str:
    return why


def check_readings(own: Sequence[str], other: Sequence[str]) -> None:
    """Raise DataError if two parsers see different strings in a file."""
    if own != other:
        index = next((i for i, pair in enumerate(zip(own, other, strict=False)) if len(set(pair)) > 1), len(other))
        raise DataError(
            f"two parsers disagree on string {index + 1} of {len(own)}, {''.join(own[index : index + 1])[:40]!r}; "
            "write the file again with the program that it is from"
        )


def with_joined_surrogates(text: str) -> str:
    """Return the text with each pair of surrogates, as escapes write it, as the one character that it stands for."""
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")

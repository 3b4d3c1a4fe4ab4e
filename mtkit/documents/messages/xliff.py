"""XLIFF 1.x and 2.x: mtkit translates units without a translation, and those whose state asks for one.

It keeps translated, approved and protected units. The state of a new target is "translated"; of one to review it is
"needs-review-translation" in 1.x, and "translated" with the sub-state "mtkit:needs-review" in 2.x.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO

from mtkit.documents.document import Document
from mtkit.documents.messages.message_text import refuse_branches
from mtkit.documents.messages.xliff_text import SourceText, source_text
from mtkit.documents.places import line_of
from mtkit.documents.reading import Options, parsed_part
from mtkit.documents.skeleton import Edit, Filled, Reading, Segment, apply
from mtkit.markup.xml_tokens import Token, declared_encoding, ends_of, tokens
from mtkit.pair_files.xliff import XliffUnit, xliff_units
from mtkit.text.inline import Inline
from mtkit.text.placeholders import STRINGS
from mtkit.text.words import has_letters

_TRANSLATED, _REVIEW, _SUB_STATE = "translated", "needs-review-translation", "mtkit:needs-review"
_INSIDE_CODE = "it is inside an inline code (<sub>); translate it by hand"
_STATES = ("state", "subState")

Group = Callable[[Mapping[int, Filled]], list[Edit]]


def read(raw: bytes, options: Options) -> Document:
    """Read an XLIFF file in the encoding of its byte order mark, the one that it declares, or UTF-8."""
    part = parsed_part(raw, _Xliff, _Xliff.reading, _Xliff.structure, options, declared=declared_encoding)
    return Document([part], placeholders=STRINGS, remarks=list(_remarks(part.parsed, options)))


def _remarks(found: "_Xliff", options: Options) -> Iterator[str]:
    for token in found.tokens:
        if token.local_name in ("xliff", "file") and (
            "trgLang" in token.attributes or "target-language" in token.attributes
        ):
            return
    attribute = "trgLang" if '"urn:oasis:names:tc:xliff:document:2' in found.text else "target-language"
    yield f'has no target language, and mtkit does not add it; add {attribute}="{options.tgt_lang or "..."}"'


@dataclass(frozen=True)
class _Unit:
    """The tokens of a <trans-unit> or <segment>, with the first and last index of each of its parts."""

    scanned: XliffUnit
    tokens: Sequence[Token]
    source: tuple[int, int]
    segmented: tuple[int, int] | None  # <seg-source>
    target: tuple[int, int] | None

    @property
    def is_segment(self) -> bool:
        """Whether it is of XLIFF 2, where the state is an attribute of it, not of the target."""
        return self.tokens[0].local_name == "segment"

    def inside(self, interval: tuple[int, int]) -> Sequence[Token]:
        """Return the tokens inside an element."""
        return self.tokens[interval[0] + 1 : interval[1]]

    @property
    def is_open(self) -> bool:
        """Whether it needs a translation."""
        return self.target is None or self.scanned.is_untranslated or _is_blank(self.inside(self.target))

    @cached_property
    def texts_inside_codes(self) -> list[tuple[Token, str]]:
        """The texts, such as those of footnotes, that inline codes hold in a <sub>, with its opening tag."""
        inside = self.inside(self.segmented or self.source)
        subs = [(inside[start], inside[start:end]) for start, end in ends_of(inside).items() if start < end]
        texts = [(first, "".join(token.content for token in some)) for first, some in subs if first.local_name == "sub"]
        return [(first, text) for first, text in texts if has_letters(text)]


def _is_blank(inside: Sequence[Token]) -> bool:
    return all(token.kind in ("text", "comment") and not token.content.strip() for token in inside)


class _Xliff:
    """The units of a file that need a translation."""

    def __init__(self, text: str) -> None:
        """Raises DataError if the text is not an XLIFF file."""
        self.text = text
        raw = text.encode()
        scanned = list(xliff_units(BytesIO(raw), encoding="utf-8"))  # which checks the XML, too
        self.tokens = list(tokens(text))
        self._units = list(_units(raw, self.tokens, scanned))
        self._place = line_of(text)
        self._segments: list[Segment] = []
        self._groups: list[tuple[Sequence[int], Group]] = []  # segments of one target, and the edits that write it

    def reading(self) -> Reading:
        """Return the segments of the file."""
        for unit in self._units:
            marks = _marks(unit, unit.segmented)
            if unit.scanned.is_approved:
                continue
            if marks and not unit.is_segment:
                self._read_marks(unit, marks)
                if unit.is_open:
                    self._list_inside_codes(unit)
            elif unit.is_open:
                found = source_text(self.text, unit.inside(unit.source))
                if found:
                    self._add(found, unit.tokens[unit.source[0]], self._put(unit, found))
                self._list_inside_codes(unit)
        return Reading(self.text, self._segments, also=self._also)

    def structure(self) -> object:
        """Return the parts that no translation may change: all but targets and states.

        Also how many targets have other inline elements than their sources.
        """
        kept: list[str] = []
        depth = 0
        for token in self.tokens:
            is_target = token.local_name == "target"
            if token.kind == "open" and (is_target or depth):
                depth += 1
            if not depth and not (is_target and token.kind == "empty"):
                kept.append(_without_states(token) if token.local_name == "segment" else token.markup.strip())
            if token.kind == "close" and depth:
                depth -= 1
        return [each for each in kept if each], sum(map(_has_faults, self._units))

    def _add(self, found: SourceText, where: Token, put: Callable[[Filled], list[Edit]]) -> int:
        refuse = refuse_branches(found.inline.text)
        self._segments.append(
            Segment(found.inline, self._place(where.start), put=put, write=found.write, refuse=refuse)
        )
        return len(self._segments) - 1

    def _list_inside_codes(self, unit: _Unit) -> None:
        """Add the texts inside inline codes as segments that stay as they are, so that they are reported."""
        for where, text in unit.texts_inside_codes:
            inline, place = Inline(text, text, ()), self._place(where.start)
            self._segments.append(Segment(inline, place, put=lambda _: (), refuse=lambda _: _INSIDE_CODE))

    def _put(self, unit: _Unit, found: SourceText) -> Callable[[Filled], list[Edit]]:
        return lambda filled: self._write(unit, found.content(filled.text), filled.is_doubtful)

    def _write(self, unit: _Unit, content: str, is_doubtful: bool) -> list[Edit]:
        """Return the edits that write the target of a unit, and its state."""
        edits = []
        is_doubtful = is_doubtful or bool(unit.texts_inside_codes)
        state = {"state": _REVIEW if is_doubtful else _TRANSLATED}
        if unit.is_segment:
            state, own = {}, unit.tokens[0]
            of_segment = {"state": _TRANSLATED, "subState": _SUB_STATE if is_doubtful else ""}
            edits.append(Edit(own.start, own.end, _with_attributes(own.markup, of_segment)))
        if unit.target is None:
            source = unit.tokens[unit.source[0]]
            name = source.name.removesuffix("source") + "target"
            target = f"{self._gap(unit)}{_with_attributes(f'<{name}>', state)}{content}</{name}>"
            end = unit.tokens[(unit.segmented or unit.source)[1]].end
            return [*edits, Edit(end, end, target)]
        first, last = (unit.tokens[index] for index in unit.target)
        opened = _with_attributes(first.markup, state)
        if first.kind == "empty":
            opened = f"{opened[: -len('/>')].rstrip()}>"
            return [*edits, Edit(first.start, first.end, f"{opened}{content}</{first.name}>")]
        return [*edits, Edit(first.start, first.end, opened), Edit(first.end, last.start, content)]

    def _gap(self, unit: _Unit) -> str:
        """Return the line break and indentation before a source, if it has any."""
        before = unit.tokens[unit.source[0] - 1]
        if before.kind != "text" or "\n" not in before.markup:
            return ""
        newline = "\r\n" if "\r\n" in before.markup else "\n"
        return newline + before.markup.rpartition("\n")[2]

    def _read_marks(self, unit: _Unit, marks: Mapping[str, tuple[int, int]]) -> None:
        """Read a unit that a tool has divided into segments: its target has the same marks around each."""
        in_target = _marks(unit, unit.target)
        is_whole = unit.is_open and not in_target  # the target is written as a whole, after the <seg-source>
        found: dict[int, tuple[tuple[int, int], SourceText]] = {}
        first = len(self._segments)
        for name, interval in marks.items():
            text = source_text(self.text, unit.inside(interval))
            if text is None:
                continue
            if is_whole:
                found[self._add(text, unit.tokens[interval[0]], lambda _: [])] = interval, text
            elif name in in_target and (unit.is_open or _is_blank(unit.inside(in_target[name]))):
                put = self._put_mark(unit, in_target[name], text)
                self._add(text, unit.tokens[interval[0]], put)
        if is_whole and found:
            self._groups.append((list(found), self._put_marks(unit, found)))
        elif unit.is_open and first < len(self._segments):
            indices = range(first, len(self._segments))
            self._groups.append((indices, self._put_state(unit, indices)))

    def _put_mark(self, unit: _Unit, interval: tuple[int, int], found: SourceText) -> Callable[[Filled], list[Edit]]:
        first, last = (unit.tokens[index] for index in interval)

        def put(filled: Filled) -> list[Edit]:
            content = found.content(filled.text)
            if first.kind == "empty":
                opened = f"{first.markup[: -len('/>')].rstrip()}>"
                return [Edit(first.start, first.end, f"{opened}{content}</{first.name}>")]
            return [Edit(first.end, last.start, content)]

        return put

    def _put_marks(self, unit: _Unit, found: Mapping[int, tuple[tuple[int, int], SourceText]]) -> Group:
        assert unit.segmented is not None
        inside = unit.inside(unit.segmented)
        start, end = inside[0].start, inside[-1].end

        def put(translations: Mapping[int, Filled]) -> list[Edit]:
            edits = []
            for index, (interval, text) in found.items():
                if index in translations:
                    first, last = unit.tokens[interval[0]].end, unit.tokens[interval[1]].start
                    edits.append(Edit(first - start, last - start, text.content(translations[index].text)))
            is_doubtful = len(edits) < len(found) or any(translations[index].is_doubtful for index in found)
            return self._write(unit, apply(self.text[start:end], edits), is_doubtful)

        return put

    def _put_state(self, unit: _Unit, indices: Sequence[int]) -> Group:
        assert unit.target is not None
        tag = unit.tokens[unit.target[0]]

        def put(translations: Mapping[int, Filled]) -> list[Edit]:
            is_sure = all(index in translations and not translations[index].is_doubtful for index in indices)
            state = {"state": _TRANSLATED if is_sure else _REVIEW}
            return [Edit(tag.start, tag.end, _with_attributes(tag.markup, state))]

        return put

    def _also(self, translations: Mapping[int, Filled]) -> list[Edit]:
        return [
            edit
            for indices, put in self._groups
            if any(index in translations for index in indices)
            for edit in put(translations)
        ]


def _with_attributes(markup: str, values: Mapping[str, str]) -> str:
    """Return a tag with these values of attributes; an attribute without a value is removed."""
    [token] = tokens(markup)
    edits = []
    for name, value in values.items():
        old = token.attributes.get(name)
        if old and value:
            edits.append(Edit(old.start, old.end, value))
        elif old:
            start = len(markup[: old.start - 1].rstrip("= \t\r\n").removesuffix(name).rstrip())
            edits.append(Edit(start, old.end + 1, ""))
        elif value:
            end = len(markup[:-1].removesuffix("/").rstrip())
            edits.append(Edit(end, end, f' {name}="{value}"'))
    for edit in reversed(edits):  # each stands by itself: several may be put at the end
        markup = apply(markup, [edit])
    return markup


def _units(raw: bytes, found: Sequence[Token], scanned: Sequence[XliffUnit]) -> Iterator[_Unit]:
    """Yield the units of a text in UTF-8 that are to be translated. found: all its tokens."""
    starts = [token.start for token in found]
    n_bytes = start = 0  # start: the character that these bytes come before
    for each in scanned:
        if each.is_to_translate and each.texts:
            start += len(raw[n_bytes : each.start].decode())
            n_bytes = each.start
            last = start + len(raw[n_bytes : each.end].decode())  # where its closing tag begins
            inside = found[bisect_left(starts, start) : bisect_right(starts, last)]
            unit = _unit_of(each, inside)
            if unit:
                yield unit


def _unit_of(scanned: XliffUnit, inside: Sequence[Token]) -> _Unit | None:
    ends = ends_of(inside)
    prefix = inside[0].name.removesuffix(inside[0].local_name)
    children: dict[str, tuple[int, int]] = {}
    index = 1
    while index < len(inside) - 1:
        if index in ends:
            children.setdefault(inside[index].name, (index, ends[index]))
        index = ends.get(index, index) + 1
    source = children.get(f"{prefix}source")
    if source is None:
        return None
    return _Unit(scanned, inside, source, children.get(f"{prefix}seg-source"), children.get(f"{prefix}target"))


def _marks(unit: _Unit, interval: tuple[int, int] | None) -> dict[str, tuple[int, int]]:
    """Return the places of the segment marks in an element, by their names."""
    if interval is None:
        return {}
    first, ends = interval[0] + 1, ends_of(unit.inside(interval))
    found = ((unit.tokens[first + index], first + index, first + end) for index, end in ends.items())
    return {
        token.get("mid"): (start, end)
        for token, start, end in found
        if token.local_name == "mrk" and token.get("mtype") == "seg"
    }


def _without_states(token: Token) -> str:
    return _with_attributes(token.markup, dict.fromkeys(_STATES, "")) if token.kind == "open" else token.markup


def _has_faults(unit: _Unit) -> bool:
    if unit.target is None or unit.is_open:
        return False
    source, target = (
        Counter(token.markup for token in unit.inside(interval) if token.kind in ("open", "empty", "close"))
        for interval in (unit.segmented or unit.source, unit.target)
    )
    return source != target

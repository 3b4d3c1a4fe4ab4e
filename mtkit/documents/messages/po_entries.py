"""The entries of a PO file: where their comments and strings stand in its text, and how strings are written."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field

from mtkit.documents.document import Edit
from mtkit.documents.reading import line_of
from mtkit.errors import DataError
from mtkit.pair_files.po import KEYWORD, unescape

_LINE = re.compile(r"[^\n]*\n?")
_ENTRY = re.compile(KEYWORD + r'((?:"(?:[^"\\]|\\.)*+"\s*)++)')
_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)"')
_WIDTH = 79  # columns of a line, as gettext writes it
_UNWRAPPED = 90  # a file with longer lines was written without wrapping
_ESCAPED = {"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t", "\r": r"\r", "\a": r"\a", "\b": r"\b", "\f": r"\f"}
_TO_ESCAPE = re.compile(r'[\\"\x00-\x1f\x7f]')
_FUZZY = "fuzzy"

Interval = tuple[int, int]


@dataclass
class Field:
    """A keyword and its string, at characters start to end."""

    start: int
    end: int
    quote: int  # where the first string begins
    text: str = ""


@dataclass
class Entry:
    """A message with its translation, and the comments before it."""

    comments: list[Interval] = field(default_factory=list)  # lines, with their line breaks
    fields: dict[str, Field] = field(default_factory=dict)

    @property
    def is_header(self) -> bool:
        """Whether it is the entry of the empty message."""
        return "msgid" in self.fields and not self.fields["msgid"].text and "msgctxt" not in self.fields

    @property
    def forms(self) -> list[Field]:
        """Its translations: one, or one for each plural form."""
        return [found for key, found in self.fields.items() if key.startswith("msgstr")]

    def flags(self, text: str) -> list[str]:
        """Return its flags, such as "fuzzy" and "c-format"."""
        return [flag for start, end in self.comments for flag in _flags(text[start:end])]

    def is_fuzzy(self, text: str) -> bool:
        """Return whether its translation is a draft."""
        return _FUZZY in self.flags(text)

    def marked(self, text: str, newline: str) -> list[Edit]:
        """Return the edits that mark it as fuzzy."""
        of_flags = [interval for interval in self.comments if text[interval[0] : interval[1]].startswith("#,")]
        if of_flags:
            at = of_flags[0][0] + len("#,")
            return [Edit(at, at, f" {_FUZZY},")]
        first = min(found.start for found in self.fields.values())
        at = next((start for start, _ in self.comments if text.startswith("#|", start)), first)
        return [Edit(at, at, f"#, {_FUZZY}{newline}")]

    def unmarked(self, text: str) -> list[Edit]:
        """Return the edits that take the mark away."""
        edits = []
        for start, end in self.comments:
            line = text[start:end]
            if _FUZZY in (flags := _flags(line)):
                others = [flag for flag in flags if flag != _FUZZY]
                stripped = line.rstrip("\r\n")
                kept = f"#, {', '.join(others)}{line[len(stripped) :]}" if others else ""
                edits.append(Edit(start, end, kept))
        return edits

    def without_previous(self, text: str) -> list[Edit]:
        """Return the edits that remove the message that its old translation was of."""
        return [Edit(start, end, "") for start, end in self.comments if text.startswith("#|", start)]


def _flags(line: str) -> list[str]:
    return [flag for flag in re.split(r"[,\s]+", line[2:]) if flag] if line.startswith("#,") else []


def entries_of(text: str, encoding: str = "utf-8") -> Iterator[Entry]:
    """Yield the entries of a PO file, without the obsolete ones.

    encoding: of bytes that are escaped. Raises DataError, with the line, for what is no PO file.
    """
    return _Scan(text, encoding).entries()


class _Scan:
    def __init__(self, text: str, encoding: str) -> None:
        self._text, self._encoding = text, encoding
        self._place = line_of(text)
        self._entry = Entry()
        self._last: Field | None = None

    def entries(self) -> Iterator[Entry]:
        for match in _LINE.finditer(self._text):
            line = match[0].strip()
            if line.startswith("#~"):  # obsolete, and so are the comments before it
                yield from self._end()
                self._entry = Entry()
            elif line.startswith("#"):
                if self._entry.forms:
                    yield from self._end()
                self._entry.comments.append((match.end() - len(match[0].lstrip()), match.end()))
            elif line:
                start = match.start() + match[0].index(line[0])
                found = _ENTRY.fullmatch(self._text, start, start + len(line))
                if found is None:
                    raise self._error(start, f'not a line of a PO file, such as msgid "text": {_short(line)}')
                if self._entry.forms and found[1] in ("msgctxt", "msgid", "domain"):
                    yield from self._end()
                self._add(found)
        yield from self._end()

    def _error(self, index: int, what: str) -> DataError:
        return DataError(f"{self._place(index)}: {what}")

    def _add(self, found: re.Match[str]) -> None:
        key = found[1]
        fields = self._entry.fields
        if key:
            if key in fields:
                raise self._error(found.start(), f"{key} comes a second time in one message; remove one of them")
            if key.startswith("msgstr") and "msgid" not in fields:
                raise self._error(found.start(), f"{key} without a msgid before it")
            fields[key] = self._last = Field(found.start(), found.end(2), found.start(2))
            if key.startswith("msgstr"):
                self._check_form(key, found.start())
        elif self._last is None:
            raise self._error(found.start(), "text before the first msgid")
        try:
            self._last.text += "".join(unescape(string, self._encoding) for string in _STRING.findall(found[2]))
        except UnicodeDecodeError:
            raise self._error(
                found.start(), f"escaped bytes that are not {self._encoding}; write the characters themselves"
            ) from None
        self._last.end = found.end(2)
        if key == "domain":
            self._entry, self._last = Entry(), None

    def _check_form(self, key: str, start: int) -> None:
        n_before = len(self._entry.forms) - 1
        is_plural = "msgid_plural" in self._entry.fields
        if key != (f"msgstr[{n_before}]" if is_plural else "msgstr"):
            wanted = f"msgstr[{n_before}]" if is_plural else "msgstr, since the message has no msgid_plural,"
            raise self._error(start, f"{key} where {wanted} belongs")

    def _end(self) -> Iterator[Entry]:
        entry, self._entry, self._last = self._entry, Entry(), None
        if entry.forms:
            yield entry
        elif entry.fields:
            start = min(found.start for found in entry.fields.values())
            raise self._error(start, "a message without msgstr: the file ends too early or is damaged; copy it again")


def _short(line: str) -> str:
    return repr(line if len(line) <= 40 else f"{line[:37]}...")


def is_wrapped(text: str) -> bool:
    """Return whether long strings of a file go over several lines: none has room for a break."""
    return not any(
        len(line) > _UNWRAPPED and not line.startswith("#") and " " in line.partition('"')[2][: _UNWRAPPED // 2]
        for line in text.split("\n")
    )


def quoted(text: str, prefix: str, newline: str, *, is_wrapped: bool) -> str:
    """Return a text as strings behind a prefix such as "msgstr ", as gettext divides it into lines."""
    lines = [_TO_ESCAPE.sub(_escape, line) for line in re.findall(r"[^\n]*\n|[^\n]+", text)]
    if len(lines) <= 1 and not (is_wrapped and _columns("".join([prefix, '""', *lines])) > _WIDTH):
        return f'{prefix}"{"".join(lines)}"'
    if is_wrapped:
        lines = [piece for line in lines for piece in _wrapped(line)]
    return newline.join([f'{prefix}""', *(f'"{line}"' for line in lines)])


def _escape(character: re.Match[str]) -> str:
    return _ESCAPED.get(character[0]) or f"\\{ord(character[0]):03o}"


def _wrapped(line: str) -> Iterator[str]:
    piece = ""
    for word in re.findall(r"[^ ]+ *| +", line):
        if piece and _columns(piece) + _columns(word) > _WIDTH - len('""'):
            yield piece
            piece = ""
        piece += word
    yield piece


def _columns(text: str) -> int:
    return len(text) if text.isascii() else sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in text)

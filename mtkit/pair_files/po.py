"""PO files of GNU gettext: messages of a program and their translations."""

import codecs
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from gettext import c2py
from typing import BinaryIO

from mtkit.errors import DataError
from mtkit.pair_files.compression import packed_unnoticed
from mtkit.pair_files.lines import LINE_FRAME, max_line_bytes, raw_lines
from mtkit.pair_files.pairs import Tally
from mtkit.pair_files.units import ANY, Unit

FUZZY = "fuzzy"  # the flag of a message whose translation is a draft
_INSIDE = r'[^"\\]*+(?:\\.[^"\\]*+)*+'  # of a quoted string
_STRING = re.compile(rf'"({_INSIDE})"', re.DOTALL)
_STRINGS = re.compile(rf'(?:"{_INSIDE}"\s*)++', re.DOTALL)
_BEGINNING = re.compile(r'(?:(msgctxt|msgid_plural|msgid|domain|msgstr(?:\[[0-9]{1,3}\])?)\s*)?"')  # of a line
_OBSOLETE = re.compile(r"#~\s*msgid\s")
_CHARSET = re.compile(rb'^[^#\n]*Content-Type:[^"\n]{0,200}?charset=([\w.-]+)', re.MULTILINE | re.IGNORECASE)
_MESSAGE = re.compile(rb"^[ \t]*msgid\b", re.MULTILINE)
_BYTE = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2}))")
_ESCAPE = re.compile(r"((?:\\(?:[0-7]{1,3}|x[0-9A-Fa-f]{1,2}))+)|\\(.)", re.DOTALL)
_PLURAL = re.compile(r"nplurals\s*=\s*([1-9])\s*;\s*plural\s*=\s*([^;]+)")
_NUMBERS = (*range(1001), 1_000_000)  # msgfmt looks at those up to 1,000; French has another form for millions
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


@dataclass(slots=True)
class Comment:
    """A line that begins with #, at characters start to end of the file, with its line break."""

    start: int
    end: int
    text: str  # without spaces around it

    @property
    def flags(self) -> list[str]:
        """The flags that it has, such as "fuzzy" and "c-format"."""
        is_of_flags = self.text.startswith("#,")
        return [flag for flag in re.split(r"[,\s]+", self.text[2:]) if flag] if is_of_flags else []


@dataclass(slots=True)
class Field:
    """A keyword and its string, at characters start to end of the file."""

    line: int  # number of its first line
    start: int
    quote: int  # where the first string begins
    end: int
    strings: list[str]
    text: str = ""  # that they make up


@dataclass(slots=True)
class Entry:
    """A message with its translation, and the comments before it."""

    comments: list[Comment]
    fields: dict[str, Field]
    forms: list[Field]  # its translations: one, or one for each plural form
    is_obsolete: bool = False  # then it has nothing else

    @property
    def is_header(self) -> bool:
        """Whether it is the entry of the empty message."""
        return "msgid" in self.fields and not self.fields["msgid"].text and "msgctxt" not in self.fields

    @property
    def flags(self) -> list[str]:
        """Its flags, such as "fuzzy" and "c-format"."""
        return [flag for comment in self.comments for flag in comment.flags]

    @property
    def is_fuzzy(self) -> bool:
        """Whether its translation is a draft."""
        return any(FUZZY in comment.text and FUZZY in comment.flags for comment in self.comments)


def units(file: BinaryIO, name: str, tally: Tally) -> Iterator[Unit]:
    """Yield each message and its translation; a unit's number is the line of its msgid.

    Of a message with plural forms, the singular goes with the form for 1, and msgid_plural with the last form. Fuzzy
    and obsolete messages are left out. The header's Language is that of the translations; X-Source-Language, if it is
    there, that of the messages.
    """
    head, encoding = _head(file, name)
    src_lang, tgt_lang, for_one = ANY, ANY, 0
    for entry in _Scan(name, encoding).entries(_decoded(file, head, name, encoding)):
        if entry.is_obsolete:
            _leave_out(tally, "obsolete")
            continue
        forms = entry.forms
        if entry.is_header:
            header = header_fields(forms[0].text)
            src_lang, tgt_lang = header.get("x-source-language") or ANY, header.get("language") or ANY
            numbers = plural_numbers(header.get("plural-forms", ""))
            for_one = next((form for form, some in enumerate(numbers) if 1 in some), 0)
            continue
        pairs = [("msgid", forms[min(for_one, len(forms) - 1)])]
        if "msgid_plural" in entry.fields:  # a language of one form uses it for any number
            pairs = [*(pairs if len(forms) > 1 else []), ("msgid_plural", forms[-1])]
        is_fuzzy = entry.is_fuzzy
        for key, form in pairs:
            if is_fuzzy:
                _leave_out(tally, "fuzzy")
            else:
                message = entry.fields[key]
                yield Unit(message.line, [(src_lang, message.text), (tgt_lang, form.text)])


def _leave_out(tally: Tally, why: str) -> None:
    tally.n_units += 1
    tally.left_out[why] += 1


def entries_of(text: str, encoding: str = "utf-8") -> Iterator[Entry]:
    """Yield the entries of a PO file's text, except obsolete ones.

    encoding: of bytes that are escaped. Raises DataError, with the line, if it is not a PO file.
    """
    lines = io.StringIO(text, newline="\n")  # only this ends a line
    return (entry for entry in _Scan("", encoding).entries(lines) if not entry.is_obsolete)


def charset_of(head: bytes) -> str | None:
    """Return the encoding that the header, which is the first entry, names. head: at least the first two entries."""
    messages = [match.start() for _, match in zip(range(2), _MESSAGE.finditer(head), strict=False)]
    found = _CHARSET.search(head, 0, messages[1] if len(messages) > 1 else len(head))
    return None if found is None or found[1] == b"CHARSET" else found[1].decode()  # the word in templates


def header_fields(text: str) -> dict[str, str]:
    """Return the values that a header, the translation of "", gives, by their names in lower case."""
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {key.strip().lower(): value.strip() for key, value in fields.items()}


def plural_numbers(plural_forms: str) -> list[Sequence[int]]:
    """Return the numbers up to 1,000, and a million, that each form of a plural stands for: [[1], [0, 2, 3, ...]].

    plural_forms: the value of a header's Plural-Forms; these are the two forms of English if gettext cannot read it.
    """
    found = _PLURAL.search(plural_forms)
    try:
        form_of = c2py(found[2] if found else "n != 1")
        forms = [form_of(number) for number in _NUMBERS]
    except (ValueError, ArithmeticError):
        return plural_numbers("")
    n_forms = min(max(forms) + 1, 9)
    return [[number for number, of in zip(_NUMBERS, forms, strict=True) if of == form] for form in range(n_forms)]


def _head(file: BinaryIO, name: str) -> tuple[list[bytes], str]:
    """Return the lines up to the second message, and the encoding that the header names, or UTF-8."""
    head: list[bytes] = []
    n_messages = n_bytes = 0
    max_bytes = max_line_bytes()
    for raw in raw_lines(file, max_bytes):
        if not head and (packed := packed_unnoticed(name, raw)):
            raise DataError(f"{name}: line 1: {packed}")
        head.append(raw if head else raw.removeprefix(codecs.BOM_UTF8))
        n_messages += _MESSAGE.match(raw) is not None
        n_bytes += len(raw)
        if n_messages > 1 or n_bytes > max_bytes:
            break
    charset = charset_of(b"".join(head))
    try:
        return head, codecs.lookup(charset or "utf-8").name
    except LookupError:
        line = next(number for number, raw in enumerate(head, start=1) if _CHARSET.match(raw))
        raise DataError(f"{name}: line {line}: charset={charset} is not a known encoding") from None


def _decoded(file: BinaryIO, head: Iterable[bytes], name: str, encoding: str) -> Iterator[str]:
    """Yield the lines of a file as text; comments may have bytes of other encodings."""
    max_bytes = max_line_bytes()
    rest = iter(partial(file.readline, max_bytes + LINE_FRAME), b"")
    for number, raw in enumerate(itertools.chain(head, rest), start=1):
        if len(raw) >= max_bytes + LINE_FRAME:
            raise _too_long(f"{name}: line {number}", max_bytes)
        try:
            yield raw.decode(encoding)
        except UnicodeDecodeError as error:
            if not raw.lstrip().startswith(b"#"):
                raise _not_encoded(f"{name}: line {number}", error, encoding) from None
            yield raw.decode(encoding, "replace")


def _too_long(place: str, max_bytes: int) -> DataError:
    what = f"a message has more than {max_bytes:,} bytes; allow more with $MTKIT_MAX_LINE_BYTES"
    return DataError(f"{place}: {what}")


def _not_encoded(place: str, error: UnicodeDecodeError, encoding: str) -> DataError:
    return DataError(
        f"{place}: byte 0x{error.object[error.start]:02x} is not {encoding.upper()}, the encoding that the header "
        "names (charset=) or, without one, UTF-8; correct the charset in the header"
    )


class _Scan:
    """The entry that is being read."""

    def __init__(self, name: str, encoding: str) -> None:
        """name: of the file, for messages. encoding: of bytes that are escaped."""
        self._name, self._encoding = name, encoding
        self._line = 0
        self._max_bytes = max_line_bytes()
        self._last: Field | None
        self._begin()

    def entries(self, lines: Iterable[str]) -> Iterator[Entry]:
        """Yield the entries of these lines, which have their line breaks. Raises DataError with the line."""
        end = 0
        for self._line, raw in enumerate(lines, start=1):
            start, end = end, end + len(raw)
            line = raw.strip()
            if not line:
                continue
            self._n_bytes += len(line)
            if self._n_bytes > self._max_bytes:
                raise _too_long(self._place(self._line), self._max_bytes)
            start += raw.index(line[0])
            if line[0] == "#":
                is_obsolete = line.startswith("#~")
                if self._entry.forms or (is_obsolete and self._entry.fields):
                    yield self._ended()
                if is_obsolete:  # and so are the comments before it
                    self._begin()
                    if _OBSOLETE.match(line):
                        yield Entry([], {}, [], is_obsolete=True)
                else:
                    self._entry.comments.append(Comment(start, end, line))
            else:
                found = _BEGINNING.match(line)
                if found is None:
                    raise self._not_po(line)
                if self._entry.forms and found[1] in ("msgctxt", "msgid", "domain"):
                    yield self._ended()
                self._add(line, found[1], start, found.end() - 1)
        if self._entry.fields:
            yield self._ended()

    def _error(self, what: str, line: int | None = None) -> DataError:
        return DataError(f"{self._place(line or self._line)}: {what}")

    def _place(self, line: int) -> str:
        return f"{self._name}: line {line}" if self._name else f"line {line}"

    def _not_po(self, line: str) -> DataError:
        return self._error(f'not a line of a PO file, such as msgid "text": {_short(line)}')

    def _add(self, line: str, key: str | None, start: int, quote: int) -> None:
        """Add the strings of a line, which begins at character start of the file; the first string, at quote in it."""
        inside = line[quote + 1 : -1]
        if '"' not in inside and inside[-1:] != "\\" and line.endswith('"', quote + 1):  # the fast way for one string
            strings = [inside]
        elif _STRINGS.fullmatch(line, quote):
            strings = _STRING.findall(line, quote)
        else:
            raise self._not_po(line)
        quote, end = start + quote, start + len(line)
        if key:
            entry = self._entry
            if key in entry.fields:
                raise self._error(f"{key} occurs twice in one message; remove one of them")
            entry.fields[key] = self._last = Field(self._line, start, quote, end, strings)
            if key.startswith("msgstr"):
                self._check_form(key)
                entry.forms.append(self._last)
            elif key == "domain":
                self._begin()
        elif self._last is None:
            raise self._error("text before the first msgid")
        else:
            self._last.strings += strings
            self._last.end = end

    def _check_form(self, key: str) -> None:
        fields = self._entry.fields
        if "msgid" not in fields:
            raise self._error(f"{key} without a msgid before it")
        is_plural = "msgid_plural" in fields
        if is_plural or key != "msgstr":
            wanted = f"msgstr[{len(self._entry.forms)}]" if is_plural else "msgstr"
            if key != wanted:
                why = "" if is_plural else ", since the message has no msgid_plural,"
                raise self._error(f"{key} where {wanted}{why} belongs")

    def _begin(self) -> None:
        self._entry = Entry([], {}, [])
        self._last = None
        self._n_bytes = 0  # of the entry, at least

    def _ended(self) -> Entry:
        """Return the entry, which is complete, and begin the next one."""
        entry = self._entry
        if not entry.forms:
            what = "a message without msgstr: the file ends inside a message, or is damaged; copy it again"
            raise self._error(what, min(each.line for each in entry.fields.values()))
        self._begin()
        for key, each in entry.fields.items():
            try:
                text = "".join(each.strings)
                each.text = unescape(text, self._encoding) if "\\" in text else text
            except UnicodeDecodeError as error:
                raise _not_encoded(f"{self._place(each.line)}: {key}", error, self._encoding) from None
        return entry


def _short(line: str) -> str:
    return repr(line if len(line) <= 40 else f"{line[:37]}...")


def unescape(text: str, encoding: str = "utf-8") -> str:
    """Return the text of a quoted string. encoding: of bytes that are escaped, as msgcat --escape writes them.

    Raises UnicodeDecodeError if they are in another one.
    """

    def character(escape: re.Match[str]) -> str:
        if not escape[1]:
            return _LETTERS.get(escape[2], escape[2])
        return _BYTE.sub(_byte, escape[1].encode("ascii")).decode(encoding)

    return _ESCAPE.sub(character, text)


def _byte(escape: re.Match[bytes]) -> bytes:
    return bytes([(int(escape[1], 8) if escape[1] else int(escape[2], 16)) & 0xFF])

"""PO files of GNU gettext: messages of a program and their translations."""

import codecs
import re
from collections.abc import Iterator
from typing import BinaryIO

from mtkit.errors import DataError
from mtkit.pair_files.compression import packed_unnoticed
from mtkit.pair_files.lines import max_line_bytes, raw_lines
from mtkit.pair_files.pairs import Tally
from mtkit.pair_files.units import ANY, Unit

KEYWORD = r"(?:(msgctxt|msgid_plural|msgid|domain|msgstr(?:\[\d{1,3}\])?)\s*)?"  # at the beginning of a line
_ENTRY = re.compile(KEYWORD.encode() + rb'"(.*)"$', re.DOTALL)
_BYTE = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2}))")
_ESCAPE = re.compile(r"((?:\\(?:[0-7]{1,3}|x[0-9A-Fa-f]{1,2}))+)|\\(.)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def units(file: BinaryIO, name: str, tally: Tally) -> Iterator[Unit]:
    """Yield each message and its translation; a unit's number is the line of its msgid.

    Of a message with plural forms, the singular goes with msgstr[0], and msgid_plural with the last form. Fuzzy and
    obsolete messages are left out. The header's Language is that of the translations; X-Source-Language, if it is
    there, that of the messages.
    """
    return _Po(name, tally).read(file)


class _Po:
    """The entry that is being read, and what the header says."""

    def __init__(self, name: str, tally: Tally) -> None:
        self._name = name
        self._tally = tally
        self._encoding = "utf-8"
        self._languages = ANY, ANY
        self._max_bytes = max_line_bytes()
        self._begin()

    def _begin(self) -> None:
        self._fields: dict[str, list[bytes]] = {}
        self._lines: dict[str, int] = {}
        self._key = ""
        self._is_fuzzy = False
        self._n_bytes = 0

    def read(self, file: BinaryIO) -> Iterator[Unit]:
        """Yield the units of the file."""
        number = 0
        for number, raw in enumerate(raw_lines(file, self._max_bytes), start=1):
            line = raw.removeprefix(codecs.BOM_UTF8 if number == 1 else b"").strip()
            if line.startswith(b"#"):
                if self._key.startswith("msgstr"):
                    yield from self._end()
                self._note(line)
            elif line:
                key = self._match(line, number)
                if self._key.startswith("msgstr") and key in ("msgctxt", "msgid"):
                    yield from self._end()
                self._add(line, key, number)
        if self._fields and not self._key.startswith("msgstr"):
            raise self._error(number, "the file ends too early, inside a message; copy it again, as a whole")
        yield from self._end()

    def _error(self, number: int, what: str) -> DataError:
        return DataError(f"{self._name}: line {number}: {what}")

    def _note(self, line: bytes) -> None:
        """Read a comment: flags, or an obsolete message."""
        if line.startswith(b"#,"):
            self._is_fuzzy |= b"fuzzy" in re.split(rb"[,\s]+", line[2:])
        elif line.startswith(b"#~") and re.match(rb"#~\s*msgid\s", line):
            self._tally.n_units += 1
            self._tally.left_out["obsolete"] += 1
            self._is_fuzzy = False

    def _match(self, line: bytes, number: int) -> str:
        """Return the keyword that begins a line; "" for one that goes on with the text of the line before."""
        entry = _ENTRY.match(line)
        if entry is None:
            if len(line) > self._max_bytes:
                raise self._too_long(number)
            if number == 1 and (packed := packed_unnoticed(self._name, line)):
                raise self._error(number, packed)
            raise self._error(number, 'not a line of a PO file, such as msgid "text"')
        return (entry[1] or b"").decode()

    def _too_long(self, number: int) -> DataError:
        return self._error(
            number, f"a message has more than {self._max_bytes:,} bytes; allow more with $MTKIT_MAX_LINE_BYTES"
        )

    def _add(self, line: bytes, key: str, number: int) -> None:
        if key:
            if key in self._fields:
                raise self._error(number, f"{key} comes a second time in one message")
            self._fields[key], self._lines[key] = [], number
            self._key = key
        elif not self._key:
            raise self._error(number, "text before the first msgid")
        self._n_bytes += len(line)
        if self._n_bytes > self._max_bytes:
            raise self._too_long(number)
        self._fields[self._key].append(line[line.index(b'"') + 1 : -1])

    def _end(self) -> Iterator[Unit]:
        """Yield the units of the entry that is complete, and begin the next one."""
        texts = {key: self._text(key) for key in self._fields if key not in ("msgctxt", "domain")}
        lines, is_fuzzy = self._lines, self._is_fuzzy
        if texts.get("msgid") == "" and "msgctxt" not in self._fields:
            self._read_header(texts.get("msgstr", ""))
            texts = {}
        self._begin()
        forms = sorted((int(key[7:-1]), text) for key, text in texts.items() if key.startswith("msgstr["))
        pairs = []
        if "msgid_plural" in texts and forms:
            if len(forms) > 1:
                pairs.append(("msgid", forms[0][1]))
            pairs.append(("msgid_plural", forms[-1][1]))
        elif "msgid" in texts:
            pairs.append(("msgid", texts.get("msgstr", "")))
        for key, translation in pairs:
            if is_fuzzy:
                self._tally.n_units += 1
                self._tally.left_out["fuzzy"] += 1
            else:
                src_lang, tgt_lang = self._languages
                yield Unit(lines[key], [(src_lang, texts[key]), (tgt_lang, translation)])

    def _text(self, key: str) -> str:
        raw = b"".join(self._fields[key])
        try:
            text = raw.decode(self._encoding)
            return unescape(text, self._encoding)
        except UnicodeDecodeError as error:
            raise self._error(
                self._lines[key],
                f"{key}: byte 0x{error.object[error.start]:02x} is not {self._encoding.upper()}, the encoding "
                "that the header names (charset=) or, without one, UTF-8; correct the charset in the header",
            ) from None

    def _read_header(self, text: str) -> None:
        fields = header_fields(text)
        self._languages = fields.get("x-source-language") or ANY, fields.get("language") or ANY
        charset = re.search(r"charset=([\w.-]+)", fields.get("content-type", ""))
        if charset and charset[1] != "CHARSET":  # the word in templates
            try:
                self._encoding = codecs.lookup(charset[1]).name
            except LookupError:
                raise self._error(self._lines["msgid"], f"charset={charset[1]} is not a known encoding") from None


def header_fields(text: str) -> dict[str, str]:
    """Return the values that a header, the translation of "", gives, by their names in lower case."""
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {key.strip().lower(): value.strip() for key, value in fields.items()}


def unescape(text: str, encoding: str = "utf-8") -> str:
    """Return the text of a quoted string. encoding: of bytes that are escaped, as msgcat --escape writes them.

    Raises UnicodeDecodeError if they are in another one.
    """

    def character(escape: re.Match[str]) -> str:
        if not escape[1]:
            return _LETTERS.get(escape[2], escape[2])
        return _BYTE.sub(_byte, escape[1].encode("ascii")).decode(encoding)

    return _ESCAPE.sub(character, text) if "\\" in text else text


def _byte(escape: re.Match[bytes]) -> bytes:
    return bytes([(int(escape[1], 8) if escape[1] else int(escape[2], 16)) & 0xFF])

"""PO and POT files of GNU gettext: mtkit translates messages without a translation, or with a draft of one.

Good translations, obsolete messages, comments and the header stay. A translation that a person should look at is
marked as fuzzy, which programs do not show until a translator removes the mark.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from mtkit.documents.document import Document
from mtkit.documents.messages.message_text import Message, message_of, refuse_branches
from mtkit.documents.reading import Options, parsed_part
from mtkit.documents.skeleton import Edit, Filled, Reading, Segment
from mtkit.pair_files.po import FUZZY, Entry, Field, charset_of, entries_of, header_fields, plural_numbers
from mtkit.text.characters import n_columns
from mtkit.text.placeholders import STRINGS, placeholder_pattern

_N_FORMS = re.compile(r"nplurals\s*=\s*([1-9])\b")
_WIDTH = 79  # columns of a line, as gettext writes it
_UNWRAPPED = 90  # a file with longer lines was written without wrapping
_ESCAPED = {"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t", "\r": r"\r", "\a": r"\a", "\b": r"\b", "\f": r"\f"}
_TO_ESCAPE = re.compile(r'[\\"\x00-\x1f\x7f]')
# What stands for the names of the translators, who write their own there.
_CREDITS = frozenset(["translator-credits", "translator_credits", "Your names", "Your emails"])


def read(raw: bytes, options: Options) -> Document:
    """Read a PO file in the encoding that its header names, or in UTF-8."""
    encoding = charset_of(raw)
    parse = partial(_Po, encoding=encoding or "utf-8")
    part = parsed_part(raw, parse, _Po.reading, _Po.structure, options, declared=lambda _: encoding, is_markup=False)
    return Document([part], placeholders=STRINGS, remarks=list(_remarks(part.parsed.header, options)))


def _remarks(header: Mapping[str, str], options: Options) -> Iterator[str]:
    if not header.get("language"):
        language = f" (Language: {options.tgt_lang})" if options.tgt_lang else ""
        yield f"its header has no language, and mtkit does not change it; complete it{language}, such as by msginit"


@dataclass(frozen=True)
class _Form:
    """A translation to be written, into a field or behind the last one."""

    key: str
    field: Field | None
    last: Field


class _Po:
    """The messages of a file that need a translation."""

    def __init__(self, text: str, encoding: str) -> None:
        self._text = text
        self._entries = list(entries_of(text, encoding))
        self._newline = "\r\n" if "\r\n" in text else "\n"
        self._is_wrapped = is_wrapped(text)
        self.header = header_fields(next((entry.forms[0].text for entry in self._entries if entry.is_header), ""))
        n_forms = _N_FORMS.search(self.header.get("plural-forms", ""))
        self._n_forms = int(n_forms[1]) if n_forms else 0
        self._numbers = plural_numbers(self.header.get("plural-forms", ""))
        self._segments: list[Segment] = []
        self._of_entries: list[tuple[Entry, list[int], list[Edit]]] = []  # segments by index; what goes with them

    def reading(self) -> Reading:
        """Return the segments of the file."""
        for entry in self._entries:
            if not entry.is_header and entry.fields["msgid"].text not in _CREDITS:
                self._read_entry(entry)
        return Reading(self._text, self._segments, also=self._also)

    def structure(self) -> object:
        """Return the parts that no translation may change: all but translations, marks and previous messages.

        Also how many translations lack the line breaks at the ends or the placeholders of their message.
        """
        return [self._structure_of(entry) for entry in self._entries]

    def _structure_of(self, entry: Entry) -> object:
        sources = [found.text for key, found in entry.fields.items() if not key.startswith("msgstr")]
        kept = [comment.text for comment in entry.comments if not comment.text.startswith(("#,", "#|"))]
        flags = [flag for flag in entry.flags if flag != FUZZY]
        return sources, kept, flags, self._n_faults(entry, flags)

    def _n_faults(self, entry: Entry, flags: Sequence[str]) -> int:
        if entry.is_header or entry.is_fuzzy:
            return 0
        is_format = _is_format(flags)
        n_faults = 0
        for form, key in zip(entry.forms, self._sources(entry), strict=False):
            source = entry.fields[key].text
            if form.text:
                n_faults += _ends(source) != _ends(form.text)
                n_faults += is_format and _placeholders(source) != _placeholders(form.text)
        return n_faults

    def _read_entry(self, entry: Entry) -> None:
        indices, copies = [], []
        for key, forms in self._open_forms(entry):
            message = message_of(entry.fields[key].text) if forms else None
            if message is not None:
                indices.append(len(self._segments))
                place = f"line {entry.fields[key].line}"
                put, refuse = self._put(message, forms), self._refuse(message, entry, entry.fields[key].text)
                self._segments.append(Segment(message.inline, place, put=put, write=message.write, refuse=refuse))
            elif forms:
                copies += self._edits(forms, entry.fields[key].text)
        if indices:
            self._of_entries.append((entry, indices, copies))

    def _open_forms(self, entry: Entry) -> Iterator[tuple[str, list[_Form]]]:
        """Yield msgid and msgid_plural, if the entry has it, with the forms to be translated from them."""
        forms = [_Form(f"msgstr[{index}]", field, entry.forms[-1]) for index, field in enumerate(entry.forms)]
        sources = self._sources(entry)
        missing = range(len(forms), len(sources))
        forms += [_Form(f"msgstr[{index}]", None, entry.forms[-1]) for index in missing]
        is_fuzzy = entry.is_fuzzy
        for key in dict.fromkeys(sources):
            some = [form for form, source in zip(forms, sources, strict=True) if source == key]
            yield key, [form for form in some if form.field is None or is_fuzzy or not form.field.text]

    def _sources(self, entry: Entry) -> list[str]:
        """Return the field, msgid or msgid_plural, that each form of an entry translates.

        The form for 1 translates msgid. If it stands for further numbers (in Russian for 21 and 31), msgid must have
        the placeholders of msgid_plural, or people would see no number. A language of one form has msgid_plural alone.
        """
        if "msgid_plural" not in entry.fields:
            return ["msgid"]
        n_forms = max(len(entry.forms), self._n_forms)
        lacks = _placeholders(entry.fields["msgid_plural"].text) - _placeholders(entry.fields["msgid"].text)
        is_singular = [1 in some and (len(some) == 1 or not lacks) for some in self._numbers[:n_forms]]
        is_singular += [False] * (n_forms - len(is_singular))
        return ["msgid" if singular and n_forms > 1 else "msgid_plural" for singular in is_singular]

    def _put(self, message: Message, forms: Sequence[_Form]) -> Callable[[Filled], list[Edit]]:
        return lambda filled: self._edits(forms, message.translation(filled.text))

    def _refuse(self, message: Message, entry: Entry, source: str) -> Callable[[str], str]:
        """Return a function that gives the reason why a translation cannot be used; "" if it can."""
        if not _is_format(entry.flags):
            return refuse_branches(source)
        placeholders, refuse = _placeholders(source), refuse_branches(source)

        def why(written: str) -> str:
            is_changed = _placeholders(message.translation(written)) != placeholders
            return "its translation loses or adds a placeholder" if is_changed else refuse(written)

        return why

    def _edits(self, forms: Sequence[_Form], translation: str) -> list[Edit]:
        edits, added = [], ""
        for form in forms:
            if form.field is None:
                added += self._newline + self._quoted(translation, f"{form.key} ")
            else:
                prefix = self._text[form.field.start : form.field.quote]
                edits.append(Edit(form.field.start, form.field.end, self._quoted(translation, prefix)))
        return [*edits, *([Edit(forms[0].last.end, forms[0].last.end, added)] if added else [])]

    def _quoted(self, translation: str, prefix: str) -> str:
        return quoted(translation, prefix, self._newline, is_wrapped=self._is_wrapped)

    def _also(self, translations: Mapping[int, Filled]) -> list[Edit]:
        """Return the edits of marks, and copies of forms without words in entries that have others."""
        edits = []
        for entry, indices, copies in self._of_entries:
            found = [translations[index] for index in indices if index in translations]
            if not found:
                continue
            edits += copies
            is_doubtful = len(found) < len(indices) or any(filled.is_doubtful for filled in found)
            if entry.is_fuzzy:
                edits += _without_previous(entry)
                edits += [] if is_doubtful else _unmarked(entry, self._text)
            elif is_doubtful:
                edits += _marked(entry, self._newline)
        return edits


def _marked(entry: Entry, newline: str) -> list[Edit]:
    """Return the edits that mark an entry as fuzzy."""
    if flags := next((comment for comment in entry.comments if comment.text.startswith("#,")), None):
        at = flags.start + len("#,")
        return [Edit(at, at, f" {FUZZY},")]
    first = min(found.start for found in entry.fields.values())
    at = next((comment.start for comment in entry.comments if comment.text.startswith("#|")), first)
    return [Edit(at, at, f"#, {FUZZY}{newline}")]


def _unmarked(entry: Entry, text: str) -> list[Edit]:
    """Return the edits that remove the mark."""
    edits = []
    for comment in entry.comments:
        if FUZZY in comment.flags:
            others = [flag for flag in comment.flags if flag != FUZZY]
            after = text[comment.start + len(comment.text) : comment.end]
            edits.append(Edit(comment.start, comment.end, f"#, {', '.join(others)}{after}" if others else ""))
    return edits


def _without_previous(entry: Entry) -> list[Edit]:
    """Return the edits that remove the previous message, which the old translation belonged to."""
    return [Edit(comment.start, comment.end, "") for comment in entry.comments if comment.text.startswith("#|")]


def _is_format(flags: Sequence[str]) -> bool:
    """Return whether a program fills in values, such as by the flag c-format."""
    return any(flag.endswith("-format") and not flag.startswith("no-") for flag in flags)


def _ends(text: str) -> tuple[bool, bool]:
    return text.startswith("\n"), text.endswith("\n")


def _placeholders(text: str) -> Counter[str]:
    return Counter(placeholder_pattern().findall(text))


def is_wrapped(text: str) -> bool:
    """Return whether a file wraps long strings: it has no long line that could be broken."""
    return not any(
        len(line) > _UNWRAPPED and not line.startswith("#") and " " in line.partition('"')[2][: _UNWRAPPED // 2]
        for line in text.split("\n")
    )


def quoted(text: str, prefix: str, newline: str, *, is_wrapped: bool) -> str:
    """Return a text as strings behind a prefix such as "msgstr ", as gettext divides it into lines."""
    lines = [_TO_ESCAPE.sub(_escape, line) for line in re.findall(r"[^\n]*\n|[^\n]+", text)]
    if len(lines) <= 1 and not (is_wrapped and n_columns("".join([prefix, '""', *lines])) > _WIDTH):
        return f'{prefix}"{"".join(lines)}"'
    if is_wrapped:
        lines = [piece for line in lines for piece in _wrapped(line)]
    return newline.join([f'{prefix}""', *(f'"{line}"' for line in lines)])


def _escape(character: re.Match[str]) -> str:
    return _ESCAPED.get(character[0]) or f"\\{ord(character[0]):03o}"


def _wrapped(line: str) -> Iterator[str]:
    piece = ""
    for word in re.findall(r"[^ ]+ *| +", line):
        if piece and n_columns(piece) + n_columns(word) > _WIDTH - len('""'):
            yield piece
            piece = ""
        piece += word
    yield piece

"""Phrases that a translation must, or must not, contain: how they are written in tokens, and how text shows them.

A phrase is matched in the text that the tokens spell, whatever the pieces. It matches whole words: "orange" is not in
"oranges", but it is in "l'orange". A phrase without capitals matches in any case, one with capitals as it is written
(with a capital as its first letter, too: it may open a sentence).
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from mtkit.text.words import UNSPACED
from mtkit.tokens.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from mtkit.tokens.tokenizer import SPACE, Tokenizer

# Marked text has this before and after each word, and around every other character. A phrase, marked in the same way,
# is in the text as whole words exactly if it is a substring.
EDGE = "\0"
# Scripts without spaces between words, Tibetan, and Korean, which adds particles without one: any part may match.
_MATCHES_ANYWHERE = f"[{UNSPACED}\u0f00-\u0fff\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7ff\uff66-\uffdc]"


@lru_cache(maxsize=1 << 16)
def joins(char: str) -> bool:
    """Whether the character is part of a word: a letter, digit or accent of a script with spaces between words."""
    if not char or not (char.isalnum() or unicodedata.category(char)[0] == "M"):
        return False
    return re.match(_MATCHES_ANYWHERE, char) is None


def with_edges(text: str, before: str = "") -> str:
    """Return the text with an edge mark between neighbouring characters of different words, and one space for several.

    before: the character before the text.
    """
    parts = []
    for char in text:
        if char != " " or before not in ("", " "):
            parts.append(char if joins(before) and joins(char) else EDGE + char)
            before = char
    return "".join(parts)


def chunks(text: str) -> list[str]:
    """Return the words of the text, and the single characters between them, spaces included."""
    return with_edges(text).split(EDGE)[1:]


def folded(text: str) -> str:
    """Return the text in lower case, character by character, so that its length stays."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def any_case(phrase: str) -> bool:
    """Whether the phrase matches in any case: if it has no capitals."""
    return folded(phrase) == phrase


def capitalised(phrase: str) -> str:
    """Return the phrase as it would open a sentence."""
    return phrase[:1].upper() + phrase[1:]


class Matcher:
    """A finder of several phrases in marked text."""

    def __init__(self, phrases: Sequence[str]) -> None:
        """phrases: as plain text."""
        written = [form for phrase in phrases if not any_case(phrase) for form in (phrase, capitalised(phrase))]
        self._as_written = tuple(with_edges(phrase) + EDGE for phrase in written)
        self._any_case = tuple(with_edges(phrase) + EDGE for phrase in phrases if any_case(phrase))
        self._longest = max(map(len, self._any_case), default=0)
        self.last_chunks = {folded(phrase.split(EDGE)[-2]) for phrase in (*self._as_written, *self._any_case)}

    def ends_at(self, text: str, end: int, start: int = 0) -> bool:
        """Whether a phrase that begins at start or later ends just before end, which is just after an edge mark."""
        if last_chunk(text, end) not in self.last_chunks:  # quick, and mostly enough
            return False
        if text.endswith(self._as_written, start, end):
            return True
        return bool(self._longest) and folded(text[max(start, end - self._longest) : end]).endswith(self._any_case)

    def count(self, text: str) -> int:
        """Count the phrases in plain text, without overlap; the one that ends first counts."""
        text = with_edges(text) + EDGE
        return self.count_at(text, edges(text, 0))

    def count_at(self, text: str, ends: Sequence[int]) -> int:
        """Count the phrases in marked text that end at one of these positions."""
        n, start = 0, 0
        for end in ends:
            if self.ends_at(text, end, start):
                n, start = n + 1, end - 1
        return n


def last_chunk(text: str, end: int) -> str:
    """Return the last word, in lower case, of the marked text before end, which is just after an edge mark."""
    return _folded_word(text[text.rfind(EDGE, 0, end - 1) + 1 : end - 1])


_folded_word = lru_cache(maxsize=1 << 14)(folded)


def edges(text: str, start: int) -> list[int]:
    """Return the positions just after each edge mark from start on."""
    positions = []
    while (start := text.find(EDGE, start) + 1) > 0:
        positions.append(start)
    return positions


class Spelling:
    """The text that each token of a vocabulary adds."""

    def __init__(self, texts: Sequence[str], byte_values: Mapping[int, int] | None = None) -> None:
        """texts: one for each token id; byte_values: the bytes of byte tokens, by id."""
        self._texts = texts
        self._byte_values = byte_values or {}
        self._marked: dict[tuple[int, str], str] = {}  # by token and the kind of the character before it

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer) -> "Spelling":
        """Return the spelling of the tokens of a SentencePiece model."""
        texts = [piece.replace(SPACE, " ") for piece in tokenizer.pieces(range(tokenizer.vocab_size))]
        for token_id, text in {PAD_ID: "", BOS_ID: "", EOS_ID: "", UNK_ID: " \u2047 "}.items():
            texts[token_id] = text  # as SentencePiece decodes them
        return cls(texts, {token_id: int(texts[token_id][1:-1], 16) for token_id in tokenizer.byte_ids()})

    @cached_property
    def word_beginnings(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The tokens that begin with a space, and those that begin with a letter without one."""
        spaced = [token_id for token_id, text in enumerate(self._texts) if text.startswith(" ")]
        glued = [token_id for token_id, text in enumerate(self._texts) if joins(text[:1])]
        return np.array(spaced, np.int64), np.array(glued, np.int64)

    def text(self, ids: Sequence[int]) -> str:
        """Return the text that the tokens spell, with unchanged spaces."""
        values = self._byte_values
        spelled = (bytes([values[i]]) if i in values else self._texts[i].encode("utf-8") for i in ids)
        return b"".join(spelled).decode("utf-8", "replace")

    def marked(self, ids: Sequence[int]) -> str:
        """Return the marked text of the tokens, with a mark at the end."""
        text, pending = "", b""
        for token_id in ids:
            text, pending = self.extend(text, token_id, pending)
        return text + EDGE

    def extend(self, text: str, token_id: int, pending: bytes = b"") -> tuple[str, bytes]:
        """Extend marked text, and the pending bytes of an unfinished character, by a token; return both."""
        value = self._byte_values.get(token_id)
        if value is not None:
            pending += bytes([value])
            try:
                return text + with_edges(pending.decode("utf-8"), text[-1:]), b""
            except UnicodeDecodeError as error:
                if error.reason == "unexpected end of data":
                    return text, pending
                return text + with_edges(pending.decode("utf-8", "replace"), text[-1:]), b""
        if pending:
            text += with_edges(pending.decode("utf-8", "replace"), text[-1:])
        before = text[-1:]
        context = token_id, "a" if joins(before) else before if before in ("", " ") else "."
        if context not in self._marked:
            self._marked[context] = with_edges(self._texts[token_id], before)
        return text + self._marked[context], b""


@dataclass(frozen=True)
class Form:
    """A way to write a phrase in tokens, which the search tries."""

    ids: tuple[int, ...]
    spaced: bool = True  # it begins with a space; if not, it can only follow a character outside a word: l'|orange
    opens: bool = False  # its first letter is a capital only to open a sentence


@dataclass(frozen=True)
class Phrase:
    """A required or forbidden text."""

    text: str
    forms: tuple[Form, ...] = ()  # at least one for a required phrase

    @classmethod
    def from_text(cls, text: str, tokenizer: Tokenizer, spelling: Spelling) -> "Phrase":
        """Make the phrase with the forms that the tokenizer gives it within a sentence. text: normalised."""
        forms = []
        for written in dict.fromkeys((text, capitalised(text))):
            opens = written != text
            forms.append(Form(tuple(tokenizer.encode(written)), opens=opens))
            bracketed = tokenizer.encode("(" + written)  # its pieces without a space before it
            for n in range(1, len(bracketed)):
                if spelling.text(bracketed[:n]).strip() == "(":
                    forms.append(Form(tuple(bracketed[n:]), spaced=False, opens=opens))
        return cls(text, tuple(dict.fromkeys(forms)))


@dataclass(frozen=True)
class Requirement:
    """Alternative phrases that must appear, in sum, at least `times` times; overlapping ones count once."""

    phrases: tuple[Phrase, ...]
    times: int = 1
    src_positions: tuple[int, ...] = ()  # the source tokens that the phrases translate, from 0; empty: unknown

    @cached_property
    def matcher(self) -> Matcher:
        """The matcher of the phrases."""
        return Matcher([phrase.text for phrase in self.phrases])

    @cached_property
    def forms(self) -> tuple[Form, ...]:
        """The forms of all the phrases."""
        return tuple(form for phrase in self.phrases for form in phrase.forms)

    @cached_property
    def _by_place(self) -> dict[tuple[bool, bool], dict[int, list[Form]]]:
        return {}

    def beginning(self, *, after_word: bool, opening: bool) -> Mapping[int, Sequence[Form]]:
        """Return the forms that can begin in a place, by their first token.

        after_word: after a character that is part of a word. opening: where a sentence may begin.
        """
        place = after_word, opening
        if place not in self._by_place:
            by_first: dict[int, list[Form]] = {}
            for form in self.forms:
                if (form.spaced or not after_word) and (opening or not form.opens):
                    by_first.setdefault(form.ids[0], []).append(form)
            self._by_place[place] = by_first
        return self._by_place[place]

    @cached_property
    def n_tokens(self) -> int:
        """The least number of tokens for one occurrence."""
        return min(len(form.ids) for form in self.forms)

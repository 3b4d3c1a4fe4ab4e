"""Characters as a reader sees them: split text into them, measure their width, and find invisible ones."""

import re
import unicodedata
from collections.abc import Iterator

ZERO_WIDTH_JOINER = "\u200d"
_JOINERS = f"\u200c{ZERO_WIDTH_JOINER}"  # which Persian, Hindi and emoji need
_LETTERS_ABOVE = "\N{THAI CHARACTER SARA AM}\N{LAO VOWEL SIGN AM}"  # vowel signs that Unicode counts as letters
# What shows nothing and no word needs: controls other than white space, soft hyphens, zero-width spaces, marks of
# direction with an end, word joiners and byte order marks. Cleaning and tokenizers drop these characters.
INVISIBLE = (
    "".join(
        map(
            chr,
            [*range(9), *range(0x0E, 0x1C), 0x7F, 0xAD, 0x200B, *range(0x202A, 0x202F), 0x2060, *range(0x2066, 0x206A)],
        )
    )
    + "\ufeff"
)
_INVISIBLE = re.compile(f"[{re.escape(INVISIBLE)}]")
_JOINED = re.compile(rf"{ZERO_WIDTH_JOINER}\W")  # the further pictures of an emoji, but no letter of Hindi
_FLAG_LETTERS = re.compile("[\U0001f1e6-\U0001f1ff]+\\Z")


def without_invisible(text: str) -> str:
    """Return the text without invisible characters; joiners, which some scripts need, stay."""
    return _INVISIBLE.sub("", text)


def without_accents(text: str) -> str:
    """Return the text without the accents on its letters; letters such as ø, which Unicode does not divide, stay."""
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))


def characters(text: str) -> Iterator[str]:
    """Split the text into the characters that a reader sees; joining them gives the text again.

    A simplification of Unicode's rule (UAX 29): marks, joiners, skin tones, tags and what follows a zero-width joiner
    stay with the character before them; regional indicators go in pairs.
    """
    start, n_flags = 0, 0
    for at in range(1, len(text)):
        n_flags = n_flags + 1 if _is_flag_letter(text[at - 1]) else 0
        joined = text[at - 1] == ZERO_WIDTH_JOINER and at - 1 > start
        if joined or belongs_to_previous(text[at]) or (_is_flag_letter(text[at]) and n_flags % 2 == 1):
            continue
        yield text[start:at]
        start = at
    if text:
        yield text[start:]


def tidied(text: str) -> str:
    """Return the text with composed characters (NFC), and with single spaces between words."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def divides_character(text: str, index: int) -> bool:
    """Return whether a split before text[index] divides a character that a reader sees."""
    if belongs_to_previous(text[index]) or text[index - 1] == ZERO_WIDTH_JOINER:
        return True
    if not _is_flag_letter(text[index]):
        return False
    before = _FLAG_LETTERS.search(text, 0, index)
    return before is not None and len(before[0]) % 2 == 1


def belongs_to_previous(character: str) -> bool:
    """Return whether a reader sees this as a part of the character before it, such as an accent."""
    if character.isascii():
        return False
    return (
        unicodedata.category(character).startswith("M")  # variation selectors are marks, too
        or character in _JOINERS
        or character in _LETTERS_ABOVE
        or _is_skin_tone(character)
        or "\U000e0020" <= character <= "\U000e007f"
    )


def _is_flag_letter(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def n_columns(text: str) -> int:
    """Return the width of a text in terminal columns: wide characters of East Asia and emoji take two."""
    if text.isascii():
        return len(text)
    shown = (c for c in _JOINED.sub("", text) if unicodedata.category(c) not in ("Mn", "Me", "Cf"))
    return sum(0 if _is_skin_tone(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in shown)


def _is_skin_tone(character: str) -> bool:
    return "\U0001f3fb" <= character <= "\U0001f3ff"


def is_control(character: str) -> bool:
    """Return whether a character is invisible and controls text; line ends and tabs do not count."""
    hidden = unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    return hidden and character not in "\n\t" and character not in _JOINERS

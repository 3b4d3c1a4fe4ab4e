"""Addresses in text: links, e-mail addresses, domains, and paths of Windows."""

import re
from functools import cache

from mtkit.text.words import UNSPACED

# What an address may hold but for brackets: no space, no quotation mark or apostrophe (www.x.com'da), and none of the
# scripts without spaces, of Korean or of full-width forms, whose words follow an address at once.
_CHARACTER = rf"[^\s<>\"“”„«»'’‘()\[\]{{}}{UNSPACED}\u3000-\u303f\uac00-\ud7af\uff00-\uff65\uffa0-\uffef]"
_BRACKETED = rf"[(\[{{]{_CHARACTER}*[)\]}}]"  # a bracket belongs to an address with its partner
_REST = rf"(?:{_CHARACTER}|{_BRACKETED})+(?<![.,;:!?…])"  # a mark at the end does not
_LATIN_GREEK_CYRILLIC = "A-Za-z\u00c0-\u024f\u0370-\u052f"
_NAME = rf"[{_LATIN_GREEK_CYRILLIC}0-9_-]{{1,63}}"  # bounded, because a line may be very long and have no spaces
_ENDINGS = "com|org|net|edu|gov|info|io|eu|de|fr|pt|br|es|it|nl|uk|ch|at|be|jp|cn|ru"
# Not that of B:\nGo, where a program wrote a line break: a capital, a space, the end or another one follows it.
PATH_START = r"[a-zA-Z]:\\(?![nrt](?:[A-Z\u00c0-\u00de\u0391-\u03ab\u0410-\u042f]|\\[nrt]|\s|\Z))"
ADDRESS = (
    rf"(?i:https?://|ftp://|www\.){_REST}"
    rf"|[{_LATIN_GREEK_CYRILLIC}0-9_.+-]{{1,64}}@{_NAME}(?:\.{_NAME}){{1,5}}"
    rf"|(?<![{_LATIN_GREEK_CYRILLIC}0-9_@.-])(?:{_NAME}\.){{1,5}}(?:{_ENDINGS})(?![{_LATIN_GREEK_CYRILLIC}0-9_])"
    rf"(?:/(?:{_REST})?)?"
    rf"|(?<![{_LATIN_GREEK_CYRILLIC}0-9_]){PATH_START}{_REST}"
)
# Without such a part, a line has none.
_MAYBE = re.compile(rf"@|:\\|\.[{_LATIN_GREEK_CYRILLIC}0-9_-]|://|(?i:www\.)")


@cache
def _address() -> re.Pattern[str]:
    """Compile ADDRESS when a text first needs it, because that takes 10 ms."""
    return re.compile(ADDRESS)


def addresses_in(text: str) -> list[str]:
    """Return the addresses in a text, without the marks behind them."""
    return _address().findall(text) if _MAYBE.search(text) else []


def without_addresses(text: str) -> str:
    """Replace each address by a space."""
    return _address().sub(" ", text) if _MAYBE.search(text) else text

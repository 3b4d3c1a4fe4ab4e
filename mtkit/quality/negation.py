"""Detect negation in a text by the negating words of its language.

A rule of thumb: it misses irony, prefixes (unhappy) and prepositions (without). French "personne" and "plus" negate
only together with "ne", which the rule finds.
"""

import re

from mtkit.languages import primary_code

_WORDS = {
    "en": r"not|no|never|nothing|nobody|none|neither|nor|nowhere|cannot|\w+n['’]t",
    "de": r"nicht|nichts|nie|niemals|niemand\w*|kein\w*|nirgends|nirgendwo|weder|nein",
    "fr": r"ne|n['’]\w+|pas|jamais|rien|aucune?|nulle|ni|non",
    "es": r"no|nunca|jamás|nada|nadie|ning[uú]n\w*|ni|tampoco",
    "pt": r"não|nunca|jamais|nada|ninguém|nenhum\w*|nem|tampouco",
    "it": r"non|no|mai|niente|nulla|nessun\w*|né|neppure|nemmeno|neanche",
    "nl": r"niet|nee|geen|nooit|niets|niemand|nergens|noch",
}
_PATTERNS = {lang: re.compile(rf"(?<![\w'’])(?:{words})(?!\w)", re.IGNORECASE) for lang, words in _WORDS.items()}
LANGUAGES = frozenset(_PATTERNS)


def has_negation(text: str, lang: str) -> bool | None:
    """Return whether the text contains a negating word; None for a language (such as "sv") not covered here."""
    pattern = _PATTERNS.get(primary_code(lang))
    return None if pattern is None else pattern.search(text) is not None


def without_negation(text: str, lang: str) -> str | None:
    """Return the text without its negating words; None if it has none, or for a language not covered here.

    The rest is only roughly a sentence: "I don't know" becomes "I do know", "je ne sais pas" "je sais".
    """
    pattern = _PATTERNS.get(primary_code(lang))
    if pattern is None or not pattern.search(text):
        return None
    return re.sub(rf"(\s*){pattern.pattern}", _affirmed, text, flags=re.IGNORECASE).strip()


def _affirmed(negation: re.Match[str]) -> str:
    """Return the rest of a negating word without its negation, after a space if there is a rest."""
    space, word = negation[1], negation[0].strip()
    is_title, word = word[0].isupper(), word.lower()
    left = _AFFIRMED.get(word, "")
    if contraction := re.fullmatch(r"(\w+)n['’]t", word):
        left = {"ca": "can", "wo": "will", "sha": "shall"}.get(contraction[1], contraction[1])
    elif elided := re.fullmatch(r"n['’](\w+)", word):
        left = elided[1]
    elif article := re.fullmatch(r"kein(\w*)", word):
        left = f"ein{article[1]}"
    return space + (left[:1].upper() + left[1:] if is_title else left) if left else ""


_AFFIRMED = {
    "cannot": "can",
    "never": "always",
    "nothing": "everything",
    "nobody": "everybody",
    "nichts": "alles",
    "niemand": "jeder",
    "nie": "immer",
    "niemals": "immer",
    "jamais": "toujours",
    "rien": "tout",
    "nunca": "siempre",
    "nadie": "todos",
    "nada": "todo",
    "mai": "sempre",
    "niente": "tutto",
    "nooit": "altijd",
    "niets": "alles",
    "geen": "een",
}

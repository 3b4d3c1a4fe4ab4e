"""Detect negation in a text by the negating words of its language.

A rule of thumb: it misses irony, prefixes (unhappy) and prepositions (without). French "personne" and "plus" negate
only together with "ne", which the rule does find.
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

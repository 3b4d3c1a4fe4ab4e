"""Does a text deny something? A text and its language in, yes or no out, by the words that deny in this language.

A rule of thumb: irony, prefixes (unhappy) and prepositions (without) are not seen, and French "personne" and "plus",
which deny only together with "ne", count only with it.
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
    """Whether the text holds a word that denies; None if those of the language (such as "fr") are not known here."""
    pattern = _PATTERNS.get(primary_code(lang))
    return None if pattern is None else pattern.search(text) is not None

"""Misspell words as people do who type."""

import re
from collections.abc import Sequence
from functools import cache
from random import Random

from mtkit.languages import primary_code
from mtkit.text.scripts import scripts_of

SHORTEST = 3  # letters of a word in which a typo can be told from another word
# Letters that keys write one by one: Latin to Arabic, Georgian, and Latin and Greek with accents.
TYPED = re.compile(r"[^\W\d_\u0700-\u109f\u1100-\u1dff\u2000-\U0010ffff]+(?:['’][^\W\d_\u0700-\U0010ffff]+)*")
# The rows of letters of keyboards by script and, where they differ, by language; each row begins further to the right.
_QWERTZ = "qwertzuiop", "asdfghjkl", "yxcvbnm"
_ROWS = {
    "Latin": ("qwertyuiop", "asdfghjkl", "zxcvbnm"),
    "Cyrillic": ("йцукенгшщзхъ", "фывапролджэ", "ячсмитьбю"),
    "Greek": (" ςερτυθιοπ", "ασδφγηξκλ", "ζχψωβνμ"),
    **dict.fromkeys(("de", "cs", "sk", "sl", "hr", "hu", "sq"), _QWERTZ),
    "fr": ("azertyuiop", "qsdfghjklm", "wxcvbn"),
}


def misspelt(word: str, random: Random, lang: str | None) -> str:
    """Return a word with one typo; the first letter stays, because people rarely get it wrong."""
    i = random.randrange(1, len(word))
    before, letter, after = word[:i], word[i], word[i + 1 :]
    kind = random.choice(("neighbour", "doubled", "missing", "swapped"))
    if kind == "neighbour" and (keys := _neighbours(lang).get(letter.lower())):
        key = random.choice(keys)
        return before + (key.upper() if letter.isupper() else key) + after
    if kind == "doubled":
        return before + 2 * letter + after
    if kind == "swapped" and after and letter != after[0]:
        return before + after[0] + letter + after[1:]
    return before + after


@cache
def _neighbours(lang: str | None) -> dict[str, str]:
    """Return the keys around each key on the keyboard of a language; {} if mtkit does not know it."""
    script = (scripts_of(lang) or ("Latin",))[0]
    rows: Sequence[str] = _ROWS.get(primary_code(lang or "")) or _ROWS.get(script) or ()
    keys = {(row, i): key for row, letters in enumerate(rows) for i, key in enumerate(letters) if key != " "}
    steps = (0, -1), (0, 1), (1, -1), (1, 0), (-1, 0), (-1, 1)
    return {
        key: "".join(keys[place] for down, right in steps if (place := (row + down, i + right)) in keys)
        for (row, i), key in keys.items()
    }

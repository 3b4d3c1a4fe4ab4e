"""The scripts of languages, and the characters of each script."""

import sys
import unicodedata
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt

from mtkit.languages import primary_code
from mtkit.text.words import WIDE

# Blocks of letters of each script, by first and last code point (Unicode's Blocks.txt).
_BLOCKS: dict[str, tuple[tuple[int, int], ...]] = {
    "Latin": (
        *((0x41, 0x2AF), (0x1D00, 0x1DBF), (0x1E00, 0x1EFF), (0x2C60, 0x2C7F), (0xA720, 0xA7FF), (0xAB30, 0xAB6F)),
        *((0xFB00, 0xFB06), (0xFF21, 0xFF5A)),
    ),
    "Greek": ((0x370, 0x3FF), (0x1F00, 0x1FFF)),
    "Cyrillic": ((0x400, 0x52F), (0x1C80, 0x1C8F), (0x2DE0, 0x2DFF), (0xA640, 0xA69F)),
    "Armenian": ((0x530, 0x58F), (0xFB13, 0xFB17)),
    "Hebrew": ((0x590, 0x5FF), (0xFB1D, 0xFB4F)),
    "Arabic": ((0x600, 0x6FF), (0x750, 0x77F), (0x870, 0x8FF), (0xFB50, 0xFDFF), (0xFE70, 0xFEFE)),
    "Devanagari": ((0x900, 0x97F), (0xA8E0, 0xA8FF)),
    "Bengali": ((0x980, 0x9FF),),
    "Gurmukhi": ((0xA00, 0xA7F),),
    "Gujarati": ((0xA80, 0xAFF),),
    "Oriya": ((0xB00, 0xB7F),),
    "Tamil": ((0xB80, 0xBFF),),
    "Telugu": ((0xC00, 0xC7F),),
    "Kannada": ((0xC80, 0xCFF),),
    "Malayalam": ((0xD00, 0xD7F),),
    "Sinhala": ((0xD80, 0xDFF),),
    "Thai": ((0xE00, 0xE7F),),
    "Lao": ((0xE80, 0xEFF),),
    "Tibetan": ((0xF00, 0xFFF),),
    "Myanmar": ((0x1000, 0x109F), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F)),
    "Georgian": ((0x10A0, 0x10FF), (0x1C90, 0x1CBF), (0x2D00, 0x2D2F)),
    "Hangul": ((0x1100, 0x11FF), (0x3130, 0x318F), (0xA960, 0xA97F), (0xAC00, 0xD7FF)),
    "Ethiopic": ((0x1200, 0x139F), (0x2D80, 0x2DDF)),
    "Khmer": ((0x1780, 0x17FF),),
    "Kana": ((0x3040, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9F)),
    "Han": ((0x3005, 0x3007), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF)),
}
# Languages by script; the keys name one script or several. Languages that are not here and unambiguous are Latin.
_LANGUAGES = {
    "Greek": "el",
    "Cyrillic": "ru uk bg be mk kk ky mn tg tt ba cv os ce",
    "Latin Cyrillic": "sr sh uz az tk bs",
    "Armenian": "hy",
    "Hebrew": "he iw yi",
    "Arabic": "ar fa ur ps ug sd ckb",
    "Latin Arabic": "ku",
    "Devanagari": "hi mr ne sa bho mai",
    "Bengali": "bn as",
    "Gurmukhi Arabic": "pa",
    "Gujarati": "gu",
    "Oriya": "or",
    "Tamil": "ta",
    "Telugu": "te",
    "Kannada": "kn",
    "Malayalam": "ml",
    "Sinhala": "si",
    "Thai": "th",
    "Lao": "lo",
    "Tibetan": "bo dz",
    "Myanmar": "my",
    "Georgian": "ka",
    "Hangul Han": "ko",
    "Ethiopic": "am ti",
    "Khmer": "km",
    "Kana Han": "ja jpn",
    "Han": "zh zho cmn yue wuu lzh",
    "Latin": "af an ast br bs ca co cs cy da de en eo es et eu fi fo fr fy ga gd gl gv ha haw hr ht hu id ig io is it "
    "jv kl la lb lg li ln lt lv mg mi ms mt nb nds nl nn no nv oc om pap pl pt qu rm rn ro rw sc se sk sl sm sn so sq "
    "ss st su sv sw tet tl tn to tr ts ve vi vo wa wo xh yo zu fil ceb",
}
_ISO_15924 = {
    **{"Latn": "Latin", "Grek": "Greek", "Cyrl": "Cyrillic", "Arab": "Arabic", "Deva": "Devanagari", "Hebr": "Hebrew"},
    **{"Hans": "Han", "Hant": "Han", "Hang": "Hangul Han", "Jpan": "Kana Han"},
}
LETTER, SPACE, DIGIT, BROKEN = 1, 2, 4, 8  # bits of character_kinds
_N_CODES = sys.maxunicode + 1


@lru_cache(maxsize=256)
def scripts_of(code: str | None) -> tuple[str, ...]:
    """Return the scripts that a language is written in: ("Kana", "Han") for ja; () for an unknown language."""
    for part in (code or "").replace("_", "-").split("-")[1:]:
        if part.title() in _ISO_15924:
            return tuple(_ISO_15924[part.title()].split())
    return _scripts_by_language().get(primary_code(code), ())


@cache
def _scripts_by_language() -> dict[str, tuple[str, ...]]:
    return {code: tuple(scripts.split()) for scripts, codes in _LANGUAGES.items() for code in codes.split()}


@cache
def letters_in(scripts: tuple[str, ...]) -> npt.NDArray[np.bool_]:
    """Return whether each code point is a letter of one of the scripts."""
    mask = np.zeros(_N_CODES, np.bool_)
    for script in scripts:
        for first, last in _BLOCKS[script]:
            mask[first : last + 1] = True
    mask &= character_kinds() & LETTER != 0
    return mask


def is_in_another_script(text: str, code: str | None) -> bool:
    """Return whether a text is in scripts that a language is not written in; False for an unknown language.

    Text in any script may contain Latin names. So for a language in Latin script, more than 40 % of the letters must be
    Latin; for any other language, a single letter of its script suffices.
    """
    scripts = scripts_of(code)
    if not scripts or ("Latin" in scripts and text.isascii()):
        return False
    letters = [character for character in text if character.isalpha()]
    is_own = letters_in(scripts)
    n_own = sum(bool(is_own[ord(letter)]) for letter in letters)
    return bool(letters) and n_own <= (0.4 * len(letters) if "Latin" in scripts else 0)


@cache
def character_kinds() -> npt.NDArray[np.uint8]:
    """Return the kind of each code point, as bits: LETTER (with the marks on letters), SPACE, DIGIT, BROKEN.

    BROKEN: what a wrong encoding leaves: U+FFFD, C1 controls, private characters, halves of surrogate pairs.
    """
    kinds = np.zeros(_N_CODES, np.uint8)
    kinds[0xF0000:] = BROKEN  # private planes
    bits = {"L": LETTER, "M": LETTER, "Z": SPACE, "Nd": DIGIT, "Co": BROKEN, "Cs": BROKEN}
    for code in range(0x40000):
        category = unicodedata.category(chr(code))
        kinds[code] = bits.get(category[0]) or bits.get(category, 0)
    kinds[0x80:0xA0] = BROKEN
    kinds[[9, 10, 11, 12, 13, 0x1C, 0x1D, 0x1E, 0x1F, 0x85]] = SPACE
    kinds[0xFFFD] = BROKEN
    return kinds


@cache
def letter_weights() -> npt.NDArray[np.uint8]:
    """Return the number of letters that each code point counts as in words.n_letters."""
    weights = np.ones(_N_CODES, np.uint8)
    for characters, weight in WIDE:
        for first, last in zip(characters[::3], characters[2::3], strict=True):
            weights[ord(first) : ord(last) + 1] = weight
    return weights

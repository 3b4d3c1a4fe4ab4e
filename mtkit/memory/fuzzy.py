"""Score how nearly a sentence equals one of a translation memory, in the field's fuzzy-match scores."""

import hashlib
import unicodedata
from collections.abc import Hashable, Sequence

from mtkit.text.near_texts import squeezed
from mtkit.text.words import word_spans

EXACT = 1.0
_HIGHEST_INEXACT = 0.99


def normalized(text: str) -> str:
    """Return the text as a memory compares it: composed (NFC), with one space for each run of white space."""
    return squeezed(text if text.isascii() else unicodedata.normalize("NFC", text))


def exact_key(text: str) -> bytes:
    """Return what two normalised texts share only if they are equal."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def tokens_of(text: str) -> list[str]:
    """Return the words, numbers and punctuation marks of a normalised text; case matters."""
    return [text[start:end] for start, end in word_spans(text)]


def fuzzy_score(one: Sequence[Hashable], other: Sequence[Hashable], least: float = 0.0) -> float:
    """Return the fuzzy-match score of two texts that differ, given their tokens; 0 if it is below `least`.

    The score is 1 - d / n: d is the edit distance in tokens, n the number of tokens of the longer text (Bulte and
    Tezcan 2019, section 3.1). Only equal texts score 1, so texts that differ only in spaces score 0.99.
    """
    from rapidfuzz.distance import Levenshtein  # here, because most commands use no memory

    longer = max(len(one), len(other), 1)
    most = int((1 - least) * longer + 1e-9)
    distance = Levenshtein.distance(one, other, score_cutoff=most)
    return 0.0 if distance > most else min(_HIGHEST_INEXACT, 1 - distance / longer)

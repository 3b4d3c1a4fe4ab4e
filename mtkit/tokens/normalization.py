"""The rules by which tokenizers normalise text: tables for SentencePiece that are stored in the tokenizer's file."""

import itertools
import tempfile
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import sentencepiece

from mtkit.config.tokenizer import Normalization
from mtkit.text.characters import INVISIBLE

# Decompositions of Unicode that only change how a character is drawn, not what it means. Others do change the meaning:
# of superscripts, fractions, circled numbers or the letters of mathematics.
_SAME_MEANING = ("<wide>", "<narrow>", "<initial>", "<medial>", "<final>", "<isolated>")
_LIGATURES = "\ufb00\ufb01\ufb02\ufb03\ufb04\ufb05\ufb06\ufb13\ufb14\ufb15\ufb16\ufb17"  # of Latin and Armenian letters
# Compatibility characters and compositions lie in these planes: of the basic and supplementary scripts, and ideographs.
_LAST = 0x2FFFF


@contextmanager
def trainer_options(rule: Normalization) -> Iterator[dict[str, Any]]:
    """Yield the arguments for SentencePiece's trainer that make it normalise by the rule."""
    if rule not in _TABLES:
        yield {"normalization_rule_name": rule, "remove_extra_whitespaces": rule != "identity"}
        return
    with tempfile.TemporaryDirectory() as folder:
        sentencepiece.set_min_log_level(2)  # errors raise exceptions; it would log each table that it reads
        path = Path(folder, "rule.tsv")
        path.write_text(_as_tsv(rule), encoding="utf-8")
        yield {"normalization_rule_tsv": str(path), "remove_extra_whitespaces": True}


def normalizer(rule: Normalization) -> Callable[[str], str]:
    """Return the function by which a tokenizer with this rule changes the characters inside a text."""
    if rule == "identity":
        return str
    with trainer_options(rule) as options:
        names = {key.removeprefix("normalization_"): value for key, value in options.items()}
        normalize: Callable[[str], str] = sentencepiece.SentencePieceNormalizer(
            **names | {"remove_extra_whitespaces": False}, add_dummy_prefix=False, escape_whitespaces=False
        ).normalize
    return normalize


@cache
def _as_tsv(rule: Normalization) -> str:
    return "".join(f"{_code_points(text)}\t{_code_points(becomes)}\n" for text, becomes in _TABLES[rule]().items())


def _code_points(text: str) -> str:
    return " ".join(f"{ord(character):X}" for character in text)


@cache
def _faithful() -> Mapping[str, str]:
    """Return the table of `nfc`: compose letters and accents, make all white space spaces, drop invisible characters.

    Accents that have no composed letter keep their order, so a result is canonically equivalent to the text, but it is
    not always in the form NFC.
    """
    table = {character: "" for character in INVISIBLE if character != "\0"}  # which ends a key of the table
    table |= {chr(n): " " for n in range(0x3001) if chr(n).isspace() and chr(n) != " "}
    for letter in _characters_where(lambda c: unicodedata.normalize("NFD", c) != c):
        composed, decomposed = (unicodedata.normalize(form, letter) for form in ("NFC", "NFD"))
        forms = {letter, *_equivalents(decomposed)}
        table |= dict.fromkeys(sorted(forms - {composed}), composed)
    return table


def _equivalents(decomposed: str) -> Iterator[str]:
    """Yield the texts for one composed letter: its accents in any order that means the same, composed up to any."""
    for order in itertools.permutations(decomposed[1:]):
        accents = "".join(order)
        if unicodedata.normalize("NFD", decomposed[0] + accents) == decomposed:
            for n_composed in range(len(accents) + 1):
                yield unicodedata.normalize("NFC", decomposed[0] + accents[:n_composed]) + accents[n_composed:]


def _plain_forms() -> dict[str, str]:
    """Return the table of `nfc_forms`: that of `nfc`, and forms of letters that mean the same as plain letters."""
    table = dict(_faithful())
    forms = _characters_where(lambda c: c in _LIGATURES or unicodedata.decomposition(c).startswith(_SAME_MEANING))
    for form in forms:
        for text in (form, form + "\uff9e", form + "\uff9f"):  # alone, and before the voice marks of half-width kana
            plain = unicodedata.normalize("NFKC", text)
            if not plain.startswith(" ") and (text == form or len(plain) == 1):  # a mark above a space stays
                table[text] = plain
    return table


def _characters_where(test: Callable[[str], bool]) -> list[str]:
    return list(filter(test, map(chr, range(0x80, _LAST))))


_TABLES: dict[Normalization, Callable[[], Mapping[str, str]]] = {"nfc": _faithful, "nfc_forms": _plain_forms}

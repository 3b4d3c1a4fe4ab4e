"""The rules of `mtkit data clean`: each says which pairs of a window it would drop, and why.

Each rule is a function of a window and the settings, without state, so a pair's verdict does not depend on how a corpus
is cut into windows (in the rule `language`, with its blocks of neighbours, if no cut divides a block).
"""

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from mtkit.config.cleaning import CleanConfig
from mtkit.console import shortened
from mtkit.corpora.cleaning.window import Lines, Window
from mtkit.languages import WITHOUT_SPACES, primary_code
from mtkit.quality.faults import find_loop, is_copy, lost_urls
from mtkit.quality.language import foreign_lines
from mtkit.quality.numbers import lost_numbers
from mtkit.text.addresses import without_addresses
from mtkit.text.inline_tags import tag_names
from mtkit.text.placeholders import placeholder_pattern_in_line
from mtkit.text.scripts import DIGIT, LETTER, SPACE, scripts_of
from mtkit.text.words import words_of

Verdicts = Mapping[int, str]  # by index of each pair that the rule would drop: the value, as a person reads it
Rule = Callable[[Window, CleanConfig], Verdicts]

_FEW_LETTERS = 3  # below it, shares of letters say nothing
_SHORT_TERM = 2.0  # see max_length_ratio
_ADDRESS_OR_PATH = re.compile(r"://|www\.|@|/|\\|\.[a-z]{2,}", re.IGNORECASE)
_TELEPHONE = re.compile(r"\(?\d[\d\s().,:/-]{3,22}\d")
_MOST_SHOWN = 60  # characters of a value
_POSITION = re.compile(r"%\d+\$")  # of a placeholder that says which value it takes, such as %2$s
_UNNUMBERED = re.compile(r"%[^%(<{]")
_IN_BRACKETS = re.compile(r"<([^\W\d_][\w .-]{0,60})>")
_TYPED = "<...>"
_ELEMENT = re.compile(  # of HTML
    r"a|b|big|blockquote|br|center|code|dd|del|div|dl|dt|em|font|h[1-6r]|i|img|ins|kbd|li|ol|p|pre|q|s|small|span|strike"
    r"|strong|su[bp]|table|tbody|t[dhrt]|thead|ul?|wbr",
    re.IGNORECASE,
)
_MAYBE_COPIED = 0.5  # share of the target's words, below which it cannot be a copy
_LONGEST_PERIOD = 40  # tokens


def empty(window: Window, cfg: CleanConfig) -> Verdicts:
    """Drop pairs with a side without letters and digits, or without text at all."""
    verdicts: dict[int, str] = {}
    for side, name in _sides(window):
        blank = side.count(side.kinds & (LETTER | DIGIT) != 0) == 0
        verdicts.update(
            (i, f"{name}: {shortened(side.texts[i], _MOST_SHOWN)}".strip()) for i in np.flatnonzero(blank).tolist()
        )
    return verdicts


def encoding(window: Window, cfg: CleanConfig) -> Verdicts:
    """Drop pairs with characters that a wrong encoding left."""
    return _where(window, lambda side: side.n_broken > 0, lambda side, i: f"{side.n_broken[i]} characters")


def max_letters(window: Window, cfg: CleanConfig) -> Verdicts:
    """Drop pairs with a long side."""
    limit = cfg.max_letters or math.inf
    return _where(window, lambda side: side.n_letters > limit, lambda side, i: f"{side.n_letters[i]} letters")


def max_word_letters(window: Window, cfg: CleanConfig) -> Verdicts:
    """Drop pairs with a long word that is not an address."""
    assert cfg.max_word_letters is not None
    verdicts: dict[int, str] = {}
    for side, name in _sides(window):
        if primary_code(side.lang) in WITHOUT_SPACES:
            continue
        for i in side.with_run(side.kinds & SPACE == 0, cfg.max_word_letters):
            word = max((w for w in side.texts[i].split() if not _ADDRESS_OR_PATH.search(w)), key=len, default="")
            if len(word) > cfg.max_word_letters:
                verdicts.setdefault(i, f"{name}: {len(word)} in {shortened(word, _MOST_SHOWN)}")
    return verdicts


def max_length_ratio(window: Window, cfg: CleanConfig) -> Verdicts:
    """Drop pairs with one side much longer than the other."""
    assert cfg.max_length_ratio is not None
    n_src, n_tgt = np.maximum(window.src.n_letters, 1), np.maximum(window.tgt.n_letters, 1)
    shorter, longer = np.minimum(n_src, n_tgt), np.maximum(n_src, n_tgt)
    ratios = longer / shorter
    long = ratios > cfg.max_length_ratio * np.exp(_SHORT_TERM / np.sqrt(shorter))
    return {int(i): f"{ratios[i]:.2f}" for i in np.flatnonzero(long)}


def min_letters_share(window: Window, cfg: CleanConfig) -> Verdicts:
    """Drop pairs with a side that is mostly digits and marks."""
    assert cfg.min_letters_share is not None
    verdicts: dict[int, str] = {}
    for side, name in _sides(window):
        share = side.n_alphabetic / np.maximum(side.n_visible, 1)
        few = np.flatnonzero((share < cfg.min_letters_share) & (side.n_visible > 0)).tolist()
        short = Lines([_TELEPHONE.sub("0", side.texts[i]) for i in few], side.lang)  # Tel. 030 1234567: a line of text
        still_few = short.n_alphabetic < cfg.min_letters_share * short.n_visible
        verdicts.update((i, f"{name}: {share[i]:.2f}") for i, still in zip(few, still_few, strict=True) if still)
    return verdicts


def min_script_share(window: Window, cfg: CleanConfig) -> Verdicts:
    """Drop pairs with a side in another script than its language's."""
    assert cfg.min_script_share is not None
    verdicts: dict[int, str] = {}
    for side, name in _sides(window):
        names = scripts_of(side.lang)
        if not names:
            continue
        share = side.n_in(names) / np.maximum(side.n_alphabetic, 1)
        wrong = (share < cfg.min_script_share) & (side.n_alphabetic >= _FEW_LETTERS)
        candidates = np.flatnonzero(wrong).tolist()
        bare = Lines([without_addresses(side.texts[i]) for i in candidates], side.lang)  # they are Latin
        is_mixed = bare.n_in(names) < cfg.min_script_share * bare.n_alphabetic
        verdicts.update(
            (i, f"{name}: {share[i]:.2f} {'/'.join(names)}")
            for i, still in zip(candidates, is_mixed & (bare.n_alphabetic >= _FEW_LETTERS), strict=True)
            if still
        )
    return verdicts


def language(window: Window, cfg: CleanConfig) -> Verdicts:
    """Drop pairs with a side in another language."""
    verdicts: dict[int, str] = {}
    other = {window.src: window.tgt.lang, window.tgt: window.src.lang}
    for side, name in _sides(window):
        for i, lang in foreign_lines(side.texts, side.lang, other[side], window.places).items():
            verdicts.setdefault(i, f"{name}: {lang}")
    return verdicts


def copies(window: Window, cfg: CleanConfig) -> Verdicts:
    """Drop pairs of which one side is a copy of the other."""
    verdicts: dict[int, str] = {}
    for i, (src, tgt) in enumerate(zip(window.src.words, window.tgt.words, strict=True)):
        known = set(src)
        if known.isdisjoint(tgt) or sum(word in known for word in tgt) < _MAYBE_COPIED * len(tgt):
            continue
        src_text, tgt_text = window.src.texts[i], window.tgt.texts[i]
        if is_copy(words_of(without_addresses(src_text)), words_of(without_addresses(tgt_text))):
            verdicts[i] = "same" if src == tgt else "nearly the same"
    return verdicts


def numbers(window: Window, cfg: CleanConfig) -> Verdicts:
    """Drop pairs with a number that the other side has in no form."""
    verdicts: dict[int, str] = {}
    with_digits = {i for side, _ in _sides(window) for i in side.holding(side.kinds & DIGIT != 0)}
    src_lang, tgt_lang = window.src.lang, window.tgt.lang
    for i in sorted(with_digits):
        src, tgt = window.src.texts[i], window.tgt.texts[i]
        if sorted(re.findall(r"\d+", src)) == sorted(re.findall(r"\d+", tgt)):
            continue
        src, tgt = (_POSITION.sub("%", without_addresses(text)) for text in (src, tgt))
        lost, added = lost_numbers(src, tgt, tgt_lang=tgt_lang), lost_numbers(tgt, src, tgt_lang=src_lang)
        if lost or added:
            verdicts[i] = _only(lost, added)
    return verdicts


def urls(window: Window, cfg: CleanConfig) -> Verdicts:
    """Drop pairs with an address that the other side does not have."""
    verdicts: dict[int, str] = {}
    candidates = set()
    for side, _ in _sides(window):
        characters = side.characters
        follows = np.zeros(len(characters), np.bool_)
        follows[:-1] = (characters[:-1] == ord(".")) & (side.kinds[1:] & LETTER != 0)
        follows[:-1] |= (characters[:-1] == ord(":")) & (characters[1:] == ord("/"))
        candidates.update(side.holding(follows | (characters == ord("@"))))
    for i in sorted(candidates):
        src, tgt = window.src.texts[i], window.tgt.texts[i]
        lost, added = lost_urls(src, tgt), lost_urls(tgt, src)
        if lost or added:
            verdicts[i] = _only(lost, added)
    return verdicts


def placeholders(window: Window, cfg: CleanConfig) -> Verdicts:
    """Drop pairs with different placeholders of programs."""

    def placeholders_of(text: str, other: str) -> Counter[str]:
        found = [match[0] for match in placeholder_pattern_in_line().finditer(text)]
        found = [part for part in found if not _is_percentage(part, other)]
        return Counter(_numbered(found) if _POSITION.search(other) else found)

    return _differing(window, "%{$", placeholders_of)


def _numbered(placeholders: list[str]) -> list[str]:
    """Return "%s %d" as "%1$s %2$d", which other languages reorder; unchanged if one has a number already."""
    if any(_POSITION.match(part) for part in placeholders):
        return placeholders
    numbers = itertools.count(1)
    return [f"%{next(numbers)}${part[1:]}" if _UNNUMBERED.match(part) else part for part in placeholders]


def _is_percentage(placeholder: str, other: str) -> bool:
    """Return whether %5 means 5 %, as in Turkish and Basque, because the other side has a plain 5."""
    number = placeholder[1:]
    return number.isdecimal() and bool(re.search(rf"(?<![\d%]){number}(?!\d)", other))


def tags(window: Window, cfg: CleanConfig) -> Verdicts:
    """Drop pairs with different markup, whatever its attributes.

    A word in angle brackets, such as the <file> of "add <file>", stands for what the user types, and is translated.
    """

    def tags_of(text: str, other: str) -> Counter[str]:
        typed = [match[1] for match in _IN_BRACKETS.finditer(text) if _is_typed(match[1], text)]
        markup = Counter(tag_names(text)) - Counter(f"<{word.split()[0].lower()}>" for word in typed)
        return markup + Counter({_TYPED: len(typed)})

    return _differing(window, "<", tags_of)


def _is_typed(word: str, text: str) -> bool:
    """Return whether a word in angle brackets stands for what the user types: no element of HTML, nothing closes it."""
    return not _ELEMENT.fullmatch(word) and f"</{word}>" not in text


def repetition(window: Window, cfg: CleanConfig) -> Verdicts:
    """Drop pairs in which one side repeats words or characters as the other does not."""
    verdicts: dict[int, str] = {}
    for (side, name), other in zip(_sides(window), reversed(window.sides), strict=True):
        for i in sorted({*side.with_repeated_words(_LONGEST_PERIOD), *side.with_repeated_characters()}):
            if loops := find_loop(other.texts[i], side.texts[i]):
                verdicts.setdefault(i, f"{name}: {shortened(loops[0].detail, _MOST_SHOWN)}")
    return verdicts


def min_score(window: Window, cfg: CleanConfig) -> Verdicts:
    """Drop pairs with a low score."""
    if window.scores is None or cfg.min_score is None:
        return {}
    return {i: f"{score:g}" for i, score in enumerate(window.scores) if score < cfg.min_score}


# In the order in which they apply; each but `empty` has the name of the key that switches it off.
RULES: dict[str, Rule] = {
    rule.__name__: rule
    for rule in (
        *(empty, encoding, max_letters, max_word_letters, max_length_ratio, min_letters_share, min_script_share),
        *(language, copies, numbers, urls, placeholders, tags, repetition, min_score),
    )
}


# What they compare, text in the source language alone does not have.
OF_TWO_SIDES = {rule.__name__ for rule in (max_length_ratio, copies, numbers, urls, placeholders, tags, repetition)}


def active_rules(cfg: CleanConfig) -> list[str]:
    """Return the names of the rules that the settings do not switch off."""
    always = ("empty", "max_letters")  # without a limit of the config, max_letters still drops what is not a sentence
    return [name for name in RULES if name in always or getattr(cfg, name) not in (None, False)]


def _sides(window: Window) -> Iterator[tuple[Lines, str]]:
    yield from zip(window.sides, ("source", "target"), strict=False)


def _where(
    window: Window,
    is_wrong: Callable[[Lines], "np.ndarray[tuple[int], np.dtype[np.bool_]]"],
    value: Callable[[Lines, int], str],
) -> Verdicts:
    verdicts: dict[int, str] = {}
    for side, name in _sides(window):
        for i in np.flatnonzero(is_wrong(side)).tolist():
            verdicts.setdefault(i, f"{name}: {value(side, i)}")
    return verdicts


def _differing(window: Window, marks: str, parts_of: Callable[[str, str], Counter[str]]) -> Verdicts:
    """Drop pairs whose sides differ in these parts, looking only at lines with one of the marks.

    parts_of: returns those of a text; its second argument is the text of the other side.
    """
    verdicts: dict[int, str] = {}
    codes = np.array([ord(mark) for mark in marks], np.uint32)
    for i in sorted({i for side, _ in _sides(window) for i in side.holding(np.isin(side.characters, codes))}):
        texts = window.src.texts[i], window.tgt.texts[i]
        src, tgt = parts_of(*texts), parts_of(*reversed(texts))
        if src != tgt:
            verdicts[i] = _only(list((src - tgt).elements()), list((tgt - src).elements()))
    return verdicts


def _only(lost: list[str], added: list[str]) -> str:
    """Return what only one side has, as text."""
    sides = (("source", lost), ("target", added))
    return "; ".join(f"{name} only: {shortened(' '.join(parts), _MOST_SHOWN)}" for name, parts in sides if parts)

"""Make wrong translations from right ones, so that a pair classifier can learn to tell them apart.

Each kind of mistake is one small change of a pair, such as another number or a lost end. A change that finds nothing to
work on returns None, and another kind is drawn. The seed and a pair's index fix its mistake.
"""

import random
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from mtkit.languages import WITHOUT_SPACES, primary_code
from mtkit.pair_files.pairs import Languages
from mtkit.quality.negation import without_negation
from mtkit.text.sentences import final_marks
from mtkit.text.words import LETTERS

Texts = tuple[str, str]  # source and target
_NEAR_LENGTH = 50  # pairs before and after, ordered by the target's length, from which "unrelated" draws
_WORD_LETTERS = 4  # of words that make two targets similar
_RARE = 300  # pairs with a word that makes two targets similar, at most
_TRIES = 10
_NUMBER = re.compile(r"\d+")
_WORD = re.compile(LETTERS)


class Mistakes:
    """Makes mistakes in the pairs of a sample, which it keeps in memory."""

    def __init__(self, pairs: Sequence[Texts], langs: Languages, seed: int) -> None:
        """pairs: right translations; langs: their languages, which tell words and negations."""
        self.pairs, self.seed = pairs, seed
        self.langs = langs
        self._spaces = tuple("" if primary_code(lang) in WITHOUT_SPACES else " " for lang in langs)
        self._by_length = sorted(range(len(pairs)), key=lambda i: (len(pairs[i][1]), pairs[i][1]))
        self._lengths = [len(pairs[i][1]) for i in self._by_length]
        self._pairs_with = _rare_words(tgt for _, tgt in pairs)
        self._names = sorted({name for pair in pairs for name in _names(pair)})

    def make(self, index: int, round: int = 0) -> tuple[str, str, str] | None:
        """Return pair `index` with a mistake, as source, target and kind; None if no kind fits.

        round: draws another mistake for the same pair.
        """
        rng = random.Random(f"{self.seed} {index} {round}")
        for _ in range(_TRIES):
            [kind] = rng.choices(list(KINDS), weights=list(_WEIGHTS.values()))
            spoilt = KINDS[kind](self, index, rng)
            if spoilt and _folded(spoilt) != _folded(self.pairs[index]) and all(text.strip() for text in spoilt):
                return (*spoilt, kind)
        return None

    def _unrelated(self, index: int, rng: random.Random) -> Texts | None:
        """Take the translation of another sentence of about the same length."""
        src, tgt = self.pairs[index]
        place = bisect_left(self._lengths, len(tgt))
        low, high = max(0, place - _NEAR_LENGTH), min(len(self.pairs), place + _NEAR_LENGTH)
        other_src, other_tgt = self.pairs[self._by_length[rng.randrange(low, high)]]
        return None if _alike(src, other_src) or _alike(tgt, other_tgt) else (src, other_tgt)

    def _similar(self, index: int, rng: random.Random) -> Texts | None:
        """Take the translation of another sentence that shares a rare word with this one."""
        src, tgt = self.pairs[index]
        words = [word for word in _content(tgt) if len(self._pairs_with.get(word, ())) > 1]
        if not words:
            return None
        other_src, other_tgt = self.pairs[rng.choice(self._pairs_with[rng.choice(words)])]
        return None if _alike(src, other_src) or _alike(tgt, other_tgt) else (src, other_tgt)

    def _number(self, index: int, rng: random.Random) -> Texts | None:
        """Replace a number on one side by another number with as many digits."""
        return self._on_one_side(index, rng, lambda text, _: _other_number(text, rng))

    def _name(self, index: int, rng: random.Random) -> Texts | None:
        """Replace a name on one side by another name."""
        names = sorted(_names(self.pairs[index]))
        others = [name for name in rng.sample(self._names, min(3, len(self._names))) if name not in names]
        if not names or not others:
            return None
        name = rng.choice(names)
        return self._on_one_side(index, rng, lambda text, _: re.sub(rf"\b{name}\b", others[0], text))

    def _negation(self, index: int, rng: random.Random) -> Texts | None:
        """Remove the negation on one side."""
        return self._on_one_side(index, rng, lambda text, side: without_negation(text, self.langs[side]))

    def _truncated(self, index: int, rng: random.Random) -> Texts | None:
        """Remove the end or the beginning of one side."""

        def cut(text: str, side: int) -> str | None:
            words = self._words(text, side)
            if len(words) < 3:
                return None
            n = rng.randint(max(1, len(words) // 5), max(1, 4 * len(words) // 5))
            kept = self._joined(words[:n] if rng.random() < 0.7 else words[-n:], side)
            marks = final_marks(text)
            return kept + marks if marks and rng.random() < 0.5 and not final_marks(kept) else kept

        return self._on_one_side(index, rng, cut)

    def _missing(self, index: int, rng: random.Random) -> Texts | None:
        """Remove a few consecutive words from one side."""

        def lose(text: str, side: int) -> str | None:
            words = self._words(text, side)
            if len(words) < 4:
                return None
            n = rng.randint(1, max(1, len(words) // 3))
            start = rng.randrange(len(words) - n)
            lost = self._joined(words[start : start + n], side)
            is_much = len(lost) >= _WORD_LETTERS or not self._spaces[side]
            return self._joined(words[:start] + words[start + n :], side) if is_much else None

        return self._on_one_side(index, rng, lose)

    def _added(self, index: int, rng: random.Random) -> Texts | None:
        """Add a part of another sentence to one side."""
        other = self.pairs[rng.randrange(len(self.pairs))]

        def add(text: str, side: int) -> str:
            words = self._words(other[side], side)
            part = self._joined(words[: rng.randint(1, len(words))] if words else [], side)
            return self._spaces[side].join([text, part] if rng.random() < 0.7 else [part, text]).strip()

        return self._on_one_side(index, rng, add)

    def _replaced(self, index: int, rng: random.Random) -> Texts | None:
        """Replace one or two content words on one side by words of another sentence."""
        other = self.pairs[rng.randrange(len(self.pairs))]

        def replace(text: str, side: int) -> str | None:
            old, new = _content(text), _content(other[side])
            if not old or not new:
                return None
            for word in rng.sample(old, min(rng.randint(1, 2), len(old))):
                drawn = rng.choice(new)
                text = re.sub(rf"\b{word}\b", partial(_cased, drawn), text, flags=re.IGNORECASE)
            return text

        return self._on_one_side(index, rng, replace)

    def _order(self, index: int, rng: random.Random) -> Texts | None:
        """Change the order of the words on one side."""

        def shuffle(text: str, side: int) -> str | None:
            words = self._words(text, side)
            if len(words) < 4:
                return None
            if rng.random() < 0.3:
                words.reverse()
            else:
                rng.shuffle(words)
            return self._joined(words, side)

        return self._on_one_side(index, rng, shuffle)

    def _copy(self, index: int, rng: random.Random) -> Texts | None:
        """Copy a side in place of its translation, half of the time without one of its words."""
        src, tgt = self.pairs[index]
        side = rng.randrange(2)
        words = self._words((src, tgt)[side], side)
        if _names((src, tgt)) and len(words) < 3:
            return None  # a name stays as it is
        if rng.random() < 0.5 and len(words) > 3:
            del words[rng.randrange(len(words))]
        copied = self._joined(words, side)
        return (src, copied) if side == 0 else (copied, tgt)

    def _language(self, index: int, rng: random.Random) -> Texts | None:
        """Exchange each letter of one side for another one, the same throughout, so that the text is in no language."""

        def exchange(text: str, side: int) -> str:
            letters = sorted(set(re.findall(r"[^\W\d_]", text.lower())))
            table = dict(zip(letters, rng.sample(letters, len(letters)), strict=True))
            table |= {c.upper(): new.upper() for c, new in table.items() if len(c.upper()) == 1}
            return text.translate(str.maketrans(table))

        if rng.random() < 0.5:
            return self._on_one_side(index, rng, exchange)
        src, tgt = self.pairs[index]
        other = self.pairs[rng.randrange(len(self.pairs))]
        return (src, other[0]) if rng.random() < 0.5 else (other[1], tgt)

    def _garbled(self, index: int, rng: random.Random) -> Texts | None:
        """Damage one side as a failing system does: repeat words in a loop, or lose and swap letters."""

        def garble(text: str, side: int) -> str:
            words = self._words(text, side)
            if rng.random() < 0.5:
                start = rng.randrange(len(words))
                part = words[start : start + rng.randint(1, 3)]
                return self._joined([*words[:start], *part * rng.randint(3, 6)], side)
            rate = rng.uniform(0.1, 0.3)
            return "".join(c if rng.random() > rate else rng.choice(("", rng.choice(text))) for c in text)

        return self._on_one_side(index, rng, garble)

    def _on_one_side(self, index: int, rng: random.Random, change: Callable[[str, int], str | None]) -> Texts | None:
        src, tgt = self.pairs[index]
        side = rng.randrange(2)
        changed = change((src, tgt)[side], side)
        if not changed:
            return None
        return (changed, tgt) if side == 0 else (src, changed)

    def _words(self, text: str, side: int) -> list[str]:
        return text.split() if self._spaces[side] else list(text)

    def _joined(self, words: Sequence[str], side: int) -> str:
        return self._spaces[side].join(words)


KINDS: dict[str, Callable[[Mistakes, int, random.Random], Texts | None]] = {
    "unrelated": Mistakes._unrelated,
    "similar": Mistakes._similar,
    "number": Mistakes._number,
    "name": Mistakes._name,
    "negation": Mistakes._negation,
    "truncated": Mistakes._truncated,
    "missing": Mistakes._missing,
    "added": Mistakes._added,
    "replaced": Mistakes._replaced,
    "order": Mistakes._order,
    "copy": Mistakes._copy,
    "language": Mistakes._language,
    "garbled": Mistakes._garbled,
}

_WEIGHTS = {
    **dict.fromkeys(KINDS, 1),
    **dict.fromkeys(("unrelated", "similar"), 4),  # what only meaning shows
    **dict.fromkeys(("number", "name", "negation", "truncated", "missing", "replaced"), 2),
}


def _content(text: str) -> list[str]:
    """Return the longer words of a text, in lower case; of a language without spaces, runs of characters."""
    return sorted({word for word in _WORD.findall(text.lower()) if len(word) >= _WORD_LETTERS})


def _rare_words(texts: Iterable[str]) -> dict[str, list[int]]:
    """Return, for each content word that some texts share but not many, the texts with it."""
    places: dict[str, list[int]] = defaultdict(list)
    for index, text in enumerate(texts):
        for word in _content(text):
            places[word].append(index)
    return {word: found for word, found in places.items() if 2 <= len(found) <= _RARE}


def _names(pair: Texts) -> set[str]:
    """Return the capitalised words that both sides share and that never occur in lower case; they are usually names."""
    src, tgt = ({word for word in _WORD.findall(text) if len(word) > 1} for text in pair)
    return {word for word in src & tgt if word.istitle() and word.lower() not in src | tgt}


def _folded(pair: Texts) -> Texts:
    return pair[0].casefold(), pair[1].casefold()


def _cased(word: str, replaced: re.Match[str]) -> str:
    """Return the word, with a capital letter if the one that it replaces has one."""
    return word.capitalize() if replaced[0][0].isupper() else word


def _alike(one: str, other: str) -> bool:
    """Return whether two texts have the same words, or all but one of many, so that one translation may serve both."""
    a, b = (set(_WORD.findall(text.lower())) for text in (one, other))
    return len(a ^ b) <= 2 and (len(a ^ b) == 0 or len(a | b) > 4)


def _other_number(text: str, rng: random.Random) -> str | None:
    """Return the text with one of its numbers changed, as long as before; None if it has none."""
    numbers = list(_NUMBER.finditer(text))
    if not numbers:
        return None
    old = rng.choice(numbers)
    digits = list(old[0])
    place = rng.randrange(len(digits))
    digits[place] = rng.choice([digit for digit in "123456789" if digit != digits[place]])
    return text[: old.start()] + "".join(digits) + text[old.end() :]

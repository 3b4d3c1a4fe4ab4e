"""Change sentence pairs to what people type: other case, no final mark, typos, several sentences in a line.

Training changes a share of its pairs, so that the model copes with such text; `mtkit check` measures whether it does.
The source becomes what people type, and the target what its reader expects: capitals for capitals, and no full stop
where the source has none, because both may be headings. For text typed in a hurry, the target keeps correct spelling
and ordinary case.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from mtkit.config.augment import ModifierName
from mtkit.config.schema import Config
from mtkit.data.encoded import EncodedCorpus, EncodedSide, Int64s, PairsInMemory, concatenate, starts_of
from mtkit.data.encoding import lengths_of
from mtkit.data.subwords import SubwordSampler, repetitions_of
from mtkit.text.capitals import changeable_words, in_capitals, is_in_identifier, lower, upper, with_words
from mtkit.text.scripts import scripts_of
from mtkit.text.sentences import ends_without_space, final_marks, has_final_mark, without_final_mark
from mtkit.tokens.placeholders import with_own_tokens
from mtkit.tokens.segmentation import Keys, derived_keys, uniform
from mtkit.tokens.special_ids import UNK_ID
from mtkit.tokens.spelling import SHORTEST, TYPED, misspelt
from mtkit.tokens.tokenizer import Tokenizer

CASES: tuple[ModifierName, ...] = ("capitals", "lower_case", "title_case")  # a pair has at most one of them
_OTHERS: tuple[ModifierName, ...] = ("joined", "no_final_mark", "typos")
_MOST_JOINED = 4  # sentences in a line

_SCRIPTS_WITH_CASE = {"Latin", "Greek", "Cyrillic", "Armenian"}
_OF_MODIFIERS = 2  # number of this stream of random numbers; 0 and 1 are those of subwords, by side
_OF_A_PAIR = len(CASES) + len(_OTHERS)  # number of the key from which the changes of one pair are drawn


class Modifiers:
    """The changes to pairs of two languages."""

    def __init__(self, src_lang: str | None, tgt_lang: str | None) -> None:
        """src_lang, tgt_lang: codes, which decide about case and keyboards; of an unknown language, the text does."""
        self.src_lang, self.tgt_lang = src_lang, tgt_lang
        scripts = scripts_of(src_lang)
        self._src_has_case = not scripts or not _SCRIPTS_WITH_CASE.isdisjoint(scripts)
        self._of_source: dict[ModifierName, Callable[[str], str]] = {
            "capitals": partial(in_capitals, lang=src_lang),
            "lower_case": partial(with_words, change=lambda word, _: lower(word[0], src_lang)),
            "title_case": partial(with_words, change=lambda word, _: upper(word[0][0], src_lang) + word[0][1:]),
            "no_final_mark": without_final_mark,
        }

    def changed(self, name: ModifierName, src: str, tgt: str, random: Random) -> tuple[str, str]:
        """Return the changed pair, or the same pair if the change does not apply to it; `joined` joins pairs.

        Digits, addresses, placeholders and tags do not change.
        """
        if name == "typos":
            return _with_typo(src, tgt, random, self.src_lang), tgt
        if name in CASES and not (self._src_has_case and _has_case(src)):
            return src, tgt
        if name == "no_final_mark" and not (has_final_mark(src) and has_final_mark(tgt)):
            return src, tgt
        changed = self._of_source[name](src)
        return (changed, self.of_target(name, tgt)) if changed != src else (src, tgt)

    def of_target(self, name: ModifierName, text: str) -> str:
        """Return the target that belongs to a changed source."""
        if name == "capitals":
            return in_capitals(text, self.tgt_lang)
        return without_final_mark(text) if name == "no_final_mark" else text


def joined(texts: Sequence[str]) -> str:
    """Join sentences into a line, with spaces where their script uses them."""
    return "".join(text if ends_without_space(text) else f"{text} " for text in texts[:-1]) + texts[-1]


def _line(pairs: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Join pairs into one."""
    srcs, tgts = zip(*pairs, strict=True)
    return joined(srcs), joined(tgts)


def can_continue(src: str, tgt: str) -> bool:
    """Return whether another pair can follow this one in a line: both sides end with a mark."""
    return bool(final_marks(src)) and bool(final_marks(tgt))


def _has_case(text: str) -> bool:
    """Return whether most letters of a text have case, and not all of them are capitals."""
    n_cased = sum(character.islower() or character.isupper() for character in text)
    return not text.isupper() and 2 * n_cased > sum(map(str.isalpha, text))


def _with_typo(src: str, tgt: str, random: Random, lang: str | None) -> str:
    """Return the text with a typo in one word, or unchanged if there is no suitable word.

    A word that is on both sides, such as a name, gets no typo: the model must still learn to copy it letter by letter.
    """
    in_target = {word[0] for word in changeable_words(tgt)}
    words = [
        word
        for word in changeable_words(src)
        if len(word[0]) >= SHORTEST
        and word[0] not in in_target
        and TYPED.fullmatch(word[0])
        and not is_in_identifier(word)
    ]
    if not words:
        return src
    word = random.choice(words)
    return src[: word.start()] + misspelt(word[0], random, lang) + src[word.end() :]


@dataclass(frozen=True)
class ChangeExample:
    """A changed pair, as training shows a share of the text."""

    name: ModifierName
    rate: float
    src: str
    tgt: str

    def __str__(self) -> str:
        return f"{100 * self.rate:.3g} % {self.name.replace('_', ' ')}: {self.src} | {self.tgt}"


def change_examples(
    rates: Mapping[ModifierName, float], modifiers: Modifiers, pairs: Sequence[tuple[str, str]]
) -> list[ChangeExample]:
    """Return an example of each change with a rate; none of those that apply to no pair."""
    found = []
    for place, (name, rate) in enumerate(rates.items()):
        first = place * len(pairs) // len(rates)  # so that the examples are of different pairs
        for before in (*pairs[first:], *pairs[:first]):
            if name == "joined":
                after = _line([before, pairs[first - 1]]) if can_continue(*before) else before
            else:
                after = modifiers.changed(name, *before, Random(0))
            if after != before:
                found.append(ChangeExample(name, rate, *after))
                break
    return found


class PairSampler:
    """Changes a share of the pairs of an encoded corpus, differently in each epoch. Satisfies `feed.Sampler`.

    A draw depends on seed, epoch, window and the index of the pair; the sentences that join it come from the same call.
    """

    def __init__(
        self,
        modifiers: Modifiers,
        rates: Mapping[ModifierName, float],
        tokenizers: tuple[Tokenizer, Tokenizer],
        tags: Sequence[str | None],
        seed: int,
        *,
        max_tokens: int,
        subwords: SubwordSampler | None = None,
    ) -> None:
        """tags: of each corpus. max_tokens: a pair stays as it is if the change makes a side longer than this.

        subwords: segments the changed text.
        """
        self._modifiers, self._tokenizers, self._subwords = modifiers, tokenizers, subwords
        src, _ = tokenizers
        self._rates = {**rates, **(dict.fromkeys(CASES, 0.0) if src.normalize("Aa") != "Aa" else {})}
        self._readers = [src.tagged(tag) for tag in tags]
        self._seed, self._max_tokens = seed, max_tokens

    @classmethod
    def from_config(
        cls, cfg: Config, tokenizers: tuple[Tokenizer, Tokenizer], subwords: SubwordSampler | None
    ) -> "PairSampler | None":
        """Return the sampler of a config, None if it changes nothing."""
        if not (rates := cfg.augment.rates):
            return None
        modifiers, tags = Modifiers(cfg.data.src_lang, cfg.data.tgt_lang), [corpus.tag for corpus in cfg.data.train]
        return cls(modifiers, rates, tokenizers, tags, cfg.seed, max_tokens=cfg.data.max_tokens, subwords=subwords)

    def sample(self, corpus: EncodedCorpus, indices: Int64s, epoch: int, window: int = 0) -> PairsInMemory:
        """Return the pairs (N,), in this order, as this window of the epoch shows them."""
        pairs = corpus.take(indices)
        start = np.random.SeedSequence([self._seed, epoch, _OF_MODIFIERS, window]).generate_state(2).view(np.uint64)
        keys = derived_keys(derived_keys(start, indices), repetitions_of(indices))
        chosen = self._chosen(keys)
        seeds = derived_keys(keys, np.full(1, _OF_A_PAIR))
        corpora = corpus.corpora_of(indices)
        readable = _without_unknown(pairs.src) & _without_unknown(pairs.tgt)
        mates = {corpus: np.flatnonzero(readable & (corpora == corpus)) for corpus in set(corpora.tolist())}

        def read(row: int) -> tuple[str, str]:
            return (
                self._readers[corpora[row]].decode(pairs.src[row].tolist()),
                self._tokenizers[1].decode(pairs.tgt[row].tolist()),
            )

        changed: dict[int, tuple[str, str]] = {}
        for row in np.flatnonzero(readable & np.any(list(chosen.values()), axis=0)).tolist():
            random, before = Random(int(seeds[row])), read(row)
            line = [before]
            if chosen["joined"][row]:
                wanted = random.randrange(2, _MOST_JOINED + 1)
                while len(line) < wanted and can_continue(*line[-1]):
                    line.append(read(random.choice(mates[corpora[row]])))
                if len(line) > 1 and self._tokenizers[0].placeholders is not None:
                    line = with_own_tokens(line)
            src, tgt = _line(line)
            for name in ("no_final_mark", "typos", *CASES):
                if chosen[name][row]:
                    src, tgt = self._modifiers.changed(name, src, tgt, random)
            if (src, tgt) != before:
                changed[row] = src, tgt
        pairs = self._with_texts(pairs, changed, corpora)
        return self._subwords.segmented(pairs, indices, epoch, window) if self._subwords else pairs

    def _chosen(self, keys: Keys) -> dict[ModifierName, npt.NDArray[np.bool_]]:
        """Return for each modifier which pairs (N,) it may change."""
        draw, at, chosen = uniform(keys, 0), 0.0, {}
        for name in CASES:
            rate = self._rates.get(name, 0.0)
            chosen[name] = (at <= draw) & (draw < at + rate)
            at += rate
        return chosen | {
            name: uniform(keys, step) < self._rates.get(name, 0.0) for step, name in enumerate(_OTHERS, start=1)
        }

    def _with_texts(
        self, pairs: PairsInMemory, texts: Mapping[int, tuple[str, str]], corpora: npt.NDArray[Any]
    ) -> PairsInMemory:
        """Return the pairs, with their texts replaced by these (by row) unless a new text is too long."""
        if not texts:
            return pairs
        rows = np.array(list(texts))
        srcs: list[list[int]] = [[]] * len(rows)
        for corpus in set(corpora[rows].tolist()):
            which = np.flatnonzero(corpora[rows] == corpus)
            encoded = self._readers[corpus].encode_replaced([texts[row][0] for row in rows[which].tolist()])
            for i, ids in zip(which.tolist(), encoded, strict=True):
                srcs[i] = ids
        tgts = self._tokenizers[1].encode_replaced([tgt for _, tgt in texts.values()])
        lengths = np.stack([lengths_of(srcs), lengths_of(tgts)])
        fits = (lengths.min(axis=0) > 0) & (lengths.max(axis=0) <= self._max_tokens)
        order = np.arange(len(corpora))
        order[rows[fits]] = len(order) + np.flatnonzero(fits)
        return PairsInMemory(_replaced(pairs.src, srcs, order), _replaced(pairs.tgt, tgts, order))


def _without_unknown(side: EncodedSide) -> npt.NDArray[np.bool_]:
    """Return for each sentence whether its text can be restored from its ids: none is <unk>."""
    rows = np.repeat(np.arange(len(side.lengths)), side.lengths)
    known = np.ones(len(side.lengths), dtype=bool)
    known[rows[side.ids == UNK_ID]] = False
    return known


def _replaced(side: EncodedSide, others: Sequence[list[int]], order: Int64s) -> EncodedSide:
    """Append other sentences to those of a side, and return them in this order."""
    ids = np.fromiter(chain.from_iterable(others), side.ids.dtype)
    lengths = lengths_of(others)
    return concatenate([side, EncodedSide(ids, starts_of(lengths), lengths)]).take(order)

"""Draw distinct pairs from the grammar and split them into train, dev and test.

The splits share no sentence, on either side. Every word of dev and test is frequent in the whole corpus, so that
they ask for new combinations of known words, and for nothing else.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mtkit.data.sample import DEMO_PAIRS
from sample_grammar.choices import Dice
from sample_grammar.clauses import Pair
from sample_grammar.grammar import random_pair

N_PAIRS = 25_000
N_HELD_OUT = 500  # pairs in dev, and again in test
DEFAULT_SEED = 1
FREQUENT = 30  # a word in this many pairs can be learnt


class Splits(NamedTuple):
    """Pairs for training, for validation during training, and for the final test."""

    train: list[Pair]
    dev: list[Pair]
    test: list[Pair]


def sample_pairs(seed: int = DEFAULT_SEED, n_pairs: int = N_PAIRS) -> list[Pair]:
    """Draw n_pairs pairs with distinct English sides, none of them one of the demo's; a seed always gives the same."""
    dice, french_of = Dice(seed), dict[str, str]()
    demo = {text for pair in DEMO_PAIRS for text in pair}
    while len(french_of) < n_pairs:
        en, fr = random_pair(dice)
        if en not in demo and fr not in demo:
            known = french_of.setdefault(en, fr)
            assert known == fr, f"{en!r} has two translations: {known!r}, {fr!r}"
    return list(french_of.items())


def split(pairs: Sequence[Pair], seed: int = DEFAULT_SEED, n_held_out: int = N_HELD_OUT) -> Splits:
    """Split the pairs into parts that share no sentence: n_held_out for dev, as many for test, the rest for train."""
    frequency = Counter(word for pair in pairs for word in set(_words(pair)))
    times_in_french = Counter(fr for _, fr in pairs)
    suited = [
        pair
        for pair in pairs
        if times_in_french[pair[1]] == 1 and all(frequency[word] >= FREQUENT for word in _words(pair))
    ]
    held_out = Dice(seed).shuffled(suited)[: 2 * n_held_out]
    if len(held_out) < 2 * n_held_out:
        raise ValueError(f"{len(pairs)} pairs are too few for two held-out sets of {n_held_out}")
    is_held_out = set(held_out)
    train = [pair for pair in pairs if pair not in is_held_out]
    return Splits(train, held_out[:n_held_out], held_out[n_held_out:])


def _words(pair: Pair) -> Iterator[str]:
    """Yield the words of both sides, marked with their side; an elided word (j', l') counts as a word."""
    for side, text in enumerate(pair):
        for word in re.findall(r"[\w-]+'?", text.lower()):
            yield f"{side}:{word}"

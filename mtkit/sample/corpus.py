"""The sample corpus: distinct pairs from the grammar, split into train, dev and test, written as plain text files.

The splits share no sentence, on either side. Every word of dev and test is frequent in the whole corpus, so that
they ask for new combinations of known words, and for nothing else.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from mtkit.data.corpus import open_output
from mtkit.sample.choices import Dice
from mtkit.sample.clauses import Pair
from mtkit.sample.grammar import random_pair

N_PAIRS = 25_000
N_HELD_OUT = 500  # pairs in dev, and again in test
DEFAULT_SEED = 1
FREQUENT = 30  # a word in this many pairs can be learnt

DEMO_PAIRS: tuple[Pair, ...] = (  # what the demo translates at the end: in no split, although all their words are
    ("I love oranges.", "J'aime les oranges."),
    ("Where are my keys?", "Où sont mes clés ?"),
    ("She didn't buy a red car.", "Elle n'a pas acheté de voiture rouge."),
    ("My sister went to the market yesterday.", "Ma sœur est allée au marché hier."),
    ("He gave me an old book.", "Il m'a donné un vieux livre."),
    ("There are three cats under the bed.", "Il y a trois chats sous le lit."),
    ("Alice is taller than Paul.", "Alice est plus grande que Paul."),
)


@dataclass(frozen=True)
class Splits:
    """Pairs to learn from, to watch, and to test with."""

    train: list[Pair]
    dev: list[Pair]
    test: list[Pair]


class SplitFiles(NamedTuple):
    """Two plain text files; line n of one translates line n of the other."""

    en: Path
    fr: Path


@dataclass(frozen=True)
class SampleCorpus:
    """Where the written corpus lies."""

    train: SplitFiles
    dev: SplitFiles
    test: SplitFiles


def sample_pairs(seed: int = DEFAULT_SEED, n_pairs: int = N_PAIRS) -> list[Pair]:
    """So many pairs with distinct English sides, the demo's sentences left out; the same for the same seed."""
    dice, french_of = Dice(seed), dict[str, str]()
    demo = {text for pair in DEMO_PAIRS for text in pair}
    while len(french_of) < n_pairs:
        en, fr = random_pair(dice)
        if en not in demo and fr not in demo:
            known = french_of.setdefault(en, fr)
            assert known == fr, f"{en!r} has two translations: {known!r}, {fr!r}"
    return list(french_of.items())


def split(pairs: Sequence[Pair], seed: int = DEFAULT_SEED, n_held_out: int = N_HELD_OUT) -> Splits:
    """The pairs in three parts that share no sentence: n_held_out for dev, as many for test, the others for train."""
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


def write_corpus(folder: Path, seed: int = DEFAULT_SEED) -> SampleCorpus:
    """Write train, dev and test as NAME.en and NAME.fr into the folder; each file appears whole or not at all."""
    splits = split(sample_pairs(seed), seed)
    corpus = SampleCorpus(
        *(SplitFiles(folder / f"{name}.en", folder / f"{name}.fr") for name in ("train", "dev", "test"))
    )
    for files, pairs in ((corpus.train, splits.train), (corpus.dev, splits.dev), (corpus.test, splits.test)):
        for side, path in enumerate(files):
            with open_output(path) as file:
                file.writelines(f"{pair[side]}\n" for pair in pairs)
    return corpus


def _words(pair: Pair) -> Iterator[str]:
    """Words of both sides, marked with their side; an elided word (j', l') counts as one."""
    for side, text in enumerate(pair):
        for word in re.findall(r"[\w-]+'?", text.lower()):
            yield f"{side}:{word}"

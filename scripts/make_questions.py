#!/usr/bin/env python3
"""Write a small labelled corpus: is a sentence a question, a statement or an order? English and French, mixed.

    .venv/bin/python scripts/make_questions.py            # into data/questions
    .venv/bin/python scripts/make_questions.py --to DIR

The sentences come from the grammar of the sample corpus, written as by a speech recognizer: without capitals and
punctuation, and with every tenth word missing. So a few of them are really in doubt.
"""

import argparse
import random
import re
from collections.abc import Iterator
from pathlib import Path

from corpus_files import DATA, run
from sample_grammar.choices import Dice
from sample_grammar.clauses import Pair
from sample_grammar.grammar import random_pair

from mtkit.files import write_text

LABELS = {"?": "question", ".": "statement", "!": "order"}
N_EACH = 2000  # rows of each label
N_HELD_OUT = 500  # rows in dev, and again in test, or one more
MISSING = 0.1  # chance of a word to be missing
_EXCLAMATION = re.compile(r"(What|How|Quel|Comme)")  # What a beautiful house! is not an order

Row = tuple[str, str]  # text, label


def sample_rows(n_each: int = N_EACH, n_held_out: int = N_HELD_OUT) -> dict[str, list[Row]]:
    """Return the distinct rows of train, dev and test, the same at each call.

    The two languages' versions of a sentence are in the same part, so that none is known from its translation.
    """
    chance = random.Random(1)
    counts, seen = dict.fromkeys(LABELS.values(), 0), set[str]()
    groups: list[list[Row]] = []
    for pair in _pairs(Dice(1)):
        label = LABELS[pair[0][-1]]
        if counts[label] < n_each:
            texts = {as_heard(text, chance) for text in pair} - {""} - seen
            seen |= texts
            counts[label] += len(texts)
            groups.append([(text, label) for text in sorted(texts)])
        if min(counts.values()) >= n_each:
            break
    chance.shuffle(groups)
    parts: dict[str, list[Row]] = {"dev": [], "test": [], "train": []}
    for group in groups:
        part = next((part for part in ("dev", "test") if len(parts[part]) < n_held_out), "train")
        parts[part] += group
    return parts


def as_heard(text: str, chance: random.Random) -> str:
    """Return the text without capitals and punctuation, and without some of its words."""
    words = re.sub(r"[^\w'\s-]", " ", text).lower().split()
    return " ".join(word for word in words if chance.random() >= MISSING)


def _pairs(dice: Dice) -> Iterator[Pair]:
    """Yield pairs of one sentence each that are a question, a statement or an order."""
    while True:
        pair = random_pair(dice)
        is_one = all(len(re.findall(r"[.?!]", text)) == 1 for text in pair) and pair[0][-1] == pair[1][-1]
        if is_one and not (pair[0].endswith("!") and _EXCLAMATION.match(pair[0])):
            yield pair


def main() -> None:
    """Write train.tsv, dev.tsv and test.tsv: text, tab, label."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=DATA / "questions", metavar="DIR", help="default: data/questions")
    folder = parser.parse_args().to
    for part, rows in sample_rows().items():
        write_text(folder / f"{part}.tsv", "".join(f"{text}\t{label}\n" for text, label in rows))
        print(f"{folder / f'{part}.tsv'}: {len(rows):,} rows")


if __name__ == "__main__":
    run(main)

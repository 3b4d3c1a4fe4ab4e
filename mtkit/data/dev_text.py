"""Find the test set or a dev set of a config, and read the text of its one or several dev sets."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mtkit.config.data import CorpusFiles, DataConfig, DevCorpus
from mtkit.console import counted
from mtkit.data.corpus import evenly_spaced, read_pairs, require_files
from mtkit.errors import DataError, UsageError
from mtkit.pair_files.pairs import Pair

Split = Literal["test", "dev"]


def corpus_of_split(data: DataConfig, split: Split, dev_set: str | None, *, config: Path, remedy: str) -> CorpusFiles:
    """Return the files of a config's test set or dev set. dev_set: the name of the dev set, if there are several.

    config, remedy: for the error. Raises UsageError for an unknown name, or none of several; DataError if there are no
    such files.
    """
    if split == "test":
        if data.test is None:
            raise DataError(f"{config}: no test set (data.test); {remedy}, or use --split dev")
        corpus: CorpusFiles = data.test
    else:
        by_name = {one.name: one for one in data.dev}
        names = ", ".join(str(name) for name in by_name if name)
        if dev_set is None and len(by_name) > 1:
            raise UsageError(f"{config}: {len(by_name)} dev sets (data.dev); choose one with --dev-set: {names}")
        if dev_set is not None and dev_set not in by_name:
            there = f"its dev sets are {names}" if names else "it has a single dev set, without a name: leave it out"
            raise UsageError(f"--dev-set {dev_set}: {config} has no such set in data.dev; {there}")
        corpus = data.dev[0] if dev_set is None else by_name[dev_set]
    require_files(f"data.{split}", [corpus], config=config, remedy=remedy)
    return corpus


@dataclass(frozen=True)
class DevText:
    """Some pairs of a dev set."""

    name: str  # dev, or dev (NAME) if it is one of several
    tag: str | None  # with which the model reads the sources
    pairs: list[Pair]


def read_dev_text(
    dev: Sequence[DevCorpus], n: int, *, config: Path, remedy: str, with_blanks: bool = False
) -> list[DevText]:
    """Return at most n pairs of all sets, evenly spaced; the sets share n as in validations.

    with_blanks: keep pairs with a blank side. config, remedy: for the DataError if a file is missing, or a set has no
    text.
    """
    of_sets: list[list[Pair]] = []
    for corpus in dev:
        require_files(corpus.key, [corpus], config=config, remedy=remedy)
        of_sets.append(list(read_pairs([corpus])) if with_blanks else pairs_with_text(corpus))
        if not of_sets[-1]:
            raise DataError(f"{corpus.paths[0]}: no pair with text, though {config} names it as {corpus.key}; {remedy}")
    shares = shared(n, [len(pairs) for pairs in of_sets])
    return [
        DevText(corpus.label, corpus.tag, evenly_spaced(pairs, share))
        for corpus, pairs, share in zip(dev, of_sets, shares, strict=True)
    ]


def pairs_with_text(corpus: CorpusFiles) -> list[Pair]:
    """Return the pairs without a blank side."""
    return [pair for pair in read_pairs([corpus]) if pair.src.strip() and pair.tgt.strip()]


def listed(sizes: Sequence[tuple[str, int]], what: str) -> str:
    """Return the size of each set, such as "20 sentences of dev (news), 3 of dev (web)"."""
    (name, n), *others = sizes
    return ", ".join([f"{counted(n, what)} of {name}", *(f"{n:,} of {name}" for name, n in others)])


def shared(n_sentences: int, sizes: Sequence[int]) -> list[int]:
    """Divide a number of sentences evenly among sets that are large enough; each gets at least one."""
    shares, left = [0] * len(sizes), n_sentences
    smallest_first = sorted(range(len(sizes)), key=lambda index: sizes[index])
    for n_before, index in enumerate(smallest_first):
        shares[index] = max(1, min(sizes[index], left // (len(sizes) - n_before)))
        left -= shares[index]
    return shares

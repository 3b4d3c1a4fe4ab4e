"""Make the labelled pairs that a pair filter learns from: good pairs of corpora, and the same pairs with mistakes."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from mtkit.config.cleaning import CleanConfig
from mtkit.config.data import CorpusFiles
from mtkit.console import counted, progress_bar
from mtkit.corpora.cleaning.clean import judge
from mtkit.corpora.filter.negatives import Mistakes, Texts
from mtkit.corpora.filter.pair_judge import GOOD
from mtkit.corpora.streams import EvenSample
from mtkit.data.corpus import count_pairs, read_pairs
from mtkit.errors import DataError
from mtkit.files import atomic_folder
from mtkit.pair_files.compression import open_output
from mtkit.pair_files.lines import as_column, windows
from mtkit.pair_files.pairs import Languages, Pair
from mtkit.text.near_texts import loose_keys

TRAIN, DEV = "train.tsv.gz", "dev.tsv.gz"
_JUDGED_AT_ONCE = 4096
_DEV_PAIRS = 2000  # at most; each also comes with a mistake
_DEV_SHARE = 0.1  # at most
_FEWEST = 1000  # good pairs, below which a filter learns nothing of use


@dataclass(frozen=True)
class Examples:
    """What was written."""

    n_read: int
    n_sampled: int
    n_dropped: int  # by the rules, and repeated ones
    n_train: int  # good pairs
    n_dev: int


def write_examples(
    folder: Path, corpora: Sequence[CorpusFiles], langs: Languages, cfg: CleanConfig, *, most: int, seed: int
) -> Examples:
    """Write train.tsv.gz and dev.tsv.gz into a new folder: source, target and label, as `task: classify` reads them.

    Samples of at most `most` pairs, evenly spaced, are cleaned by the rules of cfg. Each good pair is written once as
    it is and once with a mistake, whose kind is the label. No source and no target of dev occurs in train.
    Raises DataError if a corpus cannot be read, or has too few good pairs.
    """
    sample, n_read = _sample(corpora, most)
    good = list(_good_pairs(sample, langs, cfg))
    if len(good) < _FEWEST:
        raise DataError(
            f"{counted(len(good), 'good pair')} of {len(sample):,} are left after the rules of clean; a filter needs "
            f"at least {_FEWEST:,}: give a larger or cleaner corpus"
        )
    train, dev = _split(good, seed)
    with atomic_folder(folder) as temporary:
        for name, pairs in ((TRAIN, train), (DEV, dev)):
            _write(temporary / name, pairs, langs, seed)
    return Examples(n_read, len(sample), len(sample) - len(good), len(train), len(dev))


def _sample(corpora: Sequence[CorpusFiles], most: int) -> tuple[list[Pair], int]:
    sample = EvenSample[Pair](most)
    index = 0
    with progress_bar(count_pairs(corpora), "reading", " pairs") as bar:
        for index, pair in enumerate(read_pairs(corpora), start=1):
            if sample.wants(index - 1):
                sample.items.append(pair)
            bar.update()
    return sample.items, index


def _good_pairs(sample: Sequence[Pair], langs: Languages, cfg: CleanConfig) -> Iterator[Texts]:
    """Yield the pairs, repaired, that no rule drops, each once."""
    seen = set()
    with progress_bar(len(sample), "rules", " pairs") as bar:
        for part in windows(sample, _JUDGED_AT_ONCE):
            judged = judge(part, langs, cfg)
            for pair, rejection in zip(zip(judged.src, judged.tgt, strict=True), judged.rejections, strict=True):
                if rejection is None and pair not in seen:
                    seen.add(pair)
                    yield pair
            bar.update(len(part))


def _split(pairs: Sequence[Texts], seed: int) -> tuple[list[Texts], list[Texts]]:
    """Hold out pairs for dev by their sources; train gets no pair that shares a source or target with dev."""
    sides = [loose_keys([pair[side] for pair in pairs]) for side in (0, 1)]
    share = min(_DEV_SHARE, _DEV_PAIRS / len(pairs))
    in_dev = [_draw(key, seed) < share for key in sides[0]]
    held = [{key for key, held_out in zip(keys, in_dev, strict=True) if held_out} for keys in sides]
    train = [
        pair
        for pair, src, tgt, held_out in zip(pairs, *sides, in_dev, strict=True)
        if not held_out and src not in held[0] and tgt not in held[1]
    ]
    return train, [pair for pair, held_out in zip(pairs, in_dev, strict=True) if held_out]


def _draw(key: str, seed: int) -> float:
    """Return a number from 0 to 1 that the key and the seed fix."""
    return int.from_bytes(blake2b(f"{seed} {key}".encode(), digest_size=8).digest(), "big") / 2**64


def _write(path: Path, pairs: Sequence[Texts], langs: Languages, seed: int) -> None:
    """Write each pair as it is and with a mistake, in random order."""
    mistakes = Mistakes(pairs, langs, seed)
    rows = [(*pair, GOOD) for pair in pairs]
    with progress_bar(len(pairs), "mistakes", " pairs") as bar:
        for index in range(len(pairs)):
            if (spoilt := mistakes.make(index)) is not None:
                rows.append(spoilt)
            bar.update()
    random.Random(seed).shuffle(rows)
    with open_output(path) as file:
        file.writelines("\t".join(map(as_column, row)) + "\n" for row in rows)

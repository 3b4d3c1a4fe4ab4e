"""Labelled pairs for a pair filter."""

import gzip

import pytest

from mtkit.config.cleaning import CleanConfig
from mtkit.config.data import CorpusFiles
from mtkit.corpora.filter.examples import write_examples
from mtkit.corpora.filter.negatives import KINDS
from mtkit.errors import DataError
from mtkit.text.near_texts import loose_keys

NOUNS = ["house", "tree", "river", "garden", "street", "table", "window", "kitchen", "bridge", "castle"]
HAEUSER = ["Haus", "Baum", "Fluss", "Garten", "Weg", "Tisch", "Fenster", "Raum", "Steg", "Schloss"]
PLACES = ["today", "yesterday", "tomorrow", "often", "never", "always", "early", "late", "here", "there"]
ORTE = ["heute", "gestern", "morgen", "oft", "nie", "immer", "früh", "spät", "hier", "dort"]
PEOPLE = ["Anna", "Peter", "Maria", "Tom", "Clara", "Paul", "Emma", "Hans", "Lena", "Otto", "Ida", "Karl"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """1,200 good pairs, each twice, and 51 with a side that no rule lets pass."""
    lines = [
        (f"{person} sees the {noun} {place}.", f"{person} sieht {place_de} etwas: {noun_de}.")
        for person in PEOPLE
        for noun, noun_de in zip(NOUNS, HAEUSER, strict=True)
        for place, place_de in zip(PLACES, ORTE, strict=True)
    ]
    bad = [("A house with a garden near the river.", "12345 / 678 -- 90")] * 51
    path = tmp_path_factory.mktemp("corpus") / "corpus.tsv"
    path.write_text("".join(f"{src}\t{tgt}\n" for src, tgt in [*lines, *bad, *lines]), encoding="utf-8")
    return [CorpusFiles(tsv=path)]


def rows(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [tuple(line.rstrip("\n").split("\t")) for line in file]


RULES = CleanConfig(language=False, near_duplicates=False)  # such short lines say little about their language


def write(folder, corpus, seed):
    return write_examples(folder, corpus, ("en", "de"), RULES, most=10_000, seed=seed)


@pytest.fixture(scope="module")
def written(corpus, tmp_path_factory):
    """What was written with the seed 1, and the rows of train and dev."""
    folder = tmp_path_factory.mktemp("written") / "examples"
    counts = write(folder, corpus, seed=1)
    return counts, *(rows(folder / f"{part}.tsv.gz") for part in ("train", "dev"))


def test_each_good_pair_comes_once_and_with_a_mistake(written):
    counts, train, dev = written
    assert (counts.n_read, counts.n_dropped) == (2451, 1251)  # 51 bad ones, 1,200 repeated
    for part, n in ((train, counts.n_train), (dev, counts.n_dev)):
        good = [row[:2] for row in part if row[2] == "good"]
        assert len(good) == len(set(good)) == n
        spoilt = [row for row in part if row[2] != "good"]
        assert 0.95 * n < len(spoilt) <= n
        assert {label for *_, label in spoilt} <= set(KINDS)
        assert not set(good) & {row[:2] for row in spoilt}
    assert not any("12345" in row[1] for row in train + dev)


def test_no_side_of_dev_occurs_in_train(written):
    _, train, dev = written
    assert 60 <= sum(row[2] == "good" for row in dev) <= 180  # a tenth of 1,200 by chance
    for side in (0, 1):
        keys = [set(loose_keys([row[side] for row in part if row[2] == "good"])) for part in (train, dev)]
        assert not keys[0] & keys[1]


def test_the_seed_fixes_the_files(corpus, written, tmp_path):
    for name, seed in (("same", 1), ("other", 2)):
        write(tmp_path / name, corpus, seed)
    same, other = (rows(tmp_path / name / "train.tsv.gz") for name in ("same", "other"))
    assert written[1] == same != other


def test_a_large_corpus_is_sampled_evenly(corpus, tmp_path):
    written = write_examples(tmp_path / "examples", corpus, ("en", "de"), RULES, most=2000, seed=1)
    assert (written.n_read, written.n_sampled) == (2451, 1226)


def test_too_few_good_pairs_are_refused(tmp_path):
    path = tmp_path / "small.tsv"
    path.write_text("I see a house.\tIch sehe ein Haus.\n" * 2000, encoding="utf-8")
    with pytest.raises(DataError, match=r"1 good pair of 2,000 .* at least 1,000"):
        write_examples(tmp_path / "x", [CorpusFiles(tsv=path)], ("en", "de"), RULES, most=10_000, seed=1)
    assert not (tmp_path / "x").exists()

"""train, dev and test share nothing, every pair goes to one place, and the seed alone decides."""

import gzip
import json
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.corpora.split import LEFT_OUT, REPORT, _unlike_each_other, split
from mtkit.errors import DataError
from mtkit.pair_files.pairs import Pair
from mtkit.text import near_texts as near

LANGUAGES = "en", "de"


def key(text: str) -> str:
    """The sentence without case, punctuation and numbers, in another way than the library's."""
    kept = "".join(
        "0" if char.isdecimal() else char if char.isalnum() or char == "_" else " " for char in text.casefold()
    )
    return re.sub("0+", "0", " ".join(kept.split())) or " ".join(text.split())


def ngrams(text: str) -> set[str]:
    padded = f" {key(text)} "
    return {padded[i : i + 4] for i in range(max(1, len(padded) - 3))}


def split_pairs(folder, texts, documents=None, n_dev=3, n_test=3, seed=1):
    pairs = [Pair(src, tgt, "a.en", line) for line, (src, tgt) in enumerate(texts, start=1)]
    report = split(
        lambda: iter(pairs),
        folder,
        LANGUAGES,
        n_pairs=len(pairs),
        n_dev=n_dev,
        n_test=n_test,
        seed=seed,
        documents=None if documents is None else lambda: iter(documents),
    )
    return report


def lines(path):
    return path.read_bytes().decode("utf-8").split("\n")[:-1]


def part(folder, name):
    return list(zip(lines(folder / f"{name}.en"), lines(folder / f"{name}.de"), strict=True))


def left_out(folder):
    with gzip.open(folder / LEFT_OUT, "rt", encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\n").split("\t") for line in file][1:]


def assert_apart(one, other):
    for side in (0, 1):
        keys = {key(pair[side]) for pair in one} - {""}
        assert not keys & {key(pair[side]) for pair in other}


WORDS = ["house", "Haus", "HOUSE!", "7 cats", "12 cats", "3 Katzen", "", " ", "tree", "the old tree", "the odd tree"]
SENTENCES = st.lists(
    st.sampled_from([*WORDS, "?", "a\u00a0b", "a b", "\u212a", "k", "x\ty"]), min_size=1, max_size=2
).map(" ".join)


@given(texts=st.lists(st.tuples(SENTENCES, SENTENCES), min_size=8, max_size=60), seed=st.integers(0, 3))
@settings(max_examples=30)
def test_nothing_of_dev_or_test_is_in_train_and_nothing_is_lost(tmp_path_factory, texts, seed):
    folder = tmp_path_factory.mktemp("split") / "out"
    try:
        report = split_pairs(folder, texts, n_dev=1, n_test=1, seed=seed)
    except DataError:  # few pairs, all alike
        assert not folder.exists()
        return
    train, dev, test, rest = *(part(folder, name) for name in ("train", "dev", "test")), left_out(folder)
    assert len(dev) == len(test) == 1
    for one, other in ((train, dev), (train, test), (dev, test)):
        assert_apart(one, other)
    ended = [*train, *dev, *test]
    assert len(ended) + len(rest) == len(texts) == report.n_pairs
    expected = sorted(texts)
    for columns in rest:
        ended.append(texts[int(columns[1]) - 1])
    assert sorted(ended) == expected


def big_corpus(n=400, seed=5):
    rng = random.Random(seed)
    words = ["".join(rng.choices("abcdefghijklmnoprstuvw", k=rng.randint(2, 9))) for _ in range(300)]
    return [(" ".join(rng.choices(words, k=9)), " ".join(rng.choices(words, k=9))) for _ in range(n)]


def test_a_pair_nearly_like_one_of_dev_or_test_stays_out_of_train(tmp_path):
    base = big_corpus(200)
    variants = [(src[:-1] + "x", big) for (src, _), (_, big) in zip(base, big_corpus(200, seed=6), strict=True)]
    variants += [(other, tgt + " so") for (_, tgt), (other, _) in zip(base, big_corpus(200, seed=7), strict=True)]
    report = split_pairs(tmp_path / "out", base + variants, n_dev=10, n_test=15)
    trained = [[ngrams(pair[side]) for pair in part(tmp_path / "out", "train")] for side in (0, 1)]
    for name in ("dev", "test"):
        for held in part(tmp_path / "out", name):
            for side in (0, 1):
                mine = ngrams(held[side])
                for theirs in trained[side]:
                    assert 10 * len(mine & theirs) < 7 * len(mine | theirs)
    assert report.left_out["test: near source"] + report.left_out["test: near target"] >= 15
    assert report.train + 25 + sum(report.left_out.values()) == 600


def test_each_pair_that_is_left_out_says_why(tmp_path):
    base = big_corpus(100)
    extra = [(src.upper(), f"{other} eins") for (src, _), (_, other) in zip(base, big_corpus(100, seed=6), strict=True)]
    extra += [(f"one {other}", tgt.title()) for (_, tgt), (other, _) in zip(base, big_corpus(100, seed=7), strict=True)]
    report = split_pairs(tmp_path / "out", base + extra, n_dev=5, n_test=10)
    rows = left_out(tmp_path / "out")
    assert {row[3] for row in rows} == {"source", "target"} and len(rows) == sum(report.left_out.values())
    for _, line, name, reason, *texts in rows:
        side = ("source", "target").index(reason)
        assert key(texts[side]) in {key(held[side]) for held in part(tmp_path / "out", name)}
        assert texts == list((base + extra)[int(line) - 1])


def test_the_order_of_the_corpus_changes_neither_dev_nor_test(tmp_path):
    texts = [*big_corpus(), *big_corpus()[:100], *((src.upper(), tgt) for src, tgt in big_corpus()[:50])]
    split_pairs(tmp_path / "one", texts, n_dev=20, n_test=30)
    split_pairs(tmp_path / "two", random.Random(2).sample(texts, len(texts)), n_dev=20, n_test=30)
    split_pairs(tmp_path / "three", texts, n_dev=20, n_test=30, seed=2)
    for name in ("dev.en", "dev.de", "test.en", "test.de"):
        first = (tmp_path / "one" / name).read_bytes()
        assert first == (tmp_path / "two" / name).read_bytes() != (tmp_path / "three" / name).read_bytes()
    trains = [sorted(part(tmp_path / folder, "train")) for folder in ("one", "two")]
    assert trains[0] == trains[1]


def test_most_of_dev_and_test_stay_when_text_is_added(tmp_path):
    split_pairs(tmp_path / "one", big_corpus(), n_dev=20, n_test=30)
    split_pairs(tmp_path / "two", big_corpus() + big_corpus(40, seed=8), n_dev=20, n_test=30)
    tests = [set(part(tmp_path / folder, "test")) for folder in ("one", "two")]
    assert len(tests[0] & tests[1]) >= 20


def test_documents_stay_whole_and_those_like_them_stay_out(tmp_path):
    texts = big_corpus(300)
    names = [f"doc {n // 10}" for n in range(300)]
    texts += texts[:300:7]  # one more document, which repeats sentences of many
    names += ["repeats"] * (len(texts) - 300)
    report = split_pairs(tmp_path / "out", texts, names, n_dev=15, n_test=25)
    folder = tmp_path / "out"
    train, dev, test, rest = *(part(folder, name) for name in ("train", "dev", "test")), left_out(folder)
    assert (len(test), len(train) + len(dev) + len(test) + len(rest)) == (report.test, len(texts))
    assert report.by_document and report.test >= 25 and report.test % 10 == (3 if len(test) % 10 else 0)
    for one, other in ((train, dev), (train, test), (dev, test)):
        assert_apart(one, other)
    of_test = {name for name, text in zip(names, texts, strict=True) if text in set(test) and name != "repeats"}
    assert [text for text, name in zip(texts, names, strict=True) if name in of_test] == [
        text for text in test if text in test[: 10 * len(of_test)]
    ]


def test_a_sentence_of_a_dev_document_that_test_has_too_is_left_out(tmp_path):
    shared = ("We thank you for your letter.", "Wir danken Ihnen.")
    texts: list[tuple[str, str]] = []
    names: list[str] = []
    for n, pair in enumerate(big_corpus(300)):
        texts += [pair, *([shared] if n % 10 == 0 else [])]  # in each document
        names += [f"doc {n // 10}"] * (len(texts) - len(names))
    split_pairs(tmp_path / "out", texts, names, n_dev=15, n_test=25)
    n_shared = {name: part(tmp_path / "out", name).count(shared) for name in ("train", "dev", "test")}
    assert (n_shared["train"], n_shared["dev"]) == (0, 0) and n_shared["test"] >= 2
    rows = [row for row in left_out(tmp_path / "out") if row[4] == shared[0]]
    assert {tuple(row[2:4]) for row in rows} == {("test", "source")}
    assert len(rows) + n_shared["test"] == 30


def test_a_sentence_that_documents_of_dev_alone_share_stays_in_each(tmp_path):
    shared = ("We thank you for your letter.", "Wir danken Ihnen.")
    corpus = big_corpus(300)
    names = [f"doc {n // 10}" for n in range(300)]
    split_pairs(tmp_path / "first", corpus, names, n_dev=20, n_test=20)
    of_dev = {name for name, text in zip(names, corpus, strict=True) if text in set(part(tmp_path / "first", "dev"))}
    texts, owners = [], []
    for n, (name, pair) in enumerate(zip(names, corpus, strict=True)):
        is_first = n % 10 == 0 and name in of_dev
        texts += [shared, pair] if is_first else [pair]
        owners += [name] * (1 + is_first)
    split_pairs(tmp_path / "second", texts, owners, n_dev=20, n_test=20)
    dev = part(tmp_path / "second", "dev")
    assert {name for name, text in zip(owners, texts, strict=True) if text in set(dev)} == of_dev, "the same documents"
    assert dev.count(shared) == len(of_dev) == 2
    assert [row for row in left_out(tmp_path / "second") if row[4] == shared[0]] == []


def test_too_few_sentences_are_an_error_and_leave_nothing_behind(tmp_path):
    with pytest.raises(DataError, match=r"10 pairs only 1 are unlike.*need 6"):
        split_pairs(tmp_path / "out", [("The same.", "Dasselbe.")] * 10)
    with pytest.raises(DataError, match="nothing is left to train on"):
        split_pairs(tmp_path / "out", big_corpus(6))
    assert not list(tmp_path.iterdir())


def test_the_report_is_written_beside_the_text(tmp_path):
    report = split_pairs(tmp_path / "out", big_corpus())
    assert json.loads((tmp_path / "out" / REPORT).read_text(encoding="utf-8")) == {
        "n_pairs": 400,
        "train": report.train,
        "dev": 3,
        "test": 3,
        "left_out": {},
        "seed": 1,
        "by_document": False,
    }
    assert report.train == 394


def test_a_sentence_of_two_lines_is_written_as_one(tmp_path):
    split_pairs(tmp_path / "out", [*big_corpus(), ("one\ntwo\tthree", "eins\r\nzwei")])
    assert ("one two\tthree", "eins  zwei") in part(tmp_path / "out", "train")


def test_candidates_that_are_all_alike_are_not_compared_each_with_each(monkeypatch):
    n_compared = 0
    one_of_two = near._ngrams

    def counting(text):
        nonlocal n_compared
        n_compared += 1
        return one_of_two(text)

    monkeypatch.setattr(near, "_ngrams", counting)
    variants = [chr(97 + i % 26) + chr(97 + i // 26 % 26) for i in range(600)]
    sources = [f"The product that you are looking for is not to be had in the colour {name}." for name in variants]
    pairs = [Pair(src, "Nicht verfügbar.", "a.en", line) for line, src in enumerate(sources, start=1)]
    assert _unlike_each_other(pairs) == pairs[:1]
    assert n_compared < 30_000  # each with each would be 720,000

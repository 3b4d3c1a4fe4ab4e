"""What of dev and test the training text has: hand-made cases, and every pair compared with every other."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.config.data import CorpusFiles
from mtkit.data import overlap
from mtkit.data.overlap import find_overlaps, known_overlap, overlap_file, overlaps_of
from mtkit.pair_files.pairs import Pair

WORDS = ["the", "cat", "dog", "a", "house", "sees", "Tom", "walks", "to", "river", "by", "3", "17", ",", ".", "Don't"]
sentences = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)
corpora = st.lists(st.tuples(sentences, st.sampled_from("xy")), min_size=1, max_size=10)


def pairs(name: str, *texts: tuple[str, str]) -> list[Pair]:
    return [Pair(src, tgt, name, line) for line, (src, tgt) in enumerate(texts, start=1)]


@pytest.mark.parametrize(
    ("src", "tgt", "kind"),
    [
        ("I have 3 cats.", "J'ai 3 chats.", "pair"),
        ("I have  3 cats. ", "J'ai 3  chats.", "pair"),
        ("I have 3 cats.", "J'ai trois chats.", "source"),
        ("i have 3 cats!", "J'ai 3 chats.", "near"),
        ("I have 27 cats.", "J'ai 27 chats.", "near"),
        ("So I have 3 cats.", "J'ai donc 3 chats.", "near"),  # 12 of 15 4-grams
        ("I have 3 dogs.", "J'ai 3 chiens.", None),
        ("We had 3 cats.", "Nous avions 3 chats.", None),
        ("!!", "!!", None),
        ("", "", None),
    ],
)
def test_hand_made_cases(src, tgt, kind):
    train = pairs("train", ("Good morning.", "Bonjour."), ("I have 3 cats.", "J'ai 3 chats."), ("??", "?"), ("", ""))
    found = find_overlaps({"dev": pairs("dev", ("Snow.", "Neige."), (src, tgt))}, train)["dev"]
    assert found.n_pairs == 2
    assert found.counts == {"pair": 0, "source": 0, "near": 0} | ({kind: 1} if kind else {})
    assert found.examples == ({kind: ("dev:2", "train:2")} if kind else {})


def test_the_closest_like_counts_wherever_it_comes():
    train = pairs("train", ("i have a cat", "a"), ("I have a cat.", "b"), ("I have a cat.", "J'ai un chat."))
    dev = pairs("dev", ("I have a cat.", "J'ai un chat."))
    for order in (train, train[::-1]):
        found = find_overlaps({"dev": dev, "test": pairs("test", ("I have a cat!", "c"))}, order)
        assert found["dev"].examples == {"pair": ("dev:1", "train:3")}
        assert found["test"].counts == {"pair": 0, "source": 0, "near": 1}


def ngrams(text: str) -> set[str]:
    """4-grams of a text without case and punctuation, its numbers 0."""
    kept = "".join(char if char.isalnum() else " " for char in text.lower())
    words = ["0" if word.isdigit() else word for word in kept.split()]
    padded = " " + " ".join(words) + " "
    return {padded[i : i + 4] for i in range(max(1, len(padded) - 3))}


@given(corpora, corpora)
def test_the_index_finds_what_comparing_all_pairs_finds(held_out, train):
    expected = {"pair": 0, "source": 0, "near": 0}
    for src, tgt in held_out:
        if not src:
            continue
        likes = {tgt == other_tgt for other, other_tgt in train if other == src}
        grams = [(ngrams(src), ngrams(other)) for other, _ in train if other and not set(src + other) <= set(" ,.")]
        if likes:
            expected["pair" if True in likes else "source"] += 1
        elif any(len(a & b) >= 0.7 * len(a | b) for a, b in grams):
            expected["near"] += 1
    assert find_overlaps({"dev": pairs("dev", *held_out)}, pairs("train", *train))["dev"].counts == expected


def test_of_a_large_training_text_only_the_first_part_is_compared_by_ngrams(monkeypatch):
    dev = pairs("dev", ("So I have 3 cats.", "a"), ("It snows.", "b"))
    train = pairs("train", ("Snow.", "c"), ("I have 3 cats.", "d"), ("it snows", "e"))
    assert find_overlaps({"dev": dev}, train)["dev"].counts["near"] == 2
    monkeypatch.setattr(overlap, "_MOST_COMPARED", 1)
    assert find_overlaps({"dev": dev}, train)["dev"].counts["near"] == 1


def test_the_result_is_kept_for_the_same_text_only(tmp_path, monkeypatch):
    rng = random.Random(1)
    for name in ("train", "dev", "test"):
        lines = [" ".join(rng.choices(WORDS, k=6)) for _ in range(20)]
        (tmp_path / f"{name}.tsv").write_text("".join(f"{line}\tx\n" for line in lines))
    files = {name: CorpusFiles(tsv=tmp_path / f"{name}.tsv") for name in ("train", "dev", "test")}
    held_out, kept = {"dev": files["dev"], "test": files["test"]}, tmp_path / "cache" / "overlap.json"
    first = overlaps_of(held_out, [files["train"]], kept)
    assert json.loads(kept.read_text())["found"]["dev"]["n_pairs"] == 20
    calls = []
    monkeypatch.setattr(overlap, "find_overlaps", lambda *args: calls.append(args) or find_overlaps(*args))
    assert overlaps_of(held_out, [files["train"]], kept) == first
    assert not calls
    for damage in ("{", "[]", '{"of": 1}', kept.read_text().replace('"near"', '"far"'), "[" * 100_000):
        kept.write_text(damage)
        assert overlaps_of(held_out, [files["train"]], kept) == first
    assert len(calls) == 5
    with (tmp_path / "train.tsv").open("a") as file:
        file.write(f"{(tmp_path / 'dev.tsv').read_text().splitlines()[0]}\n")
    assert overlaps_of(held_out, [files["train"]], kept)["dev"].counts["pair"] >= 1


def test_a_run_knows_the_overlap_of_its_own_texts_wherever_they_lie(tmp_path):
    for name, lines in {"train": ["a b\tx", "c d\ty"], "dev": ["e f\tz"], "test": ["c d\ty", "g\th"]}.items():
        (tmp_path / f"{name}.tsv").write_text("".join(f"{line}\n" for line in lines))
    files = {name: CorpusFiles(tsv=tmp_path / f"{name}.tsv") for name in ("train", "dev", "test")}
    assert known_overlap(tmp_path / "run", files["test"]) is None
    held_out = {"dev": files["dev"], "test": files["test"]}
    overlaps_of(held_out, [files["train"]], overlap_file(tmp_path / "run"))
    moved = (tmp_path / "test.tsv").rename(tmp_path / "moved.tsv")
    known = known_overlap(tmp_path / "run", CorpusFiles(tsv=moved))
    assert known is not None
    assert (known.n_pairs, known.counts["pair"]) == (2, 1)
    moved.write_text("c d\ty\n")
    assert known_overlap(tmp_path / "run", CorpusFiles(tsv=moved)) is None
    overlap_file(tmp_path / "run").write_text("[" * 100_000)
    assert known_overlap(tmp_path / "run", CorpusFiles(tsv=moved)) is None

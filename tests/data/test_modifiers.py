"""Changed pairs: each change by examples, what stays, rates, seeds, and the same batches after a restart."""

import itertools
import re
from random import Random
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.config.augment import ModifierName
from mtkit.config.tags import TOKENS
from mtkit.config.tokenizer import TokenizerConfig
from mtkit.data.encoded import EncodedSide, PairsInMemory
from mtkit.data.feed import BatchStream, Position
from mtkit.data.modifiers import Modifiers, PairSampler, can_continue, change_examples, joined
from mtkit.data.subwords import SubwordSampler
from mtkit.tokens.tokenizer import Tokenizer, train_tokenizer

NAMES: list[ModifierName] = [name for name in get_args(ModifierName) if name != "joined"]


def changed(name: ModifierName, src: str, tgt: str, langs: tuple[str, str] = ("en", "de"), seed: int = 0):
    return Modifiers(*langs).changed(name, src, tgt, Random(seed))


@pytest.mark.parametrize(
    ("name", "pair", "expected"),
    [
        ("capitals", ("Where is it?", "Wo ist es?"), ("WHERE IS IT?", "WO IST ES?")),
        ("lower_case", ("Tom is in Rome.", "Tom ist in Rom."), ("tom is in rome.", "Tom ist in Rom.")),
        ("title_case", ("Tom isn't here.", "Tom ist weg."), ("Tom Isn't Here.", "Tom ist weg.")),
        ("no_final_mark", ("Where is it?", "Wo ist es?"), ("Where is it", "Wo ist es")),
        ("no_final_mark", ("He said: “No.”", "Er sagte: „Nein.“"), ("He said: “No.”", "Er sagte: „Nein.“")),
        ("no_final_mark", ("A car", "Ein Auto."), ("A car", "Ein Auto.")),  # nothing to lose
        ("no_final_mark", ("...", "..."), ("...", "...")),
        ("capitals", ("I", "Ich"), ("I", "Ich")),  # the reader of I does not shout
        ("capitals", ("STOP!", "Halt!"), ("STOP!", "Halt!")),
    ],
)
def test_each_change_by_example(name, pair, expected):
    assert changed(name, *pair) == expected


@pytest.mark.parametrize(
    ("langs", "name", "pair", "expected"),
    [
        (("en", "zh"), "capitals", ("Play NBA now.", "现在玩NBA。"), ("PLAY NBA NOW.", "现在玩NBA。")),
        (("zh", "en"), "capitals", ("现在玩NBA。", "Play NBA now."), ("现在玩NBA。", "Play NBA now.")),
        (("src", "tgt"), "lower_case", ("现在玩Nba。", "Play it."), ("现在玩Nba。", "Play it.")),  # unknown codes
        (("ka", "en"), "capitals", ("გამარჯობა.", "Hello."), ("გამარჯობა.", "Hello.")),  # has no capitals in text
        (("tr", "en"), "capitals", ("iyi günler.", "good day."), ("İYİ GÜNLER.", "GOOD DAY.")),
        (("en", "fr"), "no_final_mark", ("Why?", "Pourquoi ?"), ("Why", "Pourquoi")),
        (("en", "es"), "no_final_mark", ("Why?", "¿Por qué?"), ("Why", "Por qué")),
        (("zh", "en"), "no_final_mark", ("为什么？", "Why?"), ("为什么", "Why")),
        (("zh", "en"), "typos", ("现在玩这个游戏。", "Play this game."), ("现在玩这个游戏。", "Play this game.")),
        (("yo", "en"), "title_case", ("ọ̀rọ̀ за́мок.", "A word."), ("Ọ̀rọ̀ За́мок.", "A word.")),
        (("hi", "en"), "typos", ("यह किताब है।", "This is a book."), ("यह किताब है।", "This is a book.")),
    ],
)
def test_changes_follow_the_languages(langs, name, pair, expected):
    src, tgt = pair
    assert changed(name, src, tgt, langs) == expected


def typos_of(src: str, tgt: str, lang: str = "en", n: int = 300) -> set[str]:
    made = [changed("typos", src, tgt, (lang, "de"), seed) for seed in range(n)]
    assert {after for _, after in made} == {tgt}  # the target stays
    return {after for after, _ in made}


def is_one_typo(before: str, after: str) -> bool:
    """Whether one letter was inserted, deleted, replaced or swapped with its neighbour (Damerau 1964)."""
    places = range(len(before) + 1)
    inserted = {before[:i] + c + before[i:] for i in places for c in after}
    deleted = {before[:i] + before[i + 1 :] for i in places}
    replaced = {before[:i] + c + before[i + 1 :] for i in places[:-1] for c in after}
    swapped = {before[:i] + before[i + 1 : i + 2] + before[i : i + 1] + before[i + 2 :] for i in places}
    return after in inserted | deleted | replaced | swapped


def test_a_typo_is_one_slip_of_one_word_and_leaves_its_first_letter():
    src = "Please bring some bread."
    made = typos_of(src, "Bitte bring Brot mit.") - {src}  # which has "bring", too
    assert len(made) > 50
    for after in made:
        assert is_one_typo(src, after)
        assert [word[0] for word in after.split()] == ["P", "b", "s", "b"]
        assert "bring" in after


@pytest.mark.parametrize(
    ("lang", "word", "neighbours"),
    [
        ("en", "aga", set("tyfhvb")),  # around g on an English keyboard
        ("de", "aza", set("tuhg")),  # where z is between t and u
        ("ru", "ага", set("ншро")),  # г is where u is on an English keyboard
    ],
)
def test_a_wrong_key_is_next_to_the_right_one(lang, word, neighbours):
    pressed = {after[1] for after in typos_of(word, "x", lang) if len(after) == 3 and after[0] == after[2] == word[0]}
    assert pressed - {word[1]} <= neighbours | {word[0]}
    assert len(pressed & neighbours) >= 3


KEPT = [
    "3.50",
    "https://example.org/Path?Q=a",
    "Ann.Lee@example.org",
    "{userName}",
    "%s",
    "<b>",
    "</b>",
    "<ph3>",
    "2nd1",
]
WORDS = ["hello", "Berlin", "don't", "Straße", "Œuvre", "ich", "a"]


@given(
    st.lists(st.sampled_from(KEPT + WORDS), min_size=1, max_size=12),
    st.lists(st.sampled_from(KEPT + WORDS), min_size=1, max_size=12),
    st.sampled_from(NAMES),
    st.integers(0, 2**32),
)
def test_a_change_keeps_digits_addresses_placeholders_and_tags_and_repeats_with_its_seed(srcs, tgts, name, seed):
    pair = " ".join(srcs) + " .", " ".join(tgts) + " !"
    after = changed(name, *pair, seed=seed)
    for before, text in zip(pair, after, strict=True):
        for kept in KEPT[:-1]:
            assert before.count(kept) == text.count(kept)
        assert re.findall(r"\d", before) == re.findall(r"\d", text)
    assert changed(name, *pair, seed=seed) == after
    assert changed("typos", *pair, seed=seed)[1] == pair[1]


def test_each_rate_has_an_example_if_a_pair_allows_it():
    pairs = [("Where is Tom?", "Wo ist Tom?"), ("He is at home.", "Er ist zu Hause.")]
    rates: dict[ModifierName, float] = {"no_final_mark": 0.05, "joined": 0.1, "capitals": 0.02}
    found = change_examples(rates, Modifiers("en", "de"), pairs)
    assert [(one.name, one.rate, one.src, one.tgt) for one in found] == [
        ("no_final_mark", 0.05, "Where is Tom", "Wo ist Tom"),
        ("joined", 0.1, "Where is Tom? He is at home.", "Wo ist Tom? Er ist zu Hause."),
        ("capitals", 0.02, "HE IS AT HOME.", "ER IST ZU HAUSE."),
    ]
    assert str(found[0]) == "5 % no final mark: Where is Tom | Wo ist Tom"
    assert change_examples({"typos": 0.1}, Modifiers("zh", "en"), [("他在家。", "He is at home.")]) == []


def test_sentences_are_joined_as_their_script_joins_them():
    assert joined(["Stop!", "Go.", "Where"]) == "Stop! Go. Where"
    assert joined(["停！", "走。", "哪里"]) == "停！走。哪里"
    assert joined(["मैं घर जाता हूँ।", "वह आता है।"]) == "मैं घर जाता हूँ। वह आता है।"
    assert can_continue("Stop!", "Halt!")
    assert not can_continue("A car", "Ein Auto.")


LINES = [f"{a} {b} {c}." for a in ("Old", "New", "Big") for b in ("cats", "dogs", "trees") for c in ("sleep", "stay")]


class Corpus:
    """The parts of an EncodedCorpus that a sampler needs; the second half of the sources has a tag."""

    def __init__(self, tokenizer: Tokenizer, lines: list[str]) -> None:
        half = len(lines) // 2
        tagged = tokenizer.tagged("<t>").encode_batch(lines[half:])
        self.src = encoded(tokenizer.encode_batch(lines[:half]) + tagged)
        self.tgt = encoded(tokenizer.encode_batch([line.upper() for line in lines]))
        self.src_lengths, self.tgt_lengths = self.src.lengths, self.tgt.lengths
        self.sizes, self.n_pairs = [half, len(lines) - half], len(lines)

    def corpora_of(self, indices):
        return (indices >= self.sizes[0]).astype(np.int64)

    def take(self, indices):
        return PairsInMemory(self.src.take(indices), self.tgt.take(indices))

    def release(self):
        pass


def encoded(sentences: list[list[int]]) -> EncodedSide:
    lengths = np.array(list(map(len, sentences)), dtype=np.int32)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return EncodedSide(np.array(list(itertools.chain.from_iterable(sentences)), np.uint16), starts, lengths)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> Tokenizer:
    path = tmp_path_factory.mktemp("spm") / "both.spm"
    lines = [*LINES, *(line.upper() for line in LINES)]
    return train_tokenizer(lines * 3, TokenizerConfig(vocab_size=340), path, tags=["<t>"])


def sampler(tokenizer, rates, *, seed=1, max_tokens=99, subwords=None):
    tags = [None, "<t>"]
    languages = Modifiers("en", "en")
    return PairSampler(languages, rates, (tokenizer, tokenizer), tags, seed, max_tokens=max_tokens, subwords=subwords)


def texts(tokenizer, side: EncodedSide) -> list[str]:
    return [tokenizer.decode(side[i].tolist()).removeprefix("<t>").strip() for i in range(len(side.lengths))]


def test_each_change_happens_as_often_as_its_rate_says(tokenizer):
    n, rates = 3000, {"lower_case": 0.2, "no_final_mark": 0.1, "joined": 0.3}
    lines = (LINES * n)[:n]
    pairs = sampler(tokenizer, rates).sample(Corpus(tokenizer, lines), np.arange(n), epoch=0)
    made = texts(tokenizer, pairs.tgt)
    shares = {
        "lower_case": np.mean([src.islower() for src in texts(tokenizer, pairs.src)]),
        "no_final_mark": np.mean([not tgt.endswith(".") for tgt in made]),
        "joined": np.mean([len(re.findall(r"SLEEP|STAY", tgt)) > 1 for tgt in made]),
    }
    for name, rate in rates.items():
        assert abs(shares[name] - rate) < 4 * (rate * (1 - rate) / n) ** 0.5, name
    assert {len(re.findall(r"SLEEP|STAY", tgt)) for tgt in made} == {1, 2, 3, 4}


def test_other_epochs_and_seeds_change_other_pairs_and_the_same_ones_the_same(tokenizer):
    corpus, indices = Corpus(tokenizer, LINES * 20), np.arange(len(LINES) * 20)
    rates = {"capitals": 0.2, "typos": 0.5, "joined": 0.2}

    def drawn(seed, epoch, window=0):
        pairs = sampler(tokenizer, rates, seed=seed).sample(corpus, indices, epoch, window)
        return texts(tokenizer, pairs.src), texts(tokenizer, pairs.tgt)

    assert drawn(1, 3) == drawn(1, 3)
    assert len({str(drawn(*place)) for place in ((1, 3), (1, 4), (2, 3), (1, 3, 1))}) == 4


def test_a_pair_that_an_epoch_repeats_is_changed_differently(tokenizer):
    corpus = Corpus(tokenizer, LINES)
    pairs = sampler(tokenizer, {"typos": 1.0}).sample(corpus, np.zeros(40, np.int64), epoch=0)
    assert len(set(texts(tokenizer, pairs.src))) > 10


def test_a_changed_pair_keeps_its_tag_and_joins_pairs_with_the_same_one(tokenizer):
    corpus = Corpus(tokenizer, LINES)
    half = len(LINES) // 2
    pairs = sampler(tokenizer, {"joined": 1.0}).sample(corpus, np.arange(len(LINES)), epoch=0)
    [tag] = tokenizer.piece_ids(["<t>"])
    for i, (src, tgt) in enumerate(zip(texts(tokenizer, pairs.src), texts(tokenizer, pairs.tgt), strict=True)):
        ids = pairs.src[i].tolist()
        assert (ids[0] == tag, ids.count(tag)) == (i >= half, int(i >= half))
        sentences = re.findall(r"[A-Z][^.]*\.", src)
        assert [sentence.upper() for sentence in sentences] == re.findall(r"[A-Z][^.]*\.", tgt)
        assert set(sentences) <= set(LINES[half:] if i >= half else LINES[:half])
        assert sentences[0] == LINES[i]


def test_joined_pairs_share_no_placeholder(tmp_path):
    names = [f"{{{letter}}}" for letter in "abcdefghij"]
    lines = [f"Old {name} sleep in {other}." for name in names for other in names]
    cfg = TokenizerConfig(vocab_size=300)
    path = tmp_path / "ph.spm"
    reader = train_tokenizer(LINES * 4, cfg, path, tags=["<t>", *TOKENS]).with_placeholders([r"\{\w+\}"])
    corpus = Corpus(reader, lines)
    corpus.tgt = encoded(reader.encode_batch(lines))  # the placeholders of the source
    pairs = sampler(reader, {"joined": 1.0}).sample(corpus, np.arange(len(lines)), epoch=0)
    counts = set()
    for src, tgt in zip(texts(reader, pairs.src), texts(reader, pairs.tgt), strict=True):
        assert src == tgt
        found = re.findall("<ph[1-9]>", src)
        counts.add(len(found))
        assert len(set(found)) == len(found)
    assert counts == {4, 6, 8}


def test_a_pair_that_would_become_too_long_stays_as_it_is(tokenizer):
    corpus = Corpus(tokenizer, LINES)
    longest = int(max(corpus.src_lengths.max(), corpus.tgt_lengths.max()))
    pairs = sampler(tokenizer, {"joined": 1.0}, max_tokens=longest).sample(corpus, np.arange(len(LINES)), epoch=0)
    assert texts(tokenizer, pairs.src) == texts(tokenizer, corpus.src)


def test_what_the_tokenizer_reads_in_lower_case_gets_no_capitals(tmp_path):
    cfg = TokenizerConfig(vocab_size=300, normalization="nmt_nfkc_cf")
    folding = train_tokenizer(LINES * 4, cfg, tmp_path / "a.spm", tags=["<t>"])
    corpus = Corpus(folding, LINES)
    pairs = sampler(folding, {"capitals": 1.0}).sample(corpus, np.arange(len(LINES)), epoch=0)
    assert pairs.tgt.ids.tolist() == corpus.tgt.ids.tolist()


def updates_of(tokenizer, n, position, **options):
    lines = LINES * 30
    subwords = SubwordSampler(tokenizer, tokenizer, 0.5, 0.0, 1)
    changes = sampler(tokenizer, {"typos": 0.3, "capitals": 0.2, "joined": 0.2}, subwords=subwords)
    corpus: Any = Corpus(tokenizer, lines)
    feed = BatchStream(corpus, batch_tokens=120, accumulate=4, seed=1, sampler=changes, window_pairs=200, **options)
    made, places = [], []
    with feed:
        for _ in range(n):
            batches, position = feed.next_after(position)
            made.append([(batch.src.tolist(), batch.tgt_out.tolist()) for batch in batches])
            places.append(position)
    return made, places


def test_resumed_runs_and_several_processes_see_the_same_text(tokenizer):
    whole, places = updates_of(tokenizer, 30, Position())
    assert {place.window for place in places} >= {0, 1, 2}
    for n_done in (1, 13, 22):
        assert updates_of(tokenizer, 30 - n_done, places[n_done - 1])[0] == whole[n_done:]
    first, second = (updates_of(tokenizer, 30, Position(), part=(rank, 2))[0] for rank in (0, 1))
    assert whole == [
        [batch for both in itertools.zip_longest(a, b) for batch in both if batch is not None]
        for a, b in zip(first, second, strict=True)
    ]

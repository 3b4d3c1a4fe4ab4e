"""Subword regularisation: draws spell the same text, follow their distribution, and depend on the seed alone."""

import hashlib
import itertools
import logging
import math
import subprocess
import sys
from collections import Counter, defaultdict
from typing import Literal

import numpy as np
import pytest
import sentencepiece

from mtkit.config.schema import Config
from mtkit.config.tokenizer import TokenizerConfig, TokenizersConfig
from mtkit.data.encoded import EncodedSide, PairsInMemory
from mtkit.data.subwords import SubwordSampler
from mtkit.errors import ConfigError
from mtkit.tokens.segmentation import UnigramSegmentation
from mtkit.tokens.sentencepiece_file import Piece
from mtkit.tokens.tokenizer import Tokenizer, train_tokenizer

LINES = ["low lower lowest", "new newer newest", "wide wider widest", "a slow widow knew the wind", "es tut weh"] * 8
KINDS: tuple[Literal["bpe", "unigram"], ...] = ("bpe", "unigram")


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory) -> dict[str, Tokenizer]:
    folder = tmp_path_factory.mktemp("spm")
    return {
        kind: train_tokenizer(LINES, TokenizerConfig(type=kind, vocab_size=330), folder / f"{kind}.spm", tags=["<2de>"])
        for kind in KINDS
    }


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request, tokenizers) -> Tokenizer:
    return tokenizers[request.param]


@pytest.fixture
def tiny_config(tmp_path):
    files = {"src": tmp_path / "a", "tgt": tmp_path / "b"}
    return Config.model_validate({"data": {"train": [files], "dev": files}, "train": {"max_steps": 5000}})


def encoded(tokenizer: Tokenizer, lines: list[str]) -> EncodedSide:
    ids = tokenizer.encode_batch(lines)
    lengths = np.array([len(sentence) for sentence in ids], dtype=np.int32)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return EncodedSide(np.array([i for sentence in ids for i in sentence], dtype=np.uint16), starts, lengths)


def corpus(tokenizer: Tokenizer, lines: list[str]) -> PairsInMemory:
    side = encoded(tokenizer, lines)
    return PairsInMemory(side, side)


def sampler(tokenizer: Tokenizer, sampling: float = 0.3, **settings: int) -> SubwordSampler:
    return SubwordSampler(tokenizer, tokenizer, sampling, 0.0, settings.pop("seed", 1), **settings)


def sentences(side: EncodedSide) -> list[list[int]]:
    return [side[i].tolist() for i in range(len(side.lengths))]


def everything(n: int) -> np.ndarray:
    return np.arange(n)


def test_a_draw_spells_the_same_text_in_other_pieces(tokenizer):
    lines = ["Lower, the widest wind!", "çé 漢字 low 😀 wider", "  new   es ", "newest <2de> low", "x", "wwwwwwwww"]
    side = sampler(tokenizer).sample(corpus(tokenizer, lines * 20), everything(120), epoch=0).src
    spelled = sentences(side)
    assert [tokenizer.decode(ids) for ids in spelled] == [tokenizer.normalize(line) for line in lines] * 20
    for start in range(len(lines) - 2):  # "x" and the like may have a single segmentation
        assert len({tuple(ids) for ids in spelled[start :: len(lines)]}) > 1
    assert side.starts.tolist() == [0, *itertools.accumulate(map(len, spelled))]
    assert (side.ids.dtype, side.lengths.dtype) == (np.uint16, np.int32)


def test_a_tag_is_never_split(tokenizer):
    tagged = tokenizer.tagged("<2de>")
    [tag] = tokenizer.piece_ids(["<2de>"])
    lines = ["low <2de> newest", "wider<2de>wider"] * 50
    for ids in sentences(sampler(tokenizer).sample(corpus(tagged, lines), everything(100), epoch=0).src):
        assert ids[0] == tag
        assert ids.count(tag) == 2
        assert all("<" not in piece and "2" not in piece for piece in tokenizer.pieces(i for i in ids if i != tag))


def piece_scores(tokenizer: Tokenizer) -> dict[str, float]:
    """The scores of all pieces but the special ones and the bytes, by SentencePiece."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer.path))
    return {processor.id_to_piece(i): processor.get_score(i) for i in range(4 + 256, len(processor))}


def cut(text: str, cuts: tuple[bool, ...]) -> tuple[str, ...]:
    places = [0, *(place for place, is_cut in enumerate(cuts, start=1) if is_cut), len(text)]
    return tuple(text[i:j] for i, j in itertools.pairwise(places))


def drawn(tokenizer: Tokenizer, text: str, sampling: float, n: int) -> Counter[tuple[str, ...]]:
    side = sampler(tokenizer, sampling).sample(corpus(tokenizer, [text] * n), everything(n), epoch=3).src
    return Counter(tuple(tokenizer.pieces(ids)) for ids in sentences(side))


@pytest.mark.parametrize("alpha", [0.1, 0.9])
def test_unigram_pieces_are_drawn_by_their_probability_to_the_power_of_alpha(tmp_path, alpha):
    tokenizer = train_tokenizer(LINES, TokenizerConfig(vocab_size=330), tmp_path / "src.spm")
    scores = piece_scores(tokenizer)
    ways = (cut("▁widest", cuts) for cuts in itertools.product([False, True], repeat=6))
    weights = {way: math.exp(alpha * sum(map(scores.__getitem__, way))) for way in ways if set(way) <= set(scores)}
    assert len(weights) > 3
    n, total = 20_000, sum(weights.values())
    counts = drawn(tokenizer, "widest", alpha, n)
    assert set(counts) <= set(weights)
    for way, weight in weights.items():
        p = weight / total
        assert abs(counts[way] - n * p) <= 5 * math.sqrt(n * p * (1 - p)) + 1, way


def test_a_unigram_draw_does_not_depend_on_earlier_text(monkeypatch):
    """A resumed run has seen less text, so its lattice nodes have lower indices; its draws must not differ in a bit."""
    pieces = [Piece("a", -1.0), Piece("b", -1.3), Piece("ab", -2.1), Piece("aba", -3.7)]
    fresh, old = (UnigramSegmentation(pieces, alpha=0.3) for _ in range(2))
    old._n_nodes = 1_999_990
    stretch = [(0, 1, 0)]  # aba
    fresh.sample(stretch, np.zeros(1, np.int64), np.zeros(1, np.uint64))
    limits = np.array(fresh._cumulated) % 1
    near = (limits[:, None] + np.arange(-3000, 3000) * 2.0**-42).ravel()  # around each, also closer than 2^-30
    near = near[(near >= 0) & (near < 1)]
    keys = np.zeros(len(near), np.uint64)
    draws = []
    for segmentation in (fresh, old):
        monkeypatch.setattr("mtkit.tokens.segmentation.uniform", lambda keys, step: near[: len(keys)])
        draws.append(segmentation.sample(stretch, np.zeros(len(near), np.int64), keys))
    assert len(np.unique(draws[0][0])) > 2
    for first, second in zip(*draws, strict=True):
        np.testing.assert_array_equal(first, second)


def bpe_dropout(scores: dict[str, float], split: tuple[str, ...], p: float) -> dict[tuple[str, ...], float]:
    """Return the probability of each result of Algorithm 1 of Provilkov et al. 2020, which begins with this split.

    At each step, it drops every possible merge or not, and makes the best of the others.
    """
    merges = sorted(
        (-scores[left + right], place)
        for place, (left, right) in enumerate(itertools.pairwise(split))
        if left + right in scores
    )
    probs = defaultdict(float, {split: p ** len(merges)})
    for rank, (_, place) in enumerate(merges):  # the better ones are dropped
        merged = (*split[:place], split[place] + split[place + 1], *split[place + 2 :])
        for parts, prob in bpe_dropout(scores, merged, p).items():
            probs[parts] += p**rank * (1 - p) * prob
    return probs


@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_bpe_pieces_are_drawn_as_bpe_dropout_does(tmp_path, dropout):
    tokenizer = train_tokenizer(LINES, TokenizerConfig(type="bpe", vocab_size=330), tmp_path / "src.spm")
    scores = piece_scores(tokenizer)
    probs = bpe_dropout(scores, tuple("▁widest"), dropout)
    assert len(probs) > 3
    assert sum(probs.values()) == pytest.approx(1)
    n = 20_000
    counts = drawn(tokenizer, "widest", dropout, n)
    assert set(counts) <= set(probs)
    for parts, p in probs.items():
        assert abs(counts[parts] - n * p) <= 5 * math.sqrt(n * p * (1 - p)) + 1, parts


def test_with_hardly_any_dropout_bpe_segments_like_sentencepiece(tmp_path):
    tokenizer = train_tokenizer(LINES, TokenizerConfig(type="bpe", vocab_size=330), tmp_path / "src.spm")
    pairs = corpus(tokenizer, [*LINES, "newlow stew  snows wesel 漢", "lowlowlow"])
    side = sampler(tokenizer, 1e-12).sample(pairs, everything(len(pairs.src.lengths)), epoch=0).src
    assert sentences(side) == sentences(pairs.src)


def test_a_draw_depends_on_neither_earlier_calls_nor_other_pairs(tokenizer):
    pairs = corpus(tokenizer, LINES)
    same = sampler(tokenizer)
    together = sentences(same.sample(pairs, everything(40), epoch=2).src)
    assert sentences(sampler(tokenizer).sample(pairs, everything(40), epoch=2).src) == together
    same.sample(pairs, everything(40), epoch=5)
    assert sentences(same.sample(pairs, np.array([31, 4, 17]), epoch=2).src) == [together[i] for i in (31, 4, 17)]
    assert sentences(sampler(tokenizer, seed=2).sample(pairs, everything(40), epoch=2).src) != together
    assert sentences(same.sample(pairs, everything(40), epoch=3).src) != together
    assert sentences(same.sample(pairs, everything(40), epoch=2, window=1).src) != together


def test_a_repeated_pair_is_drawn_twice(tokenizer):
    pairs = corpus(tokenizer, ["a slow widow knew the wind " * 4])
    first, second = sentences(sampler(tokenizer).sample(pairs, np.array([0, 0]), epoch=0).src)
    assert first != second


_FRESH_PROCESS = """
import sys, hashlib, pathlib
sys.path.insert(0, {tests!r})
import test_subwords as t
for path in {paths!r}:
    print(t.checksum(t.Tokenizer.load(pathlib.Path(path))))
"""


def checksum(tokenizer: Tokenizer) -> str:
    side = sampler(tokenizer).sample(corpus(tokenizer, LINES), everything(40), epoch=1).src
    return hashlib.sha256(side.ids.astype(np.int64).tobytes()).hexdigest()


def test_another_process_draws_the_same(tokenizers, request):
    paths = [str(tokenizer.path) for tokenizer in tokenizers.values()]
    script = _FRESH_PROCESS.format(tests=str(request.path.parent), paths=paths)
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.split() == [checksum(tokenizer) for tokenizer in tokenizers.values()]


def test_the_cache_between_calls_changes_nothing(tokenizer, monkeypatch):
    pairs = corpus(tokenizer, LINES)
    expected = sentences(sampler(tokenizer).sample(pairs, everything(40), epoch=1).src)
    monkeypatch.setattr("mtkit.tokens.segmentation._MOST_NODES", 0)
    monkeypatch.setattr("mtkit.tokens.segmentation._MOST_SEGMENTATIONS", 0)
    forgetful = sampler(tokenizer)
    forgetful.sample(pairs, everything(40), epoch=0)
    assert sentences(forgetful.sample(pairs, everything(40), epoch=1).src) == expected


def test_a_segmentation_that_is_too_long_is_replaced_by_the_tokenizers(tokenizer):
    pairs = corpus(tokenizer, LINES)
    limit = int(np.median(pairs.src.lengths))
    free = sentences(sampler(tokenizer).sample(pairs, everything(40), epoch=0).src)
    kept = sentences(sampler(tokenizer, max_tokens=limit).sample(pairs, everything(40), epoch=0).src)
    own = sentences(pairs.src)
    assert kept == [own[i] if len(free[i]) > limit else free[i] for i in range(40)]
    assert 0 < sum(len(ids) > limit for ids in free) < 40


def test_the_sides_are_drawn_independently(tokenizer):
    both = SubwordSampler(tokenizer, tokenizer, 0.3, 0.3, seed=1)
    pairs = both.sample(corpus(tokenizer, LINES), everything(40), epoch=0)
    assert sentences(pairs.src) != sentences(pairs.tgt), "they hold the same text"


def test_no_piece_crosses_a_sentence_boundary(tokenizer):
    letters = ["\u2581", "w", "i", "d", "e", "s", "t"]  # parts of a word, each as a sentence of its own
    ids = np.array(tokenizer.piece_ids(letters * 10), dtype=np.uint16)
    side = EncodedSide(ids, np.arange(71), np.ones(70, dtype=np.int32))
    sampled = sampler(tokenizer, 0.1).sample(PairsInMemory(side, side), everything(70), epoch=0).src
    assert [tokenizer.pieces(sentence) for sentence in sentences(sampled)] == [[letter] for letter in letters * 10]


def test_a_side_without_sampling_is_unchanged(tokenizer):
    pairs = corpus(tokenizer, LINES)
    sampled = sampler(tokenizer).sample(pairs, np.array([3, 1]), epoch=0)
    assert sentences(sampled.tgt) == [sentences(pairs.tgt)[i] for i in (3, 1)]
    assert sentences(sampled.src) != sentences(sampled.tgt)


def test_sampling_needs_a_tokenizer_with_several_segmentations(tmp_path):
    with pytest.raises(ValueError, match=r"sampling=0\.1 .*type"):
        TokenizerConfig(type="char", sampling=0.1)
    tokenizer = train_tokenizer(LINES, TokenizerConfig(type="char"), tmp_path / "src.spm")
    with pytest.raises(ConfigError, match=r"src\.spm: a char tokenizer .*sampling"):
        sampler(tokenizer)


def test_a_shared_tokenizer_is_sampled_by_the_settings_of_src(tokenizer, tiny_config, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("mtkit"), "propagate", True)
    both = TokenizersConfig(src=TokenizerConfig(sampling=0.2), shared=True)
    pairs = corpus(tokenizer, LINES)
    shared = SubwordSampler.from_config(tiny_config.model_copy(update={"tokenizer": both}), tokenizer, tokenizer)
    assert shared is not None
    sampled = shared.sample(pairs, everything(40), epoch=0)
    assert sentences(sampled.tgt) != sentences(pairs.tgt)
    assert not caplog.text
    off = TokenizersConfig(src=TokenizerConfig(), tgt=TokenizerConfig(sampling=0.2), shared=True)
    assert SubwordSampler.from_config(tiny_config.model_copy(update={"tokenizer": off}), tokenizer, tokenizer) is None
    assert "tokenizer.tgt.sampling=0.2 " in caplog.text
    assert "tokenizer.src.sampling=0.0 " in caplog.text

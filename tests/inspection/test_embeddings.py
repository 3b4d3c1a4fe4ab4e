"""Nearest tokens: by brute force in plain Python; the initial weights: those that a real run begins with."""

import math

import pytest
import torch

from mtkit.bundle import load_bundle
from mtkit.config.schema import TokenizerConfig
from mtkit.data.tokenizer import Tokenizer, train_tokenizer
from mtkit.errors import DataError
from mtkit.inspection.embeddings import BEFORE, CHANGE, TRAINED, Space, Vocabulary, Word, nearest_of, views_of
from mtkit.inspection.initial import beginning_of


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory) -> Vocabulary:
    """Tokens for whole words and for single letters."""
    lines = [f"{word} {other}" for word in ("orange", "apple", "table") for other in ("cat", "dog", "house")] * 9
    path = tmp_path_factory.mktemp("tokenizer") / "words.spm"
    train_tokenizer(lines, TokenizerConfig(type="bpe", vocab_size=300), path)
    return Vocabulary(Tokenizer.load(path))


@pytest.fixture(scope="module")
def space(vocabulary) -> Space:
    return Space(vocabulary, torch.randn(len(vocabulary.pieces), 6, generator=torch.Generator().manual_seed(3)))


def is_text(piece: str) -> bool:
    return not (piece.startswith("<") and piece.endswith(">")) or piece == "<>"


def brute_force(space: Space, ids: tuple[int, ...]) -> list[tuple[str, float, float]]:
    """Of every other token of text its cosine and its distance, in plain Python."""
    rows = space.vectors.tolist()
    query = [sum(rows[i][d] for i in ids) / len(ids) for d in range(6)]
    found = []
    for i, piece in enumerate(space.vocabulary.pieces):
        if i in ids or not is_text(piece):
            continue
        dot = sum(a * b for a, b in zip(query, rows[i], strict=True))
        found.append((piece, dot / math.hypot(*query) / math.hypot(*rows[i]), math.dist(query, rows[i])))
    return found


@pytest.mark.parametrize("text", ["cat", "dog cat", "orangehouse"])
def test_neighbours_are_those_of_a_search_through_all_tokens(space, text):
    word = space.vocabulary.word(text)
    found = space.nearest(word, 7)
    expected = brute_force(space, word.ids)
    by_cosine = sorted(expected, key=lambda token: -token[1])[:7]
    by_distance = sorted(expected, key=lambda token: token[2])[:7]
    assert [near.token for near in found.cosine] == [token[0] for token in by_cosine]
    assert [near.token for near in found.euclidean] == [token[0] for token in by_distance]
    for near, (_, cosine, distance) in zip(found.cosine, by_cosine, strict=True):
        assert (near.cosine, near.distance) == (pytest.approx(cosine, abs=1e-5), pytest.approx(distance, abs=1e-5))


def test_a_word_of_several_tokens_names_them_and_others_of_like_spelling(vocabulary):
    word = vocabulary.word("houuse")
    assert len(word.ids) > 1 and "".join(word.pieces) == "▁houuse"
    assert word.like[0] == "▁house"
    assert vocabulary.word("house") == Word("house", (vocabulary.pieces.index("▁house"),), ("▁house",))


def test_more_neighbours_than_there_are_tokens_are_all_of_them(space):
    word = space.vocabulary.word("cat")
    found = space.nearest(word, 10_000)
    assert len(found.cosine) == len(brute_force(space, word.ids)) == len(found.euclidean)


def test_a_vector_of_zeros_has_no_neighbours_and_is_none(vocabulary):
    vectors = torch.ones(len(vocabulary.pieces), 4)
    first, second = (vocabulary.text_ids[i] for i in (0, 1))
    vectors[first] = 0.0
    space = Space(vocabulary, vectors)
    assert space.nearest(vocabulary.token(vocabulary.pieces[first]), 3).cosine == ()
    near = space.nearest(vocabulary.token(vocabulary.pieces[second]), 10_000)
    assert first not in {neighbour.id for neighbour in (*near.cosine, *near.euclidean)}


def test_characters_that_no_token_has_are_named(vocabulary):
    with pytest.raises(
        DataError, match=r"words\.spm has no token with 日, 本, so .*; no token is spelt nearly like it"
    ):
        vocabulary.word("日本")


def test_what_is_no_token_gets_tokens_of_like_spelling(vocabulary):
    with pytest.raises(DataError, match=r"'▁hous': no token of words.spm; spelt most alike: ▁house"):
        vocabulary.token("▁hous")
    with pytest.raises(DataError, match=r"no token with z, so .* spelt most alike: ▁house"):
        vocabulary.word("zhouse")


@pytest.mark.parametrize("text", ["", "  "])
def test_a_blank_word_is_refused(vocabulary, text):
    with pytest.raises(DataError, match="there is nothing to look for"):
        vocabulary.word(text)


def test_views_are_the_matrices_and_their_difference(bundle_of_a_run):
    bundle = load_bundle(bundle_of_a_run)
    begun = beginning_of(bundle)
    for side in ("src", "tgt"):
        views = {view.name: view.space.vectors for view in views_of(bundle, side).views}
        weights = getattr(bundle.model, f"{side}_embedding").weight
        assert torch.equal(views[TRAINED], weights)
        assert torch.equal(views[BEFORE], getattr(begun.model, f"{side}_embedding").weight)
        assert torch.equal(views[CHANGE], weights - views[BEFORE])
    [nearest] = nearest_of(views_of(bundle, "src"), [Vocabulary(bundle.src_tokenizer).word("cat")], 2)
    assert list(nearest.views) == [TRAINED, BEFORE, CHANGE]

"""Nearest tokens: by brute force in plain Python; the initial weights: those that a real run begins with."""

import json
import math
import shutil

import pytest
import torch

from mtkit.bundle import MANIFEST, load_bundle
from mtkit.config.tokenizer import TokenizerConfig
from mtkit.errors import DataError
from mtkit.files import sha256_file
from mtkit.inspection.embeddings import (
    BEFORE,
    CHANGE,
    TRAINED,
    Space,
    Vocabulary,
    Word,
    drawn_model,
    initial_model,
    nearest_of,
    views_of,
)
from mtkit.model.transformer import Transformer
from mtkit.runs.train import train
from mtkit.tokens.tokenizer import Tokenizer, train_tokenizer
from mtkit.training.preparation.prepare import prepare
from mtkit.training.update.checkpoint import Checkpoints


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
def test_neighbours_equal_a_search_through_all_tokens(space, text):
    word = space.vocabulary.word(text)
    found = space.nearest(word, 7)
    expected = brute_force(space, word.ids)
    by_cosine = sorted(expected, key=lambda token: -token[1])[:7]
    by_distance = sorted(expected, key=lambda token: token[2])[:7]
    assert [near.token for near in found.cosine] == [token[0] for token in by_cosine]
    assert [near.token for near in found.euclidean] == [token[0] for token in by_distance]
    for near, (_, cosine, distance) in zip(found.cosine, by_cosine, strict=True):
        assert (near.cosine, near.distance) == (pytest.approx(cosine, abs=1e-5), pytest.approx(distance, abs=1e-5))


def test_a_word_of_several_tokens_lists_them_and_similar_tokens(vocabulary):
    word = vocabulary.word("houuse")
    assert len(word.ids) > 1 and "".join(word.pieces) == "▁houuse"
    assert word.like[0] == "▁house"
    assert vocabulary.word("house") == Word("house", (vocabulary.pieces.index("▁house"),), ("▁house",))


def test_more_neighbours_than_there_are_tokens_are_all_of_them(space):
    word = space.vocabulary.word("cat")
    found = space.nearest(word, 10_000)
    assert len(found.cosine) == len(brute_force(space, word.ids)) == len(found.euclidean)


def test_a_vector_of_zeros_has_no_neighbours_and_is_never_one(vocabulary):
    vectors = torch.ones(len(vocabulary.pieces), 4)
    first, second = (vocabulary.text_ids[i] for i in (0, 1))
    vectors[first] = 0.0
    space = Space(vocabulary, vectors)
    assert space.nearest(vocabulary.token(vocabulary.pieces[first]), 3).cosine == ()
    near = space.nearest(vocabulary.token(vocabulary.pieces[second]), 10_000)
    assert first not in {neighbour.id for neighbour in (*near.cosine, *near.euclidean)}


def test_unknown_characters_are_named(vocabulary):
    with pytest.raises(DataError, match=r"'日本': words\.spm .* 日, 本, "):
        vocabulary.word("日本")


def test_an_unknown_token_is_refused_with_similar_tokens(vocabulary):
    with pytest.raises(DataError, match=r"'▁hous' .* words\.spm; .*: ▁house"):
        vocabulary.token("▁hous")
    with pytest.raises(DataError, match=r"'zhouse': words\.spm .* z, .*: ▁house"):
        vocabulary.word("zhouse")


@pytest.mark.parametrize("text", ["", "  "])
def test_a_blank_word_is_refused(vocabulary, text):
    with pytest.raises(DataError, match="is blank"):
        vocabulary.word(text)


def test_views_are_the_matrices_and_their_difference(bundle_of_a_run):
    bundle = load_bundle(bundle_of_a_run)
    initial = initial_model(bundle)
    for side in ("src", "tgt"):
        views = {view.name: view.space.vectors for view in views_of(bundle, side).views}
        weights = getattr(bundle.model, f"{side}_embedding").weight
        assert torch.equal(views[TRAINED], weights)
        assert torch.equal(views[BEFORE], getattr(initial.model, f"{side}_embedding").weight)
        assert torch.equal(views[CHANGE], weights - views[BEFORE])
    [nearest] = nearest_of(views_of(bundle, "src"), [Vocabulary(bundle.src_tokenizer).word("cat")], 2)
    assert list(nearest.views) == [TRAINED, BEFORE, CHANGE]


def edit_config(folder, old: str, new: str):
    """The bundle with another config.yaml, and a manifest that says so."""
    path, manifest = folder / "config.yaml", folder / MANIFEST
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    found = json.loads(manifest.read_text())
    found["sha256"]["config.yaml"] = sha256_file(path)
    manifest.write_text(json.dumps(found))


def test_the_initial_weights_are_those_of_the_trainer(bundle_of_a_run, config_of_a_run):
    initial = initial_model(load_bundle(bundle_of_a_run))
    assert initial.origin == "the weights drawn from seed=7"
    run_dir = bundle_of_a_run.parent
    updater = prepare(config_of_a_run, run_dir, Checkpoints(run_dir / "checkpoints")).updater
    expected = updater.model.state_dict()
    assert initial.model is not None
    assert initial.model.state_dict().keys() == expected.keys()
    for name, weight in initial.model.state_dict().items():
        assert torch.equal(weight, expected[name]), name


def test_the_initial_weights_of_a_guided_run_come_from_its_lexicon(config_of_a_run, tmp_path):
    guided = config_of_a_run.train.model_copy(update={"guided_alignment": 0.1, "max_steps": 4, "warmup_steps": 2})
    cfg = config_of_a_run.model_copy(update={"run_dir": tmp_path / "guided", "train": guided})
    found = initial_model(load_bundle(train(cfg).bundle))
    assert found.origin == "the weights drawn from seed=7, with the lexicon's translations"
    initial = found.model
    began = prepare(cfg, tmp_path / "again", Checkpoints(tmp_path / "again" / "checkpoints")).updater.model.state_dict()
    assert initial is not None
    assert not torch.allclose(began["tgt_embedding.weight"], drawn(cfg, initial), atol=0.1)
    for name, weight in initial.state_dict().items():
        assert torch.allclose(weight, began[name], atol=1e-5), name


def drawn(cfg, model: Transformer) -> torch.Tensor:
    """The vectors of target tokens that the seed alone gives."""
    with torch.random.fork_rng():
        torch.manual_seed(cfg.seed)
        return model.new_like().tgt_embedding.weight


def test_drawing_a_model_keeps_the_random_state_of_the_process(bundle_of_a_run):
    bundle = load_bundle(bundle_of_a_run)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    drawn_model(bundle)
    assert torch.equal(torch.rand(3), expected)


def test_vectors_that_training_never_moves_reveal_another_seed(bundle_of_a_run, tmp_path):
    folder = shutil.copytree(bundle_of_a_run, tmp_path / "other")
    edit_config(folder, "seed: 7", "seed: 8")
    initial = initial_model(load_bundle(folder))
    assert initial.model is None
    assert "seed=8 are not the initial weights" in initial.origin


def test_a_run_that_began_with_a_model_began_with_its_weights(bundle_of_a_run, tmp_path):
    folder = shutil.copytree(bundle_of_a_run, tmp_path / "warm")
    edit_config(folder, "init_from: null", f"init_from: {bundle_of_a_run}")
    bundle, origin = load_bundle(folder), load_bundle(bundle_of_a_run)
    initial = initial_model(bundle)
    assert initial.model is not None and origin.model is not None
    assert torch.equal(initial.model.src_embedding.weight, origin.model.src_embedding.weight)
    assert initial.origin == f"the weights of train.init_from={bundle_of_a_run}"


def test_vectors_of_zeros_are_the_same_though_they_have_no_direction(bundle_of_a_run, monkeypatch):
    bundle = load_bundle(bundle_of_a_run)
    initial = drawn_model(bundle)
    with torch.no_grad():
        for model in (initial, bundle.model):
            model.src_embedding.weight[:4] = 0
    monkeypatch.setattr("mtkit.inspection.embeddings.drawn_model", lambda bundle: initial)
    assert initial_model(bundle).model is initial


@pytest.mark.parametrize(
    ("training", "init_from", "reason"),
    [
        ({}, "/nowhere/model", "train.init_from cannot be read: /nowhere/model: no such folder"),
        ({"imported": {"format": "marian"}}, "null", "imported"),
        ({"averaged_models": ["a", "b"]}, "null", "mean of several models"),
    ],
)
def test_unknown_initial_weights_come_with_a_reason(bundle_of_a_run, tmp_path, training, init_from, reason):
    folder = shutil.copytree(bundle_of_a_run, tmp_path / "other")
    if init_from != "null":
        edit_config(folder, "init_from: null", f"init_from: {init_from}")
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**manifest, "training": training}))
    initial = initial_model(load_bundle(folder))
    assert initial.model is None
    assert reason in initial.origin

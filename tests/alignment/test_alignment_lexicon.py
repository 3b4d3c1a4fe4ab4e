"""The lexicon of a bundle: saved and loaded as it was, and mixed with attention."""

import math
import shutil
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from mtkit.alignment.attention import _mixed
from mtkit.alignment.coverage import FILE
from mtkit.alignment.forced import ForcedPair
from mtkit.alignment.lexicon import AlignmentLexicon, alignment_lexicon
from mtkit.bundle import add_to_bundle, read_bundle
from mtkit.data.encoded import EncodedSide
from mtkit.engines.lexicon import EMPTY_WORD
from mtkit.errors import BundleError


def side_of(sentences) -> EncodedSide:
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int32)
    ids = np.concatenate([np.array(sentence) for sentence in sentences])
    return EncodedSide(ids, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), lengths)


@pytest.fixture(scope="module")
def lexicon() -> AlignmentLexicon:
    """Of a language whose word i + 20 translates the other's word i, with the first two words swapped."""
    rng = np.random.default_rng(1)
    src = [rng.choice(np.arange(4, 20), size=rng.integers(3, 8), replace=False) for _ in range(300)]
    return AlignmentLexicon.learn(
        side_of(src), side_of([sentence[[1, 0, *range(2, len(sentence))]] + 20 for sentence in src]), 20, 40
    )


def test_a_saved_lexicon_says_the_same(lexicon, tmp_path):
    lexicon.save(tmp_path / "a.npz")
    src, tgt = torch.tensor([[5, 9, 12, 7]]), torch.tensor([[29, 25, 32, 27]])
    before, after = (one.agreement(src, tgt)[0] for one in (lexicon, AlignmentLexicon.load(tmp_path / "a.npz")))
    assert torch.allclose(before, after, atol=2e-3)
    assert before.argmax(1).tolist() == [1, 0, 2, 3]
    assert before.max(1).values.min() > 0.5
    vectors = torch.randn(20, 8, generator=torch.Generator().manual_seed(1))
    assert torch.equal(lexicon.translated(vectors), AlignmentLexicon.load(tmp_path / "a.npz").translated(vectors))


def test_unknown_words_have_no_link(lexicon):
    assert not lexicon.agreement(torch.tensor([[3, 3]]), torch.tensor([[39]])).any()


def test_a_word_is_translated_by_the_vector_of_its_counterpart(lexicon):
    vectors = torch.randn(20, 64, generator=torch.Generator().manual_seed(2))
    translated = lexicon.translated(vectors)
    assert translated.shape == (40, 64)
    assert not translated[:24].any() and not translated[20 + 20 :].any()  # no text has these tokens
    cosines = translated[24:40] @ F.normalize(vectors, dim=1).T
    assert cosines.argmax(1).tolist() == list(range(4, 20))
    assert translated[24:40].norm(dim=1).tolist() == pytest.approx([1.0] * 16)


def test_each_source_token_counts_by_the_mean_of_both_directions(lexicon):
    """One token at a time, with the tables read as dictionaries."""
    forward, backward = (
        {divmod(key, table.n_to): prob for key, prob in zip(table.keys.tolist(), table.probs.tolist(), strict=True)}
        for table in (lexicon.forward, lexicon.backward)
    )
    vectors = torch.randn(20, 8, generator=torch.Generator().manual_seed(3))
    for tgt in range(24, 40):
        weights = [math.sqrt(forward.get((src, tgt), 0.0) * backward.get((tgt, src), 0.0)) for src in range(20)]
        weights[EMPTY_WORD] = 0.0
        mean = [sum(w * x for w, x in zip(weights, column, strict=True)) for column in vectors.T.tolist()]
        expected = [x / math.hypot(*mean) for x in mean]
        assert lexicon.translated(vectors)[tgt].tolist() == pytest.approx(expected, abs=2e-3)  # rounded as in a file


def test_weights_are_a_mixture_of_attention_and_lexicon(lexicon):
    attention = torch.tensor([[0.1, 0.8, 0.1], [0.6, 0.2, 0.2]])
    pair = ForcedPair([5, 9], [29, 25])
    known = lexicon.agreement(torch.tensor([[5, 9]]), torch.tensor([[29, 25]]))[0]
    found = _mixed(attention, pair, lexicon)
    assert torch.allclose(found[:, :2], 0.3 * attention[:, :2] + 0.7 * known)
    assert torch.allclose(found[:, 2], 0.3 * attention[:, 2])
    assert torch.all(found.sum(1) <= 1 + 1e-6)


def test_a_damaged_lexicon_is_named(shared_bundle, tmp_path):
    assert alignment_lexicon(read_bundle(shared_bundle)) is None
    (tmp_path / FILE).write_bytes(b"no arrays")
    with pytest.raises(BundleError, match=FILE):
        AlignmentLexicon.load(tmp_path / FILE)
    np.savez(tmp_path / "other.npz", forward_steps=np.arange(3), forward_probs=np.ones(2), forward_size=np.array(4))
    with pytest.raises(BundleError, match=r"other\.npz"):
        AlignmentLexicon.load(tmp_path / "other.npz")


@pytest.mark.parametrize("key", [-1, 12])
def test_a_lexicon_of_tokens_beyond_its_vocabularies_is_refused(key, tmp_path):
    steps, probs, sizes = np.array([key]), np.ones(1), {"forward": 4, "backward": 3}
    arrays: dict[str, Any] = {f"{name}_steps": steps if name == "forward" else steps * 0 for name in sizes}
    arrays |= {f"{name}_probs": probs for name in sizes} | {f"{name}_size": np.array(n) for name, n in sizes.items()}
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(BundleError, match="beyond its vocabularies"):
        AlignmentLexicon.load(tmp_path / "a.npz")


def test_a_bundle_brings_its_lexicon(lexicon, shared_bundle, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(shared_bundle, folder)
    add_to_bundle(folder, FILE, lexicon.save)
    found = alignment_lexicon(read_bundle(folder))
    assert found is not None
    assert len(found.forward.keys) > 0

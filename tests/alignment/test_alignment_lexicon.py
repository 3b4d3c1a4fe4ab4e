"""The lexicon of a bundle: saved and loaded as it was, and mixed with attention."""

import shutil

import numpy as np
import pytest
import torch

from mtkit.alignment.attention import _mixed
from mtkit.alignment.coverage import FILE
from mtkit.alignment.forced import ForcedPair
from mtkit.alignment.lexicon import AlignmentLexicon, alignment_lexicon
from mtkit.bundle import add_to_bundle, read_bundle
from mtkit.data.encoded import EncodedSide
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


def test_unknown_words_have_no_link(lexicon):
    assert not lexicon.agreement(torch.tensor([[3, 3]]), torch.tensor([[39]])).any()


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


def test_a_bundle_brings_its_lexicon(lexicon, shared_bundle, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(shared_bundle, folder)
    add_to_bundle(folder, FILE, lexicon.save)
    found = alignment_lexicon(read_bundle(folder))
    assert found is not None
    assert len(found.forward.keys) > 0

"""Sentences near to one another by encoder state: against a search through states of sentences encoded alone."""

import pytest
import torch

from mtkit.bundle import load_bundle
from mtkit.config.data import CorpusFiles
from mtkit.errors import DataError, UsageError
from mtkit.inspection.neighbours import mean_states, nearest_sentences
from mtkit.scoring.scoring import BLANK
from mtkit.tokens.special_ids import EOS_ID

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def bundle(bundle_of_a_run):
    return load_bundle(bundle_of_a_run)


@torch.no_grad()
def state_alone(bundle, text: str) -> torch.Tensor:
    memory, _ = bundle.model.encode(torch.tensor([[*bundle.src_tokenizer.encode(text), EOS_ID]]))
    return memory[0].mean(0)


def test_padding_changes_no_mean_state(bundle):
    texts = ["cat", "one red dog sees two", "dog dog"]
    together = mean_states(bundle.model, bundle.src_tokenizer.encode_batch(texts))
    for row, text in zip(together, texts, strict=True):
        assert torch.allclose(row, state_alone(bundle, text), atol=1e-5)


def test_the_nearest_sentences_equal_a_search_through_all(bundle):
    [files] = bundle.config.data.train
    texts = files.src.read_text().splitlines()
    asked = state_alone(bundle, "one red cat")
    cosines = {text: float(torch.cosine_similarity(state_alone(bundle, text), asked, dim=0)) for text in texts}
    expected = sorted(cosines, key=lambda text: -cosines[text])[:6]
    found = nearest_sentences(bundle, "one red cat", [files], 6, device=CPU)
    assert [near.src for near in found.nearest] == expected
    assert [near.cosine for near in found.nearest] == pytest.approx([cosines[text] for text in expected], abs=1e-5)
    assert found.n_pairs == 120
    for near in found.nearest:
        assert near.n_pairs == texts.count(near.src)
        assert [pair.line for pair in near.pairs] == [i for i, text in enumerate(texts, 1) if text == near.src][:5]


def test_a_sentence_is_nearest_to_itself_and_listed_once_with_all_its_pairs(bundle, tmp_path):
    src, tgt = tmp_path / "a.en", tmp_path / "a.fr"
    src.write_text("dog\n" + "cat\n" * 7 + "\ntwo red\n")
    tgt.write_text("\n".join("abcdefghij") + "\n")
    found = nearest_sentences(bundle, "cat", [CorpusFiles(src=src, tgt=tgt)], 2, device=CPU)
    first, second = found.nearest
    assert (first.src, first.n_pairs) == ("cat", 7)
    assert first.cosine == pytest.approx(1.0, abs=1e-6)
    assert [(pair.line, pair.tgt) for pair in first.pairs] == [(2, "b"), (3, "c"), (4, "d"), (5, "e"), (6, "f")]
    assert second.cosine < 1.0
    assert found.skipped.counts == {BLANK: 1} and found.skipped.first[BLANK] == f"{src}:9"


def test_a_blank_sentence_is_refused(bundle):
    with pytest.raises(UsageError, match="--near ' ': the source is blank"):
        nearest_sentences(bundle, " ", bundle.config.data.train, 2, device=CPU)


def test_a_tag_that_the_model_does_not_know_is_refused(bundle):
    files = bundle.config.data.dev[0].model_copy(update={"tag": "<2de>"})
    with pytest.raises(DataError, match="it has no tag <2de>"):
        nearest_sentences(bundle, "cat", [files], 2, device=CPU)

"""Embeddings, hardest pairs and nearest sentences of every kind of model, with tags, and beyond its positions."""

from typing import cast

import pytest
import torch

from mtkit.bundle import Bundle, load_bundle, save_bundle
from mtkit.config.data import CorpusFiles
from mtkit.config.schema import Config
from mtkit.errors import UsageError
from mtkit.inspection.embeddings import CHANGE, drawn_model, views_of
from mtkit.inspection.hard_pairs import rank_pairs, with_own_translations
from mtkit.inspection.neighbours import mean_states, nearest_sentences
from mtkit.model.transformer import Transformer
from mtkit.scoring.scoring import Scorer
from mtkit.tokens.special_ids import EOS_ID
from mtkit.tokens.tokenizer import Tokenizer, train_tokenizer

CPU = torch.device("cpu")
LINES = ["red cat", "one dog sees two red cats", "blue", "two"]


@pytest.fixture
def make_bundle(config_of_a_run, tmp_path):
    """make_bundle(model section) is a bundle whose weights are those that its seed draws."""

    def make(**model) -> Bundle:
        values = config_of_a_run.model_dump(mode="json")
        values["model"] |= model
        values["tokenizer"]["shared"] = model.get("tie") == "all"
        values["data"]["max_tokens"] = 7
        cfg, spm = Config.model_validate(values), tmp_path / "tagged.spm"
        train_tokenizer(LINES * 5, cfg.tokenizer.src, spm, tags=["<2fr>"])
        tokenizer, folder = Tokenizer.load(spm), tmp_path / "bundle"
        empty = Bundle(folder, cfg, tokenizer, tokenizer, {}, model=cast(Transformer, None))
        save_bundle(folder, drawn_model(empty).state_dict(), cfg, spm, spm, training={})
        return load_bundle(folder)

    return make


def corpus(folder, tag: str | None = None) -> CorpusFiles:
    path = folder / f"text{tag is not None}.tsv"
    path.write_text("".join(f"{line}\t{line}\n" for line in LINES))
    return CorpusFiles(tsv=path, tag=tag)


@pytest.mark.parametrize(
    "model",
    [
        {"norm_position": "post"},
        {"decoder": "ssru", "norm": "rmsnorm"},
        {"positions": "rotary", "activation": "swiglu"},
        {"positions": "learned", "max_positions": 64},
        {"tie": "all"},
        {"tie": "none", "norm_position": "post"},
    ],
)
def test_every_kind_of_model_can_be_inspected(make_bundle, tmp_path, model):
    bundle = make_bundle(**model)
    for side in ("src", "tgt"):
        views = views_of(bundle, side)
        assert views.origin == "the weights drawn from seed=7"
        changes = {view.name: view.space.vectors for view in views.views}[CHANGE]
        assert not changes.any()
    scorer = Scorer(bundle.model, bundle.src_tokenizer, bundle.tgt_tokenizer)
    alone = [-scorer.score([(line, line)])[0].mean for line in LINES]
    ranking = rank_pairs(bundle, [corpus(tmp_path)], 4, device=CPU)
    assert [hard.nats_per_token for hard in ranking.hardest] == pytest.approx(sorted(alone, reverse=True), abs=1e-5)
    assert len(with_own_translations(bundle, ranking.hardest, device=CPU)) == 4
    [near, *_] = nearest_sentences(bundle, LINES[1], [corpus(tmp_path)], 2, device=CPU).nearest
    assert near.src == LINES[1] and near.cosine == pytest.approx(1, abs=1e-5)
    ids = bundle.src_tokenizer.encode_batch(LINES)
    memory, _ = bundle.model.encode(torch.tensor([[*ids[2], EOS_ID]]))
    assert torch.allclose(mean_states(bundle.model, ids)[2], memory[0].mean(0), atol=1e-5)


def test_each_corpus_is_read_with_its_tag(make_bundle, tmp_path):
    bundle = make_bundle()
    tagged, plain = corpus(tmp_path, "<2fr>"), corpus(tmp_path)
    ranking = rank_pairs(bundle, [tagged, plain], 8, device=CPU)
    for hard in with_own_translations(bundle, ranking.hardest, device=CPU):
        tag = "<2fr>" if hard.pair.file == str(tagged.tsv) else None
        assert hard.tag == tag
        assert hard.own is not None
        scorer = Scorer(bundle.model, bundle.src_tokenizer.tagged(tag), bundle.tgt_tokenizer)
        given, own = scorer.score([(hard.pair.src, hard.pair.tgt), (hard.pair.src, hard.own.text)])
        assert hard.nats_per_token == pytest.approx(-given.mean, abs=1e-5)
        if hard.own.text and own.n_tokens:
            assert hard.own.nats_per_token > 0
    found = nearest_sentences(bundle, LINES[0], [tagged, plain], 1, device=CPU).nearest[0]
    assert (found.src, found.n_pairs) == (LINES[0], 2) and found.cosine == pytest.approx(1, abs=1e-5)


def test_what_is_longer_than_learned_positions_is_left_out_or_refused(make_bundle, tmp_path):
    bundle = make_bundle(positions="learned", max_positions=8)
    path = tmp_path / "long.tsv"
    path.write_text(f"{'blue ' * 9}\tblue\nblue\tblue\n")
    reason = "the source is longer than model.max_positions=8"
    files = CorpusFiles(tsv=path)
    assert rank_pairs(bundle, [files], 3, device=CPU).skipped.counts == {reason: 1}
    assert nearest_sentences(bundle, "blue", [files], 3, device=CPU).skipped.counts == {reason: 1}
    with pytest.raises(UsageError, match=reason):
        nearest_sentences(bundle, "blue " * 9, [files], 3, device=CPU)

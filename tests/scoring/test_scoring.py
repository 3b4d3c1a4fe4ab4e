"""Forced decoding against the model's plain forward pass, and against the scores of a search."""

import math
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
import torch

from mtkit.alignment.forced import ForcedPair, forced_batches
from mtkit.bundle import load_bundle
from mtkit.engines.native import NativeEngine
from mtkit.errors import MtkitError
from mtkit.model.transformer import Transformer
from mtkit.scoring import scoring
from mtkit.scoring.scoring import (
    PairScore,
    Scorer,
    ScoreTotals,
    ensemble_log_probs,
    native_models,
    perplexity,
    score_candidates,
    token_log_probs,
)
from mtkit.search.hypothesis import Engine
from mtkit.tokens.special_ids import BOS_ID, EOS_ID
from mtkit.translation.translator import Translator

LINES = ["I love oranges.", "Do you see the big house?", "It rains", "The cat sleeps under the table, it rains.", "cat"]


@pytest.fixture(scope="module")
def loaded(shared_bundle):
    return load_bundle(shared_bundle)


@pytest.fixture
def scorer(loaded):
    return Scorer(loaded.model, loaded.src_tokenizer, loaded.tgt_tokenizer)


def random_pairs(model: Transformer, n: int) -> list[ForcedPair]:
    rng = np.random.default_rng(0)

    def ids(min_len: int) -> list[int]:
        return rng.integers(4, model.tgt_embedding.num_embeddings, rng.integers(min_len, 12)).tolist()

    return [ForcedPair(ids(1), ids(0), ends=index % 3 > 0) for index in range(n)]


def forward(model: Transformer, pair: ForcedPair) -> list[float]:
    """Return each token's log-probability by a whole forward pass over this pair alone."""
    src = torch.tensor([[*pair.src, EOS_ID]])
    tgt_in = torch.tensor([[BOS_ID, *pair.tgt]])
    with torch.no_grad():
        log_probs = torch.log_softmax(model(src, tgt_in)[0].double(), dim=-1)
    outputs = [*pair.tgt, *([EOS_ID] if pair.ends else [])]
    return [log_probs[position, token_id].item() for position, token_id in enumerate(outputs)]


@pytest.mark.parametrize("batch_tokens", [1, 40, 100_000])
def test_scores_are_those_of_the_forward_pass_in_any_batch(loaded, batch_tokens):
    pairs = random_pairs(loaded.model, 30)
    all_scores = token_log_probs(loaded.model, pairs, batch_tokens=batch_tokens)
    for pair, scores in zip(pairs, all_scores, strict=True):
        assert scores == pytest.approx(forward(loaded.model, pair), abs=1e-5)


def test_log_probs_over_the_vocabulary_are_computed_in_chunks(loaded, monkeypatch):
    pairs = random_pairs(loaded.model, 9)
    expected = token_log_probs(loaded.model, pairs)
    rows = []
    chosen = scoring._chosen
    monkeypatch.setattr(scoring, "_CHUNK", 4)
    monkeypatch.setattr(scoring, "_chosen", lambda model, x, ids: rows.append(len(x)) or chosen(model, x, ids))
    for scores, others in zip(token_log_probs(loaded.model, pairs), expected, strict=True):
        assert scores == pytest.approx(others, abs=1e-5)
    assert max(rows) == 4


def test_a_batch_keeps_to_its_tokens_and_every_pair_is_in_one(loaded):
    pairs = random_pairs(loaded.model, 40)
    batches = list(forced_batches(pairs, torch.device("cpu"), batch_tokens=50))
    assert sorted(index for batch in batches for index in batch.indices) == list(range(40))
    assert all(len(batch.indices) * max(batch.src.size(1), batch.tgt_in.size(1)) <= 50 for batch in batches)
    assert any(len(batch.indices) > 3 for batch in batches)


def test_dropout_is_off_and_the_mode_stays(loaded):
    model = Transformer(loaded.config.model, 300, 300).train()
    pairs = [ForcedPair([5, 6], [7, 8])]
    assert token_log_probs(model, pairs) == token_log_probs(model, pairs)
    assert model.training


def test_no_pairs_and_empty_pairs(loaded):
    assert token_log_probs(loaded.model, []) == []
    assert token_log_probs(loaded.model, [ForcedPair([5], [], ends=False)]) == [[]]


@pytest.mark.parametrize(("beam_size", "max_len"), [(1, None), (4, None), (4, 3)])
def test_the_sum_is_what_the_search_reported(shared_bundle, beam_size, max_len):
    translator = Translator.load(shared_bundle, engine="native", beam_size=beam_size, max_len=max_len, threads=1)
    translations = list(translator.stream(LINES, n_best=beam_size))
    if max_len:
        assert any(not candidate.finished for translation in translations for candidate in translation.n_best)
    for translation, scores in zip(translations, score_candidates(translator, translations), strict=True):
        for candidate, score in zip(translation.n_best, scores, strict=True):
            assert score.log_prob == pytest.approx(candidate.log_prob, abs=1e-4)
            assert score.n_tokens == len(candidate.ids) + candidate.finished
            pieces = translator.tgt_tokenizer.pieces(candidate.ids)
            assert score.pieces == pieces + ["</s>"] * candidate.finished


def test_an_ensembles_sum_is_what_its_search_reported(make_bundle, shared_bundle, tmp_path):
    other = make_bundle(tmp_path / "other")
    torch.manual_seed(7)
    for parameter in other.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    translator = Translator.load(shared_bundle, engine="native", threads=1)
    assert isinstance(translator.engine, NativeEngine)
    translator.engine = NativeEngine([load_bundle(shared_bundle).model, other])
    translations = list(translator.stream(LINES))
    alone = [c.log_prob for [c] in Translator.load(shared_bundle, engine="native", threads=1).search(LINES)]
    for translation, [score], single in zip(
        translations, score_candidates(translator, translations), alone, strict=True
    ):
        assert score.log_prob == pytest.approx(translation.n_best[0].log_prob, abs=1e-4)
        assert score.log_prob != pytest.approx(single, abs=1e-3)


def test_an_ensemble_averages_probabilities():
    members = [[math.log(0.5), math.log(0.1)], [math.log(0.25), math.log(0.3)]]
    assert ensemble_log_probs(members) == pytest.approx([math.log(0.375), math.log(0.2)])


def test_blank_and_split_lines_have_a_problem_instead_of_scores(shared_bundle):
    translator = Translator.load(shared_bundle, engine="native", max_src_tokens=8, threads=1)
    translations = list(translator.stream(["  ", "cat", "It rains, it rains. It rains, it rains."]))
    [[blank], [scored], [split]] = score_candidates(translator, translations)
    assert blank.problem == "the source is blank"
    assert scored.problem is None
    assert split.problem == "the line was translated in segments"
    assert math.isnan(blank.log_prob) and math.isnan(split.mean)


def test_another_engine_is_refused():
    class Other:
        name = "ctranslate2"

    with pytest.raises(MtkitError, match=r"token scores .*decode\.engine=native and decode\.workers=1"):
        native_models(cast(Engine, Other()), "token scores")


def test_texts_are_scored_as_the_tokenizers_cut_them(scorer, loaded):
    pairs = list(zip(LINES, [*LINES[1:], " the  house "], strict=True))
    for (src, tgt), score in zip(pairs, scorer.score(pairs), strict=True):
        ids = loaded.tgt_tokenizer.encode(tgt)
        expected = forward(loaded.model, ForcedPair(loaded.src_tokenizer.encode(src), ids))
        assert score.log_probs == pytest.approx(expected, abs=1e-5)
        assert score.pieces == [*loaded.tgt_tokenizer.pieces(ids), "</s>"]
        assert score.log_prob == pytest.approx(sum(expected), abs=1e-4)
        assert score.mean == pytest.approx(sum(expected) / len(expected), abs=1e-4)
        assert score.perplexity == pytest.approx(math.exp(-sum(expected) / len(expected)), rel=1e-4)


def test_blank_sides(scorer, loaded):
    no_source, no_target, nothing = scorer.score([(" \t", "cat"), ("cat", ""), ("", "")])
    assert no_source.problem == nothing.problem == "the source is blank"
    assert math.isnan(no_source.log_prob) and math.isnan(no_source.perplexity) and no_source.n_tokens == 0
    [end] = forward(loaded.model, ForcedPair(loaded.src_tokenizer.encode("cat"), []))
    assert no_target.log_probs == pytest.approx([end], abs=1e-5)


def test_a_side_beyond_learned_positions_is_not_cut(loaded):
    cfg = loaded.config.model.model_copy(update={"positions": "learned", "max_positions": 8})
    sizes = loaded.src_tokenizer.vocab_size, loaded.tgt_tokenizer.vocab_size
    scorer = Scorer(Transformer(cfg, *sizes).eval(), loaded.src_tokenizer, loaded.tgt_tokenizer)
    fitting = "a" * 6  # and the space before it: seven tokens and EOS
    assert len(loaded.src_tokenizer.encode(fitting)) == 7
    fits, long_source, long_target = scorer.score([(fitting, fitting), (fitting + "a", "a"), ("a", fitting + "a")])
    assert fits.n_tokens == 8
    assert long_source.problem == "the source is longer than model.max_positions=8"
    assert long_target.problem is not None
    assert "translation is longer" in long_target.problem
    assert "model.max_positions=8" in long_target.problem


def test_a_perplexity_beyond_all_floats_is_infinite():
    assert perplexity(-800.0) == math.inf
    assert perplexity(-math.log(3)) == pytest.approx(3)


def test_totals_leave_out_what_was_not_scored(caplog):
    totals = ScoreTotals()
    first = PairScore(3, ["a", "</s>"], [-1.0, -2.0])
    for score in (PairScore(0, problem="bad"), first, PairScore(0, problem="bad"), replace(first, n_src_tokens=9)):
        totals.add(score, max_src_tokens=8)
    with caplog.at_level("INFO", logger="mtkit"):
        totals.report(max_src_tokens=8)
    left_out, long, scored = caplog.messages
    assert left_out.startswith("2 of 4 ") and "bad" in left_out and "line 1" in left_out
    assert long.startswith("1 of 4 ") and "decode.max_src_tokens=8" in long
    assert scored.startswith("2 of 4 ")
    assert all(fact in scored for fact in ("4 target tokens", "-6.00", "-1.5000", "4.482"))

"""Every search by compiled loops: as with the model's layers, and as likely as the model says of the ids returned."""

import math

import pytest
import torch
from searches import MODERN, SEARCHES, SEGMENTS, SHORTLIST, VOCAB_SIZE, decode, models_of

from mtkit.engines.native import NativeEngine
from mtkit.model import ops
from mtkit.model.transformer import Transformer
from mtkit.search.hypothesis import Hypothesis
from mtkit.tokens.special_ids import BOS_ID, EOS_ID

pytest.importorskip("numba")
from mtkit.model.cpu import tiles
from mtkit.model.cpu.compiled import CompiledTransformer

if not tiles.HAS_FLOATS:
    pytest.skip("this processor lacks the instructions", allow_module_level=True)

every_search = pytest.mark.parametrize("name", SEARCHES)
KINDS: list[dict[str, str]] = [{}, {"decoder": "ssru"}, MODERN]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)


@torch.no_grad()
def forced_log_prob(models: list[Transformer], src, hypothesis: Hypothesis, allowed=None) -> float:
    """What the models' layers give the ids by whole forward passes; with allowed ids, of their probability alone."""
    tgt = [BOS_ID, *hypothesis.ids, *([EOS_ID] if hypothesis.finished else [])]
    each = []
    for model in models:
        logits = model(torch.tensor([[*src, EOS_ID]]), torch.tensor([tgt[:-1]]))[0].double()
        if allowed is not None:
            logits[:, [token for token in range(VOCAB_SIZE) if token not in allowed]] = -math.inf
        each.append(logits.softmax(-1))
    mean = torch.stack(each).mean(0)
    return sum(math.log(mean[position, token]) for position, token in enumerate(tgt[1:]))


def loops_and_models(kind: dict[str, str], precision: str, n_models: int = 1) -> tuple[NativeEngine, list[Transformer]]:
    engine = NativeEngine(models_of(n_models, **kind), precision=precision, shortlist=SHORTLIST)
    assert all(isinstance(one, CompiledTransformer) for one in engine._decoders)
    return engine, engine.models


def assert_forced_scores(models, hypotheses, search, *, within: float) -> None:
    for segment, n_best in zip(SEGMENTS, hypotheses, strict=True):
        assert 0 < len(n_best) <= search.n_best
        for hypothesis in n_best:
            allowed = set(SHORTLIST.ids_of(segment.ids).tolist()) if "shortlist" in search.decode else None
            expected = forced_log_prob(models, segment.ids, hypothesis, allowed)
            assert hypothesis.log_prob == pytest.approx(expected, abs=within)


@every_kind
@every_search
def test_loops_find_what_the_layers_find_and_score_it_as_the_model_does(name, kind, monkeypatch):
    search = SEARCHES[name]
    engine, models = loops_and_models(kind, "fp32", search.n_models)
    hypotheses = decode(engine, search)
    assert_forced_scores(models, hypotheses, search, within=1e-3)
    monkeypatch.setattr(ops, "decoder", lambda model, precision: None)
    expected = decode(NativeEngine(models, shortlist=SHORTLIST), search)
    assert [[h.ids for h in n_best] for n_best in hypotheses] == [[h.ids for h in n_best] for n_best in expected]


@pytest.mark.skipif(not tiles.HAS_BYTES, reason="this processor lacks the instructions")
@every_kind
@every_search
def test_in_int8_a_search_scores_what_it_finds_as_the_layers_in_int8_do(name, kind):
    search = SEARCHES[name]
    engine, models = loops_and_models(kind, "int8", search.n_models)
    # The layers round other numbers; a hypothesis with another one's history is several nats off.
    assert_forced_scores(models, decode(engine, search), search, within=0.5)

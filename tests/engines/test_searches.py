"""Every search by compiled loops: as with the model's layers, and as likely as the model says of the ids returned."""

import math

import pytest
import torch
from searches import KINDS, SEARCHES, SEGMENTS, SHORTLIST, VOCAB_SIZE, decode, ids_by_layers, ids_of, models_of
from tiny_updates import padded

from mtkit.engines.native import NativeEngine
from mtkit.model.transformer import Transformer
from mtkit.search.hypothesis import Hypothesis, Segment
from mtkit.tokens.special_ids import BOS_ID, EOS_ID

pytest.importorskip("numba")
from mtkit.model.cpu import tiles
from mtkit.model.cpu.compiled import CompiledTransformer

if not tiles.HAS_FLOATS:
    pytest.skip("this processor lacks the instructions", allow_module_level=True)

every_search = pytest.mark.parametrize("name", SEARCHES)
every_kind = pytest.mark.parametrize("kind", KINDS)


@torch.no_grad()
def forced_log_probs(
    models: list[Transformer], pairs: list[tuple[Segment, Hypothesis]], *, shortlist: bool
) -> list[float]:
    """Return what the models' layers give the ids of each pair; shortlist: of its ids' probability alone."""
    tgt = [[BOS_ID, *one.ids, *([EOS_ID] if one.finished else [])] for _, one in pairs]
    src, tgt_in = padded([[*segment.ids, EOS_ID] for segment, _ in pairs]), padded([ids[:-1] for ids in tgt])
    excluded = torch.zeros(len(pairs), 1, VOCAB_SIZE, dtype=torch.bool)
    if shortlist:
        for row, (segment, _) in zip(excluded, pairs, strict=True):
            row[:] = True
            row[:, SHORTLIST.ids_of(segment.ids).tolist()] = False
    each = [model(src, tgt_in).double().masked_fill(excluded, -math.inf).softmax(-1) for model in models]
    means = torch.stack(each).mean(0).log()
    return [float(mean[range(len(ids) - 1), ids[1:]].sum()) for mean, ids in zip(means, tgt, strict=True)]


def loops_and_models(kind: str, precision: str, n_models: int) -> tuple[NativeEngine, list[Transformer]]:
    engine = NativeEngine(models_of(n_models, kind), precision=precision, shortlist=SHORTLIST)
    assert all(isinstance(one, CompiledTransformer) for one in engine._decoders)
    return engine, engine.models


def assert_forced_scores(models, hypotheses, search, *, within: float) -> None:
    assert all(0 < len(n_best) <= search.n_best for n_best in hypotheses)
    pairs = [(segment, one) for segment, n_best in zip(SEGMENTS, hypotheses, strict=True) for one in n_best]
    expected = forced_log_probs(models, pairs, shortlist="shortlist" in search.decode)
    assert [one.log_prob for _, one in pairs] == pytest.approx(expected, abs=within)


@every_kind
@every_search
def test_loops_find_what_the_layers_find_and_score_it_as_the_model_does(name, kind):
    search = SEARCHES[name]
    engine, models = loops_and_models(kind, "fp32", search.n_models)
    hypotheses = decode(engine, search)
    assert_forced_scores(models, hypotheses, search, within=1e-3)
    assert ids_of(hypotheses) == ids_by_layers(name, kind)


@pytest.mark.skipif(not tiles.INTEGERS, reason="this processor lacks the instructions")
@every_kind
@every_search
def test_in_int8_a_search_scores_what_it_finds_as_the_layers_in_int8_do(name, kind):
    search = SEARCHES[name]
    engine, models = loops_and_models(kind, "int8", search.n_models)
    # The layers round other numbers; a hypothesis with another one's history is several nats off.
    assert_forced_scores(models, decode(engine, search), search, within=0.5)

"""Every search by compiled loops: as with the model's layers, and as likely as the model says of the ids returned."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch

from mtkit.config.decoding import DecodeConfig
from mtkit.config.model import ModelConfig
from mtkit.engines.native import NativeEngine
from mtkit.engines.shortlist import Shortlist
from mtkit.model import ops
from mtkit.model.transformer import Transformer
from mtkit.search.constraints import Constraints, Form, Phrase, Requirement, Spelling
from mtkit.search.hypothesis import Hypothesis, Segment
from mtkit.tokens.special_ids import BOS_ID, EOS_ID

pytest.importorskip("numba")
from mtkit.model.cpu import tiles
from mtkit.model.cpu.compiled import CompiledTransformer

if not tiles.HAS_FLOATS:
    pytest.skip("this processor lacks the instructions", allow_module_level=True)

VOCAB_SIZE = 40
SEGMENTS = [Segment([5 + n, 9, 12 + n % 3, *range(20, 20 + n % 7)], max_len=8 + n % 5) for n in range(12)]
_TEXTS = [f"{' ' * (n % 2)}{chr(61 + n)}" for n in range(4, VOCAB_SIZE)]  # token 37 is " b"
_SPELLING = Spelling(["", "", "", "", *_TEXTS])
_PHRASE = Requirement((Phrase("ba", (Form((37, 36)),)),), src_positions=(1,))
_CONSTRAINTS = Constraints(_SPELLING, (_PHRASE,), (Phrase("Z"),))
_LISTS = np.random.default_rng(0).integers(4, VOCAB_SIZE, (VOCAB_SIZE, 6))
SHORTLIST = Shortlist.from_lexicon(list(_LISTS), [7, 8], VOCAB_SIZE)


@dataclass(frozen=True)
class Search:
    """A search: its settings, and how many translations it returns."""

    decode: dict[str, object]
    n_best: int = 1
    segment: dict[str, Any] = field(default_factory=dict)  # what each segment asks for
    n_models: int = 1
    streams: bool = False


SEARCHES = {
    "greedy": Search({"beam_size": 1}),
    "beam": Search({"beam_size": 4}, 4),
    "wide beam with coverage": Search({"beam_size": 6, "coverage_penalty": 0.3}, 3),
    "groups": Search({"beam_size": 4, "beam_groups": 2}, 4),
    "rules": Search({"beam_size": 3, "no_repeat_ngram": 2, "repetition_penalty": 1.2}, 3),
    "prefix": Search({"beam_size": 3}, 2, {"prefix": (7, 11), "min_len": 4}),
    "constraints": Search({"beam_size": 4}, 2, {"constraints": _CONSTRAINTS}),
    "one draw": Search({"sampling": True}),
    "sampling": Search({"sampling": True}, 4),
    "sampling within rules": Search({"sampling": True, "top_k": 20, "no_repeat_ngram": 1}, 3),
    "stream": Search({"beam_size": 4}, streams=True),
    "shortlist": Search({"beam_size": 4, "shortlist": True}, 4),
    "shortlist, drawn": Search({"sampling": True, "shortlist": True}, 3),
    "ensemble": Search({"beam_size": 4}, 4, n_models=2),
    "ensemble, drawn": Search({"sampling": True}, 3, n_models=2),
}
every_search = pytest.mark.parametrize("name", SEARCHES)
every_decoder = pytest.mark.parametrize("decoder", ["attention", "ssru"])


def models_of(decoder: str, n_models: int) -> list[Transformer]:
    sizes = {"d_model": 16, "d_ff": 32, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 2}
    cfg, models = ModelConfig.model_validate(sizes | {"decoder": decoder}), []
    for seed in range(n_models):
        torch.manual_seed(seed)
        models.append(Transformer(cfg, VOCAB_SIZE, VOCAB_SIZE).eval())
        with torch.no_grad():
            for parameter in models[-1].parameters():
                parameter.mul_(2.0)
    return models


def decode(engine: NativeEngine, search: Search) -> list[list[Hypothesis]]:
    cfg = DecodeConfig.model_validate(search.decode)
    segments = [replace(segment, **search.segment) for segment in SEGMENTS]
    if search.streams:
        return [list(engine.stream(segment, cfg))[-1] for segment in segments]
    results = dict(engine.decode(segments, cfg, search.n_best))
    return [results[index] for index in range(len(segments))]


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


def loops_and_models(decoder: str, precision: str, n_models: int = 1) -> tuple[NativeEngine, list[Transformer]]:
    engine = NativeEngine(models_of(decoder, n_models), precision=precision, shortlist=SHORTLIST)
    assert all(isinstance(one, CompiledTransformer) for one in engine._decoders)
    return engine, engine.models


def assert_forced_scores(models, hypotheses, search, *, within: float) -> None:
    for segment, n_best in zip(SEGMENTS, hypotheses, strict=True):
        assert 0 < len(n_best) <= search.n_best
        for hypothesis in n_best:
            allowed = set(SHORTLIST.ids_of(segment.ids).tolist()) if "shortlist" in search.decode else None
            expected = forced_log_prob(models, segment.ids, hypothesis, allowed)
            assert hypothesis.log_prob == pytest.approx(expected, abs=within)


@every_decoder
@every_search
def test_loops_find_what_the_layers_find_and_score_it_as_the_model_does(name, decoder, monkeypatch):
    search = SEARCHES[name]
    engine, models = loops_and_models(decoder, "fp32", search.n_models)
    hypotheses = decode(engine, search)
    assert_forced_scores(models, hypotheses, search, within=1e-3)
    monkeypatch.setattr(ops, "decoder", lambda model, precision: None)
    expected = decode(NativeEngine(models, shortlist=SHORTLIST), search)
    assert [[h.ids for h in n_best] for n_best in hypotheses] == [[h.ids for h in n_best] for n_best in expected]


@pytest.mark.skipif(not tiles.HAS_BYTES, reason="this processor lacks the instructions")
@every_decoder
@every_search
def test_in_int8_a_search_scores_what_it_finds_as_the_layers_in_int8_do(name, decoder):
    search = SEARCHES[name]
    engine, models = loops_and_models(decoder, "int8", search.n_models)
    # The layers round other numbers; a hypothesis with another one's history is several nats off.
    assert_forced_scores(models, decode(engine, search), search, within=0.5)

"""Every search that decoding knows, how tests run it, and what it finds with the layers of a model."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from tiny_models import tiny_transformer

from mtkit.config.decoding import DecodeConfig
from mtkit.engines.native import NativeEngine
from mtkit.engines.shortlist import Shortlist
from mtkit.model import ops
from mtkit.model.transformer import Transformer
from mtkit.search.constraints import Constraints
from mtkit.search.hypothesis import Hypothesis, Segment
from mtkit.search.phrases import Form, Phrase, Requirement, Spelling

VOCAB_SIZE = 40
SEGMENTS = [Segment([5 + n, 9, 12 + n % 3, *range(20, 20 + n % 7)], max_len=8 + n % 5) for n in range(7)]
_TEXTS = [f"{' ' * (n % 2)}{chr(61 + n)}" for n in range(4, VOCAB_SIZE)]  # token 37 is " b"
_SPELLING = Spelling(["", "", "", "", *_TEXTS])
_PHRASE = Requirement((Phrase("ba", (Form((37, 36)),)),), src_positions=(1,))
_CONSTRAINTS = Constraints(_SPELLING, (_PHRASE,), (Phrase("Z"),))
_LISTS = np.random.default_rng(0).integers(4, VOCAB_SIZE, (VOCAB_SIZE, 6))
SHORTLIST = Shortlist.from_lexicon(list(_LISTS), [7, 8], VOCAB_SIZE)

# Keys of the section `model`.
MODERN: dict[str, Any] = {"positions": "rotary", "norm": "rmsnorm", "activation": "swiglu"}
KINDS: dict[str, dict[str, Any]] = {"attention": {}, "ssru": {"decoder": "ssru"}, "modern": MODERN}


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


def models_of(n_models: int, kind: str) -> list[Transformer]:
    shape: dict[str, Any] = {"n_decoder_layers": 2, **KINDS[kind]}
    return [tiny_transformer(VOCAB_SIZE, seed=seed, scale=2.0, **shape) for seed in range(n_models)]


def decode(engine: NativeEngine, search: Search, segments: Sequence[Segment] = SEGMENTS) -> list[list[Hypothesis]]:
    cfg = DecodeConfig.model_validate(search.decode)
    segments = [replace(segment, **search.segment) for segment in segments]
    if search.streams:
        return [list(engine.stream(segment, cfg))[-1] for segment in segments]
    results = dict(engine.decode(segments, cfg, search.n_best))
    return [results[index] for index in range(len(segments))]


@cache
def ids_by_layers(name: str, kind: str) -> list[list[list[int]]]:
    """Return the ids of each segment's hypotheses, as a search finds them with the layers of the models on the CPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ops, "decoder", lambda model, precision: None)
        engine = NativeEngine(models_of(SEARCHES[name].n_models, kind), shortlist=SHORTLIST)
        return ids_of(decode(engine, SEARCHES[name]))


def ids_of(hypotheses: list[list[Hypothesis]]) -> list[list[list[int]]]:
    return [[hypothesis.ids for hypothesis in n_best] for n_best in hypotheses]

"""The native engine: ensembles, prefixes, limits and sampling through a real model, and close calls."""

import logging
import math
import os
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest
import torch
from tiny_models import tiny_transformer
from torch import Tensor

from mtkit.bundle import read_bundle
from mtkit.config.decoding import DecodeConfig
from mtkit.config.model import ModelConfig
from mtkit.engines import native
from mtkit.engines.native import NativeEngine, native_engine
from mtkit.engines.steps import EnsembleStep, ModelStep
from mtkit.model import ops
from mtkit.model.transformer import Transformer
from mtkit.search.hypothesis import Segment
from mtkit.tokens.special_ids import BOS_ID, EOS_ID

VOCAB_SIZE = 40
SEGMENTS = [Segment([5 + n, 9, 12 + n % 3, *range(20, 20 + n % 7)], max_len=14) for n in range(12)]


def make_model(seed: int, **changes: object) -> Transformer:
    sizes = {"d_model": 16, "d_ff": 32, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 2}
    torch.manual_seed(seed)
    model = Transformer(ModelConfig(**(sizes | changes)), VOCAB_SIZE, VOCAB_SIZE).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
    return model


@pytest.fixture(scope="module")
def model() -> Transformer:
    return make_model(1)


def decode(engine: NativeEngine, segments=SEGMENTS, n_best: int = 1, **settings: object):
    results = dict(engine.decode(segments, DecodeConfig(**settings), n_best))
    return [results[index] for index in range(len(segments))]


@torch.no_grad()
def log_prob(models: list[Transformer], src: list[int], ids: list[int], finished: bool = True) -> float:
    """Return the sum of ln(mean over the models of p(token)), by whole forward passes without a cache."""
    tgt = [BOS_ID, *ids, *([EOS_ID] if finished else [])]
    total = 0.0
    probs = [m(torch.tensor([[*src, EOS_ID]]), torch.tensor([tgt[:-1]]))[0].double().softmax(-1) for m in models]
    mean = torch.stack(probs).mean(0)
    for position, token in enumerate(tgt[1:]):
        total += math.log(mean[position, token])
    return total


@pytest.mark.parametrize("beam_size", [1, 4])
def test_an_ensemble_averages_probabilities(beam_size):
    models = [make_model(seed) for seed in (1, 2, 3)]
    together = decode(NativeEngine(models), beam_size=beam_size, n_best=min(beam_size, 2))
    for segment, hypotheses in zip(SEGMENTS, together, strict=True):
        for h in hypotheses:
            assert h.log_prob == pytest.approx(log_prob(models, list(segment.ids), h.ids, h.finished), abs=1e-4)
    assert [f[0].ids for f in together] != [f[0].ids for f in decode(NativeEngine(models[:1]), beam_size=beam_size)]


def test_an_ensemble_of_one_model_twice_is_that_model(model):
    alone, twice = (decode(NativeEngine(models), n_best=4) for models in ([model], [model, model]))
    assert [[h.ids for h in hypotheses] for hypotheses in twice] == [
        [h.ids for h in hypotheses] for hypotheses in alone
    ]


def test_members_of_an_ensemble_read_their_own_tokens():
    models = [make_model(1), make_model(2)]
    segment = Segment([5, 6, 7], max_len=9, others=([8, 9],))
    [[hypothesis]] = decode(NativeEngine(models), [segment], beam_size=1)
    with torch.no_grad():
        steps = [
            ModelStep(m, torch.tensor([[*ids, EOS_ID]]), 1) for m, ids in zip(models, ([5, 6, 7], [8, 9]), strict=True)
        ]
        first = EnsembleStep(steps)(torch.tensor([[BOS_ID]]))[0, 0].argmax()
    assert hypothesis.ids[0] == first


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_prefix_is_kept_and_what_follows_is_as_likely_as_the_model_says(model, beam_size):
    segments = [Segment(segment.ids, 14, prefix=(7, 11)) for segment in SEGMENTS]
    for segment, [hypothesis] in zip(
        segments, decode(NativeEngine([model]), segments, beam_size=beam_size), strict=True
    ):
        assert hypothesis.ids[:2] == [7, 11]
        assert hypothesis.log_prob == pytest.approx(
            log_prob([model], list(segment.ids), hypothesis.ids, hypothesis.finished), rel=1e-5
        )


def test_translations_keep_to_the_least_and_most_tokens(model):
    segments = [Segment(segment.ids, 9, min_len=6) for segment in SEGMENTS]
    for [hypothesis] in decode(NativeEngine([model]), segments):
        assert 6 <= len(hypothesis.ids) <= 9


def test_coverage_looks_at_the_cross_attention(model):
    """The mean over the heads of the last of two layers, from its own weights in a forward pass over the sequence."""
    [[hypothesis], *_] = decode(NativeEngine([model]), coverage_penalty=0.3)
    src = torch.tensor([[*SEGMENTS[0].ids, EOS_ID]])
    noted: list[Tensor] = []

    def note(module, args, _):
        x, keys, _values, bias = args
        noted.append(module.weights(x, keys, bias).mean(1))

    hook = model.decoder_layers[-1].cross_attention.register_forward_hook(note)
    with torch.no_grad():
        model(src, torch.tensor([[BOS_ID, *hypothesis.ids]]))
    hook.remove()
    n_tokens = len(hypothesis.ids) + hypothesis.finished
    covered = noted[0][0, :n_tokens].sum(0).clamp(max=1).log().sum()
    expected = hypothesis.log_prob / ((5 + n_tokens) / 6) ** 0.6 + 0.3 * float(covered)
    assert hypothesis.score == pytest.approx(expected, abs=1e-4)


def test_draws_do_not_depend_on_the_batch(model):
    engine, settings = NativeEngine([model]), {"sampling": True, "top_k": 20, "n_best": 3}
    together = decode(engine, **settings)
    alone = [decode(engine, [segment], **settings)[0] for segment in SEGMENTS]
    assert [[h.ids for h in hypotheses] for hypotheses in together] == [
        [h.ids for h in hypotheses] for hypotheses in alone
    ]
    assert len({tuple(h.ids) for hypotheses in together for h in hypotheses}) > 20


class Noisy(torch.nn.Module):
    """A model with two tokens that differ by rounding only: the first leads in a batch of one, else the second."""

    def __init__(self, gap: float) -> None:
        super().__init__()
        self.cfg = ModelConfig()
        self.rounds_by_batch = True
        self.gap = gap
        self.batches: list[int] = []

    def start_decoding(self, src: Tensor, beam_size: int) -> "Noisy":
        self.batches.append(src.size(0))
        self.n_sentences = src.size(0)
        return self

    def decode_step(self, last_ids: Tensor, cache: "Noisy") -> Tensor:
        logits = torch.full((*last_ids.shape, VOCAB_SIZE), -30.0)
        if int(last_ids[0, 0]) == BOS_ID:
            logits[..., 7], logits[..., 8] = 0.0, self.gap if self.n_sentences > 1 else -self.gap
        else:
            logits[..., EOS_ID] = 0.0
        return logits

    def choose(self, last_ids: Tensor, cache: "Noisy", n: int, banned: object) -> None: ...

    def reorder(self, parents: Tensor) -> None: ...

    def select(self, sentences: Tensor) -> None: ...


@pytest.mark.parametrize("beam_size", [1, 2])
def test_a_sentence_with_a_choice_within_rounding_error_is_decoded_alone(beam_size):
    noisy = Noisy(gap=1e-5)
    results = decode(NativeEngine([cast(Transformer, noisy)]), SEGMENTS[:3], beam_size=beam_size)
    assert [h.ids for [h] in results] == [[7]] * 3  # as each would be translated alone
    assert noisy.batches == [3, 1, 1, 1]


def test_a_sentence_with_clear_choices_is_decoded_once():
    noisy = Noisy(gap=0.1)
    results = decode(NativeEngine([cast(Transformer, noisy)]), SEGMENTS[:3], beam_size=1)
    assert [h.ids for [h] in results] == [[8]] * 3
    assert noisy.batches == [3]


@pytest.mark.parametrize(("asked", "used"), [("int8", "bf16"), ("bf16", "fp32"), ("fp32", "fp32")])
def test_a_precision_without_instructions_is_replaced_with_a_warning(model, asked, used, monkeypatch, caplog):
    monkeypatch.setattr(ops, "decoder", lambda *_: None)
    monkeypatch.setattr(ops, "inference_linear", lambda linear, _: linear)
    monkeypatch.setattr(native, "supported_precision", lambda *_: used)
    with caplog.at_level(logging.WARNING, logger="mtkit"):
        engine = NativeEngine([model], precision=asked)
    assert engine.precision == used
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == (asked != used)
    assert all(f"decode.precision={asked}" in text and "CPU" in text and used in text for text in warnings)


@pytest.mark.parametrize(("kinds", "used"), [(["sinusoidal"], "int8"), (["sinusoidal", "alibi"], "fp32")])
def test_loops_multiply_in_int8_where_torch_cannot(kinds, used, monkeypatch):
    if not ops.has_faster_decoder(ModelConfig(), "int8"):
        pytest.skip("numba or the processor's instructions are missing")
    monkeypatch.setattr(ops, "can_multiply", lambda precision, _: precision == "fp32")  # as with AVX2 alone
    models = [tiny_transformer(20, positions=kind) for kind in kinds]
    assert NativeEngine(models, precision="int8").precision == used


def test_decoding_limits_the_kernels_that_are_kept(shared_bundle, monkeypatch):
    names = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
    for name in names:
        monkeypatch.setenv(name, "")  # so that monkeypatch puts it back, set or not
        monkeypatch.delenv(name)
    files = read_bundle(shared_bundle)
    native_engine([files], files.config.decode, "cpu", 1)
    assert [os.environ[name] for name in names] == ["128", "128"]


@pytest.fixture
def two_threads(monkeypatch):
    monkeypatch.setattr(native, "_LARGE_BATCH", 2)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def of_a_new_thread() -> int:
    """Return how many threads torch uses in a thread that starts now."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(torch.get_num_threads).result()


def test_batches_run_side_by_side_in_threads_that_share_nothing(model, two_threads, monkeypatch):
    alone = [best.ids for [best] in decode(NativeEngine([model]), beam_size=3, batch_sentences=1)]
    engine, met = NativeEngine([model]), threading.Barrier(2, timeout=300)  # opens only for two threads at a time
    search, n_threads = engine._search, set()

    def together(segments, *arguments):
        if len(segments) > 1:  # else a sentence with a close call, decoded again
            met.wait()
        n_threads.add(torch.get_num_threads())
        return search(segments, *arguments)

    monkeypatch.setattr(engine, "_search", together)
    assert [best.ids for [best] in decode(engine, beam_size=3, batch_sentences=6)] == alone
    assert n_threads == {1}  # of torch, in each
    assert [torch.get_num_threads(), of_a_new_thread()] == [2, 2]


def test_a_step_of_another_batch_in_between_does_not_change_the_attention(model):
    """What a thread switch in the middle of a step does, without threads."""
    ids = torch.tensor([[BOS_ID, BOS_ID]])
    one, other = (ModelStep(model, torch.tensor([src]), 2, attention=True) for src in ([5, 6, 7], [8, 9]))
    alone = ModelStep(model, torch.tensor([[5, 6, 7]]), 2, attention=True)
    alone(ids)

    def interrupt(*_: object) -> None:
        hook.remove()
        other(ids)

    hook = model.decoder_layers[1].cross_attention.register_forward_pre_hook(interrupt)
    one(ids)
    assert torch.equal(one.attention(), alone.attention())
    assert not torch.equal(one.attention(), other.attention())


@pytest.mark.parametrize(("narrow", "n_threads"), [(256, 1), (1, 2)])
def test_small_batches_run_one_after_the_other_in_all_threads_if_the_model_is_wide(
    model, two_threads, monkeypatch, narrow, n_threads
):
    monkeypatch.setattr("mtkit.engines.native._NARROW", narrow)
    engine = NativeEngine([model])
    search, seen = engine._search, set()

    def noting(*arguments):
        seen.add((threading.current_thread(), torch.get_num_threads()))
        return search(*arguments)

    monkeypatch.setattr(engine, "_search", noting)
    decode(engine, batch_sentences=1)
    assert seen == {(threading.main_thread(), n_threads)}
    assert torch.get_num_threads() == 2


def test_a_failing_thread_raises_its_error_and_the_next_call_works(model, two_threads, monkeypatch):
    engine = NativeEngine([model])
    expected = decode(engine, batch_sentences=4)
    with monkeypatch.context() as broken:
        broken.setattr(engine, "_search", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            decode(engine, batch_sentences=4)
    assert decode(engine, batch_sentences=4) == expected
    assert torch.get_num_threads() == 2


def test_a_reader_who_stops_early_leaves_the_threads_as_they_were(model, two_threads):
    results = cast("Generator[object]", NativeEngine([model]).decode(SEGMENTS, DecodeConfig(batch_sentences=4), 1))
    next(results)
    results.close()
    assert [torch.get_num_threads(), of_a_new_thread()] == [2, 2]

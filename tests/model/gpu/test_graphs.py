"""Decoding by recorded steps: every search finds what it finds with the layers.

Without a GPU, what torch computes in a step is recorded and replayed on the CPU.
"""

import copy
import itertools
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from searches import SEARCHES, SEGMENTS, SHORTLIST, VOCAB_SIZE, decode, ids_by_layers, ids_of, models_of
from tiny_models import SHAPES, tiny_transformer
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mtkit.config.decoding import DecodeConfig
from mtkit.engines.native import NativeEngine
from mtkit.model import ops
from mtkit.model.gpu import graphs
from mtkit.model.gpu.graphs import Recorder, with_graphs
from mtkit.model.quantization import quantize

TINY = {name: {"n_decoder_layers": 2, **shape} for name, shape in SHAPES.items()}
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
on_each_device = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])


@pytest.fixture(autouse=True)
def _small_buffers(monkeypatch):
    monkeypatch.setattr(ops, "decoder", lambda model, precision: None)
    monkeypatch.setattr(graphs, "_FEWEST_POSITIONS", 8)  # so that the buffers have to grow


class Operations(TorchDispatchMode):
    """Operations that are recorded and replayed on a CPU as a GPU does it: none is computed while it is recorded.

    A replay computes each again from what lies in its arguments then, and writes to where the results were.
    """

    def __init__(self):
        super().__init__()
        self.calls, self.before = [], {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if "_local_scalar_dense" in str(func) or "nonzero" in str(func):
            raise RuntimeError("operation not permitted when stream is capturing")
        for tensor in tensors_in((args, kwargs)):
            storage = tensor.untyped_storage()
            self.before.setdefault(storage.data_ptr(), (storage, storage.clone()))
        result = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, result))
        return result

    def __exit__(self, *error):
        super().__exit__(*error)
        for storage, values in self.before.values():
            storage.copy_(values)

    def replay(self):
        for func, args, kwargs, old in self.calls:
            new = func(*args, **kwargs)
            for mine, its in zip(tensors_in(old), tensors_in(new), strict=True):
                if mine.data_ptr() != its.data_ptr():  # neither a view nor in place
                    mine.copy_(its)


def tensors_in(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


class Replayer(Recorder):
    def __init__(self, warn, fault=None):
        super().__init__(torch.device("cpu"), warn)
        self.works, self.fault, self.n_replays = True, fault, 0

    def _recorded(self, work, tables):
        if self.fault == "not recorded":
            raise RuntimeError("operation not permitted")
        with Operations() as operations:
            results = work()

        def replay():
            self.n_replays += 1
            operations.replay()
            if self.fault == "other results":
                results[0].zero_()

        return graphs._Graph(cast(Any, SimpleNamespace(replay=replay)), results, tables)


def engine_of(models, device):
    engine = NativeEngine(models, device, shortlist=SHORTLIST)
    engine._decoders = [with_graphs(model, pytest.fail) for model in engine._originals]
    return engine


@on_each_device
@pytest.mark.parametrize("name", SEARCHES)
def test_every_search_finds_with_replayed_steps_what_it_finds_with_the_layers(name, device):
    search = SEARCHES[name]
    engine = engine_of(models_of(search.n_models, "attention"), device)
    if device == "cpu":
        for decoder in engine._decoders:
            decoder.recorder = Replayer(pytest.fail)
    for _ in range(2 if name == "beam" else 1):  # in new buffers, then in used ones
        assert ids_of(decode(engine, search)) == ids_by_layers(name, "attention")
    assert device != "cpu" or all(decoder.recorder.n_replays > 5 for decoder in engine._decoders)


@on_each_device
@pytest.mark.parametrize("shape", TINY)
def test_models_of_every_shape_decode_as_with_their_layers(shape, device):
    model = tiny_transformer(VOCAB_SIZE, scale=2.0, **TINY[shape])
    expected = decode(NativeEngine([copy.deepcopy(model)]), SEARCHES["beam"])
    assert ids_of(decode(engine_of([model], device), SEARCHES["beam"])) == ids_of(expected)


@pytest.mark.parametrize("fault", ["other results", "not recorded"])
def test_a_step_that_cannot_be_replayed_is_computed_by_the_layers_with_a_warning(fault):
    warnings: list[str] = []
    engine = engine_of(models_of(1, "attention"), "cpu")
    engine._decoders[0].recorder = Replayer(warnings.append, fault)
    assert ids_of(decode(engine, SEARCHES["beam"])) == ids_by_layers("beam", "attention")
    [warning] = warnings
    assert "computes something else" in warning if fault == "other results" else "torch cannot record it" in warning


@needs_gpu
def test_in_bf16_graphs_score_as_the_layers_do():
    [model] = models_of(1, "attention")
    layers = quantize(model.to("cuda").eval(), "bf16")
    graph, src = (
        with_graphs(layers, pytest.fail),
        torch.tensor([[5, 9, 12, 3], [6, 3, 0, 0], [7, 8, 3, 0]], device="cuda"),
    )
    with torch.no_grad():
        ours, theirs = graph.start_decoding(src, 2), layers.start_decoding(src, 2)
        for token in (2, 7, 8, 9, 10, 11):
            ids = torch.full((3, 2), token, device="cuda")
            torch.testing.assert_close(
                graph.decode_step(ids, ours), layers.decode_step(ids, theirs), atol=0.05, rtol=0.05
            )


def test_each_hypothesis_continues_itself_unless_the_search_says_otherwise():
    [model] = models_of(1, "attention")
    decoder, src = with_graphs(model, pytest.fail), torch.tensor([[5, 9, 12, 3]])
    with torch.no_grad():
        ours, theirs = decoder.start_decoding(src, 2), model.start_decoding(src, 2)
        for step in range(4):
            ids = torch.tensor([[7 + step, 11]])
            torch.testing.assert_close(decoder.decode_step(ids, ours), model.decode_step(ids, theirs))
            if step == 1:
                for cache in (ours, theirs):
                    cache.reorder(torch.tensor([[1, 0]]))


def test_two_searches_at_the_same_time_do_not_disturb_each_other():
    engine = engine_of(models_of(1, "attention"), "cpu")
    cfg, segments = DecodeConfig(beam_size=2), [SEGMENTS[0], replace(SEGMENTS[0], ids=[30, 31, 32])]
    expected = [list(engine.stream(segment, cfg))[-1] for segment in segments]
    both = itertools.zip_longest(*(engine.stream(segment, cfg) for segment in segments))
    found = [[step for step in steps if step is not None][-1] for steps in zip(*both, strict=True)]
    assert found == expected
    assert found[0] != found[1]


def test_buffers_serve_the_next_batch_of_their_size():
    decoder = with_graphs(models_of(1, "attention")[0], pytest.fail)
    src = torch.tensor([[5, 9, 12, 3], [6, 7, 3, 0], [6, 7, 3, 0]])
    first = decoder.start_decoding(src, 2)
    used = first.buffers
    other = decoder.start_decoding(src, 2)
    assert other.buffers is not used
    del first
    assert decoder.start_decoding(src[:, :3].repeat(1, 3), 2).buffers is used  # 4 sentences, 16 tokens


def test_batches_of_several_threads_never_share_buffers():
    decoder, src = with_graphs(models_of(1, "attention")[0], pytest.fail), torch.tensor([[5, 9, 12, 3]])
    in_use: list[Any] = []

    def start_often():
        for _ in range(100):
            cache = decoder.start_decoding(src, 2)
            in_use.append(cache.buffers)
            assert in_use.count(cache.buffers) == 1
            in_use.remove(cache.buffers)
            del cache

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            for task in [threads.submit(start_often) for _ in range(4)]:
                task.result()
    finally:
        sys.setswitchinterval(usual)


def test_steps_of_several_threads_come_one_after_another(monkeypatch):
    """Recorded steps share memory: one may overwrite what another has computed."""
    [model] = models_of(1, "attention")
    decoder, src, ids = with_graphs(model, pytest.fail), torch.tensor([[5, 9, 12, 3]]), torch.tensor([[2, 2]])
    compute, n_at_once, counts = model.decode_step, 0, []

    def decode_step(*arguments):
        nonlocal n_at_once
        n_at_once += 1
        counts.append(n_at_once)
        time.sleep(0.01)  # for other threads
        n_at_once -= 1
        return compute(*arguments)

    monkeypatch.setattr(model, "decode_step", decode_step)
    caches = [decoder.start_decoding(src, 2) for _ in range(2)]
    with ThreadPoolExecutor(2) as threads:
        assert len([*threads.map(lambda cache: decoder.decode_step(ids, cache), 3 * caches)]) == 6
    assert counts == [1] * 6


def test_a_batch_sees_nothing_of_a_longer_one_that_had_its_buffers():
    [model] = models_of(1, "attention")
    decoder, ids = with_graphs(model, pytest.fail), torch.tensor([[2, 2]])
    with torch.no_grad():
        first = decoder.start_decoding(torch.tensor([[5, 9, 12, 30, 31, 3]]), 2)
        used = first.buffers
        del first
        src = torch.tensor([[6, 3]])
        ours, theirs = decoder.start_decoding(src, 2), model.start_decoding(src, 2)
        assert ours.buffers is used
        torch.testing.assert_close(decoder.decode_step(ids, ours), model.decode_step(ids, theirs))


def test_buffers_beyond_a_share_of_the_memory_are_not_kept():
    decoder = with_graphs(models_of(1, "attention")[0], pytest.fail)
    sizes = [torch.full((n, 4), 5) for n in (2, 4, 8)]
    caches = [decoder.start_decoding(src, 2) for src in sizes]
    old, *others = [cache.buffers for cache in caches]
    cast(Any, decoder)._most_bytes = sum(buffers.size_in_bytes for buffers in others)
    while caches:
        caches.pop(0)
    kept = [decoder.start_decoding(src, 2) for src in sizes]
    assert [cache.buffers for cache in kept[1:]] == others
    assert kept[0].buffers is not old


def test_a_batch_that_needs_too_much_memory_is_decoded_by_the_layers():
    [model] = models_of(1, "attention")
    decoder = with_graphs(model, pytest.fail)
    cast(Any, decoder)._most_bytes = 100
    src, ids = torch.tensor([[5, 9, 12, 3]]), torch.tensor([[2, 2]])
    with torch.no_grad():
        cache = decoder.start_decoding(src, 2)
        assert decoder.choose(ids, cache, 3, (0, 2)) is None
        logits = decoder.decode_step(ids, cache)
        torch.testing.assert_close(logits, model.decode_step(ids, model.start_decoding(src, 2)))


def test_no_position_is_beyond_the_learned_ones():
    decoder = with_graphs(tiny_transformer(VOCAB_SIZE, positions="learned", max_positions=8), pytest.fail)
    cache, ids = decoder.start_decoding(torch.tensor([[5, 3]]), 1), torch.tensor([[2]])
    for _ in range(8):
        decoder.decode_step(ids, cache)
    with pytest.raises(ValueError, match="position 9 is beyond max_positions=8"):
        decoder.decode_step(ids, cache)


@given(st.data())
def test_the_likeliest_tokens_are_those_of_a_stable_sort(data):
    n_tokens = data.draw(st.integers(2, 80))
    values = st.sampled_from([0.0, -0.0, 1.5, -2.0, 3.0, -30.0])  # many are equal
    rows = data.draw(st.lists(st.lists(values, min_size=n_tokens, max_size=n_tokens), min_size=1, max_size=3))
    banned = data.draw(st.sets(st.integers(0, n_tokens - 1), max_size=n_tokens - 2))
    output = torch.nn.Linear(n_tokens, n_tokens)
    with torch.no_grad():
        output.weight.copy_(torch.eye(n_tokens))
        output.bias.zero_()
        vocabulary = graphs._Vocabulary(output)
        n = data.draw(st.integers(1, min(vocabulary.most, n_tokens - len(banned))))
        log_probs, ids = vocabulary.choose(torch.tensor(rows), n, sorted(banned))
    expected = torch.tensor(rows).log_softmax(-1)
    expected[:, sorted(banned)] = -torch.inf
    ordered = expected.sort(dim=-1, descending=True, stable=True)
    assert ids.tolist() == ordered.indices[:, :n].tolist()
    torch.testing.assert_close(log_probs, ordered.values[:, :n])


@needs_gpu
def test_a_graph_can_be_recorded_after_all_others_are_gone():
    device = torch.device("cuda")
    recorder, x = Recorder(device, pytest.fail), torch.ones(3, device=device)
    for _ in range(2):
        graph = recorder.record(lambda: (2 * x,), (2 * x,), [])
        assert graph is not None
        x.add_(1)
        assert torch.equal(graph.replay()[0], 2 * x)
        del graph

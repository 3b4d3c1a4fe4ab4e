"""On a GPU no operation mixes devices, and everything is computed as on the CPU."""

import copy

import pytest
import torch
from pretended_gpu import GPU, MixedDevices, PretendedGpu
from searches import SEARCHES, SEGMENTS, SHORTLIST, VOCAB_SIZE, decode, ids_by_layers, ids_of, models_of
from tiny_models import SHAPES, tiny_classifier_config, tiny_transformer

from mtkit.alignment.attention import attention_weights
from mtkit.alignment.forced import ForcedPair
from mtkit.config.decoding import DecodeConfig
from mtkit.engines.labels import LabelEngine
from mtkit.engines.native import NativeEngine
from mtkit.model import ops
from mtkit.model.networks import new_network
from mtkit.scoring.scoring import token_log_probs
from mtkit.training.update.loss import smoothed_cross_entropy_sum
from mtkit.training.update.optimizer_step import MovingAverage

TINY = {name: {"n_decoder_layers": 2, **shape} for name, shape in SHAPES.items()}
PAIRS = [ForcedPair([5, 9, 12], [7, 11], True), ForcedPair([6, 20, 21, 22], [30, 31, 32], False)]
every_shape = pytest.mark.parametrize("shape", TINY)


@pytest.fixture(autouse=True)
def _layers_on_the_cpu_too(monkeypatch):
    monkeypatch.setattr(ops, "decoder", lambda model, precision: None)


def test_mixed_devices_are_noticed():
    with PretendedGpu():
        there = torch.arange(3, device="cuda")
        assert (there + 1).device == GPU
        assert there.cpu().device.type == "cpu"
        with pytest.raises(MixedDevices, match=r"\(3,\) on cuda, \(3,\) on cpu"):
            there + torch.arange(3)
        with pytest.raises(TypeError):
            there.numpy()


@pytest.mark.parametrize("kind", ["attention", "ssru"])
@pytest.mark.parametrize("name", SEARCHES)
def test_every_search_finds_on_a_gpu_what_it_finds_on_the_cpu(name, kind):
    search, few = SEARCHES[name], SEGMENTS[:2]
    with PretendedGpu():
        engine = NativeEngine(models_of(search.n_models, kind), device="cuda", shortlist=SHORTLIST)
        found = decode(engine, search, few)
    assert ids_of(found) == ids_by_layers(name, kind)[: len(few)]


@every_shape
def test_models_of_every_shape_decode_on_a_gpu(shape):
    model = tiny_transformer(VOCAB_SIZE, scale=2.0, **TINY[shape])
    expected = decode(NativeEngine([copy.deepcopy(model)]), SEARCHES["beam"])
    with PretendedGpu():
        found = decode(NativeEngine([model], device="cuda"), SEARCHES["beam"])
    assert ids_of(found) == ids_of(expected)


@every_shape
def test_scores_and_attention_are_those_of_the_cpu(shape):
    model = tiny_transformer(VOCAB_SIZE, scale=2.0, **TINY[shape])
    scores = token_log_probs(model, PAIRS)
    weights = attention_weights(model, PAIRS)
    with PretendedGpu():
        model.to("cuda")
        on_gpu = token_log_probs(model, PAIRS)
        weights_on_gpu = attention_weights(model, PAIRS)
    for some, others in zip(scores, on_gpu, strict=True):
        assert others == pytest.approx(some, rel=1e-5)
    for one, other in zip(weights, weights_on_gpu, strict=True):
        torch.testing.assert_close(other, one)


def test_a_classifier_decides_as_on_the_cpu():
    cfg = tiny_classifier_config({})
    torch.manual_seed(3)
    model = new_network(cfg, VOCAB_SIZE, VOCAB_SIZE).eval()
    torch.nn.init.normal_(model.output.weight)
    examples = [[2, 5, 6], [2, 9, 12, 20, 21], [2, 7]]
    expected = LabelEngine(copy.deepcopy(model), DecodeConfig()).decide(examples)
    with PretendedGpu():
        decisions = LabelEngine(model, DecodeConfig(), device="cuda").decide(examples)
    assert decisions.best.tolist() == expected.best.tolist()
    assert decisions.probs == pytest.approx(expected.probs, abs=1e-4)


@every_shape
def test_the_loss_and_the_mean_of_the_weights_are_those_of_the_cpu(shape):
    model = tiny_transformer(VOCAB_SIZE, **TINY[shape])
    src, tgt_in, tgt_out = torch.randint(4, VOCAB_SIZE, (3, 4, 6), generator=torch.Generator().manual_seed(0))

    @torch.no_grad()
    def loss_on(device):
        mean = MovingAverage(model.to(device), 0.5)
        mean.update(1)
        hidden = mean.model.hidden(src.to(device), tgt_in.to(device)).flatten(0, 1)[None]
        output = mean.model.output
        loss, _ = smoothed_cross_entropy_sum(hidden, output.weight, output.bias, tgt_out.flatten().to(device), 0.1)
        return loss.item()

    expected = loss_on("cpu")
    with PretendedGpu():
        assert loss_on("cuda") == pytest.approx(expected, rel=1e-5)

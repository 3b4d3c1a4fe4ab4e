"""torch's own fake CUDA tensors pass through models of every kind: shapes and devices fit, without a GPU.

They have no values, so what looks at values, such as a search, is tested with tests/pretended_gpu.py instead. Only
float32 is tested: without a GPU, torch turns autocast off.
"""

from itertools import product

import pytest
import torch
from tiny_models import tiny_classifier_config

from mtkit.config.model import ModelConfig
from mtkit.model.networks import new_network
from mtkit.model.transformer import Transformer
from mtkit.training.update.loss import smoothed_cross_entropy_sum

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="this build of torch has no CUDA"),
]
POSITIONS = ["sinusoidal", "learned", "rotary", "relative", "alibi", "marian"]
KINDS = list(product(POSITIONS, ["pre", "post"], ["attention", "ssru"]))
CUDA = torch.device("cuda", 0)


@pytest.fixture
def _fake_tensors():
    fake_tensor = pytest.importorskip("torch._subclasses.fake_tensor")
    with fake_tensor.FakeTensorMode():
        yield


def ids(*shape: int) -> torch.Tensor:
    return torch.randint(4, 40, shape, device=CUDA)


@pytest.mark.usefixtures("_fake_tensors")
@pytest.mark.parametrize(("positions", "norm_position", "decoder"), KINDS)
def test_a_translator_trains_and_decodes_on_one_device(positions, norm_position, decoder):
    sizes = {"d_model": 32, "d_ff": 64, "n_heads": 4, "n_encoder_layers": 2, "n_decoder_layers": 2}
    cfg = ModelConfig(**sizes, positions=positions, norm_position=norm_position, decoder=decoder)
    with CUDA:
        model = Transformer(cfg, 50, 60)
    src, tgt = ids(3, 7), ids(3, 6)
    hidden = model.hidden(src, tgt).flatten(0, 1)[None]
    loss, _ = smoothed_cross_entropy_sum(hidden, model.output.weight, model.output.bias, tgt.flatten(), 0.1)
    assert loss.device == CUDA
    model.eval()
    with torch.no_grad():
        cache = model.start_decoding(src, 4)
        for _ in range(3):
            assert model.decode_step(ids(3, 4), cache).shape == (3, 4, 60)
            cache.reorder(torch.zeros((3, 4), dtype=torch.long, device=CUDA))
        cache.select(torch.tensor([0, 2], device=CUDA))
        logits = model.decode_step(ids(2, 4), cache)
    assert logits.shape == (2, 4, 60)
    assert logits.device == CUDA


@pytest.mark.usefixtures("_fake_tensors")
@pytest.mark.parametrize("positions", POSITIONS)
def test_a_classifier_reads_on_one_device(positions):
    with CUDA:
        model = new_network(tiny_classifier_config({"positions": positions}), 50, 50)
    assert model(ids(3, 7), torch.full((3, 1), 2, device=CUDA)).device == CUDA

"""The gradients of an update equal those of other code: torch's own layers, and the layers that torch compiles."""

import shutil

import numpy as np
import pytest
import torch
from fixtures.plain_transformer import PlainTransformer
from tiny_models import tiny_transformer

from mtkit.config.training import TrainConfig
from mtkit.data.batching import Batch
from mtkit.training.update.optimizer_step import Updater, batch_loss


def random_batch(n_pairs, src_len, tgt_len, vocab_size):
    chance = torch.Generator().manual_seed(0)
    src, tgt_in, tgt_out = (
        torch.randint(4, vocab_size, (n_pairs, length), generator=chance) for length in (src_len, tgt_len, tgt_len)
    )
    return Batch(src, tgt_in, tgt_out, np.arange(n_pairs), n_pairs * tgt_len)


def small_model():
    shape = {"d_ff": 24, "n_encoder_layers": 2, "n_decoder_layers": 2}
    rates = dict.fromkeys(("embedding_dropout", "residual_dropout", "attention_dropout", "ffn_dropout"), 0.0)
    return tiny_transformer(20, 18, seed=3, noise=0.1, **shape, **rates).train()


def test_gradients_are_those_of_torchs_layers_and_cross_entropy():
    model = small_model()
    batch = random_batch(5, 7, 6, vocab_size=18)
    batch.src[1, 4:] = batch.tgt_in[2, 3:] = batch.tgt_out[2, 3:] = 0  # padding
    n_tokens = int((batch.tgt_out != 0).sum())
    plain = PlainTransformer(model).train()
    plain.loss(batch.src, batch.tgt_in, batch.tgt_out, label_smoothing=0.1).backward()
    loss, _ = batch_loss(model, batch, 0.1, "fp32")
    (loss / n_tokens).backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, plain.gradient(name), rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("c++") is None and shutil.which("g++") is None, reason="compiling needs a compiler")
@pytest.mark.filterwarnings("default")  # what the compiler says is not ours
def test_compiled_layers_give_the_same_gradients():
    batches = [random_batch(5, 7, 6, vocab_size=18), random_batch(3, 9, 8, vocab_size=18)]
    eager, compiled = (
        Updater(small_model(), TrainConfig(max_steps=9999, compile=on), seed=1, precision="fp32")
        for on in (False, True)
    )
    for step, batch in enumerate(batches, start=1):
        expected, found = (updater.update([batch], step, lr=1e-3) for updater in (eager, compiled))
        assert found.loss_sum == pytest.approx(expected.loss_sum, rel=1e-5)
        assert found.grad_norm == pytest.approx(expected.grad_norm, rel=1e-4)

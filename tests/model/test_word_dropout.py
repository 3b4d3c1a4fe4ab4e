"""Word dropout: whole tokens go, at the rate and with the scale that dropout has, and in training alone."""

import pytest
import torch

from mtkit.config.model import ModelConfig
from mtkit.model.dropout import WordDropout
from mtkit.model.transformer import Transformer


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_tokens_are_dropped_whole_at_the_rate_and_the_others_scaled(p):
    torch.manual_seed(0)
    n_tokens = 40_000
    x = torch.rand(n_tokens // 40, 40, 3) + 0.5
    kept = (y := WordDropout(p)(x)) != 0
    assert torch.equal(kept.all(-1), kept.any(-1))
    n_dropped = int((~kept.all(-1)).sum())
    assert abs(n_dropped - n_tokens * p) < 5 * (n_tokens * p * (1 - p)) ** 0.5
    torch.testing.assert_close(y[kept], x[kept] / (1 - p), rtol=1e-6, atol=0)


def tiny(word_dropout: float) -> Transformer:
    torch.manual_seed(1)
    sizes = {"d_model": 16, "d_ff": 32, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}
    return Transformer(
        ModelConfig(**sizes, residual_dropout=0, embedding_dropout=0, word_dropout=word_dropout, tie="none"), 50, 50
    )


def test_both_sides_lose_tokens_and_lost_ones_learn_nothing():
    model = tiny(0.5).train()
    src, tgt_in = torch.arange(4, 44)[None], torch.arange(8, 48)[None]
    model(src, tgt_in).square().sum().backward()
    for embedding, ids in ((model.src_embedding, src[0]), (model.tgt_embedding, tgt_in[0])):
        assert embedding.weight.grad is not None
        learns = embedding.weight.grad[ids].abs().sum(-1) > 0
        assert 8 < int(learns.sum()) < 32  # of 40; outside once in 50,000 seeds


def test_without_training_nothing_is_dropped():
    src, tgt_in = torch.arange(4, 44)[None], torch.arange(8, 48)[None]
    with torch.no_grad():
        assert torch.equal(tiny(0.5).eval()(src, tgt_in), tiny(0.0).eval()(src, tgt_in))


def test_without_word_dropout_no_random_number_is_used():
    model = tiny(0.0).train()
    torch.manual_seed(2)
    model(torch.tensor([[4, 5]]), torch.tensor([[2, 6]]))
    drawn = torch.rand(1)
    torch.manual_seed(2)
    assert torch.equal(drawn, torch.rand(1))

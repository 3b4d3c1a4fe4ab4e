"""The classifier against torch's own encoder with the same weights, and the laws that hold for every variant."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from mtkit.config.model import ModelConfig
from mtkit.data.batching import Batch
from mtkit.model.classifier import EncoderClassifier, count_classifier_weights
from mtkit.training.update.optimizer_step import batch_loss

VOCAB, LABELS, PAD, BOS, EOS = 13, 3, 0, 2, 3
SIZES = {"d_model": 16, "d_ff": 24, "n_heads": 2, "n_encoder_layers": 2}
NAMES = {  # ours, and torch's
    "self_attention.qkv_proj.": "self_attn.in_proj_",
    "self_attention.out_proj.": "self_attn.out_proj.",
    "self_attention_residual.norm.": "norm1.",
    "feed_forward.in_proj.": "linear1.",
    "feed_forward.out_proj.": "linear2.",
    "feed_forward_residual.norm.": "norm2.",
}


def small_classifier(**choices: object) -> EncoderClassifier:
    torch.manual_seed(1)
    model = EncoderClassifier(ModelConfig.model_validate(SIZES | choices), VOCAB, LABELS, PAD).eval()
    with torch.no_grad():  # zeros and ones as initial values would hide what is left out
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def sentences(lengths: list[int]) -> torch.Tensor:
    rows = [[BOS, *(4 + (7 * i + length) % (VOCAB - 4) for i in range(length)), EOS] for length in lengths]
    return torch.tensor([[*row, *[PAD] * (max(lengths) + 2 - len(row))] for row in rows])


@pytest.mark.parametrize("norm_position", ["pre", "post"])
@torch.no_grad()
def test_the_logits_are_those_of_torchs_encoder_and_a_linear_layer_on_the_first_position(norm_position):
    model = small_classifier(norm_position=norm_position, positions="learned", max_positions=16)
    layer = nn.TransformerEncoderLayer(16, 2, 24, batch_first=True, norm_first=norm_position == "pre")
    last = nn.LayerNorm(16) if norm_position == "pre" else None
    theirs = nn.TransformerEncoder(layer, 2, norm=last, enable_nested_tensor=False).eval()
    for ours, their in zip(model.encoder_layers, theirs.layers, strict=True):
        for (our_name, their_name), kind in itertools.product(NAMES.items(), ("weight", "bias")):
            their.get_parameter(their_name + kind).copy_(ours.get_parameter(our_name + kind))
    if last is not None:
        last.load_state_dict(model.encoder_norm.state_dict())
    src = sentences([5, 3, 1])
    x = model.get_parameter("src_embedding.weight")[src] * 16**0.5
    x = x + model.get_parameter("src_positions.table")[: src.size(1)]
    memory = theirs(x, src_key_padding_mask=src == PAD)
    expected = memory[:, 0] @ model.output.weight.T + model.output.bias
    torch.testing.assert_close(model(src, src[:, :1]).squeeze(1), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "relative", "alibi"])
@pytest.mark.parametrize("norm_position", ["pre", "post"])
@torch.no_grad()
def test_padding_changes_nothing(positions, norm_position):
    model = small_classifier(positions=positions, norm_position=norm_position, norm="rmsnorm", activation="swiglu")
    together = model(sentences([6, 2, 4]), sentences([1, 1, 1])[:, :1])
    for row, length in zip(together, (6, 2, 4), strict=True):
        alone = model(sentences([length]), sentences([1])[:, :1])
        torch.testing.assert_close(alone[0], row, rtol=1e-5, atol=1e-5)


def test_a_new_classifier_finds_all_labels_equally_likely():
    model = EncoderClassifier(ModelConfig.model_validate(SIZES), VOCAB, LABELS, PAD)
    probs = model(sentences([4, 2]), sentences([1, 1])[:, :1]).softmax(dim=-1)
    torch.testing.assert_close(probs, torch.full((2, 1, LABELS), 1 / LABELS))


def test_what_the_model_reads_as_target_does_not_matter():
    model = small_classifier()
    src = sentences([4])
    assert torch.equal(model(src, torch.tensor([[2]])), model(src, torch.tensor([[9]])))


@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_the_count_of_weights_is_that_of_the_model(activation):
    for norm, position, positions in itertools.product(
        ("layernorm", "rmsnorm"), ("pre", "post"), ("sinusoidal", "learned")
    ):
        choices = {"norm": norm, "norm_position": position, "positions": positions, "activation": activation}
        cfg = ModelConfig.model_validate(SIZES | choices)
        n_weights = sum(parameter.numel() for parameter in EncoderClassifier(cfg, VOCAB, LABELS, PAD).parameters())
        assert count_classifier_weights(cfg, VOCAB, LABELS) == n_weights


def test_dropout_comes_before_the_output():
    model = small_classifier(residual_dropout=0.5, embedding_dropout=0.0).train()
    for layer in model.encoder_layers:
        layer.eval()
    hidden = model.hidden(sentences([4] * 200))
    assert 0.4 < float((hidden == 0).float().mean()) < 0.6
    kept = model.eval().hidden(sentences([4]))
    torch.testing.assert_close(hidden[0][hidden[0] != 0], 2 * kept[0][hidden[0] != 0])


def test_the_loss_of_a_batch_is_torchs_smoothed_cross_entropy_of_the_labels():
    model, src, labels = small_classifier(), sentences([5, 1, 3]), torch.tensor([2, 0, 1])
    batch = Batch(src, src[:, :1], labels[:, None] + 1, indices=labels.numpy(), n_tgt_tokens=3)
    loss, nll = batch_loss(model, batch, 0.2, "fp32")
    logits = model(src, batch.tgt_in).squeeze(1)
    assert loss.item() == pytest.approx(F.cross_entropy(logits, labels, label_smoothing=0.2, reduction="sum").item())
    assert nll.item() == pytest.approx(F.cross_entropy(logits, labels, reduction="sum").item())

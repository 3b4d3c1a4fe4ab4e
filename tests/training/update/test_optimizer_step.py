"""One update: its gradient, its randomness, and what happens when it is impossible."""

from functools import partial

import pytest
import tiny_updates as updates
import torch
import torch.nn.functional as F
from tiny_updates import gradient, weights

from mtkit.config.model import ModelConfig
from mtkit.errors import TrainingError
from mtkit.model.transformer import Transformer
from mtkit.tokens.special_ids import PAD_ID
from mtkit.training.update.optimizer_step import batch_loss, compile_model, make_optimizer

VOCAB_SIZE = 12
PAIRS = [([4, 5, 6, 7], [8, 9]), ([10], [11, 4, 5, 6, 7]), ([7, 7], [9]), ([5, 11, 4], [10, 10, 8])]


def batch_of(numbers):
    """A batch of the pairs with these numbers."""
    return updates.batch_of([PAIRS[number] for number in numbers], numbers)


make_updater = partial(updates.updater_of, VOCAB_SIZE)
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


@pytest.fixture(params=["read first", "read later", pytest.param("on a GPU", marks=needs_gpu)])
def updater(request):
    """An updater that reads the figures before the optimizer's step, or one whose optimizer judges the gradient."""
    made = make_updater(device="cuda" if request.param == "on a GPU" else "cpu")
    assert made.decides_itself
    made.decides_itself = request.param != "read first"
    return made


@pytest.mark.parametrize("split", [[[0, 1], [2, 3]], [[3], [0, 2], [1]]])
def test_batches_accumulated_give_the_gradient_of_one_large_batch(split):
    whole, parts = make_updater(), make_updater()
    stats = whole.update([batch_of([0, 1, 2, 3])], step=1, lr=0.01)
    stats_of_parts = parts.update([batch_of(numbers) for numbers in split], step=1, lr=0.01)
    torch.testing.assert_close(gradient(parts), gradient(whole), rtol=1e-5, atol=1e-7)
    assert stats_of_parts.loss_sum == pytest.approx(stats.loss_sum, rel=1e-6)
    assert stats_of_parts.grad_norm == pytest.approx(stats.grad_norm, rel=1e-5)
    assert stats_of_parts.n_tgt_tokens == stats.n_tgt_tokens == 2 + 5 + 1 + 3 + 4


def test_the_loss_is_torchs_smoothed_cross_entropy_per_target_token():
    updater = make_updater(label_smoothing=0.2)
    batch = batch_of([0, 1, 2, 3])
    logits, targets = updater.model(batch.src, batch.tgt_in).flatten(0, 1), batch.tgt_out.flatten()
    expected = F.cross_entropy(logits, targets, ignore_index=PAD_ID, label_smoothing=0.2)
    expected_nll = F.cross_entropy(logits, targets, ignore_index=PAD_ID)
    expected_gradient = torch.autograd.grad(expected, list(updater.model.parameters()))
    stats = updater.update([batch], step=1, lr=0.01)
    assert stats.loss_sum / stats.n_tgt_tokens == pytest.approx(expected.item(), rel=1e-5)
    assert stats.nll_sum / stats.n_tgt_tokens == pytest.approx(expected_nll.item(), rel=1e-5)
    torch.testing.assert_close(
        gradient(updater), torch.cat([g.flatten() for g in expected_gradient]), rtol=1e-4, atol=1e-6
    )


def test_counts_of_tokens_and_slots():
    stats = make_updater().update([batch_of([0, 1])], step=1, lr=0.01)
    assert stats.n_tokens == (5 + 2) + (3 + 6), "source and target, each with its end"
    assert stats.n_slots == 2 * 5 + 2 * 6


def test_a_long_gradient_is_scaled_to_max_grad_norm():
    updater = make_updater(max_grad_norm=0.01)
    stats = updater.update([batch_of([0, 1])], step=1, lr=0.01)
    assert stats.grad_norm > 0.1, "reported as it was before clipping"
    assert float(gradient(updater).norm()) == pytest.approx(0.01, rel=1e-3)


def test_the_first_adam_step_moves_each_weight_by_the_rate_against_its_gradient():
    updater = make_updater(adam_eps=1e-20)
    before = weights(updater)
    updater.update([batch_of([0, 1])], step=1, lr=0.25)
    moved, grad = weights(updater) - before, gradient(updater)
    certain = grad.abs() > 1e-6  # Kingma and Ba 2015: with both running means corrected, step 1 is lr * g / |g|
    assert certain.sum() > 500
    torch.testing.assert_close(moved[certain], -0.25 * grad[certain].sign(), rtol=1e-4, atol=1e-6)


def test_steps_are_those_of_adam_with_the_betas_of_the_config():
    """Kingma and Ba 2015, algorithm 1, in float64; twelve steps, so that both running means matter."""
    beta1, beta2 = 0.6, 0.9
    updater = make_updater(adam_betas=[beta1, beta2], adam_eps=1e-3)
    expected = weights(updater).double()
    mean, square = torch.zeros_like(expected), torch.zeros_like(expected)
    for step in range(1, 13):
        updater.update([batch_of([0, 1]), batch_of([2, 3])], step, lr=0.02)
        grad = gradient(updater).double()
        mean, square = beta1 * mean + (1 - beta1) * grad, beta2 * square + (1 - beta2) * grad**2
        corrected = (square / (1 - beta2**step)).sqrt() + 1e-3
        expected -= 0.02 * mean / (1 - beta1**step) / corrected
        torch.testing.assert_close(weights(updater).double(), expected, rtol=0, atol=1e-5)


def test_r_drop_compares_two_passes_with_dropout_of_their_own(monkeypatch):
    """The loss of Wu et al. 2021: cross-entropy, the mean of both, plus alpha / 4 of both divergences."""
    model, batch, passes = make_updater(dropout=0.3).model.train(), batch_of([0, 1, 2, 3]), []
    hidden = model.hidden
    monkeypatch.setattr(model, "hidden", lambda *ids: passes.append(hidden(*ids)) or passes[-1])
    loss, _ = batch_loss(model, batch, 0.1, "fp32", r_drop=5.0)
    [both] = passes
    targets = batch.tgt_out.flatten()
    p, q = (model.output(one).flatten(0, 1)[targets != PAD_ID] for one in both.detach().chunk(2))
    assert (p - q).abs().mean() > 0.01
    targets = targets[targets != PAD_ID]
    ces = [F.cross_entropy(z, targets, reduction="sum", label_smoothing=0.1).item() for z in (p, q)]
    p, q = p.log_softmax(-1), q.log_softmax(-1)
    apart = [F.kl_div(one, other, reduction="sum", log_target=True).item() for one, other in ((p, q), (q, p))]
    assert min(apart) > 0.01
    assert loss.item() == pytest.approx(sum(ces) / 2 + 5.0 / 4 * sum(apart), rel=1e-5)


def test_weight_decay_shrinks_matrices_alone():
    updater = make_updater(weight_decay=0.5)
    before = {name: parameter.detach().clone() for name, parameter in updater.model.named_parameters()}
    optimizer = make_optimizer(updater.model, updater.cfg)
    for parameter in updater.model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    for group in optimizer.param_groups:
        group["lr"] = 0.1
    optimizer.step()
    for name, parameter in updater.model.named_parameters():
        factor = 1 - 0.1 * 0.5 if before[name].ndim == 2 else 1.0
        torch.testing.assert_close(parameter.detach(), factor * before[name], rtol=1e-6, atol=0)


def untrained_rows(model):
    """The weights of a model 8 wide that training changes only in part, with the rows that stay."""
    encoder, decoder = model.encoder_layers[0], model.decoder_layers[0]
    rows = {encoder.self_attention.qkv_proj.bias: slice(8, 16), decoder.cross_attention.kv_proj.bias: slice(0, 8)}
    if model.cfg.decoder == "attention":
        rows[decoder.self_attention.qkv_proj.bias] = slice(8, 16)
    return {**rows, model.tgt_embedding.weight: slice(2, 3)}


@pytest.mark.parametrize(("tie", "decoder"), [("none", "attention"), ("decoder", "attention"), ("all", "ssru")])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_key_biases_and_the_zeros_that_marian_starts_from_stay_as_they_are(tie, decoder, precision):
    shape = {"positions": "marian", "tie": tie, "decoder": decoder}
    updater = make_updater(model=shape, precision=precision, dropout=0.1, weight_decay=0.1, ema=0.9, max_grad_norm=1.0)
    with torch.no_grad():
        for model in (updater.model, updater.eval_model):
            model.get_parameter("tgt_embedding.weight")[2] = 0.0
    before = {name: weight.detach().clone() for name, weight in updater.model.named_parameters()}
    for step in range(1, 6):
        updater.update([batch_of([0, 1]), batch_of([2, 3])], step, lr=0.05)
    for model in (updater.model, updater.eval_model):
        rows = untrained_rows(model)
        for name, weight in model.named_parameters():
            stays = torch.zeros_like(weight, dtype=torch.bool)
            if weight in rows:
                stays[rows[weight]] = True
            assert torch.equal(weight == before[name], stays), name


def test_rotated_keys_train_their_bias():
    updater = make_updater(model={"positions": "rotary"})
    bias = updater.model.encoder_layers[0].self_attention.qkv_proj.bias
    before = bias.detach().clone()
    updater.update([batch_of([0, 1, 2, 3])], step=1, lr=0.01)
    assert (bias != before).all()


def test_dropout_depends_on_seed_and_step_and_on_nothing_before():
    first, second, other_step = make_updater(dropout=0.5), make_updater(dropout=0.5), make_updater(dropout=0.5)
    loss = first.update([batch_of([0, 1])], step=7, lr=0.01).loss_sum
    torch.manual_seed(99)
    assert second.update([batch_of([0, 1])], step=7, lr=0.01).loss_sum == loss
    assert other_step.update([batch_of([0, 1])], step=8, lr=0.01).loss_sum != loss


def test_batches_of_one_update_have_dropout_of_their_own():
    updater = make_updater(dropout=0.5)
    once = make_updater(dropout=0.5).update([batch_of([0, 1])], step=7, lr=0.01).loss_sum
    assert updater.update([batch_of([0, 1])] * 2, step=7, lr=0.01).loss_sum != pytest.approx(2 * once, rel=1e-6)


def test_a_loss_that_is_not_finite_stops_before_any_weight_moves(updater):
    with torch.no_grad():
        updater.model.output.bias[9] = float("nan")  # in every softmax, whichever the pairs
    before = weights(updater)
    line_of = ["train.en:10", "train.en:20", "train.en:30", "train.en:40"].__getitem__
    with pytest.raises(TrainingError) as caught:
        updater.update([batch_of([1, 3])], step=12, lr=0.03, line_of=line_of)
    assert torch.equal(weights(updater).nan_to_num(), before.nan_to_num())
    message = str(caught.value)
    assert "step 12: the loss is nan" in message
    assert "  train.en:20\n  train.en:40\n" in message
    assert "lower train.lr (it is 0.03 at this step)" in message


def test_a_gradient_that_is_not_finite_stops_before_any_weight_moves(updater):
    updater.model.output.bias.register_hook(lambda grad: grad * float("inf"))
    before = weights(updater)
    with pytest.raises(TrainingError, match=r"(?s)step 1: .* norm (nan|inf)"):
        updater.update([batch_of([0])], step=1, lr=0.01)
    assert torch.equal(weights(updater), before)


def test_after_an_impossible_update_the_next_is_that_of_adam(updater):
    other = make_updater()
    with pytest.raises(TrainingError):
        handle = updater.model.output.bias.register_hook(lambda grad: grad * float("inf"))
        updater.update([batch_of([0])], step=1, lr=0.01)
    handle.remove()
    for one in (updater, other):
        one.update([batch_of([1, 2])], step=1, lr=0.01)
    torch.testing.assert_close(weights(updater).cpu(), weights(other), rtol=1e-5, atol=1e-6)


def test_running_out_of_memory_is_explained():
    updater = make_updater(batch_tokens=4096, accumulate=3)
    updater.model.output.bias.register_hook(lambda grad: torch.empty(2**50))  # more than a process can address
    with pytest.raises(TrainingError, match=r"step 7: .*train\.batch_tokens=4096 .*train\.accumulate=3"):
        updater.update([batch_of([0])], step=7, lr=0.01)


def test_a_gpu_without_memory_is_explained(monkeypatch):
    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has ...")

    updater = make_updater()
    monkeypatch.setattr(updater.optimizer, "step", full)
    with pytest.raises(TrainingError, match=r"CUDA out of memory.* train\.batch_tokens"):
        updater.update([batch_of([0])], step=1, lr=0.01)


def test_other_errors_are_not_reported_as_a_lack_of_memory(monkeypatch):
    def fail(*_):
        raise RuntimeError("a defect")

    updater = make_updater()
    monkeypatch.setattr(updater.optimizer, "step", fail)
    with pytest.raises(RuntimeError, match="a defect"):
        updater.update([batch_of([0])], step=1, lr=0.01)


def test_of_several_batches_the_one_that_is_not_finite_is_named():
    updater = make_updater()
    with torch.no_grad():
        updater.model.src_embedding.weight[10] = float("nan")  # only pair 1 has it in its source
    with pytest.raises(TrainingError) as caught:
        updater.update([batch_of([0, 2]), batch_of([1]), batch_of([3])], step=1, lr=0.01, line_of="line {}".format)
    assert "line 1" in str(caught.value)
    assert not any(f"line {other}" in str(caught.value) for other in (0, 2, 3))


def test_in_fp16_an_impossible_update_leaves_the_scaler_ready_for_the_next():
    updater = make_updater(precision="fp16")
    good = weights(updater)
    with torch.no_grad():
        updater.model.output.bias[5] = float("nan")
    with pytest.raises(TrainingError, match=r"step 1: .* nan"):
        updater.update([batch_of([0, 1])], step=1, lr=0.01)
    with torch.no_grad():
        updater.model.output.bias[5] = 0.0
    updater.update([batch_of([0, 1])], step=2, lr=0.01)
    assert not torch.equal(weights(updater), good)


def test_in_fp16_an_overflowing_gradient_skips_the_update_and_lowers_the_scale():
    updater = make_updater(precision="fp16")
    scaler = updater.grad_scaler
    updater.update([batch_of([0, 1])], step=1, lr=0.01)
    before, scale = weights(updater), scaler.get_scale()
    handle = updater.model.output.bias.register_hook(lambda grad: grad * float("inf"))
    stats = updater.update([batch_of([0, 1])], step=2, lr=0.01)
    assert stats.grad_norm == float("inf") or stats.grad_norm != stats.grad_norm
    assert torch.equal(weights(updater), before)
    assert scaler.get_scale() == scale / 2
    handle.remove()
    updater.update([batch_of([0, 1])], step=3, lr=0.01)
    assert not torch.equal(weights(updater), before)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own
@pytest.mark.parametrize(("decoder", "compiled"), [("attention", True), ("ssru", False)])
def test_layers_are_compiled_except_those_with_a_loop_over_positions(decoder, compiled):
    cfg = ModelConfig(d_model=16, d_ff=32, n_heads=2, n_encoder_layers=1, n_decoder_layers=1, decoder=decoder)
    model = Transformer(cfg, 20, 20)
    compile_model(model)
    assert model.encoder_layers[0]._compiled_call_impl is not None
    assert (model.decoder_layers[0]._compiled_call_impl is not None) == compiled

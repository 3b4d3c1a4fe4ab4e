"""Training for `gpu.py`: mtkit's update, eager and compiled, and Hugging Face's MarianMT with the same batches."""

import gc
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
import torch.nn.functional as F
from model_flops import measure, overall_rate, products, training_flops
from synthetic import Shape, now, synthetic_batches
from torch import nn

from mtkit.config.training import TrainConfig
from mtkit.data.batching import Batch
from mtkit.distributed.communicator import ALONE, Communicator
from mtkit.model.transformer import Transformer
from mtkit.runtime import Precision, autocast
from mtkit.tokens.special_ids import BOS_ID, EOS_ID, PAD_ID
from mtkit.training.update.optimizer_step import Updater, make_optimizer

SYSTEMS = ("mtkit", "mtkit-compiled", "marianmt")
_LR = 5e-4
_WARM_UP_STEPS = 5  # not timed: kernels are chosen, memory is taken
_COMPILING_STEPS = 60  # the same where every new kind of shape is compiled first
# Dense bf16 and fp16 operations a second, without sparsity; NVIDIA's data sheets. The first name that fits counts.
_PEAKS = (("H100 PCIe", 756e12), ("H100 NVL", 835e12), ("H100", 989e12), ("H200", 989e12), ("A100", 312e12))

Step = Callable[[Batch, int], tuple[float, int]]  # makes an update; returns nats per token, and target tokens


@dataclass(frozen=True)
class Training:
    """What a system did in training."""

    system: str
    losses: tuple[float, float]  # nats per token, of the first and the last update
    tokens_per_s: float  # target tokens, of all processes together
    flops_per_s: float  # of the model, padding not counted, per device
    utilization: float  # the share of the device's peak that this is
    peak_bytes: int  # of the device's memory; 0 where it cannot be told


def train(
    system: str, shape: Shape, device: torch.device, precision: Precision, n_steps: int, processes: Communicator = ALONE
) -> Training:
    """Time so many updates of the shape from fresh weights."""
    torch.compiler.reset()  # of what other shapes have compiled: torch gives up after eight versions of a layer
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    torch.manual_seed(1)
    before = torch.cuda.memory_allocated(device) if device.type == "cuda" else 0  # by what is measured beside
    step = make_step(system, shape, device, precision, processes)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    warm_up = _COMPILING_STEPS if system == "mtkit-compiled" else _WARM_UP_STEPS
    batches = list(islice(batches_of(shape, processes), warm_up + n_steps))
    losses, n_tokens, flops, started = [], 0, 0, now(device)
    for number, batch in enumerate(batches, start=1):
        if number == warm_up + 1:
            n_tokens, flops, started = 0, 0, now(device)
        loss, n_tgt_tokens = step(batch, number)
        losses.append(loss)
        n_tokens += n_tgt_tokens
        flops += batch_flops(shape, batch)
    seconds = now(device) - started
    peak_bytes = torch.cuda.max_memory_allocated(device) - before if device.type == "cuda" else 0
    rate = flops / seconds
    utilization = rate / peak_flops(shape, device, precision)
    return Training(system, (losses[0], losses[-1]), n_tokens / seconds, rate, utilization, peak_bytes)


def make_step(system: str, shape: Shape, device: torch.device, precision: Precision, processes: Communicator) -> Step:
    """The system's update."""
    if system == "marianmt":
        return marianmt_step(shape, device, precision)
    model = Transformer(shape.model, shape.vocab_size, shape.vocab_size, PAD_ID).to(device)
    cfg = TrainConfig(max_steps=100_000, accumulate=processes.size, compile=system == "mtkit-compiled")
    updater = Updater(model, cfg, 1, precision, processes)

    def step(batch: Batch, number: int) -> tuple[float, int]:
        stats = updater.update([batch], number, _LR)
        return stats.loss_sum / stats.n_tgt_tokens, stats.n_tgt_tokens

    return step


def marianmt_step(shape: Shape, device: torch.device, precision: Precision) -> Step:
    """transformers' MarianMTModel with torch's loss: the same width, depth, dropout, smoothing, clipping and optimizer.

    It is post-norm with all embeddings tied, as mtkit's base and big are here; mtkit's 256 is neither.
    """
    model = marianmt(shape).to(device)
    cfg = TrainConfig(max_steps=100_000)
    optimizer = make_optimizer(model, cfg)
    scaler = torch.amp.GradScaler(device.type, enabled=precision == "fp16")

    def step(batch: Batch, number: int) -> tuple[float, int]:
        moved = batch.to(device)
        optimizer.zero_grad()
        with autocast(device, precision):
            logits = model(
                input_ids=moved.src,
                attention_mask=(moved.src != PAD_ID).long(),
                decoder_input_ids=moved.tgt_in,
                use_cache=False,
            ).logits
            loss = F.cross_entropy(
                logits.flatten(0, 1).float(),
                moved.tgt_out.flatten(),
                ignore_index=PAD_ID,
                label_smoothing=cfg.label_smoothing,
            )
        scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), cfg.max_grad_norm)
        for group in optimizer.param_groups:
            group["lr"] = _LR
        scaler.step(optimizer)
        scaler.update()
        return float(loss.detach()), batch.n_tgt_tokens

    return step


def marianmt(shape: Shape) -> Any:
    """The network of that shape. Raises ImportError if transformers is not installed."""
    from transformers import MarianConfig, MarianMTModel

    cfg, sides = shape.model, ("encoder", "decoder")
    config = MarianConfig(
        vocab_size=shape.vocab_size,
        d_model=cfg.d_model,
        encoder_layers=cfg.n_encoder_layers,
        decoder_layers=cfg.n_decoder_layers,
        **{f"{side}_ffn_dim": cfg.d_ff for side in sides},
        **{f"{side}_attention_heads": cfg.n_heads for side in sides},
        activation_function="relu",
        dropout=cfg.residual_dropout,
        attention_dropout=cfg.attention_dropout,
        activation_dropout=cfg.ffn_dropout,
        scale_embedding=True,
        max_position_embeddings=512,
        pad_token_id=PAD_ID,
        eos_token_id=EOS_ID,
        decoder_start_token_id=BOS_ID,
        forced_eos_token_id=None,
        attn_implementation="sdpa",
    )
    return MarianMTModel(config).train()


def batches_of(shape: Shape, processes: Communicator) -> Iterator[Batch]:
    """This process's share of the batches: every process.size-th."""
    for number, batch in enumerate(synthetic_batches(shape.vocab_size, shape.batch_tokens)):
        if number % processes.size == processes.rank:
            yield batch


def batch_flops(shape: Shape, batch: Batch) -> int:
    """The operations that the model needs for the batch's own tokens."""
    lengths = [(ids != PAD_ID).sum(dim=1).numpy() for ids in (batch.src, batch.tgt_out)]
    return training_flops(shape.model, shape.vocab_size, *lengths)


def peak_flops(shape: Shape, device: torch.device, precision: Precision) -> float:
    """Operations a second of the device: by its data sheet in half precision, else measured with such products."""
    if device.type == "cuda" and precision != "fp32":
        name = torch.cuda.get_device_name(device)
        for part, peak in _PEAKS:
            if part in name:
                return peak
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    typical = products(shape.model, shape.vocab_size, max(1, shape.batch_tokens // 32), 32, 32, device)
    return overall_rate(measure(typical, dtype, device))


def as_line(training: Training) -> str:
    """The result for people."""
    return (
        f"    training, {training.system}: {training.tokens_per_s:,.0f} target tokens/s, "
        f"{training.flops_per_s / 1e12:.3g} TFLOP/s, {training.utilization:.0%} of the peak, "
        f"{training.peak_bytes / 2**30:.2f} GiB, loss {training.losses[0]:.2f} -> {training.losses[1]:.2f}"
    )


def is_main() -> bool:
    """Whether this process is the one that prints."""
    return os.environ.get("RANK", "0") == "0"

"""One optimizer step: batches in, moved weights and the figures of the step out."""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from mtkit.config.schema import TrainConfig
from mtkit.data.batching import Batch
from mtkit.data.special_ids import PAD_ID
from mtkit.distributed.processes import ALONE, Processes
from mtkit.errors import TrainingError
from mtkit.model.dropout import seeded_dropout
from mtkit.model.transformer import Transformer
from mtkit.runtime import Precision, autocast, is_out_of_memory
from mtkit.training.divergence import Divergence
from mtkit.training.loss import smoothed_cross_entropy_sum
from mtkit.training.micro_batches import Replicas, lower_limit, parts_of
from mtkit.training.state import UpdateStats

_LINES_NAMED = 5  # of a batch that cannot be learnt from


class Updater:
    """A model with its optimizer."""

    def __init__(
        self, model: Transformer, cfg: TrainConfig, seed: int, precision: Precision, processes: Processes = ALONE
    ) -> None:
        self.model = model
        self.processes = processes
        if cfg.compile:
            compile_layers(model)
        self.batch_loss = processes.parallel(model, batch_loss, cfg)
        self.cfg = cfg
        self.seed = seed
        self.precision = precision
        self.device = next(model.parameters()).device
        self.replicas = Replicas(model, alone=self.device.type != "cpu" or processes.size > 1 or cfg.compile)
        self.optimizer = make_optimizer(model, cfg)
        self.average = MovingAverage(model, cfg.ema) if cfg.ema else None
        self.batch_limit: int | None = None  # larger batches go through memory in parts; lowered when one does not fit
        self.grad_scaler = torch.amp.GradScaler(self.device.type, enabled=precision == "fp16")

    def update(
        self,
        batches: Sequence[Batch],
        step: int,
        lr: float,
        line_of: Callable[[int], str] = str,
        r_drop: float | None = None,
    ) -> UpdateStats:
        """Make update number `step`; the loss is the mean over all target tokens of the batches.

        line_of names a training pair for people; r_drop: by default that of the config. Raises TrainingError, before
        any weight moves, if the loss or the gradient is not finite; and if the memory does not suffice.
        """
        self.model.train()
        n_tgt_tokens = int(*self.processes.sums(sum(batch.n_tgt_tokens for batch in batches)))
        with _out_of_memory_explained(step, self.cfg):
            passes = self._gradient(batches, n_tgt_tokens, step, self.cfg.r_drop if r_drop is None else r_drop)
            self.grad_scaler.unscale_(self.optimizer)
            norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.max_grad_norm)
            stats = self._stats(batches, n_tgt_tokens, passes, self.processes.whole_norm(norm))
            if not math.isfinite(stats.loss_sum) or not self._can_use(stats.grad_norm):
                self.grad_scaler.update()  # it has begun with this update, and would not begin with another
                raise self._not_finite(stats, passes, step, lr, line_of)
            for group in self.optimizer.param_groups:
                group["lr"] = lr
            self.grad_scaler.step(self.optimizer)
            self.grad_scaler.update()
        if self.average:
            self.average.update(step)
        return stats

    @property
    def kept_model(self) -> Transformer:
        """The model that is validated and that becomes the bundle: with train.ema the running mean of the weights."""
        return self.average.model if self.average else self.model

    def _gradient(self, batches: Sequence[Batch], n_tgt_tokens: int, step: int, r_drop: float) -> "_Passes":
        """Make the gradient; a batch that does not fit into memory goes through it in parts, from now on."""
        while True:
            self.replicas.clear()  # of an attempt that did not fit nothing is left
            passes = _Passes(self._parts(batches), [])
            try:
                for part, numbers in passes.parts:
                    with self.processes.summing(last=len(passes.sums) == len(passes.parts) - 1):
                        passes.sums.append(self._backward(part, n_tgt_tokens, r_drop, step, *numbers))
                self.replicas.add_up()
                return passes
            except RuntimeError as error:
                part, _ = passes.parts[len(passes.sums)]
                if not is_out_of_memory(error) or len(part.indices) == 1 or self.processes.size > 1:
                    raise
                reason = str(error).partition("\n")[0]
            self.batch_limit = lower_limit(part, step, reason, self.cfg.batch_tokens)  # here the error, which holds
            if self.device.type == "cuda":  # the tensors of the attempt, is gone
                torch.cuda.empty_cache()

    def _parts(self, batches: Sequence[Batch]) -> list[tuple[Batch, tuple[int, ...]]]:
        """What goes through memory at a time, with the numbers that its dropout is seeded by."""
        parts = [
            (part, (self.processes.rank + number * self.processes.size, *path))
            for number, batch in enumerate(batches)
            for path, part in parts_of(batch, self.batch_limit)
        ]
        return self.processes.filled_up(parts)

    def _backward(self, batch: Batch, n_tgt_tokens: int, r_drop: float, *numbers: int) -> Tensor:
        """Add the batch's part to the gradient; returns its loss and its unsmoothed loss, summed: (2,).

        numbers: what the seed of its dropout is made of, the step and the part's own numbers.
        """

        def backward(model: Transformer, share: Batch, number: int) -> Tensor:
            loss_of = self.batch_loss if model is self.model else partial(batch_loss, model)
            seed = derived_seed(self.seed, *numbers, number)  # dropout needs no state beyond these numbers
            with seeded_dropout(seed, self.device):
                loss_sum, nll_sum = loss_of(share, self.cfg.label_smoothing, self.precision, r_drop)
            loss = loss_sum * self.processes.size / n_tgt_tokens  # of the processes' gradients the mean is taken
            self.grad_scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            return torch.stack([loss_sum.detach(), nll_sum])

        return torch.stack(self.replicas.each(batch, backward)).sum(dim=0)

    def _stats(self, batches: Sequence[Batch], n_tgt_tokens: int, passes: "_Passes", norm: Tensor) -> UpdateStats:
        """The figures of the update, over all processes."""
        own_src_tokens = sum(int((batch.src != PAD_ID).sum()) for batch in batches)
        own_slots = sum(batch.src.numel() + batch.tgt_in.numel() for batch in batches)
        # Before the wait for a GPU, which has no end if another process, whose part it waits for, has died.
        n_src_tokens, n_slots = self.processes.sums(own_src_tokens, own_slots)
        loss_sum, nll_sum, grad_norm = torch.stack([*torch.stack(passes.sums).sum(dim=0), norm]).tolist()  # one wait
        loss_sum, nll_sum = self.processes.sums(loss_sum, nll_sum)
        n_tokens = n_tgt_tokens + int(n_src_tokens)
        return UpdateStats(loss_sum, nll_sum, grad_norm, n_tgt_tokens, n_tokens, n_slots=int(n_slots))

    def _can_use(self, grad_norm: float) -> bool:
        if math.isfinite(grad_norm):
            return True
        # In fp16 a gradient that overflows is expected: the scaler leaves the update out and halves its scale.
        return self.grad_scaler.is_enabled() and self.grad_scaler.get_scale() > 1

    def _not_finite(
        self, stats: UpdateStats, passes: "_Passes", step: int, lr: float, line_of: Callable[[int], str]
    ) -> Divergence:
        """The error for an update that cannot be made; it names the lines that are to blame, if any are."""
        guilty = passes.not_finite()
        indices = np.concatenate([part.indices for part in guilty or [part for part, _ in passes.parts]])
        lines = [f"  {line_of(int(index))}" for index in indices[:_LINES_NAMED]]
        if len(indices) > _LINES_NAMED:
            lines.append(f"  and {len(indices) - _LINES_NAMED} more")
        finding = (
            f"step {step}: the loss is {stats.loss_sum / stats.n_tgt_tokens}, the gradient's norm {stats.grad_norm}; "
            "no weight was changed. The batch:"
        )
        return Divergence(
            self.processes.text_of_first("\n".join([finding, *lines]), is_mine=bool(guilty)),
            f"look at these lines; if they are sound, start a new run with a lower train.lr (it is {lr:.3g} at this "
            "step), a longer train.warmup_steps or train.precision=fp32",
        )


@dataclass(frozen=True)
class _Passes:
    """An update's way through memory, part by part."""

    parts: list[tuple[Batch, tuple[int, ...]]]
    sums: list[Tensor]  # of each part its loss and its unsmoothed loss, summed: (2,)

    def not_finite(self) -> list[Batch]:
        """The parts whose loss is not finite."""
        return [part for (part, _), sums in zip(self.parts, self.sums, strict=True) if not bool(sums.isfinite().all())]


class MovingAverage:
    """An exponential running mean of a model's weights, held by a second model that is never trained itself.

    After update n it moves by 1 - d of the way to the new weights, d = min(decay, (1 + n) / (10 + n)): at first it
    follows closely, so that the weights drawn at the start are soon forgotten. The idea is Polyak and Juditsky 1992,
    the warm-up of the decay that of tf.train.ExponentialMovingAverage with num_updates.
    """

    def __init__(self, model: Transformer, decay: float) -> None:
        self.decay = decay
        self.model = copy.deepcopy(model).requires_grad_(False).eval()
        self._means: list[Tensor] = list(self.model.parameters())  # float32, as the weights are in any precision
        self._weights: list[Tensor] = list(model.parameters())

    @torch.no_grad()
    def update(self, n: int) -> None:
        """Take in the weights that the model has after update number n, counted from 1."""
        torch._foreach_lerp_(self._means, self._weights, 1 - min(self.decay, (1 + n) / (10 + n)))


def compile_layers(model: Transformer) -> None:
    """Have each layer compiled when it is first used, for batches of any size; in place.

    Layer by layer instead of the whole network: all of a stack share one piece of code, so that compiling takes a
    fraction of the time. Weights, their names and copies of the model stay what they were. A decoder of recurrent units
    is left as it is: its loop over the positions would be compiled anew for each length.
    """
    decoder_layers = () if model.cfg.decoder == "ssru" else model.decoder_layers
    for layer in (*model.encoder_layers, *decoder_layers):
        layer.compile(dynamic=True)


def make_optimizer(model: nn.Module, cfg: TrainConfig) -> torch.optim.AdamW:
    """AdamW (Loshchilov and Hutter 2019) over the model's parameters, with weight decay on the matrices."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": cfg.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    # fused: one pass over memory; measured 3 times faster than the loop on a CPU as well
    return torch.optim.AdamW(groups, lr=cfg.lr, betas=cfg.adam_betas, eps=cfg.adam_eps, fused=True)


def batch_loss(
    model: Transformer, batch: Batch, label_smoothing: float, precision: Precision, r_drop: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The summed loss of a batch, with a gradient, and the summed unsmoothed loss, without; in nats.

    With r_drop, each sentence passes twice, with different dropout: see `smoothed_cross_entropy_sum`.
    """
    device = next(model.parameters()).device
    targets = batch.tgt_out.flatten()
    # found on the CPU: a GPU would have to be awaited
    positions = (targets != PAD_ID).nonzero().squeeze(1).to(device, non_blocking=device.type == "cuda")
    batch = batch.to(device)
    n_passes = 2 if r_drop else 1
    with autocast(device, precision):
        hidden = model.hidden(batch.src.repeat(n_passes, 1), batch.tgt_in.repeat(n_passes, 1))
        hidden = hidden.view(n_passes, -1, hidden.size(-1)).index_select(1, positions)
        targets = batch.tgt_out.flatten().index_select(0, positions)
        output = model.output
        return smoothed_cross_entropy_sum(hidden, output.weight, output.bias, targets, label_smoothing, r_drop)


def derived_seed(*numbers: int) -> int:
    """A seed that depends on all of the numbers, for torch.manual_seed."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


@contextmanager
def _out_of_memory_explained(step: int, cfg: TrainConfig) -> Iterator[None]:
    """Turn torch's error for memory that cannot be had into one that says what to do."""
    try:
        yield
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        reason = str(error).partition("\n")[0]
        raise TrainingError(
            f"step {step}: the memory does not suffice ({reason}); halve train.batch_tokens={cfg.batch_tokens} and "
            f"double train.accumulate={cfg.accumulate}, so that an update stays as large (once there are checkpoints, "
            "in a new run), or end other programs and run the same command again"
        ) from error

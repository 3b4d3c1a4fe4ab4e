"""One optimizer step over several batches, the optimizer, and means of the weights."""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mtkit.alignment.lexicon import AlignmentLexicon
from mtkit.config.training import TrainConfig
from mtkit.data.batching import Batch
from mtkit.distributed.communicator import ALONE, Communicator
from mtkit.distributed.weights import CopiedWeights, Weights, must_shard
from mtkit.errors import TrainingError
from mtkit.model.network import Network
from mtkit.model.ops import compile_layer, seeded_dropout
from mtkit.model.ssru import SSRU
from mtkit.model.transformer import Transformer
from mtkit.runtime import Precision, autocast, is_out_of_memory
from mtkit.tokens.special_ids import PAD_ID
from mtkit.training.update.divergence import Divergence
from mtkit.training.update.loss import Guidance, smoothed_cross_entropy_sum
from mtkit.training.update.micro_batches import Replicas, lower_limit, parts_of
from mtkit.training.update.schedule_free import ScheduleFreeAdamW
from mtkit.training.update.state import UpdateStats

_LINES_NAMED = 5  # of a batch whose loss is not finite


class Updater:
    """A model with its optimizer."""

    def __init__(
        self,
        model: Network,
        cfg: TrainConfig,
        seed: int,
        precision: Precision,
        processes: Communicator = ALONE,
        lexicon: AlignmentLexicon | None = None,
    ) -> None:
        """lexicon: links for the attention to learn, on the model's device (train.guided_alignment)."""
        self.model = model
        self.guidance = Guidance(lexicon, cfg.guided_alignment) if lexicon else None
        self.processes = processes
        if cfg.compile:
            compile_model(model)
        self.weights = weights_in_training(model, processes, cfg)
        self.batch_loss = self.weights.loss
        self.cfg = cfg
        self.seed = seed
        self.precision = precision
        self.device = next(model.parameters()).device
        self.replicas = Replicas(model, alone=self.device.type != "cpu" or processes.size > 1 or cfg.compile)
        self.optimizer = make_optimizer(model, cfg)
        self.untrained = list(model.untrained_rows())
        self.average = MovingAverage(model, cfg.ema) if cfg.ema else None
        self.batch_limit: int | None = None  # larger batches are split; lowered when one does not fit into memory
        self.grad_scaler = torch.amp.GradScaler(self.device.type, enabled=precision == "fp16")
        # whether the optimizer itself leaves the weights alone if the gradient is impossible
        self.decides_itself = (
            isinstance(self.optimizer, torch.optim.AdamW)
            and self.device.type in ("cpu", "cuda")
            and not self.weights.are_sharded
            and not self.grad_scaler.is_enabled()
        )

    @property
    def eval_model(self) -> Network:
        """The model to validate and to bundle, within `kept_weights`."""
        return self.average.model if self.average else self.model

    def kept_weights(self) -> AbstractContextManager[None]:
        """Give `eval_model` the weights to keep for this block: with train.schedule=schedule_free the mean."""
        return self.optimizer.mean_weights() if isinstance(self.optimizer, ScheduleFreeAdamW) else nullcontext()

    def values_to_save(self) -> tuple[dict[str, Tensor], dict[str, Any], dict[str, Tensor] | None]:
        """Return the weights, the optimizer's state and, if they differ, the weights to keep; whole in process 0."""
        kept = None
        if self.average:
            kept = self.weights.save(self.average.model)
        elif isinstance(self.optimizer, ScheduleFreeAdamW):
            with self.optimizer.mean_weights():
                kept = {name: weight.clone() for name, weight in self.weights.save(self.model).items()}
        return self.weights.save(self.model), self.weights.save_optimizer(self.optimizer), kept

    def update(
        self,
        batches: Sequence[Batch],
        step: int,
        lr: float,
        line_of: Callable[[int], str] = str,
        r_drop: float | None = None,
    ) -> UpdateStats:
        """Make update number `step`; the loss is the mean over all target tokens of the batches.

        line_of: returns the file and line of a training pair. r_drop: default: the config's value.
        Raises Divergence, before any weight changes, if the loss or the gradient is not finite, and TrainingError if
        memory runs out.
        """
        if not self.model.training:  # setting it for each module takes a third of a millisecond
            self.model.train()
        n_tgt_tokens = int(*self.processes.sums(sum(batch.n_tgt_tokens for batch in batches)))
        with _out_of_memory_explained(step, self.cfg):
            passes = self._add_gradients(batches, n_tgt_tokens, step, self.cfg.r_drop if r_drop is None else r_drop)
            self._clear_untrained()
            norm = self._clip_gradient()
            figures = torch.stack([*torch.stack(passes.sums).sum(dim=0), norm])
            read = _begin_to_read(figures)
            if self.decides_itself:  # the GPU computes this while Python reads the figures and prepares the next update
                self._apply_gradient(lr, unless=~figures[::2].isfinite().all())
            stats = self._stats(batches, n_tgt_tokens, read)
            if not self._is_usable(stats):
                self.grad_scaler.update()  # lets the next update unscale, if the run goes back
                raise self._not_finite(stats, passes, step, lr, line_of)
            if not self.decides_itself:
                self._apply_gradient(lr)
        if self.average:
            self.average.update(step)
        return stats

    def _add_gradients(self, batches: Sequence[Batch], n_tgt_tokens: int, step: int, r_drop: float) -> "_Passes":
        """Run all batches forward and backward; split those that do not fit into memory, now and from now on."""
        while True:
            self.replicas.clear()
            passes = _Passes(self._parts(batches), [])
            try:
                for part, numbers in passes.parts:
                    with self.weights.summing(last=len(passes.sums) == len(passes.parts) - 1):
                        passes.sums.append(self._backward(part, n_tgt_tokens, r_drop, step, *numbers))
            except RuntimeError as error:
                part, _ = passes.parts[len(passes.sums)]
                if not is_out_of_memory(error) or len(part.indices) == 1 or self.processes.size > 1:
                    raise
                reason = str(error).partition("\n")[0]
            else:
                self.replicas.add_up()
                return passes
            # outside the except block: the exception keeps the failed attempt's tensors alive
            self.batch_limit = lower_limit(part, step, reason, self.cfg.batch_tokens)
            if self.device.type == "cuda":
                torch.cuda.empty_cache()

    def _parts(self, batches: Sequence[Batch]) -> list[tuple[Batch, tuple[int, ...]]]:
        """Return the batches, split as far as memory requires, with the numbers that seed their dropout."""
        parts = [
            (part, (self.processes.rank + index * self.processes.size, *path))
            for index, batch in enumerate(batches)
            for path, part in parts_of(batch, self.batch_limit)
        ]
        return self.weights.filled_up(parts)

    def _backward(self, batch: Batch, n_tgt_tokens: int, r_drop: float, *numbers: int) -> Tensor:
        """Add the batch's part to the gradient; return its loss and its unsmoothed loss, summed: (2,).

        numbers: the step and the numbers of the part; they seed its dropout.
        """

        def backward(model: Network, share: Batch, index: int) -> Tensor:
            loss_of = self.batch_loss if model is self.model else partial(batch_loss, model)
            seed = derived_seed(self.seed, *numbers, index)  # dropout needs no state beyond these numbers
            with seeded_dropout(seed, self.device):
                loss_sum, nll_sum = loss_of(share, self.cfg.label_smoothing, self.precision, r_drop, self.guidance)
            loss = loss_sum * self.processes.size / n_tgt_tokens  # the processes' gradients are averaged
            self.grad_scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            return torch.stack([loss_sum.detach(), nll_sum])

        return torch.stack(self.replicas.each(batch, backward)).sum(dim=0)

    def _clear_untrained(self) -> None:
        """Set the gradient of the weights that stay to 0: then Adam, weight decay and averages keep a 0, too."""
        for weight, rows in self.untrained:
            if weight.grad is not None:
                self.weights.own_rows(weight.grad, rows).zero_()

    def _clip_gradient(self) -> Tensor:
        """Clip the gradient to train.max_grad_norm; return its norm before that."""
        self.grad_scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.max_grad_norm)
        return self.weights.whole_norm(norm)

    def _apply_gradient(self, lr: float, unless: Tensor | None = None) -> None:
        """Change the weights; unless: true on the device if the gradient is impossible, for `decides_itself`."""
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        if unless is not None:
            self.optimizer.found_inf = unless.float()  # type: ignore[union-attr]  # torch's fused Adam reads it
        self.grad_scaler.step(self.optimizer)
        self.grad_scaler.update()

    def _stats(self, batches: Sequence[Batch], n_tgt_tokens: int, read: Callable[[], list[float]]) -> UpdateStats:
        """Return the figures of the update, over all processes.

        read: waits for the device; returns the loss, its unsmoothed part and the norm of the gradient.
        """
        own_src_tokens = sum(int((batch.src != PAD_ID).sum()) for batch in batches)
        own_slots = sum(batch.src.numel() + batch.tgt_in.numel() for batch in batches)
        # First of all: waiting for a GPU never ends if it waits for the gradient of a process that has died.
        n_src_tokens, n_slots = self.processes.sums(own_src_tokens, own_slots)
        loss_sum, nll_sum, grad_norm = read()
        loss_sum, nll_sum = self.processes.sums(loss_sum, nll_sum)
        n_tokens = n_tgt_tokens + int(n_src_tokens)
        return UpdateStats(loss_sum, nll_sum, grad_norm, n_tgt_tokens, n_tokens, n_slots=int(n_slots))

    def _is_usable(self, stats: UpdateStats) -> bool:
        if not math.isfinite(stats.loss_sum):
            return False
        # An fp16 gradient may overflow: the scaler then skips the update and halves its scale.
        can_rescale = self.grad_scaler.is_enabled() and self.grad_scaler.get_scale() > 1
        return math.isfinite(stats.grad_norm) or can_rescale

    def _not_finite(
        self, stats: UpdateStats, passes: "_Passes", step: int, lr: float, line_of: Callable[[int], str]
    ) -> Divergence:
        """Return the error for an impossible update; it names the lines whose loss is not finite, or else all."""
        bad_parts = passes.not_finite()
        indices = np.concatenate([part.indices for part in bad_parts or [part for part, _ in passes.parts]])
        lines = [f"  {line_of(int(index))}" for index in indices[:_LINES_NAMED]]
        if len(indices) > _LINES_NAMED:
            lines.append(f"  and {len(indices) - _LINES_NAMED} more")
        finding = (
            f"step {step}: the loss is {stats.loss_sum / stats.n_tgt_tokens}, the gradient norm {stats.grad_norm}; "
            "no weight has changed. The batch:"
        )
        return Divergence(
            self.processes.text_of_first("\n".join([finding, *lines]), is_mine=bool(bad_parts)),
            f"check these lines; if they are good, start a new run with a lower train.lr (it is {lr:.3g} at this "
            "step), a longer train.warmup_steps or train.precision=fp32",
        )


@dataclass(frozen=True)
class _Passes:
    """The parts of an update's batches that have run so far."""

    parts: list[tuple[Batch, tuple[int, ...]]]
    sums: list[Tensor]  # per part: its loss and its unsmoothed loss, summed: (2,)

    def not_finite(self) -> list[Batch]:
        """Return the parts whose loss is not finite."""
        return [part for (part, _), sums in zip(self.parts, self.sums, strict=True) if not bool(sums.isfinite().all())]


def _begin_to_read(figures: Tensor) -> Callable[[], list[float]]:
    """Begin to copy the figures from their device; return what waits for them alone, not for work that comes later."""
    if figures.device.type != "cuda":
        return figures.tolist
    here = torch.empty(figures.shape, dtype=figures.dtype, pin_memory=True)
    here.copy_(figures, non_blocking=True)
    copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
    copied.record()

    def read() -> list[float]:
        copied.synchronize()
        values: list[float] = here.tolist()
        return values

    return read


def weights_in_training(model: Network, processes: Communicator, cfg: TrainConfig) -> Weights:
    """Return the model's weights: whole, copied to all processes (DDP), or sharded above train.shard_above_gib.

    Call it before you give the model's parameters to an optimizer.
    """
    if processes.size == 1:
        return Weights(model, batch_loss)
    if not must_shard(model, cfg):
        return CopiedWeights(model, batch_loss, processes)
    from mtkit.distributed.sharding import ShardedWeights  # loads FSDP2, which takes a second

    return ShardedWeights(model, batch_loss, processes, cfg)


class MovingAverage:
    """An exponential moving average of a model's weights, in a second model.

    After update n it moves by 1 - d of the way to the new weights, d = min(decay, (1 + n) / (10 + n)): at first it
    follows closely, so that the initial weights soon lose their influence. The idea is from Polyak and Juditsky 1992,
    the warm-up of the decay from tf.train.ExponentialMovingAverage with num_updates.
    """

    def __init__(self, model: Network, decay: float) -> None:
        self.decay = decay
        self.model = copy.deepcopy(model).requires_grad_(False).eval()
        self._means: list[Tensor] = list(self.model.parameters())  # float32, as the weights are in any precision
        self._weights: list[Tensor] = list(model.parameters())

    @torch.no_grad()
    def update(self, n: int) -> None:
        """Add the weights after update n, counted from 1."""
        torch._foreach_lerp_(self._means, self._weights, 1 - min(self.decay, (1 + n) / (10 + n)))


def compile_model(model: Network) -> None:
    """Make torch compile each layer at its first use, and on a GPU the loss, for batches of any size (train.compile).

    The layers of a stack share their code, so this takes a fraction of the time that compiling the whole network would.
    Weights, their names and copies of the model do not change. An SSRU decoder stays uncompiled: torch would compile
    its loop over the positions again for each length.
    """
    model.is_compiled = True
    for layer in model.layers():
        if not isinstance(layer.self_attention, SSRU):
            compile_layer(layer)


def make_optimizer(model: nn.Module, cfg: TrainConfig) -> torch.optim.AdamW | ScheduleFreeAdamW:
    """AdamW (Loshchilov and Hutter 2019), or its kind without a schedule, over the model's parameters.

    Weight decay acts on the matrices.
    """
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": cfg.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    if cfg.decay == "schedule_free":
        return ScheduleFreeAdamW(groups, cfg.lr, cfg.adam_betas, cfg.adam_eps)
    # fused: one pass over memory; measured 3 times faster than the loop on a CPU as well
    return torch.optim.AdamW(groups, lr=cfg.lr, betas=cfg.adam_betas, eps=cfg.adam_eps, fused=True)


def batch_loss(
    model: Network,
    batch: Batch,
    label_smoothing: float,
    precision: Precision,
    r_drop: float = 0.0,
    guidance: Guidance | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the summed loss of a batch, with a gradient, and its summed unsmoothed loss, without; in nats.

    With r_drop, each sentence passes twice with different dropout: see `smoothed_cross_entropy_sum`.
    guidance: adds the loss of the attention that should align words; for a Transformer.
    """
    device = next(model.parameters()).device
    targets = batch.tgt_out.flatten()
    # computed on the CPU: with a GPU we would wait for it
    positions = (targets != PAD_ID).nonzero().squeeze(1).to(device, non_blocking=device.type == "cuda")
    batch = batch.to(device)
    n_passes = 2 if r_drop else 1
    with autocast(device, precision):
        texts = batch.src.repeat(n_passes, 1), batch.tgt_in.repeat(n_passes, 1)
        if guidance is None:
            hidden, more = model.hidden(*texts), model.output.bias.new_zeros(())
        else:
            assert isinstance(model, Transformer)
            hidden, attention = model.hidden_and_alignment(*texts)
            more = guidance.loss_sum(attention, batch) / n_passes
        hidden = hidden.view(n_passes, -1, hidden.size(-1)).index_select(1, positions)
        targets = batch.tgt_out.flatten().index_select(0, positions) - model.first_target
        output = model.output
        loss, nll = smoothed_cross_entropy_sum(
            hidden,
            output.weight,
            output.bias,
            targets,
            label_smoothing,
            r_drop,
            compiled=model.is_compiled and device.type == "cuda",  # on a CPU, mtkit's own loops are faster
        )
        return loss + more, nll


def derived_seed(*numbers: int) -> int:
    """Return a seed for torch.manual_seed that depends on all of the numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


@contextmanager
def _out_of_memory_explained(step: int, cfg: TrainConfig) -> Iterator[None]:
    """Turn torch's out-of-memory error into one with a remedy."""
    try:
        yield
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        reason = str(error).partition("\n")[0]
        raise TrainingError(
            f"step {step}: out of memory ({reason}); halve train.batch_tokens={cfg.batch_tokens} and double "
            f"train.accumulate={cfg.accumulate}, which keeps the size of an update (in a new run, if this one has "
            "checkpoints), or close other programs and run the same command again"
        ) from error

"""A model's weights while it trains: in a single process, or copied to several (DDP).

`sharding` is the third way. With each of them, files are those of a single process.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from mtkit.config.training import TrainConfig
from mtkit.data.batching import Batch
from mtkit.distributed.communicator import Communicator
from mtkit.errors import CheckpointError, TrainingError
from mtkit.model.network import Network
from mtkit.tokens.special_ids import BOS_ID, EOS_ID, PAD_ID

BatchLoss = Callable[..., tuple[Tensor, Tensor]]  # the summed loss, with a gradient, and the unsmoothed one
Part = tuple[Batch, tuple[int, ...]]  # a batch, and the numbers that seed its dropout
_BYTES_PER_WEIGHT = 16  # float32: the weight, its gradient and Adam's two means


class Weights:
    """The weights of a model that one process trains.

    All processes that train a model together must call every method, in the same order.
    """

    are_sharded = False  # whether each process holds a part of each weight

    def __init__(self, model: Network, loss: BatchLoss) -> None:
        self.model = model
        self.loss: BatchLoss = partial(loss, model)  # within `summing`, it averages gradients over the processes

    def summing(self, *, last: bool) -> AbstractContextManager[None]:
        """Run a batch forward and backward in this block; last: the last of an update, which also sums gradients."""
        return nullcontext()

    def filled_up(self, parts: list[Part]) -> list[Part]:
        """Add empty batches to an update's batches until all processes have the same number."""
        return parts

    def own_rows(self, tensor: Tensor, rows: slice) -> Tensor:
        """Return those of the rows of a weight or a gradient that this process holds, as a view."""
        return tensor[rows]

    def whole_norm(self, norm: Tensor) -> Tensor:
        """Return the norm of the whole gradient, given what clip_grad_norm_ returned."""
        return norm

    def whole(self, model: Network) -> Network:
        """Return the model, or its average, with all weights in process 0; in the others it may lack some."""
        return model

    def save(self, model: Network) -> dict[str, Tensor]:
        """Return such a model's weights by name, all of them in process 0; a shared matrix comes once."""
        return {name: weight.detach() for name, weight in model.named_parameters()}

    def load(self, model: Network, weights: Mapping[str, Tensor]) -> None:
        """Copy the weights of process 0, as from `save`, into such a model.

        Raises CheckpointError if they are of a model with other parts.
        """
        load_weights(model, weights)

    def save_optimizer(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Return the state_dict that a single process would have, in process 0."""
        return optimizer.state_dict()

    def load_optimizer(self, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
        """Give the optimizer a state as from `save_optimizer`; every process needs it."""
        optimizer.load_state_dict(state)

    def check_equal(self, step: int) -> None:
        """Raise TrainingError if processes that each hold all weights differ in a bit of them."""


class SpreadWeights(Weights):
    """The weights of a model that several processes train."""

    def __init__(self, model: Network, loss: BatchLoss, processes: Communicator) -> None:
        super().__init__(model, loss)
        self.processes = processes

    def filled_up(self, parts: list[Part]) -> list[Part]:
        """All processes must take part: FSDP2 gathers weights in each pass, DDP sums gradients in the last."""
        n_parts = max(int(n) for [n] in self.processes.gather([len(parts)]))
        return [*parts, *[(empty_batch(), ())] * (n_parts - len(parts))]

    @contextmanager
    def summing(self, *, last: bool) -> Iterator[None]:
        """DDP and FSDP2 sum gradients during the last backward pass."""
        with self.processes.loss_explained(), self._accumulating(not last):
            yield

    def _accumulating(self, wanted: bool) -> AbstractContextManager[None]:
        """Return a block in which a backward pass only adds to this process's own gradients, if wanted."""
        raise NotImplementedError


class CopiedWeights(SpreadWeights):
    """Every process holds all weights (DDP)."""

    def __init__(self, model: Network, loss: BatchLoss, processes: Communicator) -> None:
        super().__init__(model, loss, processes)
        self.loss = self._module = DistributedDataParallel(LossModule(model, loss), gradient_as_bucket_view=True)
        # The buffers are position tables that each process grows to its own longest sentence. DDP would broadcast those
        # of process 0 before each pass, in the wrong size. (The constructor's argument for this raises a warning.)
        self._module.broadcast_buffers = False

    def _accumulating(self, wanted: bool) -> AbstractContextManager[None]:
        return self._module.no_sync() if wanted else nullcontext()

    def check_equal(self, step: int) -> None:
        """Compare checksums."""
        digest = hashlib.sha256()
        for parameter in self.model.parameters():
            digest.update(parameter.detach().cpu().numpy().tobytes())
        checksum = int.from_bytes(digest.digest()[:6])  # a float64 holds 48 bits exactly
        [first], *others = self.processes.gather([checksum])
        different = [str(rank) for rank, [other] in enumerate(others, start=1) if other != first]
        if different:
            raise TrainingError(
                f"step {step}: the weights of process {', '.join(different)} differ from those of process 0, so this "
                "step is not saved; run the same command again to resume from the newest checkpoint. If it happens "
                "again, look for faulty memory or for processes on different hardware"
            )


class LossModule(nn.Module):
    """The loss of a batch as a module, because DDP and FSDP2 act in a module's forward pass."""

    def __init__(self, model: Network, loss: BatchLoss) -> None:
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, *args: Any) -> tuple[Tensor, Tensor]:
        """Return loss(model, ...)."""
        return self.loss(self.model, *args)


def load_weights(model: Network, weights: Mapping[str, Tensor]) -> None:
    """Copy weights by name into the model. Raises CheckpointError if they are of a model with other parts."""
    check_names(model, weights)
    model.load_state_dict(weights, strict=False)  # there a shared matrix has two names


def check_names(model: Network, weights: Mapping[str, Tensor]) -> None:
    """Raise CheckpointError if the weights do not have the names of the model's."""
    names = {name for name, _ in model.named_parameters()}
    if names != weights.keys():
        raise CheckpointError(f"the checkpoint belongs to another model; different weights: {names ^ weights.keys()}")


def must_shard(model: Network, cfg: TrainConfig) -> bool:
    """Return whether training the model needs more memory than train.shard_above_gib."""
    device = next(model.parameters()).device
    limit = cfg.shard_above_gib
    if limit is None:
        if device.type != "cuda":
            return False
        limit = torch.cuda.get_device_properties(device).total_memory / 2**30 / 2
    return sum(parameter.numel() for parameter in model.parameters()) * _BYTES_PER_WEIGHT > limit * 2**30


def empty_batch() -> Batch:
    """Return a batch with nothing to predict, so that its loss and gradients are zero."""
    src, tgt_in, tgt_out = (torch.tensor([[token]]) for token in (EOS_ID, BOS_ID, PAD_ID))
    return Batch(src, tgt_in, tgt_out, indices=np.empty(0, dtype=np.int64), n_tgt_tokens=0)

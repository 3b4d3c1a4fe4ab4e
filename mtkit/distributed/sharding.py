"""Shard weights, gradients and optimizer over several processes (FSDP2), for models too large for one GPU."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from mtkit.config.training import TrainConfig
from mtkit.distributed.communicator import Communicator
from mtkit.distributed.weights import BatchLoss, LossModule, SpreadWeights, check_names
from mtkit.errors import ConfigError
from mtkit.model.network import Network
from mtkit.runtime import choose_precision


class ShardedWeights(SpreadWeights):
    """Every process holds a part of each weight (FSDP2); a layer is whole only while it computes.

    Gathering and scattering go tensor by tensor, so that only process 0 needs memory for more than the largest matrix.
    """

    are_sharded = True

    def __init__(self, model: Network, loss: BatchLoss, processes: Communicator, cfg: TrainConfig) -> None:
        """Shard the weights of the model over the processes."""
        super().__init__(model, loss, processes)
        device = next(model.parameters()).device
        precision = choose_precision("auto", device) if cfg.precision == "auto" else cfg.precision
        if cfg.ema or precision == "fp16":
            key = "ema" if cfg.ema else "precision=fp16"
            raise ConfigError(
                f"train.{key} does not work with weights sharded over processes; leave it out, or raise "
                "train.shard_above_gib if each process has memory for the whole model"
            )
        mesh = init_device_mesh(device.type, (processes.size,))
        for layer in model.layers():
            fully_shard(layer, mesh=mesh)
        self.loss = LossModule(model, loss)
        self._root: Any = fully_shard(self.loss, mesh=mesh)  # in place
        self._whole: Network | None = None

    def _accumulating(self, wanted: bool) -> AbstractContextManager[None]:
        self._root.set_requires_gradient_sync(not wanted)
        return nullcontext()

    def own_rows(self, tensor: Tensor, rows: slice) -> Tensor:
        """Return those of the rows that this process holds, as a view; FSDP2 cuts tensors as torch.chunk does."""
        assert isinstance(tensor, DTensor)
        per_process = -(-tensor.size(0) // tensor.device_mesh.size())
        first = tensor.device_mesh.get_local_rank() * per_process
        start, stop, _ = rows.indices(tensor.size(0))
        return tensor.to_local()[max(0, start - first) : max(0, stop - first)]

    def whole_norm(self, norm: Tensor) -> Tensor:
        """Return the norm over all parts."""
        return _full(norm)

    def whole(self, model: Network) -> Network:
        """Return an unsharded copy in process 0, on the model's device; the others get the model as it is."""
        weights = self.save(model)
        if not weights:
            return model
        if self._whole is None:
            self._whole = model.new_like().to(next(model.parameters()).device)
        self._whole.load_state_dict(weights, strict=False)
        return self._whole

    def save(self, model: Network) -> dict[str, Tensor]:
        """Return all weights in process 0, on the CPU; the others get none."""
        weights: dict[str, Any] = get_model_state_dict(
            model, options=StateDictOptions(full_state_dict=True, cpu_offload=True)
        )
        return {name: weights[name] for name, _ in model.named_parameters()} if weights else {}

    def load(self, model: Network, weights: Mapping[str, Tensor]) -> None:
        """Distribute to each process its parts of process 0's weights."""
        if self.processes.is_main:
            check_names(model, weights)
        options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True, strict=False)
        set_model_state_dict(model, dict(weights), options=options)

    def save_optimizer(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Return the state of an unsharded optimizer, complete in process 0.

        Not torch's get_optimizer_state_dict: it uses names where optimizer.pt uses a single process's numbers.
        """
        state = optimizer.state_dict()
        whole: dict[int, dict[str, Tensor]] = {}
        for index, values in state["state"].items():
            full = {name: _full(value) for name, value in values.items()}
            if self.processes.is_main:
                whole[index] = {name: value.cpu() for name, value in full.items()}
        return {**state, "state": whole}

    def load_optimizer(self, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
        """Keep this process's parts of the state of an unsharded optimizer."""
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        own = {
            index: {name: _part(value, parameters[index]) for name, value in values.items()}
            for index, values in state["state"].items()
        }
        optimizer.load_state_dict({**state, "state": own})


def _full(tensor: Tensor) -> Tensor:
    """Gather a sharded tensor; return others as they are."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _part(whole: Tensor, like: Any) -> Tensor:
    """Return this process's part of a tensor that is sharded like the other; a count of steps is not."""
    if whole.shape != like.shape:
        return whole
    return distribute_tensor(whole.to(like.device), like.device_mesh, like.placements, src_data_rank=None)

"""Weights, gradients and optimizer sharded over several processes (FSDP2), for models too large for one GPU."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from mtkit.config.training import TrainConfig
from mtkit.errors import ConfigError
from mtkit.model.network import Network
from mtkit.runtime import choose_precision


class Sharding:
    """A model of which every process holds a part of each weight; a layer is whole only while it computes.

    Gathering and scattering go tensor by tensor, so that only process 0 needs memory for more than the largest matrix.
    Files are those of a single process.
    """

    def __init__(self, module: nn.Module, model: Network, size: int, cfg: TrainConfig) -> None:
        """Shard the weights of the model, which the module holds and calls, over `size` processes."""
        device = next(model.parameters()).device
        precision = choose_precision("auto", device) if cfg.precision == "auto" else cfg.precision
        if cfg.ema or precision == "fp16":
            key = "ema" if cfg.ema else "precision=fp16"
            raise ConfigError(
                f"train.{key} does not work with weights sharded over processes; leave it out, or raise "
                "train.shard_above_gib if each process has memory for the whole model"
            )
        mesh = init_device_mesh(device.type, (size,))
        for layer in model.layers():
            fully_shard(layer, mesh=mesh)
        self._root: Any = fully_shard(module, mesh=mesh)
        self._whole: Network | None = None

    def sum_gradients(self, wanted: bool) -> None:
        """Choose whether the next backward pass sums gradients over the processes or only accumulates its own."""
        self._root.set_requires_gradient_sync(wanted)

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
        weights = self.weights(model)
        if not weights:
            return model
        if self._whole is None:
            self._whole = model.new_like().to(next(model.parameters()).device)
        self._whole.load_state_dict(weights, strict=False)
        return self._whole

    def weights(self, model: Network) -> dict[str, Tensor]:
        """Return all weights in process 0, on the CPU; the others get none."""
        weights: dict[str, Any] = get_model_state_dict(
            model, options=StateDictOptions(full_state_dict=True, cpu_offload=True)
        )
        return {name: weights[name] for name, _ in model.named_parameters()} if weights else {}

    def load_weights(self, model: Network, weights: Mapping[str, Tensor]) -> None:
        """Give each process its parts of process 0's weights."""
        options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True, strict=False)
        set_model_state_dict(model, dict(weights), options=options)

    def optimizer_state(self, optimizer: torch.optim.Optimizer, *, here: bool) -> dict[str, Any]:
        """Return the state of an unsharded optimizer, complete where `here` is true.

        Not torch's get_optimizer_state_dict: it uses names where optimizer.pt uses a single process's numbers.
        """
        state = optimizer.state_dict()
        whole: dict[int, dict[str, Tensor]] = {}
        for index, values in state["state"].items():
            full = {name: _full(value) for name, value in values.items()}
            if here:
                whole[index] = {name: value.cpu() for name, value in full.items()}
        return {**state, "state": whole}

    def own_optimizer_state(self, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> dict[str, Any]:
        """Return this process's parts of the state of an unsharded optimizer."""
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        own = {
            index: {name: _part(value, parameters[index]) for name, value in values.items()}
            for index, values in state["state"].items()
        }
        return {**state, "state": own}


def _full(tensor: Tensor) -> Tensor:
    """Gather a sharded tensor; return others as they are."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _part(whole: Tensor, like: Any) -> Tensor:
    """Return this process's part of a tensor that is sharded like the other; a count of steps is not."""
    if whole.shape != like.shape:
        return whole
    return distribute_tensor(whole.to(like.device), like.device_mesh, like.placements, src_data_rank=None)

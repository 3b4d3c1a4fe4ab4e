"""Weights, gradients and optimizer spread over several processes (FSDP2), for models that one GPU does not hold."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from mtkit.config.schema import TrainConfig
from mtkit.errors import ConfigError
from mtkit.model.transformer import Transformer
from mtkit.runtime import choose_precision

if TYPE_CHECKING:
    from mtkit.training.checkpoint import Checkpoint
    from mtkit.training.update import Updater

_BYTES_PER_WEIGHT = 16  # float32: the weight, its gradient and Adam's two means


def must_shard(model: Transformer, cfg: TrainConfig) -> bool:
    """Whether the model needs more memory to train than train.shard_above_gib."""
    device = next(model.parameters()).device
    limit = cfg.shard_above_gib
    if limit is None:
        if device.type != "cuda":
            return False
        limit = torch.cuda.get_device_properties(device).total_memory / 2**30 / 2
    return sum(parameter.numel() for parameter in model.parameters()) * _BYTES_PER_WEIGHT > limit * 2**30


class Sharding:
    """A model each of whose weights has a part in every process; whole layers exist only while they compute.

    The processes gather and spread whole tensors one after the other, so that checkpoints are those of one process
    and no memory beyond the largest matrix is needed for them, except in process 0.
    """

    def __init__(self, module: nn.Module, model: Transformer, size: int, cfg: TrainConfig) -> None:
        """Spread the weights of the model, which the module holds and calls, over so many processes."""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard  # here: it takes a second to load

        device = next(model.parameters()).device
        precision = choose_precision("auto", device) if cfg.precision == "auto" else cfg.precision
        if cfg.ema or precision == "fp16":
            key = "ema" if cfg.ema else "precision=fp16"
            raise ConfigError(
                f"train.{key} does not go with weights spread over processes; leave it out, or raise "
                "train.shard_above_gib if each process has the memory for the whole model"
            )
        mesh = init_device_mesh(device.type, (size,))
        for layer in (*model.encoder_layers, *model.decoder_layers):
            fully_shard(layer, mesh=mesh)
        self._root: Any = fully_shard(module, mesh=mesh)
        self._whole: Transformer | None = None

    def sum_gradients(self, wanted: bool) -> None:
        """Whether the next backward pass sums the gradients over the processes, or only adds its own to them."""
        self._root.set_requires_gradient_sync(wanted)

    def whole_norm(self, norm: Tensor) -> Tensor:
        """The norm over all parts."""
        return _full(norm)

    @torch.no_grad()
    def whole(self, model: Transformer, *, here: bool) -> Transformer:
        """The model with all weights, in the process in which `here` is true; others get the model as it is."""
        if here and self._whole is None:
            self._whole = _unspread(model).to(next(model.parameters()).device)
        for name, parameter in model.named_parameters():
            weight = _full(parameter)
            if here and self._whole is not None:
                self._whole.get_parameter(name).copy_(weight)
        return self._whole if here and self._whole is not None else model

    def whole_optimizer(self, optimizer: torch.optim.Optimizer, *, here: bool) -> "_OptimizerState":
        """The optimizer's state as one process would have it, in the process in which `here` is true."""
        state = optimizer.state_dict()
        whole: dict[int, dict[str, Tensor]] = {}
        for number, values in state["state"].items():
            full = {name: _full(value) for name, value in values.items()}
            if here:
                whole[number] = {name: value.cpu() for name, value in full.items()}
        return _OptimizerState({**state, "state": whole})

    @torch.no_grad()
    def restore(self, checkpoint: "Checkpoint", updater: "Updater") -> None:
        """Give this process's parts of model and optimizer what the checkpoint holds of them."""
        whole, state = _unspread(updater.model), _OptimizerState({})
        checkpoint.restore(whole, state)  # type: ignore[arg-type]
        for name, parameter in updater.model.named_parameters():
            parameter.copy_(_part(whole.get_parameter(name), parameter))
        parameters = [parameter for group in updater.optimizer.param_groups for parameter in group["params"]]
        for number, values in state.state["state"].items():
            for name, value in values.items():
                if value.shape == parameters[number].shape:  # of the means, not of the number of steps
                    values[name] = _part(value, parameters[number])
        updater.optimizer.load_state_dict(state.state)


class _OptimizerState:
    """Stands for an optimizer where a checkpoint is written or read."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint is to hold."""
        return self.state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Keep what a checkpoint holds."""
        self.state = state


def own_part(tensor: Tensor) -> Tensor:
    """What this process holds of a spread tensor, sharing its memory; others as they are."""
    part: Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return part


def _unspread(model: Transformer) -> Transformer:
    """Another model of the same shape, whole and on the CPU."""
    sizes = model.src_embedding.num_embeddings, model.tgt_embedding.num_embeddings
    return Transformer(model.cfg, *sizes, model.pad_id)


def _full(tensor: Tensor) -> Tensor:
    """All parts of a spread tensor put together; others as they are."""
    from torch.distributed.tensor import DTensor

    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _part(whole: Tensor, like: Any) -> Tensor:
    """The whole tensor, spread like the other; each process takes its part of its own copy."""
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(whole.to(like.device), like.device_mesh, like.placements, src_data_rank=None)

"""What the processes that train one model together tell each other, and how they share its gradient and weights.

Each process has the config of the run and its share of every update's batches. Process 0 also writes files, logs and
validates. `Communicator` serves a single process; `ProcessGroup` serves several.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from mtkit.errors import CheckpointError

if TYPE_CHECKING:  # torch takes a second to load; a command reports a wrong config before that
    import torch
    from torch import Tensor

    from mtkit.config.training import TrainConfig
    from mtkit.data.batching import Batch
    from mtkit.model.network import Network

    BatchLoss = Callable[..., tuple[Tensor, Tensor]]  # the summed loss, with a gradient, and the unsmoothed one

_T = TypeVar("_T")
_Part = tuple["Batch", tuple[int, ...]]  # a batch, and the numbers that seed its dropout


class Communicator:
    """A process that trains without others.

    All processes must call every method except `is_main`, `is_first_here` and `threads`, in the same order.
    """

    rank = 0
    size = 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and talks to the user."""
        return self.rank == 0

    @property
    def is_first_here(self) -> bool:
        """Whether this process is the first of its machine."""
        return True

    @property
    def threads(self) -> int | None:
        """CPU threads for this process if the config sets none; None: all."""
        return None

    def check(self, cfg: "TrainConfig") -> None:
        """Raise ConfigError if this number of processes cannot train with these settings."""

    def device(self, device: "torch.device") -> "torch.device":
        """Return this process's own device of the given kind."""
        return device

    def on_main(self, work: Callable[[], _T]) -> _T:
        """Do the work in process 0, however long it takes; in all, return its result or raise its KeyboardInterrupt."""
        return work()

    def main_first(self) -> AbstractContextManager[None]:
        """Let process 0 finish the block, then the first of each other machine; the rest use what these have made."""
        return nullcontext()

    def gather(self, values: Sequence[float]) -> list[list[float]]:
        """Return the values of every process, by rank."""
        return [list(values)]

    def sums(self, *values: float) -> list[float]:
        """Return each value summed over all processes."""
        return [sum(column) for column in zip(*self.gather(values), strict=True)]

    def any(self, is_so: bool) -> bool:
        """Whether it is so in any process."""
        return self.sums(is_so)[0] > 0

    def of_main(self, *values: float) -> list[float]:
        """Return the values of process 0."""
        return self.gather(values)[0]

    def text_of_first(self, text: str, *, is_mine: bool) -> str:
        """Return the text of the first process where is_mine is true; without any, that of process 0."""
        return text

    def parallel(self, model: "Network", loss: "BatchLoss", cfg: "TrainConfig") -> "BatchLoss":
        """Return loss(model, ...) without its first argument; `summing` averages its gradients over the processes.

        Call it before you give the model's parameters to an optimizer.
        """
        return partial(loss, model)

    def summing(self, *, last: bool) -> AbstractContextManager[None]:
        """Run a batch forward and backward in this block; last: the last of an update, which also sums gradients."""
        return nullcontext()

    def filled_up(self, parts: list[_Part]) -> list[_Part]:
        """Add empty batches to an update's batches until all processes have the same number."""
        return parts

    def own_rows(self, tensor: "Tensor", rows: slice) -> "Tensor":
        """Return those of the rows of a weight or a gradient that this process holds, as a view."""
        return tensor[rows]

    def whole_norm(self, norm: "Tensor") -> "Tensor":
        """Return the norm of the whole gradient, given what clip_grad_norm_ returned."""
        return norm

    def whole(self, model: "Network") -> "Network":
        """Return the model with all of its weights in process 0; in the others it may lack some."""
        return model

    def weights(self, model: "Network") -> dict[str, "Tensor"]:
        """Return the model's weights by name, all of them in process 0; a shared matrix comes once."""
        return {name: weight.detach() for name, weight in model.named_parameters()}

    def optimizer_state(self, optimizer: "torch.optim.Optimizer") -> dict[str, Any]:
        """Return the state_dict that a single process would have, in process 0."""
        return optimizer.state_dict()

    def load_weights(self, model: "Network", weights: Mapping[str, "Tensor"]) -> None:
        """Copy the weights of process 0, as from `weights`, into the model.

        Raises CheckpointError if they are of a model with other parts.
        """
        check_names(model, weights)
        model.load_state_dict(weights, strict=False)  # there a shared matrix has two names

    def load_optimizer_state(self, optimizer: "torch.optim.Optimizer", state: dict[str, Any]) -> None:
        """Give the optimizer a state as from `optimizer_state`; every process needs it."""
        optimizer.load_state_dict(state)

    def check_equal(self, model: "Network", step: int) -> None:
        """Raise TrainingError if processes that each hold all weights differ in a bit of them."""


def check_names(model: "Network", weights: Mapping[str, "Tensor"]) -> None:
    """Raise CheckpointError if the weights do not have the names of the model's."""
    names = {name for name, _ in model.named_parameters()}
    if names != weights.keys():
        raise CheckpointError(f"the checkpoint is of another model; weights differ: {names ^ weights.keys()}")


ALONE = Communicator()

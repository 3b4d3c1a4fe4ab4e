"""The processes that train one model together: which of them this is, and what they tell each other.

`torchrun --nproc-per-node N -m mtkit train ...` starts N of them. Each has the whole run's config and its share of
every update's batches; they differ in nothing else, except that process 0 alone writes, logs and validates.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:  # a config that is wrong is to be refused before torch is loaded, which takes a second
    import torch
    from torch import Tensor

    from mtkit.config.schema import TrainConfig
    from mtkit.data.batching import Batch
    from mtkit.model.transformer import Transformer
    from mtkit.training.checkpoint import Checkpoint
    from mtkit.training.update import Updater

    BatchLoss = Callable[..., tuple[Tensor, Tensor]]  # the summed loss, with a gradient, and the unsmoothed one

_T = TypeVar("_T")
_Part = tuple["Batch", tuple[int, ...]]  # a batch and the numbers that its dropout is seeded by


class Processes:
    """A process that trains by itself: there is nobody to agree with. `ProcessGroup` is for several.

    Every method but `is_main` has to be called by all processes, in the same order.
    """

    rank = 0
    size = 1

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files and talks to the user."""
        return self.rank == 0

    @property
    def threads(self) -> int | None:
        """CPU threads that this process may use if the config does not say; None: all."""
        return None

    def check(self, cfg: "TrainConfig") -> None:
        """Raise ConfigError if so many processes cannot train with these settings."""

    def device(self, device: "torch.device") -> "torch.device":
        """This process's own device of the kind."""
        return device

    def on_main(self, work: Callable[[], _T]) -> _T:
        """Have process 0 do the work, however long it takes; all of them get what it returned, or its interruption."""
        return work()

    def main_first(self) -> AbstractContextManager[None]:
        """A block that process 0 goes through before the others, which then find what it has made."""
        return nullcontext()

    def gather(self, values: Sequence[float]) -> list[list[float]]:
        """Everybody's values, by rank."""
        return [list(values)]

    def sums(self, *values: float) -> list[float]:
        """Each of the values summed over all processes."""
        return [sum(column) for column in zip(*self.gather(values), strict=True)]

    def any(self, is_so: bool) -> bool:
        """Whether it is so in any process."""
        return self.sums(is_so)[0] > 0

    def of_main(self, *values: float) -> list[float]:
        """Process 0's values."""
        return self.gather(values)[0]

    def text_of_first(self, text: str, *, is_mine: bool) -> str:
        """The text of the first process in which is_mine is true; if it is in none, that of process 0."""
        return text

    def parallel(self, model: "Transformer", loss: "BatchLoss", cfg: "TrainConfig") -> "BatchLoss":
        """The function loss(model, ...) without its first argument, its gradients being those of all processes.

        Their mean is taken when `summing(last=True)`. To be called before the optimizer gets the model's parameters.
        """
        return partial(loss, model)

    def summing(self, *, last: bool) -> AbstractContextManager[None]:
        """Forward and backward pass of a batch; last: the update's last in this process, gradients are summed then."""
        return nullcontext()

    def filled_up(self, parts: list[_Part]) -> list[_Part]:
        """An update's batches, and so many empty ones that all processes have equally many: nobody waits in vain."""
        return parts

    def whole_norm(self, norm: "Tensor") -> "Tensor":
        """The norm of the whole gradient, as clip_grad_norm_ returned it."""
        return norm

    def whole(self, model: "Transformer") -> "Transformer":
        """The model with all of its weights, in process 0; in others it may lack some."""
        return model

    def whole_optimizer(self, optimizer: "torch.optim.Optimizer") -> Any:
        """What has a state_dict() like that of a process that trains by itself, in process 0."""
        return optimizer

    def restore(self, checkpoint: "Checkpoint", updater: "Updater") -> None:
        """Give the updater what the checkpoint holds."""
        checkpoint.restore(updater.model, updater.optimizer, updater.average)

    def check_equal(self, model: "Transformer", step: int) -> None:
        """Raise TrainingError if the weights are not the same, bit for bit, in all processes that hold all of them."""


ALONE = Processes()


@contextmanager
def processes_of_job() -> Iterator[Processes]:
    """The processes that torchrun started, for a block; or this one alone.

    With several, an error that all of them meet is raised in one and ends the others without a word, and one that has
    died ends all. Processes other than 0 log nothing.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    from mtkit.distributed.process_group import joined  # loads torch

    with joined() as processes:
        yield processes

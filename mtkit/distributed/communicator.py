"""Communication among the processes that train one model together.

Each process has the config of the run and its share of every update's batches. Process 0 also writes files, logs and
validates. `Communicator` serves a single process; `ProcessGroup` serves several.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:  # torch takes a second to load; a command reports a wrong config before that
    import torch

    from mtkit.config.training import TrainConfig

_T = TypeVar("_T")


class Communicator:
    """A process that trains without others.

    All processes must call every method except `is_main`, `is_first_here` and `threads`, in the same order.
    """

    rank = 0
    size = 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and log lines."""
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
        """Do the work in process 0, however long it takes; return its result, or raise its KeyboardInterrupt, in all
        processes.
        """
        return work()

    def main_first(self) -> AbstractContextManager[None]:
        """Run the block in process 0, then in the first process of each other machine, then in the rest, which can
        reuse the results.
        """
        return nullcontext()

    def gather(self, values: Sequence[float]) -> list[list[float]]:
        """Return the values of every process, by rank."""
        return [list(values)]

    def sums(self, *values: float) -> list[float]:
        """Return each value summed over all processes."""
        return [sum(column) for column in zip(*self.gather(values), strict=True)]

    def any(self, is_so: bool) -> bool:
        """Return whether the value is true in any process."""
        return self.sums(is_so)[0] > 0

    def of_main(self, *values: float) -> list[float]:
        """Return the values of process 0."""
        return self.gather(values)[0]

    def text_of_first(self, text: str, *, is_mine: bool) -> str:
        """Return the text of the first process where is_mine is true; without any, that of process 0."""
        return text

    def loss_explained(self) -> AbstractContextManager[None]:
        """Turn the error of a broken connection in this block into one that names the process that died."""
        return nullcontext()


ALONE = Communicator()

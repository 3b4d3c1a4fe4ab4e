"""Several processes that train one model: they communicate through torch.distributed, and report one clear error if one
dies.
"""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore  # type: ignore[attr-defined]  # public, but not in __all__
from torch.distributed.rendezvous import rendezvous

from mtkit.config.training import TrainConfig
from mtkit.cores import usable_cores
from mtkit.distributed.communicator import Communicator
from mtkit.errors import ConfigError, MtkitError, TrainingError

_T = TypeVar("_T")
_NO_LIMIT = timedelta(days=365)  # process 0 may work for hours while the others wait
_POLL_S = 0.02
_DEATH_SHOWS_S = 5.0  # after a connection breaks, the system may list the dead process for this long
_ERRORS = "errors"  # store key: how many processes have an error to report


class ProcessGroup(Communicator):
    """This process among those that torchrun started.

    Gradients go through the backend of their device (NCCL on GPUs); everything else goes through gloo, on the CPU.
    """

    def __init__(self, local_rank: int, n_local: int) -> None:
        """local_rank: this process's number on its machine; n_local: processes on it."""
        self.local_rank, self.n_local = local_rank, n_local
        store, self.rank, self.size = next(rendezvous("env://"))
        self._store = PrefixStore("mtkit", store)
        self._store.set(f"process {self.rank}", f"{socket.gethostname()} {os.getpid()}")
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, store=PrefixStore("group", self._store), rank=self.rank, world_size=self.size)
        self._messages = dist.new_group(backend="gloo", timeout=_NO_LIMIT)

    def close(self) -> None:
        """Leave the group."""
        dist.destroy_process_group()

    @property
    def is_first_here(self) -> bool:
        """Machines may share the run's folder, or have one each."""
        return self.local_rank == 0

    @property
    def threads(self) -> int | None:
        """Share this machine's cores equally."""
        return max(1, usable_cores() // self.n_local)

    def check(self, cfg: TrainConfig) -> None:
        """Raise ConfigError if an update's batches cannot be divided equally."""
        if cfg.accumulate % self.size:
            less, more = cfg.accumulate // self.size * self.size, -(-cfg.accumulate // self.size) * self.size
            raise ConfigError(
                f"train.accumulate={cfg.accumulate}: {self.size} processes divide the batches of an update equally; "
                f"set it to a multiple of {self.size}, such as {less or more}"
            )

    def device(self, device: torch.device) -> torch.device:
        """Return the CPU, or the GPU with this process's number on the machine."""
        if device.type == "cpu":
            return device
        if device.type != "cuda":
            raise MtkitError(f"train.device={device}: several processes train only on CPUs or on CUDA devices")
        if self.n_local > torch.cuda.device_count():
            raise MtkitError(
                f"torchrun started {self.n_local} processes, but this machine has {torch.cuda.device_count()} CUDA "
                "devices: lower --nproc-per-node, or set train.device=cpu"
            )
        torch.cuda.set_device(self.local_rank)
        return torch.device("cuda", self.local_rank)

    def on_main(self, work: Callable[[], _T]) -> _T:
        """Process 0 broadcasts the result."""
        if not self.is_main:
            kind, value = self._broadcast(None)
            if kind == "interrupted":
                raise KeyboardInterrupt
            result: _T = value
            return result
        try:
            result = work()
        except KeyboardInterrupt:
            self._broadcast(("interrupted", None))
            raise
        self._broadcast(("done", result))
        return result

    @contextmanager
    def main_first(self) -> Iterator[None]:
        """There are three turns, and all processes meet between them."""
        turn = 0 if self.is_main else 1 if self.is_first_here else 2
        for _ in range(turn):
            self._meet()
        yield
        for _ in range(2 - turn):
            self._meet()

    def gather(self, values: Sequence[float]) -> list[list[float]]:
        """One collective operation, which takes some tenths of a millisecond on one machine."""
        mine = torch.tensor(values, dtype=torch.float64)
        rows = [torch.empty_like(mine) for _ in range(self.size)]
        with self.loss_explained():
            dist.all_gather(rows, mine)  # within torch's time limit: a process that hangs ends the job
        return [row.tolist() for row in rows]

    def text_of_first(self, text: str, *, is_mine: bool) -> str:
        """Every process sends its text to all."""
        texts: list[Any] = [None] * self.size
        with self.loss_explained():
            dist.all_gather_object(texts, (is_mine, text), group=self._messages)
        chosen: str = next((text for is_so, text in texts if is_so), texts[0][1])
        return chosen

    def report_here(self) -> bool:
        """Whether this process is the first with an error to report; the others stay silent."""
        try:
            return bool(self._store.add(_ERRORS, 1) == 1)
        except RuntimeError:  # the store is gone, and with it every process that could report
            return True

    def _broadcast(self, value: object) -> Any:
        """Return process 0's value in all processes."""
        values = [value]
        with self.loss_explained():
            dist.broadcast_object_list(values, src=0, group=self._messages)
        return values[0]

    def _meet(self) -> None:
        """Wait until all processes have called this, however long it takes."""
        with self.loss_explained():
            dist.barrier(group=self._messages)

    @contextmanager
    def loss_explained(self) -> Iterator[None]:
        """torchrun and the store tell which process died."""
        try:
            yield
        except RuntimeError as error:
            if not _is_lost_connection(error):
                raise
            self._explain_death()

    def _explain_death(self) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun, which saw it too, sends it: report first
        until = time.monotonic() + _DEATH_SHOWS_S
        while not (dead := self._dead()) and not self._is_reported() and time.monotonic() < until:
            time.sleep(_POLL_S)
        if self._is_reported():
            raise SystemExit(1)
        who = " and ".join(f"process {rank} (pid {pid})" for rank, pid in dead)
        who = who or "torchrun, or a process on another machine,"
        raise TrainingError(
            f"{who} of {self.size} died, so all of them stop (killed by a user, or out of memory?); run the same "
            "command again to resume from the newest checkpoint"
        )

    def _is_reported(self) -> bool:
        """Whether a process has reported an error, so that the others can stay silent."""
        with suppress(RuntimeError):  # the store is gone
            return bool(self._store.add(_ERRORS, 0) > 0)
        return False

    def _dead(self) -> list[tuple[int, int]]:
        """Return rank and process id of the processes on this machine that no longer exist."""
        dead = []
        for rank in range(self.size):
            with suppress(RuntimeError):
                host, pid = self._store.get(f"process {rank}").decode().rsplit(" ", 1)
                if host == socket.gethostname() and not _is_alive(int(pid)):
                    dead.append((rank, int(pid)))
        return dead


def _is_lost_connection(error: RuntimeError) -> bool:
    text = str(error).lower()
    return isinstance(error, dist.DistError) or "gloo" in text or "nccl" in text or "connection" in text


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True

"""Several processes that train one model: torch.distributed's groups, DDP or FSDP2, and one clear error if one dies."""

import hashlib
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import PrefixStore  # type: ignore[attr-defined]  # public, but not in __all__
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from mtkit.config.training import TrainConfig
from mtkit.cores import usable_cores
from mtkit.data.batching import Batch
from mtkit.distributed.communicator import Communicator, check_names
from mtkit.errors import ConfigError, MtkitError, TrainingError
from mtkit.model.network import Network
from mtkit.tokens.special_ids import BOS_ID, EOS_ID, PAD_ID

if TYPE_CHECKING:
    from mtkit.distributed.communicator import BatchLoss
    from mtkit.distributed.sharding import Sharding

_T = TypeVar("_T")
_Part = tuple[Batch, tuple[int, ...]]
_NO_LIMIT = timedelta(days=365)  # process 0 may work for hours while the others wait
_POLL_S = 0.02
_DEATH_SHOWS_S = 5.0  # after a connection breaks, the system may list the dead process for this long
_BYTES_PER_WEIGHT = 16  # float32: the weight, its gradient and Adam's two means
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
        self._sharding: Sharding | None = None
        self._ddp: DistributedDataParallel | None = None
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
        """Return the GPU with this process's number on the machine, or the CPU."""
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
        with self._loss_explained():
            dist.all_gather(rows, mine)  # within torch's time limit: a process that hangs ends the job
        return [row.tolist() for row in rows]

    def text_of_first(self, text: str, *, is_mine: bool) -> str:
        """Every process sends its text to all."""
        texts: list[Any] = [None] * self.size
        with self._loss_explained():
            dist.all_gather_object(texts, (is_mine, text), group=self._messages)
        chosen: str = next((text for is_so, text in texts if is_so), texts[0][1])
        return chosen

    def parallel(self, model: Network, loss: "BatchLoss", cfg: TrainConfig) -> "BatchLoss":
        """Use DDP, or FSDP2 if the model is larger than train.shard_above_gib."""
        module = _LossModule(model, loss)
        if must_shard(model, cfg):
            from mtkit.distributed.sharding import Sharding  # loads FSDP2, which takes a second

            self._sharding = Sharding(module, model, self.size, cfg)
            return module
        self._ddp = DistributedDataParallel(module, gradient_as_bucket_view=True)
        # The buffers are position tables that each process grows to its own longest sentence. DDP would broadcast those
        # of process 0 before each pass, in the wrong size. (The constructor's argument for this raises a warning.)
        self._ddp.broadcast_buffers = False
        return self._ddp

    @contextmanager
    def summing(self, *, last: bool) -> Iterator[None]:
        """DDP and FSDP2 sum gradients during the last backward pass."""
        if self._sharding:
            self._sharding.sum_gradients(last)
        accumulating: AbstractContextManager[None] = nullcontext()
        if self._ddp and not last:
            accumulating = self._ddp.no_sync()
        with self._loss_explained(), accumulating:
            yield

    def filled_up(self, parts: list[_Part]) -> list[_Part]:
        """All processes must take part: FSDP2 gathers weights in each pass, DDP sums gradients in the last."""
        n_parts = max(int(n) for [n] in self.gather([len(parts)]))
        return [*parts, *[(empty_batch(), ())] * (n_parts - len(parts))]

    def own_rows(self, tensor: Tensor, rows: slice) -> Tensor:
        """With FSDP2 each process holds a part of the rows."""
        return self._sharding.own_rows(tensor, rows) if self._sharding else super().own_rows(tensor, rows)

    def whole_norm(self, norm: Tensor) -> Tensor:
        """With FSDP2 each process knows a part of the norm."""
        return self._sharding.whole_norm(norm) if self._sharding else norm

    def whole(self, model: Network) -> Network:
        """With FSDP2, gather the parts of all processes."""
        return self._sharding.whole(model) if self._sharding else model

    def weights(self, model: Network) -> dict[str, Tensor]:
        """With FSDP2, gather the parts of all processes."""
        return self._sharding.weights(model) if self._sharding else super().weights(model)

    def optimizer_state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """With FSDP2, gather the parts of all processes."""
        if self._sharding:
            return self._sharding.optimizer_state(optimizer, here=self.is_main)
        return super().optimizer_state(optimizer)

    def load_weights(self, model: Network, weights: Mapping[str, Tensor]) -> None:
        """With FSDP2, process 0 sends each process its parts."""
        if self._sharding:
            if self.is_main:
                check_names(model, weights)
            self._sharding.load_weights(model, weights)
        else:
            super().load_weights(model, weights)

    def load_optimizer_state(self, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
        """With FSDP2, keep this process's parts."""
        if self._sharding:
            state = self._sharding.own_optimizer_state(optimizer, state)
        super().load_optimizer_state(optimizer, state)

    def check_equal(self, model: Network, step: int) -> None:
        """Compare checksums; with FSDP2 there is nothing to compare."""
        if self._sharding:
            return
        digest = hashlib.sha256()
        for parameter in model.parameters():
            digest.update(parameter.detach().cpu().numpy().tobytes())
        checksum = int.from_bytes(digest.digest()[:6])  # a float64 holds 48 bits exactly
        [first], *others = self.gather([checksum])
        different = [str(rank) for rank, [other] in enumerate(others, start=1) if other != first]
        if different:
            raise TrainingError(
                f"step {step}: the weights of process {', '.join(different)} differ from those of process 0, so this "
                "step is not saved; run the same command again to resume from the newest checkpoint. If it happens "
                "again, look for faulty memory or for processes on different hardware"
            )

    def report_here(self) -> bool:
        """Whether this process is the first with an error to report; the others stay silent."""
        try:
            return bool(self._store.add(_ERRORS, 1) == 1)
        except RuntimeError:  # the store is gone, and with it every process that could report
            return True

    def _broadcast(self, value: object) -> Any:
        """Return process 0's value in all processes."""
        values = [value]
        with self._loss_explained():
            dist.broadcast_object_list(values, src=0, group=self._messages)
        return values[0]

    def _meet(self) -> None:
        """Wait until all processes have called this, however long it takes."""
        with self._loss_explained():
            dist.barrier(group=self._messages)

    @contextmanager
    def _loss_explained(self) -> Iterator[None]:
        """Turn the error of a broken connection into one that names the process that died."""
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


class _LossModule(nn.Module):
    """The loss of a batch as a module, because DDP and FSDP2 act in a module's forward pass."""

    def __init__(self, model: Network, loss: "BatchLoss") -> None:
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, *args: Any) -> tuple[Tensor, Tensor]:
        """Return loss(model, ...)."""
        return self.loss(self.model, *args)


def must_shard(model: Network, cfg: TrainConfig) -> bool:
    """Whether training the model needs more memory than train.shard_above_gib."""
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

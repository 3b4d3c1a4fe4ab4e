"""Several processes that train one model: torch.distributed's groups, DDP, and an end that all of them come to."""

import hashlib
import json
import os
import pickle
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from logging import ERROR
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import PrefixStore  # type: ignore[attr-defined]  # public all the same
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from mtkit.config.schema import TrainConfig
from mtkit.console import log
from mtkit.cores import usable_cores
from mtkit.data.batching import Batch
from mtkit.data.special_ids import BOS_ID, EOS_ID, PAD_ID
from mtkit.distributed.processes import Processes
from mtkit.distributed.sharding import Sharding, must_shard
from mtkit.errors import ConfigError, MtkitError, TrainingError
from mtkit.model.transformer import Transformer
from mtkit.training.checkpoint import Checkpoint

if TYPE_CHECKING:
    from mtkit.distributed.processes import BatchLoss
    from mtkit.training.update import Updater

_T = TypeVar("_T")
_Part = tuple[Batch, tuple[int, ...]]
_POLL_S = 0.02
_PIECE = 1 << 22  # bytes
_DEATH_SHOWS_S = 5.0  # how long after a connection has broken the system may still show its process
_ERRORS = "errors"  # how many processes have something to report


class ProcessGroup(Processes):
    """This process among the several that torchrun started.

    What takes long is awaited at the store, which torchrun keeps, without a limit; what is quick goes through
    collective operations on the CPU (gloo), and gradients through those of their device (NCCL on GPUs).
    """

    def __init__(self) -> None:
        self.local_rank, self.n_local = (_number_of_torchrun(name) for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
        self._store, self.rank, self.size = next(rendezvous("env://"))
        self._store = PrefixStore("mtkit", self._store)
        self._n_waits = 0
        self._sharding: Sharding | None = None
        self._ddp: DistributedDataParallel | None = None
        self._store.set(f"process {self.rank}", f"{socket.gethostname()} {os.getpid()}")
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, store=PrefixStore("group", self._store), rank=self.rank, world_size=self.size)

    @property
    def threads(self) -> int | None:
        """An equal part of this machine's cores."""
        return max(1, usable_cores() // self.n_local)

    def check(self, cfg: TrainConfig) -> None:
        """An update's batches have to be shared out evenly."""
        if cfg.accumulate % self.size:
            less, more = cfg.accumulate // self.size * self.size, -(-cfg.accumulate // self.size) * self.size
            raise ConfigError(
                f"train.accumulate={cfg.accumulate}: an update's batches are shared out evenly among the {self.size} "
                f"processes; set it to a multiple of {self.size}, such as {less or more}"
            )

    def device(self, device: torch.device) -> torch.device:
        """On a machine with several GPUs the one with the number of this process."""
        if device.type == "cpu":
            return device
        if device.type != "cuda":
            raise MtkitError(f"train.device={device}: several processes train on CPUs or on CUDA devices only")
        if self.n_local > torch.cuda.device_count():
            raise MtkitError(
                f"torchrun started {self.n_local} processes, this machine has {torch.cuda.device_count()} CUDA "
                "devices: lower --nproc-per-node, or set train.device=cpu"
            )
        torch.cuda.set_device(self.local_rank)
        return torch.device("cuda", self.local_rank)

    def on_main(self, work: Callable[[], _T]) -> _T:
        """The others ask the store for the result again and again: no collective operation could run out of time."""
        if not self.is_main:
            key = self._next_key()
            pieces = [self._read(f"{key}.{number}") for number in range(int(self._read(key)))]
            kind, value = pickle.loads(b"".join(pieces))  # written by process 0 of this very job
            if kind == "interrupted":
                raise KeyboardInterrupt
            return cast(_T, value)
        key = self._next_key()
        try:
            result = work()
        except KeyboardInterrupt:
            self._tell(key, ("interrupted", None))
            raise
        self._tell(key, ("done", result))
        return result

    def _tell(self, key: str, value: object) -> None:
        """To all that read the key: in pieces, as the store refuses values above 8 MiB, and then their number."""
        data = pickle.dumps(value)
        starts = range(0, len(data), _PIECE)
        for number, start in enumerate(starts):
            self._store.set(f"{key}.{number}", data[start : start + _PIECE])
        self._store.set(key, str(len(starts)))

    @contextmanager
    def main_first(self) -> Iterator[None]:
        """The others wait as in `on_main`."""
        if not self.is_main:
            self.on_main(lambda: None)
        yield
        if self.is_main:
            self.on_main(lambda: None)

    def gather(self, values: Sequence[float]) -> list[list[float]]:
        """By a collective operation on the CPU: some tenths of a millisecond on one machine."""
        mine = torch.tensor(values, dtype=torch.float64)
        all_of_them = [torch.empty_like(mine) for _ in range(self.size)]
        with self._loss_explained():
            dist.all_gather(all_of_them, mine)
        return [row.tolist() for row in all_of_them]

    def text_of_first(self, text: str, *, is_mine: bool) -> str:
        """Through the store, since texts differ in length."""
        owners = [rank for rank, [is_so] in enumerate(self.gather([is_mine])) if is_so]
        key = self._next_key()
        if self.rank == (owners or [0])[0]:
            self._store.set(key, text)
            return text
        return self._read(key).decode("utf-8")

    def parallel(self, model: Transformer, loss: "BatchLoss", cfg: TrainConfig) -> "BatchLoss":
        """By DDP, or by FSDP2 if the model is larger than train.shard_above_gib."""
        module = _LossModule(model, loss)
        if must_shard(model, cfg):
            self._sharding = Sharding(module, model, self.size, cfg)
            return module
        self._ddp = DistributedDataParallel(module, gradient_as_bucket_view=True)
        # Buffers are tables of positions, which each process makes itself and lets grow with its longest sentence: sent
        # from process 0 before each pass, they would not fit. (The constructor's argument has a warning.)
        self._ddp.broadcast_buffers = False
        return self._ddp

    @contextmanager
    def summing(self, *, last: bool) -> Iterator[None]:
        """DDP and FSDP2 sum while the last backward pass goes on."""
        if self._sharding:
            self._sharding.sum_gradients(last)
        accumulating: AbstractContextManager[None] = nullcontext()
        if self._ddp and not last:
            accumulating = self._ddp.no_sync()
        with self._loss_explained(), accumulating:
            yield

    def filled_up(self, parts: list[_Part]) -> list[_Part]:
        """FSDP2 gathers weights in each pass, DDP sums in the last one: all processes have to take part."""
        n_parts = max(int(n) for [n] in self.gather([len(parts)]))
        return [*parts, *[(empty_batch(), ())] * (n_parts - len(parts))]

    def whole_norm(self, norm: Tensor) -> Tensor:
        """With FSDP2 each process knows a part of it."""
        return self._sharding.whole_norm(norm) if self._sharding else norm

    def whole(self, model: Transformer) -> Transformer:
        """With FSDP2 put together from all processes' parts."""
        return self._sharding.whole(model, here=self.is_main) if self._sharding else model

    def whole_optimizer(self, optimizer: torch.optim.Optimizer) -> Any:
        """With FSDP2 put together from all processes' parts."""
        return self._sharding.whole_optimizer(optimizer, here=self.is_main) if self._sharding else optimizer

    def restore(self, checkpoint: Checkpoint, updater: "Updater") -> None:
        """Each process reads the files, which are those of one process."""
        if self._sharding:
            self._sharding.restore(checkpoint, updater)
        else:
            super().restore(checkpoint, updater)

    def check_equal(self, model: Transformer, step: int) -> None:
        """By a checksum; with FSDP2 there is nothing to compare."""
        if self._sharding:
            return
        digest = hashlib.sha256()
        for parameter in model.parameters():
            digest.update(parameter.detach().cpu().numpy().tobytes())
        number = int.from_bytes(digest.digest()[:6])  # a float64 holds it exactly
        [first], *others = self.gather([number])
        different = [str(rank) for rank, [other] in enumerate(others, start=1) if other != first]
        if different:
            raise TrainingError(
                f"step {step}: the weights of process {', '.join(different)} are no longer those of process 0, so that "
                "this step is not saved; run the same command again: it goes on from the newest checkpoint. If it "
                "happens again, look for faulty memory, or for processes on unlike hardware"
            )

    def report_here(self) -> bool:
        """Whether this process is the first that has an error to report; the others stay silent."""
        try:
            return bool(self._store.add(_ERRORS, 1) == 1)
        except RuntimeError:  # the store is gone, and with it those who would report
            return True

    def _next_key(self) -> str:
        self._n_waits += 1
        return f"wait {self._n_waits}"

    def _read(self, key: str) -> bytes:
        """What another process sets under the key, however long that takes; ends this one if the other has failed."""
        with self._loss_explained():
            while not self._store.check([key]):
                if self._is_reported():
                    raise SystemExit(1)
                if self._dead() and not self._store.check([key]):
                    self._explain_death()
                time.sleep(_POLL_S)
            value: bytes = self._store.get(key)
            if self._store.add(f"{key}, read", 1) == self.size - 1:  # by all: values of a long run must not pile up
                self._store.delete_key(key)
                self._store.delete_key(f"{key}, read")
        return value

    @contextmanager
    def _loss_explained(self) -> Iterator[None]:
        """Turn the errors of a connection that has broken into one that names the process that has died."""
        try:
            yield
        except RuntimeError as error:
            if not _is_lost_connection(error):
                raise
            self._explain_death()

    def _explain_death(self) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun's, which has seen it too: first we report
        until = time.monotonic() + _DEATH_SHOWS_S
        while not (dead := self._dead()) and not self._is_reported() and time.monotonic() < until:
            time.sleep(_POLL_S)
        if self._is_reported():
            raise SystemExit(1)
        who = " and ".join(f"process {rank} (pid {pid})" for rank, pid in dead)
        who = who or "torchrun, or a process on another machine,"
        raise TrainingError(
            f"{who} of the {self.size} that train together has died, and so all end (was it killed by hand, or by the "
            "system for want of memory?); run the same command again: it goes on from the newest checkpoint"
        )

    def _is_reported(self) -> bool:
        """Whether a process has said what went wrong, so that nobody else need."""
        with suppress(RuntimeError):  # the store is gone
            return bool(self._store.add(_ERRORS, 0) > 0)
        return False

    def _dead(self) -> list[tuple[int, int]]:
        """Rank and process id of those on this machine that are no longer there."""
        dead = []
        for rank in range(self.size):
            with suppress(RuntimeError):
                host, pid = self._store.get(f"process {rank}").decode().rsplit(" ", 1)
                if host == socket.gethostname() and not _is_alive(int(pid)):
                    dead.append((rank, int(pid)))
        return dead


class _LossModule(nn.Module):
    """The loss of a batch as a module, since DDP and FSDP2 work in a module's forward pass."""

    def __init__(self, model: Transformer, loss: "BatchLoss") -> None:
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, *args: Any) -> tuple[Tensor, Tensor]:
        """What loss(model, ...) returns."""
        return self.loss(self.model, *args)


@contextmanager
def joined() -> Iterator[ProcessGroup]:
    """Take part in the job that torchrun started, for a block; see `processes_of_job`."""
    if _number_of_torchrun("RANK"):
        log.setLevel(ERROR)
    processes = ProcessGroup()
    signal.signal(signal.SIGTERM, _leave)
    try:
        yield processes
    except KeyboardInterrupt:
        if processes.is_main:
            raise
        raise SystemExit(130) from None
    except Exception as error:
        if not processes.report_here():
            raise SystemExit(1) from None
        _tell_torchrun(error)
        raise
    finally:
        if sys.exc_info()[0] is None:  # else there may be nobody left to take leave of
            dist.destroy_process_group()


def _tell_torchrun(error: Exception) -> None:
    """Leave the message where torchrun looks for it: its own long report comes after ours, and is to end with that."""
    if path := os.environ.get("TORCHELASTIC_ERROR_FILE"):
        with suppress(OSError):
            Path(path).write_text(json.dumps({"message": str(error), "timestamp": int(time.time())}), encoding="utf-8")


def _number_of_torchrun(name: str) -> int:
    try:
        return int(os.environ[name])
    except KeyError:
        raise MtkitError(
            f"WORLD_SIZE={os.environ['WORLD_SIZE']} is set in the environment, but not {name}: start several processes "
            "with torchrun, or unset WORLD_SIZE to train with one"
        ) from None


def _leave(signal_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + signal_number)


def empty_batch() -> Batch:
    """A batch with nothing to predict: its loss and its gradients are zero."""
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

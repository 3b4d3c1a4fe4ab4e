"""Make shards on a Ray cluster, or with a local Ray on this machine."""

import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from mtkit.errors import MtkitError
from mtkit.jobs.executors import MAX_DEATHS
from mtkit.jobs.shards import MakeShard

_OBJECT_STORE_BYTES = 100_000_000  # shards pass through the work folder: Ray carries little more than their numbers
_POLL_S = 5.0  # how often to look whether machines have joined


class OnRay:
    """Makes shards as tasks of Ray, on all machines that are currently in the cluster.

    A task that keeps something, such as a model, from one shard to the next (`keeps_state` is True) runs in actors.
    """

    makes_here = False

    def __init__(self, address: str | None, n_workers: int) -> None:
        """Use the cluster at an address, such as 10.0.0.1:6379, or start a Ray with this many workers here."""
        self._address = address
        self._n_workers = n_workers
        self._ray: Any = None
        self._stdout = ExitStack()

    def __enter__(self) -> "OnRay":
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # Ray would report to its makers
        if self._address is None:
            os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # on Linux, too, this makes it stay on 127.0.0.1
        try:
            import ray
        except ImportError:
            raise MtkitError("--executor ray needs the package ray: pip install 'mtkit[ray]'") from None
        self._stdout.enter_context(_stdout_to_stderr())
        try:
            self._start(ray)
        except BaseException:
            self._stdout.close()
            raise
        self._ray = ray
        return self

    def __exit__(self, *_: object) -> None:
        with self._stdout:
            self._ray.shutdown()

    def _start(self, ray: Any) -> None:
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if self._address is None:
            store = {"object_store_memory": _OBJECT_STORE_BYTES}
            ray.init("local", num_cpus=self._n_workers, include_dashboard=False, **store, **quiet)
            return
        try:
            _check_reachable(self._address)
            ray.init(self._address, **quiet)
        except (OSError, ValueError, RuntimeError) as error:
            raise MtkitError(
                f"--ray-address {self._address}: no Ray cluster answers ({error}); start one with: ray start --head "
                "--port 6379, and give HOST:6379"
            ) from None

    def run(self, make: MakeShard, indices: Sequence[int], describe: Callable[[int], str]) -> Iterator[int]:
        """See `Executor`."""
        keeps_state = getattr(make.task, "keeps_state", False)
        makers = _Actors(self._ray, make) if keeps_state else _Tasks(self._ray, make)
        to_do = list(reversed(indices))
        pending: dict[Any, int] = {}
        while to_do or pending:
            while to_do and makers.has_room(len(pending)):
                index = to_do.pop()
                pending[makers.start(index)] = index
            ready, _ = self._ray.wait(list(pending), timeout=_POLL_S)
            for reference in ready:
                index = pending.pop(reference)
                self._check(reference, describe(index))
                makers.ended(reference)
                yield index

    def threads(self, n_cores: int) -> int:
        """See `Executor`; each worker of Ray has one core."""
        return 1

    def _check(self, reference: Any, shard: str) -> None:
        """Raise the error of a shard that failed."""
        errors = self._ray.exceptions
        try:
            self._ray.get(reference)
        except errors.RayTaskError as error:
            raise error.cause from error
        except (
            errors.WorkerCrashedError,
            errors.ActorDiedError,
            errors.OutOfMemoryError,
            errors.NodeDiedError,
        ) as error:
            first_line = str(error).partition("\n")[0]
            raise MtkitError(
                f"{shard}: the process that worked on it ended {MAX_DEATHS} times ({first_line})"
            ) from None


def _check_reachable(address: str) -> None:
    """Raise OSError or ValueError if nothing listens at HOST:PORT; Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    socket.create_connection((host, int(port)), timeout=_POLL_S).close()


class _Tasks:
    """Shards as tasks, each of one core."""

    def __init__(self, ray: Any, make: MakeShard) -> None:
        self._ray = ray
        self._make = ray.put(make)
        self._task = ray.remote(num_cpus=1, max_retries=MAX_DEATHS - 1)(_make_shard)

    def has_room(self, n_pending: int) -> bool:
        """Return whether to submit another shard, so that no core waits for this process."""
        return bool(n_pending < 2 * self._ray.cluster_resources().get("CPU", 1) + 1)

    def start(self, index: int) -> Any:
        return self._task.remote(self._make, index, Path.cwd())

    def ended(self, reference: Any) -> None:
        pass


class _Actors:
    """Shards in actors, each of one core, or of one GPU if the cluster has any; as many as fit."""

    def __init__(self, ray: Any, make: MakeShard) -> None:
        self._ray = ray
        self._make = make  # not put: Ray could not restart an actor whose argument was on a machine that left
        self._resource = "GPU" if ray.cluster_resources().get("GPU") else "CPU"
        self._class = ray.remote(
            num_cpus=1, num_gpus=int(self._resource == "GPU"), max_restarts=-1, max_task_retries=MAX_DEATHS - 1
        )(_ShardMaker)
        self._idle: list[Any] = []
        self._busy: dict[Any, Any] = {}  # by the reference that it works on

    def has_room(self, n_pending: int) -> bool:
        """Return whether an actor is idle, or another fits."""
        return bool(self._idle) or n_pending < self._ray.cluster_resources().get(self._resource, 1)

    def start(self, index: int) -> Any:
        actor = self._idle.pop() if self._idle else self._class.remote(self._make, Path.cwd())
        reference = actor.make.remote(index)
        self._busy[reference] = actor
        return reference

    def ended(self, reference: Any) -> None:
        self._idle.append(self._busy.pop(reference))


def _make_shard(make: MakeShard, index: int, folder: Path) -> None:
    _go_to(folder)
    make(index)


def _go_to(folder: Path) -> None:
    """Resolve paths like the process that started the job: relative to its folder, if this machine has it."""
    with suppress(OSError):
        os.chdir(folder)


class _ShardMaker:
    """An actor: makes shards in one process, which keeps the task's state."""

    def __init__(self, make: MakeShard, folder: Path) -> None:
        _go_to(folder)
        self._make = make

    def make(self, index: int) -> None:
        self._make(index)


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Send what Ray prints to stdout in the block, also from C++, to stderr: stdout is for results."""
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(stdout, 1)
        os.close(stdout)

"""Options of the commands whose work processes and machines can share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mtkit.cores import usable_cores
from mtkit.errors import UsageError

if TYPE_CHECKING:
    from mtkit.jobs.executors import Executor
    from mtkit.jobs.job import Share
    from mtkit.jobs.line_job import Sharing

SHARING = "One machine or many"  # heading of these options

WorkersOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        rich_help_panel=SHARING,
        help="Processes on this machine, each with one thread. Default: one for each core.",
    ),
]
ModelWorkersOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        rich_help_panel=SHARING,
        help="Processes on this machine's processor, each with its own model. Default: decode.workers of the model's "
        "config (1).",
    ),
]
ShardOption = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="I/N",
        rich_help_panel=SHARING,
        help="Do share I of N, counted from 0; start the others elsewhere, with the same arguments and folder.",
    ),
]
ExecutorOption = Annotated[
    Literal["local", "ray"],
    typer.Option(rich_help_panel=SHARING, help="Where to work: processes of this machine, or a Ray cluster."),
]
RayAddressOption = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        rich_help_panel=SHARING,
        help="With --executor ray: the cluster to use. Default: a Ray of this machine's cores.",
    ),
]
RestartOption = Annotated[
    bool,
    typer.Option("--restart", rich_help_panel=SHARING, help="Discard the work of an interrupted job, and start over."),
]


_MOST_PER_CORE = 4  # processes; more only take memory


@dataclass(frozen=True)
class Where:
    """Where models work on the lines of a file: what the options say."""

    workers: int | None = None
    shard: str | None = None
    executor: Literal["local", "ray"] = "local"
    ray_address: str | None = None

    @property
    def is_shared(self) -> bool:
        """Whether other processes take part that this one does not start, or Ray starts."""
        return self.shard is not None or self.executor == "ray" or self.ray_address is not None

    def sharing(self, default_workers: int) -> Sharing:
        """Return who works. default_workers: processes on this machine without --workers.

        Raises UsageError if the options contradict each other.
        """
        from mtkit.jobs.line_job import Sharing

        workers = self.workers
        if workers is None and self.executor == "local":  # a model from elsewhere may ask for any number
            workers = min(default_workers, _MOST_PER_CORE * usable_cores())
        return Sharing(executor_of(self.executor, workers, self.shard, self.ray_address), share_of(self.shard))


def share_of(shard: str | None) -> Share:
    """Read --shard."""
    from mtkit.jobs.job import Share

    return Share() if shard is None else Share.parse(shard)


def executor_of(
    executor: Literal["local", "ray"], workers: int | None, shard: str | None, ray_address: str | None
) -> Executor:
    """Return what these options describe. Raises UsageError if they contradict each other."""
    from mtkit.jobs.executors import on_this_machine

    if executor == "ray":
        from mtkit.jobs.on_ray import OnRay

        if shard is not None:
            raise UsageError("--shard and --executor ray are two ways to share work; give one of them")
        if ray_address is not None and workers is not None:
            raise UsageError("--workers is for this machine; with --ray-address, the cluster decides")
        return OnRay(ray_address, workers or usable_cores())
    if ray_address is not None:
        raise UsageError("--ray-address needs --executor ray")
    return on_this_machine(workers or usable_cores())

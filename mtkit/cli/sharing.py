"""Options of the commands whose work processes and machines can share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mtkit.errors import UsageError

if TYPE_CHECKING:
    from mtkit.jobs.executors import Executor
    from mtkit.jobs.job import Share

SHARING = "One machine or many"  # heading of these options

WorkersOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        rich_help_panel=SHARING,
        help="Processes on this machine, each with one thread. Default: one for each core.",
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


def share_of(shard: str | None) -> Share:
    """Read --shard."""
    from mtkit.jobs.job import Share

    return Share() if shard is None else Share.parse(shard)


def executor_of(
    executor: Literal["local", "ray"], workers: int | None, shard: str | None, ray_address: str | None
) -> Executor:
    """Return what these options describe. Raises UsageError if they contradict each other."""
    from mtkit.cores import usable_cores
    from mtkit.jobs.executors import InProcess, Processes

    if executor == "ray":
        from mtkit.jobs.on_ray import OnRay

        if shard is not None:
            raise UsageError("--shard and --executor ray are two ways to share work; give one of them")
        if ray_address is not None and workers is not None:
            raise UsageError("--workers is for this machine; with --ray-address, the cluster decides")
        return OnRay(ray_address, workers or usable_cores())
    if ray_address is not None:
        raise UsageError("--ray-address needs --executor ray")
    n_workers = workers or usable_cores()
    return InProcess() if n_workers == 1 else Processes(n_workers)

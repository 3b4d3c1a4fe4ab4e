"""Options of the commands that can share their work among processes and machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mtkit.cores import usable_cores
from mtkit.errors import UsageError

if TYPE_CHECKING:
    from mtkit.jobs.executors import Executor

SHARING = "One machine or many"  # heading of these options


def workers_option(help: str) -> Any:
    """Return an option for a number of processes."""
    return typer.Option(min=1, rich_help_panel=SHARING, help=help)


WorkersOption = Annotated[
    int | None,
    workers_option("Number of processes on this machine, each with one thread. Default: one for each core."),
]
ModelWorkersOption = Annotated[
    int | None,
    workers_option(
        "Number of processes on this machine's processor, each with its own model. Default: decode.workers of the "
        "model's config (1)."
    ),
]
ExecutorOption = Annotated[
    Literal["local", "ray"],
    typer.Option(rich_help_panel=SHARING, help="Where to run: in processes of this machine, or on a Ray cluster."),
]
RayAddressOption = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        rich_help_panel=SHARING,
        help="With --executor ray: address of the cluster. Default: a local Ray with this machine's cores.",
    ),
]
RestartOption = Annotated[
    bool,
    typer.Option("--restart", rich_help_panel=SHARING, help="Discard the work of an interrupted job, and start over."),
]


_MOST_PER_CORE = 4  # processes; more only take memory


@dataclass(frozen=True)
class Where:
    """The options that control where the work runs."""

    workers: int | None = None
    executor: Literal["local", "ray"] = "local"
    ray_address: str | None = None

    @property
    def on_ray(self) -> bool:
        """Return whether the options ask for Ray."""
        return self.executor == "ray" or self.ray_address is not None

    def executor_for(self, default_workers: int) -> Executor:
        """Return the settings that these options describe. default_workers: number of processes without --workers.

        Raises UsageError if the options contradict each other.
        """
        from mtkit.jobs.executors import on_this_machine

        if self.executor == "ray":
            from mtkit.jobs.on_ray import OnRay

            if self.ray_address is not None and self.workers is not None:
                raise UsageError(
                    "--workers applies to this machine; with --ray-address the cluster decides, so leave it out"
                )
            return OnRay(self.ray_address, self.workers or usable_cores())
        if self.ray_address is not None:
            raise UsageError("--ray-address needs --executor ray")
        # a model from elsewhere may ask for any number
        return on_this_machine(self.workers or min(default_workers, _MOST_PER_CORE * usable_cores()))

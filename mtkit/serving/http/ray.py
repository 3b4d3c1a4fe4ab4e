"""Run the service on several machines, as replicas of the same application under Ray Serve.

    serve run mtkit.serving.http.ray:application config=/srv/mtkit/serve.yaml replicas=2

Each replica has its own workers, and reads the models from the same place on its machine. Requests have no state but
what files keep: the keys and, on one machine, the glossaries, memories and corrections. Documents are the exception: a
replica knows only those that it took, so translate them by a service of their own.
"""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from ray import serve

from mtkit.config.reading.loading import load_serve_config
from mtkit.serving.backend import Backend
from mtkit.serving.http.app import create_app

_HEALTH_EVERY_S = 2.0  # a replica that died is missed after this time


def application(arguments: Mapping[str, str]) -> Any:
    """Return the deployment for `serve run`.

    arguments: config, the path of a YAML file with the service's settings, on each machine; replicas, how many, 1 by
    default. Ray reserves `workers` cores for each replica, 1 by default. Ray's own options set the address.
    Raises ConfigError for wrong settings.
    """
    path = arguments["config"]
    cfg = load_serve_config(path)
    n_workers = cfg.workers or 1

    def build() -> FastAPI:
        return create_app(Backend.from_config(load_serve_config(path, [f"workers={n_workers}"])))

    deployment = serve.deployment(
        name="mtkit",
        num_replicas=int(arguments.get("replicas", 1)),
        ray_actor_options={"num_cpus": n_workers},
        max_ongoing_requests=2 * cfg.queue.max_sentences,  # beyond its queue a replica answers 503 by itself
        graceful_shutdown_timeout_s=cfg.limits.deadline_s,
        health_check_period_s=_HEALTH_EVERY_S,
    )
    return deployment(serve.ingress(build)(_Replica)).bind()


class _Replica:
    """One replica of the service, to which Ray attaches the application."""

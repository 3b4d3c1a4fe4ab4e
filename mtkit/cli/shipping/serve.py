"""`mtkit serve`: serve translations to programs, and to people in a browser."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from mtkit.errors import MtkitError


def serve(
    models: Annotated[
        list[Path] | None,
        typer.Option(
            "--model", metavar="FOLDER", help="Run or bundle; repeat for several. Default: the newest run in ./runs."
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="YAML file with the service's settings.")
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on. Default: 127.0.0.1, this machine only.")
    ] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port to listen on. Default: 5000.")] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change one key of the settings; repeat for several."),
    ] = None,
) -> None:
    """Serve translations over HTTP, with the APIs of LibreTranslate and DeepL and a page for people.

    After SIGTERM or Ctrl-C, the service finishes the requests that it has accepted. SIGHUP makes it look for new
    versions of the models.
    """
    # To be stopped is not a failure. uvicorn raises the signal again at its end, after it has served.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())

    from mtkit.config.reading import loading
    from mtkit.config.reading import overrides as config_overrides

    given = {"models": None if models is None else [str(path) for path in models], "host": host, "port": port}
    settings = [
        *(overrides or []),
        *(config_overrides.setting(key, value) for key, value in given.items() if value is not None),
    ]
    try:
        from mtkit.serving.http import run
    except ModuleNotFoundError as error:
        raise MtkitError(f"`mtkit serve` needs the package {error.name}: pip install 'mtkit[serve]'") from None
    run.serve(loading.load_serve_config(config, settings))

"""The web application: routes of all dialects, errors as JSON, start and end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from mtkit.serving import libretranslate, own, page
from mtkit.serving.backend import Backend
from mtkit.serving.leaving import ClientLeft
from mtkit.serving.overload import RefuseWhenFull
from mtkit.serving.refusals import Refusal
from mtkit.version import __version__

_ERROR_KEYS = dict.fromkeys(["/translate", "/api/translate", "/api/stream"], "error")  # of paths that translate at once
_CLIENT_CLOSED = 499  # as nginx calls it; nobody receives it


def create_app(backend: Backend) -> FastAPI:
    """Return the application; its workers start and end with it."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await backend.service.start()
        yield
        await backend.documents.close()
        await backend.service.close()
        if backend.glossaries is not None:
            backend.glossaries.close()
        if backend.corrections is not None:
            backend.corrections.close()

    app = FastAPI(title="mtkit", version=__version__, lifespan=lifespan, openapi_url="/spec")
    app.include_router(libretranslate.router(backend))
    app.include_router(own.router(backend))
    if backend.cfg.page:
        app.include_router(page.router())
    app.add_middleware(RefuseWhenFull, batcher=backend.service.batcher, error_keys=_ERROR_KEYS)

    @app.exception_handler(Refusal)
    async def refused(request: Request, refusal: Refusal) -> JSONResponse:
        headers = None if refusal.retry_after_s is None else {"Retry-After": str(refusal.retry_after_s)}
        return JSONResponse({"error": str(refusal)}, refusal.status, headers)

    @app.exception_handler(ClientLeft)
    async def left(request: Request, error: ClientLeft) -> Response:
        return Response(status_code=_CLIENT_CLOSED)

    return app

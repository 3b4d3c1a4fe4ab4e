"""The web application: the routes of all dialects, errors as JSON, startup and shutdown."""

import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from mtkit.console import log
from mtkit.serving.backend import Backend
from mtkit.serving.dialects import deepl, deepl_glossaries, deepl_memories, libretranslate, openapi, own
from mtkit.serving.dialects.errors import error_answer, invalid_answer, refusal_answer, route_path
from mtkit.serving.dialects.leaving import ClientLeft
from mtkit.serving.dialects.values import advice_on, place_of
from mtkit.serving.http import page
from mtkit.serving.http.arrival import Arrival
from mtkit.serving.http.metrics import CONTENT_TYPE, Metrics
from mtkit.serving.http.middleware import Door, as_routed
from mtkit.serving.http.overload import RefuseWhenFull
from mtkit.serving.refusals import Busy, Refusal
from mtkit.version import __version__

_TRANSLATING = "/translate", "/api/translate", "/api/stream", "/v2/translate"  # paths that translate at once
_FULL_DISK = errno.ENOSPC, errno.EDQUOT, errno.EFBIG
_CLIENT_CLOSED = 499  # nginx's name for it; no client receives it
# beginnings of paths that take documents, or the entries of a glossary or a memory, which may be as long
_FILE_PATHS = (
    *("/translate_file", "/v2/document", "/api/document"),
    *("/v2/glossaries", "/v3/glossaries", "/v3/translation_memories/uploads"),
)
_METHODS = "DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"
_PREFLIGHT_S = 3600  # that a browser may remember what a page of another origin may do


def create_app(backend: Backend) -> FastAPI:
    """Build the application, which starts its workers when it starts and ends them when it ends."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await backend.service.start()
        yield
        await backend.documents.close()
        await backend.service.close()
        if backend.glossaries is not None:
            backend.glossaries.close()
        if backend.memories is not None:
            await backend.memories.close()
        if backend.corrections is not None:
            backend.corrections.close()

    app = FastAPI(
        title="mtkit",
        version=__version__,
        lifespan=lifespan,
        openapi_url="/spec",
        docs_url=None,  # these pages load their scripts from elsewhere
        redoc_url=None,
    )
    app.include_router(libretranslate.router(backend))
    app.include_router(deepl.router(backend))
    app.include_router(deepl_glossaries.router(backend))
    app.include_router(deepl_memories.router(backend))
    app.include_router(own.router(backend))
    if backend.cfg.page:
        app.include_router(page.router())
    metrics = Metrics(backend)
    _serve_metrics(app, backend, metrics)
    openapi.describe(app, backend)
    _explain_errors(app)
    cfg = backend.cfg
    app.add_middleware(RefuseWhenFull, batcher=backend.service.batcher, paths=_TRANSLATING)
    app.add_middleware(Door, cfg=cfg, file_paths=_FILE_PATHS)
    if cfg.cors:
        app.add_middleware(
            CORSMiddleware, allow_origins=cfg.cors, allow_methods=["*"], allow_headers=["*"], max_age=_PREFLIGHT_S
        )
    app.add_middleware(Arrival, cfg=cfg, metrics=metrics)
    return app


def _serve_metrics(app: FastAPI, backend: Backend, metrics: Metrics) -> None:
    name = backend.cfg.keys.metrics

    @app.get(
        "/metrics",
        tags=["operation"],
        response_class=Response,
        responses={200: {"content": {"text/plain": {}}}, **openapi.refusals(*([401] if name else []))},
    )
    async def show_metrics(request: Request) -> Response:
        """Return metrics for Prometheus."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if name is not None and not (scheme.lower() == "bearer" and backend.gate.is_key_of(name, token.strip())):
            return JSONResponse({"error": "Unauthorized"}, 401, {"WWW-Authenticate": "Bearer"})
        return Response(metrics.text(), media_type=CONTENT_TYPE)


def _explain_errors(app: FastAPI) -> None:
    """Answer each error as JSON, in the dialect of its route."""

    @app.exception_handler(Refusal)
    async def refused(request: Request, refusal: Refusal) -> JSONResponse:
        return refusal_answer(route_path(request.scope), refusal)

    @app.exception_handler(OSError)
    async def not_stored(request: Request, error: OSError) -> JSONResponse:
        if error.errno not in _FULL_DISK:
            raise error
        log.error(f"a request was refused: {error}")
        return refusal_answer(
            route_path(request.scope), Busy("the service cannot store this now; try again later", retry_after_s=60)
        )

    @app.exception_handler(HTTPException)
    async def failed(request: Request, error: HTTPException) -> JSONResponse:
        if isinstance(error.__cause__, Refusal):  # by what FastAPI calls while it reads a body
            return refusal_answer(route_path(request.scope), error.__cause__)
        if isinstance(error.__cause__, OSError):
            return await not_stored(request, error.__cause__)
        headers = {"Allow": _allowed(request)} if error.status_code == 405 else dict(error.headers or {})
        return error_answer(route_path(request.scope), error.status_code, str(error.detail), headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = place_of(first["loc"][1:] or ["body"])
        return invalid_answer(route_path(request.scope), f"Invalid request: {place}: {advice_on(first)}")

    @app.exception_handler(ClientLeft)
    @app.exception_handler(ClientDisconnect)
    async def left(request: Request, error: Exception) -> Response:
        return Response(status_code=_CLIENT_CLOSED)


def _allowed(request: Request) -> str:
    """Return the methods that a path allows, because Starlette names only those of its first route."""
    routes = request.app.routes
    scopes = {method: as_routed({**request.scope, "method": method}) for method in _METHODS}
    return ", ".join(m for m, scope in scopes.items() if any(route.matches(scope)[0] is Match.FULL for route in routes))

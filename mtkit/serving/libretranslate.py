"""The dialect of LibreTranslate's clients."""

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from mtkit.serving.backend import Backend
from mtkit.serving.leaving import unless_left


def router(backend: Backend) -> APIRouter:
    """Return the routes."""
    routes = APIRouter()

    @routes.post("/translate")
    async def translate(request: Request) -> JSONResponse:
        values: dict[str, Any] = await request.json()
        caller = backend.gate.admit(values.get("api_key"), request.client.host if request.client else "")
        texts = [values["q"]] if isinstance(values["q"], str) else values["q"]
        results = await unless_left(
            request,
            _all(
                backend.service.translate(
                    text, values["source"], values["target"], format=values.get("format", "text"), caller=caller
                )
                for text in texts
            ),
        )
        return JSONResponse({"translatedText": results[0].text})

    return routes


async def _all(calls: Any) -> list[Any]:
    return await asyncio.gather(*calls)

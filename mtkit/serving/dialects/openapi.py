"""The OpenAPI description at /spec, with the languages that are served now and the limits."""

from functools import cache
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, Field
from pydantic.config import JsonDict

from mtkit.serving.backend import Backend
from mtkit.serving.models import ServedModels
from mtkit.serving.records.corrections import MOST_CHARS

# Marks in the schemas of routes, for what is known only once the service runs: x-mtkit: one of these.
_MARK = "x-mtkit"


def _mark(name: str) -> JsonDict:
    return {_MARK: name}


_MARKS = "source", "source or auto", "target", "text", "texts", "correction", "alternatives"
SOURCE, SOURCE_OR_AUTO, TARGET, TEXT, TEXTS, CORRECTION, ALTERNATIVES = (_mark(name) for name in _MARKS)

NO_NUL = "^[^\\x00]*$"  # of texts: no format of documents has this character


class Error(BaseModel):
    """The reason why the service refused a request."""

    error: str = Field(description="what is wrong, and what to do")


_REASONS = {
    400: "a value of the request is missing, unknown or beyond its limit",
    401: "the bearer token is missing or wrong",
    403: "the API key is missing or unknown, or this service does not offer the feature",
    404: "the item does not exist, or belongs to another caller",
    456: "the caller has used up the space for this",
    408: "the request did not arrive in time",
    413: "the request is too long",
    421: "the service does not accept the name in the Host header",
    422: "the request does not match the schema",
    429: "the caller must wait for the seconds in the Retry-After header",
    500: "the service failed; its log has the reason",
    503: "the service is overloaded; try again after the seconds in the Retry-After header",
    504: "the deadline passed before the work was done",
}


_error_models: set[type[BaseModel]] = set()  # which no route has as a model, so that /spec has to add them


def refusals(*statuses: int, model: type[BaseModel] = Error) -> dict[int | str, dict[str, Any]]:
    """Return the declaration of a route's error responses. model: their body in the route's dialect.

    It adds the statuses that any request can get before it reaches its route.
    """
    _error_models.add(model)
    # A schema instead of FastAPI's "model", which makes a validator for each of the 300 responses: 50 ms
    body = {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}
    return {status: {"content": body, "description": _REASONS[status]} for status in sorted({*statuses, 421, 500})}


@cache  # the declaration is the same for each application
def takes(model: type[BaseModel], *kinds: str, file: bool = False, json_only: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the declaration of a request body that the route reads by itself.

    kinds: media types. file: with a field for a file. json_only: fields that a form cannot have.
    """
    schema = model.model_json_schema()
    schema = _inlined(schema, schema.pop("$defs", {}))
    form = {**schema, "properties": {k: v for k, v in schema["properties"].items() if k not in json_only}}
    if file:
        form["properties"]["file"] = {"type": "string", "format": "binary", "description": "the document"}
        form["required"] = [*schema["required"], "file"]
    content = {kind: {"schema": schema if kind == "application/json" else form} for kind in kinds}
    return {"requestBody": {"required": True, "content": content}}


def _inlined(schema: Any, definitions: dict[str, Any]) -> Any:
    """Return a schema with its definitions inlined, because /spec keeps other definitions in their place."""
    if isinstance(schema, dict):
        if (name := schema.get("$ref", "").removeprefix("#/$defs/")) in definitions:
            return _inlined(definitions[name], definitions)
        return {key: _inlined(part, definitions) for key, part in schema.items()}
    return [_inlined(part, definitions) for part in schema] if isinstance(schema, list) else schema


def describe(app: FastAPI, backend: Backend) -> None:
    """Make /spec describe the application as it is when a client requests it."""
    latest: tuple[ServedModels, dict[str, Any]] | None = None

    def openapi() -> dict[str, Any]:
        nonlocal latest
        models = backend.service.models
        if latest is None or latest[0] is not models:
            spec = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            spec["components"]["schemas"] |= {model.__name__: model.model_json_schema() for model in _error_models}
            _fill_in(spec, _facts(backend, models))
            latest = models, spec
        return latest[1]

    app.openapi = openapi  # type: ignore[method-assign]


def _facts(backend: Backend, models: ServedModels) -> dict[str, dict[str, Any]]:
    limits = backend.cfg.limits
    return {
        "source": {"enum": [*models.sources]},
        "source or auto": {"enum": ["auto", *models.sources]},
        "target": {"enum": [*models.targets]},
        "text": {"maxLength": limits.max_chars},
        "texts": {"maxItems": limits.max_texts},
        "correction": {"maxLength": min(limits.max_chars, MOST_CHARS)},
        "alternatives": {"maximum": limits.max_alternatives},
    }


def _fill_in(schema: Any, facts: dict[str, dict[str, Any]]) -> None:
    """Replace all marks in a schema by their current values."""
    if isinstance(schema, dict):
        schema.update(facts.get(schema.pop(_MARK, ""), {}))
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        _fill_in(part, facts)

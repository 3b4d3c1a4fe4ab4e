"""Write errors as JSON in the dialect of the requested path."""

from starlette.responses import JSONResponse
from starlette.types import Scope

from mtkit.serving.refusals import Refusal

_DEEPL = "/v2/", "/v3/"


def route_path(scope: Scope) -> str:
    """Return the path of a request without the prefix under which a proxy serves the application."""
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def refusal_answer(path: str, refusal: Refusal) -> JSONResponse:
    """Return the response for a refusal, in the dialect of the path."""
    headers = {} if refusal.retry_after_s is None else {"Retry-After": str(refusal.retry_after_s)}
    return error_answer(path, refusal.status, str(refusal), headers)


def invalid_answer(path: str, message: str) -> JSONResponse:
    """Return the response for a request that does not fit its route, in the dialect of the path."""
    return error_answer(path, 400 if path.startswith(_DEEPL) else 422, message, {})  # DeepL's do not know 422


def error_answer(path: str, status: int, message: str, headers: dict[str, str]) -> JSONResponse:
    """Return the response for an error, in the dialect of the path."""
    name = "message" if path.startswith(_DEEPL) else "error"
    return JSONResponse({name: message.encode("utf-8", "replace").decode("utf-8")}, status, headers)

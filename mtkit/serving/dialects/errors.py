"""Errors as JSON, in the dialect of the path that was asked for."""

from starlette.responses import JSONResponse

from mtkit.serving.refusals import Refusal

_DEEPL = "/v2/", "/v3/"


def refusal_answer(path: str, refusal: Refusal) -> JSONResponse:
    """Return the answer that tells a path's clients of a refusal."""
    headers = {} if refusal.retry_after_s is None else {"Retry-After": str(refusal.retry_after_s)}
    return error_answer(path, refusal.status, str(refusal), headers)


def invalid_answer(path: str, message: str) -> JSONResponse:
    """Return the answer that tells a path's clients that a request does not fit its route."""
    return error_answer(path, 400 if path.startswith(_DEEPL) else 422, message, {})  # DeepL's do not know 422


def error_answer(path: str, status: int, message: str, headers: dict[str, str]) -> JSONResponse:
    """Return the answer that tells a path's clients of an error."""
    name = "message" if path.startswith(_DEEPL) else "error"
    return JSONResponse({name: message.encode("utf-8", "replace").decode("utf-8")}, status, headers)

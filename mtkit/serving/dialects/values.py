"""Read the values of a request from its JSON, form or query."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError
from starlette.datastructures import UploadFile
from starlette.requests import Request

from mtkit.serving.dialects.openapi import NO_NUL
from mtkit.serving.refusals import BadRequest, BadText, EndsWorkers, TooLarge
from mtkit.serving.texts import TermLine

JSON, FORM, MULTIPART = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"
_MOST_FIELDS = 1000  # of a form
_MOST_SHOWN = 40  # characters of a name that a client chose

_Values = TypeVar("_Values", bound=BaseModel)


async def read_values(request: Request, model: type[_Values]) -> _Values:
    """Return the validated values of a request: from its JSON, or from its form and query.

    JSON is strict: "4" is not a number, unless the field may be text. In a form, a repeated field is a list, and an
    empty one is absent.
    Raises BadRequest that names the first field that is wrong.
    """
    kind = media_type(request)
    if kind == JSON or kind.endswith("+json"):
        body = await request.body()
        with _problems_named():
            # its parser, unlike `json.loads`, refuses lone surrogates, which could not be sent back, and deep nesting
            return model.model_validate_json(body, strict=True)
    values = _fields(request.scope["query_string"])
    if kind == MULTIPART:
        values |= await read_form(request)
    elif (body := await request.body()).lstrip()[:1] in (b"{", b"["):  # curl, for one, takes it for a form
        raise BadRequest(f"Invalid request: the body looks like JSON; send it with the header Content-Type: {JSON}")
    elif kind == FORM:
        values |= _fields(body)
    return read_fields(model, values)


def read_fields(model: type[_Values], fields: dict[str, Any]) -> _Values:
    """Return the validated fields of a form. Raises BadRequest that names the first one that is wrong."""
    with _problems_named():
        return model.model_validate({name: value for name, value in fields.items() if value != ""})


@contextmanager
def _problems_named() -> Iterator[None]:
    try:
        yield
    except ValidationError as error:
        problem = worst_of(error.errors(include_url=False))
        if not problem["loc"]:
            what = problem["ctx"]["error"] if problem["type"] == "json_invalid" else "the body must be a JSON object"
            raise BadRequest(f"Invalid JSON format: {what}") from None
        place = place_of(problem["loc"])
        if problem["type"] == "missing" or problem["input"] in (None, "", []):
            raise BadRequest(f"Invalid request: missing {place} parameter") from None
        raise BadRequest(f"Invalid request: {place} parameter: {advice_on(problem)}") from None


def worst_of(problems: Sequence[Any]) -> Any:
    """Return the problem of the first wrong value that is deepest in it, from those that pydantic reports.

    Of a value that may be a text or a list, pydantic reports why it is neither; a wrong item of a list is deeper.
    """
    first = problems[0]
    of_value = [problem for problem in problems if problem["loc"][:1] == first["loc"][:1]]
    return max(of_value, key=lambda problem: len(problem["loc"]))


def place_of(parts: Sequence[str | int]) -> str:
    """Return the place of a value in a request, such as q[1] or sentences[1].src, from pydantic's parts of it."""
    name, *rest = parts
    shown = [f"[{part}]" if isinstance(part, int) else f".{part[:_MOST_SHOWN]}" for part in rest]
    is_kind = bool(rest) and isinstance(rest[0], str)  # the kind of value that was tried, such as list[str]
    return "".join([str(name), *(shown[1:] if is_kind else shown)])


def advice_on(problem: Any) -> str:
    """Return what is wrong with a value."""
    if problem.get("ctx", {}).get("pattern") == NO_NUL:
        return "it contains the character U+0000 (NUL); remove it"
    return str(problem["msg"])


@contextmanager
def item_named(name: str, index: int, n_items: int) -> Iterator[None]:
    """Name the item of a list, such as q[1], in the message of a refusal that is about its text."""
    try:
        yield
    except (TooLarge, BadText, EndsWorkers) as refusal:
        if n_items == 1:
            raise
        raise type(refusal)(f"{name}[{index}]: {refusal}") from None


def check_terms(terms: Sequence[TermLine]) -> None:
    """Raise BadRequest, which names the term, for one that is incomplete, has NUL or repeats a source."""
    places: dict[str, int] = {}
    for index, term in enumerate(terms):
        if not all(side.strip() for side in term):
            raise BadRequest(f"terms[{index}]: a term needs both source words and target words")
        if any("\0" in side for side in term):
            raise BadRequest(f"terms[{index}]: it contains the character U+0000 (NUL); remove it")
        src = " ".join(term[0].split())
        if (first := places.setdefault(src, index)) != index:
            raise BadRequest(
                f"terms[{index}]: {src!r} is already the source of terms[{first}]; give both targets to one term, "
                "separated by ' | '"
            )


def address_of(request: Request) -> str:
    """Return the address of the client; "" if the server does not report it."""
    return request.client.host if request.client else ""


def media_type(request: Request) -> str:
    """Return the type of a request's body, without parameters, in lower case."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


@dataclass(frozen=True)
class SentFile:
    """A file in a form."""

    name: str
    raw: bytes


async def read_form(request: Request) -> dict[str, str | SentFile]:
    """Return the fields of a multipart form, of several with one name the last. Raises HTTPException if it is none."""
    fields: dict[str, str | SentFile] = {}
    await request.body()  # before any file is open: the form's parser would not close it if the rest does not come
    async with request.form(max_files=1, max_fields=_MOST_FIELDS) as form:
        for name, value in form.items():
            if isinstance(value, UploadFile):
                fields[name] = SentFile(value.filename or "", await value.read())
            else:
                fields[name] = _sendable(value)
    return fields


def _fields(raw: bytes) -> dict[str, Any]:
    """Return the fields of a form or query."""
    try:
        pairs = parse_qsl(raw.decode("utf-8"), True, errors="strict", max_num_fields=_MOST_FIELDS)
    except ValueError as error:
        reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise BadRequest(f"Invalid request: the form cannot be read: {reason}") from None
    values: dict[str, Any] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return {name: several[0] if len(several) == 1 else several for name, several in values.items()}


def _sendable(text: str) -> str:
    """Return a text that can be sent back: the form's charset may be one that decodes to lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8")

"""The API that LibreTranslate's clients expect: routes, fields, errors and language codes."""

import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema
from starlette.responses import JSONResponse

from mtkit.documents.reading import FILE_EXTENSIONS
from mtkit.serving.backend import Backend
from mtkit.serving.caller import Caller
from mtkit.serving.detection import UNDETERMINED, Detection, Source
from mtkit.serving.dialects.leaving import all_of, unless_left
from mtkit.serving.dialects.openapi import (
    ALTERNATIVES,
    CORRECTION,
    NO_NUL,
    SOURCE,
    SOURCE_OR_AUTO,
    TARGET,
    TEXT,
    TEXTS,
    refusals,
    takes,
)
from mtkit.serving.dialects.values import (
    FORM,
    JSON,
    MULTIPART,
    SentFile,
    address_of,
    check_terms,
    item_named,
    media_type,
    read_fields,
    read_form,
    read_values,
)
from mtkit.serving.refusals import BadRequest, Forbidden, NotFound, TooLarge, Unready
from mtkit.serving.texts import TermLine, TranslatedText
from mtkit.text.lines import NEWLINE

_AUTO = "auto"
_ALIASES = {"zh": "zh-hans", "zt": "zh-hant", "pb": "pt-br"}  # codes of their models

_Text = Annotated[str, Field(pattern=NO_NUL, json_schema_extra=TEXT)]
_DIGITS = "^[0-9]{0,9}$"
_Number = Annotated[  # also as text, because some programs send all values so
    int,
    BeforeValidator(lambda value: int(value or 0) if isinstance(value, str) and re.match(_DIGITS, value) else value),
    Field(ge=0),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 0, **ALTERNATIVES}, {"type": "string", "pattern": _DIGITS}]}
    ),
]
_Key = Annotated[str | None, Field(description="API key")]
_SourceOrAuto = Annotated[str, Field(min_length=1, json_schema_extra=SOURCE_OR_AUTO)]
_Source = Annotated[str, Field(min_length=1, json_schema_extra=SOURCE)]
_Target = Annotated[str, Field(min_length=1, json_schema_extra=TARGET)]
_WORKING = refusals(400, 403, 408, 413, 429, 503, 504)


class TranslateRequest(BaseModel):
    """The request of /translate."""

    q: Annotated[_Text, Field(min_length=1)] | Annotated[list[_Text], Field(min_length=1, json_schema_extra=TEXTS)] = (
        Field(description="one or more texts")
    )
    source: _SourceOrAuto = Field(description="language of the text, or auto")
    target: _Target = Field(description="language to translate into")
    format: Literal["text", "html"] | None = Field("text", description="format of the text")
    alternatives: _Number | None = Field(0, description="number of additional translations to return")
    terms: dict[str, str] | list[tuple[str, str]] | None = Field(
        None, description="terms with their required translations: {source: target} or [[source, target]]; only in JSON"
    )
    api_key: _Key = None


class DetectRequest(BaseModel):
    """The request of /detect."""

    q: _Text = Field(min_length=1, description="text to detect the language of")
    api_key: _Key = None


class SuggestRequest(BaseModel):
    """The request of /suggest."""

    q: str = Field(min_length=1, pattern=NO_NUL, json_schema_extra=CORRECTION, description="the text")
    s: str = Field(min_length=1, pattern=NO_NUL, json_schema_extra=CORRECTION, description="a better translation")
    source: _Source = Field(description="language of the text")
    target: _Target = Field(description="language of the translation")
    api_key: _Key = None


class FileRequest(BaseModel):
    """The fields of /translate_file besides the file."""

    source: _SourceOrAuto
    target: _Target
    api_key: _Key = None


class DetectedLanguage(BaseModel):
    """The language of a text."""

    confidence: float = Field(ge=0, le=100, description="probability of this language, in percent")
    language: str = Field(description=f"code of the language; {UNDETERMINED} if it has none, or /detect is not sure")


class TermReport(BaseModel):
    """Whether the translation uses a term of the request's terminology."""

    source: str
    target: str
    required: int = Field(description="number of times that the source occurs in the text")
    met: int = Field(description="number of times that the translation uses the terminology's target")


class TranslateReply(BaseModel):
    """The reply of /translate; its fields are lists if the request had a list of texts."""

    translatedText: str | list[str]
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = Field(None, description="if source is auto")
    alternatives: list[str] | list[list[str]] | None = Field(None, description="if the request asked for any")
    terms: list[TermReport] | list[list[TermReport]] | None = Field(None, description="if the request had terms")


class SupportedLanguage(BaseModel):
    """A source language and its target languages."""

    code: str
    name: str
    targets: list[str]


class FileReply(BaseModel):
    """The address of the translated file."""

    translatedFileUrl: str


class SuggestReply(BaseModel):
    """Whether the service kept the suggestion."""

    success: bool


class Health(BaseModel):
    """The health of the service."""

    status: Literal["ok"]


class NamedLanguage(BaseModel):
    """A language."""

    code: str
    name: str


class LanguagesToStartWith(BaseModel):
    """The languages that a translation form shows first."""

    source: NamedLanguage
    target: NamedLanguage


class FrontendSettings(BaseModel):
    """The settings that a web page needs in front of the service."""

    charLimit: int = Field(description="characters of one text")
    frontendTimeout: int = Field(description="milliseconds to wait after a keystroke before translating")
    apiKeys: bool = Field(description="whether the service has API keys")
    keyRequired: bool
    suggestions: bool = Field(description="whether /suggest accepts corrections")
    filesTranslation: bool
    supportedFilesFormat: list[str] = Field(description="file extensions")
    language: LanguagesToStartWith


def router(backend: Backend) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(tags=["LibreTranslate"])
    dialect = _Dialect(backend)
    _add_texts(routes, backend, dialect)
    _add_documents(routes, dialect)
    _add_service(routes, backend, dialect)
    return routes


def _add_texts(routes: APIRouter, backend: Backend, dialect: "_Dialect") -> None:
    """Add the routes for texts and their languages."""

    @routes.post(
        "/translate",
        responses={200: {"model": TranslateReply}, **_WORKING},
        openapi_extra=takes(TranslateRequest, JSON, FORM, json_only=("terms",)),
    )
    async def translate(request: Request) -> Response:
        """Translate one or more texts."""
        return JSONResponse(await dialect.translate(request))

    @routes.post(
        "/detect",
        responses={200: {"model": list[DetectedLanguage]}, **refusals(400, 403, 408, 413, 429)},
        openapi_extra=takes(DetectRequest, JSON, FORM),
    )
    async def detect(request: Request) -> Response:
        """Detect which of the served languages a text is in."""
        values = await read_values(request, DetectRequest)
        return JSONResponse(dialect.detect(request, values))

    @routes.get("/languages", responses={200: {"model": list[SupportedLanguage]}, **refusals()})
    async def languages() -> Response:
        """List the source languages with their target languages."""
        return JSONResponse([vars(language) for language in backend.service.models.languages])


def _add_documents(routes: APIRouter, dialect: "_Dialect") -> None:
    """Add the routes for documents: translate, download."""

    @routes.post(
        "/translate_file",
        responses={200: {"model": FileReply}, **_WORKING},
        openapi_extra=takes(FileRequest, MULTIPART, file=True),
    )
    async def translate_file(request: Request) -> Response:
        """Translate a document. The response arrives when the translation is done, and contains its address."""
        return JSONResponse({"translatedFileUrl": await dialect.translate_file(request)})

    @routes.get(
        "/download_file/{name}",
        response_class=Response,
        responses={200: {"content": {"application/octet-stream": {}}}, **refusals(404)},
    )
    async def download_file(name: str) -> Response:
        """Download a translated document. Its name cannot be guessed, so anyone who knows it may download it."""
        return dialect.download(name)


def _add_service(routes: APIRouter, backend: Backend, dialect: "_Dialect") -> None:
    """Add the routes for suggestions, the health of the service, and what a web page needs of it."""

    @routes.post(
        "/suggest",
        responses={200: {"model": SuggestReply}, **_WORKING},
        openapi_extra=takes(SuggestRequest, JSON, FORM),
    )
    async def suggest(request: Request) -> Response:
        """Suggest a better translation."""
        await dialect.suggest(request)
        return JSONResponse({"success": True})

    @routes.get("/health", responses={200: {"model": Health}, **refusals(503)})
    async def health() -> Response:
        """Report the health of the service: it responds with 503 while no worker can translate."""
        if not backend.service.can_translate:
            raise Unready("no worker can translate now: they are starting, or the log says why", retry_after_s=1)
        return JSONResponse({"status": "ok"})

    @routes.get("/frontend/settings", responses={200: {"model": FrontendSettings}, **refusals()})
    async def frontend_settings() -> Response:
        """Return the settings that a web page needs in front of the service."""
        return JSONResponse(dialect.settings().model_dump())


class _Dialect:
    """The work behind the routes."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._service = backend.service
        self._limits = backend.cfg.limits
        self._owners: OrderedDict[str, Caller] = OrderedDict()  # of documents, by their ids

    def admit(self, request: Request, key: str | None) -> Caller:
        """Return the caller. Raises Refusal."""
        return self._backend.gate.admit(key, address_of(request))

    async def translate(self, request: Request) -> dict[str, Any]:
        values = await read_values(request, TranslateRequest)
        caller = self.admit(request, values.api_key)
        is_list = isinstance(values.q, list)
        texts = values.q if isinstance(values.q, list) else [values.q]
        if media_type(request) != JSON:
            texts = [NEWLINE.sub("\n", text) for text in texts]  # browsers send \r\n, which would count as two
        self._check(texts, values.alternatives or 0, caller)
        target = self._code(values.target)
        sources = self._sources(texts, values.source, target)
        terms = [*values.terms.items()] if isinstance(values.terms, dict) else [*(values.terms or ())]
        if len(terms) > self._limits.max_terms:
            raise BadRequest(f"Invalid request: {len(terms)} terms are more than {self._limits.max_terms}")
        check_terms(terms)
        results = await unless_left(
            request,
            all_of(
                [
                    self._translate_text((index, len(texts)), text, source, target, values, terms, caller)
                    for index, (text, source) in enumerate(zip(texts, sources, strict=True))
                ]
            ),
        )
        reply: dict[str, list[Any]] = {"translatedText": [result.text for result in results]}
        if values.source == _AUTO:
            reply["detectedLanguage"] = [_reported(source.confidence, source.reported) for source in sources]
        if values.alternatives:
            reply["alternatives"] = [list(result.alternatives) for result in results]
        if values.terms is not None:
            reply["terms"] = [[vars(term) for term in result.terms] for result in results]
        return reply if is_list else {name: one for name, [one] in reply.items()}

    async def _translate_text(
        self,
        item: tuple[int, int],
        text: str,
        source: Source,
        target: str,
        values: TranslateRequest,
        terms: Sequence[TermLine],
        caller: Caller,
    ) -> TranslatedText:
        """Translate a text. item: its index and the number of texts, for messages."""
        if source.language is None:
            return TranslatedText(text, [], [], [], [])
        with item_named("q", *item):
            return await self._service.translate(
                text,
                source.language,
                target,
                format=values.format or "text",
                n_alternatives=values.alternatives or 0,
                terms=terms,
                caller=caller,
            )

    def _check(self, texts: Sequence[str], n_alternatives: int, caller: Caller) -> None:
        """Raise BadRequest, worded as LibreTranslate does, for a request beyond the limits."""
        limits = self._limits
        if len(texts) > limits.max_texts:
            raise BadRequest(f"Invalid request: request ({len(texts)}) exceeds text limit ({limits.max_texts})")
        if n_alternatives > limits.max_alternatives:
            raise BadRequest(f"Invalid request: alternatives parameter must be <= {limits.max_alternatives}")
        most_together = 10 * (caller.max_chars or limits.max_chars)
        if (n_chars := sum(map(len, texts))) > most_together:
            raise BadRequest(f"Invalid request: request ({n_chars}) exceeds text limit ({most_together}) of all texts")
        for index, text in enumerate(texts):
            try:
                with item_named("q", index, len(texts)):
                    self._service.check_text(text, caller)
            except TooLarge as error:
                raise BadRequest(f"Invalid request: {error}") from None

    def _sources(self, texts: Sequence[str], source: str, target: str) -> list[Source]:
        """Return the given language for each text, or choose it. Raises BadRequest if it is not served."""
        if source == _AUTO:
            return [self._backend.source_of(text, target) for text in texts]
        code = self._code(source)
        return [Source(code, code, 1.0)] * len(texts)

    def _code(self, language: str) -> str:
        """Return the code of a served language. Raises BadRequest for another."""
        models = self._service.models
        if (alias := _ALIASES.get(language.lower())) is None:
            return models.code(language)
        try:
            return models.code(alias)
        except BadRequest:
            return models.code(language)

    def detect(self, request: Request, values: DetectRequest) -> list[dict[str, Any]]:
        """Return the possible languages of a text. Raises Refusal."""
        self._check([values.q], 0, self.admit(request, values.api_key))
        return _candidates(self._backend.detector.detect(values.q))

    async def translate_file(self, request: Request) -> str:
        """Translate an uploaded document and return the address of its translation."""
        if media_type(request) != MULTIPART:
            raise BadRequest("Invalid request: missing file parameter")
        form = await read_form(request)
        values = read_fields(FileRequest, form)
        caller = self.admit(request, values.api_key)
        file = form.get("file")
        if not isinstance(file, SentFile) or not file.name:
            raise BadRequest("Invalid request: missing file parameter")
        if not file.raw:
            raise BadRequest("Invalid request: empty file")
        source = None if values.source == _AUTO else self._code(values.source)
        documents = self._backend.documents
        job = await documents.submit(file.raw, file.name, source, self._code(values.target), caller=caller)
        try:
            await unless_left(request, job.finished())
        except BaseException:
            await documents.remove(job)
            raise
        if job.refusal is not None:
            raise job.refusal
        self._owners[job.id] = caller
        if len(self._owners) > self._limits.max_documents:
            self._owners.popitem(last=False)
        return str(request.url_for("download_file", name=quote(f"{job.id}.{job.name}")))

    def download(self, name: str) -> Response:
        """Return a translated document. Raises NotFound."""
        id, _, given_name = name.partition(".")
        if (owner := self._owners.get(id)) is None:
            raise NotFound(
                "no such file; the service deletes files an hour after it translated them, so send the document again"
            )
        job = self._backend.documents.get(id, owner)
        if given_name != job.name or job.result is None:
            raise NotFound("no such file")
        disposition = f"attachment; filename*=utf-8''{quote(job.name, safe='')}"
        return Response(job.result, media_type="application/octet-stream", headers={"Content-Disposition": disposition})

    async def suggest(self, request: Request) -> None:
        """Keep a suggestion. Raises Refusal."""
        if self._backend.corrections is None:
            raise Forbidden("Suggestions are disabled on this server.")
        values = await read_values(request, SuggestRequest)
        caller = self.admit(request, values.api_key)
        self._check([values.q, values.s], 0, caller)
        source, target = self._code(values.source), self._code(values.target)
        try:
            await self._service.suggest(source, target, values.q, values.s, caller)  # kept, also if it is doubtful
        except TooLarge as error:
            raise BadRequest(f"Invalid request: {error}") from None

    def settings(self) -> FrontendSettings:
        """Return the settings that a web page needs."""
        languages = self._service.models.languages
        names = {language.code: language.name for language in languages}
        target = self._service.models.targets[0]
        return FrontendSettings(
            charLimit=self._limits.max_chars,
            frontendTimeout=500,
            apiKeys=self._backend.cfg.keys.file is not None,
            keyRequired=self._backend.cfg.keys.required,
            suggestions=self._backend.corrections is not None,
            filesTranslation=True,
            supportedFilesFormat=[*FILE_EXTENSIONS],
            language=LanguagesToStartWith(
                source=NamedLanguage(code=_AUTO, name="Auto Detect"),
                target=NamedLanguage(code=target, name=names[target]),
            ),
        )


def _candidates(detection: Detection) -> list[dict[str, Any]]:
    """Return the possible languages of a text as LibreTranslate does, best first, after "und" if none is certain."""
    unsure = [_reported(0.0, UNDETERMINED)] if detection.language is None else []
    return unsure + [_reported(confidence, language) for language, confidence in detection.candidates]


def _reported(confidence: float, language: str) -> dict[str, Any]:
    return {"confidence": round(100 * confidence, 1), "language": language}

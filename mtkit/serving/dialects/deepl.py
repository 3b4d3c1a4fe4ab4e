"""The API that DeepL's clients expect: version 2, for texts and documents."""

import hmac
import re
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from mtkit.config.decoding import LEAST_MATCH
from mtkit.documents.pages.xml import XmlRules, read_xml
from mtkit.languages import primary_code
from mtkit.serving.backend import Backend
from mtkit.serving.caller import Caller
from mtkit.serving.detection import Source
from mtkit.serving.dialects.deepl_glossaries import caller_of, code_of, terms_of
from mtkit.serving.dialects.deepl_memories import memory_of
from mtkit.serving.dialects.deepl_messages import (
    DocumentHandle,
    DocumentKey,
    DocumentRequest,
    DocumentStatus,
    Language,
    LanguagesRequest,
    Message,
    TermReport,
    TranslateReply,
    TranslateRequest,
    Translation,
    Usage,
)
from mtkit.serving.dialects.leaving import all_of, unless_left
from mtkit.serving.dialects.openapi import refusals, takes
from mtkit.serving.dialects.values import (
    FORM,
    JSON,
    MULTIPART,
    SentFile,
    item_named,
    media_type,
    read_fields,
    read_form,
    read_values,
)
from mtkit.serving.documents import DocumentJob
from mtkit.serving.models import ServedModels
from mtkit.serving.records.memories import MemoryUse
from mtkit.serving.refusals import BadRequest, Busy, NotFound, TooLarge
from mtkit.serving.texts import Format, Reader, Terms, TranslatedText

_NEWLINES = re.compile(r"\s*[\r\n]\s*")
# Targets that clients name by their region; their official clients refuse the bare codes.
_VARIANTS = {
    "en": {"EN-GB": "English (British)", "EN-US": "English (American)"},
    "pt": {"PT-BR": "Portuguese (Brazilian)", "PT-PT": "Portuguese (European)"},
}
_NOT_SUPPORTED = "style_id", "custom_instructions"
_XML_ONLY = "splitting_tags", "non_splitting_tags", "ignore_tags"
_TYPE = {"name": "type", "in": "query", "schema": {"enum": ["source", "target"], "default": "source"}}
_SOON_S = 5.0  # in which a document may be done
_WORKING = refusals(400, 403, 404, 408, 413, 429, 503, 504, model=Message)


def router(backend: Backend) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(tags=["DeepL"])
    dialect = _Dialect(backend)
    _add_texts(routes, backend, dialect)
    _add_documents(routes, dialect)
    return routes


def _add_texts(routes: APIRouter, backend: Backend, dialect: "_Dialect") -> None:
    """Add the routes for texts, languages and the caller's usage."""

    @routes.post(
        "/v2/translate",
        responses={200: {"model": TranslateReply}, **_WORKING},
        openapi_extra=takes(TranslateRequest, JSON, FORM),
    )
    async def translate(request: Request) -> Response:
        """Translate one or more texts."""
        return JSONResponse((await dialect.translate(request)).model_dump(exclude_none=True))

    @routes.get(
        "/v2/languages",
        responses={200: {"model": list[Language]}, **refusals(400, 403, 408, 413, 429, model=Message)},
        openapi_extra={"parameters": [_TYPE]},
    )
    async def languages(request: Request) -> Response:
        """List the source languages or, with type=target, the target languages."""
        values = await read_values(request, LanguagesRequest)  # their Python client sends a form with GET
        caller_of(backend, request, values.auth_key)
        found = _targets(backend.service.models) if values.type == "target" else _sources(backend.service.models)
        return JSONResponse([language.model_dump(exclude_none=True) for language in found])

    @routes.get("/v2/usage", responses={200: {"model": Usage}, **refusals(403, 429, model=Message)})
    async def usage(request: Request) -> Response:
        """Count the characters that the service has translated for this caller since it started."""
        caller = caller_of(backend, request)
        return JSONResponse(Usage(character_count=dialect.usage[caller.name]).model_dump())


def _add_documents(routes: APIRouter, dialect: "_Dialect") -> None:
    """Add the routes for documents: upload, status, download."""

    @routes.post(
        "/v2/document",
        responses={200: {"model": DocumentHandle}, **_WORKING},
        openapi_extra=takes(DocumentRequest, MULTIPART, file=True),
    )
    async def upload_document(request: Request) -> Response:
        """Upload a document. The service translates it when its turn comes."""
        return JSONResponse((await dialect.upload(request)).model_dump())

    @routes.post(
        "/v2/document/{document_id}",
        responses={200: {"model": DocumentStatus}, **refusals(400, 403, 404, 408, 413, 429, model=Message)},
        openapi_extra=takes(DocumentKey, JSON, FORM),
    )
    async def document_status(document_id: str, request: Request) -> Response:
        """Return the progress of a document."""
        return JSONResponse(_status(await dialect.job(document_id, request)).model_dump(exclude_none=True))

    @routes.post(
        "/v2/document/{document_id}/result",
        response_class=Response,
        responses={
            200: {"content": {"application/octet-stream": {}}},
            **refusals(400, 403, 404, 408, 413, 429, 503, model=Message),
        },
        openapi_extra=takes(DocumentKey, JSON, FORM),
    )
    async def document_result(document_id: str, request: Request) -> Response:
        """Download a translated document. The service keeps it for one hour after translating it."""
        job = await dialect.job(document_id, request)
        return _download(job)


class _Dialect:
    """The work behind the routes."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._secret = secrets.token_bytes(32)
        self.usage = Counter[str]()  # characters, by the names of callers

    async def translate(self, request: Request) -> TranslateReply:
        values = await read_values(request, TranslateRequest)
        caller = caller_of(self._backend, request, values.auth_key)
        texts = values.text if isinstance(values.text, list) else [values.text]
        self._check(texts, caller)
        _refuse_unsupported(values)
        read = _reader(values)
        if values.split_sentences == "nonewlines" and values.tag_handling is None:
            texts = [_NEWLINES.sub(" ", text) for text in texts]
        tgt = code_of(self._backend, "target_lang", values.target_lang)
        terms = await self._terms(values, tgt, caller)
        memory = await self._memory(values, tgt, caller)
        sources = [self._source(text, values.source_lang, tgt) for text in texts]
        calls = [
            self._translate((index, len(texts)), text, src, tgt, values, read, terms, memory, caller)
            for index, (text, src) in enumerate(zip(texts, sources, strict=True))
        ]
        translations = await unless_left(request, all_of(calls))
        self.usage[caller.name] += sum(map(len, texts))
        return TranslateReply(translations=translations)

    async def _translate(
        self,
        item: tuple[int, int],
        text: str,
        source: Source,
        tgt: str,
        values: TranslateRequest,
        read: Reader | None,
        terms: Terms,
        memory: MemoryUse | None,
        caller: Caller,
    ) -> Translation:
        """Translate a text. item: its index and the number of texts, for messages."""
        result = TranslatedText(text, [], [], [], [])
        if (src := source.language) is not None:
            format: Format = "html" if values.tag_handling == "html" else "text"
            with item_named("text", *item):
                result = await self._backend.service.translate(
                    text, src, tgt, format=format, read=read, terms=terms, memory=memory, caller=caller
                )
        model_type = values.model_type and values.model_type.removeprefix("prefer_")
        return Translation(
            detected_source_language=primary_code(source.reported).upper(),
            text=result.text,
            billed_characters=len(text) if values.show_billed_characters else None,
            model_type_used=model_type,
            terms=[TermReport(**vars(term)) for term in result.terms] if terms else None,
            matches=None if memory is None else [match for one in result.sentences for match in one.matches],
        )

    def _check(self, texts: Sequence[str], caller: Caller) -> None:
        limits = self._backend.cfg.limits
        if len(texts) > limits.max_texts:
            raise BadRequest(f"{len(texts)} texts are more than {limits.max_texts}")
        most_together = 10 * (caller.max_chars or limits.max_chars)
        if (n_chars := sum(map(len, texts))) > most_together:
            raise TooLarge(f"the texts have {n_chars:,} characters together; the limit is {most_together:,}")
        for index, text in enumerate(texts):
            with item_named("text", index, len(texts)):
                self._backend.service.check_text(text, caller)

    def _source(self, text: str, language: str | None, tgt: str) -> Source:
        """Return the given language of a text, or choose it. Raises BadRequest if it is not served."""
        if language is None:
            return self._backend.source_of(text, tgt)
        code = code_of(self._backend, "source_lang", language)
        return Source(code, code, 1.0)

    async def _terms(self, values: TranslateRequest | DocumentRequest, tgt: str, caller: Caller) -> Terms:
        """Return the terms of the glossaries that a request names. Raises Refusal."""
        if values.glossary_id and values.glossary_ids:
            raise BadRequest("glossary_ids cannot be used together with glossary_id")
        ids = [values.glossary_id] if values.glossary_id else values.glossary_ids or []
        if not ids:
            return ()
        if values.source_lang is None:
            raise BadRequest("a glossary needs source_lang")
        src = code_of(self._backend, "source_lang", values.source_lang)
        return await terms_of(self._backend, ids, (src, tgt), caller)

    async def _memory(self, values: TranslateRequest | DocumentRequest, tgt: str, caller: Caller) -> MemoryUse | None:
        """Return the translation memory that a request names. Raises Refusal."""
        src = values.source_lang and code_of(self._backend, "source_lang", values.source_lang)
        threshold = max(LEAST_MATCH, values.translation_memory_threshold)
        return await memory_of(self._backend, values.translation_memory_id, threshold, (src, tgt), caller)

    async def upload(self, request: Request) -> DocumentHandle:
        if media_type(request) != MULTIPART:
            raise BadRequest(f"a document comes as {MULTIPART}")
        form = await read_form(request)
        values = read_fields(DocumentRequest, form)
        caller = caller_of(self._backend, request, values.auth_key)
        _refuse_unsupported(values)
        file = form.get("file")
        if not isinstance(file, SentFile):
            raise BadRequest("the field file is missing")
        name = file.name or values.filename or ""
        if values.output_format and not name.lower().endswith(f".{values.output_format.lower()}"):
            raise BadRequest("a document keeps its format, so output_format must be its file extension")
        tgt = code_of(self._backend, "target_lang", values.target_lang)
        src = values.source_lang and code_of(self._backend, "source_lang", values.source_lang)
        terms = await self._terms(values, tgt, caller)
        memory = await self._memory(values, tgt, caller)
        job = await self._backend.documents.submit(file.raw, name, src, tgt, caller=caller, terms=terms, memory=memory)
        return DocumentHandle(document_id=job.id, document_key=self._key(job.id))

    def _key(self, id: str) -> str:
        return hmac.digest(self._secret, id.encode(), "sha256").hex()

    async def job(self, id: str, request: Request) -> DocumentJob:
        """Return the document that a request is about. Raises Refusal."""
        values = await read_values(request, DocumentKey)
        caller = caller_of(self._backend, request, values.auth_key)
        if not hmac.compare_digest(values.document_key.lower().encode(), self._key(id).encode()):
            raise NotFound(
                "no document with this id and key; the service deletes documents an hour after it translated them"
            )
        return self._backend.documents.get(id, caller)


def _refuse_unsupported(values: TranslateRequest | DocumentRequest) -> None:
    """Raise BadRequest for options that would change the translation but are not supported."""
    if values.formality in ("more", "less"):
        raise BadRequest(
            "formality: the models here have one register; leave it out, or use prefer_more or prefer_less"
        )
    for name in _NOT_SUPPORTED:
        if getattr(values, name, None):
            raise BadRequest(f"{name} is not supported by this service")


def _reader(values: TranslateRequest) -> Reader | None:
    """Return the reader for a text in XML, None for other text. Raises BadRequest for rules about tags without XML."""
    names = {name: frozenset(filter(None, map(str.strip, getattr(values, name) or []))) for name in _XML_ONLY}
    if values.tag_handling == "xml":
        rules = XmlRules(
            names["splitting_tags"], names["non_splitting_tags"], names["ignore_tags"], values.outline_detection
        )
        return partial(read_xml, rules=rules)
    if given := next((name for name in _XML_ONLY if names[name]), None):
        raise BadRequest(f"{given} needs tag_handling=xml")
    return None


def _sources(models: ServedModels) -> list[Language]:
    """Return the source languages, without regions."""
    names = {language.code: language.name for language in models.languages}
    bare = {primary_code(code).upper(): names[code] for code in models.sources}
    return [Language(language=code, name=name) for code, name in bare.items()]


def _targets(models: ServedModels) -> list[Language]:
    """Return the target languages, as clients name them."""

    def named() -> Iterator[tuple[str, str]]:
        for code in models.targets:
            variants = _VARIANTS.get(primary_code(code), {})
            if code in _VARIANTS:
                yield from variants.items()
            else:
                yield code.upper(), variants.get(code.upper(), names[code])

    names = {language.code: language.name for language in models.languages}
    return [Language(language=code, name=name, supports_formality=False) for code, name in dict(named()).items()]


def _status(job: DocumentJob) -> DocumentStatus:
    status = DocumentStatus(document_id=job.id, status=job.status)
    if job.status == "translating" and job.n_done:
        elapsed_s = time.monotonic() - job.started
        status.seconds_remaining = round(elapsed_s * (job.n_total - job.n_done) / job.n_done)
    if job.status == "done":
        status.billed_characters = job.n_chars
    status.error_message = job.error
    return status


def _download(job: DocumentJob) -> Response:
    if job.refusal is not None:
        raise job.refusal.with_traceback(None)  # it may be asked for again and again
    if (result := job.result) is None:
        raise Busy("the document is not translated yet; try again later", retry_after_s=_SOON_S)
    disposition = f"attachment; filename*=utf-8''{quote(job.name, safe='')}"
    return Response(result, media_type="application/octet-stream", headers={"Content-Disposition": disposition})

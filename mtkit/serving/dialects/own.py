"""Our own API under /api/: sentences with their details, streams, single words, documents and corrections."""

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Form, Request, UploadFile
from fastapi.responses import Response, StreamingResponse
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel

from mtkit.documents.reading import FILE_EXTENSIONS
from mtkit.serving.backend import Backend
from mtkit.serving.caller import Caller
from mtkit.serving.detection import UNDETERMINED, choose_source
from mtkit.serving.dialects.leaving import unless_left
from mtkit.serving.dialects.openapi import refusals
from mtkit.serving.dialects.own_messages import (
    AUTO,
    Candidate,
    CorrectionReply,
    CorrectionRequest,
    Detected,
    DocumentReply,
    DoneEvent,
    ErrorEvent,
    JudgedSentence,
    LanguageReply,
    Limits,
    Offer,
    OtherWord,
    OtherWordsReply,
    OtherWordsRequest,
    Pair,
    SentenceMatch,
    SentenceReply,
    SourceOrAuto,
    StartEvent,
    Target,
    Term,
    TextRequest,
    TranslateReply,
    TranslateRequest,
    WordsReply,
    WordsRequest,
)
from mtkit.serving.dialects.values import address_of, check_terms, item_named
from mtkit.serving.documents import DocumentJob
from mtkit.serving.refusals import BadRequest, NotFound, Refusal, TooLarge
from mtkit.serving.texts import TermLine, TermUse, TranslatedSentence, TranslatedText
from mtkit.text.lines import lines_in
from mtkit.version import __version__

# A word with a lower probability deserves a look: on Multi30k's test set 1 in 10, of which 70 % are not in the
# reference; of all words, 24 % are not.
_UNCERTAIN = 0.3
_MOST_TEXTS = 10  # of the longest length, whose words one request may have judged


_STREAM = {
    "description": "Events, whose data is JSON: StartEvent as `start`, a SentenceReply as `sentence` as soon as each "
    "is translated, DoneEvent as `done`. If the source is auto and no model translates the text's language, Detected "
    "as `unsure` alone; if something fails on the way, ErrorEvent as `error`.",
    "content": {
        "text/event-stream": {
            "schema": {  # of each event
                "type": "object",
                "properties": {
                    "event": {"enum": ["start", "sentence", "done", "unsure", "error"]},
                    "data": {"type": "string", "contentMediaType": "application/json"},
                },
                "required": ["event", "data"],
            }
        }
    },
}
_FILE = {
    "description": "The translated file",
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}
_Credentials = Annotated[
    HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False, description="an API key"))
]


def router(backend: Backend) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(prefix="/api", tags=["mtkit"])

    async def with_key(request: Request, credentials: _Credentials) -> Caller:
        return backend.gate.admit(None if credentials is None else credentials.credentials, address_of(request))

    async def without_key(request: Request) -> Caller:
        return backend.gate.admit(None, address_of(request))

    by: Any = Depends(without_key if backend.cfg.keys.file is None else with_key)
    _add_texts(routes, backend, by)
    _add_words(routes, backend, by)
    _add_documents(routes, backend, by)
    if not backend.cfg.keys.required:
        for route in routes.routes:
            assert isinstance(route, APIRoute)
            route.openapi_extra = {"security": [{}]}  # none is right, too
    return routes


def _add_texts(routes: APIRouter, backend: Backend, by: Any) -> None:
    """Add the routes that translate texts. by: depends on the caller."""
    service = backend.service

    @routes.get("/models", responses=refusals())
    async def models() -> Offer:
        """List the languages and the other features of the service."""
        return _offer(backend)

    @routes.post("/translate", responses=refusals(400, 403, 408, 413, 422, 429, 503, 504))
    async def translate(request: Request, wanted: TranslateRequest, caller: Caller = by) -> TranslateReply:
        """Translate a text."""
        terms = _terms(backend, wanted.terms)
        source, detected = _source(backend, wanted, caller)
        if source is None:
            raise BadRequest("no model translates the language of the text; if it is wrong, set source to its code")
        text = await unless_left(
            request,
            service.translate(
                wanted.text,
                source,
                wanted.target,
                format=wanted.format,
                n_alternatives=wanted.alternatives,
                terms=terms,
                caller=caller,
            ),
        )
        return TranslateReply(
            text=text.text,
            alternatives=text.alternatives,
            path=text.path,
            detected=detected,
            sentences=[_sentence(sentence) for sentence in text.sentences],
            terms=_used(text.terms),
        )

    @routes.post(
        "/stream",
        response_class=Response,
        responses={200: _STREAM, **refusals(400, 403, 408, 413, 422, 429, 503, 504)},
    )
    async def stream(request: Request, wanted: TextRequest, caller: Caller = by) -> StreamingResponse:
        """Translate a text and send each sentence as soon as it is ready."""
        terms = _terms(backend, wanted.terms)
        source, detected = _source(backend, wanted, caller)
        if source is None:
            assert detected is not None
            return _stream(_unsure(detected))
        path = service.models.path(source, wanted.target)
        codes = [service.models.code(source), *(model.tgt for model in path)]
        results = service.stream(wanted.text, source, wanted.target, terms=terms, caller=caller)
        first = await unless_left(request, _next(results))  # so that the status says what is wrong with the request
        return _stream(_events(StartEvent(path=codes, detected=detected), first, results))

    @routes.post("/corrections", responses=refusals(400, 403, 408, 413, 422, 429, 503))
    async def correct(wanted: CorrectionRequest, caller: Caller = by) -> CorrectionReply:
        """Suggest a better translation of a text or a sentence."""
        service.check_text(wanted.translation, caller)
        verdict = await service.suggest(wanted.source, wanted.target, wanted.text, wanted.translation, caller)
        return CorrectionReply(accepted=verdict.accepted, acts=verdict.acts, reasons=verdict.reasons)


def _add_words(routes: APIRouter, backend: Backend, by: Any) -> None:
    """Add the routes that examine single words of translations. by: depends on the caller."""
    service = backend.service

    @routes.post("/words", responses=refusals(400, 403, 408, 413, 422, 429, 503, 504))
    async def words(request: Request, wanted: WordsRequest, caller: Caller = by) -> WordsReply:
        """Return the probability of each word of translations, which shows the words that deserve a look."""
        pairs = [(pair.src, pair.tgt) for pair in wanted.sentences]
        most = _MOST_TEXTS * (caller.max_chars or backend.cfg.limits.max_chars)
        if (n_chars := sum(len(src + tgt) for src, tgt in pairs)) > most:
            raise TooLarge(f"the sentences have {n_chars} characters; the limit is {most}")
        for index, pair in enumerate(pairs):
            with item_named("sentences", index, len(pairs)):
                service.check_text("".join(pair), caller)
        found = await unless_left(request, service.word_probabilities(pairs, wanted.source, wanted.target))
        return WordsReply(
            sentences=[
                JudgedSentence(
                    probabilities=[round(probability, 4) for probability in probabilities],
                    uncertain=[at for at, probability in enumerate(probabilities, 1) if probability < _UNCERTAIN],
                )
                for probabilities in found
            ]
        )

    @routes.post("/alternatives", responses=refusals(400, 403, 408, 413, 422, 429, 503, 504))
    async def alternatives(request: Request, wanted: OtherWordsRequest, caller: Caller = by) -> OtherWordsReply:
        """Find other words for a position of a translation, each with the translation that follows from it."""
        found = await unless_left(
            request,
            service.other_words(
                *(wanted.sentence, wanted.translation, wanted.position, wanted.source, wanted.target), caller=caller
            ),
        )
        others = [
            OtherWord(word=other["word"], probability=other["probability"], translation=other["text"])
            for other in found["others"]
        ]
        return OtherWordsReply(word=found["word"], probability=found["probability"], others=others)


def _add_documents(routes: APIRouter, backend: Backend, by: Any) -> None:
    """Add the routes of documents. by: depends on the caller."""

    @routes.post("/documents", status_code=202, responses=refusals(400, 403, 408, 413, 422, 429, 503))
    async def send_document(
        file: UploadFile,
        target: Annotated[Target, Form()],
        source: Annotated[
            SourceOrAuto, Form(description="language of the document; auto: the service detects it")
        ] = AUTO,
        terms: Annotated[str, Form(description="one term per line: source words, a tab, target words")] = "",
        caller: Caller = by,
    ) -> DocumentReply:
        """Upload a document. The service translates it when its turn comes."""
        lines = [(src, tgt) for src, _, tgt in (line.partition("\t") for line in lines_in(terms) if line.strip())]
        language = None if source == AUTO else source
        job = await backend.documents.submit(
            await file.read(), file.filename or "", language, target, caller=caller, terms=_terms(backend, lines)
        )
        return _document(job)

    @routes.get("/documents/{id}", responses=refusals(403, 404, 429))
    async def document(id: str, caller: Caller = by) -> DocumentReply:
        """Return the progress of a document."""
        return _document(backend.documents.get(id, caller))

    @routes.get("/documents/{id}/result", response_class=Response, responses={200: _FILE, **refusals(403, 404, 429)})
    async def document_result(id: str, caller: Caller = by) -> Response:
        """Download a translated document."""
        job = backend.documents.get(id, caller)
        raw = job.result
        if raw is None:
            raise NotFound(f"the document cannot be downloaded: its status is {job.status}")
        disposition = f"attachment; filename*=UTF-8''{quote(job.name, safe='')}"
        return Response(raw, media_type="application/octet-stream", headers={"Content-Disposition": disposition})

    @routes.delete("/documents/{id}", status_code=204, response_class=Response, responses=refusals(403, 404, 429))
    async def remove_document(id: str, caller: Caller = by) -> None:
        """Delete a document and stop its translation."""
        await backend.documents.remove(backend.documents.get(id, caller))


def _offer(backend: Backend) -> Offer:
    models, cfg = backend.service.models, backend.cfg
    ways = [
        (language.code, target, [model.tgt for model in models.path(language.code, target)])
        for language in models.languages
        for target in language.targets
    ]
    return Offer(
        version=__version__,
        languages=[LanguageReply(code=language.code, name=language.name) for language in models.languages],
        pairs=[Pair(source=source, target=target, path=[source, *way]) for source, target, way in ways],
        limits=Limits(**{name: getattr(cfg.limits, name) for name in Limits.model_fields}),
        endings=FILE_EXTENSIONS,
        takes_corrections=backend.corrections is not None,
        takes_keys=cfg.keys.file is not None,
        needs_key=cfg.keys.required,
    )


def _source(backend: Backend, wanted: TextRequest, caller: Caller) -> tuple[str | None, Detected | None]:
    """Return the language to translate the text from, and the detection, if the request asked for it.

    The language is None if the text is clearly in one that no model translates into the target. A text without a
    language is returned unchanged, because it counts as a text in the target language.
    """
    backend.service.check_text(wanted.text, caller)
    target = backend.service.models.code(wanted.target)
    if wanted.source != AUTO:
        return wanted.source, None
    found = backend.detector.detect(wanted.text)
    candidates = [Candidate(language=code, confidence=confidence) for code, confidence in found.candidates]
    chosen = choose_source(found, backend.service.models.sources_of(target), target)
    sure = found.language if chosen.language in (None, found.language) else None
    detected = Detected(language=sure, confidence=found.confidence, candidates=candidates)
    return target if chosen.reported == UNDETERMINED else chosen.language, detected


def _terms(backend: Backend, terms: Sequence[TermLine]) -> Sequence[TermLine]:
    most = backend.cfg.limits.max_terms
    if len(terms) > most:
        raise TooLarge(f"{len(terms)} terms are more than {most}")
    check_terms(terms)
    return terms


def _sentence(sentence: TranslatedSentence) -> SentenceReply:
    return SentenceReply(
        src=sentence.src,
        tgt=sentence.tgt,
        confidence=sentence.confidence,
        faults=sentence.faults,
        alternatives=sentence.others,
        is_correction=sentence.is_correction,
        matches=[SentenceMatch(**match) for match in sentence.matches],
        read_as=sentence.read_as,
    )


def _used(terms: Sequence[TermUse]) -> list[Term]:
    return [Term(**vars(term)) for term in terms]


def _document(job: DocumentJob) -> DocumentReply:
    return DocumentReply(**{name: getattr(job, name) for name in DocumentReply.model_fields})


# Events


def _stream(events: AsyncIterator[str]) -> StreamingResponse:
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # the latter asks nginx to pass them on at once
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


async def _unsure(detected: Detected) -> AsyncIterator[str]:
    yield _event("unsure", detected)


async def _next(results: AsyncIterator[TranslatedSentence | TranslatedText]) -> TranslatedSentence | TranslatedText:
    return await anext(results)


async def _events(
    start: StartEvent,
    first: TranslatedSentence | TranslatedText,
    others: AsyncIterator[TranslatedSentence | TranslatedText],
) -> AsyncIterator[str]:
    yield _event("start", start)
    yield _result(first)
    try:
        async for result in others:
            yield _result(result)
    except Refusal as refusal:
        error = ErrorEvent(status=refusal.status, error=str(refusal), retry_after=refusal.retry_after_s)
        yield _event("error", error)


def _result(result: TranslatedSentence | TranslatedText) -> str:
    if isinstance(result, TranslatedSentence):
        return _event("sentence", _sentence(result))
    return _event("done", DoneEvent(text=result.text, terms=_used(result.terms)))


def _event(name: str, data: BaseModel) -> str:
    return f"event: {name}\ndata: {data.model_dump_json()}\n\n"

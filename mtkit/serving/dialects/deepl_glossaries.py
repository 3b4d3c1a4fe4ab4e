"""The glossary routes of DeepL's API, versions 2 and 3."""

import asyncio
from collections.abc import Sequence

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from mtkit.languages import primary_code
from mtkit.serving.backend import Backend
from mtkit.serving.caller import Caller
from mtkit.serving.dialects.deepl_messages import (
    ChangeRequest,
    DictionaryEntries,
    DictionaryReply,
    DictionaryRequest,
    EntriesReply,
    GlossaryList,
    GlossaryReply,
    GlossaryRequest,
    LanguagePair,
    LanguagePairs,
    Message,
    MultilingualList,
    MultilingualReply,
    MultilingualRequest,
)
from mtkit.serving.dialects.openapi import refusals, takes
from mtkit.serving.dialects.values import FORM, JSON, address_of, read_values
from mtkit.serving.records.glossaries import Dictionary, Glossaries, Glossary, Pair, read_entries
from mtkit.serving.refusals import BadRequest, Forbidden
from mtkit.serving.texts import TermLine, TermLookup

TSV = "text/tab-separated-values"
_SCHEME = "deepl-auth-key"


def caller_of(backend: Backend, request: Request, key: str | None = None) -> Caller:
    """Return the caller by the key in the Authorization header or in the values. Raises Refusal."""
    scheme, _, in_header = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == _SCHEME:
        key = in_header.strip()
    return backend.gate.admit(key, address_of(request))


def code_of(backend: Backend, parameter: str, language: str) -> str:
    """Return the code of a served language. Raises BadRequest that names the request's parameter for another."""
    try:
        return backend.service.models.code(language)
    except BadRequest as error:
        raise BadRequest(f"{parameter}: {error}") from None


async def terms_of(backend: Backend, ids: Sequence[str], pair: Pair, caller: Caller) -> TermLookup:
    """Return a lookup of the glossaries' terms for a pair of languages; the first term of each source wins.

    Raises Refusal, as the lookup does if a glossary is deleted before it is used.
    """
    glossaries, pair = _of(backend, caller), _bare(pair)

    async def lookup(sentences: Sequence[str]) -> list[TermLine]:
        terms: dict[str, str] = {}
        for id in ids:
            terms = {**await glossaries.terms_in(sentences, id, caller, pair), **terms}
        return list(terms.items())

    await lookup(())
    return lookup


def router(backend: Backend) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(tags=["DeepL"])
    _add_version_2(routes, backend)
    _add_version_3(routes, backend)
    _add_dictionaries(routes, backend)
    return routes


WRITING = refusals(400, 403, 404, 408, 413, 429, 456, 503, model=Message)
READING = refusals(400, 403, 404, 429, 503, model=Message)


def _add_version_2(routes: APIRouter, backend: Backend) -> None:
    """Add the routes of version 2: glossaries for one pair of languages, which cannot be changed."""

    @routes.get("/v2/glossary-language-pairs", responses={200: {"model": LanguagePairs}, **READING})
    async def glossary_language_pairs(request: Request) -> Response:
        """List the language pairs that glossaries can have."""
        caller_of(backend, request)
        pairs = dict.fromkeys(_bare((model.src, model.tgt)) for model in backend.service.models.models)
        supported = [LanguagePair(source_lang=src, target_lang=tgt) for src, tgt in pairs]
        return JSONResponse(LanguagePairs(supported_languages=supported).model_dump())

    @routes.post(
        "/v2/glossaries",
        status_code=201,
        responses={201: {"model": GlossaryReply}, **WRITING},
        openapi_extra=takes(GlossaryRequest, JSON, FORM),
    )
    async def create_glossary(request: Request) -> Response:
        """Create a glossary for one pair of languages."""
        values = await read_values(request, GlossaryRequest)
        caller = caller_of(backend, request, values.auth_key)
        pair, entries = await _dictionary(backend, values)
        return _json(_monolingual(await _of(backend, caller).create(caller, values.name, {pair: entries})), 201)

    @routes.get("/v2/glossaries", responses={200: {"model": GlossaryList}, **READING})
    async def list_glossaries(request: Request) -> Response:
        """List the glossaries for a single pair of languages."""
        caller = caller_of(backend, request)
        found = await _of(backend, caller).all_of(caller)
        single = [_monolingual(glossary) for glossary in found if len(glossary.dictionaries) == 1]
        return _json(GlossaryList(glossaries=single))

    @routes.get("/v2/glossaries/{glossary_id}", responses={200: {"model": GlossaryReply}, **READING})
    async def get_glossary(glossary_id: str, request: Request) -> Response:
        """Describe a glossary."""
        caller = caller_of(backend, request)
        return _json(_monolingual(await _of(backend, caller).get(glossary_id, caller)))

    @routes.get(
        "/v2/glossaries/{glossary_id}/entries",
        response_class=Response,
        responses={200: {"content": {TSV: {"schema": {"type": "string"}}}}, **READING},
    )
    async def get_glossary_entries(glossary_id: str, request: Request) -> Response:
        """Return the entries of a glossary."""
        caller = caller_of(backend, request)
        [dictionary] = _single(await _of(backend, caller).get(glossary_id, caller))
        entries = await _of(backend, caller).entries(glossary_id, caller, dictionary.pair)
        return PlainTextResponse(_as_tsv(entries), media_type=TSV)

    @routes.delete("/v2/glossaries/{glossary_id}", status_code=204, response_class=Response, responses=READING)
    @routes.delete("/v3/glossaries/{glossary_id}", status_code=204, response_class=Response, responses=READING)
    async def delete_glossary(glossary_id: str, request: Request) -> Response:
        """Delete a glossary."""
        caller = caller_of(backend, request)
        await _of(backend, caller).remove(glossary_id, caller)
        return Response(status_code=204)


def _add_version_3(routes: APIRouter, backend: Backend) -> None:
    """Add the routes of version 3: glossaries of several dictionaries, which can be changed."""

    @routes.post(
        "/v3/glossaries",
        status_code=201,
        responses={201: {"model": MultilingualReply}, **WRITING},
        openapi_extra=takes(MultilingualRequest, JSON),
    )
    async def create_multilingual_glossary(request: Request) -> Response:
        """Create a glossary."""
        values = await read_values(request, MultilingualRequest)
        caller = caller_of(backend, request)
        dictionaries = await _dictionaries(backend, values.dictionaries)
        return _json(_multilingual(await _of(backend, caller).create(caller, values.name, dictionaries)), 201)

    @routes.get("/v3/glossaries", responses={200: {"model": MultilingualList}, **READING})
    async def list_multilingual_glossaries(request: Request) -> Response:
        """List all glossaries."""
        caller = caller_of(backend, request)
        found = await _of(backend, caller).all_of(caller)
        return _json(MultilingualList(glossaries=list(map(_multilingual, found))))

    @routes.get("/v3/glossaries/{glossary_id}", responses={200: {"model": MultilingualReply}, **READING})
    async def get_multilingual_glossary(glossary_id: str, request: Request) -> Response:
        """Describe a glossary."""
        caller = caller_of(backend, request)
        return _json(_multilingual(await _of(backend, caller).get(glossary_id, caller)))

    @routes.patch(
        "/v3/glossaries/{glossary_id}",
        responses={200: {"model": MultilingualReply}, **WRITING},
        openapi_extra=takes(ChangeRequest, JSON),
    )
    async def change_glossary(glossary_id: str, request: Request) -> Response:
        """Rename a glossary or add entries to its dictionaries."""
        values = await read_values(request, ChangeRequest)
        caller = caller_of(backend, request)
        entries = await _dictionaries(backend, values.dictionaries)
        return _json(
            _multilingual(await _of(backend, caller).update(glossary_id, caller, name=values.name, entries=entries))
        )


def _add_dictionaries(routes: APIRouter, backend: Backend) -> None:
    """Add the routes of version 3 for single dictionaries of a glossary."""

    @routes.get("/v3/glossaries/{glossary_id}/entries", responses={200: {"model": EntriesReply}, **READING})
    async def get_dictionary(glossary_id: str, source_lang: str, target_lang: str, request: Request) -> Response:
        """Return the entries of a dictionary."""
        caller = caller_of(backend, request)
        pair = _bare((source_lang, target_lang))
        entries = _as_tsv(await _of(backend, caller).entries(glossary_id, caller, pair))
        dictionary = DictionaryEntries(source_lang=pair[0], target_lang=pair[1], entries=entries)
        return _json(EntriesReply(dictionaries=[dictionary]))

    @routes.put(
        "/v3/glossaries/{glossary_id}/dictionaries",
        responses={200: {"model": DictionaryReply}, **WRITING},
        openapi_extra=takes(DictionaryRequest, JSON, FORM),
    )
    async def replace_dictionary(glossary_id: str, request: Request) -> Response:
        """Replace the entries of a dictionary, or create it."""
        values = await read_values(request, DictionaryRequest)
        caller = caller_of(backend, request)
        pair, entries = await _dictionary(backend, values)
        return _json(_described(await _of(backend, caller).replace(glossary_id, caller, pair, entries)))

    @routes.delete(
        "/v3/glossaries/{glossary_id}/dictionaries", status_code=204, response_class=Response, responses=READING
    )
    async def delete_dictionary(glossary_id: str, source_lang: str, target_lang: str, request: Request) -> Response:
        """Delete a dictionary."""
        pair = _bare((source_lang, target_lang))
        caller = caller_of(backend, request)
        await _of(backend, caller).remove_dictionary(glossary_id, caller, pair)
        return Response(status_code=204)


def _of(backend: Backend, caller: Caller) -> Glossaries:
    """Return the glossaries. Raises Forbidden if there are none, or if the caller could be anyone."""
    if backend.glossaries is None:
        raise Forbidden("this service does not keep glossaries; its operator can set `glossaries` to a file for them")
    check_known(caller, backend, "a glossary")
    return backend.glossaries


def check_known(caller: Caller, backend: Backend, what: str) -> None:
    """Raise Forbidden if a caller who wants to keep something here could be anyone."""
    if not (caller.name or backend.cfg.is_private):
        raise Forbidden(f"{what} needs an API key, because the service cannot tell callers without one apart")


def _bare(pair: Pair) -> Pair:
    """Return a pair of languages without scripts and regions."""
    return primary_code(pair[0]), primary_code(pair[1])


async def _dictionary(backend: Backend, values: DictionaryRequest) -> tuple[Pair, list[TermLine]]:
    """Return the pair of languages and the entries of a dictionary. Raises BadRequest."""
    src = code_of(backend, "source_lang", values.source_lang)
    tgt = code_of(backend, "target_lang", values.target_lang)
    if len(backend.service.models.path(src, tgt)) != 1:
        raise BadRequest(f"no single model translates {values.source_lang} into {values.target_lang}")
    pair = _bare((values.source_lang, values.target_lang))
    return pair, await asyncio.to_thread(read_entries, values.entries, values.entries_format, pair)


async def _dictionaries(backend: Backend, values: Sequence[DictionaryRequest]) -> dict[Pair, list[TermLine]]:
    dictionaries = dict([await _dictionary(backend, dictionary) for dictionary in values])
    if len(dictionaries) < len(values):
        raise BadRequest("two dictionaries are for the same pair of languages")
    return dictionaries


def _single(glossary: Glossary) -> Sequence[Dictionary]:
    if len(glossary.dictionaries) != 1:
        raise BadRequest(f"the glossary has {len(glossary.dictionaries)} dictionaries; use /v3/glossaries")
    return glossary.dictionaries


def _monolingual(glossary: Glossary) -> GlossaryReply:
    [dictionary] = _single(glossary)
    return GlossaryReply(
        glossary_id=glossary.id,
        name=glossary.name,
        creation_time=glossary.created,
        **_described(dictionary).model_dump(),
    )


def _multilingual(glossary: Glossary) -> MultilingualReply:
    return MultilingualReply(
        glossary_id=glossary.id,
        name=glossary.name,
        dictionaries=list(map(_described, glossary.dictionaries)),
        creation_time=glossary.created,
    )


def _described(dictionary: Dictionary) -> DictionaryReply:
    src, tgt = dictionary.pair
    return DictionaryReply(source_lang=src, target_lang=tgt, entry_count=dictionary.n_entries)


def _as_tsv(entries: Sequence[TermLine]) -> str:
    return "\n".join("\t".join(entry) for entry in entries)


def _json(reply: object, status: int = 200) -> JSONResponse:
    return JSONResponse(reply.model_dump(), status)  # type: ignore[attr-defined]

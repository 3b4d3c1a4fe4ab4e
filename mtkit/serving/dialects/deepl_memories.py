"""The translation memory routes of DeepL's API, version 3."""

from collections.abc import Callable
from functools import partial
from itertools import islice

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from mtkit.languages import are_one_language
from mtkit.memory.index import Memory
from mtkit.serving.backend import Backend
from mtkit.serving.caller import Caller
from mtkit.serving.dialects.deepl_glossaries import READING, WRITING, caller_of, check_known
from mtkit.serving.dialects.deepl_messages import (
    ExportParameters,
    ExportReply,
    ImportReply,
    ImportRequest,
    JobAction,
    JobError,
    JobParameters,
    JobReply,
    JobResult,
    MemoryList,
    MemoryReply,
    Segment,
    SegmentList,
    TargetSegment,
)
from mtkit.serving.dialects.openapi import takes
from mtkit.serving.dialects.values import JSON, read_values
from mtkit.serving.records.memories import Memories, MemoryJob, MemoryUse, StoredMemory
from mtkit.serving.refusals import BadRequest, Forbidden

_ROOT = "/v3/translation_memories"
_MOST_MEMORIES, _MOST_SEGMENTS = 25, 100  # on a page, as DeepL has it
_LEAST_FILTER_CHARS = 2  # as DeepL has it
_XML = "application/xml"
_FILE = {"requestBody": {"required": True, "content": {_XML: {"schema": {"type": "string", "format": "binary"}}}}}


async def memory_of(
    backend: Backend, id: str | None, threshold: int, pair: tuple[str | None, str], caller: Caller
) -> MemoryUse | None:
    """Return the memory that a request from one language into another names, if it names one. Raises Refusal."""
    if not id:
        return None
    memory, use = await _of(backend, caller).use(id, caller, threshold)
    if pair[0] is None:
        raise BadRequest("a translation memory needs source_lang")
    if not all(are_one_language(mine, theirs or "") for mine, theirs in zip(memory.langs, pair, strict=True)):
        raise BadRequest(f"the translation memory is for {'-'.join(memory.langs)}, not for {pair[0]}-{pair[1]}")
    return use


def router(backend: Backend) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(tags=["DeepL"])
    _add_jobs(routes, backend)
    _add_memories(routes, backend)
    return routes


def _add_memories(routes: APIRouter, backend: Backend) -> None:
    @routes.get(_ROOT, responses={200: {"model": MemoryList}, **READING})
    async def list_memories(
        request: Request, page: int = Query(0, ge=0), page_size: int = Query(10, ge=1, le=_MOST_MEMORIES)
    ) -> Response:
        """List the translation memories, page_size at a time; the first page is 0."""
        caller = caller_of(backend, request)
        found = await _of(backend, caller).all_of(caller)
        shown = found[page * page_size : (page + 1) * page_size]
        return _json(MemoryList(translation_memories=list(map(_reply, shown)), total_count=len(found)))

    @routes.get(f"{_ROOT}/{{memory_id}}", responses={200: {"model": MemoryReply}, **READING})
    async def get_memory(memory_id: str, request: Request) -> Response:
        """Describe a translation memory."""
        caller = caller_of(backend, request)
        return _json(_reply(await _of(backend, caller).get(memory_id, caller)))

    @routes.get(f"{_ROOT}/{{memory_id}}/segments", responses={200: {"model": SegmentList}, **READING})
    async def list_segments(
        memory_id: str,
        request: Request,
        page_size: int = Query(50, ge=1, le=_MOST_SEGMENTS),
        page_cursor: str = Query("0", pattern="^[0-9]{1,10}$"),
        filter_text: str = Query("", description="only segments with this text in their source or target"),
        filter_case_sensitive: bool = False,
    ) -> Response:
        """List the segments of a translation memory, page_size at a time."""
        caller = caller_of(backend, request)
        if filter_text and len(filter_text) < _LEAST_FILTER_CHARS:
            raise BadRequest(f"filter_text: give at least {_LEAST_FILTER_CHARS} characters")
        same: Callable[[str], str] = str if filter_case_sensitive else str.casefold
        work = partial(_segments, after=int(page_cursor), n=page_size, text=same(filter_text), same=same)
        return _json(await _of(backend, caller).read(memory_id, caller, work))

    @routes.delete(f"{_ROOT}/{{memory_id}}", status_code=204, response_class=Response, responses=READING)
    async def delete_memory(memory_id: str, request: Request) -> Response:
        """Delete a translation memory."""
        caller = caller_of(backend, request)
        await _of(backend, caller).remove(memory_id, caller)
        return Response(status_code=204)


def _add_jobs(routes: APIRouter, backend: Backend) -> None:
    @routes.post(
        f"{_ROOT}/import",
        responses={200: {"model": ImportReply}, **WRITING},
        openapi_extra=takes(ImportRequest, JSON),
    )
    async def start_import(request: Request) -> Response:
        """Announce a TMX file with two languages, to be uploaded to the address in the reply."""
        values = await read_values(request, ImportRequest)
        caller = caller_of(backend, request)
        name = values.parameters.display_name or values.source_file.file_name
        job = await _of(backend, caller).announce(caller, name, values.source_file.content_length)
        return _json(ImportReply(job_id=job.id, upload_url=_address(request, "uploads", job), expires_at=job.expires))

    @routes.put(f"{_ROOT}/uploads/{{secret}}", response_class=Response, responses=WRITING, openapi_extra=_FILE)
    async def upload(secret: str, request: Request) -> Response:
        """Upload the file of an import. The address is its key."""
        await _any(backend).receive(secret, await request.body())
        return Response(status_code=200)

    @routes.get(
        f"{_ROOT}/downloads/{{secret}}", response_class=Response, responses={200: {"content": {_XML: {}}}, **READING}
    )
    async def download(secret: str) -> Response:
        """Download the file of an export. The address is its key."""
        return StreamingResponse(await _any(backend).download(secret), media_type=_XML)

    @routes.get(f"{_ROOT}/jobs/{{job_id}}", responses={200: {"model": JobReply}, **READING})
    async def get_job(job_id: str, request: Request) -> Response:
        """Return the state of an import or an export."""
        caller = caller_of(backend, request)
        return _json(_job_reply(await _of(backend, caller).job(job_id, caller), request))

    @routes.post(f"{_ROOT}/{{memory_id}}/export", status_code=202, responses={202: {"model": ExportReply}, **WRITING})
    async def start_export(memory_id: str, request: Request) -> Response:
        """Export a translation memory as TMX."""
        caller = caller_of(backend, request)
        job = await _of(backend, caller).export(memory_id, caller)
        return _json(ExportReply(job_id=job.id, parameters=ExportParameters(translation_memory_id=memory_id)), 202)


def _any(backend: Backend) -> Memories:
    if backend.memories is None:
        raise Forbidden("this service keeps no translation memories; its operator can set `memories` to a folder")
    return backend.memories


def _of(backend: Backend, caller: Caller) -> Memories:
    """Return the memories. Raises Forbidden if there are none, or if the caller could be anyone."""
    memories = _any(backend)
    check_known(caller, backend, "a translation memory")
    return memories


def _segments(memory: Memory, *, after: int, n: int, text: str, same: Callable[[str], str]) -> SegmentList:
    found = (unit for unit in memory.units(after) if not text or text in same(unit[1]) or text in same(unit[2]))
    shown = list(islice(found, n + 1))
    is_more = len(shown) > n
    del shown[n:]
    return SegmentList(
        segments=[
            Segment(
                source_segment_id=f"{id}-{memory.langs[0]}",
                source_text=src,
                targets=[
                    TargetSegment(
                        target_segment_id=f"{id}-{memory.langs[1]}", target_language=memory.langs[1], target_text=tgt
                    )
                ],
            )
            for id, src, tgt in shown
        ],
        segment_count=memory.n_units,
        next_page_cursor=str(shown[-1][0]) if is_more else None,
    )


def _address(request: Request, kind: str, job: MemoryJob) -> str:
    return f"{str(request.base_url).rstrip('/')}{_ROOT}/{kind}/{job.secret}"


def _reply(memory: StoredMemory) -> MemoryReply:
    src, tgt = memory.langs
    return MemoryReply(
        translation_memory_id=memory.id,
        name=memory.name,
        source_language=src,
        target_languages=[tgt],
        segment_count=memory.n_units,
        creation_time=memory.created,
        updated_time=memory.created,
    )


def _job_reply(job: MemoryJob, request: Request) -> JobReply:
    result = JobResult(status=job.status)
    if job.status == "awaiting_input":
        result.status_metadata = JobAction(required_action="upload the file to upload_url")
    elif job.status == "failed":
        result.error = JobError(message=job.error)
    elif job.status == "completed" and job.operation == "import":
        result.translation_memory_id, result.skipped_segment_count = job.memory, job.n_skipped
    elif job.status == "completed":
        result.download_url, result.expires_at = _address(request, "downloads", job), job.expires
    is_import = job.operation == "import"
    return JobReply(
        job_id=job.id,
        operation=job.operation,
        creation_time=job.created,
        updated_time=job.created,
        parameters=JobParameters(display_name=job.name)
        if is_import
        else JobParameters(translation_memory_id=job.memory),
        results=[result],
    )


def _json(reply: object, status: int = 200) -> JSONResponse:
    return JSONResponse(reply.model_dump(exclude_none=True), status)  # type: ignore[attr-defined]

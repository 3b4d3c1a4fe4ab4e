"""The requests and replies of DeepL's API: version 2, and version 3 for glossaries."""

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema, model_validator

from mtkit.serving.dialects.openapi import NO_NUL, TEXT, TEXTS

UNLIMITED = 1_000_000_000_000  # what DeepL gives as the limit of characters of a plan without one


class Message(BaseModel):
    """The reason why the service refused a request."""

    message: str = Field(description="what is wrong, and what to do")


def _split(value: object) -> object:
    return value.split(",") if isinstance(value, str) else value


_Text = Annotated[str, Field(pattern=NO_NUL, json_schema_extra=TEXT)]
_Names = Annotated[
    list[str], BeforeValidator(_split), Field(max_length=100, description="a list, or names with commas between them")
]
_Language = Annotated[str, Field(min_length=1, max_length=100)]
_TRUTHS = {"0": False, "1": True, "false": False, "true": True}
_Truth = Annotated[  # also as text, because some programs send all values so
    bool,
    BeforeValidator(lambda value: _TRUTHS.get(value, value) if isinstance(value, str) else value),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, {"enum": [*_TRUTHS]}]}),
]
_NONE = BeforeValidator(lambda value: value or None)  # some clients send "" for a language to be detected


class _Common(BaseModel):
    """The options of each translation."""

    target_lang: _Language = Field(description="language to translate into; variants such as EN-US count as EN")
    source_lang: Annotated[_Language | None, _NONE] = Field(
        None, description="language of the text; by default the service detects it"
    )
    formality: Literal["default", "more", "less", "prefer_more", "prefer_less"] = Field(
        "default",
        description="the models here have one register: prefer_more and prefer_less are accepted, "
        "more and less are not",
    )
    glossary_id: str | None = Field(None, description="glossary whose terms the translation must contain")
    glossary_ids: _Names | None = Field(
        None,
        max_length=5,
        description="several glossaries, instead of glossary_id; if two define a term, the first one applies",
    )
    style_id: str | None = Field(None, description="not supported")
    translation_memory_id: str | None = Field(
        None, description="translation memory: the translations of sentences that it has exactly are used unchanged"
    )
    translation_memory_threshold: int = Field(
        75,
        ge=0,
        le=100,
        description="lowest score, in percent, of similar sentences in the memory to report; below 50 counts as 50",
    )
    auth_key: str | None = Field(None, description="API key, if it is not in the header Authorization")


class TranslateRequest(_Common):
    """The request of /v2/translate."""

    text: _Text | Annotated[list[_Text], Field(min_length=1, json_schema_extra=TEXTS)] = Field(
        description="one or more texts"
    )
    context: str | None = Field(
        None, description="accepted but ignored: the models here translate sentence by sentence"
    )
    show_billed_characters: _Truth = Field(False, description="whether to report the number of characters")
    split_sentences: Literal["0", "1", "nonewlines"] | None = Field(
        None,
        description="nonewlines: line breaks do not end sentences; the service splits texts into sentences in any case",
    )
    preserve_formatting: _Truth = Field(
        False, description="accepted but ignored: the service always preserves formatting"
    )
    tag_handling: Literal["html", "xml"] | None = Field(None, description="format of the text; default: plain")
    tag_handling_version: Literal["v1", "v2"] | None = Field(None, description="accepted, not used")
    outline_detection: _Truth = Field(
        True, description="XML: detect which elements separate texts; false: only splitting_tags do"
    )
    splitting_tags: _Names | None = Field(None, description="XML: elements that separate texts")
    non_splitting_tags: _Names | None = Field(None, description="XML: elements that are parts of a text")
    ignore_tags: _Names | None = Field(None, description="XML: elements whose content the service leaves untranslated")
    model_type: Literal["latency_optimized", "quality_optimized", "prefer_quality_optimized"] | None = Field(
        None, description="accepted but ignored: there is one model for each pair of languages"
    )
    custom_instructions: list[str] | None = Field(None, description="not supported")


class DocumentRequest(_Common):
    """The fields of /v2/document besides the file."""

    filename: str | None = Field(
        None, max_length=1000, description="file name, if the file's part of the form has none"
    )
    output_format: str | None = Field(None, description="file extension of the result; must be that of the upload")


class DocumentKey(BaseModel):
    """The key that the client received with the document's id."""

    document_key: str
    auth_key: str | None = None


class LanguagesRequest(BaseModel):
    """The request of /v2/languages."""

    type: Literal["source", "target"] = "source"
    auth_key: str | None = None


class TermReport(BaseModel):
    """Whether the translation uses a term of the glossary. DeepL does not report this; its clients skip it."""

    source: str
    target: str
    required: int = Field(description="number of times that the source occurs in the text")
    met: int = Field(description="number of times that the translation uses the glossary's target")


class MatchReport(BaseModel):
    """A sentence of the translation memory like one of the text. DeepL does not report this; its clients skip it."""

    score: int = Field(description="in percent; 100: the sentences are equal, and the target is used unchanged")
    source: str
    target: str
    place: str = Field(description="file and unit that it came from")


class Translation(BaseModel):
    """The translation of one text."""

    detected_source_language: str = Field(description="the language of the text; UND for a text without words")
    text: str
    billed_characters: int | None = Field(None, description="characters of the text, if show_billed_characters was set")
    model_type_used: str | None = Field(None, description="if model_type was given")
    terms: list[TermReport] | None = Field(None, description="if a glossary was given")
    matches: list[MatchReport] | None = Field(None, description="if a translation memory was given")


class TranslateReply(BaseModel):
    """The reply of /v2/translate."""

    translations: list[Translation]


class Language(BaseModel):
    """A language."""

    language: str
    name: str
    supports_formality: bool | None = Field(None, description="of targets only")


class Usage(BaseModel):
    """The characters that the service has translated for a caller since it started, without documents."""

    character_count: int
    character_limit: int = Field(UNLIMITED, description="there is none")


class DocumentHandle(BaseModel):
    """An uploaded document."""

    document_id: str
    document_key: str


class DocumentStatus(BaseModel):
    """The status of a document's translation."""

    document_id: str
    status: Literal["queued", "translating", "done", "error"]
    seconds_remaining: int | None = None
    billed_characters: int | None = None
    error_message: str | None = None


class LanguagePair(BaseModel):
    """A pair of languages that a glossary can have."""

    source_lang: str
    target_lang: str


class LanguagePairs(BaseModel):
    """All pairs of languages that glossaries can have."""

    supported_languages: list[LanguagePair]


_EntriesFormat = Annotated[
    Literal["tsv", "csv"], Field(description="format of the entries, which have a source and a target on each line")
]
_Entries = Annotated[str, Field(min_length=1)]


class DictionaryRequest(BaseModel):
    """The entries for a pair of languages."""

    source_lang: _Language
    target_lang: _Language
    entries: _Entries
    entries_format: _EntriesFormat = "tsv"


class GlossaryRequest(DictionaryRequest):
    """A new glossary of version 2, for one pair of languages."""

    name: str
    auth_key: str | None = None


class _Numbered(BaseModel):
    """Dictionaries, which DeepL's client for Node sends as form fields such as `dictionaries[0].entries`."""

    @model_validator(mode="before")
    @classmethod
    def _gathered(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        fields = [(match, value) for name, value in values.items() if (match := _FIELD.fullmatch(name))]
        numbered: dict[int, dict[str, Any]] = {}
        for match, value in fields:
            numbered.setdefault(int(match["number"]), {})[match["name"]] = value
        return {**values, "dictionaries": [numbered[number] for number in sorted(numbered)]} if numbered else values


_FIELD = re.compile(r"dictionaries\[(?P<number>[0-9]{1,3})\]\.(?P<name>\w+)")


class MultilingualRequest(_Numbered):
    """A new glossary of version 3."""

    name: str
    dictionaries: list[DictionaryRequest] = Field(min_length=1, max_length=100)


class ChangeRequest(_Numbered):
    """A change of a glossary: another name, more entries, or both."""

    name: str | None = None
    dictionaries: list[DictionaryRequest] = Field([], max_length=100)


class GlossaryReply(BaseModel):
    """A glossary of version 2."""

    glossary_id: str
    name: str
    ready: Literal[True] = True
    source_lang: str
    target_lang: str
    creation_time: str
    entry_count: int


class GlossaryList(BaseModel):
    """All glossaries for a single pair of languages."""

    glossaries: list[GlossaryReply]


class DictionaryReply(BaseModel):
    """A dictionary without its entries."""

    source_lang: str
    target_lang: str
    entry_count: int


class MultilingualReply(BaseModel):
    """A glossary of version 3."""

    glossary_id: str
    name: str
    dictionaries: list[DictionaryReply]
    creation_time: str


class MultilingualList(BaseModel):
    """All glossaries."""

    glossaries: list[MultilingualReply]


class DictionaryEntries(BaseModel):
    """The entries of a dictionary."""

    source_lang: str
    target_lang: str
    entries: str
    entries_format: Literal["tsv"] = "tsv"


class EntriesReply(BaseModel):
    """The requested entries."""

    dictionaries: list[DictionaryEntries]


class MemoryReply(BaseModel):
    """A translation memory."""

    translation_memory_id: str
    name: str
    source_language: str
    target_languages: list[str]
    segment_count: int
    creation_time: str
    updated_time: str


class MemoryList(BaseModel):
    """A page of translation memories."""

    translation_memories: list[MemoryReply]
    total_count: int


class TargetSegment(BaseModel):
    """The translation of a segment."""

    target_segment_id: str
    target_language: str
    target_text: str


class Segment(BaseModel):
    """A source segment of a translation memory and its translation."""

    source_segment_id: str
    source_text: str
    targets: list[TargetSegment]


class SegmentList(BaseModel):
    """A page of segments."""

    segments: list[Segment]
    segment_count: int = Field(description="of the whole memory")
    next_page_cursor: str | None = Field(None, description="absent on the last page")


class SourceFile(BaseModel):
    """A file to upload."""

    file_name: str = Field(min_length=1, max_length=1000)
    content_length: int = Field(ge=1, description="bytes")
    content_type: str = "application/xml"


class ImportParameters(BaseModel):
    """The properties of the memory to make."""

    display_name: str | None = Field(None, description="default: the file name")


class ImportRequest(BaseModel):
    """A new import, whose file is uploaded to an address of its own."""

    source_file: SourceFile
    parameters: ImportParameters = ImportParameters()


class ImportReply(BaseModel):
    """An import that waits for its file."""

    job_id: str
    upload_url: str = Field(description="address for the file, with PUT and without a key")
    expires_at: str


class ExportParameters(BaseModel):
    """The memory that is exported."""

    translation_memory_id: str


class ExportReply(BaseModel):
    """An export."""

    job_id: str
    parameters: ExportParameters


class JobError(BaseModel):
    """The reason why a job failed."""

    message: str


class JobAction(BaseModel):
    """What the job waits for."""

    required_action: str


class JobResult(BaseModel):
    """The state of a job."""

    status: Literal["awaiting_input", "processing", "completed", "failed", "expired"]
    status_metadata: JobAction | None = None
    translation_memory_id: str | None = Field(None, description="of a completed import")
    skipped_segment_count: int | None = Field(None, description="of a completed import")
    download_url: str | None = Field(None, description="of a completed export: address of the TMX file, without a key")
    expires_at: str | None = Field(None, description="when the download address stops to work")
    error: JobError | None = None


class JobParameters(BaseModel):
    """The memory that a job makes or reads."""

    display_name: str | None = None
    translation_memory_id: str | None = None


class JobReply(BaseModel):
    """An import or an export of a translation memory."""

    job_id: str
    product: Literal["translation_memory"] = "translation_memory"
    operation: Literal["import", "export"]
    creation_time: str
    updated_time: str
    parameters: JobParameters
    results: list[JobResult]

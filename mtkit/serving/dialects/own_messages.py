"""What our own dialect says: requests, replies and events."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field

from mtkit.serving.dialects.openapi import ALTERNATIVES, CORRECTION, NO_NUL, SOURCE, SOURCE_OR_AUTO, TARGET, TEXT
from mtkit.serving.texts import Format

_MOST_SENTENCES = 2_000  # whose words one request may have judged
AUTO = "auto"  # as the source: find out which language it is


def _not_a_truth_value(value: object) -> object:
    if isinstance(value, bool):  # which Python takes for 0 or 1, but JSON for something else
        raise ValueError("Input should be a number")
    return value


Source = Annotated[str, Field(min_length=1, max_length=100, json_schema_extra=SOURCE)]
SourceOrAuto = Annotated[str, Field(min_length=1, max_length=100, json_schema_extra=SOURCE_OR_AUTO)]
Target = Annotated[str, Field(min_length=1, max_length=100, json_schema_extra=TARGET)]
Text = Annotated[str, Field(min_length=1, pattern=NO_NUL)]
Corrected = Annotated[str, Field(min_length=1, pattern=NO_NUL, json_schema_extra=CORRECTION)]
Number = Annotated[int, BeforeValidator(_not_a_truth_value)]

# Requests


class TextRequest(BaseModel):
    """A text to translate."""

    text: str = Field(pattern=NO_NUL, json_schema_extra=TEXT)
    source: SourceOrAuto = Field(AUTO, description="language of the text; auto: it is detected")
    target: Target
    terms: Sequence[tuple[Text, Text]] = Field(
        (), description="words of the source, each with the words that must stand for them in the translation"
    )


class TranslateRequest(TextRequest):
    """A text to translate, and how."""

    format: Format = "text"
    alternatives: Number = Field(
        0, ge=0, json_schema_extra=ALTERNATIVES, description="further translations of the text and of each sentence"
    )


class SentencePair(BaseModel):
    """A sentence and a translation of it."""

    src: Text
    tgt: Text


class WordsRequest(BaseModel):
    """Translations whose words are to be judged."""

    source: Source
    target: Target
    sentences: Sequence[SentencePair] = Field(max_length=_MOST_SENTENCES)


class OtherWordsRequest(BaseModel):
    """A word of a translation that may be another."""

    source: Source
    target: Target
    sentence: Text
    translation: Text
    position: Number = Field(ge=1, le=100_000, description="of the word in the translation, from 1")


class CorrectionRequest(BaseModel):
    """A better translation of a text or a sentence."""

    source: Source
    target: Target
    text: Corrected
    translation: Corrected


# Replies and events


class LanguageReply(BaseModel):
    """A language."""

    code: str
    name: str = Field(description="in English")


class Pair(BaseModel):
    """Two languages, and the way from one to the other."""

    source: str
    target: str
    path: Sequence[str] = Field(description="codes from source to target; more than two: through another language")


class Limits(BaseModel):
    """What one request may have."""

    max_chars: int
    max_alternatives: int
    max_terms: int
    max_file_mb: float


class Offer(BaseModel):
    """What the service does."""

    version: str
    languages: Sequence[LanguageReply]
    pairs: Sequence[Pair]
    limits: Limits
    endings: Sequence[str] = Field(description="of the names of documents that can be translated, such as .docx")
    takes_corrections: bool
    takes_keys: bool
    needs_key: bool


class Candidate(BaseModel):
    """A language that a text may be in."""

    language: str
    confidence: float


class Detected(BaseModel):
    """The language of a text."""

    language: str | None = Field(description="null: not sure")
    confidence: float
    candidates: Sequence[Candidate] = Field(description="best first")


class SentenceReply(BaseModel):
    """A sentence of a text."""

    src: str
    tgt: str
    confidence: float | None = Field(description="probability, 0 to 1, that it is good, if the model is calibrated")
    faults: Sequence[str] = Field(description="what looks wrong: empty, loop, length, copy, number, url or unfinished")
    alternatives: Sequence[str] = Field(description="further translations, best first")
    is_correction: bool = Field(description="a user corrected it")


class Term(BaseModel):
    """A term that applied, and how often it was met."""

    source: str
    target: str
    required: int
    met: int


class TranslateReply(BaseModel):
    """A translation."""

    text: str
    alternatives: Sequence[str]
    path: Sequence[str] = Field(description="codes from source to target; more than two: through another language")
    detected: Detected | None = Field(description="for the source auto")
    sentences: Sequence[SentenceReply] = Field(description="each different one once, in order")
    terms: Sequence[Term]


class StartEvent(BaseModel):
    """A translation begins."""

    path: Sequence[str]
    detected: Detected | None


class DoneEvent(BaseModel):
    """All sentences have been translated."""

    text: str
    terms: Sequence[Term]


class ErrorEvent(BaseModel):
    """The rest is not translated."""

    status: int = Field(description="as a reply would have had it")
    error: str
    retry_after: int | None = Field(description="seconds")


class JudgedSentence(BaseModel):
    """How sure the model is of the words of a translation, which white space separates."""

    probabilities: Sequence[float] = Field(description="of each word, given those before it")
    uncertain: Sequence[int] = Field(description="positions, from 1, of the words that deserve a look")


class WordsReply(BaseModel):
    """How sure the model is of each sentence of the request."""

    sentences: Sequence[JudgedSentence]


class OtherWord(BaseModel):
    """Another word, and the translation that it leads to."""

    word: str = Field(description="empty: the translation ends before it")
    probability: float
    translation: str


class OtherWordsReply(BaseModel):
    """What could stand at a position of a translation."""

    word: str
    probability: float
    others: Sequence[OtherWord] = Field(description="most probable first")


class DocumentReply(BaseModel):
    """A document, and how far its translation is."""

    id: str
    name: str = Field(description="of the translated file")
    status: Literal["queued", "translating", "done", "error"]
    n_done: int = Field(description="sentences")
    n_total: int = Field(description="sentences; 0 until the document has been read")
    error: str | None


class CorrectionReply(BaseModel):
    """What became of a correction. It is kept in any case."""

    accepted: bool = Field(description="nothing is wrong with it")
    acts: bool = Field(
        description="it is used from now on for who gave it; if it is accepted and does not act, the operator of the "
        "service has to accept it, too"
    )
    reasons: Sequence[str] = Field(description="why it waits for the operator")

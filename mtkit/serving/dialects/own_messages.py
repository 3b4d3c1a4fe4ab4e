"""The requests, replies and events of our own API."""

from collections.abc import Mapping, Sequence
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
    source: SourceOrAuto = Field(AUTO, description="language of the text; auto: the service detects it")
    target: Target
    terms: Sequence[tuple[Text, Text]] = Field(
        (), description="source words, each with the words that must translate them"
    )


class TranslateRequest(TextRequest):
    """A text to translate, with the options of its translation."""

    format: Format = "text"
    alternatives: Number = Field(
        0,
        ge=0,
        json_schema_extra=ALTERNATIVES,
        description="number of additional translations of the text and of each sentence",
    )


class SentencePair(BaseModel):
    """A sentence and a translation of it."""

    src: Text
    tgt: Text


class WordsRequest(BaseModel):
    """Translations to compute word probabilities for."""

    source: Source
    target: Target
    sentences: Sequence[SentencePair] = Field(max_length=_MOST_SENTENCES)


class OtherWordsRequest(BaseModel):
    """A word of a translation to find alternatives for."""

    source: Source
    target: Target
    sentence: Text
    translation: Text
    position: Number = Field(ge=1, le=100_000, description="position of the word in the translation, counted from 1")


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
    """Two languages, and the path of translation between them."""

    source: str
    target: str
    path: Sequence[str] = Field(
        description="codes from source to target; more than two if the path goes through another language"
    )


class Limits(BaseModel):
    """The limits of one request."""

    max_chars: int
    max_alternatives: int
    max_terms: int
    max_file_mb: float


class Offer(BaseModel):
    """The features of the service."""

    version: str
    languages: Sequence[LanguageReply]
    pairs: Sequence[Pair]
    limits: Limits
    endings: Sequence[str] = Field(
        description="file extensions of the documents that the service translates, such as .docx"
    )
    takes_corrections: bool
    takes_keys: bool
    needs_key: bool


class Candidate(BaseModel):
    """A possible language of a text."""

    language: str
    confidence: float


class Detected(BaseModel):
    """The language of a text."""

    language: str | None = Field(description="null: not sure")
    confidence: float
    candidates: Sequence[Candidate] = Field(description="best first")


class SentenceMatch(BaseModel):
    """A sentence of a translation memory."""

    score: int = Field(description="in percent; 100: the sentences are equal, and the target is used unchanged")
    source: str
    target: str
    place: str = Field(description="file and unit that it came from")


class SentenceReply(BaseModel):
    """A sentence of a text."""

    src: str
    tgt: str
    confidence: float | None = Field(
        description="probability, from 0 to 1, that the translation is good, if the model is calibrated"
    )
    faults: Sequence[str] = Field(
        description="suspected faults: empty, loop, length, omission, copy, number, url, left or unfinished"
    )
    alternatives: Sequence[str] = Field(description="additional translations, best first")
    is_correction: bool = Field(description="whether it is a user's correction")
    matches: Sequence[SentenceMatch] = Field(description="sentences of the service's translation memory like this one")
    read_as: Mapping[str, str] = Field(
        description="words that the training text lacks, with the similar words as which the model has read them"
    )


class Term(BaseModel):
    """A term that applied, and how often the translation uses it."""

    source: str
    target: str
    required: int
    met: int


class TranslateReply(BaseModel):
    """A translation."""

    text: str
    alternatives: Sequence[str]
    path: Sequence[str] = Field(
        description="codes from source to target; more than two if the path goes through another language"
    )
    detected: Detected | None = Field(description="if the source was auto")
    sentences: Sequence[SentenceReply] = Field(description="each distinct term once, in order")
    terms: Sequence[Term]


class StartEvent(BaseModel):
    """The event that starts a translation."""

    path: Sequence[str]
    detected: Detected | None


class DoneEvent(BaseModel):
    """The event after the last sentence."""

    text: str
    terms: Sequence[Term]


class ErrorEvent(BaseModel):
    """The event that ends a translation with an error; the rest is not translated."""

    status: int = Field(description="the HTTP status that a plain request would have received")
    error: str
    retry_after: int | None = Field(description="seconds")


class JudgedSentence(BaseModel):
    """The probabilities of the words of a translation; white space separates words."""

    probabilities: Sequence[float] = Field(description="probability of each word, given the words before it")
    uncertain: Sequence[int] = Field(description="positions of the words that deserve a look, counted from 1")


class WordsReply(BaseModel):
    """The word probabilities of each sentence of the request."""

    sentences: Sequence[JudgedSentence]


class OtherWord(BaseModel):
    """Another word, and the translation that it leads to."""

    word: str = Field(description="empty if the translation ends before this position")
    probability: float
    translation: str


class OtherWordsReply(BaseModel):
    """The alternatives for a position of a translation."""

    word: str
    probability: float
    others: Sequence[OtherWord] = Field(description="most probable first")


class DocumentReply(BaseModel):
    """A document and the progress of its translation."""

    id: str
    name: str = Field(description="name of the translated file")
    status: Literal["queued", "translating", "done", "error"]
    n_done: int = Field(description="sentences")
    n_total: int = Field(description="number of sentences; 0 until the service has read the document")
    error: str | None


class CorrectionReply(BaseModel):
    """The outcome of a correction, which the service keeps in any case."""

    accepted: bool = Field(description="whether it passed all checks")
    acts: bool = Field(
        description="whether the service uses it from now on for this user; a correction that was accepted but "
        "does not "
        "act must also be accepted by the operator"
    )
    reasons: Sequence[str] = Field(description="why the operator must review it")

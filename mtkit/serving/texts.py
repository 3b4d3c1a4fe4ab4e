"""Split the text of a request into sentences, and build its translation from theirs."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from mtkit.documents.document import Document
from mtkit.documents.filling import fill, paragraphs_of, sentences_to_translate
from mtkit.documents.reading import Options, document_of
from mtkit.documents.sentences import Sentence, Translated
from mtkit.errors import DataError, MtkitError
from mtkit.memory.index import Memory
from mtkit.search.phrases import any_case, capitalised, folded
from mtkit.serving.models import Model
from mtkit.serving.refusals import BadText, without_options

if TYPE_CHECKING:
    from mtkit.serving.records.memories import MemoryUse

Format = Literal["text", "html"]
Reader = Callable[[str], Document]  # raises DataError for a text that it cannot read
TermLine = tuple[str, str]  # source, target
TermLookup = Callable[[Sequence[str]], Awaitable[Sequence[TermLine]]]  # finds the terms that occur in sentences
Terms = Sequence[TermLine] | TermLookup  # a lookup stands for a glossary, which is too large for each message

_LARGE = 5_000  # characters of plain text, which take some 10 ms to read and fill
# Texts that would hold up the event loop are read and filled here. Few threads, because each that computes can keep the
# loop's thread waiting for the interpreter for 5 ms.
_THREADS = ThreadPoolExecutor(2, "mtkit-texts")

_T = TypeVar("_T")


@dataclass(frozen=True)
class TermUse:
    """A term of a request's terminology that applied, and how often the translation uses it."""

    source: str
    target: str
    required: int  # times
    met: int  # of them


@dataclass(frozen=True)
class TranslatedSentence:
    """A sentence of a text."""

    src: str
    tgt: str
    confidence: float | None  # the probability, 0 to 1, that it is good; None without a calibration, or if pivoted
    faults: Sequence[str]  # what looks wrong, such as "loop"
    others: Sequence[str]  # further translations, best first
    is_correction: bool = False
    matches: Sequence[Mapping[str, Any]] = ()  # in the translation memory: `Match.as_json`
    read_as: Mapping[str, str] = field(default_factory=dict)  # words with a typo, and those as which they were read


@dataclass(frozen=True)
class TranslatedText:
    """A text's translation."""

    text: str
    alternatives: Sequence[str]
    path: Sequence[str]  # language codes from source to target, with those between them
    sentences: Sequence[TranslatedSentence]  # each different one once, in order
    terms: Sequence[TermUse]


@dataclass(frozen=True)
class Result:
    """A sentence's translation by one or more models."""

    translated: Translated
    terms: Sequence[Mapping[str, Any]] = ()
    is_correction: bool = False

    def sentence(self, src: str) -> TranslatedSentence:
        """Return the result as a response shows it. src: the sentence."""
        found = self.translated
        return TranslatedSentence(
            *(src, found.text, found.confidence, found.faults, found.others, self.is_correction),
            matches=() if self.is_correction else found.matches,
            read_as=found.read_as,
        )


@dataclass(frozen=True)
class SourceText:
    """A text as a document with its sentences."""

    document: Document
    sentences: Sequence[Sentence]
    is_large: bool  # to fill it takes long

    @classmethod
    async def read(cls, text: str, format: Format, src: str, read: Reader | None = None) -> "SourceText":
        """Read a text in a language, with the given reader if there is one.

        Raises BadText if the text is not in this format.
        """
        is_large = len(text) > _LARGE or format != "text" or read is not None
        try:
            document, sentences = await _apart(partial(_read, text, read or partial(_read_as, format, src)), is_large)
        except (MtkitError, UnicodeEncodeError) as error:
            raise BadText(without_options(str(error))) from None
        return cls(document, sentences, is_large)

    async def joined(self, model: Model, use: "MemoryUse | None" = None) -> "SourceText":
        """Return the text with each paragraph that the translation memory of `in_memory` has as one sentence."""
        if use is None and model.memory is None:
            return self

        def sentences() -> list[Sentence]:
            return sentences_to_translate(self.document, in_memory(paragraphs_of(self.document), model, use))

        return replace(self, sentences=await _apart(sentences, is_large=True))

    async def translated(
        self, results: Mapping[str, Result], codes: Sequence[str], n_alternatives: int = 0
    ) -> TranslatedText:
        """Return the translation of the text.

        results: by source sentence. codes: the languages from source to target.
        """
        translations = {text: result.translated for text, result in results.items()}
        whole, others = await _apart(partial(_fill, self.document, translations, n_alternatives), self.is_large)
        sentences = [result.sentence(text) for text, result in results.items()]
        return TranslatedText(whole, others, codes, sentences, _term_uses(results.values()))


def in_memory(texts: Iterable[str], model: Model, use: "MemoryUse | None") -> set[str]:
    """Return those of the texts whose translations are in the translation memory of a request, or else of the model."""
    try:
        if use is None:
            return set() if model.memory is None else {text for text in texts if model.memory.usable(text)}
        with closing(Memory.open(use.path)) as memory:
            return {text for text in texts if memory.usable(text)}
    except DataError:  # such as of a memory that was deleted meanwhile; the worker reports it
        return set()


async def _apart(work: Callable[[], _T], is_large: bool) -> _T:
    """Run work for a text, in a thread if the text is large, so that the event loop can serve other requests."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS, work) if is_large else work()


def _read(text: str, read: Reader) -> tuple[Document, list[Sentence]]:
    document = read(text)
    return document, sentences_to_translate(document)


def _read_as(format: Format, src: str, text: str) -> Document:
    return document_of(text.encode("utf-8"), format, Options(format=format, src_lang=src), "text")


def _fill(document: Document, results: Mapping[str, Translated], n_alternatives: int) -> tuple[str, list[str]]:
    """Return the translated text and its alternatives: the k-th uses each sentence's k-th one, if it has that many."""
    texts = [fill(document, results).raw.decode("utf-8")]
    for k in range(n_alternatives):
        kth = {
            text: replace(result, text=result.others[k]) for text, result in results.items() if k < len(result.others)
        }
        if kth:
            texts.append(fill(document, {**results, **kth}).raw.decode("utf-8"))
    return texts[0], list(dict.fromkeys(texts[1:]))


def corrected_text(text: str, correction: str, path: Sequence[Model]) -> TranslatedText:
    """Return the correction of a whole text as its translation."""
    sentence = TranslatedSentence(text, correction, None, (), (), is_correction=True)
    return TranslatedText(correction, (), [path[0].src, *(model.tgt for model in path)], [sentence], ())


def with_correction(translated: TranslatedText, text: str, correction: str, n: int) -> TranslatedText:
    """Make a whole text's correction its translation, and the model's translation one of n alternatives."""
    others = dict.fromkeys(other for other in (translated.text, *translated.alternatives) if other != correction)
    sentence = TranslatedSentence(text, correction, None, (), (), is_correction=True)
    return replace(translated, text=correction, alternatives=list(others)[:n], sentences=[sentence])


def _term_uses(results: Iterable[Result]) -> list[TermUse]:
    """Return the terms that applied, with their counts summed over all sentences."""
    uses: dict[int, TermUse] = {}
    for result in results:
        for term in result.terms:
            use = uses.get(term["line"], TermUse(term["source"], " | ".join(term["target"]), 0, 0))
            uses[term["line"]] = replace(use, required=use.required + term["required"], met=use.met + term["met"])
    return [uses[line] for line in sorted(uses)]


def whole_terms(sentences: Sequence[Sentence], terms: Sequence[TermLine]) -> dict[str, Result]:
    """Return the translations of sentences that are nothing but a term: its target, the first if it has several."""
    by_source: dict[str, list[tuple[int, TermLine]]] = {}
    for number, (source, target) in enumerate(terms, start=2):  # the line in a terminology file
        by_source.setdefault(folded(" ".join(source.split())), []).append((number, (source, target)))
    found = {}
    for sentence in sentences:
        bare = " ".join(sentence.text.split())
        for number, (source, target) in () if sentence.is_marked else by_source.get(folded(bare), ()):
            if any_case(source) or bare in (source, capitalised(source)):
                use = {"line": number, "source": source, "target": [target], "required": 1, "met": 1}
                found[sentence.text] = Result(Translated(target.split(" | ")[0].strip()), [use])
    return found


def term_lines(terms: Sequence[TermLine]) -> tuple[str, ...]:
    """Return terms as the lines of a terminology file."""
    if not terms:
        return ()
    tidy = [" ".join(cell.split()) for term in terms for cell in term]
    return ("source\ttarget", *(f"{src}\t{tgt}" for src, tgt in zip(tidy[::2], tidy[1::2], strict=True)))

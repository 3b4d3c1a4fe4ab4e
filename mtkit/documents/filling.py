"""Fill a document with the translations of its sentences, and note what a person should look at."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mtkit.documents.document import Document, Filled, Segment
from mtkit.documents.paragraphs import Paragraph, assemble, sentences_of
from mtkit.documents.sentences import Sentence, Translated

LEFT = "left"  # the segment is as it was in the source
CHECK = "check"  # its translation looks wrong
PLACED = "placed"  # placeholders or codes were put in their places by force


@dataclass(frozen=True)
class Note:
    """A segment that a person should look at."""

    place: str  # in the document, such as "word/footnotes.xml, paragraph 3"
    kind: str  # "left" as it was, "check": the translation looks wrong, "placed": a place is a guess
    reason: str
    src: str
    tgt: str


@dataclass(frozen=True)
class TranslatedDocument:
    """A translated document."""

    raw: bytes  # of the file
    n_segments: int  # paragraphs, headings, cells, ...
    n_sentences: int  # in all segments
    n_codes: int  # codes, or pairs of codes
    notes: tuple[Note, ...]  # in the order of the document


def sentences_to_translate(document: Document) -> list[Sentence]:
    """Return the document's sentences, in order, each once; those in a segment with codes are marked."""
    marked: dict[str, bool] = {}
    for segment in _segments(document):
        for sentence in sentences_of(segment.inline):
            marked[sentence.text] = marked.get(sentence.text, False) or sentence.is_marked
    return [Sentence(text, is_marked) for text, is_marked in marked.items()]


def fill(document: Document, results: Mapping[str, Translated]) -> TranslatedDocument:
    """Return the document with its sentences translated. results: by the sentences' texts."""
    n_sentences = n_codes = 0
    notes: list[Note] = []
    merged = []
    for part in document.parts:
        translations: dict[int, Filled] = {}
        of_segment: dict[int, list[Note]] = {}
        for index, segment in enumerate(part.reading.all_segments):
            n_sentences += len(sentences_of(segment.inline))
            n_codes += segment.inline.n_places
            paragraph = assemble(segment.inline, results, segment.write)
            place = ", ".join(filter(None, [part.name, segment.place]))
            of_segment[index] = list(_notes(segment, paragraph, place))
            if not any(note.kind == LEFT for note in of_segment[index]):
                translations[index] = Filled(paragraph.text, bool(of_segment[index]))
        text, left = part.merged(translations)
        for index, why in left.items():
            segment = part.reading.all_segments[index]
            place = ", ".join(filter(None, [part.name, segment.place]))
            of_segment[index] = [Note(place, LEFT, why, segment.inline.text, translations[index].text)]
        notes += [note for found in of_segment.values() for note in found]
        merged.append(part.encode(text))
    n_segments = sum(1 for _ in _segments(document))
    return TranslatedDocument(document.pack(merged), n_segments, n_sentences, n_codes, tuple(notes))


def _segments(document: Document) -> Iterable[Segment]:
    return (segment for part in document.parts for segment in part.reading.all_segments)


REASONS = {  # by fault: what a sentence does
    "codes": "it is one text of so many words and tags that placing these would take too long; divide it",
    "empty": "the model translated a sentence into nothing",
    "loop": "repeats itself",
    "length": "has an unlikely length",
    "copy": "copies the source",
    "number": "loses a number",
    "url": "loses an address",
    "unfinished": "hit the length limit",
}


def _notes(segment: Segment, paragraph: Paragraph, place: str) -> Iterable[Note]:
    src, tgt = segment.inline.text, paragraph.plain
    for fault in ("empty", "codes"):
        if fault in paragraph.faults:
            yield Note(place, LEFT, REASONS[fault], src, src)
            return
    if paragraph.faults:
        yield Note(place, CHECK, ", ".join(REASONS[fault] for fault in paragraph.faults), src, tgt)
    forced = Counter({"placeholder": paragraph.n_placed, "tag": paragraph.n_guessed})
    for noun, n in forced.items():
        if n:
            what = f"the place of 1 {noun} is a guess" if n == 1 else f"the places of {n} {noun}s are guesses"
            yield Note(place, PLACED, what, src, tgt)

"""Fill a document with the translations of its sentences, and note what a person should look at."""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mtkit.documents.document import Document, Part, shown
from mtkit.documents.sentences import Alignment, Sentence, Translated
from mtkit.documents.skeleton import Filled, Segment
from mtkit.languages import is_another_language
from mtkit.quality.faults import WHY_LEFT
from mtkit.text.inline import LONGEST_SENTENCE, Inline, Interval
from mtkit.text.scripts import is_in_another_script
from mtkit.text.transfer import transfer
from mtkit.text.words import word_spans
from mtkit.translation.candidates import gap_after

LEFT = "left"  # the segment is as it was in the source
CHECK = "check"  # its translation looks wrong
PLACED = "placed"  # the places of some placeholders or codes are guesses
MATCH = "match"  # a sentence has a match in the translation memory
_MOST_CELLS = 20_000_000  # of the weights of a segment's words: 160 MB
_WORDS_A_CODE = 20  # that take as long as a code: so that the time for a segment stays at some seconds


@dataclass(frozen=True)
class Paragraph:
    """A segment's translation, and what a person should know about it."""

    text: str  # with the codes
    plain: str  # without
    faults: tuple[str, ...]  # of its sentences, each kind once
    n_placed: int  # placeholders, by the alignment
    n_guessed: int  # codes or pairs of codes whose place no alignment shows


@dataclass(frozen=True)
class Note:
    """A segment that a person should look at."""

    place: str  # in the document, such as "word/footnotes.xml, paragraph 3"
    kind: str  # LEFT, CHECK, PLACED or MATCH
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
    notes: tuple[Note, ...]  # what a person should look at, in the order of the document
    matches: tuple[Note, ...] = ()  # of sentences in the translation memory, in the same order


def paragraphs_of(document: Document) -> list[str]:
    """Return the text of each segment that is more than one sentence, each once, to look it up in a memory."""
    inlines = (segment.inline for segment in _segments(document))
    return list(dict.fromkeys(i.text.strip() for i in inlines if i.sentences and i.sentences != [_whole(i)]))


def sentences_to_translate(document: Document, whole: Container[str] = ()) -> list[Sentence]:
    """Return the document's sentences, in order, each once; those in a segment with codes are marked.

    whole: paragraphs, as `paragraphs_of` returns them, that count as one sentence.
    """
    marked: dict[str, bool] = {}
    for segment in _segments(document):
        for sentence in sentences_of(segment.inline, whole):
            if _is_foreign(sentence.text, segment, document):
                continue
            marked[sentence.text] = marked.get(sentence.text, False) or sentence.is_marked
    return [Sentence(text, is_marked) for text, is_marked in marked.items()]


def fill(document: Document, results: Mapping[str, Translated]) -> TranslatedDocument:
    """Return the document with its sentences translated. results: by the texts of sentences or whole paragraphs."""
    n_sentences = n_codes = 0
    notes: list[Note] = []
    matches: list[Note] = []
    merged = []
    for part in document.parts:
        translations: dict[int, Filled] = {}
        of_segment: dict[int, list[Note]] = {}
        for index, segment in enumerate(part.reading.all_segments):
            n_sentences += len(segment.inline.sentences)
            n_codes += segment.inline.n_places
            of_sentences = {
                sentence.text: Translated(sentence.text, ("foreign",))
                if _is_foreign(sentence.text, segment, document)
                else results[sentence.text]
                for sentence in sentences_of(segment.inline, results)
            }
            matches += _matches(of_sentences, _place(part, segment))
            paragraph = assemble(segment.inline, of_sentences, segment.write)
            of_segment[index] = list(_notes(segment, paragraph, _place(part, segment)))
            if not any(note.kind == LEFT for note in of_segment[index]):
                translations[index] = Filled(paragraph.text, bool(of_segment[index]))
        text, left = part.merged(translations)
        for index, why in left.items():
            segment = part.reading.all_segments[index]
            of_segment[index] = [Note(_place(part, segment), LEFT, why, segment.inline.text, translations[index].text)]
        notes += [note for found in of_segment.values() for note in found]
        merged.append(part.encode(text))
    n_segments = sum(1 for _ in _segments(document))
    return TranslatedDocument(document.pack(merged), n_segments, n_sentences, n_codes, tuple(notes), tuple(matches))


def _is_foreign(sentence: str, segment: Segment, document: Document) -> bool:
    """Return whether a sentence is not in the source language: by its script, or as the document says."""
    return is_another_language(segment.lang, document.src_lang) or is_in_another_script(sentence, document.src_lang)


def _place(part: Part[Any], segment: Segment) -> str:
    return ", ".join(filter(None, [shown(part.name), segment.place]))


def _segments(document: Document) -> Iterable[Segment]:
    return (segment for part in document.parts for segment in part.reading.all_segments)


REASONS = {  # by fault: what a sentence does
    "codes": "it is one text with so many words and tags that placing them would take too long; split it",
    "foreign": "it is in another language",
    "empty": "the model returned an empty translation for a sentence",
    "loop": "repeats itself",
    "length": "has an unlikely length",
    "omission": "leaves out a part of the source",
    "copy": "copies the source",
    "number": "loses a number",
    "url": "loses an address",
    "left": f"it has {WHY_LEFT}",
    "unfinished": "hit the length limit",
}
_OF_A_PART = {  # what a segment does that has other text, too, which is translated
    "foreign": "keeps a sentence in another language",
    "left": f"leaves text untranslated ({WHY_LEFT})",
}


def _notes(segment: Segment, paragraph: Paragraph, place: str) -> Iterable[Note]:
    src, tgt = segment.inline.text, paragraph.plain
    for fault in ("empty", "codes", *_OF_A_PART):
        if fault in paragraph.faults and (fault not in _OF_A_PART or src == tgt):
            yield Note(place, LEFT, REASONS[fault], src, src)
            return
    reasons = {**REASONS, **_OF_A_PART}
    found = [reasons[fault] for fault in paragraph.faults]
    found += [f'keeps "{phrase}", which is in another language' for phrase in segment.foreign]
    if found:
        yield Note(place, CHECK, ", ".join(found), src, tgt)
    forced = Counter({"placeholder": paragraph.n_placed, "tag": paragraph.n_guessed})
    for noun, n in forced.items():
        if n:
            what = f"the place of 1 {noun} is a guess" if n == 1 else f"the places of {n} {noun}s are guesses"
            yield Note(place, PLACED, what, src, tgt)


def _matches(results: Mapping[str, Translated], place: str) -> Iterable[Note]:
    """Yield the matches of a segment's sentences in the translation memory. results: by the sentences' texts."""
    for src, translated in results.items():
        for match in translated.matches:
            reason = f"{match['score']} % match from {match['place']}"
            if match["score"] < 100:
                reason += f": {match['source']} → {match['target']}"
            yield Note(place, MATCH, reason, src, translated.text)


def sentences_of(inline: Inline, whole: Container[str] = ()) -> list[Sentence]:
    """Return the sentences of a segment, in order; only the segment itself if its text is in `whole`."""
    return [
        Sentence(inline.text[start:end], bool(inline.spans) and end - start <= LONGEST_SENTENCE)
        for start, end in _intervals(inline, whole)
    ]


def _intervals(inline: Inline, whole: Container[str]) -> list[Interval]:
    return [_whole(inline)] if inline.text.strip() in whole else inline.sentences


def _whole(inline: Inline) -> Interval:
    start = len(inline.text) - len(inline.text.lstrip())
    return start, start + len(inline.text.strip())


def assemble(inline: Inline, results: Mapping[str, Translated], write: Callable[[str], str] = str) -> Paragraph:
    """Return a segment's translation from those of its sentences.

    results: by the texts of its sentences, or of the whole segment. What stands between sentences stays as it is; where
    nothing does, there is a space if the translation puts one between its sentences.
    write: turns text into that of the document.
    """
    intervals = _intervals(inline, results)
    found = [_as_it_was(results[inline.text[start:end]], inline.text[start:end]) for start, end in intervals]
    plain, tgt_intervals, at = "", [], 0
    is_same = all(inline.text[start:end] == one.text for (start, end), one in zip(intervals, found, strict=True))
    for (start, end), translated in zip(intervals, found, strict=True):
        is_glued = start == at and not (is_same or inline.text[at - 1 : at].isalnum())
        plain += gap_after(plain, None) if is_glued else inline.text[at:start]
        tgt_intervals.append((len(plain), len(plain) + len(translated.text)))
        plain += translated.text
        at = end
    plain += inline.text[at:]
    of_each = ([*translated.faults, *([] if translated.text.strip(" ") else ["empty"])] for translated in found)
    faults = tuple(dict.fromkeys(fault for of_one in of_each for fault in of_one))  # empty: also without guardrails
    n_placed = sum(translated.n_placed for translated in found)
    if not inline.spans:
        return Paragraph(inline.source if plain == inline.text else write(plain), plain, faults, n_placed, 0)
    alignments = [translated.alignment or Alignment((), (), ()) for translated in found]
    src_words, in_src = _words(inline.text, intervals, [alignment.src for alignment in alignments])
    tgt_words, in_tgt = _words(plain, tgt_intervals, [alignment.tgt for alignment in alignments])
    if len(tgt_words) * max(len(src_words), _WORDS_A_CODE * inline.n_places) > _MOST_CELLS:
        return Paragraph(inline.source, plain, (*faults, "codes"), n_placed, 0)
    weights = np.zeros((len(tgt_words), len(src_words)))
    for (row, _), (column, _), alignment in zip(in_tgt, in_src, alignments, strict=True):
        if alignment.tgt and alignment.src:
            weights[row : row + len(alignment.tgt), column : column + len(alignment.src)] = alignment.weights
    weights[_others(tgt_words, in_tgt), _others(src_words, in_src)] = 1  # what stands between sentences is the same
    moved = transfer(inline, plain, weights, write, (src_words, tgt_words), list(zip(in_src, in_tgt, strict=True)))
    return Paragraph(moved.text, plain, faults, n_placed, moved.n_guessed)


def _as_it_was(translated: Translated, src: str) -> Translated:
    """Return the translation; with the white space of the source if nothing else differs."""
    return replace(translated, text=src) if translated.text.split() == src.split() else translated


def _words(
    text: str, intervals: Sequence[Interval], of_sentences: Sequence[Sequence[Interval]]
) -> tuple[list[Interval], list[Interval]]:
    """Return the words of a text, those between its sentences among them, and which of them each sentence has."""
    words: list[Interval] = []
    found: list[Interval] = []
    at = 0
    for (start, end), in_sentence in zip(intervals, of_sentences, strict=True):
        words += _shifted(word_spans(text[at:start]), at)
        first = len(words)
        words += _shifted(in_sentence or word_spans(text[start:end]), start)
        found.append((first, len(words)))
        at = end
    return [*words, *_shifted(word_spans(text[at:]), at)], found


def _others(words: Sequence[Interval], of_sentences: Sequence[Interval]) -> list[int]:
    """Return the indices of the words that belong to no sentence."""
    inside = {index for start, end in of_sentences for index in range(start, end)}
    return [index for index in range(len(words)) if index not in inside]


def _shifted(words: Sequence[Interval], by: int) -> list[Interval]:
    return [(start + by, end + by) for start, end in words]

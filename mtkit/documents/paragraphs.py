"""Put the translations of a segment's sentences together, and its codes into them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mtkit.documents.inline import Inline
from mtkit.documents.sentences import Alignment, Sentence, Translated, cut
from mtkit.documents.transfer import Interval, transfer, words_of

_MOST_CELLS = 20_000_000  # of the weights of a segment's words: 160 MB
_WORDS_A_CODE = 20  # that take as long as a code: so that the time for a segment stays at some seconds


@dataclass(frozen=True)
class Paragraph:
    """A segment's translation, and what a person should know of it."""

    text: str  # with the codes
    plain: str  # without
    faults: tuple[str, ...]  # of its sentences, each kind once
    n_placed: int  # placeholders, by the alignment
    n_guessed: int  # codes or pairs of codes whose place no alignment shows


def sentences_of(inline: Inline) -> list[Sentence]:
    """Return the sentences of a segment, in order."""
    return [Sentence(inline.text[start:end], bool(inline.spans)) for start, end in cut(inline.text)]


def assemble(inline: Inline, results: Mapping[str, Translated], write: Callable[[str], str] = str) -> Paragraph:
    """Return a segment's translation from those of its sentences.

    results: by the sentences' texts. What stands between sentences stays as it is.
    write: turns text into that of the document.
    """
    intervals = cut(inline.text)
    found = [_as_it_was(results[inline.text[start:end]], inline.text[start:end]) for start, end in intervals]
    plain, tgt_intervals, at = "", [], 0
    for (start, end), translated in zip(intervals, found, strict=True):
        plain += inline.text[at:start]
        tgt_intervals.append((len(plain), len(plain) + len(translated.text)))
        plain += translated.text
        at = end
    plain += inline.text[at:]
    faults = tuple(dict.fromkeys(fault for translated in found for fault in translated.faults))
    n_placed = sum(translated.n_placed for translated in found)
    if not inline.spans:
        return Paragraph(inline.source if plain == inline.text else write(plain), plain, faults, n_placed, 0)
    alignments = [translated.alignment or Alignment((), (), ()) for translated in found]
    src_words, src_first = _words(inline.text, intervals, [alignment.src for alignment in alignments])
    tgt_words, tgt_first = _words(plain, tgt_intervals, [alignment.tgt for alignment in alignments])
    if len(tgt_words) * max(len(src_words), _WORDS_A_CODE * inline.n_places) > _MOST_CELLS:
        return Paragraph(inline.source, plain, (*faults, "codes"), n_placed, 0)
    weights = np.zeros((len(tgt_words), len(src_words)))
    for row, column, alignment in zip(tgt_first, src_first, alignments, strict=True):
        if alignment.tgt and alignment.src:
            weights[row : row + len(alignment.tgt), column : column + len(alignment.src)] = alignment.weights
    moved = transfer(inline, plain, weights, write, (src_words, tgt_words))
    return Paragraph(moved.text, plain, faults, n_placed, moved.n_guessed)


def _as_it_was(translated: Translated, src: str) -> Translated:
    """Return the translation; with the white space of the source if nothing else differs."""
    return replace(translated, text=src) if translated.text.split() == src.split() else translated


def _words(
    text: str, intervals: Sequence[Interval], of_sentences: Sequence[Sequence[Interval]]
) -> tuple[list[Interval], list[int]]:
    """Return the words of a text, those between its sentences among them, and the index of each sentence's first."""
    words: list[Interval] = []
    first: list[int] = []
    at = 0
    for (start, end), in_sentence in zip(intervals, of_sentences, strict=True):
        words += _shifted(words_of(text[at:start]), at)
        first.append(len(words))
        words += _shifted(in_sentence or words_of(text[start:end]), start)
        at = end
    return [*words, *_shifted(words_of(text[at:]), at)], first


def _shifted(words: Sequence[Interval], by: int) -> list[Interval]:
    return [(start + by, end + by) for start, end in words]

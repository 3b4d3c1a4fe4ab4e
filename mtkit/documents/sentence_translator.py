"""Translate the sentences of documents: keep placeholders exactly, and align the words where there are codes.

Importing this loads no torch: a document without tags is translated by CTranslate2 alone.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mtkit.documents.sentences import Alignment, Sentence, Translated
from mtkit.text.inline import Interval
from mtkit.text.placeholders import PROSE
from mtkit.text.transfer import Words
from mtkit.text.words import word_spans
from mtkit.translation.candidates import Translation
from mtkit.translation.translator import Translator


class SentenceTranslator:
    """Translates sentences. A translation depends only on its sentence."""

    def __init__(
        self,
        translator: Translator,
        patterns: Sequence[str] = PROSE,
        *,
        n_best: int = 1,
        check_direction: bool = True,
    ) -> None:
        """patterns: of what is kept exactly. n_best, check_direction: as for `Translator.session`."""
        self._translator = translator
        protecting = translator.protecting(patterns)
        self._protector = protecting.reader.protector
        self._session = protecting.session(n_best=n_best, check_direction=check_direction)

    def translate(self, batch: Sequence[Sentence], first_line: int | None = None) -> list[Translated]:
        """Return the translations of sentences, in order. first_line: number of the first; default: the next."""
        found = self._session.translate([sentence.text for sentence in batch], first_line)
        marked = [index for index, sentence in enumerate(batch) if sentence.is_marked and found[index].text]
        alignments = dict(zip(marked, self.align([(batch[i].text, found[i].text) for i in marked]), strict=True))
        return [
            Translated(
                translation.text,
                _faults(translation),
                translation.n_best[0].n_placed,
                alignments.get(index),
                _others(translation),
                self._translator.confidence(translation.n_best[0]),
                [match.as_json() for match in translation.matches],
                dict(translation.respelt),
            )
            for index, translation in enumerate(found)
        ]

    def in_memory(self, texts: Sequence[str]) -> set[str]:
        """Return those of the texts whose translations are in the translation memory, if there is one."""
        matcher = self._translator.reader.matcher
        return set() if matcher is None else {texts[index] for index in matcher.settled_lines(texts)}

    def align(self, pairs: Sequence[tuple[str, str]]) -> list[Alignment]:
        """Return how the words of sentences and of their translations correspond.

        Protected text corresponds to itself. The model aligns the rest, and does not see it.
        """
        values = [self._protector.values(src) for src, _ in pairs]
        kept = [tuple(_places(text, of_pair) for text in pair) for pair, of_pair in zip(pairs, values, strict=True)]
        words: list[Words] = [
            (self._words(src, of_src), self._words(tgt, of_tgt))
            for (src, tgt), (of_src, of_tgt) in zip(pairs, kept, strict=True)
        ]
        read = [
            (_blanked(src, of_src), _blanked(tgt, of_tgt))
            for (src, tgt), (of_src, of_tgt) in zip(pairs, kept, strict=True)
        ]
        alignments: list[Alignment] = []
        found = self._translator.aligner.weights(read, words)
        for pair, of_pair, of_words, weights in zip(pairs, values, words, found, strict=True):
            for row, column in _same(pair, of_words, of_pair):
                weights[row, :], weights[:, column] = 0, 0
                weights[row, column] = 1
            alignments.append(Alignment(*of_words, np.round(weights, 4).tolist()))
        return alignments

    def _words(self, text: str, kept: Sequence[Interval]) -> list[Interval]:
        """Return the words of a sentence or of its translation; each placeholder is one word."""
        own = self._translator.placeholders
        return word_spans(text, kept if own is None else _merged(kept, own.spans(text)))

    def note(self) -> dict[str, Any]:
        """Return what was noticed so far as JSON, for `absorb`."""
        return self._session.note()

    def absorb(self, note: Mapping[str, Any]) -> None:
        """Add what another translator of the same settings noticed in the sentences that come next."""
        self._session.absorb(note)

    def report(self) -> None:
        """Log what a translation memory had and which terms were met; faults are in the translations."""
        self._session.report_aids()


def _faults(translation: Translation) -> list[str]:
    """Return what looks wrong with a translation, each kind once."""
    unfinished = [] if translation.finished else ["unfinished"]
    return [*dict.fromkeys(fault.kind for fault in translation.faults), *unfinished]


def _others(translation: Translation) -> list[str]:
    """Return further translations, each once."""
    texts = dict.fromkeys(candidate.text for candidate in translation.n_best)
    return [text for text in texts if text not in ("", translation.text)]


def _blanked(text: str, spans: Sequence[Interval]) -> str:
    """Return the text with spaces in the place of some of it."""
    for start, end in spans:
        text = text[:start] + " " * (end - start) + text[end:]
    return text


def _same(pair: tuple[str, str], words: Words, values: Sequence[str]) -> list[tuple[int, int]]:
    """Map protected words of the target to those of the source: the k-th to the k-th."""
    places: list[defaultdict[str, list[int]]] = []
    for text, of_text in zip(pair, words, strict=True):
        places.append(defaultdict(list))
        for index, (start, end) in enumerate(of_text):
            places[-1][text[start:end]].append(index)
    in_src, in_tgt = places
    return [link for value in dict.fromkeys(values) for link in zip(in_tgt[value], in_src[value], strict=False)]


def _places(text: str, values: Sequence[str]) -> list[Interval]:
    """Return where values stand in a text, the longest first, without overlap, in order."""
    found: list[Interval] = []
    for value in sorted(set(values), key=len, reverse=True):
        for match in re.finditer(re.escape(value), text):
            if all(match.end() <= start or match.start() >= end for start, end in found):
                found.append(match.span())
    return sorted(found)


def _merged(first: Sequence[Interval], second: Sequence[Interval]) -> list[Interval]:
    """Return the intervals of both, without those of the second that overlap the first."""
    free = [(s, e) for s, e in second if all(e <= start or s >= end for start, end in first)]
    return sorted([*first, *free])

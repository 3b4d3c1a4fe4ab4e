"""Translate the sentences of documents: keep placeholders exactly, and align the words where there are codes.

Importing this loads no torch: a document without tags is translated by CTranslate2 alone.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mtkit.bundle import load_model
from mtkit.console import log
from mtkit.documents.sentences import Alignment, Sentence, Translated
from mtkit.errors import UsageError
from mtkit.text.inline import Code, Inline, Interval, Part, inline_of
from mtkit.text.transfer import Floats, Words, transfer
from mtkit.text.words import word_spans
from mtkit.tokens.placeholders import Placeholders
from mtkit.translation.candidates import Translation
from mtkit.translation.translator import Translator

if TYPE_CHECKING:
    from mtkit.alignment.lexicon import AlignmentLexicon
    from mtkit.model.transformer import Transformer


class SentenceTranslator:
    """Translates sentences. A translation depends only on its sentence."""

    def __init__(
        self,
        translator: Translator,
        patterns: Sequence[str] = (),
        *,
        n_best: int = 1,
        check_direction: bool = True,
    ) -> None:
        """patterns: of what is kept exactly. n_best, check_direction: as for `Translator.session`."""
        self._translator = translator
        self._patterns = Placeholders(patterns)
        self._session = translator.session(n_best=n_best, check_direction=check_direction)

    def translate(self, batch: Sequence[Sentence], first_line: int | None = None) -> list[Translated]:
        """Return the translations of sentences, in order. first_line: number of the first; default: the next."""
        found = self._session.translate([sentence.text for sentence in batch], first_line)
        texts = [translation.text for translation in found]
        lost = [
            index
            for index, sentence in enumerate(batch)
            if not _keeps(self._patterns.values(sentence.text), texts[index], self._patterns)
        ]
        for index, (text, translation) in zip(lost, self._with_codes([batch[i].text for i in lost]), strict=True):
            texts[index], found[index] = text, translation
        marked = [index for index, sentence in enumerate(batch) if sentence.is_marked and texts[index]]
        pairs = [(batch[index].text, texts[index]) for index in marked]
        alignments = dict(zip(marked, self.align(pairs), strict=True))
        return [
            Translated(
                text,
                _faults(translation),
                self._n_kept(sentence) if i in lost else 0,
                alignments.get(i),
                self._others(sentence, translation, text),
                self._translator.confidence(translation.n_best[0]),
            )
            for i, (sentence, translation, text) in enumerate(zip(batch, found, texts, strict=True))
        ]

    def align(self, pairs: Sequence[tuple[str, str]]) -> list[Alignment]:
        """Return how the words of sentences and of their translations correspond."""
        words = [(self._words(src, src), self._words(tgt, src)) for src, tgt in pairs]
        return [
            Alignment(src, tgt, np.round(weights, 4).tolist())
            for (src, tgt), weights in zip(words, self._weights(pairs, words), strict=True)
        ]

    def _weights(self, pairs: Sequence[tuple[str, str]], words: Sequence[Words]) -> list[Floats]:
        if not pairs:
            return []
        from mtkit.alignment.attention import interval_weights

        tokenizers = self._translator.src_tokenizer, self._translator.tgt_tokenizer
        return interval_weights(self._model, *tokenizers, pairs, words, self._lexicon)

    @cached_property
    def _model(self) -> "Transformer":
        """The model whose attention aligns: that of the engine, or loaded beside an engine that shows none."""
        from mtkit.engines.native import NativeEngine

        engine = self._translator.engine
        if isinstance(engine, NativeEngine):
            return engine.models[0]
        if self._translator.files is None:
            raise UsageError("tags need a model that was loaded from a bundle")
        return load_model(self._translator.files).eval()

    @cached_property
    def _lexicon(self) -> "AlignmentLexicon | None":
        from mtkit.alignment.lexicon import alignment_lexicon

        return alignment_lexicon(self._translator.files)

    def _words(self, text: str, src: str) -> list[Interval]:
        """Return the words of a sentence or of its translation; each placeholder is one word."""
        kept = _places(text, self._patterns.values(src))
        own = self._translator.placeholders
        return word_spans(text, kept if own is None else _merged(kept, own.spans(text)))

    def _others(self, sentence: Sentence, translation: Translation, text: str) -> list[str]:
        """Return further translations that keep the placeholders, each once."""
        values = self._patterns.values(sentence.text)
        kept = [other.text for other in translation.n_best if _keeps(values, other.text, self._patterns)]
        return [other for other in dict.fromkeys(kept) if other not in ("", text)]

    def _n_kept(self, sentence: Sentence) -> int:
        return len(self._patterns.values(sentence.text))

    def _with_codes(self, texts: Sequence[str]) -> list[tuple[str, Translation]]:
        """Translate sentences without their placeholders, and put these back by the alignment of the words.

        Also return what was translated.
        """
        inlines = [self._inline(text) for text in texts]
        session = self._translator.session(check_direction=False)
        found = session.translate([inline.text for inline in inlines]) if inlines else []
        pairs = [(inline.text, translation.text) for inline, translation in zip(inlines, found, strict=True)]
        words = [(word_spans(src), word_spans(tgt)) for src, tgt in pairs]
        weights = self._weights(pairs, words)
        moved = [
            transfer(inline, translation.text, of_words, words=of_line).text if translation.text else inline.source
            for inline, translation, of_words, of_line in zip(inlines, found, weights, words, strict=True)
        ]
        return list(zip(moved, found, strict=True))

    def _inline(self, text: str) -> Inline:
        parts: list[Part] = []
        at = 0
        for start, end in self._patterns.spans(text):
            parts += [text[at:start], Code(text[start:end], "single")]
            at = end
        return inline_of([part for part in [*parts, text[at:]] if part])

    def note(self) -> dict[str, Any]:
        """Return what was noticed so far as JSON, for `absorb`."""
        return self._session.note()

    def absorb(self, note: Mapping[str, Any]) -> None:
        """Add what another translator of the same settings noticed in the sentences that come next."""
        self._session.absorb(note)

    def report(self) -> None:
        """Log which terms were met, if there is a terminology; faults are in the translations."""
        for line in () if self._session.terms is None else self._session.terms.lines():
            log.info(line)


def _faults(translation: Translation) -> list[str]:
    """Return what looks wrong with a translation, each kind once."""
    unfinished = [] if translation.finished else ["unfinished"]
    return [*dict.fromkeys(fault.kind for fault in translation.faults), *unfinished]


def _keeps(values: Sequence[str], text: str, patterns: Placeholders) -> bool:
    """Return whether a translation has the placeholders of its source, each as often."""
    return not values or sorted(values) == sorted(patterns.values(text))


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

"""Take protected text out of a source, and put it into the translation of the rest by the alignment of the words."""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from mtkit.bundle import BundleFiles, load_model
from mtkit.search.hypothesis import Engine
from mtkit.text.inline import Code, Inline, Interval, Part, inline_of
from mtkit.text.sentences import FINAL, without_closing
from mtkit.text.transfer import Floats, Words, is_between_words, transfer
from mtkit.text.words import has_letters, word_spans
from mtkit.tokens.tokenizer import Tokenizer

if TYPE_CHECKING:
    from mtkit.alignment.lexicon import AlignmentLexicon
    from mtkit.model.transformer import Transformer

_ENDS_BEFORE = (" ", *".,;:!?…)]}»”。，、；：！？")  # what a removed part with a space before it may stand before

_BRACKETS = {"(": ")", "[": "]", "{": "}", "<": ">", "“": "”", "«": "»"}
_MARKS = re.compile(r"[^\w\s]+(?=\s)")  # the full stop of "1. "


def without(text: str, spans: Sequence[Interval]) -> Inline:
    """Return the text without these parts, each of which becomes a code; also without what belongs only to them.

    That is the brackets around them, and what stands among those before all words, or after all of them.
    """
    parts: list[Part] = []
    at = 0
    for start, end in _with_marks(text, spans):
        parts += [text[at:start], Code(text[start:end], "single", is_text=True)]
        at = end
    return inline_of([part for part in [*parts, text[at:]] if part])


def _with_marks(text: str, spans: Sequence[Interval]) -> list[Interval]:
    spans = [_with_brackets(text, span) for span in spans]
    ends = [0, *(end for _, end in spans)]
    between = zip(ends, [*(start for start, _ in spans), len(text)], strict=True)
    words = [index for start, end in between for index in range(start, end) if text[index].isalnum()]
    if not words:
        return [(0, len(text))]
    first = [span for span in spans if span[0] < words[0]]
    last = [span for span in spans if span[0] > words[-1]]
    spans = [span for span in spans if words[0] < span[0] < words[-1]]
    if first:
        marks = _MARKS.match(text, first[-1][1])
        spans.insert(0, (first[0][0], marks.end() if marks else first[-1][1]))
    if last:
        ends_before = without_closing(text[: last[0][0]]).endswith(tuple(FINAL))
        spans.append((last[0][0], len(text) if ends_before else last[-1][1]))
    return spans


def _with_brackets(text: str, span: Interval) -> Interval:
    start, end = span
    closing = _BRACKETS.get(text[start - 1 : start])
    return (start - 1, end + 1) if closing and text[end : end + 1] == closing else span


def readable(inline: Inline) -> str:
    """Return what is left of such a text for the model: without the spaces that belonged to what was removed.

    "" if it has no words.
    """
    if not any(character.isalnum() for character in inline.text):
        return ""
    read, at = "", 0
    for span in inline.spans:
        read, at = read + inline.text[at : span.start], span.start
        if inline.text[at : at + 1].startswith(_ENDS_BEFORE):
            read = read.rstrip(" ")
    return (read + inline.text[at:]).strip()


class Aligner:
    """Aligns the words of texts and translations; loads a model only when the first pair needs it."""

    def __init__(self, engine: Engine, tokenizers: tuple[Tokenizer, Tokenizer], files: BundleFiles | None) -> None:
        """tokenizers: of source and target. files: the bundle of the engine's first model."""
        self._engine, self._tokenizers, self._files = engine, tokenizers, files

    def weights(self, pairs: Sequence[tuple[str, str]], words: Sequence[Words]) -> list[Floats]:
        """Return how strongly words of translations and of their sources correspond: per pair (target, source).

        Rows add up to at most 1. Without a model, words correspond at like places.
        """
        if not pairs:
            return []
        if self._model is None:
            return [_like_places(*of_pair) for of_pair in words]
        from mtkit.alignment.attention import interval_weights

        return interval_weights(self._model, *self._tokenizers, pairs, words, self._lexicon)

    def put_back(self, inlines: Sequence[Inline], translations: Sequence[str]) -> list[tuple[str, int]]:
        """Return translations of what `readable` leaves, with the codes; and how many codes stand between words.

        The alignment decides on the places of those alone: others stay at the beginning or the end.
        """
        words = [
            (word_spans(inline.text), word_spans(text)) for inline, text in zip(inlines, translations, strict=True)
        ]
        n_between = [sum(is_between_words(inline.text, span) for span in inline.spans) for inline in inlines]
        asked = [i for i, n in enumerate(n_between) if n and translations[i]]
        pairs = [(readable(inlines[i]), translations[i]) for i in asked]
        read = [(word_spans(src), word_spans(tgt)) for src, tgt in pairs]
        weights = {
            i: found if found.shape[1] == len(words[i][0]) else _like_places(*words[i])
            for i, found in zip(asked, self.weights(pairs, read), strict=True)
        }
        placed = []
        for i, (inline, text) in enumerate(zip(inlines, translations, strict=True)):
            if not has_letters(text) and not readable(inline):
                placed.append((inline.source, 0))
                continue
            of_words = weights.get(i, np.zeros((len(words[i][1]), len(words[i][0]))))
            placed.append((transfer(inline, text, of_words, words=words[i]).text, n_between[i] if text else 0))
        return placed

    @cached_property
    def _model(self) -> "Transformer | None":
        """The model whose attention aligns: that of the engine, or loaded beside an engine that shows none."""
        from mtkit.engines.native import NativeEngine

        if isinstance(self._engine, NativeEngine):
            return self._engine.models[0]
        return None if self._files is None else load_model(self._files).eval()

    @cached_property
    def _lexicon(self) -> "AlignmentLexicon | None":
        from mtkit.alignment.lexicon import alignment_lexicon

        return alignment_lexicon(self._files)


def _like_places(src: Sequence[Interval], tgt: Sequence[Interval]) -> Floats:
    """Return weights by which each target word corresponds to the source word at the like place."""
    weights = np.zeros((len(tgt), len(src)))
    if src and tgt:
        rows = np.arange(len(tgt))
        weights[rows, rows * len(src) // len(tgt)] = 1
    return weights

"""Translate documents word by word, with known alignments: what the readers of formats do shows without a model."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from mtkit.documents.document import Document
from mtkit.documents.filling import TranslatedDocument, fill, sentences_to_translate
from mtkit.documents.reading import Options, document_of
from mtkit.documents.sentences import Alignment, Translated
from mtkit.text.placeholders import PROSE, placeholder_pattern
from mtkit.text.words import word_spans
from mtkit.tokens.placeholders import Placeholders


def same(text: str) -> str:
    """Return the text: the translation of the identity model."""
    return text


def loud(text: str) -> str:
    """Return the text in upper case, as long in words as before."""
    return " ".join(text.split()).upper()


def translated(
    raw: bytes, format_name: str, translate: Callable[[str], str] = same, **options: Any
) -> TranslatedDocument:
    """Return a document whose sentences are translated by a function that keeps the number and order of words."""
    document = document_of(raw, format_name, Options(format=format_name, **options))
    return fill(document, results_of(document, translate))


def results_of(document: Document, translate: Callable[[str], str]) -> dict[str, Translated]:
    """Return the translations of a document's sentences, by their texts, with the alignments of their words."""
    placeholders = Placeholders(document.placeholders)
    results = {}
    for sentence in sentences_to_translate(document):
        text = translate(sentence.text)
        results[sentence.text] = Translated(text)
        if not sentence.is_marked:
            continue
        src, tgt = (word_spans(each, placeholders.spans(each)) for each in (sentence.text, text))
        weights = np.eye(len(tgt), len(src)).tolist()
        results[sentence.text] = Translated(text, alignment=Alignment(src, tgt, weights))
    return results


def loud_around_placeholders(text: str, pattern: re.Pattern[str] | None = None) -> str:
    """Return the text in upper case, its placeholders and white space aside."""
    kept = [match.span() for match in (pattern or placeholder_pattern()).finditer(text)]
    starts, ends = [0, *(end for _, end in kept)], [*(start for start, _ in kept), len(text)]
    loud_parts = (text[start:end].upper() for start, end in zip(starts, ends, strict=True))
    return "".join(part for pair in zip(loud_parts, [*(text[a:b] for a, b in kept), ""], strict=True) for part in pair)


def loud_prose(text: str) -> str:
    """The same for text that people read."""
    return loud_around_placeholders(text, re.compile("|".join(PROSE)))

"""Translate lines with inline markup: the text by a translator, the codes by the alignment of the words."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from mtkit.alignment.attention import interval_weights
from mtkit.alignment.lexicon import alignment_lexicon
from mtkit.console import counted, log
from mtkit.documents.pages import html_text
from mtkit.scoring.scoring import native_models
from mtkit.text.inline import Interval
from mtkit.text.sentences import sentence_spans
from mtkit.text.templates import writer
from mtkit.text.transfer import Words, transfer
from mtkit.text.words import word_spans
from mtkit.translation.translator import Translator


class MarkedLines:
    """A session of a translator for lines of HTML: each translation has the codes of its line, nested as they were."""

    def __init__(self, translator: Translator, *, check_direction: bool = True) -> None:
        """check_direction: as for `Translator.session`. Raises UsageError if the engine shows no attention."""
        self._translator = translator
        self._model = native_models(translator.engine, "markup")[0]
        self._lexicon = alignment_lexicon(translator.files)
        self._session = translator.session(check_direction=check_direction)
        self.n_places = self.n_guessed = 0

    def translate(self, lines: Sequence[str], first_line: int | None = None) -> list[str]:
        """Return the translations of lines, in order. first_line: number of the first; default: the next."""
        inlines = [html_text.parse(line) for line in lines]
        translations = [found.text for found in self._session.translate([each.text for each in inlines], first_line)]
        marked = [index for index, inline in enumerate(inlines) if inline.spans]
        write = [writer(line, html_text.write) for line in lines]
        lines = [of_line(text) for of_line, text in zip(write, translations, strict=True)]
        texts = [(inlines[index].text, translations[index]) for index in marked]
        words = [(self._words_of(src), self._words_of(tgt)) for src, tgt in texts]
        tokenizers = self._translator.src_tokenizer, self._translator.tgt_tokenizer
        weights = interval_weights(self._model, *tokenizers, texts, words, self._lexicon)
        for index, of_line, of_words in zip(marked, words, weights, strict=True):
            sentences = _sentences((inlines[index].text, translations[index]), of_line)
            moved = transfer(inlines[index], translations[index], of_words, write[index], of_line, sentences)
            lines[index] = moved.text
            self.n_places += inlines[index].n_places
            self.n_guessed += moved.n_guessed
        return lines

    def _words_of(self, text: str) -> list[Interval]:
        """Return where the words stand; a placeholder is one word, so that no code comes to stand in it."""
        placeholders = self._translator.placeholders
        return word_spans(text, placeholders.spans(text) if placeholders else ())

    def note(self) -> dict[str, Any]:
        """Return what was noticed so far as JSON, for `absorb`."""
        return {"lines": self._session.note(), "places": self.n_places, "guessed": self.n_guessed}

    def absorb(self, note: Mapping[str, Any]) -> None:
        """Add what another session of the same settings noticed in the lines that come next."""
        self._session.absorb(note["lines"])
        self.n_places += note["places"]
        self.n_guessed += note["guessed"]

    def report(self) -> None:
        """Log what was noticed, if anything was."""
        self._session.report()
        if self.n_guessed:
            log.warning(
                f"the places of {self.n_guessed:,} of {counted(self.n_places, 'tag')} are guesses: the alignment does "
                "not show which words they belong to"
            )


def _sentences(texts: tuple[str, str], words: Words) -> list[tuple[Interval, Interval]]:
    """Return which words are in each sentence of a line, and in its translation; none if their numbers differ."""
    sides = []
    for text, of_text in zip(texts, words, strict=True):
        starts = [start for start, _ in of_text]
        sides.append([(bisect_left(starts, start), bisect_left(starts, end)) for start, end in sentence_spans(text)])
    src, tgt = sides
    return list(zip(src, tgt, strict=True)) if len(src) == len(tgt) else []

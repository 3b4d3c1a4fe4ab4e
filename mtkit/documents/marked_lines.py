"""Translate lines with inline markup: the text by a translator, the codes by the alignment of the words."""

from collections.abc import Sequence
from dataclasses import dataclass

from mtkit.documents import html_text
from mtkit.documents.inline import Inline
from mtkit.documents.transfer import Floats, transfer, words_of
from mtkit.scoring.alignment import interval_weights
from mtkit.scoring.scoring import native_models
from mtkit.translation.translator import Translator


@dataclass(frozen=True)
class MarkedLine:
    """The translation of a line with its codes."""

    text: str
    n_guessed: int  # codes, or pairs, whose place the alignment does not show


class MarkedLines:
    """Translates lines of HTML text. Satisfies the law that each line has the codes of its source, nested alike."""

    def __init__(self, translator: Translator) -> None:
        """Raises UsageError if the engine shows no attention."""
        self.translator = translator
        self._model = native_models(translator.engine, "markup")[0]
        self._session = translator.session()

    def translate(self, lines: Sequence[str]) -> list[MarkedLine]:
        """Return the translations of lines, in order."""
        inlines = [html_text.parse(line) for line in lines]
        translations = [found.text for found in self._session.translate([inline.text for inline in inlines])]
        marked = [index for index, inline in enumerate(inlines) if inline.spans and inline.text.strip()]
        weights = dict(zip(marked, self._weights([(inlines[i], translations[i]) for i in marked]), strict=True))
        found = []
        for index, (inline, text) in enumerate(zip(inlines, translations, strict=True)):
            if index in weights:
                moved = transfer(inline, text, weights[index], html_text.write)
                found.append(MarkedLine(moved.text, moved.n_guessed))
            else:
                found.append(MarkedLine(inline.source if inline.spans else html_text.write(text), 0))
        return found

    def _weights(self, pairs: Sequence[tuple[Inline, str]]) -> list[Floats]:
        texts = [(inline.text, translation) for inline, translation in pairs]
        words = [(words_of(src), words_of(tgt)) for src, tgt in texts]
        return interval_weights(self._model, self.translator.src_tokenizer, self.translator.tgt_tokenizer, texts, words)

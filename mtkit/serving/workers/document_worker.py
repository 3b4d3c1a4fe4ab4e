"""A process that reads and writes one document, with requests on standard input and replies on standard output.

Reading may take seconds, which would hold up all requests, and a document may be designed to harm the service. So a
separate process does it, which has limited memory and a low priority, and which the service can kill.
"""

import json
import sys
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mtkit.documents.document import Document
from mtkit.documents.filling import fill, paragraphs_of, sentences_to_translate
from mtkit.documents.reading import Options, document_of
from mtkit.documents.sentences import Sentence, Translated
from mtkit.errors import MtkitError
from mtkit.serving.workers import frames

_BEGINNING = 20  # sentences that show the language of a document


class _Translations(Mapping[str, Translated]):
    """Translations by source sentence, stored as JSON because alignments as objects take ten times the memory."""

    def __init__(self) -> None:
        self._lines: dict[str, str] = {}

    def __getitem__(self, sentence: str) -> Translated:
        return Translated.from_json(self._lines[sentence])

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, sentence: str, translated: Mapping[str, Any]) -> None:
        """Add a translation as JSON."""
        self._lines[sentence] = json.dumps(translated, ensure_ascii=False, separators=(",", ":"))


class DocumentWorker:
    """Reads a document, gives out its sentences in windows, receives their translations, and writes the result."""

    def __init__(self, source: Path, result: Path, options: Options) -> None:
        self._source, self._result, self._options = source, result, options
        self._document: Document | None = None
        self._sentences: list[Sentence] = []
        self._translations = _Translations()

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reply to a message; else the "error" of the document or of the "disk", or our "fault"."""
        try:
            task = getattr(self, f"_{message['task']}")
            answer: dict[str, Any] = task(**message.get("with", {}))
            return answer
        except MtkitError as error:
            return {"error": str(error)}
        except MemoryError:
            return {"error": "needs too much memory; divide the document"}
        except OSError as error:
            return {"disk": str(error)}
        except Exception:
            return {"fault": traceback.format_exc()}

    def _read(self, src_lang: str | None = None) -> dict[str, Any]:
        """Read the document, and again when its language is known, because other languages are not translated."""
        self._options = replace(self._options, src_lang=src_lang or self._options.src_lang)
        format = self._options.format or "text"
        self._document = document_of(self._source.read_bytes(), format, self._options)
        self._sentences = sentences_to_translate(self._document)
        segments = (segment for part in self._document.parts for segment in part.reading.all_segments)
        return {
            "n_sentences": len(self._sentences),
            "n_chars": sum(len(segment.inline.text) for segment in segments),
            "patterns": list(self._document.placeholders),
            "beginning": " ".join(sentence.text for sentence in self._sentences[:_BEGINNING]),
        }

    def _paragraphs(self) -> dict[str, Any]:
        """Return the paragraphs of several sentences, to look them up in a translation memory."""
        return {"texts": paragraphs_of(self._read_document)}

    def _join(self, whole: list[str]) -> dict[str, Any]:
        """Count these paragraphs as one sentence each."""
        self._sentences = sentences_to_translate(self._read_document, set(whole))
        return {"n_sentences": len(self._sentences)}

    def _next(self, translations: list[dict[str, Any]], n: int) -> dict[str, Any]:
        """Receive the translations of the last window, and return up to n more sentences."""
        start = len(self._translations)
        for sentence, translated in zip(self._sentences[start : start + len(translations)], translations, strict=True):
            self._translations.add(sentence.text, translated)
        start += len(translations)
        return {"sentences": [[one.text, one.is_marked] for one in self._sentences[start : start + n]]}

    def _write(self) -> dict[str, Any]:
        self._result.write_bytes(fill(self._read_document, self._translations).raw)
        return {}

    @property
    def _read_document(self) -> Document:
        assert self._document is not None
        return self._document


def main() -> None:
    """Answer messages until standard input ends. The argument is JSON: source, result and options."""
    settings = json.loads(sys.argv[1])
    options = Options(**settings["options"])
    frames.answer_about_files(DocumentWorker(Path(settings["source"]), Path(settings["result"]), options).answer)


if __name__ == "__main__":
    main()

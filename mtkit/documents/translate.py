"""Translate documents: a file to a file as a job that resumes, or a text in memory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from mtkit.console import counted, log
from mtkit.documents.filling import Result, fill, sentences_to_translate
from mtkit.documents.reading import Options, document_of, format_of, read_document
from mtkit.documents.sentences import Sentence, SentenceTranslator, Translated
from mtkit.files import write_bytes
from mtkit.jobs import line_job
from mtkit.translation.direction import warn_of_direction
from mtkit.translation.loading import SharedTranslator
from mtkit.translation.translator import Translator

_MOST_LISTED = 10  # notes on stderr


def translate_text(translator: Translator, text: str, *, format: str = "text") -> str:
    """Translate a text of several paragraphs; what is not text, such as tags, stays as it is.

    format: "text", "html" or another of `mtkit translate --document`. Raises DataError if it is not in that format.
    """
    raw = text.encode("utf-8")
    return translate_bytes(translator, raw, Options(format=format)).raw.decode("utf-8")


def translate_bytes(translator: Translator, raw: bytes, options: Options) -> Result:
    """Translate the bytes of a document whose format the options name."""
    document = document_of(raw, options.format or "text", options)
    worker = SentenceTranslator(translator, document.placeholders)
    found = sentences_to_translate(document)
    translations: dict[str, Translated] = {}
    for start in range(0, len(found), translator.window):
        window = found[start : start + translator.window]
        translations |= zip([sentence.text for sentence in window], worker.translate(window), strict=True)
    worker.report()
    return fill(document, translations)


def translate_document(
    source: Path, target: Path, shared: SharedTranslator, options: Options, *, restart: bool = False
) -> Result | None:
    """Translate a file to a file: the same call resumes an interrupted job.

    Returns None in a process of a share that leaves the output to another one.
    Raises DataError if the document cannot be read, UsageError for an unknown format; then nothing is written.
    """
    options = options if options.format else Options(**{**vars(options), "format": format_of(source, options)})
    document = read_document(source, options)
    found = sentences_to_translate(document)
    warn_of_direction([sentence.text for sentence in found], shared.members[0])
    for remark in document.remarks:
        log.info(f"{source}: {remark}")
    log.info(f"{source}: {counted(sum(1 for _ in found), 'different sentence')}, as {options.format}")
    results: list[Result] = []

    def finish(lines: Iterator[str]) -> None:
        translations = (Translated.from_json(line) for line in lines)
        results[:] = [fill(document, dict(zip((sentence.text for sentence in found), translations, strict=True)))]
        write_bytes(target.resolve(), results[0].raw)

    done = line_job.run_line_job(
        line_job.Text(partial(_sentence_lines, source, options), [source]),
        target,
        partial(_work, shared.make, document.placeholders),
        {**shared.identity(), "document": asdict(options)},
        shared.sharing,
        window_lines=shared.translator.window,
        unit="sentence",
        restart=restart,
        finish=finish,
    )
    return None if done is None else results[0]


def _sentence_lines(source: Path, options: Options) -> list[str]:
    return [sentence.as_json() for sentence in sentences_to_translate(read_document(source, options))]


def _work(make_translator: Callable[[], Translator], placeholders: Sequence[str]) -> line_job.Work:
    translator = make_translator()

    def translate(lines: Sequence[str], first_line: int) -> tuple[list[str], Mapping[str, Any]]:
        worker = SentenceTranslator(translator, placeholders, check_direction=False)
        found = worker.translate([Sentence.from_json(line) for line in lines], first_line)
        return [translated.as_json() for translated in found], {}

    return translate

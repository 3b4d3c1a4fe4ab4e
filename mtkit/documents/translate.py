"""Translate documents: a file to a file as a job that resumes, or a text in memory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from mtkit.console import counted, log
from mtkit.documents.filling import TranslatedDocument, fill, paragraphs_of, sentences_to_translate
from mtkit.documents.reading import Options, document_of, format_of, read_document
from mtkit.documents.sentence_translator import SentenceTranslator
from mtkit.documents.sentences import Sentence, Translated
from mtkit.files import write_bytes
from mtkit.jobs import line_job
from mtkit.jobs.executors import InProcess
from mtkit.translation.direction import warn_of_direction
from mtkit.translation.loading import SharedTranslator
from mtkit.translation.translator import Translator


def translate_document(
    translator: Translator,
    source: str | Path,
    target: str | Path,
    *,
    format: str | None = None,
    columns: Sequence[str] = (),
    encoding: str | None = None,
) -> TranslatedDocument:
    """Translate a document to a file; the same call resumes an interrupted one.

    format: "html", "docx", ...; default: the one of the file extension.
    columns: the columns of a table to translate; default: those that hold text.
    encoding: of a text, such as "cp1252"; default: UTF-8, or the one that it declares.

    Returns the translated bytes, counts, and notes on what a person should check.

    Raises DataError if the document cannot be read, UsageError for an unknown format; then nothing is written.
    """
    if translator.files is None or translator.is_ensemble:
        raise ValueError("translate_document needs a translator that was loaded from a single folder")
    shared = SharedTranslator(translator, [translator.files], lambda: translator, InProcess())
    return translate_file(Path(source), Path(target), shared, Options(format, tuple(columns), encoding=encoding))


def translate_text(translator: Translator, text: str, *, format: str = "text") -> str:
    """Translate a text of several paragraphs; what is not text, such as tags, stays as it is.

    format: "text", "html" or another of `mtkit translate --document`.

    Raises DataError if the text is not in that format.
    """
    raw = text.encode("utf-8")
    return translate_bytes(translator, raw, Options(format=format)).raw.decode("utf-8")


def translate_bytes(translator: Translator, raw: bytes, options: Options) -> TranslatedDocument:
    """Translate the bytes of a document whose format the options name."""
    src_lang = options.src_lang or (translator.files.config.data.src_lang if translator.files else None)
    document = document_of(raw, options.format or "text", replace(options, src_lang=src_lang))
    worker = SentenceTranslator(translator, document.placeholders)
    found = sentences_to_translate(document, worker.in_memory(paragraphs_of(document)))
    translations: dict[str, Translated] = {}
    for start in range(0, len(found), translator.window):
        window = found[start : start + translator.window]
        translations |= zip([sentence.text for sentence in window], worker.translate(window), strict=True)
    worker.report()
    return fill(document, translations)


def translate_file(
    source: Path, target: Path, shared: SharedTranslator, options: Options, *, restart: bool = False
) -> TranslatedDocument:
    """Translate a file to a file: the same call resumes an interrupted job.

    Raises DataError if the document cannot be read, UsageError for an unknown format; then nothing is written.
    """
    data = shared.members[0].config.data
    options = replace(
        options,
        format=options.format or format_of(source, options),
        src_lang=options.src_lang or data.src_lang,
        tgt_lang=options.tgt_lang or data.tgt_lang,
    )
    document = read_document(source, options)
    worker = SentenceTranslator(shared.translator, check_direction=False)
    found = sentences_to_translate(document, worker.in_memory(paragraphs_of(document)))
    warn_of_direction([sentence.text for sentence in found], shared.members[0])
    for remark in document.remarks:
        log.info(f"{source}: {remark}")
    log.info(f"{source}: {counted(len(found), 'different sentence')}, as {options.format}")
    results: list[TranslatedDocument] = []

    def finish(lines: Iterator[str], _: line_job.LineJobResult) -> None:
        translations = (Translated.from_json(line) for line in lines)
        results[:] = [fill(document, dict(zip((sentence.text for sentence in found), translations, strict=True)))]
        write_bytes(target.resolve(), results[0].raw)

    done = line_job.run_line_job(
        line_job.Text(partial(_lines_of, found), [source]),
        target,
        partial(_work, shared.make, document.placeholders),
        {**shared.identity(), "document": asdict(options)},
        shared.executor,
        window_lines=shared.translator.window,
        unit="sentence",
        restart=restart,
        finish=finish,
    )
    for note in done.notes:
        worker.absorb(note)
    worker.report()
    return results[0]


def _lines_of(sentences: Sequence[Sentence]) -> list[str]:
    return [sentence.as_json() for sentence in sentences]


def _work(make_translator: Callable[[], Translator], placeholders: Sequence[str]) -> line_job.Work:
    translator = make_translator()

    def translate(lines: Sequence[str], first_line: int) -> tuple[list[str], Mapping[str, Any]]:
        worker = SentenceTranslator(translator, placeholders, check_direction=False)
        found = worker.translate([Sentence.from_json(line) for line in lines], first_line)
        return [translated.as_json() for translated in found], worker.note()

    return translate

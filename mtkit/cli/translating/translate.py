"""`mtkit translate`: translate sentences, files or a stream, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mtkit.cli.lines import check_stdin, stdin_is_file
from mtkit.cli.models import load_shared_translator, load_translator, model_folders, option_overrides
from mtkit.cli.options import (
    DOCUMENT,
    MODEL,
    OUTPUT,
    BeamSizeOption,
    DecodeSetOption,
    DeviceOption,
    EngineOption,
    EnsembleOption,
    InputOption,
    output_option,
    valid_text,
)
from mtkit.cli.sharing import (
    ExecutorOption,
    ModelWorkersOption,
    RayAddressOption,
    RestartOption,
    Where,
)
from mtkit.cli.translating import document
from mtkit.console import log
from mtkit.errors import UsageError
from mtkit.pair_files import encodings

if TYPE_CHECKING:
    from mtkit.cli.translating.translate_file import Form
    from mtkit.config.decoding import DecodeConfig
    from mtkit.jobs import line_job
    from mtkit.translation.loading import SharedTranslator

TextArgument = Annotated[
    list[str] | None,
    typer.Argument(callback=valid_text, metavar="TEXT", help="Sentences. Default: lines of standard input."),
]
JobOutputOption = Annotated[
    Path | None,
    output_option(
        help="Write to this file, which appears when it is complete; for lines, may end in .gz, .xz or .zst. With "
        "--input or "
        "--document, the same command resumes an interrupted job. Default: standard output."
    ),
]
NBestOption = Annotated[
    int | None,
    typer.Option(
        min=1, max=1000, rich_help_panel=OUTPUT, help="Print N translations of each line, with scores, as JSON lines."
    ),
]
JsonLinesOption = Annotated[bool, typer.Option("--json", rich_help_panel=OUTPUT, help="Print JSON lines.")]
TokensOption = Annotated[
    bool, typer.Option("--tokens", rich_help_panel=OUTPUT, help="Add each token's log-probability to the JSON.")
]
AlignmentsOption = Annotated[
    bool,
    typer.Option(
        "--alignments",
        rich_help_panel=OUTPUT,
        help="Add word alignments (0-0 1-2: source-target) after a tab; none where a long line was split.",
    ),
]
PrefixOption = Annotated[
    str, typer.Option(callback=valid_text, rich_help_panel=MODEL, help="Begin every translation with these words.")
]
SrcLangOption = Annotated[
    str | None,
    typer.Option(
        metavar="CODE", rich_help_panel=MODEL, help="Language to translate from, if the model has several, as NLLB has."
    ),
]
TgtLangOption = Annotated[
    str | None,
    typer.Option(
        metavar="CODE", rich_help_panel=MODEL, help="Language to translate to. Default: that of the bundle's config."
    ),
]
TerminologyOption = Annotated[
    Path | None,
    typer.Option(
        rich_help_panel=MODEL,
        help="TSV file of terms with the columns source, target, forbidden; see docs/translating.md.",
    ),
]
OnSuspectOption = Annotated[
    Literal["retry", "warn", "mark", "off"] | None,
    typer.Option(
        rich_help_panel=MODEL,
        help="How to handle translations that look broken. Default: from the model's config (retry).",
    ),
]
LiveOption = Annotated[
    bool,
    typer.Option(
        "--live",
        rich_help_panel=OUTPUT,
        help="Print each translation while it grows; report what looks broken, without a second search.",
    ),
]
MarkupOption = Annotated[
    Literal["html"] | None,
    typer.Option(
        "--markup",
        rich_help_panel=OUTPUT,
        help="Keep inline tags of this markup language in place; native engine only.",
    ),
]
DocumentOption = Annotated[
    Path | None,
    typer.Option(
        "--document",
        metavar="FILE",
        rich_help_panel=DOCUMENT,
        help="Translate this document to --output; only its text changes. See docs/documents.md.",
    ),
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        rich_help_panel=DOCUMENT,
        help="Format of the document. Default: chosen by its file extension.",
    ),
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="NAME,...",
        rich_help_panel=DOCUMENT,
        help="For a table: columns to translate, by name or by number from 1. Default: the columns that hold text.",
    ),
]
ReportOption = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="FILE",
        rich_help_panel=DOCUMENT,
        help="List translations that someone should review, in this page (.html) or these lines of JSON (.jsonl).",
    ),
]
EncodingOption = Annotated[
    str | None,
    typer.Option(
        "--encoding",
        metavar="NAME",
        help="Encoding of --input, or of a --document that is text, such as cp1252. Default: UTF-8, or the one that a "
        "document declares. A translated document has the encoding of its source; lines are written in UTF-8.",
    ),
]
ExplainUnknownOption = Annotated[
    bool,
    typer.Option(
        "--explain-unknown",
        rich_help_panel=OUTPUT,
        help="List, on stderr, the characters that the tokenizer changes, splits into bytes or does not know.",
    ),
]


def translate(
    text: TextArgument = None,
    models: EnsembleOption = None,
    input_path: InputOption = None,
    output_path: JobOutputOption = None,
    beam_size: BeamSizeOption = None,
    src_lang: SrcLangOption = None,
    tgt_lang: TgtLangOption = None,
    n_best: NBestOption = None,
    as_json: JsonLinesOption = False,
    tokens: TokensOption = False,
    alignments: AlignmentsOption = False,
    markup: MarkupOption = None,
    prefix: PrefixOption = "",
    terminology: TerminologyOption = None,
    on_suspect: OnSuspectOption = None,
    engine: EngineOption = None,
    live: LiveOption = False,
    explain_unknown: ExplainUnknownOption = False,
    overrides: DecodeSetOption = None,
    device: DeviceOption = "auto",
    workers: ModelWorkersOption = None,
    executor: ExecutorOption = "local",
    ray_address: RayAddressOption = None,
    restart: RestartOption = False,
    document_path: DocumentOption = None,
    document_format: FormatOption = None,
    columns: ColumnsOption = None,
    report_path: ReportOption = None,
    encoding: EncodingOption = None,
) -> None:
    """Translate sentences, the lines of a file, a stream, or a document.

    The decode section of the model's config controls the search; --set decode.KEY=VALUE changes a key for this call.
    """
    from mtkit.cli.translating.translate_file import Form
    from mtkit.cli.translating.translate_stream import line_windows, translate_stream

    if document_path is None:
        document.refuse_without({"--format": document_format, "--columns": columns, "--report": report_path})
    if encoding is not None:
        encodings.check_encodings([encoding])
        if document_path is None and input_path is None:
            raise UsageError("--encoding needs a file: give --input or --document, too")
    form = Form(n_best, prefix, as_json or n_best is not None, tokens, alignments, markup)
    where = Where(workers, executor, ray_address)
    looked_into = live or alignments or tokens or markup is not None
    is_job = document_path is not None or _is_line_job(input_path, output_path)
    if not is_job:
        _check_without_job(where, restart=restart, looked_into=looked_into)
    if text and input_path:
        raise UsageError("give either sentences or --input, not both")
    _check_form(form, on_suspect, live=live, has_output=output_path is not None)
    if looked_into and engine == "ctranslate2":
        raise UsageError("--live, --alignments, --tokens and --markup need --engine native")
    _warn_of_arguments(text or [])
    if not text and input_path is None and document_path is None:
        check_stdin()

    must_be_here = (looked_into or text) and not is_job  # in this process; workers would start too late
    chosen: dict[str, object] = {
        "terminology": terminology,
        "on_suspect": on_suspect,
        "engine": "native" if looked_into else engine,
        "src_lang": src_lang,
        "tgt_lang": tgt_lang,
        "workers": 1 if workers is None and must_be_here else workers,
        "beam_size": beam_size,
    }
    settings = [*(overrides or []), *option_overrides(chosen)]
    folders = model_folders(models)

    def load_job() -> SharedTranslator:
        job = load_shared_translator(folders, settings, where, device)
        _keep_files(job.translator.decode, output_path, report_path)
        return job

    if document_path is not None:
        document.refuse_with({"TEXT": text, "--input": input_path, **_options_of(form), "--live": live})
        document.translate_document(
            document_path, output_path, report_path, document_format, columns, encoding, load_job, restart=restart
        )
    elif is_job:
        from mtkit.jobs import line_job

        assert input_path is not None and output_path is not None
        lines = line_job.Text.of_file(input_path, encoding)
        _translate_file(lines, output_path, load_job(), form, restart=restart, explain_unknown=explain_unknown)
    else:
        is_file = not text and (input_path is not None or stdin_is_file())
        translator = load_translator(folders, overrides=settings, device=device, starts_soon=not is_file)
        _keep_files(translator.decode, output_path)
        windows = line_windows(translator, text, input_path, encoding)
        translate_stream(translator, windows, None if live else form, output_path, explain_unknown)


def _is_line_job(input_path: Path | None, output_path: Path | None) -> bool:
    if input_path is None or output_path is None:
        return False
    from mtkit.jobs import line_job  # here: a sentence needs no jobs

    return line_job.can_be_a_job(input_path, output_path)


def _keep_files(decode: DecodeConfig, output: Path | None, report: Path | None = None) -> None:
    """Raise UsageError if an output is the terminology or the memory."""
    if inputs := [path for path in decode.files.values() if path is not None]:
        from mtkit.pair_files import corpus_files  # here: a sentence needs no corpora

        corpus_files.check_distinct([("--output", output), ("--report", report)], inputs)


def _translate_file(
    text: line_job.Text, output: Path, job: SharedTranslator, form: Form, *, restart: bool, explain_unknown: bool
) -> None:
    from mtkit.cli.translating.translate_file import translate_file
    from mtkit.cli.translating.translate_stream import print_unknown, unknown_characters

    form.check(job.translator.decode)
    translate_file(text, output, job, form, restart=restart)
    if explain_unknown:
        unknown = unknown_characters(job.translator)
        for line in text.read():
            unknown.add(line)
        print_unknown(unknown)


def _warn_of_arguments(texts: Sequence[str]) -> None:
    """Warn about a sentence that is like the name of a file, and one without quotes; translate both anyway.

    Not an error, because lists of words to translate have names of files, too.
    """
    for text in texts:
        if any(c.isspace() for c in text) or len(text.encode()) >= 256:
            continue
        is_file, is_document = Path(text).is_file(), _is_named_like_document(text)
        remedy = f"a document: mtkit translate --document {text} --output FILE"
        if is_file and not is_document:
            remedy = f"its lines: mtkit translate --input {text}"
        if is_file or (is_document and len(texts) == 1):
            log.warning(
                f"mtkit translates {text} as text, but {'a' if is_file else 'no'} file has this name; to translate "
                f"{remedy}"
            )
    if len(texts) > 1 and all(len(text.split()) == 1 for text in texts):
        log.warning(
            f"mtkit translates {len(texts)} words one by one; to translate a sentence, put it in quotes: "
            f'mtkit translate "{" ".join(texts)}"'
        )


def _is_named_like_document(text: str) -> bool:
    """Return whether the text ends in the file extension of a document that is not plain text."""
    if not Path(text).suffix:
        return False
    from mtkit.documents.reading import format_named  # here, because a sentence needs no documents

    return format_named(Path(text)) not in (None, "text")


def _check_without_job(where: Where, *, restart: bool, looked_into: bool) -> None:
    """Refuse options that only a job from file to file has."""
    for name, given in (("--restart", restart), ("--executor ray", where.on_ray)):
        if given:
            raise UsageError(f"{name}: needs a job from file to file; give --input and --output, too")
    if looked_into and where.workers is not None:
        raise UsageError(
            "--workers: --live, --alignments, --tokens and --markup use a model in this process; leave it out, or "
            "give --input and --output"
        )


def _check_form(form: Form, on_suspect: str | None, *, live: bool, has_output: bool) -> None:
    """Refuse options of the output lines that exclude each other."""
    if form.tokens and not form.as_json:
        raise UsageError("--tokens needs --json or --n-best: plain text cannot show log-probabilities")
    if live and (form.as_json or form.alignments or has_output or form.prefix or on_suspect):
        raise UsageError(
            "--live prints plain text to stdout while it grows: leave out --json, --n-best, --alignments, --output, "
            "--prefix and --on-suspect"
        )
    if form.markup and (form.as_json or form.alignments or form.prefix or live or on_suspect == "mark"):
        raise UsageError(
            "--markup prints one line with tags for each input line: leave out --json, --n-best, --tokens, "
            "--alignments, --prefix, "
            "--live and --on-suspect mark"
        )


def _options_of(form: Form) -> dict[str, object]:
    """Return the options that give the form, by name."""
    return {
        "--n-best": form.n_best,
        "--prefix": form.prefix,
        "--json": form.as_json and form.n_best is None,
        "--alignments": form.alignments,
        "--tokens": form.tokens,
        "--markup": form.markup,
    }

"""`mtkit translate --document`: translate a document and keep its format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mtkit.console import log
from mtkit.errors import DataError, UsageError

if TYPE_CHECKING:
    from mtkit.documents import reading
    from mtkit.translation.loading import SharedTranslator


def refuse_without(options: Mapping[str, object]) -> None:
    """Refuse options of documents without --document. options: their names and values."""
    if given := [name for name, value in options.items() if value]:
        raise UsageError(f"{', '.join(given)}: needs a document; give --document, too")


def refuse_with(options: Mapping[str, object]) -> None:
    """Refuse options of lines with --document."""
    if given := [name for name, value in options.items() if value]:
        raise UsageError(f"--document translates a whole file to --output: leave out {', '.join(given)}")


def translate_document(
    source: Path,
    output: Path | None,
    report_path: Path | None,
    format_name: str | None,
    columns: str | None,
    encoding: str | None,
    load: Callable[[], SharedTranslator],
    *,
    restart: bool,
) -> None:
    """Translate a document, and report the translations to review. load: called after the checks of the options."""
    from mtkit.documents import report
    from mtkit.documents import translate as translation

    target = _check_paths(source, output, report_path)
    options = replace(_options_of(source, target, format_name, columns), encoding=encoding)
    shared = load()
    result = translation.translate_file(source, target, shared, options, restart=restart)
    for line in report.summary(result, listed=report_path is None):
        (log.warning if result.notes or not result.n_segments else log.info)(line)
    if report_path is not None:
        data = shared.members[0].config.data
        report.write_report(report_path, source, target, result, (data.src_lang, data.tgt_lang))


def _options_of(source: Path, target: Path, format_name: str | None, columns: str | None) -> reading.Options:
    """Return the settings of a document. Raises UsageError if the options contradict it or each other."""
    from mtkit.documents import reading

    options = reading.Options(format_name, tuple((columns or "").split(",")) if columns is not None else ())
    name, of_target = reading.format_of(source, options), reading.format_named(target)
    if columns is not None and name != "csv":
        raise UsageError(f"--columns applies to tables, but mtkit reads {source} as {name}; leave it out")
    if format_name is None and of_target not in (None, name):
        raise UsageError(
            f"--output {target}: this file extension stands for {of_target}, but the document is {name}; use the "
            "same extension for both"
        )
    return reading.Options(name, options.columns)


def _check_paths(source: Path, target: Path | None, report_path: Path | None) -> Path:
    """Return the output. Raises UsageError if it is missing, or if it is the same file as the document or the report.

    Raises DataError if the document does not exist.
    """
    from mtkit.jobs import line_job

    if target is None:
        raise UsageError("--document needs --output, the file for the translated document")
    for other in filter(None, (target, report_path)):
        if other.exists() and source.exists() and other.samefile(source):
            raise UsageError(f"{other} is the document itself, which mtkit does not change; choose another name")
    if report_path is not None:
        if report_path.resolve() == target.resolve():
            raise UsageError(f"{target}: given for both --output and --report; choose two names")
        if report_path.is_dir() or not report_path.parent.is_dir():
            raise UsageError(f"--report {report_path}: name a file in a folder that exists")
    if not source.exists():
        raise DataError(f"{source}: no such file")
    if not line_job.can_be_a_job(source, target):
        raise UsageError(f"--document and --output need files, not folders, pipes or terminals: {source}, {target}")
    return target

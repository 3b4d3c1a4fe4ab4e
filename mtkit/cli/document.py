"""What `mtkit translate --document` does: a document in, the same document in another language out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mtkit.console import log
from mtkit.documents import report
from mtkit.documents.reading import Options
from mtkit.documents.translate import translate_document
from mtkit.errors import UsageError
from mtkit.jobs import line_job

if TYPE_CHECKING:
    from mtkit.documents.filling import Result
    from mtkit.translation.loading import SharedTranslator


def check_paths(source: Path, target: Path | None, report_path: Path | None) -> Path:
    """Return the output. Raises UsageError if none is given, or if it is the document or the report."""
    if target is None:
        raise UsageError("--document needs --output: a file to write the translated document to")
    for other in filter(None, (target, report_path)):
        if other.exists() and source.exists() and other.samefile(source):
            raise UsageError(f"{other} is the document itself: give another name; the document stays as it is")
    if report_path is not None and report_path.resolve() == target.resolve():
        raise UsageError(f"{target}: given as --output and as --report")
    if source.exists() and not line_job.can_be_a_job(source, target):
        raise UsageError(f"--document and --output name files, not folders, pipes or terminals: {source}, {target}")
    if target.parent and not target.parent.is_dir():
        raise UsageError(f"{target.parent}: no such folder; make it first")
    return target


def run(
    source: Path,
    target: Path,
    shared: SharedTranslator,
    options: Options,
    *,
    report_path: Path | None = None,
    restart: bool = False,
) -> None:
    """Translate a document, and say what a person should look at."""
    result = translate_document(source, target, shared, options, restart=restart)
    if result is None:
        return
    _say(result, report_path)
    if report_path is not None:
        report.write_report(report_path, source, target, result)


def _say(result: Result, report_path: Path | None) -> None:
    for line in report.summary(result, listed=report_path is None):
        (log.warning if result.notes else log.info)(line)

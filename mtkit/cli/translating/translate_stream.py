"""Translate sentences, the lines of a file or a stream as they arrive, and write to standard output or a file."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import mtkit
from mtkit.cli.lines import arriving_windows, line_writer
from mtkit.console import progress_bar
from mtkit.pair_files import lines as text_lines
from mtkit.tokens import unseen_characters

if TYPE_CHECKING:
    from mtkit.cli.translating.translate_file import Form


def translate_stream(
    translator: mtkit.Translator,
    windows: Iterable[Sequence[str]],
    form: Form | None,
    output: Path | None,
    explain_unknown: bool,
) -> None:
    """Translate windows of lines.

    form: the format of the output; None prints each translation while it grows.
    """
    if form is not None:
        form.check(translator.decode)
    unknown = unknown_characters(translator) if explain_unknown else None
    noted = _noted(windows, unknown)
    if form is None:
        _show_live(translator, noted)
    else:
        session = form.session(translator)
        with line_writer(output) as write:
            for window in noted:
                for line in session.translate(window):
                    write(line)
        session.report()
    if unknown is not None:
        print_unknown(unknown)


def line_windows(
    translator: mtkit.Translator, text: list[str] | None, input_path: Path | None, encoding: str | None
) -> Iterator[list[str]]:
    """Yield sentences, the lines of a file, or else standard input in windows; the last as lines arrive.

    encoding: of the file; default: UTF-8.
    """
    if text:
        return text_lines.windows(text, translator.window)
    if input_path:
        return _with_bar(input_path, encoding, translator.window)
    return arriving_windows(translator.window)


def _with_bar(path: Path, encoding: str | None, size: int) -> Iterator[list[str]]:
    is_counted = path.is_file() and not encoding  # a pipe can be read only once
    total = text_lines.count_lines(path) if is_counted else None
    with progress_bar(total, "translating", "line") as bar:
        for window in text_lines.windows(text_lines.read_lines(path, encoding), size):
            yield window
            bar.update(len(window))


def _show_live(translator: mtkit.Translator, line_windows: Iterable[Sequence[str]]) -> None:
    from mtkit.translation import streaming  # imports torch

    live = streaming.LiveTranslator(translator)
    for window in line_windows:
        for line in window:
            live.translate(line, lambda part: print(part, end="", flush=True))
            print(flush=True)
    live.session.report()


def unknown_characters(translator: mtkit.Translator) -> unseen_characters.UnknownCharacters:
    """Return an empty collection of the characters that the tokenizer changes or does not know."""
    return unseen_characters.UnknownCharacters(translator.src_tokenizer.tagged(None))


def print_unknown(unknown: unseen_characters.UnknownCharacters) -> None:
    """Print the characters that the tokenizer changes or does not know."""
    for line in unseen_characters.table(unknown.all()):
        print(line, file=sys.stderr)


def _noted(
    line_windows: Iterable[Sequence[str]], unknown: unseen_characters.UnknownCharacters | None
) -> Iterator[Sequence[str]]:
    """Yield the windows, and add their characters to `unknown` unless it is None."""
    for window in line_windows:
        if unknown is not None:
            for line in window:
                unknown.add(line)
        yield window

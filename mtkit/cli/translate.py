"""`mtkit translate`: sentences, files or a stream in; their translations out, line by line."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.options import BeamSizeOption, DeviceOption, InputOption, ModelOption, OutputOption
from mtkit.cli.output import line_writer
from mtkit.errors import DataError, UsageError

if TYPE_CHECKING:
    from mtkit.decoding.translator import Translation, Translator


def translate(
    text: Annotated[list[str] | None, typer.Argument(help="Sentences; without any, lines from stdin.")] = None,
    model: ModelOption = None,
    input_path: InputOption = None,
    output_path: OutputOption = None,
    beam_size: BeamSizeOption = None,
    n_best: Annotated[
        int | None, typer.Option(min=1, help="Translations of each line, with scores, as JSON lines.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines, also for a single translation.")] = False,
    device: DeviceOption = "auto",
) -> None:
    """Translate sentences, the lines of a file, or a stream."""
    if text and input_path:
        raise UsageError("give either sentences or --input, not both")
    _check_arguments(text or [])

    from mtkit.cli.translating import load_translator  # these and those below: here, for `mtkit --help` to be quick
    from mtkit.decoding.bundle import find_model

    translator = load_translator([find_model(model)], device=device, beam_size=beam_size)
    if (n_best or 1) > translator.decode.beam_size:
        raise UsageError(f"--n-best {n_best} is more than the beam holds; add --beam-size {n_best}")
    translations = _translations(translator, text, input_path, n_best or 1)
    with line_writer(output_path) as write:
        for line, translation in enumerate(translations, start=1):
            write(_as_json(line, translation) if as_json or n_best else translation.text)


def _translations(
    translator: "Translator", text: list[str] | None, input_path: Path | None, n_best: int
) -> "Iterator[Translation]":
    if text:
        return translator.stream(text, n_best=n_best)
    if input_path:
        from mtkit.cli.translating import with_bar
        from mtkit.data.corpus import count_lines, read_lines

        total = count_lines(input_path) if input_path.is_file() else None  # a pipe can be read only once
        return with_bar(translator.stream(read_lines(input_path), n_best=n_best), total, "translating", "line")

    from mtkit.cli.standard_input import arriving_windows
    from mtkit.console import log

    if sys.stdin is not None and sys.stdin.isatty():
        log.info("reading lines from the terminal; Ctrl-D ends")
    return translator.stream_windows(arriving_windows(translator.window), n_best=n_best)


def _as_json(line: int, translation: "Translation") -> str:
    hypotheses = [
        {"text": c.text, "score": round(c.score, 6), "log_prob": round(c.log_prob, 6), "finished": c.finished}
        for c in translation.n_best
    ]
    return json.dumps({"line": line, "src": translation.src, "hypotheses": hypotheses}, ensure_ascii=False)


def _check_arguments(texts: list[str]) -> None:
    for number, text in enumerate(texts, start=1):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:  # the shell passed bytes, which Python keeps as surrogates
            raise DataError(f"sentence {number}: {text!r} is not valid UTF-8") from None

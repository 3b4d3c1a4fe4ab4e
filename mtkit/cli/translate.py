"""`mtkit translate`: sentences, files or a stream in; their translations out, line by line."""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.errors import DataError, UsageError

if TYPE_CHECKING:
    from mtkit.decoding.translator import Translation, Translator


def translate(
    text: Annotated[list[str] | None, typer.Argument(help="Sentences; without any, lines from stdin.")] = None,
    model: Annotated[
        Path | None, typer.Option(help="Run or bundle folder; default: $MTKIT_MODEL, else the newest run in ./runs.")
    ] = None,
    input_path: Annotated[Path | None, typer.Option("--input", "-i", help="Text file, .gz too.")] = None,
    output_path: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write here (.gz by name) once all is done; default: stdout.")
    ] = None,
    beam_size: Annotated[
        int | None, typer.Option(min=1, help="Hypotheses kept; 1 is greedy. Default: the model's config.")
    ] = None,
    n_best: Annotated[
        int | None, typer.Option(min=1, help="Translations of each line, with scores, as JSON lines.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines, also for a single translation.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, mps, cuda or cuda:N.")] = "auto",
) -> None:
    """Translate sentences, the lines of a file, or a stream."""
    if text and input_path:
        raise UsageError("give either sentences or --input, not both")
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", device):
        raise UsageError(f"--device {device}: not one of auto, cpu, mps, cuda, cuda:N")
    _check_arguments(text or [])

    from mtkit.console import log  # these and those below: here, so that `mtkit --help` loads no torch
    from mtkit.decoding.bundle import find_model
    from mtkit.decoding.translator import Translator

    folder = find_model(model)
    log.info(f"model: {folder}")
    translator = Translator.load(folder, device=device, beam_size=beam_size)
    if (n_best or 1) > translator.decode.beam_size:
        raise UsageError(f"--n-best {n_best} is more than the beam holds; add --beam-size {n_best}")
    translations = _translations(translator, text, input_path, n_best or 1)
    with _writer(output_path) as write:
        for line, translation in enumerate(translations, start=1):
            write(_as_json(line, translation) if as_json or n_best else translation.text)


def _translations(
    translator: "Translator", text: list[str] | None, input_path: Path | None, n_best: int
) -> "Iterator[Translation]":
    if text:
        return translator.stream(text, n_best=n_best)
    if input_path:
        from mtkit.data.corpus import read_lines

        return _with_progress(translator.stream(read_lines(input_path), n_best=n_best), input_path)

    from mtkit.cli.standard_input import arriving_windows
    from mtkit.console import log

    if sys.stdin.isatty():
        log.info("reading lines from the terminal; Ctrl-D ends")
    return translator.stream_windows(arriving_windows(translator.window), n_best=n_best)


def _with_progress(translations: "Iterable[Translation]", path: Path) -> "Iterator[Translation]":
    """The translations, with a progress bar over the file's lines (counted first, unless it is a pipe)."""
    from mtkit.console import progress_bar
    from mtkit.data.corpus import count_lines

    total = count_lines(path) if path.is_file() else None
    with progress_bar(total, "translating", "line") as bar:
        for translation in translations:
            yield translation
            bar.update()


@contextmanager
def _writer(path: Path | None) -> Iterator[Callable[[str], None]]:
    """A function that writes one line: to the file, which appears when all is done, or at once to stdout."""
    if path is None:
        yield lambda line: print(line, flush=True)
        return

    from mtkit.data.corpus import open_output

    with open_output(path) as file:
        yield lambda line: print(line, file=file)


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

"""`mtkit classify`: label sentences, or pairs of sentences, line by line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import mtkit
from mtkit.cli.lines import arriving_windows, check_stdin, line_writer
from mtkit.cli.options import OUTPUT, DecodeSetOption, DeviceOption, InputOption, ModelOption, OutputOption, valid_text
from mtkit.console import log, progress_bar
from mtkit.errors import DataError, UsageError
from mtkit.pair_files import lines as text_lines

if TYPE_CHECKING:
    from mtkit.classification import classifier as classifiers

TextArgument = Annotated[
    list[str] | None,
    typer.Argument(
        callback=valid_text,
        metavar="TEXT",
        help="Sentences to label; for a classifier of pairs, a source and its target. Default: lines of standard "
        "input.",
    ),
]
JsonLinesOption = Annotated[
    bool, typer.Option("--json", rich_help_panel=OUTPUT, help="Print JSON lines, with every label's probability.")
]


def classify(
    text: TextArgument = None,
    model: ModelOption = None,
    input_path: InputOption = None,
    output_path: OutputOption = None,
    as_json: JsonLinesOption = False,
    overrides: DecodeSetOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Label sentences, the lines of a file, or a stream with a classifier (task: classify).

    Each line of output has the likeliest label, a tab, and its probability; a blank line stays blank. A classifier of
    pairs reads lines with a source, a tab and a target.
    """
    from mtkit import bundle
    from mtkit.pair_files import corpus_files

    corpus_files.check_distinct([("--output", output_path)], [*filter(None, [input_path])])
    if text and input_path:
        raise UsageError("give either sentences or --input, not both")
    if not text and not input_path:
        check_stdin()

    folder = bundle.find_model(model)
    log.info(f"model: {folder}")
    classifier = mtkit.Classifier.load(folder, device=device, overrides=overrides or ())
    name = str(input_path or ("argument" if text else "standard input"))
    n_lines = 0
    with line_writer(output_path) as write:
        for lines in _windows(classifier, text, input_path):
            texts = [_columns(classifier, line, name, n_lines + i) for i, line in enumerate(lines, start=1)]
            for found in classifier.classify_window(texts):
                n_lines += 1
                write(_as_json(found, n_lines) if as_json else _as_text(found))
    classifier.report()


def _windows(classifier: mtkit.Classifier, text: list[str] | None, input_path: Path | None) -> Iterator[list[str]]:
    """Yield the lines to classify in windows; a window of standard input holds the lines that have arrived."""
    if text:
        if classifier.reads_pairs and len(text) == 2 and not any("\t" in one for one in text):
            text = ["\t".join(text)]
        yield from text_lines.windows(text, classifier.window)
    elif input_path:
        total = text_lines.count_lines(input_path) if input_path.is_file() else None  # a pipe can be read only once
        with progress_bar(total, "classifying", "line") as bar:
            for window in text_lines.windows(text_lines.read_lines(input_path), classifier.window):
                yield window
                bar.update(len(window))
    else:
        yield from arriving_windows(classifier.window)


def _columns(classifier: mtkit.Classifier, line: str, name: str, number: int) -> classifiers.Text:
    """Return the text or the pair in a line. Raises DataError if the line has other columns."""
    columns = line.split("\t")
    if not classifier.reads_pairs:
        if len(columns) > 1:
            raise DataError(
                f"{name}: line {number}: {len(columns)} columns, but this classifier reads single texts; for the first "
                "column of a file alone: cut -f1"
            )
        return line
    if not line.strip():
        return "", ""
    if len(columns) != 2:
        more = "; for the first two columns of a file alone: cut -f1,2" if len(columns) > 2 else ""
        raise DataError(f"{name}: line {number}: expected source, tab, target for this classifier{more}")
    return columns[0], columns[1]


def _as_text(found: mtkit.Classification) -> str:
    return "" if found.label is None else f"{found.label}\t{found.probability:.4f}"


def _as_json(found: mtkit.Classification, line: int) -> str:
    record: dict[str, object] = {"line": line, "label": found.label, "probability": found.probability}
    record |= {"probabilities": dict(found.probabilities), **({"cut": True} if found.is_cut else {})}
    return json.dumps(record, ensure_ascii=False)

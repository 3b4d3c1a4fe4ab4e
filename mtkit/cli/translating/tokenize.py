"""`mtkit tokenize` and `mtkit detokenize`: turn lines into pieces and back, as filters."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.lines import arriving_windows, line_writer
from mtkit.cli.options import InputOption, OutputOption
from mtkit.errors import BundleError, DataError
from mtkit.pair_files import lines as text_lines

if TYPE_CHECKING:
    from mtkit.tokens import tokenizer as tokenizers

_WINDOW_LINES = 4096


class Side(StrEnum):
    """The two tokenizers of a model."""

    src = "src"
    tgt = "tgt"


AnyModelOption = Annotated[
    Path | None,
    typer.Option(
        "--model",
        metavar="PATH",
        help="Run, bundle or SentencePiece model. Default: $MTKIT_MODEL, else the newest run in ./runs.",
    ),
]
SideOption = Annotated[Side, typer.Option("--side", help="Use the tokenizer of this side of the model.")]


def tokenize(
    model: AnyModelOption = None,
    side: SideOption = Side.src,
    input_path: InputOption = None,
    output_path: OutputOption = None,
) -> None:
    """Split each line into the model's pieces, separated by spaces."""
    _keep_input(input_path, output_path)
    tokenizer = _find_tokenizer(model, side)
    with line_writer(output_path) as write:
        for window in _windows(input_path):
            for ids in tokenizer.encode_batch(window):
                write(" ".join(tokenizer.pieces(ids)))


def detokenize(
    model: AnyModelOption = None,
    side: SideOption = Side.tgt,
    input_path: InputOption = None,
    output_path: OutputOption = None,
) -> None:
    """Join lines of pieces into text: the inverse of tokenize, up to normalisation.

    Each line stays one line: line breaks from pieces such as <0x0A> become spaces.
    """
    _keep_input(input_path, output_path)
    tokenizer = _find_tokenizer(model, side)
    n_lines = 0
    with line_writer(output_path) as write:
        for window in _windows(input_path):
            for line in window:
                n_lines += 1
                try:
                    ids = tokenizer.piece_ids([piece for piece in line.split(" ") if piece])
                except DataError as error:
                    raise DataError(f"{input_path or 'standard input'}: line {n_lines}: {error}") from error
                write(text_lines.as_one_line(tokenizer.decode(ids)))


def _keep_input(input_path: Path | None, output_path: Path | None) -> None:
    """Raise UsageError if the output is the input."""
    from mtkit.pair_files import corpus_files

    corpus_files.check_distinct([("--output", output_path)], [*filter(None, [input_path])])


def _find_tokenizer(model: Path | None, side: Side) -> tokenizers.Tokenizer:
    from mtkit import bundle
    from mtkit.config.reading import loading
    from mtkit.tokens import tokenizer as tokenizers

    if model is None:
        model = bundle.find_model()
    if model.is_file():
        return tokenizers.Tokenizer.load(model)
    for folder in (model, model / "model"):
        if (folder / f"{side}.spm").is_file():
            tokenizer = tokenizers.Tokenizer.load(folder / f"{side}.spm")
            config = folder / "config.yaml"
            return tokenizer.with_placeholders(
                loading.load_config(config).data.placeholders if config.is_file() else ()
            )
    raise BundleError(f"{model}: contains no {side}.spm; expected a run or bundle folder, or a SentencePiece model")


def _windows(path: Path | None) -> Iterator[list[str]]:
    """Yield the input's lines in lists of up to _WINDOW_LINES."""
    if path is None:
        return arriving_windows(_WINDOW_LINES)

    return text_lines.windows(text_lines.read_lines(path), _WINDOW_LINES)

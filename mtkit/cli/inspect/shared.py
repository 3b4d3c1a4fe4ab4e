"""Options of the subcommands of `inspect`, loading of a model, and output of a sentence pair as text or JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mtkit.cli.options import TEXT, output_option, valid_text
from mtkit.console import log, progress_bar

if TYPE_CHECKING:
    from tqdm import tqdm

    from mtkit import bundle
    from mtkit.inspection import sentence_pair

SentenceArgument = Annotated[
    str, typer.Argument(callback=valid_text, metavar="SENTENCE", help="Sentence to translate or to classify.")
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        callback=valid_text,
        rich_help_panel=TEXT,
        help="Use this translation; for a classifier of pairs, this second text. Default: the model's translation.",
    ),
]
DrawingOption = Annotated[
    Path | None,
    output_option(
        suffixes=(".png", ".svg", ".html"), help="Also draw the result in this .png or .svg picture or .html page."
    ),
]


def log_written(output: Path) -> None:
    """Log that a file was written."""
    log.info(f"written: {output}")


def load_model(model: Path | None, overrides: Sequence[str] | None = None) -> bundle.Bundle:
    """Load the model and log its name."""
    from mtkit import bundle

    folder = bundle.find_model(model)
    log.info(f"model: {folder}")
    loaded = bundle.load_bundle(folder, overrides or ())

    from mtkit import runtime

    runtime.set_threads(loaded.config.decode.threads)
    return loaded


def load_subject(model: Path | None, overrides: Sequence[str] | None = None) -> sentence_pair.Subject:
    """Load the model for translating and inspecting a sentence."""
    from mtkit.inspection import sentence_pair

    return sentence_pair.Subject(load_model(model, overrides))


def load_any_subject(
    model: Path | None, overrides: Sequence[str] | None = None
) -> sentence_pair.Subject | sentence_pair.ClassifierSubject:
    """Load the translator or the classifier for inspecting a sentence."""
    from mtkit import bundle

    files = bundle.read_bundle(bundle.find_model(model), overrides or (), task="any")
    if files.config.task == "translate":
        return load_subject(model, overrides)
    log.info(f"model: {files.folder}")

    from mtkit import runtime
    from mtkit.inspection import sentence_pair

    runtime.set_threads(files.config.decode.threads)
    return sentence_pair.ClassifierSubject(files)


def short_bar(total: int, description: str, unit: str) -> tqdm[Any]:
    """Return a progress bar for short work: it appears after a second, and disappears at the end."""
    return progress_bar(total, description, unit, leave=False, delay=1.0)


def print_pair(pair: sentence_pair.SentencePair) -> None:
    """Print the source with its ids, and the translation with its origin."""
    widths = [
        max(len(piece), len(str(token_id))) for piece, token_id in zip(pair.src.pieces, pair.src.ids, strict=True)
    ]
    print("source      " + " ".join(f"{piece:<{w}}" for piece, w in zip(pair.src.pieces, widths, strict=True)).rstrip())
    print("ids         " + " ".join(f"{i:<{w}}" for i, w in zip(pair.src.ids, widths, strict=True)).rstrip())
    end = "" if pair.finished else "; cut at the length limit"
    print(f"translation {pair.tgt.text}  ({pair.chosen_by}{end})")


def pair_record(pair: sentence_pair.SentencePair) -> dict[str, object]:
    """Return the pair for --json."""
    src, tgt = pair.src, pair.tgt
    return {
        "source": {"text": src.text, "pieces": src.pieces, "ids": src.ids},
        "target": {"text": tgt.text, "pieces": tgt.pieces, "ids": tgt.ids, "finished": pair.finished},
        "chosen_by": pair.chosen_by,
    }


def number(value: float) -> float | None:
    """Return null for NaN and infinity, which JSON does not have."""
    return value if math.isfinite(value) else None

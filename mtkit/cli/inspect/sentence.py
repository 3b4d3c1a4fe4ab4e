"""What the subcommands of `inspect` share: options, a model ready to be looked into, a pair as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mtkit import bundle, runtime
from mtkit.cli.options import valid_text
from mtkit.console import log, progress_bar
from mtkit.inspection import sentence_pair

if TYPE_CHECKING:
    from tqdm import tqdm

SentenceArgument = Annotated[
    str, typer.Argument(callback=valid_text, help="The sentence to translate.", metavar="SENTENCE")
]
TargetOption = Annotated[
    str | None,
    typer.Option("--target", callback=valid_text, help="A translation of your own to look at; default: the model's."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="The result as JSON.")]


def load_model(model: Path | None, overrides: Sequence[str] | None = None) -> bundle.Bundle:
    """The model that is meant; stderr says which."""
    folder = bundle.find_model(model)
    log.info(f"model: {folder}")
    loaded = bundle.load_bundle(folder, overrides or ())
    runtime.set_threads(loaded.config.decode.threads)
    return loaded


def load_subject(model: Path | None, overrides: Sequence[str] | None = None) -> sentence_pair.Subject:
    """The same, ready to translate a sentence that is looked at."""
    loaded = load_model(model, overrides)

    return sentence_pair.Subject(loaded)


def short_bar(total: int, description: str, unit: str) -> tqdm[Any]:
    """A progress bar for what mostly is done at once: it comes after a second, and goes when the work is done."""
    return progress_bar(total, description, unit, leave=False, delay=1.0)


def print_pair(pair: sentence_pair.SentencePair) -> None:
    """The source with its ids, and the translation with who chose it."""
    widths = [
        max(len(piece), len(str(token_id))) for piece, token_id in zip(pair.src.pieces, pair.src.ids, strict=True)
    ]
    print("source      " + " ".join(f"{piece:<{w}}" for piece, w in zip(pair.src.pieces, widths, strict=True)).rstrip())
    print("ids         " + " ".join(f"{i:<{w}}" for i, w in zip(pair.src.ids, widths, strict=True)).rstrip())
    end = "" if pair.finished else "; the length limit ended it"
    print(f"translation {pair.tgt.text}  ({pair.chosen_by}{end})")


def pair_record(pair: sentence_pair.SentencePair) -> dict[str, object]:
    """The pair for --json."""
    src, tgt = pair.src, pair.tgt
    return {
        "source": {"text": src.text, "pieces": src.pieces, "ids": src.ids},
        "target": {"text": tgt.text, "pieces": tgt.pieces, "ids": tgt.ids, "finished": pair.finished},
        "chosen_by": pair.chosen_by,
    }


def number(value: float) -> float | None:
    """As JSON has it, which knows neither NaN nor infinity."""
    return value if math.isfinite(value) else None

"""What the subcommands of `inspect` share: options, a model ready to be looked into, a pair as text and as JSON."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mtkit.cli.options import valid_text

if TYPE_CHECKING:
    from tqdm import tqdm

    from mtkit.bundle import Bundle
    from mtkit.inspection.sentence_pair import SentencePair, Subject

SentenceArgument = Annotated[
    str, typer.Argument(callback=valid_text, help="The sentence to translate.", metavar="SENTENCE")
]
TargetOption = Annotated[
    str | None,
    typer.Option("--target", callback=valid_text, help="A translation of your own to look at; default: the model's."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="The result as JSON.")]


def load_model(model: Path | None, overrides: Sequence[str] | None = None) -> "Bundle":
    """The model that is meant; stderr says which."""
    from mtkit.bundle import find_model, load_bundle
    from mtkit.console import log  # these: here, for `mtkit --help` to be quick
    from mtkit.runtime import set_threads

    folder = find_model(model)
    log.info(f"model: {folder}")
    bundle = load_bundle(folder, overrides or ())
    set_threads(bundle.config.decode.threads)
    return bundle


def load_subject(model: Path | None, overrides: Sequence[str] | None = None) -> "Subject":
    """The same, ready to translate a sentence that is looked at."""
    bundle = load_model(model, overrides)

    from mtkit.inspection.sentence_pair import Subject

    return Subject(bundle)


def short_bar(total: int, description: str, unit: str) -> "tqdm[Any]":
    """A progress bar for what mostly is done at once: it comes after a second, and goes when the work is done."""
    from mtkit.console import progress_bar

    return progress_bar(total, description, unit, leave=False, delay=1.0)


def print_pair(pair: "SentencePair") -> None:
    """The source with its ids, and the translation with who chose it."""
    widths = [
        max(len(piece), len(str(token_id))) for piece, token_id in zip(pair.src.pieces, pair.src.ids, strict=True)
    ]
    print("source      " + " ".join(f"{piece:<{w}}" for piece, w in zip(pair.src.pieces, widths, strict=True)).rstrip())
    print("ids         " + " ".join(f"{i:<{w}}" for i, w in zip(pair.src.ids, widths, strict=True)).rstrip())
    end = "" if pair.finished else "; the length limit ended it"
    print(f"translation {pair.tgt.text}  ({pair.chosen_by}{end})")


def pair_record(pair: "SentencePair") -> dict[str, object]:
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

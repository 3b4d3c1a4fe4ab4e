"""`mtkit alternatives`: show other words for one position of a translation."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from mtkit.cli.models import load_translator
from mtkit.cli.options import DecodeSetOption, DeviceOption, JsonOption, ModelOption, valid_text


def show_alternatives(
    text: Annotated[str, typer.Argument(callback=valid_text, metavar="SENTENCE", help="Sentence to translate.")],
    position: Annotated[
        int, typer.Option("--position", "-p", min=1, help="Number of the word in the translation, from 1.")
    ],
    n: Annotated[int, typer.Option("--n", min=1, help="Show at most N other words.")] = 5,
    translation: Annotated[
        str | None, typer.Option(callback=valid_text, help="Use this translation. Default: the model's.")
    ] = None,
    model: ModelOption = None,
    overrides: DecodeSetOption = None,
    as_json: JsonOption = False,
    device: DeviceOption = "auto",
) -> None:
    """Show other words for one position of a translation, their probabilities, and how the translation would continue.

    The probability of a word is the model's probability after the preceding words. The search then completes each
    translation.
    """
    from mtkit import bundle

    # first, so that --set decode.engine=ctranslate2 still leads to its own error message
    settings = ["decode.engine=native", "decode.workers=1", *(overrides or [])]
    translator = load_translator([bundle.find_model(model)], overrides=settings, device=device)

    from mtkit.scoring import alternatives

    result = alternatives.find_alternatives(translator, text, position, n=n, translation=translation)
    if as_json:
        print(json.dumps(asdict(result), indent=2, ensure_ascii=False))
        return
    print(result.text)
    print(f"{position}. {result.word}  {result.probability:.4f}")
    width = max((len(other.word) for other in result.others), default=0)
    for other in result.others:
        print(f"   {other.word or '<end>':<{width}}  {other.probability:.4f}  {other.text}")

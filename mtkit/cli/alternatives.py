"""`mtkit alternatives`: a sentence and a place in its translation in; other words for that place out."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from mtkit import bundle
from mtkit.cli.options import DecodeSetOption, DeviceOption, ModelOption, valid_text
from mtkit.cli.translating import load_translator
from mtkit.scoring import alternatives


def show_alternatives(
    text: Annotated[str, typer.Argument(callback=valid_text, help="The sentence to translate.")],
    position: Annotated[int, typer.Option("--position", "-p", min=1, help="Word of the translation, from 1.")],
    n: Annotated[int, typer.Option("--n", min=1, help="At most so many other words.")] = 5,
    translation: Annotated[
        str | None, typer.Option(callback=valid_text, help="A translation of your own; default: the model's.")
    ] = None,
    model: ModelOption = None,
    overrides: DecodeSetOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON.")] = False,
    device: DeviceOption = "auto",
) -> None:
    """Show which other words could stand at one place of a translation, how probable, and what would follow.

    A word's probability is the model's, given the words before it; the rest of each translation is searched anew.
    """

    # unless another engine is asked for, which says why not
    settings = ["decode.engine=native", "decode.workers=1", *(overrides or [])]
    translator = load_translator([bundle.find_model(model)], overrides=settings, device=device)
    found = alternatives.find_alternatives(translator, text, position, n=n, translation=translation)
    if as_json:
        print(json.dumps(asdict(found), indent=2, ensure_ascii=False))
        return
    print(found.text)
    print(f"{position}. {found.word}  {found.probability:.4f}")
    width = max((len(other.word) for other in found.others), default=0)
    for other in found.others:
        print(f"   {other.word or '<end>':<{width}}  {other.probability:.4f}  {other.text}")

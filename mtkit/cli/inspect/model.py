"""`mtkit inspect model`: show a model's layers, shapes, parameters and multiply-adds."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.options import TEXT, JsonOption, ModelOption, SetOption, load_run_config, valid_text
from mtkit.console import log
from mtkit.errors import UsageError

if TYPE_CHECKING:
    from mtkit.inspection import model_summary


def show_model(
    sentence: Annotated[
        str | None,
        typer.Argument(
            callback=valid_text,
            help="Sentence whose shapes the command follows through the layers.",
            metavar="SENTENCE",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            callback=valid_text,
            rich_help_panel=TEXT,
            help="Translation of the sentence; for a classifier of pairs, the second text. Default: a text as long "
            "as the sentence.",
        ),
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option(
            "--tokens",
            min=1,
            rich_help_panel=TEXT,
            help="Without a sentence: number of tokens on each side, including <end>; for a classifier, in total. "
            "Default: 20.",
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Show every layer, not only the first of several equal ones.")
    ] = False,
    config_path: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="Show the model that this YAML file describes, trained or not."),
    ] = None,
    model: ModelOption = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a model's layers with their shapes for one sentence, and parameters and multiply-adds by part.

    Multiply-adds count the matrix products of one forward pass over the pair, as in training; other operations are few
    in comparison. A matrix that two parts share counts in the first one. If the model reads tags, such as those of
    OPUS-MT for the target language, the command lists them. A classifier is an encoder whose output gives
    the labels.
    """
    if model is not None and config_path is not None:
        raise UsageError("give either --model or --config, not both")
    if target is not None and sentence is None:
        raise UsageError("--target needs a sentence: give SENTENCE, too")

    if tokens is not None and sentence is not None:
        raise UsageError("give a sentence or --tokens, not both")

    architecture = _architecture(model, config_path, overrides or [])
    n_src, n_tgt = (tokens or 20,) * 2 if sentence is None else architecture.n_tokens(sentence, target)
    summary = architecture.summary(n_src, n_tgt)
    if as_json:
        totals = {"parameters": summary.parameters, "multiply_adds": summary.multiply_adds}
        known = {"tags": architecture.tags, "languages": architecture.languages}
        print(json.dumps({**asdict(summary), **known, "total": totals}, indent=2, ensure_ascii=False))
    else:
        _print_layers(summary, every)
        print()
        _print_parts(summary)
        if architecture.tags:
            print(f"\ntags that decode.tag can name: {' '.join(architecture.tags)}")
        if architecture.languages:
            print(f"\nlanguages for --src-lang and --tgt-lang: {' '.join(architecture.languages)}")


def _architecture(model: Path | None, config_path: Path | None, overrides: list[str]) -> model_summary.Architecture:
    from mtkit import bundle

    if config_path is not None:
        config = load_run_config(config_path, overrides)  # before torch is imported, which takes a second
    else:
        folder = bundle.find_model(model)
        files = bundle.read_bundle(folder, overrides, task="any")

    from mtkit.inspection import model_summary

    if config_path is None:
        log.info(f"model: {folder}")
        return model_summary.Architecture.from_bundle(files)
    architecture = model_summary.Architecture.from_config(config)
    if architecture.tokenizers is None:
        log.info(
            f"{config_path}: the tokenizers do not exist yet; the sizes of the vocabularies are those in the config"
        )
    return architecture


def _print_layers(summary: model_summary.ModelSummary, every: bool) -> None:
    if summary.task == "classify":
        labels = f"one of {summary.tgt_vocab_size} labels"
        print(f"{summary.n_src} tokens, including <start> and <end>, that get {labels}\n")
    else:
        print(f"one pair of {summary.n_src} source and {summary.n_tgt} target tokens, including <end>\n")
    layers = summary.layers if every else [layer for layer in summary.layers if _index_in_stack(layer) == 0]
    rows = [
        (layer.name, layer.kind, _shapes(layer.inputs), _shapes([layer.output]), f"{layer.parameters:,}")
        for layer in layers
    ]
    _print_table([("layer", "kind", "inputs", "output", "parameters"), *rows], n_left=4)
    hidden = {stack: n for stack in ("encoder_layers", "decoder_layers") if (n := _n_layers(summary, stack)) > 1}
    if not every:
        for stack, n in hidden.items():
            names = f"{stack}.1" if n == 2 else f"{stack}.1 to {stack}.{n - 1}"
            print(f"{names}: like {stack}.0 (use --all to show them)")


def _index_in_stack(layer: model_summary.Layer) -> int:
    match = re.match(r"\w+_layers\.(\d+)", layer.name)
    return int(match[1]) if match else 0


def _n_layers(summary: model_summary.ModelSummary, stack: str) -> int:
    return 1 + max((_index_in_stack(layer) for layer in summary.layers if layer.name.startswith(stack)), default=-1)


def _shapes(shapes: list[tuple[int, ...]]) -> str:
    return " ".join("x".join(map(str, shape)) for shape in shapes)


def _print_parts(summary: model_summary.ModelSummary) -> None:
    rows = [
        (
            part.name,
            f"{part.parameters:,}",
            f"{part.parameters / summary.parameters:.1%}",
            f"{part.multiply_adds:,}",
            f"{part.multiply_adds / summary.multiply_adds:.1%}",
            f"{part.src_multiply_adds / summary.n_src:,.0f}",
            f"{part.tgt_multiply_adds / summary.n_tgt:,.0f}",
        )
        for part in summary.parts
    ]
    src, tgt = (sum(getattr(part, f"{side}_multiply_adds") for part in summary.parts) for side in ("src", "tgt"))
    total = (
        "total",
        f"{summary.parameters:,}",
        "",
        f"{summary.multiply_adds:,}",
        "",
        f"{src / summary.n_src:,.0f}",
        f"{tgt / summary.n_tgt:,.0f}",
    )
    each = ("a token", "the label") if summary.task == "classify" else ("a source token", "a target token")
    heading = ("part", "parameters", "", "multiply-adds", "", *each)
    _print_table([heading, *rows, total], n_left=1)
    for name, first in summary.shared.items():
        print(f"{name} is {first}, which counts it")


def _print_table(rows: list[tuple[str, ...]], n_left: int) -> None:
    """Align the first n_left columns left, and the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.ljust(w) if n < n_left else cell.rjust(w) for n, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join(cells).rstrip())

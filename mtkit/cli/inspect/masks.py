"""`mtkit inspect masks`: sentences in, the masks of their padded batch, and what padding changes, out."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from mtkit.cli.inspect.drawing import DrawingOption, say_written
from mtkit.cli.inspect.sentence import JsonOption, load_subject, number, pair_record, short_bar
from mtkit.cli.options import DecodeSetOption, ModelOption, valid_text
from mtkit.console import log
from mtkit.errors import UsageError
from mtkit.inspection import masks


def show_masks(
    sentences: Annotated[
        list[str],
        typer.Argument(callback=valid_text, help="Sentences of different lengths, to be padded.", metavar="SENTENCE"),
    ],
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            callback=valid_text,
            help="A translation of your own to look at, once for each sentence; default: the model's.",
        ),
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option(min=0.0, help="Largest difference that counts as rounding; default: 0.001.")
    ] = None,
    output: DrawingOption = None,
    model: ModelOption = None,
    overrides: DecodeSetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the causal and padding masks of a padded batch, and prove that padding changes nothing.

    Sentences that are computed together are filled up with <pad>, which no token may look at. The proof: the encoder's
    outputs and the logits of each sentence in the batch are those of the sentence alone, up to rounding; exit code 1 if
    not. Beside it stands what would come out without the padding mask.

    --json has one object: holds, tolerance, causal_mask (true where the row may look at the column) and sentences, each
    with its source and target, padded_source, padded_target_input, source_mask (true where one may look), and under
    with_mask and without_mask the largest differences, encoder and logits, and changed: how many target positions now
    have another likeliest token.
    """
    if target is not None and len(target) != len(sentences):
        raise UsageError(
            f"{len(sentences)} sentences but --target {len(target)} times; give one for each sentence, or none"
        )

    subject = load_subject(model, overrides)

    with short_bar(2 * len(sentences), "comparing", "sentence") as bar:
        pairs = []
        for i, text in enumerate(sentences):
            pairs.append(subject.pair(text, target=target[i] if target else None, beam_size=1))
            bar.update()
        allowed = masks.TOLERANCE if tolerance is None else tolerance
        batch = masks.padded_batch(subject, pairs, tolerance=allowed, advance=bar.update)
    if not batch.padded:
        log.warning("no sentence is padded, so nothing is proved; give several of different lengths")
    if output is not None:
        (masks.write_masks_page if output.suffix.lower() == ".html" else masks.write_picture)(output, batch)
        say_written(output)
    print(json.dumps(_record(batch), ensure_ascii=False) if as_json else masks.as_text(batch))
    if not batch.holds:
        raise typer.Exit(1)


def _record(batch: masks.PaddedBatch) -> dict[str, object]:
    rows = [
        {
            **pair_record(row.pair),
            "padded_source": list(row.src),
            "padded_target_input": list(row.tgt_in),
            "source_mask": row.src_mask.tolist(),
            "with_mask": _difference(row.masked),
            "without_mask": _difference(row.unmasked),
        }
        for row in batch.sentences
    ]
    return {
        "holds": batch.holds,
        "tolerance": batch.tolerance,
        "sentences": rows,
        "causal_mask": batch.causal_mask.tolist(),
    }


def _difference(found: masks.Difference) -> dict[str, object]:
    """NaN, which JSON does not know, as null."""
    return {key: number(value) for key, value in asdict(found).items()}

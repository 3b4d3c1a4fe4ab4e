"""`mtkit inspect masks`: show the masks of a padded batch, and prove that padding changes nothing."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.inspect.shared import DrawingOption, load_subject, log_written, number, pair_record, short_bar
from mtkit.cli.options import TEXT, DecodeSetOption, JsonOption, ModelOption, valid_text
from mtkit.console import log
from mtkit.errors import UsageError

if TYPE_CHECKING:
    from mtkit.inspection import masks


def show_masks(
    sentences: Annotated[
        list[str],
        typer.Argument(
            callback=valid_text, help="Sentences of different lengths; the command pads them.", metavar="SENTENCE"
        ),
    ],
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            callback=valid_text,
            rich_help_panel=TEXT,
            help="Use these translations, one for each sentence. Default: the model's.",
        ),
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option(min=0, help="Largest difference that counts as rounding. Default: 0.001.")
    ] = None,
    output: DrawingOption = None,
    model: ModelOption = None,
    overrides: DecodeSetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the causal and padding masks of a padded batch, and prove that padding changes nothing.

    A batch pads its sentences with <pad>, which no token may look at. The command compares the encoder's outputs and
    the logits of each sentence in the batch with those of the sentence alone. The exit code is 1 if they differ by more
    than rounding. The command also shows the difference without the padding mask.

    --json has one object: holds, tolerance, causal_mask (true where the row may look at the column) and sentences, each
    with its source and target, padded_source, padded_target_input, source_mask (true at tokens), and under with_mask
    and without_mask the largest differences, encoder and logits, and changed: the number of target positions whose
    likeliest token changes.
    """
    if target is not None and len(target) != len(sentences):
        raise UsageError(
            f"{len(sentences)} sentences, but {len(target)} times --target; give one for each sentence, or none"
        )

    subject = load_subject(model, overrides)

    from mtkit.inspection import masks

    with short_bar(2 * len(sentences), "comparing", "sentence") as bar:
        pairs = []
        for i, text in enumerate(sentences):
            pairs.append(subject.pair(text, target=target[i] if target else None, beam_size=1))
            bar.update()
        allowed = masks.TOLERANCE if tolerance is None else tolerance
        batch = masks.padded_batch(subject, pairs, tolerance=allowed, advance=bar.update)
    if not batch.padded:
        log.warning("no sentence has padding, so there is nothing to prove; give sentences of different lengths")
    if output is not None:
        (masks.write_masks_page if output.suffix.lower() == ".html" else masks.write_picture)(output, batch)
        log_written(output)
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


def _difference(difference: masks.Difference) -> dict[str, object]:
    """Return the difference with null for NaN, which JSON does not have."""
    return {key: number(value) for key, value in asdict(difference).items()}

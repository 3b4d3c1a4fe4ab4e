"""`mtkit inspect positions`: show how a model encodes the positions of tokens."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mtkit.cli.inspect.shared import DrawingOption, load_subject, log_written
from mtkit.cli.options import JsonOption, ModelOption
from mtkit.config.model import PositionKind
from mtkit.errors import UsageError

if TYPE_CHECKING:
    from mtkit.inspection import distances, positions

_WIDTH = 256  # as of ModelConfig.d_model


def show_positions(
    kind: Annotated[
        PositionKind | None,
        typer.Option(
            help="Show this kind by its formula, without a model; learned, relative: as initialised before training; "
            "alibi: for 8 heads."
        ),
    ] = None,
    d_model: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=8192,
            help=f"Width of the encoding of --kind; for rotary and relative, the width of a head. Default: {_WIDTH}.",
        ),
    ] = None,
    side: Annotated[Literal["src", "tgt"] | None, typer.Option(help="Which side of the model. Default: src.")] = None,
    length: Annotated[int, typer.Option(min=2, max=2048, help="Number of positions to show, from position 0.")] = 64,
    output: DrawingOption = None,
    model: ModelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how the model encodes the order of tokens: the encoding, the similarity of positions, the wavelengths.

    Similarity is the dot product and the cosine of two positions' vectors: for each distance, the mean, the lowest and
    the highest over all pairs at that distance. Rotary positions have no vectors, so the command takes the product of a
    query and an equal key, rotated to the two positions. The wavelength of a dimension is the number of positions in
    one period of its sine; for a learned dimension, of the wave that explains most of it.

    Relative and alibi positions are part of attention. The command shows them by the distance of a key from the query:
    the number that alibi adds to the scores of each head, or the lengths of a relative layer's vectors for keys and
    values, and which distances have similar vectors. --length is the longest distance of alibi.

    --json has one object: kind, origin, n_positions, width, embedding_length (mean, of a model), dot_spread (the most
    that the product differs at one distance), similarity (distance, and mean, low, high of dot and cosine), wavelengths
    and encoding (a list per position). For relative and alibi: kind, origin, distances, and by_distance, the lines of
    each chart.
    """
    if kind is None and d_model is not None:
        raise UsageError("--d-model needs --kind; the width of a model is fixed")
    if kind is not None and (model is not None or side is not None):
        raise UsageError("give either --kind, or a model with --model and --side")
    if kind == "alibi" and d_model is not None:
        raise UsageError("--d-model: alibi positions have no width")
    if kind in ("sinusoidal", "marian", "fairseq", "rotary") and (d_model or _WIDTH) % 2:
        raise UsageError(f"--d-model {d_model}: {kind} positions use pairs of dimensions; give an even number")

    subject = None if kind else load_subject(model).model
    shown = subject.cfg.positions if subject else kind

    from mtkit.inspection import distances, positions

    if shown == "relative" or shown == "alibi":
        by_distance = (
            distances.distances_of_model(subject, side or "src", length)
            if subject
            else distances.distances_by_formula(shown, d_model or _WIDTH, length)
        )
        _show_distances(by_distance, output, as_json=as_json)
        return
    view = (
        positions.positions_of_model(subject, side or "src", length)
        if subject
        else positions.positions_by_formula(kind or "sinusoidal", d_model or _WIDTH, length)
    )
    if output is not None:
        (positions.write_positions_page if output.suffix.lower() == ".html" else positions.write_picture)(output, view)
        log_written(output)
    print(json.dumps(_record(view), ensure_ascii=False) if as_json else positions.as_text(view))


def _show_distances(view: distances.DistancesView, output: Path | None, *, as_json: bool) -> None:
    from mtkit.inspection import distances

    if output is not None:
        (distances.write_distances_page if output.suffix.lower() == ".html" else distances.write_picture)(output, view)
        log_written(output)
    print(json.dumps(distances.as_record(view), ensure_ascii=False) if as_json else distances.as_text(view))


def _record(view: positions.PositionsView) -> dict[str, object]:
    return {
        "kind": view.kind,
        "origin": view.origin,
        "n_positions": view.encoding.size(0),
        "width": view.encoding.size(1),
        "embedding_length": view.embedding_length,
        "dot_spread": view.dot_spread,
        "similarity": [asdict(row) for row in view.similarity],
        "wavelengths": list(view.wavelengths),
        "encoding": [[round(value, 6) for value in row] for row in view.encoding.tolist()],
    }

"""`mtkit inspect embeddings`: show the tokens nearest to words, and a map of them."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mtkit.cli.inspect.shared import DrawingOption, load_model, log_written
from mtkit.cli.options import JsonOption, ModelOption, valid_text
from mtkit.errors import UsageError

if TYPE_CHECKING:
    from mtkit.inspection import embeddings, word_map


def show_embeddings(
    words: Annotated[
        list[str],
        typer.Argument(callback=valid_text, metavar="WORD", help="Words as in ordinary text, or tokens with --pieces."),
    ],
    side: Annotated[Literal["src", "tgt"], typer.Option(help="Source or target embeddings.")] = "src",
    top: Annotated[int, typer.Option("--top", "-n", min=1, help="Nearest tokens to show for each word.")] = 6,
    neighbours: Annotated[
        bool, typer.Option("--neighbours", help="Add the nearest tokens by cosine to the map.")
    ] = False,
    pieces: Annotated[
        bool,
        typer.Option(
            "--pieces", help="Treat the words as tokens in the spelling of `mtkit tokenize`, such as ▁cat or ing."
        ),
    ] = False,
    output: DrawingOption = None,
    model: ModelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the tokens nearest to words, by cosine similarity and by Euclidean distance.

    It shows three views: the trained model, the model before training (its initial weights, or those of
    train.init_from), and the difference between the two. A word of several tokens gets the mean of their vectors. The
    command leaves out single bytes and special tokens. The map is the plane of the words' two principal axes (PCA) in
    each view.
    """
    if neighbours and output is None and not as_json:
        raise UsageError("--neighbours adds tokens to the map: give --output PICTURE, or --json, too")

    loaded = load_model(model)

    from mtkit.inspection import embeddings, word_map

    views = embeddings.views_of(loaded, side)
    look_up = views.vocabulary.token if pieces else views.vocabulary.word
    looked_up = embeddings.nearest_of(views, [look_up(word) for word in words], top)
    on_map = None
    if neighbours or output is not None or len({nearest.word.ids for nearest in looked_up}) >= word_map.FEWEST_POINTS:
        on_map = word_map.word_map(views, looked_up, with_neighbours=neighbours)
    if output is not None and on_map is not None:
        language = loaded.config.data.src_lang if side == "src" else loaded.config.data.tgt_lang
        folder = loaded.folder.parent if loaded.folder.name == "model" else loaded.folder
        title = f"Embeddings of {language} words in {folder.name}"
        word_map.write_map(output, title, on_map, looked_up, views.origin)
        log_written(output)
    if as_json:
        print(json.dumps(_record(views, looked_up, on_map, side), indent=2, ensure_ascii=False))
        return
    print(_text(views, looked_up, None if output is None else on_map))


def _record(
    views: embeddings.Views,
    looked_up: Sequence[embeddings.NearestOfWord],
    on_map: word_map.WordMap | None,
    side: str,
) -> dict[str, Any]:
    space = views.views[0].space
    record: dict[str, Any] = {
        "side": side,
        "n_tokens": space.vectors.shape[0],
        "width": space.vectors.shape[1],
        "before_training": views.origin,
        "words": [
            {**asdict(nearest.word), "views": {name: asdict(near) for name, near in nearest.views.items()}}
            for nearest in looked_up
        ],
    }
    if on_map is not None:
        record["map"] = {
            name: {
                "explained_variance": plane.explained,
                "points": [
                    {**asdict(point), "x": x, "y": y}
                    for point, (x, y) in zip(on_map.points, plane.points.tolist(), strict=True)
                ],
            }
            for name, plane in on_map.planes.items()
        }
    return record


def _text(
    views: embeddings.Views, looked_up: Sequence[embeddings.NearestOfWord], on_map: word_map.WordMap | None
) -> str:
    vectors = views.views[0].space.vectors
    lines = [f"{vectors.shape[0]:,} tokens, {vectors.shape[1]} values each; before training: {views.origin}"]
    for nearest in looked_up:
        word = nearest.word
        spelt = " ".join(f"{piece} ({token_id})" for piece, token_id in zip(word.pieces, word.ids, strict=True))
        mean = "" if len(word.ids) == 1 else f": not a single token, so this is the mean of these {len(word.ids)}"
        lines += ["", f"{word.text} = {spelt}{mean}"]
        if word.like:
            lines.append(f"  most similar spelling: {' '.join(word.like)}")
        for name, near in nearest.views.items():
            lines += _view_lines(name, near)
    if on_map is not None:
        lines += ["", f"Share of the variance of its {len(on_map.points)} vectors that the axes of the map show:"]
        for name, plane in on_map.planes.items():
            lines.append(f"  {name:<19} {plane.explained[0]:.0%} + {plane.explained[1]:.0%}")
    return "\n".join(lines)


def _view_lines(name: str, near: embeddings.Neighbours) -> list[str]:
    rows = {
        "cosine": [f"{neighbour.token} {neighbour.cosine:.2f}" for neighbour in near.cosine],
        "Euclidean": [f"{neighbour.token} {neighbour.distance:.2f}" for neighbour in near.euclidean],
    }
    if not near.cosine:
        return [f"  {name:<19} none: training has not changed this vector"]
    lines = []
    for measure, cells in rows.items():
        head = f"  {name if measure == 'cosine' else '':<19} {measure:<10} "
        # no-break spaces keep a token and its number on one line
        text = "  ".join(cell.replace(" ", "\N{NO-BREAK SPACE}") for cell in cells)
        width = max(60, shutil.get_terminal_size((100, 24)).columns)
        wrapped = textwrap.wrap(text, width, initial_indent=head, subsequent_indent=" " * len(head))
        lines += [line.replace("\N{NO-BREAK SPACE}", " ") for line in wrapped or [head]]
    return lines

"""A trace in, a grid of heat maps out: a column for each head, a row for each layer, tokens on the axes."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtkit.errors import MtkitError
from mtkit.inspection.pictures import axis_names, new_figure, save_figure
from mtkit.inspection.trace import KINDS, NAMES, AttentionMap, AttentionTrace

DPI = 130
MAX_PIXELS = 120_000_000  # matplotlib then needs about a gigabyte of memory
_FONT = 7.5  # points
_TITLE_FONT = 10
_CHARACTER = 0.62 * _FONT / 72  # everything from here on in inches: width of a character, about
_TOKEN = 0.14  # a row or a column of a map
_LEAST_MAP = 1.15  # a map's title fits above it
_GAP, _HEADING, _MARGIN, _LINE = 0.24, 0.5, 0.2, 0.22
_SCALE = 1.2  # width of what says which shade means which weight
_LEAST_WIDTH = 5.0
_HIDDEN = "#d4d4d4"


@dataclass(frozen=True)
class _Place:
    """Where one head's map stands: its upper left corner and its size, from the upper left corner of the picture."""

    attention: AttentionMap
    row: int  # of attention.weights
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class _Layout:
    """Where everything stands."""

    width: float
    height: float
    title: list[str]
    headings: list[tuple[float, str]]  # y
    places: list[_Place]


def write_attention_picture(path: Path, trace: AttentionTrace) -> None:
    """Draw every map of the trace into a .png or .svg file.

    Raises MtkitError without matplotlib, or if the picture would be too large.
    """
    layout = _lay_out(trace)
    width, height = round(DPI * layout.width), round(DPI * layout.height)
    if width * height > MAX_PIXELS:
        raise MtkitError(
            f"{path}: {len(layout.places)} maps of this sentence make a picture of {width:,} x {height:,} pixels; "
            "choose some of them with --kind, --layer or --head, or give --output a name that ends in .html"
        )
    figure = new_figure(path, layout.width, layout.height)
    # One pair of axes for all, in inches from the upper left corner: a pair for each map would take minutes.
    canvas = figure.add_axes((0, 0, 1, 1), frameon=False)
    for number, line in enumerate(layout.title):
        canvas.text(_MARGIN, _MARGIN + number * _LINE, line, size=_TITLE_FONT, va="top", parse_math=False)
    _draw_scale(canvas, _MARGIN + _LINE * (len(layout.title) + 0.4))
    for y, heading in layout.headings:
        canvas.text(_MARGIN, y, heading, size=_TITLE_FONT, weight="bold", va="top")
    for place in layout.places:
        _draw(canvas, place, *map(axis_names, trace.axes(place.attention.kind)))
    canvas.set(xlim=(0, layout.width), ylim=(layout.height, 0), xticks=[], yticks=[])
    save_figure(figure, path, DPI)


def _lay_out(trace: AttentionTrace) -> _Layout:
    n_heads = len(trace.maps[0].heads)
    left = _MARGIN + _CHARACTER * (1 + max(len(piece) for found in trace.maps for piece in trace.axes(found.kind)[0]))
    sizes = {kind: [max(_LEAST_MAP, _TOKEN * len(axis)) for axis in trace.axes(kind)] for kind in KINDS}
    widest = max(sizes[found.kind][1] for found in trace.maps)
    width = max(_LEAST_WIDTH, left + n_heads * (widest + _GAP) - _GAP + _MARGIN)
    n_characters = int((width - 2 * _MARGIN) / (_CHARACTER * _TITLE_FONT / _FONT))
    pair = trace.pair
    title = [line for text in (pair.src.text, pair.tgt.text) for line in textwrap.wrap(text, n_characters)]
    y = _MARGIN + _LINE * (len(title) + 2)  # a line for the scale
    headings, places = [], []
    for kind in KINDS:
        if layers := trace.of(kind):
            headings.append((y, NAMES[kind]))
            y += _HEADING
        below = _CHARACTER * (2 + max(map(len, trace.axes(kind)[1])))
        height, map_width = sizes[kind]
        for attention in layers:
            for row in range(n_heads):
                places.append(_Place(attention, row, left + row * (map_width + _GAP), y, map_width, height))
            y += height + below + _GAP
    return _Layout(width, y + _MARGIN, title, headings, places)


def _draw(canvas: Any, place: _Place, queries: Sequence[str], keys: Sequence[str]) -> None:
    """One map; the tokens that look stand beside the first of its row."""
    attention, x, y = place.attention, place.x, place.y
    weights = attention.weights[place.row].masked_fill(attention.hidden, float("nan")).numpy()
    _paint(canvas, weights, x, y, place.width, place.height)
    title = f"layer {attention.layer}, head {attention.heads[place.row]}"
    canvas.text(x + place.width / 2, y - 0.04, title, size=_FONT, ha="center", va="bottom")
    names = {"size": _FONT, "ha": "right", "va": "center_baseline", "rotation_mode": "anchor", "parse_math": False}
    for number, key in enumerate(keys):
        middle = x + place.width * (number + 0.5) / len(keys)
        canvas.text(middle, y + place.height + 0.05, key, rotation=90, **names)
    for number, query in enumerate(queries if place.row == 0 else ()):
        canvas.text(x - 0.05, y + place.height * (number + 0.5) / len(queries), query, **names)


def _paint(canvas: Any, weights: Any, x: float, y: float, width: float, height: float) -> None:
    """Weights (rows, columns) as shades of blue in a frame; NaN is grey."""
    import matplotlib
    from matplotlib.patches import Rectangle

    shades = matplotlib.colormaps["Blues"].with_extremes(bad=_HIDDEN)
    extent = (x, x + width, y + height, y)
    canvas.imshow(weights, cmap=shades, vmin=0, vmax=1, extent=extent, aspect="auto", interpolation="nearest")
    canvas.add_patch(Rectangle((x, y), width, height, fill=False, linewidth=0.5))


def _draw_scale(canvas: Any, y: float) -> None:
    """What the shades mean."""
    _paint(canvas, [[number / 100 for number in range(101)]], _MARGIN + 0.1, y, _SCALE, 0.1)
    for x, label in ((_MARGIN, "0"), (_MARGIN + _SCALE + 0.2, "1")):
        canvas.text(x, y + 0.05, label, size=_FONT, ha="center", va="center")
    note = "weight; grey: hidden. A row looks at the columns; its weights add up to 1."
    canvas.text(_MARGIN + _SCALE + 0.4, y + 0.05, note, size=_FONT, va="center")

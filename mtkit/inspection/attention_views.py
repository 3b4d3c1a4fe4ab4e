"""Show attention: as a table for a terminal, a record for JSON, a page to explore, and a picture of all maps."""

import base64
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from mtkit.errors import MtkitError
from mtkit.inspection.pictures import axis_names, new_figure, save_figure
from mtkit.inspection.trace import KINDS, NAMES, AttentionMap, AttentionTrace, Kind
from mtkit.pages.page import write_page
from mtkit.text.characters import n_columns

SHADES = ((0.05, "\N{MIDDLE DOT}"), (0.2, "░"), (0.4, "▒"), (0.7, "▓"), (2.0, "█"))  # upper bound, character
LEGEND = "weights: · below 0.05, ░ 0.2, ▒ 0.4, ▓ 0.7, █ above; blank: hidden"
_HEADER_LINES = 8  # characters shown of a token above its column
_MAX_INT16 = 32767
_LONGEST_TITLE = 50  # characters
DPI = 130
MAX_PIXELS = 120_000_000  # matplotlib needs about a gigabyte of memory for these
_FONT, _TITLE_FONT = 7.5, 10  # points
# All of these are in inches.
_CHARACTER = 0.62 * _FONT / 72  # approximate width of a character
_TOKEN = 0.14  # a row or a column of a map
_MIN_MAP = 1.15  # leaves room for a map's title
_GAP, _HEADING, _MARGIN, _LINE = 0.24, 0.5, 0.2, 0.22
_SCALE = 1.2  # width of the colour scale
_MIN_WIDTH = 5.0
_HIDDEN = "#d4d4d4"


def attention_tables(trace: AttentionTrace, kind: Kind | None, layer: int | None, head: int | None) -> str:
    """Return a table for each chosen layer: the mean of its heads, or the chosen head.

    Without a kind and a layer, show the cross-attention that best aligns source and target; of a classifier, the last
    layer, whose first row decides the label. A layer number selects the layer of every kind that has it.
    """
    if trace.is_classifier:
        kind, layer = kind or "encoder", layer or len(trace.layers("encoder"))
    elif kind is None and layer is None:
        layer = trace.cross.layer
    kinds = [kind or "cross"] if kind or layer is None or layer <= len(trace.layers("cross")) else []
    lines = []
    for attention in trace.chosen(kinds, layer, head).maps:
        n_layers = len(trace.layers(attention.kind))
        heads = f"head {attention.heads[0]}" if len(attention.heads) == 1 else f"mean of {len(attention.heads)} heads"
        lines.append(f"{NAMES[attention.kind]}, layer {attention.layer} of {n_layers}, {heads}")
        lines += [*_table(attention, trace), ""]
    return "\n".join([*lines, LEGEND])


def attention_record(trace: AttentionTrace) -> list[dict[str, Any]]:
    """Return all weights for JSON: weights[head][query][key] of each layer of each kind; layers and heads from 1."""
    return [
        {
            "kind": attention.kind,
            "layer": attention.layer,
            "heads": list(attention.heads),
            "queries": trace.axes(attention.kind)[0],
            "keys": trace.axes(attention.kind)[1],
            "weights": [[[round(w, 6) for w in row] for row in head] for head in attention.weights.tolist()],
        }
        for attention in trace.maps
    ]


def _table(attention: AttentionMap, trace: AttentionTrace) -> list[str]:
    """Return the lines of a table: keys written downwards above their columns, then a row for each query.

    A row ends with the key of the largest weight and, in the decoder, the token to predict.
    """
    queries, keys = trace.axes(attention.kind)
    predicted = [""] * len(queries) if attention.kind == "encoder" else trace.pair.tgt.pieces
    margin, room = max(map(n_columns, queries)), max(map(n_columns, keys))
    names = [_vertical(key) for key in keys]
    lines = [f"{'':{margin}}  {''.join(name[line] for name in names)}" for line in range(_HEADER_LINES)]
    lines = [line for line in lines if line.strip()]
    lines[-1] += f"  {'most':{room + 5}}" + ("" if attention.kind == "encoder" else "  next token")
    means = attention.weights.mean(0).tolist()
    for query, word, row, hidden in zip(queries, predicted, means, attention.hidden.tolist(), strict=True):
        shades = "".join("  " if unseen else _shade(weight) for weight, unseen in zip(row, hidden, strict=True))
        best = max(range(len(keys)), key=row.__getitem__)
        most = f"{row[best]:.2f} {_padded(keys[best], room)}"
        lines.append(f"{' ' * (margin - n_columns(query))}{query}  {shades}  {most}  {word}")
    return [line.rstrip() for line in lines]


def _padded(text: str, width: int) -> str:
    return text + " " * (width - n_columns(text))


def _shade(weight: float) -> str:
    return 2 * next(shade for limit, shade in SHADES if weight < limit)


def _vertical(token: str) -> list[str]:
    """Return the token's characters from top to bottom, two columns each, aligned at the bottom."""
    letters: list[str] = []
    for character in token:
        if letters and not n_columns(character):
            letters[-1] += character  # combining mark
        else:
            letters.append(character)
    if len(letters) > _HEADER_LINES:
        letters = [*letters[: _HEADER_LINES - 1], "\N{VERTICAL ELLIPSIS}"]
    letters = [""] * (_HEADER_LINES - len(letters)) + letters
    return [_padded(letter, 2) for letter in letters]


def write_attention_page(path: Path, trace: AttentionTrace) -> None:
    """Draw the trace as an .html page, which opens at the cross-attention that best aligns source and target."""
    kinds = [_kind(trace, kind) for kind in KINDS if trace.layers(kind)]
    data = {"kinds": kinds, "heads": trace.maps[0].heads, "d_head": trace.maps[0].d_head}
    first = {"kind": len(kinds) - 1, "layer": _first_layer(trace)}
    title = f"Attention: {textwrap.shorten(trace.pair.src.text, _LONGEST_TITLE, placeholder=' …')}"
    write_page(
        path,
        "attention",
        title=title,
        pair=trace.pair,
        recurrent=trace.cfg.decoder == "ssru" and not trace.is_classifier,
        is_classifier=trace.is_classifier,
        data={**data, "first": first},
    )


def _first_layer(trace: AttentionTrace) -> int:
    """Return the index of the layer to show first, among those of the last kind."""
    layers = trace.layers(trace.maps[-1].kind)
    if trace.is_classifier:
        return len(layers) - 1  # the last one's first row decides the label
    return layers.index(trace.cross) if layers[0].kind == "cross" else 0


def _kind(trace: AttentionTrace, kind: Kind) -> dict[str, Any]:
    queries, keys = trace.axes(kind)
    return {
        "kind": kind,
        "name": NAMES[kind],
        "queries": queries,
        "keys": keys,
        "predicts": None if kind == "encoder" else trace.pair.tgt.pieces,
        "causal": kind == "decoder",
        "layers": [_layer(attention) for attention in trace.layers(kind)],
    }


def _layer(attention: AttentionMap) -> dict[str, Any]:
    """Return queries, keys and what positions add, as the page decodes them; it computes scores and weights."""
    layer: dict[str, Any] = {"layer": attention.layer}
    parts = {"q": attention.q, "k": attention.k}
    if attention.added is not None:
        parts["added"] = attention.added.masked_fill(attention.hidden, 0.0)
    for name, vectors in parts.items():
        layer[name], layer[f"{name}_unit"] = _quantized(vectors)
    return layer


def _quantized(vectors: Tensor) -> tuple[str, list[float]]:
    """Return vectors (H, L, d_head) as base64 of little-endian 16-bit integers, and the unit of each head.

    Weights computed from them differ by less than 0.0005 even where scores reach 60.
    """
    units = (vectors.abs().amax((1, 2)) / _MAX_INT16).clamp_min(1e-30)
    integers = (vectors / units[:, None, None]).round().numpy().astype("<i2")
    return base64.b64encode(integers.tobytes()).decode("ascii"), units.tolist()


@dataclass(frozen=True)
class _Place:
    """The upper left corner and the size of one head's map, in inches from the picture's upper left corner."""

    attention: AttentionMap
    row: int  # of attention.weights
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class _Layout:
    """The size of the picture and the positions of what it shows."""

    width: float
    height: float
    title: list[str]
    headings: list[tuple[float, str]]  # y
    places: list[_Place]


def write_attention_picture(path: Path, trace: AttentionTrace) -> None:
    """Draw every map of the trace into a .png or .svg file: a row per layer, a column per head.

    Raises MtkitError without matplotlib, or if the picture would be too large.
    """
    layout = _lay_out(trace)
    width, height = round(DPI * layout.width), round(DPI * layout.height)
    if width * height > MAX_PIXELS:
        raise MtkitError(
            f"{path}: {len(layout.places)} maps would make a picture of {width:,} x {height:,} pixels; choose some of "
            "them with --kind, --layer or --head, or give --output a name that ends in .html"
        )
    figure = new_figure(path, layout.width, layout.height)
    # All maps share one pair of axes, in inches from the upper left corner: one pair per map would take minutes.
    canvas = figure.add_axes((0, 0, 1, 1), frameon=False)
    for index, line in enumerate(layout.title):
        canvas.text(_MARGIN, _MARGIN + index * _LINE, line, size=_TITLE_FONT, va="top", parse_math=False)
    _draw_scale(canvas, _MARGIN + _LINE * (len(layout.title) + 0.4))
    for y, heading in layout.headings:
        canvas.text(_MARGIN, y, heading, size=_TITLE_FONT, weight="bold", va="top")
    for place in layout.places:
        _draw(canvas, place, *map(axis_names, trace.axes(place.attention.kind)))
    canvas.set(xlim=(0, layout.width), ylim=(layout.height, 0), xticks=[], yticks=[])
    save_figure(figure, path, DPI)


def _lay_out(trace: AttentionTrace) -> _Layout:
    n_heads = len(trace.maps[0].heads)
    kinds = [kind for kind in KINDS if trace.layers(kind)]
    left = _MARGIN + _CHARACTER * (1 + max(len(piece) for kind in kinds for piece in trace.axes(kind)[0]))
    sizes = {kind: [max(_MIN_MAP, _TOKEN * len(axis)) for axis in trace.axes(kind)] for kind in kinds}
    widest = max(map_width for _, map_width in sizes.values())
    width = max(_MIN_WIDTH, left + n_heads * (widest + _GAP) - _GAP + _MARGIN)
    n_characters = int((width - 2 * _MARGIN) / (_CHARACTER * _TITLE_FONT / _FONT))
    pair = trace.pair
    title = [line for text in (pair.src.text, pair.tgt.text) for line in textwrap.wrap(text, n_characters)]
    y = _MARGIN + _LINE * (len(title) + 2)  # a line for the scale
    headings, places = [], []
    for kind in kinds:
        headings.append((y, NAMES[kind]))
        y += _HEADING
        below = _CHARACTER * (2 + max(map(len, trace.axes(kind)[1])))
        height, map_width = sizes[kind]
        for attention in trace.layers(kind):
            for row in range(n_heads):
                places.append(_Place(attention, row, left + row * (map_width + _GAP), y, map_width, height))
            y += height + below + _GAP
    return _Layout(width, y + _MARGIN, title, headings, places)


def _draw(canvas: Any, place: _Place, queries: Sequence[str], keys: Sequence[str]) -> None:
    """Draw one map; the names of the queries are left of the first map of a row."""
    attention, x, y = place.attention, place.x, place.y
    weights = attention.weights[place.row].masked_fill(attention.hidden, float("nan")).numpy()
    _paint(canvas, weights, x, y, place.width, place.height)
    title = f"layer {attention.layer}, head {attention.heads[place.row]}"
    canvas.text(x + place.width / 2, y - 0.04, title, size=_FONT, ha="center", va="bottom")
    names = {"size": _FONT, "ha": "right", "va": "center_baseline", "rotation_mode": "anchor", "parse_math": False}
    for index, key in enumerate(keys):
        middle = x + place.width * (index + 0.5) / len(keys)
        canvas.text(middle, y + place.height + 0.05, key, rotation=90, **names)
    for index, query in enumerate(queries if place.row == 0 else ()):
        canvas.text(x - 0.05, y + place.height * (index + 0.5) / len(queries), query, **names)


def _paint(canvas: Any, weights: Any, x: float, y: float, width: float, height: float) -> None:
    """Draw weights (rows, columns) as shades of blue in a frame; NaN is grey."""
    import matplotlib
    from matplotlib.patches import Rectangle

    shades = matplotlib.colormaps["Blues"].with_extremes(bad=_HIDDEN)
    extent = (x, x + width, y + height, y)
    canvas.imshow(weights, cmap=shades, vmin=0, vmax=1, extent=extent, aspect="auto", interpolation="nearest")
    canvas.add_patch(Rectangle((x, y), width, height, fill=False, linewidth=0.5))


def _draw_scale(canvas: Any, y: float) -> None:
    """Draw the colour scale."""
    _paint(canvas, [[percent / 100 for percent in range(101)]], _MARGIN + 0.1, y, _SCALE, 0.1)
    for x, label in ((_MARGIN, "0"), (_MARGIN + _SCALE + 0.2, "1")):
        canvas.text(x, y + 0.05, label, size=_FONT, ha="center", va="center")
    note = "weight; grey: hidden. A row looks at the columns; its weights add up to 1."
    canvas.text(_MARGIN + _SCALE + 0.4, y + 0.05, note, size=_FONT, va="center")

"""A map of words in, a picture (.png, .svg) or a page (.html) out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mtkit.inspection.embeddings import BEFORE, CHANGE, TRAINED, NearestOfWord
from mtkit.inspection.pictures import new_figure, save_figure
from mtkit.inspection.scatter import FONT_SIZE, HEIGHT, WIDTH, Placed, place
from mtkit.inspection.word_map import Plane, WordMap

_TITLES = {TRAINED: "Trained", BEFORE: "Before training", CHANGE: "What training added"}
_COLOURS = ("#1f6fb4", "#b8460b", "#23803c", "#8a3fa8", "#8f6400", "#c2356b", "#0d7780", "#5b5f66")
_TEXT = 0.64 * FONT_SIZE  # in points of 1/72 inch; a panel is drawn a little smaller than 100 of its pixels an inch
_SIDES = {"start": "left", "middle": "center", "end": "right"}  # matplotlib's names


def write_map(path: Path, title: str, words: WordMap, found: Sequence[NearestOfWord], origin: str) -> None:
    """Draw the map in each view, one beside the other; a page also lists the nearest tokens.

    The file is written whole or not at all. origin: of the vectors before training, for the page.
    Raises MtkitError where a picture needs matplotlib.
    """
    if path.suffix.lower() == ".html":
        _write_page(path, title, words, found, origin)
    else:
        _write_picture(path, title, words)


def axis_label(number: int, plane: Plane) -> str:
    """The name of axis 0 or 1, with its share of the variance."""
    return f"axis {number + 1}: {plane.explained[number]:.0%} of the variance"


def _placed(words: WordMap, name: str) -> list[Placed]:
    return place(words.planes[name].points, [point.label for point in words.points])


def _write_page(path: Path, title: str, words: WordMap, found: Sequence[NearestOfWord], origin: str) -> None:
    from mtkit.pages.page import write_page

    panels = [
        {
            "title": _TITLES[name],
            "axes": [axis_label(0, plane), axis_label(1, plane)],
            "points": [
                {"point": point, "at": at, "colour": point.group % len(_COLOURS)}
                for point, at in zip(words.points, _placed(words, name), strict=True)
            ],
        }
        for name, plane in words.planes.items()
    ]
    tables = [{"word": nearest.word, "views": _columns(nearest, words)} for nearest in found]
    size = {"width": WIDTH, "height": HEIGHT, "font_size": FONT_SIZE}
    write_page(path, "embeddings", title=title, panels=panels, tables=tables, size=size, origin=origin)


def _columns(nearest: NearestOfWord, words: WordMap) -> list[dict[str, Any]]:
    """In the order of the maps."""
    found = [(name, nearest.views[name]) for name in words.planes]
    return [
        {"title": _TITLES[name], "cosine": neighbours.cosine, "euclidean": neighbours.euclidean}
        for name, neighbours in found
    ]


def _write_picture(path: Path, title: str, words: WordMap) -> None:
    n_panels = len(words.planes)
    figure = new_figure(path, n_panels * WIDTH / 100, (HEIGHT + 90) / 100, layout="constrained")
    figure.suptitle(title, parse_math=False)
    for axes, (name, plane) in zip(figure.subplots(1, n_panels, squeeze=False)[0], words.planes.items(), strict=True):
        _draw_panel(axes, words, name)
        axes.set_title(_TITLES[name])
        axes.set_xlabel(axis_label(0, plane))
        axes.set_ylabel(axis_label(1, plane))
    save_figure(figure, path)


def _draw_panel(axes: Any, words: WordMap, name: str) -> None:
    """In pixels, as the labels were placed: one unit is a pixel of the panel."""
    axes.set(xlim=(0, WIDTH), ylim=(HEIGHT, 0), xticks=[], yticks=[])
    axes.set_box_aspect(HEIGHT / WIDTH)
    for point, at in zip(words.points, _placed(words, name), strict=True):
        colour = _COLOURS[point.group % len(_COLOURS)]
        size, alpha, weight = (6, 1.0, "bold") if point.is_word else (4, 0.6, "normal")
        if at.away:
            axes.plot([at.x, at.label_end[0]], [at.y, at.label_end[1]], color=colour, linewidth=0.6, alpha=0.6)
        axes.plot(at.x, at.y, "o", color=colour, markersize=size, alpha=alpha)
        x, anchor = at.anchor
        style = {"color": colour, "size": _TEXT, "weight": weight, "ha": _SIDES[anchor]}
        axes.text(x, at.label_y, point.label, **style, parse_math=False)

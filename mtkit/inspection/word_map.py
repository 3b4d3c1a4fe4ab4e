"""Draw words as points on a plane, along the two principal axes of their embeddings."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mtkit.errors import UsageError
from mtkit.inspection.embeddings import BEFORE, CHANGE, TRAINED, NearestOfWord, Views
from mtkit.inspection.pictures import new_figure, save_figure
from mtkit.pages.page import write_page

Floats = npt.NDArray[np.float64]
FEWEST_POINTS = 3
_TITLES = {TRAINED: "Trained", BEFORE: "Before training", CHANGE: "What training added"}
_COLOURS = ("#1f6fb4", "#b8460b", "#23803c", "#8a3fa8", "#8f6400", "#c2356b", "#0d7780", "#5b5f66")
WIDTH, HEIGHT, MARGIN = 560.0, 460.0, 46.0  # of a panel, in pixels
FONT_SIZE = 13.0
_LETTER = 0.6 * FONT_SIZE  # width of a wide letter
_RADIUS = 5.0
_TEXT = 0.64 * FONT_SIZE  # points (1/72 inch): matplotlib draws a panel slightly smaller than 100 pixels per inch
_SIDES = {"start": "left", "middle": "center", "end": "right"}  # matplotlib's names

_Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True)
class Plane:
    """Points projected on their two principal axes (Pearson 1901)."""

    points: Floats  # (N, 2), their mean at the origin
    explained: tuple[float, float]  # share of the variance along each axis


def principal_plane(vectors: Tensor) -> Plane:
    """Return the plane that keeps most of the variance of the vectors (N, D); N and D are at least 2.

    The furthest point along an axis gets a positive coordinate, which fixes the axis' arbitrary sign.
    """
    centred = vectors.double().numpy()
    centred = centred - centred.mean(0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    points = left[:, :2] * sizes[:2]
    furthest = np.abs(points).argmax(0)
    points = points * np.where(points[furthest, [0, 1]] < 0, -1.0, 1.0)
    total = float((sizes**2).sum())
    shares = sizes[:2] ** 2 / total if total else np.zeros(2)
    return Plane(points, (float(shares[0]), float(shares[1])))


@dataclass(frozen=True)
class MapPoint:
    """A word or one of its neighbours on the map."""

    label: str
    group: int  # index of the word
    is_word: bool  # False: a neighbour


@dataclass(frozen=True)
class WordMap:
    """The same points in each view, each with its own axes."""

    points: tuple[MapPoint, ...]
    planes: dict[str, Plane]  # by the view's name, before training first


def word_map(views: Views, words: Sequence[NearestOfWord], *, with_neighbours: bool) -> WordMap:
    """Return a map of the words and, optionally, their nearest tokens by cosine after training; each token once.

    Raises UsageError for fewer than three points.
    """
    points: dict[tuple[int, ...], MapPoint] = {}
    for group, nearest in enumerate(words):
        points.setdefault(nearest.word.ids, MapPoint(nearest.word.text, group, True))
    if with_neighbours:
        for group, nearest in enumerate(words):
            for neighbour in nearest.views[views.views[0].name].cosine:
                points.setdefault((neighbour.id,), MapPoint(neighbour.token, group, False))
    if len(points) < FEWEST_POINTS:
        raise UsageError(
            f"a map needs at least {FEWEST_POINTS} points, not {len(points)}; give more words, or "
            + ("raise --top" if with_neighbours else "add --neighbours")
        )
    planes = {}
    for view in sorted(views.views, key=lambda view: view.name != BEFORE):
        vectors = [view.space.vectors[list(ids)].mean(0) for ids in points]
        planes[view.name] = principal_plane(torch.stack(vectors))
    return WordMap(tuple(points.values()), planes)


@dataclass(frozen=True)
class Placed:
    """A point and its label on the panel; y runs down."""

    x: float
    y: float
    label_x: float  # left end of the label
    label_y: float  # base line of the label
    label_width: float  # estimated
    away: bool  # the label is so far from its point that it needs a line

    @property
    def anchor(self) -> tuple[float, Literal["start", "middle", "end"]]:
        """Return x and name of the part of the text next to the point: the estimate of the width moves it least."""
        if self.label_x + self.label_width <= self.x:
            return self.label_x + self.label_width, "end"
        return (self.label_x, "start") if self.label_x >= self.x else (self.label_x + self.label_width / 2, "middle")

    @property
    def label_end(self) -> tuple[float, float]:
        """Return where that line ends: the point of the label's box that is nearest to the point."""
        x = min(max(self.x, self.label_x), self.label_x + self.label_width)
        return x, min(max(self.y, self.label_y - 0.8 * FONT_SIZE), self.label_y + 0.2 * FONT_SIZE)


def place(points: Floats, labels: Sequence[str]) -> list[Placed]:
    """Place points (N, 2) and their labels on a panel, with one scale for both axes and labels where there is space.

    Earlier points get their labels first: give the most important ones first.
    """
    low, high = points.min(0), points.max(0)
    extent = np.maximum(high - low, 1e-12)
    scale = min((WIDTH - 2 * MARGIN) / extent[0], (HEIGHT - 2 * MARGIN) / extent[1])
    middle = (low + high) / 2
    xs = WIDTH / 2 + (points[:, 0] - middle[0]) * scale
    ys = HEIGHT / 2 - (points[:, 1] - middle[1]) * scale
    taken: list[_Box] = [(x - _RADIUS, y - _RADIUS, x + _RADIUS, y + _RADIUS) for x, y in zip(xs, ys, strict=True)]
    placed = []
    for x, y, label in zip(xs.tolist(), ys.tolist(), labels, strict=True):
        box, away = _free_box(x, y, _LETTER * len(label), taken)
        taken.append(box)
        placed.append(Placed(x, y, box[0], box[3] - 0.2 * FONT_SIZE, box[2] - box[0], away))
    return placed


def _free_box(x: float, y: float, width: float, taken: Sequence[_Box]) -> tuple[_Box, bool]:
    """Return the nearest box for a label of this width that covers least of the others, and whether it needs a line."""
    best, least, is_away = (x, y, x + width, y + FONT_SIZE), float("inf"), False
    half = FONT_SIZE / 2
    for distance in (_RADIUS + 2, 18.0, 32.0, 48.0):
        centre = x - width / 2
        right, left = x + distance, x - distance - width
        up, down = y - distance - half, y + distance + half
        for box_x, middle in (
            *((right, y), (left, y), (centre, up), (centre, down)),
            *((right, up), (right, down), (left, up), (left, down)),
        ):
            box = box_x, middle - half, box_x + width, middle + half
            covered = sum(_overlap(box, other) for other in taken) + _outside(box)
            if covered < least:
                best, least, is_away = box, covered, distance > 10
        if least == 0:
            break
    return best, is_away


def _overlap(one: _Box, other: _Box) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(width, 0.0) * max(height, 0.0)


def _outside(box: _Box) -> float:
    beyond = max(-box[0], 0.0) + max(box[2] - WIDTH, 0.0) + max(-box[1], 0.0) + max(box[3] - HEIGHT, 0.0)
    return 100 * beyond


def write_map(path: Path, title: str, on_map: WordMap, words: Sequence[NearestOfWord], origin: str) -> None:
    """Draw the map in each view, side by side; a page also lists the nearest tokens of the words.

    origin: of the vectors before training, for the page. Raises MtkitError if a picture lacks matplotlib.
    """
    if path.suffix.lower() == ".html":
        _write_page(path, title, on_map, words, origin)
    else:
        _write_picture(path, title, on_map)


def _axis_labels(plane: Plane) -> list[str]:
    return [f"axis {axis}: {share:.0%} of the variance" for axis, share in enumerate(plane.explained, start=1)]


def _placed(on_map: WordMap, name: str) -> list[Placed]:
    return place(on_map.planes[name].points, [point.label for point in on_map.points])


def _write_page(path: Path, title: str, on_map: WordMap, words: Sequence[NearestOfWord], origin: str) -> None:
    panels = [
        {
            "title": _TITLES[name],
            "axes": _axis_labels(plane),
            "points": [
                {"point": point, "at": at, "colour": point.group % len(_COLOURS)}
                for point, at in zip(on_map.points, _placed(on_map, name), strict=True)
            ],
        }
        for name, plane in on_map.planes.items()
    ]
    tables = [
        {
            "word": nearest.word,
            "views": [{"title": _TITLES[name], "neighbours": nearest.views[name]} for name in on_map.planes],
        }
        for nearest in words
    ]
    size = {"width": WIDTH, "height": HEIGHT, "font_size": FONT_SIZE}
    write_page(path, "embeddings", title=title, panels=panels, tables=tables, size=size, origin=origin)


def _write_picture(path: Path, title: str, on_map: WordMap) -> None:
    n_panels = len(on_map.planes)
    figure = new_figure(path, n_panels * WIDTH / 100, (HEIGHT + 90) / 100, layout="constrained")
    figure.suptitle(title, parse_math=False)
    for axes, (name, plane) in zip(figure.subplots(1, n_panels, squeeze=False)[0], on_map.planes.items(), strict=True):
        _draw_panel(axes, on_map, name)
        x_label, y_label = _axis_labels(plane)
        axes.set(title=_TITLES[name], xlabel=x_label, ylabel=y_label)
    save_figure(figure, path)


def _draw_panel(axes: Any, on_map: WordMap, name: str) -> None:
    """Draw points and labels; one unit of the axes is one pixel of the panel."""
    axes.set(xlim=(0, WIDTH), ylim=(HEIGHT, 0), xticks=[], yticks=[])
    axes.set_box_aspect(HEIGHT / WIDTH)
    for point, at in zip(on_map.points, _placed(on_map, name), strict=True):
        colour = _COLOURS[point.group % len(_COLOURS)]
        size, alpha, weight = (6, 1.0, "bold") if point.is_word else (4, 0.6, "normal")
        if at.away:
            axes.plot([at.x, at.label_end[0]], [at.y, at.label_end[1]], color=colour, linewidth=0.6, alpha=0.6)
        axes.plot(at.x, at.y, "o", color=colour, markersize=size, alpha=alpha)
        x, anchor = at.anchor
        style = {"color": colour, "size": _TEXT, "weight": weight, "ha": _SIDES[anchor]}
        axes.text(x, at.label_y, point.label, **style, parse_math=False)

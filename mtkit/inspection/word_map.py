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
_LETTER = 0.6 * FONT_SIZE  # as wide as most letters are at most
_RADIUS = 5.0
_TEXT = 0.64 * FONT_SIZE  # in points of 1/72 inch; a panel is drawn a little smaller than 100 of its pixels an inch
_SIDES = {"start": "left", "middle": "center", "end": "right"}  # matplotlib's names

_Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True)
class Plane:
    """Points as their two principal axes show them (Pearson 1901)."""

    points: Floats  # (N, 2), their mean at the origin
    explained: tuple[float, float]  # the share of the points' variance along each axis


def principal_plane(vectors: Tensor) -> Plane:
    """The plane that keeps most of the variance of the vectors (N, D), N and D 2 at least.

    The point that lies furthest out along an axis lies on its positive side: the sign is free, and fixed by that.
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
    """A place on the map."""

    label: str
    group: int  # number of the word that it is, or is a neighbour of
    is_word: bool  # False: a neighbour


@dataclass(frozen=True)
class WordMap:
    """The same points in each view, each with axes of its own."""

    points: tuple[MapPoint, ...]
    planes: dict[str, Plane]  # by the view's name, in order of time


def word_map(views: Views, found: Sequence[NearestOfWord], *, with_neighbours: bool) -> WordMap:
    """The words and, if wanted, their nearest tokens by cosine in the trained view; each token once.

    Raises UsageError if these are fewer than three.
    """
    points: dict[tuple[int, ...], MapPoint] = {}
    for group, nearest in enumerate(found):
        points.setdefault(nearest.word.ids, MapPoint(nearest.word.text, group, True))
    if with_neighbours:
        for group, nearest in enumerate(found):
            for neighbour in nearest.views[views.views[0].name].cosine:
                points.setdefault((neighbour.id,), MapPoint(neighbour.token, group, False))
    if len(points) < FEWEST_POINTS:
        raise UsageError(
            f"a map needs {FEWEST_POINTS} words at least, and these are {len(points)}; name more, or "
            + ("raise --top" if with_neighbours else "add --neighbours")
        )
    in_time = sorted(views.views, key=lambda view: view.name != BEFORE)
    planes = {view.name: principal_plane(_stack(view.space.vectors, list(points))) for view in in_time}
    return WordMap(tuple(points.values()), planes)


def _stack(vectors: Tensor, ids: Sequence[tuple[int, ...]]) -> Tensor:
    return torch.stack([vectors[list(token_ids)].mean(0) for token_ids in ids])


@dataclass(frozen=True)
class Placed:
    """A point and its label on the panel; y runs down."""

    x: float
    y: float
    label_x: float  # the label's left end
    label_y: float  # its base line
    label_width: float  # guessed
    away: bool  # the label stands so far from its point that a line should lead there

    @property
    def anchor(self) -> tuple[float, Literal["start", "middle", "end"]]:
        """Which part of the text is to stand where: the one next to the point, since the width is but a guess."""
        if self.label_x + self.label_width <= self.x:
            return self.label_x + self.label_width, "end"
        return (self.label_x, "start") if self.label_x >= self.x else (self.label_x + self.label_width / 2, "middle")

    @property
    def label_end(self) -> tuple[float, float]:
        """Where such a line ends: beside the label, or above or below it, whatever is nearest to the point."""
        x = min(max(self.x, self.label_x), self.label_x + self.label_width)
        return x, min(max(self.y, self.label_y - 0.8 * FONT_SIZE), self.label_y + 0.2 * FONT_SIZE)


def place(points: Floats, labels: Sequence[str]) -> list[Placed]:
    """Put points (N, 2) with their labels on a panel, one scale for both axes, labels on free ground if there is any.

    Points come first in the order given, so that the most important should.
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
    """The place for a label of this width that covers least of what is there, near ones first; whether it is away."""
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

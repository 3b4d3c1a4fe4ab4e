"""Points with labels in, where to draw them on a panel so that they can be read out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

WIDTH, HEIGHT, MARGIN = 560.0, 460.0, 46.0  # of a panel, in pixels
FONT_SIZE = 13.0
_LETTER = 0.6 * FONT_SIZE  # as wide as most letters are at most
_RADIUS = 5.0

Floats = npt.NDArray[np.float64]
_Box = tuple[float, float, float, float]  # left, top, right, bottom


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

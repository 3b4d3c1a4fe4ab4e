"""Words with their vectors in, a flat map of them out: their two principal axes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mtkit.errors import UsageError
from mtkit.inspection.embeddings import BEFORE, NearestOfWord, Views

Floats = npt.NDArray[np.float64]
FEWEST_POINTS = 3


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

"""The plane of a map: against torch's own principal component analysis and points made by hand; the labels' places."""

import math

import numpy as np
import pytest
import torch

from mtkit.bundle import load_bundle
from mtkit.errors import UsageError
from mtkit.inspection.embeddings import BEFORE, CHANGE, TRAINED, nearest_of, views_of
from mtkit.inspection.word_map import FONT_SIZE, HEIGHT, WIDTH, Placed, place, principal_plane, word_map


def test_the_plane_is_that_of_torchs_pca():
    vectors = torch.randn(40, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    plane = principal_plane(vectors.float())
    left, sizes, _ = torch.pca_lowrank(vectors.float().double(), q=12, niter=8)
    expected = (left[:, :2] * sizes[:2]).numpy()
    signs = np.sign((expected * plane.points).sum(0))
    assert plane.points == pytest.approx(expected * signs, abs=1e-6)
    variances = sizes**2 / (sizes**2).sum()
    assert plane.explained == pytest.approx(variances[:2].tolist(), rel=1e-6)


def test_a_flat_rectangle_in_space_is_found_with_its_sides():
    # sides 6 and 2, along two directions at right angles: variances 9 and 1, so shares 0.9 and 0.1
    long, short = np.array([2.0, 1.0, 2.0]) / 3, np.array([1.0, 2.0, -2.0]) / 3
    corners = [(3, 1), (3, -1), (-3, 1), (-3, -1)]
    vectors = torch.tensor(np.array([a * long + b * short + 7.0 for a, b in corners]), dtype=torch.float64)
    plane = principal_plane(vectors)
    assert plane.explained == pytest.approx((0.9, 0.1))
    assert sorted(map(tuple, np.abs(plane.points).round(6).tolist())) == [(3.0, 1.0)] * 4


def test_equal_vectors_lie_at_one_point():
    plane = principal_plane(torch.ones(3, 5))
    assert plane.explained == (0.0, 0.0)
    assert np.abs(plane.points).max() < 1e-9


def test_the_point_furthest_out_lies_on_the_positive_side():
    vectors = torch.tensor([[-9.0, 0.0], [1.0, 2.0], [1.0, -2.5], [1.0, 0.0]])
    for flipped in (vectors, -vectors):
        points = principal_plane(flipped).points
        assert (np.abs(points).max(0) == points.max(0)).all()


@pytest.fixture(scope="module")
def views(bundle_of_a_run):
    return views_of(load_bundle(bundle_of_a_run), "src")


def test_a_map_holds_the_words_and_on_demand_their_neighbours_each_once(views):
    words = [views.vocabulary.word(text) for text in ("cat", "dog", "cat", "red", "two")]
    found = nearest_of(views, words, 3)
    plain = word_map(views, found, with_neighbours=False)
    assert [point.label for point in plain.points] == ["cat", "dog", "red", "two"]
    assert list(plain.planes) == [BEFORE, TRAINED, CHANGE]
    full = word_map(views, found, with_neighbours=True)
    near = {token.token for nearest in found for token in nearest.views[TRAINED].cosine}
    assert {point.label for point in full.points if not point.is_word} == near - {w.pieces[0] for w in words}
    assert len({point.label for point in full.points}) == len(full.points)
    # distances on the map of four points are never longer than those in space
    rows = views.views[0].space.vectors
    in_space = math.dist(rows[words[0].ids[0]].tolist(), rows[words[1].ids[0]].tolist())
    assert math.dist(*plain.planes[TRAINED].points[:2]) <= in_space + 1e-6


def test_a_map_of_two_words_is_refused(views):
    found = nearest_of(views, [views.vocabulary.word("cat"), views.vocabulary.word("dog")], 1)
    with pytest.raises(UsageError, match=r"3 points, not 2; .*--neighbours"):
        word_map(views, found, with_neighbours=False)


def test_points_keep_their_proportions_and_labels_keep_off_each_other():
    points = np.random.default_rng(0).normal(size=(14, 2)) * [3.0, 1.0]
    placed = place(points, ["a label"] * 14)
    scale = (placed[1].x - placed[0].x) / (points[1, 0] - points[0, 0])
    for at, (x, y) in zip(placed, points, strict=True):
        assert at.x - placed[0].x == pytest.approx((x - points[0, 0]) * scale)
        assert at.y - placed[0].y == pytest.approx(-(y - points[0, 1]) * scale)
        assert 0 <= at.x <= WIDTH and 0 <= at.y <= HEIGHT
    width = 0.6 * FONT_SIZE * len("a label")
    for number, one in enumerate(placed):
        assert one.label_width == pytest.approx(width)
        assert 0 <= one.label_x <= WIDTH - width
        for other in placed[:number]:
            assert abs(one.label_x - other.label_x) >= width - 1 or abs(one.label_y - other.label_y) >= FONT_SIZE - 1


def test_points_on_a_line_and_points_at_one_place_can_be_placed():
    assert len(place(np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]), "abc")) == 3
    assert len({(at.x, at.y) for at in place(np.zeros((3, 2)), "abc")}) == 1


@pytest.mark.parametrize(
    ("point", "end"),
    [
        ((0.0, 96.0), (50.0, 96.0)),
        ((200.0, 96.0), (90.0, 96.0)),
        ((70.0, 0.0), (70.0, 89.6)),
        ((0.0, 200.0), (50, 102.6)),
    ],
)
def test_a_line_leads_to_the_nearest_side_of_a_label(point, end):
    placed = Placed(point[0], point[1], label_x=50.0, label_y=100.0, label_width=40.0, away=True)
    assert placed.label_end == pytest.approx(end)


@pytest.mark.parametrize(("x", "anchor"), [(40.0, (50.0, "start")), (99.0, (90.0, "end")), (60.0, (70.0, "middle"))])
def test_a_label_is_held_at_the_side_of_its_point(x, anchor):
    assert Placed(x, 96.0, label_x=50.0, label_y=100.0, label_width=40.0, away=False).anchor == anchor

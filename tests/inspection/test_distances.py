"""Relative and alibi positions as they are shown by distance: against the papers' formulas and vectors made by hand."""

import json
import math
import re

import pytest
import torch
from browsing import check_page, open_page
from tiny_models import tiny_bundle, tiny_config, tiny_transformer
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.errors import MtkitError
from mtkit.inspection.distances import (
    MAP_REACH,
    as_text,
    distances_by_formula,
    distances_of_model,
    write_distances_page,
    write_picture,
)
from mtkit.model.transformer import Transformer

SIZES = {"d_model": 16, "d_ff": 16, "n_heads": 4, "n_encoder_layers": 2, "n_decoder_layers": 1}


def model_with(**choices) -> Transformer:
    return tiny_transformer(20, 30, seed=3, **{**SIZES, **choices})


def with_vectors(positions: list[list[float]], part: str = "keys") -> Transformer:
    """A model with these vectors in both layers of its encoder, 4 wide, for distances -3 to 3."""
    model = model_with(positions="relative", max_relative_distance=3)
    with torch.no_grad():
        for layer in range(2):
            model.get_parameter(f"encoder_layers.{layer}.self_attention.relative.{part}").copy_(torch.tensor(positions))
    return model


@pytest.mark.parametrize(("side", "last"), [("src", 5), ("tgt", 0)])
def test_biases_fall_with_the_distance_by_the_papers_slopes(side, last):
    view = distances_of_model(model_with(positions="alibi"), side, 6)
    assert list(view.distances) == list(range(-5, last + 1))
    added, left = view.panels
    for number, slope in enumerate([1 / 4, 1 / 16, 1 / 64, 1 / 256], start=1):
        expected = [-slope * abs(distance) for distance in view.distances]
        assert added.lines[f"head {number}"] == pytest.approx(expected)
        assert left.lines[f"head {number}"] == pytest.approx([math.exp(bias) for bias in expected])
    assert "one 2.8 tokens farther has half the weight" in view.summary[1]  # ln 2 / (1/4)


def test_a_kind_without_a_model_is_that_of_the_papers():
    assert distances_by_formula("alibi", 0, 4).panels[0].lines["head 1"] == [-1.5, -1, -0.5, 0, -0.5, -1, -1.5]
    view = distances_by_formula("relative", 8, 4)
    assert (view.distances[0], view.distances[-1]) == (-16, 16)
    longest = max(length or 0.0 for length in view.panels[0].lines["layer 1"])
    assert 0.5 < longest <= math.sqrt(6 * 8 / (33 + 8))  # Glorot's bound, in 8 dimensions
    assert not torch.equal(view.maps["keys of layer 1"], view.maps["values of layer 1"])


def test_lengths_and_cosines_are_those_of_the_vectors():
    thirds = [1.0, -1.0, -7.0, -1.0]
    vectors = [[3.0, 4.0, 0.0, 0.0], [3.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0], *([0.0, 0.0, x, 0.0] for x in thirds)]
    for part, first in (("keys", 0), ("values", 2)):
        view = distances_of_model(with_vectors(vectors, part), "src", 64)
        for layer in ("layer 1", "layer 2"):
            assert view.panels[first].lines[layer] == pytest.approx([5, 3, 2, 1, 1, 7, 1])
            before, *cosines = view.panels[first + 1].lines[layer]
            assert before is None
            assert cosines == pytest.approx([0.6, 0, 0, -1, 1, 1])
        assert view.maps[f"{part} of layer 1"][0].tolist() == pytest.approx([1, 0.6, 0.8, 0, 0, 0, 0])
        sentence = view.summary[1 + first // 2]
        assert re.search(rf"{part} .*longest at distance 2 \(7\.00; .*2\.86\)", sentence)
        assert "cosine of 0.27" in sentence


def test_words_say_when_near_tokens_are_told_apart_and_far_ones_not():
    one = [1.0, 0, 0, 0]
    near = [[0.0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    model = model_with(positions="relative", max_relative_distance=8)
    with torch.no_grad():
        for name in ("keys", "values"):
            for layer in range(2):
                vectors = model.get_parameter(f"encoder_layers.{layer}.self_attention.relative.{name}")
                vectors.copy_(torch.tensor([one] * 7 + near + [one] * 7))
    keys, values = distances_of_model(model, "src", 64).summary[1:]
    assert "0.00 up to two tokens away but 1.00 beyond" in keys
    assert "differ more" in values
    assert "differ more" not in distances_of_model(with_vectors([one] * 7), "src", 64).summary[1]


def test_a_decoder_has_no_later_positions_and_a_recurrent_one_none():
    view = distances_of_model(model_with(positions="relative", max_relative_distance=5), "tgt", 64)
    assert list(view.distances) == [-5, -4, -3, -2, -1, 0] and "sees no later" in view.summary[0]
    with pytest.raises(MtkitError, match=r"recurrent.*--side src"):
        distances_of_model(model_with(positions="alibi", decoder="ssru"), "tgt", 5)
    assert distances_of_model(model_with(positions="alibi", decoder="ssru"), "src", 5).kind == "alibi"


def test_a_long_reach_is_mapped_in_part_and_printed_sparsely():
    view = distances_of_model(model_with(positions="relative", max_relative_distance=9000), "src", 64)
    assert view.map_distances[0] == -MAP_REACH and view.maps["keys of layer 2"].shape == (2 * MAP_REACH + 1,) * 2
    assert len(as_text(view).splitlines()) < 200


@pytest.mark.parametrize("kind", ["relative", "alibi"])
def test_pages_and_pictures(kind, browser, tmp_path):
    pytest.importorskip("matplotlib", reason="pictures need the extra plot")
    view = distances_of_model(model_with(positions=kind, max_relative_distance=3), "src", 12)
    write_picture(tmp_path / "a.png", view)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    path = tmp_path / "page.html"
    write_distances_page(path, view)
    check_page(browser, path, tmp_path)
    with open_page(browser, path) as page:
        assert page.locator("figure.chart").count() == len(view.panels)
        assert page.locator("canvas").count() == len(view.maps)
        if kind == "relative":  # the first row of the first map: blue for cosines above zero, as strong as they are
            pixels = page.evaluate(
                "() => [...document.querySelector('canvas').getContext('2d').getImageData(0, 0, 7, 1).data]"
            )
            for index, cosine in enumerate(view.maps["keys of layer 1"][0].tolist()):
                red, _, blue, strength = pixels[4 * index : 4 * index + 4]
                assert strength == pytest.approx(255 * abs(cosine), abs=1)
                assert strength < 20 or (blue > red) == (cosine > 0)


def run(*args: object):
    return CliRunner().invoke(app, ["--quiet", "inspect", "positions", *map(str, args)])


def test_the_command_shows_a_model_and_a_kind(folder, subject_spm):
    tiny_bundle(folder / "distances", subject_spm, tiny_config({"positions": "relative", "max_relative_distance": 3}))
    done = run("--model", folder / "distances", "--side", "tgt", "--json")
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert [record["kind"], record["origin"], record["distances"]] == [
        "relative",
        "of the model's target side",
        [-3, -2, -1, 0],
    ]
    assert set(record["by_distance"]["length of the value vector"]) == {"layer 1", "layer 2"}
    done = run("--kind", "alibi", "--length", 3)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("alibi positions, distances -2 to 2, 8 heads, by the formula\n")
    assert "      -2     -1.0000   -0.5000" in done.stdout
    refused = run("--kind", "alibi", "--d-model", 8)
    assert refused.exit_code == 2 and "--d-model: alibi positions have no width" in refused.output

"""Positions as they are shown: against the papers' formulas, by every kind and way to ask."""

import json
import math
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from browsing import check_page, open_page
from tiny_models import tiny_transformer
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.errors import MtkitError
from mtkit.inspection.positions import (
    Side,
    as_text,
    positions_by_formula,
    positions_of_model,
    write_picture,
    write_positions_page,
)
from mtkit.model.transformer import Transformer

SIZES = {"d_model": 16, "d_ff": 16, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}


def model_with(**choices) -> Transformer:
    return tiny_transformer(20, 30, seed=3, **{**SIZES, **choices})


def paper(position: int, i: int, width: int) -> float:
    """The angle of pair i at a position (Vaswani et al. 2017, section 3.5)."""
    return position / 10000 ** (2 * i / width)


@pytest.mark.parametrize("ask", ["formula", "model"])
def test_sinusoidal_encodings_and_wavelengths_are_the_papers(ask):
    view = (
        positions_by_formula("sinusoidal", 16, 30) if ask == "formula" else positions_of_model(model_with(), "tgt", 30)
    )
    for position in (0, 1, 29):
        for i in range(8):
            angle = paper(position, i, 16)
            found = view.encoding[position, [i, 8 + i]].tolist()
            assert found == pytest.approx([math.sin(angle), math.cos(angle)], abs=1e-6)
    waves = [2 * math.pi * 10000 ** (2 * i / 16) for i in range(8)]
    assert view.wavelengths == pytest.approx([*waves, *waves], rel=1e-5)


def test_marians_slowest_wave_is_that_of_its_own_rates():
    view = positions_by_formula("marian", 16, 10)
    assert view.wavelengths[7] == pytest.approx(2 * math.pi * 10000, rel=1e-5)
    assert view.wavelengths[0] == pytest.approx(2 * math.pi, rel=1e-6)


def test_the_product_of_sinusoidal_positions_is_a_sum_of_cosines_of_their_distance():
    view = positions_by_formula("sinusoidal", 16, 40)
    for distance in (0, 1, 7, 39):
        law = sum(math.cos(paper(distance, i, 16)) for i in range(8))
        found = view.similarity[distance]
        assert found.distance == distance
        assert [found.dot.low, found.dot.mean, found.dot.high] == pytest.approx([law] * 3, abs=1e-5)
        assert found.cosine.mean == pytest.approx(law / 8, abs=1e-6)
    assert view.dot_spread < 1e-5


def test_rotary_turns_a_query_and_a_key_against_each_other_by_their_distance():
    view = positions_by_formula("rotary", 8, 40)
    ones = np.full(8, 8**-0.5)

    def turned(position):  # Su et al. 2021, equation 15: a rotation of each pair of dimensions
        result = ones.copy()
        for i in range(4):
            angle = paper(position, i, 8)
            turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
            result[[i, 4 + i]] = turn @ ones[[i, 4 + i]]
        return result

    for distance in (0, 1, 5, 39):
        assert view.similarity[distance].dot.mean == pytest.approx(turned(0) @ turned(distance), abs=1e-6)
    assert view.dot_spread < 1e-6
    assert view.wavelengths[2] == pytest.approx(2 * math.pi * 100, rel=1e-5)
    assert view.encoding[3, [1, 5]].tolist() == pytest.approx([math.cos(paper(3, 1, 8)), math.sin(paper(3, 1, 8))])


def test_a_rotary_models_positions_are_as_wide_as_its_heads():
    view = positions_of_model(model_with(positions="rotary"), "src", 12)
    assert view.encoding.shape == (12, 8)
    torch.testing.assert_close(view.encoding, positions_by_formula("rotary", 8, 12).encoding)


def test_learned_positions_are_those_of_the_side_that_is_asked_for():
    model = model_with(positions="learned", max_positions=12)
    sides: tuple[Side, ...] = "src", "tgt"
    for side in sides:
        table = model.get_parameter(f"{side}_positions.table").detach()
        view = positions_of_model(model, side, 10)
        assert torch.equal(view.encoding, table[:10])
        rows = table.tolist()
        dots = [sum(a * b for a, b in zip(rows[p], rows[p + 3], strict=True)) for p in range(7)]
        spread = view.similarity[3].dot
        assert [spread.low, spread.mean, spread.high] == pytest.approx([min(dots), sum(dots) / 7, max(dots)], abs=1e-6)
    cosines = torch.nn.functional.cosine_similarity(table[:3], table[7:10]).tolist()
    spread = view.similarity[7].cosine
    assert [spread.low, spread.mean, spread.high] == pytest.approx([min(cosines), sum(cosines) / 3, max(cosines)])
    with pytest.raises(MtkitError, match=r"12 .*model\.max_positions.* 13; .*--length 12"):
        positions_of_model(model, "src", 13)


def test_a_learned_dimension_has_the_wavelength_of_its_strongest_wave():
    model = model_with(positions="learned", max_positions=48)
    position = torch.arange(48)
    table = model.get_parameter("src_positions.table")
    with torch.no_grad():
        for column, period in enumerate([2, 4, 12, 48]):
            weak = 0.3 * torch.cos(2 * math.pi * position / 6)
            table[:, column] = 5 + weak + torch.cos(2 * math.pi * position / period)
    assert positions_of_model(model, "src", 48).wavelengths[:4] == pytest.approx([2, 4, 12, 48])


def test_lengths_are_compared_with_those_of_scaled_embeddings():
    model = model_with()
    view = positions_of_model(model, "src", 5)
    rows = [math.sqrt(sum(x * x for x in row)) * 4 for row in model.src_embedding.weight.tolist()]  # 4 = sqrt(d_model)
    assert view.embedding_length == pytest.approx(sum(rows) / 20, rel=1e-5)
    assert view.encoding.norm(dim=1).tolist() == pytest.approx([math.sqrt(8)] * 5)


def test_the_text_shades_the_encoding_and_explains_it():
    lines = as_text(positions_by_formula("sinusoidal", 4, 3)).splitlines()
    assert lines[0] == "sinusoidal positions 0 to 2, embeddings 4 wide, by the formula"
    assert "length 1.41" in lines[1]
    assert "depends only on their distance" in lines[2]
    # sin 0, sin 0, cos 0, cos 0; then sin 1 = 0.84, sin 0.01, cos 1 = 0.54, cos 0.01: shades 1 to 8 are -1 to 1
    assert [line.split() for line in lines[6:8]] == [["0", "▅▅██"], ["1", "▇▅▆█"]]
    assert "       1       1.5403     1.5403     1.5403   0.7701     0.7701     0.7701" in lines
    assert lines[-2:] == ["        0        6.28", "        1      628.32"]


def test_learned_positions_depend_on_more_than_their_distance():
    assert "depends on where they are" in as_text(positions_by_formula("learned", 16, 20))


def test_a_picture_is_written(tmp_path):
    pytest.importorskip("matplotlib", reason="pictures need the extra plot")
    path = tmp_path / "positions.svg"
    write_picture(path, positions_by_formula("rotary", 16, 12))
    assert "rotary positions 0 to 11" in "".join(ElementTree.parse(path).getroot().itertext())


def test_the_page_reads_well_and_shows_values_by_keyboard(browser, tmp_path):
    path = tmp_path / "positions.html"
    write_positions_page(path, positions_by_formula("learned", 8, 6))
    check_page(browser, path, tmp_path)
    view = positions_by_formula("sinusoidal", 8, 6)
    write_positions_page(path, view)
    with open_page(browser, path) as page:
        page.focus("#map")
        for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowUp", "ArrowLeft", "ArrowLeft"):
            page.keyboard.press(key)
        assert page.inner_text("#value") == f"position 1, dimension 0: {math.sin(1):.4f}"
        at = page.evaluate("() => [...document.getElementById('map').getContext('2d').getImageData(0, 4, 1, 1).data]")
        assert at[0] > at[2] and at[3] == pytest.approx(255 * abs(math.sin(4)), abs=2)  # below zero: red


def run(*args: object):
    return CliRunner().invoke(app, ["--quiet", "inspect", "positions", *map(str, args)])


def test_the_command_inspects_a_model(bundle_of_a_run):
    done = run("--model", bundle_of_a_run, "--length", 5, "--json")
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert [record["kind"], record["origin"]] == ["sinusoidal", "of the model's source side"]
    assert [record["n_positions"], record["width"]] == [5, 16]
    assert record["encoding"][1][0] == pytest.approx(math.sin(1), abs=1e-6)
    assert record["similarity"][4]["distance"] == 4 and len(record["wavelengths"]) == 16
    assert set(record["similarity"][0]["dot"]) == {"mean", "low", "high"}


def test_the_command_needs_no_model_for_a_kind(tmp_path):
    done = run("--kind", "rotary", "--d-model", 8, "--length", 4, "-o", tmp_path / "r.html")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("rotary positions 0 to 3, heads 8 wide, by the formula\n")
    assert "<title>Rotary positions</title>" in (tmp_path / "r.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--d-model", "8"], "--d-model needs --kind"),
        (["--kind", "learned", "--side", "tgt"], "give either --kind, or a model with --model and --side"),
        (["--kind", "rotary", "--d-model", "7"], "--d-model 7: rotary positions use pairs of dimensions"),
        (["--kind", "marian", "--length", "2048", "-o", "x.html"], "x.html: 524,288 values are more than the 200,000 "),
        (["--kind", "learned", "-o", "x.pdf"], "--output x.pdf: the name must end in .png or .svg or .html"),
    ],
)
def test_options_that_do_not_go_together_are_refused(args, message):
    done = run(*args)
    assert done.exit_code == (1 if "x.html" in args else 2) and message in done.output

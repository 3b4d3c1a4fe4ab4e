"""`mtkit inspect embeddings` as a user meets it: text, JSON, pictures, a page and mistakes."""

import json
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from browsing import check_page
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.console import log
from mtkit.inspection.embeddings import TRAINED
from mtkit.inspection.word_map import MapPoint, Plane, WordMap, write_map


@pytest.fixture
def run(bundle_of_a_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def run(*args: str):
        return CliRunner().invoke(app, ["inspect", "embeddings", "--model", str(bundle_of_a_run), *args])

    return run


def test_json_has_words_views_and_the_map(run, bundle_of_a_run):
    found = json.loads(run("cat", "dog", "red", "catdog", "--top", "3", "--json").stdout)
    assert (found["side"], found["width"]) == ("src", 16)
    assert found["before_training"] == "the weights drawn from seed=7"
    cat, *_, several = found["words"]
    assert cat["text"] == "cat" and cat["pieces"] == ["▁cat"] and len(cat["ids"]) == 1
    assert list(cat["views"]) == ["trained", "before training", "change by training"]
    for view in cat["views"].values():
        cosines, distances = ([near[key] for near in view[key2]] for key, key2 in MEASURES)
        assert cosines == sorted(cosines, reverse=True) and distances == sorted(distances)
        assert len(cosines) == len(distances) == 3
    assert len(several["pieces"]) > 1 and several["like"][0] in ("▁cat", "▁dog")
    assert set(found["map"]) == set(cat["views"])
    points = found["map"]["trained"]["points"]
    assert [point["label"] for point in points] == ["cat", "dog", "red", "catdog"]
    assert sum(point["x"] for point in points) == pytest.approx(0, abs=1e-5)
    shares = found["map"]["trained"]["explained_variance"]
    assert shares[0] >= shares[1] > 0 and sum(shares) <= 1 + 1e-9


MEASURES = (("cosine", "cosine"), ("distance", "euclidean"))


def test_text_fits_the_terminal_and_explains_each_word(run):
    result = run("cat", "catdog", "--side", "src", "--top", "20")
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert "16 values" in lines[0] and "seed=7" in lines[0]
    assert any(line.startswith("cat = ▁cat (") for line in lines)
    assert any("not a single token, so this is the mean of these" in line for line in lines)
    assert sum("most similar spelling: " in line for line in lines) == 1
    assert sum(line.startswith("  change by training  cosine") for line in lines) == 2


def test_the_target_side_has_words_of_its_own(run):
    assert run("chat", "--side", "tgt").stdout.splitlines()[2].startswith("chat = ▁chat (")


def test_tokens_by_their_spelling(run):
    assert run("▁cat", "--pieces").stdout.splitlines()[2].startswith("▁cat = ▁cat (")
    result = run("▁ca", "--pieces")
    assert result.exit_code == 1 and "'▁ca' " in result.stderr and "src.spm; similar tokens: ▁cat" in result.stderr


def test_a_token_that_training_never_saw_is_reported(run):
    """No source holds a <s>, so that its vector is the one drawn at the start."""
    result = run("<s>", "▁cat", "▁dog", "--pieces", "-o", "map.html")
    assert re.search("change by training .*not changed", result.stdout)
    assert result.exit_code == 0 and Path("map.html").read_text().count("none: training did not change it") == 1


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_picture(run, suffix):
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install mtkit[plot]")
    result = run("cat", "dog", "red", "-o", f"map.{suffix}", "--neighbours")
    assert result.exit_code == 0, result.stderr
    assert "of the variance of its" in result.stdout
    path = Path(f"map.{suffix}")
    if suffix == "png":
        assert path.read_bytes().startswith(b"\x89PNG\r\n")
        return
    texts = ["".join(element.itertext()) for element in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("cat") == 3
    assert {"Before training", "Trained", "What training added"} <= set(texts)
    assert sum("% of the variance" in text for text in texts) == 6


def test_characters_that_the_font_lacks_give_a_warning(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install mtkit[plot]")
    said: list[str] = []
    monkeypatch.setattr(log, "warning", said.append)
    plane = Plane(np.array([[0.0, 0.0], [1.0, 0.5], [2.0, -0.5]]), (0.9, 0.1))
    for label in ("\U00012000", "cat"):  # a cuneiform sign, which is in none of the usual fonts
        points = tuple(MapPoint(label, number, True) for number in range(3))
        write_map(tmp_path / "map.png", "signs", WordMap(points, {TRAINED: plane}), [], "")
    [warning] = said
    assert "map.png: matplotlib's font lacks" in warning


def test_without_matplotlib_a_picture_is_refused_and_a_page_is_drawn(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run("cat", "dog", "red", "-o", "map.png")
    assert result.exit_code == 1
    assert "map.png: " in result.stderr and "pip install mtkit[plot]" in result.stderr and ".html" in result.stderr
    assert not Path("map.png").exists()
    assert run("cat", "dog", "red", "-o", "map.html").exit_code == 0


def test_the_page_has_words_neighbours_and_axes(run):
    assert run("cat", "dog", "red", "--neighbours", "-o", "map.html").exit_code == 0
    text = Path("map.html").read_text()
    found = json.loads(run("cat", "dog", "red", "--neighbours", "--json").stdout)
    for near in found["words"][0]["views"]["trained"]["cosine"]:
        assert f'<td>{near["token"]}</td><td class="number">{near["cosine"]:.2f}'.replace("-", "\u2212") in text
    for plane in found["map"].values():
        assert f"axis 1: {plane['explained_variance'][0]:.0%} of the variance" in text
    assert text.count("<circle") == 3 * len(found["map"]["trained"]["points"])


def test_the_page_reads_well_in_a_browser(run, browser, tmp_path):
    assert run("cat", "dog", "red", "two", "sees", "--neighbours", "--top", "3", "-o", "map.html").exit_code == 0
    check_page(browser, Path("map.html"), tmp_path)


def test_neighbours_make_a_map_of_a_single_word(run):
    assert "map" not in json.loads(run("cat", "--json").stdout)
    assert "map" in json.loads(run("cat", "--neighbours", "--json").stdout)


@pytest.mark.parametrize(
    ("args", "exit_code", "message"),
    [
        (["日本"], 1, "'日本': src.spm has no token with 日, 本, "),
        ([" "], 1, "' ' is blank"),
        (["cat", "-o", "map.pdf"], 2, "--output map.pdf: the name must end in .png or .svg or .html"),
        (["cat", "dog", "-o", "map.html"], 2, "3 points, not 2; give more words, or add --neighbours"),
        (["cat", "--model", "nowhere"], 1, "nowhere: no such folder"),
        (
            ["cat", "--neighbours", "--json", "--top", "1"],
            2,
            "3 points, not 2; give more words, or raise --top",
        ),
        (["cat", "--neighbours"], 2, "--neighbours adds tokens to the map: give --output PICTURE, or --json"),
        (["cat", "--side", "middle"], 2, "--side middle: must be one of src, tgt"),
    ],
)
def test_mistakes_are_explained(run, args, exit_code, message):
    result = run(*args)
    assert result.exit_code == exit_code
    assert message in result.stderr
    assert result.stdout == "" and not list(Path().glob("map.*"))

"""`mtkit inspect attention` as a user meets it: tables, JSON, pictures, and mistakes."""

import json
import sys
from dataclasses import replace

import pytest
import torch
from tiny_models import SENTENCES, SHAPES, tiny_bundle, tiny_config
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.errors import MtkitError
from mtkit.inspection import attention_views
from mtkit.inspection.attention_views import attention_tables, write_attention_picture
from mtkit.inspection.pictures import save_figure
from mtkit.inspection.sentence_pair import SentencePair, Tokens
from mtkit.inspection.trace import AttentionMap, AttentionTrace, trace_pair
from mtkit.model.masks import causal_bias

SRC, TGT = SENTENCES[0], SENTENCES[1]


@pytest.fixture
def run(folder, subject):
    """Runs the command on the plain model, or on the one in another folder."""

    def run(*args: str, model: str = "plain"):
        return CliRunner().invoke(app, ["inspect", "attention", *args, "--model", str(folder / model)])

    return run


def trace_by_hand(decoder: list[list[float]], cross: list[list[list[float]]]) -> AttentionTrace:
    """One layer with these weights, of "\\u2581a b" and its translation "\\u2581x"."""
    pair = SentencePair(
        Tokens("a b", [4, 5, 3], ["▁a", "▁b", "<end>"]), Tokens("x", [6, 3], ["▁x", "<end>"]), "given", True
    )
    nothing = torch.zeros(1, 1, 1)
    maps = [
        AttentionMap(
            "decoder", 1, (1, 2), nothing, nothing, None, causal_bias(2)[0, 0] < 0, torch.tensor([decoder] * 2)
        ),
        AttentionMap("cross", 1, (1, 2), nothing, nothing, None, torch.zeros(2, 3).bool(), torch.tensor(cross)),
    ]
    cfg = tiny_config({"n_decoder_layers": 1}).model
    return AttentionTrace(pair, ["<start>", "▁x"], maps, cfg)


def test_a_table_has_shades_the_largest_weight_and_the_token_to_predict():
    cross = [[[0.9, 0.06, 0.04], [0.0, 0.5, 0.5]], [[0.7, 0.3, 0.0], [0.02, 0.1, 0.88]]]
    table = attention_tables(trace_by_hand([[1.0, 0.0], [0.5, 0.5]], cross), None, None, None)
    assert table.splitlines()[:9] == [
        "cross-attention, layer 1 of 1, mean of 2 heads",
        "             <",
        "             e",
        "             n",
        "         ▁ ▁ d",
        "         a b >   most        next token",
        "<start>  ██░░··  0.80 ▁a     ▁x",
        "     ▁x  ··▒▒▓▓  0.69 <end>  <end>",
        "",
    ]


@pytest.mark.parametrize(
    ("row", "shades"),
    [
        ([0.049, 0.05, 0.901], "··░░██"),
        ([0.199, 0.2, 0.601], "░░▒▒▓▓"),
        ([0.399, 0.4, 0.201], "▒▒▓▓▒▒"),
        ([0.301, 0.0, 0.699], "▒▒··▓▓"),
        ([0.299, 0.0, 0.701], "▒▒··██"),
    ],
)
def test_shades_begin_where_the_legend_says(row, shades):
    table = attention_tables(trace_by_hand([[1.0, 0.0]] * 2, [[row, row]] * 2), "cross", None, 1)
    assert f"<start>  {shades}  " in table
    assert table.endswith("weights: · below 0.05, ░ 0.2, ▒ 0.4, ▓ 0.7, █ above; blank: hidden")


def test_a_table_of_the_decoder_leaves_later_positions_blank():
    table = attention_tables(trace_by_hand([[1.0, 0.0], [0.97, 0.03]], [[[1.0, 0, 0]] * 2] * 2), "decoder", None, 1)
    assert table.splitlines()[0] == "decoder self-attention, layer 1 of 1, head 1"
    assert "<start>  ██    1.00 <start>  ▁x" in table.splitlines()
    assert "     ▁x  ██··  0.97 <start>  <end>" in table.splitlines()


def test_wide_characters_and_marks_keep_the_columns_straight():
    trace = trace_by_hand([[1.0, 0.0], [0.5, 0.5]], [[[1.0, 0, 0]] * 2] * 2)
    src = replace(trace.pair.src, pieces=["▁犬", "e\u0301t", "<end>"])
    table = attention_tables(replace(trace, pair=replace(trace.pair, src=src)), None, None, None)
    assert "         ▁ e\u0301 d" in table.splitlines()
    assert "         犬t >   most        next token" in table.splitlines()


def test_the_command_shows_the_sentence_its_translation_and_one_table(run, subject):
    result = run(SRC)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[:2] == [SRC, subject.pair(SRC).tgt.text]
    assert sum(line.startswith("cross-attention, layer 2 of 2, mean of 2 heads") for line in lines) == 1
    rows = [line for line in lines if line.lstrip().startswith("<start>")]
    assert len(rows) == 1


def test_json_holds_all_weights_or_those_that_are_chosen(run, subject):
    trace = trace_pair(subject.model, subject.pair(SRC, target=TGT))
    record = json.loads(run(SRC, "--target", TGT, "--json").stdout)
    assert record["target"]["text"] == TGT and record["chosen_by"] == "given"
    assert len(record["attention"]) == len(trace.maps) == 6
    for found, expected in zip(record["attention"], trace.maps, strict=True):
        assert (found["kind"], found["layer"], found["heads"]) == (expected.kind, expected.layer, [1, 2])
        assert (found["queries"], found["keys"]) == trace.axes(expected.kind)
        torch.testing.assert_close(torch.tensor(found["weights"]), expected.weights, rtol=0, atol=1e-6)
    [chosen] = json.loads(
        run(SRC, "--target", TGT, "--json", "--kind", "decoder", "--layer", "1", "--head", "2").stdout
    )["attention"]
    assert (chosen["kind"], chosen["layer"], chosen["heads"]) == ("decoder", 1, [2])
    assert chosen["weights"] == [record["attention"][2]["weights"][1]]


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["-o", "a.pdf"], 2, "must end in .png or .svg or .html"),
        (["--layer", "3"], 2, "layer 3: the model has layers 1 to 2"),
        (["--head", "9"], 2, "head 9: the model has heads 1 to 2"),
        (["--target", " "], 1, "the target is blank"),
        (["--target", "a" * 90], 1, "the target has 92 tokens"),
        (["--target", "a" * 90, "-o", "a.html"], 1, "more than the 80"),
    ],
)
def test_mistakes_are_explained(run, args, code, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(SRC, *args)
    assert result.exit_code == code
    assert message in result.stderr
    assert result.stdout == "" and not list(tmp_path.iterdir())


def test_json_has_no_limit_of_what_can_be_drawn(run):
    assert len(json.loads(run(SRC, "--target", "a" * 90, "--json").stdout)["attention"][2]["queries"]) == 92


def test_a_recurrent_decoder_is_shown_without_self_attention(run, folder, subject_spm):
    tiny_bundle(folder / "ssru", subject_spm, tiny_config(SHAPES["SSRU, nothing tied"]))
    assert {found["kind"] for found in json.loads(run(SRC, "--json", model="ssru").stdout)["attention"]} == {
        "encoder",
        "cross",
    }
    result = run(SRC, "--kind", "decoder", model="ssru")
    assert result.exit_code == 2
    assert "model.decoder=ssru" in result.stderr


# Pictures


@pytest.fixture
def drawn(monkeypatch):
    """The axes of each figure that is saved."""
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install mtkit[plot]")
    found = []

    def note(figure, *args):
        found.append(figure.axes[0])
        save_figure(figure, *args)

    monkeypatch.setattr(attention_views, "save_figure", note)
    return found


def test_the_picture_has_each_map_in_its_place_with_its_tokens(subject, drawn, tmp_path):
    trace = trace_pair(subject.model, subject.pair("It rains", target="the cat"))
    write_attention_picture(tmp_path / "a.png", trace)
    [axes] = drawn
    _scale, *images = axes.images
    titles = {text.get_text(): text.get_position() for text in axes.texts if text.get_text().startswith("layer")}
    texts = [(text.get_text(), *text.get_position(), text.get_rotation()) for text in axes.texts]
    assert len(images) == len(trace.maps) * 2
    rows = [(found, head) for found in trace.maps for head in (0, 1)]
    for image, (found, head) in zip(images, rows, strict=True):
        shown = image.get_array()
        assert torch.equal(torch.tensor(shown.mask) & torch.ones_like(found.hidden), found.hidden)
        torch.testing.assert_close(torch.tensor(shown.filled(0.0)), found.weights[head])
        left, right, bottom, top = image.get_extent()
        queries, keys = trace.axes(found.kind)
        for number, key in enumerate(keys):  # below the middle of its column
            middle = left + (right - left) * (number + 0.5) / len(keys)
            near = {
                text for text, x, y, turned in texts if turned == 90 and abs(x - middle) < 0.01 and 0 < y - bottom < 0.1
            }
            assert near == {key.replace("▁", "_")}
        if head == 0:
            for number, query in enumerate(queries):  # left of the middle of its row
                middle = top + (bottom - top) * (number + 0.5) / len(queries)
                near = {text for text, x, y, _ in texts if 0 < left - x < 0.1 and abs(y - middle) < 0.01}
                assert near == {query.replace("▁", "_")}
    assert set(titles) == {f"layer {layer}, head {head}" for layer in (1, 2) for head in (1, 2)}


@pytest.mark.parametrize("name", ["a.png", "a.svg"])
def test_dollars_and_markup_are_text_in_pictures(run, name, tmp_path, drawn):
    result = run("$ x_1 $ \\frac <b> &", "--target", "$\\alpha$ $", "-o", str(tmp_path / name), "--kind", "cross")
    assert result.exit_code == 0 and "cross-attention, layer 1 of 2" in result.stdout
    content = (tmp_path / name).read_bytes()
    assert content.startswith(b"\x89PNG") if name == "a.png" else b"$\\alpha$ $</text>" in content
    assert len(drawn[0].images) == 1 + 2 * 2


def test_tokens_are_not_taken_for_formulas(tmp_path, drawn):
    trace = trace_by_hand([[1.0, 0.0], [0.5, 0.5]], [[[1.0, 0, 0]] * 2] * 2)
    src = replace(trace.pair.src, pieces=["▁$x_1$", "$\\frac$", "<end>"])  # the second would be one with a mistake
    odd = replace(trace, pair=replace(trace.pair, src=src), tgt_in=["<start>", "$\\frac$"])
    write_attention_picture(tmp_path / "a.svg", odd)
    assert (tmp_path / "a.svg").read_text(encoding="utf-8").count("$\\frac$</text>") == 2 * (
        1 + 2
    )  # two kinds: a row, two maps


def test_characters_that_the_font_lacks_give_a_warning(subject, tmp_path, drawn, caplog):
    trace = trace_pair(subject.model, subject.pair("a \u732b", target="a"))
    write_attention_picture(tmp_path / "a.png", trace.chosen(["cross"], layer=1))
    assert "matplotlib's font lacks" in caplog.text
    assert (tmp_path / "a.png").stat().st_size > 0


def test_a_picture_that_would_be_too_large_is_refused(subject, tmp_path, monkeypatch):
    monkeypatch.setattr(attention_views, "MAX_PIXELS", 100_000)
    with pytest.raises(MtkitError, match=r"12 .*--kind, --layer or --head"):
        write_attention_picture(tmp_path / "a.png", trace_pair(subject.model, subject.pair(SRC, target=TGT)))
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_a_picture_is_refused_with_the_remedy(run, monkeypatch, tmp_path):
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    result = run(SRC, "-o", str(tmp_path / "a.png"))
    assert result.exit_code == 1
    assert "pip install mtkit[plot]" in result.stderr
    assert not list(tmp_path.iterdir())

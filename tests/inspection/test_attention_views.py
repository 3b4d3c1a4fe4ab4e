"""The attention page: its size, what is in it, and in a real browser its lines, numbers and keys."""

import base64
import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from browsing import check_page, open_page
from tiny_models import SHAPES, tiny_bundle, tiny_config, tiny_tokenizer

from mtkit.config.model import ModelConfig
from mtkit.inspection.attention_views import write_attention_page
from mtkit.inspection.sentence_pair import SentencePair, Subject, Tokens
from mtkit.inspection.trace import AttentionTrace, trace_pair
from mtkit.model.transformer import Transformer

SHOWN = 6e-4  # three decimals, of what is computed from queries and keys of 16 bits
SRC, TGT = "The cat sleeps.", "It rains, it rains."


@pytest.fixture(scope="module")
def trace(tmp_path_factory) -> AttentionTrace:
    """Three heads, so that a head cannot be taken for a layer."""
    folder, cfg = tmp_path_factory.mktemp("page"), tiny_config({"d_model": 24, "n_heads": 3})
    subject = Subject(tiny_bundle(folder / "model", tiny_tokenizer(folder, cfg), cfg))
    return trace_pair(subject.model, subject.pair(SRC, target=TGT))


@pytest.fixture(scope="module")
def path(trace, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "attention.html"
    write_attention_page(path, trace)
    return path


def data_of(path) -> dict:
    text = path.read_text(encoding="utf-8")
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert data
    return json.loads(data[1])


def decoded(layer: dict, name: str, n_heads: int, d_head: int) -> np.ndarray:
    integers = np.frombuffer(base64.b64decode(layer[name]), "<i2").astype(np.float64).reshape(n_heads, -1, d_head)
    return integers * np.array(layer[f"{name}_unit"])[:, None, None]


def test_a_page_of_thirty_tokens_six_layers_and_eight_heads_is_below_two_megabytes(tmp_path):
    torch.manual_seed(0)
    cfg = ModelConfig(d_model=512, d_ff=64, n_heads=8, n_encoder_layers=6, n_decoder_layers=6)
    model = Transformer(cfg, 50, 50).eval()
    with torch.no_grad():
        for layer in [*model.encoder_layers, *model.decoder_layers]:  # as sharp as a trained model's
            for parameter in layer.parameters():
                parameter.mul_(1.6)
    tokens = Tokens("", [*range(4, 34), 3], [*(f"▁word{number}" for number in range(30)), "<end>"])
    trace = trace_pair(model, SentencePair(tokens, tokens, "given", True))
    assert max(float(found.scores.abs().max()) for found in trace.maps) > 20
    path = tmp_path / "large.html"
    write_attention_page(path, trace)
    assert path.stat().st_size < 2_000_000
    data = data_of(path)
    layers = [(kind, layer) for kind in data["kinds"] for layer in kind["layers"]]
    for (kind, layer), found in zip(layers, trace.maps, strict=True):
        assert (kind["kind"], layer["layer"]) == (found.kind, found.layer)
        q, k = (decoded(layer, name, 8, 64) for name in ("q", "k"))
        scores = np.einsum("hqd,hkd->hqk", q, k) / 8 + np.where(found.hidden, -np.inf, 0)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        assert np.abs(weights - found.weights.numpy()).max() < 5e-4


def test_a_page_without_decoder_self_attention_says_why(trace, path, tmp_path):
    maps = [found for found in trace.maps if found.kind != "decoder"]
    recurrent = replace(trace, maps=maps, cfg=trace.cfg.model_copy(update={"decoder": "ssru"}))
    write_attention_page(tmp_path / "ssru.html", recurrent)
    assert [kind["kind"] for kind in data_of(tmp_path / "ssru.html")["kinds"]] == ["encoder", "cross"]
    told = "decoder is recurrent (SSRU): it has no decoder self-attention"
    assert told in (tmp_path / "ssru.html").read_text(encoding="utf-8")
    assert told not in path.read_text(encoding="utf-8")


def shown(text: str) -> float:
    return float(text.replace("\N{MINUS SIGN}", "-"))


def choose(page, kind: str | None = None, **selects: str) -> None:
    if kind is not None:
        page.get_by_label(kind, exact=True).check()
    for name, value in selects.items():
        page.get_by_label(name.capitalize(), exact=True).select_option(label=value)


def selected(page, label: str) -> str:
    return page.get_by_label(label, exact=True).evaluate("select => select.selectedOptions[0].text")


def lines_of(page) -> dict[tuple[int, int], float]:
    """The opacity of each line, by query and key."""
    found = page.eval_on_selector_all(
        "#lines line", "all => all.map(l => [l.dataset.query, l.dataset.key, l.getAttribute('stroke-opacity')])"
    )
    return {(int(query), int(key)): float(opacity) for query, key, opacity in found}


def assert_lines(page, weights: torch.Tensor) -> None:
    lines = lines_of(page)
    for query, row in enumerate(weights.tolist()):
        for key, weight in enumerate(row):
            assert lines.get((query, key), 0.0) == pytest.approx(weight, abs=SHOWN if (query, key) in lines else 0.005)


def test_lines_are_the_weights_of_what_is_chosen(browser, path, trace):
    names = {"encoder": "encoder self-attention", "decoder": "decoder self-attention", "cross": "cross-attention"}
    with open_page(browser, path) as page:
        assert_lines(page, trace.cross.weights[0])  # at first
        for found in trace.maps:
            for head in found.heads:
                choose(page, names[found.kind], layer=str(found.layer), head=str(head))
                assert_lines(page, found.weights[head - 1])
                assert f"{names[found.kind]}, layer {found.layer}, head {head}" in page.locator("#heading").inner_text()
            choose(page, head="mean of all")
            assert_lines(page, found.weights.mean(0))


def test_a_token_that_is_pointed_at_shows_its_weights_as_numbers(browser, path, trace):
    weights = trace.layers("decoder")[1].weights[2]
    with open_page(browser, path) as page:
        choose(page, "decoder self-attention", layer="2", head="3")
        page.locator("#queries button").nth(3).hover()
        numbers = page.locator("#keys output").all_inner_texts()
        assert [shown(text) for text in numbers[:4]] == pytest.approx(weights[3, :4].tolist(), abs=SHOWN)
        assert not any(numbers[4:])  # hidden: they come later
        assert {query for query, _ in lines_of(page)} == {3}
        key = 1 + int(weights[:, 1:].max(0).values.argmax())  # one with lines
        page.locator("#keys button").nth(key).hover()
        numbers = page.locator("#queries output").all_inner_texts()
        assert not any(numbers[:key])
        assert [shown(text) for text in numbers[key:]] == pytest.approx(weights[key:, key].tolist(), abs=SHOWN)
        assert {line[1] for line in lines_of(page)} == {key}


def test_inside_a_head_the_numbers_of_a_pair_are_those_of_the_trace(browser, path, trace):
    found, query, key = trace.layers("cross")[0], 4, 2
    q, k = found.q[1, query], found.k[1, key]
    with open_page(browser, path) as page:
        choose(page, "cross-attention", layer="1", head="2")
        page.get_by_label("Query", exact=True).select_option(str(query))
        page.get_by_label("Key", exact=True).select_option(str(key))
        told = [shown(text) for text in re.findall(r"[\u22120-9]+\.\d{3}", page.locator("#sum").inner_text())]
        expected = [float(q @ k), float(found.scores[1, query, key]), float(found.weights[1, query, key])]
        assert told == pytest.approx(expected, abs=2e-3)
        rows = page.locator("#row tr").evaluate_all(
            "all => all.map(r => [...r.querySelectorAll('th, td.number')].map(c => c.textContent))"
        )
        assert [row[0] for row in rows] == trace.axes("cross")[1]
        assert [shown(row[1]) for row in rows] == pytest.approx(found.scores[1, query].tolist(), abs=2e-3)
        assert [shown(row[3]) for row in rows] == pytest.approx(found.weights[1, query].tolist(), abs=SHOWN)
        for number in range(8):
            page.locator("#dimension").fill(str(number + 1))
            told = [shown(text) for text in re.findall(r"[\u22120-9]+\.\d{3}", page.locator("#one").inner_text())]
            assert told == pytest.approx([float(q[number]), float(k[number]), float(q[number] * k[number])], abs=1e-3)
            heights = [page.locator(f"#{name} rect").nth(number + 1).get_attribute("class") for name in "qkp"]
            assert heights == [
                "up" if value >= 0 else "down" for value in (q[number], k[number], q[number] * k[number])
            ]


@pytest.mark.parametrize("name", ["relative positions", "ALiBi, three heads"])
def test_what_positions_add_to_scores_counts_and_is_named(name, browser, tmp_path):
    torch.manual_seed(1)
    cfg = tiny_config(SHAPES[name]).model
    model = Transformer(cfg, 20, 20).eval()
    tokens = Tokens("", [*range(4, 12), 3], [*(f"▁word{number}" for number in range(8)), "<end>"])
    trace = trace_pair(model, SentencePair(tokens, tokens, "given", True))
    path = tmp_path / "attention.html"
    write_attention_page(path, trace)
    found = trace.layers("decoder")[1]
    assert found.added is not None
    with open_page(browser, path) as page:
        choose(page, "decoder self-attention", layer="2", head="2")
        assert_lines(page, found.weights[1])
        page.get_by_label("Query", exact=True).select_option("6")
        page.get_by_label("Key", exact=True).select_option("1")
        told = [shown(text) for text in re.findall(r"[\u22120-9]+\.\d{3}", page.locator("#sum").inner_text())]
        product = float(found.q[1, 6] @ found.k[1, 1])
        parts = [product, product / found.d_head**0.5, float(found.added[1, 6, 1])]
        assert told == pytest.approx([*parts, float(found.scores[1, 6, 1]), float(found.weights[1, 6, 1])], abs=2e-3)


def test_keys_choose_maps_tokens_and_dimensions(browser, path, trace):
    with open_page(browser, path) as page:
        page.locator("#maps [aria-checked=true]").focus()
        chosen = trace.cross.layer
        for key, head in (("ArrowRight", "2"), ("ArrowRight", "3"), ("ArrowRight", "3"), ("ArrowLeft", "2")):
            page.keyboard.press(key)
            assert selected(page, "Head") == head
        page.keyboard.press("ArrowUp" if chosen == 2 else "ArrowDown")
        assert_lines(page, trace.layers("cross")[2 - chosen].weights[1])
        assert (selected(page, "Layer"), selected(page, "Head")) == (str(3 - chosen), "2")
        page.locator("#queries [aria-checked=true]").focus()
        page.keyboard.press("ArrowDown")
        assert {query for query, _ in lines_of(page)} == {1}
        page.keyboard.press("Space")
        page.keyboard.press("ArrowRight")  # to the keys
        page.keyboard.press("ArrowDown")
        assert {key for _, key in lines_of(page)} == {2}
        page.keyboard.press("Enter")
        queries, keys = trace.axes("cross")
        told = page.locator("#sum strong").all_inner_texts()
        assert told == [queries[1], keys[2]]
        page.locator("#dimension").focus()
        page.keyboard.press("ArrowRight")
        assert page.locator("#one").inner_text().startswith("Dimension 2 of 8")


def test_a_head_is_chosen_only_where_there_is_one(browser, path):
    with open_page(browser, path) as page:
        assert page.locator("#inside").is_visible() and not page.locator("#mean").is_visible()
        choose(page, head="mean of all")
        assert page.locator("#mean").is_visible() and not page.locator("#inside").is_visible()
        page.locator("#maps button").first.click()
        assert page.locator("#inside").is_visible()


def test_a_chosen_head_and_markup_in_tokens_are_shown_as_they_are(browser, trace, tmp_path):
    odd = ["<b>bold</b>", "&amp;", '"</script>', *trace.tgt_in[3:]]
    one = AttentionTrace(trace.pair, odd, trace.chosen(["decoder"], layer=2, head=2).maps, trace.cfg)
    write_attention_page(tmp_path / "one.html", one)
    with open_page(browser, tmp_path / "one.html") as page:
        assert page.locator("#queries button span").all_inner_texts()[:3] == odd[:3]
        assert page.locator("#head option").all_inner_texts() == ["2"]
        assert_lines(page, one.maps[0].weights[0])


def test_the_page_reads_well_in_light_and_dark(browser, path, tmp_path):
    def use(page) -> None:
        choose(page, "decoder self-attention")
        page.locator("h1").click()  # Tab starts from there
        page.locator("#queries button").nth(2).hover()

    check_page(browser, path, tmp_path, use)

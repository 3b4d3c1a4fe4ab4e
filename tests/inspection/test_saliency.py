"""`mtkit inspect saliency`: by brute force, finite differences, gradients of torch, laws; and as a user meets it."""

import json
import sys

import pytest
import torch
from browsing import check_page, open_page
from tiny_models import SHAPES, tiny_bundle, tiny_config
from typer.testing import CliRunner

from mtkit.alignment.attention import attention_weights
from mtkit.alignment.forced import ForcedPair
from mtkit.cli import app
from mtkit.errors import MtkitError, UsageError
from mtkit.inspection.saliency import draw_saliency, erase, gradient_times_input, measure_saliency
from mtkit.inspection.sentence_pair import Subject
from mtkit.tokens.special_ids import BOS_ID, UNK_ID

SENTENCE, TARGET = "Do you see oranges?", "It rains."


@pytest.fixture(scope="module")
def pair(subject):
    return subject.pair(SENTENCE, target=TARGET)


@pytest.fixture
def make_subject(folder, subject_spm):
    """Subjects that a test may spoil."""
    return lambda **shape: Subject(tiny_bundle(folder / "other", subject_spm, tiny_config(shape)))


@pytest.fixture
def run(folder, subject):
    """Runs the command on the plain model."""

    def run(*args: str):
        return CliRunner().invoke(app, ["inspect", "saliency", *args, "--model", str(folder / "plain")])

    return run


def target_log_probs(model, src_ids, tgt_ids):
    """By one plain forward pass."""
    logits = model(torch.tensor([src_ids]), torch.tensor([[BOS_ID, *tgt_ids[:-1]]]))[0]
    return logits.log_softmax(-1)[range(len(tgt_ids)), tgt_ids]


@pytest.mark.parametrize("erased_by", ["unk", "omit"])
def test_erasure_is_what_brute_force_finds(subject, pair, erased_by):
    src, tgt = pair.src.ids, pair.tgt.ids
    with torch.no_grad():
        whole = target_log_probs(subject.model, src, tgt)
        columns = []
        for s in range(len(src)):
            rest = src[:s] + ([UNK_ID] if erased_by == "unk" else []) + src[s + 1 :]
            columns.append(whole - target_log_probs(subject.model, rest, tgt))
    found_whole, found = erase(subject.model, pair, erased_by)
    torch.testing.assert_close(found_whole, whole)
    torch.testing.assert_close(found, torch.stack(columns, dim=1), rtol=1e-4, atol=1e-5)
    assert found.abs().max() > 0.01


def test_a_hidden_token_is_missed_by_a_model_without_positions_like_one_left_out(make_subject):
    subject = make_subject(positions="learned")
    subject.model.src_positions.table.data.zero_()
    pair = subject.pair(SENTENCE, target=TARGET)
    hidden, left_out = (erase(subject.model, pair, erased_by)[1] for erased_by in ("pad", "omit"))
    torch.testing.assert_close(hidden, left_out, rtol=1e-4, atol=1e-5)


def test_hiding_moves_no_other_token_while_leaving_out_does(subject, pair):
    hidden, left_out = (erase(subject.model, pair, erased_by)[1] for erased_by in ("pad", "omit"))
    torch.testing.assert_close(hidden[:, -1], left_out[:, -1])  # nothing comes after <end>
    assert not torch.allclose(hidden[:, 0], left_out[:, 0], atol=1e-2)


def by_finite_differences(model, pair, size):
    """d log_probs / dh at h=0, an embedding being 1 + h times itself; source ids are all different, and not tied."""
    columns = []
    for token_id in pair.src.ids:
        ends = []
        for factor in (1 + size, 1 - size):
            embedding = model.src_embedding.weight.data
            kept = embedding[token_id].clone()
            embedding[token_id] *= factor
            ends.append(target_log_probs(model, pair.src.ids, pair.tgt.ids).detach())
            embedding[token_id] = kept
        columns.append((ends[0] - ends[1]) / (2 * size))
    return torch.stack(columns, dim=1)


@pytest.mark.parametrize("name", [name for name, shape in SHAPES.items() if shape.get("tie") != "all"])
def test_gradient_times_input_is_the_slope_along_the_embedding(make_subject, name):
    subject = make_subject(**SHAPES[name])
    model = subject.model.double()
    pair = subject.pair("oranges", target=TARGET)
    assert len(set(pair.src.ids)) == len(pair.src.ids)
    single = "SSRU" in name  # whose cells are float32 in any precision
    expected = by_finite_differences(model, pair, size=3e-4 if single else 1e-5)
    found = gradient_times_input(model, pair)
    torch.testing.assert_close(found, expected, rtol=1e-3 if single else 1e-6, atol=2e-3 if single else 1e-8)
    assert found.abs().max() > 0.01


def test_a_repeated_token_has_a_value_at_each_position(subject):
    pair = subject.pair("cat cat", target=TARGET)
    found = gradient_times_input(subject.model, pair)
    weight = subject.model.src_embedding.weight
    for t, log_prob in enumerate(target_log_probs(subject.model, pair.src.ids, pair.tgt.ids)):
        [gradient] = torch.autograd.grad(log_prob, weight, retain_graph=True)
        by_id = (gradient * weight).sum(1)
        for token_id in set(pair.src.ids):
            places = [s for s, other in enumerate(pair.src.ids) if other == token_id]
            torch.testing.assert_close(found[t, places].sum(), by_id[token_id], rtol=1e-3, atol=1e-5)


def test_a_matrix_that_the_target_shares_counts_on_the_source_side_only(make_subject):
    shape = SHAPES["rotary, RMSNorm, SwiGLU, all tied"]
    tied, untied = make_subject(**shape), make_subject(**{**shape, "tie": "none"})
    state = tied.model.state_dict()
    matrix = state["src_embedding.weight"]
    untied.model.load_state_dict({**state, "tgt_embedding.weight": matrix, "output.weight": matrix})
    pair = tied.pair(SENTENCE, target=SENTENCE)
    torch.testing.assert_close(gradient_times_input(tied.model, pair), gradient_times_input(untied.model, pair))


def test_a_model_that_ignores_the_source_depends_on_no_token(make_subject):
    subject = make_subject()
    for layer in subject.model.decoder_layers:
        layer.cross_attention.out_proj.weight.data.zero_()
    pair = subject.pair(SENTENCE, target=TARGET)
    found = measure_saliency(subject, pair)
    assert not torch.tensor(found.erasure).any()
    assert not torch.tensor(found.gradient).any()


def test_the_model_is_left_as_it_was(subject, pair):
    measure_saliency(subject, pair)
    assert all(parameter.grad is None for parameter in subject.model.parameters())
    assert not subject.model.src_positions._forward_pre_hooks


@pytest.mark.parametrize("layer", [1, 2])
def test_attention_is_that_of_the_layer_with_a_row_for_the_end(subject, pair, layer):
    found = measure_saliency(subject, pair, layer=layer)
    attention = torch.tensor(found.attention)
    [expected] = attention_weights(
        subject.model, [ForcedPair(pair.src.ids[:-1], pair.tgt.ids[:-1])], layer=layer - 1
    )  # which gives none for the end
    assert attention.shape == (len(pair.tgt.ids), len(pair.src.ids))
    torch.testing.assert_close(attention[:-1], expected)
    torch.testing.assert_close(attention.sum(1), torch.ones(len(pair.tgt.ids)))


def test_there_is_no_layer_beyond_the_last(subject, pair):
    with pytest.raises(UsageError, match=r"layer 3: .*1 to 2"):
        measure_saliency(subject, pair, layer=3)


def test_words_that_the_alignment_links_are_those_of_the_texts(subject, pair):
    found = measure_saliency(subject, pair)
    assert found.word_links()
    for src, tgt in found.word_links():
        assert src in SENTENCE.split() and tgt in TARGET.split()


def test_the_command_lists_what_each_token_depends_on(run, subject, pair):
    result = run(SENTENCE, "--target", TARGET, "--top", "1")
    assert result.exit_code == 0
    found = measure_saliency(subject, pair)
    rows = result.stdout.splitlines()[-len(pair.tgt.ids) :]
    for row, piece, values in zip(rows, pair.tgt.pieces, found.erasure, strict=True):
        strongest = max(range(len(values)), key=lambda s: abs(values[s]))
        assert row.startswith(piece)
        assert f"{pair.src.pieces[strongest]} {values[strongest]:.2f}" in row


def test_json_holds_the_whole_matrices(run):
    found = json.loads(run(SENTENCE, "--target", TARGET, "--erase", "unk", "--layer", "1", "--json").stdout)
    n_rows, n_columns = len(found["target"]["ids"]), len(found["source"]["ids"])
    for matrix in (found["erasure"], found["gradient_times_input"], found["attention"]["weights"]):
        assert [len(row) for row in matrix] == [n_columns] * n_rows
    assert (found["erased_by"], found["attention"]["layer"], len(found["log_probs"])) == ("unk", 1, n_rows)


def test_a_picture_is_drawn(run, tmp_path):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib: pip install mtkit[plot]")
    path = tmp_path / "heat.png"  # the same picture as an SVG: test_label_saliency.py
    assert run("cat $oranges$", "--target", "It $rains$.", "-o", str(path)).exit_code == 0
    assert path.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_a_picture_is_refused_and_a_page_is_not(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    result = run("cat", "--target", "a", "-o", str(tmp_path / "heat.png"))
    assert result.exit_code == 1
    assert "pip install mtkit[plot]" in result.stderr
    assert run("cat", "--target", "a", "-o", str(tmp_path / "heat.html")).exit_code == 0
    assert [entry.name for entry in tmp_path.iterdir()] == ["heat.html"]


@pytest.mark.parametrize(
    ("args", "exit_code", "message"),
    [
        ([SENTENCE, "--target", "a", "--beam-size", "2"], 2, "--target gives the translation"),
        ([SENTENCE, "-o", "heat.pdf"], 2, "must end in .png or .svg or .html"),
        (["  "], 1, "the sentence is blank"),
        ([SENTENCE, "--layer", "9"], 2, "the decoder has layers 1 to 2"),
    ],
)
def test_what_cannot_be_shown_is_refused(run, args, exit_code, message):
    result = run(*args)
    assert result.exit_code == exit_code
    assert message in result.stderr


def test_a_pair_that_is_too_long_to_draw_is_refused_before_the_work(run, tmp_path):
    result = run("a" * 90, "--target", "a", "-o", str(tmp_path / "heat.html"))
    assert result.exit_code == 1
    assert "the source has 92 tokens" in result.stderr and " 80 " in result.stderr
    assert not result.stdout
    assert not list(tmp_path.iterdir())


def test_the_page_shows_what_the_chosen_token_depends_on(subject, browser, tmp_path):
    found = measure_saliency(subject, subject.pair("see <b>", target="It rains"))
    draw_saliency(tmp_path / "heat.html", found)
    with open_page(browser, tmp_path / "heat.html") as page:
        page.locator("button[data-row='1']").focus()
        page.keyboard.press("Enter")
        shown = page.locator(".source").first.locator("small").all_inner_texts()
        assert page.locator("button[aria-pressed=true]").inner_text() == found.pair.tgt.pieces[1]
    expected = [f"{value:.2f}".replace("-0.00", "0.00").replace("-", "\u2212") for value in found.erasure[1]]
    assert shown == expected
    check_page(browser, tmp_path / "heat.html", tmp_path)


def test_the_page_of_a_long_sentence_is_small(subject, tmp_path):
    found = measure_saliency(subject, subject.pair("a" * 30, target="b" * 30))
    draw_saliency(tmp_path / "heat.html", found)
    assert (tmp_path / "heat.html").stat().st_size < 500_000


def test_a_drawing_of_too_many_tokens_raises(subject, tmp_path):
    found = measure_saliency(subject, subject.pair("a" * 90, target="b"))
    with pytest.raises(MtkitError, match=r"the source has 9\d tokens"):
        draw_saliency(tmp_path / "heat.png", found)

"""`mtkit inspect saliency` of a classifier: by brute force and finite differences of its log-odds; and as a user."""

import json
import math

import pytest
import torch
from browsing import check_page
from tiny_models import LABELS, SHAPES, tiny_classifier, tiny_classifier_config
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.errors import UsageError
from mtkit.inspection.saliency import erase_for_label, label_gradient_times_input, measure_label_saliency
from mtkit.inspection.sentence_pair import ClassifierSubject
from mtkit.tokens.special_ids import BOS_ID, EOS_ID, UNK_ID

TEXT, SECOND = "Do you see oranges?", "It rains."


@pytest.fixture(scope="module")
def single(folder, subject_spm) -> ClassifierSubject:
    return ClassifierSubject(tiny_classifier(folder / "single", subject_spm, tiny_classifier_config({})))


@pytest.fixture(scope="module")
def of_pairs(folder, subject_spm) -> ClassifierSubject:
    cfg = tiny_classifier_config({}, labels=("good", "bad"), pairs=True)
    return ClassifierSubject(tiny_classifier(folder / "pairs", subject_spm, cfg))


def run(folder, *args: str):
    return CliRunner().invoke(app, ["inspect", "saliency", *args, "--model", str(folder)])


def log_odds(model, ids, label):
    """By the definition, from the probabilities of one plain forward pass."""
    src = torch.tensor([ids])
    p = model(src, src[:, :1])[0, 0].double().softmax(-1)[label].item()
    return math.log(p / (1 - p))


@pytest.mark.parametrize("label", range(3))
@pytest.mark.parametrize("erased_by", ["unk", "omit"])
def test_erasure_is_what_brute_force_finds(single, erased_by, label):
    ids = single.pair(TEXT).src.ids
    assert ids[0] == BOS_ID and ids[-1] == EOS_ID
    whole = log_odds(single.model, ids, label)
    substitute = [UNK_ID] if erased_by == "unk" else []
    expected = [
        whole - log_odds(single.model, [*ids[:s], *substitute, *ids[s + 1 :]], label) for s in range(1, len(ids))
    ]
    found = measure_label_saliency(single, single.pair(TEXT, label=LABELS[label]), erased_by=erased_by)
    assert found.erasure[0] == pytest.approx(expected, rel=1e-3, abs=1e-5)
    assert max(map(abs, expected)) > 0.01


@pytest.mark.parametrize("shape", SHAPES)
def test_gradient_times_input_is_the_slope_along_the_embedding(folder, subject_spm, shape):
    subject = ClassifierSubject(tiny_classifier(folder / "other", subject_spm, tiny_classifier_config(SHAPES[shape])))
    model = subject.model.double()
    ids = subject.pair("oranges").src.ids
    assert len(set(ids)) == len(ids)
    size, weight, expected = 1e-5, model.src_embedding.weight.data, []
    for token_id in ids:
        ends, kept = [], weight[token_id].clone()
        for factor in (1 + size, 1 - size):
            weight[token_id] = kept * factor
            ends.append(log_odds(model, ids, 1))
        weight[token_id] = kept
        expected.append((ends[0] - ends[1]) / (2 * size))
    found = label_gradient_times_input(model, ids, 1)
    assert found.tolist() == pytest.approx(expected, rel=1e-5, abs=1e-7)
    assert found.abs().max() > 0.01


def test_what_speaks_for_one_of_two_labels_speaks_as_much_against_the_other(of_pairs):
    good, bad = (measure_label_saliency(of_pairs, of_pairs.pair(TEXT, SECOND, label)) for label in ("good", "bad"))
    for mine, other in ((good.erasure, bad.erasure), (good.gradient, bad.gradient)):
        assert mine[0] == pytest.approx([-value for value in other[0]], abs=1e-5)
    assert good.attention == bad.attention


def test_a_classifier_that_is_sure_still_says_why(single):
    pair, weight = single.pair(TEXT), single.model.output.weight
    [label] = pair.tgt.ids
    kept = weight.data.clone()
    try:
        weight.data.mul_(100)
        log_probs, erasure = erase_for_label(single.model, pair.src.ids, label, "unk")
    finally:
        weight.data.copy_(kept)
    assert log_probs.max() > -1e-6  # almost 0
    assert erasure.isfinite().all() and erasure.abs().max() > 1


def test_start_has_no_column_and_the_rest_of_the_attention(single):
    pair = single.pair(TEXT)
    found = measure_label_saliency(single, pair, layer=1)
    assert found.pair.src.ids == pair.src.ids[1:]
    for [row] in (found.erasure, found.gradient, found.attention):
        assert len(row) == len(pair.src.ids) - 1
    assert 0 < sum(found.attention[0]) < 1


def test_of_a_pair_both_texts_have_values(of_pairs):
    found = measure_label_saliency(of_pairs, of_pairs.pair(TEXT, SECOND))
    first, second = (of_pairs.tokenizer.encode(text) for text in (TEXT, SECOND))
    assert found.pair.src.ids == [*first, EOS_ID, *second, EOS_ID]
    of_second = found.erasure[0][len(first) + 1 : -1]
    assert max(map(abs, of_second)) > 0.01


def test_there_is_no_layer_beyond_the_last(single):
    with pytest.raises(UsageError, match=r"layer 3: the encoder has layers 1 to 2"):
        measure_label_saliency(single, single.pair(TEXT), layer=3)


def test_the_command_says_which_label_it_explains(folder, single):
    likeliest = single.pair(TEXT)
    other = next(label for label in LABELS if label != likeliest.tgt.text)
    shown = run(folder / "single", TEXT).stdout
    assert f"evidence for {likeliest.tgt.text} ({likeliest.chosen_by})" in shown
    assert "the likeliest label" not in shown
    assert f"{TEXT}\n" in shown
    shown = run(folder / "single", TEXT, "--label", other).stdout
    assert f"evidence for {other} (" in shown
    assert f"the likeliest label is {likeliest.tgt.text} ({likeliest.chosen_by})" in shown


def test_the_command_has_a_line_for_each_token_or_for_the_strongest(folder, single):
    found = measure_label_saliency(single, single.pair(TEXT))
    lines = [line.split() for line in run(folder / "single", TEXT).stdout.splitlines()]
    rows = lines[-len(found.pair.src.ids) :]
    assert [row[0] for row in rows] == found.pair.src.pieces
    assert [float(row[1]) for row in rows] == pytest.approx(found.erasure[0], abs=0.0051)
    strongest = max(range(len(rows)), key=lambda s: abs(found.erasure[0][s]))
    assert run(folder / "single", TEXT, "--top", "1").stdout.splitlines()[-1].split() == rows[strongest]


def test_json_has_the_label_and_a_value_for_each_token(folder, of_pairs):
    found = json.loads(run(folder / "pairs", TEXT, "--target", SECOND, "--json").stdout)
    assert found["target"]["text"] == of_pairs.pair(TEXT, SECOND).tgt.text
    assert "alignment" not in found
    n_tokens = len(found["source"]["pieces"])
    for [row] in (found["erasure"], found["gradient_times_input"], found["attention"]["weights"]):
        assert len(row) == n_tokens


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--label", "answer"], "--label answer: the classifier has no such label, but order, question, statement"),
        (["--beam-size", "2"], "--beam-size applies to a translator's search"),
        (["--target", "It rains."], "this classifier reads single texts"),
    ],
)
def test_what_a_classifier_does_not_have_is_refused(folder, single, args, message):
    result = run(folder / "single", TEXT, *args)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_translator_has_no_label(folder, subject):
    result = run(folder / "plain", TEXT, "--label", "question")
    assert result.exit_code == 2
    assert "--label needs a classifier" in result.stderr


def test_a_text_longer_than_learned_positions_is_refused(folder, subject_spm):
    cfg = tiny_classifier_config({"positions": "learned", "max_positions": 64}, pairs=True)
    tiny_classifier(folder / "short", subject_spm, cfg)
    result = run(folder / "short", "a" * 40, "--target", "a")
    assert result.exit_code == 1
    assert "more than the 30 that the classifier reads" in result.stderr  # (64 - 1) / 2, less an <end>


def test_a_picture_is_drawn(folder, single, tmp_path):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib: pip install mtkit[plot]")
    path = tmp_path / "heat.svg"  # the same picture as a PNG: test_saliency.py
    assert run(folder / "single", TEXT, "-o", str(path)).exit_code == 0
    assert b"<svg" in path.read_bytes()


def test_the_page_speaks_of_a_label(folder, single, tmp_path):
    path = tmp_path / "heat.html"
    assert run(folder / "single", TEXT, "-o", str(path)).exit_code == 0
    page = path.read_text(encoding="utf-8")
    label = single.pair(TEXT).tgt.text
    assert f"Evidence for {label} in \u201c{TEXT}\u201d" in page
    for foreign in ("translation", "target token", "button type"):
        assert foreign not in page


def test_the_page_works_in_a_browser(folder, single, browser, tmp_path):
    path = tmp_path / "heat.html"
    assert run(folder / "single", TEXT, "-o", str(path)).exit_code == 0
    check_page(browser, path, tmp_path)

"""`mtkit inspect steps`: against plain forward passes, with models that break its promises, and as a user meets it."""

import json
import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from browsing import check_page
from tiny_models import SENTENCES, SHAPES, tiny_bundle, tiny_config, tiny_tokenizer
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.engines.native import NativeEngine
from mtkit.errors import DataError, MtkitError
from mtkit.inspection.sentence_pair import Subject
from mtkit.inspection.steps import TOLERANCE, decoding_steps, shown_probability, write_steps_page
from mtkit.model import transformer
from mtkit.search.hypothesis import Segment
from mtkit.tokens.special_ids import BOS_ID, EOS_ID, PAD_ID

SENTENCE = SENTENCES[0]


@pytest.fixture
def run(folder, subject):
    """Runs the command on the plain model."""

    def run(*args: str):
        return CliRunner().invoke(app, ["inspect", "steps", *args, "--model", str(folder / "plain")])

    return run


def next_probabilities(model, src_ids, prefix):
    with torch.no_grad():
        return model(torch.tensor([src_ids]), torch.tensor([prefix]))[0, -1].softmax(0)


def test_greedy_search_takes_the_likeliest_token_until_the_end(subject):
    found = decoding_steps(subject, subject.pair(SENTENCE, beam_size=1))
    src_ids = [*subject.src_tokenizer.encode(SENTENCE), EOS_ID]
    ids = [BOS_ID]
    for step in found.steps:
        probabilities = next_probabilities(subject.model, src_ids, ids)
        probabilities[[PAD_ID, BOS_ID]] = 0.0
        values, best = probabilities.topk(5)
        assert step.prefix_ids == ids
        assert [guess.id for guess in step.best] == best.tolist()
        torch.testing.assert_close(torch.tensor([guess.probability for guess in step.best]), values)
        assert (step.chosen.id, step.rank) == (int(best[0]), 1)
        ids.append(step.chosen.id)
    assert found.pair.chosen_by == "greedy search"
    assert found.pair.finished == (ids[-1] == EOS_ID)


def test_a_given_target_is_followed_to_its_end_and_scored(subject):
    target = "The cat rains."
    ids = [*subject.tgt_tokenizer.encode(target), EOS_ID]
    found = decoding_steps(subject, subject.pair(SENTENCE, target=target))
    assert [step.chosen.id for step in found.steps] == ids
    assert [step.prefix[0] for step in found.steps] == ["<start>"] * len(ids)
    assert found.steps[-1].chosen.piece == "<end>"
    assert max(step.rank for step in found.steps) > 1
    src = torch.tensor([[*subject.src_tokenizer.encode(SENTENCE), EOS_ID]])
    with torch.no_grad():
        logits = subject.model(src, torch.tensor([[BOS_ID, *ids[:-1]]]))[0]
    expected = F.cross_entropy(logits, torch.tensor(ids), reduction="sum")
    torch.testing.assert_close(torch.tensor(-found.log_prob), expected)  # as tensors: to the precision of fp32
    logits[:, [PAD_ID, BOS_ID]] = -math.inf  # never chosen
    for step, row in zip(found.steps, logits, strict=True):
        assert step.rank == row.argsort(descending=True).tolist().index(step.chosen.id) + 1


def test_a_beam_search_is_followed_to_what_it_found(subject, folder, subject_spm):
    pair = subject.pair(SENTENCE, beam_size=3)
    engine = NativeEngine([subject.model])
    segment = Segment(subject.src_tokenizer.encode(SENTENCE), max_len=len(pair.src.ids) + 4)
    decode = tiny_config({}).decode.model_copy(update={"beam_size": 3})
    [(_, [best])] = engine.decode([segment], decode, 1)
    assert pair.chosen_by == "beam search of 3"
    assert pair.tgt.ids == best.ids + [EOS_ID] * best.finished
    assert decoding_steps(subject, pair).log_prob == pytest.approx(best.log_prob, abs=1e-3)


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_of_model_keeps_what_is_checked(name, folder, subject_spm):
    bundle = tiny_bundle(folder / "shape", subject_spm, tiny_config(SHAPES[name]))
    subject = Subject(bundle)
    found = decoding_steps(subject, subject.pair(SENTENCE, target=SENTENCES[1]))
    assert found.prefix_holds and found.cache_agrees
    for earlier, later in zip(found.steps, found.steps[1:], strict=False):
        assert later.chosen_so_far[:-1] == pytest.approx(earlier.chosen_so_far, rel=1e-3)


def test_tokens_that_a_model_must_never_say_do_not_count(folder, subject_spm):
    bundle = tiny_bundle(folder / "forbidding", subject_spm, tiny_config({}))
    bundle.model.output.bias.data[4:200] = -30_000.0  # as imported models have it: float32 has steps of 0.002 there
    subject = Subject(bundle)
    found = decoding_steps(subject, subject.pair(SENTENCE, target=SENTENCES[1]))
    assert found.prefix_holds and found.cache_agrees


def test_a_model_that_looks_ahead_fails_the_check(subject, run, monkeypatch):
    monkeypatch.setattr(transformer, "causal_bias", lambda length, device: torch.zeros(1, 1, length, length))
    found = decoding_steps(subject, subject.pair(SENTENCE, target=SENTENCES[1]))
    assert found.moved > 100 * TOLERANCE and not found.prefix_holds
    result = run(SENTENCE, "--target", SENTENCES[1])
    assert result.exit_code == 1
    assert "BROKEN  earlier distributions" in result.stdout


def test_each_step_has_its_own_largest_change(subject):
    """With a model that says something else at the first position once there is a third one."""

    def output(layer, inputs, logits):
        if logits.dim() == 3 and logits.size(1) >= 3:
            logits[:, 0, 5] += 2.0

    hook = subject.model.output.register_forward_hook(output)
    with hook:
        found = decoding_steps(subject, subject.pair(SENTENCE, target=SENTENCES[1]))
    moved = [step.moved for step in found.steps]
    assert moved[2] > 1.0 and max([*moved[:2], *moved[3:]]) <= TOLERANCE


def test_a_cache_that_forgets_fails_the_check(subject, run, monkeypatch):
    make_step = NativeEngine.make_step

    def forgetful(self, segments, beam_size, **options):
        return lambda last_ids: make_step(self, segments, beam_size, **options)(last_ids)  # each call starts anew

    monkeypatch.setattr(NativeEngine, "make_step", forgetful)
    found = decoding_steps(subject, subject.pair(SENTENCE, target=SENTENCES[1]))
    assert found.steps[0].cached_differs <= TOLERANCE < found.cached_differs
    assert found.prefix_holds and not found.cache_agrees
    assert run(SENTENCE, "--target", SENTENCES[1]).exit_code == 1


def test_nan_fails_the_checks(subject):
    found = decoding_steps(subject, subject.pair(SENTENCE))
    first, *rest = found.steps
    broken = replace(found, steps=[first, replace(rest[0], moved=math.nan, cached_differs=math.nan), *rest[1:]])
    assert not broken.prefix_holds and not broken.cache_agrees


def bundle_that_never_ends(folder, subject_spm):
    bundle = tiny_bundle(folder / "endless", subject_spm, tiny_config({}))
    bundle.model.output.bias.data[EOS_ID] = -100.0
    return bundle


def test_a_translation_that_the_length_limit_ends_has_no_end(folder, subject_spm):
    subject = Subject(bundle_that_never_ends(folder, subject_spm))
    found = decoding_steps(subject, subject.pair(SENTENCE))
    assert not found.pair.finished
    assert "<end>" not in found.pair.tgt.pieces
    assert len(found.steps) == len(subject.src_tokenizer.encode(SENTENCE)) + 4 + 1


def test_the_models_tag_stands_before_the_source(folder):
    cfg = tiny_config({}, tag="<2fr>")
    (folder / "tags").mkdir()
    subject = Subject(tiny_bundle(folder / "tagged", tiny_tokenizer(folder / "tags", cfg), cfg))
    assert subject.pair(SENTENCE).src.pieces[0] == "<2fr>"


@pytest.mark.parametrize("blank", ["", " \t ", "\u2028"])
def test_blank_sides_are_refused(subject, blank):
    with pytest.raises(DataError, match="the sentence is blank"):
        subject.pair(blank)
    with pytest.raises(DataError, match="the target is blank"):
        subject.pair(SENTENCE, target=blank)


def test_a_side_that_is_too_long_is_refused_with_its_length(subject):
    with pytest.raises(MtkitError, match=r"the sentence has \d{3,} tokens.* 200 .*decode\.max_src_tokens"):
        subject.pair("cat " * 250)
    with pytest.raises(MtkitError, match=r"the target has \d{3,} tokens.* 200 "):
        subject.pair(SENTENCE, target="cat " * 250)


def test_learned_positions_end_before_the_usual_limit(folder, subject_spm):
    subject = Subject(tiny_bundle(folder / "shape", subject_spm, tiny_config(SHAPES["post-norm, learned positions"])))
    with pytest.raises(MtkitError, match=" 63 "):  # and <end>
        subject.pair("a" * 80)


def test_unknown_characters_are_named(folder, caplog):
    cfg = tiny_config({}, byte_fallback=False, vocab_size=264, type="char")
    (folder / "unknown").mkdir()
    subject = Subject(tiny_bundle(folder / "unknowing", tiny_tokenizer(folder / "unknown", cfg), cfg))
    pair = subject.pair("I love \u732b.")
    assert "<unk>" in pair.src.pieces
    assert " \u732b of the sentence" in caplog.text and "<unk>" in caplog.text


def test_the_command_shows_the_loop_from_start_to_end(run):
    result = run(SENTENCE, "--target", SENTENCES[1], "--top", "3")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith("source") and lines[0].endswith("<end>")
    steps = [line for line in lines if line.startswith("step ")]
    assert steps[0] == "step 1: <start>"
    chosen = [line.split()[1] for line in lines if line.endswith("<- chosen")]
    assert steps[-1].split()[3:] == chosen[:-1]
    assert chosen[-1] == "<end>"
    assert sum(line.startswith("holds ") for line in lines) == 2


def test_json_holds_what_the_terminal_shows(run):
    found = json.loads(run(SENTENCE, "--target", SENTENCES[1], "--json", "--top", "2").stdout)
    assert found["source"]["pieces"][-1] == "<end>" and found["chosen_by"] == "given"
    assert [step["chosen"]["id"] for step in found["steps"]] == found["target"]["ids"]
    assert all(len(step["best"]) == 2 for step in found["steps"])
    assert found["log_prob"] == pytest.approx(math.fsum(step["log_prob"] for step in found["steps"]))
    assert found["checks"]["prefix"]["holds"] and found["checks"]["cache"]["holds"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--target", "a", "--beam-size", "2"], "--target gives the translation"),
        (["-o", "steps.png"], "must end in .html"),
    ],
)
def test_options_that_cannot_be_are_usage_errors(run, args, message):
    result = run(SENTENCE, *args)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("probability", "shown"),
    [
        (1.0, "1.0000"),
        (0.00006, "0.0001"),
        (0.00005, "0.0001"),
        (0.00004, "4e-05"),
        (2.34e-19, "2e-19"),
        (0.0, "0e+00"),
    ],
)
def test_small_probabilities_are_not_shown_as_nothing(probability, shown):
    assert shown_probability(probability) == shown


def test_the_page_reads_well(subject, browser, tmp_path):
    found = decoding_steps(subject, subject.pair(SENTENCE, target="The cat"))
    write_steps_page(tmp_path / "steps.html", found)
    check_page(browser, tmp_path / "steps.html", tmp_path)


def test_the_page_has_every_step_and_its_probabilities(subject, tmp_path):
    found = decoding_steps(subject, subject.pair("<b> & 'cat'", target=SENTENCES[1]))
    write_steps_page(tmp_path / "steps.html", found)
    page = (tmp_path / "steps.html").read_text(encoding="utf-8")
    assert all(f">Step {n}<" in page for n in range(1, len(found.steps) + 1))
    assert f"{found.steps[0].best[0].probability:.4f}" in page
    assert "<b> &" not in page  # what was typed is text
    assert len(page) < 100_000

"""The exactness check: a sound model passes it, and each planted fault is caught, named and shown."""

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from mtkit.bundle import Bundle, load_bundle
from mtkit.cli import app
from mtkit.engines.native import NativeEngine, pad
from mtkit.engines.steps import ModelStep
from mtkit.model import ops
from mtkit.search.hypothesis import Hypothesis
from mtkit.search.step import DecodeStep
from mtkit.tokens.special_ids import BOS_ID, EOS_ID
from mtkit.translation.consistency import CHECKS, Comparison, UncachedStep, examine, n_decoded

LINES = ["I love it.", "The cat sleeps.", "", "It rains.", "You see?", "It sees.", "I sleep.", "It loves you. " * 4]
NUMBERED = list(enumerate(LINES, start=11))


pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


@pytest.fixture
def loaded(shared_bundle) -> Bundle:
    return load_bundle(shared_bundle, ["decode.max_src_tokens=20", "decode.max_len_constant=2"])


@pytest.fixture
def favour(loaded, monkeypatch):
    """favour(when): the model likes one token better whenever `when(first batch size, cache)` says so."""
    model, start, step = loaded.model, loaded.model.start_decoding, loaded.model.decode_step

    def plant(when, token_id=EOS_ID + 300, nats=4.0):
        token_id = min(token_id, loaded.tgt_tokenizer.vocab_size - 1)

        def start_decoding(src, beam_size):
            cache = start(src, beam_size)
            cache.n_sentences = src.size(0)
            return cache

        def decode_step(last_ids, cache):
            is_wrong = when(cache)  # before the step makes the cache longer
            logits = step(last_ids, cache)
            logits[..., token_id] += nats * is_wrong
            return logits

        monkeypatch.setattr(ops, "decoder", lambda *_: None)  # decode with the model's own layers
        monkeypatch.setattr(model, "start_decoding", start_decoding)
        monkeypatch.setattr(model, "decode_step", decode_step)
        return token_id

    return plant


def differing(comparisons) -> set[tuple[str, int]]:
    return {(comparison.name, comparison.beam_size) for comparison in comparisons if comparison.n_different}


def test_a_sound_model_is_exact(loaded):
    comparisons = list(examine(loaded, NUMBERED, beam_sizes=(1, 3)))
    names = ["batches of 7", "batches of 1", "sorted input", "shuffled input", "no cache, batches of 16"]
    assert [(c.name, c.beam_size) for c in comparisons] == [
        *((name, 1) for name in names),
        *((name, 3) for name in [*names, "3-best"]),
    ]
    assert differing(comparisons) == set()
    assert all(c.must_agree and c.n_lines == len(LINES) and not c.differences for c in comparisons)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_model_that_depends_on_its_batch_is_caught(loaded, favour, beam_size):
    favour(lambda cache: cache.n_sentences == 7)
    comparisons = list(examine(loaded, NUMBERED, beam_sizes=[beam_size], checks=["batch", "cache"]))
    assert differing(comparisons) == {("batches of 7", beam_size)}
    [comparison] = [c for c in comparisons if c.n_different]
    assert {difference.line for difference in comparison.differences} <= {number for number, _ in NUMBERED} - {13}
    for difference in comparison.differences:
        assert difference.src == LINES[difference.line - 11].strip()
        assert difference.reference.text != difference.other.text


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_cache_that_changes_the_result_is_caught(loaded, favour, beam_size):
    favour(lambda cache: cache.length == 2)
    names = differing(examine(loaded, NUMBERED, beam_sizes=[beam_size], checks=["batch", "cache"]))
    assert names == {("no cache, batches of 16", beam_size)}


def test_a_result_that_depends_on_the_order_is_caught(loaded, monkeypatch):
    decode = NativeEngine.decode

    def first_come_first_served(engine, segments, cfg, n_best):
        for number, hypotheses in decode(engine, segments, cfg, n_best):
            yield number, hypotheses if number else [Hypothesis([5, 6, 7], -1.0, -1.0, True)]

    monkeypatch.setattr(NativeEngine, "decode", first_come_first_served)
    names = differing(examine(loaded, NUMBERED, beam_sizes=[1], checks=["order"]))
    assert names == {("sorted input", 1), ("shuffled input", 1)}


def test_n_best_lists_that_do_not_begin_with_the_best_are_caught(loaded, monkeypatch):
    decode = NativeEngine.decode

    def worst_first(engine, segments, cfg, n_best):
        for number, hypotheses in decode(engine, segments, cfg, n_best):
            yield number, hypotheses[::-1]

    monkeypatch.setattr(NativeEngine, "decode", worst_first)
    names = differing(examine(loaded, NUMBERED, beam_sizes=[1, 3], checks=["order", "n-best"]))
    assert names == {("3-best", 3)}


def test_only_the_first_differences_are_kept_and_all_are_counted(loaded, favour):
    favour(lambda cache: cache.n_sentences == 1)
    [_, comparison] = examine(loaded, NUMBERED, beam_sizes=[1], checks=["batch"], max_differences=2)
    assert comparison.n_different > 2
    assert len(comparison.differences) == 2


def test_another_precision_is_compared_without_being_asked_to_agree(loaded):
    [comparison] = examine(loaded, NUMBERED, beam_sizes=[1], checks=[], precisions=["int8"])
    assert (comparison.name, comparison.must_agree) == ("int8", False)


@pytest.mark.parametrize("checks", [CHECKS, []])
def test_the_bar_advances_for_every_line(loaded, checks):
    ticks = []
    what = {"beam_sizes": (1, 3), "checks": checks, "precisions": ["int8"]}
    for _ in examine(loaded, NUMBERED, **what, advance=lambda: ticks.append(1)):
        pass
    assert len(ticks) == n_decoded(len(LINES), **what)


@torch.no_grad()
def test_decoding_without_a_cache_gives_what_the_cache_gives(loaded):
    """Both steps get the same tokens, orders and departures, chosen at random."""
    generator = torch.Generator().manual_seed(3)
    texts = [text for text in LINES if text and len(text) < 50]
    src = pad([[*loaded.src_tokenizer.encode(text), EOS_ID] for text in texts])
    n_sentences, beam_size = len(texts), 3
    steps: list[DecodeStep] = [ModelStep(loaded.model, src, beam_size), UncachedStep(loaded.model, src, beam_size)]
    last_ids = torch.full((n_sentences, beam_size), BOS_ID)
    for position in range(6):
        cached, uncached = (step(last_ids) for step in steps)
        torch.testing.assert_close(uncached, cached, rtol=0, atol=1e-4)
        parents = torch.randint(beam_size, (n_sentences, beam_size), generator=generator)
        if position % 2:
            n_sentences -= 1
            kept = torch.randperm(n_sentences + 1, generator=generator)[:n_sentences].sort().values
            parents = parents[kept]
            for step in steps:
                step.select(kept)
        for step in steps:
            step.reorder(parents)
        last_ids = torch.randint(EOS_ID + 1, uncached.size(2), (n_sentences, beam_size), generator=generator)


@pytest.fixture
def run(shared_bundle):
    Path("lines.txt").write_text("".join(f"{line}\n" for line in LINES[:6]))

    def run(*args: str):
        return CliRunner().invoke(app, ["--quiet", "doctor", "decode", "--model", str(shared_bundle), *args])

    return run


def test_the_command_reports_exactness(run):
    result = run("--src", "lines.txt")
    assert result.exit_code == 0
    table = [line.split()[0] for line in result.stdout.splitlines()]
    assert table == ["beam", *"11111", *"444444", "exact:"]


def test_the_command_shows_a_difference_and_fails(run, monkeypatch):
    decode = NativeEngine.decode

    def worst_first(engine, segments, cfg, n_best):
        for number, hypotheses in decode(engine, segments, cfg, n_best):
            yield number, hypotheses[::-1]

    monkeypatch.setattr(NativeEngine, "decode", worst_first)
    result = run("--src", "lines.txt", "--beam-size", "4", "--check", "n-best", "--n", "3", "--show", "1")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0] == f"line 1, beam 4: {LINES[0]}"
    assert lines[1].startswith("  batches of 64: ") and "(score -" in lines[1]
    assert lines[2].startswith("  4-best: ") and "(score -" in lines[2]
    label, position, pieces = lines[3].split(": ")
    texts = [line.split(": ", 1)[1].split("  (score")[0] for line in lines[1:3]]
    assert label == "  first different token"
    for text, piece in zip(texts, pieces.split(" | "), strict=True):
        assert piece.strip("▁") in text or piece in ("-", "</s>")
    assert int(position) > 0
    assert lines[-2].split()[:4] == ["4", "4-best", "3", "2"]  # the blank line has but one translation
    assert lines[-1] == "NOT exact: 1 of 1 ways differ"


def test_json_holds_the_whole_result(run, monkeypatch):
    decode = NativeEngine.decode
    monkeypatch.setattr(
        NativeEngine,
        "decode",
        lambda *args: ((number, hypotheses[::-1]) for number, hypotheses in decode(*args)),
    )
    result = run("--src", "lines.txt", "--n", "2", "--json", "--check", "batch", "--check", "n-best")
    assert result.exit_code == 1
    report = json.loads(result.stdout, parse_constant=pytest.fail)
    assert (report["exact"], report["n_lines"]) == (False, 2)
    counts = [(c["beam_size"], c["name"], c["n_different"]) for c in report["comparisons"]]
    assert counts == [
        (1, "batches of 7", 0), (1, "batches of 1", 0), (4, "batches of 7", 0), (4, "batches of 1", 0), (4, "4-best", 2)
    ]  # fmt: skip
    [first, _] = report["comparisons"][-1]["differences"]
    assert first["line"] == 1
    for output in (first["reference"], first["other"]):
        pieces = [piece for piece in output["pieces"] if piece != "</s>"]
        assert "".join(pieces).replace("▁", " ").strip() == output["text"]
        assert output["score"] < 0
    assert first["reference"]["pieces"] != first["other"]["pieces"]


def test_only_faults_fail(run, monkeypatch):
    def examined(*_, **__):
        return iter([Comparison("int8", 1, False, 6, 3, 0.1, [])])

    monkeypatch.setattr("mtkit.translation.consistency.examine", examined)
    result = run("--src", "lines.txt", "--precision", "int8")
    assert result.exit_code == 0
    assert "(may differ)" in result.stdout
    assert "exact: no line differs" in result.stdout


@pytest.mark.parametrize(
    ("args", "exit_code", "message"),
    [
        ([], 1, "config.yaml sets /nowhere/dev.tsv as test and dev sets"),
        (["--src", "none.txt"], 1, "none.txt: no such file"),
        (["--src", "empty.txt"], 1, "empty.txt: no lines to translate"),
        (["--check", "everything"], 2, "--check everything: not one of batch, order, cache, n-best"),
        (["--precision", "int3"], 2, "--precision int3: not one of bf16, int8"),
        (
            ["--src", "lines.txt", "--set", "decode.coverage_penalty=0.2"],
            2,
            "decode.coverage_penalty=0.2 needs the cache; set it to 0, or leave out the check 'cache' (others: batch",
        ),
    ],
)
def test_mistakes_are_explained(run, args, exit_code, message):
    Path("empty.txt").touch()
    result = run(*args)
    assert result.exit_code == exit_code
    assert message in result.stderr
    assert result.stdout == ""

"""Scores, intervals and signatures against sacreBLEU's own command."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.evaluation.metrics.scores import corpus_bleu, corpus_chrf, evaluate, sentence_scores

WORDS = ["le", "chat", "dort", "sous", "la", "table", "rouge", ",", "l'orange", "Où", "est-il", "?", "été", "30.5"]


@pytest.fixture(scope="module")
def translated() -> tuple[list[str], list[str]]:
    """Translations that are partly right, some of them empty, and their references."""
    rng = random.Random(0)
    references = [" ".join(rng.choices(WORDS, k=rng.randint(1, 12))) + "." for _ in range(60)]
    hypotheses = [
        " ".join(word if rng.random() < 0.8 else rng.choice(WORDS) for word in line.split())
        if rng.random() < 0.95
        else ""
        for line in references
    ]
    return hypotheses, references


def sacrebleu(hypotheses, references, folder, *, seed: int, n: int) -> list[dict]:
    """What the sacrebleu command says about them, with intervals."""
    (folder / "ref").write_text("".join(f"{line}\n" for line in references), encoding="utf-8")
    (folder / "hyp").write_text("".join(f"{line}\n" for line in hypotheses), encoding="utf-8")
    env = {**os.environ, "SACREBLEU_SEED": str(seed)}

    def run(*options: str) -> Any:
        command = ["-m", "sacrebleu", "ref", "-i", "hyp", "-f", "json", "-w", "8", *options]
        command += ["--confidence", "--confidence-n", str(n)]
        done = subprocess.run(
            [sys.executable, *command], cwd=folder, env=env, capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)

    bleu, chrf, ter = run("-m", "bleu", "chrf", "ter")
    return [bleu, chrf, run("-m", "chrf", "--chrf-word-order", "2"), ter]


@pytest.mark.parametrize(("seed", "n"), [(12345, 1000), (7, 90)])
def test_every_figure_is_that_of_the_sacrebleu_command(translated, tmp_path, seed, n):
    hypotheses, references = translated
    expected = sacrebleu(hypotheses, references, tmp_path, seed=seed, n=n)
    scores = evaluate(*translated, seed=seed, n_bootstrap=n)
    assert [score.name for score in scores] == ["BLEU", "chrF2", "chrF2++", "TER"]
    for score, theirs in zip(scores, expected, strict=True):
        assert score.name == theirs["name"]
        assert score.score == pytest.approx(theirs["score"], abs=1e-7)
        assert score.signature == theirs["signature"]
        assert score.mean == pytest.approx(theirs["confidence_mean"], abs=1e-5)
        assert (score.high - score.low) / 2 == pytest.approx(theirs["confidence_var"], abs=1e-5)
        assert score.low < score.score < score.high


def test_defaults_are_those_of_sacrebleu_confidence(translated):
    assert "|bs:1000|seed:12345|" in evaluate(*translated)[0].signature


def test_quick_scores_are_those_of_the_command(translated, tmp_path):
    hypotheses, references = translated
    bleu, chrf, *_ = sacrebleu(hypotheses, references, tmp_path, seed=1, n=2)
    assert corpus_bleu(*translated) == pytest.approx(bleu["score"], abs=1e-7)
    assert corpus_chrf(*translated) == pytest.approx(chrf["score"], abs=1e-7)


def test_scores_worked_out_by_hand():
    hypotheses, references = ["the cat sat on the mat"], ["the cat sat on a mat"]
    # n-gram precisions 5/6, 3/5, 2/4, 1/3; equal lengths, so no penalty; one edit over six words
    assert corpus_bleu(hypotheses, references) == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25)
    assert evaluate(hypotheses, references, metrics=["TER"], n_bootstrap=2)[0].score == pytest.approx(100 / 6)


@settings(max_examples=25)
@given(st.lists(st.lists(st.sampled_from(WORDS), min_size=4, max_size=9).map(" ".join), min_size=1, max_size=5))
def test_a_perfect_translation_is_perfect_in_every_sample(lines):
    for score, best in zip(evaluate(lines, lines, n_bootstrap=5), (100, 100, 100, 0), strict=True):
        assert [score.score, score.low, score.high, score.mean] == pytest.approx([best] * 4)


def test_the_interval_is_made_of_percentiles_not_of_a_symmetric_spread():
    # 39 of 40 sentences are perfect: samples lie between a little worse and perfect
    references = [f"a b c d {number}" for number in range(40)]
    [ter] = evaluate([*references[:-1], "x y z w v"], references, metrics=["TER"])
    assert ter.score == pytest.approx(2.5)
    assert ter.low == 0  # no sample has fewer than no edits, and more than 2.5 % of them have none
    assert ter.high == pytest.approx(7.5)  # binomial (40, 1/40): P(X > 3) = 1.8 %, P(X > 2) = 7.9 %


@pytest.mark.parametrize("score", [evaluate, corpus_bleu, corpus_chrf])
@pytest.mark.parametrize(("hypotheses", "references"), [([], []), (["a"], []), (["a", "b"], ["a"])])
def test_unequal_or_no_sentences_are_refused_with_both_counts(score, hypotheses, references):
    counts = f"cannot compare {len(hypotheses)} hypotheses with {len(references)} references"
    with pytest.raises(ValueError, match=counts):
        score(hypotheses, references)


def test_an_interval_needs_samples():
    with pytest.raises(ValueError, match=r"n_bootstrap=1: .*at least 2"):
        evaluate(["a"], ["a"], n_bootstrap=1)


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("metrics.settings", {"torch", "numpy", "sacrebleu"}),  # the commands name its metrics in their help
        ("metrics.significance", {"torch", "sacrebleu"}),
        ("comparison.systems", {"torch", "sacrebleu"}),  # scoring files takes no model
    ],
)
def test_heavy_packages_wait_until_they_are_needed(module, heavy):
    code = f"import sys, mtkit.evaluation.{module}; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_sentences_are_scored_as_sacrebleu_scores_one(translated):
    import sacrebleu

    hypotheses, [reference, *_] = translated
    scores: dict[Literal["bleu", "chrf"], Callable[..., Any]] = {
        "bleu": sacrebleu.sentence_bleu,
        "chrf": sacrebleu.sentence_chrf,
    }
    for metric, score_of in scores.items():
        expected = [score_of(hypothesis, [reference]).score for hypothesis in hypotheses]
        assert len(set(expected)) > 10
        assert sentence_scores(hypotheses, reference, metric) == expected

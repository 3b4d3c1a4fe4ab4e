"""`mtkit evaluate` with several systems: files and models side by side, tests against a baseline, means over seeds."""

import json
import re
from pathlib import Path

import pytest
from tiny_models import REF, SRC, save_tiny_bundle, write_lines
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.evaluation.metrics.scores import evaluate
from mtkit.evaluation.metrics.settings import MetricSettings
from mtkit.evaluation.metrics.significance import Chance, compare
from mtkit.translation.translator import Translator

REF2 = ["Le chat est en train de dormir.", "La pluie tombe.", "", "On mange sous la table."]
TEXTS = {
    "good": ["Le chat dort.", "Il pleut beaucoup.", "", "Nous mangeons sur la table."],
    "poor": ["Chat.", "La pluie tombe.", "Rien.", "Nous allons sur la table."],
    "other": ["Le chat est assis.", "Il pleut.", "", "Nous mangeons."],
}
FEW = ["--bootstrap", "20", "--randomization", "30"]
CHANCE = Chance(20, 30)


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    """A folder with translations, references, and models of two seeds and of two sizes."""
    folder = tmp_path_factory.mktemp("world")
    for name, lines in {**TEXTS, "src": SRC, "ref": REF, "ref2": REF2}.items():
        write_lines(folder / name, lines)
    write_lines(folder / "short", REF[:3])
    write_lines(folder / "empty", [])
    write_lines(folder / "tokenized", ["le chat dort .", "il pleut .", "", "nous mangeons ."])
    test = {"src": str(folder / "src"), "tgt": str(folder / "ref")}
    save_tiny_bundle(folder / "seed7/model", test)
    save_tiny_bundle(folder / "seed8/model", test, seed=8)
    save_tiny_bundle(folder / "twin/model", test)
    save_tiny_bundle(folder / "wide/model", {**test, "tgt": str(folder / "ref2")}, seed=8, d_ff=64)
    return folder


@pytest.fixture(autouse=True)
def _in_the_folder(world, monkeypatch):
    monkeypatch.chdir(world)
    monkeypatch.delenv("MTKIT_MODEL", raising=False)


def run(*args: str):
    return CliRunner().invoke(app, ["evaluate", *args])


def run_json(*args: str) -> dict:
    result = run(*args, *FEW, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def as_records(
    texts: dict[str, list[str]], references: list[list[str]], baseline: str | None = None
) -> list[list[dict]]:
    """Each system's scores and differences as JSON should have them."""
    found = []
    for system in compare(texts, references, baseline, chance=CHANCE):
        keys = ["difference", "p", "p_holm", "sacrebleu_p_bootstrap", "sacrebleu_p_randomization"]
        differences = [
            {**{key: vars(one)[key] for key in keys}, "difference_low": one.low, "difference_high": one.high}
            for one in system.differences
        ] or [dict.fromkeys([*keys, "difference_low", "difference_high"])] * 4
        found.append([{**vars(score), **more} for score, more in zip(system.scores, differences, strict=True)])
    return found


def test_systems_are_compared_as_json():
    result = run_json("--hyp", "good", "--system", "bad=poor", "--hyp", "other", "--ref", "ref", "--ref", "ref2")
    systems = result.pop("systems")
    assert result == {
        "refs": ["ref", "ref2"],
        "n_sentences": 4,
        "baseline": "good",
        "n_bootstrap": 20,
        "n_randomization": 30,
        "seed": 12345,
        "groups": [],
    }
    assert [(system["name"], system["hyp"]) for system in systems] == [
        ("good", "good"),
        ("bad", "poor"),
        ("other", "other"),
    ]
    assert [system["n_different"] for system in systems] == [0, 4, 3]
    best = [[score.pop("best") for score in system["scores"]] for system in systems]
    assert [system["scores"] for system in systems] == as_records(TEXTS, [REF, REF2])
    ter = [system["scores"][3]["score"] for system in systems]
    assert [is_best[3] for is_best in best] == [value == min(ter) for value in ter]
    bleu = [system["scores"][0]["score"] for system in systems]
    assert [is_best[0] for is_best in best] == [value == max(bleu) for value in bleu]


def test_another_baseline_and_a_seed_of_the_samples():
    args = [f"--hyp={name}" for name in TEXTS]
    result = run_json(*args, "--ref", "ref", "--baseline", "poor", "--seed", "5")
    assert (result["baseline"], result["seed"], result["ref"]) == ("poor", 5, "ref")
    [first, *_] = compare(TEXTS, [REF], "poor", chance=Chance(20, 30, 5))
    assert result["systems"][0]["scores"][0]["p"] == first.differences[0].p
    assert result["systems"][1]["scores"][0]["p"] is None


def test_the_table_marks_what_is_best_and_what_is_sure():
    many = 12
    reference = write_lines("long-ref", [f"a b c d {number}" for number in range(many)])
    write_lines("exact", [f"a b c d {number}" for number in range(many)])
    write_lines("near", [f"a b c d {number or 'x'}" for number in range(many)])
    write_lines("far", [f"a x c {number} d" for number in range(many)])
    args = ["--hyp", "near", "--hyp", "far", "--hyp", "exact", "--hyp", "again=near", "--metric", "ter"]
    lines = run(*args, "--ref", str(reference), "--bootstrap", "100", "--randomization", "200").stdout.splitlines()
    assert lines[0] == "12 sentences, 4 systems; baseline: near"
    header, near, far, exact, again = (line.split() for line in lines[2:7])
    assert header == ["TER", "score", "95", "%", "interval", "differs", "p", "p", "bs", "p", "ar", "length"]
    assert near == ["near", "1.67", "0.00", "to", "5.00", "baseline", "1.000"]  # 1 of 60 words
    assert far[:2] == ["far", "40.00"]  # 2 of 5 words in each line: one is wrong, one has moved
    # No sample is beyond. Of 201 trials the real one, and perhaps one that swaps all or nothing; three systems.
    assert far[-5] == "+38.33" and far[-3:] == ["0.0099", "0.0050", "1.000"]
    assert far[-4] in (f"{3 / 201:.4f}*", f"{6 / 201:.4f}*")
    assert exact[:3] == ["exact", "0.00", "best"]
    assert again[-2:] == ["same", "1.000"]
    assert lines[7].startswith("signature: nrefs:1|bs:100|ar:200|seed:12345|case:lc|")
    notes = "\n".join(lines[9:])
    assert "best: the highest score, or for TER" in notes
    assert "*: differs from the baseline, p < 0.05" in notes
    assert "p is the share of 200 trials" in notes and "corrected for 3 systems (Holm)" in notes
    assert re.search("p bs, p ar: .*--paired-bs and --paired-ar, uncorrected", notes)
    assert "same: the same score" in notes


def test_tests_on_few_sentences_are_warned_of():
    result = run("--hyp", "good", "--hyp", "other", "--ref", "ref", *FEW)
    assert "warning: other: only 3 translations differ" in result.stderr


def test_given_scores_join_the_tests_of_the_metrics():
    write_lines("good.comet", ["0.91", " 0.85 ", "-1e-2", "0.8"])
    write_lines("poor.comet", ["0.5", "0.9", "0.1", "0.7"])
    args = ["--hyp", "good", "--hyp", "poor", "--ref", "ref", "--metric", "BLEU"]
    result = run_json(*args, "--scores", "COMET=good.comet, poor.comet", "--scores", "people=poor.comet,good.comet")
    for system, comet, people in zip(result["systems"], (0.6375, 0.55), (0.55, 0.6375), strict=True):
        assert [score["name"] for score in system["scores"]] == ["BLEU", "COMET", "people"]
        assert [score["score"] for score in system["scores"][1:]] == pytest.approx([comet, people])
    comet, people = result["systems"][1]["scores"][1:]
    assert comet["difference"] == pytest.approx(-people["difference"]) == pytest.approx(-0.0875)
    assert comet["p"] == comet["p_holm"] == people["p"] > 0.3
    assert comet["signature"] == "mean of given scores|bs:20|ar:30|seed:12345"
    lines = run(*args, *FEW, "--scores", "COMET=good.comet,poor.comet").stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("COMET "))
    assert lines[at + 1].split()[:3] == ["good", "0.6375", "best"]
    assert lines[at + 2].split()[5] == "-0.0875"


def test_one_system_has_the_mean_of_its_given_scores_with_an_interval():
    write_lines("good.comet", ["0.91", "0.85", "0.01", "0.8"])
    result = run_json("--hyp", "good", "--ref", "ref", "--scores", "COMET=good.comet")
    score = result["scores"][-1]
    assert (score["name"], score["score"]) == ("COMET", pytest.approx(0.6425))
    assert 0.01 <= score["low"] < 0.6425 < score["high"] <= 0.91


@pytest.mark.parametrize(
    ("lines", "scores", "code", "message"),
    [
        (["1", "2", "3"], "C=s", 1, "s has 3 lines, ref has 4"),
        ([], "C=s", 1, "s has 0 lines, ref has 4"),
        (["1", "2", "nan", "4"], "C=s", 1, "s: line 3: 'nan' is not a finite number"),
        (["1", "2", "3", "-Infinity"], "C=s", 1, "s: line 4: '-Infinity' is not a finite number"),
        (["1", "good", "3", "4"], "C=s", 1, "s: line 2: 'good' is not a finite number"),
        (["1", "2", "3", "0,85"], "C=s", 1, "s: line 4: '0,85' is not a finite number"),
        (["1", "", "3", "4"], "C=s", 1, "s: line 2: '' is not a finite number"),
        (["1_5", "2", "3", "4"], "C=s", 1, "s: line 1: '1_5' is not a finite number"),
        (["1", "2", "3", "4"], "C=s,s", 2, "--scores C=s,s: 2 files for 1 system"),
        (["1", "2", "3", "4"], "s", 2, "--scores s: write NAME=FILE"),
        (["1", "2", "3", "4"], "=s", 2, "--scores =s: write NAME=FILE"),
        (["1", "2", "3", "4"], "C=", 2, "--scores C=: write NAME=FILE"),
        (["1", "2", "3", "4"], "bleu=s", 2, "--scores bleu=s: mtkit computes bleu itself"),
        (["1", "2", "3", "4"], "C=none", 1, "none: no such file"),
    ],
)
def test_bad_scores_are_named_by_file_and_line(lines, scores, code, message):
    write_lines("s", lines)
    result = run("--hyp", "good", "--ref", "ref", "--scores", scores)
    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr


def test_scores_of_one_name_belong_into_one_option():
    result = run("--hyp", "good", "--ref", "ref", "--scores", "C=good", "--scores", "C=poor")
    assert result.exit_code == 2
    assert "--scores C=poor: you gave C twice" in result.stderr


def test_models_and_files_are_compared_on_the_test_set_of_the_models():
    translations = {name: Translator.load(name, threads=1).translate(SRC) for name in ("seed7", "seed8")}
    assert translations["seed7"] != translations["seed8"]
    result = run_json("--system", "seed7", "--hyp", "good", "--system", "b=seed8/model")
    expected = {"seed7": translations["seed7"], "good": TEXTS["good"], "b": translations["seed8"]}
    for system, name, scores in zip(result["systems"], expected, as_records(expected, [REF]), strict=True):
        assert system["name"] == name
        assert [{**score, "best": None} for score in system["scores"]] == [{**score, "best": None} for score in scores]
    models = [system.get("model") for system in result["systems"]]
    assert models == ["seed7/model", None, "seed8/model"]
    assert result["systems"][2]["beam_size"] == 3


def test_one_models_translations_are_kept_beside_given_ones():
    expected = Translator.load("wide", threads=1, beam_size=1).translate(SRC)
    args = ["--system", "wide", "--hyp", "good", "--src", "src", "--ref", "ref", "--beam-size", "1", "-o", "kept"]
    assert run(*args, *FEW).exit_code == 0
    assert Path("kept").read_text(encoding="utf-8").split("\n") == [*expected, ""]


def test_a_single_system_gets_the_plain_table_whatever_it_is():
    plain = [run(option, "good", "--ref", "ref", *FEW).stdout for option in ("--system", "--hyp")]
    assert plain[0] == plain[1]
    one, two = (run_json(option, "seed7") for option in ("--system", "--model"))
    for result in (one, two):
        del result["seconds"], result["sentences_per_s"]
    assert one == two


def test_references_settings_and_metrics_reach_the_scores():
    args = ["--hyp", "good", "--ref", "ref", "--ref", "ref2", "--tokenize", "char", "--lowercase"]
    result = run_json(*args, "--metric", "TER", "--metric", "bleu")
    settings = MetricSettings("char", lowercase=True)
    scores = evaluate(TEXTS["good"], REF, REF2, metrics=["BLEU", "TER"], settings=settings, n_bootstrap=20)
    assert result["scores"] == [vars(score) for score in scores]
    assert result["refs"] == ["ref", "ref2"]


def test_a_group_gets_mean_and_deviation_over_seeds():
    args = ["--hyp", "good", "--hyp", "a=poor", "--group", "seeds=a,other", "--ref", "ref", "--metric", "BLEU"]
    result = run_json(*args)
    assert [system["name"] for system in result["systems"]] == ["good", "a", "other"]
    x, y = (system["scores"][0]["score"] for system in result["systems"][1:])
    [group] = result["groups"]
    [score] = group.pop("scores")
    assert group == {"name": "seeds", "systems": ["a", "other"]}
    assert score == {
        "name": "BLEU",
        "mean": pytest.approx((x + y) / 2),
        "deviation": pytest.approx(abs(x - y) / 2**0.5),  # n - 1 = 1
        "low": min(x, y),
        "high": max(x, y),
    }
    lines = run(*args, *FEW).stdout.splitlines()
    assert lines[-3].split() == ["group", "systems", "BLEU"]
    assert lines[-2].split() == ["seeds", "2", f"{(x + y) / 2:.2f}", "±", f"{abs(x - y) / 2**0.5:.2f}"]


def test_a_group_of_models_that_differ_by_more_or_less_than_their_seed_is_warned_of():
    def warnings(group: str) -> str:
        return run("--group", group, "--src", "src", "--ref", "short").stderr  # which ends before models work

    assert "group g" not in warnings("g=seed7,seed8")
    assert re.search(r"group g: seed7 and twin .*same seed, 7\n", warnings("g=seed7,twin"))
    found = warnings("g=seed7,wide")
    assert re.search(r"group g: seed7 and wide differ .*: data\.test\.tgt, model\.d_ff\n", found)


def test_tokenized_text_gives_a_warning():
    warning = "warning: tokenized: 3 of 4 lines "
    assert warning in run("--hyp", "tokenized", "--ref", "ref", *FEW).stderr
    assert warning not in run("--hyp", "tokenized", "--ref", "ref", "--tokenize", "none", *FEW).stderr


def test_blank_references_are_counted_for_each_file():
    result = run("--hyp", "good", "--ref", "ref", "--ref", "ref2", *FEW)
    assert "warning: ref: 1 of 4 references are blank\n" in result.stderr
    assert "warning: ref2: 1 of 4 references are blank\n" in result.stderr


@pytest.mark.parametrize(
    ("args", "exit_code", "message"),
    [
        ("--hyp good --hyp short --ref ref", 1, "short has 3 lines, ref has 4 ... the reference"),
        ("--hyp good --ref ref --ref short", 1, "short has 3 lines, ref has 4 ... references of"),
        ("--hyp good --hyp empty --ref ref", 1, "empty has 0 lines, ref has 4; line n of one"),
        ("--hyp empty --hyp b=empty --ref empty", 1, "empty has 0 lines, empty has 0: nothing to score"),
        ("--system seed7 --hyp short", 1, "short has 3 lines, WORLD/ref has 4 ... the reference"),
        (
            "--hyp good --hyp none --ref ref",
            1,
            "none: no such file or folder",
        ),
        ("--hyp good --hyp x=none --ref ref", 1, "none: no such file or folder"),
        ("--hyp good --system WORLD --ref ref", 1, "WORLD is not a model folder"),
        (
            "--hyp good --hyp good --ref ref",
            2,
            "two systems have the name good: good and good",
        ),
        ("--hyp a=good --hyp a=poor --ref ref", 2, "two systems have the name a: good and poor"),
        ("--hyp good --hyp =poor --ref ref", 2, "=poor: write NAME=PATH"),
        (
            "--hyp good --hyp poor --ref ref --baseline x",
            2,
            "--baseline x: no system has this name ... the systems are good",
        ),
        (
            "--hyp good --ref ref --baseline good",
            2,
            "--baseline good needs several systems",
        ),
        (
            "--hyp good --ref ref --group g=good",
            2,
            "--group g=good: write NAME=SYSTEM,SYSTEM",
        ),
        ("--ref ref --group good,poor", 2, "--group good,poor: write NAME=SYSTEM,SYSTEM"),
        ("--ref ref --group g=good,x", 1, "--group g=good,x: x: no such file or folder"),
        ("--ref ref --group g=good,good", 2, "--group g=good,good: lists good twice"),
        (
            "--ref ref --group g=good,poor --group g=good,other",
            2,
            "two groups have the name g",
        ),
        ("--hyp g=good --ref ref --group g=poor,other", 2, "a group and a system have the name g"),
        ("--hyp good --ref ref --metric bleurt", 2, "--metric bleurt: not one of ... BLEU, chrF2, chrF2++, TER"),
        ("--system seed7 --system wide", 1, "seed7/model and wide/model ... data.test"),
        (
            "--system seed7 --system seed8 -o out",
            2,
            "--output ... one model ... `mtkit translate",
        ),
        ("--system seed7 --hyp good --ref ref", 2, "give both --src and --ref, or neither"),
        ("--system seed7 --model seed8", 2, "--model and --system ... the model as another"),
    ],
)
def test_mistakes_are_explained(world, args, exit_code, message):
    result = run(*args.replace("WORLD", str(world)).split())
    assert result.exit_code == exit_code, result.output
    first, *others = message.replace("WORLD", str(world)).split(" ... ")
    assert f"mtkit: {first}" in result.stderr
    assert all(fact in result.stderr for fact in others), result.stderr
    assert result.stdout == ""
    assert not Path("out").exists()


def test_a_tokenizer_that_is_not_there_is_named_before_anything_is_translated(monkeypatch):
    from sacrebleu.tokenizers import tokenizer_ja_mecab

    monkeypatch.setattr(tokenizer_ja_mecab, "MeCab", None)
    result = run("--model", "seed7", "--tokenize", "ja-mecab")
    assert result.exit_code == 1
    assert result.stderr.endswith("pip install 'sacrebleu[ja]'\n")
    assert "sentences/s" not in result.stderr

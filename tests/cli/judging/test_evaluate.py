"""`mtkit evaluate` as a user meets it: a model or given translations, a table or JSON, and mistakes."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from tiny_models import REF, SRC, save_tiny_bundle, write_lines
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.config.data import CorpusFiles
from mtkit.data.overlap import overlap_file, overlaps_of
from mtkit.evaluation import evaluate as evaluation
from mtkit.evaluation.metrics.scores import evaluate
from mtkit.runs.read import read_test_scores
from mtkit.translation.translator import Translator

HYP = ["Le chat dort.", "Il pleut beaucoup.", "", "Nous mangeons sur la table."]


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    """A folder with a model, with and without a test set of its own, and files of text."""
    folder = tmp_path_factory.mktemp("world")
    write_lines(folder / "src.gz", SRC)
    write_lines(folder / "ref", REF)
    write_lines(folder / "hyp", HYP)
    write_lines(folder / "short", REF[:3])
    write_lines(folder / "empty", [])
    (folder / "latin1").write_bytes(b"good\ncaf\xe9\n\n\n")
    save_tiny_bundle(folder / "tiny/model", {"src": str(folder / "src.gz"), "tgt": str(folder / "ref")})
    save_tiny_bundle(folder / "no-test/model", None, dev={"src": str(folder / "src.gz"), "tgt": str(folder / "ref")})
    save_tiny_bundle(folder / "moved/model", {"src": "/gone.en", "tgt": str(folder / "ref")})
    save_tiny_bundle(folder / "empty-test/model", {"tsv": str(folder / "empty")})
    return folder


@pytest.fixture(autouse=True)
def _in_the_folder(world, monkeypatch):
    monkeypatch.chdir(world)
    monkeypatch.delenv("MTKIT_MODEL", raising=False)


def run(*args: str):
    return CliRunner().invoke(app, ["evaluate", *args])


def run_json(*args: str) -> dict:
    result = run(*args, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def as_dicts(hypotheses: list[str]) -> list[dict]:
    return [vars(score) for score in evaluate(hypotheses, REF)]


def test_given_translations_are_scored_in_a_table():
    result = run("--hyp", "hyp", "--ref", "ref")
    summary, header, *rows, note = result.stdout.splitlines()
    assert summary == "4 sentences, 1.077 words per word of the reference"  # 14 over 13, full stops counted
    assert header.split() == ["score", "95", "%", "interval", "signature"]
    for row, score in zip(rows, evaluate(HYP, REF), strict=True):
        figures = [f"{score.score:.2f}", f"{score.low:.2f}", "to", f"{score.high:.2f}"]
        assert row.split() == [score.name, *figures, score.signature]
    assert note == "TER counts edits: lower is better."


def test_given_translations_are_scored_as_json():
    result = run_json("--hyp", "hyp", "--ref", "ref")
    assert result.pop("length_ratio") == pytest.approx(14 / 13)
    assert result == {"hyp": "hyp", "ref": "ref", "n_sentences": 4, "scores": as_dicts(HYP)}


def test_the_target_language_says_how_bleu_cuts_text(world):
    for name, lines in {"ref.zh": ["我们在桌子下面。", "下雨了。"], "hyp.zh": ["我们在桌子上面。", "下雨了。"]}.items():
        write_lines(world / name, lines)
    args = "--hyp", "hyp.zh", "--ref", "ref.zh", "--metric", "BLEU"

    def cut(*more: str) -> str:
        [score] = run_json(*args, *more)["scores"]
        return score["signature"].partition("tok:")[2].partition("|")[0]

    assert cut() == "zh"  # by the file's name
    assert cut("--tgt-lang", "ja") == "char"
    assert cut("--tgt-lang", "ja", "--tokenize", "13a") == "13a"


def test_given_translations_need_no_torch():
    code = (
        "import atexit, sys; sys.argv = ['mtkit', *'--quiet evaluate --hyp hyp --ref ref'.split()]\n"
        "atexit.register(lambda: print('torch' in sys.modules))\n"
        "from mtkit.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_a_model_is_scored_on_the_test_set_of_its_config(world):
    hypotheses = Translator.load("tiny", threads=1).translate(SRC)
    result = run_json("--model", "tiny")
    assert result["scores"] == as_dicts(hypotheses)
    assert (result["src"], result["ref"]) == (str(world / "src.gz"), str(world / "ref"))
    assert (result["model"], result["beam_size"], result["n_sentences"]) == ("tiny/model", 3, 4)
    assert result["sentences_per_s"] == pytest.approx(4 / result["seconds"])


def test_the_overlap_of_the_test_set_with_the_training_text_is_said_where_the_run_knows_it(world):
    test = {"src": world / "src.gz", "tgt": world / "ref"}
    write_lines(world / "train.tsv", [f"{SRC[0]}\t{REF[0]}", "a\tb"])
    kept = overlap_file(world / "tiny")
    overlaps_of({"test": CorpusFiles(**test)}, [CorpusFiles(tsv=world / "train.tsv")], kept)
    expected = f"1 of the {len(REF)} pairs of data.test"
    assert expected in run("--model", "tiny").stderr
    assert "1 of the 4 pairs of the test set" in run("--model", "tiny", "--src", "src.gz", "--ref", "ref").stderr
    kept.unlink()
    assert "also in data.train" not in run("--model", "tiny").stderr


def test_a_model_is_scored_on_the_dev_set_of_its_config(world):
    expected = run_json("--model", "tiny")
    result = run_json("--model", "no-test", "--split", "dev")
    assert result["scores"] == expected["scores"]
    assert (result["src"], result["ref"]) == (str(world / "src.gz"), str(world / "ref"))


def test_a_model_is_scored_on_given_files_and_its_translations_are_kept():
    expected = Translator.load("tiny", threads=1, beam_size=1).translate(SRC)
    assert expected != Translator.load("tiny", threads=1).translate(SRC)
    result = run_json("--model", "no-test", "--src", "src.gz", "--ref", "ref", "--beam-size", "1", "-o", "kept.gz")
    assert result["scores"] == as_dicts(expected)
    assert result["beam_size"] == 1
    with gzip.open("kept.gz", "rt", encoding="utf-8") as kept:
        assert kept.read().split("\n") == [*expected, ""]


@pytest.fixture
def at_the_end(world, tmp_path, monkeypatch):
    """The run runs/a of tiny/model in a new folder; at_the_end(do) calls this when mtkit has scored a model."""
    shutil.copytree(world / "tiny", tmp_path / "runs/a")
    (tmp_path / "runs/a/metrics.jsonl").touch()
    monkeypatch.chdir(tmp_path)

    def at_the_end(do) -> None:
        def evaluate_places_and_do(*args, **options):
            result = evaluate_places(*args, **options)
            do()
            return result

        evaluate_places = evaluation.evaluate_places
        monkeypatch.setattr(evaluation, "evaluate_places", evaluate_places_and_do)

    return at_the_end


def test_a_run_that_ends_while_another_is_scored_does_not_get_its_scores(at_the_end):
    def end_another():
        shutil.copytree("runs/a", "runs/b")
        os.utime("runs/a/model/model.safetensors", (1, 1))

    at_the_end(end_another)
    assert run().exit_code == 0
    scores = read_test_scores(Path("runs/a/model"))
    assert scores is not None
    assert scores.n_sentences == 4
    assert read_test_scores(Path("runs/b/model")) is None


def test_a_model_that_replaces_another_while_it_is_scored_does_not_get_its_scores(at_the_end):
    def replace_the_model():
        manifest = Path("runs/a/model/manifest.json")
        values = json.loads(manifest.read_text())
        values["sha256"]["model.safetensors"] = "0" * 64
        manifest.write_text(json.dumps(values))

    at_the_end(replace_the_model)
    assert run("--model", "runs/a").exit_code == 0
    assert read_test_scores(Path("runs/a/model")) is None


def test_a_breakdown_adds_diagnostics_and_scores_by_kind_of_sentence():
    args = "--hyp", "hyp", "--src", "src.gz", "--ref", "ref", "--src-lang", "en", "--train-text", "src.gz"
    result = run(*args, "--breakdown")
    assert result.exit_code == 0, result.output
    plain, lines = run(*args[:6]).stdout.splitlines(), result.stdout.splitlines()
    assert lines[: len(plain)] == plain
    rows = {line[:20].strip(): line[20:].split() for line in lines[len(plain) :]}
    texts, refs = [line for line in HYP if line], [[line for line in REF if line]]
    scores = BLEU().corpus_score(texts, refs).score, CHRF().corpus_score(texts, refs).score
    assert rows["by source length"] == ["n", "BLEU", "chrF2"]
    assert rows["1–5 words"] == ["3", *(f"{score:.2f}" for score in scores)]
    assert rows["no words"] == ["1", "0.00", "0.00"]
    found = run_json(*args, "--breakdown").pop("breakdown")
    names = [feature["name"] for feature in found["features"]]
    assert names == ["source length", "rarest word", "numbers", "names", "negation", "questions"]
    [system] = found["systems"]
    assert (system["name"], system["length_ratio"], system["untranslated"]) == ("hyp", pytest.approx(14 / 13), 0)


def test_a_breakdown_of_a_model_tells_what_only_it_knows():
    [system] = run_json("--model", "tiny", "--breakdown")["breakdown"]["systems"]
    tokenizer = Translator.load("tiny", threads=1).src_tokenizer
    assert system["unknown_src"]["n_pieces"] == sum(len(tokenizer.encode(line)) for line in SRC)
    assert system["calibration"] is None


def test_stderr_tells_the_model_the_speed_and_blank_references():
    result = run("--model", "tiny")
    assert "model: tiny/model\n" in result.stderr
    assert "sentences/s with beam size 3" in result.stderr
    assert "warning: 1 of 4 references are blank\n" in result.stderr
    assert result.stdout.startswith("4 sentences, ")
    assert "model:" not in run("--model", "tiny", "--quiet").stderr


@pytest.mark.parametrize(
    ("args", "exit_code", "message"),
    [
        ("--hyp hyp --ref short", 1, "hyp has 4 lines, short has 3"),
        ("--hyp empty --ref ref", 1, "empty has 0 lines, ref has 4; line n of one"),
        ("--hyp empty --ref empty", 1, "empty has 0 lines, empty has 0: nothing to score"),
        ("--hyp none --ref ref", 1, "none: no such file"),
        ("--hyp latin1 --ref ref", 1, "latin1: line 2, byte 4: 0xe9 is not UTF-8"),
        ("--model tiny --src src.gz --ref short", 1, "src.gz has 4 lines, short has 3"),
        ("--model tiny --src empty --ref empty", 1, "empty has 0 lines; empty has 0 lines"),
        ("--model no-test", 1, "no-test/model/config.yaml: no test set ... data.test ... --src ... --ref"),
        ("--model moved", 1, "/gone.en: no such file ... moved/model/config.yaml ... data.test"),
        (
            "--model tiny --split dev",
            1,
            "/nowhere.tsv: no such file ... tiny/model/config.yaml ... data.dev",
        ),
        (
            "--model tiny --split dev --src src.gz --ref ref",
            2,
            "--split dev ... --src",
        ),
        (
            "--hyp hyp --ref ref --split dev",
            2,
            "--split dev ... no system is a model",
        ),
        ("--model empty-test", 1, "WORLD/empty has 0 lines: nothing to score"),
        ("--model nowhere", 1, "nowhere: no such folder"),
        ("", 1, "no model: there is no run in ./runs"),
        ("--hyp hyp", 2, "files of translations ... give --ref\n"),
        ("--src src.gz", 2, "give both --src and --ref, or neither"),
        ("--ref ref", 2, "give both --src and --ref, or neither"),
        (
            "--hyp hyp --ref ref --model tiny",
            2,
            "--model and --system ... another --system",
        ),
        ("--hyp short --ref ref --src src.gz", 1, "short has 3 lines, ref has 4"),
        ("--hyp hyp --ref short --src src.gz", 1, "src.gz has 4 lines, short has 3"),
        ("--hyp hyp --ref ref --output kept", 2, "--output ... no system is a model"),
        ("--model tiny --src src.gz --ref ref --output src.gz", 2, "--output src.gz ... the input src.gz"),
        ("--model tiny --src src.gz --ref ref --output ref", 2, "--output ref ... the input ref"),
        ("--model tiny --output .", 2, "--output .: this is a folder; name a file in it"),
        ("--hyp hyp --ref ref --beam-size 2", 2, "no system is a model ... --beam-size, --engine, --device"),
        ("--hyp hyp --ref ref --device cpu", 2, "no system is a model ... --beam-size, --engine, --device"),
        ("--hyp hyp --ref ref --breakdown", 2, "files of translations ... give --src and --ref"),
        ("--hyp hyp --ref ref --src-lang en", 2, "--train-text and --src-lang need --breakdown"),
        ("--hyp hyp --src src.gz --ref ref --breakdown --train-text none", 1, "none: no such file"),
    ],
)
def test_mistakes_are_explained(world, args, exit_code, message):
    result = run(*args.split())
    assert result.exit_code == exit_code
    first, *others = message.replace("WORLD", str(world)).split(" ... ")
    assert f"mtkit: {first}" in result.stderr
    assert all(fact in result.stderr for fact in others), result.stderr
    assert result.stdout == ""

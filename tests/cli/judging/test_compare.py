"""`mtkit compare` as a user meets it: files and models, a summary, JSON or a page, and mistakes."""

import gzip
import json
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.config.data import CorpusFiles
from mtkit.config.schema import Config
from mtkit.evaluation.comparison.systems import read_test_set
from mtkit.evaluation.task import find_languages
from mtkit.translation.translator import Translator

SRC = ["The cat sleeps.", "It is not raining.", "", "Are we under the table?"]
REF = ["Le chat dort.", "Il ne pleut pas.", "", "Sommes-nous sous la table ?"]
OLD = ["Le chat dort.", "Il pleut.", "", "Nous sommes sur la table ?"]
NEW = ["Le chien dort.", "Il ne pleut pas.", "", "Sommes-nous sur la table ?"]
TEST_SET = "--src", "src.en", "--ref", "ref.fr"


@pytest.fixture(autouse=True)
def _files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, lines in {"src.en": SRC, "ref.fr": REF, "ref2": OLD, "old": OLD, "new": NEW, "short": NEW[:3]}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (tmp_path / "empty").write_text("")
    with gzip.open("train.en.gz", "wt") as file:
        file.write("the cat is not under the table\n" * 12)


def run(*args: str):
    return CliRunner().invoke(app, ["compare", *args])


def as_json(*args: str):
    done = run(*args, "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def test_files_of_translations_are_compared():
    done = run("old", "better=new", *TEST_SET, "--train-text", "train.en.gz")
    assert done.exit_code == 0, done.stderr
    expected = BLEU().corpus_score(NEW, [REF]).score
    assert f"B better{expected:>9.2f}" in done.stdout
    assert "BLEU: better is better than old by" in done.stdout
    assert "by negation" in done.stdout  # the language is in the name of the file
    assert "by rarest word" in done.stdout
    assert "1 of 4 references are blank" in done.stderr
    assert "line 2:" in done.stdout and "Il {+ne+} pleut {+pas+}." in done.stdout


@pytest.mark.parametrize("further", [[], ["ref2"]])
def test_the_language_of_several_references_is_that_of_the_first(further):
    texts = read_test_set(CorpusFiles(src=Path("src.en"), tgt=Path("ref.fr")), [Path(name) for name in further])
    assert find_languages(texts, (None, None), []) == ("en", "fr")


def test_a_models_language_is_that_of_its_validations():
    data = {"train": [{"tsv": "train.tsv"}], "dev": {"src": "dev.en", "tgt": "dev.zh_CN"}}
    cfg = Config.model_validate({"data": data, "train": {"max_steps": 2000}})
    texts = read_test_set(CorpusFiles(src=Path("src.en"), tgt=Path("ref2")), [])
    assert find_languages(texts, (None, None), [cfg]) == ("en", "zh_cn")
    assert cfg.data.tgt_lang == "zh_cn"
    assert find_languages(texts, (None, "fr"), [cfg]) == ("en", "fr")


def test_words_of_a_language_without_spaces_are_its_characters():
    texts = {
        "ref.zh": ["我们在桌子下面。", "下雨了。"],
        "a": ["我们在桌子上面。", "下雨了。"],
        "b": ["我们在下面。", "没下雨。"],
    }
    for name, lines in texts.items():
        Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    Path("src2.en").write_text("We are under the table.\nIt rains.\n")
    found = {}
    for option in ([], ["--tokenize", "13a"]):
        [first, _] = as_json("a", "b", "--src", "src2.en", "--ref", "ref.zh", *option)["systems"]
        cut = option[-1] if option else "zh"
        found[cut] = first["scores"]["BLEU"]
        assert found[cut] == pytest.approx(BLEU(tokenize=cut).corpus_score(texts["a"], [texts["ref.zh"]]).score)
    assert found["13a"] < found["zh"]


def test_tokenized_text_is_warned_of_unless_it_is_meant():
    for name in ("a", "b"):
        Path(name).write_text("le chat dort .\nil ne pleut pas .\n\nnous sommes là .\n", encoding="utf-8")
    assert "a: 3 of 4 lines end in a space and a full stop" in run("a", "b", *TEST_SET).stderr
    assert "full stop" not in run("a", "b", *TEST_SET, "--tokenize", "none").stderr


def test_json_has_every_figure_and_several_references_count():
    one, two = as_json("old", "new", *TEST_SET), as_json("old", "new", *TEST_SET, "--ref", "ref2")
    assert one["systems"][1]["scores"]["BLEU"] == BLEU().corpus_score(NEW, [REF]).score
    assert two["systems"][0]["scores"]["BLEU"] == BLEU().corpus_score(OLD, [REF, OLD]).score == pytest.approx(100)
    assert two["sentences"][0]["refs"] == [REF[0], OLD[0]]
    assert [feature["name"] for feature in one["features"]] == [
        "source length",
        "numbers",
        "names",
        "negation",
        "questions",
    ]


def test_given_scores_are_compared_in_every_bucket():
    for name, first in (("old.comet", 0.5), ("new.comet", 0.75)):
        Path(name).write_text("".join(f"{first + 0.01 * n:.3f}\n" for n in range(4)))
    args = "old", "new", *TEST_SET, "--scores", "COMET=old.comet,new.comet"
    found = as_json(*args)
    assert found["systems"][1]["scores"]["COMET"] == pytest.approx(0.765)
    assert found["pairs"][0]["differences"]["COMET"]["difference"] == pytest.approx(0.25)
    questions = next(feature for feature in found["features"] if feature["name"] == "questions")
    assert [score["scores"]["COMET"] for score in questions["buckets"][0]["scores"]] == pytest.approx([0.53, 0.78])
    done = run(*args, "-o", "report.html")
    assert "COMET: new is better than old by 0.2500;" in done.stdout
    assert '<td class="number first">0.7650</td>' in Path("report.html").read_text(encoding="utf-8")


def test_a_report_is_written_and_stdout_keeps_to_the_headline():
    done = run("old", "new", *TEST_SET, "-o", "report.html")
    assert done.exit_code == 0, done.stderr
    page = Path("report.html").read_text(encoding="utf-8")
    assert "<title>new against old</title>" in page
    assert "BLEU: new is better" in done.stdout and "by source length" not in done.stdout


def test_missing_information_is_reported():
    done = run("old", "new", "--src", "new", "--ref", "ref2")
    assert done.exit_code == 0
    negation, rare_words = sorted(line for line in done.stderr.splitlines() if "give --" in line)
    assert "negated" in negation and negation.endswith("--src-lang")
    assert "rare words" in rare_words and rare_words.endswith("--train-text")
    done = run("old", "new", "--src", "new", "--ref", "ref2", "--src-lang", "hu")
    assert "negated" in done.stderr and "hu\n" in done.stderr


def test_models_translate_with_the_same_options_for_all(bundle_of_a_run, config_of_a_run):
    dev = config_of_a_run.data.dev[0]
    test_set = "--src", str(dev.src), "--ref", str(dev.tgt)
    found = as_json(f"model={bundle_of_a_run}", f"copy={dev.src}", *test_set, "--beam-size", "1")
    translator = Translator.load(bundle_of_a_run, beam_size=1)
    sources = dev.src.read_text(encoding="utf-8").splitlines()
    assert [sentence["systems"][0]["text"] for sentence in found["sentences"]] == translator.translate(sources)
    assert found["systems"][0]["unknown_src"]["n_pieces"] > 0
    assert found["systems"][1]["unknown_src"] is None
    assert found["systems"][1]["faults"]["copy"] > 0
    rarity = next(feature for feature in found["features"] if feature["name"] == "rarest word")  # its config names it
    assert "120 training lines" in rarity["how"]


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["old", "short", *TEST_SET], 1, "short has 3 lines, ref.fr has 4"),
        (["old", "new", "--src", "short", "--ref", "ref.fr"], 1, "short has 3 lines, ref.fr has 4"),
        (["old", "new", *TEST_SET, "--ref", "short"], 1, "short has 3 lines, ref.fr has 4"),
        (["old", "new", "--ref", "ref.fr"], 2, "give --src and --ref"),
        (["old", "new", "--src", "src.en"], 2, "give --src and --ref"),
        (["old", "new"], 2, "give --src and --ref"),
        (["old", *TEST_SET], 2, "old is the only system; give at least two"),
        (["old", "gone", *TEST_SET], 1, "gone: no such file or folder"),
        (["old", "new", "--src", "gone", "--ref", "ref.fr"], 1, "gone: no such file"),
        (["empty", "empty2=empty", "--src", "empty", "--ref", "empty"], 1, "empty has 0 lines"),
        (["old", "old", *TEST_SET], 2, "two systems have the name old"),
        (["old", "new", *TEST_SET, "-o", "report.pdf"], 2, "must end in .html"),
        (["old", "new", *TEST_SET, "-o", "."], 2, "--output .: "),
        (["old", "new", *TEST_SET, "--beam-size", "2"], 2, "no system is a model"),
        (["old", "new", *TEST_SET, "--train-text", "gone"], 1, "gone: no such file"),
    ],
)
def test_mistakes_are_named_and_nothing_is_written(args, code, message, tmp_path):
    before = sorted(tmp_path.iterdir())
    done = run(*args)
    assert done.exit_code == code, done.stderr
    assert message in done.stderr
    assert done.stdout == ""
    assert sorted(tmp_path.iterdir()) == before


def test_a_model_without_its_test_set_says_where_it_should_be(bundle_of_a_run):
    done = run(str(bundle_of_a_run), "new")
    assert done.exit_code == 1
    assert "no test set (data.test); give --src and --ref" in done.stderr


def test_a_release_script_stops_at_a_system_that_is_worse():
    sources = [f"The cat number {n} sleeps under the old table." for n in range(60)]
    good = [f"Le chat {n} dort sous la vieille table." for n in range(60)]
    bad = [line if n % 2 else "Le chien mange." for n, line in enumerate(good)]
    for name, lines in {"src.en": sources, "ref.fr": good, "good": good, "bad": bad}.items():
        Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    worse = run("good", "bad", *TEST_SET, "--train-text", "train.en.gz", "--fail-if-worse")
    assert worse.exit_code == 1
    assert "--fail-if-worse: BLEU: good is better than bad by" in worse.stderr
    assert run("bad", "good", *TEST_SET, "--train-text", "train.en.gz", "--fail-if-worse").exit_code == 0
    assert run("good", "good2=good", *TEST_SET, "--train-text", "train.en.gz", "--fail-if-worse").exit_code == 0

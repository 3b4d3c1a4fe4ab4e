"""A pair filter through the real commands: trained on a small made-up language, it tells good pairs from bad."""

import gzip
import itertools
import json
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.config.data import UNNAMED, CorpusFiles
from mtkit.corpora.filter import pair_scores
from mtkit.corpora.filter.pair_filter import prepare_run
from mtkit.errors import ConfigError

WORDS = {
    **{"house": "Haus", "tree": "Baum", "river": "Fluss", "garden": "Garten", "street": "Strasse", "table": "Tisch"},
    **{"window": "Fenster", "kitchen": "Küche", "bridge": "Brücke", "castle": "Schloss", "dog": "Hund", "cat": "Katze"},
    **{"red": "rot", "old": "alt", "small": "klein", "green": "grün", "today": "heute", "never": "nie"},
}
QUESTIONS = """
task: classify
data: {train: [{tsv: train.tsv}], dev: {tsv: train.tsv}}
tokenizer: {src: {type: char, vocab_size: 300}}
model: {d_model: 16, d_ff: 32, n_heads: 2, n_encoder_layers: 1}
train: {max_steps: 2, batch_tokens: 512, threads: 1, precision: fp32}
"""
SMALL = [
    "--set=train.budget=null",
    "--set=train.max_steps=300",
    "--set=train.validate_every=100",
    "--set=train.lr=0.005",
    "--set=train.warmup_steps=20",
    "--set=train.threads=1",
    "--set=train.batch_tokens=2048",
    "--set=tokenizer.src.vocab_size=400",
    "--set=model.d_model=64",
    "--set=model.d_ff=128",
    "--set=model.n_encoder_layers=2",
    "--set=model.residual_dropout=0",
    "--set=model.embedding_dropout=0",
    "--set=clean.language=false",
]


def sentences(n: int, seed: int) -> list[tuple[str, str]]:
    chance = random.Random(seed)
    drawn = [chance.sample(list(WORDS), chance.randint(3, 6)) for _ in range(n)]
    return [(" ".join(words) + ".", " ".join(WORDS[word] for word in words) + ".") for words in drawn]


def write(path: Path, rows: Sequence[tuple[str, ...]]) -> Path:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return path


def run(*arguments: object) -> tuple[str, str, int]:
    result = CliRunner().invoke(app, ["data", *map(str, arguments)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.stdout, result.stderr, result.exit_code


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trained filter, and its corpus."""
    folder = tmp_path_factory.mktemp("filter")
    write(folder / "good.en-de.tsv", sentences(3000, seed=1))
    out, err, code = run("train-filter", folder / "good.en-de.tsv", "-o", folder / "filter", "--pairs", 3000, *SMALL)
    assert code == 0, err
    assert out.strip() == str(folder / "filter" / "model")
    return folder


def scores(folder: Path, corpus: Path, *arguments: object) -> list[float]:
    out = corpus.with_suffix(".scores")
    _, err, code = run("score", corpus, "-o", out, "--model", folder / "filter", "--workers", 1, *arguments)
    assert code == 0, err
    return [float(line) for line in out.read_text(encoding="utf-8").splitlines()]


def auc(good: np.ndarray, bad: np.ndarray) -> float:
    """The probability that a good pair has the higher score."""
    higher, ties = good[:, None] > bad[None], good[:, None] == bad[None]
    return float((higher + 0.5 * ties).mean())


@pytest.mark.slow
def test_a_filter_tells_good_pairs_from_bad(folder, tmp_path):
    good, other = sentences(300, seed=2), sentences(300, seed=3)
    copies = [(src, src) for src, _ in good]
    unrelated = [(src, tgt) for (src, _), (_, tgt) in zip(good, other, strict=True)]
    values = np.array(scores(folder, write(tmp_path / "mixed.tsv", [*good, *copies, *unrelated])))
    assert ((values >= 0) & (values <= 1)).all()
    assert auc(values[:300], values[300:600]) > 0.95
    assert auc(values[:300], values[600:]) > 0.95


@pytest.mark.slow
def test_the_same_command_again_trains_nothing_and_other_text_is_refused(folder, tmp_path):
    arguments = ("-o", folder / "filter", "--pairs", 3000, *SMALL)
    before = (folder / "filter" / "model" / "model.safetensors").stat().st_mtime_ns
    assert run("train-filter", folder / "good.en-de.tsv", *arguments)[2] == 0
    assert (folder / "filter" / "model" / "model.safetensors").stat().st_mtime_ns == before
    other = write(tmp_path / "other.en-de.tsv", sentences(3000, seed=4))
    _, err, code = run("train-filter", other, *arguments)
    assert code == 1
    assert "examples that were made in another way: text.1.tsv was" in err
    assert "give another folder" in err


@pytest.mark.slow
def test_every_pair_has_a_line_and_an_unreadable_one_zero(folder, tmp_path):
    rows = [("red house.", "rot Haus."), ("red house.", ""), ("x" * 30_000, "rot Haus."), ("old tree.", "alt Baum.")]
    values = scores(folder, write(tmp_path / "few.tsv", rows))
    assert len(values) == 4
    assert values[1] == values[2] == 0
    assert values[0] > 0 < values[3]


def test_the_corpus_is_not_overwritten_by_its_scores(tmp_path, monkeypatch):
    of_any_languages = SimpleNamespace(data=SimpleNamespace(src_lang=UNNAMED[0], tgt_lang=UNNAMED[1]))
    files = SimpleNamespace(folder="filter", config=of_any_languages)
    monkeypatch.setattr(pair_scores, "read_filter", lambda *_: files)
    corpus = write(tmp_path / "pairs.tsv", [("red house.", "rot Haus.")])
    before = corpus.read_text(encoding="utf-8")
    _, err, code = run("score", corpus, "-o", corpus, "--model", "filter")
    assert (code, corpus.read_text(encoding="utf-8")) == (2, before)
    assert f"--output {corpus}: the same file as the input" in err


@pytest.mark.slow
def test_the_output_is_the_same_with_several_processes_and_compressed(folder, tmp_path, monkeypatch):
    corpus = write(tmp_path / "many.tsv", sentences(500, seed=5))
    one = scores(folder, corpus)
    packed = tmp_path / "two.gz"
    monkeypatch.setattr(pair_scores, "_WINDOW_PAIRS", 150)
    _, err, code = run("score", corpus, "-o", packed, "--model", folder / "filter", "--workers", 2)
    assert code == 0, err
    assert [float(line) for line in gzip.decompress(packed.read_bytes()).decode().splitlines()] == one
    assert not list(tmp_path.glob("*.mtkit-job"))


@pytest.mark.slow
def test_json_counts_the_scores_and_clean_reads_them(folder, tmp_path):
    good = sentences(50, seed=6)
    corpus = write(tmp_path / "some.tsv", [*good, *((src, tgt) for (src, _), (_, tgt) in itertools.pairwise(good))])
    out, _, _ = run("score", corpus, "-o", tmp_path / "s.txt", "--model", folder / "filter", "--workers", 1, "--json")
    values = np.loadtxt(tmp_path / "s.txt")
    record = json.loads(out)
    assert record["n_pairs"] == len(values) == 99
    assert record["bins"] == np.histogram(values, 10, (0, 1))[0].tolist()
    limit = float(np.median(values))
    _, err, code = run("clean", corpus, "-o", tmp_path / "kept.tsv", f"--set=clean.score={tmp_path / 's.txt'}",
                       f"--set=clean.min_score={limit}", "--set=clean.language=false", "--workers", 1)  # fmt: skip
    assert code == 0, err
    assert len((tmp_path / "kept.tsv").read_text(encoding="utf-8").splitlines()) == int((values >= limit).sum())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x.en-fr.tsv", "judges en-de, but the corpora are en-fr"),
        ("x.de-en.tsv", "give the sides in the filter's order"),
    ],
)
def test_other_languages_are_refused(folder, tmp_path, name, message):
    corpus = write(tmp_path / name, sentences(5, seed=1))
    _, err, code = run("score", corpus, "-o", tmp_path / "s.txt", "--model", folder / "filter")
    assert code == 2
    assert message in err
    assert not (tmp_path / "s.txt").exists()


@pytest.mark.slow
def test_text_in_another_language_is_warned_of(folder, tmp_path):
    rows = [("The weather is nice today, is it not?", "Le temps est beau aujourd'hui, n'est-ce pas ?")] * 20
    corpus = write(tmp_path / "x.tsv", rows)
    _, err, code = run("score", corpus, "-o", tmp_path / "s.txt", "--model", folder / "filter", "--workers", 1)
    assert code == 0
    assert "the target side of most pairs looks like fr" in err
    assert "the source side" not in err


def test_a_folder_with_other_things_is_refused_and_a_wrong_key_leaves_no_folder(tmp_path):
    corpus = write(tmp_path / "good.en-de.tsv", sentences(1500, seed=1))
    (tmp_path / "runs").mkdir()
    write(tmp_path / "runs" / "notes.txt", [("mine",)])
    _, err, code = run("train-filter", corpus, "-o", tmp_path / "runs")
    assert (code, "not the folder of a filter" in err) == (2, True)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["notes.txt"]
    _, err, code = run("train-filter", corpus, "-o", tmp_path / "new", "--set", "model.d_modl=32")
    assert (code, "did you mean d_model" in err) == (1, True)
    assert not (tmp_path / "new").exists()


def test_a_refused_start_leaves_the_config_of_the_filter_as_it_was(tmp_path):
    corpora = [CorpusFiles(tsv=write(tmp_path / "good.en-de.tsv", sentences(1500, seed=1)))]
    overrides = ["clean.language=false"]
    prepare_run(tmp_path / "f", corpora, ("en", "de"), most=1500, overrides=overrides, budget="1m")
    before = (tmp_path / "f" / "filter.yaml").read_text(encoding="utf-8")
    with pytest.raises(ConfigError, match="langs was en-de, now en-nl"):
        prepare_run(tmp_path / "f", corpora, ("en", "nl"), most=1500, overrides=overrides, budget="1m")
    assert (tmp_path / "f" / "filter.yaml").read_text(encoding="utf-8") == before


def test_a_budget_that_is_no_time_and_too_little_text_are_refused(tmp_path):
    corpus = write(tmp_path / "good.en-de.tsv", sentences(100, seed=1))
    _, err, code = run("train-filter", corpus, "-o", tmp_path / "f", "--budget", "20 minutes")
    assert (code, "--budget 20 minutes is not a duration" in err) == (2, True)
    _, err, code = run("train-filter", corpus, "-o", tmp_path / "f")
    assert (code, "a filter needs at least 1,000" in err) == (1, True)
    assert not (tmp_path / "f").exists()


def test_a_classifier_of_something_else_is_no_filter(tmp_path):
    labels = [("it rains.", "statement"), ("does it rain?", "question")]
    write(tmp_path / "train.tsv", labels * 20)
    (tmp_path / "q.yaml").write_text(QUESTIONS, encoding="utf-8")
    result = CliRunner().invoke(app, ["train", str(tmp_path / "q.yaml"), f"--set=run_dir={tmp_path / 'run'}"])
    assert result.exit_code == 0, result.stderr
    corpus = write(tmp_path / "x.tsv", sentences(5, seed=1))
    _, err, code = run("score", corpus, "-o", tmp_path / "s.txt", "--model", tmp_path / "run")
    assert code == 1
    assert "question, statement" in err and "not a pair filter" in err
    assert "mtkit classify" in err


@pytest.mark.slow
def test_a_filter_without_its_lexicon_is_named_and_completed(folder, tmp_path):
    copy = tmp_path / "filter"
    shutil.copytree(folder / "filter", copy)
    (copy / "model" / "pair_filter.npz").unlink()
    manifest = json.loads((copy / "model" / "manifest.json").read_text(encoding="utf-8"))
    del manifest["sha256"]["pair_filter.npz"]
    (copy / "model" / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    corpus = write(tmp_path / "x.tsv", sentences(5, seed=1))
    _, err, code = run("score", corpus, "-o", tmp_path / "s.txt", "--model", copy)
    assert (code, "without its lexicon; run the command" in err) == (1, True)
    assert run("train-filter", folder / "good.en-de.tsv", "-o", copy, "--pairs", 3000, *SMALL)[2] == 0
    assert run("score", corpus, "-o", tmp_path / "s.txt", "--model", copy, "--workers", 1)[2] == 0
    assert scores(folder, corpus) == [float(line) for line in (tmp_path / "s.txt").read_text().splitlines()]

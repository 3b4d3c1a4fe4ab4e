"""Run `mtkit score` as a user does: files, streams, columns, JSON and mistakes."""

import gzip
import json
import math
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mtkit.bundle import load_bundle
from mtkit.cli import app
from mtkit.interop.huggingface import folder as huggingface
from mtkit.interop.imported import Languages
from mtkit.scoring.scoring import Scorer

PAIRS = [
    ("I love oranges.", "The cat sleeps."),
    ("", "The cat"),
    ("Do you see the big house?", "It rains, it rains."),
    ("cat", ""),
]


pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


@pytest.fixture
def run(shared_bundle):
    def run(*args: str, stdin: bytes | None = None):
        return CliRunner().invoke(app, ["score", "--model", str(shared_bundle), *args], input=stdin)

    return run


@pytest.fixture(scope="module")
def expected(shared_bundle):
    """Return each pair's score, computed on its own; the blank source has none."""
    bundle = load_bundle(shared_bundle)
    scorer = Scorer(bundle.model, bundle.src_tokenizer, bundle.tgt_tokenizer)
    return [score for pair in PAIRS for score in scorer.score([pair])]


def as_tsv() -> bytes:
    return "".join(f"{src}\t{tgt}\n" for src, tgt in PAIRS).encode()


def write_files(suffix: str = "") -> list[str]:
    for side, name in enumerate(("a.en", "a.fr")):
        with (gzip.open if suffix else open)(name + suffix, "wb") as file:
            file.write("".join(f"{pair[side]}\n" for pair in PAIRS).encode())
    return ["--src", "a.en" + suffix, "--tgt", "a.fr" + suffix]


def test_a_line_of_four_columns_for_each_pair(run, expected):
    result = run(*write_files())
    assert result.exit_code == 0
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert len(rows) == 4
    for row, score in zip(rows, expected, strict=True):
        log_prob, n_tokens, mean, perplexity = map(float, row)
        if score.problem:
            assert row == ["nan", "0", "nan", "nan"]
            continue
        assert log_prob == pytest.approx(sum(score.log_probs), abs=1e-3)
        assert n_tokens == len(score.log_probs)
        assert mean == pytest.approx(log_prob / n_tokens, abs=1e-3)
        assert perplexity == pytest.approx(math.exp(-log_prob / n_tokens), rel=1e-3)


def test_files_compressed_or_not_and_a_stream_give_the_same(run):
    plain = run(*write_files()).stdout
    assert run(*write_files(".gz")).stdout == plain
    assert run(*write_files(), "--output", "scores.gz").stdout == ""
    with gzip.open("scores.gz", "rt") as file:
        assert file.read() == plain
    streamed = run(stdin=as_tsv()).stdout  # in other batches: equal but for rounding
    for line, other in zip(streamed.splitlines(), plain.splitlines(), strict=True):
        values = [list(map(float, text.split("\t"))) for text in (line, other)]
        assert values[0] == pytest.approx(values[1], rel=1e-5, nan_ok=True)


def test_a_job_resumes_and_reports_on_all_its_pairs(run, monkeypatch):
    files = write_files()
    monkeypatch.setattr("mtkit.scoring.score_file.WINDOW_PAIRS", 2)
    whole = run(*files, "--output", "whole")
    assert whole.exit_code == 0
    with monkeypatch.context() as patch:
        patch.setattr(Scorer, "score", _until(PAIRS[2], Scorer.score))
        assert run(*files, "--output", "out").exit_code == 130
    assert not Path("out").exists()
    other = run(*files, "--output", "out", "--tokens")
    assert (other.exit_code, "settings.output.tokens was False, now True" in other.stderr) == (1, True)
    resumed = run(*files, "--output", "out")
    assert "score: 2 of 4 pairs done before" in resumed.stderr
    assert resumed.stderr.splitlines()[-2:] == whole.stderr.splitlines()[-2:]
    assert re.search("1 of 4 pairs not scored: .*blank .*line 2", whole.stderr)
    assert Path("out").read_bytes() == Path("whole").read_bytes()


def test_a_job_into_another_language_of_a_model_of_many_is_refused(make_m2m100, tmp_path, monkeypatch):
    huggingface.import_model(make_m2m100(tmp_path / "hf", "nllb"), tmp_path / "bundle", Languages("en", "fr"))
    files = write_files()
    monkeypatch.setattr("mtkit.scoring.score_file.WINDOW_PAIRS", 2)

    def run_into(language):
        words = ["--model", str(tmp_path / "bundle"), *files, "--output", "out", "--set", f"decode.tgt_lang={language}"]
        return CliRunner().invoke(app, ["score", *words])

    with monkeypatch.context() as patch:
        patch.setattr(Scorer, "score", _until(PAIRS[2], Scorer.score))
        assert run_into("fr").exit_code == 130
    other = run_into("de")
    assert (other.exit_code, "tgt_lang was fra_Latn, now deu_Latn" in other.stderr) == (1, True)
    assert run_into("fr").exit_code == 0


def _until(pair, score):
    def score_or_stop(scorer, pairs):
        if pair in pairs:
            raise KeyboardInterrupt
        return score(scorer, pairs)

    return score_or_stop


@pytest.mark.slow
def test_two_processes_give_the_bytes_and_the_totals_of_one(run):
    for side, name in enumerate(("a.en", "a.fr")):
        Path(name).write_text("".join(f"{pair[side]}\n" for pair in PAIRS * 1000))
    files = ["--src", "a.en", "--tgt", "a.fr"]
    one, two = (run(*files, "--output", n, "--workers", n) for n in ("1", "2"))
    assert (one.exit_code, two.exit_code) == (0, 0), two.stderr
    assert Path("1").read_bytes() == Path("2").read_bytes()
    assert len(Path("2").read_text().splitlines()) == 4000
    assert one.stderr.splitlines()[-2:] == two.stderr.splitlines()[-2:]
    assert "1,000 of 4,000 pairs not scored" in one.stderr


def test_tokens_and_alignments_are_further_columns(run, expected):
    rows = [line.split("\t") for line in run("--tokens", "--alignments", stdin=as_tsv()).stdout.split("\n")[:-1]]
    for row, score, (_, tgt) in zip(rows, expected, PAIRS, strict=True):
        assert len(row) == 6
        tokens = [token.rpartition("=") for token in row[4].split(" ")] if row[4] else []
        assert [piece for piece, _, _ in tokens] == score.pieces
        assert [float(log_prob) for _, _, log_prob in tokens] == pytest.approx(score.log_probs, abs=1e-3)
        linked = [int(link.split("-")[1]) for link in row[5].split()]
        assert set(linked) <= set(range(len(tgt.split())))
    assert any(row[5] for row in rows)


def test_json(run, expected):
    records = [
        json.loads(line) for line in run("--json", "--tokens", "--alignments", stdin=as_tsv()).stdout.splitlines()
    ]
    assert [record["line"] for record in records] == [1, 2, 3, 4]
    assert records[1] == {
        "line": 2,
        "problem": "the source is blank",
        "log_prob": None,
        "n_tokens": 0,
        "per_token": None,
        "perplexity": None,
        "tokens": [],
        "alignment": "",
    }
    for record, score in zip(records, expected, strict=True):
        assert [token["piece"] for token in record["tokens"]] == score.pieces
        if not score.problem:
            assert record["log_prob"] == pytest.approx(score.log_prob, abs=1e-4)
    assert set(json.loads(run("--json", stdin=b"a\tb\n").stdout)) == {
        "line",
        "log_prob",
        "n_tokens",
        "per_token",
        "perplexity",
    }


def test_stderr_has_the_totals_and_the_pairs_without_a_score(run, expected):
    stderr = run(stdin=as_tsv()).stderr
    n_tokens, log_prob = sum(s.n_tokens for s in expected), sum(s.log_prob for s in expected if not s.problem)
    [warning] = [line for line in stderr.splitlines() if "warning: 1 of 4 pairs" in line]
    assert "source is blank" in warning and "line 2" in warning
    [totals] = [line for line in stderr.splitlines() if "3 of 4 pairs" in line]
    perplexity = math.exp(-log_prob / n_tokens)
    for fact in (f"{n_tokens} target tokens", f"{log_prob:.2f}", f"{log_prob / n_tokens:.4f}", f"{perplexity:.3f}"):
        assert fact in totals


def test_a_long_source_is_scored_whole_with_a_warning(run):
    result = run(stdin=b"it rains, " * 60 + b"\tit rains\n")
    assert float(result.stdout.split("\t")[0]) < 0
    assert "1 of 1 sources" in result.stderr and "decode.max_src_tokens=200" in result.stderr


def test_empty_input_gives_empty_output(run):
    result = run(stdin=b"")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "0 pairs" in result.stderr


@pytest.mark.parametrize(
    ("args", "stdin", "exit_code", "message"),
    [
        (["--src", "a.en"], None, 2, "give both --src and --tgt, or neither"),
        (["--src", "a.en", "--tgt", "short.fr"], None, 1, "a.en has 4 lines, short.fr has 1; line n of one must"),
        (["--src", "a.en", "--tgt", "none.fr"], None, 1, "none.fr: no such file"),
        (
            ["--workers", "2"],
            b"",
            2,
            "--workers, --executor ray and --restart need a job",
        ),
        (
            ["--src", "a.en", "--tgt", "a.fr", "--output", "a.fr"],
            None,
            2,
            "--output a.fr: the same file as the input a.fr",
        ),
        (["--src", "a.en", "--tgt", "/dev/null", "--output", "a.en"], None, 2, "--output a.en: the same file as"),
        (["--src", "a.en", "--tgt", "short.fr", "--output", "x"], None, 1, "a.en has 4 lines, short.fr has 1"),
        ([], b"a\tb\nno tab\n", 1, "standard input: line 2: 0 tabs; each line must be: source, tab, target"),
        ([], b"a\tb\tc\n", 1, "standard input: line 1: 2 tabs"),
        (["--model", "nowhere"], b"", 1, "nowhere: no such folder"),
    ],
)
def test_mistakes_are_explained(run, args, stdin, exit_code, message):
    write_files()
    Path("short.fr").write_text("x\n")
    result = run(*args, stdin=stdin)
    assert result.exit_code == exit_code
    assert f"mtkit: {message}" in result.stderr


def test_a_mistake_leaves_the_output_file_that_was_there(run):
    Path("out.txt").write_text("precious\n")
    assert run("--output", "out.txt", stdin=b"a\tb\nno tab\n").exit_code == 1
    assert Path("out.txt").read_text() == "precious\n"

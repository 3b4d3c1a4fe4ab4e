"""Training pairs from candidates that another system wrote."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mtkit.augmentation.candidates import Candidate, Chooser, Source, read_candidates
from mtkit.cli import app
from mtkit.config.reading.yaml_text import parse_yaml
from mtkit.errors import DataError

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")

SRC = "Two red cats sleep here."
GOOD, OTHER, LAST = "Deux chats rouges dorment ici.", "Deux minous rouges dorment ici.", "Ici dorment deux minets roux."
LOOP = "chats chats chats chats chats chats chats chats"


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.tsv", f"{SRC}\t{GOOD}\t{OTHER}\n", [Candidate(GOOD), Candidate(OTHER)]),
        ("a.tsv", f"{SRC}\t{GOOD}\n\n{SRC} \t{OTHER}\n", [Candidate(GOOD), Candidate(OTHER)]),
        ("a.tsv", f"{SRC}\t{GOOD}\t-2\t{OTHER}\t-1.5\n", [Candidate(GOOD, -2.0), Candidate(OTHER, -1.5)]),
        ("a.tsv", "twelve\t12\nten\t10\n", [Candidate("12")]),
        ("a.tsv", "42\t42\t42\n7\t7\t7\tsept\n", [Candidate("42"), Candidate("42")]),
        ("a.jsonl", json.dumps({"src": SRC, "candidates": [GOOD, OTHER]}), [Candidate(GOOD), Candidate(OTHER)]),
        (
            "a.jsonl",
            json.dumps({"line": 1, "src": SRC, "hypotheses": [{"text": GOOD, "score": -2, "log_prob": -9}]}),
            [Candidate(GOOD, -2.0)],
        ),
        (
            "a.jsonl",
            json.dumps({"src": SRC, "hypotheses": [{"text": GOOD, "score": None, "from_memory": True}]})
            + "\n"
            + json.dumps({"src": SRC, "hypotheses": [{"text": OTHER, "score": -2}]}),
            [Candidate(GOOD, 0.0), Candidate(OTHER, -2.0)],
        ),
    ],
)
def test_both_formats_hold_several_candidates_with_or_without_scores(name, content, expected):
    Path(name).write_text(content)
    assert next(iter(read_candidates([Path(name)]).values())).candidates == expected


def test_candidates_of_several_files_belong_together():
    for name, text in (("a.tsv", GOOD), ("b.tsv", OTHER)):
        Path(name).write_text(f"{SRC}\t{text}\n")
    [source] = read_candidates([Path("a.tsv"), Path("b.tsv")]).values()
    assert [candidate.text for candidate in source.candidates] == [GOOD, OTHER]


@pytest.mark.parametrize(
    ("name", "content", "facts"),
    [
        ("a.tsv", "one\ttwo\nthree\n", ["a.tsv", "line 2", "no tab"]),
        ("a.jsonl", "{}\n", ["a.jsonl", "line 1", "candidates"]),
        ("a.jsonl", '{"src": "a", "candidates": ["b"]}\n{"src": 1, "candidates": []}\n', ["line 2"]),
        ("a.tsv", "a\tb\t-1\nc\td\t\ne\tf\t-2\n", ["line 2", "score"]),
        ("a.tsv", "a\tb\t-1\tc\n", ["line 1", "score"]),
        ("a.jsonl", '{"src": "a", "candidates": [{"text": "b", "score": NaN}]}\n', ["line 1", "score"]),
        ("a.jsonl", '{"src": "a", "candidates": [{"text": "b", "score": 1' + "0" * 400 + "}]}\n", ["line 1", "score"]),
        (
            "a.jsonl",
            '{"src": "a", "candidates": ["b"]}\n{"src": "c", "candidates": "de"}\n',
            ["line 2", '["...", "..."]'],
        ),
        (
            "a.jsonl",
            '{"src": "a", "candidates": {"text": "b", "score": -0.5}}\n',
            ["line 1", '[{"text": "...", "score"'],
        ),
        ("a.jsonl", "[\n", ["line 1"]),
        (
            "a.jsonl",
            '{"src": "a", "candidates": ["b"]}\n{"src": "c", "candidates": [{"text": "d", "score": 1}]}\n',
            ["line 1", "without a score", "line 2"],
        ),
    ],
)
def test_an_unusable_line_is_an_error_with_its_number(name, content, facts):
    Path(name).write_text(content)
    with pytest.raises(DataError) as error:
        read_candidates([Path(name)])
    assert all(fact in str(error.value) for fact in facts), error.value


@pytest.mark.parametrize("by", ["score", "bleu", "chrf"])
@pytest.mark.parametrize(("n_best", "keep_suspect"), [(1, False), (2, False), (9, True)])
def test_the_best_usable_candidates_are_taken(by, n_best, keep_suspect):
    scored = [Candidate(GOOD, -3.0), Candidate(LOOP, -0.1), Candidate(OTHER, -1.0), Candidate(GOOD, -2.0)]
    source = Source(SRC, scored, ["nothing alike", GOOD])
    made = Chooser(by, n_best, "fr", keep_suspect=keep_suspect).choose(source)
    order = [LOOP, OTHER, GOOD] if by == "score" else [GOOD, OTHER, LOOP]
    assert made.translations == [text for text in order if keep_suspect or text != LOOP][:n_best]


def test_without_scores_the_first_comes_first_and_without_a_usable_one_the_reason_is_given():
    chooser = Chooser("score", 1, "fr")
    assert chooser.choose(Source(SRC, [Candidate(OTHER), Candidate(GOOD)])).translations == [OTHER]
    assert chooser.choose(Source(SRC, [Candidate(SRC)])).reason == "copy"
    assert chooser.choose(Source(SRC, [])).reason == "empty"


def run(*args: str):
    return CliRunner().invoke(app, ["data", "choose", *args])


def test_the_command_writes_pairs_and_prints_their_entry():
    Path("teacher.tsv").write_text(f"{SRC}\t{OTHER}\t{GOOD}\nNo.\t{LOOP}\n")
    Path("text.tsv").write_text(f"x\ty\n{SRC}\t{GOOD}\n")
    options = ("teacher.tsv", "-o", "made.tsv", "--rejected", "left.tsv", "--langs", "en-fr")
    chosen = run(*options, "--by", "chrf", "--reference", "text.tsv")
    assert chosen.exit_code == 0, chosen.stderr
    assert Path("made.tsv").read_text() == f"{SRC}\t{GOOD}\n"
    assert parse_yaml(chosen.stdout).value == [{"tsv": str(Path("made.tsv").absolute())}]
    assert Path("left.tsv").read_text() == f"2\tloop\tNo.\t{LOOP}\n"
    assert all(fact in chosen.stderr for fact in ("3 candidates", "2 sources", "1 source without", "1 loop"))
    assert run(*options).exit_code == 0
    assert Path("made.tsv").read_text() == f"{SRC}\t{OTHER}\n"


@pytest.mark.parametrize(
    ("options", "code", "facts"),
    [
        (("--by", "bleu"), 2, ["--by bleu", "--reference"]),
        (("--reference", "text.tsv"), 2, ["--by score", "--reference"]),
        (("--by", "bleu", "--reference", "other.tsv"), 1, ["no source", "other.tsv"]),
        (("-o", "teacher.tsv"), 2, ["--output", "teacher.tsv", "same file"]),
        (("--by", "chrf", "--reference", "text.tsv", "-o", "text.tsv"), 2, ["--output", "text.tsv", "same file"]),
        (("--by", "chrf", "--reference", "my.yaml", "-o", "text.tsv"), 2, ["--output", "text.tsv", "same file"]),
        (("--by", "chrf", "--reference", "my.yaml", "--rejected", "my.yaml"), 2, ["--rejected my.yaml", "same file"]),
        (("loops.tsv", "-o", "b.tsv"), 0, ["1 loop"]),
    ],
)
def test_careless_use_is_explained(options, code, facts):
    Path("teacher.tsv").write_text(f"{SRC}\t{GOOD}\n")
    Path("loops.tsv").write_text(f"No.\t{LOOP}\n")
    Path("other.tsv").write_text("x\ty\n")
    Path("text.tsv").write_text(f"{SRC}\t{GOOD}\n")
    Path("my.yaml").write_text("data: {train: [{tsv: text.tsv}], dev: {tsv: text.tsv}}\ntrain: {max_steps: 1}\n")
    done = run("teacher.tsv", "-o", "made.tsv", *options)
    assert done.exit_code == code and all(fact in done.stderr for fact in facts), done.stderr

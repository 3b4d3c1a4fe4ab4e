"""The choice of lines to translate, against a calculation on paper and a search that computes all weights anew."""

import itertools
import random
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.corpora.select import select_lines

# Frequencies: a 3, b 3, c 1, d 1; a b 3, b c 1; 12 in all
LINES = ["a b", "a b c", "D.", "A, b"]


def test_the_line_with_the_most_frequent_new_ngrams_per_word_comes_next():
    made = select_lines(LINES, 10)  # (3+3+3)/2 for the first; then 1/1 for D, and (1+1)/3 for what c adds
    assert made.indices == [0, 2, 1], "and the last one has nothing new"
    assert (made.coverage_before, made.coverage) == (0.0, 1.0)
    assert select_lines(LINES, 1).indices == [0]
    assert select_lines(LINES, 1).coverage == 9 / 12


def test_known_text_counts_as_chosen():
    made = select_lines(LINES, 1, known=["b c", "x y"])
    assert made.indices == [0]
    assert (made.coverage_before, made.coverage) == (5 / 12, (5 + 6) / 12)
    assert select_lines(LINES, 2, known=["a b", "d"]).indices == [1]


def test_the_choice_is_that_of_a_search_over_all_lines():
    rng = random.Random(1)
    lines = [" ".join(rng.choices("abcdefg", k=rng.randint(1, 7))) for _ in range(60)]
    words = [line.split() for line in lines]
    grams = [[*line, *itertools.pairwise(line)] for line in words]
    frequency = Counter(gram for of_line in grams for gram in of_line)
    covered: set[object] = set()
    expected = []
    while True:
        weights = [
            sum(frequency[gram] for gram in set(of_line) - covered) / len(line)
            for line, of_line in zip(words, grams, strict=True)
        ]
        best = weights.index(max(weights))
        if not weights[best]:
            break
        expected.append(best)
        covered |= set(grams[best])
    assert select_lines(lines, 60).indices == expected


@pytest.mark.usefixtures("in_an_empty_folder")
def test_the_command_writes_the_best_line_first():
    Path("mono.txt").write_text("\n".join([*LINES, "", "a b c d e"]) + "\n")
    Path("known.txt").write_text("a b c\n")
    done = CliRunner().invoke(app, ["data", "select", "-i", "mono.txt", "-n", "3", "--known", "known.txt"])
    assert (done.exit_code, done.stdout) == (0, "D.\na b c d e\n")
    assert "2 of 5 lines" in done.stderr and "100.0%" in done.stderr
    assert "the other lines contain no further word" in done.stderr


@pytest.mark.usefixtures("in_an_empty_folder")
@pytest.mark.parametrize("path", ["mono.txt", "known.txt"])
def test_the_command_does_not_overwrite_what_it_reads(path):
    for name in ("mono.txt", "known.txt"):
        Path(name).write_text("a b c\n")
    done = CliRunner().invoke(app, ["data", "select", "-i", "mono.txt", "-n", "3", "--known", "known.txt", "-o", path])
    assert done.exit_code == 2 and path in done.stderr
    assert Path(path).read_text() == "a b c\n"


@pytest.mark.usefixtures("in_an_empty_folder")
def test_a_choice_of_all_lines_does_not_speak_of_others():
    Path("mono.txt").write_text("a b\nc d\n")
    done = CliRunner().invoke(app, ["data", "select", "-i", "mono.txt", "-n", "3"])
    assert "2 of 2 lines" in done.stderr and "other" not in done.stderr
    piped = CliRunner().invoke(app, ["data", "select", "-n", "1", "-o", "best.txt"], input="a b\na c\na b\n")
    assert (piped.exit_code, Path("best.txt").read_text()) == (0, "a b\n")

"""The search of a translation memory finds what scoring all its units finds, and reads only files of its own."""

import itertools
import sqlite3
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.errors import DataError
from mtkit.memory import index
from mtkit.memory.fuzzy import fuzzy_score, tokens_of
from mtkit.memory.index import Memory, TooManyUnits, is_memory, write_memory
from mtkit.pair_files.pairs import Pair

WORDS = st.sampled_from(["the", "cat", "1", ".", "Tom"])  # few, so that texts are alike
TEXTS = st.lists(WORDS, min_size=1, max_size=7).map(" ".join)


def memory_of(*pairs: tuple[str, str]) -> Memory:
    read = (Pair(src, tgt, "m.tmx", number) for number, (src, tgt) in enumerate(pairs, start=1))
    return Memory.of_pairs(read, ("en", "fr"), "m.tmx")


def distance(one: list[str], other: list[str]) -> int:
    """The edit distance by its definition (Wagner and Fischer 1974)."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, start=1):
        row, before = [i], row
        for j, b in enumerate(other, start=1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b)))
    return row[-1]


@given(st.lists(TEXTS, max_size=30), TEXTS, st.sampled_from([0.5, 0.6, 0.7, 0.75, 0.8, 1.0]), st.sampled_from([2, 128]))
def test_the_search_finds_the_best_scores_of_all_units(sources, text, least, at_once):
    expected = sorted(dict(_scored(sources, text, least)).values())
    memory = memory_of(*((source, "x") for source in sources))
    with patch.object(index, "_AT_ONCE", at_once):  # few: looks for all tokens before it scores
        best = memory.best(text, least)
        found = memory.search(text, least, most=3)
    assert (best.score if best else None) == pytest.approx(expected[-1] if expected else None)
    assert sorted(match.score for match in found) == pytest.approx(expected[-3:])


def _scored(sources, text, least):
    for source in sources:
        one, other = text.split(), source.split()
        score = 1.0 if one == other else 1 - distance(one, other) / max(len(one), len(other))
        if score >= least - 1e-9:
            yield source, score


def test_the_best_of_many_units_with_the_same_rare_words_is_found():
    rare = [(f"tom sees {i}a {i}b {i}c", "x") for i in range(200)]
    frequent = [(f"the red cat {i}d {i}e", "x") for i in range(300)]
    match = memory_of(*rare, *frequent, ("tom sees the red dog", "y")).best("tom sees the red cat", 0.7)
    assert match is not None
    assert (match.tgt, match.percent) == ("y", 80)


def test_a_score_is_the_share_of_tokens_that_need_no_edit():
    # Page 5 of 9. -> Page 6 of 9.: one of the five tokens is replaced
    assert fuzzy_score(tokens_of("Page 5 of 9."), tokens_of("Page 6 of 9.")) == pytest.approx(0.8)


def test_texts_that_differ_only_in_spaces_are_not_exact():
    [match] = memory_of(("It 's 5%.", "C'est 5 %.")).search("It's 5%.", 0.5)
    assert not match.is_exact
    assert match.percent < 100


@pytest.mark.parametrize("text", ["Page 6.", "Page {n}.", "Page <b>5</b>.", "page 5."])
def test_another_number_placeholder_tag_or_case_is_not_exact(text):
    assert memory_of(("Page 5.", "Seite 5.")).exact(text) is None


def test_spaces_around_words_and_composed_letters_do_not_matter():
    match = memory_of(("Un  cafe\u0301 .", "A coffee.")).exact(" Un caf\u00e9\u00a0. ")
    assert match is not None
    assert (match.tgt, match.percent, match.place) == ("A coffee.", 100, "m.tmx: unit 1")


@pytest.mark.parametrize("target", ["C\u2019est vrai\u202f?", "5\u00a0%", "\u4f60\u597d\u3000\u5417", "cafe\u0301"])
def test_a_translation_keeps_its_special_spaces_and_letters(target):
    [match] = memory_of(("a", target)).search("a")
    assert match.tgt == target


def test_a_translation_is_one_line():
    [match] = memory_of(("a", " one\n  two\tthree\u2028four ")).search("a")
    assert match.tgt == "one two three four"


def test_of_several_translations_the_most_frequent_wins_and_then_the_latest():
    memory = memory_of(("Open", "Ouvrir"), ("Open", "Ouvert"), ("Open", "Ouvrir"), ("Save", "A"), ("Save", "B"))
    assert [match.tgt for match in map(memory.exact, ("Open", "Save")) if match] == ["Ouvrir", "B"]
    assert [match.tgt for match in memory.search("Open", most=5)] == ["Ouvrir", "Ouvert"]


def test_a_search_for_low_scores_ends_with_a_high_one(monkeypatch):
    memory = memory_of(("a b c d", "x"), ("a b e f", "y"))
    looked_for = []
    candidates = Memory._candidates

    def recorded(self, tokens, n, least):
        looked_for.append(least)
        return candidates(self, tokens, n, least)

    monkeypatch.setattr(Memory, "_candidates", recorded)
    for text, most, leasts, found in (
        ("a b c g", 1, [0.7], ["x"]),
        ("a b c g", 2, [0.7, 0.5], ["x", "y"]),
        ("a b g h", 1, [0.7, 0.5], ["y"]),
    ):
        looked_for.clear()
        assert [match.tgt for match in memory.search(text, 0.5, most)] == found
        assert looked_for == leasts
    looked_for.clear()
    memory.search("a b c g", 0.8)
    assert looked_for == [0.8]


def test_a_memory_is_the_same_from_its_file(tmp_path):
    path = tmp_path / "m.sqlite"
    assert write_memory(path, [Pair("a b c d", "x", "m.tsv", 3), Pair("a b c d", "x", "m.tsv", 4)], ("en", "fr")) == 1
    memory = Memory.open(path)
    [match] = memory.search("a b c e")
    assert (memory.langs, match.percent, match.place, is_memory(path)) == (("en", "fr"), 75, "m.tsv:4", True)


def test_a_memory_without_a_pair_is_not_written(tmp_path):
    with pytest.raises(DataError, match="no pair"):
        write_memory(tmp_path / "m.sqlite", [Pair("", "x", "m.tsv", 1)], ("en", "fr"))
    assert not (tmp_path / "m.sqlite").exists()


def test_a_memory_with_too_many_units_is_not_written_and_its_pairs_are_not_all_read(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "_ROWS", 3)
    pairs = (Pair(str(number), "x", "m.tsv", number) for number in itertools.count())
    with pytest.raises(TooManyUnits, match="more than 5 units"):
        write_memory(tmp_path / "m.sqlite", pairs, ("en", "fr"), most=5)
    assert next(pairs).line == 6  # read in threes
    assert list(tmp_path.iterdir()) == []
    equal = [Pair("a", "x", "m.tsv", 1)] * 10
    assert write_memory(tmp_path / "m.sqlite", equal, ("en", "fr"), most=1) == 1


def test_other_files_are_refused(tmp_path):
    sqlite3.connect(tmp_path / "other.sqlite").execute("CREATE TABLE a (b)").connection.close()
    damaged = tmp_path / "damaged.sqlite"
    damaged.write_bytes(b"SQLite format 3\0" + bytes(200))
    for path in (tmp_path / "other.sqlite", damaged):
        with pytest.raises(DataError, match=r"mtkit memory build|build it again"):
            Memory.open(path)
    assert not is_memory(tmp_path / "missing")


def test_a_memory_that_is_overwritten_while_it_is_open_names_its_file(tmp_path):
    path = tmp_path / "m.sqlite"
    write_memory(path, [Pair(f"cat {n}", f"chat {n}", "m.tmx", n) for n in range(2000)], ("en", "fr"))
    memory = Memory.open(path)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:100] + b"x" * (size - 100))
    for read in (lambda: memory.search("cat 1", 0.7), lambda: memory.exact("cat 7"), lambda: list(memory.units())):
        with pytest.raises(DataError, match=r"m\.sqlite.*build it again"):
            read()

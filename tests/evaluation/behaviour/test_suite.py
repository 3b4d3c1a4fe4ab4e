"""Files of suites: each problem is reported with its line and a remedy, lines without anything to check are counted."""

from pathlib import Path

import pytest

from mtkit.errors import ConfigError, DataError
from mtkit.evaluation.behaviour.suite import KINDS, load_suite

HEAD = "src_lang: en\ntgt_lang: fr\nchecks:\n"
EXAMPLE = Path(__file__).parents[3] / "configs" / "sample-suite.yaml"


@pytest.fixture
def fault(tmp_path):
    """fault(text) returns the error message for a suite of this text, without the file's name."""

    def load(text: str, error: type[Exception] = ConfigError) -> str:
        path = tmp_path / "suite.yaml"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(error) as raised:
            load_suite(path)
        return str(raised.value).removeprefix(f"{path}: ")

    return load


@pytest.mark.parametrize(
    ("check", "line", "key", "facts"),  # of the check, a bar is the end of a line; the check begins in line 4
    [
        ("check: numbrs", 4, ".check=numbrs", ["unknown check", "numbers?"]),
        ("check: zzz", 4, ".check=zzz", ["unknown check", ", ".join(KINDS)]),
        ("check: blank|treshold: 1", 5, ".treshold", ["unknown key", "threshold?"]),
        ("check: blank|threshold: 2", 5, ".threshold=2", ["at least 0", "at most 1"]),
        ("check: blank|check: sound", 5, ".check", ["twice", "line 4"]),
        ("sentences: [a]", 4, ".check", ["missing (the kind of check)"]),
        ("numbers", 4, '="numbers"', ["section", "check"]),
        ("check: sound", 4, "", ["give sentences, or a file"]),
        ("check: negation", 4, "", ["give pairs, or a file"]),
        ("check: sound|sentences: a", 5, '.sentences="a"', ["list"]),
        ("check: sound|sentences:| - a| - 3", 7, ".sentences.1=3", ["text", "quotes"]),
        ("check: sound|sentences: [a]|n: 3", 6, "", ["n=3", "give file"]),
        ("check: numbers|sentences:| - 3 cats| - a cat", 7, ".sentences.1", ["number in digits", "in_words: true"]),
        ("check: emoji|sentences: [a]", 5, ".sentences.0", ["no emoji"]),
        ("check: names|names: [Tom]|sentences: [Tim]", 6, ".sentences.0", ["none of the names"]),
        ("check: names|sentences: [Tim]", 4, ".names", ["missing (the names;"]),
        ("check: blank|sentences: [a]", 5, ".sentences.0", ["not blank"]),
        ("check: case|sentences: ['12']", 5, ".sentences.0", ["case of its letters"]),
        ("check: case|changes: [lowr]|sentences: [a]", 5, '.changes.0="lowr"', ["lower, upper, title, first"]),
        ("check: phrase|sentences: [a]", 4, "", ["give must, must_not, must_match or must_not_match"]),
        ("check: phrase|sentences: [a]|must_match: '['", 6, "", ["must_match=[", "regular expression: "]),
        ("check: long|sentences: [ab., cd.]", 4, "", ["7 letters", "min_letters=600", "give more sentences"]),
        ("check: expected|translations:| - src: a", 6, ".translations.0.one_of", ["missing"]),
        ("check: negation|pairs:| - plain: a", 6, ".pairs.0.negated", ["missing"]),
    ],
)
def test_a_wrong_check_is_named_with_its_line_and_a_remedy(fault, check, line, key, facts):
    message = fault(f"{HEAD}  - {check}".replace("|", "\n    "))
    assert message.startswith(f"1 problem\n  line {line}: checks.0{key}: ")
    assert all(fact in message for fact in facts), message


def test_all_problems_are_reported_at_once_in_the_files_order(fault):
    text = "src_lang: en\nchecks:\n  - check: blnk\n  - check: blank\n    nmae: a\ntgt_lng: fr\n"
    facts = [
        ("4 problems", ""),
        ("tgt_lang: missing ", "language of the translations"),
        ("line 3: checks.0.check=blnk: ", "blank?"),
        ("line 5: checks.1.nmae: ", "name?"),
        ("line 6: tgt_lng: ", "tgt_lang?"),
    ]
    for line, (place, fact) in zip(fault(text).splitlines(), facts, strict=True):
        assert line.strip().startswith(place) and fact in line


def test_negation_of_an_unknown_language_asks_for_words(fault):
    pair = "  - check: negation\n    pairs: [{plain: a, negated: b}]\n"
    found = fault(HEAD.replace("fr", "sv") + pair)
    assert found.startswith("1 problem\n  line 4: checks.0: ")
    assert "de, en, es, fr, it, nl, pt" in found and "tgt_lang=sv" in found and "words: [...]" in found


@pytest.mark.parametrize(
    ("text", "line", "fact"),
    [
        ("", 1, "src_lang, tgt_lang and checks"),
        ("- check: blank", 1, "src_lang, tgt_lang and checks"),
        (HEAD, 3, "checks: is empty"),
        (HEAD + "  - [", 4, "not valid YAML"),
        (HEAD.replace("checks:\n", "checks: []"), 3, "checks: must not be empty"),
        (HEAD.replace("checks:\n", "checks: {check: blank}"), 3, "checks: must be a list"),
    ],
)
def test_a_file_that_is_not_a_suite(fault, text, line, fact):
    message = fault(text)
    assert message.startswith(f"1 problem\n  line {line}: ") and fact in message


def test_a_missing_suite_is_reported_with_a_similar_name(tmp_path):
    (tmp_path / "suite.yaml").touch()
    with pytest.raises(ConfigError, match=r"sute\.yaml: no such file; .*suite\.yaml\?"):
        load_suite(tmp_path / "sute.yaml")


# Files of sentences


def test_a_file_path_is_relative_to_the_suite_and_unused_lines_are_counted(tmp_path):
    (tmp_path / "lines.en").write_text("2 cats\nno number\n\n13 dogs\n", encoding="utf-8")
    path = tmp_path / "suite.yaml"
    path.write_text(HEAD + "  - check: numbers\n    sentences: [1 cat]\n    file: lines.en\n", encoding="utf-8")
    [check] = load_suite(path).checks
    assert [case.sources for case in check.cases] == [("1 cat",), ("2 cats",), ("13 dogs",)]
    assert check.n_left_out == 2


def test_n_lines_are_taken_evenly_spaced(tmp_path):
    (tmp_path / "lines.en").write_text("".join(f"line {n}\n" for n in range(10)), encoding="utf-8")
    path = tmp_path / "suite.yaml"
    path.write_text(HEAD + "  - check: sound\n    file: lines.en\n    n: 2\n", encoding="utf-8")
    assert load_suite(path).sources == ["line 0", "line 5"]


def test_pairs_and_expected_translations_are_columns_of_a_file(tmp_path):
    (tmp_path / "pairs.tsv").write_text("I know.\tI don't know.\n", encoding="utf-8")
    (tmp_path / "expected.tsv").write_text("Hi.\tSalut.\tBonjour.\n", encoding="utf-8")
    path = tmp_path / "suite.yaml"
    checks = "  - check: negation\n    file: pairs.tsv\n  - check: expected\n    file: expected.tsv\n"
    path.write_text(HEAD + checks, encoding="utf-8")
    negation, expected = load_suite(path).checks
    assert negation.cases[0].sources == ("I know.", "I don't know.")
    assert (expected.cases[0].sources, expected.cases[0].wanted) == (("Hi.",), ("Salut.", "Bonjour."))


def test_files_that_cannot_be_used(fault, tmp_path):
    check = HEAD + "  - check: {}\n    file: lines.en\n"
    assert fault(check.format("numbers"), DataError).endswith("lines.en: no such file")
    (tmp_path / "lines.en").write_text("a\n", encoding="utf-8")
    assert fault(check.format("numbers")).startswith("1 problem\n  line 4: checks.0.file: every line of ")
    assert fault(check.format("negation"), DataError).endswith("line 1: no tab; each line needs 2 columns")
    (tmp_path / "lines.en").write_text("", encoding="utf-8")
    assert fault(check.format("sound")).endswith("lines.en has no lines")


# The rest


def test_checks_of_the_same_name_get_numbers(tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text(HEAD + 3 * "  - check: blank\n" + "  - check: blank\n    name: empty lines\n", encoding="utf-8")
    assert [check.name for check in load_suite(path).checks] == ["blank", "blank 2", "blank 3", "empty lines"]


def test_a_sentence_of_several_yaml_lines_is_one_line(tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text(HEAD + '  - check: sound\n    sentences: ["a\\nb", "c\\u2028d"]\n', encoding="utf-8")
    assert load_suite(path).sources == ["a b", "c d"]


def test_the_example_loads_and_has_every_kind_of_check():
    suite = load_suite(EXAMPLE)
    assert {check.check.check for check in suite.checks} == set(KINDS)
    assert suite.languages == ("en", "fr")
    checks = [line for line in EXAMPLE.read_text(encoding="utf-8").splitlines() if "- check:" in line]
    assert [line for line in checks if "  # " not in line] == []


@pytest.mark.parametrize(
    ("src", "tgt", "warning"),
    [("en", "fr", False), ("src", "tgt", False), ("en", "de", True), ("fr", "en", True), ("src", "de", True)],
)
def test_a_model_for_other_languages_gives_a_warning(src, tgt, warning):
    assert bool(load_suite(EXAMPLE).languages.warning(src, tgt)) is warning

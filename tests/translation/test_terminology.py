"""Terminology files: reading them, where their terms apply, what they require, and the report of terms met."""

import gzip
import subprocess
import sys

import pytest

from mtkit.config.tokenizer import TokenizerConfig
from mtkit.errors import DataError
from mtkit.tokens.tokenizer import Tokenizer, train_tokenizer
from mtkit.translation import terminology
from mtkit.translation.terminology import Terminology, TermReport


@pytest.fixture
def load(spm, tmp_path):
    """load(text) is the terminology in a file with that text."""

    def of(text, name="terms.tsv", tokenizer=None):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return Terminology.load(path, tokenizer or Tokenizer.load(spm))

    return of


def required(terminology, src):
    """What the sentence's translation must contain: alternatives, and how often."""
    wanted = terminology.constraints_for(src)
    return {tuple(phrase.text for phrase in r.phrases): r.times for r in wanted.required} if wanted else {}


def forbidden(terminology, src):
    wanted = terminology.constraints_for(src)
    return [phrase.text for phrase in wanted.forbidden] if wanted else []


def occurring(terminology, src):
    return {term.source: times for term, times in terminology.occurrences(src).items()}


def test_a_file_with_all_columns(load):
    terms = load(
        "source\ttarget\tforbidden\n"
        "car\tautomobile | automobiles\tvoiture | voitures\n"
        "\n"
        'the "house"\tdemeure\n'  # quotes mean themselves; a missing cell is empty
        "*\t\ttruc\n"
        "cat\t\tchat\n"
    )
    assert required(terms, "My car.") == {("automobile", "automobiles"): 1}
    assert forbidden(terms, "My car.") == ["truc", "voiture", "voitures"]
    assert required(terms, 'This is the "house".') == {("demeure",): 1}
    assert required(terms, "This is the house.") == {}
    assert forbidden(terms, "This is the house.") == ["truc"]
    assert forbidden(terms, "A cat.") == ["truc", "chat"]


def test_the_marks_of_required_phrases_are_known(load):
    terms = load("source\ttarget\tforbidden\ncar\tautomobile | Auto!\tvoiture?\n")
    assert terms.with_marks == [("Auto", "!")]


def test_a_bar_without_spaces_is_named(load, log_text):
    text = "source\ttarget\tforbidden\nred\trouge|rousse\t\nfast\tvite | rapide\tsoon |quick\n50 %\t50|60\t\n"
    terms = load(text).terms
    assert [phrase.text for phrase in terms[0].target] == ["rouge|rousse"]
    text = log_text()
    assert all(fact in text for fact in ("terms.tsv: line 2", "'rouge | rousse'", "1 more such phrase"))
    load("source\ttarget\nred\trouge | rousse\n", "fine.tsv")
    assert "fine.tsv" not in log_text()


def test_columns_in_another_order_a_bom_and_windows_line_ends(load):
    terms = load(b"\xef\xbb\xbftarget\tsource\r\nautomobile\tcar\r\n")
    assert required(terms, "A car.") == {("automobile",): 1}
    assert terms.constraints_for("A bike.") is None


def test_a_compressed_file(load):
    terms = load(gzip.compress(b"source\ttarget\ncar\tautomobile\n"), name="terms.tsv.gz")
    assert required(terms, "A car.") == {("automobile",): 1}


@pytest.mark.parametrize("text", ["target\nmerci\n", "source\ttarget\n\tmerci\n", "source\ttarget\n*\tmerci\n"])
def test_without_a_source_a_term_applies_to_every_sentence_once(load, text):
    assert required(load(text), "Any sentence, any sentence.") == {("merci",): 1}


@pytest.mark.parametrize(
    ("source", "src", "times"),
    [
        ("orange", "I love oranges.", 0),
        ("orange", "An orange, an ORANGE.", 2),
        ("Apple", "Apple sells no apple.", 1),
        ("apple", "Apple sells no apple.", 2),
        ("the White House", "The White House; the white house", 1),
        ("ice cream", "ice  cream and ice-cream", 1),
        ("cafe\u0301", "Un caf\u00e9", 1),  # composed and decomposed accents are the same
        ("東京", "私は東京に住んでいます", 1),
        ("don't", "I don't", 1),
    ],
)
def test_sources_are_whole_words_in_any_case_unless_they_have_capitals(load, source, src, times):
    terms = load(f"source\ttarget\n{source}\tx\n")
    assert occurring(terms, src) == ({terms.terms[0].source: times} if times else {})


def test_the_longest_source_wins_and_none_overlap(load):
    terms = load("source\ttarget\ncar\ta\nrace car\tb\ncar race\tc\nrace\td\nRace\te\n")
    assert occurring(terms, "A race car race is no race, no car.") == {"race car": 1, "race": 2, "car": 1}
    assert occurring(terms, "Car race!") == {"car race": 1}
    assert occurring(terms, "Race!") == {"Race": 1}  # the one in this very case


def test_what_another_term_forbids_is_not_required(load):
    terms = load("source\ttarget\tforbidden\ncar\tvoiture | auto\t\nold\t\tvieille voiture | voiture\ncab\tvoiture\t\n")
    assert required(terms, "A car.") == {("voiture", "auto"): 1}
    assert required(terms, "An old car.") == {("auto",): 1}
    assert required(terms, "An old cab.") == {}
    assert forbidden(terms, "An old cab.") == ["vieille voiture", "voiture"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"empty; .*source, target, forbidden"),
        ("source\ttarget\tforbiden\n", r"line 1: .*'forbiden'; did you mean forbidden\?.*source, target, forbidden"),
        ("Source\ttarget\n", r"line 1: .*'Source'; did you mean source\?"),
        (
            "\n\ncar\tautomobile\n",
            r"line 3: unknown column; .*source, target, forbidden.*tabs",
        ),
        ("root:x:0:0:root:/root:/bin/sh\n", r"line 1: unknown column; the columns are (?!.*root)"),
        ("source,target\n", r"line 1: .*'source,target'; .*tabs"),
        ("source\ttarget\ttarget\n", r"line 1: column 'target'.* twice"),
        ("source\ncar\n", r"line 1: .*target.*forbidden"),
        ("source\ttarget\ncar\ta\tb\n", r"line 2: 3 columns.* 2"),
        ("source\ttarget\n\ncar\t | \n", r"line 3: 'car'.*target.*forbidden"),
        (
            "source\ttarget\ncar\ta\ncar\tb\n",
            r"line 3: source 'car'.* line 2; .*' \| '",
        ),
        ("source\ttarget\tforbidden\ncar\tA b\ta\n", r"line 2: .*'car'.*\(line 2\)$"),
        (
            "source\ttarget\tforbidden\ncar\ta | b\ta\n*\t\tb\n",
            r"line 2: .*'car'.*\(line 2, 3\)$",
        ),
        ("source\ttarget\ncar\t\u200b\n", r"line 2: target '\\u200b': .*tokenizer"),
        (b"source\ttarget\ncar\t\xff\n", r"line 2, byte 5: 0xff is not UTF-8"),
    ],
)
def test_a_mistake_is_reported_with_file_and_line(load, text, message):
    with pytest.raises(DataError, match=rf"terms\.tsv: {message}"):
        load(text)


def test_a_term_that_the_tokenizer_cannot_encode_is_refused_with_the_characters(load, tmp_path):
    cfg = TokenizerConfig(vocab_size=264, byte_fallback=False)
    train_tokenizer(["I love oranges, apples and bread."] * 3, cfg, tmp_path / "no-bytes.spm")
    tokenizer = Tokenizer.load(tmp_path / "no-bytes.spm")
    assert required(load("target\nnoses\n", tokenizer=tokenizer), "Any.") == {("noses",): 1}
    with pytest.raises(
        DataError,
        match=r"terms\.tsv: line 2: target 'чай œ no': .* 'ч', 'а', 'й', 'œ'; .*byte_fallback",
    ):
        load("target\nчай œ no\n", tokenizer=tokenizer)


def test_the_report_counts_what_was_met_and_names_what_was_not(load):
    terms = load(
        "source\ttarget\tforbidden\ncar\tautomobile | auto\tvoiture\nhouse\tdemeure\t\ncat\tchat\t\n*\t\ttruc\n"
    )
    report = TermReport(terms)
    report.add("Two cars, a car and a car.", "Deux voitures, une auto et une automobile, une auto.", 1)
    report.add("A car in the house.", "Une voiture dans la maison, un truc.", 2)
    report.add("The house.", "Demeure.", 3)
    report.add("Nothing.", "Rien.", 4)
    assert report.lines() == [
        "terminology: 3 of 5 terms met, 2 forbidden phrases",
        "  terms.tsv line 2: car -> automobile | auto not voiture: not met 1 of 3 times (line 2), forbidden 1 times",
        "  terms.tsv line 3: house -> demeure: not met 1 of 2 times (line 2)",
        "  terms.tsv line 5: * not truc: forbidden 1 times",
    ]
    as_json = report.as_json()
    assert (as_json["required"], as_json["met"], as_json["forbidden_seen"]) == (5, 3, 2)
    assert [(term["line"], term["in_source"], term["met"], term["forbidden_seen"]) for term in as_json["terms"]] == [
        (2, 3, 2, 1),
        (3, 2, 1, 0),
        (5, 4, 0, 1),
    ]
    assert as_json["terms"][0]["target"] == ["automobile", "auto"]
    assert [term["unmet_lines"] for term in as_json["terms"]] == [[2], [2], []]


def test_what_was_not_required_is_not_missed(load):
    """A blank line asks for nothing, nor does a term all of whose targets another one forbids."""
    terms = load("source\ttarget\tforbidden\ncar\tauto\nold car\tbagnole\t\nhouse\t\tauto\n*\tle\t\n")
    report = TermReport(terms)
    report.add(" ", "", 1)
    report.add("A car.", "Le auto.", 2)
    report.add("A car, a house.", "Le véhicule.", 3)
    assert report.lines() == ["terminology: 3 of 3 terms met, 0 forbidden phrases"]
    car = report.as_json()["terms"][0]
    assert (car["in_source"], car["required"], car["met"]) == (2, 1, 1)


def test_the_first_lines_without_a_term_are_named(load):
    report = TermReport(load("source\ttarget\ncar\tauto\n"))
    for line in range(1, 101):
        report.add("My car.", "Mon auto." if line % 4 else "Ma voiture.", line)
    [_, missed] = report.lines()
    assert missed.startswith("  terms.tsv line 2: car") and "25 of 100" in missed
    assert missed.endswith(f"(lines {', '.join(str(4 * n) for n in range(1, 21))}, ...)")


@pytest.mark.parametrize("src", ["The old car, my car!", "car, car"])
def test_constraints_tell_which_source_tokens_the_term_occupies(load, spm, src):
    tokenizer = Tokenizer.load(spm)
    [requirement] = load("source\ttarget\ncar\tauto\n").constraints_for(src, tokenizer).required
    ids = tokenizer.encode(src)
    rest = [token_id for index, token_id in enumerate(ids) if index not in requirement.src_positions]
    assert tokenizer.decode([ids[index] for index in requirement.src_positions]) == "car car"
    assert "car" not in tokenizer.decode(rest)


def test_a_term_for_every_sentence_has_no_place_in_the_source(load, spm):
    [requirement] = load("target\nauto\n").constraints_for("My car.", Tokenizer.load(spm)).required
    assert requirement.src_positions == ()


def test_terms_that_are_all_met_need_one_line(load):
    report = TermReport(load("source\ttarget\ncar\tauto\n"))
    report.add("My car.", "Mon auto.", 1)
    assert report.lines() == ["terminology: 1 of 1 term met, 0 forbidden phrases"]


def test_constraints_ask_for_the_tokens_of_their_phrases(load, spm):
    tokenizer = Tokenizer.load(spm)
    [requirement] = load("source\ttarget\nchat\tthe cat\n").constraints_for("chat").required
    assert requirement.forms[0].ids == tuple(tokenizer.encode("the cat"))


def test_reading_a_terminology_needs_no_torch():
    code = "import sys, mtkit.translation.terminology; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("row", ["car\t", "car\t | "])
def test_an_empty_target_is_refused_with_its_line(load, row):
    with pytest.raises(DataError, match=r"terms\.tsv: line 3: 'car' has neither"):
        load(f"source\ttarget\ncat\tchat\n{row}\n")


def test_the_names_of_special_pieces_are_ordinary_text(load, spm):
    terms = load("source\ttarget\ncar\t<end>\ncat\t<unk>\n")
    wanted = terms.constraints_for("a car and a cat")
    ids = [token_id for r in wanted.required for token_id in r.forms[0].ids]
    assert not set(ids) & {0, 1, 2, 3}
    assert Tokenizer.load(spm).decode(ids).replace(" ", "") == "<end><unk>"


def test_a_long_term_is_shortened_in_the_report(load):
    report = TermReport(load(f"source\ttarget\ncar\t{'auto ' * 400}\n"))
    report.add("my car", "rien", 1)
    assert max(map(len, report.lines())) < 250
    assert len(report.as_json()["terms"][0]["target"][0]) == 1999


def test_a_sentence_looks_at_its_own_terms_alone(load, monkeypatch):
    """Count the terms that are compared, of 2,000 that begin like the words of the sentence."""
    terms = load("source\ttarget\n" + "".join(f"cat {n}\tchat {n}\n" for n in range(2_000)))
    compared: list[str] = []
    monkeypatch.setattr(terminology, "any_case", lambda source: compared.append(source) or True)
    assert [term.source for term in terms.occurrences("A cat 7 and a cat.")] == ["cat 7"]
    assert compared == ["cat 7"]


def test_of_two_thousand_terms_those_of_the_sentence_apply(load):
    terms = load("source\ttarget\n" + "".join(f"car{n}\tauto{n}\n" for n in range(2000)))
    assert required(terms, "a car1234 and a car7") == {("auto1234",): 1, ("auto7",): 1}

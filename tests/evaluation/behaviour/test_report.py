"""Behaviour checks: a toy translator passes a suite, and each way to break it fails its check."""

import json
import re
from collections.abc import Callable
from xml.etree import ElementTree as ET

import pytest

from mtkit.evaluation.behaviour.report import as_dict, as_junit, as_lines, run_suite
from mtkit.evaluation.behaviour.suite import Suite, load_suite

SUITE = """
src_lang: en
tgt_lang: fr
checks:
  - check: sound
    sentences: [The old cat sees the house., the cat sees the dog]
  - check: numbers
    sentences: [The cat sees 3 dogs., 15 dogs see the house.]
  - check: negation
    pairs:
      - {plain: The cat sees the dog., negated: The cat never sees the dog.}
      - {plain: The dogs sleep., negated: The dogs don't sleep.}
  - check: names
    names: [Anna, London|Londres]
    sentences: [Anna sees the dog., The dog sees London.]
  - check: case
    sentences: [The cat sees the dog.]
  - check: punctuation
    sentences: [The dogs sleep., The dogs don't sleep.]
  - check: blank
  - check: long
    min_letters: 260
    sentences:
      - The cat sees 3 dogs and sleeps.
      - The old dog of Anna sees the house of Tom.
      - Anna never sees 15 dogs in a house, old or not.
      - The dogs of the old house in London sleep well.
      - Well, the dog sleeps and the dogs don't.
      - In the house of Anna a cat sees London.
      - Tom and Anna never see the cat.
  - check: emoji
    sentences: [The cat 😀 sleeps 👍🏽., 🇫🇷 The dog sleeps.]
  - check: phrase
    sentences: [The house sleeps.]
    must: [la maison]
    must_not: [house]
    must_match: "^La .*[.]$"
    must_not_match: '\\d'
  - check: expected
    translations:
      - {src: The old dog sleeps., one_of: [Le chien sommeille., Le vieux chien dort.]}
"""
WORDS = {
    **{"the": "le", "cat": "chat", "dog": "chien", "dogs": "chiens", "old": "vieux", "house": "maison"},
    **{"sees": "voit", "see": "voient", "sleeps": "dort", "sleep": "dorment", "never": "ne jamais", "don't": "ne pas"},
    **{"london": "Londres", "anna": "Anna", "well": "bien"},
}


def translate(line: str) -> str:
    """Translate word by word, in any case; unknown words stay."""
    words = re.sub(r"[^\W\d_]+(?:['’]\w+)?", lambda word: WORDS.get(word[0].lower().replace("’", "'"), word[0]), line)
    words = " ".join(words.split()).replace("le maison", "la maison")
    return words[:1].upper() + words[1:]


def only_first_sentence(line: str) -> str:
    return translate(line.split(". ")[0] + "." * (". " in line))


def repeats_the_end_of_long_lines(line: str) -> str:
    return translate(line) + (" du chat" * 12 if len(line) > 100 else "")


def loops_for_the_rest_of_long_lines(line: str) -> str:
    text = translate(line)
    return text[:100] + (" du chat" * len(text))[: len(text) - 100] if len(text) > 100 else text


def without(pattern: str) -> Callable[[str], str]:
    return lambda line: re.sub(pattern, "", translate(line))


ALL = {"sound", "numbers", "negation", "names", "case", "punctuation", "blank", "long", "emoji", "phrase", "expected"}
DEFECTS = {
    "drops numbers": (without(r" ?\d+"), {"numbers"}),
    "makes numbers up": (lambda line: translate(line).replace("3", "3 ou 4"), {"numbers"}),
    "drops negation": (without(r" (ne (pas|jamais))"), {"negation"}),
    "negates everything": (lambda line: translate(line).replace("dorment", "ne dorment pas"), {"negation"}),
    "copies the source": (lambda line: line, {"sound", "negation", "phrase", "expected"}),
    "loops": (repeats_the_end_of_long_lines, {"long"}),
    "loops, but no longer than the translation": (loops_for_the_rest_of_long_lines, {"long"}),
    "loops on a word": (lambda line: re.sub(r"(maison)\.$", r"\1 \1 \1 \1 \1.", translate(line)), {"sound"}),
    "cuts long lines": (lambda line: translate(line)[:200], {"long"}),
    "translates the first sentence only": (only_first_sentence, {"long"}),
    "loses emoji": (without("👍🏽|🇫🇷"), {"emoji"}),
    "loses the skin's colour": (without("🏽"), {"emoji"}),
    "misspells names": (lambda line: translate(line).replace("Anna", "Ana"), {"names"}),
    "knows no capitals": (lambda line: "Le chat dort." if line.isupper() else translate(line), {"case"}),
    "needs a full stop": (
        lambda line: translate(line) if line.endswith(".") else translate(line)[:-8],
        {"punctuation"},
    ),
    "says nothing": (lambda line: "", ALL - {"blank"}),
    "fills blank lines": (lambda line: translate(line) or "Le chat.", {"blank"}),
    "says a forbidden word": (lambda line: translate(line).replace("maison", "house maison"), {"phrase"}),
    "chooses another word": (lambda line: translate(line).replace("vieux chien", "chien âgé"), {"expected"}),
}


@pytest.fixture
def suite(tmp_path):
    return make_suite(tmp_path, SUITE)


def make_suite(tmp_path, text: str) -> Suite:
    path = tmp_path / "suite.yaml"
    path.write_text(text, encoding="utf-8")
    return load_suite(path)


def make_check(tmp_path, lines: str) -> Suite:
    """Load a suite of one check, given as lines of YAML."""
    return make_suite(tmp_path, "src_lang: en\ntgt_lang: fr\nchecks:\n  - " + lines.strip().replace("\n", "\n    "))


def problems(suite: Suite, translations: dict[str, str]) -> list[str]:
    """Return the problem of each case of the only check, given translations of some lines; others stay."""
    [check] = run_suite(suite, lambda lines: [translations.get(line, line) for line in lines]).checks
    return [case.problem for case in check.cases]


def test_a_good_translator_passes_every_check(suite):
    result = run_suite(suite, lambda lines: list(map(translate, lines)))
    assert [(check.name, [case.problem for case in check.failing]) for check in result.failed] == []
    assert result.passed
    assert len(result.checks) == 11
    assert set(result.figures().values()) == {1.0}


@pytest.mark.parametrize("defect", DEFECTS)
def test_each_defect_fails_its_check(suite, defect):
    broken, expected = DEFECTS[defect]
    result = run_suite(suite, lambda lines: list(map(broken, lines)))
    assert {check.name for check in result.failed} == expected
    assert not result.passed


def test_every_line_is_translated_once(suite):
    seen: list[str] = []
    run_suite(suite, lambda lines: seen.extend(lines) or list(lines))
    assert len(seen) == len(set(seen))
    assert {"The cat sees the dog.", "THE CAT SEES THE DOG.", "the cat sees the dog.", "\t", ""} < set(seen)


def test_a_wrong_number_of_translations_is_refused(suite):
    with pytest.raises(ValueError, match=f"3 translations of {len(suite.sources)} lines"):
        run_suite(suite, lambda lines: ["a", "b", "c"])


# Numbers


@pytest.mark.parametrize(
    ("src", "text", "problem"),
    [
        ("I have three cats.", "J'ai trois chats.", ""),
        ("I have three cats.", "J'ai 3 chats.", ""),
        ("I have three cats.", "J'ai des chats.", "3 is lost"),
        ("I have three cats.", "J'ai deux chats.", "3 is lost"),
        ("She is twenty-five.", "Elle a vingt-cinq ans.", ""),
        ("She is twenty-five.", "Elle a vingt ans.", "25 is lost"),
        ("She was born in nineteen eighty-eight.", "Elle est née en 1988.", ""),
        ("She was born in nineteen eighty-eight.", "Elle est née en 1998.", "1988 is lost; 1998 is not in the source"),
        ("He paid 1,200 euros.", "Il a payé 1 200 euros.", ""),
        ("He paid 1,200 euros.", "Il a payé 1 300 euros.", "1,200 is lost; 1 300 is not in the source"),
        ("It is 3 pm.", "Il est 15 h.", ""),
    ],
)
def test_numbers_in_digits_and_words(tmp_path, src, text, problem):
    suite = make_check(tmp_path, f"check: numbers\nin_words: true\nsentences: ['{src}']")
    assert problems(suite, {src: text}) == [problem]


def test_numbers_in_words_count_only_if_asked_for(tmp_path):
    src = "I saw two cats and 3 dogs."
    assert problems(make_check(tmp_path, f"check: numbers\nsentences: [{src}]"), {src: "J'ai vu 3 chiens."}) == [""]


# Faults that are seen without a reference


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Le vieux chien dort dans la grande maison.", ""),
        ("The old dog sleeps in the big house.", "copies the source"),
        ("Le vieux chien chien chien chien chien chien chien.", "repeats itself: chien"),
        ("...", "empty"),
    ],
)
def test_only_the_chosen_faults_are_reported(tmp_path, text, problem):
    src = "The old dog sleeps in the big house."
    lines = f"check: sound\nsentences: [{src}]\nfaults: "
    assert problems(make_check(tmp_path, lines + "[empty, loop, copy]"), {src: text}) == [problem]
    assert problems(make_check(tmp_path, lines + "[number]"), {src: text}) == [""]


# Negation


def test_negation_goes_wrong_both_ways(tmp_path):
    suite = make_check(tmp_path, "check: negation\npairs:\n  - {plain: I know., negated: I don't know.}")
    known, unknown = "Je sais.", "Je ne sais pas."
    assert problems(suite, {"I know.": known, "I don't know.": unknown}) == [""]
    assert problems(suite, {"I know.": known, "I don't know.": known}) == ["the negation is lost"]
    lost = "the first one is negated, but its source is not"
    assert problems(suite, {"I know.": unknown, "I don't know.": unknown}) == [lost]
    assert problems(suite, {"I know.": unknown, "I don't know.": known}) == [f"{lost}; the negation is lost"]


def test_negating_words_can_be_given(tmp_path):
    text = "src_lang: en\ntgt_lang: sv\nchecks:\n  - check: negation\n    words: [inte, aldrig]\n"
    suite = make_suite(tmp_path, text + "    pairs: [{plain: I know., negated: I don't know.}]\n")
    assert problems(suite, {"I know.": "Jag vet.", "I don't know.": "Jag vet inte."}) == [""]
    assert problems(suite, {"I know.": "Jag vet.", "I don't know.": "Jag vet inteckning."}) == ["the negation is lost"]


# Names, emoji, phrases


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Anna est à Londres.", ""),
        ("Annas Hund ist in London.", ""),
        ("Hannah est à Londres.", "Anna is lost"),
        ("anna est à Lyon.", "Anna is lost; London|Londres is lost"),
    ],
)
def test_names_are_kept_as_words_in_one_of_their_forms(tmp_path, text, problem):
    suite = make_check(tmp_path, "check: names\nnames: [Anna, Tom, London|Londres]\nsentences: [Anna is in London.]")
    assert problems(suite, {"Anna is in London.": text}) == [problem]


@pytest.mark.parametrize(
    ("emoji", "text", "problem"),
    [
        ("😀😀", "Oui 😀 😀", ""),
        ("😀😀", "Oui 😀", "😀 is lost"),
        ("❤️", "Oui ❤", ""),  # without the selector that asks for colour
        ("👨‍👩‍👧", "Oui 👨 👩 👧", "👨‍👩‍👧 is lost"),
        ("🇫🇷", "Oui 🇫🇷", ""),
        ("🇫🇷", "Oui 🇫🇮", "🇫🇷 is lost"),
        ("1️⃣", "Oui 1", "1⃣ is lost"),
        ("☎ 👍🏽", "Oui 👍🏽", "☎ is lost"),
    ],
)
def test_emoji_are_kept_whole_and_as_often(tmp_path, emoji, text, problem):
    suite = make_check(tmp_path, f"check: emoji\nsentences: ['Yes {emoji}']")
    assert problems(suite, {f"Yes {emoji}": text}) == [problem]


@pytest.mark.parametrize(
    ("key", "text", "problem"),
    [
        ("must: le chat", "Voici LE  CHAT.", ""),
        ("must: le chat", "Voici le chaton.", "without “le chat”"),
        ("must: [chat, chien]", "Le chat.", "without “chien”"),
        ("must: caf\u00e9", "Un cafe\u0301.", ""),
        ("must: '%'", "Oui, 10%.", ""),
        ("must_not: <unk>", "Le <unk>.", "with “<unk>”"),
        ("must_not: [or]", "Une orange.", ""),
        ("must_match: '^[A-Z]'", "le chat", "without “^[A-Z]”"),
        ("must_not_match: '(.)\\1\\1'", "Ouiii !", "with “iii”"),
    ],
)
def test_phrases_and_patterns(tmp_path, key, text, problem):
    suite = make_check(tmp_path, f"check: phrase\nsentences: [Any.]\n{key}")
    assert problems(suite, {"Any.": text}) == [problem]


def test_an_expected_translation_may_differ_in_spaces_only(tmp_path):
    suite = make_check(tmp_path, "check: expected\ntranslations: [{src: Hi., one_of: [Salut., Bonjour !]}]")
    assert problems(suite, {"Hi.": "Bonjour  !"}) == [""]
    assert problems(suite, {"Hi.": "bonjour !"}) == ["not “Salut.” or “Bonjour !”"]


# Changes that do not matter


def test_a_sentence_is_translated_with_each_change(tmp_path):
    suite = make_check(tmp_path, "check: case\nchanges: [lower, upper, title, first]\nsentences: [I don't see it.]")
    assert suite.sources == ["I don't see it.", "i don't see it.", "I DON'T SEE IT.", "I Don't See It."]
    suite = make_check(tmp_path, "check: punctuation\nsentences: [I don't see it.]")
    changed = ["I don't see it", "I don't see it!", "I  don't  see  it.", "I don’t see it."]
    assert suite.sources == ["I don't see it.", *changed]


def test_a_translation_of_a_changed_sentence_may_differ_as_far_as_is_allowed(tmp_path):
    from sacrebleu.metrics.chrf import CHRF

    texts = {"the cat sleeps": "le chat dort bien", "THE CAT SLEEPS": "LE CHAT DORT"}
    chrf = CHRF().sentence_score("le chat dort", ["le chat dort bien"]).score
    lines = "check: case\nchanges: [upper]\nsentences: [the cat sleeps]\nmin_chrf: "
    assert problems(make_check(tmp_path, lines + f"{chrf - 0.1:.3f}"), texts) == [""]
    assert problems(make_check(tmp_path, lines + f"{chrf + 0.1:.3f}"), texts) == [
        f"not the same translation (chrF {chrf:.0f})"
    ]


def test_marks_case_and_spaces_of_a_translation_do_not_count_for_punctuation_but_letters_do(tmp_path):
    suite = make_check(tmp_path, "check: punctuation\nchanges: [exclamation]\nsentences: [Go home.]")
    assert problems(suite, {"Go home.": "Va « chez » toi.", "Go home!": "va chez  toi !"}) == [""]
    assert problems(suite, {"Go home.": "Va chez toi.", "Go home!": "Va chez moi !"})[0].startswith("not the same")


# Long lines


def test_long_lines_contain_every_sentence_and_reach_the_least_length(tmp_path):
    suite = make_check(tmp_path, "check: long\nmin_letters: 20\nsentences: [One cat., Two dogs., Three birds.]")
    [check] = suite.checks
    assert [case.lines for case in check.cases] == [
        ("One cat. Two dogs. Three birds.", "One cat.", "Two dogs.", "Three birds."),
    ]
    suite = make_check(tmp_path, "check: long\nmin_letters: 15\nsentences: [One cat., Two dogs., Three birds.]")
    [check] = suite.checks
    assert [case.sources[0] for case in check.cases] == ["One cat. Two dogs.", "Three birds. One cat."]


def test_a_long_line_may_differ_in_length_by_the_tolerance(tmp_path):
    suite = make_check(tmp_path, "check: long\nmin_letters: 10\ntolerance: 0.2\nsentences: [aaaa bb cc d.]")
    line = suite.sources[0]
    assert suite.sources == ["aaaa bb cc d."]  # here the line is its only sentence
    assert problems(suite, {line: "x" * 10}) == [""]
    suite = make_check(tmp_path, "check: long\nmin_letters: 14\ntolerance: 0.2\nsentences: [aaaa bb cc., ddd ee.]")
    alone = {"aaaa bb cc.": "A" * 59, "ddd ee.": "B" * 40}  # 100 with the space between
    for n, problem in ((80, ""), (120, ""), (79, "cut: 79 letters"), (121, "too long: 121 letters")):
        [message] = problems(suite, {**alone, "aaaa bb cc. ddd ee.": "C" * n})
        assert bool(message) == bool(problem)
        assert message.startswith(problem) and message.endswith("100" if problem else "")


# Results


def test_a_threshold_is_the_share_that_must_pass(tmp_path):
    sentences = ", ".join(f"{n} cats" for n in range(20, 30))
    nine_of_ten = {"20 cats": "chats"}
    for threshold, passes in ((0.9, True), (0.91, False), (1.0, False), (0, True)):
        lines = f"check: numbers\nsentences: [{sentences}]\nthreshold: {threshold}"
        result = run_suite(make_check(tmp_path, lines), lambda lines: [nine_of_ten.get(line, line) for line in lines])
        assert result.passed is passes
        assert result.checks[0].share == 0.9


@pytest.fixture
def half_broken(suite):
    """Numbers and emoji fail, each with some of their cases."""
    return run_suite(suite, lambda lines: [translate(line).replace("15 ", "").replace("🇫🇷", "") for line in lines])


def test_figures_are_shares_of_checks_and_of_cases(half_broken):
    figures = half_broken.figures()
    assert figures["suite"] == pytest.approx(9 / 11)
    assert (figures["suite.numbers"], figures["suite.emoji"], figures["suite.names"]) == (0.5, 0.5, 1.0)
    assert str(half_broken) == "suite 9/11 (failed: numbers 1/2, emoji 1/2)"


def test_the_table_says_source_translation_and_why(half_broken):
    lines = list(as_lines(half_broken, n_shown=5))
    at = next(i for i, line in enumerate(lines) if line.startswith("numbers"))
    assert lines[at].split() == ["numbers", "1", "of", "2", "FAILED"]
    assert [line.strip() for line in lines[at + 1 : at + 4]] == [
        *("15 dogs see the house.", "-> chiens voient la maison.", "15 is lost"),
    ]
    assert lines[-1] == "checks: 2 of 11 failed; cases: 2 of 25 failed"  # 7 of punctuation, 3 blank, else 1 or 2 each
    assert len(list(as_lines(half_broken, n_shown=0))) == 11 + 1


def test_failing_cases_that_are_not_shown_are_counted(suite):
    result = run_suite(suite, lambda lines: [without(r" ?\d+")(line) for line in lines])
    lines = [line.strip() for line in as_lines(result, n_shown=1)]
    assert lines[lines.index("3 is lost") + 1] == "and 1 more"


def test_a_long_text_is_shortened_in_the_table_and_says_so(tmp_path):
    suite = make_check(tmp_path, "check: numbers\nsentences: ['3 cats']")
    result = run_suite(suite, lambda lines: ["x" * 100_000])
    assert all(len(line) < 300 for line in as_lines(result, 5))
    assert any("(100,000 characters)" in line for line in as_lines(result, 5))


def test_json_has_every_case(half_broken):
    found = json.loads(json.dumps(as_dict(half_broken)))
    assert (found["passed"], found["n_checks"], found["n_failed"]) == (False, 11, 2)
    [numbers] = [check for check in found["checks"] if check["name"] == "numbers"]
    assert (numbers["check"], numbers["n_cases"], numbers["n_passed"], numbers["share"]) == ("numbers", 2, 1, 0.5)
    assert numbers["cases"][0]["problem"] is None
    assert numbers["cases"][1] == {
        "sources": ["15 dogs see the house."],
        "translations": ["chiens voient la maison."],
        "problem": "15 is lost",
    }


def test_junit_has_a_test_case_for_each_check(half_broken):
    root = ET.fromstring(as_junit(half_broken, "my suite"))
    assert (root.tag, root.attrib) == ("testsuite", {"name": "my suite", "tests": "11", "failures": "2"})
    failures = {case.attrib["name"]: case.find("failure") for case in root.iter("testcase")}
    assert len(failures) == 11
    assert {name for name, failure in failures.items() if failure is not None} == {"numbers", "emoji"}
    numbers = failures["numbers"]
    assert numbers is not None and numbers.text is not None
    assert numbers.attrib["message"] == "1 of 2 cases passed"
    assert "15 is lost" in numbers.text


def test_junit_survives_text_that_xml_cannot_hold(tmp_path):
    suite = make_check(tmp_path, "check: numbers\nsentences: [3 cats]")
    xml = as_junit(run_suite(suite, lambda lines: ["\x00\x1b \ufffe <b>&"]), "any")
    text = ET.fromstring(xml).findtext("testcase/failure")
    assert text is not None and text.count("\ufffd") == 3

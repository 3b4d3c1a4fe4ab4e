"""Messages of ICU and Java: where their branches stand, what is damaged, and that translations keep their syntax."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_counts import n_calls
from tiny_documents import loud_around_placeholders

from mtkit.documents.messages import icu
from mtkit.documents.messages.values import Apostrophes, Template, template_of

MESSAGE = (
    "You have {count, plural, offset:1 =0 {no file} one {# file in {dir}} "
    "other {# files, {g, select, f {hers} other {his}}}} left."
)


def template(text: str, apostrophes: Apostrophes = Apostrophes.THEMSELVES) -> Template:
    found = template_of(text, apostrophes)
    assert found is not None
    return found


def translated(text: str, translate=loud_around_placeholders, apostrophes=Apostrophes.THEMSELVES) -> str:
    """Return a string whose texts are translated one by one, without codes; those that are refused stay."""
    whole = template(text, apostrophes)
    found = {index: translate(each.message.inline.text) for index, each in enumerate(whole.texts)}
    return whole.filled({i: value for i, value in found.items() if not whole.texts[i].refuse(value)})


class Validator:
    """A second, smaller grammar of ICU, one character at a time."""

    def __init__(self, text: str) -> None:
        self.rest = re.sub(r"''|'[{}#][^']*(?:''[^']*)*(?:'|$)", "", text)

    def take(self, pattern: str) -> str | None:
        found = re.match(r"\s*" + pattern, self.rest)
        self.rest = self.rest[found.end() :] if found else self.rest
        return found[0].strip() if found else None

    def message(self) -> bool:
        """Take a message; what follows must be nothing or }."""
        while True:
            self.take("[^{}]*")
            if not self.take(r"\{"):
                return True
            if not (self.take(r"\w+") and self.argument()):
                return False

    def argument(self) -> bool:
        kind = self.take(r",\s*\w+") or ""
        if kind[1:].strip() not in ("plural", "select", "selectordinal"):
            return bool(not kind or self.take(r"(?:,[^{}]*)?") is not None) and bool(self.take(r"\}"))
        if not self.take(","):
            return False
        self.take(r"offset:\s*\d+")
        n = 0
        while self.take(r"[=\w]+\s*\{"):
            if not (self.message() and self.take(r"\}")):
                return False
            n += 1
        return n > 0 and bool(self.take(r"\}"))


def is_valid(text: str) -> bool:
    """Return whether ICU would accept a message."""
    validator = Validator(text)
    return validator.message() and not validator.rest


def test_each_branch_is_a_text_of_its_own_and_the_argument_one_word_of_the_text_around_it():
    assert [each.message.inline.text for each in template(MESSAGE).texts] == [
        "no file",
        "{#} file in {dir}",
        "hers",
        "his",
        "{#} files, {g}",
        "You have {count} left.",
    ]


def test_a_translation_changes_the_texts_and_no_syntax():
    found = translated(MESSAGE)
    assert found == (
        "YOU HAVE {count, plural, offset:1 =0 {NO FILE} one {# FILE IN {dir}} "
        "other {# FILES, {g, select, f {HERS} other {HIS}}}} LEFT."
    )
    assert is_valid(MESSAGE) and is_valid(found)


def test_an_argument_that_moves_takes_its_branches_along():
    assert (
        translated(
            "Find {n, plural, one {# cat} other {# cats}} now", lambda text: text.replace("Find {n} now", "Now: {n}")
        )
        == "Now: {n, plural, one {# cat} other {# cats}}"
    )


@pytest.mark.parametrize(
    "text", ["Hello {name}", "{n, plural, one {the cat of {x}} other {the cats}}", "{g, select, f {the cat} other {a}}"]
)
def test_no_apostrophe_of_a_translation_quotes_a_brace(text):
    def french(of: str) -> str:
        return of.replace("the cat", "chat l'").replace("Hello ", "l'").replace("of ", "d'")

    found = translated(text, french)
    assert is_valid(found) and "’" in found


def test_quoted_braces_stay_quoted():
    text = "{n, plural, other {Write '{'name'}' or it''s {n}}}"
    assert translated(text) == "{n, plural, other {WRITE '{'name'}' OR IT''S {n}}}"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("I don''t see my keys in '{braces}'.", ["I don't see my keys in {quoted}."]),
        ("Type '{'name'}' on the door.", ["Type {quoted} on the door."]),
        ("It''s {count} or '{'dogs'}'.", ["It's {count} or {quoted}."]),
        ("File '{name}' isn't in '{dir}'", ["File {quoted} isn't in {quoted-1}"]),  # not of ICU: also right there
        ("{{count}} of Paul''s", ["{{count}} of Paul''s"]),  # i18next, where an apostrophe is itself
        ("Use '#' here", ["Use {quoted} here"]),
    ],
)
def test_what_icu_quotes_is_one_placeholder_and_two_apostrophes_stay_two(text, seen):
    found = template(text)
    assert [each.message.inline.text for each in found.texts] == seen
    kept = re.findall(r"'\{'\w+'\}'|'?\{\w+\}'?", text)
    again = translated(text)
    assert again.lower() == text.lower()
    assert all(part in again for part in kept)


def test_an_apostrophe_of_a_translation_is_doubled_where_the_source_doubles_its_own():
    assert (
        translated("I don''t see {name}", lambda of: of.replace("I don't see", "Je n'ai pas")) == "Je n''ai pas {name}"
    )
    found = translated("Open '{name}'", lambda of: of.replace("Open ", "l'"))
    assert found == "l’'{name}'"  # ICU would take two in a row for one that quotes nothing


def test_a_suffix_stays_glued_to_the_number():
    text = "{n, selectordinal, one {#st floor} two {the #nd floor} other {#th floor, # stairs, #meters}}"
    assert translated(text) == (
        "{n, selectordinal, one {#st FLOOR} two {THE #nd FLOOR} other {#th FLOOR, # STAIRS, #METERS}}"
    )


def test_the_choices_of_java_are_texts():
    text = "There {0,choice,0#are no files|1#is one file|1<are {0,number,integer} files} on {1}."
    assert translated(text) == "THERE {0,choice,0#ARE NO FILES|1#IS ONE FILE|1<ARE {0,number,integer} FILES} ON {1}."


@pytest.mark.parametrize(
    ("text", "apostrophes", "wanted"),
    [
        ("It''s {0}", Apostrophes.DOUBLED, "IT''S {0}"),
        ("Cannot find ''{0}''", Apostrophes.DOUBLED, "CANNOT FIND ''{0}''"),
        ("Use '{'x'}' for {0}", Apostrophes.DOUBLED, "USE '{'x'}' FOR {0}"),
        ("It's {0}", Apostrophes.ANY, "IT’S {0}"),
        ("Cannot find '{name}'", Apostrophes.THEMSELVES, "CANNOT FIND '{name}'"),
    ],
)
def test_apostrophes_are_written_as_the_program_reads_them(text, apostrophes, wanted):
    assert translated(text, apostrophes=apostrophes) == wanted


@pytest.mark.parametrize(
    "wrong", ["{# Datei", "{#} {dir} {x}", "Datei in {dir", "{#} {Dir}", "}{#} {dir}", "# {dir} {#}"]
)
def test_a_translation_that_would_break_the_message_is_refused(wrong):
    assert translated(MESSAGE, lambda text: wrong if "file in" in text else text) == MESSAGE


def test_alternatives_behind_pipes_are_texts_of_their_own():
    whole = template("no apples | one <a title='x|y'>apple</a>|{n|f} {{ n | upper }} apples")
    assert [each.message.inline.text for each in whole.texts][0::2] == ["no apples", "{n|f} {{ n | upper }} apples"]
    assert translated("a car | {n} cars") == "A CAR | {n} CARS"


@pytest.mark.parametrize(
    "text",
    [
        "{n, plural, one {x}",
        "{n, plural, }",
        "{n, plural, one {x} other}",
        "{n, plural, one {a {b} other {c}}",
        "x } {n, select, a {b}}",
        "{0,choice,x|y}",
        "{n,plural,other{" * 50 + "}}" * 50,
        "{n, plural, other {x {n, date, short}}",
    ],
)
def test_a_damaged_message_is_none(text):
    assert icu.has_branches(text) and template_of(text) is None
    assert not is_valid(text) or "choice" in text or text.count("{") > 90


@given(
    st.lists(
        st.sampled_from(
            [
                "{n, plural, one {",
                "{g,select,a{",
                "} other {",
                "}}",
                "}",
                "{",
                "{x}",
                "#",
                "'",
                "''",
                " word",
                "{d, date, short}",
                "|",
                "{0,choice,0#",
                "1<",
                " ",
            ]
        ),
        max_size=14,
    ).map("".join)
)
def test_any_message_translated_into_itself_is_the_same_and_stays_valid_otherwise(text):
    whole = template_of(text)
    if whole is None:
        return
    assert whole.filled({i: each.message.inline.source for i, each in enumerate(whole.texts)}) == text
    found = translated(text)
    if icu.has_branches(text):
        assert is_valid(found) or "choice" in text
        before, after = icu.parse(text), icu.parse(found)
        assert before is not None and after is not None and before.outline == after.outline


def test_an_apostrophe_that_is_not_quoting_a_number_sign_does_not_quote_it_afterwards():
    found = translated("''#{0,choice,0#} word")
    before, after = icu.parse("''#{0,choice,0#} word"), icu.parse(found)
    assert before is not None and after is not None and before.outline == after.outline
    assert found.startswith("’#{0,choice,0#}")


@pytest.mark.parametrize(
    "piece",
    ["{", "}", "'{", "{a,plural,", "{a,plural,other{", "|", "{a,plural,other{#}}", "{a}", "'", "{a,choice,1#b|"],
)
def test_hostile_messages_take_work_in_proportion_to_their_length(piece):
    def n_calls_to_read(n: int) -> int:
        return n_calls(template_of, "{a, plural, other {x}} " + piece * n)

    assert n_calls_to_read(800) < 2.5 * n_calls_to_read(400)

"""What is a placeholder: the syntax of each family, from its specification."""

import random

import pytest

from mtkit.text.placeholders import PROSE, STRINGS, may_have_prose, placeholder_pattern, placeholder_pattern_in_line
from mtkit.tokens.placeholders import Placeholders

C = ["%s", "%-5d", "%+.3e", "%5.2f", "%lu", "%zu", "%llu", "%hhd", "%td", "%Lf", "%#x", "%*d", "%.*f", "%.f"]  # ISO C
POSIX = ["%1$s", "%2$-5d", "%1$*2$d"]
PYTHON = ["%(name)s", "%(total).2f", "{}", "{0}", "{user.name}", "{rows[0]}", "{!r}", "{price:.2f}", "{:>10}"]
ICU = ["{name}", "{ name }", "{n, number}", "{0,number,#.##}", "{ when, date, short }"]
JAVA = ["%,d", "%1$tY", "%tB", "%n", "%08X"]
QT = ["%1", "%L2", "%99", "%n"]
I18NEXT_AND_VUE = ["{{name}}", "{{ user.name }}", "{{- html}}"]
RUBY = ["%{name}", "%<n>d", "%<price>.2f"]
TEMPLATES = [
    *[
        "{% if a > b %}",
        "{# a note #}",
        "{{#if x}}",
        "{{< figure >}}",
        "{{> part }}",
        "<% a %>",
        "<?php a > b ?>",
        "<?= a ?>",
    ],
    *["{!! $user->name !!}", "@lang('a.b', [f(1)])", "@if (a > b)", "@foreach ($a as $b)", "@php $a = 1; @endphp"],
    *["#{name}", "*|NAME|*", "*|IF:A|*", "[[name]]", "![[a b.png]]", "%%name%%", "$name$", "__name__"],
    *["%NAME%", "%USER_2%"],
]
IN_PROSE_ONLY = ["[name]", "<name>", ":name"]
OTHERS = ["%@", "%2$@", "%I64d", "{0:N2}", "${HOME}", "$HOME", "$(name)", "{{{html}}}", "{% if n > 1 %}", "<%= n %>"]
DATES = ["%Y", "%p", "%-H"]
IN_STRINGS_ONLY = [*DATES, "%%", "$t(files.one)", "@:menu.file", "--help", "-v", "https://a.org/b", "me@a.org"]


@pytest.mark.parametrize(
    "placeholder",
    [*C, *POSIX, *PYTHON, *ICU, *JAVA, *QT, *I18NEXT_AND_VUE, *RUBY, *TEMPLATES, *OTHERS, *IN_STRINGS_ONLY],
)
def test_a_placeholder_is_found_as_a_whole(placeholder):
    assert placeholder_pattern().findall(f"Open {placeholder}, please") == [placeholder]
    assert placeholder_pattern().fullmatch(placeholder)
    in_line = placeholder_pattern_in_line().findall(f"Open {placeholder}, please")
    assert in_line == ([] if placeholder in IN_STRINGS_ONLY else [placeholder])


@pytest.mark.parametrize("placeholder", [*TEMPLATES, *IN_PROSE_ONLY])
def test_template_code_is_found_in_prose(placeholder):
    assert Placeholders(PROSE).values(f"Open {placeholder}, please") == [placeholder]


@pytest.mark.parametrize(
    "formula", [r"\(a + b\)", r"\[\text{a cat}\]", "$$a = b$$", "\\begin{align*}\na &= b\n\\end{align*}"]
)
@pytest.mark.parametrize("patterns", [PROSE, STRINGS])
def test_a_formula_is_found_in_prose_and_messages(patterns, formula):
    assert Placeholders(patterns).values(f"The sum {formula} is small") == [formula]


@pytest.mark.parametrize("blank", ["___", "__________", "___/___/____", "......", "____-____"])
@pytest.mark.parametrize("patterns", [PROSE, STRINGS])
def test_a_blank_of_a_form_is_found_in_prose_and_messages(patterns, blank):
    assert Placeholders(patterns).values(f"Name: {blank} of the cat {blank}") == [blank, blank]


def test_words_of_prose_are_not_template_code():
    for text in (
        "for $$ or $$$",
        "he said: yes",
        "10:30 or a::b",
        "a [b c] d",
        "5 < 6 and 7 > 6",
        "__init",
        "costs $5 or 6$",
        "he (else) ends",
    ):
        assert Placeholders(PROSE).values(text) == []


@pytest.mark.parametrize(
    ("text", "placeholders"),
    [
        ("%Y-%m-%d", ["%Y", "%m", "%d"]),
        ("%shere%s", ["%s", "%s"]),
        ("%1ms of %2s", ["%1", "%2s"]),  # Qt, or printf
        ("100%%", ["%%"]),
        ("50 % of it, 50% off, 5 % der Leute, AT&T, $5, $US 5, { a, b }, caf%C3%A9, me@home", []),
    ],
)
def test_what_is_next_to_a_placeholder_is_not_part_of_it(text, placeholders):
    assert placeholder_pattern().findall(text) == placeholders


@pytest.mark.parametrize(
    "text",
    [
        "a 50%ige Lösung",
        "100%s",
        "5%d",
        "%H:%M",
        "50 % des Preises",
        "caf%C3%A9",
        "$5 in US$",
        "{ a, b }",
        "5%UP, 6%DOWN",
        "UP 50%TODAY% OR 20%",
    ],
)
def test_a_per_cent_sign_in_prose_is_not_a_placeholder(text):
    assert not placeholder_pattern_in_line().search(text)


def test_a_text_without_the_marks_of_placeholders_has_none():
    rng, patterns = random.Random(1), Placeholders(PROSE)
    for characters in ("aZ9é你 .,;!?'’()\"“”«»-\n", "www.com @:/#%_<>[]{}$*&;|=a1\n"):
        for _ in range(1500):
            text = "".join(rng.choice(characters) for _ in range(rng.randrange(12)))
            assert may_have_prose(text) or not patterns.spans(text), text
    assert not may_have_prose("Well-known “words”, 12,5 (or 13), aren't they? Yes. No.")
    for text in ("me@a.org", "a.org", "www.a", "{a}", "%s", "#tag", "&amp;", "__a__", "[[a]]", ":a:", "*|A|*", "$A$"):
        assert may_have_prose(text) and Placeholders(PROSE).spans(text)

"""Regular expressions of JavaScript that match what Python's do; Python is the judge."""

import re

import pytest
import regex
from node import in_node, needs_node

from mtkit.pages.javascript import WORD_OF_REGEX, class_of, javascript_regex
from mtkit.text import capitals, lines, sentences
from mtkit.text.inline_tags import TAG
from mtkit.text.placeholders import PROSE
from mtkit.text.words import LONG_RUN
from mtkit.tokens.openings import LETTER_AT_END
from mtkit.tokens.spelling import TYPED

MATCHES = """
    const {patterns, texts} = given;
    return patterns.map(source => texts.map(text => [...text.matchAll(new RegExp(source, "gu"))].map(([all]) => all)));
"""
TEXTS = [
    "Mr. Smith's e-mail is me@example.org, or https://example.org/a?b=c. See www.x.com!He said: {name}, %s and $HOME.",
    "Stra\u00dfe \u017fo \u212a k K s S \u0130 i\u0307 nai\u0308ve \u03bb\u03cc\u03b3\u03bf\u03c2; \u00bfQu\u00e9?",
    "x\u00b2 \u2460 \u0663 \u06f4 3.5 1.2. 19. Oktober, im 3. Jahr z. B. etc. U.S. Navy. The 2-1. VIII. Chapter 1.",
    "\U0001d41a\U0001d41b \U0001f468\u200d\U0001f469 :smile: @me #tag <b>x</b> <a href='x y'>y</a> &amp; <!-- c -->",
    "\u4f60\u597d\u3002\u518d\u89c1 \u0e2a\u0e27\u0e31\u0e2a \u05e9\u05dc\u05d5\u05dd \u0915\u094d\u092f\u093e",
    "so\u00adft l'\u00e9t\u00e9 don\u2019t \u00a0 \x1c\x85 a\ufeffb\n\t- \u2022 1) end\u2026",
    "{% if a %}No. No.{% endif %} {{ user }} C:\\new\\n order_id `ls` (a(b)c) aaab \"'\u2019\u00bb)]} " + "a" * 120,
    "",
]
PARTS = (
    *(r"\w+", r"\W+", r"\d+", r"\D", r"\s+", r"\S+", r"\b\w", r"[^\W\d_]+", r"[\W_]+", r"[^\Wa-e]", r"[\w'-]+"),
    *(
        r"[^-\]^]",
        r"a*?b",
        r"(?:a*+b|c)",
        r"(?>a+)b",
        r"(?P<word>\w)(?P=word)",
        r"(\w)\1",
        r"(?<![.\w])\w{2,3}(?=[.\s])",
    ),
    *(
        r"^.|.$",
        r"\A\W*\w",
        r"\S\Z",
        r"(?i:straSSE|k|\u017f)",
        r"[\s\S]",
        r"a{2,}+",
        r"/|\$|\{|\\|-",
        "\U0001f468|\u00e9",
    ),
)


def in_javascript(patterns):
    return in_node(MATCHES, {"patterns": patterns, "texts": TEXTS})


def in_python(pattern):
    return [[match[0] for match in pattern.finditer(text)] for text in TEXTS]


@needs_node
def test_each_part_of_an_expression_matches_the_same():
    patterns = list(map(re.compile, PARTS))
    of_python = list(map(in_python, patterns))
    assert in_javascript(list(map(javascript_regex, patterns))) == of_python
    assert all(any(map(any, of_part)) for of_part in of_python), "each part matches something"


@needs_node
def test_the_patterns_of_text_match_the_same():
    own = [
        *capitals.patterns().values(),
        *sentences.PATTERNS.values(),
        *lines.PATTERNS.values(),
        TYPED,
        LONG_RUN,
        TAG,
        LETTER_AT_END,
    ]
    prose = [javascript_regex(re.compile(pattern), WORD_OF_REGEX) for pattern in PROSE]  # searched by another package
    of_javascript = in_javascript([*map(javascript_regex, own), *prose])
    for pattern, matches in zip([*own, *map(regex.compile, PROSE)], of_javascript, strict=True):
        assert matches == in_python(pattern), pattern.pattern


@pytest.mark.parametrize("pattern", [re.compile("a", re.MULTILINE), re.compile(r"(a)?(?(1)b|c)"), re.compile(r"\Ba")])
def test_what_javascript_lacks_is_refused(pattern):
    with pytest.raises(ValueError, match=r"flags|JavaScript"):
        javascript_regex(pattern)


def test_a_class_lists_ranges_of_characters():
    assert class_of(str.isdigit, range(0x100)) == r"0-9\xb2-\xb3\xb9"

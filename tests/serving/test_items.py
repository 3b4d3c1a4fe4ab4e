"""Errors about one item of a list, in all dialects: they give its index and say what to do."""

import pytest
from tiny_server import ask, loud_backend

LANGUAGES = {"source": "en", "target": "fr"}
DEEPL = {"source_lang": "EN", "target_lang": "FR"}
PAIR = {"src": "a", "tgt": "b"}


@pytest.mark.parametrize(
    ("path", "values", "place", "what"),
    [
        ("/translate", {"q": ["a", "b\0"], **LANGUAGES}, "q[1]", "NUL"),
        ("/translate", {"q": ["a", 3], **LANGUAGES}, "q[1]", "string"),
        ("/translate", {"q": ["a", "abcdef"], **LANGUAGES}, "q[1]", "(6) exceeds text limit (5)"),
        ("/translate", {"q": ["a", "fail"], **LANGUAGES}, "q[1]", "cannot be encoded"),
        ("/translate", {"q": "b\0", **LANGUAGES}, "q parameter", "remove it"),
        ("/translate", {"q": "a", "terms": {"a": 3}, **LANGUAGES}, "terms.a", "string"),
        ("/translate", {"q": "a", "terms": [["a", "b"], ["c", 3]], **LANGUAGES}, "terms[1][1]", "string"),
        ("/translate", {"q": "a", "terms": {"a": "b", "c\0": "d"}, **LANGUAGES}, "terms[1]", "NUL"),
        ("/translate", {"q": "a", "terms": [["a", "b"], ["c", ""]], **LANGUAGES}, "terms[1]", "target words"),
        ("/translate", {"q": "a", "terms": [["a", "b"], ["a ", "c"]], **LANGUAGES}, "terms[1]", "terms[0]"),
        ("/translate", {"q": "a", "terms": [["a", "b"], ["a ", "c"]], **LANGUAGES}, "terms[1]", "' | '"),
        ("/v2/translate", {"text": ["a", "b\0"], **DEEPL}, "text[1]", "NUL"),
        ("/v2/translate", {"text": ["a", "abcdef"], **DEEPL}, "text[1]", "(6) exceeds text limit (5)"),
        ("/v2/translate", {"text": ["a", "<b>x"], "tag_handling": "xml", **DEEPL}, "text[1]", "line 1"),
        ("/v2/translate", {"text": ["a", "fail"], **DEEPL}, "text[1]", "cannot be encoded"),
        ("/api/words", {"sentences": [PAIR, {"src": "a\0", "tgt": "b"}], **LANGUAGES}, "sentences[1].src", "NUL"),
        ("/api/words", {"sentences": [PAIR, {"src": "abcd", "tgt": "ab"}], **LANGUAGES}, "sentences[1]", "(6) exceeds"),
        ("/api/translate", {"text": "a", "terms": [["a", "b"], ["c\0", "d"]], **LANGUAGES}, "terms[1][0]", "remove it"),
        ("/api/translate", {"text": "a", "terms": [["a", "b"], ["c", " "]], **LANGUAGES}, "terms[1]", "target words"),
    ],
)
def test_an_error_names_the_item(path, values, place, what):
    answer = ask("POST", path, loud_backend(limits={"max_chars": 5}), json=values)
    [message] = answer.json().values()
    assert 400 <= answer.status_code < 500
    assert place in message and what in message


def test_a_text_that_is_alone_needs_no_index():
    [message] = ask("POST", "/translate", json={"q": ["fail"], **LANGUAGES}).json().values()
    assert message == "cannot be encoded"

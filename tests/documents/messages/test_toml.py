"""Strings in TOML: what is text, what is not, and that each string keeps its quotes."""

import json
import random
import re
import tomllib
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_documents import loud_around_placeholders, translated

from mtkit.documents.reading import Options, document_of
from mtkit.errors import DataError

MESSAGES = r'''# a comment "x y"
title = "My \"great\" title \u00e9"
"quoted key" = 'Literal \ text'
[menu.file]
open = "Open it's %{name}" # why "not"
long = """
First line \
   goes on ""quoted"" and

last"""
list = ["One two", 'three four', ["nested text", {a = "inner text", "b.c" = "More text"}],
  # comment "no"
  1.50, 2020-01-01, true]
date = 2020-01-01T00:00:00Z
id = "slug-x"
[[a."b c".d]]
x.y = "Dotted key"
'''
RAW = "raw = '''\nRaw \\ text 'q'\nend'''\n"


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_file_translated_into_itself_has_the_same_bytes(newline):
    raw = (MESSAGES + RAW).replace("\n", newline).encode()
    assert translated(raw, "toml").raw == raw
    found = translated(raw, "toml", loud_around_placeholders).raw
    assert found.count(b"\r") == (found.count(b"\n") if newline == "\r\n" else 0)


def test_text_is_translated_and_nothing_else():
    found = translated((MESSAGES + RAW).encode(), "toml", loud_around_placeholders).raw.decode()
    changed = (MESSAGES + RAW).replace(r"My \"great\" title \u00e9", r"MY \"GREAT\" TITLE É")
    changed = changed.replace("First line \\\n   goes on", "FIRST LINE GOES ON").replace("Open it's", "OPEN IT'S")
    for text in (
        r"Literal \ text",
        '""quoted"" and',
        "last",
        "One two",
        "three four",
        "nested text",
        "inner text",
        "More text",
        "Dotted key",
        r"Raw \ text 'q'",
        "end''",
    ):
        changed = changed.replace(text, text.upper())
    assert found == changed


def _given(translation: str, _text: str) -> str:
    return translation


RISKY = ['"', '""', '"""', "'", "'''", "\\", "\\u", "#", "]", "=", "\t", "é😀", "\x7f", "\x01", "\n", "{"]


@pytest.mark.parametrize("quoted", ['"Some text"', "'Some text'", '"""\nSome text"""', "'''Some text'''"])
@pytest.mark.parametrize("risky", RISKY)
def test_any_translation_is_read_as_it_is(quoted, risky):
    for translation in (risky, f"{risky} z", f"y {risky}", f"y {risky}x"):
        found = translated(f"a = [{quoted}, {quoted}] # c\n".encode(), "toml", partial(_given, translation))
        wanted = "Some text" if found.notes else translation
        assert tomllib.loads(found.raw.decode()) == {"a": [wanted, wanted]}
        assert not found.notes or risky == "{"


@given(
    st.dictionaries(
        st.sampled_from(["a", "b c", "é", "x.y", "#", "😀"]),
        st.lists(
            st.lists(st.sampled_from(["Some ", "words", '"', "'", "\\", "\n", "{n}", "é", "#", "="])).map("".join)
        ),
        max_size=4,
    )
)
def test_any_file_comes_back_and_keeps_all_but_its_text(tables):
    lines = [
        f"{json.dumps(key, ensure_ascii=False)} = {{x = {json.dumps(texts, ensure_ascii=False)}, n = 1}}"
        for key, texts in tables.items()
    ]
    raw = "\n".join(lines).replace("\x7f", "\\u007f").encode()
    assert translated(raw, "toml").raw == raw
    before, after = (
        tomllib.loads(found.decode()) for found in (raw, translated(raw, "toml", loud_around_placeholders).raw)
    )
    # Where a reader of ICU messages would take an apostrophe for a quote, it becomes a curly one, or two.
    words = (re.sub("['’]+", "'", json.dumps(found, ensure_ascii=False)).upper().split() for found in (before, after))
    assert list(before) == list(after) and next(words) == next(words)


@pytest.mark.parametrize(
    ("raw", "facts"),
    [
        (b'a = "b"\nc = "d', ["line 2", "not TOML"]),
        (b"a = 1\na = 2", ["line 2", "not TOML"]),
        (b"title: x", ["line 1", "title: x"]),
        (b'a = "caf\xe9"', ["line 1", "0xe9", "UTF-8"]),
        (b"a = " + b"[" * 100_000, ["line 1", "inside each other"]),
        (b".".join([b"a"] * 100_000) + b" = 1", ["line 1", "inside each other"]),
        (b"a = " + b"1" * 10_000, ["number"]),
        (b'a = "' + b'\\"' * 100_000, ["line 1", "not TOML"]),
        (b'a = """' + b'\\"' * 100_000, ["line 1", "not TOML"]),
    ],
)
def test_what_is_no_toml_is_refused_with_its_line(raw, facts):
    with pytest.raises(DataError) as refused:
        document_of(raw, "toml", Options())
    assert all(fact in str(refused.value) for fact in facts)


def test_damaged_files_are_refused_or_keep_their_structure():
    generator = random.Random(0)
    for _ in range(40):
        at, pieces = generator.randrange(len(MESSAGES)), ['"', "'", '"""', "[", "]", "}", ",", "=", "", "\n", "#", "\\"]
        damaged = MESSAGES[:at] + generator.choice(pieces) + MESSAGES[at + generator.randrange(3) :]
        try:
            assert translated(damaged.encode(), "toml").raw == damaged.encode()
        except DataError:
            continue

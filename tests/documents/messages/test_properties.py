"""Strings in properties of Java and in lists of Apple's systems."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_documents import loud_around_placeholders, translated

from mtkit.documents.reading import Options, document_of
from mtkit.errors import DataError

JAVA = r"""# comment = no words
! another
  greeting = Hello, {0}! It''s ''{1}''.
key\ with\ space:Value text
colon   Some value \u00e9t\u00e9
long = This is a long line that continues \
       over two lines and\n\
       more
choice={0,choice,0#no files|1#one file|1<{0} files} found
empty=
single
url=http://x.org/y
plain=Don't do it
"""
APPLE = r"""/* Comment "a" = "b"; */
"Open File" = "Open the file";
// a line
"n" = "%d files \"quoted\"\nnext %@";
bare_key = "Some text
on two lines";
NSKey = bare; "only";
"""


@pytest.mark.parametrize(("text", "name"), [(JAVA, "properties"), (APPLE, "apple")])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_file_translated_into_itself_has_the_same_bytes(text, name, encoding, newline):
    raw = text.replace("\n", newline).encode(encoding)
    assert translated(raw, name).raw == raw
    found = translated(raw, name, loud_around_placeholders).raw.decode(encoding)
    assert found.count("\r") == (found.count("\n") if newline == "\r\n" else 0)


def test_values_are_translated_and_nothing_else():
    found = translated(JAVA.encode(), "properties", loud_around_placeholders).raw.decode()
    changed = JAVA.replace(r"Some value \u00e9t\u00e9", r"SOME VALUE \u00c9T\u00c9")
    for text in (
        "Hello",
        "It''s",
        "Value text",
        "This is a long line that continues",
        "over two lines and",
        "more",
        "no files",
        "one file",
        " files} found",
        "Don't do it",
    ):
        changed = changed.replace(text, text.upper())
    assert found == changed.replace("\\N\\\n       MORE", "\\nMORE").replace("\\n\\\n       MORE", "\\nMORE")


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        (b"a=of the {0}\nb=It''s {0}", b"a=l''eau {0}\nb=It''s {0}"),  # as the file has it
        (b"a=of the {0}\nb=can't {0}", b"a=l'eau {0}\nb=can't {0}"),
        (b"a=of the {0}", b"a=l\\u2019eau {0}"),  # no file tells, and this is right for any program
        (b"a=of the", b"a=l'eau"),
    ],
)
def test_apostrophes_are_doubled_where_the_program_needs_it(raw, wanted):
    assert translated(raw, "properties", lambda text: text.replace("of the", "l'eau")).raw == wanted


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        ("a=un caf\u00e9".encode("latin-1"), b"a=UN CAF\\u00c9"),
        ("a=un café".encode(), "a=UN CAFÉ".encode()),
        (b"a=un caf\\u00E9", b"a=UN CAF\\u00C9"),
        ("a=\\ un cœur".encode(), "a=\\ UN CŒUR".encode()),
        (rb"a=time\: \ud83d\ude00 it", rb"a=TIME\: \ud83d\ude00 IT"),
    ],
)
def test_escapes_are_those_that_java_reads_in_the_encoding_of_the_file(raw, wanted):
    assert translated(raw, "properties").raw == raw
    assert translated(raw, "properties", loud_around_placeholders).raw == wanted


@given(
    st.lists(
        st.lists(st.sampled_from(["Some ", "words", "\\", "\n", "\t", "=", ":", "#", "!", " ", "é", "😀", "{0}"])).map(
            "".join
        )
    )
)
def test_another_parser_reads_what_was_written(texts):
    javaproperties = pytest.importorskip("javaproperties", reason="javaproperties is not installed")
    values = {f"k{index}": text for index, text in enumerate(texts)}
    raw = javaproperties.dumps(values, timestamp=False).encode()
    assert translated(raw, "properties").raw == raw
    found = javaproperties.loads(translated(raw, "properties", loud_around_placeholders).raw.decode())
    assert {key: text.upper().split() for key, text in values.items()} == {
        key: text.upper().split() for key, text in found.items()
    }


def test_lists_of_apple_keep_keys_and_comments():
    found = translated(APPLE.encode(), "apple", loud_around_placeholders).raw.decode()
    changed = APPLE.replace("Open the file", "OPEN THE FILE").replace('files \\"quoted\\"', 'FILES \\"QUOTED\\"')
    assert found == changed.replace("\\nnext", "\\nNEXT").replace("Some text\non two lines", "SOME TEXT\nON TWO LINES")


@pytest.mark.parametrize(
    ("translation", "wanted"),
    [('say "x"', r"say \"x\""), ("a\\b", r"a\\b"), ("é", "é"), ("a\tb", r"a\tb"), ("*/ x", "*/ x")],
)
def test_translations_are_escaped_in_lists_of_apple(translation, wanted):
    found = translated(b'"k" = "Some text";', "apple", lambda _: translation).raw.decode()
    assert found == f'"k" = "{wanted}";'


@pytest.mark.parametrize(
    ("name", "raw", "facts"),
    [
        ("properties", b"a=b\nc=x \\u12 y", ["line 2", "\\u12", "correct"]),
        ("properties", b"a\0b", ["NUL"]),
        ("apple", b'"a" = "b";\n"c" = "d"\n', ["line 2", '"c" = "d"', "correct"]),
        ("apple", b'"a" = "b', ["line 1", "correct"]),
        ("apple", b"<?xml version='1.0'?><plist/>", ["XML", "convert"]),
        ("apple", b'"a" = "' + b'\\"' * 100_000, ["line 1"]),
        ("apple", b"/*" * 100_000, ["line 1"]),
    ],
)
def test_what_is_of_another_format_is_refused_with_its_line(name, raw, facts):
    with pytest.raises(DataError) as refused:
        document_of(raw, name, Options())
    assert all(fact in str(refused.value) for fact in facts)


@pytest.mark.parametrize(("text", "name"), [(JAVA, "properties"), (APPLE, "apple")])
def test_damaged_files_are_refused_or_come_back(text, name):
    generator = random.Random(0)
    assert translated(b"", name).raw == b""
    for _ in range(40):
        at, pieces = generator.randrange(len(text)), ['"', "\\", "{", "'", "=", ":", "", "\n", "/*", ";", "|", "\\u"]
        damaged = text[:at] + generator.choice(pieces) + text[at + generator.randrange(3) :]
        try:
            assert translated(damaged.encode(), name).raw == damaged.encode()
            translated(damaged.encode(), name, loud_around_placeholders)
        except DataError:
            continue

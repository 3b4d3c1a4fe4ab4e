"""Strings in YAML: what is text, what is not, and that each scalar keeps its style."""

import itertools
import random
from functools import partial

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tiny_documents import loud_around_placeholders, translated

from mtkit.documents.messages import yaml as yaml_format
from mtkit.documents.reading import Options, document_of
from mtkit.errors import DataError

LOCALE = r"""# a comment: here
base: &base {a: x_y}
en: &en
  title: "Hello \u00e9, it's \"late\"" # why
  plain: Some plain text
  name: "%{name} has"
  single: 'it''s here'
  flow: {a: one word, b: [Two words, 'four', x_y]}
  anchored: &text Text %{n}
  alias: *text
  count:
    one: one file
    other: "%{count} files"
  formats: {default: "%Y-%m-%d", short: "%b %d"}
  literal: |
    First line
      indented

    Third
  folded: >-
    A long text that is folded over several lines because
    it is so long and goes on

    second part
     indented
    after

  tagged: !!str tagged text
  custom: !ruby/sym foo bar
  merge:
    <<: *base
    wrapped: plain text over
      two lines
    number: 3
    date: 2020-01-01
    nothing: ~
--- # two
- Item text
- ? complex key
  : value text
"""


def test_a_file_translated_into_itself_has_the_same_bytes():
    assert translated(LOCALE.encode(), "yaml").raw == LOCALE.encode()


def test_text_is_translated_and_nothing_else():
    found = translated(LOCALE.encode(), "yaml", loud_around_placeholders).raw.decode()
    changed = LOCALE.replace("plain text over\n      two lines", "PLAIN TEXT OVER TWO LINES")
    changed = changed.replace(r"Hello \u00e9, it's \"late\"", r"HELLO \xc9, IT'S \"LATE\"")
    for text in (
        "Some plain text",
        "it''s here",
        "one word",
        "Two words",
        "'four'",
        "one file",
        "First line",
        "      indented\n",
        "Third",
        "A long text that is folded over several lines because",
        "it is so long and goes on",
        "second part",
        "     indented\n",
        "after",
        "tagged text",
        "Item text",
        "value text",
    ):
        changed = changed.replace(text, text.upper())
    changed = changed.replace("}} files", "}} FILES").replace("Text %{n}", "TEXT %{n}").replace('} has"', '} HAS"')
    assert found == changed.replace("%{count} files", "%{count} FILES")


def test_line_ends_stay():
    text = LOCALE.replace("\n", "\r\n").encode()
    assert translated(text, "yaml").raw == text
    found = translated(text, "yaml", loud_around_placeholders).raw
    assert found.count(b"\r") == found.count(b"\n")


def _given(translation: str, _text: str) -> str:
    return translation


RISKY = [
    "yes",
    "Null",
    "- x",
    "a: b",
    "x #y",
    "'",
    '"',
    "1.5",
    "2020-01-01",
    "end:",
    "[a",
    "x, y]",
    "? x",
    "%a",
    "@a",
    "=",
    "<<",
    "{x",
    "*a",
    "&a",
    "!a",
    "|",
    "> x",
    "`",
    "~",
    "0x1f",
    "1:30",
    "...",
    "---",
    "\\n",
    "a\tb",
    "é",
    "#",
]


@pytest.mark.parametrize("style", [None, "'", '"', "|", ">"])
@pytest.mark.parametrize("is_flow", [False, True])
def test_any_translation_is_read_as_it_is(style, is_flow):
    raw = yaml.safe_dump({"a": ["Some text", {"b": "Some text"}]}, default_style=style, default_flow_style=is_flow)
    for risky, form in itertools.product(RISKY, ("{}", "{} z", "y {}")):
        translation = form.replace("{}", risky)
        found = translated(raw.encode(), "yaml", partial(_given, translation))
        wanted = translation if not found.notes else "Some text"
        assert yaml.safe_load(found.raw) == {"a": [wanted, {"b": wanted}]}, translation
        assert not found.notes or risky in ("{x", "|", "> x", "&a", "%a", "[a", "x, y]"), translation


@given(
    st.lists(
        st.lists(
            st.sampled_from([*(each for each in RISKY if each != "&a"), " ", "\n", "word", "Some words "]), max_size=6
        ).map("".join),
        max_size=4,
    ),
    st.sampled_from([None, "'", '"', "|", ">"]),
    st.booleans(),
    st.sampled_from([20, 80]),
)
def test_any_file_comes_back_and_keeps_all_but_its_text(texts, style, is_flow, width):
    raw = yaml.safe_dump(
        {"a": texts, "n": [1, None]}, default_style=style, default_flow_style=is_flow, width=width
    ).encode()
    assert translated(raw, "yaml").raw == raw
    before, after = (yaml.safe_load(found) for found in (raw, translated(raw, "yaml", loud_around_placeholders).raw))
    assert after["n"] == before["n"]
    assert [text.upper().split() for text in after["a"]] == [text.upper().split() for text in before["a"]]


def test_both_parsers_of_yaml_see_the_same_places(monkeypatch):
    fast = yaml_format.scan(LOCALE)
    monkeypatch.setattr(yaml_format, "_LOADER", yaml.SafeLoader)
    slow = yaml_format.scan(LOCALE)
    assert [value[:3] for value in map(_place, fast.values)] == [value[:3] for value in map(_place, slow.values)]
    assert fast.outline == slow.outline


def _place(value):
    return value.start, value.end, value.text


def test_ruamel_reads_the_same_comments_anchors_and_keys():
    ruamel = pytest.importorskip("ruamel.yaml", reason="ruamel.yaml is not installed")
    reader = ruamel.YAML()
    text = LOCALE.split("---")[0].replace("  custom: !ruby/sym foo bar\n", "")
    before, after = (
        reader.load(found) for found in (text, translated(text.encode(), "yaml", loud_around_placeholders).raw.decode())
    )
    assert list(before["en"]) == list(after["en"]) and after["en"].anchor.value == "en"
    assert after["en"]["alias"] is after["en"]["anchored"] and str(before.ca) == str(after.ca)


def test_a_word_that_is_a_boolean_is_left_and_named():
    found = translated(b"a:\n  ok: Yes\n  on: true\n  q: 'Yes'\n", "yaml", loud_around_placeholders)
    assert found.raw == b"a:\n  ok: Yes\n  on: true\n  q: 'YES'\n"
    assert [note.place for note in found.notes] == ["line 2, a.ok"] and "quotes" in found.notes[0].reason


def test_branches_of_a_message_are_translated_in_a_block():
    text = "a: |-\n  {n, plural,\n    one {# file}\n    other {# files}\n  }\n"
    found = translated(text.encode(), "yaml", loud_around_placeholders).raw.decode()
    assert found == text.replace("# file", "# FILE").replace("FILEs", "FILES")


def test_many_aliases_are_not_expanded():
    bomb = "a: &a [Some words]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(20)
    )
    assert translated(bomb.encode(), "yaml", loud_around_placeholders).raw.decode() == bomb.replace(
        "Some words", "SOME WORDS"
    )


@pytest.mark.parametrize(
    ("raw", "facts"),
    [
        (b"a: b\nc: [1, 2", ["line 2", "not YAML"]),
        (b"a: b\n\tc: d", ["line 2", "tab"]),
        (b'a: "b\n', ["line", "not YAML"]),
        (b"a: \x07", ["line 1", "\\x07", "escape"]),
        (b"a: caf\xe9", ["line 1", "0xe9", "UTF-8"]),
        (b"[" * 20_000, ["line 1", "200", "inside each other"]),
        (b"- " * 20_000, ["line 1", "200", "inside each other"]),
        (b"{a: " * 20_000, ["line 1", "200", "inside each other"]),
    ],
)
def test_what_is_no_yaml_is_refused_with_its_line(raw, facts):
    with pytest.raises(DataError) as refused:
        document_of(raw, "yaml", Options())
    assert all(fact in str(refused.value) for fact in facts)


def test_an_empty_file_stays_empty():
    assert translated(b"", "yaml", loud_around_placeholders).raw == b""


def test_damaged_files_are_refused_or_keep_their_structure():
    generator = random.Random(0)
    for _ in range(40):
        at, pieces = (
            generator.randrange(len(LOCALE)),
            ['"', "'", "\n", "{", "]", ",", "", "- ", ": ", "|\n", "\t", "&x "],
        )
        damaged = LOCALE[:at] + generator.choice(pieces) + LOCALE[at + generator.randrange(3) :]
        try:
            assert translated(damaged.encode(), "yaml").raw == damaged.encode()
            translated(damaged.encode(), "yaml", loud_around_placeholders)
        except DataError:
            continue

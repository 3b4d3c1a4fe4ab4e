"""Strings in JSON: what is text, what is not, and that only the text changes."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_documents import loud_around_placeholders, translated

from mtkit.documents.reading import Options, document_of
from mtkit.errors import DataError
from mtkit.text.placeholders import placeholder_pattern

MESSAGES = r"""{
  "title" : "Hello {{name}}, it's <b>late</b>!", "locale": "en-US",
  "files_one": "{{count}} file",	"files_other": "{{count}} files, see $t(help.more)",
  "icu": "You have {n, plural, =0 {nothing} one {# file} other {# files}}.",
  "list": [ "One two", 3.10, true, null, "my-slug", ["Cancel"] ],
  "quote": "Say \"hi\"\nand go", "format": "MM/DD/YYYY",
  "react": "Open <0>the page</0> now", "type": "primary", "Type": "Type"
}
"""


def test_messages_translated_into_themselves_have_the_same_bytes():
    assert translated(MESSAGES.encode(), "json").raw == MESSAGES.encode()


def test_text_is_translated_and_nothing_else():
    found = translated(MESSAGES.encode(), "json", loud_around_placeholders)
    changed = MESSAGES
    for text in ("Hello", "it's", "late", "One two", "Cancel", "see", "You have", "nothing", "Open", "the page", "now"):
        changed = changed.replace(text, text.upper(), 1)
    changed = changed.replace("}} file", "}} FILE").replace("FILEs", "FILES").replace("# file", "# FILE")
    changed = changed.replace("FILEs", "FILES").replace(r"Say \"hi\"\nand go", r"SAY \"HI\"\nAND GO")
    assert found.raw.decode() == changed.replace('"Type": "Type"', '"Type": "TYPE"') and not found.notes


def test_metadata_of_flutter_stays():
    arb = (
        '{"@@locale": "en", "@@comment": "Some words", "hello": "Hello {x}", "@hello": {"description": "A greeting",'
        ' "placeholders": {"x": {"example": "my friend"}}}}'
    )
    assert translated(arb.encode(), "json", loud_around_placeholders).raw.decode() == arb.replace('"Hello', '"HELLO')


def test_remarks_for_translators_stay_in_messages_of_browser_extensions_and_of_formatjs():
    extension = (
        '{"a": {"message": "Hello $USER$", "description": "Some words",'
        ' "placeholders": {"user": {"content": "$1", "example": "my friend"}}}}'
    )
    formatjs = '{"a": {"defaultMessage": "Hello", "description": "Some words"}}'
    for text in (extension, formatjs):
        found = translated(text.encode(), "json", loud_around_placeholders).raw.decode()
        assert found == text.replace("Hello", "HELLO")
    other = '{"a": {"title": "Hello", "description": "Some words"}}'
    assert "SOME WORDS" in translated(other.encode(), "json", loud_around_placeholders).raw.decode()


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        (r'{"a": "caf\u00e9 noir"}', r'{"a": "CAF\u00c9 NOIR \ud83d\ude00"}'),
        ('{"a": "café noir"}', '{"a": "CAFÉ NOIR 😀"}'),
        ('{"a": "cafe noir"}', '{"a": "CAFE NOIR 😀"}'),
        (r'{"a": "one\/two three"}', r'{"a": "ONE\/TWO THREE 😀"}'),
        (r'{"a": "\u003cb>one\u003c/b> two"}', r'{"a": "\u003cb>ONE\u003c/b> TWO 😀"}'),
        (r'{"a": "tab\there \\ it"}', r'{"a": "TAB\tHERE \\ IT 😀"}'),
    ],
)
def test_escapes_are_written_as_in_the_source(source, wanted):
    found = translated(source.encode(), "json", lambda text: text.upper() + (" 😀" if text[-1] in "rteo" else ""))
    assert found.raw.decode() == wanted


def test_comments_and_last_commas_stay():
    text = '// one "two"\n{"a": "Some words", /* "x": "y z" */ "b": ["c d",], "u": "see http://x.org/a",}\n'
    found = translated(text.encode(), "json", loud_around_placeholders).raw.decode()
    assert found == text.replace("Some words", "SOME WORDS").replace("c d", "C D").replace("see", "SEE")


@pytest.mark.parametrize(
    ("text", "if_shared"),
    [
        ('{"n_one": "A cat", "n_other": "{{count}} cats"}', '{"n_one": "{{count}} CATS", "n_other": "{{count}} CATS"}'),
        (
            '{"n": {"one": "A cat", "other": "%{count} cats"}}',
            '{"n": {"one": "%{count} CATS", "other": "%{count} CATS"}}',
        ),
        ('["{c, plural, one {A cat} other {# cats}}"]', '["{c, plural, one {# CATS} other {# CATS}}"]'),
        ('["{c, plural, one {A cat} other {{c} cats}}"]', '["{c, plural, one {{c} CATS} other {{c} CATS}}"]'),
        ('["{c, plural, one {# cat} other {# cats}}"]', None),
        ('["{c, plural, one {A cat} other {Cats}}"]', None),
        ('["{c, selectordinal, one {A cat} other {#th cat}}"]', None),
        ('{"n_one": "{{count}} cat", "n_other": "{{count}} cats"}', None),
        ('{"n_ordinal_one": "First cat", "n_ordinal_other": "{{count}} cat"}', None),
    ],
)
@pytest.mark.parametrize(("tgt_lang", "is_shared"), [("ru", True), ("sl", True), ("de", False), (None, False)])
def test_the_form_for_one_shows_the_number_if_it_is_for_others_too(text, if_shared, tgt_lang, is_shared):
    found = translated(text.encode(), "json", loud_around_placeholders, tgt_lang=tgt_lang).raw.decode()
    assert "CAT" in found
    if is_shared and if_shared:
        assert found == if_shared
    else:
        assert found.lower() == text.lower()


def test_a_message_whose_syntax_is_damaged_is_left_and_named():
    text = b'{\n "a": {"b": "{n, plural, one {x}"}}'
    found = translated(text, "json", loud_around_placeholders)
    assert found.raw == text
    assert [(note.place, note.kind) for note in found.notes] == [("line 2, a.b", "left")]
    assert "plural" in found.notes[0].reason and "by hand" in found.notes[0].reason


def test_half_of_a_surrogate_pair_is_left_and_named():
    found = translated(rb'{"a": "one \ud83d two"}', "json", loud_around_placeholders)
    assert found.raw == rb'{"a": "one \ud83d two"}' and "surrogate" in found.notes[0].reason


def test_a_translation_that_loses_a_placeholder_is_left_out():
    found = translated(b'{"a": "Hello {name}", "b": "Hello you"}', "json", str.upper)
    assert json.loads(found.raw) == {"a": "Hello {name}", "b": "HELLO YOU"} and "placeholder" in found.notes[0].reason


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_encodings_and_line_ends_stay(encoding):
    text = MESSAGES.replace("\n", "\r\n")
    assert translated(text.encode(encoding), "json").raw == text.encode(encoding)
    assert translated(text.encode(encoding), "json", str.upper).raw.decode(encoding).count("\r\n") == text.count("\r\n")


_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=8),
    st.sampled_from(["Some words", "{n, plural, other {a b}}", "a | b", "{name} x", "it's"]),
)
_TREES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(_TREES, st.booleans(), st.sampled_from([None, 0, 3]))
def test_any_json_comes_back_and_keeps_all_but_its_text(tree, is_ascii, indent):
    raw = json.dumps(tree, ensure_ascii=is_ascii, indent=indent).encode("utf-8", "surrogatepass")
    try:
        raw.decode()
    except UnicodeDecodeError:
        return
    assert translated(raw, "json").raw == raw
    found = json.loads(translated(raw, "json", loud_around_placeholders).raw)
    assert _without_strings(found) == _without_strings(json.loads(raw))


def _without_strings(value):
    if isinstance(value, dict):
        return [(name, _without_strings(inner)) for name, inner in value.items()]
    if isinstance(value, list):
        return [_without_strings(inner) for inner in value]
    return len(placeholder_pattern().findall(value)) if isinstance(value, str) else (type(value), value)


@pytest.mark.parametrize(
    ("raw", "facts"),
    [
        (b'{"a": "b"', ["line 1", "not JSON"]),
        (b'{"a": "b",\n "c" "d"}', ["line 2", "':'", '"d"']),
        (b"", ["line 1", "empty"]),
        (b'{"a": "b\n"}', ["line 1", "control character"]),
        (b"title = Hello", ["line 1", "title", "--format"]),
        (b'{"a": "caf\xe9"}', ["line 1", "0xe9", "UTF-8"]),
        (b"[" * 100_000, ["inside each other"]),
        (b'{"a": "' + b'\\"' * 100_000, ["line 1", "not JSON"]),
        (b"/*" * 100_000, ["line 1", "not JSON"]),
    ],
)
def test_what_is_no_json_is_refused_with_its_line(raw, facts):
    with pytest.raises(DataError) as refused:
        document_of(raw, "json", Options())
    assert all(fact in str(refused.value) for fact in facts)


def test_damaged_files_are_refused_or_keep_their_structure():
    generator = random.Random(0)
    for _ in range(40):
        at, pieces = generator.randrange(len(MESSAGES)), ['"', "\\", "{", "}", ",", "", "\\u12", "//", "'"]
        damaged = MESSAGES[:at] + generator.choice(pieces) + MESSAGES[at + generator.randrange(3) :]
        try:
            assert translated(damaged.encode(), "json").raw == damaged.encode()
        except DataError:
            continue


def test_a_large_file_keeps_every_key():
    messages = {
        f"k{index}": {"text": f"Message number {index} of {{all}}", "id": f"id-{index}"} for index in range(500)
    }
    found = json.loads(translated(json.dumps(messages).encode(), "json", loud_around_placeholders).raw)
    assert found == {
        name: {"text": f"MESSAGE NUMBER {name[1:]} OF {{all}}", "id": value["id"]} for name, value in messages.items()
    }

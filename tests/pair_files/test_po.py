import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.errors import DataError
from mtkit.pair_files.corpus_files import own_languages, read_one_file
from mtkit.pair_files.pairs import Pair, Tally
from mtkit.pair_files.po import entries_of

polib = pytest.importorskip("polib")

HEADER = 'msgid ""\nmsgstr ""\n"Language: de\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'
PO = (
    "# Müller, translator\n#, fuzzy\n"
    + HEADER
    + r"""#: a.c:12
#, c-format
msgid "Open \"%s\"?\n"
msgstr ""
"»%s« "
"öffnen?\n"

#, fuzzy, c-format
#| msgid "old"
msgid "new"
msgstr "alt"
msgctxt "menu"
msgid "Open"
msgstr "Öffnen"

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d Datei"
msgstr[1] "%d Dateien"

msgid "nothing"
msgstr ""

#~ msgid "gone"
#~ msgstr "weg"
"""
)


def write(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "de.po"
    path.write_bytes(text.encode(encoding))
    return path


def test_messages_and_their_translations_come_with_the_line_of_the_message(tmp_path):
    path, tally = write(tmp_path, PO), Tally()
    assert list(read_one_file(path, ("en", "de"), tally)) == [
        Pair('Open "%s"?', "»%s« öffnen?", str(path), 10),
        Pair("Open", "Öffnen", str(path), 20),
        Pair("%d file", "%d Datei", str(path), 23),
        Pair("%d files", "%d Dateien", str(path), 24),
    ]
    assert tally.n_units == 7
    assert tally.left_out == {"fuzzy": 1, "with empty de": 1, "obsolete": 1}
    assert own_languages(path) == ("src", "de")
    assert next(read_one_file(path, ("de", "en")))[:2] == ("»%s« öffnen?", 'Open "%s"?')


def test_polib_reads_the_same(tmp_path):
    path = write(tmp_path, PO)
    expected = []
    for entry in polib.pofile(str(path)).translated_entries():
        if entry.msgid_plural:
            expected += [(entry.msgid, entry.msgstr_plural[0]), (entry.msgid_plural, entry.msgstr_plural[1])]
        else:
            expected.append((entry.msgid, entry.msgstr))
    assert [pair[:2] for pair in read_one_file(path, ("en", "de"))] == [
        (src.strip("\n"), tgt.strip("\n")) for src, tgt in expected
    ]


LETTERS = st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"], include_characters='"\\')
TEXT = st.text(LETTERS, min_size=1).filter(str.strip)


@given(st.dictionaries(TEXT, TEXT, max_size=5))
def test_what_polib_writes_is_read(tmp_path_factory, messages):
    path = tmp_path_factory.mktemp("po") / "x.po"
    file = polib.POFile(wrapwidth=20)
    file.metadata = {"Language": "de", "Content-Type": "text/plain; charset=UTF-8"}
    for src, tgt in messages.items():
        file.append(polib.POEntry(msgid=src, msgstr=tgt))
    file.save(str(path))
    assert {pair.src: pair.tgt for pair in read_one_file(path, ("en", "de"))} == messages


def test_the_charset_of_the_header_is_used(tmp_path):
    latin = PO.replace("UTF-8", "ISO-8859-1").replace("»", "").replace("«", "")
    assert [pair.tgt for pair in read_one_file(write(tmp_path, latin, "latin1"), ("en", "de"))][1] == "Öffnen"
    with pytest.raises(DataError, match=r"de\.po: line 13: byte 0xf6 is not UTF-8.*charset"):
        list(read_one_file(write(tmp_path, PO.replace("»", "").replace("«", ""), "latin1"), ("en", "de")))
    with pytest.raises(DataError, match="charset=XX is not a known encoding"):
        list(read_one_file(write(tmp_path, PO.replace("UTF-8", "XX")), ("en", "de")))


@pytest.mark.parametrize("charset", ["UTF-8", "ISO-8859-1"])
def test_octal_and_hexadecimal_escapes_are_bytes_of_the_charset(tmp_path, charset):
    octal = "".join(f"\\{byte:03o}" for byte in "é€"[: 1 + (charset == "UTF-8")].encode(charset))
    hexadecimal = "".join(f"\\x{byte:x}" for byte in "ß".encode(charset))
    text = f'{HEADER.replace("UTF-8", charset)}msgid "Caf{octal}\\tx"\nmsgstr "Stra{hexadecimal}."\n'
    [pair] = read_one_file(write(tmp_path, text), ("en", "de"))
    assert pair[:2] == ("Café€ x" if charset == "UTF-8" else "Café x", "Straß.")
    with pytest.raises(DataError, match=r"line \d+: msgid: byte 0xff is not UTF-8"):
        list(read_one_file(write(tmp_path, HEADER + 'msgid "Caf\\377"\nmsgstr "x"\n'), ("en", "de")))


@pytest.mark.parametrize(("n_forms", "last"), [(1, "%d 0"), (3, "%d 2")])
def test_the_last_plural_form_translates_the_plural(tmp_path, n_forms, last):
    forms = "".join(f'msgstr[{i}] "%d {i}"\n' for i in range(n_forms))
    path = write(tmp_path, f'msgid "%d file"\nmsgid_plural "%d files"\n{forms}')
    pairs = [pair[:2] for pair in read_one_file(path, ("en", "xx"))]
    assert pairs == [*[("%d file", "%d 0")][: n_forms - 1], ("%d files", last)]


def test_the_form_for_one_translates_the_singular(tmp_path):
    header = HEADER.replace('\\n"\n\n', '\\n"\n"Plural-Forms: nplurals=3; plural=n==0 ? 0 : n==1 ? 1 : 2;\\n"\n\n')
    assert "Plural-Forms" in header
    forms = "".join(f'msgstr[{i}] "%d {i}"\n' for i in range(3))
    path = write(tmp_path, f'{header}msgid "%d file"\nmsgid_plural "%d files"\n{forms}')
    assert [pair[:2] for pair in read_one_file(path, ("en", "de"))] == [("%d file", "%d 1"), ("%d files", "%d 2")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('msgid "a"\nmsgstr "b"\nnonsense\n', "line 3: not a line of a PO file"),
        ('msgid "a\nmsgstr "b"\n', "line 1: not a line of a PO file"),
        ('msgid "a"\nmsgid "b"\n', "line 2: msgid occurs twice"),
        ('"text"\n', "line 1: text before the first msgid"),
        (PO[: PO.index("msgstr[0]")], "ends inside a message"),
        ('msgid "a"\nmsgstr "b "c" d"\n', "line 2: not a line of a PO file"),
        ('msgid "a"\nmsgid_plural "b"\nmsgstr[1] ""\n', r"line 3: msgstr\[1\] where msgstr\[0\]"),
    ],
)
def test_what_is_not_a_po_file_is_refused_with_its_line(tmp_path, text, message):
    path = write(tmp_path, text)
    with pytest.raises(DataError, match=message) as error:
        list(read_one_file(path, ("en", "de")))
    assert str(error.value).startswith(f"{path}: ")


@pytest.mark.parametrize("text", ['msgid "' + "x" * 3000, 'msgid ""\n' + '"xxxxxxxxxxxxxxx"\n' * 100])
def test_a_huge_message_is_refused(tmp_path, monkeypatch, text):
    monkeypatch.setenv("MTKIT_MAX_LINE_BYTES", "1000")
    with pytest.raises(DataError, match=r"line \d+: .* more than 1,000 bytes"):
        list(read_one_file(write(tmp_path, text), ("en", "de")))


def test_several_strings_of_a_line_are_one_text_as_polib_and_gettext_read_them(tmp_path):
    path = write(tmp_path, HEADER + 'msgid "one " "two"\n\t"\\"three\\""  \nmsgstr "eins"\n')
    [pair] = read_one_file(path, ("en", "de"))
    assert pair[:2] == ('one two"three"', "eins")


@pytest.mark.parametrize("charset", ["shift_jis", "big5", "gb18030"])
def test_a_character_whose_last_byte_is_a_backslash_is_read(tmp_path, charset):
    text = {"shift_jis": "表", "big5": "功", "gb18030": "俓"}[charset]
    assert text.encode(charset).endswith(b"\\")
    po = f'{HEADER.replace("UTF-8", charset)}msgid "a"\nmsgstr "{text}"\n'
    assert [pair.tgt for pair in read_one_file(write(tmp_path, po, charset), ("en", "de"))] == [text]


def test_a_comment_in_another_encoding_does_no_harm(tmp_path):
    path = tmp_path / "de.po"
    path.write_bytes(HEADER.encode() + "# Müller\n".encode("latin-1") + 'msgid "a"\nmsgstr "ä"\n'.encode())
    assert [pair.tgt for pair in read_one_file(path, ("en", "de"))] == ["ä"]


@given(st.dictionaries(TEXT, TEXT, max_size=5), st.sampled_from(["\n", "\r\n"]))
def test_an_entry_says_where_it_stands(messages, newline):
    file = polib.POFile(wrapwidth=20)
    file.metadata = {"Language": "de"}
    for number, (src, tgt) in enumerate(messages.items()):
        flags = ["fuzzy"] * (number % 2)
        file.append(polib.POEntry(msgid=src, msgstr=tgt, flags=flags, linenum=number))
    text = str(file).replace("\n", newline)
    entries = list(entries_of(text))
    assert [entry.fields["msgid"].text for entry in entries] == ["", *messages]
    assert [entry.is_fuzzy for entry in entries[1:]] == [number % 2 == 1 for number in range(len(messages))]
    for entry in entries[1:]:
        assert [text[comment.start : comment.end] for comment in entry.comments] == [
            comment.text + newline for comment in entry.comments
        ]
        for key, field in entry.fields.items():
            shown = text[field.start : field.end]
            assert shown.startswith(f"{key} ") and text[field.quote] == '"' == text[field.end - 1]
            assert text[: field.start].count("\n") + 1 == field.line
            [parsed] = polib.pofile(f'{shown}\nmsgstr "x"\n' if key == "msgid" else f'msgid "x"\n{shown}\n')
            assert field.text == (parsed.msgid if key == "msgid" else parsed.msgstr)

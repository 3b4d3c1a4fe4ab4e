import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.errors import DataError
from mtkit.pair_files.corpus_files import own_languages, read_one_file
from mtkit.pair_files.pairs import Pair, Tally

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
    with pytest.raises(DataError, match=r"de\.po: line 11: msgstr: byte 0xf6 is not UTF-8.*charset"):
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('msgid "a"\nmsgstr "b"\nnonsense\n', "line 3: not a line of a PO file"),
        ('msgid "a\nmsgstr "b"\n', "line 1: not a line of a PO file"),
        ('msgid "a"\nmsgid "b"\n', "line 2: msgid comes a second time"),
        ('"text"\n', "line 1: text before the first msgid"),
        (PO[: PO.index("msgstr[0]")], "ends too early, inside a message"),
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

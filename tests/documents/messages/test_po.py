"""PO files: which messages get a translation, how it is written and marked, and that all else stays."""

import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_documents import same, translated

from mtkit.documents.messages.po import quoted
from mtkit.documents.reading import Options, document_of
from mtkit.documents.skeleton import Filled
from mtkit.errors import DataError
from mtkit.pair_files.po import entries_of
from mtkit.text.placeholders import placeholder_pattern

HEADER = r"""# Title
msgid ""
msgstr ""
"Project-Id-Version: x\n"
"PO-Revision-Date: 2024-01-01 00:00+0000\n"
"Last-Translator: x <x@example.org>\n"
"Language-Team: x <x@example.org>\n"
"Language: fr\n"
"MIME-Version: 1.0\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Content-Transfer-Encoding: 8bit\n"
"Plural-Forms: nplurals=3; plural=(n==0 ? 0 : n==1 ? 1 : 2);\n"

"""
PO = (
    HEADER
    + r"""#. a comment
#: a.c:12
#, c-format
msgid "Open \"%s\"?\n"
msgstr ""

#: b.c
msgid "done"
msgstr "fini"

#, fuzzy, c-format
#| msgid "old %s"
msgid "new %s"
msgstr "vieux %s"

#, c-format
msgid "%d file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""

msgctxt "menu"
msgid "E_xit"
msgstr ""

msgid "<b>two</b> <i>words</i>"
msgstr ""

msgid "translator-credits"
msgstr ""

msgid "%s: %d"
msgstr ""

#, fuzzy
#~ msgid "gone"
#~ msgstr "weg"
"""
)


def loud(text: str) -> str:
    """Return the text in upper case, but for its placeholders."""
    at, found = 0, ""
    for match in placeholder_pattern().finditer(text):
        found += text[at : match.start()].upper() + match[0]
        at = match.end()
    return found + text[at:].upper()


def filled(po: str, translate=loud, encoding="utf-8", **options) -> str:
    return translated(po.encode(encoding), "po", translate, **options).raw.decode(encoding)


def test_messages_without_a_good_translation_get_one_and_all_else_stays():
    expected = PO.replace('"Open \\"%s\\"?\\n"\nmsgstr ""', '"Open \\"%s\\"?\\n"\nmsgstr "OPEN \\"%s\\"?\\n"')
    expected = expected.replace('#, fuzzy, c-format\n#| msgid "old %s"\n', "#, c-format\n")
    expected = expected.replace("vieux %s", "NEW %s").replace('msgstr[0] ""', 'msgstr[0] "%d FILES"')
    expected = expected.replace('msgstr[1] ""', 'msgstr[1] "%d FILE"\nmsgstr[2] "%d FILES"')  # 0 is for none
    expected = expected.replace('"E_xit"\nmsgstr ""', '"E_xit"\nmsgstr "E_XIT"')
    expected = expected.replace('</i>"\nmsgstr ""', '</i>"\nmsgstr "<b>TWO</b> <i>WORDS</i>"')
    assert filled(PO) == expected


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_a_finished_file_comes_back_byte_for_byte(newline, bom):
    finished = filled(PO, same)
    raw = (bom + finished).replace("\n", newline).encode()
    assert translated(raw, "po", loud).raw == raw


def test_a_file_with_crlf_gets_lines_with_crlf():
    assert filled(PO.replace("\n", "\r\n")) == filled(PO).replace("\n", "\r\n")


def _checked(tmp_path, po: str, *options: str) -> None:
    if shutil.which("msgfmt") is None:
        pytest.skip("needs GNU gettext")
    (tmp_path / "x.po").write_text(po, encoding="utf-8", newline="")
    command = ["msgfmt", "--check", *options, "-o", "/dev/null", "x.po"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")


def test_msgfmt_accepts_the_result(tmp_path):
    _checked(tmp_path, filled(PO), "--check-accelerators=_")


def test_polib_reads_the_same_messages_and_comments_before_and_after():
    polib = pytest.importorskip("polib")
    before, after = polib.pofile(PO), polib.pofile(filled(PO))
    for entry in [*before, *after]:
        entry.flags = [flag for flag in entry.flags if flag != "fuzzy"]

    def kept(entry):
        return entry.msgctxt, entry.msgid, entry.msgid_plural, entry.comment, entry.occurrences, entry.flags

    assert [kept(entry) for entry in before] == [kept(entry) for entry in after]
    assert before.metadata == after.metadata
    assert after.find("%d file").msgstr_plural == {0: "%d FILES", 1: "%d FILE", 2: "%d FILES"}  # 0 is for none
    assert [entry.msgstr for entry in after.obsolete_entries()] == ["weg"]
    assert after.find("done").msgstr == "fini"


def test_a_doubtful_translation_is_marked_as_fuzzy():
    po = HEADER + '#. note\nmsgid "one"\nmsgstr ""\n\n#, c-format\nmsgid "two %s"\nmsgstr ""\n\n'
    po += '#, fuzzy\n#| msgid "old"\nmsgid "three"\nmsgstr "x"\n'
    part = document_of(po.encode(), "po", Options()).parts[0]
    texts = ["un", "deux %s", "trois"]
    merged, left = part.merged({index: Filled(text, True) for index, text in enumerate(texts)})
    assert not left
    assert merged == HEADER + (
        '#. note\n#, fuzzy\nmsgid "one"\nmsgstr "un"\n\n#, fuzzy, c-format\nmsgid "two %s"\nmsgstr "deux %s"\n\n'
        '#, fuzzy\nmsgid "three"\nmsgstr "trois"\n'
    )


def test_a_translation_that_loses_a_placeholder_is_left_out():
    po = HEADER + '#, c-format\nmsgid "two %s"\nmsgstr ""\n'
    found = translated(po.encode(), "po", lambda text: "deux")
    assert found.raw.decode() == po
    assert [(note.kind, note.place) for note in found.notes] == [("left", "line 15")]
    assert "placeholder" in found.notes[0].reason


def test_a_language_of_one_form_gets_it_from_the_plural():
    po = HEADER.replace("nplurals=3; plural=(n==0 ? 0 : n==1 ? 1 : 2)", "nplurals=1; plural=0")
    po += 'msgid "one file"\nmsgid_plural "%d files"\nmsgstr[0] ""\n'
    assert filled(po).endswith('msgstr[0] "%d FILES"\n')


_FORMS = {  # of the gettext manual, and of CLDR; with the numbers, 1 aside, that the form for 1 stands for
    "German": ("nplurals=2; plural=n != 1;", 0, ()),
    "French": ("nplurals=2; plural=n>1;", 0, (0,)),
    "Russian": ("nplurals=3; plural=n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2;",
                0, (21, 31)),
    "Polish": ("nplurals=3; plural=n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2;", 0, ()),
    "Slovenian": ("nplurals=4; plural=n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3;", 0, (101,)),
    "shifted": ("nplurals=4; plural=(n%100==1 ? 1 : n%100==2 ? 2 : n%100==3 || n%100==4 ? 3 : 0);", 1, (101,)),
    "Latvian": ("nplurals=3; plural=(n%10==0 || (n%100>=11 && n%100<=19)) ? 0 : ((n%10==1 && n%100!=11) ? 1 : 2);",
                1, (21,)),
    "Arabic": ("nplurals=6; plural=n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5;",
               1, ()),
    "unreadable": ("nplurals=2; plural=n/0;", 0, ()),
}  # fmt: skip


@pytest.mark.parametrize("language", _FORMS)
@pytest.mark.parametrize("singular", ["one file", "%d file"])
def test_a_plural_form_for_several_numbers_keeps_the_number(language, singular, tmp_path):
    forms, for_one, others = _FORMS[language]
    po = HEADER.replace("nplurals=3; plural=(n==0 ? 0 : n==1 ? 1 : 2);", forms)
    po += f'#, c-format\nmsgid "{singular}"\nmsgid_plural "%d files"\n'
    po += "".join(f'msgstr[{index}] ""\n' for index in range(int(forms[len("nplurals=")])))
    expected = dict.fromkeys(range(int(forms[len("nplurals=")])), "%d FILES")
    if not others or "%d" in singular:
        expected[for_one] = singular.upper().replace("%D", "%d")
    polib = pytest.importorskip("polib")
    [entry] = polib.pofile(filled(po))
    assert entry.msgstr_plural == expected
    assert not entry.flags.count("fuzzy")
    if language != "unreadable":
        _checked(tmp_path, filled(po))


def test_a_template_without_a_number_of_forms_keeps_those_it_has():
    po = HEADER.replace("nplurals=3; plural=(n==0 ? 0 : n==1 ? 1 : 2)", "nplurals=INTEGER; plural=EXPRESSION")
    po += 'msgid "one file"\nmsgid_plural "%d files"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    assert filled(po).endswith('msgstr[0] "ONE FILE"\nmsgstr[1] "%d FILES"\n')


@pytest.mark.parametrize("encoding", ["iso-8859-1", "cp1252", "euc-jp"])
def test_the_encoding_of_the_header_is_kept_and_what_it_cannot_write_is_left_out(encoding):
    po = HEADER.replace("UTF-8", encoding) + '# ×\nmsgid "one"\nmsgstr ""\n\nmsgid "two"\nmsgstr ""\n'
    found = translated(po.encode(encoding), "po", lambda text: {"one": "£", "two": "₪"}[text])
    assert found.raw == po.replace('"one"\nmsgstr ""', '"one"\nmsgstr "£"').encode(encoding)
    [note] = found.notes
    assert "'₪'" in note.reason and "UTF-8" in note.reason


def test_a_long_translation_is_wrapped_as_gettext_does_it(tmp_path):
    if shutil.which("msgcat") is None:
        pytest.skip("needs GNU gettext")
    texts = [" ".join(["word", "some", "translation"] * n) for n in (1, 4, 5, 6, 9, 30)]
    texts += ["one\ntwo\n", "one\n", "\none", f"{texts[3]}\n\n{texts[4]}\n", 'a "quoted" \\ one\t']
    for text in texts:
        entry = f'msgid "x"\n{quoted(text, "msgstr ", chr(10), is_wrapped=True)}\n'
        (tmp_path / "x.po").write_text(HEADER + entry, encoding="utf-8")
        found = subprocess.run(["msgcat", "x.po"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        assert found.endswith(f"\n\n{entry}")


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=200), st.booleans())
def test_a_quoted_text_reads_as_it_was(text, is_wrapped):
    po = f'msgid "x"\n{quoted(text, "msgstr ", chr(10), is_wrapped=is_wrapped)}\n'
    [entry] = entries_of(po)
    assert entry.forms[0].text == text


_TEXTS = ["word", "two words", "%s", "%(name)s", "{0}", "\\n", "\\t", '\\"', "\\\\", " ", "<b>", "</b>", "&amp;", "é",
          "&x", "_x", "A long sentence of many words that a program shows. ", "https://example.org/x",
          "\\033[1m"]  # fmt: skip
_MESSAGES = st.lists(st.sampled_from(_TEXTS), max_size=8).map("".join)


@given(st.lists(st.tuples(_MESSAGES, st.sampled_from(["", "#, fuzzy\n", "#, c-format, fuzzy\n"])), max_size=5))
def test_any_messages_translated_into_themselves_are_their_own_translation(messages):
    po = HEADER + "\n".join(f'{flags}msgctxt "{n}"\nmsgid "{m}"\nmsgstr ""\n' for n, (m, flags) in enumerate(messages))
    found = filled(po, same)
    before, after = list(entries_of(po)), list(entries_of(found))
    assert [entry.fields["msgid"].text for entry in before] == [entry.fields["msgid"].text for entry in after]
    for entry in after[1:]:
        assert entry.forms[0].text in ("", entry.fields["msgid"].text)
        text = placeholder_pattern().sub("", re.sub(r"</?\w[^>]*>|\x1b\[1m|&\w+;", "", entry.fields["msgid"].text))
        assert entry.forms[0].text or not any(map(str.isalpha, text))
    assert filled(found, loud) == found


@given(st.integers(0, len(PO)), st.sampled_from(["", '"', "\\", "\n", "#", "msgid", "\r", "#, fuzzy\n", "msgstr[1]"]))
def test_a_damaged_file_is_refused_or_keeps_what_it_has(at, piece):
    for damaged in (PO[:at] + piece + PO[at:], PO[:at] + piece):
        try:
            translated(damaged.encode(), "po", loud)
        except DataError as error:
            assert re.search(r"line \d+|unknown encoding", str(error))


@pytest.mark.parametrize(
    ("po", "facts"),
    [
        ('msgid "a"\nmsgstr "b\n', "line 2.*not a line of a PO file.*msgstr"),
        ('msgid "a"\n\n', "line 1.*without msgstr.*copy it again"),
        ('msgid "a"\nmsgid "b"\nmsgstr ""\n', "line 2: msgid occurs twice"),
        ('msgstr "b"\n', "line 1: msgstr without a msgid"),
        ('"b"\n', "line 1: text before"),
        ('msgid "a"\nmsgid_plural "b"\nmsgstr[1] ""\n', r"line 3: msgstr\[1\].*msgstr\[0\]"),
        ('msgid "a"\nmsgstr[0] ""\n', r"line 2: msgstr\[0\].*msgid_plural"),
        ('{"a": "b"}\n', "line 1.*PO file"),
        ("\n\nhello \xff\n", "line 3.*PO file"),
        ('msgid "\\377"\nmsgstr ""\n', "line 1.*UTF-8"),
        ('msgid ""\nmsgstr "Content-Type: text/plain; charset=nonsense\\n"\n', "nonsense.*UTF-8"),
    ],
)
def test_what_is_no_po_file_is_refused_with_its_line(po, facts):
    with pytest.raises(DataError, match=facts):
        document_of(po.encode(), "po", Options())


def test_bytes_of_another_encoding_are_refused_with_their_line():
    with pytest.raises(DataError, match=r"line 2.*0xe9.*utf-8"):
        document_of('msgid "a"\nmsgstr "é"\n'.encode("latin-1"), "po", Options())


def test_an_empty_file_stays_empty():
    assert translated(b"", "po").raw == b""


def test_a_header_without_a_language_is_remarked_upon():
    document = document_of(HEADER.replace("Language: fr", "Language: ").encode(), "po", Options(tgt_lang="de"))
    [remark] = document.remarks
    assert "Language: de" in remark
    assert not document_of(HEADER.encode(), "po", Options(tgt_lang="de")).remarks

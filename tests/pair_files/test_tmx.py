import gzip
import io
import lzma
import os
import subprocess
import sys
import zipfile

import pytest

from mtkit.errors import DataError
from mtkit.pair_files import one_file
from mtkit.pair_files.corpus_files import own_languages, read_one_file
from mtkit.pair_files.pairs import Pair, Tally

HEADER = '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4"><header srclang="en"/><body>\n'
END = "</body></tmx>\n"


def unit(**texts: str) -> str:
    variants = (f'<tuv xml:lang="{code.replace("_", "-")}"><seg>{text}</seg></tuv>' for code, text in texts.items())
    return f"<tu>{''.join(variants)}</tu>\n"


def tmx(tmp_path, *units, header=HEADER, end=END, encoding="utf-8"):
    path = tmp_path / "m.tmx"
    path.write_bytes((header + "".join(units) + end).encode(encoding))
    return path


def texts(path, langs=("en", "de"), tally=None):
    return [(pair.src, pair.tgt) for pair in read_one_file(path, langs, tally)]


def test_pairs_have_the_number_of_their_unit_and_units_without_a_language_are_counted(tmp_path):
    units = unit(en="one", de="eins"), unit(en="two", fr="deux"), unit(en="three", de=" "), unit(de="d", en="e")
    path = tmx(tmp_path, *units)
    tally = Tally()
    assert list(read_one_file(path, ("en", "de"), tally)) == [
        Pair("one", "eins", str(path), 1),
        Pair("e", "d", str(path), 4),
    ]
    assert tally.n_units == 4
    assert dict(tally.left_out) == {"without de": 1, "with empty de": 1}
    summary = str(tally)
    assert summary.startswith("2 pairs of 4 units")
    assert summary.endswith("left out: 1 without de, 1 with empty de")


@pytest.mark.parametrize(
    ("inside", "text"),
    [
        ("Press <bpt i='1'>&lt;b&gt;</bpt>OK<ept i='1'>&lt;/b&gt;</ept>.", "Press OK."),
        ("one<ph type='lb'/>two", "one two"),
        ("one<ph>&lt;br/></ph>two", "one two"),
        ("one <ph>{\\field}</ph> two", "one two"),
        ("You have <ph x='1'>%1$d</ph> files in <ph>{{ name }}</ph>", "You have %1$d files in {{ name }}"),
        ("cell<ph x='9'>&lt;tab/&gt;</ph>cell", "cell cell"),
        ("cell<ph>&lt;w:tab/&gt;</ph>cell", "cell cell"),
        ("one<ut>\\par </ut>two", "one two"),
        ("one<ut>\\b </ut>two", "onetwo"),
        ("a <hi type='x'>big <hi>red</hi></hi> dog", "a big red dog"),
        ("see<ph>&lt;fn&gt;<sub>a footnote</sub>&lt;/fn&gt;</ph> here", "see here"),
        ("a<it pos='begin'>&lt;i&gt;</it>b", "ab"),
        ("  line one\n\t line two ", "line one line two"),
        ("tab\there", "tab here"),
        ("A &amp; B &lt;c&gt; &#228;&#x1F600; <![CDATA[<&>]]>", "A & B <c> ä😀 <&>"),
    ],
)
def test_inline_codes_leave_the_text_that_a_reader_sees(tmp_path, inside, text):
    assert texts(tmx(tmp_path, unit(en=inside, de="x"))) == [(text, "x")]


def test_a_language_is_found_with_its_region_and_the_exact_code_comes_first(tmp_path):
    path = tmx(tmp_path, unit(en_US="color", en_GB="colour", de="Farbe"))
    tally = Tally()
    assert texts(path, ("en", "de"), tally) == [("color", "Farbe")]
    assert tally.n_variants == 1
    assert texts(path, ("en-GB", "de_DE")) == [("colour", "Farbe")]
    assert texts(path, ("de", "en-gb")) == [("Farbe", "colour")]
    assert texts(path, ("en-US", "en-GB")) == [("color", "colour")]


def test_of_several_texts_in_one_language_the_first_is_read_and_the_others_are_counted(tmp_path):
    two = unit(en="a", de="b").replace("</tu>", '<tuv xml:lang="de"><seg>c</seg></tuv></tu>')
    tally = Tally()
    assert texts(tmx(tmp_path, two), tally=tally) == [("a", "b")]
    assert "1 further" in str(tally)


def test_a_file_without_the_language_asked_for_lists_its_languages_with_counts(tmp_path):
    path = tmx(tmp_path, unit(en="a", de="b"), unit(en="a", de_AT="b"))
    with pytest.raises(DataError, match=r"m\.tmx: .*en and it; .* en \(2\), de \(1\), de-AT \(1\)"):
        texts(path, ("en", "it"))
    with pytest.raises(DataError, match=r"both en and de \(2 with empty de\); "):
        texts(tmx(tmp_path, unit(en="a", de=""), unit(en="b", de=" "), unit(fr="a", de="c")), ("en", "de"))


def test_codes_that_differ_by_region_alone_are_one_language(tmp_path):
    path = tmx(tmp_path, unit(en_US="a", de_DE="b"), unit(EN_GB="c", DE_AT="d"), unit(en_US="e", DE_AT="f"))
    assert own_languages(path) == ("en", "de")
    assert texts(path, None) == [("a", "b"), ("c", "d"), ("e", "f")]


@pytest.mark.parametrize(
    "units",
    [
        [unit(en="a", de="b"), unit(en="a", fr="b")],
        [unit(en="a", pt_PT="b", pt_BR="c")],  # two translations of each unit
        [unit(en="a", zh_Hans="b"), unit(en="a", zh_Hant="c")],
        [unit(en="a", zh_CN="b"), unit(en="a", zh_TW="c")],
        [unit(en_US="a", sr_Latn_RS="b"), unit(en_US="a", sr_Cyrl_RS="c")],
    ],
)
def test_three_languages_or_scripts_are_not_chosen_from(tmp_path, units):
    path = tmx(tmp_path, *units)
    assert own_languages(path) is None
    with pytest.raises(DataError, match=r"which two.*en.*\(\d\)\. Choose.*--langs"):
        texts(path, None)


def test_counts_of_the_beginning_of_a_file_are_called_so(tmp_path):
    path = tmx(tmp_path, *[unit(en="a", de="b", fr="c")] * 1001)
    with pytest.raises(DataError, match=r"en \(1,000\), .* in its first 1,000 units\. Choose"):
        texts(path, None)


def test_without_languages_those_of_a_file_with_two_are_read(tmp_path):
    path = tmx(tmp_path, unit(en_US="a", de_DE="b"), unit(de_DE="c", en_US="d"))
    assert own_languages(path) == ("en-US", "de-DE")
    assert texts(path, None) == [("a", "b"), ("d", "c")]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "cp1252", "iso8859-15"])
def test_the_encoding_is_that_of_the_declaration_or_the_bom(tmp_path, encoding):
    declared = {"utf-8-sig": "UTF-8", "utf-16": "UTF-16", "cp1252": "windows-1252"}.get(encoding, encoding)
    header = HEADER.replace("UTF-8", declared)
    assert texts(tmx(tmp_path, unit(en="café €", de="ä"), header=header, encoding=encoding)) == [("café €", "ä")]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_the_mark_of_utf16_counts_more_than_the_declaration(tmp_path, encoding):
    header = "\ufeff" + HEADER  # declares UTF-8, as in a file that Windows has saved again
    assert texts(tmx(tmp_path, unit(en="café €", de="😀"), header=header, encoding=encoding)) == [("café €", "😀")]


@pytest.mark.parametrize(
    ("source", "attributes", "langs"),
    [
        ("en", "", ("en-US", "de")),
        ("de-DE", "", ("de", "en-US")),
        ("*all*", "", ("de", "en-US")),
        ("ja", "", ("de", "en-US")),
        ("*all*", ' srclang="EN-us"', ("en-US", "de")),
        ("en", ' srclang="de"', ("de", "en-US")),
    ],
)
def test_the_source_is_the_language_that_the_header_or_the_unit_names(tmp_path, source, attributes, langs):
    units = unit(de="eins", en_US="one").replace("<tu>", f"<tu{attributes}>")
    path = tmx(tmp_path, units, header=HEADER.replace('"en"', f'"{source}"'))
    assert own_languages(path) == langs
    assert texts(path, None) == [("one", "eins") if langs[0] == "en-US" else ("eins", "one")]


@pytest.mark.parametrize(
    ("name", "place"),
    [
        *(("m.tmx", "m.tmx: unit 7"), ("M.TMX.gz", "M.TMX.gz: unit 7"), ("a.zip:x/m.xlf", "a.zip:x/m.xlf: unit 7")),
        *(("a.tsv", "a.tsv:7"), ("a.po", "a.po:7"), ("a.tmx.en", "a.tmx.en:7")),
    ],
)
def test_a_place_is_a_unit_where_lines_do_not_count(name, place):
    assert Pair("a", "b", name, 7).place == place


def test_an_old_file_with_a_doctype_lang_and_a_prefix_is_read(tmp_path):
    old = '<!DOCTYPE tmx SYSTEM "tmx11.dtd">\n<tmx><body>'
    assert texts(tmx(tmp_path, unit(en="a", de="b").replace("xml:lang", "lang"), header=old)) == [("a", "b")]
    prefixed = '<t:tmx xmlns:t="x" xmlns:o="y"><t:tu><o:tuv><t:seg>no</t:seg></o:tuv>' + "".join(
        f'<t:tuv xml:lang="{code}"><t:seg>{code} <o:x>no</o:x></t:seg></t:tuv>' for code in ("en", "de")
    )
    assert texts(tmx(tmp_path, header=prefixed, end="</t:tu></t:tmx>")) == [("en ", "de ")]


BOMB = '<!DOCTYPE tmx [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (BOMB + "<tmx><body><tu>&b;", "line 1: the DOCTYPE has declarations"),
        ('<!DOCTYPE tmx [<!ENTITY x SYSTEM "file:///etc/passwd">]><tmx>&x;', "line 1: the DOCTYPE has declarations"),
        ('<!DOCTYPE tmx SYSTEM "t.dtd"><tmx>\n<body>&x;', "line 2: &x; is not declared"),
        ("<tmx>\n<body>\n<tu><tuv xml:lang='en'><seg>a</seg>", "line 3, column .*ends too early, after 1 unit"),
        ("<tmx>\n<body></tmx>", "line 2, column .*mismatched tag"),
        ("<tmx>\n<tu>\n<tuv><seg>a</seg></tuv>", "line 3: unit 1: .*xml:lang"),
        ("<tmx>\n<tu>\n<tu></tu></tu>", "line 3: unit 1: a <tu> inside it"),
        ("<xliff></xliff>", "not a tmx file: its root element is <xliff>"),
        ("", "line 1, column 1: the file ends too early"),
        ("source\ttarget\n", "line 1, column 1: not valid XML"),
        ("<tmx>" + "<a>" * 300, "more than 200 elements inside each other"),
        ("<?xml version='1.0' encoding='shift_jis'?><tmx/>", "convert the file to UTF-8"),
        ("<?xml version='1.0' encoding='nonsense'?><tmx/>", "unknown encoding"),
    ],
)
def test_a_damaged_or_hostile_file_is_refused_with_its_place(tmp_path, content, message):
    path = tmp_path / "m.tmx"
    path.write_text(content)
    with pytest.raises(DataError, match=message) as error:
        texts(path)
    assert str(error.value).startswith(f"{path}: ")


@pytest.mark.parametrize("name", ["m.tmx", "m.po", "m.csv", "m.jsonl", "m.tsv", "m.xlf"])
def test_a_packed_file_under_another_name_is_told_with_its_ending(tmp_path, name):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.en", "text" * 1000)
    for suffix, content in (
        (".zip", buffer.getvalue()),
        (".gz", gzip.compress(b"text")),
        (".xz", lzma.compress(b"text")),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=rf"{name}: line 1.* rename it to end in \{suffix}"):
            list(read_one_file(tmp_path / name, ("en", "de")))


@pytest.mark.parametrize(("text", "remedy"), [("a\1b", "control character 0x01"), ("a&nbsp;b", "the character itself"),
                                             ("Salt & pepper", "&amp;"), ("R&D", "&amp;"), ("x?a=1&b=2", "&amp;"),
                                             ("a < b", "&lt;"), ("a <3", "&lt;")])  # fmt: skip
@pytest.mark.parametrize("n_before", [0, 1 << 16])  # bytes, so that the place is in the second piece that is read
def test_what_xml_does_not_allow_comes_with_the_remedy(tmp_path, text, remedy, n_before):
    with pytest.raises(DataError, match=rf"m\.tmx: line 3, column \d+: .*{remedy}") as error:
        texts(tmx(tmp_path, unit(en=f"{'x' * n_before} {text}", de="b")))
    assert "encoding" not in str(error.value)


def test_a_byte_that_is_not_in_the_declared_encoding_is_told_with_the_remedy(tmp_path):
    path = tmp_path / "m.tmx"
    path.write_bytes((HEADER + unit(en="caf\u00e9", de="x") + END).encode("latin1"))
    with pytest.raises(DataError, match=r"m.tmx: line 3, column \d+: .*0xe9.*encoding=\"windows-1252\""):
        texts(path)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_reference_to_a_character_that_xml_forbids_does_not_stop_a_memory(tmp_path, encoding):
    bad = "a&#1;b &#x1F;c&#xFFFF; &#xD800;&#x110000;&#xe9;&#9;&#x1F600;"
    header = HEADER.replace("UTF-8", encoding)
    path = tmx(tmp_path, unit(en=bad, de="x"), unit(en="y", de="z"), header=header, encoding=encoding)
    tally = Tally()
    assert texts(path, tally=tally) == [("ab c \xe9 \U0001f600", "x"), ("y", "z")]
    assert "5 references" in tally.remark()


@pytest.mark.parametrize("n_before", range(60))
def test_a_bad_reference_is_found_on_the_border_of_two_reads(tmp_path, monkeypatch, n_before):
    monkeypatch.setattr("mtkit.pair_files.xml_units._CHUNK_BYTES", 30)
    path = tmx(tmp_path, unit(en="x" * n_before + "&#x1F;&#65;&amp;y", de="d"))
    assert texts(path) == [("x" * n_before + "A&y", "d")]


HUGE = {
    "text": (b"<tmx><tu><tuv xml:lang='en'><seg>", b"x" * 1023 + b"\n", "unit 1 has more than 1,000,000 characters"),
    "texts": (b"<tmx><tu>", b"<tuv xml:lang='en'><seg>x</seg></tuv>" * 30, "unit 1 has more than 1,000,000 characters"),
    "attribute": (b"<tmx><tu x='", b"x" * 1024, "a tag or comment has more than 1,000,000 bytes"),
    "comment": (b"<tmx><!-- ", b"x" * 1024, "a tag or comment has more than 1,000,000 bytes"),
    "names": (b"<tmx>", None, "more than 100,000 different names"),
}


class _Endless(io.RawIOBase):
    """A beginning, and then gigabytes of the same."""

    def __init__(self, beginning: bytes, more: bytes | None) -> None:
        self.beginning, self.more = beginning, more
        self.n_bytes = 0

    def readable(self):
        return True

    def readinto(self, buffer):
        n, self.n_bytes = self.n_bytes, self.n_bytes + len(buffer)
        assert self.n_bytes < 1 << 32, "all was read"
        if not n:
            data = self.beginning
        elif self.more:
            data = self.more * (len(buffer) // len(self.more))
        else:
            data = b"".join(b"<e%d/>" % i for i in range(n, n + len(buffer) // 16))
        buffer[: len(data)] = data
        return len(data)


@pytest.mark.parametrize("case", HUGE)
def test_what_has_no_end_is_refused_in_bounded_memory(monkeypatch, case):
    monkeypatch.setenv("MTKIT_MAX_LINE_BYTES", "1_000_000")
    beginning, more, message = HUGE[case]
    file = _Endless(beginning, more)
    with pytest.raises(DataError, match=message):
        list(one_file.pairs(io.BufferedReader(file, 1 << 16), ".tmx", "huge.tmx", ("en", "de"), Tally()))
    assert file.n_bytes < 20_000_000


def test_a_file_of_any_size_is_read_in_the_same_memory(tmp_path):
    code = f"""
import io, resource, tracemalloc
from mtkit.pair_files import one_file
from mtkit.pair_files.pairs import Tally
class File(io.RawIOBase):
    n = 0
    def read(self, size):
        self.n += 1
        if self.n == 1: return {HEADER.encode()!r}
        if self.n < 60: return {unit(en="A sentence.", de="Ein Satz.").encode()!r} * 500
        return {END.encode()!r} * (self.n == 60)
tracemalloc.start()
n = sum(1 for _ in one_file.pairs(File(), ".tmx", "m.tmx", ("en", "de"), Tally()))
print(n, tracemalloc.get_traced_memory()[1])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    n_pairs, n_bytes = map(int, done.stdout.split())
    assert n_pairs == 29_000
    assert n_bytes < 2_000_000

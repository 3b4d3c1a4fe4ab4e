import io

import pytest

from mtkit.errors import DataError
from mtkit.pair_files.corpus_files import own_languages, read_one_file
from mtkit.pair_files.pairs import Pair, Tally
from mtkit.pair_files.xliff import xliff_units

TWELVE = """<?xml version="1.0"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2" xmlns:sdl="x">
<file original="a.html" source-language="en-US" target-language="de" datatype="html"><header><note>no</note></header>
<body>
<group id="g"><trans-unit id="1"><source>Click <g id="1">here</g><x id="2"/>!</source>
<seg-source><mrk mtype="seg" mid="1">Click here!</mrk></seg-source>
<target state="translated">Klicken Sie <g id="1">hier</g><x id="2"/>!</target>
<alt-trans><source>Press</source><target>Drücken</target></alt-trans></trans-unit></group>
<trans-unit id="2"><source>Two</source></trans-unit>
<trans-unit id="3"><source>Three</source><target state="needs-translation">Three</target></trans-unit>
<trans-unit id="4" translate="no"><source>ABC</source><target>ABC</target></trans-unit>
<trans-unit id="5"><source>Hi <ph id="1">{0}</ph>, <bpt id="2">&lt;b&gt;</bpt>you<ept id="2">&lt;/b&gt;</ept></source>
<target>Hallo <ph id="1">{0}</ph>, <mrk mtype="x-b">du</mrk></target></trans-unit>
<trans-unit id="6"><source>Hello <x id="INTERPOLATION" equiv-text="{{name}}"/></source>
<target>Hallo <x id="INTERPOLATION" equiv-text="{{name}}"/></target><sdl:source>no</sdl:source></trans-unit>
</body></file></xliff>
"""
TWO = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="de"><file id="f">
<unit id="1"><segment state="final"><source>One <pc id="1">bold</pc><ph id="2"/></source>
<target>Ein <pc id="1">fett</pc></target></segment>
<ignorable><source> </source></ignorable><segment><source>Two</source>
<target>Zwei<cp hex="0007"/></target></segment></unit>
<unit id="2"><segment state="initial"><source>Three</source><target>Three</target></segment></unit>
<unit id="3" translate="no"><segment><source>X</source><target>X</target></segment></unit>
<unit id="4"><mtc:matches xmlns:mtc="m"><mtc:match><source>no</source><target>no</target></mtc:match></mtc:matches>
<segment><source>Four</source><target>Vier</target></segment></unit></file></xliff>
"""


def test_xliff_1_gives_translated_units_without_codes(tmp_path):
    path = tmp_path / "a.xlf"
    path.write_text(TWELVE)
    tally = Tally()
    assert list(read_one_file(path, ("en", "de"), tally)) == [
        Pair("Click here!", "Klicken Sie hier!", str(path), 1),
        Pair("Hi {0}, you", "Hallo {0}, du", str(path), 5),
        Pair("Hello {{name}}", "Hallo {{name}}", str(path), 6),
    ]
    assert tally.n_units == 6
    assert tally.left_out == {"without de": 1, "not translated yet, by their state": 1, "not to be translated": 1}
    assert own_languages(path) == ("en-US", "de")


def test_xliff_2_gives_the_segments_of_units(tmp_path):
    path = tmp_path / "a.xliff"
    path.write_text(TWO)
    tally = Tally()
    assert [(pair.src, pair.tgt, pair.line) for pair in read_one_file(path, None, tally)] == [
        ("One bold", "Ein fett", 1),
        ("Two", "Zwei", 2),
        ("Four", "Vier", 5),
    ]
    assert tally.left_out == {"not translated yet, by their state": 1, "not to be translated": 1}


def test_the_target_language_can_be_the_source(tmp_path):
    path = tmp_path / "a.xliff"
    path.write_text(TWO)
    assert next(read_one_file(path, ("de", "en")))[:2] == ("Ein fett", "One bold")


INHERITED = {
    "1.2": "<file source-language='en' target-language='de'><group translate='no'><trans-unit>{a}</trans-unit>"
    "<group><trans-unit>{b}</trans-unit></group><trans-unit translate='yes'>{c}</trans-unit></group>"
    "<trans-unit>{d}</trans-unit></file>",
    "2.0": "<file translate='no'><unit><segment>{a}</segment></unit><group><unit><segment>{b}</segment></unit></group>"
    "<unit translate='yes'><segment>{c}</segment></unit></file><file><unit><segment>{d}</segment></unit></file>",
}


@pytest.mark.parametrize("version", INHERITED)
def test_what_is_not_to_be_translated_holds_for_all_inside_up_to_a_yes(tmp_path, version):
    path, tally = tmp_path / "a.xlf", Tally()
    texts = {name: f"<source>{name}</source><target>{name}!</target>" for name in "abcd"}
    path.write_text(f"<xliff srcLang='en' trgLang='de'>{INHERITED[version].format(**texts)}</xliff>")
    assert [pair.src for pair in read_one_file(path, ("en", "de"), tally)] == ["c", "d"]
    assert tally.left_out == {"not to be translated": 2}


def test_a_file_does_not_have_the_languages_of_the_one_before(tmp_path):
    path = tmp_path / "a.xlf"
    files = "".join(
        f"<file source-language='en'{code}><trans-unit><source>a</source><target>b</target></trans-unit></file>"
        for code in (" target-language='fr'", "")
    )
    path.write_text(f"<xliff>{files}</xliff>")
    assert len(list(read_one_file(path, ("en", "de")))) == 1


def test_a_file_without_translations_has_one_language(tmp_path):
    path = tmp_path / "a.xlf"
    unit = "<trans-unit><source>a</source></trans-unit>"
    path.write_text(f"<xliff><file source-language='en' target-language='de'>{unit}</file></xliff>")
    with pytest.raises(DataError, match=r"a\.xlf: text in one language only: en \(1\)"):
        list(read_one_file(path, None))


def test_files_of_other_languages_are_counted_and_only_they_are_an_error(tmp_path):
    path = tmp_path / "a.xlf"
    body = "<body><trans-unit id='1'><source>a</source><target>b</target></trans-unit></body>"
    files = [f"<file source-language='en' target-language='{code}'>{body}</file>" for code in ("de", "fr")]
    path.write_text(f"<xliff>{''.join(files)}</xliff>")
    tally = Tally()
    assert len(list(read_one_file(path, ("en", "fr"), tally))) == 1
    assert tally.left_out == {"without fr": 1}
    with pytest.raises(DataError, match=r"en and it; .*en \(2\), de \(1\), fr \(1\)"):
        list(read_one_file(path, ("en", "it")))


def test_a_file_that_names_no_target_language_is_read_as_the_one_asked_for(tmp_path):
    path = tmp_path / "a.xlf"
    path.write_text(
        "<xliff><file source-language='en'><trans-unit><source>a</source><target>b</target></trans-unit></file></xliff>"
    )
    assert [pair[:2] for pair in read_one_file(path, ("en", "fr"))] == [("a", "b")]
    assert [pair[:2] for pair in read_one_file(path, ("fr", "en"))] == [("b", "a")]


def test_a_truncated_file_is_told(tmp_path):
    path = tmp_path / "a.xlf"
    path.write_text(TWELVE[:900])
    with pytest.raises(DataError, match=r"a\.xlf: line \d+, column \d+: .* after 5 units"):
        list(read_one_file(path, ("en", "de")))


STATES_12 = {  # of a target: whether its text is a translation, by what XLIFF 1.2 says of each
    **dict.fromkeys(["new", "needs-translation", "needs-l10n"], False),
    **dict.fromkeys(["needs-adaptation", "needs-review-adaptation", "needs-review-l10n"], True),
    **dict.fromkeys(["needs-review-translation", "translated", "signed-off", "final", "x-own"], True),
}


@pytest.mark.parametrize("state", STATES_12)
@pytest.mark.parametrize("approved", ["", " approved='yes'"])
def test_a_target_whose_text_still_needs_work_is_left_out_unless_its_unit_is_approved(tmp_path, state, approved):
    path, tally = tmp_path / "a.xlf", Tally()
    unit = f"<trans-unit{approved}><source>a</source><target state='{state}'>b</target></trans-unit>"
    path.write_text(f"<xliff><file source-language='en' target-language='de'>{unit}</file></xliff>")
    is_good = STATES_12[state] or bool(approved)
    assert [pair.tgt for pair in read_one_file(path, ("en", "de"), tally)] == ["b"] * is_good
    assert tally.left_out == ({} if is_good else {"not translated yet, by their state": 1})


@pytest.mark.parametrize("prefix", ["", "x:"])
def test_a_unit_says_at_which_bytes_it_stands(prefix):
    etree = pytest.importorskip("lxml.etree")
    unit = "<X:trans-unit id='1' ><X:source>a > é</X:source >\r\n<X:target/></X:trans-unit\n>"
    xml = f"<X:xliff xmlns:X='u'><!-- é𝔸 <X:trans-unit> -->{unit * 1500}<X:trans-unit/></X:xliff>"
    raw = xml.replace("xmlns:X", "xmlns:x" if prefix else "xmlns").replace("X:", prefix).encode()
    expected = [etree.tostring(each) for each in etree.fromstring(raw)[1:-1]]  # without the comment and the last
    found = list(xliff_units(io.BytesIO(raw)))[:-1]
    cut = [raw[each.start : raw.index(b">", each.end) + 1] for each in found]
    assert len(raw) > 100_000 and len(cut) == len(expected) == 1500
    declaration = b" xmlns:x='u'" if prefix else b" xmlns='u'"
    whole = [etree.fromstring(each.replace(b"trans-unit", b"trans-unit" + declaration, 1)) for each in cut]
    assert [etree.tostring(each, with_tail=False) for each in whole] == [
        etree.tostring(etree.fromstring(each), with_tail=False) for each in expected
    ]


def test_a_unit_inside_another_is_refused_with_its_line(tmp_path):
    path = tmp_path / "a.xlf"
    path.write_text("<xliff>\n<trans-unit>\n<trans-unit/></trans-unit></xliff>")
    with pytest.raises(DataError, match=r"a\.xlf: line 3: unit 1: a <trans-unit> inside it"):
        list(read_one_file(path, ("en", "de")))

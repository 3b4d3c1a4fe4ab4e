"""Documents through a real, if small, model: from a file to a file, and in memory."""

import codecs
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_documents import loud, translated

from mtkit.bundle import read_bundle
from mtkit.documents.document import Part
from mtkit.documents.filling import LEFT, fill, sentences_to_translate
from mtkit.documents.reading import Options, document_of
from mtkit.documents.report import summary, write_report
from mtkit.documents.sentence_translator import SentenceTranslator
from mtkit.documents.sentences import Translated
from mtkit.documents.skeleton import Edit, Filled, Reading, Segment, apply, hold_out
from mtkit.documents.translate import translate_document, translate_file, translate_text
from mtkit.errors import DataError, MtkitError, UsageError
from mtkit.jobs.executors import InProcess
from mtkit.quality.faults import FAULT_KINDS
from mtkit.text.inline import Inline
from mtkit.translation import term_search
from mtkit.translation.loading import load_shared

PAGE = "<p>the <b>red</b> cat</p>\n<ul><li>two dogs</li><li>two dogs</li></ul><img alt='one cat'>\n"


@pytest.mark.parametrize("kind", [*FAULT_KINDS, "unfinished", "foreign", "codes"])
def test_each_fault_of_a_sentence_becomes_a_note(kind):
    document = document_of(b"two dogs", "text", Options())
    filled = fill(document, {"two dogs": Translated("deux", (kind,))})
    assert len(filled.notes) == 1


@pytest.fixture(scope="module")
def shared(shared_bundle):
    return load_shared([read_bundle(shared_bundle, ["decode.engine=native"])], InProcess())


def test_a_file_becomes_a_file_with_the_same_tags(shared, tmp_path):
    source, target = tmp_path / "a.html", tmp_path / "b.html"
    source.write_text(PAGE)
    result = translate_file(source, target, shared, Options())
    assert result is not None
    assert (result.n_segments, result.n_sentences, result.n_codes) == (4, 4, 1)
    found = target.read_text()
    plain = shared.translator.translate(["two dogs", "one cat"])
    assert found.count(f"<li>{plain[0]}</li>") == 2
    assert f"<img alt='{plain[1]}'>" in found
    assert source.read_text() == PAGE
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "b.html"]
    assert translate_text(shared.translator, PAGE, format="html") == found


def test_a_killed_job_goes_on_with_the_same_bytes(shared, tmp_path, monkeypatch):
    source, target = tmp_path / "a.txt", tmp_path / "b.txt"
    numbers = ["one", "two", "three", "four", "five"]
    source.write_text("".join(f"{a} {b} {c} cats\n" for a in numbers for b in numbers for c in numbers))
    monkeypatch.setattr(type(shared.translator), "window", property(lambda _: 20))
    expected = translate_text(shared.translator, source.read_text())
    translate, windows = SentenceTranslator.translate, []

    def killed(self, batch, first_line=None):
        windows.append(first_line)
        if len(windows) == 4:
            raise KeyboardInterrupt
        return translate(self, batch, first_line)

    monkeypatch.setattr(SentenceTranslator, "translate", killed)
    with pytest.raises(KeyboardInterrupt):
        translate_file(source, target, shared, Options())
    assert not target.exists()
    translate_file(source, target, shared, Options())
    assert target.read_text() == expected
    assert windows == [1, 21, 41, 61, 61, 81, 101, 121], "what was done is not done again"


def test_equal_sentences_are_translated_once():
    found = sentences_to_translate(document_of(PAGE.encode(), "html", Options()))
    assert [(sentence.text, sentence.is_marked) for sentence in found] == [
        ("the red cat", True), ("two dogs", False), ("one cat", False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "raw", "facts"),
    [
        ("a.xyz", b"text", ["xyz", "--format", "html"]),
        ("a.html", b"<p>caf\xe9", ["line 1", "0xe9", "utf-8", "cp1252", "café", "--encoding cp1252"]),
        ("a.txt", "one cat".encode("utf-16-be"), ["NUL", "--encoding UTF-16BE"]),
        ("a.txt", "café".encode("utf-16-le"), ["line 1", "0xe9", "--encoding UTF-16LE"]),
        ("a.html", b"<meta charset=klingon>", ["klingon", "UTF-8"]),
        ("a.txt", b"a\0b", ["NUL"]),
        ("a.html", b"PK\x03\x04...", ["zip", "--format"]),
        ("a.txt", b"%PDF-1.7", ["PDF"]),
        ("a.html", b"<meta charset=utf-7>+ADw-", ["utf-7", "UTF-8"]),
        ("a.html", "<img alt=a>\U000ffffc<img alt='b'>".encode(), ["U+FFFFC"]),
    ],
)
def test_what_cannot_be_read_is_named_and_nothing_is_written(shared, tmp_path, name, raw, facts):
    source, target = tmp_path / name, tmp_path / "out"
    source.write_bytes(raw)
    with pytest.raises(MtkitError) as error:
        translate_file(source, target, shared, Options())
    assert all(fact in str(error.value) for fact in [*facts, str(source)])
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("encoding", ["cp1252", "iso8859-1", "utf-16-le", "utf-16", "UTF-8-SIG", "utf-32-be"])
@pytest.mark.parametrize(
    ("format_name", "text"),
    [
        ("text", "The café.\r\n"),
        ("csv", "id,text\n1,The café is open.\n2,The other one is not.\n"),
        ("html", "<meta charset=utf-8><p>The café."),
        ("json", '{"a": "The café."}'),
        ("markdown", "The café.\n"),
        ("po", 'msgid "The café."\nmsgstr ""\n'),
        ("properties", "a=The café.\n"),
        ("subtitles", "1\n00:00:01,000 --> 00:00:02,000\nThe café.\n"),
        ("xliff", '<?xml version="1.0" encoding="utf-8"?><xliff version="1.2" '
         'xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="en" target-language="fr" datatype="x" '
         'original="x"><body><trans-unit id="1"><source>The café.</source></trans-unit></body></file></xliff>'),
    ],
)  # fmt: skip
def test_a_text_in_a_given_encoding_is_translated_into_it(format_name, text, encoding):
    raw = text.encode(encoding)
    without_bom = raw.removeprefix(codecs.BOM_UTF16_LE).removeprefix(codecs.BOM_UTF8)
    for source in (raw, without_bom):
        found = translated(source, format_name, str.upper, encoding=encoding)
        assert "THE CAFÉ" in found.raw.decode(encoding).replace("\\u00c9", "É")
        assert not found.notes
        assert found.raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF8)) == (source != without_bom)


def test_the_encoding_can_be_given_in_python(shared, tmp_path):
    (tmp_path / "a.txt").write_bytes("one café\n".encode("utf-16-le"))
    done = translate_document(shared.translator, tmp_path / "a.txt", tmp_path / "b.txt", encoding="utf-16-le")
    assert done.n_segments == 1
    assert (tmp_path / "b.txt").read_bytes().decode("utf-16-le").endswith("\n")


def test_a_byte_order_mark_counts_more_than_the_option():
    assert translated("\ufeffThe café.".encode("utf-16-be"), "text", str.upper, encoding="cp1252").raw.decode(
        "utf-16-be"
    ) == "\ufeffTHE CAFÉ."  # fmt: skip


@pytest.mark.parametrize(("format_name", "text"), [("text", "One cat.\nTwo.\n"), ("json", '["One cat.", "Two."]')])
def test_a_translation_that_the_encoding_cannot_write_is_left_out_with_a_remedy(format_name, text):
    found = translated(text.encode(), format_name, lambda line: line.replace("cat", "кот"), encoding="cp1252")
    assert found.raw == text.encode()
    assert [(note.kind, note.src) for note in found.notes] == [("left", "One cat.")]
    assert all(fact in found.notes[0].reason for fact in ("'к'", "UTF-8"))


def test_an_encoding_is_for_texts_and_must_be_one():
    for format_name, encoding in (("docx", "cp1252"), ("text", "klingon"), ("text", "rot13")):
        with pytest.raises(UsageError, match=f"--encoding.*{'docx' if format_name == 'docx' else encoding}"):
            translated(b"PK", format_name, encoding=encoding)


def test_a_document_that_is_too_large_is_refused_before_it_is_read(shared, tmp_path):
    source = tmp_path / "a.txt"
    with source.open("wb") as file:
        file.truncate(500_000_000)
    with pytest.raises(DataError, match="500 MB"):
        translate_file(source, tmp_path / "b.txt", shared, Options())


def test_an_output_that_is_the_document_is_refused(shared, tmp_path):
    source = tmp_path / "a.txt"
    source.write_text("two dogs\n")
    with pytest.raises(UsageError):
        translate_file(source, source, shared, Options())
    assert source.read_text() == "two dogs\n"


def _part(text: str) -> Part:
    """Return a part of a format whose lines are segments, and whose structure is the number of its lines."""

    def read(text: str) -> Reading:
        segments: list[Segment] = []
        at = 0
        for line in text.split("\n"):
            segments.append(Segment.at(at, at + len(line), Inline(line, line, ()), f"line {len(segments) + 1}"))
            at += len(line) + 1
        return Reading(text, segments)

    return Part("", text, str, read, lambda text: text.count("\n"), str.encode)


def test_translations_that_would_change_the_structure_are_left_out():
    part = _part("a\nb\nc\nd\ne")
    translations = {index: Filled(text) for index, text in enumerate(["A", "B\nB", "C", "D", "E\n"])}
    text, left = part.merged(translations)
    assert (text, list(left)) == ("A\nb\nC\nD\ne", [1, 4])
    assert all("structure" in why for why in left.values())


def test_very_many_culprits_take_no_more_checks_than_some():
    part, n_checks = _part("\n".join("x" * 3000)), 0

    def counting(text: str) -> int:
        nonlocal n_checks
        n_checks += 1
        return text.count("\n")

    translations = {index: Filled("y" if index % 2 else "y\ny") for index in range(3000)}
    text, left = replace(part, structure=counting).merged(translations)
    assert text.count("\n") == 2999
    assert set(range(0, 3000, 2)) <= set(left)
    assert n_checks < 210  # not one for each of 1,500 culprits


def test_edits_that_overlap_are_an_error():
    with pytest.raises(ValueError, match="overlap"):
        apply("abc", [Edit(0, 2, "x"), Edit(1, 3, "y")])


def test_what_is_held_out_comes_back():
    text = "a [one] b [two]"
    held = hold_out(text, [(3, 6), (11, 14)])
    values = [Segment.at(0, 0, Inline(one, one, ()), "") for one in ("one", "two")]
    reading = Reading(held, [], values)
    assert reading.merged({}) == text
    assert reading.merged({1: Filled("deux")}) == "a [one] b [deux]"


def test_an_empty_translation_leaves_the_segment_and_is_reported(tmp_path):
    document = document_of(PAGE.encode(), "html", Options())
    results = {sentence.text: Translated("", ("empty",)) for sentence in sentences_to_translate(document)}
    results["two dogs"] = Translated("deux deux", ("loop",))
    found = fill(document, results)
    assert found.raw.decode() == PAGE.replace("two dogs", "deux deux")
    assert [(note.kind, note.place) for note in found.notes][:2] == [(LEFT, "line 1"), ("check", "line 2")]
    lines = list(summary(found))
    assert "left in the source language: 2" in lines[0]
    assert "line 1" in lines[1]
    write_report(tmp_path / "r.jsonl", Path("a.html"), Path("b.html"), found, ("en", "fr"))
    assert json.loads((tmp_path / "r.jsonl").read_text().splitlines()[0])["src"] == "the red cat"
    write_report(tmp_path / "r.html", Path("a.html"), Path("b.html"), found, ("en", "fr"))
    page = (tmp_path / "r.html").read_text()
    assert "repeats itself" in page
    assert "a.html" in page


def test_a_document_without_problems_has_no_notes():
    assert translated(PAGE.encode(), "html", loud).notes == ()


@pytest.mark.parametrize("nothing", ["", " "])
def test_a_paragraph_without_a_translation_stays_also_where_nothing_checks_translations(nothing):
    page = "<p>One cat. Two <b>cats</b>.</p><p>three dogs</p>"
    found = translated(page.encode(), "html", lambda text: nothing if "Two" in text else text.upper())
    assert found.raw.decode() == page.replace("three dogs", "THREE DOGS")
    assert [(note.kind, note.src) for note in found.notes] == [(LEFT, "One cat. Two cats.")]


def test_terms_are_put_in_and_counted(shared_bundle, tmp_path, log_text, monkeypatch):
    monkeypatch.setattr(term_search, "_MOST_LOST", math.inf)  # to a model without training, each phrase is unlikely
    (tmp_path / "terms.tsv").write_text("source\ttarget\ncats\ttable\n")
    settings = ["decode.engine=native", f"decode.terminology={tmp_path / 'terms.tsv'}", "decode.beam_size=12"]
    shared = load_shared([read_bundle(shared_bundle, settings)], InProcess())
    source, target = tmp_path / "a.html", tmp_path / "b.html"
    source.write_text("<p>two <b>cats</b>.<p>red cats.")
    translate_file(source, target, shared, Options())
    assert target.read_text().count("table") == 2
    assert "terminology: 2 of 2 terms met" in log_text()

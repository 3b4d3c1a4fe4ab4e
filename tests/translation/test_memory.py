"""A translation memory in translation: exact matches are used unchanged, and similar ones are reported."""

import json
import logging
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mtkit.bundle import read_bundle
from mtkit.cli import app
from mtkit.documents.filling import MATCH, fill, sentences_to_translate
from mtkit.documents.reading import Options, document_of
from mtkit.documents.report import write_report
from mtkit.documents.sentence_translator import SentenceTranslator
from mtkit.documents.translate import translate_document, translate_text
from mtkit.errors import DataError
from mtkit.memory.index import write_memory
from mtkit.pair_files.pairs import Pair
from mtkit.scoring.scoring import score_candidates
from mtkit.translation.candidates import join_candidates
from mtkit.translation.translator import Translator

UNITS = ("two dogs\tDEUX\n", "one {cat}\tUN {cat}\n", "one %s\tUN\n", "It has 5 big red dogs.\tCINQ\n")


@pytest.fixture(scope="module")
def memory(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("memory") / "m.tsv"
    path.write_text("".join(UNITS))
    return path


@pytest.fixture(scope="module")
def translator(shared_bundle, memory) -> Translator:
    return Translator.load(shared_bundle, engine="native", memory=str(memory))


@pytest.fixture(scope="module")
def plain(shared_bundle) -> Translator:
    return Translator.load(shared_bundle, engine="native")


def test_an_exact_match_is_used_and_other_lines_do_not_change(translator, plain):
    lines = ["two  dogs", "", "two cats", "one {cat}", "It has 6 big red dogs."]
    found = list(translator.stream(lines))
    without = plain.translate(lines)
    assert [one.text for one in found] == ["DEUX", "", without[2], "UN {cat}", without[4]]
    assert [[match.percent for match in one.matches] for one in found] == [[100], [], [], [100], [85]]


@pytest.mark.parametrize("line", ["Two dogs", "two dogs 5", "one {dog}", "one %s"])
def test_other_numbers_placeholders_or_case_are_not_exact_and_a_unit_without_its_placeholder_is_not_used(
    translator, plain, line
):
    assert translator.translate([line]) == plain.translate([line])


def test_a_sentence_of_a_line_can_have_an_exact_match(memory, shared_bundle):
    memory = memory.with_name("sentences.tsv")
    memory.write_text("It rains.\tIL PLEUT.\n")
    translator = Translator.load(shared_bundle, engine="native", memory=str(memory))
    translator.reader.by_sentence = True
    [found] = translator.stream(["Two dogs sleep. It rains."])
    assert found.text.endswith(" IL PLEUT.")
    assert found.n_segments == 1  # one segment for the model


def test_the_tokens_of_an_exact_match_are_not_scored(translator):
    exact, other = score_candidates(translator, list(translator.stream(["two dogs", "two cats"])))
    assert (exact[0].pieces, other[0].problem) == ([], None)
    assert "memory" in (exact[0].problem or "")


def test_the_counts_of_matches_are_logged_and_absorbed(translator, caplog):
    sessions = [translator.session(), translator.session()]
    for session in sessions:
        session.translate(["two dogs", "", "It has 6 big red dogs.", "two cats"])
    sessions[0].absorb(json.loads(json.dumps(sessions[1].note())))
    with caplog.at_level(logging.INFO, "mtkit"):
        sessions[0].report()
    assert "translation memory: 2 of 6 texts" in caplog.text
    assert "2 had a similar one" in caplog.text


def test_a_memory_that_never_matches_says_so_for_lines_and_documents_and_no_memory_says_nothing(
    translator, plain, caplog
):
    with caplog.at_level(logging.INFO, "mtkit"):
        list(plain.stream(["two cats"]))
        assert "memory" not in caplog.text
        list(translator.stream(["two cats"]))
        assert "0 of 1 text had an exact match" in caplog.text
        translate_text(translator, "two cats\n\none cat\n")
    assert "0 of 2 texts had an exact match" in caplog.text


def test_words_that_begin_a_translation_rule_the_memory_out(translator, plain):
    [with_memory], [without] = (t.session(prefix="the").translate(["two dogs"]) for t in (translator, plain))
    assert with_memory.text == without.text


def test_a_memory_in_other_languages_is_refused_and_names_the_remedy(shared_bundle, tmp_path):
    files = read_bundle(shared_bundle)
    langs = files.config.data.src_lang, files.config.data.tgt_lang
    assert "src" not in langs
    write_memory(tmp_path / "m.sqlite", [Pair("a", "b", "m.tsv", 1)], (langs[1], langs[0]))
    with pytest.raises(DataError, match=f"--langs {langs[0]},{langs[1]}"):
        Translator.load(shared_bundle, memory=str(tmp_path / "m.sqlite"))
    write_memory(tmp_path / "m.sqlite", [Pair("a", "b", "m.tsv", 1)], langs)
    assert Translator.load(shared_bundle, engine="native", memory=str(tmp_path / "m.sqlite")).translate(["a"]) == ["b"]
    with pytest.raises(DataError, match="no such file"):
        Translator.load(shared_bundle, memory=str(tmp_path / "missing.tmx"))


def test_a_document_uses_exact_matches_and_its_report_shows_them(translator, tmp_path):
    document = document_of(b"<p>two <b>dogs</b></p><p>It has 6 big red dogs.</p>", "html", Options())
    sentences = sentences_to_translate(document)
    found = SentenceTranslator(translator).translate(sentences)
    filled = fill(document, dict(zip((s.text for s in sentences), found, strict=True)))
    assert b"DEUX" in filled.raw
    assert b"<b>" in filled.raw
    exact, similar = filled.matches
    assert (exact.kind, exact.src, exact.tgt) == (MATCH, "two dogs", "DEUX")
    assert "85 %" in similar.reason and "It has 5 big red dogs. → CINQ" in similar.reason
    for name in ("report.html", "report.jsonl"):
        write_report(tmp_path / name, Path("a.html"), Path("b.html"), filled, ("en", "fr"))
        assert "m.tsv:1" in (tmp_path / name).read_text()


PARAGRAPH = "It rains. Two dogs sleep."


@pytest.mark.parametrize(
    ("format", "text", "expected"),
    [
        ("text", f"{PARAGRAPH}\n\nIt rains.\n", "TOUT.\n\nIL PLEUT.\n"),
        ("markdown", PARAGRAPH.replace(". ", ".\n") + "\n", "TOUT.\n"),  # a wrapped paragraph
        ("html", "<p>It rains. <b>Two dogs sleep.</b></p>", "<p><b>TOUT.</b></p>"),
        ("po", f'msgid "{PARAGRAPH}"\nmsgstr ""\n', f'msgid "{PARAGRAPH}"\nmsgstr "TOUT."\n'),
        ("markdown", f"- {PARAGRAPH} It rains.\n", None),  # only a part of the paragraph
    ],
)
def test_a_whole_paragraph_of_the_memory_is_used_before_its_sentences(shared_bundle, tmp_path, format, text, expected):
    (tmp_path / "m.tsv").write_text(f"{PARAGRAPH}\tTOUT.\nIt rains.\tIL PLEUT.\n")
    translator = Translator.load(shared_bundle, engine="native", memory=str(tmp_path / "m.tsv"))
    translator.reader.by_sentence = True
    translated = translate_text(translator, text, format=format)
    assert translated == expected or (expected is None and "TOUT" not in translated and "IL PLEUT." in translated)
    assert translator.translate([PARAGRAPH]) == ["TOUT."]


def test_a_paragraph_of_a_file_is_used_too(shared_bundle, tmp_path):
    (tmp_path / "m.tsv").write_text(f"{PARAGRAPH}\tTOUT.\n")
    (tmp_path / "a.txt").write_text(f"{PARAGRAPH}\n")
    translator = Translator.load(shared_bundle, engine="native", memory=str(tmp_path / "m.tsv"))
    assert translate_document(translator, tmp_path / "a.txt", tmp_path / "b.txt").raw == b"TOUT.\n"


def test_the_json_of_a_line_has_its_match(shared_bundle, memory):
    result = CliRunner().invoke(
        app, ["translate", "--model", str(shared_bundle), "--set", f"decode.memory={memory}", "--json", "two dogs"]
    )
    record = json.loads(result.stdout)
    [hypothesis] = record["hypotheses"]
    # the model gave it no probability
    assert hypothesis == {"text": "DEUX", "score": None, "log_prob": None, "finished": True, "from_memory": True}
    assert record["matches"] == [{"score": 100, "source": "two dogs", "target": "DEUX", "place": "m.tsv:1"}]


def test_a_line_that_is_partly_from_memory_has_the_score_of_the_other_part(translator):
    exact, other = (one.n_best for one in translator.stream(["two dogs", "two cats"]))
    [joined] = join_candidates([exact, other])
    assert (exact[0].is_from_memory, joined.is_from_memory, joined.score) == (True, False, other[0].score)

import re
from pathlib import Path

import pytest

from mtkit.config.data import UNNAMED, CorpusFiles
from mtkit.corpora.cleaning.sources import find_corpora, parse_langs
from mtkit.errors import DataError, UsageError
from mtkit.memory.index import write_memory
from mtkit.pair_files.pairs import Pair

TMX = '<tmx><tu><tuv xml:lang="en-US"><seg>a</seg></tuv><tuv xml:lang="de"><seg>b</seg></tuv></tu></tmx>'


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = "a.tsv", "b.en-fr.tsv.gz", "t.en", "t.de", "t.fr.gz", "plain1", "plain2", "d.en", "d.de", "x.de-en.jsonl"
    for name in names:
        Path(name).write_text("")
    Path("m.tmx").write_text(TMX)
    Path("folder").mkdir()
    write_memory(Path("built"), [Pair("a", "b", "m.tmx", 1)], ("en", "de"))
    Path("c.yaml").write_text(
        "data: {src_lang: en, tgt_lang: de, train: [{tsv: a.tsv}, {file: m.tmx}], dev: {src: d.en, tgt: d.de}}\n"
        "train: {max_steps: 1}"
    )


def found(*names, langs=None):
    return find_corpora(list(map(Path, names)), langs)


def test_each_kind_of_argument_becomes_corpora():
    corpora, langs = found("a.tsv", "t.en", "t.de", "m.tmx")
    assert corpora == [
        CorpusFiles(tsv=Path("a.tsv")),
        CorpusFiles(src=Path("t.en"), tgt=Path("t.de")),
        CorpusFiles(file=Path("m.tmx"), langs=("en", "de")),
    ]
    assert langs == ("en", "de")


def test_the_training_text_of_a_config_is_meant():
    corpora, langs = found("c.yaml", "t.en", "t.de")
    assert [corpus.paths[0].name for corpus in corpora] == ["a.tsv", "m.tmx", "t.en"]
    assert corpora[1].langs == langs == ("en", "de")


@pytest.mark.parametrize(
    ("names", "langs", "expected"),
    [
        (["a.tsv"], None, UNNAMED),
        (["plain1", "plain2"], None, UNNAMED),
        (["plain1", "plain2"], "en-de", ("en", "de")),
        (["b.en-fr.tsv.gz"], None, ("en", "fr")),
        (["a.tsv", "t.en", "t.fr.gz"], None, ("en", "fr")),
        (["m.tmx"], None, ("en-US", "de")),
        (["x.de-en.jsonl"], None, ("de", "en")),
        (["m.tmx"], "de-en", ("de", "en")),
        (["a.tsv"], "en,pt-BR", ("en", "pt-BR")),
    ],
)
def test_languages_are_given_or_in_names_or_files(names, langs, expected):
    assert found(*names, langs=langs)[1] == expected


def test_text_files_the_other_way_round_change_places():
    [corpus], _ = found("t.en", "t.de", langs="de-en")
    assert (corpus.src, corpus.tgt) == (Path("t.de"), Path("t.en"))


@pytest.mark.parametrize(
    ("names", "langs", "error", "message"),
    [
        (["t.en"], None, UsageError, r"t\.en: one side"),
        (["t.en", "m.tmx"], None, UsageError, r"t\.en: one side"),
        (["t.en", "t.en"], None, UsageError, r"t\.en: named twice"),
        (["folder"], None, UsageError, "folder: this is a folder; give the files in it"),
        (["built"], None, UsageError, "built: a memory .* give the files that it was built from"),
        (["no.tsv"], None, DataError, r"no\.tsv: no such file"),
        (["t.en", "no.de"], None, DataError, r"no\.de: no such file"),
        (["b.en-fr.tsv.gz", "t.en", "t.de"], None, UsageError, "en-fr and en-de.*--langs"),
        (["a.tsv"], "en", UsageError, "--langs en: give two"),
        (["a.tsv"], "en-en", UsageError, "same language"),
        (["a.tsv"], "en-pt-BR", UsageError, "--langs en-pt-BR.*comma"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(names, langs, error, message):
    with pytest.raises(error, match=message):
        found(*names, langs=langs)


def test_codes_are_parsed():
    assert parse_langs("en-pt_BR") == ("en", "pt_BR")


@pytest.mark.parametrize(
    ("langs", "hint"),
    [
        ("xx-de", "xx is not"),
        ("english-de", r"english is not .*en \(English\)"),
        ("ge-en", r"ge is not .*de \(German\) or ka"),
    ],
)
def test_what_is_no_language_code_is_warned_of(caplog, langs, hint):
    assert parse_langs(langs) == tuple(langs.split("-"))
    assert re.search(rf"--langs {langs}: {hint}", caplog.text)


@pytest.mark.parametrize("langs", ["en-de", "eng_Latn,zh-Hant", "gsw-de", "src-tgt"])
def test_language_codes_are_taken_without_a_word(caplog, langs):
    parse_langs(langs)
    assert not caplog.text


@pytest.mark.parametrize(
    ("langs", "message"),
    [
        ("de-de", "same language"),
        ("de-DE", "same language.*such as de-DE,en"),
        ("en,eng", "same language"),
        ("", "two language codes"),
        ("e\x1b-de", r"'e\\x1b-de'"),
    ],
)
def test_langs_that_are_not_two_are_refused(langs, message):
    with pytest.raises(UsageError, match=rf"--langs .*{message}"):
        parse_langs(langs)


def test_very_long_langs_are_not_repeated_whole():
    with pytest.raises(UsageError) as error:
        parse_langs("x" * 5000)
    assert len(str(error.value)) < 300

"""Small corpora that failed in trials, from a folder next to the checkout: what mtkit must read, keep and report."""

from pathlib import Path

import pytest

from mtkit.config.cleaning import CleanConfig
from mtkit.corpora.cleaning.clean import judge
from mtkit.corpora.cleaning.repair import repair
from mtkit.errors import DataError
from mtkit.pair_files.corpus_files import read_one_file, read_tsv, read_two_files
from mtkit.pair_files.pairs import Tally
from mtkit.text.inline_tags import ENTITY

FOLDER = Path(__file__).parents[3] / "shared" / "cases" / "data"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"needs the corpora of {FOLDER}")


def pairs(name, langs):
    tally = Tally()
    return [pair[:2] for pair in read_one_file(FOLDER / name, langs, tally)], tally


def test_units_of_one_language_under_ten_codes_are_read_and_the_codes_named():
    texts, tally = pairs("01-tmx-codes/memory.tmx", ("en", "zh"))
    assert texts == [(f"Valve number {n} is open.", f"{n}号阀门已打开。") for n in range(1, 11)]
    codes = ("zh-CN", "zh_CN", "zh-Hans", "ZH-CN", "zho", "cmn", "zh-Hans-CN", "zh-TW", "zh-Hant", "en_GB", "eng")
    assert all(f"{code} (1)" in tally.remark() for code in codes)
    assert "Hans and Hant" in tally.remark()


def test_inline_codes_vanish_without_gluing_words():
    texts, _ = pairs("04-tmx-inline/codes.tmx", ("en", "fr"))
    assert [src for src, _ in texts] == [
        "Press Start now.",
        "First line second line",
        "Open the big door.",
        "See torque below!",
        "Note here",
        "Hello {0}, you have %d files",
        "Column A Column B",
        "Bold text <not a code> & more",
        "A B",
        "Two lines and a tab",
        "Salt & <b>pepper</b>",
    ]
    assert [tgt for _, tgt in texts][5:8] == [
        "Bonjour {0}, vous avez %d fichiers",
        "Colonne A Colonne B",
        "Texte gras <pas un code> & plus",
    ]


def test_no_entity_is_left_and_lines_stay_lines():
    rows = [pair[:2] for pair in read_tsv(FOLDER / "07-entities" / "ent.tsv", Tally())]
    repaired = repair([text for row in rows for text in row], CleanConfig().repair)
    assert len(rows) == 6 and len(repaired) == 12
    assert not any(ENTITY.search(text) or "\t" in text for text in repaired)
    assert repaired[:6] == [
        "Flavour: salty & light",
        "Goût : salé & léger",
        "First second step",
        "Première deuxième étape",
        "Open the box now",
        "Ouvrez la boîte maintenant",
    ]


def test_short_translations_are_kept():
    window = list(read_two_files(FOLDER / "12-short" / "s.en", FOLDER / "12-short" / "s.fr", Tally()))
    dropped = {i for verdicts in judge(window, ("en", "fr"), CleanConfig()).alone.values() for i in verdicts}
    assert [window[i].src for i in sorted(dropped)] == ["12"]  # which has no letter: min_letters_share


@pytest.mark.parametrize(
    ("name", "langs", "facts"),
    [
        ("ampersand", ("en", "fr"), ("line 5", "&amp;")),
        ("missing-tu", ("af", "en"), ("line 5", "<tuv> outside a <tu>", "after unit 1")),
    ],
)
def test_a_damaged_memory_names_place_cause_and_remedy(name, langs, facts):
    with pytest.raises(DataError) as error:
        pairs(f"15-malformed/{name}.tmx", langs)
    assert all(fact in str(error.value) for fact in facts)
    assert "encoding" not in str(error.value)


def test_text_outside_its_segment_is_counted():
    texts, tally = pairs("15-malformed/no-seg.tmx", ("en", "ca"))
    assert texts == [("With seg.", "Amb seg.")]
    assert "2 <tuv>s without <seg>" in tally.remark()

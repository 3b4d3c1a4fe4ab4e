import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from mtkit.quality.language import BLOCK, UNSURE, candidates, foreign_lines, identifier_of, knows

GERMAN = ["Der Zug nach Berlin fährt heute leider später ab.", "Wir haben gestern ein neues Fahrrad gekauft."]
DUTCH = ["De trein naar Berlijn vertrekt vandaag helaas later.", "Wij hebben gisteren een nieuwe fiets gekocht."]


LANGS = "en", "de", "ru", "zh", "fr"


@pytest.fixture(scope="module")
def oracle():
    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages([*LANGS])
    return identifier


@given(st.lists(st.text(st.sampled_from("abcdeABß éя是 .1"), max_size=30), min_size=1, max_size=5))
def test_probabilities_are_those_of_py3langid(oracle, texts):
    ours = identifier_of(LANGS).probabilities(texts)
    for text, row in zip(texts, ours, strict=True):
        expected = dict(oracle.rank(text))
        assert np.allclose(row, [expected[lang] for lang in LANGS], atol=1e-4), text


def test_languages_are_told_apart_and_doubt_is_an_answer():
    identifier = identifier_of(candidates("de", "nl"))
    assert identifier.identify([*GERMAN, *DUTCH, "Tom!", "12 %", ""]) == ["de", "de", "nl", "nl", *[UNSURE] * 3]


def test_a_sure_foreign_line_is_named_with_its_language():
    lines = [GERMAN[0], DUTCH[0], GERMAN[1]]
    foreign = foreign_lines(lines, "de", "en", [1, 2, 3])
    assert [*foreign] == [1]
    assert foreign[1].startswith("nl ")


def test_short_lines_are_judged_with_their_neighbours():
    short = ["Kom mee.", "Nee, ik.", "Wat nu?", "Ga weg.", "Van wie?", "Voor ons."]
    alone = [i for i, line in enumerate(short) if foreign_lines([line], "de", "en", [1])]
    together = foreign_lines(short, "de", "en", range(1, 7))
    assert len(together) > len(alone)
    # The same lines, each in another block, are again judged alone.
    assert [*foreign_lines(short, "de", "en", range(1, 6 * BLOCK, BLOCK))] == alone


def test_a_line_that_comes_again_is_no_further_evidence():
    assert foreign_lines(["Get started."] * BLOCK, "en", "de", range(1, BLOCK + 1)) == {}


@pytest.mark.parametrize(("lang", "relative"), [("da", "no"), ("pt", "gl"), ("hr", "sr"), ("nl", "af")])
def test_relatives_are_no_intruders(lang, relative):
    assert relative not in candidates(lang, "en")
    assert relative in candidates(lang, relative)


def test_languages_that_the_model_lacks_are_not_judged():
    assert not knows("src")
    assert foreign_lines(["whatever this is"], "src", "tgt", [1]) == {}
    assert knows("pt-BR") and knows("zh_Hant")

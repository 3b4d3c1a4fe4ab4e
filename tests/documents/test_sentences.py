"""Sentences of documents: cut, translated by a real, if small, model, and put together again."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.documents.filling import assemble, sentences_of
from mtkit.documents.pages import html_text
from mtkit.documents.sentence_translator import SentenceTranslator
from mtkit.documents.sentences import Alignment, Sentence, Translated
from mtkit.text.inline import cut
from mtkit.text.placeholders import PROSE, STRINGS
from mtkit.tokens.spelling import Spelling
from mtkit.translation.translator import Translator


@pytest.fixture(scope="module")
def translator(shared_bundle):
    return Translator.load(shared_bundle, engine="native")


def test_sentences_stand_where_they_are_found():
    text = "  One cat. Two dogs!\n3.5 %\n Mr. Smith sleeps "
    assert [text[start:end] for start, end in cut(text)] == ["One cat.", "Two dogs!", "Mr. Smith sleeps"]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("1. A cat\n- a dog\n  * a bird", ["A cat", "a dog", "a bird"]),
        ("a) A cat. A dog.", ["A cat.", "A dog."]),
        ("> ## 2) A cat", ["A cat"]),
        (r"A cat.\nA dog.\r\n\tA bird", ["A cat.", "A dog.", "A bird"]),
        (r"Open C:\new\test or \\server\new now", [r"Open C:\new\test or \\server\new now"]),
        ("- 5 %", []),
        ("Well-known - a dog", ["Well-known - a dog"]),
    ],
)
def test_marks_of_lists_and_written_line_breaks_belong_to_no_sentence(text, sentences):
    assert [text[start:end] for start, end in cut(text)] == sentences


_PARTS = ["aa", "Ba", "l'", *" .!?\n\t\xa0。"]  # no letter alone, which could number an item of a list


@given(st.lists(st.sampled_from(_PARTS), max_size=60).map("".join))
def test_sentences_hold_all_letters_in_order_and_no_white_space_at_their_ends(text):
    found = cut(text)
    assert "".join(filter(str.isalpha, "".join(text[a:b] for a, b in found))) == "".join(filter(str.isalpha, text))
    assert all(text[a:b] == text[a:b].strip() and "\n" not in text[a:b] for a, b in found)
    assert found == sorted(found)


def test_a_translation_and_its_alignment_survive_as_a_line():
    translated = Translated("a\nb", ("loop",), 2, Alignment([(0, 1)], [(0, 1), (2, 3)], [[0.5], [0.25]]))
    again = Translated.from_json(translated.as_json())
    assert again.text == translated.text
    assert again.alignment is not None
    assert again.alignment.weights == [[0.5], [0.25]]
    assert "\n" not in translated.as_json()
    assert Sentence.from_json(Sentence("a", True).as_json()) == Sentence("a", True)


def test_a_translation_has_each_placeholder_as_often_as_its_sentence(translator):
    texts = ["the red {name} cat", "two %s dogs {0}", "{a} {b} {a}", "one https://example.org/x dog"]
    worker = SentenceTranslator(translator, STRINGS, check_direction=False)
    found = worker.translate([Sentence(text, True) for text in texts])
    kept = re.compile(r"\{\w+\}|%s|https://example.org/x")
    for text, translated in zip(texts, found, strict=True):
        assert sorted(kept.findall(translated.text)) == sorted(kept.findall(text))
        assert translated.alignment is not None
        words = [translated.text[start:end] for start, end in translated.alignment.tgt]
        assert set(kept.findall(translated.text)) <= set(words), "no code may divide a placeholder"


def test_a_sentence_does_not_depend_on_the_others(translator):
    sentences = [Sentence("the red {name} cat", True), Sentence("two blue dogs", False), Sentence("one cat", True)]
    together = SentenceTranslator(translator, PROSE, check_direction=False).translate(sentences)
    alone = [SentenceTranslator(translator, PROSE, check_direction=False).translate([one])[0] for one in sentences]
    assert [one.text for one in together] == [one.text for one in alone]
    assert [one.alignment is None for one in together] == [False, True, False]


def test_another_engine_translates_and_the_model_aligns(shared_bundle, translator):
    pytest.importorskip("ctranslate2")

    class Other:
        """An engine without attention."""

        name, arithmetic, max_positions = "other", "", None

        def decode(self, *arguments):
            return translator.engine.decode(*arguments)

    other = Translator(
        Other(), translator.src_tokenizer, translator.tgt_tokenizer, translator.decode, files=translator.files
    )
    sentences = [Sentence("the red cat", True)]
    found = [SentenceTranslator(one, check_direction=False).translate(sentences)[0] for one in (translator, other)]
    assert found[0] == found[1]
    assert found[0].alignment is not None


def _results(inline, translations):
    found = {}
    for sentence, text in zip(sentences_of(inline), translations, strict=True):
        words = [[match.span() for match in re.finditer(r"\w+|[^\w\s]", side)] for side in (sentence.text, text)]
        weights = [[float(row == column) for column in range(len(words[0]))] for row in range(len(words[1]))]
        found[sentence.text] = Translated(text, alignment=Alignment(words[0], words[1], weights))
    return found


def test_codes_of_a_paragraph_go_to_the_right_sentence():
    inline = html_text.parse("One <b>cat</b>. <i>Two dogs. No</i> bird.")
    found = assemble(inline, _results(inline, ["Un chat.", "Deux chiens.", "Pas oiseau."]), html_text.write)
    assert found.text == "Un <b>chat</b>. <i>Deux chiens. Pas</i> oiseau."
    assert found.plain == "Un chat. Deux chiens. Pas oiseau."


def test_codes_around_the_mark_of_a_list_stay_there():
    inline = html_text.parse("<b>1.</b> One <i>cat</i>.")
    found = assemble(inline, _results(inline, ["Un chat."]), html_text.write)
    assert (found.text, found.n_guessed) == ("<b>1.</b> Un <i>chat</i>.", 0)


def test_a_code_between_sentences_keeps_its_spaces():
    inline = html_text.parse("One cat. <img> Two dogs.")
    found = assemble(inline, _results(inline, ["Un chat.", "Deux chiens."]), html_text.write)
    assert found.text == "Un chat. <img> Deux chiens."


@pytest.mark.parametrize(
    ("text", "translations", "translation"),
    [
        ("他打网球。她唱歌。", ["He plays.", "She sings."], "He plays. She sings."),
        ("He plays the game.She sings a song.", ["他打。", "她唱。"], "他打。她唱。"),
        ("He plays the game.She sings a song.", ["Il joue.", "Elle chante."], "Il joue. Elle chante."),
    ],
)
def test_sentences_without_a_space_get_one_if_the_translation_has_them(text, translations, translation):
    assert assemble(html_text.parse(text), _results(html_text.parse(text), translations)).text == translation


def test_a_paragraph_that_stays_is_as_it_was():
    chinese = html_text.parse("他打网球。她唱歌。")
    assert assemble(chinese, _results(chinese, [one.text for one in sentences_of(chinese)])).text == chinese.source
    inline = html_text.parse("One <b>&quot;cat&quot;</b>&nbsp;&gt;  two. Three.")
    same = {sentence.text: Translated(sentence.text) for sentence in sentences_of(inline)}
    assert assemble(inline, same, html_text.write).text == inline.source


def test_a_text_with_very_many_codes_is_left_and_said():
    inline = html_text.parse("<b>a</b> " * 3000)
    results = {sentence.text: Translated(sentence.text.upper()) for sentence in sentences_of(inline)}
    found = assemble(inline, results)
    assert found.faults == ("codes",)
    assert found.text == inline.source


def test_words_that_are_read_as_others_are_reported_with_their_sentence(translator, monkeypatch):
    spelling = Spelling(dict.fromkeys(("two", "dogs"), 99), "en")
    monkeypatch.setattr(translator.reader.training_text, "spelling", spelling, raising=False)
    sentences = [Sentence(text, is_marked=False) for text in ("two dgos", "two dogs")]
    found = SentenceTranslator(translator, check_direction=False).translate(sentences)
    assert [one.read_as for one in found] == [{"dgos": "dogs"}, {}]

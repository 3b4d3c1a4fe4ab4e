"""Streaming a translation: the parts are never taken back, and add up to the translation."""

from dataclasses import replace

import pytest

from mtkit.bundle import add_to_bundle
from mtkit.engines.native import NativeEngine
from mtkit.engines.shortlist import SHORTLIST, Shortlist
from mtkit.errors import MtkitError
from mtkit.search.hypothesis import Hypothesis, Segment
from mtkit.text.capitals import Capitals
from mtkit.translation.piece_search import PieceSearch
from mtkit.translation.streaming import LiveTranslator
from mtkit.translation.translator import Translator

TEXTS = ["I love oranges.", "The cat sleeps under the table.", "Do you see the big house?", "", "It rains. " * 30]


@pytest.mark.parametrize("beam_size", [1, 3])
def test_the_parts_add_up_to_what_is_translated_at_once(shared_bundle, beam_size):
    translator = Translator.load(shared_bundle, threads=1, beam_size=beam_size, max_src_tokens=30)
    for text in TEXTS:
        parts: list[str] = []
        whole = LiveTranslator(translator).translate(text, parts.append).text
        assert "".join(parts) == whole == translator.translate([text])[0]
        assert "" not in parts
        if beam_size == 1 and text:
            assert len(parts) > 2


def test_a_segment_translated_as_nothing_leaves_the_space_to_the_next(shared_bundle, monkeypatch):
    translator = Translator.load(shared_bundle, threads=1, beam_size=1, max_src_tokens=30)
    assert isinstance(translator.engine, NativeEngine)
    real = translator.engine.stream
    calls: list[Segment] = []

    def stream(segment, cfg):
        calls.append(segment)
        return [[Hypothesis([], 0.0, 0.0, True)]] if len(calls) == 2 else real(segment, cfg)

    monkeypatch.setattr(translator.engine, "stream", stream)
    parts: list[str] = []
    whole = LiveTranslator(translator).translate("It rains. " * 9, parts.append).text
    assert len(calls) > 2
    assert "".join(parts) == whole


def test_only_what_all_hypotheses_agree_on_is_shown(shared_bundle, monkeypatch):
    """At every step, what is out begins every hypothesis that the engine says may still be the best."""
    translator = Translator.load(shared_bundle, threads=1, beam_size=2)
    shown: list[str] = []
    assert isinstance(translator.engine, NativeEngine)
    real = translator.engine.stream

    def checked(segment, cfg):
        for hypotheses in real(segment, cfg):
            yield hypotheses
            for hypothesis in hypotheses:
                assert translator.tgt_tokenizer.decode(hypothesis.ids).lstrip().startswith("".join(shown))

    monkeypatch.setattr(translator.engine, "stream", checked)
    n_parts = 0
    for text in TEXTS[:4]:
        shown.clear()
        LiveTranslator(translator).translate(text, shown.append)
        n_parts += len(shown)
    assert n_parts > 3


def test_a_shortlist_limits_a_stream_too(bundle):
    tokenizer = Translator.load(bundle, threads=1).src_tokenizer
    few = Shortlist.from_lexicon([[]] * tokenizer.vocab_size, range(280, 290), tokenizer.vocab_size)
    add_to_bundle(bundle, SHORTLIST, few.save)
    translator = Translator.load(bundle, threads=1, shortlist=True, engine="native")
    parts: list[str] = []
    whole = LiveTranslator(translator).translate(TEXTS[0], parts.append).text
    assert "".join(parts) == whole == translator.translate(TEXTS[:1])[0]
    assert whole != Translator.load(bundle, threads=1).translate(TEXTS[:1])[0]


def test_a_translation_that_the_length_limit_ended_is_not_finished(shared_bundle):
    translator = Translator.load(shared_bundle, threads=1, beam_size=8)
    translations = list(translator.stream(TEXTS[:3]))
    live = LiveTranslator(translator)
    finished = [live.translate(text, lambda part: None).finished for text in TEXTS[:3]]
    assert finished == [translation.finished for translation in translations]
    assert set(finished) == {True, False}
    assert live.session.n_unfinished == finished.count(False)


def test_settings_that_cannot_stream_are_refused(shared_bundle):
    with pytest.raises(MtkitError, match=r"decode\.sampling=true"):
        LiveTranslator(Translator.load(shared_bundle, sampling=True)).translate("Hello", print)
    with pytest.raises(MtkitError, match="mbr_samples"):
        LiveTranslator(Translator.load(shared_bundle, mbr_samples=4))


def test_what_looks_broken_is_counted_as_by_an_ordinary_translation(shared_bundle):
    translator = Translator.load(shared_bundle, threads=1, beam_size=1, on_suspect="warn")
    lines = ["She has 25 dogs.", "I love oranges.", "", "See https://example.org/a and call Ann."]
    usual, live = (
        translator.session(),
        LiveTranslator(Translator.load(shared_bundle, threads=1, beam_size=1, on_suspect="retry")),
    )
    expected = usual.translate(lines)
    assert [live.translate(line, lambda part: None) for line in lines] == expected
    assert vars(live.session.review.tally) == vars(usual.review.tally)
    assert live.session.review.tally.n_faulty > 0


@pytest.mark.parametrize(
    "text", ["Write to a@b.example now.", "He waits…", "He waits...", "Look:", "- Go home,", "go home", "🎾", "3.5"]
)
def test_protected_text_and_marks_at_the_edges_are_kept_as_by_an_ordinary_translation(shared_bundle, text):
    translator = Translator.load(shared_bundle, threads=1, beam_size=1, on_suspect="warn")
    parts: list[str] = []
    assert LiveTranslator(translator).translate(text, parts.append).text == translator.translate([text])[0]
    assert "".join(parts) == translator.translate([text])[0]


def test_a_first_letter_waits_for_the_word_that_decides_about_it(shared_bundle, monkeypatch):
    translator = Translator.load(shared_bundle, threads=1, beam_size=1, on_suspect="warn")
    assert isinstance(translator.engine, NativeEngine)
    known = {"p": 1.0, "P": 9.0, "paris": 9.0, "Paris": 1.0}
    capitals = Capitals(len, "en", "fr", lambda word: known.get(word, 5.0))
    texts = ["P", "Paris", "Paris est", "Paris est ici"]
    monkeypatch.setattr(translator.engine, "stream", lambda *_: [[Hypothesis([], 0.0, 0.0, True)]] * len(texts))
    grown = iter([*texts, texts[-1]])
    monkeypatch.setattr(PieceSearch, "text_of", lambda self, ids, segment: capitals.like(segment.case, next(grown)))
    [[piece]] = translator.pieces(["go home"])
    monkeypatch.setattr(translator, "pieces", lambda *_, **__: [[replace(piece, case="small")]], raising=False)
    parts: list[str] = []
    assert LiveTranslator(translator).translate("go home", parts.append).text == "Paris est ici"
    assert parts == ["Paris est", " ici"]

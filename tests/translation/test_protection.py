"""Protected text in lines: kept by a model that knows it, else put back; the same in lines, n-best lists and live."""

import pytest

from mtkit.config.decoding import DecodeConfig
from mtkit.config.tokenizer import TokenizerConfig
from mtkit.documents.sentence_translator import SentenceTranslator
from mtkit.documents.sentences import Sentence
from mtkit.search.hypothesis import Hypothesis
from mtkit.tokens.tokenizer import Tokenizer, train_tokenizer
from mtkit.translation.translator import Translator

LETTERS = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ.,!"


class LoudEngine:
    """A model that writes capitals, also in addresses, unless it has learnt to copy them."""

    name, arithmetic = "loud", "letters"
    max_positions: int | None = None

    def __init__(self, tokenizer: Tokenizer, *, copies: bool) -> None:
        self.tokenizer, self.copies = tokenizer, copies
        self.texts: list[str] = []

    def decode(self, segments, cfg, n_best):
        for index, segment in enumerate(segments):
            text = self.tokenizer.decode(segment.ids)
            self.texts.append(text)
            words = [word if self.copies and "www" in word else word.upper() for word in text.split()]
            best = self.tokenizer.encode(" ".join(words))
            other = self.tokenizer.encode(text.swapcase())
            yield index, [Hypothesis(ids, -1.0, -1.0, finished=True) for ids in (best, other)][:n_best]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> Tokenizer:
    cfg = TokenizerConfig.model_validate({"type": "char", "vocab_size": 400})
    return train_tokenizer([" ".join(LETTERS), LETTERS], cfg, tmp_path_factory.mktemp("loud") / "any.spm")


def translator(tokenizer, *, copies=False):
    engine = LoudEngine(tokenizer, copies=copies)
    decode = DecodeConfig(on_suspect="off", beam_size=2)
    return Translator(engine, tokenizer, tokenizer, decode, by_sentence=True), engine


@pytest.mark.parametrize(
    ("line", "read", "translation"),
    [
        ("\u2705 The door is open.", ["The door is open."], "\u2705 THE DOOR IS OPEN."),
        ("I love oranges \U0001f606.", ["I love oranges."], "I LOVE ORANGES \U0001f606."),
        ("one \u2192 two", ["one two"], "ONE \u2192 TWO"),
        ("\u266a \u266a", [], "\u266a \u266a"),
        ("Hello %s now", ["Hello now"], "HELLO %s NOW"),
        ("<b>Go</b> home &amp; rest", ["Go home rest"], "<b>GO</b> HOME &amp; REST"),
        ("a < b, and c > d", ["a b, and c d"], "A < B, AND C > D"),
        ("at 5 % off", ["at off"], "AT 5 % OFF"),
        ("!!! ,,", [], "!!! ,,"),
        ("A-12.", [], "A-12."),
        ("See www.a.org now", ["See www.a.org now", "See now"], "SEE www.a.org NOW"),
        ("I go home.<br>I rest", ["I go home.", "I rest"], "I GO HOME.<br>I REST"),
        ("<b>I go home.</b> I rest", ["I go home.", "I rest"], "<b>I GO HOME.</b> I REST"),
        ("I go home.&nbsp;I rest now", ["I go home.", "I rest now"], "I GO HOME. &nbsp;I REST NOW"),
        ("I go home\u3002I rest\u3002", ["I go home", "I rest"], "I GO HOME\u3002I REST\u3002"),
    ],
)
def test_a_line_keeps_what_the_model_does_not(tokenizer, line, read, translation):
    loud, engine = translator(tokenizer)
    assert loud.translate([line]) == [translation]
    assert engine.texts == read


@pytest.mark.parametrize(
    ("line", "translation"),
    [
        ("@x go home @y", "@x GO HOME @y"),
        ("go home: %s", "GO HOME: %s"),
        ("tea etc %s", "TEA ETC. %s"),  # the stop of an abbreviation
        ("go home %s.", "GO HOME %s."),
    ],
)
def test_a_full_stop_that_the_model_adds_does_not_stand_before_protected_text(
    tokenizer, monkeypatch, line, translation
):
    loud, engine = translator(tokenizer)
    hypothesis = Hypothesis(tokenizer.encode(translation.strip("@xy%s:. ") + "."), -1.0, -1.0, finished=True)
    monkeypatch.setattr(engine, "decode", lambda *_: [(0, [hypothesis])])
    assert loud.translate([line]) == [translation]


def test_a_model_that_copies_an_address_is_left_to_it(tokenizer):
    knows, engine = translator(tokenizer, copies=True)
    assert knows.translate(["See www.a.org now"]) == ["SEE www.a.org NOW"]
    assert engine.texts == ["See www.a.org now"]


def test_each_candidate_keeps_it_and_the_best_does_not_depend_on_their_number(tokenizer):
    knows, _ = translator(tokenizer, copies=True)
    [several] = knows.stream(["See www.a.org now"], n_best=2)
    assert [candidate.text for candidate in several.n_best] == ["SEE www.a.org NOW", "sEE www.a.org NOW"]
    loud, _ = translator(tokenizer)
    [several] = loud.stream(["See www.a.org now"], n_best=2)
    assert [candidate.text for candidate in several.n_best] == ["SEE www.a.org NOW", "sEE www.a.org NOW"]


def test_a_document_gets_what_a_line_gets(tokenizer):
    lines = ["\u2705 See www.a.org now", "one \u2192 two", "@a.b: I love it. #cats"]
    loud, _ = translator(tokenizer)
    found = SentenceTranslator(loud, check_direction=False).translate([Sentence(line, False) for line in lines])
    assert [one.text for one in found] == loud.translate(lines)
    assert [one.n_placed for one in found] == [1, 1, 0]

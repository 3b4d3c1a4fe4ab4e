"""Lines with markup through a real, if small, model."""

import json
import re
from collections import Counter
from dataclasses import replace

import pytest

from mtkit.documents.marked_lines import MarkedLines
from mtkit.translation.candidates import BLANK, Translation
from mtkit.translation.translator import Translator

TAG = re.compile(r"<[^>]+>")
LINES = [
    "the <b>red</b> cat",
    "<i>one <b>blue</b> dog</i><br>",
    "",
    "<p></p>",
    "two red cats",
    "one &amp; <b>two</b>",
    "one <code>x < y</code> dog",
]


@pytest.fixture(scope="module")
def translator(shared_bundle):
    return Translator.load(shared_bundle, engine="native")


def test_each_line_has_its_codes_and_the_translation_of_its_text(translator):
    marked = MarkedLines(translator).translate(LINES)
    texts = ["the red cat", "one blue dog ", "", "", "two red cats", "one & two", "one  dog"]
    for line, found, plain in zip(LINES, marked, translator.translate(texts), strict=True):
        kept = re.findall(r"<code>.*?</code>|<[^>]+>", line)
        assert Counter(re.findall(r"<code>.*?</code>|<[^>]+>", found)) == Counter(kept)
        text = re.sub(r"<code>.*?</code>|<[^>]+>", "", found).replace("&amp;", "&")
        assert text.split() == plain.split()
    assert marked[3] == "<p></p>"


def test_lines_do_not_depend_on_the_lines_around_them(translator):
    together = MarkedLines(translator).translate(LINES)
    assert together == [MarkedLines(translator).translate([line])[0] for line in LINES]


def test_notes_of_several_sessions_add_up(translator, log_text):
    whole, first, second = (MarkedLines(translator, check_direction=False) for _ in range(3))
    whole.translate(LINES)
    first.translate(LINES[:2], 1)
    second.translate(LINES[2:], 3)
    first.absorb(json.loads(json.dumps(second.note())))
    assert first.note() == whole.note()
    assert whole.n_places == 7
    whole.n_guessed = 2
    whole.report()
    assert "the places of 2 of 7 tags are guesses" in log_text()


def test_sentences_keep_their_tags_and_template_code_its_characters(translator, monkeypatch):
    worker = MarkedLines(translator, check_direction=False)

    class Session:
        def translate(self, lines, first_line):
            return [Translation(line, [replace(BLANK, text="Toi ! Moi, je {{ a && b }} & vais.")]) for line in lines]

    monkeypatch.setattr(worker, "_session", Session())
    [found] = worker.translate(["You! <b>I {{ a && b }} &amp; go.</b>"])
    assert found == "Toi ! <b>Moi, je {{ a && b }} &amp; vais.</b>"

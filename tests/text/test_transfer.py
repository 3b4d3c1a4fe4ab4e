"""Inline codes put into translations: known places by hand, and laws for any alignment."""

import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.text.inline import Code, Part, inline_of
from mtkit.text.transfer import transfer
from mtkit.text.words import word_spans

_TAG = re.compile(r"</?\w+/?>")
_EMPTY = {"br": " ", "img": ""}


def segment(html: str):
    """Parse a few simple tags."""
    parts: list[Part] = []
    at = 0
    for tag in _TAG.finditer(html):
        parts.append(html[at : tag.start()])
        name = tag[0].strip("</>")
        if name in _EMPTY:
            parts.append(Code(tag[0], "single", text=_EMPTY[name]))
        else:
            parts.append(Code(tag[0], "close" if tag[0].startswith("</") else "open", name))
        at = tag.end()
    return inline_of([*(part for part in parts if part), *filter(None, [html[at:]])])


def aligned(source: str, target: str, links: str):
    """Weights of links such as "0-0 1-2", source word - target word; a target word shares its weight out evenly."""
    weights = np.zeros((len(word_spans(target)), len(word_spans(source))))
    for link in links.split():
        i, _, j = link.partition("-")
        weights[int(j), int(i)] = 1.0
    return weights / np.maximum(1, weights.sum(1, keepdims=True))


@pytest.mark.parametrize(
    ("source", "target", "links", "expected"),
    [
        ("I love <b>oranges</b>.", "J'aime les oranges.", "0-0 1-1 2-2 2-3 3-4", "J'aime <b>les oranges</b>."),
        ("I love <b>oranges</b>.", "J'aime les oranges.", "0-0 1-1 2-3 2-4 3-4", "J'aime les <b>oranges</b>."),
        ("the <b>red</b> car", "la voiture rouge", "0-0 1-2 2-1", "la voiture <b>rouge</b>"),
        ("<b>the red</b> car", "la voiture rouge", "0-0 1-2 2-1", "<b>la</b> voiture rouge"),
        ("the <i><b>red</b> car</i>", "la voiture rouge", "0-0 1-2 2-1", "la <i>voiture <b>rouge</b></i>"),
        ("the <i>red</i> <b>car</b>", "la voiture rouge", "0-0 1-2 2-1", "la <b>voiture</b> <i>rouge</i>"),
        ("do <b>not</b> go.", "n'allez pas.", "0-0 2-1 1-3", "n'allez <b>pas</b>."),  # not around the full stop alone
        ("one & <img>.", "un.", "0-0 2-1", "un <img>."),
        ("I <b>go.</b> You", "je vais. Toi", "0-0 1-1 3-3", "je <b>vais.</b> Toi"),  # no link to the full stop
        ("I <b>(go)</b> you", "je (vais) toi", "0-0 2-2 4-4", "je <b>(vais)</b> toi"),
        ("I <b>go!</b> you", "je vais (toi)", "0-0 1-1 3-3", "je <b>vais</b> (toi)"),
        ("<b>one <img></b> two", "deux un", "0-1 1-0", "deux <b>un <img></b>"),
        ("<b><img> one</b> two", "deux un", "0-1 1-0", "deux <b><img> un</b>"),
        ("one<br>two", "un deux", "0-0 1-1", "un<br>deux"),
        ("one <br> two", "un deux", "0-0 1-1", "un <br> deux"),
        ("one <br>two", "un deux", "0-0 1-1", "un <br>deux"),
        ("Press <img> now", "Appuyez maintenant", "0-0 1-1", "Appuyez <img> maintenant"),
        ("<img> one", "un", "0-0", "<img> un"),
        ("one <img>", "un", "0-0", "un <img>"),
        ("o<img>ne two", "un deux", "0-0 1-1", "un<img> deux"),
        ("an <a></a>orange", "une orange", "0-0 1-1", "une <a></a>orange"),
        ("the <b>orange</b>", "l'orange", "0-0 1-1", "l'<b>orange</b>"),
        ("not <b>you</b>", "ne pas", "0-0 0-1", "ne <b>pas</b>"),  # no link: the word at the like place
        ("<b>one</b> two", "一二", "0-0 1-1", "<b>一</b>二"),
        ("</b>one<b>", "un", "0-0", "</b>un<b>"),
        ("<b><i>one</b></i> two", "un deux", "0-0 1-1", "<b><i>un</b></i> deux"),
    ],
)
def test_codes_go_where_their_words_went(source, target, links, expected):
    inline = segment(source)
    assert transfer(inline, target, aligned(inline.text, target, links)).text == expected


@pytest.mark.parametrize(
    ("source", "target", "links", "expected"),
    [
        ("drink H<sub>2</sub>O", "H2O trinken", "0-1", "H<sub>2</sub>O trinken"),  # copied: needs no link
        ("the H<sub>2</sub>SO<sub>4</sub> is", "H2SO4 ist", "0-0 1-0", "H<sub>2</sub>SO<sub>4</sub> ist"),
        ("Ca<sup>2+</sup> is", "ist Ca2+", "", "ist Ca<sup>2+</sup>"),  # + is a word to others
        ("SO<sub>4</sub><sup>2−</sup> is", "ist SO42−", "", "ist SO<sub>4</sub><sup>2−</sup>"),
        ("oxide and <b>ox</b>ide", "Oxide und Oxide", "0-0 1-1 2-0", "Oxide und <b>Ox</b>ide"),  # the second one
        ("<i>super</i>market here", "hier Supermärkte", "0-1 1-0", "hier <i>Super</i>märkte"),
        ("please <b>re</b>start", "bitte Neustart", "0-0 1-1", "bitte <b>Neu</b>start"),
        ("un<b>believable</b> you", "toi incroyable", "0-1 1-0", "toi <b>incroyable</b>"),
        ("the <a>dog</a>s bark", "os cães latem", "0-0 1-1 2-2", "os <a>cães</a> latem"),
        ("the <a>dog</a>s bark", "die Dogges bellen", "0-0 1-1 2-2", "die <a>Dog</a>ges bellen"),
        ("the <a>dog</a>'s food", "comida do cão", "1-1 1-2 3-0", "comida <a>do cão</a>"),  # no letter is outside
        ("the <a>domestic</a>2 eat", "os do cão", "1-1 1-2 2-1", "os do <a>cão</a>"),  # "do" is alike, but less likely
        ("the <b>W</b>orld", "le Monde", "0-0 1-1", "le <b>M</b>onde"),
        ("on the 5<sup>th</sup> floor", "au 5ème étage", "0-0 1-0 2-1 3-2", "au 5<sup>ème</sup> étage"),
        ("on the 5<sup>th</sup> floor", "am 5. Stock", "0-0 1-0 2-1 3-3", "am 5<sup></sup>. Stock"),
        ("le 1<sup>er</sup> mai", "May first", "0-0 1-1 2-0", "May first<sup></sup>"),
        ("the 21<sup>st</sup> of May", "dia 21 de Maio", "0-0 1-0 1-1 2-2 3-3", "dia 21<sup></sup> de Maio"),
        ("foot<img>ball now", "jetzt Fußball", "0-1 1-0", "jetzt Fuß<img>ball"),
        ("<a>H<sub>2</sub>O</a> now", "jetzt das H2O", "0-1 0-2 1-0", "jetzt <a>das H<sub>2</sub>O</a>"),
        ("<a>H<sub>2</sub></a>O now", "jetzt H2O", "0-1 1-0", "jetzt <a>H<sub>2</sub></a>O"),
    ],
)
def test_codes_inside_a_word_stay_in_one_word_at_the_letters_that_it_keeps(source, target, links, expected):
    inline = segment(source)
    assert transfer(inline, target, aligned(inline.text, target, links)).text == expected


def test_a_lost_superscript_is_a_guess():
    inline = segment("le 1<sup>er</sup> mai")
    assert transfer(inline, "May first", aligned(inline.text, "May first", "0-0 1-1 2-0")).n_guessed == 1


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<b>I go.</b> You stay.", "<b>Je vais !</b> Toi, reste !"),
        ("I go. <b>You stay.</b>", "Je vais ! <b>Toi, reste !</b>"),
        ("I go.<img> You stay.", "Je vais !<img> Toi, reste !"),
        ("I go. <img>You stay.", "Je vais ! <img>Toi, reste !"),
        ("<b>I go.<img></b> You stay.", "<b>Je vais !<img></b> Toi, reste !"),
    ],
)
def test_what_surrounds_a_sentence_surrounds_its_translation_whatever_the_alignment_says(source, expected):
    inline, target = segment(source), "Je vais ! Toi, reste !"
    sentences = [((0, 3), (0, 3)), ((3, 6), (3, 7))]
    weights = aligned(inline.text, target, "0-1")
    assert transfer(inline, target, weights, sentences=sentences).text == expected


def test_the_translation_of_a_word_that_two_pairs_share_stands_there_once():
    inline, target = segment("<b>go</b><i>on</i> You stay."), "Continue Toi, reste !"
    sentences = [((0, 1), (0, 1)), ((1, 4), (1, 5))]
    text = transfer(inline, target, aligned(inline.text, target, "0-0 1-1 2-3"), sentences=sentences).text
    assert text.startswith("<b>Continue</b>")
    assert _TAG.sub("", text) == target


def test_a_text_that_stays_keeps_its_codes_where_they_are():
    inline = segment("un<b>believ</b>able<br> ")
    assert inline.text == "unbelievable  "
    assert transfer(inline, inline.text, aligned(inline.text, inline.text, "")).text == "un<b>believ</b>able<br> "


def test_a_line_break_stays_at_the_end_of_its_line_whatever_the_alignment_says():
    inline = inline_of(["Name:", Code("<tab/>", "single", text="\n"), "He is here."])
    text = "Le nom .\nIl est ici."
    assert transfer(inline, text, aligned(inline.text, text, "0-1 2-3 5-2")).text == "Le nom .<tab/>Il est ici."


@pytest.mark.parametrize(
    ("of_first", "of_last", "expected"), [(1.0, 0.5, "un <img> et deux"), (0.5, 1.0, "un et <img> deux")]
)
def test_a_code_stays_beside_the_neighbour_with_the_stronger_link(of_first, of_last, expected):
    inline = segment("one <img> two")
    weights = np.array([[of_first, 0.0], [0.0, 0.0], [0.0, of_last]])  # nothing shows on which side "et" belongs
    assert transfer(inline, "un et deux", weights).text == expected


def test_a_link_counts_as_far_as_its_source_word_has_no_others():
    inline = segment("<b>one</b> two")
    weights = np.array([[0.5, 0.0], [0.5, 0.4], [0.0, 0.8 / 3]])  # "y" has 0.5 of "one" to itself, and 0.6 of "two"
    assert transfer(inline, "x y z", weights).text == "<b>x</b> y z"


def kept(text: str, value: str):
    """Return a text in which a value is a code that stands for text."""
    before, after = text.split(value)
    return inline_of([part for part in (before, Code(value, "single", is_text=True), after) if part])


@pytest.mark.parametrize(
    ("source", "target", "links", "expected"),
    [
        ("I love @x and", "J'aime et", "0-0 1-1 2-2", "J'aime @x et"),
        ("the oranges, @x love", "les oranges aiment", "0-0 1-1 3-2", "les oranges @x aiment"),  # the comma is lost
        ("see (@x) and", "voir et", "0-0 3-1", "voir @x et"),
        ("love @x. And", "aime. Et", "0-0 1-1 2-2", "aime @x. Et"),
        ("我@x爱", "I love", "0-0 1-1", "I @x love"),
        ("I @x love", "我爱", "0-0 1-1", "我@x爱"),
        ("of @x oranges", "d'oranges", "0-0 1-1", "d'@x oranges"),
    ],
)
def test_kept_text_is_divided_from_the_words_beside_it(source, target, links, expected):
    inline = kept(source, "@x")
    assert transfer(inline, target, aligned(inline.text, target, links)).text == expected


def test_tags_around_kept_text_keep_their_places_in_it():
    inline = segment("see <a>#<b>cats</b></a> now")
    target = "#cats voir"
    words = [(0, 3), (4, 9), (10, 13)], [(0, 5), (6, 10)]
    weights = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    assert transfer(inline, target, weights, words=words).text == "<a>#<b>cats</b></a> voir"


def test_guessed_places_are_counted():
    inline = segment("<b>one</b> <i>two</i>")
    assert transfer(inline, "un deux", aligned(inline.text, "un deux", "0-0 1-1")).n_guessed == 0
    assert transfer(inline, "un deux", aligned(inline.text, "un deux", "0-0")).n_guessed == 1
    found = transfer(inline, "un", aligned(inline.text, "un", "0-0"))
    assert (found.text, found.n_guessed) == ("<b>un</b><i></i>", 1)


def test_a_letter_keeps_its_marks_and_a_script_without_spaces_has_words_of_one_letter():
    assert [("हिन्दी, l'été 我爱x")[a:b] for a, b in word_spans("हिन्दी, l'été 我爱x")] == [
        "हिन्दी", ",", "l'", "été", "我", "爱", "x",
    ]  # fmt: skip


def test_what_is_whole_is_one_word_that_no_code_divides():
    text = "l'{a b}, {c}s {d}"
    whole = [(2, 7), (9, 12), (14, 17)]
    assert [text[a:b] for a, b in word_spans(text, whole)] == ["l'", "{a b}", ",", "{c}", "s", "{d}"]
    inline = segment("new <b>{a b}</b>")

    def split(text):
        return word_spans(text, [match.span() for match in re.finditer(r"{[^}]*}", text)])

    weights = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert (
        transfer(inline, "{a b} neuf", weights, words=(split(inline.text), split("{a b} neuf"))).text
        == "<b>{a b}</b> neuf"
    )
    inline = segment("new {a <b>b</b>}")
    words = split(inline.text), split("{a b} neuf")
    assert transfer(inline, "{a b} neuf", weights, words=words).text == "<b>{a b}</b> neuf"
    inline = segment("<i>new {a <b>b</b>}</i>")
    assert transfer(inline, "{a b} neuf", weights, words=words).text == "<i><b>{a b}</b> neuf</i>"


@st.composite
def nested(draw, depth: int = 0):
    """Text with well nested tags of any kind."""
    parts = []
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(["text", "text", "br", "img", "b", "i", "a"]))
        if kind == "text":
            parts.append(draw(st.text(alphabet="ab .'", max_size=6)))
        elif kind in _EMPTY:
            parts.append(f"<{kind}>")
        else:
            parts.append(f"<{kind}>{draw(nested(depth + 1)) if depth < 3 else 'x'}</{kind}>")
    return "".join(parts)


@given(nested(), st.text(alphabet="uv .'", max_size=12), st.data())
def test_any_alignment_keeps_all_codes_the_text_and_the_nesting(source, target, data):
    inline = segment(source)
    shape = len(word_spans(target)), len(word_spans(inline.text))
    numbers = data.draw(st.lists(st.floats(0, 1), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
    weights = np.array(numbers).reshape(shape)
    weights /= np.maximum(1.0, weights.sum(1, keepdims=True)) if shape[1] else 1.0
    found = transfer(inline, target, weights).text
    assert Counter(_TAG.findall(found)) == Counter(_TAG.findall(source))
    assert "".join(_TAG.sub("", found).split()) == "".join(target.split()), "only spaces may differ"
    waiting: list[str] = []
    for tag in _TAG.findall(found):
        if tag.startswith("</"):
            assert waiting.pop() == tag.strip("</>")
        elif tag.strip("<>") not in _EMPTY:
            waiting.append(tag.strip("<>"))
    assert not waiting

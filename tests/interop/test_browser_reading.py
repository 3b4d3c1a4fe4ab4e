"""The page for browsers reads lines as mtkit does: its script, in Node.js, against mtkit's own functions."""

import base64
import gzip
import json
import re
import unicodedata
from collections import Counter
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from node import in_node, needs_node

import mtkit.pages
from mtkit.config.tokenizer import TokenizerConfig
from mtkit.data.sample import read_sample
from mtkit.interop.bergamot.reading import rules, write_words
from mtkit.text import capitals
from mtkit.text import lines as lines_module
from mtkit.text.lines import keep_edges
from mtkit.text.sentences import MASKS, PATTERNS, sentences
from mtkit.tokens.openings import missing_mark
from mtkit.tokens.protected import Protector
from mtkit.tokens.spelling import Spelling, misspelt
from mtkit.tokens.tokenizer import Tokenizer, train_tokenizer
from mtkit.tokens.word_record import WordRecord, record_words
from mtkit.translation.reading import Reader

SCRIPT_FOLDER = Path(mtkit.pages.__file__).parent / "templates" / "browser"
SCRIPT = (SCRIPT_FOLDER / "reading.js").read_text(encoding="utf-8")
READ = (
    SCRIPT
    + """
    const {rules, packed, calls} = given, bytes = packed && Uint8Array.from(atob(packed), each => each.codePointAt(0));
    const reader = readerOf(rules, bytes && await recordOf(bytes));
    return calls.map(([name, ...args]) => reader[name](...args));
    """
)
# What stands between words: accents, soft hyphens, apostrophes, other scripts, emoji, code, addresses, tags, marks.
ODD = [
    "nai\u0308ve so\u00adft l'\u00e9t\u00e9 don\u2019t Stra\u00dfe \u03bb\u03cc\u03b3\u03bf\u03c2; \u0130 x\u00b2",
    "\u05e9\u05dc\u05d5\u05dd \u4f60\u597d\u3002 \u043f\u0440\u0438\u0432\u0435\u0442 \u0915\u094d\u092f",
    "\U0001f468\u200d\U0001f469 \U0001d41a\U0001d41b\U0001d41c",
    "{name} %s {{huose}} {%if%}huose{%endif%} $HUOSE <ph1> huose_id foo.huose `huose` :huose: C:\\huose \\n A-12",
    "https://huose.com/huose?a=b www.huose.com me@huose.org @huose #huose <b> </b> <br> <a\u00a0href='huose'> &amp;",
    "Mr. etc. e.g. z.\u00a0B. U.S. p.m. 3. 19. im Oktober ... \u2026 ?! \u00bf ( ) \u201c \u00bb \u2013 : , "
    + "a" * 120,
]
ODD = ["\t", *" ".join(ODD).split(" ")]


@pytest.fixture(scope="module")
def lines():
    """The source text of the sample corpus."""
    return [src for src, _ in read_sample()["train"]]


@pytest.fixture(scope="module")
def record(lines) -> WordRecord:
    return record_words(lines)


@pytest.fixture(scope="module")
def files(lines, tmp_path_factory):
    """What the script's rules depend on: a tokenizer that knows the characters of the text, and its language."""
    spm = tmp_path_factory.mktemp("tokenizer") / "src.spm"
    train_tokenizer(lines[:2000], TokenizerConfig(vocab_size=400), spm)
    config = SimpleNamespace(data=SimpleNamespace(src_lang="en"))
    return SimpleNamespace(src_tokenizer=Tokenizer.load(spm), config=config, has_one_sentence_a_line=True)


@pytest.fixture
def called(files, record, tmp_path):
    """called(calls): what the script returns for each call, a name of a function with its arguments."""
    write_words(tmp_path / "words.bin", record)
    packed = base64.b64encode((tmp_path / "words.bin").read_bytes()).decode()
    return lambda calls: in_node(READ, {"rules": rules(files), "packed": packed, "calls": calls})


def typed(line: str, random: Random) -> str:
    """Return a line as careless people type it, perhaps with odd parts."""
    words = [misspelt(word, random, "en") if len(word) > 3 and random.random() < 0.2 else word for word in line.split()]
    if random.random() < 0.4:
        for _ in range(random.randrange(1, 4)):
            words.insert(random.randrange(len(words) + 1), random.choice(ODD))
    text = "".join(word + random.choice((" ", " ", " ", " ", " ", " ", "", ". ", "? ", ".")) for word in words).strip()
    forms = (
        str.lower,
        str.upper,
        str.title,
        lambda text: unicodedata.normalize("NFD", text),
        lambda text: text.rstrip(".?! "),
    )
    return random.choice((*forms, str, str))(text)


@needs_node
def test_each_decision_is_that_of_mtkit(called, files, record, lines):
    random = Random(0)
    cases = [typed(random.choice(lines), random) for _ in range(1500)]
    protector = Protector(files.src_tokenizer, "en")
    spelling = Spelling(record.counts, "en", record.rare)
    kept = [protector.values(case) for case in cases]
    calls, expected = [], []
    for n, case in enumerate(cases):
        text, words = spelling.read(case, kept[n])
        calls += [["respelt", case, kept[n]], ["missingMark", case], ["keepEdges", case, cases[n - 1]]]
        calls += [["keepEdges", case, f"{case}."], ["sentencesOf", case]]
        expected += [
            [text, list(map(list, words))],
            missing_mark(case, record.openings),
            keep_edges(case, cases[n - 1]),
        ]
        expected += [keep_edges(case, f"{case}."), sentences(case)]
    returned = called(calls)
    for call, one, other in zip(calls, returned, expected, strict=True):
        assert one == other, call
    assert sum(bool(words) for _, words in returned[::5]) > 100 < sum(map(bool, returned[1::5]))


@needs_node
def test_lines_are_read_as_by_mtkit(called, files, record, lines):
    reader = Reader([files.src_tokenizer], files=files, by_sentence=files.has_one_sentence_a_line)
    spelling = Spelling(record.counts, "en", record.rare)
    reader.training_text = SimpleNamespace(  # type: ignore[assignment]
        spelling=spelling, words=record, capitals=None, has_few_in_small_letters=False
    )
    random = Random(1)
    cases, expected = list[str](), list[dict[str, Any]]()
    while len(cases) < 800:
        line = typed(f"{random.choice(lines)} {random.choice(lines)}", random)
        [pieces] = reader.pieces([line], 10**6)
        if any(piece.inline is not None for piece in pieces):
            continue  # the model reads such a line without the characters that it does not know
        read = [piece.replaced.text for piece in pieces]
        cases.append(line)
        expected.append(
            {
                "text": "".join("".join(text + missing_mark(text, record.openings) for text in read).split()),
                "words": [list(words) for piece in pieces if piece.respelt for words in piece.respelt.words],
            }
        )
    returned = called([["read", case] for case in cases])
    for case, one, other in zip(cases, returned, expected, strict=True):
        assert {**one, "text": "".join(one["text"].split())} == other, case


@needs_node
def test_the_edges_of_translations_are_those_of_mtkit(called):
    headings = [
        ("Contact us", "Contactez-nous."),
        ("Chapter 3", "Kapitel 3."),
        ("What", "\u00bfQu\u00e9?"),
        ("Wait !", "Attends !"),
    ]
    kept = [("It rains.", "Il pleut."), ("at night", "at 9 p.m."), ("Louis", "Louis XIV."), ("on the 3", "am 3.")]
    kept += [("\u05e9\u05dc\u05d5\u05dd.\u200f", "Hello."), ("Name:", "...")]
    other_scripts = [
        ("\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "Hello."),
        ("\u0a4b;", "Who?"),
        ("good", "\u597d\u3002"),
        ("Who", "\u03a0\u03bf\u03b9\u03bf\u03c2;"),
        ("Its echo", "L'\u00e9co."),
        ("Lesson in 3", "Lektion in 3."),
        ("\u03c0\u03bf\u03b9\u03bf\u03c2;", "Who?"),
    ]
    edges = [
        ("Name:", "Nom."),
        ("Well\u2026", "Eh bien."),
        ("- One", "Un."),
        ("One, two \u2013", "Un, deux."),
        ("(One)", "(Un)."),
        ("a", ""),
    ]
    cases = [*headings, *kept, *other_scripts, *edges]
    returned = called([["keepEdges", *case] for case in cases])
    assert returned == [keep_edges(*case) for case in cases]
    assert sum(text != translation for text, (_, translation) in zip(returned, cases, strict=True)) >= 8


@needs_node
def test_letters_of_another_script_are_not_counted_as_typos(called):
    [read] = called([["read", "the huose of \u043f\u0440\u0438\u0432\u0435\u0442 and the cat."]])
    assert read["words"] == [["huose", "house"]]


@needs_node
def test_tags_stay_and_the_marks_around_them_follow_the_text(called):
    [read, heading, marked, bare] = called(
        [
            ["readTagged", ' <p class="huose">where does <b title="a>b">teh</b> house</p> '],
            ["keepTaggedEdges", "<p>Contact <b>us</b></p>", "<p>Contactez-<b>nous.</b></p>"],
            ["keepTaggedEdges", "<i>It rains.</i>", "<i>Il pleut.</i>"],
            ["keepTaggedEdges", "<b>Name</b>:", "<b>Nom</b>."],
        ]
    )
    assert read["text"] == ' <p class="huose">where does <b title="a>b">the</b> house?</p> '
    assert read["words"] == [["teh", "the"]]
    assert (heading, marked) == ("<p>Contactez-<b>nous</b></p>", "<i>Il pleut.</i>")
    assert bare == "<b>Nom</b>:"


@needs_node
def test_text_with_the_character_that_stands_for_tags_keeps_its_tags(called):
    html = f"see {chr(MASKS[-1])} <b>teh</b> house {chr(MASKS[-1])}"
    [read] = called([["readTagged", html]])
    assert read["text"] == html.replace("teh", "the")


@needs_node
def test_html_is_read_by_lines_and_blocks_but_a_tag_stays_whole():
    [block] = re.findall("const BLOCK = (.*/i);", (SCRIPT_FOLDER.parent / "browser.html.j2").read_text("utf-8"))
    html = 'One\n<a title="is teh\n huose">two</a><p title="a > b">three</p>'
    parts = in_node(f"return given.split({block});", html)
    assert parts == ["One", "\n", '<a title="is teh\n huose">two</a>', '<p title="a > b">', "three", "</p>", ""]


@needs_node
def test_each_sentence_of_text_in_one_case_is_read_alone_and_with_its_own_final_mark(files, tmp_path):
    page = (SCRIPT_FOLDER.parent / "browser.html.j2").read_text("utf-8")
    casing = page[page.index("const locale") : page.index("async function translatedTexts")]
    casing = casing.replace("{{ raises_small | tojson }}", "true")
    called = READ.replace("const reader =", "reader =").replace("reader[name](...args)", "asRead(name).text")
    script = f"const PAIR = {{from: 'en'}}; {casing} {called}"
    write_words(tmp_path / "words.bin", WordRecord(Counter(), {"he": ".", "i": ".", "where": "?"}))
    packed = base64.b64encode((tmp_path / "words.bin").read_bytes()).decode()
    lines = {
        "hello. where is tom? he is here. i don't know": "Hello. Where is tom? He is here. I don't know.",
        "he is here. where is tom": "He is here. Where is tom?",
        "where is tom? i don't know": "Where is tom? I don't know.",
        "HE IS IN IT. WHERE IS TOM": "He is in it. Where is tom?",
        "he left at 5 p.m. and is here": "He left at 5 p.m. and is here.",
        "HE HAS PEARS, ETC. AND IS HERE": "He has pears, etc. and is here.",
    }
    assert in_node(script, {"rules": rules(files), "packed": packed, "calls": [[line] for line in lines]}) == list(
        lines.values()
    )


@needs_node
def test_without_a_record_lines_stay_as_they_are(files):
    calls = [["read", "where is teh house"], ["keepEdges", "Contact us", "Contactez-nous."]]
    read, edges = in_node(READ, {"rules": rules(files), "packed": None, "calls": calls})
    assert read == {"text": "where is teh house", "words": []} and edges == "Contactez-nous"


def test_the_file_lists_no_word_that_is_rare(tmp_path):
    opened = {"can": "?", "miller is": "."}
    write_words(
        tmp_path / "words.bin", WordRecord(Counter({"two": 19, "cats": 10, "Miller": 9}), opened, frozenset({7}))
    )
    content = gzip.decompress((tmp_path / "words.bin").read_bytes())
    head = json.loads(content.splitlines()[0])
    assert head["words"] == "two cats" and head["counts"] == [19, 10]
    assert head["sizes"] == {"rare": 2, ".": 1, "?": 1}
    assert b"iller" not in content


def n_read(pattern: re.Pattern[str], text: str) -> int:
    """The characters that a search for a pattern at the end reads from all places where a match may begin."""
    head = re.compile(pattern.pattern.removesuffix(r"\Z"), pattern.flags)
    return sum(match.end() - at for at in range(len(text)) if (match := head.match(text, at)))


@pytest.mark.parametrize("unit", [" ", ".", "…", "”", ". ", "\u200e", "\u0e31"])
def test_twice_as_many_of_a_character_take_twice_the_work(unit):
    patterns = {**capitals.patterns(), **PATTERNS, **lines_module.PATTERNS}
    for name, pattern in patterns.items():
        if pattern.pattern.endswith(r"\Z") and name not in ("headingNumber", "beforeGlued"):  # of some characters only
            once, twice = (n_read(pattern, "a" + unit * n + "a") for n in (200, 400))
            assert twice <= 2 * once + 8, name

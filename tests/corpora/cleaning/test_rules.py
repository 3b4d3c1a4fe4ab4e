import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.config.cleaning import CleanConfig
from mtkit.corpora.cleaning.clean import judge
from mtkit.corpora.cleaning.repair import repair
from mtkit.corpora.cleaning.rules import RULES, active_rules
from mtkit.corpora.cleaning.window import Lines
from mtkit.pair_files.pairs import Pair
from mtkit.quality.faults import find_loop
from mtkit.quality.language import BLOCK
from mtkit.text.scripts import scripts_of
from mtkit.text.words import n_letters

ALL = CleanConfig().repair


def rule_of(
    src: str, tgt: str, langs: tuple[str, str] = ("en", "de"), keys: dict[str, object] | None = None
) -> tuple[str, str] | None:
    """Return the rule that drops the pair and its value; None if it is kept."""
    [rejection] = judge([Pair(src, tgt, "a.en", 1)], langs, CleanConfig.model_validate(keys or {})).rejections
    return rejection


@pytest.mark.parametrize(
    ("text", "repaired"),
    [
        ("Cafe\u0301", "Café"),
        ("  two \t words \n here ", "two words here"),
        ("a\u200bb\u00adc\x07", "abc"),
        ("Quoi\u00a0?", "Quoi\u00a0?"),  # typography
        ("Quoi\u00a0 ?", "Quoi ?"),
        ("Ã©tÃ© Ã  la mer", "été à la mer"),
        ("schÃ¶n", "schön"),
        ("AT&amp;amp;T &quot;x&quot; &#39;", 'AT&T "x" \''),
        ("a&#10;b &#13;c&NewLine;d&#x2028;e&Tab;f &#xFFFE;", "a b c d e f &#xFFFE;"),
        ("a &amp; <b>b</b>", "a &amp; <b>b</b>"),  # markup: the entity belongs there
        ("R&D; &nosuch;", "R&D; &nosuch;"),
        ("می‌روم", "می‌روم"),  # U+200C is part of the word
        ("１２、テスト", "１２、テスト"),
    ],
)
def test_text_is_repaired(text, repaired):
    assert repair([text], ALL) == [repaired]


def test_steps_that_are_not_asked_for_change_nothing():
    assert repair(["Ã©  &amp;"], []) == ["Ã©  &amp;"]
    assert repair(["Ã©  &amp;"], ["spaces"]) == ["Ã© &amp;"]


TEXTS = st.text(st.sampled_from("aé ̈\u00a0\u3000\t\n\r\x85\u2028&;ampÃ©\u200b\ufeff<"), max_size=12)


@given(st.lists(TEXTS, max_size=6))
def test_repairing_lines_together_is_repairing_each(lines):
    together = repair(lines, ALL)
    assert together == [text for line in lines for text in repair([line], ALL)]
    assert not any(c in line for line in together for c in "\n\r\t\x85\u2028\u200b\ufeff")


@pytest.mark.parametrize(
    ("src", "tgt", "rule", "value"),
    [
        ("", "Hallo.", "empty", "source"),
        ("Hello.", " ... ", "empty", "target: ..."),
        ("Hello the\ufffdre.", "Hallo.", "encoding", "1 characters"),
        ("a" * 1001, "Hallo.", "max_letters", "1001 letters"),
        (
            "It is " + "x" * 61 + " here, my dear friend.",
            "Es ist hier, mein lieber alter Freund, bei uns.",
            "max_word_letters",
            "61 in",
        ),
        (
            "Yes, I think so.",
            "Ja, ich denke, dass es so ist, und zwar immer, jeden Tag und jede Nacht.",
            "max_length_ratio",
            "4.50",
        ),
        ("12 | 13 | 14 | ab", "12 | 13 | 14 | cd", "min_letters_share", "0.18"),
        ("030 1234567", "030 1234567", "min_letters_share", "0.00"),
        ("Good morning!", "Доброе утро!", "min_script_share", "0.00 Latin"),
        ("The weather is very nice today.", "Het weer is vandaag heel erg mooi.", "language", "nl"),
        ("The house is very old.", "The house is very old.", "language", "en"),
        ("There are 15 chairs here.", "Hier stehen 16 Stühle.", "numbers", "15"),
        ("Visit www.example.org today.", "Kommen Sie uns heute besuchen.", "urls", "www.example.org"),
        ("Delete {count} of these files?", "Diese Dateien jetzt löschen?", "placeholders", "{count}"),
        ("Saving %s to the disk now.", "Speichere %d jetzt auf die Platte.", "placeholders", "%d"),
        ("This is <b>very</b> important.", "Das ist sehr wichtig für uns.", "tags", "<b> </b>"),
        ("Now add <object> to the list.", "Jetzt auf die Liste setzen.", "tags", "source only: <...>"),
        ("This is <b>very important.", "Das ist sehr wichtig für uns.", "tags", "<b>"),
        ("Moving %s to the line %d now.", "Verschiebe jetzt %2$s auf Zeile %1$d.", "placeholders", "%1$s"),
        ("I like it very much here.", "Ich mag es sehr sehr sehr sehr sehr gern.", "repetition", "sehr"),
    ],
)
def test_a_rule_drops_what_it_is_for(src, tgt, rule, value):
    rejection = rule_of(src, tgt)
    assert rejection is not None
    assert rejection[0] == rule
    assert value in rejection[1]
    if rule != "empty":  # and only this rule stands in the way
        assert rule_of(src, tgt, keys={rule: None if rule.startswith("m") else False}) != rejection


@pytest.mark.parametrize(
    ("src", "tgt", "langs"),
    [
        ("Go.", "Geh.", ("en", "de")),
        ("Hi!", "Hallo!", ("en", "de")),
        ("Tom?", "Tom?", ("en", "de")),
        ("Wow!", "Wow!", ("en", "fr")),
        ("It is 3 p.m.", "Es ist 15 Uhr.", ("en", "de")),
        ("Tom lives 10 miles from the border.", "Tom wohnt 16 Kilometer von der Grenze entfernt.", ("en", "de")),
        ("It costs $1,500.50.", "Es kostet 1.500,50 $.", ("en", "de")),
        ("No, no, no!", "Nein, nein, nein!", ("en", "de")),
        ("Click <a href='x'>here</a>.", "Klicken Sie <a>hier</a>.", ("en", "de")),
        ("100 % sure", "Zu 100 % sicher", ("en", "de")),
        ("Add <object> to <old file> now.", "Jetzt <Objekt> zu <Änderung> hinzufügen.", ("en", "de")),
        ("Moving %s to the line %d now.", "In die Zeile %2$d wird jetzt %1$s verschoben.", ("en", "de")),
        ("I want to drink a cup of hot tea with my friends tomorrow.", "明天我想和朋友们一起喝杯热茶。", ("en", "zh")),
        ("I am going to school by train today with my mother.", "今日は母と電車で学校に行きます。", ("en", "ja")),
        ("I want to eat rice at the restaurant near my house.", "ฉันอยากกินข้าวที่ร้านอาหารใกล้บ้านของฉัน", ("en", "th")),
        ("What is this?", "这是什么？", ("en", "zh-Hans")),
        ("It is cold today.", "Сегодня холодно.", ("en", "ru")),
        (
            "See https://example.org/" + "a" * 80 + " please.",
            "Siehe https://example.org/" + "a" * 80 + " bitte.",
            ("en", "de"),
        ),
        ("ThinkPad x200", "ThinkPad x200", ("xx", "yy")),
        ("info@acme.com", "info@acme.com", ("en", "de")),
        ("Tel. 030 1234567", "Tel. 030 1234567", ("en", "de")),
        ("Call 1-800-555-0199.", "Rufen Sie 1-800-555-0199 an.", ("en", "de")),
        ("A 50% discount on everything!", "Her şeyde %50 indirim!", ("en", "tr")),
        ("The rate rose by 2.5%.", "Oran %2,5 arttı.", ("en", "tr")),
        ("Please visit www.example.com today.", "www.example.comをご覧ください。", ("en", "ja")),
        ("See http://example.com/b for more.", "更多信息请见http://example.com/b。", ("en", "zh")),
        ("Mail me at joe@example.com today.", "今天发邮件到joe@example.com。", ("en", "zh")),
        ("Visit www.example.com now.", "Şimdi www.example.com'u ziyaret edin.", ("en", "tr")),
        ("See http://example.com/b: it is new.", "Voir http://example.com/b\u00a0: c'est nouveau.", ("en", "fr")),
    ],
)
def test_good_pairs_stay(src, tgt, langs):
    assert rule_of(src, tgt, langs) is None


def test_the_first_rule_in_order_has_the_pair_and_all_rules_count_alone():
    judged = judge([Pair("", "", "a", 1), Pair("Go 12!", "Geh 13!", "a", 2)], ("en", "de"), CleanConfig())
    assert judged.rejections[0] is not None and judged.rejections[0].rule == "empty"
    assert judged.rejections[1] is not None and judged.rejections[1].rule == "numbers"
    assert list(judged.alone) == active_rules(CleanConfig())
    assert {rule for rule, verdicts in judged.alone.items() if 1 in verdicts} == {"numbers"}


def test_scores_below_the_minimum_drop_a_pair(tmp_path):
    cfg = CleanConfig(score=tmp_path / "scores", min_score=0.5)
    pairs = [Pair("Good day.", "Guten Tag.", "a", i) for i in (1, 2, 3)]
    judged = judge(pairs, ("en", "de"), cfg, [0.5, 0.49, -3.0])
    assert [r and tuple(r) for r in judged.rejections] == [None, ("min_score", "0.49"), ("min_score", "-3")]


@pytest.mark.parametrize("keys", [{}, {"max_letters": None}])
@pytest.mark.parametrize("long", ["1,234 " * 50_000, "a" + "\u0316\u0301" * 150_000])
def test_what_is_far_too_long_is_dropped_without_judging_it(long, keys):
    pairs = [Pair("Go.", "Geh.", "a", 1), Pair("x", long, "a", 2), Pair(long[::-1], long, "a", 3)]
    judged = judge(pairs, ("en", "de"), CleanConfig.model_validate(keys))
    first, second, third = judged.rejections
    assert first is None and second == ("max_letters", f"target: {len(long):,} characters")
    assert third is not None and third.rule == "max_letters" and judged.tgt[1] == long


def test_every_rule_but_two_can_be_switched_off():
    off = {name: None if name.startswith("m") else False for name in RULES if name not in ("empty", "min_score")}
    assert active_rules(CleanConfig.model_validate(off)) == ["empty", "max_letters"]


WORDS = [
    "the",
    "house",
    "Haus",
    "12",
    "13",
    "%s",
    "<b>",
    "https://a.de",
    "ist",
    "是",
    "Москва",
    "",
    "\ufffd",
    "  ",
    "no no no no",
]
SIDES = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)


@given(st.lists(st.tuples(SIDES, SIDES), max_size=4 * BLOCK), st.integers(0, 3))
def test_a_window_cut_between_blocks_gives_the_same_verdicts(sides, blocks):
    pairs = [Pair(src, tgt, "a", line) for line, (src, tgt) in enumerate(sides, start=1)]
    whole, cut = judge(pairs, ("en", "de"), CleanConfig()), blocks * BLOCK
    parts = [judge(part, ("en", "de"), CleanConfig()) for part in (pairs[:cut], pairs[cut:])]
    assert whole.rejections == parts[0].rejections + parts[1].rejections
    assert whole.src == parts[0].src + parts[1].src


@given(st.lists(st.text(max_size=20), min_size=1, max_size=8))
def test_figures_of_many_lines_are_those_of_each(texts):
    texts = [text.replace("\n", " ") for text in texts]
    lines = Lines(texts, "en")
    assert lines.n_visible.tolist() == [sum(not c.isspace() for c in text) for text in texts]
    letters = [n_letters(f"x{text}x") - 2 for text in texts]  # n_letters strips its text
    assert lines.n_letters.tolist() == letters


@given(
    st.lists(st.lists(st.sampled_from(["na", "so", "ha", "!", "你", "verylongwordindeed"]), max_size=24), max_size=5)
)
def test_no_loop_is_overlooked_by_looking_at_a_whole_window(lines):
    texts = [" ".join(words) for words in lines]
    window = Lines(texts, "en")
    candidates = {*window.with_repeated_words(40), *window.with_repeated_characters()}
    assert candidates >= {i for i, text in enumerate(texts) if find_loop("", text)}


def test_scripts_follow_the_language_code():
    assert scripts_of("zh-Hant") == ("Han",)
    assert scripts_of("ja") == ("Kana", "Han")
    assert scripts_of("sr-Latn") == ("Latin",)
    assert scripts_of("xx") == ()
    assert np.array_equal(Lines(["aя是", ""], "en").n_in(("Cyrillic", "Han")), [2, 0])

"""Where a line of a text ends."""

import pytest

from mtkit.text.lines import keep_edges, line_spans, lines_in, text_spans


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a\nb\r\nc\rd", ["a", "b", "c", "d"]),
        ("a\n\n", ["a", "", ""]),
        ("a\u2028b\x0bc\x0cd\x85e", ["a\u2028b\x0bc\x0cd\x85e"]),
        ("", [""]),
    ],
)
def test_a_line_ends_with_lf_crlf_or_cr_alone(text, lines):
    assert lines_in(text) == lines
    assert [text[start:end] for start, end in line_spans(text)] == lines


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (r"Plan B:\nGo", ["Plan B:", "Go"]),
        (r"Plan B:\n\nÀ demain", ["Plan B:", "À demain"]),
        (r"The sum \(\theta + \nu\) is small", [r"The sum \(\theta + \nu\) is small"]),
        (r"Open C:\new\red.txt", [r"Open C:\new\red.txt"]),
        (r"D:\NVIDIA\nodes", [r"D:\NVIDIA\nodes"]),
    ],
)
def test_a_written_break_behind_a_letter_and_a_colon_is_not_a_path(text, parts):
    assert [text[start:end] for start, end in text_spans(text)] == parts


@pytest.mark.parametrize(
    "text",
    [
        "M. Jackson est là.",
        "J. Smith wrote this book.",
        "I. M. Pei built it.",
        "U. S. troops left.",
        "E. coli is a bacterium.",
        "X. Li and V. I. Ivanov left.",
        "II. Mahmud öldü.",
        "z. B. ist das Haus rot.",
        "p. ex. le chat",
    ],
)
@pytest.mark.parametrize("mark", ["", "- ", "1. ", "> (a) "])
def test_an_initial_or_an_abbreviation_is_not_the_mark_of_a_list(text, mark):
    line = mark + text
    assert [line[start:end] for start, end in text_spans(line)] == [text]


@pytest.mark.parametrize(
    "mark", ["1.", "12)", "(3)", "a.", "b)", "(c)", "A)", "(B)", "iv.", "(ii)", "II)", "-", "##", "[x]"]
)
def test_the_mark_of_a_list_does_not_belong_to_its_text(mark):
    line = f"{mark} The cat sleeps."
    assert [line[start:end] for start, end in text_spans(line)] == ["The cat sleeps."]


@pytest.mark.parametrize(
    ("src", "translation", "expected"),
    [
        ("The cat sleeps…", "Le chat dort.", "Le chat dort…"),
        ("The cat sleeps...", "Le chat dort", "Le chat dort..."),
        ("The dog runs:", "Le chien court.", "Le chien court:"),
        ("The dog runs:", "Le chien court :", "Le chien court :"),
        ("The dog runs:", "狗跑：", "狗跑："),
        ("The dog runs…", "Le chien court...", "Le chien court..."),
        ("— I love it", "Je l'aime", "— Je l'aime"),
        ("- I love it", "– Je l'aime", "– Je l'aime"),
        ("…and he runs", "et il court", "…et il court"),
        ("The dog –", "Le chien", "Le chien –"),
        ("well-", "bien", "bien"),
        ("The dog runs.", "Le chien court", "Le chien court"),
        ("The dog runs:", "", ""),
        ("Contact us", "Contactez-nous.", "Contactez-nous"),
        ("where are you", "Où es-tu ?", "Où es-tu"),
        ("where are you", "¿Dónde estás?", "Dónde estás"),
        ("I like Tom", "J'aime Tom.", "J'aime Tom"),
        ("Where are you?", "Où es-tu ?", "Où es-tu ?"),
        ("<b>He left.</b>", "<b>Il est parti</b>.", "<b>Il est parti</b>."),
        ('He left.<img alt="x > y">', "Il est parti.", "Il est parti."),
        ("He left. < laughs >", "Il est parti. < rit >.", "Il est parti. < rit >"),  # not a tag
        ("(He left.)", "(Il est parti.)", "(Il est parti.)"),
        ("at five", "à 17 h, p.m.", "à 17 h, p.m."),
        ("apples and so on", "Äpfel usw.", "Äpfel usw."),
        ("on the third", "am 3.", "am 3."),
        ("he waits", "il attend...", "il attend..."),
        ("ฉันรักเธอ", "I love you.", "I love you."),
        ("我爱你", "I love you.", "I love you"),
        ("Hello", ".", "."),
        ("Πού είσαι;", "Where are you?", "Where are you?"),
        ("where are you", "Πού είσαι;", "Πού είσαι"),
        ("Stop;", "Stop", "Stop;"),
        ("What? Nothing", "¿Qué? Nada.", "¿Qué? Nada"),
        ("Tom, where are you", "Tom, ¿dónde estás?", "Tom, dónde estás"),
        ("3rd", "3.", "3."),
        ("Louis XIV", "Ludwig XIV.", "Ludwig XIV."),
        ("Chapter 3", "Kapitel 3.", "Kapitel 3"),
    ],
)
def test_a_translation_keeps_the_marks_at_its_edges(src, translation, expected):
    assert keep_edges(src, translation) == expected

"""Where one sentence ends and the next begins."""

import pytest

from mtkit.text.sentences import ends_without_space, final_marks, sentences, share_of_several


@pytest.mark.parametrize(
    "heading",
    [
        "A.1. Einleitung",
        "Chapter 1. Welcome",
        "3.2.1. Booting",
        "12. Index",
        "Abbildung 2-1. Partitionen",
        "VIII. Ende",
    ],
)
def test_the_number_of_a_heading_or_of_a_list_item_stays_with_its_text(heading):
    assert sentences(heading) == [heading]
    assert sentences(f"It ends. {heading}")[-1].endswith(heading.split()[-1])


def test_a_number_at_the_start_stays_and_one_at_the_end_of_a_sentence_ends_it():
    assert sentences("1. Buy 2. She left in 1996. 2. Sell it.") == ["1. Buy 2.", "She left in 1996.", "2. Sell it."]
    assert sentences("Die Antwort ist 42. Sie stimmt.") == ["Die Antwort ist 42.", "Sie stimmt."]
    assert sentences("I am 20. She is not.") == ["I am 20.", "She is not."]


@pytest.mark.parametrize(
    "sentence",
    [
        "Es erschien am 31. Oktober 1996 in Bonn.",
        "Im 19. Jahrhundert begann der 2. Umbau am 3. Tag.",
        "Some (e.g. If you do) and others, eg. Linux, stay.",
        "Manche (z.B. Falls sie da sind, z. B. Linux, d. h. Unix) bleiben.",
        "Die S.u.S.E. GmbH liefert, vgl. Anhang und bzw. Prof. Meier.",
    ],
)
def test_a_date_an_ordinal_or_an_abbreviation_does_not_end_a_sentence(sentence):
    assert sentences(sentence) == [sentence]


@pytest.mark.parametrize("mark", ["\u200e", "\u200f", "\u202c"])
def test_a_mark_of_direction_behind_a_full_stop_hides_no_end(mark):
    assert sentences(f"It rained.{mark} We left.{mark}") == [f"It rained.{mark}", f"We left.{mark}"]
    assert final_marks(f"Why?{mark}") == f"?{mark}"


@pytest.mark.parametrize(
    "text",
    [
        "It is assigned to the U.S. Navy’s Seventh Fleet.",
        "At 1:15 a.m. Saturday, the bus went through a green light.",
        "Many non-U.S. Arctic peoples know it.",
        "Diabetes cost the U.S. $244 billion in 2012.",
        "We read D.H. Lawrence.",
    ],
)
def test_a_sentence_goes_on_after_initials(text):
    assert sentences(text) == [text]


def test_what_is_short_and_no_abbreviation_ends_a_sentence():
    assert sentences("It closed at 5 p.m. Then we left the U.S. It rained.") == [
        "It closed at 5 p.m.",
        "Then we left the U.S.",
        "It rained.",
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("यह पहला वाक्य है।", "यह दूसरा है।"),  # Hindi
        ("یہ پی۔ایچ۔ڈی ہے۔", "یہ دوسرا ہے۔"),  # Urdu, with an abbreviation
        ("كيف حالك؟", "أنا بخير."),  # Arabic
        ("Սա առաջինն է։", "Սա երկրորդն է։"),  # Armenian
        ("ይህ አንድ ነው።", "ይህ ሁለት ነው።"),  # Amharic
        ("នេះជាមួយ។", "នេះជាពីរ។"),  # Khmer
        ("ဒါတစ်ခု။", "ဒါနှစ်ခု။"),  # Burmese
        ("„Komm herein.“", "Dann ging er."),
        ("»Kom ind!«", "Så gik han."),
        ("« Entrez. »", "Puis il partit."),
    ],
)
def test_sentences_end_in_every_script_and_before_closing_quotation_marks(first, second):
    assert sentences(f"{first} {second}") == [first, second]


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("他来了。", True),
        ("「走！」", True),
        ("行くぞ？", True),
        ("यह दूसरा है।", False),  # Hindi
        ("ওটা দ্বিতীয়।", False),  # Bengali
        ("ဒါနှစ်ခု။", False),  # Burmese
        ("བཀྲ་ཤིས།", False),  # Tibetan
    ],
)
def test_only_chinese_and_japanese_put_no_space_between_sentences_but_others_are_divided_without_one(text, without):
    assert ends_without_space(text) == without
    assert sentences(text + text) == [text, text]


@pytest.mark.parametrize("attached", ["[1]", "[2][13]", "**", "\U00100000", '"\U00100001', "_"])
def test_a_sentence_ends_before_the_number_of_a_note_and_what_is_attached_to_it(attached):
    assert sentences(f"It rained.{attached} We left.") == [f"It rained.{attached}", "We left."]


def test_a_closing_quotation_mark_is_not_a_sentence():
    assert sentences("« Entrez. »") == ["« Entrez. »"]
    assert sentences("„Herein.“") == ["„Herein.“"]


def test_an_opening_quotation_mark_begins_the_next_sentence():
    assert sentences("他来了。“你好！”他说。") == ["他来了。", "“你好！”", "他说。"]
    assert sentences("He came. “Hello!” He left.") == ["He came.", "“Hello!”", "He left."]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("He plays tennis.", "He loves your aunt."),
        ("Does he play tennis?", "I do not know."),
        ("There is not one good thing to learn.", "Learning takes place."),  # FLORES
        ("Er spielt wirklich gern!", "Über Tennis weiß er alles."),
        ("Dijo “no lo sé.”", "¿Qué más dijo?"),
        ("Он играет хорошо.", "Она любит его."),
        ("The red house burns...", "Help me!"),
        ("He plays tennis.", "\U00100000He loves her."),  # such as &nbsp;, which stays whole
    ],
)
def test_sentences_without_a_space_between_them_are_two(first, second):
    assert sentences(first + second) == [first, second]


@pytest.mark.parametrize(
    "sentence",
    [
        "Visit us on example.com or on www.example.Org today.",
        "It costs 3.14 in the U.S.A and has a Ph.D. in it.",
        "The file lies in node.js or README.Md of the folder.",
        "Use fmt.Println or the class System.Net for it.",
        "Call obj.Method of it.",
        "Please read a.b.Some and notes.Final.docx before.",
        "At 356 a.C. em Roma.",
        "He searches on Yahoo!Answers for it.",
    ],
)
def test_a_mark_inside_a_name_ends_no_sentence(sentence):
    assert sentences(sentence) == [sentence]


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("It rains.", "."),
        ('"Does it?!" ', '?!" '),
        ("Il pleut. »", ". »"),
        ("„Es regnet.“", ".“"),
        ("下雨了。」", "。」"),
        ("बारिश हो रही है।", "।"),
        ("It costs 3.50", ""),
        ("a list:", ""),
        ("(no mark)", ""),
        ("", ""),
    ],
)
def test_the_marks_at_the_end_of_a_sentence_come_with_what_closes_it(text, marks):
    assert final_marks(text) == marks


def test_the_share_of_lines_with_several_sentences():
    assert share_of_several(["One cat.", " It rains. It snows. ", "Mr. Smith", ""]) == 0.25
    assert share_of_several([]) == 0


def test_template_code_is_not_divided():
    text = 'A {% trans "No. No." %} cat. The <?php a(". B"); ?> dog {# C. D #} runs. {{ x }} sleeps.'
    assert sentences(text) == [
        'A {% trans "No. No." %} cat.',
        'The <?php a(". B"); ?> dog {# C. D #} runs.',
        "{{ x }} sleeps.",
    ]

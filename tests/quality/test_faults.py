"""Faults of a translation, checked on broken and on sound translations."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.quality.faults import find_faults, find_left, is_likely_length
from mtkit.quality.numbers import lost_numbers
from mtkit.text.words import n_letters

SRC = "The old man walks slowly along the river with his two dogs."
GOOD = "Le vieil homme marche lentement le long de la rivière avec ses deux chiens."


def kinds(src: str, text: str, **hints: Any) -> list[str]:
    return sorted({fault.kind for fault in find_faults(src, text, **hints)})


# Numbers. Each pair is a sound translation, in both directions unless said otherwise.
SAME_NUMBERS = [
    ("It costs 1,000 euros.", "Cela coûte 1 000 euros.", "fr"),
    ("It costs 1,000 euros.", "Cela coûte 1\u202f000 euros.", "fr"),
    ("It costs 1,000 euros.", "Es kostet 1.000 Euro.", "de"),
    ("It costs 1,000 euros.", "Es kostet 1000 Euro.", "de"),
    ("It costs 1,234,567.89 euros.", "Cela coûte 1 234 567,89 euros.", "fr"),
    ("It costs 1,234,567.89 euros.", "Custa 1.234.567,89 euros.", "pt"),
    ("It is 3.5 km away.", "Es ist 3,5 km entfernt.", "de"),
    ("It starts at 12:30.", "Cela commence à 12 h 30.", "fr"),
    ("It starts at 12:30.", "Começa às 12h30.", "pt"),
    ("It starts at 12:30.", "Es beginnt um 12.30 Uhr.", "de"),
    ("It starts at 3 pm.", "Cela commence à 15 h.", "fr"),
    ("It starts at 3 p.m.", "Es beginnt um 15 Uhr.", "de"),
    ("On 12/25/2010 he left.", "Il partit le 25/12/2010.", "fr"),
    ("In the 1990s he left.", "Il partit dans les années 90.", "fr"),
    ("The 3rd door.", "La 3e porte.", "fr"),
    ("The 3rd door.", "Die 3. Tür.", "de"),
    ("The phone number is 555-1234.", "Le numéro est 555 12 34.", "fr"),
    ("It costs ３５ euros.", "Cela coûte 35 euros.", "fr"),
    ("It weighs ٣٥ kg.", "It weighs 35 kg.", "en"),
    ("2.5 million people", "2 500 000 personnes", "fr"),
    ("24,000 meteorites", "24 mil meteoritos", "pt"),
    ("12,000 people", "1.2万人", "zh"),
    ("The shop closes at 5.", "Das Geschäft schließt um 17 Uhr.", "de"),
    ("It is half past 5.", "Es ist halb 6.", "de"),
    ("I'll go at a quarter past 6.", "Ich gehe um Viertel nach 6.", "de"),
    ("By 3/14/24, please.", "Bitte bis 14.03.2024.", "de"),
    ("It is due on 3/14.", "Die Frist ist der 14.3.", "de"),
    ("It takes 1 1/2 hours.", "Es dauert 1,5 Stunden.", "de"),
    ("It takes 1½ hours.", "Es dauert 1,5 Stunden.", "de"),
    ("It is a 1.5 hour drive.", "São 1:30 de carro.", "pt"),
    ("Call 030/123 45 67.", "Rufen Sie +49 30 1234567 an.", "de"),
    ("Call 01 23 45 67 89.", "Appelez le +33 1 23 45 67 89.", "fr"),
]
# Digits in the source, something else in the translation.
WRITTEN_OUT = [
    ("There are 2 dogs.", "Il y a deux chiens.", "fr"),
    ("He is 80.", "Il a quatre-vingts ans.", "fr"),
    ("He is 97.", "Il a quatre-vingt-dix-sept ans.", "fr"),
    ("I was born in 1988.", "Je suis né en mille neuf cent quatre-vingt-huit.", "fr"),
    ("I was born in 1988.", "I was born in nineteen eighty-eight.", "en"),
    ("He paid 1,000 yen.", "Er zahlte tausend Yen.", "de"),
    ("26 million people", "sechsundzwanzig Millionen Menschen", "de"),
    ("I'm 24 years old.", "Ich bin vierundzwanzig Jahre alt.", "de"),
    ("There are 243 houses.", "Es gibt zweihundertdreiundvierzig Häuser.", "de"),
    ("There are 35 houses.", "Há trinta e cinco casas.", "pt"),
    ("There are 350 houses.", "Hay trescientas cincuenta casas.", "es"),
    ("There are 230 houses.", "有二百三十座房子。", "zh"),
    ("In 2013 he left.", "Il partit en deux mille treize.", "fr"),
    ("The meeting is at 2:30.", "Das Treffen ist um halb drei.", "de"),
    ("The meeting is at 2:30.", "La réunion est à deux heures et demie.", "fr"),
    ("The meeting is at 8:00.", "La réunion est à huit heures.", "fr"),
    ("The meeting is at 4:50.", "The meeting is at ten to five.", "en"),
    ("On 2010-12-25 he left.", "Il partit le 25 décembre 2010.", "fr"),
    ("In the 18th century", "Au XVIIIe siècle", "fr"),
    ("In the 21st century", "Au vingt-et-unième siècle", "fr"),
    ("The 16th house", "La seizième maison", "fr"),
    ("The 5th floor", "Der fünfte Stock", "de"),
    ("1/2 of it", "La moitié", "fr"),
    ("99.9% of it", "Quatre-vingt-dix-neuf virgule neuf pour cent", "fr"),
    ("Plants need CO2.", "Les plantes ont besoin de dioxyde de carbone.", "fr"),
    ("48 bases", "four dozen bases; some 4 dozen", "en"),
    ("48 bases", "some four dozen bases", "en"),
    ("It's half past 5.", "Es ist halb sechs.", "de"),
    ("I go to bed at 10.30.", "Ich gehe um halb elf schlafen.", "de"),
    ("How about 12:45?", "Wie wäre es mit dreiviertel eins?", "de"),
    ("We eat between 9 and 12.", "Wir essen zwischen neun Uhr und Mitternacht.", "de"),
    ("It takes 1.5 hours.", "Es dauert anderthalb Stunden.", "de"),
    ("Es dauert 2,5 Stunden.", "It takes two and a half hours.", "en"),
    ("There are 3,500 books.", "Es sind dreieinhalbtausend Bücher.", "de"),
    ("25% of them", "ein Viertel davon", "de"),
    ("Am 27.2. habe ich Zeit.", "On February 27th I'm free.", "en"),
    ("See figure 4 of 1999.", "See figure iv of MCMXCIX.", "en"),
]
# In another unit; worked out by hand.
CONVERTED = [
    ("He lost thirty pounds.", "Er hat 14 Kilo abgenommen."),  # 13.6
    ("He weighs 150 pounds.", "Er wiegt achtundsechzig Kilo."),
    ("I am six feet tall.", "Ich bin 1,83 m groß."),
    ("I am 5'10\" tall.", "Je mesure 1,78 m."),
    ("I am 5 feet 10 inches tall.", "Ich bin 178 cm groß."),
    ("It went 500 miles per hour.", "Er fuhr achthundert Kilometer in der Stunde."),
    ("It is 90 degrees today.", "Heute sind es 32 °C."),
    ("She bought a pound of cheese.", "Sie hat 450 g Käse gekauft."),
    ("I waited 45 minutes.", "Ich wartete eine Dreiviertelstunde."),
    ("She came two weeks ago.", "Sie kam vor 14 Tagen."),
    ("I'm 150 centimeters tall.", "Ich bin 1,50 m groß."),
]
NOT_CONVERTED = [
    ("He lost thirty pounds.", "Er hat 18 Kilo abgenommen."),
    ("He walked 10 miles.", "Er ging 90 Kilometer."),
    ("I'm 150 centimeters tall.", "Ich bin 1,60 m groß."),
    ("It is 90 degrees today.", "Heute sind es 38 °C."),
    ("30 pounds of meat and 12 eggs", "14 Kilo Fleisch und 15 Eier"),
    ("I am 5'10\" tall.", "Je mesure 1,40 m."),
]
LOST = [
    ("It costs 1,000 euros.", "Cela coûte 2 000 euros.", "fr", ["1,000"]),
    ("It costs 10,000 euros.", "Es kostet 10.800 Euro.", "de", ["10,000"]),
    ("It is 3.5 km away.", "Es ist 3,6 km entfernt.", "de", ["3.5"]),
    ("It is 12.8 km, then 8 km.", "Es sind 12,4 km, dann 8 km.", "de", ["12.8"]),
    ("It starts at 12:30.", "Cela commence à 12 h 45.", "fr", ["12:30"]),
    ("It starts at 3 pm.", "Cela commence à 16 h.", "fr", ["3"]),
    ("It starts at 11:00.", "Começa às 12:00.", "pt", ["11:00"]),
    ("I was born in 1988.", "Je suis né en 1998.", "fr", ["1988"]),
    ("I was born in 2000.", "Eu nasci no dia.", "pt", ["2000"]),
    ("He is 80.", "Il est vieux.", "fr", ["80"]),
    ("On 12/25/2010 he left.", "Il partit le 26 décembre 2010.", "fr", ["12/25/2010"]),
    ("There are 17 dogs and 18 cats.", "Il y a dix-sept chiens et des chats.", "fr", ["18"]),
    ("Room 101 has 3 beds.", "La chambre a des lits.", "fr", ["101", "3"]),
    ("2.3 billion dollars", "3 bilhões de dólares", "pt", ["2.3"]),
    ("It is ٣٥ kg.", "It is 36 kg.", "en", ["٣٥"]),
    ("We met at 10.30.", "Wir trafen uns um 11.30 Uhr.", "de", ["10.30"]),
    ("From 8:30 to 2:30.", "De 8h40 à 2h30.", "fr", []),  # 30 is there
    ("De 8h40 à 2h30.", "From 8:30 to 2:30.", "en", ["8h40"]),
    ("It is due on 27.2.", "Es ist fällig am 27.3.", "de", ["27.2"]),
    ("Call 030 1234567.", "Rufen Sie 030 7654321 an.", "de", ["1234567"]),
]


@pytest.mark.parametrize(("src", "text", "lang"), SAME_NUMBERS)
def test_a_number_written_another_way_is_not_lost(src, text, lang):
    assert lost_numbers(src, text, tgt_lang=lang) == []
    assert lost_numbers(text, src, tgt_lang="en") == []


@pytest.mark.parametrize(("src", "text", "lang"), WRITTEN_OUT)
def test_a_number_in_words_is_not_lost(src, text, lang):
    assert lost_numbers(src, text, tgt_lang=lang) == []


@pytest.mark.parametrize(("src", "text"), CONVERTED)
def test_a_number_in_another_unit_is_not_lost(src, text):
    assert lost_numbers(src, text, tgt_lang="de") == []
    assert lost_numbers(text, src, tgt_lang="en") == []


@pytest.mark.parametrize(("src", "text"), NOT_CONVERTED)
def test_another_number_in_another_unit_is_lost(src, text):
    assert lost_numbers(src, text, tgt_lang="de") or lost_numbers(text, src, tgt_lang="en")


@pytest.mark.parametrize(("src", "text", "lang", "lost"), LOST)
def test_a_number_that_is_changed_or_dropped_is_lost(src, text, lang, lost):
    assert lost_numbers(src, text, tgt_lang=lang) == lost


def test_in_a_language_without_known_words_a_small_number_is_lost_only_if_another_one_takes_its_place():
    assert lost_numbers("There are 2 dogs.", "Tam są dwa psy.", tgt_lang="pl") == []
    assert lost_numbers("There are 2 dogs.", "Tam jest 5 psów.", tgt_lang="pl") == ["2"]
    assert lost_numbers("There are 25 dogs.", "Tam są psy.", tgt_lang="pl") == ["25"]
    assert lost_numbers("There are 2 dogs.", "Il y a des chiens.", tgt_lang="fr-CA") == ["2"]


@given(
    st.integers(0, 10**15), st.sampled_from([",", ".", " ", "\u202f", "'", ""]), st.sampled_from([",", ".", " ", ""])
)
def test_a_whole_number_is_kept_whatever_groups_its_digits(number, one, other):
    grouped = f"{number:,}"
    assert lost_numbers(f"a {grouped.replace(',', one)} b", f"c {grouped.replace(',', other)} d", tgt_lang="fr") == []


@given(st.integers(13, 10**9), st.integers(13, 10**9))
def test_of_two_whole_numbers_one_is_kept_only_if_they_are_equal_or_years_of_one_decade(number, other):
    decade = {number, other} & set(range(1100, 2100, 10)) or {number, other} & set(range(11, 22))
    lost = lost_numbers(f"a {number} b", f"c {other} d", tgt_lang="fr")
    digits_in_a_row = len(str(number)) >= 5 and str(number) in str(other)
    if not decade and not digits_in_a_row:
        assert lost == ([] if number == other else [str(number)])


SMALL = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen"""
TENS = "twenty thirty forty fifty sixty seventy eighty ninety"


def _spelled_in_english(number: int) -> str:
    """By the rules of English grammar, independent of the table under test but for the words themselves."""
    for value, name in ((10**6, "million"), (1000, "thousand"), (100, "hundred")):
        if number >= value:
            rest = number % value
            joint = " and " if value == 100 else " "
            return f"{_spelled_in_english(number // value)} {name}" + (
                joint + _spelled_in_english(rest) if rest else ""
            )
    if number < 20:
        return SMALL.split()[number]
    return TENS.split()[number // 10 - 2] + (f"-{SMALL.split()[number % 10]}" if number % 10 else "")


@given(st.integers(0, 10**7))
def test_a_number_spelled_out_in_english_is_kept(number):
    assert lost_numbers(f"{number:,}", _spelled_in_english(number), tgt_lang="en") == []


def test_a_number_of_any_length_is_read():
    nines = "9" * 6000  # int() of it would be refused
    assert lost_numbers(f"a {nines} million b", f"c {nines} d", tgt_lang="fr") == []
    assert lost_numbers(f"a {nines} million b", "c", tgt_lang="fr") == [nines]


# Empty, loops, lengths


@pytest.mark.parametrize("text", ["", "   ", "...", "?!"])
def test_no_text_or_only_punctuation_is_empty(text):
    assert kinds(SRC, text) == ["empty"]


@pytest.mark.parametrize(("src", "text"), [("", ""), ("  ", "anything"), ("...", "..."), ("?", " ?"), ("👍", "👍")])
def test_where_there_are_no_words_none_are_asked_for(src, text):
    assert kinds(src, text) == []


LOOPS = [
    (SRC, GOOD[:-1] + " avec ses deux chiens avec ses deux chiens avec ses deux chiens"),
    (SRC, "Le vieil homme homme homme homme homme homme"),
    (SRC, f"{GOOD} {GOOD}"),
    ("What a funny thing to say!", "Quelle drôle de chose hahahahahahahahaha"),
    ("Do you love me?", "Tu m'aimes ? ? ? ? ? ?"),
    ("The cat sleeps under the table.", "猫在桌子下面睡觉猫在桌子下面睡觉猫在桌子下面睡觉"),
    ("The cat sleeps, the dog barks and the man goes out.", "The cat and the dog and the cat and the dog and the cat"),
    (
        "A group of people stand in front of a building and look at the sky while it rains in the street.",
        "a man in a red shirt and a man in a blue shirt and a man in a red hat and a man in a blue shirt and a woman "
        "in a red shirt and a man in a blue hat and a man in a red shirt and a woman",
    ),
]
NO_LOOPS = [
    ("It is very, very, very good.", "C'est très, très, très bon."),
    ("No, no, no, no, no!", "Non, non, non, non, non !"),
    ("Ha ha ha ha ha ha!", "Ha ha ha ha ha ha !"),
    ("hahahahahahahaha", "hahahahahahahaha"),
    ("Blah blah blah.", "Bla bla bla."),
    ("Bye!", "Au revoir, au revoir !"),
    ("She said that that that he used was wrong.", "Elle a dit que ce qu'il utilisait était faux."),
    ("Wait...", "Attends........"),
    ("1,000,000,000,000", "1 000 000 000 000"),
    (
        "I sing a song. I sing a song. I sing a song.",
        "Je chante une chanson. Je chante une chanson. Je chante une chanson.",
    ),
    ("妈妈爸爸哥哥弟弟", "Maman papa frère frère"),
]


@pytest.mark.parametrize(("src", "text"), LOOPS)
def test_a_text_that_repeats_itself_loops(src, text):
    assert "loop" in kinds(src, text)


@pytest.mark.parametrize(("src", "text"), NO_LOOPS)
def test_natural_repetition_is_not_a_loop(src, text):
    assert "loop" not in kinds(src, text, tgt_lang="fr")


@given(st.lists(st.sampled_from(["rot", "grün", "blau", "gelb"]), min_size=1, max_size=4), st.integers(5, 12))
def test_any_tail_repeated_five_times_and_more_is_found(tail, times):
    assert "loop" in kinds(SRC, " ".join(["Alles", "ist", *(tail * times)]))


@given(st.lists(st.sampled_from("abcdefg"), max_size=40))
def test_a_text_that_repeats_just_as_its_source_does_is_not_a_loop(words):
    text = " ".join(words)
    assert "loop" not in kinds(text, text)


LENGTHS = [
    ("Go.", "Allez-y !", []),
    ("I see.", "Je comprends.", []),
    ("I give in.", "J'abandonne.", []),
    (SRC, "Le vieil homme", ["length"]),
    (SRC, "Le vieil homme marche lentement le", ["length"]),
    (SRC.rstrip("."), "Le vieil homme marche lentement le", []),  # no full stop to miss
    (SRC, "Il marche.", ["length"]),
    ("Hello!", GOOD, ["length"]),
    (SRC, "老人带着他的两条狗沿着河慢慢地走。", []),
    ("老人带着他的两条狗沿着河慢慢地走。", SRC, []),
    (SRC, "老人带。", ["length"]),
    ("ชายชราเดินช้าๆ ไปตามแม่น้ำกับสุนัขสองตัวของเขา", GOOD, []),
]


@pytest.mark.parametrize(("src", "text", "expected"), LENGTHS)
def test_unlikely_lengths_are_told_from_likely_ones(src, text, expected):
    assert kinds(src, text, tgt_lang="fr") == expected


def test_a_translation_that_hit_the_length_limit_is_suspect_whatever_its_length():
    assert kinds(SRC, GOOD, finished=True) == []
    assert [(f.kind, f.detail) for f in find_faults(SRC, GOOD, finished=False)] == [("length", "unfinished")]


@given(st.integers(1, 500), st.integers(1, 2000), st.booleans())
def test_a_length_between_a_likely_one_and_the_usual_one_is_likely(n_src, n_text, cut_off):
    if is_likely_length(n_src, n_text, cut_off=cut_off):
        assert is_likely_length(n_src, (n_text + n_src) / 2, cut_off=cut_off)
        assert is_likely_length(n_src, n_text)


def test_the_longer_the_sentence_the_narrower_the_band():
    assert is_likely_length(5, 20) and not is_likely_length(50, 200) and not is_likely_length(500, 2000)
    assert is_likely_length(50, 32, cut_off=True) and not is_likely_length(50, 25, cut_off=True)
    assert is_likely_length(50, 25) and not is_likely_length(50, 15)


def test_characters_of_wide_scripts_count_for_several_letters():
    assert n_letters("abc") == 3 and n_letters("漢字") == 6 and n_letters("かな") == 4 and n_letters("한글 ") == 4


# Copies

COPIES = [
    SRC,
    "it rains again.",
    "Nobody here is able to help us.",
    "DO NOT OPEN THIS DOOR",
    "他昨天和我们一起去了北京看朋友",
]
NO_COPIES = [
    "OK",
    "Paris!",
    "Tom",
    "Stop!",
    "Ignore Tom.",
    "Tom, Mary, John",
    "1984",
    "New York",
    "NASA",
    "東京",
    "www.x.org",
]


@pytest.mark.parametrize("src", COPIES)
def test_a_sentence_that_comes_back_untranslated_is_a_copy(src):
    assert "copy" in kinds(src, src)
    assert "copy" in kinds(src, src.upper() if not src.isupper() else src)


@pytest.mark.parametrize("src", NO_COPIES)
def test_a_name_or_a_word_of_both_languages_is_not_a_copy(src):
    assert kinds(src, src) == []


def test_most_of_the_source_in_the_translation_is_a_copy_but_a_quoted_title_is_not():
    assert "copy" in kinds(SRC, "Oui, the old man walks slowly along the river with ses chiens.")
    src = 'I have seen "Gone With The Wind From The North" three times.'
    assert kinds(src, "J'ai vu trois fois « Gone With The Wind From The North » au cinéma.") == []


def test_a_word_with_vowel_signs_is_one_word():
    faults = find_faults("I like this new book.", "मुझे यह किताब किताब किताब किताब किताब पसंद है।")
    assert [(fault.kind, fault.detail) for fault in faults] == [("loop", "किताब")]
    assert kinds("मुझे यह किताब बहुत पसंद है।", "मुझे यह किताब बहुत पसंद है।") == ["copy"]


# URLs

URLS = ["https://example.org/a_b?q=1,5&r=2#x", "http://example.org", "www.example.org/x.html", "jane.doe@example.co.uk"]


@pytest.mark.parametrize("url", [*URLS, "example.com"])
def test_a_url_must_be_kept_letter_by_letter(url):
    assert kinds(f"See {url}.", f"Voir {url}.") == []
    assert kinds(f"See ({url}), please.", f"Veuillez voir ({url}) !") == []
    assert kinds(f"See {url} for more about it.", f"Voyez {url[:-2]} pour en savoir plus.") == ["url"]
    assert [f.detail for f in find_faults(f"See {url}, then go home.", "Voyez, et rentrez chez vous.")] == [url]


def test_an_abbreviation_is_not_a_url_and_the_numbers_of_a_url_are_not_looked_for_again():
    assert kinds("He came e.g. on Monday.", "Il est venu par exemple lundi.") == []
    faults = find_faults(
        "Read https://example.org/2024 again soon.", "Relisez-le bientôt encore une fois.", tgt_lang="fr"
    )
    assert [(f.kind, f.detail) for f in faults] == [("url", "https://example.org/2024")]


# All together


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_two_texts_can_be_compared(src, text):
    assert all(fault.kind for fault in find_faults(src, text))


@pytest.mark.parametrize("digits", ["一" * 5000, "9" * 5000, "一万" * 3000])
def test_a_number_of_thousands_of_digits_is_read(digits):
    assert "number" not in kinds(f"{digits} 3", f"{digits} 3")
    assert "number" in kinds("买了 3 个", digits, tgt_lang="zh")


def test_a_good_translation_has_no_fault():
    assert find_faults(SRC, GOOD, tgt_lang="fr") == ()


def test_a_long_text_of_few_words_is_not_taken_for_a_loop_but_said_twice_it_is():
    words = random.Random(0).choices([f"w{number}" for number in range(200)], k=4000)
    text = " ".join(words)
    assert find_faults(text, " ".join(reversed(words))) == ()
    assert "loop" in kinds(text, f"{' '.join(reversed(words))} {' '.join(reversed(words))}")


# Omissions
@pytest.mark.parametrize(
    ("src", "text", "omitted"),
    [
        ("He plays tennis (really).", "Il joue au tennis ().", ["really"]),
        ("He plays [or not] tennis.", "Il joue [ ] au tennis.", ["or not"]),
        ("Call run() (now).", "Appelez run() ().", []),
        ("He plays tennis (really).", "Il joue au tennis (vraiment).", []),
    ],
)
def test_brackets_without_their_content_are_an_omission(src, text, omitted):
    assert [fault.detail for fault in find_faults(src, text) if fault.kind == "omission"] == omitted


@pytest.mark.parametrize(
    ("src", "left"),
    [
        ("a" * 100, ["a word of 100 characters or more: aaa"]),
        ("a" * 99, []),
        ("My key is " + "Xy3+" * 30 + ", keep it.", ["a word of 100 characters or more: Xy3"]),
        ("See https://example.org/" + "a/b" * 60, []),
        ("the house is red and " * 500, ["more than 10,000 characters without the end of a sentence: the"]),
        ("the house is red and " * 400, []),
        ("-" * 200, []),
        ("我很喜欢橙子" * 30, []),
    ],
)
def test_what_is_too_long_to_be_text_is_left(src, left):
    found = find_left(src)
    assert [fault.kind for fault in found] == ["left"] * len(left)
    assert all(fault.detail.startswith(start) for fault, start in zip(found, left, strict=True))


@pytest.mark.parametrize(
    ("src", "text"),
    [
        ("He plays tennis. He loves your aunt.", "Il joue au tennis."),
        ("He plays tennis. He sings. Are you here? No!", "Il joue au tennis. Non !"),
        ("我很喜欢橙子。他喜欢房子。", "I am very fond of oranges."),
    ],
)
def test_a_translation_that_lacks_sentences(src, text):
    assert [(f.kind, f.detail) for f in find_faults(src, text)] == [("omission", "")]


@pytest.mark.parametrize(
    ("src", "text"),
    [
        ("Don't lie. Be honest.", "Ne dis pas de mensonge, sois honnête !"),  # two sentences as one (Tatoeba)
        ("Don't ask questions. Just follow orders.", "Ne posez pas de questions, contentez-vous de suivre les ordres."),
        ("It's a typo. Sorry.", "Es ist ein Druckfehler, Entschuldigung!"),
        ("He plays tennis.", "Il joue."),  # one sentence
        ("Hello. How are you?", "สวัสดี สบายดีไหม"),  # Thai ends sentences with a space
    ],
)
def test_sentences_that_are_joined_are_not_left_out(src, text):
    assert kinds(src, text) == []

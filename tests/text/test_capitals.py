"""Text in capitals: the case of each word, what stays, and when a model has learnt capitals."""

import pytest

from mtkit.text.capitals import Capitals, PartOf, changeable_words, in_capitals, is_in_capitals, is_in_small_letters

KNOWN = """
the The Fuß sie Sie he He is in Is see a I dogs dog Paris NATO know Haus das ist don't Don't ısı no No Mr etc
""".split()  # noqa: SIM905


def nats(words: str) -> float:
    """Ten nats a known word, less for a frequent one, and twelve nats a letter of an unknown one."""
    return sum(
        (8 if word in ("The", "NATO", "I") else 10) if word in KNOWN else 12 * len(word) for word in words.split()
    )


def lowered(text: str, lang: str = "en") -> str | None:
    usual = Capitals(nats, lang, "fr").usual(text)
    return usual and usual.text


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("THE DOGS SEE PARIS", "The dogs see Paris"),
        ("HE IS IN THE DOG", "He is in the dog"),
        ("NO! I DON'T KNOW. HE IS IN PARIS.", "No! I don't know. He is in Paris."),
        ("NATO SEE THE DOG", "NATO see the dog"),
        ("THE DOG IS IN %s IN {Name} IN <ph3>", "The dog is in %s in {Name} in <ph3>"),
        ("SEE HTTPS://EXAMPLE.COM/A, THE DOGS", "See HTTPS://EXAMPLE.COM/A, the dogs"),
        ("«THE DOGS» – SEE", "«The dogs» – see"),
        ("THE DOGS SEE PARIS 5 P.M. THE HAUS IS IN PARIS", "The dogs see Paris 5 p.m. the Haus is in Paris"),
        ("SEE THE DOGS, ETC. AND THE HAUS", "See the dogs, etc. and the Haus"),
        ("SEE MR. PARIS, THE DOG. THE HAUS. NO. NO.", "See Mr. Paris, the dog. The Haus. No. No."),
    ],
)
def test_words_get_the_case_that_is_usual_in_the_training_text(text, known):
    assert lowered(text) == known


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("the dogs see nato", "The dogs see NATO"),
        ("i know. i don't see a paris dog", "I know. I don't see a Paris dog"),
        ("the dog is in %s in {name} in <ph3>", "The dog is in %s in {name} in <ph3>"),
        ("see nato_id and @paris", "See nato_id and @paris"),
        ("see $nato, nato.py, `nato` and nato.", "See $nato, nato.py, `nato` and NATO."),
        ("see the dog, e.g. in paris", "See the dog, e.g. in Paris"),
        ("at 5 p.m. he is in", "At 5 p.m. he is in"),
        ("see the dogs, etc. and the dog", "See the dogs, etc. and the dog"),
        ("nothing is known", "Nothing is known"),
        ("7 dogs see nato", "7 dogs see NATO"),
        ("the fuß", "The Fuß"),  # ß has no capital of one letter
        ("我爱你 iphone", None),
    ],
)
def test_text_without_capitals_gets_those_of_the_training_text(text, known):
    assert lowered(text) == known


@pytest.mark.parametrize(
    ("src", "translation", "expected"),
    [
        ("see the dog", "The dog", "the dog"),
        ("see the dog.", "The dog.", "The dog."),  # a sentence, typed in a hurry
        ("see", "Paris", "Paris"),
        ("see", "Haus", "Haus"),
        ("see", "7 Dogs", "7 Dogs"),
        ("see", "Sie is in", "sie is in"),
    ],
)
def test_the_translation_of_text_without_capitals_begins_as_its_language_does(src, translation, expected):
    capitals = Capitals(nats, "en", "fr", nats)
    usual = capitals.usual(src)
    assert usual is not None and usual.case is not None
    assert capitals.like(usual.case, translation) == expected
    assert Capitals(nats, "en", "fr").like(usual.case, translation) == translation


@pytest.mark.parametrize(
    ("text", "before", "case", "usual"),
    [
        ("see paris", "the dog is in ", "small", ("see Paris", "small")),  # inside a sentence
        ("see paris", "the dog is in. ", "small", ("See Paris", "small")),
        ("see paris", "", "sentence", ("See Paris", "sentence")),
        ("see paris", "", None, None),  # the longer text has capitals
        ("see paris.", "the dog is in ", "small", ("see Paris.", "sentence")),
    ],
)
def test_a_part_of_a_longer_text_becomes_a_part_of_a_sentence(text, before, case, usual):
    assert Capitals(nats, "en", "fr").usual(text, PartOf(before, case)) == usual


def test_a_pronoun_that_means_another_person_without_its_capital_keeps_it():
    assert Capitals(nats, "en", "de-AT", nats).like("small", "Sie is in") == "Sie is in"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("go home", True), ("Go home", False), ("7", False), ("我爱 usb", True), ("我爱你们 usb", False)],
)
def test_text_is_in_small_letters_if_most_letters_have_case_and_none_is_a_capital(text, expected):
    assert is_in_small_letters(text) == expected


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("See The Dogs In Paris", "See the dogs in Paris"),
        ("He Is In {Name}. See The Dogs!", "He is in {Name}. See the dogs!"),
    ],
)
def test_a_title_becomes_a_sentence(text, known):
    def frequent(words: str) -> float:  # the and is are frequent words of the training text, The and Is are not
        return sum(7 if word in ("the", "is") else nats(word) + 4 * word.istitle() for word in words.split())

    assert Capitals(frequent, "en", "fr").usual(text) == (known, None)


@pytest.mark.parametrize(
    "text", ["Paris Dogs Haus", "The Dogs", "The dogs see Paris", "He. The. Dogs.", "{The} [The] 7"]
)
def test_names_short_lines_and_sentences_stay(text):
    def frequent(words: str) -> float:
        return sum(7 if word == "the" else nats(word) + 4 * word.istitle() for word in words.split())

    assert Capitals(frequent, "en", "fr").usual(text) is None


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("I See Dogs.", "I see dogs."),
        ("I See Dogs", None),  # it may be a name
        ("Paris See Dogs.", None),
        ("I, Paris Haus.", None),
    ],
)
def test_a_sentence_with_capitals_needs_no_frequent_word_but_its_first(text, known):
    def rare(words: str) -> float:
        return sum(
            7 if word == "I" else nats(word) + 4 * word.istitle() * (word not in ("Paris", "Haus"))
            for word in words.split()
        )

    usual = Capitals(rare, "en", "fr").usual(text)
    assert (usual and usual.text) == known


def test_a_model_that_knows_titles_reads_them():
    assert Capitals(lambda words: 7.0 * len(words.split()), "en", "fr").usual("In The Old House") is None


def test_nouns_stay_capitals_where_the_training_text_has_them():
    assert lowered("DAS IST DAS HAUS", "de") == "Das ist das Haus"


@pytest.mark.parametrize(
    ("text", "upper"),
    [("ọ̀rọ̀ ní за́мок", "Ọ̀RỌ̀ NÍ ЗА́МОК"), ("हिन्दी l'été", "हिन्दी L'ÉTÉ")],
)
def test_a_combining_mark_divides_no_word(text, upper):
    assert [word[0] for word in changeable_words(text)] == text.split()
    assert in_capitals(text, None) == upper


def test_turkish_i():
    assert lowered("THE ISI", "tr") == "The ısı"
    assert Capitals(nats, "en", "tr").like("capitals", "iki ısı") == "İKİ ISI"
    assert Capitals(nats, "en", "fr").like("capitals", "iki") == "IKI"


@pytest.mark.parametrize(
    "text", ["The NATO dogs", "NATO: the dog", "A", "I", "12", "", "我喜欢橙子", "5 €", "<ph1>", "A. 5"]
)
def test_other_text_is_not_in_capitals(text):
    assert not is_in_capitals(text)
    assert lowered(text) is None


def test_a_model_that_knows_capitals_reads_them():
    assert Capitals(lambda words: 10.0 * len(words.split()), "en", "fr").usual("THE DOGS SEE PARIS") is None


def test_a_single_acronym_stays():
    assert lowered("NATO") is None


def test_the_length_stays_so_that_places_do():
    assert (
        lowered("I SEE THE DOGS IN İS. THE DOG!") == "I see the dogs in İS. The dog!"
    )  # whose lower case has one character more


def test_the_translation_becomes_capitals_but_for_what_is_kept():
    raised = Capitals(nats, "en", "fr").like("capitals", "L'été à Genève : voyez www.example.com, {name} et <ph1>.")
    assert raised == "L'ÉTÉ À GENÈVE : VOYEZ www.example.com, {name} ET <ph1>."

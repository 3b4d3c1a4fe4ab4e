"""Whole sentences, each with the French that a teacher would expect, written by hand."""

import pytest
from sample_grammar import verbs
from sample_grammar.clauses import (
    CAN_DO,
    MUST_DO,
    WANT_TO,
    WOULD_LIKE_TO,
    Clause,
    Negation,
    Pair,
    Tense,
    clause_phrase,
    question,
    statement,
)
from sample_grammar.entries import Adjective, Noun, Phrase
from sample_grammar.nouns import NOUNS
from sample_grammar.phrases import a, bare, counted, in_general, it, named, of, owned, pronoun, quality, some, the, this
from sample_grammar.words import ADJECTIVES, HE, NAMES, NUMBERS, SHE, THEY, TRAITS, WE, YOU, I

PRESENT, NOW, PAST, FUTURE = Tense.PRESENT, Tense.PROGRESSIVE, Tense.PAST, Tense.FUTURE
NOT, NEVER = Negation.NOT, Negation.NEVER


def noun(en: str) -> Noun:
    return next(noun for noun in NOUNS if noun.en == en)


def adjective(en: str) -> Adjective:
    return next(adjective for adjective in (*ADJECTIVES, *TRAITS) if adjective.en == en)


def number(en: str) -> Phrase:
    return next(number for number in NUMBERS if number.en == en)


ALICE, PAUL = (named(next(name for name in NAMES if name.text == text)) for text in ("Alice", "Paul"))
GIVE = next(verb for verb in verbs.GIVING if verb.en == "give")
HELP = next(verb for verb in verbs.PERSON_ACTIONS if verb.en == "help")
KNOW = next(verb for verb in verbs.PERSON_STATES if verb.en == "know")
i, you, he, she, we, they = (pronoun(who) for who in (I, YOU, HE, SHE, WE, THEY))
YESTERDAY = Phrase("yesterday", "hier")


@pytest.mark.parametrize(
    ("clause", "en", "fr"),
    [
        # articles and elision
        (Clause(i, verbs.LOVE, in_general(noun("orange"))), "I love oranges.", "J'aime les oranges."),
        (Clause(i, verbs.LOVE, in_general(noun("water"))), "I love water.", "J'aime l'eau."),
        (Clause(he, verbs.HATE, in_general(noun("owl"))), "He hates owls.", "Il déteste les hiboux."),
        (Clause(she, verbs.EAT, a(noun("apple")), NOW), "She is eating an apple.", "Elle mange une pomme."),
        (Clause(we, verbs.EAT, bare(noun("bread")), NOW), "We are eating bread.", "Nous mangeons du pain."),
        (Clause(i, verbs.DRINK, bare(noun("water")), NOW), "I am drinking water.", "Je bois de l'eau."),
        (Clause(they, verbs.EAT, bare(noun("salad")), PAST), "They ate salad.", "Ils ont mangé de la salade."),
        (Clause(i, verbs.OPEN, the(noun("wardrobe")), NOW), "I am opening the wardrobe.", "J'ouvre l'armoire."),
        (Clause(i, verbs.SEE, the(noun("owl"))), "I see the owl.", "Je vois le hibou."),
        # determiners that depend on the next sound
        (Clause(you, verbs.SEE, this(noun("tree"))), "You see this tree.", "Tu vois cet arbre."),
        (Clause(you, verbs.SEE, this(noun("hamster"))), "You see this hamster.", "Tu vois ce hamster."),
        (Clause(i, verbs.LOSE, owned(I, noun("scarf")), PAST), "I lost my scarf.", "J'ai perdu mon écharpe."),
        (
            Clause(he, verbs.LOSE, owned(HE, noun("scarf"), adjective("old")), PAST),
            "He lost his old scarf.",
            "Il a perdu sa vieille écharpe.",
        ),
        (
            Clause(they, verbs.SELL, owned(THEY, noun("car")), NOW),
            "They are selling their car.",
            "Ils vendent leur voiture.",
        ),
        (
            Clause(we, verbs.LOOK_FOR, owned(WE, noun("key"), plural=True), NOW),
            "We are looking for our keys.",
            "Nous cherchons nos clés.",
        ),
        # adjectives: place, agreement, forms before a vowel
        (
            Clause(she, verbs.BUY, a(noun("car"), adjective("red")), PAST, when=YESTERDAY),
            "She bought a red car yesterday.",
            "Elle a acheté une voiture rouge hier.",
        ),
        (
            Clause(i, verbs.SEE, a(noun("tree"), adjective("beautiful"))),
            "I see a beautiful tree.",
            "Je vois un bel arbre.",
        ),
        (Clause(i, verbs.SEE, a(noun("hotel"), adjective("new"))), "I see a new hotel.", "Je vois un nouvel hôtel."),
        (Clause(i, verbs.SEE, a(noun("man"), adjective("old"))), "I see an old man.", "Je vois un vieil homme."),
        (
            Clause(he, verbs.SEE, the(noun("man"), adjective("old"), plural=True)),
            "He sees the old men.",
            "Il voit les vieux hommes.",
        ),
        (
            Clause(we, verbs.SEE, some(noun("flower"), adjective("beautiful")), PAST),
            "We saw some beautiful flowers.",
            "Nous avons vu de belles fleurs.",
        ),
        (
            Clause(he, verbs.WEAR, bare(noun("shoe"), adjective("brown")), NOW),
            "He is wearing brown shoes.",
            "Il porte des chaussures marron.",
        ),
        (
            Clause(i, verbs.HAVE, counted(number("three"), noun("cat"), adjective("white"))),
            "I have three white cats.",
            "J'ai trois chats blancs.",
        ),
        (
            Clause(the(noun("soup")), verbs.BE, quality(adjective("cold"), the(noun("soup")))),
            "The soup is cold.",
            "La soupe est froide.",
        ),
        (
            Clause(ALICE, verbs.BE, quality(adjective("happy"), ALICE, Phrase("very", "très"))),
            "Alice is very happy.",
            "Alice est très heureuse.",
        ),
        # negation
        (
            Clause(i, verbs.LIKE, in_general(noun("onion")), negation=NOT),
            "I don't like onions.",
            "Je n'aime pas les oignons.",
        ),
        (
            Clause(he, verbs.HAVE, a(noun("car")), negation=NOT),
            "He doesn't have a car.",
            "Il n'a pas de voiture.",
        ),
        (
            Clause(i, verbs.HAVE, some(noun("money")), negation=NOT),
            "I don't have any money.",
            "Je n'ai pas d'argent.",
        ),
        (
            Clause(they, verbs.BUY, some(noun("egg")), PAST, negation=NOT),
            "They didn't buy any eggs.",
            "Ils n'ont pas acheté d'œufs.",
        ),
        (
            Clause(we, verbs.EAT, bare(noun("meat")), negation=NEVER),
            "We never eat meat.",
            "Nous ne mangeons jamais de viande.",
        ),
        (Clause(she, verbs.CRY, tense=NOW, negation=NOT), "She is not crying.", "Elle ne pleure pas."),
        # tenses
        (
            Clause(she, verbs.GO, Phrase("to the market", "à le marché"), PAST),
            "She went to the market.",
            "Elle est allée au marché.",
        ),
        (Clause(they, verbs.ARRIVE, tense=PAST), "They arrived.", "Ils sont arrivés."),
        (Clause(ALICE, verbs.LEAVE, tense=PAST, negation=NOT), "Alice didn't leave.", "Alice n'est pas partie."),
        (
            Clause(we, verbs.BE_BORN, Phrase("in Rome", "à Rome"), PAST),
            "We were born in Rome.",
            "Nous sommes nés à Rome.",
        ),
        (
            Clause(i, verbs.GO, Phrase("to school", "à la école"), FUTURE),
            "I am going to go to school.",
            "Je vais aller à l'école.",
        ),
        (Clause(he, verbs.SING, adverb=Phrase("often", "souvent")), "He often sings.", "Il chante souvent."),
        # pronouns as objects
        (Clause(i, verbs.SEE, whom=HE), "I see him.", "Je le vois."),
        (Clause(i, verbs.WAIT_FOR, tense=NOW, whom=SHE), "I am waiting for her.", "Je l'attends."),
        (Clause(she, KNOW, whom=I, negation=NOT), "She doesn't know me.", "Elle ne me connaît pas."),
        (Clause(he, HELP, tense=PAST, whom=WE), "He helped us.", "Il nous a aidés."),
        (Clause(we, verbs.SEE, tense=PAST, whom=SHE, negation=NOT), "We didn't see her.", "Nous ne l'avons pas vue."),
        (Clause(i, HELP, tense=FUTURE, whom=YOU), "I am going to help you.", "Je vais t'aider."),
        (
            Clause(i, verbs.FORGET, tense=PAST, whom=it(noun("key"), plural=True)),
            "I forgot them.",
            "Je les ai oubliées.",
        ),
        (Clause(she, verbs.FIND, tense=PAST, whom=it(noun("watch"))), "She found it.", "Elle l'a trouvée."),
        (
            Clause(he, GIVE, a(noun("book")), PAST, whom=SHE, whom_indirect=True),
            "He gave her a book.",
            "Il lui a donné un livre.",
        ),
        (
            Clause(i, GIVE, the(noun("book")), NOW, whom=THEY, whom_indirect=True),
            "I am giving them the book.",
            "Je leur donne le livre.",
        ),
        # modal verbs
        (Clause(he, verbs.WORK, modal=CAN_DO, negation=NOT), "He can't work.", "Il ne peut pas travailler."),
        (Clause(i, verbs.SEE, modal=WANT_TO, whom=SHE), "I want to see her.", "Je veux la voir."),
        (
            Clause(they, verbs.BUY, modal=WANT_TO, whom=it(noun("car"))),
            "They want to buy it.",
            "Ils veulent l'acheter.",
        ),
        (Clause(she, verbs.TRAVEL, modal=WOULD_LIKE_TO), "She would like to travel.", "Elle voudrait voyager."),
        (
            Clause(you, verbs.CLEAN, the(noun("kitchen")), modal=MUST_DO),
            "You must clean the kitchen.",
            "Tu dois nettoyer la cuisine.",
        ),
        # possession
        (
            Clause(of(owned(I, noun("father")), noun("car")), verbs.BE, Phrase("red", "rouge")),
            "My father's car is red.",
            "La voiture de mon père est rouge.",
        ),
        (
            Clause(i, verbs.SEE, of(the(noun("doctor")), noun("key"), plural=True)),
            "I see the doctor's keys.",
            "Je vois les clés du médecin.",
        ),
    ],
)
def test_a_clause_is_told_in_both_languages(clause: Clause, en: str, fr: str) -> None:
    assert statement(clause) == (en, fr)


@pytest.mark.parametrize(
    ("asked", "en", "fr"),
    [
        (
            question(Clause(you, verbs.LIKE, in_general(noun("cheese")))),
            "Do you like cheese?",
            "Est-ce que tu aimes le fromage ?",
        ),
        (question(Clause(he, verbs.SLEEP, tense=NOW)), "Is he sleeping?", "Est-ce qu'il dort ?"),
        (
            question(Clause(ALICE, verbs.ARRIVE, tense=PAST, when=YESTERDAY)),
            "Did Alice arrive yesterday?",
            "Est-ce qu'Alice est arrivée hier ?",
        ),
        (question(Clause(you, HELP, modal=CAN_DO, whom=I)), "Can you help me?", "Est-ce que tu peux m'aider ?"),
        (
            question(Clause(PAUL, verbs.HAVE, some(noun("milk")))),
            "Does Paul have any milk?",
            "Est-ce que Paul a du lait ?",
        ),
        (
            question(Clause(you, verbs.GO, tense=NOW), Phrase("where", "où")),
            "Where are you going?",
            "Où est-ce que tu vas ?",
        ),
        (
            question(Clause(she, verbs.BUY, tense=PAST), Phrase("what", "que")),
            "What did she buy?",
            "Qu'est-ce qu'elle a acheté ?",
        ),
        (
            question(Clause(you, verbs.HAVE), Phrase("how many friends", "combien de amis")),
            "How many friends do you have?",
            "Combien d'amis est-ce que tu as ?",
        ),
    ],
)
def test_a_question_is_asked_in_both_languages(asked: Pair, en: str, fr: str) -> None:
    assert asked == (en, fr)


def test_a_clause_inside_another_is_elided() -> None:
    inner = clause_phrase(Clause(she, verbs.BE, quality(adjective("rich"), she)))
    outer = Clause(i, verbs.THINK, Phrase(f"that {inner.en}", f"que {inner.fr}"))
    assert statement(outer) == ("I think that she is rich.", "Je pense qu'elle est riche.")


def test_people_together_are_feminine_only_if_all_are() -> None:
    women = named(*(name for name in NAMES if name.text in ("Marie", "Emma")))
    mixed = named(*(name for name in NAMES if name.text in ("Paul", "Emma")))
    tall = adjective("tall")
    assert statement(Clause(women, verbs.BE, quality(tall, women)))[1] == "Marie et Emma sont grandes."
    assert statement(Clause(mixed, verbs.BE, quality(tall, mixed)))[1] == "Paul et Emma sont grands."

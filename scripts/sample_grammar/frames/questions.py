"""Frames that ask: where, who, what, which, how many, how much, when and why; some answer themselves."""

from sample_grammar import english, french, verbs
from sample_grammar.choices import (
    Dice,
    is_ownable,
    is_plural,
    known,
    now,
    plain,
    relative,
    someone_else,
)
from sample_grammar.clauses import (
    CAN_DO,
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
from sample_grammar.entries import Phrase
from sample_grammar.frames.places import where_it_may_be
from sample_grammar.frames.telling import written
from sample_grammar.nouns import PEOPLE, nouns_with
from sample_grammar.phrases import NounPhrase, it, named, owned, pronoun, quality, the, this, which
from sample_grammar.words import BEAUTIFUL, EXPENSIVE, HE, MOODS, NAMES, OLD, PRONOUNS, SHE, THEY, TRAITS, WE, YOU, I

_ASKED_ABOUT = (YOU, HE, SHE, THEY)


def where_is(dice: Dice) -> Pair:
    """Where are my keys? Où sont mes clés ?"""
    kind = dice.one(("thing", "thing", "place", "person"))
    if kind == "place":
        thing = the(dice.one(nouns_with("landmark")))
    elif kind == "person":
        thing = relative(dice)
    else:
        thing = known(dice, dice.one(nouns_with("portable pet vehicle")), dice.one(PRONOUNS))
    return _where(thing)


def searching(dice: Dice) -> Pair:
    """Where are the keys? I lost them. Où sont les clés ? Je les ai perdues."""
    noun = dice.one(nouns_with("losable"))
    plural = is_plural(dice, noun)
    asked = _where(the(noun, plural=plural))
    subject = pronoun(dice.one((I, HE, SHE, THEY)))
    verb, tense, negation = dice.one(
        (
            (verbs.LOOK_FOR, Tense.PROGRESSIVE, None),
            (verbs.SEE, Tense.PRESENT, Negation.NOT),
            (verbs.LOSE, Tense.PAST, None),
            (verbs.FORGET, Tense.PAST, None),
        )
    )
    answer = statement(Clause(subject, verb, tense=tense, negation=negation, whom=it(noun, plural)))
    return _both(asked, answer)


def finding(dice: Dice) -> Pair:
    """Where is my coat? It is on the chair. Où est mon manteau ? Il est sur la chaise."""
    noun, place = where_it_may_be(dice)
    plural = is_plural(dice, noun)
    thing = owned(dice.one(PRONOUNS), noun, plural=plural) if is_ownable(noun) and dice.chance(0.4) else None
    asked = _where(thing or the(noun, plural=plural))
    return _both(asked, statement(Clause(it(noun, plural), verbs.BE, place)))


def wishing_for_it(dice: Dice) -> Pair:
    """This car is beautiful. I want to buy it. Cette voiture est belle. Je veux l'acheter."""
    adjective, verb, modal, negation = dice.one(_REASONS)
    noun = dice.one([noun for noun in nouns_with("priced") if noun.has(adjective.fits)])
    plural = is_plural(dice, noun)
    thing = this(noun, plural=plural)
    described = statement(Clause(thing, verbs.BE, quality(adjective, thing)))
    subject = pronoun(dice.one((I, HE, SHE, WE, THEY)))
    return _both(described, statement(Clause(subject, verb, modal=modal, negation=negation, whom=it(noun, plural))))


_REASONS = (
    (BEAUTIFUL, verbs.BUY, WANT_TO, None),
    (BEAUTIFUL, verbs.BUY, WOULD_LIKE_TO, None),
    (BEAUTIFUL, verbs.SELL, WANT_TO, Negation.NOT),
    (EXPENSIVE, verbs.BUY, WANT_TO, Negation.NOT),
    (EXPENSIVE, verbs.BUY, CAN_DO, Negation.NOT),
    (OLD, verbs.SELL, WANT_TO, None),
    (OLD, verbs.BUY, WANT_TO, Negation.NOT),
)


def _where(thing: NounPhrase) -> Pair:
    be = french.present(verbs.BE, 3, thing.plural)
    return written(f"where {english.be(3, thing.plural)} {thing.en}", f"où {be} {thing.fr}", "?")


def _both(first: Pair, second: Pair) -> Pair:
    return f"{first[0]} {second[0]}", f"{first[1]} {second[1]}"


def where_when_why(dice: Dice) -> Pair:
    """Where does she work? Où est-ce qu'elle travaille ? Why are you sad? Pourquoi est-ce que tu es triste ?"""
    subject = pronoun(dice.one(_ASKED_ABOUT)) if dice.chance(0.7) else named(dice.one(NAMES))
    kind = dice.one(("where", "when", "why", "why"))
    if kind == "where":
        verb = dice.one((verbs.WORK, verbs.LIVE, verbs.STUDY, verbs.GO, verbs.SLEEP, verbs.DANCE))
        tense = Tense.PROGRESSIVE if verb is verbs.GO else Tense.PRESENT
        return question(Clause(subject, verb, tense=tense), Phrase("where", "où"))
    if kind == "when":
        verb = dice.one((verbs.LEAVE, verbs.ARRIVE, verbs.COME_BACK, verbs.COME))
        tense = dice.one((Tense.PROGRESSIVE, Tense.PAST, Tense.FUTURE))
        return question(Clause(subject, verb, tense=tense), Phrase("when", "quand"))
    why = Phrase("why", "pourquoi")
    if dice.chance(0.5):
        return question(Clause(subject, verbs.BE, quality(dice.one((*MOODS, *TRAITS)), subject)), why)
    verb = dice.one((verbs.CRY, verbs.LAUGH, verbs.RUN, verbs.SMILE, verbs.LEAVE))
    return question(Clause(subject, verb, tense=Tense.PROGRESSIVE), why)


def what(dice: Dice) -> Pair:
    """What did he buy? Qu'est-ce qu'il a acheté ?"""
    subject = pronoun(dice.one(_ASKED_ABOUT)) if dice.chance(0.7) else someone_else(dice)
    verb = dice.one(
        (verbs.EAT, verbs.DRINK, verbs.BUY, verbs.READ, verbs.WRITE, verbs.DRAW, verbs.SEE, verbs.CHOOSE, verbs.LOSE)
    )
    tense = Tense.PAST if verb is verbs.LOSE else dice.one((now(verb), Tense.PAST, Tense.FUTURE))
    return question(Clause(subject, verb, tense=tense), Phrase("what", "que"))


def who(dice: Dice) -> Pair:
    """Who bought this car? Qui a acheté cette voiture ?"""
    subject = NounPhrase("who", "qui", gender="m")
    verb = dice.one((*verbs.DEFINITE_ACTIONS, *verbs.ACCIDENTS, verbs.BUY, verbs.WRITE, verbs.DRAW))
    noun = dice.one(nouns_with(verb.objects))
    plural = is_plural(dice, noun)
    thing = this(noun, plural=plural) if dice.chance(0.4) else the(noun, plural=plural)
    past_only = verb in verbs.ACCIDENTS or dice.chance(0.6)
    tense = Tense.PAST if past_only else now(verb)
    asked = clause_phrase(Clause(subject, verb, thing, tense))
    return written(asked.en, asked.fr, "?")


def which_one(dice: Dice) -> Pair:
    """Which book are you reading? Quel livre est-ce que tu lis ?"""
    verb = dice.one((verbs.READ, verbs.WRITE, verbs.BUY, verbs.WATCH, verbs.CHOOSE, verbs.OPEN, verbs.TAKE))
    noun = dice.one([noun for noun in nouns_with(verb.objects) if not noun.has("mass")])
    plural = is_plural(dice, noun)
    en, fr = (english.plural(noun), french.noun_plural(noun)) if plural else (noun.en, noun.fr)
    tense = dice.one((now(verb), Tense.FUTURE))  # in the past the participle would agree with the noun asked for
    clause = Clause(pronoun(dice.one(_ASKED_ABOUT)), verb, tense=tense)
    return question(clause, Phrase(f"which {en}", f"{which(noun, plural)} {fr}"))


def how_many(dice: Dice) -> Pair:
    """How many friends do you have? Combien d'amis est-ce que tu as ?"""
    verb, tags = dice.one(
        (
            (verbs.HAVE, "portable pet farm vehicle"),
            (verbs.HAVE, "countable"),
            (verbs.SEE, "animal vehicle"),
            (verbs.WANT, "food"),
        )
    )
    noun = dice.one(nouns_with(tags))
    asked = Phrase(f"how many {english.plural(noun)}", f"combien de {french.noun_plural(noun)}")
    return question(Clause(pronoun(dice.one(_ASKED_ABOUT)), verb), asked)


def how_much(dice: Dice) -> Pair:
    """How much does this hat cost? Combien coûte ce chapeau ?"""
    thing = plain(dice, dice.one(nouns_with("priced")))
    cost = french.present(verbs.COST, 3, thing.plural)
    do = "do" if thing.plural else "does"
    return written(f"how much {do} {thing.en} cost", f"combien {cost} {thing.fr}", "?")


def what_colour(dice: Dice) -> Pair:
    """What colour is your car? De quelle couleur est ta voiture ?"""
    noun = dice.one(nouns_with("coloured furry"))
    plural = is_plural(dice, noun)
    thing = owned(dice.one(PRONOUNS), noun, plural=plural) if dice.chance(0.5) else the(noun, plural=plural)
    be = french.present(verbs.BE, 3, plural)
    return written(f"what colour {english.be(3, plural)} {thing.en}", f"de quelle couleur {be} {thing.fr}", "?")


def how_is(dice: Dice) -> Pair:
    """How old is your brother? Quel âge a ton frère ? How is your mother? Comment va ta mère ?"""
    person = relative(dice) if dice.chance(0.6) else the(dice.one(PEOPLE), plural=dice.chance(0.2))
    be = english.be(3, person.plural)
    if dice.chance(0.5):
        have = french.present(verbs.HAVE, 3, person.plural)
        return written(f"how old {be} {person.en}", f"quel âge {have} {person.fr}", "?")
    go = french.present(verbs.GO, 3, person.plural)
    return written(f"how {be} {person.en}", f"comment {go} {person.fr}", "?")

"""Draw who acts and on what, so that the two go together."""

import random
from collections.abc import Sequence
from functools import cache
from typing import TypeVar

from sample_grammar.clauses import Tense
from sample_grammar.entries import Adjective, Noun, Pronoun, Verb
from sample_grammar.nouns import KIN, nouns_with
from sample_grammar.phrases import NounPhrase, a, bare, counted, named, owned, pronoun, some, the, this
from sample_grammar.words import ADJECTIVES, HE, NAMES, NUMBERS, PRONOUNS, SHE, THEY, WE, YOU, I

T = TypeVar("T")
ADULTS = nouns_with("adult child")


class Dice:
    """Random choices that are the same on every machine and Python version: only Random.random is promised to be."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def one(self, items: Sequence[T]) -> T:
        """Any of the items."""
        return items[int(self._random.random() * len(items))]

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._random.random() < probability

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in random order."""
        keys = [self._random.random() for _ in items]
        return [items[i] for i in sorted(range(len(items)), key=keys.__getitem__)]


@cache
def adjectives_of(noun: Noun) -> tuple[Adjective, ...]:
    """The adjectives that can stand beside the noun."""
    return tuple(adjective for adjective in ADJECTIVES if adjective.attributive and noun.has(adjective.fits))


def someone(dice: Dice) -> NounPhrase:
    """A person as a subject, mostly a pronoun."""
    if dice.chance(0.6):
        return pronoun(dice.one(PRONOUNS))
    return someone_else(dice)


def someone_else(dice: Dice) -> NounPhrase:
    """A person or several, not a pronoun: Alice, my sister, the doctors."""
    if dice.chance(0.35):
        return somebody_named(dice)
    if dice.chance(0.1):
        return two_people(dice)
    return relative(dice) if dice.chance(0.5) else the_person(dice)


def two_people(dice: Dice) -> NounPhrase:
    """Two by name: Alice and Paul."""
    first, second = dice.shuffled(NAMES)[:2]
    return named(first, second)


def somebody_named(dice: Dice) -> NounPhrase:
    """One by name: Alice."""
    return named(dice.one(NAMES))


def relative(dice: Dice, several: float = 0.25) -> NounPhrase:
    """Somebody's family or friends: my sister, their uncles; several: how probable a plural is."""
    noun = dice.one(KIN)
    plural = noun.has("couple") or (noun.has("countable") and dice.chance(several))
    return owned(dice.one(PRONOUNS), noun, plural=plural)


def the_person(dice: Dice, several: float = 0.25) -> NounPhrase:
    """The doctor, the young women."""
    noun = dice.one(ADULTS)
    return the(noun, adjective_or_none(dice, noun, 0.15), plural=dice.chance(several))


def someone_other_than(dice: Dice, subject: NounPhrase) -> NounPhrase:
    """Not a pronoun, and not the same words as the subject."""
    person = dice.one((the_person, relative, somebody_named))(dice)
    return person if person.en != subject.en else relative(dice)


def owner(subject: NounPhrase) -> Pronoun:
    """The pronoun whose possessive the subject uses for what is its own."""
    if subject.person == 3:
        if subject.plural:
            return THEY
        return HE if subject.gender == "m" else SHE
    if subject.plural:
        return WE
    return I if subject.person == 1 else YOU


def other_pronoun(dice: Dice, subject: NounPhrase) -> Pronoun:
    """A pronoun that can be the subject's object: never I with me, or we with us."""
    others = [who for who in PRONOUNS if who.person == 3 or who.person != subject.person]
    return dice.one(others)


def adjective_or_none(dice: Dice, noun: Noun, probability: float = 0.3) -> Adjective | None:
    """With this probability an adjective that fits the noun."""
    adjectives = adjectives_of(noun)
    return dice.one(adjectives) if adjectives and dice.chance(probability) else None


def is_ownable(noun: Noun) -> bool:
    """Whether people have things of this kind."""
    return noun.has("thing tableware clothes shoes vehicle furniture pet farm room") or noun.en in ("house", "flat")


def is_plural(dice: Dice, noun: Noun, probability: float = 0.3) -> bool:
    """With this probability several of the kind; shoes always, what cannot be counted and places never."""
    return noun.has("shoes") or (not noun.has("mass place") and dice.chance(probability))


def definite(dice: Dice, noun: Noun, subject: NounPhrase) -> NounPhrase:
    """The key, these red cars, or the subject's own: my house."""
    return known(dice, noun, owner(subject)) if dice.chance(0.7) else this_one(dice, noun)


def known(dice: Dice, noun: Noun, possessor: Pronoun) -> NounPhrase:
    """The key, the red cars, my house."""
    adjective = None if noun.has("food") else adjective_or_none(dice, noun)
    plural = is_plural(dice, noun)
    if is_ownable(noun) and dice.chance(0.55):
        return owned(possessor, noun, adjective, plural)
    return the(noun, adjective, plural)


def this_one(dice: Dice, noun: Noun) -> NounPhrase:
    """This key, these red cars."""
    adjective = None if noun.has("food") else adjective_or_none(dice, noun)
    return this(noun, adjective, is_plural(dice, noun))


def plain(dice: Dice, noun: Noun) -> NounPhrase:
    """This key, the keys; no adjective."""
    plural = is_plural(dice, noun)
    return this(noun, plural=plural) if dice.chance(0.45) else the(noun, plural=plural)


def indefinite(dice: Dice, noun: Noun) -> NounPhrase:
    """A key, some red apples, three dogs; some milk."""
    if noun.has("mass"):
        return some(noun)
    adjective = adjective_or_none(dice, noun)
    if not is_plural(dice, noun, 0.5):
        return a(noun, adjective)
    return some(noun, adjective) if dice.chance(0.5) else counted(dice.one(NUMBERS[:5]), noun, adjective)


def consumed(dice: Dice, noun: Noun) -> NounPhrase:
    """What is eaten or drunk: an apple, two pears, bread."""
    if noun.has("mass"):
        return bare(noun)
    return a(noun) if dice.chance(0.6) else counted(dice.one(NUMBERS[:4]), noun)


def now(verb: Verb) -> Tense:
    """The tense in which English says that it is so now."""
    return Tense.PRESENT if verb.stative else Tense.PROGRESSIVE

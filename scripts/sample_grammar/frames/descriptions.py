"""Frames about how people and things are, whose they are, what they cost; weather, time and opinions."""

from sample_grammar import english, french, verbs
from sample_grammar.choices import (
    Dice,
    adjective_or_none,
    is_plural,
    now,
    owner,
    plain,
    relative,
    somebody_named,
    someone,
    someone_else,
    someone_other_than,
    the_person,
    two_people,
)
from sample_grammar.clauses import Clause, Pair, Tense, clause_phrase, statement
from sample_grammar.entries import NOTHING, Phrase
from sample_grammar.frames.telling import some_tense, some_time, tell, written
from sample_grammar.nouns import nouns_with
from sample_grammar.phrases import NounPhrase, described, in_general, of, owned, pronoun, quality, the, this, which
from sample_grammar.words import (
    ADJECTIVES,
    BEAUTIFUL,
    EXPENSIVE,
    HOURS,
    LARGE_NUMBERS,
    MOODS,
    NATIONALITIES,
    NEW,
    NUMBERS,
    PRICES,
    PROFESSIONS,
    PRONOUNS,
    SENSATIONS,
    TRAITS,
    WEATHER,
    WEATHER_TIMES,
)

_SAID_OF_THINGS = tuple(adjective for adjective in ADJECTIVES if adjective is not NEW)  # "is new" would rather be neuf
_VERY, _TOO = Phrase("very", "très"), Phrase("too", "trop")


def feelings(dice: Dice) -> Pair:
    """My sister is very tired: ma sœur est très fatiguée."""
    subject = two_people(dice) if dice.chance(0.08) else someone(dice)
    adjective = dice.one(dice.one((TRAITS, MOODS)))
    degree = _VERY if adjective.gradable and dice.chance(0.3) else NOTHING
    return tell(dice, Clause(subject, verbs.BE, quality(adjective, subject, degree)))


def comparisons(dice: Dice) -> Pair:
    """Alice is taller than Paul: Alice est plus grande que Paul. He is as rich as me: il est aussi riche que moi."""
    subject, adjective = someone(dice), dice.one(TRAITS)
    form, other = quality(adjective, subject).fr, _companion(dice, subject)
    if dice.chance(0.7):
        comparison = Phrase(f"{english.comparative(adjective)} than {other.en}", f"plus {form} que {other.fr}")
    else:
        comparison = Phrase(f"as {adjective.en} as {other.en}", f"aussi {form} que {other.fr}")
    return tell(dice, Clause(subject, verbs.BE, comparison))


def _companion(dice: Dice, subject: NounPhrase) -> Phrase:
    """Somebody after "than" or "with", as a pronoun half of the time."""
    return _stressed_pronoun(dice, subject) if dice.chance(0.5) else someone_other_than(dice, subject)


def _stressed_pronoun(dice: Dice, subject: NounPhrase) -> Phrase:
    """A pronoun that does not mean the subject: (than) me, moi."""
    others = [who for who in PRONOUNS if who is not owner(subject) and not who.person == subject.person < 3]
    who = dice.one(others)
    return Phrase(who.en_object, who.stressed)


def sensations(dice: Dice) -> Pair:
    """I am hungry: j'ai faim. She is very cold: elle a très froid."""
    sensation, degree = dice.one(SENSATIONS), _VERY if dice.chance(0.3) else NOTHING
    complement = Phrase(f"{degree.en} {sensation.en}", f"{degree.fr} {sensation.fr}")
    return tell(dice, Clause(someone(dice), verbs.BE_WITH_AVOIR, complement), negations=0.25)


def ages(dice: Dice) -> Pair:
    """Her son is twelve years old: son fils a douze ans."""
    number = dice.one((*NUMBERS, *LARGE_NUMBERS))
    age = Phrase(f"{number.en} years old", f"{number.fr} ans")
    return tell(dice, Clause(someone(dice), verbs.BE_WITH_AVOIR, age), negations=0.1)


def professions(dice: Dice) -> Pair:
    """Marie is a dentist: Marie est dentiste. My cousins are students: mes cousins sont étudiants."""
    subject = dice.one((_anyone, _anyone, somebody_named, relative, two_people))(dice)
    job = dice.one(PROFESSIONS)
    fr = job.feminine if subject.gender == "f" else job.masculine
    complement = Phrase(f"{job.en}s", f"{fr}s") if subject.plural else Phrase(english.with_article(job.en), fr)
    return tell(dice, Clause(subject, verbs.BE, complement))


def _anyone(dice: Dice) -> NounPhrase:
    return pronoun(dice.one(PRONOUNS))


def nationalities(dice: Dice) -> Pair:
    """They are Italian: ils sont italiens."""
    subject = someone(dice)
    return tell(dice, Clause(subject, verbs.BE, quality(dice.one(NATIONALITIES), subject)))


def qualities(dice: Dice) -> Pair:
    """The soup is cold: la soupe est froide. These shoes are too expensive: ces chaussures sont trop chères."""
    adjective = dice.one(_SAID_OF_THINGS)
    subject = plain(dice, dice.one(nouns_with(adjective.fits)))
    degree = dice.one((_VERY, _TOO)) if adjective.gradable and dice.chance(0.4) else NOTHING
    return tell(dice, Clause(subject, verbs.BE, quality(adjective, subject, degree)))


def belongings(dice: Dice) -> Pair:
    """This is my father's car: c'est la voiture de mon père. Alice's keys are small: les clés d'Alice sont petites."""
    noun = dice.one(nouns_with("portable vehicle pet farm"))
    whose = dice.one((relative(dice, several=0), the_person(dice, several=0), somebody_named(dice)))
    thing = of(whose, noun, is_plural(dice, noun))
    if dice.chance(0.5):
        adjective = dice.one([adjective for adjective in _SAID_OF_THINGS if noun.has(adjective.fits)])
        return tell(dice, Clause(thing, verbs.BE, quality(adjective, thing)))
    return _this_is(thing, denied=dice.chance(0.2))


def introductions(dice: Dice) -> Pair:
    """This is my house: c'est ma maison. These are her brothers: ce sont ses frères."""
    if dice.chance(0.4):
        return _this_is(relative(dice))
    noun = dice.one([noun for noun in nouns_with("portable vehicle furniture pet") if not noun.has("food")])
    return _this_is(owned(dice.one(PRONOUNS), noun, adjective_or_none(dice, noun, 0.2), is_plural(dice, noun)))


def _this_is(thing: NounPhrase, denied: bool = False) -> Pair:
    en, fr, fr_denied = ("these are", "ce sont", "sont") if thing.plural else ("this is", "c'est", "est")
    if denied:
        return written(f"{en} not {thing.en}", f"ce ne {fr_denied} pas {thing.fr}")
    return written(f"{en} {thing.en}", f"{fr} {thing.fr}")


def destined(dice: Dice) -> Pair:
    """This gift is for him: ce cadeau est pour lui."""
    noun = dice.one(nouns_with("gift food"))
    subject = this(noun, plural=is_plural(dice, noun))
    whom = _companion(dice, subject)
    return tell(dice, Clause(subject, verbs.BE, Phrase(f"for {whom.en}", f"pour {whom.fr}")))


def company(dice: Dice) -> Pair:
    """She is coming with us: elle vient avec nous. I worked with Emma: j'ai travaillé avec Emma."""
    subject = someone(dice)
    verb = dice.one((verbs.COME, verbs.COME, verbs.WORK, verbs.TRAVEL, verbs.DANCE, verbs.SING, verbs.STUDY))
    whom, tense = _companion(dice, subject), some_tense(dice, verb)
    complement = Phrase(f"with {whom.en}", f"avec {whom.fr}")
    return tell(dice, Clause(subject, verb, complement, tense, when=some_time(dice, tense)))


def prices(dice: Dice) -> Pair:
    """This hat costs thirty euros: ce chapeau coûte trente euros."""
    noun = dice.one([noun for noun in nouns_with("clothes shoes tableware lendable") if noun.has("priced")])
    price = dice.one(PRICES)
    return tell(dice, Clause(plain(dice, noun), verbs.COST, Phrase(f"{price.en} euros", f"{price.fr} euros")))


def weather(dice: Dice) -> Pair:
    """It is cold in Paris today: il fait froid à Paris aujourd'hui."""
    sky, when = dice.one(WEATHER), dice.one(WEATHER_TIMES)
    return written(f"{sky.en} {when.en}", f"{sky.fr} {when.fr}")


def hours(dice: Dice) -> Pair:
    """It is three o'clock: il est trois heures."""
    hour = dice.one(HOURS)
    return written(f"it is {hour.en}", f"il est {hour.fr}")


def showing(dice: Dice) -> Pair:
    """Here is the letter that she wrote: voici la lettre qu'elle a écrite."""
    verb = dice.one((verbs.BUY, verbs.READ, verbs.WRITE, verbs.DRAW, verbs.LOSE, verbs.FIND, verbs.CHOOSE))
    noun = dice.one(nouns_with(verb.objects))
    thing, subject = the(noun, plural=is_plural(dice, noun)), someone(dice)
    did = english.past(verb, subject.person, subject.plural)
    has = french.present(verbs.HAVE, subject.person, subject.plural)
    done = french.participle(verb, thing.gender, thing.plural)  # the object stands before it
    be = english.be(3, thing.plural)
    return written(f"here {be} {thing.en} that {subject.en} {did}", f"voici {thing.fr} que {subject.fr} {has} {done}")


def exclamations(dice: Dice) -> Pair:
    """What a beautiful house! Quelle belle maison !"""
    noun, plural = dice.one(nouns_with("fine moving")), dice.chance(0.35)
    en, fr = described(noun, BEAUTIFUL, plural)
    return written(f"what {en if plural else english.with_article(en)}", f"{which(noun, plural)} {fr}", "!")


def opinions(dice: Dice) -> Pair:
    """I think that she is sick: je pense qu'elle est malade."""
    thinker = someone(dice)
    verb = dice.one((verbs.THINK, verbs.THINK, verbs.KNOW_THAT, verbs.SAY, verbs.HOPE))
    content = _return if verb is verbs.HOPE else dice.one((_state, _activity, _departure))
    inner = clause_phrase(content(dice, _somebody_else(dice, thinker)))
    return statement(Clause(thinker, verb, Phrase(f"that {inner.en}", f"que {inner.fr}")))


def _somebody_else(dice: Dice, thinker: NounPhrase) -> NounPhrase:
    """Not the thinker: I think that he is right, Paul knows that Alice is right."""
    others = [who for who in PRONOUNS if who is not owner(thinker)]
    return pronoun(dice.one(others)) if dice.chance(0.6) else someone_else(dice)


def _state(dice: Dice, subject: NounPhrase) -> Clause:
    return Clause(subject, verbs.BE, quality(dice.one((*TRAITS, *MOODS)), subject))


def _activity(dice: Dice, subject: NounPhrase) -> Clause:
    verb = dice.one((verbs.SLEEP, verbs.WORK, verbs.STUDY, verbs.COOK, verbs.LAUGH, verbs.CRY))
    return Clause(subject, verb, tense=now(verb))


def _departure(dice: Dice, subject: NounPhrase) -> Clause:
    verb, tense = dice.one((verbs.LEAVE, verbs.ARRIVE, verbs.COME_BACK)), dice.one((Tense.PAST, Tense.FUTURE))
    return Clause(subject, verb, tense=tense, when=some_time(dice, tense))


def _return(dice: Dice, subject: NounPhrase) -> Clause:
    return Clause(subject, dice.one((verbs.COME, verbs.COME_BACK, verbs.STAY)), tense=Tense.FUTURE)


def facts(dice: Dice) -> Pair:
    """Cheese is more expensive than bread: le fromage est plus cher que le pain."""
    first, second = dice.shuffled([noun for noun in nouns_with("drinkable edible") if noun.has("mass")])[:2]
    subject, other = in_general(first), in_general(second)
    form = quality(EXPENSIVE, subject).fr
    comparison = Phrase(f"more expensive than {other.en}", f"plus {form} que {other.fr}")
    return tell(dice, Clause(subject, verbs.BE, comparison))

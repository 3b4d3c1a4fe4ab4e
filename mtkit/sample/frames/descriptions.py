"""Frames about how people and things are, whose they are, what they cost; weather, time and opinions."""

from mtkit.sample import english, french, verbs
from mtkit.sample.choices import (
    Dice,
    adjective_or_none,
    is_plural,
    now,
    owner,
    relative,
    someone,
    someone_else,
    the_person,
    two_people,
)
from mtkit.sample.clauses import Clause, Pair, Tense, clause_phrase, statement
from mtkit.sample.entries import Adjective, Noun, Phrase
from mtkit.sample.frames.telling import some_tense, some_time, tell, written
from mtkit.sample.nouns import nouns_with
from mtkit.sample.phrases import NounPhrase, article, described, in_general, named, owned, pronoun, the, this
from mtkit.sample.words import (
    ADJECTIVES,
    COLOURS,
    GRADABLE_MOODS,
    HOURS,
    LARGE_NUMBERS,
    MOODS,
    NAMES,
    NATIONALITIES,
    NUMBERS,
    PRICES,
    PROFESSIONS,
    PRONOUNS,
    SENSATIONS,
    TRAITS,
    WEATHER,
    WEATHER_TIMES,
)

_NOT_GRADABLE = ("broken", "empty", "full", "open", "closed", "ripe", "delicious", "round", "new", "good")
_VERY, _TOO = Phrase("very", "très"), Phrase("too", "trop")


def feelings(dice: Dice) -> Pair:
    """My sister is very tired: ma sœur est très fatiguée."""
    subject = two_people(dice) if dice.chance(0.08) else someone(dice)
    adjective = dice.one(dice.one((TRAITS, MOODS)))
    gradable = adjective in TRAITS or adjective.en in GRADABLE_MOODS
    return tell(dice, Clause(subject, verbs.BE, _quality(dice, adjective, subject, gradable)))


def _quality(dice: Dice, adjective: Adjective, subject: NounPhrase, gradable: bool) -> Phrase:
    form = french.agree(adjective, subject.gender, subject.plural)
    if gradable and dice.chance(0.3):
        return Phrase(f"{_VERY.en} {adjective.en}", f"{_VERY.fr} {form}")
    return Phrase(adjective.en, form)


def comparisons(dice: Dice) -> Pair:
    """Alice is taller than Paul: Alice est plus grande que Paul. He is as rich as me: il est aussi riche que moi."""
    subject, adjective = someone(dice), dice.one(TRAITS)
    form = french.agree(adjective, subject.gender, subject.plural)
    other = _compared_with(dice, subject)
    if dice.chance(0.7):
        quality = Phrase(f"{english.comparative(adjective)} than {other.en}", f"plus {form} que {other.fr}")
    else:
        quality = Phrase(f"as {adjective.en} as {other.en}", f"aussi {form} que {other.fr}")
    return tell(dice, Clause(subject, verbs.BE, quality))


def _compared_with(dice: Dice, subject: NounPhrase) -> Phrase:
    if dice.chance(0.5):
        return _stressed(dice, subject)
    other = named(dice.one(NAMES)) if dice.chance(0.6) else relative(dice)
    return other if other.en != subject.en else _stressed(dice, subject)


def _stressed(dice: Dice, subject: NounPhrase) -> Phrase:
    who = dice.one([who for who in PRONOUNS if who is not owner(subject) and not (who.person == subject.person < 3)])
    return Phrase(who.en_object, who.stressed)


def sensations(dice: Dice) -> Pair:
    """I am hungry: j'ai faim."""
    sensation = dice.one(SENSATIONS)
    if dice.chance(0.3):
        sensation = Phrase(f"{_VERY.en} {sensation.en}", f"{_VERY.fr} {sensation.fr}")
    return tell(dice, Clause(someone(dice), verbs.BE_WITH_AVOIR, sensation), negations=0.25)


def ages(dice: Dice) -> Pair:
    """Her son is twelve years old: son fils a douze ans."""
    number = dice.one((*NUMBERS, *LARGE_NUMBERS))
    age = Phrase(f"{number.en} years old", f"{number.fr} ans")
    return tell(dice, Clause(someone(dice), verbs.BE_WITH_AVOIR, age), negations=0.1)


def professions(dice: Dice) -> Pair:
    """Marie is a dentist: Marie est dentiste. My cousins are students: mes cousins sont étudiants."""
    subject, job = (relative(dice) if dice.chance(0.3) else someone(dice)), dice.one(PROFESSIONS)
    fr = job.feminine if subject.gender == "f" else job.masculine
    plural = subject.plural
    complement = Phrase(job.en + "s" if plural else english.with_article(job.en), fr + "s" if plural else fr)
    return tell(dice, Clause(subject, verbs.BE, complement))


def nationalities(dice: Dice) -> Pair:
    """They are Italian: ils sont italiens."""
    subject, adjective = someone(dice), dice.one(NATIONALITIES)
    form = french.agree(adjective, subject.gender, subject.plural)
    return tell(dice, Clause(subject, verbs.BE, Phrase(adjective.en, form)))


def qualities(dice: Dice) -> Pair:
    """The soup is cold: la soupe est froide. These shoes are too expensive: ces chaussures sont trop chères."""
    adjective = dice.one([adjective for adjective in ADJECTIVES if adjective.en != "new"])
    noun = dice.one(nouns_with(adjective.fits))
    subject = _plain(dice, noun)
    quality = Phrase(adjective.en, french.agree(adjective, noun.gender, subject.plural))
    if adjective not in COLOURS and adjective.en not in _NOT_GRADABLE and dice.chance(0.4):
        degree = dice.one((_VERY, _TOO))
        quality = Phrase(f"{degree.en} {quality.en}", f"{degree.fr} {quality.fr}")
    return tell(dice, Clause(subject, verbs.BE, quality))


def _plain(dice: Dice, noun: Noun) -> NounPhrase:
    """The noun with a determiner and no adjective."""
    plural = is_plural(dice, noun)
    return this(noun, plural=plural) if dice.chance(0.4) else the(noun, plural=plural)


def belongings(dice: Dice) -> Pair:
    """This is my father's car: c'est la voiture de mon père. Alice's keys are here: les clés d'Alice sont ici."""
    noun = dice.one(nouns_with("portable vehicle pet farm"))
    plural = is_plural(dice, noun)
    whose = dice.one((relative, the_person, _somebody_named))(dice)
    en, fr = described(noun, None, plural)
    thing = NounPhrase(
        f"{english.possessive(whose.en)} {en}",
        f"{article(noun, plural)} {fr} de {whose.fr}",
        gender=noun.gender,
        plural=plural,
    )
    if dice.chance(0.5):
        if dice.chance(0.2):
            return written(
                f"{'these are' if plural else 'this is'} not {thing.en}",
                f"ce ne {'sont' if plural else 'est'} pas {thing.fr}",
            )
        return written(f"{'these are' if plural else 'this is'} {thing.en}", f"{_it_is(plural)} {thing.fr}")
    adjectives = [adjective for adjective in ADJECTIVES if noun.has(adjective.fits) and adjective.en != "new"]
    if not adjectives:
        return statement(Clause(thing, verbs.BE, Phrase("here", "ici")))
    adjective = dice.one(adjectives)
    quality = Phrase(adjective.en, french.agree(adjective, noun.gender, plural))
    return tell(dice, Clause(thing, verbs.BE, quality))


def _it_is(plural: bool) -> str:
    return "ce sont" if plural else "c'est"


def _somebody_named(dice: Dice) -> NounPhrase:
    return named(dice.one(NAMES))


def introductions(dice: Dice) -> Pair:
    """This is my house: c'est ma maison. These are her brothers: ce sont ses frères."""
    if dice.chance(0.4):
        who = relative(dice)
    else:
        noun = dice.one([noun for noun in nouns_with("portable vehicle furniture pet") if not noun.has("food")])
        who = owned(dice.one(PRONOUNS), noun, adjective_or_none(dice, noun, 0.2), is_plural(dice, noun))
    return written(f"{'these are' if who.plural else 'this is'} {who.en}", f"{_it_is(who.plural)} {who.fr}")


def destined(dice: Dice) -> Pair:
    """This gift is for him: ce cadeau est pour lui."""
    noun = dice.one(nouns_with("gift food"))
    subject = this(noun, plural=dice.chance(0.3))
    whom = _stressed(dice, subject) if dice.chance(0.6) else dice.one((relative, the_person, _somebody_named))(dice)
    return tell(dice, Clause(subject, verbs.BE, Phrase(f"for {whom.en}", f"pour {whom.fr}")))


def company(dice: Dice) -> Pair:
    """She is coming with us: elle vient avec nous. I work with Emma: je travaille avec Emma."""
    subject = someone(dice)
    verb = dice.one((verbs.COME, verbs.COME, verbs.WORK, verbs.TRAVEL, verbs.DANCE, verbs.SING, verbs.STUDY))
    whom = _compared_with(dice, subject)
    complement = Phrase(f"with {whom.en}", f"avec {whom.fr}")
    tense = some_tense(dice, verb)
    return tell(dice, Clause(subject, verb, complement, tense, when=some_time(dice, tense)))


def prices(dice: Dice) -> Pair:
    """This hat costs thirty euros: ce chapeau coûte trente euros."""
    noun, price = dice.one(nouns_with("priced")), dice.one(PRICES)
    return tell(dice, Clause(_plain(dice, noun), verbs.COST, Phrase(f"{price.en} euros", f"{price.fr} euros")))


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
    plural = is_plural(dice, noun)
    subject, thing = someone(dice), the(noun, plural=plural)
    did = english.past(verb, subject.person, subject.plural)
    auxiliary = french.present(verbs.HAVE, subject.person, subject.plural)
    done = french.participle(verb, noun.gender, plural)
    return written(
        f"here {english.be(3, plural)} {thing.en} that {subject.en} {did}",
        f"voici {thing.fr} que {subject.fr} {auxiliary} {done}",
    )


def exclamations(dice: Dice) -> Pair:
    """What a beautiful house! Quelle belle maison !"""
    noun, plural = dice.one(nouns_with("fine moving")), dice.chance(0.35)
    beautiful = next(adjective for adjective in ADJECTIVES if adjective.en == "beautiful")
    en, fr = described(noun, beautiful, plural)
    return written(f"what {en if plural else english.with_article(en)}", f"{which(noun, plural)} {fr}", "!")


def which(noun: Noun, plural: bool) -> str:
    """The form of quel that agrees with the noun."""
    return ("quelle" if noun.gender == "f" else "quel") + ("s" if plural else "")


def opinions(dice: Dice) -> Pair:
    """I think that she is sick: je pense qu'elle est malade."""
    thinker = someone(dice)
    verb = dice.one((verbs.THINK, verbs.THINK, verbs.KNOW_THAT, verbs.SAY, verbs.HOPE))
    inner = clause_phrase(dice.one((_state,) if verb is verbs.HOPE else (_state, _activity, _departure))(dice, thinker))
    return statement(Clause(thinker, verb, Phrase(f"that {inner.en}", f"que {inner.fr}")))


def _state(dice: Dice, thinker: NounPhrase) -> Clause:
    subject = _another(dice, thinker)
    adjective = dice.one((*TRAITS, *MOODS))
    return Clause(subject, verbs.BE, Phrase(adjective.en, french.agree(adjective, subject.gender, subject.plural)))


def _activity(dice: Dice, thinker: NounPhrase) -> Clause:
    verb = dice.one((verbs.SLEEP, verbs.WORK, verbs.STUDY, verbs.COOK, verbs.LAUGH, verbs.CRY))
    return Clause(_another(dice, thinker), verb, tense=now(verb))


def _departure(dice: Dice, thinker: NounPhrase) -> Clause:
    verb, tense = dice.one((verbs.LEAVE, verbs.ARRIVE, verbs.COME_BACK)), dice.one((Tense.PAST, Tense.FUTURE))
    return Clause(_another(dice, thinker), verb, tense=tense, when=some_time(dice, tense, 0.3))


def _another(dice: Dice, thinker: NounPhrase) -> NounPhrase:
    """Not the thinker: I think that he is right, Paul knows that Alice is right."""
    others = [who for who in PRONOUNS if owner(thinker) is not who]
    return pronoun(dice.one(others)) if dice.chance(0.6) else someone_else(dice)


def facts(dice: Dice) -> Pair:
    """Wine is more expensive than water: le vin est plus cher que l'eau."""
    first, second = dice.shuffled([noun for noun in nouns_with("drinkable edible") if noun.has("mass")])[:2]
    adjective = next(adjective for adjective in ADJECTIVES if adjective.en == "expensive")
    subject, other = in_general(first), in_general(second)
    form = french.agree(adjective, first.gender, subject.plural)
    quality = Phrase(f"more expensive than {other.en}", f"plus {form} que {other.fr}")
    return tell(dice, Clause(subject, verbs.BE, quality))

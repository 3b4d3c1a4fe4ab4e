"""Frames about what people like, eat, do, give and need."""

from dataclasses import replace

from sample_grammar import french, verbs
from sample_grammar.choices import (
    Dice,
    adjective_or_none,
    consumed,
    definite,
    indefinite,
    other_pronoun,
    relative,
    someone,
    someone_other_than,
)
from sample_grammar.clauses import (
    CAN_DO,
    MUST_DO,
    WANT_TO,
    WOULD_LIKE_TO,
    Clause,
    Modal,
    Negation,
    Pair,
    Tense,
    question,
    statement,
)
from sample_grammar.entries import Phrase, Verb
from sample_grammar.frames.telling import some_tense, some_time, tell, written
from sample_grammar.nouns import (
    ANIMALS,
    CLOTHES,
    DISHES,
    DRINKS,
    FOODS,
    INGREDIENTS,
    MATERIALS,
    SHOES,
    TRANSPORT,
    nouns_with,
)
from sample_grammar.phrases import NounPhrase, a, bare, counted, described, in_general, pronoun, some, the
from sample_grammar.words import (
    CONTAINERS,
    FREQUENCIES,
    HABITUAL_TIMES,
    INSTRUMENTS,
    LANGUAGES,
    MEALS,
    NUMBERS,
    SPORTS,
    YOU,
)

PLANNED = tuple(verb for verb in verbs.ACTIVITIES if verb not in (verbs.LAUGH, verbs.CRY, verbs.SMILE))


def liking(dice: Dice) -> Pair:
    """I love oranges: j'aime les oranges; but to like is aimer bien, and not to like ne pas aimer."""
    subject, thing = someone(dice), in_general(dice.one(dice.one(_LIKED)))
    verb = dice.one((verbs.LOVE, verbs.LOVE, verbs.LIKE, verbs.LIKE, verbs.HATE, verbs.PREFER))
    clause = Clause(subject, verb, thing)
    if verb is verbs.LIKE:
        if dice.chance(0.35):
            return statement(replace(clause, negation=Negation.NOT))
        if subject.person != 1 and dice.chance(0.3):
            return question(clause)
        return statement(replace(clause, complement=Phrase(thing.en, f"bien {thing.fr}")))
    return statement(clause)


_LIKED = (FOODS, DISHES, DRINKS, ANIMALS, ANIMALS, nouns_with("plant"))


def liking_to_do(dice: Dice) -> Pair:
    """She likes to dance: elle aime danser."""
    activity, verb = dice.one(PLANNED), dice.one((verbs.LIKE, verbs.LIKE, verbs.HATE))
    clause = Clause(someone(dice), verb, Phrase(f"to {activity.en}", activity.fr))
    return statement(clause) if verb is verbs.HATE else tell(dice, clause)


def eating_and_drinking(dice: Dice) -> Pair:
    """She is eating an apple: elle mange une pomme. I didn't drink milk: je n'ai pas bu de lait."""
    verb = dice.one((verbs.EAT, verbs.EAT, verbs.DRINK))
    tense = some_tense(dice, verb)
    food = consumed(dice, dice.one(nouns_with(verb.objects)))
    return tell(dice, Clause(someone(dice), verb, food, tense, when=some_time(dice, tense, 0.25)))


def habits(dice: Dice) -> Pair:
    """He often eats bread: il mange souvent du pain. We never drink milk: nous ne buvons jamais de lait."""
    verb = dice.one((verbs.EAT, verbs.DRINK))
    food = bare(dice.one([noun for noun in nouns_with(verb.objects) if noun.has("mass")]))
    clause = Clause(someone(dice), verb, food)
    kind = dice.one(("frequency", "never", "time"))
    if kind == "frequency":
        return statement(replace(clause, adverb=dice.one(FREQUENCIES)))
    if kind == "never":
        return statement(replace(clause, negation=Negation.NEVER))
    return tell(dice, replace(clause, when=dice.one(HABITUAL_TIMES)), negations=0)


def buying_and_making(dice: Dice) -> Pair:
    """They bought three red chairs: ils ont acheté trois chaises rouges."""
    verb = dice.one((verbs.BUY, verbs.BUY, verbs.SEE, verbs.READ, verbs.WRITE, verbs.DRAW, verbs.WATCH))
    tense = some_tense(dice, verb)
    if verb is verbs.SEE and tense is Tense.FUTURE:
        tense = Tense.PAST
    thing = indefinite(dice, dice.one(nouns_with(verb.objects)))
    when = some_time(dice, tense, near=verb is not verbs.BUY)
    return tell(dice, Clause(someone(dice), verb, thing, tense, when=when))


def handling(dice: Dice) -> Pair:
    """I am looking for my keys: je cherche mes clés."""
    verb = dice.one(verbs.DEFINITE_ACTIONS)
    subject, tense = someone(dice), some_tense(dice, verb)
    thing = definite(dice, dice.one(nouns_with(verb.objects)), subject)
    return tell(dice, Clause(subject, verb, thing, tense, when=some_time(dice, tense, 0.3)))


def sightseeing(dice: Dice) -> Pair:
    """We are going to visit the castle tomorrow: nous allons visiter le château demain."""
    tense = some_tense(dice, verbs.VISIT)
    sight = the(dice.one(nouns_with(verbs.VISIT.objects)))
    return tell(dice, Clause(someone(dice), verbs.VISIT, sight, tense, when=some_time(dice, tense, near=False)))


def mishaps(dice: Dice) -> Pair:
    """She lost her umbrella yesterday: elle a perdu son parapluie hier."""
    verb, subject = dice.one(verbs.ACCIDENTS), someone(dice)
    thing = definite(dice, dice.one(nouns_with(verb.objects)), subject)
    return tell(dice, Clause(subject, verb, thing, Tense.PAST, when=some_time(dice, Tense.PAST, near=False)))


def wearing(dice: Dice) -> Pair:
    """He is wearing a blue cap: il porte une casquette bleue. We are wearing caps: nous portons des casquettes."""
    subject = someone(dice)
    noun = dice.one(SHOES if dice.chance(0.35) else CLOTHES)
    if noun in SHOES or subject.plural:
        clothes = bare(noun, adjective_or_none(dice, noun, 0.9))
    else:
        clothes = a(noun, adjective_or_none(dice, noun, 0.6))
    return tell(dice, Clause(subject, verbs.WEAR, clothes, Tense.PROGRESSIVE))


def having(dice: Dice) -> Pair:
    """I have two sisters: j'ai deux sœurs. He doesn't have a car: il n'a pas de voiture."""
    return tell(dice, Clause(someone(dice), verbs.HAVE, _possession(dice)), questions=0.2, negations=0.25)


def _possession(dice: Dice) -> NounPhrase:
    if dice.chance(0.25):
        noun = dice.one(nouns_with("countable"))
        return counted(dice.one(NUMBERS[:4]), noun) if dice.chance(0.5) else a(noun)
    if dice.chance(0.2):
        return some(dice.one(dice.one((DISHES, DRINKS, INGREDIENTS, MATERIALS))))
    return indefinite(dice, dice.one(nouns_with("portable pet farm vehicle")))


def seeing_people(dice: Dice) -> Pair:
    """We are waiting for the doctor: nous attendons le médecin."""
    subject, verb, tense = _toward_a_person(dice)
    person = relative(dice) if verb is verbs.LOVE else someone_other_than(dice, subject)
    return tell(dice, Clause(subject, verb, person, tense, when=some_time(dice, tense, 0.3)))


def object_pronouns(dice: Dice) -> Pair:
    """I see him: je le vois. She didn't help us: elle ne nous a pas aidés."""
    subject, verb, tense = _toward_a_person(dice)
    whom = other_pronoun(dice, subject)
    return tell(dice, Clause(subject, verb, tense=tense, whom=whom, when=some_time(dice, tense, 0.2)))


def _toward_a_person(dice: Dice) -> tuple[NounPhrase, Verb, Tense]:
    subject = someone(dice)
    if dice.chance(0.1):
        return subject, verbs.MEET, Tense.PAST
    if dice.chance(0.45):
        return subject, dice.one(verbs.PERSON_STATES), Tense.PRESENT
    verb = dice.one((*verbs.PERSON_ACTIONS, verbs.SEE))
    tense = some_tense(dice, verb)
    return subject, verb, tense


def giving(dice: Dice) -> Pair:
    """He gave me a book: il m'a donné un livre. I am sending the letter to my aunt: j'envoie la lettre à ma tante."""
    subject, verb = someone(dice), dice.one(verbs.GIVING)
    tense = some_tense(dice, verb)
    noun = dice.one(nouns_with(verb.objects))
    when = some_time(dice, tense, 0.2)
    if dice.chance(0.6):
        gift = a(noun, adjective_or_none(dice, noun, 0.2)) if dice.chance(0.6) else definite(dice, noun, subject)
        whom = other_pronoun(dice, subject)
        return tell(dice, Clause(subject, verb, gift, tense, whom=whom, whom_indirect=True, when=when), negations=0.1)
    gift, receiver = definite(dice, noun, subject), someone_other_than(dice, subject)
    complement = Phrase(f"{gift.en} to {receiver.en}", f"{gift.fr} à {receiver.fr}")
    return tell(dice, Clause(subject, verb, complement, tense, when=when), negations=0.1)


def wishing_and_having_to(dice: Dice) -> Pair:
    """Paul wants to buy a car: Paul veut acheter une voiture. You can't work: tu ne peux pas travailler."""
    subject = someone(dice)
    clause = dice.one((_activity, _activity, _purchase, _handling, _handling, _help))(dice, subject)
    # To be able to swim, because one has learnt to, is savoir nager.
    modal = dice.one((MUST_DO, WANT_TO, WOULD_LIKE_TO, *(() if clause.verb in verbs.SKILLS else (CAN_DO,))))
    return _tell_modal(dice, replace(clause, modal=modal), modal)


def _tell_modal(dice: Dice, clause: Clause, modal: Modal) -> Pair:
    if modal is WOULD_LIKE_TO:
        return statement(clause)
    return tell(dice, clause, questions=0 if modal is MUST_DO else 0.2)


def _activity(dice: Dice, subject: NounPhrase) -> Clause:
    return Clause(subject, dice.one(PLANNED))


def _purchase(dice: Dice, subject: NounPhrase) -> Clause:
    verb = dice.one((verbs.BUY, verbs.READ, verbs.WRITE, verbs.EAT, verbs.DRINK))
    return Clause(subject, verb, indefinite(dice, dice.one(nouns_with(verb.objects))))


def _handling(dice: Dice, subject: NounPhrase) -> Clause:
    verb = dice.one(verbs.DEFINITE_ACTIONS)
    return Clause(subject, verb, definite(dice, dice.one(nouns_with(verb.objects)), subject))


def _help(dice: Dice, subject: NounPhrase) -> Clause:
    return Clause(subject, dice.one((*verbs.PERSON_ACTIONS, verbs.SEE)), whom=other_pronoun(dice, subject))


def activities(dice: Dice) -> Pair:
    """My sister is sleeping: ma sœur dort. They worked yesterday: ils ont travaillé hier."""
    verb = dice.one(verbs.ACTIVITIES)
    tense = some_tense(dice, verb)
    if tense is Tense.FUTURE and verb not in PLANNED:
        tense = Tense.PAST
    babyish = verb in (verbs.SLEEP, verbs.LAUGH, verbs.CRY, verbs.SMILE) and dice.chance(0.3)
    subject = the(dice.one(nouns_with("baby"))) if babyish else someone(dice)
    return tell(dice, Clause(subject, verb, tense=tense, when=some_time(dice, tense, 0.7)))


def manners(dice: Dice) -> Pair:
    """Julie sings well: Julie chante bien. He works a lot: il travaille beaucoup."""
    manner, suited = dice.one(_MANNERS)
    return tell(dice, Clause(someone(dice), dice.one(suited), manner), negations=0 if manner.en == "badly" else 0.2)


_MANNERS = (
    (Phrase("well", "bien"), (verbs.SING, verbs.DANCE, verbs.SWIM, verbs.COOK, verbs.DRIVE)),
    (Phrase("badly", "mal"), (verbs.SING, verbs.DANCE, verbs.SWIM, verbs.COOK, verbs.DRIVE)),
    (Phrase("fast", "vite"), (verbs.RUN, verbs.WALK, verbs.SWIM, verbs.DRIVE)),
    (Phrase("slowly", "lentement"), (verbs.RUN, verbs.WALK, verbs.DRIVE)),
    (Phrase("a lot", "beaucoup"), (verbs.SLEEP, verbs.WORK, verbs.STUDY, verbs.TRAVEL, verbs.LAUGH, verbs.CRY)),
)


def routines(dice: Dice) -> Pair:
    """She sings every day: elle chante tous les jours. We often travel: nous voyageons souvent."""
    kind = dice.one(("frequency", "never", "time", "time"))
    suited = [verb for verb in PLANNED if verb is not verbs.SLEEP] if kind == "time" else verbs.ACTIVITIES
    clause = Clause(someone(dice), dice.one(suited))
    if kind == "frequency":
        return statement(replace(clause, adverb=dice.one(FREQUENCIES)))
    if kind == "never":
        return statement(replace(clause, negation=Negation.NEVER))
    return tell(dice, replace(clause, when=dice.one(HABITUAL_TIMES)), negations=0)


def playing(dice: Dice) -> Pair:
    """Pierre is playing football: Pierre joue au football. She plays the piano: elle joue du piano."""
    if dice.chance(0.5):
        game = dice.one(SPORTS)
        complement = Phrase(game.en, f"à {game.fr}")
    else:
        instrument = dice.one(INSTRUMENTS)
        complement = Phrase(instrument.en, f"de {instrument.fr}")
    tense = dice.one((Tense.PRESENT, Tense.PROGRESSIVE, Tense.PAST, Tense.FUTURE))
    return tell(dice, Clause(someone(dice), verbs.PLAY, complement, tense, when=some_time(dice, tense)))


def meals(dice: Dice) -> Pair:
    """My father is preparing dinner: mon père prépare le dîner."""
    tense = some_tense(dice, verbs.PREPARE)
    return tell(dice, Clause(someone(dice), verbs.PREPARE, dice.one(MEALS), tense, when=some_time(dice, tense)))


def languages(dice: Dice) -> Pair:
    """He speaks Italian: il parle italien. I am learning German: j'apprends l'allemand."""
    language = dice.one(LANGUAGES)
    if dice.chance(0.5):
        return tell(dice, Clause(someone(dice), verbs.SPEAK, Phrase(language.en, language.fr)))
    complement = Phrase(language.en, f"le {language.fr}")
    if dice.chance(0.5):
        tense = dice.one((Tense.PROGRESSIVE, Tense.FUTURE))
        return tell(dice, Clause(someone(dice), verbs.LEARN, complement, tense))
    return tell(dice, Clause(someone(dice), verbs.UNDERSTAND, complement))


def wanting_things(dice: Dice) -> Pair:
    """I would like a glass of water: je voudrais un verre d'eau. She wants some bread: elle veut du pain."""
    thing = _quantity(dice) if dice.chance(0.5) else indefinite(dice, dice.one(nouns_with("buyable")))
    if dice.chance(0.5):
        return statement(Clause(someone(dice), verbs.WOULD_LIKE, thing))
    return tell(dice, Clause(someone(dice), verbs.WANT, thing), negations=0)


def _quantity(dice: Dice) -> Phrase:
    container, held = dice.one(CONTAINERS)
    noun = dice.one(nouns_with(held))
    en, fr = described(noun, None, plural=not noun.has("mass"))
    return Phrase(f"{container.en} {en}", f"{container.fr} {fr}")


def needing(dice: Dice) -> Pair:
    """They need money: ils ont besoin d'argent. I need a coat: j'ai besoin d'un manteau."""
    if dice.chance(0.5):
        noun = dice.one(dice.one((DISHES, DRINKS, INGREDIENTS, MATERIALS)))
        thing = Phrase(noun.en, f"besoin de {noun.fr}")
    else:
        needed = a(dice.one(nouns_with("thing tableware clothes vehicle furniture")))
        thing = Phrase(needed.en, f"besoin de {needed.fr}")
    return tell(dice, Clause(someone(dice), verbs.NEED, thing))


def public_transport(dice: Dice) -> Pair:
    """They are waiting for the bus: ils attendent le bus. She missed the train: elle a raté le train."""
    subject, verb = someone(dice), dice.one((verbs.TAKE, verbs.WAIT_FOR, verbs.MISS))
    tense = Tense.PAST if verb is verbs.MISS else some_tense(dice, verb)
    transport = the(dice.one(TRANSPORT))
    return tell(dice, Clause(subject, verb, transport, tense, when=some_time(dice, tense, 0.5)))


def ordering(dice: Dice) -> Pair:
    """Open the door, please: ouvre la porte, s'il te plaît. Don't forget your hat: n'oublie pas ton chapeau."""
    forbidden = dice.chance(0.3)
    verb = dice.one((*verbs.DEFINITE_ACTIONS, verbs.FORGET) if forbidden else verbs.DEFINITE_ACTIONS)
    thing = definite(dice, dice.one(nouns_with(verb.objects)), pronoun(YOU))
    form = french.imperative(verb)
    if forbidden:
        return written(f"don't {verb.en} {thing.en}", f"ne {form} pas {thing.fr}", "!")
    if dice.chance(0.5):
        return written(f"{verb.en} {thing.en}, please", f"{form} {thing.fr}, s'il te plaît")
    return written(f"{verb.en} {thing.en}", f"{form} {thing.fr}", "!")

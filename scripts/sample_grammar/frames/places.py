"""Frames about where people and things are, go, come from and live."""

from sample_grammar import english, verbs
from sample_grammar.choices import Dice, definite, is_plural, relative, someone, someone_else
from sample_grammar.clauses import Clause, Pair, Tense
from sample_grammar.entries import NOTHING, Noun, Phrase
from sample_grammar.frames.telling import some_tense, some_time, tell, written
from sample_grammar.nouns import FURNITURE, NOUNS, PLACES, VEHICLES, nouns_with
from sample_grammar.phrases import a, article, counted, described, some, the
from sample_grammar.words import CITIES, COUNTRIES, DAYS_AGO, HOURS, NUMBERS


def going(dice: Dice) -> Pair:
    """She went to the market yesterday: elle est allée au marché hier."""
    tense = dice.one((Tense.PROGRESSIVE, Tense.PAST, Tense.PAST, Tense.FUTURE))
    when = some_time(dice, tense)
    destination = _place(dice, "to")
    return tell(dice, Clause(someone(dice), verbs.GO, destination, tense, when=when))


def arriving_and_staying(dice: Dice) -> Pair:
    """They stayed at the hotel: ils sont restés à l'hôtel. He is arriving at the station: il arrive à la gare."""
    verb = dice.one((verbs.ARRIVE, verbs.STAY))
    tense = dice.one((Tense.PROGRESSIVE, Tense.PAST, Tense.FUTURE))
    when = some_time(dice, tense)
    if when in DAYS_AGO and verb is verbs.STAY:  # that would be a point in time
        when = NOTHING
    return tell(dice, Clause(someone(dice), verb, _place(dice, "at"), tense, when=when))


def coming_back(dice: Dice) -> Pair:
    """Alice came back from the beach: Alice est revenue de la plage."""
    noun = dice.one(PLACES)
    origin = Phrase(_english_place("from", noun), f"de {article(noun)} {noun.fr}")
    tense = dice.one((Tense.PROGRESSIVE, Tense.PAST, Tense.PAST))
    return tell(dice, Clause(someone(dice), verbs.COME_BACK, origin, tense, when=some_time(dice, tense)))


def working_somewhere(dice: Dice) -> Pair:
    """My aunt works at the hospital: ma tante travaille à l'hôpital."""
    return tell(dice, Clause(someone(dice), verbs.WORK, _place(dice, "at", dice.one(_WORKPLACES))))


def being_somewhere(dice: Dice) -> Pair:
    """The children are in the garden: les enfants sont dans le jardin. You are not at school: tu n'es pas à l'école."""
    place = _room(dice) if dice.chance(0.3) else _place(dice, "at")
    return tell(dice, Clause(someone(dice), verbs.BE, place))


def _place(dice: Dice, preposition: str, noun: Noun | None = None) -> Phrase:
    """To or at a place, or somebody's house: to the market, au marché; at my uncle's house, chez mon oncle."""
    if noun is None and dice.chance(0.2):
        host = relative(dice)
        return Phrase(f"{preposition} {english.possessive(host.en, host.plural)} house", f"chez {host.fr}")
    noun = noun or dice.one(PLACES)
    return Phrase(_english_place(preposition, noun), f"à {article(noun)} {noun.fr}")


def _english_place(preposition: str, noun: Noun) -> str:
    return f"{preposition} {noun.en}" if noun.has("no_article") else f"{preposition} the {noun.en}"


_WORKPLACES = tuple(noun for noun in PLACES if noun.en not in ("beach", "park", "church", "cinema", "castle"))


def coming_and_going(dice: Dice) -> Pair:
    """My cousin is leaving tomorrow: mon cousin part demain. She fell: elle est tombée."""
    verb = dice.one((verbs.LEAVE, verbs.ARRIVE, verbs.COME, verbs.COME_BACK, verbs.GO_OUT, verbs.GO_HOME, verbs.FALL))
    complement = Phrase("", "à la maison") if verb is verbs.GO_HOME else NOTHING
    tense = dice.one((Tense.PROGRESSIVE, Tense.PAST, Tense.PAST, Tense.FUTURE))
    if verb is verbs.FALL:
        tense = Tense.PAST
    # English plans in the progressive: she is leaving tomorrow.
    when = some_time(dice, Tense.FUTURE if tense is Tense.PROGRESSIVE else tense, 0.5)
    return tell(dice, Clause(someone(dice), verb, complement, tense, when=when))


def timetable(dice: Dice) -> Pair:
    """The train leaves at five o'clock: le train part à cinq heures."""
    subject = the(dice.one(nouns_with("scheduled"))) if dice.chance(0.5) else someone_else(dice)
    hour = dice.one(HOURS)
    when = Phrase(f"at {hour.en}", f"à {hour.fr}")
    verb = dice.one((verbs.LEAVE, verbs.ARRIVE))
    tense = dice.one((Tense.PRESENT, Tense.PAST, Tense.FUTURE))
    return tell(dice, Clause(subject, verb, tense=tense, when=when))


def cities_and_countries(dice: Dice) -> Pair:
    """He lives in Paris: il habite à Paris. She was born in Italy: elle est née en Italie."""
    subject, kind = someone(dice), dice.one(("live", "live", "work", "be born", "go", "come"))
    if dice.chance(0.5):
        city = dice.one(CITIES)
        name, in_or_to, out_of = city.en, f"à {city.fr}", f"de {city.fr}"
    else:
        name, in_or_to, out_of = dice.one(COUNTRIES)
    if kind == "come":
        return tell(dice, Clause(subject, verbs.COME, Phrase(f"from {name}", out_of)))
    if kind == "go":
        tense = dice.one((Tense.PROGRESSIVE, Tense.PAST))
        when = some_time(dice, tense, near=False)
        return tell(dice, Clause(subject, verbs.GO, Phrase(f"to {name}", in_or_to), tense, when=when))
    verb, tense = {
        "live": (verbs.LIVE, Tense.PRESENT),
        "work": (verbs.WORK, Tense.PRESENT),
        "be born": (verbs.BE_BORN, Tense.PAST),
    }[kind]
    return tell(dice, Clause(subject, verb, Phrase(f"in {name}", in_or_to), tense))


def where_things_are(dice: Dice) -> Pair:
    """Your keys are on the table: tes clés sont sur la table."""
    noun, place = where_it_may_be(dice)
    subject = definite(dice, noun, someone(dice))
    return tell(dice, Clause(subject, verbs.BE, place), questions=0.2)


def there_is(dice: Dice) -> Pair:
    """There are two cats under the bed: il y a deux chats sous le lit."""
    if dice.chance(0.25):
        noun, place = _food_and_place(dice)
        thing = some(noun)
    else:
        noun, place = where_it_may_be(dice)
        several = some(noun) if dice.chance(0.5) else counted(dice.one(NUMBERS), noun)
        thing = several if is_plural(dice, noun, 0.5) else a(noun)
    be = english.be(3, thing.plural)
    if dice.chance(0.15):
        return written(
            f"{be} there {thing.en_open or thing.en} {place.en}", f"est-ce que il y a {thing.fr} {place.fr}", "?"
        )
    if not thing.is_counted and dice.chance(0.2):
        en, _ = described(noun, None, thing.plural)
        return written(f"there {be} no {en} {place.en}", f"il ne y a pas {thing.fr_negated} {place.fr}")
    return written(f"there {be} {thing.en} {place.en}", f"il y a {thing.fr} {place.fr}")


def putting(dice: Dice) -> Pair:
    """She put the flowers on the table: elle a mis les fleurs sur la table."""
    subject = someone(dice)
    noun, place = dice.one((_kept, _on_furniture))(dice)
    thing = definite(dice, noun, subject)
    complement = Phrase(f"{thing.en} {place.en}", f"{thing.fr} {place.fr}")
    tense = some_tense(dice, verbs.PUT)
    return tell(dice, Clause(subject, verbs.PUT, complement, tense, when=some_time(dice, tense, 0.1)))


def where_it_may_be(dice: Dice) -> tuple[Noun, Phrase]:
    """Something, and a place where it may well be."""
    return dice.one((_kept, _on_furniture, _animal_somewhere, _near_landmark, _beside_door_or_window, _in_room))(dice)


def _food_and_place(dice: Dice) -> tuple[Noun, Phrase]:
    noun = dice.one(nouns_with("edible drinkable"))
    places = (_inside("fridge"), _inside("kitchen"), _relative_to("on", "sur", _noun("table")))
    return noun, dice.one(places)


def _kept(dice: Dice) -> tuple[Noun, Phrase]:
    tags, containers = dice.one(_STORED)
    noun = dice.one([noun for noun in nouns_with(tags) if not noun.has("bulky")])
    return noun, _inside(dice.one(containers))


_STORED = (
    ("food", ("bag", "fridge", "box")),
    ("clothes shoes", ("suitcase", "wardrobe", "drawer", "bag")),
    ("thing", ("bag", "box", "drawer", "suitcase")),
    ("tableware", ("cupboard", "box", "drawer")),
)


def _on_furniture(dice: Dice) -> tuple[Noun, Phrase]:
    return dice.one(nouns_with("portable")), _relative_to("on", "sur", dice.one(nouns_with("surface")))


def _animal_somewhere(dice: Dice) -> tuple[Noun, Phrase]:
    if dice.chance(0.5):
        return dice.one(nouns_with("pet")), _relative_to("under", "sous", dice.one(nouns_with("shelter")))
    if dice.chance(0.5):
        return dice.one(nouns_with("pet")), _relative_to("behind", "derrière", dice.one(nouns_with("back furniture")))
    farm_animal, landmark = dice.one(nouns_with("farm")), dice.one(nouns_with("outdoors"))
    behind, in_front = (_relative_to(en, fr, landmark) for en, fr in _BESIDE[2:])
    return farm_animal, dice.one((_inside("garden"), behind, in_front))


def _near_landmark(dice: Dice) -> tuple[Noun, Phrase]:
    landmark = dice.one([noun for noun in nouns_with("landmark") if not noun.has("part")])
    noun = dice.one([noun for noun in (*VEHICLES, *nouns_with("shop")) if noun is not landmark])
    return noun, _relative_to(*dice.one(_BESIDE), landmark)


def _beside_door_or_window(dice: Dice) -> tuple[Noun, Phrase]:
    piece = dice.one([noun for noun in FURNITURE if noun.has("surface")])
    return piece, _relative_to(*dice.one(_BESIDE[:2]), dice.one((_noun("door"), _noun("window"))))


_BESIDE = (
    ("near", "près de"),
    ("next to", "à côté de"),
    ("behind", "derrière"),
    ("in front of", "devant"),
)


def _in_room(dice: Dice) -> tuple[Noun, Phrase]:
    return dice.one([noun for noun in nouns_with("portable pet") if not noun.has("food")]), _room(dice)


def _room(dice: Dice) -> Phrase:
    return _inside(dice.one(nouns_with("inside")).en)


def _inside(container: str) -> Phrase:
    return _relative_to("in", "dans", _noun(container))


def _relative_to(en: str, fr: str, noun: Noun) -> Phrase:
    return Phrase(f"{en} the {noun.en}", f"{fr} {article(noun)} {noun.fr}")


def _noun(en: str) -> Noun:
    return next(noun for noun in NOUNS if noun.en == en)

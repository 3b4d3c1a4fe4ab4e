"""Noun phrases: a noun with its determiner and adjective, in both languages, ready to be subject or object."""

from dataclasses import dataclass

from sample_grammar import english, french
from sample_grammar.entries import NOTHING, Adjective, Gender, Name, Noun, Phrase, Pronoun


@dataclass(frozen=True, kw_only=True)
class NounPhrase(Phrase):
    """A phrase that verbs, adjectives and participles agree with."""

    gender: Gender
    plural: bool = False
    person: int = 3
    is_counted: bool = False  # three apples: not denied, for that would say that there are two or four


def pronoun(who: Pronoun) -> NounPhrase:
    """The pronoun as a subject: I, je."""
    return NounPhrase(who.en, who.fr, gender=who.gender, plural=who.plural, person=who.person)


def it(noun: Noun, plural: bool = False) -> NounPhrase:
    """The pronoun that stands for the noun as a subject: it, they; il, elle, ils, elles."""
    stem = "il" if noun.gender == "m" else "elle"
    return NounPhrase("they" if plural else "it", stem + "s" if plural else stem, gender=noun.gender, plural=plural)


def named(*names: Name) -> NounPhrase:
    """One person by name, or several: Alice and Paul, who together are masculine."""
    gender: Gender = "f" if all(name.gender == "f" for name in names) else "m"
    texts = [name.text for name in names]
    return NounPhrase(" and ".join(texts), " et ".join(texts), gender=gender, plural=len(texts) > 1)


def the(noun: Noun, adjective: Adjective | None = None, plural: bool = False) -> NounPhrase:
    """The apple, the red apples: la pomme, les pommes rouges."""
    en, fr = described(noun, adjective, plural)
    return _phrase(noun, f"the {en}", f"{article(noun, plural)} {fr}", plural)


def a(noun: Noun, adjective: Adjective | None = None) -> NounPhrase:
    """An apple: une pomme; after ne ... pas, de pomme."""
    en, fr = described(noun, adjective, plural=False)
    article = "un" if noun.gender == "m" else "une"
    return NounPhrase(english.with_article(en), f"{article} {fr}", fr_negated=f"de {fr}", gender=noun.gender)


def some(noun: Noun, adjective: Adjective | None = None) -> NounPhrase:
    """Some apples, some milk: des pommes, du lait; after ne ... pas, de pommes, de lait.

    Before an adjective that precedes its noun, des is de: de belles fleurs.
    """
    plural = not noun.has("mass")
    en, fr = described(noun, adjective, plural)
    if not plural:
        article = "de le" if noun.gender == "m" else "de la"
    else:
        article = "de" if adjective is not None and adjective.before else "des"
    return NounPhrase(f"some {en}", f"{article} {fr}", f"any {en}", f"de {fr}", gender=noun.gender, plural=plural)


def bare(noun: Noun, adjective: Adjective | None = None) -> NounPhrase:
    """Milk, black shoes: English has no determiner, French the partitive: du lait, des chaussures noires."""
    phrase = some(noun, adjective)
    en, _ = described(noun, adjective, phrase.plural)
    return NounPhrase(en, phrase.fr, fr_negated=phrase.fr_negated, gender=noun.gender, plural=phrase.plural)


def in_general(noun: Noun) -> NounPhrase:
    """Apples, milk, as what somebody likes: les pommes, le lait."""
    plural = not noun.has("mass")
    en, fr = described(noun, None, plural)
    return _phrase(noun, en, f"{article(noun, plural)} {fr}", plural)


def this(noun: Noun, adjective: Adjective | None = None, plural: bool = False) -> NounPhrase:
    """This apple, these trees: cette pomme, ces arbres; but cet arbre."""
    en, fr = described(noun, adjective, plural)
    if plural:
        determiner = "ces"
    elif noun.gender == "f":
        determiner = "cette"
    else:
        determiner = "cet" if french.begins_with_vowel(fr) else "ce"
    return _phrase(noun, f"{'these' if plural else 'this'} {en}", f"{determiner} {fr}", plural)


def owned(owner: Pronoun, noun: Noun, adjective: Adjective | None = None, plural: bool = False) -> NounPhrase:
    """My car, my cars: ma voiture, mes voitures; but mon école."""
    en, fr = described(noun, adjective, plural)
    masculine, feminine, several = owner.possessive
    if plural:
        determiner = several
    elif noun.gender == "f" and not french.begins_with_vowel(fr):
        determiner = feminine
    else:
        determiner = masculine
    return _phrase(noun, f"{owner.en_possessive} {en}", f"{determiner} {fr}", plural)


def of(owner: NounPhrase, noun: Noun, plural: bool = False) -> NounPhrase:
    """The doctor's keys: les clés du médecin."""
    en, fr = described(noun, None, plural)
    en, fr = f"{english.possessive(owner.en, owner.plural)} {en}", f"{article(noun, plural)} {fr} de {owner.fr}"
    return _phrase(noun, en, fr, plural)


def counted(number: Phrase, noun: Noun, adjective: Adjective | None = None) -> NounPhrase:
    """Three red apples: trois pommes rouges."""
    en, fr = described(noun, adjective, plural=True)
    return NounPhrase(f"{number.en} {en}", f"{number.fr} {fr}", gender=noun.gender, plural=True, is_counted=True)


def described(noun: Noun, adjective: Adjective | None, plural: bool) -> tuple[str, str]:
    """The noun with its adjective, no determiner: red apples, pommes rouges; beautiful trees, beaux arbres."""
    en = english.plural(noun) if plural else noun.en
    fr = french.noun_plural(noun) if plural else noun.fr
    if adjective is None:
        return en, fr
    form = french.agree(adjective, noun.gender, plural)
    if not adjective.before:
        return f"{adjective.en} {en}", f"{fr} {form}"
    if adjective.before_vowel and noun.gender == "m" and not plural and french.begins_with_vowel(fr):
        form = adjective.before_vowel
    return f"{adjective.en} {en}", f"{form} {fr}"


def quality(adjective: Adjective, subject: NounPhrase, degree: Phrase = NOTHING) -> Phrase:
    """Inflect the adjective for the subject, with very or too if given: (she is) very tired; très fatiguée."""
    form = french.agree(adjective, subject.gender, subject.plural)
    return Phrase(f"{degree.en} {adjective.en}", f"{degree.fr} {form}")


def which(noun: Noun, plural: bool) -> str:
    """French which or what before the noun: quel, quelle, quels, quelles."""
    return ("quelle" if noun.gender == "f" else "quel") + ("s" if plural else "")


def article(noun: Noun, plural: bool = False) -> str:
    """The definite article; french.join elides and contracts it."""
    if plural:
        return "les"
    return "le" if noun.gender == "m" else "la"


def _phrase(noun: Noun, en: str, fr: str, plural: bool) -> NounPhrase:
    return NounPhrase(en, fr, gender=noun.gender, plural=plural)

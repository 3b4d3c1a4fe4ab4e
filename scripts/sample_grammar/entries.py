"""What a line of the lexicon says: English and French of a word, and what cannot be derived by rule.

Tags say what a thing can do or suffer ("edible", "readable"); verbs and adjectives name the tags they go with,
so that no sentence eats a chair. Several tags are written in one string, separated by spaces.
"""

from dataclasses import dataclass
from typing import Literal

Gender = Literal["m", "f"]


@dataclass(frozen=True)
class Noun:
    """A thing, animal, person or place."""

    en: str
    fr: str
    gender: Gender
    tags: str = ""
    en_plural: str | None = None  # where the rules of english.plural do not give it
    fr_plural: str | None = None  # where the rules of french.plural do not give it

    def has(self, tags: str) -> bool:
        """Whether the noun carries one of these tags."""
        return not set(tags.split()).isdisjoint(self.tags.split())


@dataclass(frozen=True)
class Adjective:
    """A quality; fr is the masculine singular."""

    en: str
    fr: str
    fits: str = ""  # tags of the nouns that it can describe
    feminine: str | None = None  # where the rules of french.agree do not give it
    before: bool = False  # stands before its noun
    before_vowel: str | None = None  # masculine singular before a vowel: un bel arbre
    invariable: bool = False
    attributive: bool = True  # False: used only after "to be": the door is open
    comparative: str | None = None  # "taller"; None: "more intelligent"
    gradable: bool = True  # False: "very" does not fit it


@dataclass(frozen=True)
class Verb:
    """An action or a state; en is the base form, with its preposition if it has one ("look for")."""

    en: str
    fr: str
    past: str | None = None  # English past where it is irregular
    ing: str | None = None  # English -ing form where it is irregular
    present: str | None = None  # French forms of je, tu, il, nous, ils, where they are not those of the present tense
    with_etre: bool = False  # passé composé with être: elle est partie
    objects: str = ""  # tags of its direct objects
    stative: bool = False  # English does not use it in the progressive


@dataclass(frozen=True)
class Profession:
    """A profession or role, without an article in French: elle est étudiante."""

    en: str
    masculine: str
    feminine: str


@dataclass(frozen=True)
class Phrase:
    """Words that belong together, on both sides."""

    en: str
    fr: str
    en_open: str | None = None  # where negations and questions want other words: any milk
    fr_negated: str | None = None  # where negations want other words: (ne ... pas) de lait


NOTHING = Phrase("", "")


@dataclass(frozen=True)
class Name:
    """A first name, the same in both languages."""

    text: str
    gender: Gender


@dataclass(frozen=True)
class Pronoun:
    """A person, as a pronoun: subject, object and possessor."""

    en: str  # I
    fr: str  # je
    en_object: str  # me
    direct: str  # me: il me voit
    indirect: str  # me: il me donne
    stressed: str  # moi: avec moi
    en_possessive: str  # my
    possessive: tuple[str, str, str]  # mon, ma, mes
    person: int  # 1, 2 or 3
    plural: bool
    gender: Gender

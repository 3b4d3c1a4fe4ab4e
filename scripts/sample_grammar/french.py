"""French word forms: agreement, conjugation, and the spelling rules where words meet.

Sentences are put together from full words (je ne aime pas le hibou de le jardin); `sentence` then applies, once
and everywhere, elision (je n'aime pas le hibou), contraction (du jardin), the capital and the space before ? and !.
"""

from collections.abc import Callable

from sample_grammar.conjugations import IRREGULAR, STRONG_STEMS
from sample_grammar.entries import Adjective, Gender, Noun, Verb

PERSONS = {(1, False): 0, (2, False): 1, (3, False): 2, (1, True): 3, (3, True): 4}  # je, tu, il, nous, ils

_ELIDED = {"je", "me", "te", "se", "le", "la", "de", "ne", "que"}
_CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}
_VOWELS = "aâàeéèêëiîïoôuùûœh"
# They begin with a vowel or an h, and yet nothing is elided before them: le hibou, de onze.
_NOT_ELIDED = {"hamster", "hamsters", "hibou", "hiboux", "huit", "onze"}


def begins_with_vowel(words: str) -> bool:
    """Whether le, de, que, ma, ce take another form before these words: l'homme, but le hibou."""
    first = words.split()[0].lower()
    return (first[0] in _VOWELS or first == "y") and first not in _NOT_ELIDED


def noun_plural(noun: Noun) -> str:
    """The noun's plural: pommes, chevaux, gâteaux, souris."""
    return noun.fr_plural if noun.fr_plural is not None else _plural(noun.fr)


def agree(adjective: Adjective, gender: Gender, plural: bool) -> str:
    """The adjective's form for a noun of this gender and number."""
    if adjective.invariable:
        return adjective.fr
    if gender == "f":
        form = adjective.feminine or _feminine(adjective.fr)
        return form + "s" if plural else form
    return _plural(adjective.fr) if plural else adjective.fr


def _plural(word: str) -> str:
    if word.endswith(("s", "x", "z")):
        return word
    if word.endswith(("eau", "eu")) and word != "bleu":
        return word + "x"
    return word[:-2] + "aux" if word.endswith("al") else word + "s"


def _feminine(word: str) -> str:
    if word.endswith("e"):
        return word
    for ending, feminine in (("eux", "euse"), ("er", "ère"), ("en", "enne")):
        if word.endswith(ending):
            return word.removesuffix(ending) + feminine
    return word + "e"


def present(verb: Verb, person: int, plural: bool) -> str:
    """The present tense: mange, mangeons, finissent, vont."""
    index = PERSONS[person, plural]
    irregular, _ = IRREGULAR.get(verb.fr, (None, None))
    forms = verb.present or irregular
    if forms is not None:
        return forms.split()[index]
    stem, group = verb.fr[:-2], verb.fr[-2:]
    if group == "er":
        return _first_group(STRONG_STEMS.get(verb.fr, stem), stem, index)
    if group == "ir":
        return stem + ("is", "is", "it", "issons", "issent")[index]
    return stem + ("s", "s", "", "ons", "ent")[index]


def _first_group(strong: str, stem: str, index: int) -> str:
    if index == PERSONS[1, True]:
        return stem + ("eons" if stem.endswith("g") else "ons")
    return strong + ("e", "es", "e", "", "ent")[index]


def participle(verb: Verb, gender: Gender = "m", plural: bool = False) -> str:
    """The past participle, agreeing: mangé, vues, partie."""
    _, irregular = IRREGULAR.get(verb.fr, (None, None))
    form = irregular or verb.fr[:-2] + {"er": "é", "ir": "i", "re": "u"}[verb.fr[-2:]]
    if gender == "f":
        form += "e"
    return form + "s" if plural and not form.endswith("s") else form


def imperative(verb: Verb) -> str:
    """What one says to tu: mange, prends, va."""
    form = present(verb, 2, False)
    return form[:-1] if form.endswith(("es", "as")) else form


def sentence(text: str, mark: str) -> str:
    """The words as a written sentence: elided, contracted, a capital first, mark (. ? !) at the end."""
    text = join(text)
    return text[0].upper() + text[1:] + (mark if mark == "." else f" {mark}")


def join(text: str) -> str:
    """The words as they are spelled next to each other: "je ai" gives "j'ai", "de le" gives "du".

    Elision comes first: "de le hôtel" gives "de l'hôtel". After de and à, le and les must be articles, not pronouns.
    """
    return " ".join(_merged(_merged(text.split(), _elided), _contracted))


def _merged(words: list[str], merge: Callable[[str, str], str | None]) -> list[str]:
    """The words, two neighbours made one wherever merge has a word for them."""
    result: list[str] = []
    for word in words:
        together = merge(result[-1], word) if result else None
        if together is None:
            result.append(word)
        else:
            result[-1] = together
    return result


def _elided(first: str, second: str) -> str | None:
    return f"{first[:-1]}'{second}" if first in _ELIDED and begins_with_vowel(second) else None


def _contracted(first: str, second: str) -> str | None:
    return _CONTRACTED.get((first, second))

"""English word forms: plurals, a/an, verb endings; from words of the lexicon to spelled text."""

from sample_grammar.entries import Adjective, Noun, Verb

_BE = {(1, False): "am", (3, False): "is"}  # every other (person, plural): are


def plural(noun: Noun) -> str:
    """The noun's plural: apples, boxes, cherries, mice."""
    if noun.en_plural is not None:
        return noun.en_plural
    if noun.en.endswith(("s", "x", "sh", "ch")):
        return noun.en + "es"
    if _ends_in_consonant_y(noun.en):
        return noun.en[:-1] + "ies"
    return noun.en + "s"


def with_article(words: str) -> str:
    """The words after a or an, chosen by their first sound: an old house, a university."""
    vowel = words[0] in "aeiou" and not words.startswith("uni")
    return f"{'an' if vowel else 'a'} {words}"


def possessive(owner: str, plural: bool) -> str:
    """Of one owner or several: Paul's, Thomas's, my parents', the children's."""
    return owner + ("'" if plural and owner.endswith("s") else "'s")


def be(person: int, plural: bool) -> str:
    """The present of "to be"."""
    return _BE.get((person, plural), "are")


def present(verb: Verb, person: int, plural: bool) -> str:
    """The simple present: I look for, she looks for; he is."""
    head, tail = _head_and_tail(verb)
    if head == "be":
        head = be(person, plural)
    elif person == 3 and not plural:
        head = _third_person(head)
    return head + tail


def past(verb: Verb, person: int, plural: bool) -> str:
    """The simple past: looked for, saw, was."""
    head, tail = _head_and_tail(verb)
    if head == "be":
        return ("were" if plural or person == 2 else "was") + tail
    if verb.past is not None:
        return verb.past + tail
    if head.endswith("e"):
        return head + "d" + tail
    return (head[:-1] + "ied" if _ends_in_consonant_y(head) else head + "ed") + tail


def progressive(verb: Verb) -> str:
    """The -ing form: looking for, writing."""
    head, tail = _head_and_tail(verb)
    if verb.ing is not None:
        return verb.ing + tail
    if head.endswith("e") and not head.endswith("ee"):
        head = head[:-1]
    return head + "ing" + tail


def comparative(adjective: Adjective) -> str:
    """Taller, more intelligent."""
    return adjective.comparative or f"more {adjective.en}"


def sentence(text: str, mark: str) -> str:
    """The text as a written sentence: a capital first, mark (. ? !) at the end."""
    text = " ".join(text.split())
    return text[0].upper() + text[1:] + mark


def _head_and_tail(verb: Verb) -> tuple[str, str]:
    head, _, tail = verb.en.partition(" ")
    return head, f" {tail}" if tail else ""


def _third_person(head: str) -> str:
    if head in ("can", "must", "would"):
        return head
    if head == "have":
        return "has"
    if head.endswith(("s", "x", "sh", "ch", "o")):
        return head + "es"
    return head[:-1] + "ies" if _ends_in_consonant_y(head) else head + "s"


def _ends_in_consonant_y(word: str) -> bool:
    return word.endswith("y") and word[-2] not in "aeiou"

"""Clauses: who does what, to whom, when; said in both languages as statement, negation or question.

English asks with do-support (Does she like milk?), French with est-ce que, which keeps the order of the statement.
English past is the passé composé, "going to" the futur proche, and the English progressive the French present.
"""

from dataclasses import dataclass
from enum import Enum, auto

from sample_grammar import english, french
from sample_grammar.entries import NOTHING, Phrase, Pronoun, Verb
from sample_grammar.phrases import NounPhrase
from sample_grammar.verbs import BE, CAN, GO, HAVE, MUST, WANT, WOULD_LIKE

Pair = tuple[str, str]  # English, French


class Tense(Enum):
    """When it happens, as English tells it."""

    PRESENT = auto()  # she reads: elle lit
    PROGRESSIVE = auto()  # she is reading: elle lit
    PAST = auto()  # she read: elle a lu
    FUTURE = auto()  # she is going to read: elle va lire


@dataclass(frozen=True)
class Modal:
    """A verb that takes another one in the infinitive; English says it with an auxiliary, or as a full verb."""

    auxiliary: str
    en: str
    verb: Verb  # gives the French form


CAN_DO = Modal("can", "", CAN)
MUST_DO = Modal("must", "", MUST)
WANT_TO = Modal("", "want to", WANT)
WOULD_LIKE_TO = Modal("would", "like to", WOULD_LIKE)


class Negation(Enum):
    """How a clause is denied; the value is the second half of the French negation."""

    NOT = "pas"
    NEVER = "jamais"


@dataclass(frozen=True)
class Clause:
    """A subject, its verb in a tense, and what belongs to the verb."""

    subject: NounPhrase
    verb: Verb
    complement: Phrase = NOTHING
    tense: Tense = Tense.PRESENT
    modal: Modal | None = None
    negation: Negation | None = None
    whom: Pronoun | NounPhrase | None = None  # object pronoun: I see her; je la vois
    whom_indirect: bool = False  # I give her a book; je lui donne un livre
    adverb: Phrase = NOTHING  # beside the verb: often, souvent
    when: Phrase = NOTHING  # last


def statement(clause: Clause) -> Pair:
    """The clause as a sentence of its own."""
    phrase = clause_phrase(clause)
    return english.sentence(phrase.en, "."), french.sentence(phrase.fr, ".")


def question(clause: Clause, asked: Phrase = NOTHING) -> Pair:
    """The clause as a question; asked is the question word (where, où), nothing for yes or no."""
    auxiliary, verb = _english_verb(clause, is_open=True)
    words = [asked.en, auxiliary, clause.subject.en, clause.adverb.en, verb, *_english_rest(clause, is_open=True)]
    french_words = [asked.fr, "est-ce que", *_french_words(clause)]
    return english.sentence(" ".join(words), "?"), french.sentence(" ".join(french_words), "?")


def clause_phrase(clause: Clause) -> Phrase:
    """The clause in the order of a statement, to be used inside another: (I think that) he is sick."""
    negated = clause.negation is Negation.NOT
    auxiliary, verb = _english_verb(clause, is_open=negated)
    if negated:
        auxiliary = _denied(auxiliary)
    adverb = "never" if clause.negation is Negation.NEVER else clause.adverb.en
    english_words = [clause.subject.en, auxiliary, adverb, verb, *_english_rest(clause, is_open=negated)]
    return Phrase(" ".join(english_words), " ".join(_french_words(clause)))


def _english_verb(clause: Clause, is_open: bool) -> tuple[str, str]:
    """Auxiliary and what follows it; a statement that denies nothing may do without an auxiliary."""
    verb, person, plural = clause.verb, clause.subject.person, clause.subject.plural
    be = english.be(person, plural)
    if clause.modal is not None and clause.modal.auxiliary:
        return clause.modal.auxiliary, f"{clause.modal.en} {verb.en}"
    if clause.modal is not None:
        verb = Verb(f"{clause.modal.en} {verb.en}", "")
    if clause.tense is Tense.PROGRESSIVE:
        return be, english.progressive(verb)
    if clause.tense is Tense.FUTURE:
        return be, f"going to {verb.en}"
    is_past = clause.tense is Tense.PAST
    form = english.past(verb, person, plural) if is_past else english.present(verb, person, plural)
    if verb.en.split()[0] == "be":
        auxiliary, _, rest = form.partition(" ")
        return auxiliary, rest
    if not is_open:
        return "", form
    support = "did" if is_past else english.present(Verb("do", ""), person, plural)
    return support, verb.en


def _denied(auxiliary: str) -> str:
    if auxiliary in ("am", "is", "are", "was", "were", "must"):
        return f"{auxiliary} not"
    return "can't" if auxiliary == "can" else f"{auxiliary}n't"


def _english_rest(clause: Clause, is_open: bool) -> list[str]:
    complement = clause.complement.en
    if is_open and clause.complement.en_open is not None:
        complement = clause.complement.en_open
    return ["" if clause.whom is None else _english_object(clause.whom), complement, clause.when.en]


def _english_object(whom: Pronoun | NounPhrase) -> str:
    return whom.en_object if isinstance(whom, Pronoun) else ("them" if whom.plural else "it")


def _french_words(clause: Clause) -> list[str]:
    finite, participle, infinitive = _french_verb(clause)
    clitic = _clitic(clause)
    before_finite = "" if infinitive else clitic
    before_infinitive = clitic if infinitive else ""
    complement = clause.complement.fr
    if clause.negation is not None:
        finite_group = ["ne", before_finite, finite, clause.negation.value]
        complement = clause.complement.fr_negated or complement
    else:
        finite_group = [before_finite, finite, clause.adverb.fr]
    rest = [participle, before_infinitive, infinitive, complement, clause.when.fr]
    return [clause.subject.fr, *finite_group, *rest]


def _french_verb(clause: Clause) -> tuple[str, str, str]:
    """Finite form, past participle, infinitive; one of the last two at most, else empty."""
    person, plural = clause.subject.person, clause.subject.plural
    if clause.modal is not None:
        return french.present(clause.modal.verb, person, plural), "", clause.verb.fr
    if clause.tense is Tense.FUTURE:
        return french.present(GO, person, plural), "", clause.verb.fr
    if clause.tense is Tense.PAST:
        auxiliary = BE if clause.verb.with_etre else HAVE
        return french.present(auxiliary, person, plural), _participle(clause), ""
    return french.present(clause.verb, person, plural), "", ""


def _participle(clause: Clause) -> str:
    """With être it agrees with the subject, with avoir only with a direct object that stands before it."""
    if clause.verb.with_etre:
        return french.participle(clause.verb, clause.subject.gender, clause.subject.plural)
    if clause.whom is not None and not clause.whom_indirect:
        return french.participle(clause.verb, clause.whom.gender, clause.whom.plural)
    return french.participle(clause.verb)


def _clitic(clause: Clause) -> str:
    whom = clause.whom
    if whom is None:
        return ""
    if isinstance(whom, Pronoun):
        return whom.indirect if clause.whom_indirect else whom.direct
    if whom.plural:
        return "les"
    return "le" if whom.gender == "m" else "la"

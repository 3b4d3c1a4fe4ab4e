"""What frames share: telling a clause as statement, negation or question, in a tense, at a time."""

from collections.abc import Sequence
from dataclasses import replace

from sample_grammar import english, french
from sample_grammar.choices import Dice, now
from sample_grammar.clauses import Clause, Negation, Pair, Tense, question, statement
from sample_grammar.entries import NOTHING, Phrase, Verb
from sample_grammar.phrases import NounPhrase
from sample_grammar.words import DAYS_AGO, FUTURE_TIMES, PAST_TIMES, RECENT_TIMES, SOON_TIMES


def tell(dice: Dice, clause: Clause, questions: float = 0.15, negations: float = 0.2) -> Pair:
    """The clause as a question or a negation with these probabilities, else as it is.

    No speaker asks about himself, denies a number, or says what he did not do a number of days ago.
    """
    if clause.subject.person != 1 and dice.chance(questions):
        return question(clause)
    counted = isinstance(clause.complement, NounPhrase) and clause.complement.is_counted
    if not counted and clause.when not in DAYS_AGO and dice.chance(negations):
        return statement(replace(clause, negation=Negation.NOT))
    return statement(clause)


def some_tense(dice: Dice, verb: Verb) -> Tense:
    """Present, past or future; but "va chercher" would be understood as "is going to fetch"."""
    future: tuple[Tense, ...] = () if verb.fr == "chercher" else (Tense.FUTURE,)
    return dice.one((now(verb), Tense.PAST, Tense.PAST, *future))


def some_time(dice: Dice, tense: Tense, probability: float = 0.3, near: bool = True) -> Phrase:
    """With this probability a time that suits the tense; near: some days away at most, as for an apple eaten."""
    past, future = (RECENT_TIMES, SOON_TIMES) if near else (PAST_TIMES, FUTURE_TIMES)
    times: dict[Tense, Sequence[Phrase]] = {Tense.PAST: past, Tense.FUTURE: future}
    return dice.one(times[tense]) if tense in times and dice.chance(probability) else NOTHING


def written(en: str, fr: str, mark: str = ".") -> Pair:
    """Words of both languages as a sentence."""
    return english.sentence(en, mark), french.sentence(fr, mark)

"""Track how much of its required phrases a hypothesis contains, and whether it contains a forbidden one."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from mtkit.search.phrases import EDGE, Form, Matcher, Phrase, Requirement, Spelling, edges, joins
from mtkit.text.sentences import FINAL

_BEFORE_CAPITAL = FINAL + ":"
_LEAST_ATTENTION = 0.01
_LOOKING = 0.02  # share of the attention; a word that the model is about to translate gets far more


@dataclass(frozen=True)
class Constraints:
    """The requirements on one translation. They can be keys: those with equal phrases and one spelling are equal."""

    spelling: Spelling
    required: tuple[Requirement, ...] = ()
    forbidden: tuple[Phrase, ...] = ()
    # The translation without constraints. With it, a search also returns translations that meet some requirements only,
    # after those that meet all.
    draft: tuple[int, ...] | None = None

    @cached_property
    def n_tokens(self) -> int:
        """The least number of tokens of the required phrases."""
        return sum(requirement.times * requirement.n_tokens for requirement in self.required)

    @cached_property
    def blocker(self) -> Matcher:
        """The matcher of the forbidden phrases."""
        return Matcher([phrase.text for phrase in self.forbidden])

    @cached_property
    def matcher(self) -> Matcher:
        """The matcher of all required phrases: where it finds none, no requirement has to be looked at."""
        return Matcher([phrase.text for requirement in self.required for phrase in requirement.phrases])

    def are_met(self, ids: Sequence[int]) -> bool:
        """Whether a translation of these tokens meets all requirements and contains no forbidden phrase."""
        met = self.which_met(ids)
        return met is not None and all(met)

    def which_met(self, ids: Sequence[int]) -> tuple[bool, ...] | None:
        """Return whether a translation of these tokens meets each requirement; None if it has a forbidden phrase."""
        state: ConstraintState | None = self.start()
        for token_id in ids:
            state = state and state.advance(token_id)
        return state.which_met if state and state.is_clean else None

    def start(self) -> "ConstraintState":
        """Return the state of a hypothesis without tokens."""
        none = (0,) * len(self.required)
        return ConstraintState(self, "", b"", none, none, none, (), ((),) * len(none), 0.0)


@dataclass(frozen=True)
class _Cost:
    """The cost of written phrases, in nats; both are at most 0."""

    log_prob: float = 0.0  # the model's, of their tokens
    placement: float = 0.0  # logs of the attention to the source term, and of a new word, where the phrase begins


def _log_attention(share: float) -> float:
    return math.log(max(_LEAST_ATTENTION, min(1.0, share)))


@dataclass(frozen=True)
class _Attempt:
    """A partly written required phrase."""

    requirement: int  # its index
    form: Form
    n_written: int  # tokens of the form
    cost: _Cost

    @property
    def n_left(self) -> int:
        return len(self.form.ids) - self.n_written


@dataclass(frozen=True)
class ConstraintState:
    """The text of one hypothesis, and which constraints it meets."""

    constraints: Constraints
    _text: str  # marked; the mark after its last character comes with the next one
    _pending: bytes  # of a character that byte tokens have begun
    _confirmed: tuple[int, ...]  # for each requirement: how often it is met, whatever follows
    _ends: tuple[int, ...]  # for each requirement: the end of its last counted occurrence
    _met: tuple[int, ...]  # for each requirement: how often it is met if the text ends here
    _attempts: tuple[_Attempt, ...]
    _costs: tuple[tuple[_Cost, ...], ...]  # for each requirement: of each time that it is met
    _retranslated: float  # log of the attention that other tokens left to the rest of the source

    def advance(
        self,
        token_id: int,
        log_prob: float = 0.0,
        attention: Sequence[float] = (),
        new_word: tuple[float, float] = (0.0, 0.0),
    ) -> "ConstraintState | None":
        """Return the state with one more token (not EOS); None if that completes a forbidden phrase.

        log_prob: the token's, by the model. attention: to each source token, while the token was predicted.
        new_word: the log-probabilities that any word began here after a space, or without one.
        """
        constraints = self.constraints
        if not constraints.required and not constraints.forbidden:
            return self
        text, pending = constraints.spelling.extend(self._text, token_id, self._pending)
        confirmed, starts = self._confirmed, self._ends
        for end in edges(text, len(self._text)):
            if constraints.blocker.ends_at(text, end):
                return None
            if constraints.matcher.ends_at(text, end):
                met = self._met_at(text, end, confirmed, starts)
                # The mark itself may begin the next occurrence.
                starts = tuple(end - 1 if m > n else s for m, n, s in zip(met, confirmed, starts, strict=True))
                confirmed = met
        closed = text + EDGE
        if not joins(text[-1:]) and constraints.blocker.ends_at(closed, len(closed)):
            return None  # whatever follows
        met = confirmed
        if constraints.matcher.ends_at(closed, len(closed)):
            met = self._met_at(closed, len(closed), confirmed, starts)
        written = self._continued(token_id, log_prob, attention, new_word)
        return ConstraintState(
            constraints,
            text,
            pending,
            confirmed,
            starts,
            met,
            tuple(a for a in written if a.n_left and met[a.requirement] == self._met[a.requirement]),
            self._costs_of(met, [attempt for attempt in written if not attempt.n_left]),
            self._retranslated + self._retranslation(attention),
        )

    def _met_at(self, text: str, end: int, counts: Sequence[int], starts: Sequence[int]) -> tuple[int, ...]:
        """Return the counts of each requirement, with an occurrence that begins at its start or later and ends here."""
        return tuple(
            n + requirement.matcher.ends_at(text, end, start)
            for n, start, requirement in zip(counts, starts, self.constraints.required, strict=True)
        )

    def _continued(
        self, token_id: int, log_prob: float, attention: Sequence[float], new_word: tuple[float, float]
    ) -> list[_Attempt]:
        """Return the attempts that this token begins, continues or completes."""
        begun = [_Attempt(i, form, 0, _Cost()) for i, forms in self._beginnings for form in forms.get(token_id, ())]
        continued = [attempt for attempt in self._attempts if attempt.form.ids[attempt.n_written] == token_id]
        return [
            replace(
                attempt,
                n_written=attempt.n_written + 1,
                cost=_Cost(
                    attempt.cost.log_prob + log_prob,
                    attempt.cost.placement + self._placement(attempt, attention, new_word),
                ),
            )
            for attempt in (*continued, *begun)
        ]

    def _costs_of(self, met: Sequence[int], completed: Sequence[_Attempt]) -> tuple[tuple[_Cost, ...], ...]:
        """Return the costs of the requirements met so far; an occurrence that was no attempt costs nothing."""
        if met == self._met:
            return self._costs
        costs = []
        for index, times in enumerate(met):
            kept = self._costs[index][:times]
            own = [attempt for attempt in completed if attempt.requirement == index]
            cost = min(own, key=lambda attempt: attempt.n_written).cost if own else _Cost()
            costs.append((*kept, *[cost] * (times - len(kept))))
        return tuple(costs)

    def _placement(self, attempt: _Attempt, attention: Sequence[float], new_word: tuple[float, float]) -> float:
        """Return the cost of beginning a phrase here."""
        positions = self.constraints.required[attempt.requirement].src_positions
        if attempt.n_written or not positions or not attention:
            return 0.0
        looking = _log_attention(sum(attention[position] for position in positions))
        return looking + new_word[not attempt.form.spaced]

    def _retranslation(self, attention: Sequence[float]) -> float:
        """Return the cost of attention to source terms whose phrases are all written."""
        if not self._translated or not attention:
            return 0.0
        return _log_attention(1 - sum(attention[position] for position in self._translated))

    @cached_property
    def _translated(self) -> set[int]:
        """The source tokens whose phrases are all written."""
        return {
            position
            for index, requirement in enumerate(self.constraints.required)
            if self._is_met(index)
            for position in requirement.src_positions
        }

    @cached_property
    def _beginnings(self) -> list[tuple[int, Mapping[int, Sequence[Form]]]]:
        """The index of each requirement that is not met, with its forms that can begin here by first token."""
        after_word = joins(self._text[-1:])
        opening = self._text.rstrip(" " + EDGE)[-1:] in _BEFORE_CAPITAL  # also where there is no text yet
        return [
            (index, requirement.beginning(after_word=after_word, opening=opening))
            for index, requirement in enumerate(self.constraints.required)
            if self._met[index] < requirement.times
            and self._met[index] == self._confirmed[index]  # or it would appear twice in a row
        ]

    def next_ids(self, attention: Sequence[float] = ()) -> tuple[set[int], set[int]]:
        """Return the tokens that would continue a missing required phrase, and those that would begin one.

        attention: to each source token, while the next token is predicted.
        """
        unmet = (attempt for attempt in self._attempts if not self._is_met(attempt.requirement))
        continuing = {attempt.form.ids[attempt.n_written] for attempt in unmet}
        return continuing, {
            token_id for index, forms in self._beginnings if self._looks_at(index, attention) for token_id in forms
        }

    def _looks_at(self, index: int, attention: Sequence[float]) -> bool:
        """Whether the model may be about to translate the source term of a requirement, or that is not known."""
        positions = self.constraints.required[index].src_positions
        return not positions or not attention or sum(attention[position] for position in positions) >= _LOOKING

    def _is_met(self, index: int) -> bool:
        return self._met[index] >= self.constraints.required[index].times

    @cached_property
    def n_met(self) -> int:
        """The number of the constraints' n_tokens that are written: all if is_done."""
        n_left = 0
        for index, requirement in enumerate(self.constraints.required):
            times = requirement.times - self._met[index]
            if times > 0:
                begun = [a.n_left for a in self._attempts if a.requirement == index]
                n_left += (times - 1) * requirement.n_tokens + min([requirement.n_tokens, *begun])
        return self.constraints.n_tokens - n_left

    @property
    def phrases_log_prob(self) -> float:
        """The log-probability of the tokens of the phrases that are met."""
        return sum(cost.log_prob for costs in self._costs for cost in costs)

    @property
    def placement(self) -> float:
        """The cost of the places of the phrases: nats, at most 0; lower is worse.

        The model looks at the words that it is about to translate. So a phrase costs the log of the attention to its
        source term when it begins, and the log of the probability that any word begins there, instead of an end or the
        rest of a word. Each token after it costs the log of the attention to the rest of the source: the term is not
        translated a second time.
        """
        begun: dict[int, float] = {}
        for attempt in self._attempts:
            begun[attempt.requirement] = max(attempt.cost.placement, begun.get(attempt.requirement, -math.inf))
        met = sum(cost.placement for costs in self._costs for cost in costs)
        return sum(begun.values()) + met + self._retranslated

    @property
    def which_met(self) -> tuple[bool, ...]:
        """Whether the text meets each requirement if it ends here."""
        return tuple(map(self._is_met, range(len(self._met))))

    @property
    def n_requirements_met(self) -> int:
        """The number of requirements that the text meets if it ends here."""
        return sum(self.which_met)

    @property
    def is_done(self) -> bool:
        """Whether the text meets all requirements if it ends here."""
        return self.n_requirements_met == len(self._met)

    @cached_property
    def is_clean(self) -> bool:
        """Whether the text contains no forbidden phrase if it ends here."""
        closed = self._text + EDGE
        return not self.constraints.blocker.ends_at(closed, len(closed))

    @property
    def may_end(self) -> bool:
        """Whether EOS may follow."""
        return self.is_done and self.is_clean

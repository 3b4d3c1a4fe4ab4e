"""Track how much of its required phrases a hypothesis contains, and whether it contains a forbidden one."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from mtkit.search.phrases import EDGE, Form, Matcher, Phrase, Requirement, Spelling, edges, joins, last_chunk
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
    # The least log-probability of the words around the phrases (`Hypothesis.rest_log_prob`) that is of use.
    least_rest: float = -math.inf

    @cached_property
    def n_tokens(self) -> int:
        """The least number of tokens of the required phrases."""
        return sum(requirement.times * requirement.n_tokens for requirement in self.required)

    @cached_property
    def blocker(self) -> Matcher:
        """The matcher of the forbidden phrases."""
        return Matcher([phrase.text for phrase in self.forbidden])

    @cached_property
    def by_last_chunk(self) -> dict[str, list[int]]:
        """The indices of the requirements to look at where a chunk ends; none where only a forbidden phrase may end."""
        indices: dict[str, list[int]] = {chunk: [] for chunk in self.blocker.last_chunks}
        for index, requirement in enumerate(self.required):
            for chunk in requirement.matcher.last_chunks:
                indices.setdefault(chunk, []).append(index)
        return indices

    @cached_property
    def beginnings(self) -> "dict[tuple[bool, bool, tuple[bool, ...]], _Beginnings]":
        """The forms that can begin in a place, as far as they are known; see `Progress.beginnings`."""
        return {}

    def counts(self, ids: Sequence[int]) -> tuple[int, ...] | None:
        """Return how often a translation of these tokens meets each requirement; None if it has a forbidden phrase."""
        text = self.spelling.marked(ids)
        ends = [end for end in edges(text, 0) if last_chunk(text, end) in self.by_last_chunk]
        if self.blocker.count_at(text, ends):
            return None
        return tuple(requirement.matcher.count_at(text, ends) for requirement in self.required)

    def are_met(self, ids: Sequence[int]) -> bool:
        """Whether a translation of these tokens meets all requirements and contains no forbidden phrase."""
        met = self.which_met(ids)
        return met is not None and all(met)

    def which_met(self, ids: Sequence[int]) -> tuple[bool, ...] | None:
        """Return whether a translation of these tokens meets each requirement; None if it has a forbidden phrase."""
        counts = self.counts(ids)
        if counts is None:
            return None
        return tuple(n >= requirement.times for n, requirement in zip(counts, self.required, strict=True))

    def start(self) -> "ConstraintState":
        """Return the state of a hypothesis without tokens."""
        none = (0,) * len(self.required)
        return ConstraintState(Progress(self, none, none, none, ((),) * len(none)), "", b"", (), 0.0)


class _Cost(NamedTuple):
    """The cost of written phrases, in nats; both are at most 0."""

    log_prob: float = 0.0  # the model's, of their tokens
    placement: float = 0.0  # logs of the attention to the source term, and of a new word, where the phrase begins


def _log_attention(share: float) -> float:
    return math.log(max(_LEAST_ATTENTION, min(1.0, share)))


class _Attempt(NamedTuple):
    """A partly written required phrase."""

    requirement: int  # its index
    form: Form
    n_written: int  # tokens of the form
    cost: _Cost

    @property
    def n_left(self) -> int:
        return len(self.form.ids) - self.n_written


class _Beginnings(NamedTuple):
    """The forms of the requirements that are not met which can begin in a place."""

    by_requirement: list[tuple[int, Mapping[int, Sequence[Form]]]]  # its index, and its forms by first token
    by_token: dict[int, list[tuple[int, Form]]]


@dataclass(frozen=True, eq=False)
class Progress:
    """How often a text meets each requirement. Hypotheses share it until one of them completes or loses a phrase."""

    constraints: Constraints
    confirmed: tuple[int, ...]  # for each requirement: how often it is met, whatever follows
    ends: tuple[int, ...]  # for each requirement: the end of its last counted occurrence
    met: tuple[int, ...]  # for each requirement: how often it is met if the text ends here
    costs: tuple[tuple[_Cost, ...], ...]  # for each requirement: of each time that it is met

    def met_at(self, text: str, end: int) -> tuple[int, ...]:
        """Return how often each requirement is met, with a new occurrence that ends here after the last counted one."""
        required = self.constraints.required
        indices = self.constraints.by_last_chunk.get(last_chunk(text, end), ())
        new = [index for index in indices if required[index].matcher.ends_at(text, end, self.ends[index])]
        return tuple([n + (index in new) for index, n in enumerate(self.confirmed)]) if new else self.confirmed

    def confirm(self, text: str, end: int) -> "Progress":
        """Return the progress with the occurrences that end here, after an edge mark."""
        met = self.met_at(text, end)
        if met is self.confirmed:
            return self
        # The mark itself may begin the next occurrence.
        ends = tuple([end - 1 if m > n else s for m, n, s in zip(met, self.confirmed, self.ends, strict=True)])
        return Progress(self.constraints, met, ends, self.met, self.costs)

    def complete(self, met: tuple[int, ...], completed: Sequence[_Attempt]) -> "Progress":
        """Return the progress with these counts; an occurrence that was no attempt costs nothing."""
        costs = list(self.costs)
        for index, times in enumerate(met):
            if times != self.met[index]:
                own = [attempt for attempt in completed if attempt.requirement == index]
                cost = min(own, key=lambda attempt: attempt.n_written).cost if own else _Cost()
                costs[index] = (*costs[index][:times], *[cost] * (times - len(costs[index])))
        return Progress(self.constraints, self.confirmed, self.ends, met, tuple(costs))

    def is_met(self, index: int) -> bool:
        """Whether the text meets a requirement if it ends here."""
        return self.met[index] >= self.constraints.required[index].times

    @cached_property
    def which_met(self) -> tuple[bool, ...]:
        """Whether the text meets each requirement if it ends here."""
        return tuple(map(self.is_met, range(len(self.met))))

    @cached_property
    def n_requirements_met(self) -> int:
        """The number of requirements that the text meets if it ends here."""
        return sum(self.which_met)

    @cached_property
    def n_met(self) -> int:
        """The number of the constraints' n_tokens that are written, without those of attempts."""
        required = self.constraints.required
        return sum(min(n, r.times) * r.n_tokens for n, r in zip(self.met, required, strict=True))

    @cached_property
    def cost(self) -> _Cost:
        """The cost of all phrases that are met."""
        costs = [cost for times in self.costs for cost in times]
        return _Cost(sum(cost.log_prob for cost in costs), sum(cost.placement for cost in costs))

    @cached_property
    def translated(self) -> tuple[int, ...]:
        """The source tokens whose phrases are all written."""
        required = self.constraints.required
        positions = {position for i, r in enumerate(required) if self.which_met[i] for position in r.src_positions}
        return tuple(sorted(positions))

    @cached_property
    def _may_begin(self) -> tuple[bool, ...]:
        """Whether each requirement is not met. Nor may it just end here: it would appear twice in a row."""
        required = self.constraints.required
        triples = zip(self.met, self.confirmed, required, strict=True)
        return tuple([n < requirement.times and n == confirmed for n, confirmed, requirement in triples])

    def beginnings(self, *, after_word: bool, opening: bool) -> _Beginnings:
        """Return the forms that can begin in a place; see `Requirement.beginning`."""
        place, known = (after_word, opening, self._may_begin), self.constraints.beginnings
        if place not in known:
            by_requirement = [
                (index, requirement.beginning(after_word=after_word, opening=opening))
                for index, requirement in enumerate(self.constraints.required)
                if self._may_begin[index]
            ]
            by_token: dict[int, list[tuple[int, Form]]] = {}
            for index, forms in by_requirement:
                for token_id, own in forms.items():
                    by_token.setdefault(token_id, []).extend((index, form) for form in own)
            known[place] = _Beginnings(by_requirement, by_token)
        return known[place]


class ConstraintState:
    """The text of one hypothesis, and which constraints it meets."""

    __slots__ = ("_attempts", "_beginnings", "_pending", "_retranslated", "_text", "is_clean", "progress")

    def __init__(
        self, progress: Progress, text: str, pending: bytes, attempts: tuple[_Attempt, ...], retranslated: float
    ) -> None:
        self.progress = progress
        self._text = text  # marked; the mark after its last character comes with the next one
        self._pending = pending  # of a character that byte tokens have begun
        self._attempts = attempts
        self._retranslated = retranslated  # log of the attention that other tokens left to the rest of the source
        self._beginnings: _Beginnings | None = None
        closed = text + EDGE
        # Whether the text contains no forbidden phrase if it ends here.
        self.is_clean = not progress.constraints.blocker.ends_at(closed, len(closed))

    @property
    def constraints(self) -> Constraints:
        """What the hypothesis should meet."""
        return self.progress.constraints

    def advance(
        self,
        token_id: int,
        log_prob: float = 0.0,
        attention: Sequence[float] = (),
        new_word: Callable[[bool], float] = lambda spaced: 0.0,
    ) -> "ConstraintState | None":
        """Return the state with one more token (not EOS); None if that completes a forbidden phrase.

        log_prob: the token's, by the model. attention: to each source token, while the token was predicted.
        new_word: the log-probability that any word began here, given whether after a space.
        """
        before = self.progress
        constraints = before.constraints
        if not constraints.required and not constraints.forbidden:
            return self
        text, pending = constraints.spelling.extend(self._text, token_id, self._pending)
        after = before
        for end in edges(text, len(self._text)):
            if last_chunk(text, end) in constraints.by_last_chunk:
                if constraints.blocker.ends_at(text, end):
                    return None
                after = after.confirm(text, end)
        met = after.met_at(text + EDGE, len(text) + 1)
        written = self._continued(token_id, log_prob, attention, new_word)
        if met != before.met:
            after = after.complete(met, [attempt for attempt in written if not attempt.n_left])
        attempts = [a for a in written if a.n_left and met[a.requirement] == before.met[a.requirement]]
        state = ConstraintState(
            after, text, pending, tuple(attempts), self._retranslated + self._retranslation(attention)
        )
        return None if not state.is_clean and not joins(text[-1:]) else state  # None: whatever follows

    def _continued(
        self, token_id: int, log_prob: float, attention: Sequence[float], new_word: Callable[[bool], float]
    ) -> list[_Attempt]:
        """Return the attempts that this token begins, continues or completes."""
        written = [
            _Attempt(index, form, n_written + 1, _Cost(cost.log_prob + log_prob, cost.placement))
            for index, form, n_written, cost in self._attempts
            if form.ids[n_written] == token_id
        ]
        for index, form in self._may_begin().by_token.get(token_id, ()):
            placement = self._placement(index, form, attention, new_word)
            written.append(_Attempt(index, form, 1, _Cost(log_prob, placement)))
        return written

    def _placement(
        self, index: int, form: Form, attention: Sequence[float], new_word: Callable[[bool], float]
    ) -> float:
        """Return the cost of beginning a phrase here."""
        positions = self.constraints.required[index].src_positions
        if not positions or not attention:
            return 0.0
        return _log_attention(sum([attention[position] for position in positions])) + new_word(form.spaced)

    def _retranslation(self, attention: Sequence[float]) -> float:
        """Return the cost of attention to source terms whose phrases are all written."""
        translated = self.progress.translated
        if not translated or not attention:
            return 0.0
        return _log_attention(1 - sum([attention[position] for position in translated]))

    def _may_begin(self) -> _Beginnings:
        """Return the forms that the next token may begin."""
        if self._beginnings is None:
            opening = self._text.rstrip(" " + EDGE)[-1:] in _BEFORE_CAPITAL  # also where there is no text yet
            self._beginnings = self.progress.beginnings(after_word=joins(self._text[-1:]), opening=opening)
        return self._beginnings

    def next_ids(self, attention: Sequence[float] = ()) -> tuple[set[int], set[int]]:
        """Return the tokens that would continue a missing required phrase, and those that would begin one.

        attention: to each source token, while the next token is predicted.
        """
        which_met = self.progress.which_met
        continuing = {a.form.ids[a.n_written] for a in self._attempts if not which_met[a.requirement]}
        beginning: set[int] = set()
        for index, forms in self._may_begin().by_requirement:
            if self._looks_at(index, attention):
                beginning.update(forms)
        return continuing, beginning

    def _looks_at(self, index: int, attention: Sequence[float]) -> bool:
        """Whether the model may be about to translate the source term of a requirement, or that is not known."""
        positions = self.constraints.required[index].src_positions
        return not positions or not attention or sum([attention[position] for position in positions]) >= _LOOKING

    @property
    def n_met(self) -> int:
        """The number of the constraints' n_tokens that are written: all if is_done."""
        progress = self.progress
        if not self._attempts:
            return progress.n_met
        begun: dict[int, int] = {}  # for each requirement: the tokens that the longest attempt saves
        for attempt in self._attempts:
            index, requirement = attempt.requirement, progress.constraints.required[attempt.requirement]
            if progress.met[index] < requirement.times:
                begun[index] = max(begun.get(index, 0), requirement.n_tokens - attempt.n_left)
        return progress.n_met + sum(begun.values())

    @property
    def phrases_log_prob(self) -> float:
        """The log-probability of the tokens of the phrases that are met."""
        return self.progress.cost.log_prob

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
        return sum(begun.values()) + self.progress.cost.placement + self._retranslated

    @property
    def not_of_rest(self) -> float:
        """The most that `rest_log_prob` can leave out of the log-probability so far, whatever follows: at most 0."""
        begun: dict[int, float] = {}
        for attempt in self._attempts:
            begun[attempt.requirement] = min(attempt.cost.log_prob, begun.get(attempt.requirement, 0.0))
        cost = self.progress.cost
        return sum(begun.values()) + cost.log_prob - cost.placement - self._retranslated

    @property
    def which_met(self) -> tuple[bool, ...]:
        """Whether the text meets each requirement if it ends here."""
        return self.progress.which_met

    @property
    def n_requirements_met(self) -> int:
        """The number of requirements that the text meets if it ends here."""
        return self.progress.n_requirements_met

    @property
    def is_done(self) -> bool:
        """Whether the text meets all requirements if it ends here."""
        return self.progress.n_requirements_met == len(self.progress.met)

    @property
    def may_end(self) -> bool:
        """Whether EOS may follow."""
        return self.is_done and self.is_clean

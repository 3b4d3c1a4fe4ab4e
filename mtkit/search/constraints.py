"""Track how much of its required phrases a hypothesis contains, and whether it contains a forbidden one.

A phrase is matched in the text that the tokens spell, whatever the pieces. It matches whole words: "orange" is not in
"oranges", but it is in "l'orange". A phrase without capitals matches in any case, one with capitals as it is written
(with a capital as its first letter, too: it may open a sentence).
"""

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from mtkit.text.sentences import FINAL
from mtkit.text.words import UNSPACED
from mtkit.tokens.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from mtkit.tokens.tokenizer import SPACE, Tokenizer

# Marked text has this before and after each word, and around every other character. A phrase, marked in the same way,
# is in the text as whole words exactly if it is a substring.
_EDGE = "\0"
# Scripts without spaces between words, Tibetan, and Korean, which adds particles without one: any part may match.
_MATCHES_ANYWHERE = re.compile(f"[{UNSPACED}\u0f00-\u0fff\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7ff\uff66-\uffdc]")
_BEFORE_CAPITAL = FINAL + ":"
_LEAST_ATTENTION = 0.01
_LOOKING = 0.02  # share of the attention; a word that the model is about to translate gets far more


@lru_cache(maxsize=1 << 16)
def joins(char: str) -> bool:
    """Whether the character is part of a word: a letter, digit or accent of a script with spaces between words."""
    return bool(char) and (char.isalnum() or unicodedata.category(char)[0] == "M") and not _MATCHES_ANYWHERE.match(char)


def with_edges(text: str, before: str = "") -> str:
    """Return the text with an edge mark between neighbouring characters of different words, and one space for several.

    before: the character before the text.
    """
    parts = []
    for char in text:
        if char != " " or before not in ("", " "):
            parts.append(char if joins(before) and joins(char) else _EDGE + char)
            before = char
    return "".join(parts)


def chunks(text: str) -> list[str]:
    """Return the words of the text, and the single characters between them, spaces included."""
    return with_edges(text).split(_EDGE)[1:]


def folded(text: str) -> str:
    """Return the text in lower case, character by character, so that its length stays."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def any_case(phrase: str) -> bool:
    """Whether the phrase matches in any case: if it has no capitals."""
    return folded(phrase) == phrase


def capitalised(phrase: str) -> str:
    """Return the phrase as it would open a sentence."""
    return phrase[:1].upper() + phrase[1:]


class Matcher:
    """A finder of several phrases in marked text."""

    def __init__(self, phrases: Sequence[str]) -> None:
        """phrases: as plain text."""
        written = [form for phrase in phrases if not any_case(phrase) for form in (phrase, capitalised(phrase))]
        self._as_written = tuple(with_edges(phrase) + _EDGE for phrase in written)
        self._any_case = tuple(with_edges(phrase) + _EDGE for phrase in phrases if any_case(phrase))
        self._longest = max(map(len, self._any_case), default=0)

    def ends_at(self, text: str, end: int, start: int = 0) -> bool:
        """Whether a phrase that begins at start or later ends just before end, which is just after an edge mark."""
        if text.endswith(self._as_written, start, end):
            return True
        return bool(self._longest) and folded(text[max(start, end - self._longest) : end]).endswith(self._any_case)

    def count(self, text: str) -> int:
        """Count the phrases in plain text, without overlap; the one that ends first counts."""
        text = with_edges(text) + _EDGE
        n, start = 0, 0
        for end in _edges(text, 0):
            if self.ends_at(text, end, start):
                n, start = n + 1, end - 1
        return n


def _edges(text: str, start: int) -> list[int]:
    """Return the positions just after each edge mark from start on."""
    return [position + 1 for position in range(start, len(text)) if text[position] == _EDGE]


class Spelling:
    """The text that each token of a vocabulary adds."""

    def __init__(self, texts: Sequence[str], byte_values: Mapping[int, int] | None = None) -> None:
        """texts: one for each token id; byte_values: the bytes of byte tokens, by id."""
        self._texts = texts
        self._byte_values = byte_values or {}

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer) -> "Spelling":
        """Return the spelling of the tokens of a SentencePiece model."""
        texts = [piece.replace(SPACE, " ") for piece in tokenizer.pieces(range(tokenizer.vocab_size))]
        for token_id, text in {PAD_ID: "", BOS_ID: "", EOS_ID: "", UNK_ID: " \u2047 "}.items():
            texts[token_id] = text  # as SentencePiece decodes them
        return cls(texts, {token_id: int(texts[token_id][1:-1], 16) for token_id in tokenizer.byte_ids()})

    @cached_property
    def word_beginnings(self) -> tuple[list[int], list[int]]:
        """The tokens that begin with a space, and those that begin with a letter without one."""
        spaced = [token_id for token_id, text in enumerate(self._texts) if text.startswith(" ")]
        return spaced, [token_id for token_id, text in enumerate(self._texts) if joins(text[:1])]

    def text(self, ids: Sequence[int]) -> str:
        """Return the text that the tokens spell, with unchanged spaces."""
        values = self._byte_values
        spelled = (bytes([values[i]]) if i in values else self._texts[i].encode("utf-8") for i in ids)
        return b"".join(spelled).decode("utf-8", "replace")

    def extend(self, text: str, token_id: int, pending: bytes = b"") -> tuple[str, bytes]:
        """Extend marked text, and the pending bytes of an unfinished character, by a token; return both."""
        value = self._byte_values.get(token_id)
        if value is not None:
            pending += bytes([value])
            try:
                return text + with_edges(pending.decode("utf-8"), text[-1:]), b""
            except UnicodeDecodeError as error:
                if error.reason == "unexpected end of data":
                    return text, pending
                return text + with_edges(pending.decode("utf-8", "replace"), text[-1:]), b""
        if pending:
            text += with_edges(pending.decode("utf-8", "replace"), text[-1:])
        return text + with_edges(self._texts[token_id], text[-1:]), b""


@dataclass(frozen=True)
class Form:
    """A way to write a phrase in tokens, which the search tries."""

    ids: tuple[int, ...]
    spaced: bool = True  # it begins with a space; if not, it can only follow a character outside a word: l'|orange
    opens: bool = False  # its first letter is a capital only to open a sentence


@dataclass(frozen=True)
class Phrase:
    """A required or forbidden text."""

    text: str
    forms: tuple[Form, ...] = ()  # at least one for a required phrase

    @classmethod
    def from_text(cls, text: str, tokenizer: Tokenizer, spelling: Spelling) -> "Phrase":
        """Make the phrase with the forms that the tokenizer gives it within a sentence. text: normalised."""
        forms = []
        for written in dict.fromkeys((text, capitalised(text))):
            opens = written != text
            forms.append(Form(tuple(tokenizer.encode(written)), opens=opens))
            bracketed = tokenizer.encode("(" + written)  # its pieces without a space before it
            for n in range(1, len(bracketed)):
                if spelling.text(bracketed[:n]).strip() == "(":
                    forms.append(Form(tuple(bracketed[n:]), spaced=False, opens=opens))
        return cls(text, tuple(dict.fromkeys(forms)))


@dataclass(frozen=True)
class Requirement:
    """Alternative phrases that must appear, in sum, at least `times` times; overlapping ones count once."""

    phrases: tuple[Phrase, ...]
    times: int = 1
    src_positions: tuple[int, ...] = ()  # the source tokens that the phrases translate, from 0; empty: unknown

    @cached_property
    def matcher(self) -> Matcher:
        """The matcher of the phrases."""
        return Matcher([phrase.text for phrase in self.phrases])

    @cached_property
    def forms(self) -> tuple[Form, ...]:
        """The forms of all the phrases."""
        return tuple(form for phrase in self.phrases for form in phrase.forms)

    @cached_property
    def _by_place(self) -> dict[tuple[bool, bool], dict[int, list[Form]]]:
        return {}

    def beginning(self, *, after_word: bool, opening: bool) -> Mapping[int, Sequence[Form]]:
        """Return the forms that can begin in a place, by their first token.

        after_word: after a character that is part of a word. opening: where a sentence may begin.
        """
        place = after_word, opening
        if place not in self._by_place:
            by_first: dict[int, list[Form]] = {}
            for form in self.forms:
                if (form.spaced or not after_word) and (opening or not form.opens):
                    by_first.setdefault(form.ids[0], []).append(form)
            self._by_place[place] = by_first
        return self._by_place[place]

    @cached_property
    def n_tokens(self) -> int:
        """The least number of tokens for one occurrence."""
        return min(len(form.ids) for form in self.forms)


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
        for end in _edges(text, len(self._text)):
            if constraints.blocker.ends_at(text, end):
                return None
            if constraints.matcher.ends_at(text, end):
                met = self._met_at(text, end, confirmed, starts)
                # The mark itself may begin the next occurrence.
                starts = tuple(end - 1 if m > n else s for m, n, s in zip(met, confirmed, starts, strict=True))
                confirmed = met
        closed = text + _EDGE
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
        opening = self._text.rstrip(" " + _EDGE)[-1:] in _BEFORE_CAPITAL  # also where there is no text yet
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
        closed = self._text + _EDGE
        return not self.constraints.blocker.ends_at(closed, len(closed))

    @property
    def may_end(self) -> bool:
        """Whether EOS may follow."""
        return self.is_done and self.is_clean

"""Put required phrases into a finished translation, in the places of the words that translate their source terms.

A model that does not know a phrase may find no place for it, or lose the thread after it. But it shows which words of
its own translation, the draft, translate the term: those that it chose while it looked at the term. Two passes over a
translation, with one hypothesis, are all that this takes, whatever the number of phrases.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from mtkit.search.constraints import Constraints
from mtkit.search.phrases import Form, Matcher, Requirement, folded, joins
from mtkit.search.step import DecodeStep

_ROOM = 6  # tokens, EOS counted, that a translation with phrases may be longer than the draft and the phrases
_LONGEST = 2  # times the draft

Attention = Sequence[Sequence[float]]  # of each token of a translation to each token of the source


def follow(
    step: DecodeStep, ids: Sequence[int], *, bos_id: int, eos_id: int, device: torch.device
) -> tuple[float, Attention]:
    """Return the log-probability of a translation, EOS included, and its attention to the source.

    step: of one sentence, with one hypothesis.
    """
    log_prob, attention = 0.0, []
    for last_id, next_id in zip([bos_id, *ids], [*ids, eos_id], strict=True):
        log_prob += float(step(torch.tensor([[last_id]], device=device))[0, 0, next_id])
        attention.append(step.attention()[0, 0].tolist())
    return log_prob, attention[:-1]


@dataclass(frozen=True)
class _Block:
    """Neighbouring words of the draft that translate one occurrence of a term."""

    requirement: int  # its index
    start: int  # tokens: from, up to
    end: int


@dataclass(frozen=True)
class Places:
    """The places of the required phrases in a draft."""

    constraints: Constraints
    draft_log_prob: float
    attention: Attention  # of the draft

    @property
    def _draft(self) -> tuple[int, ...]:
        return self.constraints.draft or ()

    @cached_property
    def _blocks(self) -> list[_Block]:
        """The words of the draft that translate each occurrence of a term.

        An occurrence has none if its place is not clear: if no word of the draft looks more at it than elsewhere, or
        if those that do are not neighbours.
        """
        blocks = []
        for index, requirement in enumerate(self.constraints.required):
            for run in _runs(requirement):
                places = [place for place, word in enumerate(self._words) if self._looks_at(run, word)]
                if places and places[-1] - places[0] + 1 == len(places):
                    blocks.append(_Block(index, self._words[places[0]][0], self._words[places[-1]][1]))
        return blocks

    @cached_property
    def _words(self) -> list[tuple[int, int]]:
        """The tokens of each word of the draft that has letters or digits: from, up to."""
        spelling, draft = self.constraints.spelling, self._draft
        starts = [0]
        for start in range(1, len(draft)):
            before, text = spelling.text(draft[:start])[-1:], spelling.text(draft[start : start + 1])
            if not (joins(before) and joins(text[:1])):
                starts.append(start)
        words = zip(starts, [*starts[1:], len(draft)], strict=True)
        return [(start, end) for start, end in words if any(map(joins, spelling.text(draft[start:end])))]

    def _looks_at(self, run: set[int], word: tuple[int, int]) -> bool:
        """Whether the model looked more at these source tokens than at any other one while it wrote a word."""
        totals = [sum(column) for column in zip(*self.attention[slice(*word)], strict=True)]
        others = (total for position, total in enumerate(totals) if position not in run)
        return bool(sum(totals[position] for position in run) > max(others, default=0.0))

    @property
    def most_tokens(self) -> int:
        """The most tokens of a translation with the phrases, EOS not counted: longer ones repeat themselves."""
        n_replaced = [0] * len(self.constraints.required)
        for block in self._blocks:
            n_replaced[block.requirement] += block.end - block.start
        needed = [requirement.times * requirement.n_tokens for requirement in self.constraints.required]
        return len(self._draft) + sum(max(0, n - less) for n, less in zip(needed, n_replaced, strict=True))

    @property
    def limit(self) -> int:
        """The most tokens that a search with the phrases may try, EOS counted.

        The words around a phrase may need more room than in the draft, where that leaves the work within bounds.
        """
        return max(self.most_tokens + 1, min(self.most_tokens + _ROOM, _LONGEST * len(self._draft)))

    def substituted(self) -> list[int] | None:
        """Return the draft with a phrase in each place of a requirement that it does not meet; None without places."""
        ids = list(self._draft)
        met = self.constraints.which_met(ids) or (False,) * len(self.constraints.required)
        end = len(ids)
        for block in sorted(self._blocks, key=lambda block: -block.start):
            form = None if met[block.requirement] or block.end > end else self._form(block)
            if form is not None:
                ids[block.start : block.end] = form.ids
                end = block.start
        return None if end == len(self._draft) else ids

    def _form(self, block: _Block) -> Form | None:
        """Return the first form of the requirement that fits into the place of the block."""
        requirement, spelling = self.constraints.required[block.requirement], self.constraints.spelling
        before, replaced = spelling.text(self._draft[: block.start]), self._text(block)
        if requirement.matcher.count(replaced):
            return None
        is_spaced = replaced.startswith(" ") or not before
        opens = not before.strip() and replaced.strip()[:1].isupper()
        fitting = [form for form in requirement.forms if form.spaced == is_spaced]
        return next((form for form in fitting if form.opens == opens), next(iter(fitting), None))

    def _text(self, block: _Block) -> str:
        return self.constraints.spelling.text(self._draft[block.start : block.end])

    def is_misplaced(self, ids: Sequence[int]) -> bool:
        """Whether a translation has a phrase too often, or besides the words of the draft that it should replace."""
        draft, text = self.constraints.spelling.text(self._draft), self.constraints.spelling.text(ids)
        required = self.constraints.required
        counts = [(r.matcher.count(draft), r.matcher.count(text)) for r in required]
        if any(after > max(before, r.times) for r, (before, after) in zip(required, counts, strict=True)):
            return True
        for block in self._blocks:
            before, after = counts[block.requirement]
            replaced = Matcher([folded(self._text(block).strip())])
            is_part = any(replaced.count(phrase.text) for phrase in required[block.requirement].phrases)
            if after > before and not is_part and replaced.count(text) >= replaced.count(draft):
                return True
        return False


def _runs(requirement: Requirement) -> list[set[int]]:
    """Return the source tokens of each occurrence of the term; nothing if two occurrences touch each other."""
    runs: list[set[int]] = []
    for position in requirement.src_positions:
        if runs and position - 1 in runs[-1]:
            runs[-1].add(position)
        else:
            runs.append({position})
    return runs if len(runs) == requirement.times else []

"""Put required phrases into finished translations, in the places of the words that translate their source terms.

A model that does not know a phrase may find no place for it, or lose the thread after it. But it shows which words of
its own translation, the draft, translate the term: those that it chose while it looked at the term. Two passes over a
translation, with one hypothesis, are all that this takes, whatever the number of phrases.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from mtkit.search.constraints import Constraints
from mtkit.search.hypothesis import Hypothesis
from mtkit.search.phrases import Form, Matcher, Requirement, folded, joins
from mtkit.search.step import DecodeStep

_ROOM = 6  # tokens, EOS counted, that a translation with phrases may be longer than the draft and the phrases
_LONGEST = 2  # times the draft
_UNKNOWN = -18.0  # log-probability of a phrase, on average, that the model does not know (chosen on dev sets)

Attention = Sequence[Sequence[float]]  # of each token of a translation to each token of the source


def follow(
    step: DecodeStep, translations: Sequence[Sequence[int]], *, bos_id: int, eos_id: int, device: torch.device
) -> list[tuple[float, Attention]]:
    """Return the log-probability of each translation, EOS included, and its attention to the source.

    step: of their sentences, with one hypothesis each.
    """
    log_probs = [0.0] * len(translations)
    attention: list[list[Sequence[float]]] = [[] for _ in translations]
    rows = list(range(len(translations)))
    for position in range(max(map(len, translations)) + 1):
        left = [place for place, row in enumerate(rows) if position <= len(translations[row])]
        if len(left) < len(rows):
            rows = [rows[place] for place in left]
            step.select(torch.tensor(left, device=device))
        last_ids = [[translations[row][position - 1] if position else bos_id] for row in rows]
        next_ids = [[[*translations[row][position : position + 1], eos_id][:1]] for row in rows]
        chosen = step(torch.tensor(last_ids, device=device)).gather(2, torch.tensor(next_ids, device=device))
        for row, log_prob, looked in zip(rows, chosen[:, 0, 0].tolist(), step.attention()[:, 0].tolist(), strict=True):
            log_probs[row] += log_prob
            attention[row].append(looked)
    return [(log_prob, looked[:-1]) for log_prob, looked in zip(log_probs, attention, strict=True)]


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
            before = spelling.text(draft[max(0, start - 4) : start])[-1:]  # a character has at most four byte tokens
            text = spelling.text(draft[start : start + 1])
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

    def is_misplaced(self, hypothesis: Hypothesis) -> bool:
        """Whether a translation has a phrase too often, or besides the words of the draft that it should replace.

        If the words around the phrases are likelier than the draft, those words translated something else.
        """
        required, after_all = self.constraints.required, self.constraints.counts(hypothesis.ids)
        if after_all is None:  # it has a forbidden phrase
            return True
        counts = list(zip(self._draft_counts, after_all, strict=True))
        if any(after > max(before, r.times) for r, (before, after) in zip(required, counts, strict=True)):
            return True
        if hypothesis.rest_log_prob is not None and hypothesis.rest_log_prob > self.draft_log_prob:
            return False
        text = self.constraints.spelling.text(hypothesis.ids)
        for block, (replaced, n_in_draft) in zip(self._blocks, self._replaced, strict=True):
            before, after = counts[block.requirement]
            is_part = any(replaced.count(phrase.text) for phrase in required[block.requirement].phrases)
            if after > before and not is_part and replaced.count(text) >= n_in_draft:
                return True
        return False

    @cached_property
    def _draft_counts(self) -> list[int]:
        """How often each requirement is met by the draft."""
        draft = self.constraints.spelling.text(self._draft)
        return [requirement.matcher.count(draft) for requirement in self.constraints.required]

    @cached_property
    def _replaced(self) -> list[tuple[Matcher, int]]:
        """The matcher of the words of each block, and how often the draft has them."""
        draft = self.constraints.spelling.text(self._draft)
        matchers = [Matcher([folded(self._text(block).strip())]) for block in self._blocks]
        return [(matcher, matcher.count(draft)) for matcher in matchers]

    def settles(self, substituted: Hypothesis | None) -> bool:
        """Whether a search can be left out: the draft takes all phrases, and the model knows too little of them.

        If they are longer than the draft, it need not take all: a model that writes mostly what it does not know loses
        the thread.
        """
        if substituted is None or not self._is_unknown(substituted):
            return False
        return self.constraints.n_tokens > len(self._draft) or self.constraints.are_met(substituted.ids)

    def ranked(self, hypotheses: Sequence[Hypothesis], substituted: Hypothesis | None) -> list[Hypothesis]:
        """Return those whose phrases are in their places, best first.

        substituted: the draft with the phrases in it. It is the best if the model does not know the phrases, because
        then the model cannot judge what may stand next to them. Otherwise the likeliest is.
        """
        placed = [hypothesis for hypothesis in hypotheses if not self.is_misplaced(hypothesis)]
        if substituted is not None:
            placed = [substituted, *placed]
            if self._is_unknown(substituted):
                return placed
        return sorted(placed, key=lambda hypothesis: (not hypothesis.finished, -hypothesis.log_prob))

    def _is_unknown(self, substituted: Hypothesis) -> bool:
        """Whether the phrases in the draft are so unlikely that the model does not know them."""
        n_met = sum(self.constraints.which_met(substituted.ids) or ())
        return substituted.log_prob - self.draft_log_prob < _UNKNOWN * max(1, n_met)


def _runs(requirement: Requirement) -> list[set[int]]:
    """Return the source tokens of each occurrence of the term; nothing if two occurrences touch each other."""
    runs: list[set[int]] = []
    for position in requirement.src_positions:
        if runs and position - 1 in runs[-1]:
            runs[-1].add(position)
        else:
            runs.append({position})
    return runs if len(runs) == requirement.times else []

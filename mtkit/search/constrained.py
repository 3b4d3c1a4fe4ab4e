"""Beam search with constraints: a step function in, hypotheses out that contain what they must, and nothing forbidden.

Dynamic beam allocation (Post and Vilar 2018): hypotheses that have written equally many tokens of the required phrases
form a bank, and the banks share the beam. So a hypothesis competes with those that have as much still to do, and not
with those that save themselves the trouble. Other than there, each bank is extended by its own best K tokens, not just
by the best one of each hypothesis.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from mtkit.search.constraints import Constraints, ConstraintState, Spelling
from mtkit.search.hypothesis import Hypothesis
from mtkit.search.rules import NO_RULES, Rules
from mtkit.search.step import DecodeStep, SearchConfig, SearchResult, check_number

# A forbidden word may be the beginning of another one ("or" of "ornement") where the model finds what follows this
# likely; otherwise the search would get past it by gluing any letters to it.
_LIKELY = math.log(0.1)
_WIDEST = 32  # hypotheses; beyond this the time spent grows and the scores do not
_UNCONSTRAINED = Constraints(Spelling([]))


def constrained_search(
    step: DecodeStep,
    max_lens: Tensor,
    cfg: SearchConfig,
    constraints: Sequence[Constraints | None],
    *,
    bos_id: int,
    eos_id: int,
    rules: Rules = NO_RULES,
) -> list[SearchResult]:
    """Up to n_best hypotheses per sentence, best score first; those that ended with EOS before those that did not.

    max_lens: (B,) int64, the most tokens of each sentence's hypotheses, EOS counted. constraints: one per sentence.

    Every hypothesis that ended meets its constraints. If the length limit comes before one does, those come back that
    meet most. None of either kind contains a forbidden phrase. No account is kept of the margin: it is 0, as if chance
    had decided, unless the sentence is alone.

    Coverage and groups are not known here, and `DecodeConfig` refuses them together with terminology.
    Raises MtkitError if log-probabilities are not numbers.
    """
    limits: list[int] = max_lens.tolist()
    beams = [
        _Beam(cfg, limit, (wanted or _UNCONSTRAINED).start(), bos_id, eos_id)
        for limit, wanted in zip(limits, constraints, strict=True)
    ]
    open_beams = beams
    while open_beams:
        ids = torch.tensor([beam.padded_ids() for beam in open_beams], device=max_lens.device)
        own = step(ids[:, :, -1])
        ruled = rules.apply(own, ids).cpu()  # each candidate is looked at by itself, which a GPU would be awaited for
        own = own.cpu()
        for row, beam in enumerate(open_beams):
            beam.extend(own[row], ruled[row])
        rows = [row for row, beam in enumerate(open_beams) if beam.live]
        if len(rows) < len(open_beams):
            open_beams = [open_beams[row] for row in rows]
            kept = torch.tensor(rows, dtype=torch.long, device=max_lens.device)
            step.select(kept)
            rules.select(kept)
        if open_beams:
            step.reorder(torch.tensor([beam.padded_parents() for beam in open_beams], device=max_lens.device))
    return [SearchResult(beam.best(), math.inf if len(beams) == 1 else 0.0) for beam in beams]


def beam_size_for(constraints: Sequence[Constraints | None], beam_size: int) -> int:
    """How wide to search where beam_size would be wide enough without constraints.

    As wide for every number of phrases done, since the banks share the beam. Scores on sentences whose terms the model
    would not have used by itself stop rising there; with beam_size alone phrases get squeezed in where they fit badly.
    """
    most = max((sum(r.times for r in wanted.required) for wanted in constraints if wanted), default=0)
    return max(beam_size, min(_WIDEST, max(beam_size, 4) * (1 + most)))


@dataclass(frozen=True)
class _Live:
    """A hypothesis that is being extended."""

    ids: tuple[int, ...]  # without BOS
    log_prob: float  # the model's own
    total: float  # as the rules see it: what is compared
    state: ConstraintState
    parent: int  # its row in the beam before

    @cached_property
    def is_safe(self) -> bool:
        """Whether it holds no forbidden phrase unless the next token makes another word of its end."""
        return self.state.is_clean


class _Beam:
    """The search for one sentence's translation."""

    def __init__(self, cfg: SearchConfig, max_len: int, start: ConstraintState, bos_id: int, eos_id: int) -> None:
        if max_len < 1:
            raise ValueError(f"max_lens must be at least 1, not {max_len}")
        self._cfg, self._max_len = cfg, max_len
        self._bos_id, self._eos_id = bos_id, eos_id
        self.live = [_Live((), 0.0, 0.0, start, 0)]
        self._finished: list[Hypothesis] = []
        self._unfinished: list[Hypothesis] = []

    def padded_ids(self) -> list[list[int]]:
        """Of each of the K rows the ids, BOS first; rows without a hypothesis repeat the first."""
        ids = [[self._bos_id, *hypothesis.ids] for hypothesis in self.live]
        return ids + ids[:1] * (self._cfg.beam_size - len(ids))

    def padded_parents(self) -> list[int]:
        """The row that each row continues."""
        parents = [hypothesis.parent for hypothesis in self.live]
        return parents + parents[:1] * (self._cfg.beam_size - len(parents))

    def extend(self, own: Tensor, ruled: Tensor) -> None:
        """Go on by one token; the search is over if that leaves no `live`.

        own, ruled: (K, V), log-probs of the token, the model's and as the rules see them.
        """
        beam_size = self._cfg.beam_size
        candidates = _Extensions(self.live, own, ruled, self._eos_id).candidates(beam_size)
        n_tokens = 1 + len(self.live[0].ids)
        for done in (candidate for candidate in candidates if candidate.ids[-1] == self._eos_id):
            score = done.total / self._cfg.divisor(n_tokens)
            self._finished.append(Hypothesis(list(done.ids[:-1]), done.log_prob, score, True))
        self._finished.sort(key=lambda hypothesis: -hypothesis.score)  # stable: of equal ones the earlier stays ahead
        going_on = _shared_out([one for one in candidates if one.ids[-1] != self._eos_id], beam_size)
        if n_tokens == self._max_len or not candidates:
            self._give_up(going_on if candidates else self.live)
            going_on = []
        self.live = [] if self._is_settled(going_on) else going_on

    def _give_up(self, live: list[_Live]) -> None:
        """Keep the hypotheses as they are, those first that meet most."""
        clean = [hypothesis for hypothesis in live if hypothesis.state.is_clean]
        for left in sorted(clean, key=lambda hypothesis: (-hypothesis.state.n_requirements_met, -hypothesis.total)):
            score = left.total / self._cfg.divisor(max(1, len(left.ids)))
            self._unfinished.append(Hypothesis(list(left.ids), left.log_prob, score, False))

    def _is_settled(self, live: list[_Live]) -> bool:
        """Whether no live hypothesis can enter the n best: a total only falls, and no divisor is above the last."""
        if len(self._finished) < self._cfg.n_best:
            return not live
        highest = max((hypothesis.total for hypothesis in live), default=-math.inf)
        return highest / self._cfg.divisor(self._max_len) <= self._finished[self._cfg.n_best - 1].score

    def best(self) -> list[Hypothesis]:
        """The n best. Where nothing else is allowed that is a hypothesis without tokens."""
        found = self._finished + self._unfinished
        return found[: self._cfg.n_best] or [Hypothesis([], 0.0, 0.0, False)]


@dataclass
class _Extensions:
    """All ways to go on from the live hypotheses by one token."""

    live: list[_Live]
    own: Tensor  # (K, V), log-probs of the next token
    ruled: Tensor  # (K, V), the same as the rules see them
    eos_id: int
    _total: Tensor = field(init=False)  # (n live, V); -inf: not allowed
    _found: dict[int, _Live | None] = field(init=False, default_factory=dict)  # by place in the flattened total

    def __post_init__(self) -> None:
        before = self.ruled.new_tensor([hypothesis.total for hypothesis in self.live])
        self._total = self.ruled[: len(self.live)] + before[:, None]
        check_number(float(self._total.max()))
        may_not_end = [row for row, hypothesis in enumerate(self.live) if not hypothesis.state.may_end]
        self._total[may_not_end, self.eos_id] = -math.inf
        for row, hypothesis in enumerate(self.live):
            if not hypothesis.state.is_clean:
                self._total[row].masked_fill_(self.own[row] < _LIKELY, -math.inf)

    def candidates(self, beam_size: int) -> list[_Live]:
        """The best K from each bank, and all that lead on to a required phrase; best first."""
        banks: dict[int, list[int]] = {}
        places: set[int] = set()
        for row, hypothesis in enumerate(self.live):
            banks.setdefault(hypothesis.state.n_met, []).append(row)
            places.update(row * self._total.size(1) + token_id for token_id in hypothesis.state.next_ids())
        for rows in banks.values():
            places.update(self._best_places(rows, beam_size))
        found = [extended for place in sorted(places) if (extended := self._at(place)) is not None]
        return sorted(found, key=lambda extended: -extended.total)  # stable: a tie goes to the lower place

    def _best_places(self, rows: list[int], n: int) -> list[int]:
        """The places of these rows with the largest totals: as many as it takes for n that are safe."""
        totals = self._total[rows].flatten()
        n_unsafe = 0
        while True:
            best = totals.topk(min(n + n_unsafe, totals.numel()))
            in_rows = [divmod(place, self._total.size(1)) for place in best.indices.tolist()]
            places = [rows[row] * self._total.size(1) + token_id for row, token_id in in_rows]
            safe = [place for place in places if (extended := self._at(place)) is not None and extended.is_safe]
            if len(safe) >= n or len(places) == totals.numel() or float(best.values[-1]) == -math.inf:
                return places
            n_unsafe = len(places) - len(safe)

    def _at(self, place: int) -> _Live | None:
        """The hypothesis at this place, None if it is not allowed."""
        if place not in self._found:
            row, token_id = divmod(place, self._total.size(1))
            self._found[place] = self._extended(row, token_id)
        return self._found[place]

    def _extended(self, row: int, token_id: int) -> _Live | None:
        total = float(self._total[row, token_id])
        if total == -math.inf:
            return None
        parent = self.live[row]
        state = parent.state if token_id == self.eos_id else parent.state.advance(token_id)
        if state is None:
            return None
        log_prob = parent.log_prob + float(self.own[row, token_id])
        return _Live((*parent.ids, token_id), log_prob, total, state, row)


def _shared_out(candidates: list[_Live], beam_size: int) -> list[_Live]:
    """K of the candidates, which come best first: the best of each bank, then the second best of each, and so on.

    So banks have equal shares, and what one cannot fill goes to the others. Within a round the bank that has written
    most comes first. Those that must still turn a forbidden word into another one are banks of their own, which come
    last: most of them have no future, and would take the places of others.
    """
    sizes: dict[tuple[bool, int], int] = {}
    ranked = []
    for hypothesis in candidates:
        bank = (not hypothesis.is_safe, -hypothesis.state.n_met)
        sizes[bank] = sizes.get(bank, 0) + 1
        ranked.append((sizes[bank], bank, hypothesis))
    ranked.sort(key=lambda item: item[:2])
    return [hypothesis for _, _, hypothesis in ranked[:beam_size]]

"""Beam search with constraints: hypotheses contain the required phrases and no forbidden one.

Dynamic beam allocation (Post and Vilar 2018): hypotheses with equally many tokens of the required phrases form a bank,
and the banks share the beam. So a hypothesis competes with those that have as many tokens left to write, and not with
those that skip the phrases. The beam has the same size for any number of phrases.

Two things keep the phrases in their places. A model that does not expect a phrase gives it about the same low
probability everywhere. So a hypothesis begins a phrase only while the model looks at the source term, and the less it
looks there, the lower the hypothesis is ranked (`placement`). And no translation may become so long that the phrase's
cost hardly counts: see `Places.limit`.
"""

import math
from collections.abc import Sequence
from operator import itemgetter

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mtkit.search.constraints import Constraints, ConstraintState
from mtkit.search.hypothesis import Hypothesis
from mtkit.search.phrases import Spelling
from mtkit.search.rules import NO_RULES, Rules
from mtkit.search.step import DecodeStep, SearchConfig, SearchResult, check_number
from mtkit.search.topk import top_k

# A forbidden word may begin another one ("or", "ornement") only if the model finds the next token this likely;
# otherwise the search would evade the ban by appending any letters.
_LIKELY = math.log(0.1)
_PLACEMENT_WEIGHT = 2.0
_LEAST_NEW_WORD = math.log(0.001)
_MOST_BEGUN = 64  # phrases that a hypothesis tries next, of a term with thousands of alternatives
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
    """Return up to n_best hypotheses per sentence, best score first; finished ones come before unfinished ones.

    max_lens: (B,) int64, the most tokens of each sentence's hypotheses, EOS counted. constraints: one per sentence.

    Every finished hypothesis meets its constraints. If none is finished at the length limit, return those that meet
    most. If the constraints ask for partial ones, they follow: the best finished hypothesis for each set of
    requirements that one meets, larger sets first. No hypothesis contains a forbidden phrase. The margin is not
    computed: it is infinite for a sentence on its own, else 0, as if the decision were within rounding error.

    Coverage and groups are not supported, and `DecodeConfig` refuses them together with terminology.
    Raises MtkitError if log-probabilities are not numbers.
    """
    limits: list[int] = max_lens.tolist()
    beams = [
        _Beam(cfg, limit, (required or _UNCONSTRAINED).start(), bos_id, eos_id)
        for limit, required in zip(limits, constraints, strict=True)
    ]
    open_beams = beams
    placed = any(r.src_positions for required in constraints if required for r in required.required)
    while open_beams:
        ids = torch.tensor([beam.padded_ids(all_ids=bool(rules.rules)) for beam in open_beams], device=max_lens.device)
        model_log_probs = step(ids[:, :, -1])
        adjusted_log_probs = rules.apply(model_log_probs, ids).cpu()  # we read values one by one: slow from a GPU
        attention = step.attention().tolist() if placed else [[()] * cfg.beam_size] * len(open_beams)
        for beam, extensions in zip(
            open_beams,
            _all_extensions([b.live for b in open_beams], model_log_probs.cpu(), adjusted_log_probs, attention, eos_id),
            strict=True,
        ):
            beam.extend(extensions)
        rows = [row for row, beam in enumerate(open_beams) if beam.live]
        if len(rows) < len(open_beams):
            open_beams = [open_beams[row] for row in rows]
            selected = torch.tensor(rows, dtype=torch.long, device=max_lens.device)
            step.select(selected)
            rules.select(selected)
        if open_beams:
            step.reorder(torch.tensor([beam.padded_parents() for beam in open_beams], device=max_lens.device))
    return [SearchResult(beam.best(), math.inf if len(beams) == 1 else 0.0) for beam in beams]


class _Live:
    """A live hypothesis."""

    __slots__ = ("ids", "log_prob", "parent", "placement", "rank", "state", "total")

    def __init__(
        self, ids: tuple[int, ...], log_prob: float, total: float, state: ConstraintState, parent: int
    ) -> None:
        self.ids = ids  # without BOS
        self.log_prob = log_prob  # the model's
        self.total = total  # as adjusted by the rules, for comparison
        self.state = state
        self.parent = parent  # the row of its parent in the beam before
        self.placement = state.placement
        # The total, less the cost of phrases that begin where the model looks elsewhere.
        self.rank = total + _PLACEMENT_WEIGHT * self.placement

    @property
    def rest_log_prob(self) -> float:
        """See `Hypothesis`."""
        return self.log_prob - self.state.phrases_log_prob + self.placement

    def is_of_use(self, *, ended: bool) -> bool:
        """Whether the words around the phrases are likely enough; unless it has ended, if nothing less likely follows.

        See `Constraints.least_rest`.
        """
        rest = self.rest_log_prob if ended else self.log_prob - self.state.not_of_rest
        return rest >= self.state.constraints.least_rest

    @property
    def is_safe(self) -> bool:
        """False if it ends with a forbidden phrase, unless the next token makes another word of it."""
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
        self._partial: dict[tuple[bool, ...], Hypothesis] = {}  # the best by which requirements they meet

    def padded_ids(self, *, all_ids: bool) -> list[list[int]]:
        """Return all ids of each of the K rows, BOS first, or the last; rows without a hypothesis repeat the first."""
        ids = [[self._bos_id, *hypothesis.ids] for hypothesis in self.live]
        ids = ids if all_ids else [row[-1:] for row in ids]
        return ids + ids[:1] * (self._cfg.beam_size - len(ids))

    def padded_parents(self) -> list[int]:
        """Return the row that each row continues."""
        parents = [hypothesis.parent for hypothesis in self.live]
        return parents + parents[:1] * (self._cfg.beam_size - len(parents))

    def extend(self, extensions: "_Extensions") -> None:
        """Extend the hypotheses by one token; no `live` is left at the end."""
        beam_size = self._cfg.beam_size
        n_tokens = 1 + len(self.live[0].ids)
        if self.live[0].state.constraints.draft is not None:
            self._keep_partial(extensions, n_tokens)
        candidates = extensions.candidates(beam_size)
        ended = [hypothesis for hypothesis in candidates if hypothesis.ids[-1] == self._eos_id]
        self._finished += [self._ended(done, n_tokens) for done in ended if done.is_of_use(ended=True)]
        self._finished.sort(key=lambda hypothesis: -hypothesis.score)  # stable: of equal ones the earlier stays ahead
        unended = [hypothesis for hypothesis in candidates if hypothesis.ids[-1] != self._eos_id]
        live = _allocate([hypothesis for hypothesis in unended if hypothesis.is_of_use(ended=False)], beam_size)
        if n_tokens == self._max_len or not candidates:
            self._give_up(live if candidates else self.live)
            live = []
        self.live = [] if self._is_settled(live) else live

    def _ended(self, hypothesis: _Live, n_tokens: int) -> Hypothesis:
        """Return a hypothesis that ends with EOS as a finished one."""
        score = hypothesis.rank / self._cfg.divisor(n_tokens)
        return Hypothesis(list(hypothesis.ids[:-1]), hypothesis.log_prob, score, True, hypothesis.rest_log_prob)

    def _keep_partial(self, extensions: "_Extensions", n_tokens: int) -> None:
        """Keep the live hypotheses that could end here if some requirements were dropped."""
        for row, live in enumerate(self.live):
            model, adjusted = extensions.end_log_probs(row)
            if live.state.is_done or not live.state.is_clean or adjusted == -math.inf:
                continue
            if live.rest_log_prob + model < live.state.constraints.least_rest:
                continue
            end = _Live((*live.ids, self._eos_id), live.log_prob + model, live.total + adjusted, live.state, row)
            ended, which = self._ended(end, n_tokens), live.state.which_met
            if which not in self._partial or ended.score > self._partial[which].score:
                self._partial[which] = ended

    def _give_up(self, live: list[_Live]) -> None:
        """Add the hypotheses as unfinished ones; those that meet the most requirements come first."""
        clean = [hypothesis for hypothesis in live if hypothesis.state.is_clean]
        for left in sorted(clean, key=lambda hypothesis: (-hypothesis.state.n_requirements_met, -hypothesis.rank)):
            score = left.rank / self._cfg.divisor(max(1, len(left.ids)))
            self._unfinished.append(Hypothesis(list(left.ids), left.log_prob, score, False, left.rest_log_prob))

    def _is_settled(self, live: list[_Live]) -> bool:
        """Whether no live hypothesis can enter the n best: a total only falls, and the last divisor is the largest."""
        if not live or len(self._finished) < self._cfg.n_best:
            return not live
        highest = max(hypothesis.total for hypothesis in live)
        return highest / self._cfg.divisor(self._max_len) <= self._finished[self._cfg.n_best - 1].score

    def best(self) -> list[Hypothesis]:
        """Return the n best, and the partial ones; if there are none, a hypothesis without tokens."""
        hypotheses = (self._finished + self._unfinished)[: self._cfg.n_best]
        partial = sorted(self._partial.items(), key=lambda item: (-sum(item[0]), -item[1].score))
        return [*hypotheses, *(hypothesis for _, hypothesis in partial)] or [Hypothesis([], 0.0, 0.0, False)]


def _all_extensions(
    all_live: Sequence[Sequence[_Live]],
    model_log_probs: Tensor,
    adjusted_log_probs: Tensor,
    attention: Sequence[Sequence[Sequence[float]]],
    eos_id: int,
) -> "list[_Extensions]":
    """Return the extensions of each sentence's live hypotheses by one token.

    model_log_probs, adjusted_log_probs: (B, K, V), of the next token, and as adjusted by the rules. attention: of each
    sentence's hypotheses to each source token.
    """
    beam_size = model_log_probs.size(1)
    before = [[h.total for h in live] + [-math.inf] * (beam_size - len(live)) for live in all_live]
    total = adjusted_log_probs + adjusted_log_probs.new_tensor(before)[:, :, None]
    check_number(float(total.max()))
    for sentence, live in enumerate(all_live):
        for row, hypothesis in enumerate(live):
            if not hypothesis.state.may_end:
                total[sentence, row, eos_id] = -math.inf
            if not hypothesis.state.is_clean:
                total[sentence, row].masked_fill_(model_log_probs[sentence, row] < _LIKELY, -math.inf)
    best = top_k(total.flatten(1), min(beam_size, total[0].numel()))[1].tolist()
    likeliest = total.argmax(2).tolist()
    columns = zip(all_live, model_log_probs, adjusted_log_probs, total, attention, best, likeliest, strict=True)
    return [_Extensions(*column, eos_id=eos_id) for column in columns]


class _Extensions:
    """All extensions of one sentence's live hypotheses by one token; each has a flat index into the totals."""

    def __init__(
        self,
        live: Sequence[_Live],
        model_log_probs: Tensor,
        adjusted_log_probs: Tensor,
        total: Tensor,
        attention: Sequence[Sequence[float]],
        best: list[int],
        likeliest: list[int],
        *,
        eos_id: int,
    ) -> None:
        """total: (K, V), -inf if not allowed. best: the flat indices of the K largest. likeliest: (K,) tokens."""
        self._live, self._total, self._eos_id = live, total, eos_id
        self._attention, self._best_indices, self._likeliest = attention, best, likeliest
        self._n_tokens = total.size(1)
        # numpy reads single values faster
        self._model, self._adjusted, self._totals = model_log_probs.numpy(), adjusted_log_probs.numpy(), total.numpy()
        self._new_word = [_NewWord(live[0].state.constraints.spelling, log_probs) for log_probs in self._model]
        self._extended: dict[int, _Live | None] = {}  # by flat index

    def end_log_probs(self, row: int) -> tuple[float, float]:
        """Return the log-probabilities that a hypothesis ends here, the model's and as adjusted by the rules."""
        return self._model.item(row, self._eos_id), self._adjusted.item(row, self._eos_id)

    def candidates(self, beam_size: int) -> list[_Live]:
        """Return the K best, the end and the best of each hypothesis, and all that write phrases; best first."""
        flat_indices = set(self._best(beam_size))
        for row, hypothesis in enumerate(self._live):
            first = row * self._n_tokens
            flat_indices.add(first + self._likeliest[row])
            if hypothesis.state.constraints.required:
                flat_indices.add(first + self._eos_id)
                flat_indices.update(first + token_id for token_id in self._next_ids(row, hypothesis))
        extended = [live for flat_index in sorted(flat_indices) if (live := self._extend(flat_index)) is not None]
        return sorted(extended, key=lambda live: -live.rank)  # stable: a tie goes to the lower index

    def _next_ids(self, row: int, hypothesis: _Live) -> set[int]:
        """Return the tokens that continue a required phrase of this row, and the likeliest that begin one."""
        continuing, beginning = hypothesis.state.next_ids(self._attention[row])
        if len(beginning) > _MOST_BEGUN:
            ids = torch.tensor(sorted(beginning))
            beginning = set(ids[self._total[row, ids].topk(_MOST_BEGUN).indices].tolist())
        return continuing | beginning

    def _best(self, n: int) -> list[int]:
        """Return the flat indices of the largest totals: as many as it takes for n safe ones."""
        flat_indices = self._best_indices
        while True:
            n_safe = sum((live := self._extend(index)) is not None and live.is_safe for index in flat_indices)
            n_all = min(n + len(flat_indices) - n_safe, self._total.numel())
            if n_safe >= n or n_all == len(flat_indices) or self._totals.item(flat_indices[-1]) == -math.inf:
                return flat_indices
            flat_indices = top_k(self._total.view(1, -1), n_all)[1][0].tolist()

    def _extend(self, flat_index: int) -> _Live | None:
        """Return the extension at this index, None if it is not allowed."""
        if flat_index not in self._extended:
            self._extended[flat_index] = self._make(*divmod(flat_index, self._n_tokens))
        return self._extended[flat_index]

    def _make(self, row: int, token_id: int) -> _Live | None:
        total = self._totals.item(row, token_id)
        if total == -math.inf:
            return None
        parent = self._live[row]
        log_prob = self._model.item(row, token_id)
        state: ConstraintState | None = parent.state
        if token_id != self._eos_id:
            state = parent.state.advance(token_id, log_prob, self._attention[row], self._new_word[row])
        if state is None:
            return None
        return _Live((*parent.ids, token_id), parent.log_prob + log_prob, total, state, row)


class _NewWord:
    """The log-probabilities that the next token begins a word; they are computed where a phrase begins."""

    __slots__ = ("_known", "_log_probs", "_spelling")

    def __init__(self, spelling: Spelling, log_probs: NDArray[np.floating]) -> None:
        self._spelling, self._log_probs = spelling, log_probs  # (V,)
        self._known: dict[bool, float] = {}

    def __call__(self, spaced: bool) -> float:
        """Return that of a word after a space, or without one."""
        if spaced not in self._known:
            probability = float(np.exp(self._log_probs[self._spelling.word_beginnings[not spaced]]).sum())
            self._known[spaced] = max(_LEAST_NEW_WORD, min(0.0, math.log(probability or 1e-30)))
        return self._known[spaced]


def _allocate(candidates: list[_Live], beam_size: int) -> list[_Live]:
    """Choose K of the candidates, which come best first: the best of each bank, then the second best of each, etc.

    So banks have equal shares, and others get what one cannot fill. Within a round the bank that has written most comes
    first. Hypotheses that must still turn a forbidden word into another one form banks that come last, because most
    of them soon end and would take the places of others.
    """
    sizes: dict[tuple[bool, int], int] = {}
    ranked = []
    for hypothesis in candidates:
        bank = (not hypothesis.is_safe, -hypothesis.state.n_met)
        sizes[bank] = sizes.get(bank, 0) + 1
        ranked.append((sizes[bank], bank, hypothesis))
    ranked.sort(key=itemgetter(0, 1))
    return [hypothesis for _, _, hypothesis in ranked[:beam_size]]

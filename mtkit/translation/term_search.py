"""Decode segments whose translations must contain some phrases, unless a phrase would spoil the sentence.

A segment is first decoded without its constraints: often that translation meets them. If not, it is decoded with them,
and compared with the plain translation. A phrase that the search could only append, or put into a sentence that it
wrecked, is left out. Forbidden phrases stay forbidden.

The work for one segment has a limit, in hypotheses and not in time, so that results do not depend on the machine. The
reports of terminology count each phrase that is left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mtkit.config.decoding import DecodeConfig
from mtkit.quality.faults import find_faults
from mtkit.search.constraints import Constraints, Requirement, beam_size_for
from mtkit.search.hypothesis import Engine, Hypothesis, Segment
from mtkit.tokens.tokenizer import Tokenizer

_MOST_LOST = 0.8  # nats for each token of the plain translation
_MOST_TRIED = 4  # phrases of one segment that are added one after the other
_MOST_WORK = 20_000  # hypotheses, of all steps together, of the searches for one segment after the first
_WIDER = 4  # times the beam, in a second search


@dataclass
class _Task:
    """A segment whose plain translation does not meet its constraints, and the best translation so far."""

    segment: Segment
    constraints: Constraints
    plain: list[Hypothesis]
    best: list[Hypothesis] = field(init=False)  # best first
    met: tuple[bool, ...] | None = field(init=False)  # which requirements it meets; None: it has a forbidden phrase
    work: int = 0  # hypotheses of its searches so far, if each took as many steps as it may

    def __post_init__(self) -> None:
        self.best, self.met = self.plain, self.constraints.which_met(self.plain[0].ids)

    @property
    def is_done(self) -> bool:
        """Whether the best translation meets all requirements."""
        return self.met is not None and all(self.met)

    def improves(self, met: tuple[bool, ...] | None) -> bool:
        """Whether a translation that meets these requirements is better than the best so far."""
        return met is not None and (self.met is None or sum(met) > sum(self.met))

    def can_search(self, segment: Segment, beam_size: int) -> bool:
        """Return whether one more search fits into the segment's length limit and work limit, and count its work."""
        constraints = segment.constraints
        if constraints is None or constraints.n_tokens >= segment.max_len:
            return False
        work = segment.max_len * beam_size_for([constraints], beam_size)
        if self.work and constraints.required and self.work + work > _MOST_WORK:
            return False
        self.work += work
        return True

    def constrained(self, required: Sequence[Requirement]) -> Segment:
        """Return the segment to search with these requirements."""
        usual_len = len(self.plain[0].ids) + 1
        constraints = replace(self.constraints, required=tuple(required), usual_len=usual_len, with_partial=True)
        return replace(self.segment, constraints=constraints)


@dataclass(frozen=True)
class TermSearch:
    """Decodes segments with the constraints of a terminology."""

    engine: Engine
    tgt_tokenizer: Tokenizer
    decode: DecodeConfig
    n_best: int

    def __call__(self, segments: Sequence[Segment]) -> list[list[Hypothesis]]:
        """Return the n best hypotheses of each segment, best first."""
        plain = self._plain(segments)
        tasks = {
            index: _Task(segment, segment.constraints, plain[index])
            for index, segment in enumerate(segments)
            if segment.constraints and not segment.constraints.are_met(plain[index][0].ids)
        }
        wider = self.decode.model_copy(update={"beam_size": _WIDER * self.decode.beam_size})
        self._improve(list(tasks.values()), self.decode)
        self._improve([t for t in tasks.values() if not t.is_done and self._is_wider(t, wider)], wider)
        for task in tasks.values():
            self._improve_by_parts(task)
        return [tasks[index].best[: self.n_best] if index in tasks else plain[index] for index in range(len(segments))]

    def _plain(self, segments: Sequence[Segment]) -> list[list[Hypothesis]]:
        found = self.engine.decode([replace(s, constraints=None) for s in segments], self.decode, self.n_best)
        return [hypotheses for _, hypotheses in sorted(found, key=lambda item: item[0])]

    def _is_wider(self, task: _Task, wider: DecodeConfig) -> bool:
        """Whether a search for all phrases with these settings differs from the first one."""
        widths = {beam_size_for([task.constraints], cfg.beam_size) for cfg in (self.decode, wider)}
        return len(widths) > 1

    def _improve(
        self, tasks: Sequence[_Task], decode: DecodeConfig, required: Sequence[Requirement] | None = None
    ) -> None:
        """Search with these requirements, by default all; keep the harmless translation that meets the most, if any.

        A task whose phrases do not fit into the segment's length limit, EOS counted, or whose work is used up, stays as
        it is.
        """
        segments, chosen = [], []
        for task in tasks:
            segment = task.constrained(task.constraints.required if required is None else required)
            if task.can_search(segment, decode.beam_size):
                segments.append(segment)
                chosen.append(task)
        for index, hypotheses in self.engine.decode(segments, decode, decode.beam_size):
            task, wanted = chosen[index], segments[index].constraints
            for hypothesis in hypotheses:  # those that meet most come first
                met = task.constraints.which_met(hypothesis.ids)
                if task.improves(met) and (not (wanted and wanted.required) or self._is_harmless(task, hypothesis)):
                    others = task.plain if met and not all(met) else hypotheses
                    task.best = [hypothesis, *(other for other in others if other is not hypothesis)]
                    task.met = met
                    break

    def _improve_by_parts(self, task: _Task) -> None:
        """Add the phrases that the best translation lacks, one after the other, unless they spoil the sentence."""
        required = task.constraints.required
        if task.met is None:  # it has a forbidden phrase
            self._improve([task], self.decode, ())
        for index in range(min(len(required), _MOST_TRIED)):
            met = task.met or (False,) * len(required)
            wanted = [r for i, r in enumerate(required) if met[i] or i == index]
            if not met[index] and len(wanted) < len(required):
                self._improve([task], self.decode, wanted)

    def _is_harmless(self, task: _Task, hypothesis: Hypothesis) -> bool:
        if not hypothesis.finished:
            return False
        most_lost = _MOST_LOST * (len(task.plain[0].ids) + 1)
        return self._lost(task, hypothesis) <= most_lost and not self._new_faults(task, hypothesis)

    def _lost(self, task: _Task, hypothesis: Hypothesis) -> float:
        """Return how much less likely than the plain translation the words around the phrases are, in nats."""
        rest = hypothesis.log_prob if hypothesis.rest_log_prob is None else hypothesis.rest_log_prob
        return task.plain[0].log_prob - rest

    def _new_faults(self, task: _Task, hypothesis: Hypothesis) -> bool:
        """Whether the hypothesis has a kind of fault that the plain translation does not have."""
        plain, new = (
            {
                fault.kind
                for fault in find_faults(task.segment.text, self.tgt_tokenizer.decode(h.ids), finished=h.finished)
            }
            for h in (task.plain[0], hypothesis)
        )
        return bool(new - plain)

"""Decode segments whose translations must contain some phrases, where that does no harm to the sentence.

A segment is first decoded without its constraints: often that translation meets them. If not, it is decoded with them,
and judged beside the plain translation. A phrase that the search could only append, or put into a sentence that it
wrecked, is not worth it: then the phrase is left out. Forbidden phrases stay forbidden.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mtkit.config.decoding import DecodeConfig
from mtkit.quality.faults import find_faults
from mtkit.search.constraints import Constraints, Requirement
from mtkit.search.hypothesis import Engine, Hypothesis, Segment
from mtkit.tokens.tokenizer import Tokenizer

_MOST_LOST = 0.8  # nats for each token of the plain translation
_MOST_TRIED = 8  # terms of one segment that are tried one after the other
_WIDER = 4  # times the beam, in a second search


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
        results = list(plain)
        tasks = [
            _Task(index, segment, segment.constraints, plain[index][0])
            for index, segment in enumerate(segments)
            if segment.constraints and not segment.constraints.are_met(plain[index][0].ids)
        ]
        wider = self.decode.model_copy(update={"beam_size": _WIDER * self.decode.beam_size})
        for settings in (self.decode, wider):
            done = self._constrained(tasks, settings)
            for index, hypotheses in done.items():
                results[index] = hypotheses
            tasks = [task for task in tasks if task.index not in done]
        for task in tasks:
            results[task.index] = self._with_some(task, plain[task.index])
        return results

    def _plain(self, segments: Sequence[Segment]) -> list[list[Hypothesis]]:
        found = self.engine.decode([replace(s, constraints=None) for s in segments], self.decode, self.n_best)
        return [hypotheses for _, hypotheses in sorted(found, key=lambda item: item[0])]

    def _constrained(self, tasks: "Sequence[_Task]", decode: DecodeConfig) -> dict[int, list[Hypothesis]]:
        """Return the n best of each task that has a harmless one, by the task's index."""
        done = {}
        tasks = [task for task in tasks if task.fits]
        for place, hypotheses in self.engine.decode([t.constrained() for t in tasks], decode, decode.beam_size):
            task = tasks[place]
            harmless = [h for h in hypotheses if self._is_harmless(task, h)]
            if harmless:
                others = [h for h in hypotheses if h is not harmless[0]]
                done[task.index] = [harmless[0], *others][: self.n_best]
        return done

    def _with_some(self, task: "_Task", plain: list[Hypothesis]) -> list[Hypothesis]:
        """Return hypotheses with as many of several phrases as do no harm, tried one after the other; perhaps none."""
        best, kept = None, task.with_required(())
        if not kept.constraints.are_met(task.plain.ids):  # it has a forbidden phrase
            [(_, best)] = self.engine.decode([kept.constrained()], self.decode, self.n_best)
        if len(task.constraints.required) > 1:
            for requirement in task.constraints.required[:_MOST_TRIED]:
                more = task.with_required((*kept.constraints.required, requirement))
                if more.constraints.are_met((best or plain)[0].ids):
                    kept = more
                elif hypotheses := self._constrained([more], self.decode):
                    best, kept = hypotheses[task.index], more
        return best or plain

    def _is_harmless(self, task: "_Task", hypothesis: Hypothesis) -> bool:
        if not task.constraints.required:
            return True
        if not hypothesis.finished:
            return False
        most_lost = _MOST_LOST * (len(task.plain.ids) + 1)
        return self._lost(task, hypothesis) <= most_lost and not self._new_faults(task, hypothesis)

    def _lost(self, task: "_Task", hypothesis: Hypothesis) -> float:
        """Return how much less likely the sentence is around the phrases than the plain one, in nats."""
        rest = hypothesis.log_prob if hypothesis.rest_log_prob is None else hypothesis.rest_log_prob
        return task.plain.log_prob - rest

    def _new_faults(self, task: "_Task", hypothesis: Hypothesis) -> bool:
        """Whether the hypothesis has a kind of fault that the plain translation does not have."""
        plain, new = (
            {
                fault.kind
                for fault in find_faults(task.segment.text, self.tgt_tokenizer.decode(h.ids), finished=h.finished)
            }
            for h in (task.plain, hypothesis)
        )
        return bool(new - plain)


@dataclass(frozen=True)
class _Task:
    """A segment whose plain translation does not meet its constraints."""

    index: int
    segment: Segment
    constraints: Constraints
    plain: Hypothesis

    @property
    def fits(self) -> bool:
        """Whether the phrases and EOS are within the segment's length limit."""
        return self.constraints.n_tokens < self.segment.max_len

    def constrained(self) -> Segment:
        """Return the segment to search with the constraints."""
        return replace(self.segment, constraints=replace(self.constraints, usual_len=len(self.plain.ids) + 1))

    def with_required(self, required: Sequence[Requirement]) -> "_Task":
        """Return the task with these requirements only."""
        return replace(self, constraints=replace(self.constraints, required=tuple(required)))

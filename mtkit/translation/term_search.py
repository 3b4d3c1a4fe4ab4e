"""Decode segments whose translations must contain some phrases, unless a phrase would spoil the sentence.

A segment is first decoded without its constraints: often that translation meets them. If not, it is decoded once more
with them. The engine's answer is compared with the plain translation. A phrase that could only be appended, or put into
a sentence that it wrecked, is left out. The reports of terminology count each phrase that is left out.

All this takes a fixed number of passes, so the work grows with the length of the translation and not with the number of
phrases.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mtkit.config.decoding import DecodeConfig
from mtkit.quality.faults import find_faults
from mtkit.search.constraints import Constraints
from mtkit.search.hypothesis import Engine, Hypothesis, Segment
from mtkit.tokens.tokenizer import Tokenizer

# Nats for each token of the plain translation. A phrase that costs more does harm.
_MOST_LOST = 0.8
_WIDER = 2  # times the plain beam, for phrases that are short compared to the plain translation


@dataclass(frozen=True)
class TermSearch:
    """Decodes segments with the constraints of a terminology."""

    engine: Engine
    tgt_tokenizer: Tokenizer
    decode: DecodeConfig
    n_best: int

    def __call__(self, segments: Sequence[Segment]) -> list[list[Hypothesis]]:
        """Return the n best hypotheses of each segment, best first."""
        best = self._decode([replace(segment, constraints=None) for segment in segments])
        all_constraints = {index: segment.constraints for index, segment in enumerate(segments) if segment.constraints}
        self._improve(best, segments, {i: c for i, c in all_constraints.items() if not c.are_met(best[i][0].ids)})
        spoilt = {i: c for i, c in all_constraints.items() if c.required and c.which_met(best[i][0].ids) is None}
        self._improve(best, segments, {i: replace(c, required=()) for i, c in spoilt.items()})
        return best

    def _improve(
        self, best: list[list[Hypothesis]], segments: Sequence[Segment], constraints: Mapping[int, Constraints]
    ) -> None:
        """Search some segments, by index, with these constraints; replace, in place, translations that meet less."""
        again = [
            replace(segments[index], constraints=self._with_draft(wanted, best[index][0]))
            for index, wanted in constraints.items()
        ]
        results: dict[int, list[Hypothesis]] = {}
        for factor in (1, _WIDER):
            chosen = {i: segment for i, segment in zip(constraints, again, strict=True) if _width(segment) == factor}
            results |= zip(chosen, self._decode([*chosen.values()], factor), strict=True)
        for index, wanted in constraints.items():
            with_phrases = replace(segments[index], constraints=wanted)
            best[index] = self._improved(with_phrases, wanted, best[index], results[index])

    @staticmethod
    def _with_draft(constraints: Constraints, plain: Hypothesis) -> Constraints:
        """Return the constraints of a search that `_is_harmless` will compare with the plain translation."""
        may_be_unlikely = not plain.ids or constraints.which_met(plain.ids) is None
        least_rest = -math.inf if may_be_unlikely else plain.log_prob - _MOST_LOST * (len(plain.ids) + 1)
        return replace(constraints, draft=tuple(plain.ids), least_rest=least_rest)

    def _decode(self, segments: Sequence[Segment], factor: int = 1) -> list[list[Hypothesis]]:
        decode = self.decode.model_copy(update={"beam_size": factor * self.decode.beam_size})
        results = sorted(self.engine.decode(segments, decode, self.n_best), key=lambda item: item[0])
        return [hypotheses for _, hypotheses in results]

    def _improved(
        self, segment: Segment, constraints: Constraints, plain: list[Hypothesis], found: Sequence[Hypothesis]
    ) -> list[Hypothesis]:
        """Put the harmless one of the translations that meets the most first, if it meets more than the plain one.

        Of those that meet equally many, the first one is the best.
        """
        n_plain = self._n_met(constraints, plain[0])
        counted = [(self._n_met(constraints, hypothesis), hypothesis) for hypothesis in found]
        for n_met, hypothesis in sorted(counted, key=lambda pair: -pair[0]):  # stable: of equal ones the earlier first
            if n_met > n_plain and self._is_harmless(segment, plain[0], hypothesis):
                others = found if n_met == len(constraints.required) else plain
                return [hypothesis, *(other for other in others if other is not hypothesis)][: self.n_best]
        return plain

    @staticmethod
    def _n_met(constraints: Constraints, hypothesis: Hypothesis) -> int:
        """Return how many requirements a translation meets; -1 if it has a forbidden phrase."""
        met = constraints.which_met(hypothesis.ids)
        return -1 if met is None else sum(met)

    def _is_harmless(self, segment: Segment, plain: Hypothesis, hypothesis: Hypothesis) -> bool:
        """Whether a translation is finished, about as likely as the plain one around its phrases, and has no new fault.

        If the plain one has a forbidden phrase, another one may be less likely. An empty one has nothing to spoil.
        """
        if not plain.ids:
            return hypothesis.finished and segment.has_each_once(hypothesis.ids)
        is_likely = self._lost(plain, hypothesis) <= _MOST_LOST
        may_be_unlikely = segment.constraints is not None and segment.constraints.which_met(plain.ids) is None
        has_each_once = segment.has_each_once(hypothesis.ids) or not segment.has_each_once(plain.ids)
        return (
            hypothesis.finished
            and (is_likely or may_be_unlikely)
            and has_each_once
            and not self._new_faults(segment, plain, hypothesis)
        )

    @staticmethod
    def _lost(plain: Hypothesis, hypothesis: Hypothesis) -> float:
        """Return by how many nats per token the words around the phrases are less likely than the plain translation."""
        rest = hypothesis.log_prob if hypothesis.rest_log_prob is None else hypothesis.rest_log_prob
        return (plain.log_prob - rest) / (len(plain.ids) + 1)

    def _new_faults(self, segment: Segment, plain: Hypothesis, hypothesis: Hypothesis) -> bool:
        """Whether the hypothesis has a kind of fault that the plain translation does not have."""
        plain_kinds, new_kinds = (
            {f.kind for f in find_faults(segment.text, self.tgt_tokenizer.decode(h.ids), finished=h.finished)}
            for h in (plain, hypothesis)
        )
        return bool(new_kinds - plain_kinds)


def _width(segment: Segment) -> int:
    """Return how many times the plain beam the search with phrases has; its work stays below five plain searches."""
    constraints = segment.constraints
    assert constraints is not None
    n_phrase_tokens = sum(requirement.times * requirement.n_tokens for requirement in constraints.required)
    return _WIDER if 2 * n_phrase_tokens <= len(constraints.draft or ()) else 1

"""Check that details that must not matter, such as the batch or the cache, do not change the result of decoding."""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from mtkit.bundle import Bundle
from mtkit.engines.native import NativeEngine, pad
from mtkit.engines.steps import LocalVocabulary, log_probs_to_choose_from
from mtkit.errors import UsageError
from mtkit.model.transformer import Transformer
from mtkit.pair_files.lines import as_one_line, windows
from mtkit.search.hypothesis import Hypothesis, Segment
from mtkit.search.step import DecodeStep
from mtkit.tokens.special_ids import EOS_ID
from mtkit.translation.translator import Translator

CHECKS = ("batch", "order", "cache", "n-best")
_WINDOW = 256  # segments given to the engine at once: few enough that their order decides which share a batch


@dataclass(frozen=True)
class Variant:
    """A way to decode that should give the same result as all others."""

    name: str
    batch_sentences: int = 64
    order: Literal["given", "sorted", "shuffled"] = "given"
    cached: bool = True
    n_best: int = 1
    precision: str = "fp32"

    @property
    def must_agree(self) -> bool:
        """Whether a difference is a fault; between precisions it is not."""
        return self.precision == "fp32"


REFERENCE = Variant("batches of 64")


@dataclass(frozen=True)
class Output:
    """A translation, its score, and its target pieces, EOS included if it is finished."""

    text: str
    score: float
    pieces: list[str]


@dataclass(frozen=True)
class Difference:
    """A line, or a segment of a long line, that two variants translate differently."""

    line: int
    src: str
    reference: Output
    other: Output


@dataclass(frozen=True)
class Comparison:
    """A variant compared with the reference: batches of 64 lines, in the given order, with cache, 1-best, fp32."""

    name: str
    beam_size: int
    must_agree: bool
    n_lines: int
    n_different: int
    seconds: float
    differences: list[Difference]  # the first ones


def variants(checks: Sequence[str], beam_size: int, precisions: Sequence[str] = ()) -> list[Variant]:
    """Return the variants to compare with the reference. With beam size 1 there is no n-best variant."""
    by_check = {
        "batch": [Variant("batches of 7", 7), Variant("batches of 1", 1)],
        "order": [Variant("sorted input", order="sorted"), Variant("shuffled input", order="shuffled")],
        # small batches: whole prefixes of all hypotheses take memory
        "cache": [Variant("no cache, batches of 16", 16, cached=False)],
        "n-best": [Variant(f"{beam_size}-best", n_best=beam_size)] if beam_size > 1 else [],
    }
    exact = [variant for check in CHECKS if check in checks for variant in by_check[check]]
    return exact + [Variant(precision, precision=precision) for precision in precisions]


def examine(
    bundle: Bundle,
    lines: Sequence[tuple[int, str]],
    *,
    device: str = "cpu",
    beam_sizes: Sequence[int] = (1, 4),
    checks: Sequence[str] = CHECKS,
    precisions: Sequence[str] = (),
    max_differences: int = 10,
    advance: Callable[[], object] = lambda: None,
) -> Iterator[Comparison]:
    """Decode lines with the native engine in several ways; yield each comparison as it is done.

    lines: with their line numbers. The bundle's decode section applies, except for sampling, diverse beams and
    shortlists. checks: what must make no difference in fp32. precisions: what may. max_differences: how many of each
    comparison to report. advance: called whenever a line is decoded, `n_decoded` times in all.
    """
    coverage_penalty = bundle.config.decode.coverage_penalty
    if "cache" in checks and coverage_penalty:
        raise UsageError(
            f"decode.coverage_penalty={coverage_penalty:g} needs the cache; set it to 0, or leave out the check "
            f"'cache' (others: {', '.join(check for check in CHECKS if check != 'cache')})"
        )
    examination = _Examination(bundle, lines, device)
    for beam_size in beam_sizes:
        reference = examination.decode(REFERENCE, beam_size, advance)
        for variant in variants(checks, beam_size, precisions):
            start = time.perf_counter()
            hypotheses = examination.decode(variant, beam_size, advance)
            seconds = time.perf_counter() - start
            n_different, differences = examination.compare(reference, hypotheses, max_differences)
            n_lines = len(lines)
            yield Comparison(variant.name, beam_size, variant.must_agree, n_lines, n_different, seconds, differences)


def n_decoded(n_lines: int, beam_sizes: Sequence[int], checks: Sequence[str], precisions: Sequence[str] = ()) -> int:
    """Return how many lines `examine` decodes, counting each as often as it does."""
    return n_lines * sum(1 + len(variants(checks, beam_size, precisions)) for beam_size in beam_sizes)


class _Examination:
    """The segments of the lines, which can be decoded in each variant."""

    def __init__(self, bundle: Bundle, lines: Sequence[tuple[int, str]], device: str) -> None:
        self._model = bundle.model
        self._device = device
        self._tgt_tokenizer = bundle.tgt_tokenizer
        self._line_numbers = [line_number for line_number, _ in lines]
        self._lines = [as_one_line(line).strip() for _, line in lines]
        changes = {"sampling": False, "mbr_samples": 0, "beam_groups": 1, "shortlist": False}
        self._cfg = bundle.config.decode.model_copy(update=changes)
        engine = NativeEngine([bundle.model], device)
        translator = Translator(engine, bundle.src_tokenizer, bundle.tgt_tokenizer, self._cfg)
        by_line = translator.segments(self._lines)
        self._segments = [segment for segments in by_line for segment in segments]
        self._owners = [line for line, segments in enumerate(by_line) for _ in segments]

    def decode(self, variant: Variant, beam_size: int, advance: Callable[[], object]) -> list[Hypothesis]:
        """Return the best hypothesis of each segment."""
        engine_type = NativeEngine if variant.cached else _UncachedEngine
        engine = engine_type([self._model], self._device, variant.precision)
        cfg = self._cfg.model_copy(update={"beam_size": beam_size, "batch_sentences": variant.batch_sentences})
        best: dict[int, Hypothesis] = {}
        for window in self._windows(variant):
            segments = [self._segments[index] for index in window]
            for place, n_best in engine.decode(segments, cfg, variant.n_best):
                index = window[place]
                best[index] = n_best[0]
                if index + 1 == len(self._owners) or self._owners[index] != self._owners[index + 1]:
                    advance()  # the line's last segment
        for _ in range(len(self._lines) - len(set(self._owners))):
            advance()  # blank lines
        return [best[index] for index in range(len(self._segments))]

    def compare(
        self, reference: Sequence[Hypothesis], others: Sequence[Hypothesis], max_differences: int
    ) -> tuple[int, list[Difference]]:
        """Return how many lines differ, and the first differences."""
        pairs = zip(reference, others, strict=True)
        different = [
            index for index, (one, other) in enumerate(pairs) if (one.ids, one.finished) != (other.ids, other.finished)
        ]
        differences = [
            Difference(
                line=self._line_numbers[self._owners[index]],
                src=self._lines[self._owners[index]],
                reference=self._output(reference[index]),
                other=self._output(others[index]),
            )
            for index in different[:max_differences]
        ]
        return len({self._owners[index] for index in different}), differences

    def _windows(self, variant: Variant) -> Iterable[list[int]]:
        order = list(range(len(self._segments)))
        if variant.order == "sorted":
            order.sort(key=lambda index: len(self._segments[index].ids))
        elif variant.order == "shuffled":
            random.Random(1).shuffle(order)
        return windows(order, _WINDOW)

    def _output(self, hypothesis: Hypothesis) -> Output:
        ids = [*hypothesis.ids, *([EOS_ID] if hypothesis.finished else [])]
        return Output(self._tgt_tokenizer.decode(hypothesis.ids), hypothesis.score, self._tgt_tokenizer.pieces(ids))


class _UncachedEngine(NativeEngine):
    """The native engine over one model, without a cache."""

    def make_step(
        self,
        segments: Sequence[Segment],
        beam_size: int,
        *,
        attention: bool = False,
        vocabulary: LocalVocabulary | None = None,
    ) -> DecodeStep:
        src = pad([[*segment.ids, EOS_ID] for segment in segments]).to(self.device)
        return UncachedStep(self.models[0], src, beam_size)


class UncachedStep:
    """A `DecodeStep` without a key/value cache: each call decodes the whole prefixes, as training does."""

    def __init__(self, model: Transformer, src: Tensor, beam_size: int) -> None:
        """Encode src (B, S); beam_size hypotheses will be extended for each sentence."""
        self._model = model
        memory, pad_bias = model.encode(src)
        self._memory = memory.repeat_interleave(beam_size, dim=0)  # rows B x K, sentence by sentence
        self._pad_bias = pad_bias.repeat_interleave(beam_size, dim=0)
        self._ids = torch.empty(src.size(0), beam_size, 0, dtype=torch.long, device=src.device)

    def __call__(self, last_ids: Tensor) -> Tensor:
        """Extend the hypotheses by last_ids (B, K); return log-probabilities (B, K, V) of the next token."""
        self._ids = torch.cat([self._ids, last_ids.unsqueeze(2)], dim=2)
        hidden = self._model.decode(self._ids.flatten(0, 1), self._memory, self._pad_bias)
        return log_probs_to_choose_from(self._model.output(hidden[:, -1]).float().unflatten(0, last_ids.shape))

    def attention(self) -> Tensor:
        """Not supported: only the coverage penalty needs it, and `examine` refuses that."""
        raise NotImplementedError

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis k of sentence b continue hypothesis parents[b, k]; (B, K)."""
        self._ids = self._ids.gather(1, parents.unsqueeze(2).expand_as(self._ids))

    def select(self, sentences: Tensor) -> None:
        """Keep only these sentences (B',), given by their current indices."""
        beam_size = self._ids.size(1)
        beams = torch.arange(beam_size, device=sentences.device)
        rows = (sentences[:, None] * beam_size + beams).flatten()
        self._memory, self._pad_bias = self._memory.index_select(0, rows), self._pad_bias.index_select(0, rows)
        self._ids = self._ids.index_select(0, sentences)

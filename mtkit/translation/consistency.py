"""Does decoding give the same whatever cannot matter? A model and lines in; where two ways to decode differ, out."""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from mtkit.config.schema import DecodeConfig
from mtkit.data.corpus import as_one_line, windows
from mtkit.data.special_ids import EOS_ID
from mtkit.data.tokenizer import Tokenizer
from mtkit.engines.native import NativeEngine
from mtkit.errors import UsageError
from mtkit.model.transformer import Transformer
from mtkit.search.hypothesis import Hypothesis, Segment
from mtkit.translation.examined import ExaminedEngine, Record
from mtkit.translation.translator import Translator

CHECKS = ("batch", "order", "cache", "n-best")
_WINDOW = 256  # segments given to the engine at once: few enough that their order decides which share a batch


@dataclass(frozen=True)
class Way:
    """A way to decode that should give what every other one gives."""

    name: str
    batch_sentences: int = 64
    order: Literal["given", "sorted", "shuffled"] = "given"
    cached: bool = True
    n_best: int = 1
    precision: str = "fp32"

    @property
    def must_agree(self) -> bool:
        """Whether a difference is a fault: another precision may well choose otherwise."""
        return self.precision == "fp32"


REFERENCE = Way("batches of 64")


@dataclass(frozen=True)
class TracedToken:
    """A step of a hypothesis; NaN where the search never extended this prefix."""

    piece: str
    log_prob: float  # as the way that found the hypothesis saw it, nats
    sum: float  # of the log-probs up to here
    elsewhere: float  # log_prob in the other way


@dataclass(frozen=True)
class Trace:
    """A translation and how its score came about."""

    text: str
    score: float
    tokens: list[TracedToken]


@dataclass(frozen=True)
class Difference:
    """A line, or a segment of a long line, that two ways translate differently."""

    line: int
    src: str
    reference: Trace
    other: Trace


@dataclass(frozen=True)
class Comparison:
    """One way beside the reference: batches of 64 lines, in the given order, with cache, 1-best, fp32."""

    name: str
    beam_size: int
    must_agree: bool
    n_lines: int
    n_different: int
    seconds: float
    differences: list[Difference]  # the first ones


def ways_to_check(checks: Sequence[str], beam_size: int, precisions: Sequence[str] = ()) -> list[Way]:
    """What is compared with the reference. The n best are only asked for where the beam holds more than one."""
    by_check = {
        "batch": [Way("batches of 7", 7), Way("batches of 1", 1)],
        "order": [Way("sorted input", order="sorted"), Way("shuffled input", order="shuffled")],
        # small batches: whole prefixes of all hypotheses take memory
        "cache": [Way("no cache, batches of 16", 16, cached=False)],
        "n-best": [Way(f"{beam_size}-best", n_best=beam_size)] if beam_size > 1 else [],
    }
    exact = [way for check in CHECKS if check in checks for way in by_check[check]]
    return exact + [Way(precision, precision=precision) for precision in precisions]


@dataclass(frozen=True)
class Patient:
    """A model with what it takes to decode with it."""

    model: Transformer
    src_tokenizer: Tokenizer
    tgt_tokenizer: Tokenizer
    decode: DecodeConfig
    device: str = "cpu"


def examine(
    patient: Patient,
    lines: Sequence[tuple[int, str]],
    *,
    beam_sizes: Sequence[int] = (1, 4),
    checks: Sequence[str] = CHECKS,
    precisions: Sequence[str] = (),
    n_traced: int = 10,
    advance: Callable[[], object] = lambda: None,
) -> Iterator[Comparison]:
    """What the native engine gives in one way and another, compared as it is done.

    lines: with their numbers. Settings of the patient's `decode` stay, but for sampling, diverse beams and shortlists.
    checks: what must make no difference in fp32. precisions: what may. n_traced: of each comparison so many
    differences are given. advance: called as each line is decoded once more, `n_decoded` times in all.
    """
    if "cache" in checks and patient.decode.coverage_penalty:
        raise UsageError(
            f"decode.coverage_penalty={patient.decode.coverage_penalty:g}: decoding without a cache does not know it; "
            f"check the others ({', '.join(check for check in CHECKS if check != 'cache')}) or set it to 0"
        )
    examination = _Examination(patient, lines)
    for beam_size in beam_sizes:
        reference = examination.decode(REFERENCE, beam_size, advance)
        for way in ways_to_check(checks, beam_size, precisions):
            start = time.perf_counter()
            found = examination.decode(way, beam_size, advance)
            seconds = time.perf_counter() - start
            yield examination.compare(way, beam_size, reference, found, seconds, n_traced)


def n_decoded(n_lines: int, beam_sizes: Sequence[int], checks: Sequence[str], precisions: Sequence[str] = ()) -> int:
    """How many lines `examine` decodes, each as often as it does."""
    return n_lines * sum(1 + len(ways_to_check(checks, beam_size, precisions)) for beam_size in beam_sizes)


class _Examination:
    """The segments of the lines, and decoding them in one way or another."""

    def __init__(self, patient: Patient, lines: Sequence[tuple[int, str]]) -> None:
        self._patient = patient
        self._numbers = [number for number, _ in lines]
        self._lines = [as_one_line(line).strip() for _, line in lines]
        update = {"sampling": False, "beam_groups": 1, "shortlist": False}
        self._cfg = patient.decode.model_copy(update=update)
        engine = NativeEngine([patient.model], patient.device)
        translator = Translator(engine, patient.src_tokenizer, patient.tgt_tokenizer, self._cfg)
        self._segments, self._owners = translator.segments(self._lines, self._cfg)

    def decode(self, way: Way, beam_size: int, advance: Callable[[], object]) -> list[Hypothesis]:
        """The best hypothesis of each segment."""
        engine = self._engine(way)
        found: dict[int, Hypothesis] = {}
        for numbers in self._windows(way):
            for number, hypothesis in self._decode_window(engine, numbers, way, beam_size):
                found[number] = hypothesis
                if number + 1 == len(self._owners) or self._owners[number] != self._owners[number + 1]:
                    advance()  # the line's last segment
        for _ in range(len(self._lines) - len(set(self._owners))):
            advance()  # blank lines
        return [found[number] for number in range(len(self._segments))]

    def compare(
        self,
        way: Way,
        beam_size: int,
        reference: Sequence[Hypothesis],
        found: Sequence[Hypothesis],
        seconds: float,
        n_traced: int,
    ) -> Comparison:
        """What differs, with traces: for them both ways decode once more, and are watched."""
        different = [n for n in range(len(found)) if _outcome(found[n]) != _outcome(reference[n])]
        traced = different[:n_traced]
        wanted = {tuple(self._segments[n].ids): (tuple(reference[n].ids), tuple(found[n].ids)) for n in traced}
        of_reference = self._watch(REFERENCE, beam_size, traced, Record(wanted))
        of_way = self._watch(way, beam_size, traced, Record(wanted))
        differences = [
            Difference(
                line=self._numbers[self._owners[n]],
                src=self._lines[self._owners[n]],
                reference=self._trace(self._segments[n], reference[n], of_reference, of_way),
                other=self._trace(self._segments[n], found[n], of_way, of_reference),
            )
            for n in traced
        ]
        n_different = len({self._owners[n] for n in different})
        return Comparison(way.name, beam_size, way.must_agree, len(self._lines), n_different, seconds, differences)

    def _engine(self, way: Way, record: Record | None = None) -> ExaminedEngine:
        return ExaminedEngine(
            self._patient.model, self._patient.device, way.precision, cached=way.cached, record=record
        )

    def _windows(self, way: Way) -> Iterable[list[int]]:
        order = list(range(len(self._segments)))
        if way.order == "sorted":
            order.sort(key=lambda number: len(self._segments[number].ids))
        elif way.order == "shuffled":
            random.Random(1).shuffle(order)
        return windows(order, _WINDOW)

    def _decode_window(
        self, engine: ExaminedEngine, numbers: Sequence[int], way: Way, beam_size: int
    ) -> Iterator[tuple[int, Hypothesis]]:
        cfg = self._cfg.model_copy(update={"beam_size": beam_size, "batch_sentences": way.batch_sentences})
        for place, n_best in engine.decode([self._segments[number] for number in numbers], cfg, way.n_best):
            yield numbers[place], n_best[0]

    def _watch(self, way: Way, beam_size: int, traced: Sequence[int], record: Record) -> Record:
        engine = self._engine(way, record)
        for numbers in self._windows(way):
            if not set(traced).isdisjoint(numbers):
                list(self._decode_window(engine, numbers, way, beam_size))
        return record

    def _trace(self, segment: Segment, hypothesis: Hypothesis, own: Record, other: Record) -> Trace:
        ids = [*hypothesis.ids, *([EOS_ID] if hypothesis.finished else [])]
        tokens, total = [], 0.0
        for piece, log_prob, elsewhere in zip(
            self._patient.tgt_tokenizer.pieces(ids),
            own.log_probs(segment.ids, ids),
            other.log_probs(segment.ids, ids),
            strict=True,
        ):
            total += log_prob
            tokens.append(TracedToken(piece, log_prob, total, elsewhere))
        return Trace(self._patient.tgt_tokenizer.decode(hypothesis.ids), hypothesis.score, tokens)


def _outcome(hypothesis: Hypothesis) -> tuple[list[int], bool]:
    return hypothesis.ids, hypothesis.finished

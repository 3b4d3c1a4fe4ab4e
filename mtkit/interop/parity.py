"""Compare an exported model with its original: both translate the same lines."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from difflib import SequenceMatcher
from itertools import chain
from typing import Any

from mtkit.alignment.forced import ForcedPair
from mtkit.config.decoding import DecodeConfig
from mtkit.cores import has_instructions_for
from mtkit.engines.ctranslate2 import CTranslate2Engine
from mtkit.evaluation.metrics.scores import corpus_bleu
from mtkit.evaluation.metrics.settings import MetricSettings, tokenizer_for
from mtkit.pair_files.lines import windows
from mtkit.pair_files.pairs import Pair
from mtkit.scoring.scoring import native_models, token_log_probs
from mtkit.search.hypothesis import Engine, Hypothesis
from mtkit.translation.candidates import Candidate
from mtkit.translation.translator import Translator

_LINES_BY_TYPE = 100
_LINES_A_WINDOW = 256  # the progress bar moves after each window


@dataclass(frozen=True)
class Tolerance:
    """The largest accepted differences between an export and its original."""

    token_agreement: float  # the smallest accepted share of equal tokens
    score_difference: float  # the largest accepted difference in nats per token, averaged over all lines
    bleu_drop: float  # most points


# Two to ten times the differences measured with a Tatoeba and a Multi30k model on 500 lines each.
DEFAULT_TOLERANCES = {
    "float32": Tolerance(token_agreement=0.999, score_difference=1e-4, bleu_drop=0.1),
    "float16": Tolerance(token_agreement=0.99, score_difference=0.005, bleu_drop=0.3),
    "bfloat16": Tolerance(token_agreement=0.97, score_difference=0.02, bleu_drop=0.5),
    "int8": Tolerance(token_agreement=0.95, score_difference=0.03, bleu_drop=0.5),
    "int8_float16": Tolerance(token_agreement=0.95, score_difference=0.03, bleu_drop=0.5),
    "int8_bfloat16": Tolerance(token_agreement=0.93, score_difference=0.05, bleu_drop=0.7),
    # In browsers a rounding error decides more: 181 of 200 lines and 95 % of the tokens of a student were equal. A
    # tenth of the lines, as good but different, moves BLEU by about a point.
    "browser": Tolerance(token_agreement=0.8, score_difference=0.1, bleu_drop=1.5),
}


def remark_on(computes_in: str) -> str:
    """Return a remark, to follow the type's name, if CTranslate2 is less exact in it here than on other processors.

    The log-probabilities of a random model differed by 0.14 nats a token in int8 with AVX2, and by 0.01 with VNNI.
    """
    if "int8" not in computes_in or has_instructions_for("int8") is not False:
        return ""
    return " (CTranslate2 is less exact in int8 on this processor, which lacks VNNI: try another one)"


def _tolerance_of(computes_in: str) -> Tolerance:
    """Return the tolerance for a type that CTranslate2 computes in; int16 has 10 bits, as float16 has."""
    kind = "float16" if computes_in == "int16" else computes_in.removesuffix("_float32")
    return DEFAULT_TOLERANCES.get(kind, DEFAULT_TOLERANCES["int8_bfloat16"])


@dataclass(frozen=True)
class ComparedText:
    """Lines to compare on."""

    name: str  # in the certificate
    tag: str | None  # that the model expects before these lines
    sources: Sequence[str]
    references: Sequence[str] | None

    @classmethod
    def from_pairs(cls, name: str, tag: str | None, pairs: Sequence[Pair]) -> "ComparedText":
        """Return the pairs as lines and their references."""
        return cls(name, tag, [pair.src for pair in pairs], [pair.tgt for pair in pairs])


@dataclass(frozen=True)
class Comparison:
    """A text, and the two translators of it, which have its tag."""

    text: ComparedText
    native: Translator
    exported: Translator


@dataclass(frozen=True)
class SearchParity:
    """The comparison with one search setting."""

    search: str  # greedy, or beam and its size
    token_agreement: float  # 2 x (common tokens in the same order) / (tokens of both)
    equal_lines: int
    bleu: float | None  # of the original; None without references
    bleu_change: float | None
    native_lines_per_s: float
    lines_per_s: float


@dataclass(frozen=True)
class Parity:
    """The certificate of an export."""

    n_lines: int
    quantization: str
    computes_in: str  # the type that this machine multiplies in; not every machine has every type
    threads: int
    score_difference_mean: float  # nats a token, for the original's greedy translations
    score_difference_max: float  # nats a line
    searches: list[SearchParity]
    texts: dict[str, int] = field(default_factory=dict)  # name to lines, of each text compared on
    # of greedy translations of up to 100 lines, by the type that a program may choose to compute in
    agreement_by_type: dict[str, float] = field(default_factory=dict)

    def failing_types(self, tolerance: Tolerance) -> list[str]:
        """Return a message for each type in which fewer tokens agree than the tolerance, or the default, allows."""
        return [
            f"computed in {kind}{remark_on(kind)}: {agreement:.2%} of the tokens agree, fewer than {least:.2%} "
            "(--min-agreement)"
            for kind, agreement in self.agreement_by_type.items()
            if agreement < (least := min(tolerance.token_agreement, _tolerance_of(kind).token_agreement))
        ]

    def failures(self, tolerance: Tolerance) -> list[str]:
        """Return a message, with both values, for each difference beyond the tolerance."""
        failures = []
        if self.score_difference_mean > tolerance.score_difference:
            failures.append(
                f"log-probabilities differ by {self.score_difference_mean:.2g} nats a token, more than "
                f"{tolerance.score_difference:g} (--max-score-difference)"
            )
        for search in self.searches:
            if search.token_agreement < tolerance.token_agreement:
                failures.append(
                    f"{search.search}: {search.token_agreement:.2%} of the tokens agree, fewer than "
                    f"{tolerance.token_agreement:.2%} (--min-agreement)"
                )
            if search.bleu_change is not None and -search.bleu_change > tolerance.bleu_drop:
                failures.append(
                    f"{search.search}: BLEU falls by {-search.bleu_change:.2f}, more than "
                    f"{tolerance.bleu_drop:g} (--max-bleu-drop)"
                )
        return failures

    def as_json(self) -> dict[str, Any]:
        """Return the values for a JSON file."""
        return asdict(self)


def measure_parity(comparisons: Sequence[Comparison], threads: int, tick: Callable[[int], object]) -> Parity:
    """Compare translators of the original with those of the export on all texts.

    They search greedily, and with the beam of their config.

    tick: called with the number of lines just translated, `n_translated` in total.
    """
    searches: list[SearchParity] = []
    greedy_native: list[list[Candidate]] = []  # by text
    for beam_size in sorted({1, comparisons[0].native.decode.beam_size}):
        originals, native_s = _timed([(one.native, one.text.sources) for one in comparisons], beam_size, tick)
        exports, seconds = _timed([(one.exported, one.text.sources) for one in comparisons], beam_size, tick)
        greedy_native = greedy_native or originals
        searches.append(_search_parity(comparisons, beam_size, originals, exports, native_s, seconds))
    engine = comparisons[0].exported.engine
    kind, computes_in = "float32", engine.arithmetic
    if isinstance(engine, CTranslate2Engine):
        kind, computes_in = engine.quantization, engine.computes_in
    mean, most = _score_difference(comparisons, greedy_native)
    sizes = {one.text.name: len(one.text.sources) for one in comparisons}
    n_lines = sum(sizes.values())
    return Parity(n_lines, kind, computes_in, threads, mean, most, searches, sizes)


def measure_types(
    comparisons: Sequence[Comparison], exported: Callable[[str], Sequence[Translator]], types: Sequence[str]
) -> dict[str, float]:
    """Return the share of equal tokens in greedy translations by type, of the first lines of each text.

    exported: gives the translators of the texts that compute in a type.
    """
    n_each = -(-_LINES_BY_TYPE // len(comparisons))
    texts = [one.text.sources[:n_each] for one in comparisons]
    natives = [one.native for one in comparisons]
    originals = _translated(natives, texts)
    return {kind: token_agreement(originals, _translated(exported(kind), texts)) for kind in types}


def _translated(translators: Sequence[Translator], texts: Sequence[Sequence[str]]) -> list[Candidate]:
    pairs = list(zip(translators, texts, strict=True))
    return list(chain.from_iterable(_timed(pairs, 1, lambda n_lines: None)[0]))


def _search_parity(
    comparisons: Sequence[Comparison],
    beam_size: int,
    originals: Sequence[Sequence[Candidate]],
    exports: Sequence[Sequence[Candidate]],
    native_s: float,
    seconds: float,
) -> SearchParity:
    """Compare the translations of each text in so many seconds, as those of one text."""
    original, ours = list(chain.from_iterable(originals)), list(chain.from_iterable(exports))
    references = [line for one in comparisons for line in one.text.references or ()]
    language = comparisons[0].native.tgt_lang
    bleu = [_bleu(side, references, language) for side in (original, ours)] if references else None
    return SearchParity(
        search="greedy" if beam_size == 1 else f"beam {beam_size}",
        token_agreement=token_agreement(original, ours),
        equal_lines=sum(a.ids == b.ids for a, b in zip(original, ours, strict=True)),
        bleu=bleu[0] if bleu else None,
        bleu_change=bleu[1] - bleu[0] if bleu else None,
        native_lines_per_s=len(original) / native_s,
        lines_per_s=len(ours) / seconds,
    )


def _bleu(candidates: Sequence[Candidate], references: Sequence[str], language: str | None) -> float:
    return corpus_bleu(
        [candidate.text for candidate in candidates], references, MetricSettings(tokenizer_for(language, references))
    )


def n_translated(decode: DecodeConfig, n_lines: int) -> int:
    """Return the number of lines that `measure_parity` translates in total."""
    return n_lines * (2 if decode.beam_size == 1 else 4)


def _settings(decode: DecodeConfig, beam_size: int) -> DecodeConfig:
    """Return the options of decode that both engines have: length limits and penalties."""
    kept = ("length_normalization", "length_penalty", "max_len_factor", "max_len_constant", "max_len")
    others = ("batch_sentences", "max_src_tokens")
    return DecodeConfig(beam_size=beam_size, **{key: getattr(decode, key) for key in (*kept, *others)})


def _timed(
    texts: Sequence[tuple[Translator, Sequence[str]]], beam_size: int, tick: Callable[[int], object]
) -> tuple[list[list[Candidate]], float]:
    """Return the best candidate of each line of each text, and the seconds taken."""
    best: list[list[Candidate]] = []
    start = time.perf_counter()
    for translator, sources in texts:
        decode = _settings(translator.decode, beam_size)
        best.append([])
        for window in windows(sources, _LINES_A_WINDOW):
            best[-1] += [n_best[0] for n_best in translator.search(window, decode=decode)]
            tick(len(window))
    return best, time.perf_counter() - start


def token_agreement(first: Sequence[Candidate], second: Sequence[Candidate]) -> float:
    """Return the share of tokens, in order, that two translations of the same lines have in common."""
    common = total = 0
    for a, b in zip(first, second, strict=True):
        matcher = SequenceMatcher(None, a.ids, b.ids, autojunk=False)
        common += 2 * sum(block.size for block in matcher.get_matching_blocks())
        total += len(a.ids) + len(b.ids)
    return common / total if total else 1.0


def _log_probs(engine: Engine, pairs: Sequence[tuple[Sequence[int], Hypothesis]]) -> list[float]:
    """Return the engine's log-probability of each hypothesis, given its source."""
    if isinstance(engine, CTranslate2Engine):
        return engine.score(pairs)
    [model] = native_models(engine, "a comparison")
    forced = [ForcedPair(src, hypothesis.ids, hypothesis.finished) for src, hypothesis in pairs]
    return [sum(of_tokens) for of_tokens in token_log_probs(model, forced)]


def _score_difference(
    comparisons: Sequence[Comparison], candidates: Sequence[Sequence[Candidate]]
) -> tuple[float, float]:
    """Return the mean difference of log-probabilities in nats per token, and the largest in nats per line.

    It skips lines that were too long and therefore split, because only their parts have scores.
    """
    pairs: list[tuple[list[int], Hypothesis]] = []
    for one, of_text in zip(comparisons, candidates, strict=True):
        limit = one.exported.piece_search.max_src_tokens(one.native.decode)
        encoded = one.native.src_tokenizer.encode_batch(one.text.sources)
        pairs += [
            (ids, Hypothesis(c.ids, c.log_prob, c.score, c.finished))
            for ids, c in zip(encoded, of_text, strict=True)
            if 0 < len(ids) <= limit
        ]
    scores = _log_probs(comparisons[0].exported.engine, pairs)
    differences = [abs(log_prob - hypothesis.log_prob) for log_prob, (_, hypothesis) in zip(scores, pairs, strict=True)]
    n_tokens = sum(len(hypothesis.ids) + hypothesis.finished for _, hypothesis in pairs)
    return sum(differences) / max(1, n_tokens), max(differences, default=0.0)

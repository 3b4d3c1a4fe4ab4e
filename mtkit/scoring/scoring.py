"""Score given translations: the log-probability that a model gives each of their tokens (forced decoding)."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from mtkit.alignment.attention import piece_words
from mtkit.alignment.forced import BATCH_TOKENS, ForcedBatch, ForcedPair, explain_out_of_memory, forced_batches
from mtkit.alignment.lexicon import AlignmentLexicon
from mtkit.console import counted, log
from mtkit.engines.native import NativeEngine
from mtkit.errors import MtkitError
from mtkit.model.transformer import Transformer
from mtkit.pair_files.lines import as_one_line
from mtkit.search.hypothesis import Engine
from mtkit.tokens.special_ids import EOS_ID
from mtkit.tokens.tokenizer import Tokenizer

if TYPE_CHECKING:
    from mtkit.translation.candidates import Translation
    from mtkit.translation.translator import Translator

BLANK = "the source is blank"
_CHUNK = 512  # target positions for which to hold log-probabilities over the vocabulary at the same time


@dataclass(frozen=True)
class PairScore:
    """The score of a translation, or the reason why there is none."""

    n_src_tokens: int
    pieces: list[str] = field(default_factory=list)  # target tokens, EOS last
    log_probs: list[float] = field(default_factory=list)  # nats, of each of them
    problem: str | None = None  # why there are no scores

    @property
    def n_tokens(self) -> int:
        """The number of target tokens, EOS counted."""
        return len(self.log_probs)

    @property
    def log_prob(self) -> float:
        """The log-probability of the whole translation, in nats; NaN if it was not scored."""
        return math.nan if self.problem else math.fsum(self.log_probs)

    @property
    def mean(self) -> float:
        """Log-probability per token, in nats."""
        return self.log_prob / self.n_tokens if self.n_tokens else math.nan

    @property
    def perplexity(self) -> float:
        """e^-mean: the model was as unsure as between this many equally likely tokens at each position."""
        return perplexity(self.mean)


def perplexity(mean_log_prob: float) -> float:
    """Return e^-mean; infinite beyond what a float holds."""
    try:
        return math.exp(-mean_log_prob)
    except OverflowError:
        return math.inf


# Not inference_mode: tables that the model makes on the way, such as longer positions, stay usable in training.
@torch.no_grad()
def token_log_probs(
    model: Transformer, pairs: Sequence[ForcedPair], *, batch_tokens: int = BATCH_TOKENS
) -> list[list[float]]:
    """Return the log-probabilities of each pair's target tokens and, if it ends, of EOS; in the order of the pairs.

    A result depends on the rest of its batch (see `forced_batches`) by rounding at most.
    """
    scores: list[list[float]] = [[] for _ in pairs]
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    try:
        for batch in forced_batches(pairs, device, batch_tokens=batch_tokens):
            for index, log_probs in zip(batch.indices, _score(model, batch), strict=True):
                scores[index] = log_probs
    finally:
        model.train(was_training)
    return scores


def native_models(engine: Engine, what: str) -> list[Transformer]:
    """Return the engine's models; raise MtkitError, naming what needs them, if the engine gives only translations."""
    if isinstance(engine, NativeEngine):
        return engine.models
    raise MtkitError(f"{what} need the native engine in this process; set decode.engine=native and decode.workers=1")


def ensemble_log_probs(members: Sequence[Sequence[float]]) -> list[float]:
    """Return the tokens' log-probabilities by several models, averaging probabilities as a search does."""
    return [float(np.logaddexp.reduce(token) - math.log(len(members))) for token in zip(*members, strict=True)]


def _score(model: Transformer, batch: ForcedBatch) -> list[list[float]]:
    device = batch.src.device
    lengths = [len(ids) for ids in batch.tgt_out]
    is_token = torch.arange(batch.tgt_in.size(1)) < torch.tensor(lengths)[:, None]
    with explain_out_of_memory(batch):
        hidden = model.hidden(batch.src, batch.tgt_in)[is_token.to(device)]  # (N, D): padding left out
        ids = torch.tensor([token_id for ids in batch.tgt_out for token_id in ids], device=device)
        chunks = [slice(start, start + _CHUNK) for start in range(0, len(ids), _CHUNK)]
        log_probs = [_chosen(model, hidden[chunk], ids[chunk]) for chunk in chunks]
        values = iter(torch.cat([hidden.new_empty(0), *log_probs]).tolist())
    return [list(itertools.islice(values, length)) for length in lengths]


def _chosen(model: Transformer, hidden: Tensor, ids: Tensor) -> Tensor:
    """Return the log-probabilities (N,) of the ids (N,) given the decoder's output (N, D)."""
    log_probs = torch.log_softmax(model.output(hidden), dim=-1, dtype=torch.float32)
    return log_probs.gather(1, ids[:, None])[:, 0]


class Scorer:
    """A model with its tokenizers that scores given translations."""

    def __init__(
        self,
        model: Transformer,
        src_tokenizer: Tokenizer,
        tgt_tokenizer: Tokenizer,
        lexicon: AlignmentLexicon | None = None,
    ) -> None:
        """The model stays on its device. lexicon: of its bundle, for alignments."""
        self.model = model
        self.lexicon = lexicon
        self.src_tokenizer = src_tokenizer
        self.tgt_tokenizer = tgt_tokenizer
        self.max_positions = model.cfg.max_positions if model.cfg.positions == "learned" else None

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[PairScore]:
        """Return one score per pair of source and translation, in order; nothing is cut.

        A pair with a blank source, or a side longer than the model's learned positions, is not scored: its `problem`
        says why.
        """
        srcs, tgts = ([as_one_line(pair[side]).strip() for pair in pairs] for side in (0, 1))
        src_ids, tgt_ids = self.src_tokenizer.encode_batch(srcs), self.tgt_tokenizer.encode_translations(tgts, srcs)
        forced = [ForcedPair(src, tgt) for src, tgt in zip(src_ids, tgt_ids, strict=True)]
        problems = [self._problem(pair) for pair in forced]
        fit = [pair for pair, problem in zip(forced, problems, strict=True) if not problem]
        scores = iter(token_log_probs(self.model, fit))
        return [
            PairScore(len(pair.src), problem=problem)
            if problem
            else _pair_score(pair, next(scores), self.tgt_tokenizer)
            for pair, problem in zip(forced, problems, strict=True)
        ]

    def _problem(self, pair: ForcedPair) -> str | None:
        if not pair.src:
            return BLANK
        for side, ids in (("source", pair.src), ("translation", pair.tgt)):
            if self.max_positions is not None and len(ids) + 1 > self.max_positions:
                return f"the {side} is longer than model.max_positions={self.max_positions}"
        return None


def score_candidates(translator: "Translator", translations: "Sequence[Translation]") -> list[list[PairScore]]:
    """Score each token of each candidate of each translation; in fp32 the sum is what the search reported.

    With a shortlist it is not, because fewer tokens then share the probability. Blank lines, those translated in
    segments, and those with an exact match in a translation memory are not scored: their `problem` says why.
    Raises MtkitError if the translator's engine is not the native one.
    """
    models = native_models(translator.engine, "token scores")
    limit = translator.max_src_tokens
    problems: list[str | None] = []
    members: list[list[ForcedPair]] = [[] for _ in models]
    for translation in translations:
        [piece] = translator.reader.cutter.encode([as_one_line(translation.src).strip()])
        srcs = list(piece.ids) * (len(models) if len(piece.ids) == 1 else 1)
        longest = max(map(len, srcs))
        in_segments = translation.n_segments > 1 or longest > limit
        problem = BLANK if not longest else "the line was translated in segments" if in_segments else None
        if any(match.is_exact for match in translation.matches):
            problem = "a translation memory has the translation of the line, or of a part of it"
        problems.append(problem)
        if problem is None:
            for pairs, src in zip(members, srcs, strict=True):
                pairs += [ForcedPair(src, candidate.ids, candidate.finished) for candidate in translation.n_best]
    scores = [token_log_probs(model, pairs) for model, pairs in zip(models, members, strict=True)]
    log_probs = (ensemble_log_probs(tokens) if len(tokens) > 1 else tokens[0] for tokens in zip(*scores, strict=True))
    pair_scores = map(_pair_score, members[0], log_probs, itertools.repeat(translator.tgt_tokenizer))
    return [
        [PairScore(0, problem=problem) if problem else next(pair_scores) for _ in translation.n_best]
        for translation, problem in zip(translations, problems, strict=True)
    ]


def _pair_score(pair: ForcedPair, log_probs: list[float], tokenizer: Tokenizer) -> PairScore:
    ids = [*pair.tgt, EOS_ID] if pair.ends else pair.tgt
    return PairScore(len(pair.src), tokenizer.pieces(ids), log_probs)


def word_probabilities(score: PairScore) -> list[float]:
    """Return the probability of each word of a scored translation, given those before it; [] if it was not scored.

    Words are what white space separates. A word's probability is the product of its tokens'; the end has none.
    """
    log_probs = score.log_probs[:-1]  # EOS
    sums: dict[int, float] = {}
    for index, log_prob in zip(piece_words(score.pieces[:-1]), log_probs, strict=True):
        sums[index] = sums.get(index, 0.0) + log_prob
    return [math.exp(sums[index]) for index in sorted(sums)]


class ScoreTotals:
    """The totals of a corpus's scores."""

    def __init__(self) -> None:
        self.n_pairs, self.n_scored, self.n_tokens, self.log_prob = 0, 0, 0, 0.0
        self._n_long = 0
        self._unscored: dict[str, tuple[int, int]] = {}  # by problem: first line, how many

    def add(self, score: PairScore, max_src_tokens: int) -> None:
        """Count the next pair. max_src_tokens: `translate` splits longer sources."""
        self.n_pairs += 1
        if score.problem is not None:
            line, n = self._unscored.get(score.problem, (self.n_pairs, 0))
            self._unscored[score.problem] = (line, n + 1)
            return
        self.n_scored += 1
        self.n_tokens += score.n_tokens
        self.log_prob += score.log_prob
        self._n_long += score.n_src_tokens > max_src_tokens

    def note(self) -> dict[str, Any]:
        """Return the totals as JSON, for `absorb`."""
        return {
            "pairs": self.n_pairs,
            "scored": self.n_scored,
            "tokens": self.n_tokens,
            "log_prob": self.log_prob,
            "long": self._n_long,
            "unscored": self._unscored,
        }

    def absorb(self, note: Mapping[str, Any]) -> None:
        """Add the totals of the pairs that come next."""
        for problem, (line, n) in note["unscored"].items():
            first, n_before = self._unscored.get(problem, (self.n_pairs + line, 0))
            self._unscored[problem] = (first, n_before + n)
        self.n_pairs += note["pairs"]
        self.n_scored += note["scored"]
        self.n_tokens += note["tokens"]
        self.log_prob += note["log_prob"]
        self._n_long += note["long"]

    def report(self, max_src_tokens: int) -> None:
        """Log the totals, after warnings about pairs that were not scored or that `translate` would split."""
        for problem, (line, n) in self._unscored.items():
            log.warning(f"{n:,} of {counted(self.n_pairs, 'pair')} not scored: {problem} (first: line {line:,})")
        if self._n_long:
            log.warning(
                f"{self._n_long:,} of {self.n_pairs:,} sources have more than decode.max_src_tokens={max_src_tokens} "
                "tokens: scored as a whole, but `mtkit translate` splits such lines"
            )
        if not self.n_scored:
            log.info(f"{counted(self.n_pairs, 'pair')}, none scored")
            return
        mean = self.log_prob / self.n_tokens
        log.info(
            f"{self.n_scored:,} of {counted(self.n_pairs, 'pair')} scored: {self.n_tokens:,} target tokens, "
            f"log-probability {self.log_prob:.2f}, {mean:.4f} per token, perplexity {perplexity(mean):.3f}"
        )

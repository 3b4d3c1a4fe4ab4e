"""Find the pairs of corpora that a model finds least likely: often noise, or text that it has not learned."""

import heapq
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from mtkit.bundle import Bundle
from mtkit.config.data import CorpusFiles
from mtkit.engines.native import NativeEngine
from mtkit.inspection.corpus_choice import Skipped, windows_of
from mtkit.pair_files.pairs import Pair
from mtkit.scoring.scoring import PairScore, Scorer
from mtkit.translation.translator import Translator


@dataclass(frozen=True)
class OwnTranslation:
    """The model's translation of a pair's source."""

    text: str
    nats_per_token: float


@dataclass(frozen=True)
class HardPair:
    """A pair and the model's loss on its target."""

    pair: Pair
    tag: str | None  # of its corpus
    nats_per_token: float  # -log-probability per target token, EOS counted
    n_tokens: int  # target tokens, EOS counted
    worst_piece: str  # the least likely target token
    worst_nats: float
    own: OwnTranslation | None = None


@dataclass(frozen=True)
class Ranking:
    """The pairs with the highest loss, highest first, and the distribution over all pairs."""

    hardest: list[HardPair]
    n_pairs: int  # read
    n_scored: int
    nats_per_token: float  # of all scored pairs together; NaN, like the next two, if none was scored
    median: float  # of the pairs' nats per token
    percentile_99: float
    skipped: Skipped


def rank_pairs(
    bundle: Bundle, corpora: Sequence[CorpusFiles], top: int, *, device: torch.device, sample: int | None = None
) -> Ranking:
    """Score every pair, or an evenly spaced sample, and return those with the highest mean loss per target token.

    The model reads each corpus' tag as in training. Memory holds the `top` pairs and one float for every pair. Of equal
    losses the earlier pair comes first.
    """
    model = bundle.model.to(device)
    losses, skipped = array("f"), Skipped()
    n_pairs = n_tokens = 0
    log_prob = 0.0
    best: list[tuple[float, int, HardPair]] = []  # a heap, the least loss on top
    for corpus, window in windows_of(corpora, "scoring", sample):
        scorer = Scorer(model, bundle.src_tokenizer.tagged(corpus.tag), bundle.tgt_tokenizer)
        for pair, score in zip(window, scorer.score([(pair.src, pair.tgt) for pair in window]), strict=True):
            n_pairs += 1
            if score.problem is not None:
                skipped.add(score.problem, pair)
                continue
            losses.append(-score.mean)
            n_tokens += score.n_tokens
            log_prob += score.log_prob
            entry = -score.mean, -n_pairs
            if len(best) < top or entry > best[0][:2]:
                push = heapq.heappush if len(best) < top else heapq.heapreplace
                push(best, (*entry, _hard_pair(pair, corpus.tag, score)))
    values = np.frombuffer(losses, np.float32)
    median, high = np.quantile(values, [0.5, 0.99]).tolist() if len(values) else (np.nan, np.nan)
    mean = -log_prob / n_tokens if n_tokens else np.nan
    hardest = [entry[2] for entry in sorted(best, key=lambda entry: entry[:2], reverse=True)]
    return Ranking(hardest, n_pairs, len(values), mean, median, high, skipped)


def _hard_pair(pair: Pair, tag: str | None, score: PairScore) -> HardPair:
    worst, piece = min(zip(score.log_probs, score.pieces, strict=True))
    return HardPair(pair, tag, -score.mean, score.n_tokens, piece, -worst)


def with_own_translations(bundle: Bundle, hardest: Sequence[HardPair], *, device: torch.device) -> list[HardPair]:
    """Return the same pairs in the same order, with the model's translations of their sources."""
    engine = NativeEngine([bundle.model], device)
    pairs = list(hardest)
    for tag in dict.fromkeys(hard.tag for hard in hardest):
        decode = bundle.config.decode.model_copy(update={"tag": tag, "on_suspect": "off", "sampling": False})
        translator = Translator(engine, bundle.src_tokenizer, bundle.tgt_tokenizer, decode)
        indices = [index for index, hard in enumerate(hardest) if hard.tag == tag]
        translations = translator.stream([hardest[index].pair.src for index in indices])
        for index, translation in zip(indices, translations, strict=True):
            best = translation.n_best[0]
            own = OwnTranslation(best.text, -best.log_prob / (len(best.ids) + best.finished))
            pairs[index] = replace(pairs[index], own=own)
    return pairs

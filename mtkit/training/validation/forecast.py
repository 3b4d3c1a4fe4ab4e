"""Forecast, with an untrained model, how long a validation of the trained model will take."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from mtkit.config.decoding import DecodeConfig
from mtkit.data.batching import Indices, make_batch
from mtkit.data.encoded import EncodedCorpus
from mtkit.engines.native import NativeEngine
from mtkit.evaluation.metrics.scores import corpus_bleu, corpus_chrf
from mtkit.model.network import Network
from mtkit.model.transformer import Transformer
from mtkit.runtime import Precision
from mtkit.search.beam import search
from mtkit.search.hypothesis import Segment
from mtkit.search.step import DecodeStep, SearchConfig
from mtkit.tokens.special_ids import BOS_ID, EOS_ID
from mtkit.training.update.optimizer_step import batch_loss
from mtkit.training.validation.translation import TranslationValidator

# A beam search continues after its best hypothesis has ended, until no other can overtake it.
_STEPS_AFTER_END = 3


@dataclass(frozen=True)
class ValidationCost:
    """The time of a validation, in seconds."""

    fixed: float  # the loss on all of dev, and the behaviour checks
    sentence: float  # to translate and score one sentence

    def seconds(self, n_sentences: int) -> float:
        """Return the seconds of a validation that translates this many sentences."""
        return self.fixed + self.sentence * n_sentences

    @classmethod
    def of_several(cls, costs: Sequence["ValidationCost"], n_sentences: Sequence[int]) -> Self:
        """Return the total cost of validations on several dev sets; n_sentences: sentences to translate of each."""
        each = sum(cost.sentence * n for cost, n in zip(costs, n_sentences, strict=True)) / max(1, sum(n_sentences))
        return cls(sum(cost.fixed for cost in costs), each)

    def most_sentences(self, seconds: float) -> int:
        """Return how many sentences a validation can translate in this many seconds."""
        return int((seconds - self.fixed) / self.sentence) if self.sentence else 10**9


def forecast_validation(validator: TranslationValidator, model: Network, limit_s: float) -> ValidationCost:
    """Forecast a validation of the trained model; measuring takes about limit_s.

    An untrained model translates up to the length limit. Here each translation is as long as its reference, like the
    translations of a trained model on average.
    """
    was_training = model.training
    model.eval()
    with torch.no_grad():
        loss_s = forecast_loss(validator.corpus, validator.plan, validator.precision, model, limit_s / 4)
        decoding_s = _forecast_decoding(validator, model, limit_s / 2)
    model.train(was_training)
    n_pairs, n_checked = len(validator.pairs), len(validator.suite.sources) if validator.suite else 0
    a_line = decoding_s / max(1, n_pairs + n_checked)
    scoring_s = _forecast_scoring(validator)
    return ValidationCost(loss_s + a_line * n_checked, a_line + scoring_s / max(1, n_pairs))


def forecast_loss(
    corpus: EncodedCorpus, plan: Sequence[Indices], precision: Precision, model: Network, limit_s: float
) -> float:
    """Return the seconds that the loss on all of dev will take; measuring takes about limit_s."""
    batches = [make_batch(corpus, indices) for indices in plan]

    def run(index: int) -> None:
        with torch.no_grad():
            batch_loss(model, batches[index], 0.0, precision)[1].item()

    return _extrapolated(run, [batch.src.numel() + batch.tgt_in.numel() for batch in batches], limit_s)


def _forecast_decoding(validator: TranslationValidator, model: Network, limit_s: float) -> float:
    cfg = validator.cfg.decode
    src_tokenizer, tgt_tokenizer = validator.tokenizers
    further = validator.suite.sources if validator.suite else []  # with translations of about the same length
    src_texts = [*(pair.src for pair in validator.pairs), *further]
    sources = src_tokenizer.tagged(validator.tag).encode_batch(src_texts)
    lengths = [len(ids) for ids in tgt_tokenizer.encode_batch([*validator.references, *further])]
    positions = model.cfg.max_positions if model.cfg.positions == "learned" else 10**9
    segments = [
        Segment(ids[: positions - 1], min(length + 1 + _STEPS_AFTER_END, positions))
        for ids, length in zip(sources, lengths, strict=True)
        if ids
    ]
    batches = _batches(segments, cfg)
    assert isinstance(model, Transformer)
    engine = NativeEngine([model], next(model.parameters()).device)
    beam_size = cfg.mbr_samples or cfg.beam_size
    search_cfg = SearchConfig.from_config(cfg.model_copy(update={"beam_size": beam_size, "beam_groups": 1}), 1)

    def run(index: int) -> None:
        batch = batches[index]
        step = _NeverEnding(engine.make_step(batch, beam_size))
        max_lens = torch.tensor([segment.max_len for segment in batch], device=engine.device)
        search(step, max_lens, search_cfg, bos_id=BOS_ID, eos_id=EOS_ID)

    return _extrapolated(run, [len(batch) * max(segment.max_len for segment in batch) for batch in batches], limit_s)


def _forecast_scoring(validator: TranslationValidator) -> float:
    started = time.perf_counter()
    corpus_bleu(validator.references, validator.references, validator.settings)
    corpus_chrf(validator.references, validator.references)
    return time.perf_counter() - started


def _batches(segments: Sequence[Segment], cfg: DecodeConfig) -> list[list[Segment]]:
    """Group segments of similar length, as the engine does."""
    batches: list[list[Segment]] = []
    for segment in sorted(segments, key=lambda segment: len(segment.ids)):
        batch = batches[-1] if batches else []
        full = len(batch) == cfg.batch_sentences or (len(batch) + 1) * len(segment.ids) > cfg.batch_tokens
        if not batch or full:
            batches.append([segment])
        else:
            batch.append(segment)
    return batches


def _extrapolated(run: Callable[[int], None], sizes: Sequence[int], limit_s: float) -> float:
    """Return the seconds of run(0), ..., run(N - 1) together, from a sample that takes about limit_s.

    sizes (N,): how much work each is, in any unit. The first run, of the largest, does not count, because it includes
    one-time preparation.
    """
    if not sizes:
        return 0.0
    run(int(np.argmax(sizes)))
    started, done = time.perf_counter(), 0
    for index in np.random.default_rng(0).permutation(len(sizes)):
        run(int(index))
        done += sizes[index]
        if time.perf_counter() - started > limit_s:
            break
    return (time.perf_counter() - started) * sum(sizes) / done


class _NeverEnding:
    """A decoding step in which no hypothesis ends before its limit."""

    def __init__(self, step: DecodeStep) -> None:
        self.step = step

    def __call__(self, last_ids: Tensor) -> Tensor:
        """Like `DecodeStep`, with EOS impossible."""
        log_probs = self.step(last_ids)
        log_probs[..., EOS_ID] = -torch.inf
        return log_probs

    def attention(self) -> Tensor:
        """Like `DecodeStep`."""
        return self.step.attention()

    def reorder(self, parents: Tensor) -> None:
        """Like `DecodeStep`."""
        self.step.reorder(parents)

    def select(self, sentences: Tensor) -> None:
        """Like `DecodeStep`."""
        self.step.select(sentences)

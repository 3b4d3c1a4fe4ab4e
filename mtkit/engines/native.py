"""The PyTorch engine: it decodes batches of segments with one model or an ensemble."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TypedDict, TypeVar

import torch
from torch import Tensor

from mtkit.bundle import BundleFiles, load_model
from mtkit.config.decoding import DecodeConfig
from mtkit.console import counted, log
from mtkit.engines.shortlist import Shortlist, shortlist_of
from mtkit.engines.side_by_side import in_one_thread, in_threads
from mtkit.engines.steps import EnsembleStep, LocalVocabulary, ModelStep, ShortlistedStep
from mtkit.errors import MtkitError
from mtkit.model import ops
from mtkit.model.gpu.graphs import with_graphs
from mtkit.model.inference import Decoder
from mtkit.model.quantization import quantize, supported_precision
from mtkit.model.transformer import Transformer
from mtkit.runtime import (
    bound_kernel_stores,
    choose_device,
    is_out_of_memory,
    log_missing_loops,
    log_missing_numba,
    set_threads,
)
from mtkit.search.beam import BeamSearch, search
from mtkit.search.constrained import constrained_search
from mtkit.search.hypothesis import Hypothesis, Segment
from mtkit.search.rules import Rules, make_rules
from mtkit.search.sampling import Truncation, sample, uniform_numbers
from mtkit.search.step import DecodeStep, SearchConfig, SearchResult
from mtkit.search.substitution import Attention, Places, follow
from mtkit.tokens.special_ids import BOS_ID, EOS_ID, PAD_ID

# A choice won by less than this many nats might be lost in another batch: shapes decide how sums are rounded.
# Between batches, the log-probability of the same sentence differed by up to 4e-6 (measured).
_CLOSE_CALL = 1e-4
_KERNELS_KEPT = 128  # with 1,024, as by default, decoding 14,000 lines took a tenth more CPU time and 45 MB more
_MOST_CONSTRAINED = 16  # sentences in a batch: their search keeps the log-probabilities of all tokens
_LARGE_BATCH = 32  # sentences: worth a thread of its own
_NARROW = 256  # d_model up to which threads gain nothing by sharing a small batch (measured with 3 + 3 layers)

_T = TypeVar("_T")


class _Inputs(TypedDict):
    """The arguments that every search takes."""

    step: DecodeStep
    max_lens: Tensor
    rules: Rules
    bos_id: int
    eos_id: int


class NativeEngine:
    """An `Engine` over Transformers of one target vocabulary; several are an ensemble."""

    name = "native"

    def __init__(
        self,
        models: Sequence[Transformer],
        device: torch.device | str = "cpu",
        precision: str = "fp32",
        shortlist: Shortlist | None = None,
    ) -> None:
        """Move the models to the device, and decode with copies of them as they are now, prepared for inference.

        shortlist: for the first model's source tokens; used where decode.shortlist is set.
        """
        self.device = torch.device(device)
        self._originals = [model.to(self.device) for model in models]
        self.precision, compiled = precision, self._compiled(precision)
        if not compiled:
            self.precision = supported_precision(precision, self.device)
        if self.precision != precision:
            where = "CPU with these models and packages" if self.device.type == "cpu" else "GPU"
            log.warning(f"decode.precision={precision}: not fast on this {where}; using {self.precision}")
            compiled = self._compiled(self.precision)
        self._decoders: Sequence[Decoder] = compiled or self.models
        if self.device.type == "cuda":
            self._decoders = [with_graphs(model, log.warning) for model in self.models]
        self.shortlist = shortlist
        # Learned positions are limited; the other kinds are not.
        limits = [model.cfg.max_positions for model in models if model.cfg.positions == "learned"]
        self.max_positions = min(limits, default=None)

    def _compiled(self, precision: str) -> list[Decoder]:
        """Return compiled loops for the models in this precision; none if they do not support all of them."""
        decoders = [ops.decoder(model, precision) for model in self._originals]
        compiled = [decoder for decoder in decoders if decoder is not None]
        return compiled if len(compiled) == len(decoders) else []

    @cached_property
    def models(self) -> list[Transformer]:
        """The models, prepared for inference; made at the first use, because decoding may use something faster."""
        return [quantize(model, self.precision) for model in self._originals]

    @property
    def arithmetic(self) -> str:
        """See `Engine`."""
        return f"{self.precision} on {self.device.type}"

    def decode(
        self, segments: Sequence[Segment], cfg: DecodeConfig, n_best: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Decode segments of like length together; yield the n best of each as its batch is done.

        In fp32, if a decision of a sentence's search is within rounding error, decode the sentence again on its own,
        unless the model's rounding is the same in any batch: so its translation is.
        """
        rounds_by_batch = cfg.shortlist or any(decoder.rounds_by_batch for decoder in self._decoders)
        repeats = self.precision == "fp32" and rounds_by_batch

        def decoded(batch: list[int]) -> list[tuple[int, list[Hypothesis]]]:
            results = self._decode_batch([segments[index] for index in batch], cfg, n_best)
            for place, index in enumerate(batch):
                if repeats and len(batch) > 1 and results[place].margin < _CLOSE_CALL:
                    [results[place]] = self._decode_batch([segments[index]], cfg, n_best)
            return [(index, result.n_best) for index, result in zip(batch, results, strict=True)]

        with self._without_dropout():
            for some in self._side_by_side(decoded, list(_batches(segments, cfg, alone=repeats))):
                yield from some

    def _side_by_side(self, work: Callable[[list[int]], _T], batches: list[list[int]]) -> Iterator[_T]:
        """Yield work(batch) of each batch as it is done; on a CPU, each of torch's threads works on a batch of its own.

        Threads that share a batch wait for each other after every operation, which takes long beside other programs.
        Small batches run one after the other: their operations are so short that Python, which runs in one thread at a
        time, would hold the others up. Threads share each of them only in a wide model.
        """
        on_cpu = self.device.type == "cpu"
        n_at_once = min(torch.get_num_threads(), len(batches)) if on_cpu else 1
        if n_at_once > 1 and sum(map(len, batches)) >= _LARGE_BATCH * len(batches):
            yield from in_threads(work, batches, n_at_once)
            return
        width = max(model.cfg.d_model for model in self._originals)
        alone = on_cpu and width <= _NARROW and all(len(batch) < _LARGE_BATCH for batch in batches)
        yield from map(in_one_thread(work) if alone else work, batches)

    @contextmanager
    def _without_dropout(self) -> Iterator[None]:
        in_training = [model for model in self._originals if model.training]
        for model in in_training:
            model.eval()
        try:
            yield
        finally:
            for model in in_training:
                model.train()

    # Not inference_mode: tables that the model makes on the way, such as longer positions, stay usable in training.
    @torch.no_grad()
    def stream(self, segment: Segment, cfg: DecodeConfig) -> Iterator[list[Hypothesis]]:
        """Yield the candidates for the translation after each token, and the translation alone at the end.

        Constraints are ignored. Raises MtkitError for decode.sampling.
        """
        if cfg.sampling:
            raise MtkitError("decode.sampling=true: only a search can stream tokens; remove decode.sampling")
        with self._without_dropout():
            vocabulary = self._local_vocabulary([segment], cfg)
            beams = BeamSearch(**self._inputs([segment], cfg, vocabulary), cfg=SearchConfig.from_config(cfg, 1))
            while beams.sentences:
                beams.advance()
                yield _globalize(beams.contenders(), vocabulary)
            [result] = beams.results()
            yield _globalize(result.n_best, vocabulary)

    @torch.no_grad()
    def _decode_batch(self, segments: Sequence[Segment], cfg: DecodeConfig, n_best: int) -> list[SearchResult]:
        try:
            return self._search(segments, cfg, n_best)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            longest = max(len(segment.ids) for segment in segments) + 1
            raise MtkitError(
                f"{self.device}: not enough memory for a batch of {counted(len(segments), 'sentence')} of up to "
                f"{longest} tokens; lower decode.batch_sentences={cfg.batch_sentences}, "
                f"decode.batch_tokens={cfg.batch_tokens} or decode.beam_size={cfg.beam_size}"
            ) from error

    def _search(self, segments: Sequence[Segment], cfg: DecodeConfig, n_best: int) -> list[SearchResult]:
        if cfg.draws:
            cfg = cfg.model_copy(update={"beam_size": n_best, "beam_groups": 1})
        elif any(segment.constraints for segment in segments):
            return self._constrained(segments, cfg, n_best)
        vocabulary = self._local_vocabulary(segments, cfg)
        inputs = self._inputs(segments, cfg, vocabulary)
        search_cfg = SearchConfig.from_config(cfg, n_best)
        if cfg.draws:
            uniforms = uniform_numbers(
                cfg.seed, [segment.ids for segment in segments], n_best, [segment.max_len for segment in segments]
            )
            if self.device.type == "mps":  # which has no float64
                uniforms = uniforms.float()
            uniforms = uniforms.to(self.device)
            results = sample(**inputs, cfg=search_cfg, truncation=Truncation.from_config(cfg), uniforms=uniforms)
        else:
            results = search(**inputs, cfg=search_cfg)
        return [SearchResult(_globalize(result.n_best, vocabulary), result.margin) for result in results]

    def _constrained(self, segments: Sequence[Segment], cfg: DecodeConfig, n_best: int) -> list[SearchResult]:
        """Put the phrases of each segment with a draft into it; search with constraints where that is not enough."""
        search_cfg = SearchConfig.from_config(cfg, n_best)
        places = self._places(segments)
        substituted = self._substituted(segments, places, search_cfg)
        found: dict[int, list[Hypothesis]] = {i: [] for i, place in places.items() if place.settles(substituted.get(i))}
        searched = [index for index in range(len(segments)) if index not in found]
        if searched:
            shorter = [
                replace(segment, max_len=min(segment.max_len, places[index].limit)) if index in places else segment
                for index, segment in enumerate(segments)
                if index in searched
            ]
            constraints = [segment.constraints for segment in shorter]
            inputs = self._inputs(shorter, cfg, None)
            results = constrained_search(**inputs, cfg=search_cfg, constraints=constraints)
            found |= {index: result.n_best for index, result in zip(searched, results, strict=True)}
        margin = math.inf if len(segments) == 1 else 0.0
        return [
            SearchResult(places[i].ranked(found[i], substituted.get(i)) if i in places else found[i], margin)
            for i in range(len(segments))
        ]

    def _places(self, segments: Sequence[Segment]) -> dict[int, Places]:
        """Return the places of the required phrases in each segment's draft, by index; only where it has both."""
        drafts = {
            index: segment.constraints
            for index, segment in enumerate(segments)
            if segment.constraints and segment.constraints.draft and segment.constraints.required
        }
        followed = self._follow([segments[index] for index in drafts], [c.draft or () for c in drafts.values()])
        return {i: Places(drafts[i], *result) for i, result in zip(drafts, followed, strict=True)}

    def _substituted(
        self, segments: Sequence[Segment], places: Mapping[int, Places], cfg: SearchConfig
    ) -> dict[int, Hypothesis]:
        """Return the drafts with phrases in their places, where they fit; around them, they are as likely as before."""
        put = {index: ids for index, place in places.items() if (ids := place.substituted()) is not None}
        put = {index: ids for index, ids in put.items() if len(ids) < segments[index].max_len}
        followed = self._follow([segments[index] for index in put], list(put.values()))
        return {
            i: Hypothesis(put[i], log_prob, log_prob / cfg.divisor(len(put[i]) + 1), True, places[i].draft_log_prob)
            for i, (log_prob, _) in zip(put, followed, strict=True)
        }

    def _follow(
        self, segments: Sequence[Segment], translations: Sequence[Sequence[int]]
    ) -> list[tuple[float, Attention]]:
        if not segments:
            return []
        step = self.make_step(segments, 1, attention=True)
        return follow(step, translations, bos_id=BOS_ID, eos_id=EOS_ID, device=self.device)

    def _local_vocabulary(self, segments: Sequence[Segment], cfg: DecodeConfig) -> LocalVocabulary | None:
        """Return the tokens that the shortlist allows for these segments; None for all."""
        # a required phrase may be on no list
        if self.shortlist is None or not cfg.shortlist or any(segment.constraints for segment in segments):
            return None
        return LocalVocabulary.from_shortlist(self.shortlist, segments, self.device)

    def _inputs(self, segments: Sequence[Segment], cfg: DecodeConfig, vocabulary: LocalVocabulary | None) -> _Inputs:
        phrases = [r for segment in segments if segment.constraints for r in segment.constraints.required]
        attention = (cfg.coverage_penalty > 0 or any(r.src_positions for r in phrases)) and not cfg.draws
        step = self.make_step(segments, cfg.beam_size, attention=attention, vocabulary=vocabulary)
        if vocabulary is not None:
            segments = vocabulary.localize(segments)
        max_lens = torch.tensor([segment.max_len for segment in segments], device=self.device)
        rules = make_rules(cfg, segments, EOS_ID, self.device)
        return _Inputs(step=step, max_lens=max_lens, rules=rules, bos_id=BOS_ID, eos_id=EOS_ID)

    def make_step(
        self,
        segments: Sequence[Segment],
        beam_size: int,
        *,
        attention: bool = False,
        vocabulary: LocalVocabulary | None = None,
    ) -> DecodeStep:
        """Return the step of a search over these segments; with a vocabulary, over its tokens only."""
        steps: list[DecodeStep] = []
        for member, model in enumerate(self._decoders):
            src = pad([[*segment.src(member), EOS_ID] for segment in segments]).to(self.device)
            with_attention = attention and not steps
            if vocabulary is None:
                steps.append(ModelStep(model, src, beam_size, attention=with_attention))
            else:
                steps.append(ShortlistedStep(model, src, beam_size, vocabulary, attention=with_attention))
        return steps[0] if len(steps) == 1 else EnsembleStep(steps)


def native_engine(
    members: Sequence[BundleFiles], decode: DecodeConfig, device: str, threads: int | None
) -> NativeEngine:
    """Return the engine over the members' models; more than one are an ensemble."""
    if threads is not None:
        set_threads(threads)
    # A step of the search has a size of its own whenever sentences have left the batch: most kernels never serve again.
    bound_kernel_stores(torch.get_num_threads(), _KERNELS_KEPT)
    shortlist = shortlist_of(members[0]) if decode.shortlist else None
    chosen = choose_device(device)
    precision = decode.exact_precision
    if chosen.type == "cpu" and precision != "bf16":
        log_missing_numba("the translation of a single sentence about five times as fast")
        log_missing_loops(members[0].config.model.without_loops)
    return NativeEngine([load_model(files) for files in members], chosen, precision, shortlist)


def _globalize(hypotheses: list[Hypothesis], vocabulary: LocalVocabulary | None) -> list[Hypothesis]:
    return hypotheses if vocabulary is None else vocabulary.globalize(hypotheses)


def _batches(segments: Sequence[Segment], cfg: DecodeConfig, *, alone: bool) -> Iterator[list[int]]:
    """Yield indices of segments to decode together: of like length, within decode.batch_*; constrained ones apart.

    alone: each constrained one by itself, because its search does not notice that rounding decides it.
    """
    by_length = sorted(range(len(segments)), key=lambda index: len(segments[index].ids))
    for constrained in (False, True):
        batch: list[int] = []
        most = cfg.batch_sentences if not constrained else 1 if alone else min(_MOST_CONSTRAINED, cfg.batch_sentences)
        for index in by_length:
            if (segments[index].constraints is not None) != constrained:
                continue
            if len(batch) == most or (1 + len(batch)) * len(segments[index].ids) > cfg.batch_tokens:
                if batch:
                    yield batch
                batch = []
            batch.append(index)
        if batch:
            yield batch


def pad(sequences: Sequence[Sequence[int]]) -> Tensor:
    """Return sequences of ids as one tensor (B, longest), with PAD on the right."""
    longest = max(map(len, sequences))
    return torch.tensor([[*ids, *[PAD_ID] * (longest - len(ids))] for ids in sequences])

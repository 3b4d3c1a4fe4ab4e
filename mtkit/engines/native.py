"""The engine in PyTorch: batches of segments through one model, or several at once, and a search."""

from collections.abc import Iterator, Sequence
from typing import TypedDict

import torch
from torch import Tensor

from mtkit.bundle import BundleFiles, load_model
from mtkit.config.schema import DecodeConfig
from mtkit.data.special_ids import BOS_ID, EOS_ID, PAD_ID
from mtkit.engines.shortlist import Shortlist, shortlist_of
from mtkit.engines.shortlisted import LocalVocabulary, ShortlistedStep
from mtkit.engines.steps import EnsembleStep, ModelStep
from mtkit.errors import MtkitError
from mtkit.model.quantization import quantize, supported_precision
from mtkit.model.transformer import Transformer
from mtkit.runtime import choose_device, is_out_of_memory, set_threads
from mtkit.search.beam import Watch, beam_search, search
from mtkit.search.hypothesis import Hypothesis, Segment
from mtkit.search.rules import make_rules
from mtkit.search.sampling import Truncation, sample, uniform_numbers
from mtkit.search.step import DecodeStep, SearchConfig, SearchResult

# A choice won by less than this many nats could have been lost in another batch: shapes decide how sums are rounded.
# The log-probability of one and the same sentence was seen to differ by up to 4e-6 between batches.
_CLOSE_CALL = 1e-4


class _Ends(TypedDict):
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
        """Moves the models to the device, and works on copies of them as they are now, made for inference.

        shortlist: for the first model's source tokens; looked at where decode.shortlist says so.
        """
        self.device = torch.device(device)
        self.models = [quantize(model.to(self.device), precision) for model in models]
        self.precision = supported_precision(precision, self.device)
        self.shortlist = shortlist
        # Learned positions end; the other kinds go on for ever.
        limits = [model.cfg.max_positions for model in models if model.cfg.positions == "learned"]
        self.max_positions = min(limits, default=None)

    @property
    def arithmetic(self) -> str:
        """See `Engine`."""
        return f"{self.precision} on {self.device.type}"

    def decode(
        self, segments: Sequence[Segment], cfg: DecodeConfig, n_best: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Segments of like length share a batch; the n best of each as its batch is done.

        In fp32 a sentence whose search was decided by less than rounding errors is searched once more, alone: so its
        translation is the same in any batch.
        """
        in_training = [model for model in self.models if model.training]
        for model in in_training:
            model.eval()
        try:
            for numbers in _batches(segments, cfg):
                results = self._batch([segments[number] for number in numbers], cfg, n_best)
                for number, result in zip(numbers, results, strict=True):
                    if result.margin < _CLOSE_CALL and self.precision == "fp32" and len(numbers) > 1:
                        [result] = self._batch([segments[number]], cfg, n_best)
                    yield number, result.n_best
        finally:
            for model in in_training:
                model.train()

    # Not inference_mode: tables that the model makes on the way, such as longer positions, stay usable in training.
    @torch.no_grad()
    def _batch(self, segments: Sequence[Segment], cfg: DecodeConfig, n_best: int) -> list[SearchResult]:
        try:
            return self._search(segments, cfg, n_best)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            longest = max(len(segment.ids) for segment in segments) + 1
            raise MtkitError(
                f"{self.device}: the memory does not hold a batch of {len(segments)} sentences of up to {longest} "
                f"tokens; lower decode.batch_sentences={cfg.batch_sentences}, "
                f"decode.batch_tokens={cfg.batch_tokens} or decode.beam_size={cfg.beam_size}"
            ) from error

    def _search(self, segments: Sequence[Segment], cfg: DecodeConfig, n_best: int) -> list[SearchResult]:
        if any(segment.constraints for segment in segments):
            from mtkit.search.constrained import beam_size_for

            wider = beam_size_for([segment.constraints for segment in segments], cfg.beam_size)
            cfg = cfg.model_copy(update={"beam_size": wider})
        width = n_best if cfg.sampling else cfg.beam_size
        attention = cfg.coverage_penalty > 0 and not cfg.sampling
        vocabulary = self._local_vocabulary(segments, cfg)
        step = self.make_step(segments, width, attention=attention, vocabulary=vocabulary)
        if vocabulary is None:
            return self._found(step, segments, cfg, n_best)
        return vocabulary.globalize(self._found(step, vocabulary.localize(segments), cfg, n_best))

    def _local_vocabulary(self, segments: Sequence[Segment], cfg: DecodeConfig) -> LocalVocabulary | None:
        """The tokens that the shortlist leaves to these segments; None: all."""
        # what a constraint demands may be on no list
        if self.shortlist is None or not cfg.shortlist or any(segment.constraints for segment in segments):
            return None
        return LocalVocabulary.of(self.shortlist, segments, self.device)

    def _found(
        self, step: DecodeStep, segments: Sequence[Segment], cfg: DecodeConfig, n_best: int
    ) -> list[SearchResult]:
        limits = [segment.max_len for segment in segments]
        max_lens = torch.tensor(limits, device=self.device)
        rules = make_rules(cfg, segments, EOS_ID, self.device)
        ends = _Ends(bos_id=BOS_ID, eos_id=EOS_ID)
        if cfg.sampling:
            search_cfg = SearchConfig.from_config(
                cfg.model_copy(update={"beam_size": n_best, "beam_groups": 1}), n_best
            )
            numbers = uniform_numbers(cfg.seed, [segment.ids for segment in segments], n_best, limits)
            if self.device.type == "mps":  # which has no float64
                numbers = numbers.float()
            numbers = numbers.to(self.device)
            return sample(step, max_lens, search_cfg, Truncation.from_config(cfg), numbers, **ends, rules=rules)
        search_cfg = SearchConfig.from_config(cfg, n_best)
        constraints = [segment.constraints for segment in segments]
        if any(constraints):
            from mtkit.search.constrained import constrained_search

            return constrained_search(step, max_lens, search_cfg, constraints, **ends, rules=rules)
        return search(step, max_lens, search_cfg, **ends, rules=rules)

    @torch.no_grad()
    def watch(self, segment: Segment, cfg: DecodeConfig, watch: Watch) -> Hypothesis:
        """The segment's best hypothesis; at each step `watch` is told all that may still become it.

        Not for sampling and constraints. Raises MtkitError if the config asks for sampling.
        """
        if cfg.sampling:
            raise MtkitError("decode.sampling=true: tokens are streamed from a search only; leave sampling out")
        vocabulary = self._local_vocabulary([segment], cfg)
        step = self.make_step([segment], cfg.beam_size, attention=cfg.coverage_penalty > 0, vocabulary=vocabulary)
        if vocabulary is not None:
            [segment] = vocabulary.localize([segment])
            watch = vocabulary.globalized(watch)
        limit = torch.tensor([segment.max_len], device=self.device)
        rules = make_rules(cfg, [segment], EOS_ID, self.device)
        ends = _Ends(bos_id=BOS_ID, eos_id=EOS_ID)
        [result] = beam_search(step, limit, SearchConfig.from_config(cfg, 1), **ends, rules=rules, watch=watch)
        if vocabulary is not None:
            [result] = vocabulary.globalize([result])
        return result.n_best[0]

    def make_step(
        self,
        segments: Sequence[Segment],
        beam_size: int,
        *,
        attention: bool = False,
        vocabulary: LocalVocabulary | None = None,
    ) -> DecodeStep:
        """What a search over these segments asks for its log-probabilities; with a vocabulary, of its tokens only."""
        steps: list[DecodeStep] = []
        for member, model in enumerate(self.models):
            src = pad([[*segment.src(member), EOS_ID] for segment in segments]).to(self.device)
            looked_at = attention and not steps
            if vocabulary is None:
                steps.append(ModelStep(model, src, beam_size, attention=looked_at))
            else:
                steps.append(ShortlistedStep(model, src, beam_size, vocabulary, attention=looked_at))
        return steps[0] if len(steps) == 1 else EnsembleStep(steps)


def native_engine(
    members: Sequence[BundleFiles], decode: DecodeConfig, device: str, threads: int | None
) -> NativeEngine:
    """Return the engine over the members' models; more than one are an ensemble."""
    if threads is not None:
        set_threads(threads)
    shortlist = shortlist_of(members[0]) if decode.shortlist else None
    return NativeEngine([load_model(files) for files in members], choose_device(device), decode.precision, shortlist)


def _batches(segments: Sequence[Segment], cfg: DecodeConfig) -> Iterator[list[int]]:
    """Numbers of segments that are decoded together: of like length, within decode.batch_*; constrained ones alone."""
    by_length = sorted(range(len(segments)), key=lambda number: len(segments[number].ids))
    batch: list[int] = []
    for number in by_length:
        if segments[number].constraints is not None:
            yield [number]
            continue
        if len(batch) == cfg.batch_sentences or (1 + len(batch)) * len(segments[number].ids) > cfg.batch_tokens:
            if batch:
                yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def pad(sequences: Sequence[Sequence[int]]) -> Tensor:
    """Sequences of ids as one tensor (B, longest), PAD on the right."""
    longest = max(map(len, sequences))
    return torch.tensor([[*ids, *[PAD_ID] * (longest - len(ids))] for ids in sequences])

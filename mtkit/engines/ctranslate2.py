"""The CTranslate2 engine, which decodes with an exported model and without torch.

CTranslate2 searches, but each sentence has its own length limit, and hypotheses rank as in the native engine.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from mtkit.config.decoding import DecodeConfig
from mtkit.cores import usable_cores
from mtkit.errors import BundleError, MtkitError
from mtkit.files import parse_json
from mtkit.pair_files.lines import windows
from mtkit.search.hypothesis import Hypothesis, Segment, length_divisor
from mtkit.tokens.special_ids import BOS_ID, EOS_ID, PAD_ID

ABOUT = "export.json"  # beside CTranslate2's files: facts about the model that these do not hold
# The search ends at this x beam_size finished hypotheses (Kasai et al. 2022), and returns as many. In float32, 2 misses
# none that the native search finds, and the unfinished ones of a search that hit its limit displace none. With
# quantised weights, 1 is a quarter faster and changes 0.3 % of the translations; quantisation itself changes 3 %.
_PATIENCE, _PATIENCE_QUANTISED = 2, 1
_NO_LENGTH_PENALTY = 1e-30  # length^alpha is exactly 1; with 0, CTranslate2 would stop by another rule
_RULED_OUT = -1e9  # it gives -1e10 to a hypothesis that a forced prefix rules out


def quantization_of(folder: Path) -> str:
    """Return the number format of an exported model's weights, such as float32 or int8."""
    return str(_read_json(folder / ABOUT)["quantization"])


def ctranslate2_library() -> Any:
    """Return the library, set to log only errors; raise MtkitError with the install command if it is missing."""
    try:
        import ctranslate2
    except ImportError:
        raise MtkitError("the package ctranslate2 is not installed; pip install 'mtkit[fast]'") from None

    ctranslate2.set_log_level(logging.ERROR)
    return ctranslate2


def unsupported(cfg: DecodeConfig, device: str = "auto") -> list[str]:
    """Return the options in use that this engine lacks, as decode.KEY=VALUE.

    The export fixes the precision, and there is one process. What the engine has, it does as the native engine does.
    If a rule forbids tokens, CTranslate2 makes the others likelier: this changes nothing in greedy search, but would
    change which hypotheses survive in a beam.
    """
    lacks = {
        "coverage_penalty": cfg.coverage_penalty > 0,
        "repetition_penalty": cfg.repetition_penalty != 1,
        "beam_groups": cfg.beam_groups > 1,
        "sampling": cfg.sampling,
        "mbr_samples": cfg.mbr_samples > 0,
        "terminology": cfg.terminology is not None,
        "shortlist": cfg.shortlist,
        "precision": cfg.exact_precision != "fp32",
        "workers": cfg.workers > 1,
    }
    lacks_in_a_beam = {
        "min_len": cfg.min_len > 0,
        "min_len_factor": cfg.min_len_factor > 0,
        "no_repeat_ngram": cfg.no_repeat_ngram > 0,
    }
    reasons = [f"decode.{key}={getattr(cfg, key)}" for key, is_used in lacks.items() if is_used]
    if cfg.beam_size > 1:
        reasons += [
            f"decode.{key}={getattr(cfg, key)} with decode.beam_size={cfg.beam_size}"
            for key, is_used in lacks_in_a_beam.items()
            if is_used
        ]
    kind = device.partition(":")[0]
    if kind == "mps" or (kind == "cuda" and not ctranslate2_library().get_cuda_device_count()):
        reasons.append(f"device={device}")
    return reasons


@dataclass(frozen=True)
class _Request:
    """The settings of the search for a segment."""

    index: int  # of the segment
    exact_limit: bool = False  # end at the segment's own limit, not at its batch's
    only_words: bool = False  # never PAD or BOS


class CTranslate2Engine:
    """An `Engine` over a model folder written by `mtkit export --to ctranslate2`."""

    name = "ctranslate2"

    def __init__(
        self,
        folder: Path,
        device: str = "auto",
        threads: int | None = None,
        compute_type: str = "default",
        language_id: int | None = None,
    ) -> None:
        """Load the model.

        threads: batches to decode side by side on the CPU, a core each; by default one per usable core.
        compute_type: of CTranslate2's multiplications; by default that of the weights if the device has it.
        language_id: the token of the target language, for a model whose decoder reads it after the end of a sentence.
        Raises BundleError if the folder has no such model, MtkitError for a device that CTranslate2 does not support.
        """
        library = ctranslate2_library()
        about = _read_json(folder / ABOUT)
        self.max_positions: int | None = about["max_positions"]
        self.quantization: str = about["quantization"]
        self._patience = _PATIENCE if self.quantization == "float32" else _PATIENCE_QUANTISED
        self._src_pieces, self._tgt_pieces = (_read_vocabulary(folder, side) for side in ("source", "target"))
        self._tgt_ids = {piece: token_id for token_id, piece in enumerate(self._tgt_pieces)}
        # CTranslate2 forces the token of the language, and its scores are without it; such models expect </s> from us
        self._first = [] if language_id is None else [self._tgt_pieces[language_id]]
        self._src_end = [] if language_id is None else [self._src_pieces[EOS_ID]]
        kind, index = _device(library, device)
        try:
            self._translator = library.Translator(
                str(folder),
                kind,
                device_index=index,
                compute_type=compute_type,
                inter_threads=threads or usable_cores(),
                intra_threads=1,
            )
        except (RuntimeError, ValueError) as error:
            raise BundleError(f"{folder}: CTranslate2 cannot load this model ({error}); export it again") from None

    @property
    def computes_in(self) -> str:
        """The type of its multiplications on this device; the weights may be stored in another type."""
        return str(self._translator.compute_type)

    @property
    def arithmetic(self) -> str:
        """See `Engine`."""
        return f"{self.computes_in} on {self._translator.device}"

    def decode(
        self, segments: Sequence[Segment], cfg: DecodeConfig, n_best: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Decode segments of like length together; yield the index and the n best of each as its batch is done.

        A call of CTranslate2 has one length limit, so a batch gets the highest of its sentences, and the few
        sentences that exceed their own are searched again: so a translation does not depend on its batch.
        No search of CTranslate2 can force a token: of the hypotheses that it finds, those with each token of a
        segment's `once` come first.
        """
        reasons = unsupported(cfg)
        if any(segment.constraints is not None for segment in segments):
            reasons.append("phrases that must, or must not, appear")
        if reasons:
            raise MtkitError(f"the ctranslate2 engine does not support {'; '.join(reasons)}; use decode.engine=native")
        # room for EOS, as in the native engine: if the limit is below the least length, the limit holds
        segments = [replace(segment, min_len=min(segment.min_len, segment.max_len - 1)) for segment in segments]
        requests = [_Request(index) for index in range(len(segments))]
        while requests:
            repeated: list[_Request] = []
            for request, hypotheses in self._search(segments, requests, cfg):
                stricter = _stricter(request, hypotheses, segments[request.index])
                if stricter is not None:
                    repeated.append(stricter)
                else:
                    segment, ranked = segments[request.index], _ranked(hypotheses)
                    whole = [hypothesis for hypothesis in ranked if segment.has_each_once(hypothesis.ids)]
                    others = [hypothesis for hypothesis in ranked if not segment.has_each_once(hypothesis.ids)]
                    yield request.index, [*whole, *others][:n_best]
            requests = repeated

    def score(self, pairs: Sequence[tuple[Sequence[int], Hypothesis]], batch_sentences: int = 64) -> list[float]:
        """Return the model's log-probability (nats) of each hypothesis, with EOS if finished, given its source."""
        by_length = sorted(range(len(pairs)), key=lambda index: len(pairs[index][1].ids))
        log_probs = [0.0] * len(pairs)
        for indices in windows(by_length, batch_sentences):
            results = self._translator.score_batch(
                [self._src(pairs[index][0]) for index in indices],
                [self._tgt(pairs[index][1].ids) for index in indices],
                max_input_length=0,
            )
            n_first = len(self._first)
            for index, result in zip(indices, results, strict=True):
                hypothesis = pairs[index][1]
                n_tokens = len(hypothesis.ids) + hypothesis.finished
                log_probs[index] = float(sum(result.log_probs[n_first : n_first + n_tokens]))
        return log_probs

    def _search(
        self, segments: Sequence[Segment], requests: Iterable[_Request], cfg: DecodeConfig
    ) -> Iterator[tuple[_Request, list[Hypothesis]]]:
        """Yield each request's hypotheses; batches wait for each other only if all threads are busy."""
        batches = list(_batches(segments, requests, cfg))
        started = [self._start([segments[request.index] for request in batch], batch[0], cfg) for batch in batches]
        for batch, results in zip(batches, started, strict=True):
            for request, result in zip(batch, results, strict=True):
                hypotheses = self._hypotheses(result.result(), cfg)
                if _changes_log_probs(request, segments[request.index], cfg):
                    hypotheses = self._rescored(segments[request.index], hypotheses, cfg)
                yield request, hypotheses

    def _start(self, segments: Sequence[Segment], request: _Request, cfg: DecodeConfig) -> list[Any]:
        """Start to decode a batch of segments of the same kind."""
        max_len = max(segment.max_len for segment in segments)
        # a model of many languages never chooses BOS, whose token CTranslate2 may have to force
        never = [[self._tgt_pieces[token_id]] for token_id in ((PAD_ID,) if self._first else (PAD_ID, BOS_ID))]
        n_first, prefixes = len(self._first), [self._tgt(segment.prefix) for segment in segments]
        results: list[Any] = self._translator.translate_batch(
            [self._src(segment.ids) for segment in segments],
            prefixes if any(prefixes) else None,
            asynchronous=True,
            beam_size=cfg.beam_size,
            patience=self._patience,
            num_hypotheses=1 if cfg.beam_size == 1 else self._patience * cfg.beam_size,
            length_penalty=_NO_LENGTH_PENALTY,
            no_repeat_ngram_size=cfg.no_repeat_ngram,
            suppress_sequences=never if request.only_words else None,
            max_input_length=0,
            max_decoding_length=n_first + max_len,
            min_decoding_length=n_first + min(segments[0].min_len, max_len),
            return_end_token=True,
            return_scores=True,
        )
        return results

    def _src(self, ids: Sequence[int]) -> list[str]:
        return [*(self._src_pieces[token_id] for token_id in ids), *self._src_end]

    def _tgt(self, ids: Sequence[int]) -> list[str]:
        return [*self._first, *(self._tgt_pieces[token_id] for token_id in ids)]

    def _hypotheses(self, result: Any, cfg: DecodeConfig) -> list[Hypothesis]:
        hypotheses = []
        for tokens, log_prob in zip(result.hypotheses, result.scores, strict=True):
            if log_prob > _RULED_OUT:
                ids = [self._tgt_ids[token] for token in tokens[len(self._first) :]]
                finished = bool(ids) and ids[-1] == EOS_ID
                hypotheses.append(_hypothesis(ids[:-1] if finished else ids, log_prob, finished, cfg))
        if not hypotheses:
            raise MtkitError("the model's output is not a number (NaN): its weights are damaged, or training diverged")
        return hypotheses

    def _rescored(self, segment: Segment, hypotheses: list[Hypothesis], cfg: DecodeConfig) -> list[Hypothesis]:
        """Return the hypotheses with the log-probabilities that the model gives them without any rule."""
        if segment.prefix and self._may_end_after_prefix(segment, cfg.beam_size):
            hypotheses = [*hypotheses, Hypothesis(list(segment.prefix), 0.0, 0.0, finished=True)]
        log_probs = self.score([(segment.ids, hypothesis) for hypothesis in hypotheses])
        pairs = zip(hypotheses, log_probs, strict=True)
        return [_hypothesis(hypothesis.ids, log_prob, hypothesis.finished, cfg) for hypothesis, log_prob in pairs]

    def _may_end_after_prefix(self, segment: Segment, beam_size: int) -> bool:
        """Whether EOS would stay in a beam right after the forced prefix; CTranslate2 allows it only if it is best."""

        if beam_size == 1 or len(segment.prefix) >= segment.max_len:
            return False
        [result] = self._translator.translate_batch(
            [self._src(segment.ids)],
            [self._tgt(segment.prefix)],
            beam_size=1,
            max_input_length=0,
            max_decoding_length=len(self._first) + len(segment.prefix) + 1,
            min_decoding_length=0,
            return_logits_vocab=True,
        )
        library = ctranslate2_library()
        last = result.logits[0][-1].to(library.DataType.float32).to_device(library.Device.cpu)
        logits = np.array(last)
        logits[[PAD_ID, BOS_ID]] = -np.inf
        return int((logits > logits[EOS_ID]).sum()) < beam_size


def _batches(segments: Sequence[Segment], requests: Iterable[_Request], cfg: DecodeConfig) -> Iterator[list[_Request]]:
    """Yield requests that one call can handle together: of similar length, at most decode.batch_sentences.

    The longest come first, so that all threads end at about the same time.
    """

    def kind(request: _Request) -> tuple[object, ...]:
        segment = segments[request.index]
        limit = segment.max_len if request.exact_limit else 0
        # CTranslate2 searches a segment without a prefix by other rules if another one in the batch has a prefix
        return bool(segment.prefix), segment.min_len, request.only_words, limit

    ordered = sorted(requests, key=lambda request: (kind(request), -len(segments[request.index].ids)))
    for _, alike in groupby(ordered, key=kind):
        yield from windows(alike, cfg.batch_sentences)


def _stricter(request: _Request, hypotheses: list[Hypothesis], segment: Segment) -> _Request | None:
    """Return the settings for another search of the segment; None if these hypotheses are good enough.

    The search lasted as long as its longest hypothesis: it keeps at least one of those from its last step.
    """
    if not request.only_words and any(token_id in (PAD_ID, BOS_ID) for h in hypotheses for token_id in h.ids):
        return replace(request, only_words=True)
    if max(len(h.ids) + h.finished for h in hypotheses) <= segment.max_len:
        return None
    if request.exact_limit:
        raise MtkitError("CTranslate2 exceeded its length limit; use decode.engine=native, and report this")
    return replace(request, exact_limit=True)


def _changes_log_probs(request: _Request, segment: Segment, cfg: DecodeConfig) -> bool:
    """Whether CTranslate2's log-probabilities differ from the model's: a rule makes the tokens it leaves likelier."""
    return bool(segment.prefix) or segment.min_len > 0 or cfg.no_repeat_ngram > 0 or request.only_words


def _hypothesis(ids: list[int], log_prob: float, finished: bool, cfg: DecodeConfig) -> Hypothesis:
    divisor = length_divisor(cfg.length_normalization, cfg.length_penalty, len(ids) + finished)
    return Hypothesis(ids, log_prob, log_prob / divisor, finished)


def _ranked(hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
    """Return each hypothesis once, finished ones first, then by score."""
    distinct = {(tuple(hypothesis.ids), hypothesis.finished): hypothesis for hypothesis in hypotheses}
    return sorted(distinct.values(), key=lambda hypothesis: (not hypothesis.finished, -hypothesis.score))


def _read_vocabulary(folder: Path, side: str) -> list[str]:
    """Return the piece of each id; both sides share one file if they are the same."""
    shared = folder / "shared_vocabulary.json"
    pieces: list[str] = _read_json(shared if shared.is_file() else folder / f"{side}_vocabulary.json")
    return pieces


def _read_json(path: Path) -> Any:
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BundleError(
            f"{path}: cannot read it ({error}); write the folder again with `mtkit export --to ctranslate2`"
        ) from None


def _device(library: Any, name: str) -> tuple[str, int]:
    """Return CTranslate2's device type and index for a name such as auto, cpu or cuda:1."""
    if name == "auto":
        return ("cuda" if library.get_cuda_device_count() else "cpu"), 0
    kind, _, index = name.partition(":")
    if kind not in ("cpu", "cuda"):
        raise MtkitError(f"device={name}: the ctranslate2 engine runs on cpu and cuda; use decode.engine=native")
    if kind == "cuda" and int(index or 0) >= library.get_cuda_device_count():
        raise MtkitError(f"device={name}: CTranslate2 finds {library.get_cuda_device_count()} CUDA devices here")
    return kind, int(index or 0)

"""The engine in CTranslate2: an exported model in, hypotheses out, without torch.

The search is CTranslate2's own, but limits are each sentence's, and hypotheses are ranked as the native engine does.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from mtkit.config.schema import DecodeConfig
from mtkit.cores import usable_cores
from mtkit.data.corpus import windows
from mtkit.data.special_ids import BOS_ID, EOS_ID, PAD_ID
from mtkit.errors import BundleError, MtkitError
from mtkit.search.hypothesis import Hypothesis, Segment, length_divisor

ABOUT = "export.json"  # beside CTranslate2's files: what it does not tell about the model
# The search ends at this x beam_size finished hypotheses (Kasai et al. 2022), and gives so many. At 1.5 it missed a few
# that the native search finds; at 2 the unfinished ones of a search that ran into its limit push none out.
_PATIENCE = 2
_NO_LENGTH_PENALTY = 1e-30  # length^alpha is exactly 1, yet not the 0 that makes CTranslate2 stop by another rule
_RULED_OUT = -1e9  # it gives -1e10 to what a forced prefix leaves without a place in the beam


def ctranslate2_library() -> Any:
    """The library, silent but for errors. Raises MtkitError, saying how to install it, if it is absent."""
    try:
        import ctranslate2
    except ImportError:
        raise MtkitError("the package ctranslate2 is not installed; pip install 'mtkit[fast]'") from None
    import logging

    ctranslate2.set_log_level(logging.ERROR)
    return ctranslate2


def unsupported(cfg: DecodeConfig, device: str = "auto") -> list[str]:
    """The options that this engine lacks among those asked for, as decode.KEY=VALUE; [] if it has them all.

    The precision is that of the export, and there is one process: other wishes are the native engine's to fulfil.

    What it has, it does as the native engine. Where a rule forbids tokens, CTranslate2 makes the others likelier: to
    greedy search that is all the same, but in a beam it would change which hypotheses survive.
    """
    lacks = {
        "coverage_penalty": cfg.coverage_penalty > 0,
        "repetition_penalty": cfg.repetition_penalty != 1,
        "beam_groups": cfg.beam_groups > 1,
        "sampling": cfg.sampling,
        "mbr_samples": cfg.mbr_samples > 0,
        "terminology": cfg.terminology is not None,
        "shortlist": cfg.shortlist,
        "precision": cfg.precision != "fp32",
        "workers": cfg.workers > 1,
    }
    lacks_in_a_beam = {
        "min_len": cfg.min_len > 0,
        "min_len_factor": cfg.min_len_factor > 0,
        "no_repeat_ngram": cfg.no_repeat_ngram > 0,
    }
    reasons = [f"decode.{key}={getattr(cfg, key)}" for key, asked_for in lacks.items() if asked_for]
    if cfg.beam_size > 1:
        reasons += [
            f"decode.{key}={getattr(cfg, key)} with decode.beam_size={cfg.beam_size}"
            for key, asked_for in lacks_in_a_beam.items()
            if asked_for
        ]
    kind = device.partition(":")[0]
    if kind == "mps" or (kind == "cuda" and not ctranslate2_library().get_cuda_device_count()):
        reasons.append(f"device={device}")
    return reasons


@dataclass(frozen=True)
class _Ask:
    """How a segment, given by its number, is to be searched."""

    number: int
    exact_limit: bool = False  # end at the segment's own limit, not at its batch's
    only_words: bool = False  # never PAD or BOS


class CTranslate2Engine:
    """An `Engine` over a model folder that `mtkit export --to ctranslate2` has written."""

    name = "ctranslate2"

    def __init__(self, folder: Path, device: str = "auto", threads: int | None = None) -> None:
        """threads: batches decoded side by side on the CPU, a core each; by default one per core that is ours.

        Raises BundleError if the folder holds no such model, MtkitError for a device that CTranslate2 does not know.
        """
        library = ctranslate2_library()
        about = _read_json(folder / ABOUT)
        self.max_positions: int | None = about["max_positions"]
        self.quantization: str = about["quantization"]
        self._src_pieces, self._tgt_pieces = (_read_vocabulary(folder, side) for side in ("source", "target"))
        self._tgt_ids = {piece: token_id for token_id, piece in enumerate(self._tgt_pieces)}
        kind, index = _device(library, device)
        try:
            self._translator = library.Translator(
                str(folder), kind, device_index=index, inter_threads=threads or usable_cores(), intra_threads=1
            )
        except (RuntimeError, ValueError) as error:
            raise BundleError(f"{folder}: CTranslate2 cannot load this model ({error}); export it again") from None

    @property
    def computes_in(self) -> str:
        """The type of numbers that it multiplies on this device, which need not be the one that they are stored in."""
        return str(self._translator.compute_type)

    @property
    def arithmetic(self) -> str:
        """See `Engine`."""
        return f"{self.computes_in} on {self._translator.device}"

    def decode(
        self, segments: Sequence[Segment], cfg: DecodeConfig, n_best: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Each segment's number and its n best hypotheses, best first, as batches of like length are done.

        A call of CTranslate2 has one length limit: a batch gets the highest of its sentences', and those few that go
        beyond their own are searched again. So it is not the batch that decides about a translation.
        """
        reasons = unsupported(cfg)
        if any(segment.constraints is not None for segment in segments):
            reasons.append("phrases that must, or must not, appear")
        if reasons:
            raise MtkitError(f"the ctranslate2 engine does not know {'; '.join(reasons)}; use decode.engine=native")
        # room for EOS, as in the native engine: a limit that is reached before the least length is the stronger one
        segments = [replace(segment, min_len=min(segment.min_len, segment.max_len - 1)) for segment in segments]
        asks = [_Ask(number) for number in range(len(segments))]
        while asks:
            asks_again: list[_Ask] = []
            for ask, found in self._search(segments, asks, cfg):
                again = _again(ask, found, segments[ask.number])
                if again is not None:
                    asks_again.append(again)
                else:
                    yield ask.number, _ranked(found)[:n_best]
            asks = asks_again

    def score(self, pairs: Sequence[tuple[Sequence[int], Hypothesis]], batch_sentences: int = 64) -> list[float]:
        """The model's log-probability (nats) of each hypothesis, with EOS if it is finished, given its source."""
        by_length = sorted(range(len(pairs)), key=lambda number: len(pairs[number][1].ids))
        log_probs = [0.0] * len(pairs)
        for numbers in windows(by_length, batch_sentences):
            results = self._translator.score_batch(
                [self._src(pairs[number][0]) for number in numbers],
                [[self._tgt_pieces[token_id] for token_id in pairs[number][1].ids] for number in numbers],
                max_input_length=0,
            )
            for number, result in zip(numbers, results, strict=True):
                hypothesis = pairs[number][1]
                log_probs[number] = float(sum(result.log_probs[: len(hypothesis.ids) + hypothesis.finished]))
        return log_probs

    def _search(
        self, segments: Sequence[Segment], asks: Iterable[_Ask], cfg: DecodeConfig
    ) -> Iterator[tuple[_Ask, list[Hypothesis]]]:
        """What each search finds; batches wait for each other only if all threads are busy."""
        batches = list(_batches(segments, asks, cfg))
        started = [self._start([segments[ask.number] for ask in batch], batch[0], cfg) for batch in batches]
        for batch, results in zip(batches, started, strict=True):
            found = [self._hypotheses(result.result(), cfg) for result in results]
            if _changes_log_probs(batch[0], segments[batch[0].number], cfg):
                found = [self._rescored(segments[a.number], hyps, cfg) for a, hyps in zip(batch, found, strict=True)]
            yield from zip(batch, found, strict=True)

    def _start(self, segments: Sequence[Segment], ask: _Ask, cfg: DecodeConfig) -> list[Any]:
        """Begin to decode a batch of segments of the same kind."""
        max_len = max(segment.max_len for segment in segments)
        never = [[self._tgt_pieces[PAD_ID]], [self._tgt_pieces[BOS_ID]]]
        prefixes = [[self._tgt_pieces[token_id] for token_id in segment.prefix] for segment in segments]
        results: list[Any] = self._translator.translate_batch(
            [self._src(segment.ids) for segment in segments],
            prefixes if any(prefixes) else None,
            asynchronous=True,
            beam_size=cfg.beam_size,
            patience=_PATIENCE,
            num_hypotheses=1 if cfg.beam_size == 1 else _PATIENCE * cfg.beam_size,
            length_penalty=_NO_LENGTH_PENALTY,
            no_repeat_ngram_size=cfg.no_repeat_ngram,
            suppress_sequences=never if ask.only_words else None,
            max_input_length=0,
            max_decoding_length=max_len,
            min_decoding_length=min(segments[0].min_len, max_len),
            return_end_token=True,
            return_scores=True,
        )
        return results

    def _src(self, ids: Sequence[int]) -> list[str]:
        return [self._src_pieces[token_id] for token_id in ids]

    def _hypotheses(self, result: Any, cfg: DecodeConfig) -> list[Hypothesis]:
        found = []
        for tokens, log_prob in zip(result.hypotheses, result.scores, strict=True):
            if log_prob > _RULED_OUT:
                ids = [self._tgt_ids[token] for token in tokens]
                finished = bool(ids) and ids[-1] == EOS_ID
                found.append(_hypothesis(ids[:-1] if finished else ids, log_prob, finished, cfg))
        if not found:
            raise MtkitError("the model's output is not a number (NaN): its weights are damaged, or training diverged")
        return found

    def _rescored(self, segment: Segment, found: list[Hypothesis], cfg: DecodeConfig) -> list[Hypothesis]:
        """The hypotheses with the log-probabilities that the model gives them without any rule."""
        if segment.prefix and self._may_end_after_prefix(segment, cfg.beam_size):
            found = [*found, Hypothesis(list(segment.prefix), 0.0, 0.0, finished=True)]
        log_probs = self.score([(segment.ids, hypothesis) for hypothesis in found])
        return [_hypothesis(h.ids, log_prob, h.finished, cfg) for h, log_prob in zip(found, log_probs, strict=True)]

    def _may_end_after_prefix(self, segment: Segment, beam_size: int) -> bool:
        """Whether EOS would stay in a beam right after the forced prefix: CTranslate2 bars it there if not best."""
        import numpy as np

        if beam_size == 1 or len(segment.prefix) >= segment.max_len:
            return False
        [result] = self._translator.translate_batch(
            [self._src(segment.ids)],
            [[self._tgt_pieces[token_id] for token_id in segment.prefix]],
            beam_size=1,
            max_input_length=0,
            max_decoding_length=len(segment.prefix) + 1,
            min_decoding_length=0,
            return_logits_vocab=True,
        )
        library = ctranslate2_library()
        last = result.logits[0][-1].to(library.DataType.float32).to_device(library.Device.cpu)
        logits = np.array(last)
        logits[[PAD_ID, BOS_ID]] = -np.inf
        return int((logits > logits[EOS_ID]).sum()) < beam_size


def _batches(segments: Sequence[Segment], asks: Iterable[_Ask], cfg: DecodeConfig) -> Iterator[list[_Ask]]:
    """Asks that one call can answer together, of like length, at most decode.batch_sentences of them."""

    def kind(ask: _Ask) -> tuple[object, ...]:
        segment = segments[ask.number]
        limit = segment.max_len if ask.exact_limit else 0
        # a segment without prefix beside one with a prefix would be searched by other rules than alone
        return bool(segment.prefix), segment.min_len, ask.only_words, limit

    ordered = sorted(asks, key=lambda ask: (kind(ask), len(segments[ask.number].ids)))
    for _, alike in groupby(ordered, key=kind):
        yield from windows(alike, cfg.batch_sentences)


def _again(ask: _Ask, found: list[Hypothesis], segment: Segment) -> _Ask | None:
    """How the segment must be searched once more; None if it need not be.

    The search lasted as long as its longest hypothesis: of those found in its last step one at least is kept.
    """
    if not ask.only_words and any(token_id in (PAD_ID, BOS_ID) for h in found for token_id in h.ids):
        return replace(ask, only_words=True)
    if max(len(h.ids) + h.finished for h in found) <= segment.max_len:
        return None
    if ask.exact_limit:
        raise MtkitError("CTranslate2 went beyond its length limit; use decode.engine=native, and report this")
    return replace(ask, exact_limit=True)


def _changes_log_probs(ask: _Ask, segment: Segment, cfg: DecodeConfig) -> bool:
    """Whether CTranslate2 counts unlike the model: what a rule forces is sure, what it leaves is likelier."""
    return bool(segment.prefix) or segment.min_len > 0 or cfg.no_repeat_ngram > 0 or ask.only_words


def _hypothesis(ids: list[int], log_prob: float, finished: bool, cfg: DecodeConfig) -> Hypothesis:
    divisor = length_divisor(cfg.length_normalization, cfg.length_penalty, len(ids) + finished)
    return Hypothesis(ids, log_prob, log_prob / divisor, finished)


def _ranked(hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
    """Each once, finished ones first, then by score."""
    distinct = {(tuple(hypothesis.ids), hypothesis.finished): hypothesis for hypothesis in hypotheses}
    return sorted(distinct.values(), key=lambda hypothesis: (not hypothesis.finished, -hypothesis.score))


def _read_vocabulary(folder: Path, side: str) -> list[str]:
    """What each id stands for; one file serves both sides if they are the same."""
    shared = folder / "shared_vocabulary.json"
    pieces: list[str] = _read_json(shared if shared.is_file() else folder / f"{side}_vocabulary.json")
    return pieces


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BundleError(
            f"{path}: cannot be read ({error}); `mtkit export --to ctranslate2` writes the folder anew"
        ) from None


def _device(library: Any, name: str) -> tuple[str, int]:
    """CTranslate2's kind of device and its number, for a name such as auto, cpu or cuda:1."""
    if name == "auto":
        return ("cuda" if library.get_cuda_device_count() else "cpu"), 0
    kind, _, index = name.partition(":")
    if kind not in ("cpu", "cuda"):
        raise MtkitError(f"device={name}: the ctranslate2 engine knows cpu and cuda only; use decode.engine=native")
    if kind == "cuda" and int(index or 0) >= library.get_cuda_device_count():
        raise MtkitError(f"device={name}: CTranslate2 finds {library.get_cuda_device_count()} CUDA devices here")
    return kind, int(index or 0)

"""Lines in, translations out, in the same order and number."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from mtkit.config.schema import DecodeConfig
from mtkit.console import log
from mtkit.data.corpus import as_one_line
from mtkit.data.special_ids import BOS_ID, EOS_ID, PAD_ID
from mtkit.data.tokenizer import Tokenizer
from mtkit.decoding.bundle import find_model, load_bundle
from mtkit.decoding.search import Hypothesis, SearchConfig, search
from mtkit.decoding.segments import join_segments, split_long
from mtkit.decoding.steps import ModelStep
from mtkit.errors import MtkitError
from mtkit.model.transformer import Transformer
from mtkit.runtime import choose_device, is_out_of_memory, set_threads

_T = TypeVar("_T")
_BATCHES_A_WINDOW = 16


@dataclass(frozen=True)
class Candidate:
    """One translation of a line. For a line that was split, log_prob and score are sums over its segments."""

    text: str
    ids: list[int]  # target tokens, without EOS
    log_prob: float  # nats
    score: float  # log_prob after the length penalty
    finished: bool  # False: the length limit ended it


@dataclass(frozen=True)
class Translation:
    """What became of one line: its candidates, best first. A blank line has a single empty one."""

    src: str
    n_best: list[Candidate]

    @property
    def text(self) -> str:
        """The best candidate's text."""
        return self.n_best[0].text

    @property
    def score(self) -> float:
        """The best candidate's score."""
        return self.n_best[0].score

    @property
    def finished(self) -> bool:
        """False if the length limit ended the best candidate, or a segment of it."""
        return self.n_best[0].finished


_BLANK = Candidate("", [], 0.0, 0.0, True)


class Translator:
    """A model with its tokenizers. A line's translation does not depend on the lines around it."""

    def __init__(
        self,
        model: Transformer,
        src_tokenizer: Tokenizer,
        tgt_tokenizer: Tokenizer,
        decode: DecodeConfig,
        device: torch.device | str = "cpu",
    ) -> None:
        """Moves the model to the device."""
        self.model = model.to(device)
        self.src_tokenizer = src_tokenizer
        self.tgt_tokenizer = tgt_tokenizer
        self.decode = decode
        self.device = torch.device(device)
        # Learned positions end; the other kinds go on for ever.
        self._max_positions = model.cfg.max_positions if model.cfg.positions == "learned" else None

    @classmethod
    def load(
        cls,
        path: str | Path | None = None,
        *,
        device: str = "auto",
        beam_size: int | None = None,
        threads: int | None = None,
    ) -> "Translator":
        """The translator of a run or bundle folder; by default $MTKIT_MODEL, else the newest run in ./runs.

        beam_size: instead of the one in the model's config. threads: how many torch uses on the CPU from now on, in
        the whole process; by default it stays with those that it has. Raises BundleError if there is no such model.
        """
        bundle = load_bundle(find_model(None if path is None else Path(path)))
        if threads is not None:
            set_threads(threads)
        decode = bundle.config.decode
        if beam_size is not None:
            decode = decode.model_copy(update={"beam_size": beam_size})
        return cls(bundle.model, bundle.src_tokenizer, bundle.tgt_tokenizer, decode, choose_device(device))

    @property
    def window(self) -> int:
        """How many lines are worth reading at once: enough for batches of like length, with little padding."""
        return self.decode.batch_sentences * _BATCHES_A_WINDOW

    def translate(self, lines: Sequence[str]) -> list[str]:
        """One translation per line, in order; a blank line stays blank."""
        if isinstance(lines, str):
            raise TypeError("translate() takes a list of lines, not one string")
        return [translation.text for translation in self.stream(lines)]

    def stream(self, lines: Iterable[str], *, n_best: int = 1, window: int | None = None) -> Iterator[Translation]:
        """Translations in order, as they come; lines are read window by window (default: a few batches).

        n_best: candidates per line, at most the beam size.
        """
        return self.stream_windows(_windows(lines, window or self.window), n_best=n_best)

    def stream_windows(self, windows: Iterable[Sequence[str]], *, n_best: int = 1) -> Iterator[Translation]:
        """Translations in order; each window of lines is translated, and given, before the next one is asked for.

        Warns at the end if translations hit the length limit.
        """
        n_lines, n_unfinished = 0, 0
        for window in windows:
            translations = self._translate_window(window, first_line=n_lines + 1, n_best=n_best)
            n_lines += len(translations)
            n_unfinished += sum(not translation.finished for translation in translations)
            yield from translations
        if n_unfinished:
            log.warning(
                f"{n_unfinished} of {n_lines} translations hit the length limit (decode.max_len_factor, "
                "decode.max_len_constant): they may be incomplete or repeat themselves"
            )

    def _translate_window(self, lines: Sequence[str], first_line: int, n_best: int) -> list[Translation]:
        texts = [as_one_line(line).strip() for line in lines]
        segments, owners = self._segment(texts, first_line)
        candidates: list[list[list[Candidate]]] = [[] for _ in lines]
        for owner, found in zip(owners, self._search_all(segments, n_best), strict=True):
            candidates[owner].append([self._candidate(hypothesis) for hypothesis in found])
        return [Translation(line, _join(parts)) for line, parts in zip(lines, candidates, strict=True)]

    def _segment(self, texts: list[str], first_line: int) -> tuple[list[list[int]], list[int]]:
        """Token ids of what is to be translated, and for each the number of the text that it is (a part of)."""
        limit = self.decode.max_src_tokens
        if self._max_positions is not None:
            limit = min(limit, self._max_positions - 1)  # EOS
        segments: list[list[int]] = []
        owners: list[int] = []
        for owner, ids in enumerate(self.src_tokenizer.encode_batch(texts)):
            parts = [ids]
            if len(ids) > limit:
                pieces = split_long(texts[owner], lambda text: len(self.src_tokenizer.encode(text)) <= limit)
                parts = self.src_tokenizer.encode_batch(pieces)
                log.warning(
                    f"line {first_line + owner}: {len(ids)} tokens are more than decode.max_src_tokens={limit}; "
                    f"translated in {len(parts)} segments and joined again"
                )
            parts = [part for part in parts if part]
            segments += parts
            owners += [owner] * len(parts)
        return segments, owners

    def _search_all(self, segments: list[list[int]], n_best: int) -> list[list[Hypothesis]]:
        """The n best hypotheses of each segment; segments of like length share a batch."""
        found: list[list[Hypothesis]] = [[] for _ in segments]
        by_length = sorted(range(len(segments)), key=lambda number: len(segments[number]))
        was_training = self.model.training
        self.model.eval()
        try:
            for numbers in _windows(by_length, self.decode.batch_sentences):
                results = self._search([segments[number] for number in numbers], n_best)
                for number, hypotheses in zip(numbers, results, strict=True):
                    found[number] = hypotheses
        finally:
            self.model.train(was_training)
        return found

    # Not inference_mode: tables that the model makes on the way, such as longer positions, stay usable in training.
    @torch.no_grad()
    def _search(self, batch: list[list[int]], n_best: int) -> list[list[Hypothesis]]:
        cfg = SearchConfig(self.decode.beam_size, self.decode.length_penalty, n_best)
        src = _pad([[*ids, EOS_ID] for ids in batch]).to(self.device)
        max_lens = torch.tensor([self._max_len(len(ids)) for ids in batch], device=self.device)
        try:
            step = ModelStep(self.model, src, cfg.beam_size)
            return search(step, max_lens, cfg, bos_id=BOS_ID, eos_id=EOS_ID)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            raise MtkitError(
                f"{self.device}: the memory does not hold a batch of {len(batch)} sentences of up to {src.size(1)} "
                f"tokens; lower decode.batch_sentences={self.decode.batch_sentences} or "
                f"decode.beam_size={self.decode.beam_size}"
            ) from error

    def _max_len(self, n_src_tokens: int) -> int:
        """The most target tokens, EOS counted, for a source of so many tokens without EOS."""
        max_len = int(self.decode.max_len_factor * n_src_tokens) + self.decode.max_len_constant + 1
        return max_len if self._max_positions is None else min(max_len, self._max_positions)

    def _candidate(self, hypothesis: Hypothesis) -> Candidate:
        text = as_one_line(self.tgt_tokenizer.decode(hypothesis.ids)).strip()
        return Candidate(text, hypothesis.ids, hypothesis.log_prob, hypothesis.score, hypothesis.finished)


def _join(parts: list[list[Candidate]]) -> list[Candidate]:
    """A line's candidates from those of its segments: the k-th of the line joins the k-th of every segment."""
    if not parts:
        return [_BLANK]
    if len(parts) == 1:
        return parts[0]
    return [
        Candidate(
            text=join_segments([part.text for part in kth]),
            ids=[token_id for part in kth for token_id in part.ids],
            log_prob=sum(part.log_prob for part in kth),
            score=sum(part.score for part in kth),
            finished=all(part.finished for part in kth),
        )
        for kth in zip(*parts, strict=False)
    ]


def _windows(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    iterator = iter(items)
    while window := list(itertools.islice(iterator, size)):
        yield window


def _pad(sequences: list[list[int]]) -> Tensor:
    """Sequences of ids as one tensor (B, longest), PAD on the right."""
    longest = max(map(len, sequences))
    return torch.tensor([ids + [PAD_ID] * (longest - len(ids)) for ids in sequences])

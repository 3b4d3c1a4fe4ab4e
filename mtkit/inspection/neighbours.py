"""A sentence and corpora in, the corpora's sentences with the nearest encoder states out; all of them are looked at."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mtkit.bundle import Bundle
from mtkit.config.schema import CorpusFiles
from mtkit.data.batching import plan_epoch
from mtkit.data.corpus import Pair, as_one_line
from mtkit.data.special_ids import EOS_ID, PAD_ID
from mtkit.data.tokenizer import Tokenizer
from mtkit.engines.native import pad
from mtkit.errors import UsageError
from mtkit.inspection.corpus_choice import Skipped, windows_of
from mtkit.model.transformer import Transformer
from mtkit.scoring.scoring import BLANK

_BATCH_TOKENS = 4096  # sentences times longest sentence
_MOST_PLACES = 5


@dataclass
class NearSentence:
    """A source sentence of the corpora; the same text in several pairs is one sentence."""

    src: str
    cosine: float  # with the given sentence: of their mean encoder states
    n_pairs: int = 0  # with this source
    pairs: list[Pair] = field(default_factory=list)  # the first few of them


@dataclass(frozen=True)
class NearSentences:
    """The nearest sentences, the nearest first."""

    nearest: list[NearSentence]
    n_pairs: int  # that were looked at
    skipped: Skipped


@torch.no_grad()
def mean_states(model: Transformer, sentences: Sequence[Sequence[int]]) -> Tensor:
    """The mean of the encoder's output over a sentence's tokens and EOS, (N, D); what shares a batch changes nothing.

    sentences: token ids without special ones; the model is in evaluation mode.
    """
    device = next(model.parameters()).device
    means = torch.zeros(len(sentences), model.cfg.d_model, device=device)
    lengths = np.array([len(ids) for ids in sentences], dtype=np.int32)
    plan = plan_epoch(lengths, lengths, batch_tokens=_BATCH_TOKENS, seed=0, epoch=0, shuffle=False)
    for numbers in plan:
        src = pad([[*sentences[number], EOS_ID] for number in numbers]).to(device)
        memory, _ = model.encode(src)
        is_token = (src != PAD_ID)[..., None]
        means[torch.from_numpy(numbers).to(device)] = (memory * is_token).sum(1) / is_token.sum(1)
    return means


def nearest_sentences(
    bundle: Bundle,
    sentence: str,
    corpora: Sequence[CorpusFiles],
    top: int,
    *,
    device: torch.device,
    sample: int | None = None,
) -> NearSentences:
    """The `top` different source sentences whose mean encoder state has the highest cosine with the given one's.

    The given sentence is read with each corpus' tag in turn, as that corpus was. A window of the corpora is in memory
    at a time. Raises UsageError for a sentence without words or too long for the model.
    """
    search = _Search(bundle, top, device)
    skipped, n_pairs = Skipped(), 0
    asked = {corpus.tag: search.direction_of(sentence, corpus.tag) for corpus in corpora}
    for corpus, window in windows_of(corpora, "encoding", sample):
        n_pairs += len(window)
        search.add(window, corpus.tag, asked[corpus.tag], skipped)
    return NearSentences(search.result(), n_pairs, skipped)


class _Search:
    """The nearest sentences so far."""

    def __init__(self, bundle: Bundle, top: int, device: torch.device) -> None:
        self.model = bundle.model.to(device)
        self.tokenizer = bundle.src_tokenizer
        self.top = top
        self._found: dict[str, NearSentence] = {}
        self._least = -2.0  # the cosine that the next one has to reach
        learned = self.model.cfg.positions == "learned"
        self._longest = self.model.cfg.max_positions - 1 if learned else None

    def direction_of(self, sentence: str, tag: str | None) -> Tensor:
        """(D,): the sentence's mean state, of length 1."""
        ids = self._encode([sentence], self.tokenizer.tagged(tag))[0]
        if problem := self._problem(ids):
            raise UsageError(f"--near {sentence!r}: {problem}")
        return F.normalize(mean_states(self.model, [ids])[0], dim=0)

    def add(self, window: Sequence[Pair], tag: str | None, direction: Tensor, skipped: Skipped) -> None:
        """Look at these pairs."""
        usable, sentences = [], []
        for pair, ids in zip(window, self._encode([p.src for p in window], self.tokenizer.tagged(tag)), strict=True):
            if problem := self._problem(ids):
                skipped.add(problem, pair)
            else:
                usable.append(pair)
                sentences.append(ids)
        if not usable:
            return
        cosines = (F.normalize(mean_states(self.model, sentences), dim=1) @ direction).tolist()
        for pair, cosine in zip(usable, cosines, strict=True):
            self._add(pair, cosine)

    def _add(self, pair: Pair, cosine: float) -> None:
        known = self._found.get(pair.src)
        if known is None:
            if cosine <= self._least:
                return
            known = self._found[pair.src] = NearSentence(pair.src, cosine)
            if len(self._found) > self.top:
                del self._found[min(self._found.values(), key=lambda sentence: sentence.cosine).src]
            if len(self._found) == self.top:
                self._least = min(sentence.cosine for sentence in self._found.values())
        known.n_pairs += 1
        if len(known.pairs) < _MOST_PLACES:
            known.pairs.append(pair)

    def result(self) -> list[NearSentence]:
        """The nearest first; of equal ones the earlier."""
        return sorted(self._found.values(), key=lambda sentence: -sentence.cosine)

    def _encode(self, texts: Sequence[str], tokenizer: Tokenizer) -> list[list[int]]:
        return tokenizer.encode_batch([as_one_line(text).strip() for text in texts])

    def _problem(self, ids: Sequence[int]) -> str | None:
        if not ids:
            return BLANK
        if self._longest is not None and len(ids) > self._longest:
            return f"the source is longer than model.max_positions={self._longest + 1}"
        return None

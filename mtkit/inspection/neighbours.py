"""Find the sentences of corpora whose encoder states are nearest to a given sentence's, by exhaustive search."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mtkit.bundle import Bundle
from mtkit.config.data import CorpusFiles
from mtkit.data.batching import plan_epoch
from mtkit.engines.native import pad
from mtkit.errors import UsageError
from mtkit.inspection.corpus_choice import Skipped, windows_of
from mtkit.model.transformer import Transformer
from mtkit.pair_files.lines import as_one_line
from mtkit.pair_files.pairs import Pair
from mtkit.scoring.scoring import BLANK
from mtkit.tokens.special_ids import EOS_ID, PAD_ID
from mtkit.tokens.tokenizer import Tokenizer

_BATCH_TOKENS = 4096  # sentences times longest sentence
_MAX_PAIRS_SHOWN = 5


@dataclass
class NearSentence:
    """A source sentence of the corpora; equal texts in several pairs are one sentence."""

    src: str
    cosine: float  # between its mean encoder state and that of the given sentence
    n_pairs: int = 0  # with this source
    pairs: list[Pair] = field(default_factory=list)  # the first few of them


@dataclass(frozen=True)
class NearSentences:
    """The nearest sentences, nearest first."""

    nearest: list[NearSentence]
    n_pairs: int  # read
    skipped: Skipped


@torch.no_grad()
def mean_states(model: Transformer, sentences: Sequence[Sequence[int]]) -> Tensor:
    """Return the mean of the encoder's output over each sentence's tokens and EOS, (N, D), whatever shares its batch.

    sentences: token ids without special ones. The model must be in evaluation mode.
    """
    device = next(model.parameters()).device
    means = torch.zeros(len(sentences), model.cfg.d_model, device=device)
    lengths = np.array([len(ids) for ids in sentences], dtype=np.int32)
    plan = plan_epoch(lengths, lengths, batch_tokens=_BATCH_TOKENS, seed=0, epoch=0, shuffle=False)
    for indices in plan:
        src = pad([[*sentences[index], EOS_ID] for index in indices]).to(device)
        memory, _ = model.encode(src)
        is_token = (src != PAD_ID)[..., None]
        means[torch.from_numpy(indices).to(device)] = (memory * is_token).sum(1) / is_token.sum(1)
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
    """Return the `top` distinct source sentences whose mean encoder state has the highest cosine with the given one's.

    The model reads the given sentence with each corpus' tag in turn. Memory holds one window of the corpora at a time.
    Raises UsageError if the sentence is blank or too long for the model.
    """
    search = _Search(bundle, top, device)
    skipped, n_pairs = Skipped(), 0
    directions = {corpus.tag: search.direction_of(sentence, corpus.tag) for corpus in corpora}
    for corpus, window in windows_of(corpora, "encoding", sample):
        n_pairs += len(window)
        search.add(window, corpus.tag, directions[corpus.tag], skipped)
    return NearSentences(search.result(), n_pairs, skipped)


class _Search:
    """The nearest sentences so far."""

    def __init__(self, bundle: Bundle, top: int, device: torch.device) -> None:
        self.model = bundle.model.to(device)
        self.tokenizer = bundle.src_tokenizer
        self.top = top
        self._nearest: dict[str, NearSentence] = {}
        self._lowest = -2.0  # cosine that a new sentence must exceed
        learned = self.model.cfg.positions == "learned"
        self._longest = self.model.cfg.max_positions - 1 if learned else None

    def direction_of(self, sentence: str, tag: str | None) -> Tensor:
        """Return the sentence's mean state (D,), scaled to length 1."""
        ids = self._encode([sentence], self.tokenizer.tagged(tag))[0]
        if problem := self._problem(ids):
            raise UsageError(f"--near {sentence!r}: {problem}")
        return F.normalize(mean_states(self.model, [ids])[0], dim=0)

    def add(self, window: Sequence[Pair], tag: str | None, direction: Tensor, skipped: Skipped) -> None:
        """Compare the sources of these pairs with the direction."""
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
        known = self._nearest.get(pair.src)
        if known is None:
            if cosine <= self._lowest:
                return
            known = self._nearest[pair.src] = NearSentence(pair.src, cosine)
            if len(self._nearest) > self.top:
                del self._nearest[min(self._nearest.values(), key=lambda sentence: sentence.cosine).src]
            if len(self._nearest) == self.top:
                self._lowest = min(sentence.cosine for sentence in self._nearest.values())
        known.n_pairs += 1
        if len(known.pairs) < _MAX_PAIRS_SHOWN:
            known.pairs.append(pair)

    def result(self) -> list[NearSentence]:
        """Return the nearest first; of equal ones the earlier."""
        return sorted(self._nearest.values(), key=lambda sentence: -sentence.cosine)

    def _encode(self, texts: Sequence[str], tokenizer: Tokenizer) -> list[list[int]]:
        return tokenizer.encode_batch([as_one_line(text).strip() for text in texts])

    def _problem(self, ids: Sequence[int]) -> str | None:
        if not ids:
            return BLANK
        if self._longest is not None and len(ids) > self._longest:
            return f"the source is longer than model.max_positions={self._longest + 1}"
        return None

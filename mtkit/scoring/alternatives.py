"""A source and a place in its translation in; the words that could stand there instead, and how each would go on."""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from mtkit.data.corpus import as_one_line
from mtkit.data.special_ids import BOS_ID, EOS_ID, PAD_ID
from mtkit.data.tokenizer import SPACE, Tokenizer
from mtkit.engines.native import pad
from mtkit.errors import MtkitError
from mtkit.model.transformer import Transformer
from mtkit.scoring.alignment import piece_words
from mtkit.scoring.scoring import native_models
from mtkit.translation.candidates import Candidate
from mtkit.translation.translator import Translator

_LEAST = 1e-4  # alternatives less probable than this are not looked for
_AT_ONCE = 16  # beginnings of words that are continued in one batch


@dataclass(frozen=True)
class Alternative:
    """Another word, and the translation that it leads to."""

    word: str  # "" means that the translation ends there
    probability: float  # of the word, given those before it
    text: str


@dataclass(frozen=True)
class Alternatives:
    """What could stand at one position of a translation."""

    src: str
    text: str  # the translation
    position: int  # of the word, from 1
    word: str
    probability: float  # of the word, given those before it
    others: list[Alternative]  # most probable first; all differ


def find_alternatives(
    translator: Translator, text: str, position: int, *, n: int = 5, translation: str | None = None
) -> Alternatives:
    """Up to n other words at the position, counted from 1, of the text's translation, each with its continuation.

    translation: a given one instead of the model's own. Words are what white space separates; one may consist of
    several tokens. Its probability is that of its tokens and of its end after them, given the words before it. The
    continuation is what the translator's search finds when everything up to the word is forced.
    Raises MtkitError if the text or its translation is blank, has no such position, or is too long for one segment.
    """
    text = as_one_line(text).strip()
    guesser = _Guesser.of(translator, text)
    ids = _ids(translator, text, translation)
    words = [translator.tgt_tokenizer.decode(word) for word in _split(translator.tgt_tokenizer, ids)]
    if not 1 <= position <= len(words):
        raise MtkitError(f"position {position}: the translation has {len(words)} words: {' '.join(words)}")
    parts = _split(translator.tgt_tokenizer, ids)
    prefix = [token_id for part in parts[: position - 1] for token_id in part]
    guesses = guesser.words(prefix, n + 1)
    others = [guess for guess in guesses if guess.word != words[position - 1]][:n]
    texts = _continued(translator, text, prefix, others, position)
    return Alternatives(
        src=text,
        text=translator.tgt_tokenizer.decode(ids),
        position=position,
        word=words[position - 1],
        probability=guesser.probability(prefix, parts[position - 1]),
        others=[Alternative(g.word, math.exp(g.log_prob), t) for g, t in zip(others, texts, strict=True)],
    )


def _ids(translator: Translator, text: str, translation: str | None) -> list[int]:
    """Tokens of the given translation, or of the one that is searched."""
    if translation is None:
        [own] = translator.stream([text])
        ids = own.n_best[0].ids
    else:
        ids = translator.tgt_tokenizer.encode(as_one_line(translation).strip())
    if not ids:
        raise MtkitError("the translation is blank: it has no positions")
    limit = translator.engine.max_positions
    if limit is not None and len(ids) + 1 > limit:  # EOS
        raise MtkitError(
            f"the translation has {len(ids)} tokens, but with its end the model can tell the order of {limit} "
            "(model.max_positions); give one sentence"
        )
    return ids


def _split(tokenizer: Tokenizer, ids: Sequence[int]) -> list[list[int]]:
    """The tokens of each word."""
    numbers = piece_words(tokenizer.pieces(ids))
    parts: list[list[int]] = [[] for _ in range(max(numbers) + 1)]
    for token_id, number in zip(ids, numbers, strict=True):
        parts[number].append(token_id)
    return parts


def _continued(
    translator: Translator, text: str, prefix: Sequence[int], guesses: "Sequence[_Guess]", position: int
) -> list[str]:
    """The translation that each guess leads to."""
    tokenizer = translator.tgt_tokenizer
    texts = [tokenizer.decode(prefix)] * len(guesses)  # for those that end here
    open_ = [number for number, guess in enumerate(guesses) if guess.word]
    found = _search(translator, text, [[*prefix, *guesses[number].ids] for number in open_])
    torn = []
    for number, candidate in zip(open_, found, strict=True):
        texts[number] = candidate.text
        parts = _split(tokenizer, candidate.ids)
        if len(parts) < position or tokenizer.decode(parts[position - 1]) != guesses[number].word:
            torn.append(number)  # the search has made another word of it by adding to it: force the word's end too
    ends = [[*prefix, *guesses[number].ids, guesses[number].next_id] for number in torn]
    closed = [end for end in ends if end[-1] != EOS_ID]
    found_again = iter(_search(translator, text, closed))
    for number, end in zip(torn, ends, strict=True):
        texts[number] = tokenizer.decode(end[:-1]) if end[-1] == EOS_ID else next(found_again).text
    return texts


def _search(translator: Translator, text: str, prefixes: Sequence[Sequence[int]]) -> list[Candidate]:
    return [best for best, *_ in translator.search([text] * len(prefixes), prefixes=prefixes)]


@dataclass(order=True)
class _Guess:
    """A word, or as long as it is not complete its beginning; the likeliest is the least, for the heap."""

    cost: float  # -log_prob
    ids: tuple[int, ...]
    complete: bool = False
    next_id: int = field(default=EOS_ID, compare=False)  # of a complete word: the likeliest token after it
    word: str = field(default="", compare=False)

    @property
    def log_prob(self) -> float:
        return -self.cost


class _Guesser:
    """Finds the likeliest next words of translations of one source."""

    def __init__(
        self,
        models: Sequence[Transformer],
        srcs: Sequence[Sequence[int]],
        tokenizer: Tokenizer,
        max_positions: int | None,
    ) -> None:
        """srcs: the source's tokens for each model. max_positions: the most tokens of a translation, with its end."""
        self.models = models
        self.tokenizer = tokenizer
        self.max_tokens = math.inf if max_positions is None else max_positions - 1
        self.device = next(models[0].parameters()).device
        with torch.no_grad():
            self.encoded = [
                model.encode(torch.tensor([[*src, EOS_ID]], device=self.device))
                for model, src in zip(models, srcs, strict=True)
            ]
        pieces = tokenizer.pieces(range(tokenizer.vocab_size))
        begins = [piece.startswith(SPACE) for piece in pieces]
        self.ends_word = torch.tensor(begins)  # True: after this token, the word before it is complete
        self.ends_word[EOS_ID] = True

    @classmethod
    def of(cls, translator: Translator, text: str) -> "_Guesser":
        models = native_models(translator.engine, "alternatives")
        srcs = [tokenizer.encode(text) for tokenizer in translator.src_tokenizers]
        if not srcs[0]:
            raise MtkitError("the text is blank: it has no translation")
        limit = translator.max_src_tokens()
        if (longest := max(map(len, srcs))) > limit:
            raise MtkitError(
                f"the text has {longest} tokens, more than decode.max_src_tokens={limit}; give one sentence"
            )
        srcs *= len(models) if len(srcs) == 1 else 1
        return cls(models, srcs, translator.tgt_tokenizer, translator.engine.max_positions)

    def words(self, prefix: Sequence[int], n: int) -> list[_Guess]:
        """The n likeliest words after the prefix, which is a number of whole words; fewer if others are below _LEAST.

        Best first: a beginning of a word is at least as likely as any word that begins so. Of several ways to cut a
        word into tokens the likeliest counts.
        """
        [first] = self._next([prefix])
        if prefix:  # here the word before is complete
            first = torch.where(self.ends_word, first, -math.inf)
            first = first - first.logsumexp(0)
        heap = [_Guess(-float(first[EOS_ID]), (), complete=True)]
        chosen = (first >= math.log(_LEAST)).nonzero()[:, 0].tolist()
        heap += [_Guess(-float(first[token_id]), (token_id,)) for token_id in chosen if token_id != EOS_ID]
        heapq.heapify(heap)
        found: dict[str, _Guess] = {}
        while heap and len(found) < n and heap[0].log_prob >= math.log(_LEAST):
            if heap[0].complete:
                guess = heapq.heappop(heap)
                found.setdefault(guess.word, guess)
                continue
            beginnings: list[_Guess] = []
            while heap and not heap[0].complete and len(beginnings) < _AT_ONCE:
                beginnings.append(heapq.heappop(heap))
            for guess in self._extended(prefix, beginnings):
                heapq.heappush(heap, guess)
        return list(found.values())

    def probability(self, prefix: Sequence[int], word: Sequence[int]) -> float:
        """That of these tokens and of the word's end after them, given the prefix."""
        rows = self._next([[*prefix, *word[:n]] for n in range(len(word) + 1)])
        log_prob = float(rows[-1][self.ends_word].logsumexp(0)) - (
            float(rows[0][self.ends_word].logsumexp(0)) if prefix else 0.0
        )
        log_prob += sum(float(row[token_id]) for row, token_id in zip(rows, word, strict=False))
        return math.exp(log_prob)

    def _extended(self, prefix: Sequence[int], beginnings: Sequence[_Guess]) -> list[_Guess]:
        """Each beginning as a complete word, and with one token more."""
        guesses = []
        for guess, row in zip(beginnings, self._next([[*prefix, *g.ids] for g in beginnings]), strict=True):
            word = self.tokenizer.decode(guess.ids)
            ends = torch.where(self.ends_word, row, -math.inf)
            if word.strip() and "\ufffd" not in word:
                cost = guess.cost - float(ends.logsumexp(0))
                guesses.append(_Guess(cost, guess.ids, True, int(ends.argmax()), word))
            if len(prefix) + len(guess.ids) == self.max_tokens:
                continue
            goes_on = ~self.ends_word & (row - guess.cost >= math.log(_LEAST))
            for token_id in goes_on.nonzero()[:, 0].tolist():
                guesses.append(_Guess(guess.cost - float(row[token_id]), (*guess.ids, token_id)))
        return guesses

    # Not inference_mode: tables that the model makes on the way, such as longer positions, stay usable in training.
    @torch.no_grad()
    def _next(self, prefixes: Sequence[Sequence[int]]) -> Tensor:
        """Log-probabilities (N, V) of the token after each prefix, by all models together, on the CPU."""
        tgt_in = pad([[BOS_ID, *prefix] for prefix in prefixes]).to(self.device)
        last = torch.tensor([len(prefix) for prefix in prefixes], device=self.device)
        rows = torch.arange(len(prefixes), device=self.device)
        found = []
        for model, (memory, bias) in zip(self.models, self.encoded, strict=True):
            n = len(prefixes)
            hidden = model.decode(tgt_in, memory.expand(n, -1, -1), bias.expand(n, -1, -1, -1))[rows, last]
            found.append(torch.log_softmax(model.output(hidden), dim=-1, dtype=torch.float32))
        log_probs = torch.stack(found).logsumexp(0) - math.log(len(found))
        log_probs[:, [PAD_ID, BOS_ID]] = -math.inf
        return log_probs.cpu()

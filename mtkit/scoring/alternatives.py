"""Find alternative words for a position of a translation, each with the translation that follows from it."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mtkit.alignment.attention import piece_words
from mtkit.console import counted
from mtkit.engines.native import pad
from mtkit.errors import MtkitError
from mtkit.pair_files.lines import as_one_line
from mtkit.scoring.scoring import native_models
from mtkit.tokens.placeholders import fill
from mtkit.tokens.special_ids import BOS_ID, EOS_ID, PAD_ID
from mtkit.tokens.tokenizer import SPACE, Tokenizer
from mtkit.translation.translator import Translator

_LEAST = math.log(1e-4)  # of the log-probability of an alternative
_AT_ONCE = 16  # beginnings of words to continue in one batch


@dataclass(frozen=True)
class Alternative:
    """Another word, and the translation that it leads to."""

    word: str  # "" means that the translation ends there
    probability: float  # of the word, given those before it
    text: str


@dataclass(frozen=True)
class Alternatives:
    """The alternative words for one position of a translation."""

    src: str
    text: str  # the translation
    position: int  # of the word, from 1
    word: str
    probability: float  # of the word, given those before it
    others: list[Alternative]  # most probable first; all differ


def find_alternatives(
    translator: Translator, text: str, position: int, *, n: int = 5, translation: str | None = None
) -> Alternatives:
    """Find up to n other words for a position, counted from 1, of the text's translation, each with its continuation.

    translation: a given one instead of the model's own. Words are what white space separates; one may consist of
    several tokens. Its probability is that of its tokens and of its end after them, given the words before it. The
    continuation is what the translator's search finds when everything up to the word is forced.
    Raises MtkitError if the text or its translation is blank, has no such position, or is too long for one segment.
    """
    text = as_one_line(text).strip()
    tokenizer = translator.tgt_tokenizer
    distribution = _WordDistribution(translator, text)
    ids = _translation_ids(translator, text, translation)
    parts = _split(tokenizer, ids)
    words = [distribution.text(part) for part in parts]
    if not 1 <= position <= len(words):
        raise MtkitError(f"position {position}: the translation has {counted(len(words), 'word')}: {' '.join(words)}")
    prefix = [token_id for part in parts[: position - 1] for token_id in part]
    likeliest = distribution.likeliest(prefix, n + 1)
    others = [word for word in likeliest if word.text != words[position - 1]][:n]
    texts = _continue(translator, text, prefix, others, position)
    return Alternatives(
        src=text,
        text=distribution.text(ids),
        position=position,
        word=words[position - 1],
        probability=distribution.probability(prefix, parts[position - 1]),
        others=[Alternative(word.text, math.exp(word.log_prob), t) for word, t in zip(others, texts, strict=True)],
    )


def _translation_ids(translator: Translator, text: str, translation: str | None) -> list[int]:
    """Return the tokens of the given translation, or of the model's own."""
    if translation is None:
        [own] = translator.stream([text])
        ids = own.n_best[0].ids
    else:
        [ids] = translator.tgt_tokenizer.encode_translations([as_one_line(translation).strip()], [text])
    if not ids:
        raise MtkitError("the translation is blank: it has no positions")
    limit = translator.engine.max_positions
    if limit is not None and len(ids) + 1 > limit:  # EOS
        raise MtkitError(
            f"the translation has {len(ids)} tokens; with its end, that is more than model.max_positions={limit}; "
            "give one sentence"
        )
    return ids


def _split(tokenizer: Tokenizer, ids: Sequence[int]) -> list[list[int]]:
    """Return the tokens of each word."""
    word_indices = piece_words(tokenizer.pieces(ids))
    parts: list[list[int]] = [[] for _ in range(max(word_indices) + 1)]
    for token_id, index in zip(ids, word_indices, strict=True):
        parts[index].append(token_id)
    return parts


@dataclass(frozen=True)
class _Word:
    """A word that may follow; "" is the end of the translation."""

    text: str
    ids: tuple[int, ...]
    log_prob: float
    next_id: int = EOS_ID  # the likeliest token after it


def _ranked(words: Iterable[_Word]) -> list[_Word]:
    return sorted(words, key=lambda word: -word.log_prob)


def _continue(
    translator: Translator, text: str, prefix: Sequence[int], words: Sequence[_Word], position: int
) -> list[str]:
    """Return the translation that each word leads to."""
    texts = _search(translator, text, [[*prefix, *(word.ids or (EOS_ID,))] for word in words])
    # where the search made a longer word of it, force the word's end as well
    longer = [
        index for index, word in enumerate(words) if texts[index].split()[position - 1 : position] != word.text.split()
    ]
    ended = _search(translator, text, [[*prefix, *words[index].ids, words[index].next_id] for index in longer])
    for index, ended_text in zip(longer, ended, strict=True):
        texts[index] = ended_text
    return texts


def _search(translator: Translator, text: str, prefixes: Sequence[Sequence[int]]) -> list[str]:
    """Return the best translation with each beginning; one that ends with EOS is the whole translation."""
    unfinished = [prefix for prefix in prefixes if prefix[-1] != EOS_ID]
    candidates = iter(translator.search([text] * len(unfinished), prefixes=unfinished))
    return [
        fill(translator.tgt_tokenizer.decode(prefix[:-1]), translator.reader.replaced(text).values)
        if prefix[-1] == EOS_ID
        else next(candidates)[0].text
        for prefix in prefixes
    ]


class _WordDistribution:
    """The probabilities of the next word in translations of one text."""

    def __init__(self, translator: Translator, text: str) -> None:
        self.models = native_models(translator.engine, "alternatives")
        [piece] = translator.reader.whole.encode([text])  # as the search reads it
        srcs = [list(ids) for ids in piece.ids]
        if not srcs[0]:
            raise MtkitError("the text is blank: it has no translation")
        limit = translator.max_src_tokens
        if (longest := max(map(len, srcs))) > limit:
            raise MtkitError(
                f"the text has {longest} tokens, more than decode.max_src_tokens={limit}; give one sentence"
            )
        srcs *= len(self.models) if len(srcs) == 1 else 1
        self.tokenizer = translator.tgt_tokenizer
        self.values = translator.reader.replaced(text).values  # of the placeholders
        positions = translator.engine.max_positions
        self.max_tokens = math.inf if positions is None else positions - 1  # and EOS
        self.device = next(self.models[0].parameters()).device
        with torch.no_grad():
            self.encoded = [
                model.encode(torch.tensor([[*src, EOS_ID]], device=self.device))
                for model, src in zip(self.models, srcs, strict=True)
            ]
        pieces = self.tokenizer.pieces(range(self.tokenizer.vocab_size))
        self.ends_word = torch.tensor([piece.startswith(SPACE) for piece in pieces])  # True: what precedes is complete
        self.ends_word[EOS_ID] = True

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of the tokens, with its placeholders."""
        return fill(self.tokenizer.decode(ids), self.values)

    def likeliest(self, prefix: Sequence[int], n: int) -> list[_Word]:
        """Return the n likeliest words after the prefix of whole words, best first; fewer if others are below _LEAST.

        Continue the likeliest beginnings first, until none is as likely as the n-th word: no word is likelier than its
        beginning. Of several ways to cut a word into tokens the likeliest counts.
        """
        [first] = self._next([prefix])
        if prefix:  # whose last word is complete
            first = torch.where(self.ends_word, first, -math.inf)
            first = first - first.logsumexp(0)
        words = {"": _Word("", (), float(first[EOS_ID]))}
        first[EOS_ID] = -math.inf
        beginnings = self._extended((), 0.0, first)
        least = _LEAST
        while beginnings := sorted((b for b in beginnings if b[0] >= least), reverse=True):
            chunk, beginnings = beginnings[:_AT_ONCE], beginnings[_AT_ONCE:]
            rows = self._next([[*prefix, *ids] for _, ids in chunk])
            for (log_prob, ids), row in zip(chunk, rows, strict=True):
                text = self.text(ids)
                ends = torch.where(self.ends_word, row, -math.inf)
                word = _Word(text, ids, log_prob + float(ends.logsumexp(0)), int(ends.argmax()))
                if text.strip() and "�" not in text:
                    words[text] = max(word, words.get(text, word), key=lambda word: word.log_prob)
                if len(prefix) + len(ids) < self.max_tokens:
                    beginnings += self._extended(ids, log_prob, torch.where(self.ends_word, -math.inf, row))
            if len(words) >= n:
                least = max(_LEAST, _ranked(words.values())[n - 1].log_prob)
        return [word for word in _ranked(words.values())[:n] if word.log_prob >= _LEAST]

    def probability(self, prefix: Sequence[int], word: Sequence[int]) -> float:
        """Return the probability of these tokens and of the word's end after them, given the prefix."""
        rows = self._next([[*prefix, *word[:n]] for n in range(len(word) + 1)])
        log_prob = float(rows[-1][self.ends_word].logsumexp(0))
        if prefix:  # whose last word is complete
            log_prob -= float(rows[0][self.ends_word].logsumexp(0))
        return math.exp(log_prob + sum(float(row[token_id]) for row, token_id in zip(rows, word, strict=False)))

    def _extended(self, ids: tuple[int, ...], log_prob: float, row: Tensor) -> list[tuple[float, tuple[int, ...]]]:
        """Return the beginning of a word with each further token, row (V,) being log-probabilities of these."""
        token_ids = (row + log_prob >= _LEAST).nonzero()[:, 0].tolist()
        return [(log_prob + float(row[token_id]), (*ids, token_id)) for token_id in token_ids]

    # Not inference_mode: tables that the model makes on the way, such as longer positions, stay usable in training.
    @torch.no_grad()
    def _next(self, prefixes: Sequence[Sequence[int]]) -> Tensor:
        """Return log-probabilities (N, V) of the token after each prefix, by all models together, on the CPU."""
        n = len(prefixes)
        tgt_in = pad([[BOS_ID, *prefix] for prefix in prefixes]).to(self.device)
        rows = torch.arange(n, device=self.device)
        last = torch.tensor([len(prefix) for prefix in prefixes], device=self.device)
        members = []
        for model, (memory, bias) in zip(self.models, self.encoded, strict=True):
            hidden = model.decode(tgt_in, memory.expand(n, -1, -1), bias.expand(n, -1, -1, -1))[rows, last]
            members.append(torch.log_softmax(model.output(hidden), dim=-1, dtype=torch.float32))
        log_probs = torch.stack(members).logsumexp(0) - math.log(len(members))
        log_probs[:, [PAD_ID, BOS_ID]] = -math.inf
        return log_probs.cpu()

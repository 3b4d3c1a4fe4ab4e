"""Measure whether a tokenizer's vocabulary fits a text: its size, tokens per word, rare pieces."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mtkit.config.schema import Config
from mtkit.data.corpus import count_pairs, read_side
from mtkit.languages import SIDES
from mtkit.pair_files.lines import windows
from mtkit.tokens.changed_characters import ChangedCharacters, Changes
from mtkit.tokens.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from mtkit.tokens.tokenizer import Tokenizer, sample

_CHUNK_LINES = 10_000
# A model learns pieces with fewer occurrences in training poorly (Gowda and May 2020, section 5).
RARE_BELOW = 100


@dataclass(frozen=True)
class TokenizerReport:
    """The figures of a tokenizer on a text that it was not trained on, usually dev."""

    vocab_size: int
    n_sentences: int  # without blank ones
    n_tokens: int
    tokens_per_word: float  # words are separated by white space
    rare_vocab_share: float  # share of the learned pieces seen fewer than RARE_BELOW times in training
    rare_token_share: float  # share of the text's tokens that are such pieces
    byte_token_share: float  # share of the text's tokens that are single bytes, of characters without a piece
    n_unknown: int  # tokens of lost text; 0 with byte fallback
    longest: int  # tokens of the longest sentence
    changed: Changes  # characters of the text that normalisation changes


def report_sides(cfg: Config, tokenizers: tuple[Tokenizer, Tokenizer]) -> dict[str, TokenizerReport]:
    """Measure both sides on the config's dev text."""
    n_pairs = count_pairs(cfg.data.train)
    reports: dict[str, TokenizerReport] = {}
    settings = (cfg.tokenizer.src, cfg.tokenizer.src if cfg.tokenizer.shared else cfg.tokenizer.tgt)
    for side, tokenizer, side_settings in zip(SIDES, tokenizers, settings, strict=True):
        n_read = min(n_pairs, side_settings.max_sentences)
        training_lines = sample(read_side(cfg.data.train, side), n_pairs, n_read)
        dev_lines = read_side(cfg.data.dev, side)
        reports[side] = report(tokenizer, dev_lines, training_lines, share=n_read / n_pairs if n_pairs else 1.0)
    return reports


def report(
    tokenizer: Tokenizer, lines: Iterable[str], training_lines: Iterable[str], *, share: float = 1.0
) -> TokenizerReport:
    """Measure `lines`; count rare pieces on training_lines, an even sample of `share` of the training text."""
    training_counts = np.zeros(tokenizer.vocab_size, dtype=np.int64)
    for chunk in windows(training_lines, _CHUNK_LINES):
        training_counts += _occurrences(tokenizer.encode_batch(chunk), tokenizer.vocab_size)
    return report_by_counts(tokenizer, lines, (training_counts / share).astype(np.int64))


def report_by_counts(
    tokenizer: Tokenizer, lines: Iterable[str], training_counts: npt.NDArray[np.int64]
) -> TokenizerReport:
    """Measure `lines`; training_counts (V,): how often each piece occurs in the training text."""
    n_words = n_sentences = longest = 0
    counts = np.zeros(tokenizer.vocab_size, dtype=np.int64)
    changed = ChangedCharacters(tokenizer.normalize)
    for chunk in windows(lines, _CHUNK_LINES):
        encoded = tokenizer.encode_batch(chunk)
        n_words += sum(len(line.split()) for line in chunk)
        n_sentences += sum(bool(ids) for ids in encoded)
        longest = max(longest, *map(len, encoded))
        counts += _occurrences(encoded, tokenizer.vocab_size)
        for line in chunk:
            changed.add(line)
    rare = training_counts < RARE_BELOW
    bytes_ = tokenizer.byte_ids()
    rare[[PAD_ID, UNK_ID, BOS_ID, EOS_ID, *bytes_]] = False  # not learned
    n_learned = tokenizer.vocab_size - 4 - len(bytes_)
    n_tokens = int(counts.sum())
    return TokenizerReport(
        vocab_size=tokenizer.vocab_size,
        n_sentences=n_sentences,
        n_tokens=n_tokens,
        tokens_per_word=n_tokens / max(1, n_words),
        rare_vocab_share=int(rare.sum()) / n_learned,
        rare_token_share=int(counts[rare].sum()) / max(1, n_tokens),
        byte_token_share=int(counts[bytes_].sum()) / max(1, n_tokens),
        n_unknown=int(counts[UNK_ID]),
        longest=longest,
        changed=changed.all(),
    )


def _occurrences(encoded: list[list[int]], vocab_size: int) -> npt.NDArray[np.int64]:
    """Count each id: (V,)."""
    ids = np.fromiter((token_id for ids in encoded for token_id in ids), dtype=np.int64)
    return np.bincount(ids, minlength=vocab_size)

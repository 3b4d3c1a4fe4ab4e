"""Align the words of a text and its translation by the model's attention to the source.

While the decoder predicts a token, the cross-attention of its last layer but one looks mostly at the token's
counterparts (Garg et al. 2019). Of two layers it is the last: in a production model of that depth, the last layer
links 95 % of names and numbers to themselves, the first 39 %. The weights are the mean over the heads, summed over the
tokens of a source word and averaged over those of a target word. Where the bundle has a lexicon of alignments, it has
most of the weight: it knows words well, while attention handles repeated and rare words.
"""

import codecs
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mtkit.alignment.forced import ForcedPair, explain_out_of_memory, forced_batches
from mtkit.alignment.lexicon import AlignmentLexicon
from mtkit.console import counted, log
from mtkit.model.transformer import Transformer
from mtkit.pair_files.lines import as_one_line
from mtkit.tokens.tokenizer import SPACE, Tokenizer

Interval = tuple[int, int]  # characters of a text: from, up to
_LEXICON_SHARE = 0.7  # of the weights; the rest is attention's
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def align(
    model: Transformer,
    src_tokenizer: Tokenizer,
    tgt_tokenizer: Tokenizer,
    pairs: Sequence[tuple[str, str]],
    *,
    lexicon: AlignmentLexicon | None = None,
    layer: int | None = None,
) -> list[str]:
    """Return the word alignment of each pair of texts in Pharaoh format: `0-0 1-2`, source word - target word, from 0.

    Words are what white space separates. Each target word is linked to the source word with the most attention, or
    to none if that is the end of the sentence or the tokenizer's tag; a source word may have several links or none. A
    pair with a blank side has no links.
    lexicon: of the model's bundle. layer: the decoder layer, from 0; by default the one that aligns best.
    """
    texts = [(as_one_line(src).strip(), as_one_line(tgt).strip()) for src, tgt in pairs]
    forced = _forced(src_tokenizer, tgt_tokenizer, texts)
    if n_long := sum(not _fits(pair, model) for pair in forced):
        limit = model.cfg.max_positions
        log.warning(f"{n_long:,} of {counted(len(pairs), 'pair')} not aligned: longer than model.max_positions={limit}")
    alignments = [""] * len(pairs)
    for index, attention in _weights(model, forced, lexicon, layer):
        pair, (src_text, tgt_text) = forced[index], texts[index]
        src_words, tgt_words = token_words(src_text, src_tokenizer), token_words(tgt_text, tgt_tokenizer, src_text)
        links = sorted(word_links(_end_for_tag(attention, len(pair.src) - len(src_words)), src_words, tgt_words))
        alignments[index] = " ".join(f"{src}-{tgt}" for src, tgt in links)
    return alignments


def interval_weights(
    model: Transformer,
    src_tokenizer: Tokenizer,
    tgt_tokenizer: Tokenizer,
    texts: Sequence[tuple[str, str]],
    intervals: Sequence[tuple[Sequence[Interval], Sequence[Interval]]],
    lexicon: AlignmentLexicon | None = None,
) -> list[npt.NDArray[np.float64]]:
    """Return how strongly parts of a translation correspond to parts of its source: per pair (target, source).

    intervals: of each pair, the parts of source and target, such as words: characters from, up to. A row adds up to at
    most 1; the rest is attention to the end of the sentence and to what is in no part. Rows are 0 for texts that are
    blank, or too long for the model. lexicon: of the model's bundle.
    """
    forced = _forced(src_tokenizer, tgt_tokenizer, texts)
    matrices = [np.zeros((len(tgt), len(src))) for src, tgt in intervals]
    for index, attention in _weights(model, forced, lexicon):
        src, tgt = texts[index]
        src_spans, tgt_spans = src_tokenizer.spans(src), tgt_tokenizer.spans(tgt, src)
        n_tags = len(forced[index].src) - len(src_spans)
        of_tokens = attention[:, n_tags:-1].double().numpy()
        of_src, of_tgt = _shares(src_spans, intervals[index][0]), _shares(tgt_spans, intervals[index][1])
        tokens = of_tgt.sum(0)
        matrices[index] = (of_tgt / np.where(tokens > 0, tokens, 1)).T @ of_tokens @ of_src
    return matrices


def _shares(tokens: Sequence[Interval], parts: Sequence[Interval]) -> npt.NDArray[np.float64]:
    """Return which share of each token's characters is in each part: (tokens, parts), both in rising order."""
    shares = np.zeros((len(tokens), len(parts)))
    starts, ends = (np.array([part[end] for part in parts], dtype=np.int64) for end in (0, 1))
    for index, (start, end) in enumerate(tokens):
        first, last = np.searchsorted(ends, start, side="right"), np.searchsorted(starts, end, side="left")
        overlaps = np.minimum(ends[first:last], end) - np.maximum(starts[first:last], start)
        if (total := overlaps.sum()) > 0:
            shares[index, first:last] = overlaps / total
    return shares


def _forced(src_tokenizer: Tokenizer, tgt_tokenizer: Tokenizer, texts: Sequence[tuple[str, str]]) -> list[ForcedPair]:
    srcs, tgts = [src for src, _ in texts], [tgt for _, tgt in texts]
    src_ids, tgt_ids = src_tokenizer.encode_batch(srcs), tgt_tokenizer.encode_translations(tgts, srcs)
    return [ForcedPair(src, tgt) for src, tgt in zip(src_ids, tgt_ids, strict=True)]


def _weights(
    model: Transformer, pairs: Sequence[ForcedPair], lexicon: AlignmentLexicon | None, layer: int | None = None
) -> Iterator[tuple[int, Tensor]]:
    """Return the weights (T, S + 1) of the pairs that have text on both sides and fit into the model, with indices."""
    indices = [index for index, pair in enumerate(pairs) if pair.src and pair.tgt and _fits(pair, model)]
    for index, attention in zip(
        indices, attention_weights(model, [pairs[index] for index in indices], layer=layer), strict=True
    ):
        yield index, attention if lexicon is None else _mixed(attention.float(), pairs[index], lexicon)


def _mixed(attention: Tensor, pair: ForcedPair, lexicon: AlignmentLexicon) -> Tensor:
    """Return the weights of a pair: attention (T, S + 1) and what the lexicon says, mixed."""
    known = lexicon.agreement(torch.tensor([pair.src]), torch.tensor([pair.tgt]))[0]
    weights = (1 - _LEXICON_SHARE) * attention
    weights[:, :-1] += _LEXICON_SHARE * known
    return weights


def _fits(pair: ForcedPair, model: Transformer) -> bool:
    return model.cfg.positions != "learned" or max(len(pair.src), len(pair.tgt)) < model.cfg.max_positions  # and EOS


# Not inference_mode: tables that the model makes on the way, such as longer positions, stay usable in training.
@torch.no_grad()
def attention_weights(model: Transformer, pairs: Sequence[ForcedPair], *, layer: int | None = None) -> list[Tensor]:
    """Return the attention of each target token to the source tokens, EOS last: a matrix (T, S + 1) per pair.

    It is that of `Transformer.hidden_and_alignment`.
    """
    matrices: list[Tensor] = [torch.empty(0)] * len(pairs)
    was_training = model.training
    model.eval()
    try:
        for batch in forced_batches(pairs, next(model.parameters()).device):
            with explain_out_of_memory(batch):
                weights = model.hidden_and_alignment(batch.src, batch.tgt_in, layer)[1].cpu()
            for index, matrix in zip(batch.indices, weights, strict=True):
                matrices[index] = matrix[: len(pairs[index].tgt), : len(pairs[index].src) + 1]
    finally:
        model.train(was_training)
    return matrices


def _end_for_tag(attention: Tensor, n_tags: int) -> Tensor:
    """Move the attention (T, S + 1) in the first n_tags columns to the last one, the end, and drop those columns."""
    if not n_tags:
        return attention
    rest = attention[:, n_tags:].clone()
    rest[:, -1] += attention[:, :n_tags].sum(1)
    return rest


def word_links(attention: Tensor, src_words: Sequence[int], tgt_words: Sequence[int]) -> set[tuple[int, int]]:
    """Return links (source word, target word) from token attention (T, S + 1); its last column is the source's end.

    src_words, tgt_words: the index of each token's word.
    """
    end = max(src_words) + 1
    by_word = torch.zeros(len(tgt_words), end + 1).index_add_(1, torch.tensor([*src_words, end]), attention.float())
    sums = torch.zeros(max(tgt_words) + 1, end + 1).index_add_(0, torch.tensor(tgt_words), by_word)
    best = sums.argmax(1).tolist()  # the sum has its largest value where the mean has
    return {(best[word], word) for word in set(tgt_words) if best[word] != end}


def token_words(text: str, tokenizer: Tokenizer, src: str | None = None) -> list[int]:
    """Return the index of each token's word in the text; words are what white space separates.

    src: the source, if the text is a translation.
    """
    ends = [word.end() for word in re.finditer(r"\S+", text)]
    # a token ends in its word, or, if it is all space, before it
    return [min(bisect_right(ends, max(start, end - 1)), len(ends) - 1) for start, end in tokenizer.spans(text, src)]


def piece_words(pieces: Sequence[str]) -> list[int]:
    """Return the index of the word that each piece begins or continues; a piece that spells a space gets the next."""
    word_indices = [0] * len(pieces)
    waiting: list[int] = []  # pieces that have not spelt a visible character yet
    word, in_word = -1, False
    utf8 = codecs.getincrementaldecoder("utf-8")("replace")
    for index, piece in enumerate(pieces):
        waiting.append(index)
        byte = _BYTE.fullmatch(piece)
        for character in utf8.decode(bytes.fromhex(byte[1])) if byte else piece.replace(SPACE, " "):
            if character.isspace():
                in_word = False
                continue
            word += not in_word
            in_word = True
            for earlier in waiting:
                word_indices[earlier] = word
            waiting = []
    for index in waiting:  # spaces at the end
        word_indices[index] = max(word, 0)
    return word_indices

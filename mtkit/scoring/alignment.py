"""Align the words of a text and its translation by the model's attention to the source.

While the decoder predicts a token, the cross-attention of its last layer but one looks mostly at the token's
counterparts (Garg et al. 2019). Of two layers it is the last: in a production model of that depth, the last layer
links 95 % of names and numbers to themselves, the first 39 %. The weights are the mean over the heads, summed over the
tokens of a source word and averaged over those of a target word.
"""

import codecs
import re
from collections.abc import Sequence

import torch
from torch import Tensor

from mtkit.console import counted, log
from mtkit.data.tokenizer import SPACE, Tokenizer
from mtkit.formats.lines import as_one_line
from mtkit.model.transformer import Transformer
from mtkit.scoring.scoring import ForcedPair, explain_out_of_memory, forced_batches

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def align(
    model: Transformer,
    src_tokenizer: Tokenizer,
    tgt_tokenizer: Tokenizer,
    pairs: Sequence[tuple[str, str]],
    *,
    layer: int | None = None,
) -> list[str]:
    """Return the word alignment of each pair of texts in Pharaoh format: `0-0 1-2`, source word - target word, from 0.

    Words are what white space separates. Each target word is linked to the source word with the most attention, or
    to none if that is the end of the sentence or the tokenizer's tag; a source word may have several links or none. A
    pair with a blank side has no links.
    layer: the decoder layer, from 0; by default the one that aligns best.
    """
    texts = [(as_one_line(src).strip(), as_one_line(tgt).strip()) for src, tgt in pairs]
    src_ids = src_tokenizer.encode_batch([src for src, _ in texts])
    tgt_ids = tgt_tokenizer.encode_batch([tgt for _, tgt in texts])
    forced = [ForcedPair(src, tgt) for src, tgt in zip(src_ids, tgt_ids, strict=True)]
    limit = model.cfg.max_positions if model.cfg.positions == "learned" else None
    indices = [index for index, pair in enumerate(forced) if pair.src and pair.tgt and _fits(pair, limit)]
    if n_long := sum(not _fits(pair, limit) for pair in forced):
        log.warning(f"{n_long:,} of {counted(len(pairs), 'pair')} not aligned: longer than model.max_positions={limit}")
    alignments = [""] * len(pairs)
    weights = attention_weights(model, [forced[index] for index in indices], layer=layer)
    for index, attention in zip(indices, weights, strict=True):
        pair, (src_text, tgt_text) = forced[index], texts[index]
        src_words = words_of(src_text, src_tokenizer, src_tokenizer.untagged(pair.src))
        tgt_words = words_of(tgt_text, tgt_tokenizer, pair.tgt)
        links = sorted(word_links(_end_for_tag(attention, len(pair.src) - len(src_words)), src_words, tgt_words))
        alignments[index] = " ".join(f"{src}-{tgt}" for src, tgt in links)
    return alignments


def _fits(pair: ForcedPair, max_positions: int | None) -> bool:
    return max_positions is None or max(len(pair.src), len(pair.tgt)) < max_positions  # and EOS


# Not inference_mode: tables that the model makes on the way, such as longer positions, stay usable in training.
@torch.no_grad()
def attention_weights(model: Transformer, pairs: Sequence[ForcedPair], *, layer: int | None = None) -> list[Tensor]:
    """Return how each target token's prediction looked at the source tokens, EOS last: a matrix (T, S + 1) per pair.

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
    """Add the first n_tags columns of the attention (T, S + 1) to the last one, the end, and leave them out."""
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


def words_of(text: str, tokenizer: Tokenizer, ids: Sequence[int]) -> list[int]:
    """Return the index of each token's word in the text as it stands.

    Normalisation can split or remove a word, so count words in the normalised text and trace them back.
    """
    word_indices = piece_words(tokenizer.pieces(ids))
    words = text.split()
    owners = [index for index, word in enumerate(words) for _ in tokenizer.normalize(word).split()]
    if len(owners) != max(word_indices) + 1:  # normalisation reached across a space: this comes closest
        owners = [min(index, len(words) - 1) for index in range(max(word_indices) + 1)]
    return [owners[index] for index in word_indices]


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

"""A text and its translation in, which word belongs to which out, read from the model's attention to the source.

While the decoder predicts a token, the cross-attention of its last layer but one looks mostly at the token's
counterparts (Garg et al. 2019); of two layers it is the last (measured: in a production model of that
depth, 95 % of names and numbers are linked to themselves by the last layer, 39 % by the first). The weights are the
mean over the heads; those of a source word's tokens are added up, those of a target word's tokens averaged.
"""

import codecs
import re
from collections.abc import Sequence

import torch
from torch import Tensor

from mtkit.console import log
from mtkit.data.corpus import as_one_line
from mtkit.data.tokenizer import SPACE, Tokenizer
from mtkit.model.transformer import Transformer
from mtkit.scoring.scoring import ForcedBatch, ForcedPair, forced_batches, want_of_memory_explained

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def align(
    model: Transformer,
    src_tokenizer: Tokenizer,
    tgt_tokenizer: Tokenizer,
    pairs: Sequence[tuple[str, str]],
    *,
    layer: int | None = None,
) -> list[str]:
    """The word alignment of each pair of texts in Pharaoh format: `0-0 1-2`, source word - target word, from 0.

    Words are what white space separates. Each target word is linked to the source word it got most attention for, or
    to none if that is the end of the sentence or the tokenizer's tag; a source word may have several links or none. A
    pair with a blank side has no links.
    layer: whose attention, from 0; by default that of `alignment_layer`.
    """
    texts = [(as_one_line(src).strip(), as_one_line(tgt).strip()) for src, tgt in pairs]
    src_ids = src_tokenizer.encode_batch([src for src, _ in texts])
    tgt_ids = tgt_tokenizer.encode_batch([tgt for _, tgt in texts])
    forced = [ForcedPair(src, tgt) for src, tgt in zip(src_ids, tgt_ids, strict=True)]
    limit = model.cfg.max_positions if model.cfg.positions == "learned" else None
    numbers = [number for number, pair in enumerate(forced) if pair.src and pair.tgt and _fits(pair, limit)]
    if n_long := sum(not _fits(pair, limit) for pair in forced):
        log.warning(f"{n_long:,} of {len(pairs):,} pairs not aligned: longer than model.max_positions={limit}")
    alignments = [""] * len(pairs)
    weights = attention_weights(model, [forced[number] for number in numbers], layer=layer)
    for number, attention in zip(numbers, weights, strict=True):
        pair, (src_text, tgt_text) = forced[number], texts[number]
        src_words = words_of(src_text, src_tokenizer, src_tokenizer.untagged(pair.src))
        tgt_words = words_of(tgt_text, tgt_tokenizer, pair.tgt)
        links = sorted(word_links(_end_for_tag(attention, len(pair.src) - len(src_words)), src_words, tgt_words))
        alignments[number] = " ".join(f"{src}-{tgt}" for src, tgt in links)
    return alignments


def alignment_layer(n_layers: int) -> int:
    """The decoder layer whose attention shows alignment best: the last but one; of one or two, the last."""
    return n_layers - 2 if n_layers > 2 else n_layers - 1


def _fits(pair: ForcedPair, max_positions: int | None) -> bool:
    return max_positions is None or max(len(pair.src), len(pair.tgt)) < max_positions  # and EOS


# Not inference_mode: tables that the model makes on the way, such as longer positions, stay usable in training.
@torch.no_grad()
def attention_weights(model: Transformer, pairs: Sequence[ForcedPair], *, layer: int | None = None) -> list[Tensor]:
    """How each target token's prediction looked at the source tokens, EOS last: a matrix (T, S + 1) per pair.

    The mean over the heads of one decoder layer, by default that of `alignment_layer`; rows add up to 1.
    """
    if layer is None:
        layer = alignment_layer(len(model.decoder_layers))
    found: list[Tensor] = [torch.empty(0)] * len(pairs)
    was_training = model.training
    model.eval()
    try:
        for batch in forced_batches(pairs, next(model.parameters()).device):
            weights = _weights(model, batch, layer)
            for number, matrix in zip(batch.numbers, weights, strict=True):
                found[number] = matrix[: len(pairs[number].tgt), : len(pairs[number].src) + 1]
    finally:
        model.train(was_training)
    return found


def _weights(model: Transformer, batch: ForcedBatch, layer: int) -> Tensor:
    """The layer's attention (B, T, S), mean over the heads; the model's own pass computes it a second time."""
    found: list[Tensor] = []
    attention = model.decoder_layers[layer].cross_attention

    def look(_: torch.nn.Module, arguments: tuple[Tensor, Tensor, Tensor, Tensor]) -> None:
        x, keys, _values, bias = arguments
        found.append(attention.weights(x, keys, bias).mean(1))

    handle = attention.register_forward_pre_hook(look)
    try:
        with want_of_memory_explained(batch):
            model.hidden(batch.src, batch.tgt_in)
    finally:
        handle.remove()
    return found[0].cpu()


def _end_for_tag(attention: Tensor, n_tags: int) -> Tensor:
    """The attention (T, S + 1) without the first n_tags columns: added to the last one, they count as the end does."""
    if not n_tags:
        return attention
    rest = attention[:, n_tags:].clone()
    rest[:, -1] += attention[:, :n_tags].sum(1)
    return rest


def word_links(attention: Tensor, src_words: Sequence[int], tgt_words: Sequence[int]) -> set[tuple[int, int]]:
    """(source word, target word) from token attention (T, S + 1), whose last column is the end of the source.

    src_words, tgt_words: the number of the word that each token belongs to.
    """
    end = max(src_words) + 1
    by_word = torch.zeros(len(tgt_words), end + 1).index_add_(1, torch.tensor([*src_words, end]), attention.float())
    sums = torch.zeros(max(tgt_words) + 1, end + 1).index_add_(0, torch.tensor(tgt_words), by_word)
    best = sums.argmax(1).tolist()  # the sum has its largest value where the mean has
    return {(best[word], word) for word in set(tgt_words) if best[word] != end}


def words_of(text: str, tokenizer: Tokenizer, ids: Sequence[int]) -> list[int]:
    """For each token of the text the number of the word, counted in the text as it stands, that it belongs to.

    Normalisation can split a word or make it vanish, so words are counted in the normalised text and traced back.
    """
    numbers = piece_words(tokenizer.pieces(ids))
    words = text.split()
    owners = [number for number, word in enumerate(words) for _ in tokenizer.normalize(word).split()]
    if len(owners) != max(numbers) + 1:  # normalisation reached across a space: as good as can be had
        owners = [min(number, len(words) - 1) for number in range(max(numbers) + 1)]
    return [owners[number] for number in numbers]


def piece_words(pieces: Sequence[str]) -> list[int]:
    """The number, from 0, of the word that each piece begins or continues; of the next one for what spells a space."""
    numbers = [0] * len(pieces)
    waiting: list[int] = []  # pieces that have not spelt a visible character yet
    word, in_word = -1, False
    utf8 = codecs.getincrementaldecoder("utf-8")("replace")
    for number, piece in enumerate(pieces):
        waiting.append(number)
        byte = _BYTE.fullmatch(piece)
        for character in utf8.decode(bytes.fromhex(byte[1])) if byte else piece.replace(SPACE, " "):
            if character.isspace():
                in_word = False
                continue
            word += not in_word
            in_word = True
            for earlier in waiting:
                numbers[earlier] = word
            waiting = []
    for number in waiting:  # spaces at the end
        numbers[number] = max(word, 0)
    return numbers

"""Sentence pairs in; their padded batch, its masks, and what padding changes in each sentence's figures out."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from mtkit.data.special_ids import PAD_ID
from mtkit.errors import MtkitError
from mtkit.inspection.pictures import axis_names, new_figure, save_figure
from mtkit.inspection.sentence_pair import SentencePair, Subject, named_pieces
from mtkit.model.masks import causal_bias
from mtkit.model.transformer import Transformer
from mtkit.pages.page import write_page

TOLERANCE = 1e-3  # of a logit: rounding to float32 makes some 1e-5, one token too many that is looked at some 0.1
# Further below the highest logit a token's probability is nothing. Models that must never say a token may give it
# -30,000, where float32 has no more than two decimals.
_NEGLIGIBLE = 100.0
_NO_ID = -1
LOOKS, HIDDEN, UNUSED = "\u25a0", "\u00b7", "\u00d7"  # what a cell of a mask can be
MEANINGS = {
    LOOKS: "the row's token may look at the column's",
    HIDDEN: "hidden from it",
    UNUSED: "the row is padding: computed, never used",
}
_MOST_COLUMNS, _LINE = 32, 100  # tokens of a mask, and characters of a line, that a terminal shows well
_MOST_CELLS = 60_000  # of a page, which then has some 2 MB
_TOKEN, _LEAST, _LABELS, _DPI = 0.19, 1.6, 1.25, 120  # inches a token, the least side of a mask, room for tokens
_MAX_PIXELS = 60_000_000  # matplotlib then needs about a gigabyte


@dataclass(frozen=True)
class Difference:
    """How far a sentence's figures are from those that it has alone; NaN where one of them is NaN."""

    encoder: float  # largest of the encoder's outputs at its own tokens
    logits: float  # largest of the logits at its own tokens, see _NEGLIGIBLE
    changed: int  # positions at which another token is now the likeliest

    def within(self, tolerance: float) -> bool:
        """Whether both are at most the tolerance."""
        return self.encoder <= tolerance and self.logits <= tolerance


@dataclass(frozen=True)
class PaddedSentence:
    """One row of the batch."""

    pair: SentencePair
    src: Sequence[str]  # what the encoder is given, <pad> at its end
    tgt_in: Sequence[str]  # what the decoder is given, <start> first
    n_src: int  # of them no padding
    n_tgt: int
    src_mask: Tensor  # bool (S,), True where any position may look, in the encoder and from the decoder
    masked: Difference
    unmasked: Difference  # as it would be if padding were looked at


@dataclass(frozen=True)
class PaddedBatch:
    """Sentences that are computed together."""

    sentences: Sequence[PaddedSentence]
    causal_mask: Tensor  # bool (T, T): row t may look at the columns that are True
    recurrent: bool  # the decoder has a recurrent unit (SSRU), which is causal without a mask
    tolerance: float

    @property
    def padded(self) -> bool:
        """Whether there is any padding."""
        return any(row.n_src < len(row.src) or row.n_tgt < len(row.tgt_in) for row in self.sentences)

    @property
    def holds(self) -> bool:
        """Whether padding changes nothing."""
        return all(row.masked.within(self.tolerance) for row in self.sentences)


@torch.no_grad()
def padded_batch(
    subject: Subject,
    pairs: Sequence[SentencePair],
    *,
    tolerance: float = TOLERANCE,
    advance: Callable[[], object] = lambda: None,
) -> PaddedBatch:
    """The pairs as one batch, compared with each pair alone. advance: called after each pair."""
    model = subject.model
    src = _padded([pair.src.ids for pair in pairs])
    tgt_in = _padded([pair.tgt_in for pair in pairs])
    src_mask = model.encode(src)[1][:, 0, 0] == 0
    masked = _Figures.of(model, src, tgt_in)
    with _padding_looked_at(model):
        unmasked = _Figures.of(model, src, tgt_in)
    rows = []
    for i, pair in enumerate(pairs):
        alone = _Figures.of(model, torch.tensor([pair.src.ids]), torch.tensor([pair.tgt_in]))
        rows.append(
            PaddedSentence(
                pair,
                named_pieces(subject.src_tokenizer, src[i].tolist()),
                named_pieces(subject.tgt_tokenizer, tgt_in[i].tolist()),
                len(pair.src.ids),
                len(pair.tgt_in),
                src_mask[i],
                alone.difference(masked, i),
                alone.difference(unmasked, i),
            )
        )
        advance()
    causal = causal_bias(tgt_in.size(1))[0, 0] == 0
    return PaddedBatch(rows, causal, model.cfg.decoder == "ssru", tolerance)


@dataclass(frozen=True)
class _Figures:
    """What the model computes for a batch."""

    memory: Tensor  # (B, S, D)
    logits: Tensor  # (B, T, V)

    @classmethod
    def of(cls, model: Transformer, src: Tensor, tgt_in: Tensor) -> "_Figures":
        memory, pad_bias = model.encode(src)
        return cls(memory, model.output(model.decode(tgt_in, memory, pad_bias)))

    def difference(self, batch: "_Figures", i: int) -> Difference:
        """Between this sentence alone and sentence i of the batch, as far as this one goes."""
        memory, logits = self.memory[0], self.logits[0]
        batch_memory, batch_logits = batch.memory[i, : len(memory)], batch.logits[i, : len(logits)]
        changed = (logits.argmax(-1) != batch_logits.argmax(-1)).sum()
        floor = logits.amax(-1, keepdim=True) - _NEGLIGIBLE
        difference = logits.maximum(floor) - batch_logits.maximum(floor)
        return Difference(float((memory - batch_memory).abs().max()), float(difference.abs().max()), int(changed))


@contextmanager
def _padding_looked_at(model: Transformer) -> Iterator[None]:
    """During the block no token counts as padding, so that nothing hides it."""
    pad_id, model.pad_id = model.pad_id, _NO_ID
    try:
        yield
    finally:
        model.pad_id = pad_id


def _padded(rows: Sequence[Sequence[int]]) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD_ID)


@dataclass(frozen=True)
class Mask:
    """One kind of attention of one sentence: who may look at whom."""

    name: str
    queries: Sequence[str]  # its rows
    keys: Sequence[str]
    cells: npt.NDArray[np.str_]  # (Q, L) of LOOKS, HIDDEN, UNUSED


def masks_of(batch: PaddedBatch, row: PaddedSentence) -> list[Mask]:
    """The encoder's, the decoder's to itself, and the decoder's to the encoder."""
    src_mask, causal = row.src_mask.numpy(), batch.causal_mask.numpy()

    def mask(name: str, queries: Sequence[str], n_queries: int, keys: Sequence[str], allowed: Any) -> Mask:
        cells = np.where(np.broadcast_to(allowed, (len(queries), len(keys))), LOOKS, HIDDEN)
        cells[n_queries:] = UNUSED
        return Mask(name, queries, keys, cells)

    own = "decoder, recurrent: causal by itself" if batch.recurrent else "decoder self-attention: causal"
    return [
        mask("encoder self-attention: padding", row.src, row.n_src, row.src, src_mask),
        mask(own, row.tgt_in, row.n_tgt, row.tgt_in, causal),
        mask("cross-attention: padding", row.tgt_in, row.n_tgt, row.src, src_mask),
    ]


def as_text(batch: PaddedBatch) -> str:
    """The batch with its padding masks, each sentence's causal mask, then the proof."""
    n_src, n_tgt = len(batch.sentences[0].src), len(batch.sentences[0].tgt_in)
    legend = "; ".join(f"{sign} {meaning}" for sign, meaning in MEANINGS.items())
    n = len(batch.sentences)
    lines = [f"{n} sentence{'s' * (n > 1)}, padded to {n_src} source and {n_tgt} target tokens", legend]
    lines += ["", "padding mask of the source, the same for every token that looks:", *_padding_text(batch)]
    lines += ["", "The target's padding needs no mask of its own: it comes last, where the causal mask hides it."]
    for number, row in enumerate(batch.sentences, start=1):
        lines += ["", *_causal_text(batch, number, row)]
    return "\n".join([*lines, "", *proof(batch)])


def proof(batch: PaddedBatch) -> list[str]:
    """How far each sentence in the batch is from itself alone, with the padding mask and without."""
    lines = [
        "largest difference from each sentence alone",
        "                         with the padding mask           without it",
        "sentence  <pad> src tgt  encoder   logits  other token   encoder   logits  other token",
    ]
    for number, row in enumerate(batch.sentences, start=1):
        padding = f"{len(row.src) - row.n_src:>9} {len(row.tgt_in) - row.n_tgt:>3}"
        lines.append(f"{number:>8}{padding}  {_difference(row.masked)}   {_difference(row.unmasked)}")
    return [*lines, verdict(batch)]


def verdict(batch: PaddedBatch) -> str:
    """The proof in a sentence."""
    worst = max((d for row in batch.sentences for d in (row.masked.encoder, row.masked.logits)), key=_nan_last)
    found = f"largest difference {worst:.1e} (tolerance {batch.tolerance:.0e})"
    return f"holds   padding changes nothing: {found}" if batch.holds else f"BROKEN  padding changes figures: {found}"


def write_picture(path: Path, batch: PaddedBatch) -> None:
    """All masks, a row for each sentence, as .png or .svg. Raises MtkitError without matplotlib, or if too large."""
    n_src, n_tgt = (max(_LEAST, _TOKEN * n) for n in (len(batch.sentences[0].src), len(batch.sentences[0].tgt_in)))
    width = n_src + n_tgt + n_src + 3 * _LABELS + 0.6
    height = len(batch.sentences) * (max(n_src, n_tgt) + _LABELS + 0.4) + 0.9
    if width * height * _DPI**2 > _MAX_PIXELS:
        raise MtkitError(
            f"{path}: the masks of this batch make a picture of {width * _DPI:,.0f} x {height * _DPI:,.0f} pixels; "
            "give fewer or shorter sentences"
        )
    figure = new_figure(path, width, height, layout="constrained")
    signs = "blue: the row's token may look at the column's; white: hidden; grey: a row of padding, never used"
    figure.suptitle(f"{verdict(batch).split(maxsplit=1)[1]}\n{signs}", size=9, parse_math=False)
    ratios = (n_src, n_tgt, n_src)
    grid = figure.subplots(len(batch.sentences), 3, squeeze=False, gridspec_kw={"width_ratios": ratios})
    for axes_row, row in zip(grid, batch.sentences, strict=True):
        for axes, mask in zip(axes_row, masks_of(batch, row), strict=True):
            _draw(axes, mask)
    save_figure(figure, path, _DPI)


def write_masks_page(path: Path, batch: PaddedBatch) -> None:
    """All masks and the proof as one HTML page. Raises MtkitError if it would be too large."""
    n_src, n_tgt = len(batch.sentences[0].src), len(batch.sentences[0].tgt_in)
    n_cells = len(batch.sentences) * (n_src * n_src + n_tgt * n_tgt + n_tgt * n_src)
    if n_cells > _MOST_CELLS:
        raise MtkitError(
            f"{path}: the masks of this batch have {n_cells:,} cells, too many for a page (at most {_MOST_CELLS:,}); "
            "give fewer or shorter sentences"
        )
    write_page(
        path,
        "masks",
        title="Masks of a padded batch",
        batch=batch,
        verdict=verdict(batch).split(maxsplit=1)[1],
        masks=[masks_of(batch, row) for row in batch.sentences],
        meanings=MEANINGS,
        kinds={LOOKS: "looks", HIDDEN: "hides", UNUSED: "unused"},
    )


def _padding_text(batch: PaddedBatch) -> list[str]:
    """Each sentence's tokens with what may be looked at below; long ones in several blocks."""
    lines = []
    for start, end, widths in _blocks(batch):
        if start:
            lines += ["", f"from token {start}:"]
        for number, row in enumerate(batch.sentences, start=1):
            signs = [LOOKS if may_look else HIDDEN for may_look in row.src_mask.tolist()]
            for label, cells in ((str(number), row.src[start:end]), ("", signs[start:end])):
                columns = " ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
                lines.append(f"{label:>4}  {columns}".rstrip())
    return lines


def _blocks(batch: PaddedBatch) -> list[tuple[int, int, list[int]]]:
    """Start, end and column widths of the pieces of the source that fit into a line."""
    widths = [max(map(len, column)) for column in zip(*(row.src for row in batch.sentences), strict=True)]
    blocks, start = [], 0
    for end in range(1, len(widths) + 1):
        if end == len(widths) or sum(widths[start : end + 1]) + end - start > _LINE:
            blocks.append((start, end, widths[start:end]))
            start = end
    return blocks


def _causal_text(batch: PaddedBatch, number: int, row: PaddedSentence) -> list[str]:
    mask = masks_of(batch, row)[1]
    lines = [f"sentence {number}, {mask.name}"]
    if len(mask.keys) > _MOST_COLUMNS:
        return [*lines, f"  {len(mask.keys)} tokens are too many to draw here; --output draws them"]
    width = max(map(len, mask.queries))
    lines.append(" " * (width + 7) + "".join(f"{i:>3}" for i in range(len(mask.keys))))
    for i, (piece, cells) in enumerate(zip(mask.queries[: row.n_tgt + 1], mask.cells, strict=False)):
        lines.append(f"  {i:>3}  {piece:<{width}}" + "".join(f"{sign:>3}" for sign in cells))
    n_more = len(mask.queries) - row.n_tgt - 1
    return [*lines, f"       and {n_more} more of <pad>"] if n_more > 0 else lines


def _difference(found: Difference) -> str:
    return f"{found.encoder:>7.1e}  {found.logits:>7.1e}  {found.changed:>11}"


def _nan_last(value: float) -> tuple[bool, float]:
    return value != value, value


def _draw(axes: Any, mask: Mask) -> None:
    colours = {LOOKS: (0.12, 0.44, 0.71), HIDDEN: (1.0, 1.0, 1.0), UNUSED: (0.82, 0.82, 0.82)}
    axes.imshow([[colours[str(sign)] for sign in row] for row in mask.cells], aspect="equal", interpolation="nearest")
    axes.set_title(mask.name, size=8)
    axes.set_xticks(range(len(mask.keys)), axis_names(mask.keys), rotation=90, size=7, parse_math=False)
    axes.set_yticks(range(len(mask.queries)), axis_names(mask.queries), size=7, parse_math=False)
    axes.set_xticks(np.arange(0.5, len(mask.keys)), minor=True)
    axes.set_yticks(np.arange(0.5, len(mask.queries)), minor=True)
    axes.grid(which="minor", color="#999999", linewidth=0.4)
    axes.tick_params(which="both", length=0)

"""Show the masks of a padded batch, and measure the effect of padding: each sentence in the batch and alone."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mtkit.engines.native import pad
from mtkit.errors import MtkitError
from mtkit.inspection.pictures import axis_names, new_figure, save_figure
from mtkit.inspection.sentence_pair import SentencePair, Subject, named_pieces
from mtkit.model.masks import causal_bias
from mtkit.model.transformer import Transformer
from mtkit.pages.page import write_page

TOLERANCE = 1e-3  # of a logit: float32 rounding makes about 1e-5, attending to one padding token about 0.1
# A logit this far below the highest has no probability. Models may give a forbidden token -30,000, where float32 has
# only two decimals.
_NEGLIGIBLE = 100.0
_NO_ID = -1
LOOKS, HIDDEN, UNUSED = "\u25a0", "\u00b7", "\u00d7"  # the cells of a mask
MEANINGS = {
    LOOKS: "the row's token may look at the column's",
    HIDDEN: "hidden from it",
    UNUSED: "the row is padding: computed, never used",
}
_MAX_COLUMNS, _LINE = 32, 100  # tokens of a mask, and characters of a line, that fit a terminal
_MAX_CELLS = 60_000  # of a page: about 2 MB
_TOKEN, _MIN_SIDE, _LABELS, _DPI = 0.19, 1.6, 1.25, 120  # inches: a token, a mask, the labels; dots per inch
_MAX_PIXELS = 60_000_000  # matplotlib needs about a gigabyte of memory for these


@dataclass(frozen=True)
class Difference:
    """The largest differences between a sentence in the batch and the sentence alone, at its own tokens; may be NaN."""

    encoder: float  # of the encoder's outputs
    logits: float  # see _NEGLIGIBLE
    changed: int  # target positions whose likeliest token differs

    def within(self, tolerance: float) -> bool:
        """Return whether both differences are at most the tolerance."""
        return self.encoder <= tolerance and self.logits <= tolerance


@dataclass(frozen=True)
class PaddedSentence:
    """One row of the batch."""

    pair: SentencePair
    src: Sequence[str]  # input of the encoder, <pad> at its end
    tgt_in: Sequence[str]  # input of the decoder, <start> first
    n_src: int  # without padding
    n_tgt: int
    src_mask: Tensor  # bool (S,), True where encoder and decoder may look
    masked: Difference
    unmasked: Difference  # if padding were not hidden


@dataclass(frozen=True)
class PaddedBatch:
    """Sentences that the model computes together."""

    sentences: Sequence[PaddedSentence]
    causal_mask: Tensor  # bool (T, T): row t may look at the columns that are True
    recurrent: bool  # the decoder has a recurrent unit (SSRU), which needs no causal mask
    tolerance: float

    @property
    def padded(self) -> bool:
        """Return whether there is any padding."""
        return any(row.n_src < len(row.src) or row.n_tgt < len(row.tgt_in) for row in self.sentences)

    @property
    def holds(self) -> bool:
        """Return whether padding changes nothing beyond the tolerance."""
        return all(row.masked.within(self.tolerance) for row in self.sentences)


@torch.no_grad()
def padded_batch(
    subject: Subject,
    pairs: Sequence[SentencePair],
    *,
    tolerance: float = TOLERANCE,
    advance: Callable[[], object] = lambda: None,
) -> PaddedBatch:
    """Compute the pairs as one batch, and compare each with the pair alone. advance: called after each pair."""
    model = subject.model
    src = pad([pair.src.ids for pair in pairs])
    tgt_in = pad([pair.tgt_in for pair in pairs])
    src_mask = model.encode(src)[1][:, 0, 0] == 0
    masked = _compute(model, src, tgt_in)
    with _padding_visible(model):
        unmasked = _compute(model, src, tgt_in)
    rows = []
    for i, pair in enumerate(pairs):
        alone = _compute(model, torch.tensor([pair.src.ids]), torch.tensor([pair.tgt_in]))
        rows.append(
            PaddedSentence(
                pair,
                named_pieces(subject.src_tokenizer, src[i].tolist()),
                named_pieces(subject.tgt_tokenizer, tgt_in[i].tolist()),
                len(pair.src.ids),
                len(pair.tgt_in),
                src_mask[i],
                _difference(alone, masked, i),
                _difference(alone, unmasked, i),
            )
        )
        advance()
    causal = causal_bias(tgt_in.size(1))[0, 0] == 0
    return PaddedBatch(rows, causal, model.cfg.decoder == "ssru", tolerance)


def _compute(model: Transformer, src: Tensor, tgt_in: Tensor) -> tuple[Tensor, Tensor]:
    """Return memory (B, S, D) and logits (B, T, V)."""
    memory, pad_bias = model.encode(src)
    return memory, model.output(model.decode(tgt_in, memory, pad_bias))


def _difference(alone: tuple[Tensor, Tensor], batch: tuple[Tensor, Tensor], i: int) -> Difference:
    """Compare a sentence alone with sentence i of the batch, at the tokens of the first."""
    memory, logits = alone[0][0], alone[1][0]
    batch_memory, batch_logits = batch[0][i, : len(memory)], batch[1][i, : len(logits)]
    changed = (logits.argmax(-1) != batch_logits.argmax(-1)).sum()
    floor = logits.amax(-1, keepdim=True) - _NEGLIGIBLE
    difference = logits.maximum(floor) - batch_logits.maximum(floor)
    return Difference(float((memory - batch_memory).abs().max()), float(difference.abs().max()), int(changed))


@contextmanager
def _padding_visible(model: Transformer) -> Iterator[None]:
    """Make the model treat no token as padding during the block, so that it hides none."""
    pad_id, model.pad_id = model.pad_id, _NO_ID
    try:
        yield
    finally:
        model.pad_id = pad_id


@dataclass(frozen=True)
class Mask:
    """The mask of one attention for one sentence."""

    name: str
    queries: Sequence[str]  # its rows
    keys: Sequence[str]
    cells: npt.NDArray[np.str_]  # (Q, L) of LOOKS, HIDDEN, UNUSED


def masks_of(batch: PaddedBatch, row: PaddedSentence) -> list[Mask]:
    """Return the sentence's masks: of the encoder, the decoder and the cross-attention."""
    src_mask, causal = row.src_mask.numpy(), batch.causal_mask.numpy()

    def mask(name: str, queries: Sequence[str], n_queries: int, keys: Sequence[str], allowed: Any) -> Mask:
        cells = np.where(np.broadcast_to(allowed, (len(queries), len(keys))), LOOKS, HIDDEN)
        cells[n_queries:] = UNUSED
        return Mask(name, queries, keys, cells)

    decoder = "recurrent decoder: causal without a mask" if batch.recurrent else "decoder self-attention: causal"
    return [
        mask("encoder self-attention: padding", row.src, row.n_src, row.src, src_mask),
        mask(decoder, row.tgt_in, row.n_tgt, row.tgt_in, causal),
        mask("cross-attention: padding", row.tgt_in, row.n_tgt, row.src, src_mask),
    ]


def as_text(batch: PaddedBatch) -> str:
    """Return the batch with its padding masks, each sentence's causal mask, and the proof, for a terminal."""
    n_src, n_tgt = len(batch.sentences[0].src), len(batch.sentences[0].tgt_in)
    legend = "; ".join(f"{sign} {meaning}" for sign, meaning in MEANINGS.items())
    n = len(batch.sentences)
    lines = [f"{n} sentence{'s' * (n > 1)}, padded to {n_src} source and {n_tgt} target tokens", legend]
    lines += ["", "padding mask of the source, the same for every query:", *_padding_text(batch)]
    lines += ["", "The target's padding needs no mask: it comes last, where the causal mask hides it."]
    for number, row in enumerate(batch.sentences, start=1):
        lines += ["", *_causal_text(batch, number, row)]
    return "\n".join([*lines, "", *proof(batch)])


def proof(batch: PaddedBatch) -> list[str]:
    """Return a table of the differences between each sentence in the batch and alone, and the verdict."""
    lines = [
        "largest difference from each sentence alone",
        "                         with the padding mask           without it",
        "sentence  <pad> src tgt  encoder   logits  other token   encoder   logits  other token",
    ]
    for number, row in enumerate(batch.sentences, start=1):
        padding = f"{len(row.src) - row.n_src:>9} {len(row.tgt_in) - row.n_tgt:>3}"
        lines.append(f"{number:>8}{padding}  {_columns(row.masked)}   {_columns(row.unmasked)}")
    return [*lines, verdict(batch)]


def verdict(batch: PaddedBatch) -> str:
    """Return the result of the proof as a sentence."""
    differences = [d for row in batch.sentences for d in (row.masked.encoder, row.masked.logits)]
    worst = max(differences, key=lambda d: (math.isnan(d), d))
    largest = f"largest difference {worst:.1e} (tolerance {batch.tolerance:.0e})"
    if batch.holds:
        return f"holds   padding changes nothing: {largest}"
    return f"BROKEN  padding changes the model's outputs: {largest}"


def write_picture(path: Path, batch: PaddedBatch) -> None:
    """Draw all masks as .png or .svg, a row per sentence. Raises MtkitError without matplotlib, or if too large."""
    n_src, n_tgt = (max(_MIN_SIDE, _TOKEN * n) for n in (len(batch.sentences[0].src), len(batch.sentences[0].tgt_in)))
    width = n_src + n_tgt + n_src + 3 * _LABELS + 0.6
    height = len(batch.sentences) * (max(n_src, n_tgt) + _LABELS + 0.4) + 0.9
    if width * height * _DPI**2 > _MAX_PIXELS:
        raise MtkitError(
            f"{path}: the masks would make a picture of {width * _DPI:,.0f} x {height * _DPI:,.0f} pixels; give fewer "
            "or shorter sentences"
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
    """Write all masks and the proof as an HTML page. Raises MtkitError if it would be too large."""
    n_src, n_tgt = len(batch.sentences[0].src), len(batch.sentences[0].tgt_in)
    n_cells = len(batch.sentences) * (n_src * n_src + n_tgt * n_tgt + n_tgt * n_src)
    if n_cells > _MAX_CELLS:
        raise MtkitError(
            f"{path}: the masks have {n_cells:,} cells, more than the {_MAX_CELLS:,} that a page holds; give fewer or "
            "shorter sentences"
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
    """Return each sentence's tokens and, below them, its padding mask; long ones in several blocks."""
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
    """Return start, end and column widths of the source tokens that fit into each line."""
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
    if len(mask.keys) > _MAX_COLUMNS:
        return [*lines, f"  {len(mask.keys)} tokens do not fit into a terminal; --output draws them"]
    width = max(map(len, mask.queries))
    lines.append(" " * (width + 7) + "".join(f"{i:>3}" for i in range(len(mask.keys))))
    for i, (piece, cells) in enumerate(zip(mask.queries[: row.n_tgt + 1], mask.cells, strict=False)):
        lines.append(f"  {i:>3}  {piece:<{width}}" + "".join(f"{sign:>3}" for sign in cells))
    n_more = len(mask.queries) - row.n_tgt - 1
    return [*lines, f"       and {n_more} more of <pad>"] if n_more > 0 else lines


def _columns(difference: Difference) -> str:
    return f"{difference.encoder:>7.1e}  {difference.logits:>7.1e}  {difference.changed:>11}"


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

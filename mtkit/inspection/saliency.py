"""A pair in; how much each target token leans on each source token out, measured in three ways.

Erasure: by how many nats the token's log-probability falls when a source token is taken away (Li et al. 2016).
Gradient x input: how fast it changes if the source token's embedding is made longer, its gradient times the embedding.
Attention: what the cross-attention of one decoder layer looks at while the token is predicted.
The first two may be negative: the token would be likelier without that source token.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from mtkit.data.special_ids import PAD_ID, UNK_ID
from mtkit.engines.native import pad
from mtkit.errors import MtkitError, UsageError
from mtkit.inspection.pictures import axis_names, new_figure, save_figure
from mtkit.inspection.sentence_pair import SentencePair, Subject
from mtkit.model.transformer import Transformer
from mtkit.pages.page import write_page
from mtkit.scoring.alignment import align, alignment_layer, attention_weights
from mtkit.scoring.scoring import ForcedPair

Erasure = Literal["pad", "unk", "omit"]
_SENTENCES = 16  # sources with an erased token that are computed together
MOST_TOKENS = 80  # of a side: more cannot be read
_ERASED = {"pad": "hidden from all others", "unk": "replaced by <unk>", "omit": "left out"}


@dataclass(frozen=True)
class Saliency:
    """Each matrix is (T, S): a row per target token, a column per source token, as the pair has them."""

    pair: SentencePair
    log_probs: list[float]  # of each target token, nats
    erasure: list[list[float]]  # nats
    gradient: list[list[float]]  # nats per unit of relative length
    attention: list[list[float]]  # rows add up to 1
    erased_by: Erasure
    layer: int  # whose attention it is, from 1
    alignment: str  # word alignment by that attention, in Pharaoh format

    def matrices(self) -> dict[str, list[list[float]]]:
        """By the names that tables and pictures show."""
        return {
            "erasure": self.erasure,
            "gradient x input": self.gradient,
            f"cross-attention of layer {self.layer}": self.attention,
        }

    def word_links(self) -> list[tuple[str, str]]:
        """The words that the alignment links: (source word, target word)."""
        src, tgt = self.pair.src.text.split(), self.pair.tgt.text.split()
        links = (link.split("-") for link in self.alignment.split())
        return [(src[int(i)], tgt[int(j)]) for i, j in links]


def measure_saliency(
    subject: Subject,
    pair: SentencePair,
    *,
    erased_by: Erasure = "pad",
    layer: int | None = None,
    advance: Callable[[], object] = lambda: None,
) -> Saliency:
    """Measure the pair in all three ways.

    erased_by: pad hides a source token from every other, where it stands; unk puts <unk> in its place; omit closes the
    gap, so that the tokens after it move, too.
    layer: of the decoder, from 1; by default the one that shows alignment best.
    advance: called after each target token.
    """
    model = subject.model
    n_layers = len(model.decoder_layers)
    if layer is None:
        layer = alignment_layer(n_layers) + 1
    if not 1 <= layer <= n_layers:
        raise UsageError(f"layer {layer}: the decoder has layers 1 to {n_layers}")
    log_probs, erasure = erase(model, pair, erased_by)
    forced = ForcedPair(pair.src.ids[:-1], pair.tgt.ids, ends=False)  # <end> is one of its ids, if it has one
    [attention] = attention_weights(model, [forced], layer=layer - 1)
    texts = pair.src.text, pair.tgt.text
    [alignment] = align(model, subject.src_tokenizer, subject.tgt_tokenizer, [texts], layer=layer - 1)
    return Saliency(
        pair,
        log_probs.tolist(),
        erasure.tolist(),
        gradient_times_input(model, pair, advance).tolist(),
        attention.tolist(),
        erased_by,
        layer,
        alignment,
    )


# Not inference_mode: tables that the model makes on the way, such as longer positions, stay usable in training.
@torch.no_grad()
def erase(model: Transformer, pair: SentencePair, erased_by: Erasure) -> tuple[Tensor, Tensor]:
    """The target tokens' log-probabilities (T,), and by how much they fall without each source token (T, S)."""
    sources = [pair.src.ids, *(_without(pair.src.ids, n, erased_by) for n in range(len(pair.src.ids)))]
    found: list[Tensor] = []
    for start in range(0, len(sources), _SENTENCES):
        src = pad(sources[start : start + _SENTENCES])
        memory, pad_bias = model.encode(src)
        found += _log_probs(model, pair, memory, pad_bias)
    whole, *erased = found
    return whole, torch.stack([whole - rest for rest in erased], dim=1)


def _without(ids: Sequence[int], n: int, erased_by: Erasure) -> list[int]:
    put = {"pad": [PAD_ID], "unk": [UNK_ID], "omit": []}[erased_by]
    return [*ids[:n], *put, *ids[n + 1 :]]


def _log_probs(model: Transformer, pair: SentencePair, memory: Tensor, pad_bias: Tensor) -> Iterator[Tensor]:
    """The target tokens' log-probabilities (T,) for each row of the memory."""
    tgt_in = torch.tensor([pair.tgt_in]).expand(memory.size(0), -1)
    tgt_out = torch.tensor(pair.tgt.ids)[:, None]
    for hidden in model.decode(tgt_in, memory, pad_bias):
        yield torch.log_softmax(model.output(hidden), dim=-1).gather(1, tgt_out)[:, 0]


def gradient_times_input(
    model: Transformer, pair: SentencePair, advance: Callable[[], object] = lambda: None
) -> Tensor:
    """The gradient of each target token's log-probability by each source token's embedding, times that embedding.

    (T, S): the change of the log-probability per relative change of the embedding's length, position left alone.
    advance: called after each target token.
    """
    with torch.enable_grad(), _embeddings_noted(model) as noted:
        memory, pad_bias = model.encode(torch.tensor([pair.src.ids]))
        [log_probs] = _log_probs(model, pair, memory, pad_bias)
        [embedded] = noted
        rows: list[Tensor] = []
        for log_prob in log_probs:
            [gradient] = torch.autograd.grad(log_prob, embedded, retain_graph=True)
            rows.append((gradient * embedded.detach()).sum(-1)[0])
            advance()
    return torch.stack(rows)


@contextmanager
def _embeddings_noted(model: Transformer) -> Iterator[list[Tensor]]:
    """Let source embeddings, as they are before positions are added, be leaves that gradients lead to; a list of them.

    Only of these: where both sides share a matrix, what the target does with it does not count.
    """
    noted: list[Tensor] = []

    def note(_: torch.nn.Module, arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        embedded = arguments[0].detach().requires_grad_()
        noted.append(embedded)
        return embedded, *arguments[1:]

    hook = model.src_positions.register_forward_pre_hook(note)
    try:
        yield noted
    finally:
        hook.remove()


@dataclass(frozen=True)
class HeatMap:
    """One measure, with what it means."""

    name: str
    meaning: str
    values: list[list[float]]  # (T, S)
    signed: bool  # whether values may be negative
    largest: float  # absolute value; the strongest colour
    digits: int  # decimals worth showing


def heat_maps(found: Saliency) -> list[HeatMap]:
    """The three measures in the order in which they are shown."""
    erased = _ERASED[found.erased_by]
    meanings = [
        (f"nats by which the target token's log-probability falls when the source token is {erased}", 2),
        ("nats by which it would rise if the source token's embedding were twice as long, going by its slope", 3),
        ("share of attention, mean over the heads", 2),
    ]
    maps = zip(found.matrices().items(), meanings, strict=True)
    return [_heat_map(name, meaning, values, digits) for (name, values), (meaning, digits) in maps]


def _heat_map(name: str, meaning: str, values: list[list[float]], digits: int) -> HeatMap:
    flat = [value for row in values for value in row]
    return HeatMap(name, meaning, values, min(flat) < 0, max(map(abs, flat)) or 1.0, digits)


def check_drawable(pair: SentencePair) -> None:
    """Raises MtkitError if the pair has too many tokens to be drawn."""
    for side, tokens in (("source", pair.src), ("target", pair.tgt)):
        if len(tokens.ids) > MOST_TOKENS:
            raise MtkitError(
                f"the {side} has {len(tokens.ids)} tokens, too many to draw: at most {MOST_TOKENS} on a side can be "
                "read; leave out --output, or give a shorter sentence"
            )


def draw_saliency(path: Path, found: Saliency) -> None:
    """A page for a path that ends in .html; else a picture, PNG or SVG, which needs matplotlib (extra `plot`).

    Raises MtkitError if it is not installed, or if the pair has too many tokens to be drawn.
    """
    check_drawable(found.pair)
    if path.suffix.lower() == ".html":
        _write_page(path, found)
    else:
        _plot(path, found)


def _write_page(path: Path, found: Saliency) -> None:
    """An HTML page: the source coloured by what a chosen target token leans on, and the whole matrices."""
    maps = heat_maps(found)
    data = {"maps": [asdict(heat_map) for heat_map in maps], "src": found.pair.src.pieces}
    title = f"What the translation of \u201c{found.pair.src.text}\u201d leans on"
    write_page(path, "saliency", title=title, found=found, maps=maps, data=data)


def _plot(path: Path, found: Saliency) -> None:
    """The three heat maps side by side."""
    maps = heat_maps(found)
    n_rows, n_columns = len(found.pair.tgt.ids), len(found.pair.src.ids)
    size = len(maps) * (2.2 + 0.3 * n_columns), 1.9 + 0.28 * n_rows
    figure = new_figure(path, *size, layout="constrained")
    figure.suptitle(f"{found.pair.src.text}  \u2192  {found.pair.tgt.text}", wrap=True, parse_math=False)
    for axes, heat_map in zip(figure.subplots(1, len(maps)), maps, strict=True):
        _draw(axes, heat_map, found)
    save_figure(figure, path)


def _draw(axes: Any, heat_map: HeatMap, found: Saliency) -> None:
    src, tgt = axis_names(found.pair.src.pieces), axis_names(found.pair.tgt.pieces)
    low = -heat_map.largest if heat_map.signed else 0.0
    colours = "RdBu" if heat_map.signed else "Blues"
    image = axes.imshow(heat_map.values, cmap=colours, vmin=low, vmax=heat_map.largest, aspect="auto")
    axes.set_title(heat_map.name)
    axes.set_xticks(range(len(src)), src, rotation=90, parse_math=False)
    axes.set_yticks(range(len(tgt)), tgt, parse_math=False)
    axes.figure.colorbar(image, ax=axes)

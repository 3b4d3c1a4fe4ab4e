"""Measure in three ways how much each target token, or the label of a classifier, depends on each source token.

Erasure: the nats by which the target token's log-probability falls without the source token (Li et al. 2016).
Gradient x input: the gradient of the log-probability by the source token's embedding, times the embedding.
Attention: the weights of one decoder layer's cross-attention while the model predicts the target token.
The first two may be negative: the target token would be likelier without the source token.

Of a label: the same by its log-odds, log(p / (1 - p)), and the attention of <start>, from which the label is read. The
log-probability of a sure label is almost 0 and hardly changes; its log-odds do.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from mtkit.alignment.attention import align, attention_weights
from mtkit.alignment.forced import ForcedPair
from mtkit.engines.native import pad
from mtkit.errors import UsageError
from mtkit.inspection.pictures import axis_names, new_figure, save_figure
from mtkit.inspection.sentence_pair import ClassifierSubject, SentencePair, Subject, Tokens, check_drawable
from mtkit.inspection.trace import trace_classifier
from mtkit.model.network import Network
from mtkit.model.transformer import Transformer
from mtkit.pages.page import write_page
from mtkit.tokens.special_ids import PAD_ID, UNK_ID

Erasure = Literal["pad", "unk", "omit"]
_SENTENCES = 16  # texts with an erased token that are computed together
_ERASED = {"pad": "hidden from all others", "unk": "replaced by <unk>", "omit": "left out"}


@dataclass(frozen=True)
class Saliency:
    """The three measures, each a matrix (T, S): a row per target token and a column per source token of the pair.

    Of a classifier, the one row is that of a label, and <start>, which is not part of the text, has no column.
    """

    pair: SentencePair
    log_probs: list[float]  # of each target token, or of the label, nats
    erasure: list[list[float]]  # nats
    gradient: list[list[float]]  # nats per unit of relative length
    attention: list[list[float]]  # rows add up to 1; of a classifier, with what <start> gives itself
    erased_by: Erasure
    layer: int  # of the attention, from 1
    alignment: str | None  # words aligned by that attention, in Pharaoh format; None: the target is a label
    likeliest: str | None = None  # the classifier's label, with its probability, if the target is another one

    @property
    def is_of_label(self) -> bool:
        """Whether the model is a classifier, whose target is one of its labels."""
        return self.alignment is None

    def matrices(self) -> dict[str, list[list[float]]]:
        """Return the matrices by the names that tables and pictures show."""
        attention = "attention of <start>, " if self.is_of_label else "cross-attention of "
        return {
            "erasure": self.erasure,
            "gradient x input": self.gradient,
            f"{attention}layer {self.layer}": self.attention,
        }

    def word_links(self) -> list[tuple[str, str]]:
        """Return the pairs (source word, target word) that the alignment links; none for a label."""
        if self.alignment is None:
            return []
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

    erased_by: pad hides a source token from all others; unk replaces it by <unk>; omit removes it, so that the tokens
    after it move.
    layer: of the decoder, from 1; default: the one that aligns best.
    advance: called after each target token.
    """
    model = subject.model
    n_layers = len(model.decoder_layers)
    if layer is None:
        layer = model.alignment_layer + 1
    if not 1 <= layer <= n_layers:
        raise UsageError(f"layer {layer}: the decoder has layers 1 to {n_layers}")
    log_probs, erasure = erase(model, pair, erased_by)
    forced = ForcedPair(pair.src.ids[:-1], pair.tgt.ids, ends=False)  # its ids include <end>, if it has one
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


# Not inference_mode: tables that the model extends on the way, such as positions, must stay usable in training.
@torch.no_grad()
def erase(model: Transformer, pair: SentencePair, erased_by: Erasure) -> tuple[Tensor, Tensor]:
    """Return the target tokens' log-probabilities (T,), and by how much they fall without each source token (T, S)."""
    sources = [pair.src.ids, *_without_each(pair.src.ids, erased_by)]
    log_probs: list[Tensor] = []
    for start in range(0, len(sources), _SENTENCES):
        memory, pad_bias = model.encode(pad(sources[start : start + _SENTENCES]))
        log_probs += _log_probs(model, pair, memory, pad_bias)
    whole, *erased = log_probs
    return whole, torch.stack([whole - rest for rest in erased], dim=1)


def _without_each(ids: Sequence[int], erased_by: Erasure) -> list[list[int]]:
    """Return the ids with each token erased in turn."""
    substitute = {"pad": [PAD_ID], "unk": [UNK_ID], "omit": []}[erased_by]
    return [[*ids[:index], *substitute, *ids[index + 1 :]] for index in range(len(ids))]


def _log_probs(model: Transformer, pair: SentencePair, memory: Tensor, pad_bias: Tensor) -> Iterator[Tensor]:
    """Yield the target tokens' log-probabilities (T,) for each row of the memory."""
    tgt_in = torch.tensor([pair.tgt_in]).expand(memory.size(0), -1)
    tgt_out = torch.tensor(pair.tgt.ids)[:, None]
    for hidden in model.decode(tgt_in, memory, pad_bias):
        yield torch.log_softmax(model.output(hidden), dim=-1).gather(1, tgt_out)[:, 0]


def gradient_times_input(
    model: Transformer, pair: SentencePair, advance: Callable[[], object] = lambda: None
) -> Tensor:
    """Return (T, S): gradients of the target tokens' log-probabilities by source embeddings, times these embeddings.

    That is the change of the log-probability per relative change of the embedding's length; positions stay fixed.
    advance: called after each target token.
    """
    with torch.enable_grad(), _recorded_embeddings(model) as embeddings:
        memory, pad_bias = model.encode(torch.tensor([pair.src.ids]))
        [log_probs] = _log_probs(model, pair, memory, pad_bias)
        [embedded] = embeddings
        rows: list[Tensor] = []
        for log_prob in log_probs:
            [gradient] = torch.autograd.grad(log_prob, embedded, retain_graph=True)
            rows.append((gradient * embedded.detach()).sum(-1)[0])
            advance()
    return torch.stack(rows)


@contextmanager
def _recorded_embeddings(model: Network) -> Iterator[list[Tensor]]:
    """Make source embeddings, before positions are added, leaves of the graph, and collect them in a list.

    Where both sides share a matrix, the target's use of it does not count.
    """
    embeddings: list[Tensor] = []

    def record(_: torch.nn.Module, arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        embedded = arguments[0].detach().requires_grad_()
        embeddings.append(embedded)
        return embedded, *arguments[1:]

    hook = model.src_positions.register_forward_pre_hook(record)
    try:
        yield embeddings
    finally:
        hook.remove()


def measure_label_saliency(
    subject: ClassifierSubject,
    pair: SentencePair,
    *,
    erased_by: Erasure = "pad",
    layer: int | None = None,
    advance: Callable[[], object] = lambda: None,
) -> Saliency:
    """Measure in all three ways which tokens speak for the pair's label; arguments as for `measure_saliency`.

    layer: of the encoder, from 1; default: the last, from which the label is read.
    """
    model = subject.model
    n_layers = len(model.encoder_layers)
    if layer is None:
        layer = n_layers
    if not 1 <= layer <= n_layers:
        raise UsageError(f"layer {layer}: the encoder has layers 1 to {n_layers}")
    ids, [label] = pair.src.ids, pair.tgt.ids
    log_probs, erasure = erase_for_label(model, ids, label, erased_by)
    of_start = trace_classifier(model, pair).layers("encoder")[layer - 1].weights.mean(0)[0]
    gradient = label_gradient_times_input(model, ids, label)
    advance()
    best = int(log_probs.argmax())
    return Saliency(
        replace(pair, src=Tokens(pair.src.text, ids[1:], pair.src.pieces[1:])),
        [float(log_probs[label])],
        [erasure[1:].tolist()],
        [gradient[1:].tolist()],
        [of_start[1:].tolist()],
        erased_by,
        layer,
        None,
        None if best == label else f"{subject.labels[best]} ({float(log_probs[best].exp()):.1%})",
    )


# Not inference_mode: tables that the model extends on the way, such as positions, must stay usable in training.
@torch.no_grad()
def erase_for_label(model: Network, ids: list[int], label: int, erased_by: Erasure) -> tuple[Tensor, Tensor]:
    """Return the labels' log-probabilities (L,), and by how much the label's log-odds fall without each token (S,)."""
    texts = [ids, *_without_each(ids, erased_by)]
    batches = [texts[start : start + _SENTENCES] for start in range(0, len(texts), _SENTENCES)]
    log_probs = torch.cat([_label_log_probs(model, pad(batch)) for batch in batches])
    odds = _log_odds(log_probs, label)
    return log_probs[0], odds[0] - odds[1:]


def label_gradient_times_input(model: Network, ids: list[int], label: int) -> Tensor:
    """Return (S,): gradients of the label's log-odds by the tokens' embeddings, times these embeddings."""
    with torch.enable_grad(), _recorded_embeddings(model) as embeddings:
        odds = _log_odds(_label_log_probs(model, torch.tensor([ids])), label)
        [embedded] = embeddings
        [gradient] = torch.autograd.grad(odds.sum(), embedded)
    return (gradient * embedded.detach()).sum(-1)[0]


def _label_log_probs(model: Network, src: Tensor) -> Tensor:
    """Return the labels' log-probabilities (B, L) for texts (B, S)."""
    logits: Tensor = model(src, src[:, :1])
    return logits[:, 0].log_softmax(dim=-1)


def _log_odds(log_probs: Tensor, label: int) -> Tensor:
    """Return log(p / (1 - p)) of the label (B,), from log-probabilities (B, L); exact where p is almost 1."""
    others = [index for index in range(log_probs.size(-1)) if index != label]
    return log_probs[:, label] - log_probs[:, others].logsumexp(dim=-1)


@dataclass(frozen=True)
class HeatMap:
    """One measure and its meaning."""

    name: str
    meaning: str
    values: list[list[float]]  # (T, S)
    signed: bool  # whether values may be negative
    largest: float  # absolute value; the strongest colour
    digits: int  # decimals shown


def heat_maps(saliency: Saliency) -> list[HeatMap]:
    """Return the three measures in the order in which they are shown."""
    erased = _ERASED[saliency.erased_by]
    meanings = [
        (f"nats by which the target token's log-probability falls when the source token is {erased}", 2),
        ("nats by which it would rise with a source embedding twice as long, by its gradient", 3),
        ("share of attention, mean over the heads", 2),
    ]
    if saliency.is_of_label:
        meanings = [
            (f"nats by which the label's log-odds fall when the token is {erased}", 2),
            ("nats by which they would rise with an embedding twice as long, by its gradient", 2),
            ("share of attention, mean over the heads; the rest is for <start> itself", 2),
        ]
    maps = []
    for (name, values), (meaning, digits) in zip(saliency.matrices().items(), meanings, strict=True):
        flat = [value for row in values for value in row]
        maps.append(HeatMap(name, meaning, values, min(flat) < 0, max(map(abs, flat)) or 1.0, digits))
    return maps


def draw_saliency(path: Path, saliency: Saliency) -> None:
    """Write an .html page, or a .png or .svg picture, which needs matplotlib (extra `plot`).

    The page colours the source by what a chosen target token depends on, and shows the whole matrices.
    Raises MtkitError without matplotlib, or if the pair has too many tokens to be drawn.
    """
    pair, maps = saliency.pair, heat_maps(saliency)
    check_drawable(pair)
    if path.suffix.lower() == ".html":
        data = {"maps": [asdict(heat_map) for heat_map in maps], "src": pair.src.pieces}
        title = f"What the translation of \u201c{pair.src.text}\u201d depends on"
        if saliency.is_of_label:
            title = f"Evidence for {pair.tgt.text} in \u201c{pair.src.text}\u201d"
        write_page(path, "saliency", title=title, saliency=saliency, maps=maps, data=data)
        return
    size = len(maps) * (2.2 + 0.3 * len(pair.src.ids)), 1.9 + 0.28 * len(pair.tgt.ids)
    figure = new_figure(path, *size, layout="constrained")
    figure.suptitle(f"{pair.src.text}  \u2192  {pair.tgt.text}", wrap=True, parse_math=False)
    for axes, heat_map in zip(figure.subplots(1, len(maps)), maps, strict=True):
        _draw(axes, heat_map, pair)
    save_figure(figure, path)


def _draw(axes: Any, heat_map: HeatMap, pair: SentencePair) -> None:
    src, tgt = axis_names(pair.src.pieces), axis_names(pair.tgt.pieces)
    low = -heat_map.largest if heat_map.signed else 0.0
    colours = "RdBu" if heat_map.signed else "Blues"
    image = axes.imshow(heat_map.values, cmap=colours, vmin=low, vmax=heat_map.largest, aspect="auto")
    axes.set_title(heat_map.name)
    axes.set_xticks(range(len(src)), src, rotation=90, parse_math=False)
    axes.set_yticks(range(len(tgt)), tgt, parse_math=False)
    axes.figure.colorbar(image, ax=axes)

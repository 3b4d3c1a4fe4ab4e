"""Measure in three ways how much the label of a classifier depends on each token; `saliency` says what they mean."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from mtkit.engines.native import pad
from mtkit.errors import UsageError
from mtkit.inspection.saliency import SENTENCES, Erasure, Saliency, recorded_embeddings, without_each
from mtkit.inspection.sentence_pair import ClassifierSubject, SentencePair, Tokens
from mtkit.inspection.trace import trace_classifier
from mtkit.model.network import Network


def measure_label_saliency(
    subject: ClassifierSubject,
    pair: SentencePair,
    *,
    erased_by: Erasure = "pad",
    layer: int | None = None,
    advance: Callable[[], object] = lambda: None,
) -> Saliency:
    """Measure in all three ways what speaks for the pair's label; arguments as for `measure_saliency`.

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
    texts = [ids, *without_each(ids, erased_by)]
    rows = [_log_probs(model, pad(texts[start : start + SENTENCES])) for start in range(0, len(texts), SENTENCES)]
    log_probs = torch.cat(rows)
    odds = _log_odds(log_probs, label)
    return log_probs[0], odds[0] - odds[1:]


def label_gradient_times_input(model: Network, ids: list[int], label: int) -> Tensor:
    """Return (S,): gradients of the label's log-odds by the tokens' embeddings, times these embeddings."""
    with torch.enable_grad(), recorded_embeddings(model) as embeddings:
        odds = _log_odds(_log_probs(model, torch.tensor([ids])), label)
        [embedded] = embeddings
        [gradient] = torch.autograd.grad(odds.sum(), embedded)
    return (gradient * embedded.detach()).sum(-1)[0]


def _log_probs(model: Network, src: Tensor) -> Tensor:
    """Return the labels' log-probabilities (B, L) for texts (B, S)."""
    logits: Tensor = model(src, src[:, :1])
    return logits[:, 0].log_softmax(dim=-1)


def _log_odds(log_probs: Tensor, label: int) -> Tensor:
    """Return log(p / (1 - p)) of the label (B,), from log-probabilities (B, L); exact where p is almost 1."""
    others = [index for index in range(log_probs.size(-1)) if index != label]
    return log_probs[:, label] - log_probs[:, others].logsumexp(dim=-1)

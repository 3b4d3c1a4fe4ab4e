"""Means of a base's and a tuned model's weights, in which each weight counts by how much it matters to either model."""

import random
import time
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from mtkit.alignment.forced import ForcedPair, forced_batches
from mtkit.console import progress_bar
from mtkit.interop.vocabulary import BANNED
from mtkit.model.transformer import Transformer

_N_PAIRS = 256  # whose gradients say how much a weight matters
_LEAST = 1e-12  # importance, because the mean of two weights of none would be undefined
Weights = Mapping[str, Tensor]


def importance(model: Transformer, pairs: Sequence[ForcedPair], seconds: float, name: str) -> dict[str, Tensor]:
    """Return how much each weight matters: the mean squared gradient of a pair's log-probability, by the weight's name.

    This is the diagonal of the empirical Fisher information, divided by its mean over all weights. Without pairs, all
    weights matter equally. The model is in evaluation mode afterwards.
    seconds: the most time for this; one pair is always used. name: of the progress bar.
    """
    device = next(model.parameters()).device
    squares = {key: torch.zeros_like(weight) for key, weight in model.named_parameters()}
    some = random.Random(1).sample(pairs, min(_N_PAIRS, len(pairs)))
    until = time.monotonic() + seconds
    model.eval()
    with progress_bar(len(some), name, "pair") as bar:
        for pair in some:
            [batch] = forced_batches([pair], device)
            logits = model(batch.src, batch.tgt_in)[0].float()
            F.cross_entropy(logits, torch.tensor(batch.tgt_out[0], device=device), reduction="sum").backward()  # type: ignore[no-untyped-call]
            for key, weight in model.named_parameters():
                if weight.grad is not None:
                    squares[key].addcmul_(weight.grad, weight.grad)
                    weight.grad = None
            bar.update()
            if time.monotonic() > until:
                break
    mean = sum(float(square.sum(dtype=torch.float64)) for square in squares.values())
    mean /= sum(square.numel() for square in squares.values())
    for square in squares.values():
        square.copy_(square / mean if mean else torch.ones_like(square))
    names = {weight.data_ptr(): key for key, weight in model.named_parameters()}
    return {
        key: squares[names[weight.data_ptr()]].cpu() for key, weight in model.state_dict().items()
    }  # also tied ones


def weighted_mean(
    base: Weights, tuned: Weights, share: float, importances: tuple[Weights, Weights]
) -> dict[str, Tensor]:
    """Return the mean of two models' weights, by name; share 0: those of the base, 1: those of the tuned model.

    A mean of a model and one tuned from it keeps more of what both know (Wortsman et al. 2022, WiSE-FT). Each weight
    counts by the share of its model and by its importance there (Matena and Raffel 2022, equation 2), so that a weight
    which other text needs hardly moves, and one which only the memory needs moves far.
    A token that an imported model never writes, such as <unk>, stays so, even if the tuned one has learned to write it.
    """
    of_base, of_tuned = importances
    weights: dict[str, Tensor] = {}
    for name, weight in base.items():
        counts = (of_base[name].double() + _LEAST) * (1 - share), (of_tuned[name].double() + _LEAST) * share
        mean = torch.lerp(weight.double(), tuned[name].double(), counts[1] / (counts[0] + counts[1]))
        weights[name] = mean.to(torch.float32)
    if (bias := base.get("output.bias")) is not None:
        weights["output.bias"] = torch.where(bias <= BANNED / 2, bias, weights["output.bias"])
    return weights

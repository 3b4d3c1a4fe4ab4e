"""A kind of positions in; its encoding, how alike positions are by their distance, and the wavelengths out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from mtkit.errors import MtkitError
from mtkit.model.positions import LearnedPositions, PositionKind, RotaryPositions, added_positions
from mtkit.model.transformer import Transformer

Side = Literal["src", "tgt"]
FORMULA, INITIAL = "by the formula", "as drawn before training"
MODEL: dict[Side, str] = {"src": "of the model's source side", "tgt": "of the model's target side"}


@dataclass(frozen=True)
class Spread:
    """A figure over all pairs of positions that are equally far apart."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Similarity:
    """How alike two positions are that are this far apart."""

    distance: int
    dot: Spread  # rotary: of one vector of length 1, turned to each of the two positions
    cosine: Spread


@dataclass(frozen=True)
class PositionsView:
    """What is to be seen of an encoding of positions."""

    kind: PositionKind
    origin: str  # FORMULA, INITIAL or one of MODEL
    encoding: (
        Tensor  # float32 (P, D): what is added to an embedding; rotary: cosines, then sines, of the turning angles
    )
    similarity: Sequence[Similarity]  # from distance 0
    wavelengths: Sequence[float]  # positions in a period, of each column of encoding; learned: of its strongest part
    embedding_length: float | None = None  # mean over the vocabulary, as the model scales embeddings

    @property
    def dot_spread(self) -> float:
        """By how much the product differs at one distance; next to nothing if distance is all that counts."""
        return max(found.dot.high - found.dot.low for found in self.similarity)

    @property
    def lengths(self) -> Tensor:
        """Of each position's vector."""
        return self.encoding.square().sum(1).sqrt()


def positions_by_formula(kind: PositionKind, width: int, n_positions: int) -> PositionsView:
    """A kind without a model: of embeddings, or for rotary of heads, of this width. Learned: drawn from seed 0."""
    if kind == "rotary":
        return _view(kind, FORMULA, RotaryPositions(width), width, n_positions)
    module = added_positions(kind, width, n_positions)
    if isinstance(module, LearnedPositions):
        nn.init.normal_(module.table, std=0.02, generator=torch.Generator().manual_seed(0))
    return _view(kind, INITIAL if kind == "learned" else FORMULA, module, width, n_positions)


def positions_of_model(model: Transformer, side: Side, n_positions: int) -> PositionsView:
    """The model's own, on one side. Raises MtkitError if it has fewer."""
    cfg = model.cfg
    if cfg.positions == "learned" and n_positions > cfg.max_positions:
        raise MtkitError(
            f"the model has {cfg.max_positions} learned positions (model.max_positions), not {n_positions}; "
            f"give --length {cfg.max_positions} or less"
        )
    embedding, module = (
        (model.src_embedding, model.src_positions) if side == "src" else (model.tgt_embedding, model.tgt_positions)
    )
    width = cfg.d_model
    if cfg.positions == "rotary":
        rotary = model.encoder_layers[0].self_attention.rotary
        assert rotary is not None
        module, width = rotary, cfg.d_model // cfg.n_heads
    length = float(embedding.weight.detach().norm(dim=1).mean()) * math.sqrt(cfg.d_model)
    return _view(cfg.positions, MODEL[side], module, width, n_positions, embedding_length=length)


@torch.no_grad()
def _view(
    kind: PositionKind,
    origin: str,
    module: nn.Module,
    width: int,
    n_positions: int,
    *,
    embedding_length: float | None = None,
) -> PositionsView:
    """What the module itself makes of vectors at positions 0 to n_positions - 1."""
    if kind == "rotary":
        first_of_each_pair = torch.cat([torch.ones(width // 2), torch.zeros(width // 2)])
        encoding = module(first_of_each_pair.repeat(n_positions, 1))
        vectors = module(torch.full((n_positions, width), width**-0.5))  # a query, and a key that is its equal
    else:
        encoding = vectors = module(torch.zeros(n_positions, width))
    wavelengths = (
        _strongest_periods(encoding) if kind == "learned" else _periods(encoding, sines_first=kind != "rotary")
    )
    return PositionsView(kind, origin, encoding, _similarity(vectors.double()), wavelengths, embedding_length)


def _similarity(vectors: Tensor) -> list[Similarity]:
    dots, unit = vectors @ vectors.T, nn.functional.normalize(vectors, dim=1)
    cosines = unit @ unit.T
    return [
        Similarity(distance, _spread(dots.diagonal(distance)), _spread(cosines.diagonal(distance)))
        for distance in range(len(vectors))
    ]


def _spread(values: Tensor) -> Spread:
    return Spread(float(values.mean()), float(values.min()), float(values.max()))


def _periods(encoding: Tensor, *, sines_first: bool) -> list[float]:
    """Of columns that are sines and cosines: 2 pi over the angle that one position turns them by."""
    halves = encoding[1].double().chunk(2)
    sines, cosines = halves if sines_first else halves[::-1]
    periods = (2 * math.pi / torch.atan2(sines, cosines)).tolist()
    return [*periods, *periods]


def _strongest_periods(encoding: Tensor) -> list[float]:
    """Of columns of any shape: the wave that holds most of the column's variance (discrete Fourier transform)."""
    waves = torch.fft.rfft(encoding.double() - encoding.double().mean(0), dim=0).abs()[1:]  # by waves in all positions
    return [len(encoding) / (strongest + 1) for strongest in waves.argmax(0).tolist()]

"""Weights of a Transformer's encoder or decoder, laid out for `mtkit.model.cpu.decoding`."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mtkit.model.cpu.tiles import PANEL, STEP

_LINE = 64  # bytes of a line in the processor's caches: a vector of AVX-512


class Products(NamedTuple):
    """The weights of several products, in panels: the weights of a panel's outputs for one input lie together.

    table: (products, 5), int64: the first byte of its weights; the first of its numbers; the rounds of a sum, each of
    one float32, four bytes or two int16; its panels; its outputs. numbers: each product's bias, then for integers the
    scales of its outputs and what their sums are too large by (int32), because 128 was added to the inputs.
    """

    weights: NDArray[np.uint8]
    numbers: NDArray[np.float32]
    table: NDArray[np.int64]


def pack_products(layers: Sequence[tuple[Tensor, Tensor | None]], kind: np.dtype[Any]) -> Products:
    """Lay out products x W^T + b, given as W (n_out, n_in) and b (n_out,).

    kind: the type of x: float32, or one of `tiles.INTEGERS`, for which the weights are rounded to 8-bit integers as
    `Int8Linear` does.
    """
    panels, numbers, table, n_bytes, n_numbers = [], [], [], 0, 0
    for weight, bias in layers:
        packed, own = _pack(weight.detach().float(), bias, kind)
        n_panels, n_rounds = packed.shape[:2]
        table.append([n_bytes, n_numbers, n_rounds, n_panels, weight.size(0)])
        panels.append(packed.reshape(-1).view(np.uint8))
        numbers.append(own)
        n_bytes, n_numbers = n_bytes + panels[-1].size, n_numbers + own.size
    return Products(_aligned(np.concatenate(panels)), np.concatenate(numbers), np.array(table, dtype=np.int64))


def _pack(weight: Tensor, bias: Tensor | None, kind: np.dtype[Any]) -> tuple[NDArray[np.generic], NDArray[np.float32]]:
    """Return a product's panels (panels, rounds, PANEL, inputs of a round), and its numbers."""
    n_out, n_in = weight.shape
    n_panels, per_round = -(-n_out // PANEL), STEP // kind.itemsize
    numbers = torch.zeros(3, n_panels * PANEL)
    if bias is not None:
        numbers[0, :n_out] = bias.detach().float()
    if kind != np.float32:
        scale = weight.abs().amax(1).clamp_min_(1e-12) / 127
        weight = (weight / scale[:, None]).round_()
        numbers[1, :n_out] = scale
        numbers[2, :n_out] = (128 * weight.sum(1, dtype=torch.float64)).to(torch.int32).view(torch.float32)
    padded = weight.new_zeros(n_panels * PANEL, -(-n_in // per_round) * per_round)
    padded[:n_out, :n_in] = weight
    panels = padded.view(n_panels, PANEL, -1, per_round).transpose(1, 2).contiguous()
    signed = np.int8 if kind == np.uint8 else kind
    return panels.numpy().astype(signed, copy=False), numbers.flatten().numpy()


def select_outputs(product: Products, ids: NDArray[np.int64]) -> Products:
    """Return the first of the products with the outputs ids (U,) alone, in this order."""
    first_byte, first_number, n_rounds, n_panels, _ = product.table[0]
    size = n_rounds * n_panels * PANEL
    rounds = product.weights[first_byte : first_byte + 4 * size].view(np.uint32).reshape(n_panels, n_rounds, PANEL)
    numbers = product.numbers[first_number : first_number + 3 * n_panels * PANEL].reshape(3, -1)
    n_new = -(-len(ids) // PANEL)
    chosen, own = np.zeros((n_new * PANEL, n_rounds), np.uint32), np.zeros((3, n_new * PANEL), np.float32)
    chosen[: len(ids)], own[:, : len(ids)] = rounds[ids // PANEL, :, ids % PANEL], numbers[:, ids]
    weights = np.ascontiguousarray(chosen.reshape(n_new, PANEL, -1).transpose(0, 2, 1))
    table = np.array([[0, 0, n_rounds, n_new, len(ids)]])
    return Products(_aligned(weights.reshape(-1).view(np.uint8)), own.flatten(), table)


def pack_norms(norms: Sequence[nn.Module]) -> NDArray[np.float32]:
    """Return the gains and biases of layer norms, (norms, 2, D), or the gains of RMSNorms, (norms, 1, D)."""
    rows = [torch.stack([weight.detach() for weight in norm.parameters()]) for norm in norms]
    return torch.stack(rows).float().numpy()


def _aligned(numbers: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a copy whose first byte begins a line of the cache, so that no vector crosses two lines."""
    space = np.empty(numbers.size + _LINE, np.uint8)
    first = -space.ctypes.data % _LINE
    space[first : first + numbers.size] = numbers
    return space[first : first + numbers.size]

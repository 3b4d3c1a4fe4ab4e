"""A trace in, one self-contained HTML page out that lets one explore it: lines between tokens, and inside one head."""

import base64
import textwrap
from pathlib import Path
from typing import Any

from torch import Tensor

from mtkit.inspection.trace import KINDS, NAMES, AttentionMap, AttentionTrace, Kind
from mtkit.pages.page import write_page

_LARGEST = 32767  # of a 16-bit integer
_LONGEST_TITLE = 50  # characters


def write_attention_page(path: Path, trace: AttentionTrace) -> None:
    """Draw the trace into an .html file; it opens with the cross-attention that shows best what is translated."""
    kinds = [_kind(trace, kind) for kind in KINDS if trace.of(kind)]
    data = {"kinds": kinds, "heads": trace.maps[0].heads, "d_head": trace.maps[0].d_head}
    first = {"kind": len(kinds) - 1, "layer": _first_layer(trace)}
    title = f"Attention: {textwrap.shorten(trace.pair.src.text, _LONGEST_TITLE, placeholder=' …')}"
    write_page(
        path,
        "attention",
        title=title,
        pair=trace.pair,
        recurrent=trace.cfg.decoder == "ssru",
        data={**data, "first": first},
    )


def _first_layer(trace: AttentionTrace) -> int:
    """The place of the layer that is shown first, among those of the last kind."""
    layers = trace.of(trace.maps[-1].kind)
    return layers.index(trace.cross) if layers[0].kind == "cross" else 0


def _kind(trace: AttentionTrace, kind: Kind) -> dict[str, Any]:
    queries, keys = trace.axes(kind)
    return {
        "kind": kind,
        "name": NAMES[kind],
        "queries": queries,
        "keys": keys,
        "says": None if kind == "encoder" else trace.pair.tgt.pieces,
        "causal": kind == "decoder",
        "layers": [_layer(attention) for attention in trace.of(kind)],
    }


def _layer(attention: AttentionMap) -> dict[str, Any]:
    """Queries and keys as the page decodes them; scores and weights it computes itself."""
    layer: dict[str, Any] = {"layer": attention.layer}
    for name, vectors in (("q", attention.q), ("k", attention.k)):
        layer[name], layer[f"{name}_unit"] = _quantized(vectors)
    return layer


def _quantized(vectors: Tensor) -> tuple[str, list[float]]:
    """Vectors (H, L, d_head) as 16-bit integers, little-endian, in base64, and what the integer 1 means in each head.

    A weight computed from them differs by less than 0.0005 even where scores reach 60.
    """
    units = (vectors.abs().amax((1, 2)) / _LARGEST).clamp_min(1e-30)
    integers = (vectors / units[:, None, None]).round().numpy().astype("<i2")
    return base64.b64encode(integers.tobytes()).decode("ascii"), units.tolist()

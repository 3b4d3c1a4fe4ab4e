"""Attention as text: a table of shades for the terminal, and all weights as a record for JSON."""

import unicodedata
from typing import Any

from torch import Tensor

from mtkit.inspection.trace import NAMES, AttentionMap, AttentionTrace, Kind

SHADES = ((0.05, "\N{MIDDLE DOT}"), (0.2, "░"), (0.4, "▒"), (0.7, "▓"), (2.0, "█"))  # below the number: the character
LEGEND = "weights: · below 0.05, ░ 0.2, ▒ 0.4, ▓ 0.7, █ above; blank: hidden"
_HEADER_LINES = 8  # characters of a token above its column


def attention_tables(trace: AttentionTrace, kind: Kind | None, layer: int | None, head: int | None) -> str:
    """A table for each layer of the kind, or for the one given: the mean of its heads, or the one given.

    Without any choice, the cross-attention that best shows what is translated; with a layer that no cross-attention
    has, all that have it.
    """
    if kind is None and layer is None:
        layer = trace.cross.layer
    kinds = [kind or "cross"] if kind or layer is None or layer <= len(trace.of("cross")) else []
    lines = []
    for attention in trace.chosen(kinds, layer, head).maps:
        n_layers = len(trace.of(attention.kind))
        one = f"head {attention.heads[0]}" if len(attention.heads) == 1 else f"mean of {len(attention.heads)} heads"
        lines.append(f"{NAMES[attention.kind]}, layer {attention.layer} of {n_layers}, {one}")
        lines += [*_table(attention, trace), ""]
    return "\n".join([*lines, LEGEND])


def attention_record(trace: AttentionTrace) -> list[dict[str, Any]]:
    """All weights of the trace, for JSON: weights[head][query][key] of each layer of each kind.

    queries and keys name the two axes; layers and heads count from 1.
    """
    return [
        {
            "kind": attention.kind,
            "layer": attention.layer,
            "heads": list(attention.heads),
            "queries": trace.axes(attention.kind)[0],
            "keys": trace.axes(attention.kind)[1],
            "weights": _rounded(attention.weights),
        }
        for attention in trace.maps
    ]


def _rounded(weights: Tensor) -> list[list[list[float]]]:
    return [[[round(weight, 6) for weight in row] for row in head] for head in weights.tolist()]


def _table(attention: AttentionMap, trace: AttentionTrace) -> list[str]:
    """The tokens looked at from top to bottom above their columns, then a row for each token that looks.

    At the end of a row what it looks at most, and what the decoder is to say there.
    """
    queries, keys = trace.axes(attention.kind)
    said = [""] * len(queries) if attention.kind == "encoder" else trace.pair.tgt.pieces
    margin, room = max(map(_columns, queries)), max(map(_columns, keys))
    names = [_upright(key) for key in keys]
    lines = [f"{'':{margin}}  {''.join(name[line] for name in names)}" for line in range(_HEADER_LINES)]
    lines = [line for line in lines if line.strip()]
    lines[-1] += f"  {'most':{room + 5}}" + ("" if attention.kind == "encoder" else "  to say")
    means = attention.weights.mean(0).tolist()
    for query, word, row, hidden in zip(queries, said, means, attention.hidden.tolist(), strict=True):
        shades = "".join("  " if unseen else _shade(weight) for weight, unseen in zip(row, hidden, strict=True))
        best = max(range(len(keys)), key=row.__getitem__)
        most = f"{row[best]:.2f} {_padded(keys[best], room)}"
        lines.append(f"{' ' * (margin - _columns(query))}{query}  {shades}  {most}  {word}")
    return [line.rstrip() for line in lines]


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _columns(text))


def _shade(weight: float) -> str:
    return 2 * next(shade for limit, shade in SHADES if weight < limit)


def _upright(token: str) -> list[str]:
    """The token's characters from top to bottom, two columns each, to stand on the table."""
    letters: list[str] = []
    for character in token:
        if letters and not _columns(character):
            letters[-1] += character  # a mark on the one before
        else:
            letters.append(character)
    if len(letters) > _HEADER_LINES:
        letters = [*letters[: _HEADER_LINES - 1], "\N{VERTICAL ELLIPSIS}"]
    letters = [""] * (_HEADER_LINES - len(letters)) + letters
    return [_padded(letter, 2) for letter in letters]


def _columns(text: str) -> int:
    """About how many columns of a terminal the text takes."""
    shown = [character for character in text if unicodedata.category(character) not in ("Mn", "Me", "Cf")]
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in shown)

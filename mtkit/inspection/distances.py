"""Show positions that attention uses by distance: the biases of alibi, or the vectors of relative positions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from mtkit.errors import MtkitError
from mtkit.inspection.pictures import new_figure, save_figure
from mtkit.model.attention import SelfAttention
from mtkit.model.positions import LinearBiases, RelativePositions
from mtkit.model.transformer import Transformer
from mtkit.pages.charts import Series, line_chart
from mtkit.pages.page import write_page

Side = Literal["src", "tgt"]
DistanceKind = Literal["relative", "alibi"]
PAPER_HEADS, PAPER_REACH = 8, 16  # of Press et al. 2022, section 3; of Shaw et al. 2018, section 4
MAP_REACH = 64  # of the maps, which grow with its square
_MOST_COLUMNS = 8  # of a table
_NEAR = range(-1, 3)  # distances whose vectors are compared with those of one token before: up to two tokens apart
_CLEARLY = 0.25  # a difference of cosines that is worth a sentence


@dataclass(frozen=True)
class Panel:
    """A quantity by distance, as lines: one per head, or one per layer."""

    title: str
    lines: Mapping[str, Sequence[float | None]]  # None: there is none at this distance


@dataclass(frozen=True)
class DistancesView:
    """The use of distances in attention: from the query to a key, below 0 for earlier keys."""

    kind: DistanceKind
    origin: str
    distances: Sequence[int]
    panels: Sequence[Panel]
    summary: Sequence[str]
    # relative: cosines of the vectors of any two distances up to MAP_REACH, of each layer's keys and values
    maps: Mapping[str, Tensor]
    map_distances: Sequence[int] = ()


def distances_by_formula(kind: DistanceKind, width: int, n_positions: int) -> DistancesView:
    """Return the paper's biases for 8 heads, or the vectors, of this width, that a layer of an encoder begins with."""
    if kind == "alibi":
        return _biases(LinearBiases(PAPER_HEADS), "by the formula", range(1 - n_positions, n_positions))
    relative, generator = RelativePositions(width, PAPER_REACH, causal=False), torch.Generator().manual_seed(0)
    for vectors in (relative.keys, relative.values):
        nn.init.xavier_uniform_(vectors, generator=generator)
    return _vectors([relative], "as drawn before training")


def distances_of_model(model: Transformer, side: Side, n_positions: int) -> DistancesView:
    """Return how self-attention on one side uses distances. Raises MtkitError for a recurrent decoder."""
    if side == "tgt" and model.cfg.decoder == "ssru":
        raise MtkitError("the decoder is recurrent (SSRU), so it has no positions; give --side src")
    origin = f"of the model's {'source' if side == 'src' else 'target'} side"
    if model.linear_biases is not None:
        return _biases(model.linear_biases, origin, range(1 - n_positions, n_positions if side == "src" else 1))
    layers = model.encoder_layers if side == "src" else model.decoder_layers
    attentions = [layer.self_attention for layer in layers]
    return _vectors([a.relative for a in attentions if isinstance(a, SelfAttention) and a.relative], origin)


@torch.no_grad()
def _biases(linear_biases: LinearBiases, origin: str, distances: range) -> DistancesView:
    biases = linear_biases(torch.tensor([[*distances]]))[0, :, 0]
    names = [f"head {number}" for number in range(1, len(biases) + 1)]
    slopes = linear_biases.slopes.tolist()
    steepest, flattest = max(slopes), min(slopes)
    halves = [0.6931 / slope for slope in (steepest, flattest)]
    return DistancesView(
        "alibi",
        origin,
        distances,
        [
            Panel("added to a score", dict(zip(names, biases.tolist(), strict=True))),
            Panel("share of the weight that is left", dict(zip(names, biases.exp().tolist(), strict=True))),
        ],
        [
            "Embeddings get no positions, and the model learns none: a head's scores fall by its slope with each "
            "token of distance.",
            f"The slopes of the {len(slopes)} heads range from {flattest:.4g} to {steepest:.4g}: of two keys that fit "
            f"a query equally well, one {halves[0]:,.1f} tokens farther has half the weight in the steepest head, and "
            f"one {halves[1]:,.0f} tokens farther in the flattest.",
        ],
        {},
    )


@torch.no_grad()
def _vectors(layers: Sequence[RelativePositions], origin: str) -> DistancesView:
    reach = layers[0].max_distance
    distances = range(-reach, len(layers[0].keys) - reach)
    mapped = [index for index, distance in enumerate(distances) if abs(distance) <= MAP_REACH]
    panels: list[Panel] = []
    maps: dict[str, Tensor] = {}
    for part in ("key", "value"):
        tables = {f"layer {number}": getattr(layer, f"{part}s").cpu() for number, layer in enumerate(layers, start=1)}
        panels.append(Panel(f"length of the {part} vector", {n: t.norm(dim=1).tolist() for n, t in tables.items()}))
        units = {name: nn.functional.normalize(table.double(), dim=1) for name, table in tables.items()}
        lines = {name: [None, *(unit[1:] * unit[:-1]).sum(dim=1).tolist()] for name, unit in units.items()}
        panels.append(Panel(f"cosine of the {part} vector with that of one token before", lines))
        maps |= {f"{part}s of {name}": unit[mapped] @ unit[mapped].T for name, unit in units.items()}
    summary = _learned(distances, panels)
    return DistancesView("relative", origin, distances, panels, summary, maps, [distances[index] for index in mapped])


def _learned(distances: range, panels: Sequence[Panel]) -> list[str]:
    """Describe the vectors in words: which are longest, and which differ."""
    reach = -distances[0]
    ahead = f" and {reach} ahead" if distances[-1] > 0 else ", since the decoder sees no later ones"
    sentences = [
        f"Each layer learns a vector for keys and one for values at {len(distances)} distances, up to {reach} back"
        f"{ahead}; its heads share them. Farther tokens have the vectors of the ends."
    ]
    for part, lengths, cosines in (("keys", panels[0], panels[1]), ("values", panels[2], panels[3])):
        means = [_mean(values) for values in zip(*lengths.lines.values(), strict=True)]
        longest = max(range(len(means)), key=lambda index: means[index])
        neighbours = [_mean(values[1:]) for values in cosines.lines.values()]
        sentence = (
            f"The vectors of {part} are longest at distance {distances[longest]} ({means[longest]:.2f}; the mean is "
            f"{_mean(means):.2f}); those of neighbouring distances have a cosine of {_mean(neighbours):.2f}"
        )
        by_distance = [*zip(distances, zip(*cosines.lines.values(), strict=True), strict=True)]
        near = _mean([value for distance, row in by_distance if distance in _NEAR for value in row])
        far = _mean([value for distance, row in by_distance if distance not in _NEAR for value in row])
        if far - near > _CLEARLY:
            sentence += f", {near:.2f} up to two tokens away but {far:.2f} beyond: near tokens differ more"
        sentences.append(sentence + ".")
    return sentences


def _mean(values: Sequence[float | None]) -> float:
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else 0.0


def heading(view: DistancesView) -> str:
    """Return a title for the view."""
    lines = list(view.panels[0].lines)
    of = f"{len(lines)} {lines[0].split()[0]}{'s' if len(lines) > 1 else ''}"
    return f"{view.kind} positions, distances {view.distances[0]} to {view.distances[-1]}, {of}, {view.origin}"


def as_text(view: DistancesView) -> str:
    """Return the summary, and each panel as a table, for a terminal."""
    lines = [heading(view), *view.summary]
    for panel in view.panels:
        names = list(panel.lines)[:_MOST_COLUMNS]
        more = "" if len(names) == len(panel.lines) else f" (the first {len(names)} of {len(panel.lines)})"
        lines += ["", f"{panel.title}{more}", "distance  " + "".join(f"{name:>10}" for name in names)]
        for index in _shown(view.distances):
            values = (panel.lines[name][index] for name in names)
            cells = ("" if value is None else f"{value:z.4f}" for value in values)
            lines.append((f"{view.distances[index]:>8}  " + "".join(f"{cell:>10}" for cell in cells)).rstrip())
    return "\n".join(lines)


def as_record(view: DistancesView) -> dict[str, object]:
    """Return the view for --json."""
    return {
        "kind": view.kind,
        "origin": view.origin,
        "distances": list(view.distances),
        "by_distance": {panel.title: dict(panel.lines) for panel in view.panels},
    }


def write_picture(path: Path, view: DistancesView) -> None:
    """Draw the panels, and the cosines as maps, as .png or .svg. Raises MtkitError without matplotlib."""
    columns = len(view.maps) // 2
    rows = len(view.panels) // 2 + (2 if view.maps else 0)
    figure = new_figure(path, max(11, 2.6 * columns), 3.6 * rows, layout="constrained")
    figure.suptitle(heading(view))
    parts = figure.subfigures(2, 1, height_ratios=(len(view.panels) // 2, 2)) if view.maps else [figure]
    for axes, panel in zip(parts[0].subplots(len(view.panels) // 2, 2).flat, view.panels, strict=True):
        for name, values in panel.lines.items():
            axes.plot(view.distances, [float("nan") if value is None else value for value in values], label=name)
        axes.set(xlabel="distance from the query", title=panel.title)
        axes.grid(alpha=0.3)
    parts[0].legend(*axes.get_legend_handles_labels(), fontsize="small", loc="outside right upper")
    if view.maps:
        _draw_maps(parts[1], parts[1].subplots(2, columns, squeeze=False), view)
    save_figure(figure, path)


def _draw_maps(figure: Any, grid: Any, view: DistancesView) -> None:
    low, high = view.map_distances[0] - 0.5, view.map_distances[-1] + 0.5
    for axes, (name, cosines) in zip(grid.flat, view.maps.items(), strict=True):
        image = axes.imshow(cosines.numpy(), cmap="RdBu", vmin=-1, vmax=1, extent=(low, high, high, low))
        axes.set(title=f"cosines of {name}")
    figure.colorbar(image, ax=grid, pad=0.01)


def write_distances_page(path: Path, view: DistancesView) -> None:
    """Write charts, maps and a table as an HTML page."""
    charts = [
        line_chart(
            [Series(name, view.distances, values) for name, values in panel.lines.items()],
            x_label="distance from the query",
            y_label=panel.title if len(panel.title) < 40 else "cosine",
            title=panel.title.capitalize(),
        )
        for panel in view.panels
    ]
    write_page(
        path,
        "distances",
        title="ALiBi positions" if view.kind == "alibi" else "Relative positions",
        heading=heading(view),
        summary=view.summary,
        charts=charts,
        panels=view.panels,
        shown=[(index, view.distances[index]) for index in _shown(view.distances)],
        map_distances=view.map_distances,
        data={name: [[round(x, 3) for x in row] for row in cosines.tolist()] for name, cosines in view.maps.items()},
    )


def _shown(distances: Sequence[int]) -> list[int]:
    """Return the indices of 0 to 4 in both directions, then of powers of two, and of the ends."""
    kept = {0, 1, 2, 3, 4, *(2**power for power in range(3, 20)), abs(distances[0]), abs(distances[-1])}
    return [index for index, distance in enumerate(distances) if abs(distance) in kept]

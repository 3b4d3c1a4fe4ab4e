"""Show the encoding of positions: the vectors, the similarity of positions by distance, and the wavelengths."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from mtkit.config.model import PositionKind
from mtkit.errors import MtkitError
from mtkit.inspection.pictures import new_figure, save_figure
from mtkit.model.positions import LearnedPositions, RotaryPositions, added_positions
from mtkit.model.transformer import Transformer
from mtkit.pages.charts import Series, line_chart
from mtkit.pages.page import write_page

Side = Literal["src", "tgt"]
FORMULA, INITIAL = "by the formula", "as drawn before training"
MODEL: dict[Side, str] = {"src": "of the model's source side", "tgt": "of the model's target side"}
_SHADES = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
_TEXT_ROWS, _TEXT_COLUMNS, _TEXT_LINES = 16, 64, 14  # at most, in a terminal
_MAX_VALUES = 200_000  # of a page: about 2 MB
_SAME = 1e-3  # products whose spread at one distance is this share of the largest depend on the distance alone


@dataclass(frozen=True)
class Spread:
    """Mean and range over all pairs of positions at one distance."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Similarity:
    """The similarity of two positions at one distance."""

    distance: int
    dot: Spread  # rotary: of a vector of length 1, rotated to each of the two positions
    cosine: Spread


@dataclass(frozen=True)
class PositionsView:
    """An encoding of positions and its properties."""

    kind: PositionKind
    origin: str  # FORMULA, INITIAL or one of MODEL
    encoding: Tensor  # float32 (P, D), added to embeddings; rotary: cosines, then sines, of the rotation angles
    similarity: Sequence[Similarity]  # from distance 0
    wavelengths: Sequence[float]  # of each column, in positions; learned: of its strongest wave
    embedding_length: float | None = None  # mean over the vocabulary, as the model scales embeddings

    @property
    def dot_spread(self) -> float:
        """Return the largest range of the dot product at one distance; about 0 if only the distance matters."""
        return max(similarity.dot.high - similarity.dot.low for similarity in self.similarity)


def positions_by_formula(kind: PositionKind, width: int, n_positions: int) -> PositionsView:
    """Return a kind of positions without a model, for embeddings (rotary: heads) of this width; learned: random."""
    if kind == "rotary":
        return _view(kind, FORMULA, RotaryPositions(width), width, n_positions)
    module = added_positions(kind, width, n_positions)
    if isinstance(module, LearnedPositions):
        nn.init.normal_(module.table, std=0.02, generator=torch.Generator().manual_seed(0))
    return _view(kind, INITIAL if kind == "learned" else FORMULA, module, width, n_positions)


def positions_of_model(model: Transformer, side: Side, n_positions: int) -> PositionsView:
    """Return the model's positions on one side. Raises MtkitError if it has fewer than n_positions."""
    cfg = model.cfg
    if cfg.positions == "learned" and n_positions > cfg.max_positions:
        raise MtkitError(
            f"the model has only {cfg.max_positions} learned positions (model.max_positions), not {n_positions}; "
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
    """Apply the module to vectors at positions 0 to n_positions - 1, and measure the result."""
    if kind == "rotary":
        first_of_each_pair = torch.cat([torch.ones(width // 2), torch.zeros(width // 2)])
        encoding = module(first_of_each_pair.repeat(n_positions, 1))
        vectors = module(torch.full((n_positions, width), width**-0.5))  # a query and an equal key
    else:
        encoding = vectors = module(torch.zeros(n_positions, width))
    wavelengths = _strongest_periods(encoding) if kind == "learned" else _periods(encoding, kind)
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


def _periods(encoding: Tensor, kind: PositionKind) -> list[float]:
    """Return the periods of columns of sines and cosines: 2 pi over the angle from one position to the next."""
    halves = encoding[1].double().chunk(2)
    cosines, sines = halves if kind == "rotary" else halves[::-1]
    periods = (2 * math.pi / torch.atan2(sines, cosines)).tolist()
    return [*periods, *periods]


def _strongest_periods(encoding: Tensor) -> list[float]:
    """Return the period of the wave with most of each column's variance (discrete Fourier transform)."""
    waves = torch.fft.rfft(encoding.double() - encoding.double().mean(0), dim=0).abs()[1:]  # row n: n + 1 waves
    return [len(encoding) / (strongest + 1) for strongest in waves.argmax(0).tolist()]


def heading(view: PositionsView) -> str:
    """Return a title for the view."""
    n_positions, width = view.encoding.shape
    of = "heads" if view.kind == "rotary" else "embeddings"
    return f"{view.kind} positions 0 to {n_positions - 1}, {of} {width} wide, {view.origin}"


def summary(view: PositionsView) -> list[str]:
    """Explain the figures in three sentences."""
    if view.kind == "rotary":
        first = "Embeddings get no positions: each position rotates the pairs of dimensions of queries and keys."
    else:
        lengths = view.encoding.norm(dim=1)
        low, high = float(lengths.min()), float(lengths.max())
        span = f"{low:.2f}" if high - low < 0.005 else f"{low:.2f} to {high:.2f}"
        of = "" if view.embedding_length is None else f" of length {view.embedding_length:.2f} (mean)"
        first = f"Each position adds a vector of length {span} to an embedding{of}."
    largest = max(abs(view.similarity[0].dot.high), abs(view.similarity[0].dot.low))
    depends = "only on their distance" if view.dot_spread <= _SAME * largest else "on where they are"
    what = "strongest wavelengths" if view.kind == "learned" else "wavelengths"
    shortest, longest = min(view.wavelengths), max(view.wavelengths)
    return [
        first,
        f"The product of two positions depends {depends}: at one distance it varies by up to {view.dot_spread:.2g}.",
        f"The dimensions' {what} range from {shortest:.4g} to {longest:,.0f} positions.",
    ]


def as_text(view: PositionsView) -> str:
    """Return the encoding in shades, then similarity and wavelengths as tables, for a terminal."""
    return "\n".join(
        [heading(view), *summary(view), "", *_shaded(view), "", *_similarity_table(view), "", *_wavelengths(view)]
    )


def write_picture(path: Path, view: PositionsView) -> None:
    """Draw heat map, similarity by distance and wavelengths as .png or .svg. Raises MtkitError without matplotlib."""
    figure = new_figure(path, 11, 8, layout="constrained")
    figure.suptitle(heading(view))
    grid = figure.add_gridspec(2, 3, height_ratios=(1.25, 1))
    _draw_encoding(figure, figure.add_subplot(grid[0, :]), view)
    for column, name in enumerate(("dot", "cosine")):
        _draw_similarity(figure.add_subplot(grid[1, column]), view, name)
    axes = figure.add_subplot(grid[1, 2])
    axes.plot(view.wavelengths, marker=".", linestyle="none")
    axes.set(yscale="log", xlabel="dimension", ylabel="positions", title=_wavelength_title(view))
    axes.grid(alpha=0.3)
    save_figure(figure, path)


def write_positions_page(path: Path, view: PositionsView) -> None:
    """Write heat map, charts and a table as an HTML page. Raises MtkitError if it would be too large."""
    if view.encoding.numel() > _MAX_VALUES:
        raise MtkitError(
            f"{path}: {view.encoding.numel():,} values are more than the {_MAX_VALUES:,} that a page holds; give a "
            "smaller --length, or --output a name that ends in .png"
        )
    distances = range(len(view.similarity))

    def chart(name: str, title: str) -> Any:
        spreads = [getattr(similarity, name) for similarity in view.similarity]
        parts = ("mean",) if view.dot_spread <= _SAME * abs(spreads[0].high) else ("mean", "low", "high")
        series = [Series(part, distances, [getattr(spread, part) for spread in spreads]) for part in parts]
        return line_chart(series, x_label="distance", y_label=title.lower(), title=f"{title} by distance")

    logs = [float(np.log10(wavelength)) for wavelength in view.wavelengths]
    waves = line_chart(
        [Series(name, range(start, end), logs[start:end]) for name, start, end in _halves(view)],
        x_label="dimension",
        y_label="log10 of positions",
        title=_wavelength_title(view).capitalize(),
    )
    write_page(
        path,
        "positions",
        title=f"{view.kind.capitalize()} positions",
        heading=heading(view),
        summary=summary(view),
        columns=_column_names(view),
        data={"encoding": [[round(x, 4) for x in row] for row in view.encoding.tolist()]},
        charts=[chart("dot", "Dot product"), chart("cosine", "Cosine"), waves],
        similarity=[view.similarity[distance] for distance in _shown_distances(len(view.similarity))],
    )


def _draw_encoding(figure: Any, axes: Any, view: PositionsView) -> None:
    largest = float(view.encoding.abs().max())
    image = axes.imshow(
        view.encoding.numpy(), cmap="RdBu", vmin=-largest, vmax=largest, aspect="auto", interpolation="nearest"
    )
    axes.set(xlabel=f"dimension ({_column_names(view)})", ylabel="position", title="encoding")
    figure.colorbar(image, ax=axes, pad=0.01)


def _draw_similarity(axes: Any, view: PositionsView, name: str) -> None:
    spreads = [getattr(similarity, name) for similarity in view.similarity]
    axes.fill_between(range(len(spreads)), [s.low for s in spreads], [s.high for s in spreads], alpha=0.25, linewidth=0)
    axes.plot([s.mean for s in spreads])
    shade = "" if view.dot_spread <= _SAME * abs(spreads[0].high) else "\n(mean; shaded: range over all pairs)"
    words = "dot product" if name == "dot" else "cosine"
    axes.set(xlabel="distance of two positions", title=f"{words} by distance{shade}")
    axes.grid(alpha=0.3)


def _column_names(view: PositionsView) -> str:
    if view.kind == "learned":
        return "independent"
    (first, _, half), (second, _, _) = _halves(view)
    return f"{first} to {half - 1}, {second} from {half}"


def _halves(view: PositionsView) -> list[tuple[str, int, int]]:
    """Return the kinds of dimensions, each with its first index and the one after its last."""
    width = view.encoding.size(1)
    if view.kind == "learned":
        return [("wavelength", 0, width)]
    first, second = ("cosines", "sines") if view.kind == "rotary" else ("sines", "cosines")
    return [(first, 0, width // 2), (second, width // 2, width)]


def _wavelength_title(view: PositionsView) -> str:
    return "strongest wavelength of each dimension" if view.kind == "learned" else "wavelength of each dimension"


def _shaded(view: PositionsView) -> list[str]:
    """Return the encoding with a character for each value, evenly spaced rows and columns of it."""
    rows, columns = (
        _spaced(size, room) for size, room in zip(view.encoding.shape, (_TEXT_ROWS, _TEXT_COLUMNS), strict=True)
    )
    largest = float(view.encoding.abs().max())
    levels = ((view.encoding / largest + 1) / 2 * (len(_SHADES) - 1)).round().int()
    scale = f"{_SHADES[0]} = {-largest:.3g}, {_SHADES[-1]} = {largest:.3g}"
    lines = [f"encoding, {scale}; dimensions {columns[0]} to {columns[-1]} ({_column_names(view)})"]
    for row in rows:
        lines.append(f"{row:>8}  " + "".join(_SHADES[levels[row, column]] for column in columns))
    return lines


def _similarity_table(view: PositionsView) -> list[str]:
    lines = ["distance  dot product     lowest    highest   cosine     lowest    highest"]
    for distance in _shown_distances(len(view.similarity)):
        dot, cosine = view.similarity[distance].dot, view.similarity[distance].cosine
        lines.append(
            f"{distance:>8}  {dot.mean:>11.4f}{dot.low:>11.4f}{dot.high:>11.4f}"
            f"{cosine.mean:>9.4f}{cosine.low:>11.4f}{cosine.high:>11.4f}"
        )
    return lines


def _wavelengths(view: PositionsView) -> list[str]:
    """Return the wavelengths of some dimensions; sine and cosine of a pair share one, so half of them suffice."""
    n = view.encoding.size(1) if view.kind == "learned" else view.encoding.size(1) // 2
    lines = [f"dimension  {'strongest ' if view.kind == 'learned' else ''}wavelength in positions"]
    return lines + [f"{i:>9}  {view.wavelengths[i]:>10,.2f}" for i in _spaced(n, _TEXT_LINES)]


def _shown_distances(n_positions: int) -> list[int]:
    """Return 0 to 4, then powers of two and three quarters of them."""
    sparse = [distance for power in range(3, 20) for distance in (3 * 2 ** (power - 2), 2**power)]
    return [distance for distance in (*range(5), *sparse) if distance < n_positions]


def _spaced(n: int, room: int) -> list[int]:
    """Return at most `room` evenly spaced indices below n, with the first and the last."""
    return list(dict.fromkeys(int(i) for i in np.linspace(0, n - 1, min(n, room)).round()))

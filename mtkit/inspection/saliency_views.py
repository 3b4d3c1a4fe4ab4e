"""Pictures and pages of saliency: how much each target token leans on each source token, as colours."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mtkit.errors import MtkitError
from mtkit.inspection.pictures import axis_names, new_figure, save_figure
from mtkit.inspection.saliency import Saliency
from mtkit.inspection.sentence_pair import SentencePair
from mtkit.pages.page import write_page

MOST_TOKENS = 80  # of a side: more cannot be read
_ERASED = {"pad": "hidden from all others", "unk": "replaced by <unk>", "omit": "left out"}


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

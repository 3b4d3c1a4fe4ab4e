"""What every matplotlib picture needs: a figure without a display, and a .png or .svg file written whole."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mtkit.console import log
from mtkit.data.tokenizer import SPACE
from mtkit.errors import MtkitError
from mtkit.files import atomic_file


def new_figure(path: Path, width: float, height: float, **options: Any) -> Any:
    """An empty matplotlib Figure of this size in inches; path: what it is for. options: further ones of Figure.

    Raises MtkitError without matplotlib.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MtkitError(
            f"{path}: pictures need matplotlib: pip install mtkit[plot]; or give --output a name that ends in .html"
        ) from None
    figure = Figure(figsize=(width, height), **options)
    FigureCanvasAgg(figure)
    return figure


def axis_names(pieces: Sequence[str]) -> list[str]:
    """The pieces with a space as an underscore: SentencePiece's own sign hangs below the line."""
    return [piece.replace(SPACE, "_") for piece in pieces]


def save_figure(figure: Any, path: Path, dpi: int = 130) -> None:
    """Write the figure as its name's suffix says; warns of characters that matplotlib's font cannot show."""
    import matplotlib

    with warnings.catch_warnings(record=True) as caught, atomic_file(path) as temporary:
        warnings.simplefilter("always")
        with matplotlib.rc_context({"svg.fonttype": "none"}):  # text stays text: it can be searched
            figure.savefig(temporary, format=path.suffix.lower()[1:], dpi=dpi)
    if any("missing from" in str(warning.message) for warning in caught):
        log.warning(f"{path}: matplotlib's font lacks some of these characters and shows boxes; .html has them all")

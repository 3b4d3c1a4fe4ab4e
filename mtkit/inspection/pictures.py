"""Create matplotlib figures without a display, and write them atomically as .png or .svg."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mtkit.console import log
from mtkit.errors import MtkitError
from mtkit.files import atomic_file
from mtkit.tokens.tokenizer import SPACE


def new_figure(path: Path, width: float, height: float, **options: Any) -> Any:
    """Return an empty matplotlib Figure of this size in inches; path names the picture in errors.

    options: passed on to Figure. Raises MtkitError without matplotlib.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MtkitError(
            f"{path}: pictures need matplotlib: pip install mtkit[plot], or give --output a name that ends in .html"
        ) from None
    figure = Figure(figsize=(width, height), **options)
    FigureCanvasAgg(figure)
    return figure


def axis_names(pieces: Sequence[str]) -> list[str]:
    """Return the pieces with an underscore for a space: SentencePiece's sign hangs below the line."""
    return [piece.replace(SPACE, "_") for piece in pieces]


def save_figure(figure: Any, path: Path, dpi: int = 130) -> None:
    """Write the figure in the format of the path's suffix; warn of characters that matplotlib's font lacks."""
    import matplotlib

    with warnings.catch_warnings(record=True) as caught, atomic_file(path) as temporary:
        warnings.simplefilter("always")
        with matplotlib.rc_context({"svg.fonttype": "none"}):  # keep text searchable
            figure.savefig(temporary, format=path.suffix.lower()[1:], dpi=dpi)
    if any("missing from" in str(warning.message) for warning in caught):
        log.warning(f"{path}: matplotlib's font lacks some of the characters and shows boxes; .html shows them all")

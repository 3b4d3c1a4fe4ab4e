"""curves.png: the learning curves in a run's metrics.jsonl; needs matplotlib (extra `plot`)."""

from pathlib import Path
from typing import Any

from mtkit.console import log
from mtkit.files import atomic_file
from mtkit.training.metrics_log import read_metrics


def plot_curves(run_dir: Path) -> Path | None:
    """Draw loss, dev loss, dev BLEU and chrF, learning rate and gradient norm by step to RUN/curves.png.

    Returns None if matplotlib is not installed or the run has no figures yet, and, after a warning, if drawing fails.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        return None
    try:
        entries = read_metrics(run_dir / "metrics.jsonl")
        return _plot(run_dir, entries) if entries else None
    except Exception as error:
        log.warning(f"{run_dir / 'curves.png'}: cannot draw the curves: {error}")
        return None


def _plot(run_dir: Path, entries: list[dict[str, Any]]) -> Path:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 7), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(run_dir.name, parse_math=False)
    (losses, scores), (rates, norms) = figure.subplots(2, 2, sharex=True)
    _draw(losses, entries, "train", {"nll": "train"})
    last: dict[str, Any] = next((entry for entry in reversed(entries) if entry["kind"] == "validation"), {})
    sets = list(dict.fromkeys(key.split(".")[1] for key in last if key.startswith("dev.")))

    def of_sets(figure: str, words: str) -> dict[str, str]:
        return {f"dev.{name}.{figure}": f"{words}, {name}" for name in sets} or {figure: words}

    _draw(losses, entries, "validation", of_sets("loss", "dev"), marker="o")
    losses.set_ylabel("nats per target token, no smoothing")
    _draw(scores, entries, "validation", of_sets("bleu", "BLEU") | of_sets("chrf", "chrF"), marker="o")
    scores.set_ylabel("dev score")
    _draw(rates, entries, "train", {"lr": "learning rate"})
    _draw(norms, entries, "train", {"grad_norm": "gradient norm, before clipping"})
    for axes in (rates, norms):
        axes.set_xlabel("step")
    path = run_dir / "curves.png"
    with atomic_file(path) as temporary:
        figure.savefig(temporary, format="png", dpi=120)
    return path


def _draw(axes: Any, entries: list[dict[str, Any]], kind: str, names: dict[str, str], marker: str = "") -> None:
    """Draw a labelled line per figure, through the steps that have it."""
    for name, label in names.items():
        points = [(entry["step"], entry[name]) for entry in entries if entry["kind"] == kind and name in entry]
        if points:
            axes.plot(*zip(*points, strict=True), label=label, marker=marker, markersize=3)
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend()

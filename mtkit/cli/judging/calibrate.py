"""`mtkit calibrate`: fit the confidence of a model's translations, and store it in the bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.models import load_translator, with_bar
from mtkit.cli.options import TEXT, DecodeSetOption, DeviceOption, ModelOption
from mtkit.config.data import CorpusFiles
from mtkit.console import counted
from mtkit.errors import UsageError

if TYPE_CHECKING:
    from mtkit import bundle
    from mtkit.data import dev_text
    from mtkit.translation import confidence
    from mtkit.translation.candidates import Candidate


def calibrate(
    model: ModelOption = None,
    src: Annotated[
        Path | None, typer.Option(rich_help_panel=TEXT, help="Text to translate. Default: the dev sets of the config.")
    ] = None,
    ref: Annotated[
        Path | None, typer.Option(rich_help_panel=TEXT, help="Reference translations, line by line.")
    ] = None,
    threshold: Annotated[
        float, typer.Option(min=0, max=100, help="A translation counts as good if its sentence chrF2 is at least this.")
    ] = 60.0,
    max_sentences: Annotated[
        int, typer.Option("--max-sentences", min=20, help="Use at most N sentences, evenly spaced.")
    ] = 1000,
    overrides: DecodeSetOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Calibrate the confidence that `mtkit translate --json` gives: the probability that a translation is good.

    A translation is good if its sentence chrF2 is at least --threshold. The command fits on every other sentence,
    reports on the rest, and stores the result in the bundle as confidence.json. The confidence is valid for text like
    the dev set. Several dev sets share --max-sentences evenly.
    """
    from mtkit import bundle
    from mtkit.translation import confidence

    if (src is None) != (ref is None):
        raise UsageError("give both --src and --ref, or neither for the dev sets of the model's config")

    folder = bundle.find_model(model)
    files = bundle.read_bundle(folder)
    texts = _texts(files, src, ref, max_sentences)
    candidates: list[Candidate] = []
    for text in texts:
        of_text = [f"decode.tag={text.tag or 'null'}"] if src is None else []
        translator = load_translator([folder], overrides=[*of_text, *(overrides or [])], device=device)
        stream = translator.stream([pair.src for pair in text.pairs])
        what = f"translating {text.name}" if len(texts) > 1 else "translating"
        candidates += [one.n_best[0] for one in with_bar(stream, len(text.pairs), what, "sentence")]
    calibration = confidence.calibrate_translations(
        candidates,
        [pair.tgt for text in texts for pair in text.pairs],
        threshold=threshold,
        decode=translator.decode,
        tags=[text.tag for text in texts],
    )
    bundle.add_to_bundle(files, confidence.CONFIDENCE_FILE, calibration.dump)
    _print(calibration, texts, folder / confidence.CONFIDENCE_FILE)


def _texts(files: bundle.BundleFiles, src: Path | None, ref: Path | None, n: int) -> list[dev_text.DevText]:
    """Return at most n sentences to calibrate on: from src and ref, or from all dev sets of the model's config."""
    from mtkit.data import corpus, dev_text

    if src is not None:
        pairs = dev_text.pairs_with_text(CorpusFiles(src=src, tgt=ref))
        return [dev_text.DevText(str(src), None, corpus.evenly_spaced(pairs, n))]
    config = files.folder / "config.yaml"
    return dev_text.read_dev_text(files.config.data.dev, n, config=config, remedy="give --src and --ref")


def _print(calibration: confidence.Calibration, texts: list[dev_text.DevText], path: Path) -> None:
    from mtkit.data import dev_text

    report = calibration.held_out
    print(f"{path}: fitted on {counted(calibration.n_fitted, 'sentence')}, measured on {report.n:,} others")
    if len(texts) > 1:
        print(dev_text.listed([(text.name, len(text.pairs)) for text in texts], "sentence"))
    print(f"good (chrF2 at least {calibration.threshold:g}): {report.good:.1%}")
    auc = "-" if report.auc is None else f"{report.auc:.3f}"
    error = f"expected calibration error {report.calibration_error:.3f} ({report.by_chance:.3f} by chance alone)"
    print(f"{error}, Brier score {report.brier:.3f}, AUC {auc}")
    print(f"{'confidence':<12}{'sentences':>9}{'mean':>8}{'good':>8}")
    for entry in report.bins:
        if entry.n:
            span = f"{entry.low:.1f}-{entry.high:.1f}"
            print(f"{span:<12}{entry.n:>9}{entry.confidence:>8.3f}{entry.good:>8.3f}")

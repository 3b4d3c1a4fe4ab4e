"""`mtkit calibrate`: fit the confidence of a model's translations, and keep it in the bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit import bundle
from mtkit.cli.options import TEXT, DecodeSetOption, DeviceOption, ModelOption
from mtkit.cli.translating import load_translator, with_bar
from mtkit.config.data import CorpusFiles
from mtkit.console import counted
from mtkit.data import corpus
from mtkit.errors import UsageError
from mtkit.translation import confidence


def calibrate(
    model: ModelOption = None,
    src: Annotated[
        Path | None, typer.Option(rich_help_panel=TEXT, help="Text to translate. Default: the dev set of the config.")
    ] = None,
    ref: Annotated[
        Path | None, typer.Option(rich_help_panel=TEXT, help="Reference translations, line by line.")
    ] = None,
    threshold: Annotated[
        float, typer.Option(min=0, max=100, help="A translation counts as good from this sentence chrF2.")
    ] = 60.0,
    max_sentences: Annotated[
        int, typer.Option("--max-sentences", min=20, help="Use at most N sentences, evenly spaced.")
    ] = 1000,
    overrides: DecodeSetOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Calibrate the confidence that `mtkit translate --json` gives: the probability that a translation is good.

    Good means a sentence chrF2 of at least --threshold. The command fits on every other sentence, reports on the rest,
    and keeps the result in the bundle as confidence.json. The confidence holds for text like the dev set.
    """
    if (src is None) != (ref is None):
        raise UsageError("give both --src and --ref, or neither for the dev set of the model's config")

    folder = bundle.find_model(model)
    files = CorpusFiles(src=src, tgt=ref) if src else bundle.read_bundle(folder).config.data.dev[0]
    if src is None:
        corpus.require_files("data.dev", [files], config=folder / "config.yaml", remedy="give --src and --ref")
        overrides = [f"decode.tag={files.tag or 'null'}", *(overrides or [])]
    pairs = [pair for pair in corpus.read_pairs([files]) if pair.src.strip() and pair.tgt.strip()]
    pairs = corpus.evenly_spaced(pairs, max_sentences)
    translator = load_translator([folder], overrides=overrides or [], device=device)
    stream = translator.stream([pair.src for pair in pairs])
    translations = list(with_bar(stream, len(pairs), "translating", "sentence"))
    calibration = confidence.calibrate_translations(
        [translation.n_best[0] for translation in translations],
        [pair.tgt for pair in pairs],
        threshold=threshold,
        decode=translator.decode,
    )
    bundle.add_to_bundle(folder, confidence.CONFIDENCE_FILE, calibration.dump)
    _print(calibration, folder / confidence.CONFIDENCE_FILE)


def _print(calibration: confidence.Calibration, path: Path) -> None:
    report = calibration.held_out
    print(f"{path}: fitted on {counted(calibration.n_fitted, 'sentence')}, measured on {report.n:,} others")
    print(f"good (chrF2 at least {calibration.threshold:g}): {report.good:.1%}")
    auc = "-" if report.auc is None else f"{report.auc:.3f}"
    error = f"expected calibration error {report.calibration_error:.3f} ({report.by_chance:.3f} by chance alone)"
    print(f"{error}, Brier score {report.brier:.3f}, AUC {auc}")
    print(f"{'confidence':<12}{'sentences':>9}{'mean':>8}{'good':>8}")
    for entry in report.bins:
        if entry.n:
            span = f"{entry.low:.1f}-{entry.high:.1f}"
            print(f"{span:<12}{entry.n:>9}{entry.confidence:>8.3f}{entry.good:>8.3f}")

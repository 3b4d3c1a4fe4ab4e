"""`mtkit export`: write a model in another system's format."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from mtkit.cli.options import JsonOption, ModelOption, check_new_folder, check_other_folder, check_writable
from mtkit.config.data import CorpusFiles
from mtkit.console import counted, log, progress_bar
from mtkit.errors import DataError, UsageError
from mtkit.interop.support import Quantization, Target
from mtkit.pair_files import lines as text_lines

if TYPE_CHECKING:
    from mtkit import bundle
    from mtkit.interop import parity as parities

_T = TypeVar("_T")
COMPARISON = "Comparison with the original"
_QUANTIZED = ("ctranslate2", "argos")


OutOption = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        help="Write to this folder; for argos, this .argosmodel file. Default for ctranslate2: a folder in the bundle.",
    ),
]
QuantizationOption = Annotated[
    Quantization,
    typer.Option(
        help="Number format of the weights for CTranslate2 and Argos: int8 is the fastest on CPUs, 16 bits suit GPUs."
    ),
]
EngineOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="For page: folder of the engine's npm package. Default: node_modules/@browsermt/bergamot-translator.",
    ),
]
SrcOption = Annotated[
    Path | None, typer.Option(rich_help_panel=COMPARISON, help="Text to compare on. Default: all sets of data.dev.")
]
RefOption = Annotated[
    Path | None, typer.Option(rich_help_panel=COMPARISON, help="Reference translations of --src, for BLEU.")
]
LinesOption = Annotated[
    int | None,
    typer.Option(min=1, rich_help_panel=COMPARISON, help="Compare on at most N lines, evenly spaced. Default: 500."),
]
MinAgreementOption = Annotated[
    float | None,
    typer.Option(min=0, max=1, rich_help_panel=COMPARISON, help="Fail if a smaller share of the tokens agrees."),
]
MaxDifferenceOption = Annotated[
    float | None,
    typer.Option(min=0, rich_help_panel=COMPARISON, help="Fail if log-probabilities differ by more nats per token."),
]
MaxDropOption = Annotated[
    float | None, typer.Option(min=0, rich_help_panel=COMPARISON, help="Fail if BLEU falls by more.")
]


def export(
    to: Annotated[Target, typer.Option("--to", help="The format.")],
    model: ModelOption = None,
    out: OutOption = None,
    quantization: QuantizationOption = "float32",
    engine: EngineOption = None,
    src: SrcOption = None,
    ref: RefOption = None,
    lines: LinesOption = None,
    min_agreement: MinAgreementOption = None,
    max_score_difference: MaxDifferenceOption = None,
    max_bleu_drop: MaxDropOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a model in the format of CTranslate2, Argos Translate, Marian, Bergamot (browsers) or Hugging Face, or as a
    web page.

    The command writes a model only if its translations of dev sentences agree with those of the original. A
    CTranslate2 model goes into the bundle, where `mtkit translate` finds it. To compare a model for Marian,
    Bergamot or Hugging Face, the command imports it again. It prints how well they agree, and stores the figures in
    parity.json. The tolerances depend on --quantization; models for Bergamot and pages are always in int8. Unless
    training has done so, the command also measures on dev whether the native engine can decode in int8.
    """
    from mtkit import bundle
    from mtkit.interop import parity as parities

    folder = bundle.find_model(model)
    files = bundle.read_bundle(folder)
    if to not in _QUANTIZED and quantization != "float32":
        raise UsageError(f"--quantization {quantization} needs --to ctranslate2 or argos")
    _check_place(to, out)
    engine = _engine(files, to, engine)
    wanted = {
        "token_agreement": min_agreement,
        "score_difference": max_score_difference,
        "bleu_drop": max_bleu_drop,
    }
    given = {key: value for key, value in wanted.items() if value is not None}
    tolerance = replace(parities.DEFAULT_TOLERANCES["browser" if to in ("bergamot", "page") else quantization], **given)
    texts = [] if src is None and _lacks_dev(files, to) else _texts(files, src, ref, lines or 500)
    parity = _export_compared(files, to, out, quantization, texts, tolerance, engine)
    if out is None and src is None:
        from mtkit.runs.export import measure_int8

        measure_int8(bundle.read_bundle(folder))
    if as_json:
        certificate = {} if parity is None else parity.as_json()
        print(json.dumps({"folder": str(out or files.folder / "ctranslate2"), **certificate}, indent=2))
    elif parity is not None:
        _print_certificate(parity)


def _check_place(to: Target, out: Path | None) -> None:
    """Raise UsageError unless the format can be written to this place."""
    if to == "argos" and (out is None or out.suffix != ".argosmodel" or out.is_dir()):
        raise UsageError("--to argos needs --out, a file that ends with .argosmodel")
    if to == "argos" and out is not None:
        check_writable(out)
    if to == "ctranslate2" and out is not None:
        check_other_folder(out)
    if to not in _QUANTIZED:
        if out is None:
            raise UsageError(f"--to {to} needs --out, the folder to write to")
        check_new_folder(out)


def _engine(files: bundle.BundleFiles, to: Target, engine: Path | None) -> Path | None:
    """Return the folder of the engine for a page; None for other formats.

    Raises MtkitError if the engine cannot use the model, before the user fetches it, or if there is no engine.
    """
    if to != "page":
        if engine is not None:
            raise UsageError("--engine needs --to page")
        return None
    from mtkit.interop.bergamot import folder, page

    folder.usable_shortlist(files)
    engine = engine or Path("node_modules", page.PACKAGE)
    page.check_engine(engine)
    return engine


def _export_compared(
    files: bundle.BundleFiles,
    to: Target,
    out: Path | None,
    quantization: Quantization,
    texts: list[parities.ComparedText],
    tolerance: parities.Tolerance,
    engine: Path | None,
) -> parities.Parity | None:
    from mtkit import runtime
    from mtkit.interop import argos, reimported
    from mtkit.interop import parity as parities
    from mtkit.interop.ctranslate2 import export as ctranslate2

    log.info(f"model: {files.folder}")
    threads = runtime.set_threads(files.config.decode.threads)
    n_lines = sum(len(text.sources) for text in texts)
    parity: parities.Parity | None
    with progress_bar(parities.n_translated(files.config.decode, n_lines), "comparing", "line") as bar:
        rest = texts, tolerance, threads, bar.update
        if to in _QUANTIZED or out is None:
            write = argos.export_bundle if to == "argos" and out is not None else ctranslate2.export_bundle
            parity = write(files, out, quantization, *rest)  # type: ignore[arg-type]
        else:
            parity = reimported.export_bundle(files, to, out, *rest, engine)
    if out is None:
        log.info(f"written: {files.folder / 'ctranslate2'}")
    else:
        _log_written(files, out)
        for failure in parity.failing_types(tolerance) if parity else ():
            log.warning(f"{out}: {failure}; let your program choose another type")
    return parity


def _log_written(files: bundle.BundleFiles, out: Path) -> None:
    """Log the folder for another program, and the work that this program must do itself."""
    from mtkit.interop import handover

    log.info(f"written: {out}")
    if left := handover.left_to_the_program(files.config):
        readme = f"{handover.README} in it" if out.is_file() else out / handover.README
        log.warning(f"{out} does not include {' and '.join(left)}: your program must do this itself; see {readme}")


def _lacks_dev(files: bundle.BundleFiles, to: Target) -> bool:
    """Return whether a format that needs no comparison has no text for one; then warn."""
    from mtkit.data import corpus as corpora

    lacks = to not in _QUANTIZED and corpora.first_missing(files.config.data.dev) is not None
    if lacks:
        log.warning(f"{files.folder}: no dev text, so the export is not compared with the model; give text with --src")
    return lacks


def _texts(files: bundle.BundleFiles, src: Path | None, ref: Path | None, n_lines: int) -> list[parities.ComparedText]:
    """Return at most n_lines to compare on, from src or all dev sets, with references if there are any."""
    from mtkit.data import corpus as corpora
    from mtkit.data import dev_text
    from mtkit.interop import parity as parities

    if src is None:
        if ref is not None:
            raise UsageError("--ref needs --src, the text that it translates")
        remedy = "use --src and --ref to give text to compare on"
        config = files.folder / "config.yaml"
        of_sets = dev_text.read_dev_text(files.config.data.dev, n_lines, config=config, remedy=remedy, with_blanks=True)
        return [parities.ComparedText.from_pairs(one.name, one.tag, one.pairs) for one in of_sets]
    tag = files.config.decode.tag
    if ref is None:
        return [parities.ComparedText(str(src), tag, _some(list(text_lines.read_lines(src)), n_lines), None)]
    pairs = _some(list(corpora.read_pairs([CorpusFiles(src=src, tgt=ref)])), n_lines)
    return [parities.ComparedText.from_pairs(str(src), tag, pairs)]


def _some(items: list[_T], n: int) -> list[_T]:
    from mtkit.data import corpus as corpora

    if not items:
        raise DataError("the text to compare on has no lines")
    return corpora.evenly_spaced(items, n)


def _print_certificate(parity: parities.Parity) -> None:
    from mtkit.data import dev_text

    texts = list(parity.texts.items())
    lines = dev_text.listed(texts, "line") if len(texts) > 1 else counted(parity.n_lines, "line")
    print(
        f"{parity.quantization}, computed in {parity.computes_in}, compared with the native engine in float32: "
        f"{lines}, {counted(parity.threads, 'thread')}"
    )
    print(
        f"log-probability of the same translations: differs by {parity.score_difference_mean:.2g} nats per token, by "
        f"at most {parity.score_difference_max:.2g} in a line"
    )
    if parity.agreement_by_type:
        print(f"tokens agree if computed in {', '.join(f'{k} {v:.2%}' for k, v in parity.agreement_by_type.items())}")
    print(f"{'':<8}{'tokens agree':>13}{'equal lines':>13}{'BLEU':>8}{'change':>8}{'lines/s':>9}{'native':>8}")
    for search in parity.searches:
        bleu = "" if search.bleu is None else f"{search.bleu:.2f}"
        change = "" if search.bleu_change is None else f"{search.bleu_change:+.2f}"
        print(
            f"{search.search:<8}{search.token_agreement:>13.2%}{search.equal_lines:>13,}{bleu:>8}{change:>8}"
            f"{search.lines_per_s:>9.1f}{search.native_lines_per_s:>8.1f}"
        )

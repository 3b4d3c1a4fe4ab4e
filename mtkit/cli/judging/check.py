"""`mtkit check`: check the translations of a model, or of a file, against a suite of behaviour checks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import mtkit
from mtkit.cli.judging.systems import Translating
from mtkit.cli.models import model_folders, with_bar
from mtkit.cli.options import (
    OUTPUT,
    TEXT,
    BeamSizeOption,
    DecodeSetOption,
    DeviceOption,
    EngineOption,
    EnsembleOption,
    JsonOption,
    output_option,
)
from mtkit.console import counted, log
from mtkit.errors import DataError, UsageError
from mtkit.pair_files import compression
from mtkit.pair_files import lines as text_lines

_N_PAIRS = 500  # of dev, for the robustness check

if TYPE_CHECKING:
    from mtkit.evaluation.behaviour import suite as suites

SuiteArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="SUITE",
        help="YAML file of checks; see configs/sample-suite.yaml. Default: how well the model translates the dev set "
        "of its config as people type it: in capitals, with typos, several sentences in a line.",
    ),
]
GivenOption = Annotated[
    Path | None,
    typer.Option(
        rich_help_panel=TEXT, help="Check the translations in this file, one for each line that --sources prints."
    ),
]
SourcesOption = Annotated[
    bool,
    typer.Option("--sources", rich_help_panel=TEXT, help="Print the lines to translate for the suite, and stop."),
]
ShowOption = Annotated[
    int, typer.Option(min=0, rich_help_panel=OUTPUT, help="Number of failed cases to show for each check.")
]
JunitOption = Annotated[
    Path | None,
    output_option("--junit", help="Also write the result as JUnit XML, for build servers."),
]


def check(
    suite_path: SuiteArgument = None,
    models: EnsembleOption = None,
    hyp: GivenOption = None,
    sources: SourcesOption = False,
    beam_size: BeamSizeOption = None,
    engine: EngineOption = None,
    device: DeviceOption = "auto",
    overrides: DecodeSetOption = None,
    show: ShowOption = 5,
    junit: JunitOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a translator's behaviour, such as whether it keeps numbers, negation, names and emoji.

    A suite lists sentences and the conditions that their translations must meet. The exit code is 1 if a check fails.
    """
    from mtkit.evaluation.behaviour import report
    from mtkit.evaluation.behaviour import suite as suites
    from mtkit.pair_files import corpus_files

    translating = Translating(beam_size, engine, device, overrides or [])
    if (sources or hyp) and (models or translating.is_changed):
        raise UsageError("--sources and --hyp do not use a model: leave out --model and the options for translating")
    if (sources or hyp) and suite_path is None:
        raise UsageError("--sources and --hyp need a SUITE")
    suite, of_text = _robust_suite(models or []) if suite_path is None else (suites.load_suite(suite_path), [])
    inputs = [suite_path, hyp, *(one.check.file for one in suite.checks)]
    corpus_files.check_distinct([("--junit", junit)], [*filter(None, inputs)])
    if sources:
        for line in suite.sources:
            print(line)
        return
    if hyp is not None:
        origin, texts = {"hyp": str(hyp)}, _given(hyp, suite)
    else:
        translator, folders = _load(models or [], translating, suite, of_text)
        origin, texts = {"model": ", ".join(folders)}, _translated(translator, suite)
    result = report.run_suite(suite, lambda lines: texts)
    if junit is not None:
        with compression.open_output(junit) as file:
            file.write(report.as_junit(result, suite.path.stem))
        log.info(f"written: {junit}")
    if as_json:
        print(json.dumps({"suite": str(suite.path), **origin, **report.as_dict(result)}, indent=2, ensure_ascii=False))
    else:
        for line in report.as_lines(result, show):
            print(line)
    if not result.passed:
        raise typer.Exit(1)


def _robust_suite(models: Sequence[Path]) -> tuple[suites.Suite, list[str]]:
    """Return the suite of the dev pairs of the first model's config, and the settings with which it reads them."""
    from mtkit import bundle
    from mtkit.data import dev_text
    from mtkit.evaluation.behaviour import checks
    from mtkit.evaluation.behaviour import suite as suites

    [folder, *_] = model_folders(models)
    config, data = folder / "config.yaml", bundle.read_bundle(folder).config.data
    tag = data.dev[0].tag
    dev = [corpus for corpus in data.dev if corpus.tag == tag]
    if len(dev) < len(data.dev):
        log.warning(f"{config}: only the dev sets with the tag {tag} are checked; give the others in a SUITE")
    sets = dev_text.read_dev_text(dev, _N_PAIRS, config=config, remedy="put it there, or give a SUITE")
    pairs = [(pair.src, pair.tgt) for text in sets for pair in text.pairs]
    suite = suites.robust_suite(pairs, checks.Languages(data.src_lang, data.tgt_lang), config)
    return suite, [f"decode.tag={tag or 'null'}"]


def _given(hyp: Path, suite: suites.Suite) -> list[str]:
    texts = list(text_lines.read_lines(hyp))
    if len(texts) != len(suite.sources):
        raise DataError(
            f"{hyp} has {counted(len(texts), 'line')}, but the suite has {len(suite.sources):,} to translate; line n "
            f"must translate line n of: mtkit check {suite.path} --sources"
        )
    return texts


def _load(
    models: Sequence[Path], translating: Translating, suite: suites.Suite, of_text: Sequence[str]
) -> tuple[mtkit.Translator, list[str]]:
    from mtkit import bundle

    folders = model_folders(models)
    data = bundle.read_bundle(folders[0]).config.data
    if warning := suite.languages.warning(data.src_lang, data.tgt_lang):
        log.warning(f"{folders[0]}: {warning}")
    return translating.load(folders, of_text), [str(folder) for folder in folders]


def _translated(translator: mtkit.Translator, suite: suites.Suite) -> list[str]:
    lines = suite.sources
    stream = translator.stream(lines, window=64)
    return [translation.text for translation in with_bar(stream, len(lines), "translating", "line")]

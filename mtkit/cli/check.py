"""`mtkit check`: a suite of behaviour checks and a model in, or given translations; what passes and what fails out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

import mtkit
from mtkit import bundle
from mtkit.cli.options import BeamSizeOption, DecodeSetOption, DeviceOption, EngineOption, EnsembleOption, file_named
from mtkit.cli.systems import Translating
from mtkit.cli.translating import with_bar
from mtkit.console import log
from mtkit.data import corpus
from mtkit.errors import DataError, UsageError
from mtkit.evaluation.behaviour import report
from mtkit.evaluation.behaviour import suite as suites


def check(
    suite_path: Annotated[Path, typer.Argument(metavar="SUITE", help="YAML file; see configs/sample-suite.yaml.")],
    models: EnsembleOption = None,
    hyp: Annotated[
        Path | None, typer.Option(help="Check these translations of the lines that --sources prints; no model.")
    ] = None,
    sources: Annotated[
        bool, typer.Option("--sources", help="Print the lines that the suite has translated, and do no more.")
    ] = False,
    beam_size: BeamSizeOption = None,
    engine: EngineOption = None,
    device: DeviceOption = "auto",
    overrides: DecodeSetOption = None,
    show: Annotated[int, typer.Option(min=0, help="Failing cases shown of each check.")] = 5,
    junit: Annotated[
        Path | None, typer.Option(callback=file_named(), help="Write the result as JUnit XML, too, for build servers.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON, with every case.")] = False,
) -> None:
    """Check how a translator behaves: numbers, negation, names and emoji kept, long lines whole, and more.

    A suite lists sentences and what must hold of their translations. Exit code 1 if any check fails.
    """

    suite = suites.load_suite(suite_path)
    translating = Translating(beam_size, engine, device, overrides or [])
    if (sources or hyp) and (models or translating.is_changed):
        raise UsageError("--sources and --hyp need no model: leave out --model and what is for translating")
    if sources:
        for line in suite.sources:
            print(line)
        return
    if hyp is not None:
        origin, texts = {"hyp": str(hyp)}, _given(hyp, suite, suite_path)
    else:
        translator, folders = _load(models or [], translating, suite)
        origin, texts = {"model": ", ".join(folders)}, _translated(translator, suite)
    result = report.run_suite(suite, lambda lines: texts)
    if junit is not None:
        with corpus.open_output(junit) as file:
            file.write(report.as_junit(result, suite_path.stem))
        log.info(f"written: {junit}")
    if as_json:
        print(json.dumps({"suite": str(suite_path), **origin, **report.as_dict(result)}, indent=2, ensure_ascii=False))
    else:
        for line in report.as_lines(result, show):
            print(line)
    if not result.passed:
        raise typer.Exit(1)


def _given(hyp: Path, suite: suites.Suite, suite_path: Path) -> list[str]:
    texts = list(corpus.read_lines(hyp))
    if len(texts) != len(suite.sources):
        raise DataError(
            f"{hyp} has {len(texts):,} lines, the suite has {len(suite.sources):,} translated; line n must translate "
            f"line n of: mtkit check {suite_path} --sources"
        )
    return texts


def _load(models: Sequence[Path], translating: Translating, suite: suites.Suite) -> tuple[mtkit.Translator, list[str]]:
    folders = [bundle.find_model(model) for model in models] if models else [bundle.find_model()]
    data = bundle.read_bundle(folders[0]).config.data
    if warning := suite.languages.warning(data.src_lang, data.tgt_lang):
        log.warning(f"{folders[0]}: {warning}")
    return translating.loader([])(*folders), [str(folder) for folder in folders]


def _translated(translator: mtkit.Translator, suite: suites.Suite) -> list[str]:
    lines = suite.sources
    stream = translator.stream(lines, window=64)
    return [translation.text for translation in with_bar(stream, len(lines), "translating", "line")]

"""`mtkit compare`: compare systems on a test set, with kinds of sentences and examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.judging.systems import (
    DevSetOption,
    ReferencesOption,
    ScoresOption,
    SourceOption,
    SplitOption,
    SrcLangOption,
    TgtLangOption,
    TokenizeOption,
    TrainTextOption,
    Translating,
)
from mtkit.cli.options import (
    OUTPUT,
    BeamSizeOption,
    DecodeSetOption,
    DeviceOption,
    EngineOption,
    JsonOption,
    output_option,
)
from mtkit.console import log
from mtkit.errors import MtkitError, UsageError

SystemsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]PATH",
        help="Files of translations, or runs or bundles, with which mtkit translates the test set. The first one is "
        "the baseline for the others. The default name is the path.",
    ),
]
PageOption = Annotated[
    Path | None,
    output_option(suffixes=(".html",), help="Write the report to this .html page and print only the result."),
]
FailIfWorseOption = Annotated[
    bool,
    typer.Option(
        "--fail-if-worse",
        rich_help_panel=OUTPUT,
        help="For release scripts: exit with code 1 if a system is significantly worse than the first by any metric.",
    ),
]


def compare(
    paths: SystemsArgument,
    src: SourceOption = None,
    ref: ReferencesOption = None,
    split: SplitOption = "test",
    dev_set: DevSetOption = None,
    tokenize: TokenizeOption = None,
    scores: ScoresOption = None,
    fail_if_worse: FailIfWorseOption = False,
    output: PageOption = None,
    train_text: TrainTextOption = None,
    src_lang: SrcLangOption = None,
    tgt_lang: TgtLangOption = None,
    beam_size: BeamSizeOption = None,
    engine: EngineOption = None,
    device: DeviceOption = "auto",
    overrides: DecodeSetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare systems on a test set: scores, significance of differences, kinds of sentences, examples.

    The command tests differences by approximate randomization, corrected for the number of tests (Holm). Simple rules
    group the sentences by length, by how rare their words are in the training text, and by numbers, names, negation and
    questions.
    """
    from mtkit.evaluation.comparison import comparison as comparisons
    from mtkit.evaluation.comparison import page, systems, text
    from mtkit.evaluation.task import Measures, TextOptions, prepare

    if len(paths) < 2:
        raise UsageError(f"{paths[0]} is the only system; give at least two, or score it with `mtkit evaluate`")
    translating = Translating(beam_size, engine, device, overrides or [])
    places, _ = systems.find_places(paths, [])
    translating.check(any_model=any(place.is_model for place in places))
    options = TextOptions(src, ref or [], "dev" if dev_set else split, dev_set, src_lang, tgt_lang, train_text or [])
    task = prepare(places, options, Measures(["BLEU"], tokenize, scores=scores or []))
    assert task.kinds is not None  # train_text is given
    comparison = comparisons.compare(task.translate(translating.load), task.kinds, settings=task.settings)
    if output is not None:
        page.write_report(output, comparison)
        log.info(f"written: {output}")
    if as_json:
        print(json.dumps(text.as_structure(comparison), indent=2, ensure_ascii=False))
    else:
        print("\n".join(text.headline(comparison) if output is not None else text.report(comparison)))
    if fail_if_worse and (worse := comparison.surely_worse()):
        named = "; ".join(text.verdict(pair, metric) for pair, metric in worse)
        raise MtkitError(f"--fail-if-worse: {named}")

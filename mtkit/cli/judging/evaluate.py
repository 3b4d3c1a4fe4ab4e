"""`mtkit evaluate`: score a model, or several systems side by side, on a test set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.judging import evaluate_labels
from mtkit.cli.judging.systems import (
    METRIC,
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
    check_single_set,
    dev_sets,
    print_by_set,
)
from mtkit.cli.models import model_folders
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
from mtkit.errors import UsageError
from mtkit.evaluation.metrics.settings import METRICS, MetricName

if TYPE_CHECKING:
    from mtkit.evaluation.comparison import systems
    from mtkit.evaluation.evaluate import Evaluation
    from mtkit.evaluation.task import Measures, TextOptions

SYSTEMS = "Systems to compare"

SystemOption = Annotated[
    list[str] | None,
    typer.Option(
        "--system",
        "--hyp",
        metavar="[NAME=]PATH",
        rich_help_panel=SYSTEMS,
        help="A system to score: a file of translations, or a run or bundle, with which mtkit translates the test "
        "set. Repeat to compare several. The default name is the path.",
    ),
]
GroupOption = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        metavar="NAME=SYSTEM,SYSTEM",
        rich_help_panel=SYSTEMS,
        help="Names or paths of systems that differ only in their seed; adds their mean and standard deviation.",
    ),
]
BaselineOption = Annotated[
    str | None,
    typer.Option(
        metavar="SYSTEM", rich_help_panel=SYSTEMS, help="Compare the others with this system. Default: the first."
    ),
]
MetricOption = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        rich_help_panel=METRIC,
        help=f"Score by this metric: {', '.join(METRICS)}; repeat for several. chrF2++ is also called chrF++. "
        "Default: all.",
    ),
]
LowercaseOption = Annotated[
    bool,
    typer.Option("--lowercase", rich_help_panel=METRIC, help="Ignore case in BLEU and chrF; TER always ignores it."),
]
BootstrapOption = Annotated[
    int, typer.Option("--bootstrap", min=2, rich_help_panel=METRIC, help="Samples for intervals.")
]
RandomizationOption = Annotated[
    int, typer.Option("--randomization", min=1, rich_help_panel=METRIC, help="Trials for tests.")
]
SeedOption = Annotated[int, typer.Option(min=0, rich_help_panel=METRIC, help="Random seed of samples and trials.")]
BreakdownOption = Annotated[
    bool,
    typer.Option(
        "--breakdown", rich_help_panel=OUTPUT, help="Add faults (loops, copies, ...) and scores by kind of sentence."
    ),
]
KeepOption = Annotated[
    Path | None,
    output_option(
        help="Write the model's translations to this file; may end in .gz, .xz or .zst. For a classifier, write a "
        "page with curves to this .html file."
    ),
]
LabelledOption = Annotated[
    Path | None,
    typer.Option(
        "--tsv",
        rich_help_panel=TEXT,
        help="Labelled text for a classifier: text, tab, label on each line, or source, tab, target, tab, label. "
        "Default: the set of its config that --split selects.",
    ),
]


def evaluate(
    models: EnsembleOption = None,
    paths: SystemOption = None,
    groups: GroupOption = None,
    src: SourceOption = None,
    ref: ReferencesOption = None,
    tsv: LabelledOption = None,
    split: SplitOption = "test",
    dev_set: DevSetOption = None,
    baseline: BaselineOption = None,
    metrics: MetricOption = None,
    tokenize: TokenizeOption = None,
    lowercase: LowercaseOption = False,
    scores: ScoresOption = None,
    n_bootstrap: BootstrapOption = 1000,
    n_randomization: RandomizationOption = 10_000,
    seed: SeedOption = 12345,
    breakdown: BreakdownOption = False,
    train_text: TrainTextOption = None,
    src_lang: SrcLangOption = None,
    tgt_lang: TgtLangOption = None,
    output: KeepOption = None,
    beam_size: BeamSizeOption = None,
    engine: EngineOption = None,
    device: DeviceOption = "auto",
    overrides: DecodeSetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score a model, or files of translations, on a test set: BLEU, chrF, chrF++ and TER with 95 % intervals.

    The command compares several systems with the baseline by approximate randomization, corrected for their number
    (Holm). sacreBLEU computes all scores except those of --scores; the signature of a score lists its settings.

    For a classifier (task: classify), the command scores labelled text: accuracy, precision, recall, F1 and AUC of each
    label, the calibration of its probabilities, and which labels it confuses.

    With --split dev, the command scores each of several dev sets separately.
    """
    from mtkit.evaluation.metrics.significance import Chance
    from mtkit.evaluation.task import Measures, TextOptions

    split = "dev" if dev_set else split
    if not (paths or groups or src or ref) and (folder := _classifier(models, tsv)):
        only_translators = {
            "--baseline": baseline,
            "--metric": metrics,
            "--tokenize": tokenize,
            "--lowercase": lowercase,
            "--scores": scores,
            "--breakdown": breakdown,
            "--train-text": train_text,
            "--src-lang": src_lang,
            "--tgt-lang": tgt_lang,
            "--beam-size": beam_size,
            "--engine": engine,
        }
        evaluate_labels.check_options(only_translators, output)
        evaluate_labels.evaluate_labels(
            folder,
            tsv=tsv,
            split=split,
            dev_set=dev_set,
            output=output,
            device=device,
            overrides=overrides or (),
            as_json=as_json,
        )
        return
    if paths or groups or src or ref:
        evaluate_labels.refuse_tsv(tsv, None)
    if (train_text or src_lang) and not breakdown:
        raise UsageError("--train-text and --src-lang need --breakdown, which sorts sentences by kind")
    kinds = (train_text or []) if breakdown else None
    _evaluate_systems(
        (paths or [], groups or [], models or []),
        TextOptions(src, ref or [], split, dev_set, src_lang, tgt_lang, kinds),
        Measures(
            _chosen(metrics or []),
            tokenize,
            lowercase,
            scores or [],
            Chance(n_bootstrap, n_randomization, seed),
            baseline,
        ),
        Translating(beam_size, engine, device, overrides or []),
        output,
        as_json=as_json,
    )


def _evaluate_systems(
    named: tuple[list[str], list[str], list[Path]],
    text: TextOptions,
    measures: Measures,
    translating: Translating,
    output: Path | None,
    *,
    as_json: bool,
) -> None:
    """Score translators and files of translations. named: values of --system, --group and --model."""
    from mtkit import bundle
    from mtkit.cli.judging.score_tables import as_record, as_text
    from mtkit.evaluation.comparison.systems import find_places
    from mtkit.evaluation.evaluate import evaluate_places

    paths, groups, models = named
    places, members = find_places(paths, groups)
    translating.check(any_model=not places or any(place.is_model for place in places))
    if places and models:
        raise UsageError("--model and --system exclude each other: give the model as another --system")
    other_text = text.src or text.refs or text.split != "test" or text.tgt_lang
    if not places and not (text.src or text.refs):
        models = model_folders(models)  # once, because another run may become the newest meanwhile
    sets = [None] if text.src or text.refs else dev_sets(_first_model(places, models), text.split, text.dev_set)
    check_single_set(sets, {"--output": output, "--scores": measures.scores})
    other_scores = measures.tokenize or measures.lowercase or measures.scores or len(measures.metrics) < len(METRICS)
    is_usual = not (places or len(models) > 1 or translating.is_changed or other_text or other_scores)
    weights = bundle.weights_checksum(models[0]) if is_usual else None
    results = {
        name: evaluate_places(
            places,
            members,
            replace(text, dev_set=name),
            measures,
            ensemble=models,
            output=output,
            load=translating.load,
        )
        for name in sets
    }
    print_by_set(results, as_json=as_json, as_record=as_record, as_text=as_text)
    if weights is not None:
        [result] = results.values()
        _keep_for_report(models[0], weights, result)


def _first_model(places: Sequence[systems.Place], folders: list[Path]) -> Path | None:
    """Return the bundle whose config names the test set; None if all systems are files. folders: without places."""
    from mtkit import bundle

    if places:
        return next((bundle.find_model(place.path) for place in places if place.is_model), None)
    return folders[0]


def _classifier(models: list[Path] | None, tsv: Path | None) -> Path | None:
    """Return the bundle to score if it is a classifier's; None if it is a translator's.

    Raises UsageError for several models with a classifier among them, or labelled text for a translator.
    """
    folders = model_folders(models)
    classifiers = [folder for folder in folders if evaluate_labels.is_classifier(folder)]
    if classifiers and len(folders) > 1:
        raise UsageError(f"{classifiers[0]} is a classifier: score one at a time, with a single --model")
    if not classifiers:
        evaluate_labels.refuse_tsv(tsv, folders[0])
    return classifiers[0] if classifiers else None


def _keep_for_report(model: Path, weights: str, result: Evaluation) -> None:
    """Add the model's scores on the test set of its config to the run's report.html. weights: its checksum."""
    from mtkit.runs import report

    if (model.parent / "metrics.jsonl").exists():
        report.note_test_scores(model, weights, len(result.test_set.references[0]), result.scores[0].scores)


def _chosen(names: list[str]) -> list[MetricName]:
    """Return the metrics of these names, in the order of all; all of them without names."""
    known = {name.lower(): name for name in METRICS}
    for name in names:
        if name.lower() not in known:
            raise UsageError(f"--metric {name}: not one of {', '.join(METRICS)}")
    return [name for lower, name in known.items() if not names or lower in map(str.lower, names)]

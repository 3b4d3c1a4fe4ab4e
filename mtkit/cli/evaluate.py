"""`mtkit evaluate`: models and a test set in, or translations and references; scores out, and who is better."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

import mtkit
from mtkit import bundle
from mtkit.cli.kinds import SrcLangOption, TgtLangOption, TrainTextOption, compare_kinds, find_languages, sort_sentences
from mtkit.cli.options import BeamSizeOption, DecodeSetOption, DeviceOption, EngineOption, EnsembleOption, file_named
from mtkit.cli.output import line_writer
from mtkit.cli.score_tables import as_record, as_text
from mtkit.cli.systems import (
    ReferencesOption,
    SourceOption,
    SplitOption,
    TokenizeOption,
    Translating,
    check_usage,
    find_test_set,
)
from mtkit.config import loading
from mtkit.console import log
from mtkit.cores import usable_cores
from mtkit.errors import UsageError
from mtkit.evaluation.comparison import systems
from mtkit.evaluation.metrics import significance
from mtkit.evaluation.metrics.settings import METRICS, MetricName, MetricSettings, tokenizer_for
from mtkit.runs import report

SystemOption = Annotated[
    list[str] | None,
    typer.Option(
        "--system",
        "--hyp",
        metavar="[NAME=]PATH",
        help="A system to score: a file of translations, or a run or bundle folder that translates here. "
        "Several are compared; without a name, the path is the name.",
    ),
]
GroupOption = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        metavar="NAME=SYSTEM,SYSTEM",
        help="Systems that differ by their seed only, by name or path: mean and standard deviation, too.",
    ),
]
BaselineOption = Annotated[
    str | None, typer.Option(help="The system that others are tested against; default: the first.")
]
MetricOption = Annotated[
    list[str] | None,
    typer.Option("--metric", help=f"One of {', '.join(METRICS)}; chrF2++ is chrF++. Repeat as needed; default: all."),
]


def evaluate(
    models: EnsembleOption = None,
    paths: SystemOption = None,
    groups: GroupOption = None,
    src: SourceOption = None,
    ref: ReferencesOption = None,
    split: SplitOption = "test",
    baseline: BaselineOption = None,
    metrics: MetricOption = None,
    tokenize: TokenizeOption = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="BLEU and chrF without case, as TER is.")] = False,
    n_bootstrap: Annotated[int, typer.Option("--bootstrap", min=2, help="Samples for intervals and tests.")] = 1000,
    n_randomization: Annotated[int, typer.Option("--randomization", min=1, help="Trials for tests.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Of samples and trials.")] = 12345,
    breakdown: Annotated[
        bool,
        typer.Option("--breakdown", help="Habits (loops, copies, ...) and scores by kind of sentence, too."),
    ] = False,
    train_text: TrainTextOption = None,
    src_lang: SrcLangOption = None,
    tgt_lang: TgtLangOption = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", callback=file_named(), help="Keep the model's translations in this file (.gz by name)."
        ),
    ] = None,
    beam_size: BeamSizeOption = None,
    engine: EngineOption = None,
    device: DeviceOption = "auto",
    overrides: DecodeSetOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON.")] = False,
) -> None:
    """Score a model on a test set, or given translations: BLEU, chrF, chrF++, TER with 95 % intervals.

    Several systems are compared with the baseline by paired bootstrap and approximate randomization. All figures are
    sacreBLEU's; a score's signature says how it was computed.
    """

    chance = significance.Chance(n_bootstrap, n_randomization, seed)
    chosen = _chosen(metrics or [])
    translating = Translating(beam_size, engine, device, overrides or [])
    places, members = systems.find_places(paths or [], groups or [])
    any_model = not places or any(place.is_model for place in places)
    check_usage(src, ref or [], split, translating, any_model=any_model, src_needed=breakdown)
    folders = _model_folders(places, models or [], output)
    if not breakdown and (train_text or src_lang):
        raise UsageError("--train-text and --src-lang tell kinds of sentences apart: give --breakdown, too")
    _check_baseline(baseline, places)
    systems.warn_of_other_settings(members, places)
    test_set, changes = find_test_set(folders if places else folders[:1], src, ref or [], split)  # [:1]: of an ensemble
    configs = [loading.load_config(folder / "config.yaml") for folder in folders]
    languages = find_languages(test_set, (src_lang, tgt_lang), configs)
    settings = MetricSettings(tokenize or tokenizer_for(languages[1]), lowercase)
    for metric in chosen:
        settings.load(metric)  # what it lacks is better known before a model has worked for minutes
    given = systems.read_files(places, test_set)
    kinds = sort_sentences(test_set, configs, train_text or [], languages) if breakdown else None
    found = _translate(places, folders, given, test_set, translating.loader(changes))
    if output is not None:
        _keep(output, found)
    if settings.tokenize != "none":
        systems.warn_of_tokens(found)
    texts = {system.name: system.texts for system in found}
    scores = significance.compare(
        texts, test_set.references, baseline, metrics=chosen, settings=settings, chance=chance, jobs=usable_cores()
    )
    significance.warn_of_few(scores)
    seeds = significance.over_seeds(members, scores)
    comparison = None
    if kinds is not None:
        comparison = compare_kinds(sorted(found, key=lambda system: system.name != baseline), kinds, settings, chance)
    if as_json:
        print(json.dumps(as_record(test_set, found, scores, seeds, chance, comparison), indent=2, ensure_ascii=False))
    else:
        print("\n".join(as_text(test_set, scores, seeds, chance, comparison)))
    other_text = places or src or ref or split != "test"
    changed = other_text or translating.is_changed or metrics or tokenize or lowercase or tgt_lang
    if len(models or []) < 2 and not changed:
        _keep_for_report(folders[0], len(test_set.references[0]), scores[0])


def _keep_for_report(model_folder: Path, n_sentences: int, scores: significance.SystemScores) -> None:
    """Let report.html of the run tell what its model, as it is, reached on the test set of its config."""
    if (model_folder.parent / "metrics.jsonl").exists():
        report.note_test_scores(model_folder, n_sentences, scores.scores)


def _chosen(names: list[str]) -> list[MetricName]:
    """The metrics of these names, in the order of all; all of them without names."""
    known = {name.lower(): name for name in METRICS}
    for name in names:
        if name.lower() not in known:
            raise UsageError(f"--metric {name}: not one of {', '.join(METRICS)}")
    return [name for lower, name in known.items() if not names or lower in map(str.lower, names)]


def _model_folders(places: Sequence[systems.Place], models: list[Path], output: Path | None) -> list[Path]:
    """Of the systems that translate here, or of the one model or ensemble."""

    if places and models:
        raise UsageError("--model is scored alone: leave it out, or give the model as one more --system")
    if not places:
        return [bundle.find_model(model) for model in models] or [bundle.find_model()]
    folders = [bundle.find_model(place.path) for place in places if place.is_model]
    if output is not None and not folders:
        raise UsageError("--output keeps a model's translations, but no system is a model")
    if output is not None and len(folders) > 1:
        raise UsageError("--output keeps the translations of one model; `mtkit translate --output` writes each one's")
    return folders


def _translate(
    places: Sequence[systems.Place],
    folders: list[Path],
    given: Mapping[str, systems.System],
    test_set: systems.TestSet,
    load: Callable[..., mtkit.Translator],
) -> list[systems.System]:
    """Every system's translations; without systems, those of the model or ensemble."""

    if places:
        return systems.translate_others(places, given, test_set, load)
    return [systems.translate_system(", ".join(map(str, folders)), folders, load(*folders), test_set.sources or [])]


def _keep(output: Path, found: Sequence[systems.System]) -> None:
    """Write the one model's translations."""

    translated = next(system for system in found if "model" in system.origin)
    with line_writer(output) as write:
        for text in translated.texts:
            write(text)
    log.info(f"written: {output}")


def _check_baseline(baseline: str | None, places: Sequence[systems.Place]) -> None:
    names = [place.name for place in places]
    if baseline is not None and len(names) < 2:
        raise UsageError(f"--baseline {baseline}: there is nothing to compare; give several systems with --system")
    if baseline is not None and baseline not in names:
        raise UsageError(f"--baseline {baseline}: no system has this name; there are {', '.join(names)}")

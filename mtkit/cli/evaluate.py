"""`mtkit evaluate`: models and a test set in, or translations and references; scores out, and who is better."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.corpora import check_here
from mtkit.cli.options import BeamSizeOption, EngineOption, EnsembleOption, SetOption
from mtkit.cli.output import line_writer
from mtkit.errors import DataError, UsageError
from mtkit.evaluation.choice import METRICS, MetricName, MetricSettings, TokenizerName

if TYPE_CHECKING:
    from mtkit.config.schema import CorpusFiles
    from mtkit.decoding.systems import Place, System, TestSet
    from mtkit.decoding.translator import Translator
    from mtkit.evaluation.significance import SystemScores

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
TokenizeOption = Annotated[
    TokenizerName,
    typer.Option(help="How BLEU cuts text into words. none is for tokenized text, such as published scores are of."),
]


def evaluate(
    models: EnsembleOption = None,
    systems: SystemOption = None,
    groups: GroupOption = None,
    src: Annotated[Path | None, typer.Option(help="Text to translate; default: the test set of the config.")] = None,
    ref: Annotated[
        list[Path] | None, typer.Option(help="Reference translations, line by line; repeat for several.")
    ] = None,
    baseline: BaselineOption = None,
    metrics: MetricOption = None,
    tokenize: TokenizeOption = "13a",
    lowercase: Annotated[bool, typer.Option("--lowercase", help="BLEU and chrF without case, as TER is.")] = False,
    n_bootstrap: Annotated[int, typer.Option("--bootstrap", min=2, help="Samples for intervals and tests.")] = 1000,
    n_randomization: Annotated[int, typer.Option("--randomization", min=1, help="Trials for tests.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Of samples and trials.")] = 12345,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Keep the model's translations in this file (.gz by name).")
    ] = None,
    beam_size: BeamSizeOption = None,
    engine: EngineOption = None,
    overrides: SetOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON.")] = False,
) -> None:
    """Score a model on a test set, or given translations: BLEU, chrF, chrF++, TER with 95 % intervals.

    Several systems are compared with the baseline by paired bootstrap and approximate randomization. All figures are
    sacreBLEU's; a score's signature says how it was computed.
    """
    from mtkit.cli.score_tables import as_record, as_text
    from mtkit.cores import usable_cores
    from mtkit.decoding.systems import find_places, warn_of_other_settings, warn_of_tokens
    from mtkit.evaluation.significance import Chance, compare, over_seeds, warn_of_few

    settings, chance = MetricSettings(tokenize, lowercase), Chance(n_bootstrap, n_randomization, seed)
    chosen = _chosen(metrics or [], settings)
    changes = [*(overrides or []), *([f"decode.engine={engine}"] if engine else [])]
    places, members = find_places(systems or [], groups or [])
    _check_usage(places, models or [], src, ref or [], bool(output or beam_size or changes))
    _check_baseline(baseline, places)
    warn_of_other_settings(members, places)
    test_set, found = _gather(places, models or [], src, ref or [], beam_size, changes, output)
    test_set.warn_of_blanks()
    if tokenize != "none":
        warn_of_tokens(found)
    texts = {system.name: system.translations for system in found}
    scores = compare(
        texts, test_set.references, baseline, metrics=chosen, settings=settings, chance=chance, jobs=usable_cores()
    )
    warn_of_few(scores)
    seeds = over_seeds(members, scores)
    if as_json:
        print(json.dumps(as_record(test_set, found, scores, seeds, chance), indent=2, ensure_ascii=False))
    else:
        print("\n".join(as_text(test_set, scores, seeds, chance)))
    changed = places or src or ref or beam_size or changes or metrics or settings != MetricSettings()
    if len(models or []) < 2 and not changed:
        _keep_for_report(models or [], len(test_set.references[0]), scores[0])


def _keep_for_report(models: list[Path], n_sentences: int, scores: "SystemScores") -> None:
    """Let report.html of the run tell what its model, as it is, reached on the test set of its config."""
    from mtkit.decoding.bundle import find_model

    bundle = find_model(*models)
    if (bundle.parent / "metrics.jsonl").exists():
        from mtkit.training.report import note_test_scores  # loads torch, which some engines do without

        note_test_scores(bundle, n_sentences, scores.scores)


def _chosen(names: list[str], settings: MetricSettings) -> list[MetricName]:
    """The metrics of these names, in the order of all; all of them without names."""
    known = {name.lower(): name for name in METRICS}
    for name in names:
        if name.lower() not in known:
            raise UsageError(f"--metric {name}: not one of {', '.join(METRICS)}")
    chosen = [name for lower, name in known.items() if not names or lower in map(str.lower, names)]
    for metric in chosen:
        settings.load(metric)  # what it lacks is better known before a model has worked for minutes
    return chosen


def _check_usage(
    places: "Sequence[Place]", models: list[Path], src: Path | None, ref: list[Path], for_translating: bool
) -> None:
    given = bool(places) and not any(place.is_model for place in places)
    if places and models:
        raise UsageError("--hyp is scored without a model: leave out --model, or give the model as one more --system")
    if given and (src or for_translating):
        raise UsageError("--hyp is scored without a model: leave out what is for translating")
    if given and not ref:
        raise UsageError("--hyp needs --ref: the file with the reference translations")
    if not given and (src is None) != (not ref):
        raise UsageError("give both --src and --ref, or neither for the test set of the model's config")


def _check_baseline(baseline: str | None, places: "Sequence[Place]") -> None:
    names = [place.name for place in places]
    if baseline is not None and len(names) < 2:
        raise UsageError(f"--baseline {baseline}: there is nothing to compare; give several systems with --system")
    if baseline is not None and baseline not in names:
        raise UsageError(f"--baseline {baseline}: no system has this name; there are {', '.join(names)}")


def _gather(
    places: "Sequence[Place]",
    models: list[Path],
    src: Path | None,
    ref: list[Path],
    beam_size: int | None,
    changes: list[str],
    output: Path | None,
) -> "tuple[TestSet, list[System]]":
    """The test set and every system's translations of it; one model's are kept as output."""
    from mtkit.cli.translating import load_translator
    from mtkit.config.schema import CorpusFiles
    from mtkit.decoding.bundle import find_model
    from mtkit.decoding.systems import gather, read_test_set, translate_system

    paths = [place.path for place in places if place.is_model] if places else models
    folders = [find_model(path) for path in paths] if places or paths else [find_model()]
    if output is not None and places and len(folders) > 1:
        raise UsageError("--output keeps the translations of one model; `mtkit translate --output` writes each one's")
    if src is not None:
        files: CorpusFiles | None = CorpusFiles(src=src, tgt=ref[0])
    else:  # an ensemble is measured on the first member's test set
        files = _test_files(folders if places else folders[:1]) if folders else None
    test_set = read_test_set(files, ref[1:] if src else ref)
    if files is not None and src is None:
        changes = [f"decode.tag={files.tag or 'null'}", *changes]

    def load(*members: Path) -> "Translator":
        return load_translator(members, overrides=changes, beam_size=beam_size)

    if places:
        found = gather(places, test_set, load)
    else:
        found = [translate_system(", ".join(map(str, folders)), folders, load(*folders), test_set)]
    if output is not None:
        translated = next(system for system in found if "model" in system.origin)
        with line_writer(output) as write:
            for translation in translated.translations:
                write(translation)
    return test_set, found


def _test_files(folders: "Sequence[Path]") -> "CorpusFiles":
    """The test set that all the models' configs name."""
    from mtkit.config.loading import load_config

    remedy = "give --src and --ref"
    found = [load_config(folder / "config.yaml").data.test for folder in folders]
    for folder, files in zip(folders, found, strict=True):
        if files is None:
            raise DataError(f"{folder / 'config.yaml'}: no test set (data.test); {remedy}")
        check_here([files], "data.test", folder, remedy)
        if files != found[0]:
            raise DataError(f"{folders[0]} and {folder} have unlike test sets in their configs (data.test); {remedy}")
    assert found[0] is not None
    return found[0]

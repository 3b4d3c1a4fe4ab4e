"""Evaluate systems, models or files of translations, on a test set with sacreBLEU's metrics."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from mtkit.config.decoding import DecodeConfig
from mtkit.config.reading.overrides import decode_overrides
from mtkit.console import counted, log
from mtkit.cores import usable_cores
from mtkit.data.dev_text import Split
from mtkit.errors import UsageError
from mtkit.evaluation.comparison.comparison import Comparison, compare
from mtkit.evaluation.comparison.systems import (
    Place,
    System,
    TestSet,
    find_places,
    find_scores,
    warn_of_other_settings,
)
from mtkit.evaluation.metrics import significance
from mtkit.evaluation.metrics.scores import MetricScore
from mtkit.evaluation.metrics.settings import METRICS, MetricName, TokenizerName
from mtkit.evaluation.metrics.significance import DEFAULT_CHANCE, Chance, SeedScores, SystemScores
from mtkit.evaluation.task import Measures, Task, TextOptions, prepare
from mtkit.pair_files.compression import open_output
from mtkit.pair_files.corpus_files import check_distinct
from mtkit.translation.translator import Translator

Paths = str | Path | Sequence[str | Path]


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Scores of one system or several on one test set."""

    test_set: TestSet
    systems: list[System]  # with their translations
    scores: list[SystemScores]  # of the systems, in their order
    groups: list[SeedScores]
    chance: Chance
    comparison: Comparison | None  # by kind of sentence, the baseline first; None without breakdown

    def score(self, metric: str = "BLEU", system: str | None = None) -> MetricScore:
        """Return a system's score by one metric, with interval and signature; of the first system by default.

        Raises KeyError if the evaluation has no such system or metric.
        """
        for scores in self.scores:
            if system in (None, scores.name):
                return {score.name: score for score in scores.scores}[metric]
        raise KeyError(system)

    def __repr__(self) -> str:
        systems = [
            f"{system.name}: " + ", ".join(f"{score.name} {score.score:.2f}" for score in system.scores)
            for system in self.scores
        ]
        return f"Evaluation({counted(len(self.test_set.references[0]), 'sentence')}; {'; '.join(systems)})"


def evaluate(
    systems: Paths = (),
    *,
    ensemble: Sequence[str | Path] = (),
    groups: Sequence[str] = (),
    src: str | Path | None = None,
    ref: Paths = (),
    split: Split = "test",
    dev_set: str | None = None,
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    baseline: str | None = None,
    metrics: Sequence[MetricName] = METRICS,
    tokenize: TokenizerName | None = None,
    lowercase: bool = False,
    scores: Sequence[str] = (),
    chance: Chance = DEFAULT_CHANCE,
    breakdown: bool = False,
    train_text: Sequence[Path] = (),
    output: Path | None = None,
    load: Callable[..., Translator] = Translator.load,
    **decode: object,
) -> Evaluation:
    """Score models, or files of translations, on a test set, and compare them if there are several.

    systems: run or bundle folders, or files; NAME=PATH gives one a name. Without any, score the ensemble, else the
        default model of `Translator.load`.
    groups: systems that differ only in their seed, as NAME=SYSTEM,SYSTEM.
    src, ref: the text and one or more files of references; default: the split of the models' configs.
    dev_set: with split="dev", the name of one of several dev sets.
    src_lang, tgt_lang: such as "en"; default: from a model's config or the files' names.
    baseline: the system to compare the others with; default: the first.
    tokenize, lowercase: how BLEU splits text into words, and whether BLEU and chrF ignore case.
    scores: files of external scores, one number per line, higher is better; NAME=FILE, with several systems
        NAME=FILE,FILE in their order.
    chance: samples of the intervals and trials of the tests.
    breakdown: compare by kind of sentence, too; the words of train_text show which ones are rare.
    output: a file for the translations of a single model.
    decode: keys of the models' decode section, such as beam_size=1.

    Raises DataError or BundleError if files do not fit together, UsageError if it is not clear which test set to use.
    """
    text = TextOptions(
        src=None if src is None else Path(src),
        refs=[Path(path) for path in _texts(ref)],
        split=split,
        dev_set=dev_set,
        src_lang=src_lang,
        tgt_lang=tgt_lang,
        train_text=train_text if breakdown else None,
    )
    measures = Measures(metrics, tokenize, lowercase, scores, chance, baseline)
    places, members = find_places(_texts(systems), groups)
    _check_decode(decode.keys(), places)
    folders = [Path(folder) for folder in ensemble]
    return evaluate_places(
        places, members, text, measures, ensemble=folders, output=output, overrides=decode_overrides(decode), load=load
    )


def evaluate_places(
    places: Sequence[Place],
    groups: dict[str, list[str]],
    text: TextOptions,
    measures: Measures,
    *,
    ensemble: Sequence[Path] = (),
    output: Path | None = None,
    overrides: Sequence[str] = (),
    load: Callable[..., Translator] = Translator.load,
) -> Evaluation:
    """Score the systems in these places, without any an ensemble, as `evaluate` does.

    groups: name to systems that differ only in their seed. overrides: of the models' configs.
    load: returns the translator of bundle folders; its keyword overrides has the changes of their config.
    """
    _check_baseline(measures.baseline, places)
    if output is not None and places:
        _check_one_model(places)
    warn_of_other_settings(groups, places)
    task = prepare(places, text, measures, ensemble=ensemble, overrides=overrides)
    check_distinct([("--output", output)], _inputs(task, text, measures))
    systems = task.translate(load)
    if output is not None:
        _write(output, systems)
    return _judge(task, systems, groups, measures)


def _check_decode(keys: Collection[str], places: Sequence[Place]) -> None:
    """Raise TypeError for a key that the decode section lacks, UsageError if no system is a model."""
    if unknown := set(keys) - set(DecodeConfig.model_fields):
        raise TypeError(f"evaluate() has no argument {min(unknown)!r}, and the decode section has no such key")
    if keys and places and not any(place.is_model for place in places):
        raise UsageError(f"{', '.join(keys)}: keys of the decode section need a model; all systems are files")


def _texts(paths: Paths) -> list[str]:
    return [str(paths)] if isinstance(paths, str | Path) else [str(path) for path in paths]


def _inputs(task: Task, text: TextOptions, measures: Measures) -> list[Path]:
    """Return the files that an evaluation reads."""
    src = task.test_set.origin.get("src")
    scores = find_scores(measures.scores, max(1, len(task.places))).values()
    hyps = [place.path for place in task.places if not place.is_model]
    sources = [] if src is None else [Path(str(src))]
    return [*sources, *task.test_set.reference_files, *hyps, *(text.train_text or []), *chain.from_iterable(scores)]


def _write(output: Path, systems: Sequence[System]) -> None:
    """Write the translations of the only model."""
    with open_output(output) as file:
        file.writelines(f"{text}\n" for system in systems if "model" in system.origin for text in system.texts)
    log.info(f"written: {output}")


def _check_one_model(places: Sequence[Place]) -> None:
    n_models = sum(place.is_model for place in places)
    if not n_models:
        raise UsageError("--output writes a model's translations, but no system is a model")
    if n_models > 1:
        raise UsageError("--output writes the translations of one model; use `mtkit translate --output` for several")


def _check_baseline(baseline: str | None, places: Sequence[Place]) -> None:
    names = [place.name for place in places]
    if baseline is not None and len(names) < 2:
        raise UsageError(f"--baseline {baseline} needs several systems: give them with --system")
    if baseline is not None and baseline not in names:
        raise UsageError(f"--baseline {baseline}: no system has this name; the systems are {', '.join(names)}")


def _judge(task: Task, systems: list[System], groups: dict[str, list[str]], measures: Measures) -> Evaluation:
    """Score translated systems. groups: name to systems that differ only in their seed."""
    baseline, chance = measures.baseline, measures.chance
    scores = significance.compare(
        {system.name: system.texts for system in systems},
        task.test_set.references,
        baseline,
        metrics=measures.metrics,
        given=task.scores,
        settings=task.settings,
        chance=chance,
        jobs=usable_cores(),
    )
    significance.warn_of_few(scores)
    comparison = None
    if task.kinds is not None:
        baseline_first = sorted(systems, key=lambda system: system.name != baseline)
        comparison = compare(baseline_first, task.kinds, settings=task.settings, chance=chance)
    return Evaluation(task.test_set, systems, scores, significance.over_seeds(groups, scores), chance, comparison)

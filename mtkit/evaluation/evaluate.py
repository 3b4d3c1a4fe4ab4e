"""Evaluate systems, models or files of translations, on a test set with sacreBLEU's metrics."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mtkit.bundle import find_model
from mtkit.config.data import CorpusFiles
from mtkit.config.decoding import DecodeConfig
from mtkit.config.reading.loading import load_config
from mtkit.config.reading.overrides import decode_overrides
from mtkit.config.schema import Config
from mtkit.console import counted, log, progress_bar
from mtkit.cores import usable_cores
from mtkit.data.corpus import first_missing, read_side
from mtkit.data.dev_text import Split, corpus_of_split
from mtkit.data.overlap import known_overlap
from mtkit.errors import DataError, UsageError
from mtkit.evaluation.comparison.comparison import Comparison, SortedTestSet, compare
from mtkit.evaluation.comparison.features import TrainingWords, find_features
from mtkit.evaluation.comparison.systems import (
    Place,
    System,
    TestSet,
    find_places,
    find_scores,
    read_files,
    read_scores,
    read_test_set,
    translate_others,
    translate_system,
    warn_of_other_settings,
    warn_of_tokens,
)
from mtkit.evaluation.metrics import significance
from mtkit.evaluation.metrics.scores import MetricScore
from mtkit.evaluation.metrics.settings import METRICS, MetricName, MetricSettings, TokenizerName, tokenizer_for
from mtkit.evaluation.metrics.significance import DEFAULT_CHANCE, Chance, SeedScores, SystemScores
from mtkit.languages import language_in_name
from mtkit.pair_files.compression import open_output
from mtkit.pair_files.lines import read_lines
from mtkit.translation.translator import Translator

Paths = str | Path | Sequence[str | Path]
_REMEDY = "give --src and --ref"


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


@dataclass(frozen=True)
class Task:
    """A test set, the systems to score on it, and the metrics' settings."""

    test_set: TestSet
    places: Sequence[Place]  # empty: the models below are one system
    folders: Sequence[Path]  # of the models
    given: dict[str, System]  # the systems that are files, by name
    overrides: list[str]  # of the models' configs, for this test set
    settings: MetricSettings
    kinds: SortedTestSet | None  # the test set sorted by kinds of sentences
    scores: dict[str, list[list[float]]]  # given ones, by name, of each system

    def translate(self, load: Callable[..., Translator]) -> list[System]:
        """Return every system with its translations and given scores. load: bundle folders to their translator."""

        def translator(*folders: Path) -> Translator:
            return load(folders, overrides=self.overrides)

        if self.places:
            systems = translate_others(self.places, self.given, self.test_set, translator)
        else:
            name = ", ".join(map(str, self.folders))
            sources = self.test_set.sources or []
            systems = [translate_system(name, self.folders, translator(*self.folders), sources)]
        if self.settings.tokenize != "none":
            warn_of_tokens(systems)
        return [
            replace(system, given={name: by_system[i] for name, by_system in self.scores.items()})
            for i, system in enumerate(systems)
        ]


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
    scores: files of scores from elsewhere, a number a line, higher is better; NAME=FILE, with several systems
        NAME=FILE,FILE in their order.
    chance: samples of the intervals and trials of the tests.
    breakdown: compare by kind of sentence, too; the words of train_text show which ones are rare.
    output: a file for the translations of a single model.
    decode: keys of the models' decode section, such as beam_size=1.

    Raises DataError or BundleError if files do not fit together, UsageError if it is not clear which test set to use.
    """
    places, members = find_places(_texts(systems), groups)
    _check(places, decode.keys(), baseline, output)
    warn_of_other_settings(members, places)
    task = prepare(
        places,
        [Path(folder) for folder in ensemble],
        src=None if src is None else Path(src),
        refs=[Path(path) for path in _texts(ref)],
        split=split,
        dev_set=dev_set,
        languages=(src_lang, tgt_lang),
        tokenize=tokenize,
        lowercase=lowercase,
        metrics=metrics,
        scores=scores,
        train_text=train_text if breakdown else None,
        overrides=decode_overrides(decode),
    )
    translated = task.translate(load)
    if output is not None:
        _write(output, translated)
    return judge(task, translated, members, baseline=baseline, metrics=metrics, chance=chance)


def _check(places: Sequence[Place], decode: Collection[str], baseline: str | None, output: Path | None) -> None:
    """Raise TypeError or UsageError for arguments that do not fit these systems."""
    _check_decode(decode, places)
    _check_baseline(baseline, places)
    if output is not None and places:
        _check_one_model(places)


def _check_decode(keys: Collection[str], places: Sequence[Place]) -> None:
    """Raise TypeError for a key that the decode section lacks, UsageError if no system is a model."""
    if unknown := set(keys) - set(DecodeConfig.model_fields):
        raise TypeError(f"evaluate() has no argument {min(unknown)!r}, and decode has no such key")
    if keys and places and not any(place.is_model for place in places):
        raise UsageError(f"{', '.join(keys)}: keys of the decode section need a model; all systems are files")


def _texts(paths: Paths) -> list[str]:
    return [str(paths)] if isinstance(paths, str | Path) else [str(path) for path in paths]


def _write(output: Path, systems: Sequence[System]) -> None:
    """Write the translations of the only model."""
    with open_output(output) as file:
        file.writelines(f"{text}\n" for system in systems if "model" in system.origin for text in system.texts)
    log.info(f"written: {output}")


def prepare(
    places: Sequence[Place],
    ensemble: Sequence[Path] = (),
    *,
    src: Path | None,
    refs: Sequence[Path],
    split: Split,
    dev_set: str | None = None,
    languages: tuple[str | None, str | None],
    tokenize: TokenizerName | None,
    metrics: Sequence[MetricName],
    lowercase: bool = False,
    scores: Sequence[str] = (),
    train_text: Sequence[Path] | None,
    overrides: Sequence[str] = (),
) -> Task:
    """Read and check all files and options before a model works for minutes.

    ensemble: models to score if there are no places; default: the default model.
    train_text: training text whose words show which ones are rare; None does not sort sentences by kind.
    """
    score_files = find_scores(scores, max(1, len(places)))
    any_model = not places or any(place.is_model for place in places)
    _check_test_set(src, refs, split, any_model=any_model, src_needed=train_text is not None)
    folders = [find_model(place.path) for place in places if place.is_model]
    if not places:
        folders = [find_model(folder) for folder in ensemble] or [find_model()]
    test_set, of_test_set = find_test_set(folders if places else folders[:1], src, refs, split, dev_set)
    configs = [load_config(folder / "config.yaml") for folder in folders]
    src_lang, tgt_lang = find_languages(test_set, languages, configs)
    settings = MetricSettings(tokenize or tokenizer_for(tgt_lang), lowercase)
    for metric in metrics:
        settings.load(metric)
    given = read_files(places, test_set)
    given_scores = {name: [read_scores(path, test_set) for path in paths] for name, paths in score_files.items()}
    kinds = None
    if train_text is not None:
        kinds = sort_sentences(test_set, configs, train_text, (src_lang, tgt_lang))
    return Task(test_set, places, folders, given, [*of_test_set, *overrides], settings, kinds, given_scores)


def _check_test_set(src: Path | None, refs: Sequence[Path], split: Split, *, any_model: bool, src_needed: bool) -> None:
    """Raise UsageError if the options give no test set."""
    if any_model and (src is None) != (not refs):
        raise UsageError("give both --src and --ref, or neither for the test set of the model's config")
    if split != "test" and (src is not None or not any_model):
        why = "--src and --ref name the files" if src is not None else "no system is a model"
        raise UsageError(f"--split {split} is a set of a model's config, but {why}: remove it")
    if not any_model and (not refs or (src_needed and src is None)):
        files = "--src and --ref" if src_needed else "--ref"
        raise UsageError(f"files of translations come without a test set: give {files}")


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
        raise UsageError(f"--baseline {baseline}: no system has this name; known are {', '.join(names)}")


def judge(
    task: Task,
    systems: list[System],
    groups: dict[str, list[str]],
    *,
    baseline: str | None,
    metrics: Sequence[MetricName],
    chance: Chance,
) -> Evaluation:
    """Score translated systems. groups: name to systems that differ only in their seed."""
    scores = significance.compare(
        {system.name: system.texts for system in systems},
        task.test_set.references,
        baseline,
        metrics=metrics,
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


def find_test_set(
    folders: Sequence[Path], src: Path | None, refs: Sequence[Path], split: Split, dev_set: str | None = None
) -> tuple[TestSet, list[str]]:
    """Return the test set that src and refs name, else this split of the models' configs, which must agree.

    The second result are config overrides with which the models translate it, such as its tag.
    """
    files, overrides = None, []
    if src is not None:
        files, refs = CorpusFiles(src=src, tgt=refs[0]), refs[1:]
    elif folders:
        files = _files_of_configs(folders, split, dev_set)
        overrides = [f"decode.tag={files.tag or 'null'}"]
    test_set = read_test_set(files, refs)
    test_set.warn_of_blanks()
    if files is not None:
        _report_overlaps(files, folders, "the test set" if src is not None else f"data.{split}")
    return test_set, overrides


def _report_overlaps(files: CorpusFiles, folders: Sequence[Path], name: str) -> None:
    """Log which of the test set's pairs a model has seen in training, where its run knows it."""
    run_dirs = list(dict.fromkeys(folder.parent for folder in folders))
    for run_dir in run_dirs:
        if overlap := known_overlap(run_dir, files):
            overlap.report(name if len(run_dirs) == 1 else f"{name} ({run_dir})")


def _files_of_configs(folders: Sequence[Path], split: Split, dev_set: str | None) -> CorpusFiles:
    corpora: list[CorpusFiles] = []
    for folder in folders:
        config = folder / "config.yaml"
        corpus = corpus_of_split(load_config(config).data, split, dev_set, config=config, remedy=_REMEDY)
        corpora.append(corpus)
        if corpus != corpora[0]:
            raise DataError(f"{folders[0]} and {folder} have different {split} sets (data.{split}); {_REMEDY}")
    return corpora[0]


def find_languages(
    test_set: TestSet, given: tuple[str | None, str | None], configs: Sequence[Config]
) -> tuple[str | None, str | None]:
    """Return source and target language: as given, else from the first config or the files' names; None: unknown."""
    tgt = test_set.reference_files[0] if not {"tsv", "file"} & test_set.origin.keys() else ""
    languages = []
    for option, side, path in zip(given, ("src", "tgt"), (test_set.origin.get("src", ""), tgt), strict=True):
        in_config = getattr(configs[0].data, f"{side}_lang") if configs else side
        in_name = language_in_name(Path(str(path)))
        languages.append(option or (in_config if in_config != side else in_name))  # src, tgt: the config's defaults
    return languages[0], languages[1]


def sort_sentences(
    test_set: TestSet,
    configs: Sequence[Config],
    train_text: Sequence[Path],
    languages: tuple[str | None, str | None],
) -> SortedTestSet:
    """Return the test set with the kinds of its sentences, and log which kinds need missing information.

    configs: of the models; they name the training text if train_text is empty. languages: of source and target.
    """
    src_lang, tgt_lang = languages
    sources = test_set.sources or []
    training = _training_words(sources, train_text, configs)
    kinds = find_features(sources, test_set.references, src_lang=src_lang, training=training)
    if all(feature.name != "negation" for feature in kinds):
        reason = "source language unknown; give --src-lang" if src_lang is None else f"no negating words for {src_lang}"
        log.info(f"negated sentences are not shown: {reason}")
    return SortedTestSet(sources, test_set.references, kinds, tgt_lang)


def _training_words(
    sources: Sequence[str], train_text: Sequence[Path], configs: Sequence[Config]
) -> TrainingWords | None:
    here = [cfg.data.train for cfg in configs if first_missing(cfg.data.train) is None]
    if train_text:
        lines = (line for path in train_text for line in read_lines(path))
    elif here:
        lines = (line for line in read_side(here[0], "src"))
    else:
        log.info("rare words are not shown: found no training text; give --train-text")
        return None
    words = TrainingWords(sources)
    with progress_bar(None, "reading training text", "line") as bar:
        for line in lines:
            words.add(line)
            bar.update()
    return words

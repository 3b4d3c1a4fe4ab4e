"""Prepare an evaluation: read and check every file that the options name, and return the task."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mtkit.alignment.checks import Checks
from mtkit.alignment.coverage import FILE as ALIGNMENT_FILE
from mtkit.bundle import BundleFiles, bundle_file, find_model, read_bundle
from mtkit.config.data import CorpusFiles
from mtkit.config.reading.loading import load_config
from mtkit.config.schema import Config
from mtkit.console import log, progress_bar
from mtkit.data.corpus import first_missing, read_side
from mtkit.data.dev_text import Split, corpus_of_split
from mtkit.data.overlap import known_overlap
from mtkit.errors import DataError, UsageError
from mtkit.evaluation.comparison.comparison import SortedTestSet
from mtkit.evaluation.comparison.features import TrainingWords, find_features
from mtkit.evaluation.comparison.systems import (
    Place,
    System,
    TestSet,
    find_scores,
    read_files,
    read_scores,
    read_test_set,
    translate_others,
    translate_system,
    warn_of_tokens,
)
from mtkit.evaluation.metrics.settings import METRICS, MetricName, MetricSettings, TokenizerName, tokenizer_for
from mtkit.evaluation.metrics.significance import DEFAULT_CHANCE, Chance
from mtkit.languages import language_in_name
from mtkit.pair_files.lines import read_lines
from mtkit.translation.translator import Translator

_REMEDY = "give --src and --ref"


@dataclass(frozen=True)
class TextOptions:
    """The text to score systems on."""

    src: Path | None = None  # without src and refs: the split of the models' configs
    refs: Sequence[Path] = ()  # one or more files of references
    split: Split = "test"
    dev_set: str | None = None  # with the split dev: the name of one of several dev sets
    src_lang: str | None = None  # such as "en"; None: from a model's config or the files' names
    tgt_lang: str | None = None
    train_text: Sequence[Path] | None = None  # shows which words are rare; None: do not sort sentences by kind


@dataclass(frozen=True)
class Measures:
    """How to score and compare systems."""

    metrics: Sequence[MetricName] = METRICS
    tokenize: TokenizerName | None = None  # how BLEU splits text into words; None: by the language
    lowercase: bool = False  # whether BLEU and chrF ignore case
    scores: Sequence[str] = ()  # files of scores from elsewhere: NAME=FILE,FILE in the order of the systems
    chance: Chance = DEFAULT_CHANCE  # samples of the intervals and trials of the tests
    baseline: str | None = None  # the system to compare the others with; None: the first


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


def prepare(
    places: Sequence[Place],
    text: TextOptions,
    measures: Measures,
    *,
    ensemble: Sequence[Path] = (),
    overrides: Sequence[str] = (),
) -> Task:
    """Read and check all files and options before a model works for minutes.

    ensemble: models to score if there are no places; default: the default model.
    """
    score_files = find_scores(measures.scores, max(1, len(places)))
    _check_text(text, any_model=not places or any(place.is_model for place in places))
    folders = [find_model(place.path) for place in places if place.is_model]
    if not places:
        folders = [find_model(folder) for folder in ensemble] or [find_model()]
    test_set, of_test_set = _find_test_set(folders if places else folders[:1], text)
    configs = [load_config(folder / "config.yaml") for folder in folders]
    languages = find_languages(test_set, (text.src_lang, text.tgt_lang), configs)
    references = test_set.references[0]
    settings = MetricSettings(measures.tokenize or tokenizer_for(languages[1], references), measures.lowercase)
    for metric in measures.metrics:
        settings.load(metric)
    given = read_files(places, test_set)
    given_scores = {name: [read_scores(path, test_set) for path in paths] for name, paths in score_files.items()}
    kinds = None
    if text.train_text is not None:
        checks = Checks(languages[1], _with_lexicon(folders))
        kinds = _sort_sentences(test_set, configs, text.train_text, languages[0], checks)
    return Task(test_set, places, folders, given, [*of_test_set, *overrides], settings, kinds, given_scores)


def _with_lexicon(folders: Sequence[Path]) -> BundleFiles | None:
    """Return the first model that has a lexicon, which shows for all systems which words a translation leaves out."""
    return next((files for files in map(read_bundle, folders) if bundle_file(files, ALIGNMENT_FILE)), None)


def _check_text(text: TextOptions, *, any_model: bool) -> None:
    """Raise UsageError if the options do not give a test set."""
    src, refs, split, src_needed = text.src, text.refs, text.split, text.train_text is not None
    if any_model and (src is None) != (not refs):
        raise UsageError("give both --src and --ref, or neither for the test set of the model's config")
    if split != "test" and (src is not None or not any_model):
        why = "--src and --ref name the files" if src is not None else "no system is a model"
        raise UsageError(f"--split {split} selects a set of a model's config, but {why}: remove it")
    if not any_model and (not refs or (src_needed and src is None)):
        files = "--src and --ref" if src_needed else "--ref"
        raise UsageError(f"files of translations do not include a test set: give {files}")


def _find_test_set(folders: Sequence[Path], text: TextOptions) -> tuple[TestSet, list[str]]:
    """Return the test set of the files, else of this split of the models' configs, which must agree.

    The second result is a list of config overrides for the models, such as the tag of the set.
    """
    files, refs, overrides = None, text.refs, []
    if text.src is not None:
        files, refs = CorpusFiles(src=text.src, tgt=refs[0]), refs[1:]
    elif folders:
        files = _files_of_configs(folders, text.split, text.dev_set)
        overrides = [f"decode.tag={files.tag or 'null'}"]
    test_set = read_test_set(files, refs)
    test_set.warn_of_blanks()
    if files is not None:
        _report_overlaps(files, folders, "the test set" if text.src is not None else f"data.{text.split}")
    return test_set, overrides


def _report_overlaps(files: CorpusFiles, folders: Sequence[Path], name: str) -> None:
    """Log which pairs of the test set were in a model's training text, if its run has recorded that."""
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


def _sort_sentences(
    test_set: TestSet,
    configs: Sequence[Config],
    train_text: Sequence[Path],
    src_lang: str | None,
    checks: Checks,
) -> SortedTestSet:
    """Return the test set with the kinds of its sentences, and log which kinds need missing information.

    configs: of the models; they name the training text if train_text is empty. checks: for the translations.
    """
    sources = test_set.sources or []
    training = _training_words(sources, train_text, configs)
    kinds = find_features(sources, test_set.references, src_lang=src_lang, training=training)
    if all(feature.name != "negation" for feature in kinds):
        reason = (
            "the source language is unknown; give --src-lang"
            if src_lang is None
            else f"no negating words for {src_lang}"
        )
        log.info(f"skipping negated sentences: {reason}")
    return SortedTestSet(sources, test_set.references, kinds, checks)


def _training_words(
    sources: Sequence[str], train_text: Sequence[Path], configs: Sequence[Config]
) -> TrainingWords | None:
    here = [cfg.data.train for cfg in configs if first_missing(cfg.data.train) is None]
    if train_text:
        lines = (line for path in train_text for line in read_lines(path))
    elif here:
        lines = (line for line in read_side(here[0], "src"))
    else:
        log.info("skipping rare words, because there is no training text; give --train-text")
        return None
    words = TrainingWords(sources)
    with progress_bar(None, "reading training text", "line") as bar:
        for line in lines:
            words.add(line)
            bar.update()
    return words

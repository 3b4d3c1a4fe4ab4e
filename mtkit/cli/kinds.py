"""What the commands that tell kinds of sentences apart share: languages, words of the training text, and a bar."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.translating import with_bar
from mtkit.console import log, progress_bar
from mtkit.data import corpus
from mtkit.evaluation.comparison import comparison, features
from mtkit.evaluation.metrics import significance

if TYPE_CHECKING:
    from mtkit.config.schema import Config
    from mtkit.evaluation.comparison.systems import System, TestSet
    from mtkit.evaluation.metrics.settings import MetricSettings

TrainTextOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--train-text",
        help="Source side of training text, for rare words; repeat as needed. Default: what a model's config names.",
    ),
]
SrcLangOption = Annotated[
    str | None, typer.Option("--src-lang", help="Such as en; default: a model's config, or the end of --src's name.")
]
TgtLangOption = Annotated[
    str | None, typer.Option("--tgt-lang", help="Such as fr; default: a model's config, or the end of --ref's name.")
]


def find_languages(
    texts: TestSet, given: tuple[str | None, str | None], configs: Sequence[Config]
) -> tuple[str | None, str | None]:
    """Of source and target: as given, else by the first model's config, else by the files' names; None: not known."""

    found = []
    tgt = texts.reference_files[0] if "tsv" not in texts.origin else ""
    sides = (("src", "src_lang", texts.origin.get("src", "")), ("tgt", "target_language", tgt))
    for option, (side, key, path) in zip(given, sides, strict=True):
        said = getattr(configs[0].data, key) if configs else side
        by_name = features.language_in_name(Path(str(path)))
        found.append(option or (said if said != side else by_name))  # src and tgt: a config that says nothing
    return found[0], found[1]


def sort_sentences(
    texts: TestSet,
    configs: Sequence[Config],
    train_text: Sequence[Path],
    languages: tuple[str | None, str | None],
) -> comparison.SortedTestSet:
    """The test set with the kinds of its sentences; says why if some cannot be told.

    configs: the models', which name the training text if train_text does not; languages: of source and target.
    """

    src_lang, tgt_lang = languages
    kinds = _features(texts, src_lang, train_text, configs)
    return comparison.SortedTestSet(texts.sources or [], texts.references, kinds, tgt_lang)


def compare_kinds(
    systems: Sequence[System],
    test_set: comparison.SortedTestSet,
    settings: MetricSettings,
    chance: significance.Chance | None = None,
) -> comparison.Comparison:
    """Systems judged by kinds of sentences, the first as baseline, with a progress bar."""

    chance = chance or significance.Chance()
    with progress_bar(comparison.n_stages(systems, test_set), "comparing", "part") as bar:
        return comparison.compare(
            systems,
            test_set,
            settings=settings,
            n_bootstrap=chance.n_bootstrap,
            seed=chance.seed,
            advance=bar.update,
        )


def _features(
    texts: TestSet, src_lang: str | None, train_text: Sequence[Path], configs: Sequence[Config]
) -> list[features.Feature]:
    sources = texts.sources or []
    training = _training_words(sources, train_text, configs)
    kinds = features.find_features(sources, texts.references, src_lang=src_lang, training=training)
    if all(feature.name != "negation" for feature in kinds):
        reason = "the source language is not known; give --src-lang" if src_lang is None else f"no words for {src_lang}"
        log.info(f"sentences are not told apart by negation: {reason}")
    return kinds


def _training_words(
    sources: Sequence[str], train_text: Sequence[Path], configs: Sequence[Config]
) -> features.TrainingWords | None:
    here = [cfg.data.train for cfg in configs if corpus.first_missing(cfg.data.train) is None]
    if train_text:
        lines = (line for path in train_text for line in corpus.read_lines(path))
    elif here:
        lines = (line for line in corpus.read_side(here[0], "src"))
    else:
        log.info("sentences are not told apart by rare words: no training text is here; give --train-text")
        return None
    words = features.TrainingWords(sources)
    for line in with_bar(lines, None, "reading training text", "line"):
        words.add(line)
    return words

"""What the commands that tell kinds of sentences apart share: languages, and the words of the training text."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mtkit.cli.corpora import first_missing

if TYPE_CHECKING:
    from mtkit.decoding.bundle import BundleFiles
    from mtkit.decoding.systems import TestSet
    from mtkit.inspection.features import Feature, TrainingWords


def languages_of(
    texts: "TestSet", given: tuple[str | None, str | None], models: "Sequence[BundleFiles]"
) -> tuple[str | None, str | None]:
    """Of source and target: as given, else by the first model's config, else by the files' names; None: not known."""
    from mtkit.inspection.features import language_in_name

    found = []
    for option, side, role in zip(given, ("src", "tgt"), ("src", "ref"), strict=True):
        said = getattr(models[0].config.data, f"{side}_lang") if models else side
        by_name = language_in_name(Path(str(texts.origin.get(role, ""))))
        found.append(option or (said if said != side else by_name))  # src and tgt: a config that says nothing
    return found[0], found[1]


def features_of(
    texts: "TestSet", src_lang: str | None, train_text: Sequence[Path], models: "Sequence[BundleFiles]"
) -> "list[Feature]":
    """The kinds of sentences that can be told; says why if some cannot.

    train_text: source sides of training text; without any, that of the first model whose text is here.
    """
    from mtkit.console import log
    from mtkit.inspection.features import find_features

    sources = texts.sources or []
    training = _training_words(sources, train_text, models)
    features = find_features(sources, texts.references, src_lang=src_lang, training=training)
    if all(feature.name != "negation" for feature in features):
        reason = "the source language is not known; give --src-lang" if src_lang is None else f"no words for {src_lang}"
        log.info(f"sentences are not told apart by negation: {reason}")
    return features


def _training_words(
    sources: Sequence[str], train_text: Sequence[Path], models: "Sequence[BundleFiles]"
) -> "TrainingWords | None":
    from mtkit.cli.translating import with_bar
    from mtkit.console import log
    from mtkit.data.corpus import read_lines, read_side
    from mtkit.inspection.features import TrainingWords

    here = [model.config.data.train for model in models if first_missing(model.config.data.train) is None]
    if train_text:
        lines = (line for path in train_text for line in read_lines(path))
    elif here:
        lines = (line for line in read_side(here[0], "src"))
    else:
        log.info("sentences are not told apart by rare words: no training text is here; give --train-text")
        return None
    words = TrainingWords(sources)
    for line in with_bar(lines, None, "reading training text", "line"):
        words.add(line)
    return words

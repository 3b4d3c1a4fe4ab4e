"""`mtkit compare`: systems and a test set in; who is better, how surely and on which sentences, out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from mtkit import bundle
from mtkit.cli.kinds import SrcLangOption, TgtLangOption, TrainTextOption, compare_kinds, find_languages, sort_sentences
from mtkit.cli.options import BeamSizeOption, DecodeSetOption, DeviceOption, EngineOption, file_named
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
from mtkit.errors import UsageError
from mtkit.evaluation.comparison import page, systems, text
from mtkit.evaluation.metrics.settings import MetricSettings, tokenizer_for


def compare(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]PATH",
            help="Files of translations, or run or bundle folders that translate here; the first is the baseline, "
            "which others are compared with. Without a name, the path is the name.",
        ),
    ],
    src: SourceOption = None,
    ref: ReferencesOption = None,
    split: SplitOption = "test",
    tokenize: TokenizeOption = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", callback=file_named(".html"), help="Write a report of one page here (.html)."),
    ] = None,
    train_text: TrainTextOption = None,
    src_lang: SrcLangOption = None,
    tgt_lang: TgtLangOption = None,
    beam_size: BeamSizeOption = None,
    engine: EngineOption = None,
    device: DeviceOption = "auto",
    overrides: DecodeSetOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON, every sentence in it.")] = False,
) -> None:
    """Compare systems on one test set: scores, their differences and how sure they are, kinds of sentences, examples.

    A difference is judged by sacreBLEU's paired bootstrap. Sentences are told apart by length, rarity of their words
    in the training text, numbers, names, negation and questions, by rules of thumb.
    """

    if len(paths) < 2:
        raise UsageError(f"{paths[0]}: a single system; it takes two to compare (`mtkit evaluate` takes one)")
    places, _ = systems.find_places(paths, [])
    translating = Translating(beam_size, engine, device, overrides or [])
    folders = [bundle.find_model(place.path) for place in places if place.is_model]
    check_usage(src, ref or [], split, translating, any_model=bool(folders), src_needed=True)
    texts, settings = find_test_set(folders, src, ref or [], split)
    given = systems.read_files(places, texts)
    configs = [loading.load_config(folder / "config.yaml") for folder in folders]
    languages = find_languages(texts, (src_lang, tgt_lang), configs)
    metric_settings = MetricSettings(tokenize or tokenizer_for(languages[1]))
    metric_settings.load("BLEU")  # what it lacks is better known before a model has worked for minutes
    test_set = sort_sentences(texts, configs, train_text or [], languages)
    found = systems.translate_others(places, given, texts, translating.loader(settings))
    if metric_settings.tokenize != "none":
        systems.warn_of_tokens(found)
    comparison = compare_kinds(found, test_set, metric_settings)
    if output is not None:
        page.write_report(output, comparison)
        log.info(f"written: {output}")
    if as_json:
        print(json.dumps(text.as_structure(comparison), indent=2, ensure_ascii=False))
    else:
        print("\n".join(text.headline(comparison) if output is not None else text.report(comparison)))

"""`mtkit compare`: systems and a test set in; who is better, how surely and on which sentences, out."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.corpora import check_here
from mtkit.cli.kinds import features_of, languages_of
from mtkit.cli.options import BeamSizeOption, DeviceOption, SetOption
from mtkit.errors import DataError, UsageError

if TYPE_CHECKING:
    from mtkit.config.schema import CorpusFiles
    from mtkit.decoding.bundle import BundleFiles
    from mtkit.inspection.breakdown import System


def compare(
    systems: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]PATH",
            help="Run or bundle folders, or files of translations; the first is what others are compared with. "
            "Without a name, the path is the name.",
        ),
    ],
    src: Annotated[
        Path | None, typer.Option(help="What was translated; default: the test set of the first model's config.")
    ] = None,
    ref: Annotated[list[Path] | None, typer.Option(help="Reference translations; several are repeated.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write a report of one page here (.html).")
    ] = None,
    train_text: Annotated[
        list[Path] | None,
        typer.Option(help="Source side of training text, for rare words; default: what a model's config names."),
    ] = None,
    src_lang: Annotated[
        str | None, typer.Option(help="Such as en; default: a model's config, or the end of --src's name.")
    ] = None,
    tgt_lang: Annotated[
        str | None, typer.Option(help="Such as fr; default: a model's config, or the end of --ref's name.")
    ] = None,
    beam_size: BeamSizeOption = None,
    overrides: SetOption = None,
    device: DeviceOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON, every sentence in it.")] = False,
) -> None:
    """Compare systems on one test set: scores, their differences and how sure they are, kinds of sentences, examples.

    A difference is judged by sacreBLEU's paired bootstrap. Sentences are told apart by length, rarity of their words
    in the training text, numbers, names, negation and questions, by rules of thumb.
    """
    from mtkit.cli.translating import load_translator, with_bar
    from mtkit.console import log, progress_bar
    from mtkit.decoding.bundle import find_model, read_bundle
    from mtkit.decoding.systems import find_places, read_system, read_test_set
    from mtkit.inspection.breakdown import System, translated_system
    from mtkit.inspection.comparison import TestSet, n_stages
    from mtkit.inspection.comparison import compare as compare_systems
    from mtkit.inspection.comparison_page import write_report
    from mtkit.inspection.comparison_text import as_structure, headline, report

    if output is not None and output.suffix != ".html":
        raise UsageError(f"--output {output}: the report is a page; give it a name that ends in .html")
    if len(systems) < 2:
        raise UsageError(f"{systems[0]}: a single system; it takes two to compare")
    places, _ = find_places(systems, [])
    models = {place.name: read_bundle(find_model(place.path)) for place in places if place.is_model}
    if not models and (beam_size or overrides):
        raise UsageError("--beam-size and --set are for translating, but no system is a model")
    files = _test_files(src, ref or [], models)
    texts = read_test_set(files, (ref or [])[1:])
    texts.warn_of_blanks()
    given = {place.name: read_system(place, texts).translations for place in places if not place.is_model}
    src_lang, tgt_lang = languages_of(texts, (src_lang, tgt_lang), list(models.values()))
    features = features_of(texts, src_lang, train_text or [], list(models.values()))
    test_set = TestSet(texts.sources or [], texts.references, features, tgt_lang)
    settings = [*([f"decode.tag={files.tag or 'null'}"] if src is None else []), *(overrides or [])]

    def system(name: str) -> "System":
        if name in given:
            return System(name, given[name])
        translator = load_translator([models[name].folder], overrides=settings, beam_size=beam_size, device=device)
        n = len(test_set.sources)
        return translated_system(name, translator, test_set.sources, lambda found: with_bar(found, n, name, "sentence"))

    found = [system(place.name) for place in places]
    with progress_bar(n_stages(found, test_set), "comparing", "part") as bar:
        comparison = compare_systems(found, test_set, advance=bar.update)
    if output is not None:
        write_report(output, comparison)
        log.info(f"{output}: {output.stat().st_size / 1000:,.0f} kB")
    if as_json:
        print(json.dumps(as_structure(comparison), indent=2, ensure_ascii=False))
    else:
        print("\n".join(headline(comparison) if output is not None else report(comparison)))


def _test_files(src: Path | None, refs: list[Path], models: "dict[str, BundleFiles]") -> "CorpusFiles":
    from mtkit.config.schema import CorpusFiles

    if (src is None) != (not refs):
        raise UsageError("give both --src and --ref, or neither for the test set of the first model's config")
    if src is not None:
        return CorpusFiles(src=src, tgt=refs[0])
    if not models:
        raise UsageError("give --src and --ref: files of translations do not say what was translated")
    model = next(iter(models.values()))
    files = model.config.data.test
    if files is None:
        raise DataError(f"{model.folder / 'config.yaml'}: no test set (data.test); give --src and --ref")
    check_here([files], "data.test", model.folder, "give --src and --ref")
    return files

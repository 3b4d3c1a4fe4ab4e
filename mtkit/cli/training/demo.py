"""`mtkit demo`: train, measure and use a small translator on the built-in corpus, without a download."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import mtkit
from mtkit.cli.models import with_bar
from mtkit.cli.options import SetOption
from mtkit.console import log
from mtkit.errors import MtkitError

if TYPE_CHECKING:
    from mtkit.config.schema import Config

DATA_DIR, RUN_DIR = Path("data/sample"), Path("runs/sample-en-fr")  # in the current folder
PARTS = {"train.0": "train", "dev": "dev", "test": "test"}  # key of the config -> name of the files


def demo(overrides: SetOption = None) -> None:
    """Train, measure and use a small English-French translator."""
    from mtkit.data import sample

    config = _load_config(overrides or [])
    _write_corpus()

    from mtkit import runtime
    from mtkit.runs import train as training

    bundle = training.train(config).bundle
    runtime.set_threads(config.train.threads)
    translator = mtkit.Translator.load(bundle)
    print(_test_score(config, translator, bundle))
    translations = translator.translate([english for english, _ in sample.DEMO_PAIRS])
    for (english, right), translation in zip(sample.DEMO_PAIRS, translations, strict=True):
        print(f"  {english}\n    {translation}" + ("" if translation == right else f"    (right: {right})"))
    print('Your turn: mtkit translate "..."')


def config_file() -> Path:
    """Return the demo's config: configs/sample-en-fr.yaml of a clone, or its copy in an installed package."""
    package = Path(__file__).parents[2]
    places = [package.parent / "configs" / "sample-en-fr.yaml", package / "data" / "sample-en-fr.yaml"]
    for place in places:
        if place.is_file():
            return place
    raise MtkitError(
        f"sample-en-fr.yaml is neither in {places[0].parent} nor in {places[1].parent}; install mtkit again"
    )


def _load_config(overrides: list[str]) -> Config:
    from mtkit.config.reading import loading

    files = [
        f"data.{section}.{side}={DATA_DIR}/{part}.{language}"
        for section, part in PARTS.items()
        for side, language in (("src", "en"), ("tgt", "fr"))
    ]
    return loading.load_config(config_file(), [f"run_dir={RUN_DIR}", *files, *overrides])


def _write_corpus() -> None:
    from mtkit.data import sample

    if all((DATA_DIR / f"{part}.{language}").exists() for part in PARTS.values() for language in ("en", "fr")):
        log.info(f"{DATA_DIR}: the sample corpus already exists")
    else:
        sample.write_sample(DATA_DIR)
        log.info(f"{DATA_DIR}: wrote the sample corpus")


def _test_score(config: Config, translator: mtkit.Translator, bundle: Path) -> str:
    """Return a line with BLEU on the test sentences; measure it once for a model, then read it from the run."""
    from mtkit.bundle import weights_checksum
    from mtkit.data import corpus
    from mtkit.evaluation.metrics import scores as metrics
    from mtkit.runs import read, report

    if (scores := read.read_test_scores(bundle)) is None:
        weights = weights_checksum(bundle)
        pairs = list(corpus.read_pairs([config.data.test] if config.data.test else []))
        translations = with_bar(translator.stream(pair.src for pair in pairs), len(pairs), "test", "sentence")
        hypotheses = [translation.text for translation in translations]
        scores = read.Scores(len(pairs), metrics.evaluate(hypotheses, [pair.tgt for pair in pairs]))
        report.note_test_scores(bundle, weights, len(pairs), scores.metrics)
    bleu = scores.first
    return f"BLEU {bleu.score:.1f} on {scores.n_sentences} sentences that it was not trained on ({bleu.signature})"

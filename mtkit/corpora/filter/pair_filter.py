"""Prepare the run folder of a pair filter: labelled examples, a record of what they were made from, and a config."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mtkit.bundle import bundle_file, read_bundle
from mtkit.classification.classifier import Classifier
from mtkit.config.cleaning import CleanConfig
from mtkit.config.data import CorpusFiles
from mtkit.config.reading.differences import differences
from mtkit.config.reading.loading import load_config
from mtkit.config.reading.yaml_text import format_yaml
from mtkit.config.schema import Config
from mtkit.console import counted, log
from mtkit.corpora.cleaning.clean import check_rules
from mtkit.corpora.filter.examples import DEV, TRAIN, write_examples
from mtkit.corpora.filter.lexicon import Lexicon
from mtkit.corpora.filter.negatives import KINDS
from mtkit.corpora.filter.pair_judge import FILE, GOOD, PairJudge
from mtkit.data.corpus import text_checksums
from mtkit.data.examples import Example, read_examples
from mtkit.errors import ConfigError, UsageError
from mtkit.files import locked, parse_json, write_bytes, write_text
from mtkit.pair_files.pairs import Languages
from mtkit.version import __version__

CONFIG = "filter.yaml"
_EXAMPLES = "examples"
_RECORD = "examples.json"  # what the examples were made from
_HEADING = "# Written by `mtkit data train-filter`, which also resumes this run. All other keys have their defaults.\n"


def prepare_run(
    folder: Path, corpora: Sequence[CorpusFiles], langs: Languages, overrides: Sequence[str], *, budget: str, most: int
) -> Config:
    """Write filter.yaml and examples into the folder of a run, unless they are there; return the config.

    Even samples of at most `most` pairs become examples. overrides: of the config; its clean section says which pairs
    are good enough, and how their text is repaired.
    Raises UsageError if the folder is something else, ConfigError for wrong overrides or if the run was begun with
    other text or settings, and what `write_examples` raises; then the folder stays as it was.
    """
    if folder.is_dir() and not (folder / CONFIG).exists() and any(not path.match(".*") for path in folder.iterdir()):
        raise UsageError(f"{folder}: exists and is not the folder of a filter; give a new name")
    path = folder / CONFIG
    with locked(folder):
        before = path.read_bytes() if path.exists() else None
        try:
            write_text(path, _HEADING + format_yaml(_settings(langs, budget)))
            cfg = load_config(path, overrides)
            if cfg.run_dir != folder.absolute():
                raise UsageError("--set run_dir: the folder of a filter is --output")
            _make_examples(folder, corpora, langs, cfg, most)
        except BaseException:
            if before is None:
                path.unlink(missing_ok=True)
            else:
                write_bytes(path, before)
            raise
    return cfg


def complete(bundle: Path, folder: Path) -> None:
    """Add the lexicon of the folder's examples to the bundle of its trained network, unless it is there."""
    files = read_bundle(bundle, task="classify")
    if bundle_file(files, FILE) is not None:
        return
    data = files.config.data
    train, dev = (list(read_examples([CorpusFiles(tsv=folder / _EXAMPLES / name)], 2)) for name in (TRAIN, DEV))
    lexicon = Lexicon.learn([_texts(one) for one in train if one.label == GOOD], (data.src_lang, data.tgt_lang))
    is_good = np.array([one.label == GOOD for one in dev], bool)
    judge, area = PairJudge.learn(Classifier.load(bundle), lexicon, [_texts(one) for one in dev], is_good)
    judge.save()
    log.info(
        f"network and lexicon together: AUC {area:.4f} on examples held out, the probability that a good pair gets a "
        "higher score than one with a mistake"
    )


def _texts(example: Example) -> tuple[str, str]:
    src, tgt = example.texts
    return src, tgt


def _settings(langs: Languages, budget: str) -> dict[str, Any]:
    return {
        "task": "classify",
        "run_dir": ".",
        "data": {
            "src_lang": langs[0],
            "tgt_lang": langs[1],
            "train": [{"tsv": f"{_EXAMPLES}/{TRAIN}"}],
            "dev": {"tsv": f"{_EXAMPLES}/{DEV}"},
            "labels": [GOOD, *KINDS],
        },
        "tokenizer": {"src": {"vocab_size": 8000}},
        "model": {"d_model": 192, "d_ff": 768, "n_heads": 4, "n_encoder_layers": 3},
        "train": {"budget": budget},
        "decode": {"precision": "int8"},  # three times as fast as fp32
    }


def _make_examples(folder: Path, corpora: Sequence[CorpusFiles], langs: Languages, cfg: Config, most: int) -> None:
    """Write the examples, then the record, which marks them as complete."""
    origin = _origin(corpora, langs, cfg.clean, most, cfg.seed)
    then = _read_record(folder / _RECORD)
    if then is not None:
        if changes := [f"{name} was {old}, now {new}" for name, old, new in differences(then, origin)]:
            raise ConfigError(
                f"{folder}: this filter learns from examples that were made in another way: {'; '.join(changes)}; give "
                "another folder, or remove this one"
            )
        return
    check_rules(cfg.clean, langs)
    made = write_examples(folder / _EXAMPLES, corpora, langs, cfg.clean, most=most, seed=cfg.seed)
    write_text(folder / _RECORD, json.dumps(origin, indent=1, ensure_ascii=False) + "\n")
    log.info(
        f"{folder / _EXAMPLES}: {counted(made.n_train, 'good pair')} to learn from and {made.n_dev:,} for dev, each "
        f"also with a mistake; of {made.n_read:,}, {made.n_sampled:,} were drawn, and {made.n_dropped:,} of these were "
        "repeated or dropped by the rules of clean"
    )


def _origin(corpora: Sequence[CorpusFiles], langs: Languages, cfg: CleanConfig, most: int, seed: int) -> dict[str, Any]:
    """Return what the examples depend on, as JSON values."""
    origin = {
        "mtkit": __version__,
        "text": {str(number): found for number, found in enumerate(text_checksums(corpora), start=1)},
        "langs": "-".join(langs),
        "pairs": most,
        "seed": seed,
        "clean": cfg.model_dump(mode="json"),
    }
    return dict(json.loads(json.dumps(origin)))


def _read_record(path: Path) -> dict[str, Any] | None:
    try:
        return dict(parse_json(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        raise ConfigError(f"{path}: cannot be read; remove it to have the examples made again") from None

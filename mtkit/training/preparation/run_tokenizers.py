"""Train the tokenizers of a run on its training text, or check that the ones in its folder still fit the config."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mtkit.config.data import CorpusFiles
from mtkit.config.reading.differences import differences
from mtkit.config.schema import Config
from mtkit.config.tags import TOKENS, tags_of
from mtkit.config.tokenizer import TokenizerConfig
from mtkit.console import counted, log
from mtkit.data.corpus import count_pairs, read_side, text_checksums
from mtkit.errors import ConfigError, DataError
from mtkit.files import parse_json, sha256_file, write_bytes, write_text
from mtkit.languages import SIDES, Side
from mtkit.tokens.placeholders import Placeholders
from mtkit.tokens.tokenizer import Tokenizer, learn_model, load_tokenizers, sample
from mtkit.training.preparation.rule import LARGE_ALPHABET

_RECORD = "tokenizers.json"
_LINES_OF_ALPHABET = 20_000


def train_tokenizers(cfg: Config, run_dir: Path) -> tuple[Tokenizer, Tokenizer]:
    """Return the run's source and target tokenizers; train them on the training text if the run has none.

    Trains them again if the settings or the text have changed. Models without a `tokenizers.json` in their folder come
    from the user, and stay unchanged.
    Raises ConfigError if settings or text have changed and the run has checkpoints, if a config with one shared
    tokenizer has two different models, or if the user has put one there but not the other; DataError if the user has
    replaced a trained model.
    """
    check_tags(cfg)
    settings = _settings(cfg)
    models = {side: run_dir / f"{side}.spm" for side in SIDES}
    record = _read_record(run_dir / _RECORD)
    if all(path.exists() for path in models.values()):
        if not record:
            if cfg.tokenizer.shared and sha256_file(models["src"]) != sha256_file(models["tgt"]):
                raise ConfigError(
                    f"{run_dir}: tokenizer.shared=true, but src.spm and tgt.spm are two different models; put the same "
                    "model under both names, or set tokenizer.shared to false (and model.tie to decoder or none)"
                )
            log.info(f"{run_dir}: using src.spm and tgt.spm as they are")
            return load_tokenizers(run_dir, cfg.data.placeholders)
        for path in models.values():
            if sha256_file(path) != record["models"].get(path.name):
                raise DataError(
                    f"{path}: not the model that mtkit trained for this run; remove {run_dir / _RECORD} to use both "
                    "models unchanged, or remove the models to train them again"
                )
        if record["settings"] == settings:
            log.info(f"{run_dir}: src.spm and tgt.spm are up to date")
            return load_tokenizers(run_dir, cfg.data.placeholders)
    if any((run_dir / "checkpoints").glob("step-*")):
        raise ConfigError(
            f"{run_dir}: this run has checkpoints, and {_what_changed(record, settings, cfg.data.train)}; start a new "
            "run (another run_dir), or restore the old settings, text and models"
        )
    if not record and (own := next((path for path in models.values() if path.exists()), None)):
        [missing] = (path for path in models.values() if path != own)
        raise ConfigError(
            f"{own}: you put this model there, but no {missing.name}; put a model for the other side next to it, or "
            "remove it to have both trained"
        )
    if record:
        log.info(f"{run_dir}: a tokenizer is missing, or settings or text have changed; training both again")
    return _train_both(cfg, run_dir, settings)


def has_own_tokenizers(run_dir: Path) -> bool:
    """Return whether the user has put tokenizers into a run's folder."""
    return any((run_dir / f"{side}.spm").exists() for side in SIDES) and not (run_dir / _RECORD).exists()


def has_tokenizers(cfg: Config, run_dir: Path) -> bool:
    """Return whether the run has tokenizers that were trained with the settings and the text of cfg."""
    if not all((run_dir / f"{side}.spm").exists() for side in SIDES):
        return False
    record = _read_record(run_dir / _RECORD)
    return bool(record) and record["settings"] == _settings(cfg)


def has_large_alphabet(cfg: Config, side: Side) -> bool:
    """Return whether a side has more than LARGE_ALPHABET characters, as Chinese, Japanese and Korean do."""
    n_lines = count_pairs(cfg.data.train)
    return len(set().union(*sample(read_side(cfg.data.train, side), n_lines, _LINES_OF_ALPHABET))) > LARGE_ALPHABET


def lowered_vocabularies(cfg: Config, run_dir: Path, tokenizers: tuple[Tokenizer, Tokenizer]) -> dict[str, str]:
    """Return the default sizes that the text was too short for, by key, with what became of them."""
    if cfg.train.init_from is not None or not (run_dir / _RECORD).exists():
        return {}  # the tokenizers come from elsewhere
    return {
        f"tokenizer.{side}.vocab_size": f"{tokenizer.vocab_size} of {settings.vocab_size}: the text has no more pieces"
        for side, tokenizer in zip(SIDES[:1] if cfg.tokenizer.shared else text_sides(cfg), tokenizers, strict=False)
        for settings in [cfg.tokenizer.src if side == "src" else cfg.tokenizer.tgt]
        if "vocab_size" not in settings.model_fields_set and tokenizer.vocab_size < settings.vocab_size
    }


def check_tags(cfg: Config) -> None:
    """Raise ConfigError if dev, test or decode has a tag that is missing from the training text."""
    known, test = _tags(cfg), cfg.data.test
    has = f"the tags there are {', '.join(known)}" if known else "none of them has a tag"
    wanted = {corpus.key: corpus.tag for corpus in cfg.data.dev}
    wanted |= {"data.test": test.tag if test else None, "decode": cfg.decode.tag}
    for section, tag in wanted.items():
        if unknown := [single for single in tags_of(tag) if single not in known]:
            raise ConfigError(
                f"{section}.tag={tag}: no corpus of data.train has the tag {unknown[0]}, so the model cannot know it; "
                f"{has}"
            )


def text_sides(cfg: Config) -> Sequence[Side]:
    """Return which of the first two columns are text; for single texts with labels, the second column is the label."""
    return SIDES if cfg.task == "translate" or cfg.data.pairs else SIDES[:1]


def _tags(cfg: Config) -> list[str]:
    """Return the tags of the training text in alphabetical order."""
    return sorted({tag for corpus in cfg.data.train for tag in tags_of(corpus.tag)})


def _settings(cfg: Config) -> dict[str, Any]:
    """Return everything that the models depend on, without `sampling`, which affects batches and not the models."""
    tokenizer = cfg.tokenizer.model_dump(mode="json", exclude={"src": {"sampling"}, "tgt": {"sampling"}})
    if cfg.tokenizer.shared:
        del tokenizer["tgt"]  # unused
    settings = {"tokenizer": tokenizer, "text": text_checksums(cfg.data.train)}
    if cfg.data.placeholders:
        settings["placeholders"] = cfg.data.placeholders
    return settings | ({"tags": tags} if (tags := _tags(cfg)) else {})


def _what_changed(record: Mapping[str, Any], settings: Mapping[str, Any], corpora: Sequence[CorpusFiles]) -> str:
    """Explain why the run's tokenizers differ from those that these settings and this text would give."""
    if not record or record["settings"] == settings:
        return "one of its tokenizers, src.spm or tgt.spm, is missing"
    then, now = dict(record["settings"]), dict(settings)
    text_then, text_now = then.pop("text", []), now.pop("text")
    changed_keys = differences(then, now)
    if any(key == "tokenizer.shared" for key, *_ in changed_keys):  # only one of the two has settings for tgt
        changed_keys = [change for change in changed_keys if not change[0].startswith("tokenizer.tgt.")]
    names = {"tags": "data.train[].tag", "placeholders": "data.placeholders"}
    changes = [f"{names.get(key, key)} was {old} and is {new}" for key, old, new in changed_keys]
    if len(text_then) != len(text_now):
        changes.append(f"data.train had {len(text_then)} corpora and has {len(text_now)}")
    else:
        changes += [
            f"the text of {getattr(corpus, role)} has changed"
            for corpus, old, new in zip(corpora, text_then, text_now, strict=True)
            for role in new
            if old.get(role) != new[role]
        ]
    return f"since its tokenizers were trained {', '.join(changes)}"


def _read_record(path: Path) -> dict[str, Any]:
    """Return the origin of the run's tokenizers and their checksums; {} if mtkit did not train them."""
    try:
        record = parse_json(path.read_text(encoding="utf-8"))
        settings = dict(record["settings"])
        if settings["tokenizer"]["shared"]:
            settings["tokenizer"] = {key: value for key, value in settings["tokenizer"].items() if key != "tgt"}
        return {"settings": settings, "models": dict(record["models"])}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: cannot read the file; remove it to use src.spm and tgt.spm unchanged") from error


def _train_both(cfg: Config, run_dir: Path, settings: dict[str, Any]) -> tuple[Tokenizer, Tokenizer]:
    if cfg.tokenizer.shared:
        besides = {"sampling"}  # SubwordSampler warns of a difference there
        src_settings, tgt_settings = (
            side.model_dump(exclude=besides) for side in (cfg.tokenizer.src, cfg.tokenizer.tgt)
        )
        if "tgt" in cfg.tokenizer.model_fields_set and src_settings != tgt_settings:
            log.warning("tokenizer.tgt has no effect: tokenizer.shared=true uses tokenizer.src for both sides")
        src = tgt = _train_on(cfg, text_sides(cfg), cfg.tokenizer.src, run_dir / "src.spm")
    else:
        src = _train_on(cfg, ("src",), cfg.tokenizer.src, run_dir / "src.spm")
        tgt = _train_on(cfg, ("tgt",), cfg.tokenizer.tgt, run_dir / "tgt.spm")
    models = {"src.spm": src, "tgt.spm": tgt}
    # In this order, a killed process never leaves a model with a record that describes another one.
    for name in models:
        (run_dir / name).unlink(missing_ok=True)
    write_record(run_dir, settings, {name: hashlib.sha256(model).hexdigest() for name, model in models.items()})
    for name, model in models.items():
        write_bytes(run_dir / name, model)
    return load_tokenizers(run_dir, cfg.data.placeholders)


def write_record(run_dir: Path, settings: Mapping[str, Any], checksums: Mapping[str, str]) -> None:
    """Record the origin and the checksums of the tokenizers of a run; without a record they count as the user's."""
    write_text(run_dir / _RECORD, json.dumps({"settings": settings, "models": checksums}, indent=2) + "\n")


def _train_on(cfg: Config, sides: Sequence[Side], settings: TokenizerConfig, out: Path) -> bytes:
    """Train a model on these sides of the training corpora."""
    n_lines = count_pairs(cfg.data.train) * len(sides)
    n_sampled = min(n_lines, settings.max_sentences)
    log.info(
        f"{out}: learning {settings.vocab_size:,} {settings.type} pieces from {n_sampled:,} of "
        f"{counted(n_lines, 'line')}"
    )
    lines = (line for side in sides for line in read_side(cfg.data.train, side))
    symbols = _tags(cfg) if "src" in sides else []
    if cfg.data.placeholders:
        placeholders = Placeholders(cfg.data.placeholders)
        lines, symbols = (placeholders.replace(line).text for line in lines), [*symbols, *TOKENS]
    return learn_model(sample(lines, n_lines, n_sampled), settings, out, symbols)

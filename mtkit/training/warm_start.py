"""Start from a trained model: its settings, its tokenizers and its weights, and which of these stay as they are."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from mtkit.bundle import find_model, load_bundle, read_bundle
from mtkit.config.differences import differences
from mtkit.config.loading import load_config
from mtkit.config.schema import Config
from mtkit.console import log
from mtkit.data.corpus import SIDES
from mtkit.data.special_ids import PAD_ID
from mtkit.data.tokenizer import Tokenizer, load_tokenizers
from mtkit.errors import ConfigError, DataError
from mtkit.files import atomic_file, sha256_file
from mtkit.model.transformer import Transformer
from mtkit.training.checkpoint import Checkpoints
from mtkit.training.run_tokenizers import train_tokenizers

_SECTIONS = {"model", "tokenizer"}
# Keys that may differ from the model's: they change neither the shape of the weights nor the meaning of a token id.
_FREE = (
    *(f"model.{part}_dropout" for part in ("embedding", "residual", "attention", "ffn", "word")),
    *(f"tokenizer.{side}.{key}" for side in SIDES for key in ("sampling", "max_sentences")),
)
# No bias that was learnt is so low; those of tokens that an imported model never writes are -30000, and a single such
# token in the new text would cost as many nats. At -30 it stays out of all translations, and can be learnt.
_LEAST_BIAS = -30.0


def inherit(cfg: Config) -> Config:
    """cfg, the keys that its model and tokenizer sections leave out being those of the model in train.init_from.

    If the run has checkpoints, its own config.yaml tells them, and the model may be gone.
    Raises ConfigError, naming the keys, if cfg sets one that cannot be other than the model's.
    """
    origin = cfg.train.init_from
    if origin is None or cfg.run_dir is None:
        return cfg
    started = _has_started(cfg.run_dir)
    folder = cfg.run_dir if started else find_model(origin)
    theirs = load_config(folder / "config.yaml").model_dump(mode="json", include=_SECTIONS)
    merged = _merged(theirs, cfg.model_dump(mode="json", include=_SECTIONS, exclude_unset=True))
    free = _FREE if merged["model"]["positions"] == "learned" else (*_FREE, "model.max_positions")
    wrong = [difference for difference in differences(theirs, merged) if difference[0] not in free]
    if wrong and not started:
        listed = "\n".join(f"  {key}: {old} there, {new} here" for key, old, new in wrong)
        raise ConfigError(
            f"train.init_from={origin} is a model with other settings:\n{listed}\n"
            "leave these keys out (its own are then taken), or train from nothing, without init_from"
        )
    try:
        return Config.model_validate(cfg.model_dump(mode="json") | merged)
    except ValidationError as error:
        found = "\n".join(f"  {details['msg']}" for details in error.errors())
        raise ConfigError(f"with the settings of train.init_from={origin}:\n{found}") from error


def run_tokenizers(cfg: Config, run_dir: Path) -> tuple[Tokenizer, Tokenizer]:
    """The run's tokenizers: copies of those of train.init_from, or learnt from the training text.

    Raises ConfigError if others than those of train.init_from lie in the run's folder.
    """
    if cfg.train.init_from is None:
        return train_tokenizers(cfg, run_dir)
    if not _has_started(run_dir):
        check_tags_of_start(cfg)
        _copy_tokenizers(find_model(cfg.train.init_from), run_dir)
    return load_tokenizers(run_dir)


def check_tags_of_start(cfg: Config) -> None:
    """Raise ConfigError if a corpus, or decode, has a tag that the model in train.init_from does not know."""
    assert cfg.train.init_from is not None
    tokenizer = Tokenizer.load(find_model(cfg.train.init_from) / "src.spm")
    test = cfg.data.test
    asked = {"data.train[]": [corpus.tag for corpus in cfg.data.train], "data.dev": [cfg.data.dev.tag]}
    asked |= {"data.test": [test.tag if test else None], "decode": [cfg.decode.tag]}
    for section, tags in asked.items():
        for tag in tags:
            try:
                tokenizer.tagged(tag)
            except DataError as error:
                raise ConfigError(
                    f"{section}.tag={tag}: {error}. Tokens cannot be added to a trained model: leave the tag out, or "
                    "train from nothing, without train.init_from"
                ) from None


def load_start(origin: Path, model: Transformer) -> None:
    """Give the model the weights of the bundle or run."""
    bundle = load_bundle(find_model(origin))
    model.load_state_dict(bundle.model.state_dict())
    with torch.no_grad():
        model.output.bias.clamp_(min=_LEAST_BIAS)
    log.info(f"starting from the weights of {bundle.folder}")


def freeze(model: Transformer, prefixes: Sequence[str]) -> None:
    """Let the weights whose names begin with one of the prefixes stay as they are; layers.1 does not mean layers.10.

    Raises ConfigError as `check_freeze` does.
    """
    _freeze(model, prefixes)
    if prefixes:
        n_trained = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
        log.info(f"{n_trained / 1e6:.1f} million weights are trained, the others stay as they are (train.freeze)")


def check_freeze(cfg: Config) -> None:
    """Raise ConfigError if a prefix in train.freeze is that of no weight, or if nothing is left to be trained."""
    with torch.device("meta"):  # weights that have names, and take no memory
        _freeze(Transformer(cfg.model, 8, 8, PAD_ID), cfg.train.freeze)


def _freeze(model: Transformer, prefixes: Sequence[str]) -> None:
    weights = dict(model.named_parameters(remove_duplicate=False))  # a shared matrix goes by each of its names
    for prefix in prefixes:
        chosen = [name for name in weights if name.startswith(prefix) and not name[len(prefix) :][:1].isdigit()]
        if not prefix or not chosen:
            parts = dict.fromkeys(name.partition(".")[0] for name in weights)
            raise ConfigError(f"train.freeze: no weight's name begins with {prefix!r}; they begin: {', '.join(parts)}")
        for name in chosen:
            weights[name].requires_grad_(False)
    if not any(weight.requires_grad for weight in model.parameters()):
        raise ConfigError(f"train.freeze={list(prefixes)} leaves no weight to be trained")


def _has_started(run_dir: Path) -> bool:
    return Checkpoints(run_dir / "checkpoints").exist()


def _copy_tokenizers(bundle: Path, run_dir: Path) -> None:
    read_bundle(bundle)  # verified
    for side in SIDES:
        source, place = bundle / f"{side}.spm", run_dir / f"{side}.spm"
        if not place.exists():
            with atomic_file(place) as temporary:
                shutil.copyfile(source, temporary)
        elif sha256_file(place) != sha256_file(source):
            raise ConfigError(
                f"{place}: not the tokenizer of the model in train.init_from ({source}), whose weights mean nothing "
                "with another; remove it, or choose another run_dir"
            )


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """The values of both trees, those above where there are two."""
    merged = dict(below)
    for key, value in above.items():
        merged[key] = _merged(merged[key], value) if isinstance(value, dict) else value
    return merged

"""Start from a trained model: take its settings, tokenizers and weights, and freeze some weights."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from mtkit.bundle import CHOSEN, find_model, load_network, read_bundle
from mtkit.config.data import UNNAMED
from mtkit.config.model import ModelConfig
from mtkit.config.reading.differences import differences
from mtkit.config.reading.loading import load_written_config
from mtkit.config.reading.problems import explain, report
from mtkit.config.schema import Config
from mtkit.console import log
from mtkit.errors import ConfigError, DataError
from mtkit.files import atomic_file, sha256_file
from mtkit.languages import SIDES, Side, english_name, primary_code
from mtkit.model.classifier import EncoderClassifier
from mtkit.model.network import Network
from mtkit.model.networks import new_network
from mtkit.model.transformer import Transformer
from mtkit.tokens.special_ids import BOS_ID
from mtkit.tokens.tokenizer import Tokenizer, load_tokenizers
from mtkit.training.preparation.rule import DROPOUTS, budget_took_dropout, tuning_values
from mtkit.training.preparation.run_tokenizers import train_tokenizers, write_record
from mtkit.training.update.checkpoint import Checkpoints

_SECTIONS = {"model", "tokenizer"}
# Keys that may differ from the model's: they change neither the shape of the weights nor the meaning of a token id.
_FREE = (
    *(f"model.{part}_dropout" for part in ("embedding", "residual", "attention", "ffn", "word")),
    *(f"tokenizer.{side}.{key}" for side in SIDES for key in ("sampling", "max_sentences")),
)
_OF_DECODER = ("model.decoder", "model.n_decoder_layers", "model.tie")  # which a classifier does not have
# Learned biases are never this low. An imported model has -30000 for tokens that it must not write, and a single such
# token in the new text would cost 30000 nats. At -30 it stays out of translations, but the model can learn it.
_LEAST_BIAS = -30.0


def inherit(cfg: Config) -> Config:
    """Fill in keys that cfg omits in model and tokenizer from the model in train.init_from.

    The same applies to data.placeholders, and to augment as a whole.

    If the run has checkpoints, they come from its own config.yaml, and that model may be gone.
    Raises ConfigError if cfg sets keys that must be the model's to other values.
    """
    origin = cfg.train.init_from
    if origin is None or cfg.run_dir is None:
        return cfg
    started = _has_started(cfg.run_dir)
    folder = cfg.run_dir if started else find_model(origin)
    origin_cfg = load_written_config(folder / "config.yaml")
    if cfg.task == "translate" and origin_cfg.task != "translate":
        raise ConfigError(f"train.init_from={origin}: a translator cannot start from a classifier; choose a translator")
    if not started and cfg.task == "translate":
        warn_of_other_languages(cfg, origin_cfg)
    theirs = origin_cfg.model_dump(mode="json", include=_SECTIONS)
    if not started and budget_took_dropout(origin_cfg, _chosen(folder)):
        theirs["model"] |= {key: getattr(ModelConfig(), key) for key in DROPOUTS}
    if cfg.task == "classify":  # which has one tokenizer
        theirs["tokenizer"]["shared"] = True
    merged = _merged(theirs, cfg.model_dump(mode="json", include=_SECTIONS, exclude_unset=True))
    kind = merged["model"]["positions"]
    unused = [key for key, of in (("max_positions", "learned"), ("max_relative_distance", "relative")) if kind != of]
    free = (*_FREE, *(f"model.{key}" for key in unused))
    if cfg.task == "classify":
        free = (*free, *_OF_DECODER)
    wrong = [difference for difference in differences(theirs, merged) if difference[0] not in free]
    if wrong and not started:
        listed = "\n".join(f"  {key}: {old} there, {new} here" for key, old, new in wrong)
        raise ConfigError(
            f"train.init_from={origin} is a model with other settings:\n{listed}\n"
            "remove these keys to use the model's settings, or train from the beginning, without init_from"
        )
    values = cfg.model_dump(mode="json") | merged
    if cfg.task == "translate" and "augment" not in cfg.model_fields_set:
        values["augment"] = origin_cfg.augment.model_dump()
    values["train"] = cfg.train.model_dump(mode="json", exclude_unset=True)  # the others still have their defaults
    if not started and cfg.task == "translate":
        values["train"] = {**tuning_values(cfg.train), **values["train"]}
    if cfg.task == "translate" and "placeholders" not in cfg.data.model_fields_set:
        values["data"]["placeholders"] = origin_cfg.data.placeholders
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        problems = [explain(details, values, {}) for details in error.errors(include_url=False)]
        raise ConfigError(report(f"with the settings of train.init_from={origin}", problems)) from error


def _chosen(bundle: Path) -> list[str] | None:
    """Return the keys that mtkit chose for the model; None if its bundle does not record them."""
    chosen: list[str] | None = read_bundle(bundle, task="any").manifest.get("training", {}).get(CHOSEN)
    return chosen


def warn_of_other_languages(cfg: Config, origin_cfg: Config) -> None:
    """Warn if the model in train.init_from translates between other languages; one that takes tags may learn more."""
    then, now = ((one.data.src_lang, one.data.tgt_lang) for one in (origin_cfg, cfg))
    if any(corpus.tag for corpus in cfg.data.train) or not all(english_name(code) for code in (*then, *now)):
        return
    if any(primary_code(old) != primary_code(new) for old, new in zip(then, now, strict=True)):
        log.warning(
            f"train.init_from={cfg.train.init_from} translates {then[0]}-{then[1]}, but this run {now[0]}-{now[1]}: "
            "its tokenizers stay those of the other languages, and may split this text into single characters or bytes"
        )


def run_tokenizers(cfg: Config, run_dir: Path) -> tuple[Tokenizer, Tokenizer]:
    """Return the run's tokenizers: copies of those of train.init_from, or trained on the training text.

    Raises ConfigError if the run's folder holds tokenizers that differ from those of train.init_from.
    """
    if cfg.train.init_from is None:
        return train_tokenizers(cfg, run_dir)
    if not _has_started(run_dir):
        check_tags_of_start(cfg)
        _check_placeholders_of_start(cfg)
        _copy_tokenizers(find_model(cfg.train.init_from), run_dir, _sides_to_copy(cfg))
    return load_tokenizers(run_dir, cfg.data.placeholders)


def check_tags_of_start(cfg: Config) -> None:
    """Raise ConfigError if a corpus, or decode, has a tag that is unknown to the model in train.init_from."""
    assert cfg.train.init_from is not None
    tokenizer = Tokenizer.load(find_model(cfg.train.init_from) / "src.spm")
    test = cfg.data.test
    asked = {"data.train[]": [corpus.tag for corpus in cfg.data.train]}
    asked |= {corpus.key: [corpus.tag] for corpus in cfg.data.dev}
    asked |= {"data.test": [test.tag if test else None], "decode": [cfg.decode.tag]}
    for section, tags in asked.items():
        for tag in tags:
            try:
                tokenizer.tagged(tag)
            except DataError as error:
                raise ConfigError(
                    f"{section}.tag={tag}: {error}. A trained model cannot get new tokens: remove the tag, or train "
                    "from the beginning, without train.init_from"
                ) from None


def _check_placeholders_of_start(cfg: Config) -> None:
    """Raise ConfigError if the run has placeholders, but the model in train.init_from has no tokens for them."""
    assert cfg.train.init_from is not None
    try:
        load_tokenizers(find_model(cfg.train.init_from), cfg.data.placeholders)
    except DataError as error:
        raise ConfigError(
            f"{error}. A trained model cannot get new tokens: remove data.placeholders, or train from the beginning, "
            "without train.init_from"
        ) from None


def load_start(origin: Path, model: Network, labels: Sequence[str] = (), tgt_lang: str = UNNAMED[1]) -> list[str]:
    """Copy the weights of the bundle or run into the model, and return the checksums of its files.

    A classifier gets the weights that both have: those of the encoder with its embedding, from a translator or a
    classifier, and those of the output of a classifier with the same labels. labels: the labels of the new model.
    tgt_lang: its target language, whose token a model of many languages starts from.
    """
    languages = [f"decode.tgt_lang={tgt_lang}"] if model.cfg.end_first else []
    bundle = read_bundle(find_model(origin), languages, task="any")
    weights = load_network(bundle).state_dict()
    if isinstance(model, EncoderClassifier):
        own = model.state_dict()
        has_output = bundle.config.data.labels == list(labels)
        taken = {n: w for n, w in weights.items() if n in own and (has_output or not n.startswith("output."))}
        weights = {**own, **taken}
    model.load_state_dict(weights)
    if isinstance(model, Transformer):
        with torch.no_grad():
            model.output.bias.clamp_(min=_LEAST_BIAS)
            if model.cfg.positions == "marian":  # the first versions of mtkit trained it
                model.tgt_embedding.weight[BOS_ID] = 0.0
    log.info(f"starting from the weights of {bundle.folder}")
    return bundle.shaping_checksums


def freeze(model: Network, prefixes: Sequence[str]) -> None:
    """Exclude weights from training whose names begin with one of the prefixes; layers.1 does not match layers.10.

    A model of many languages, such as NLLB, keeps its output without a bias.
    Raises ConfigError like `check_freeze`.
    """
    _freeze(model, prefixes)
    if isinstance(model, Transformer) and model.cfg.end_first:
        model.output.bias.requires_grad_(False)
    if prefixes:
        n_trained = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
        log.info(f"training {n_trained / 1e6:.1f} million weights; the others are frozen (train.freeze)")


def check_freeze(cfg: Config) -> None:
    """Raise ConfigError if a prefix in train.freeze matches no weight, or if no weight is left to train."""
    if cfg.train.freeze:
        with torch.device("meta"):  # weights with names but without memory; it imports a second's worth of modules
            _freeze(new_network(cfg, 8, 8), cfg.train.freeze)


def _freeze(model: Network, prefixes: Sequence[str]) -> None:
    weights = dict(model.named_parameters(remove_duplicate=False))  # all names of a shared matrix
    for prefix in prefixes:
        chosen = [name for name in weights if name.startswith(prefix) and not name[len(prefix) :][:1].isdigit()]
        if not prefix or not chosen:
            parts = dict.fromkeys(name.partition(".")[0] for name in weights)
            raise ConfigError(
                f"train.freeze: no weight has a name that begins with {prefix!r}; the names begin with "
                f"{', '.join(parts)}"
            )
        for name in chosen:
            weights[name].requires_grad_(False)
    if not any(weight.requires_grad for weight in model.parameters()):
        raise ConfigError(f"train.freeze={list(prefixes)} leaves no weight to train; remove some of the prefixes")


def _has_started(run_dir: Path) -> bool:
    return Checkpoints(run_dir / "checkpoints").exist()


def _sides_to_copy(cfg: Config) -> dict[Side, Side]:
    """Return, for each tokenizer of the run, the tokenizer of the starting model that it copies.

    Raises ConfigError if a classifier of pairs would start from a model with two different ones.
    """
    if cfg.task == "translate":
        return {side: side for side in SIDES}
    assert cfg.train.init_from is not None
    src, tgt = load_tokenizers(find_model(cfg.train.init_from))
    if cfg.data.pairs and src.fingerprint != tgt.fingerprint:
        raise ConfigError(
            f"train.init_from={cfg.train.init_from}: has one tokenizer per side, but a classifier reads both texts "
            "of a pair with one; start from a model with tokenizer.shared=true, or without init_from"
        )
    return dict.fromkeys(SIDES, "src")  # the encoder's


def _copy_tokenizers(bundle: Path, run_dir: Path, sides: Mapping[Side, Side]) -> None:
    read_bundle(bundle, task="any")  # verified
    checksums = {f"{side}.spm": sha256_file(bundle / f"{origin_side}.spm") for side, origin_side in sides.items()}
    if not all((run_dir / name).exists() for name in checksums):
        write_record(run_dir, {"tokenizer": {"shared": False, "copied_from": str(bundle)}}, checksums)
    for side, origin_side in sides.items():
        source, place = bundle / f"{origin_side}.spm", run_dir / f"{side}.spm"
        if not place.exists():
            with atomic_file(place) as temporary:
                shutil.copyfile(source, temporary)
        elif sha256_file(place) != sha256_file(source):
            raise ConfigError(
                f"{place}: not the tokenizer of the model in train.init_from ({source}), which the run needs; remove "
                "it, or choose another run_dir"
            )


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the values of two trees; `above` takes precedence."""
    merged = dict(below)
    for key, value in above.items():
        merged[key] = _merged(merged[key], value) if isinstance(value, dict) else value
    return merged

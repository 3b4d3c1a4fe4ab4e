"""Bundles of tiny random models of any shape: what they say means nothing, but it is always the same; and text."""

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from mtkit.bundle import Bundle, BundleFiles, load_bundle, read_bundle, save_bundle
from mtkit.config.augment import NOTHING
from mtkit.config.model import ModelConfig
from mtkit.config.schema import Config
from mtkit.files import write_bytes
from mtkit.model.networks import new_network
from mtkit.model.transformer import Transformer
from mtkit.tokens.special_ids import EOS_ID
from mtkit.tokens.tokenizer import Tokenizer, learn_model

SENTENCES = ["I love oranges.", "The cat sleeps under the table.", "Do you see the big house?", "It rains, it rains."]
# A test set, with a blank line.
SRC = ["The cat sleeps.", "It rains.", "", "We eat under the table."]
REF = ["Le chat dort.", "Il pleut.", "", "Nous mangeons sous la table."]
LABELS = ("order", "question", "statement")
# Every choice that the config has for the shape of a model, each at least once.
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "post-norm, learned positions": {"norm_position": "post", "positions": "learned", "max_positions": 64},
    "rotary, RMSNorm, SwiGLU, all tied": {
        **{"positions": "rotary", "norm": "rmsnorm", "activation": "swiglu", "tie": "all"},
    },
    "SSRU, nothing tied": {"decoder": "ssru", "positions": "marian", "tie": "none"},
    "relative positions": {"positions": "relative", "max_relative_distance": 3},
    "ALiBi, three heads": {"positions": "alibi", "n_heads": 3, "d_model": 18},
}
_LEARNED: dict[str, bytes] = {}  # models of tokenizers
_DECODE = {"beam_size": 3, "max_len_factor": 1.0, "max_len_constant": 4, "threads": 1}


def tiny_transformer(
    src_vocab_size: int,
    tgt_vocab_size: int | None = None,
    *,
    seed: int = 1,
    scale: float = 1.0,
    noise: float = 0.0,
    **model: Any,
) -> Transformer:
    """A random network of one layer a side, in evaluation mode; always the same for the same arguments.

    scale: multiplies all weights; larger ones make surer choices. noise: added to all weights, so that none is the
    zero or one that it begins as, which would hide that it is left out. model: keys of that section that differ.
    """
    sizes = {"d_model": 16, "d_ff": 32, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}
    torch.manual_seed(seed)
    network = Transformer(ModelConfig.model_validate(sizes | model), src_vocab_size, tgt_vocab_size or src_vocab_size)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(scale)
            if noise:
                parameter.add_(noise * torch.randn_like(parameter))
    return network.eval()


def write_lines(path: Path | str, lines: list[str]) -> Path:
    opened = gzip.open if Path(path).suffix == ".gz" else open
    with opened(path, "wt", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    return Path(path)


def tiny_config(model: dict[str, Any], *, tag: str | None = None, **tokenizer: Any) -> Config:
    """model: what differs from a small model with two layers a side."""
    sizes = {"d_model": 16, "d_ff": 32, "n_heads": 2, "n_encoder_layers": 2, "n_decoder_layers": 2}
    side = {"vocab_size": 300, **tokenizer}
    corpus = {"src": "/nowhere/a.en", "tgt": "/nowhere/a.fr", "tag": tag}
    return Config.model_validate(
        {
            "data": {"train": [corpus], "dev": {"tsv": "/nowhere/dev.tsv"}, "max_tokens": 50},
            "tokenizer": {"src": side, "tgt": side, "shared": model.get("tie") == "all"},
            "augment": NOTHING.model_dump(),  # classifiers have no other
            "model": {**sizes, **model},
            "train": {"max_steps": 2000, "threads": 1},
            "decode": {**_DECODE, "on_suspect": "off", "tag": tag},
        }
    )


def tiny_classifier_config(model: dict[str, Any], *, labels: Sequence[str] = LABELS, pairs: bool = False) -> Config:
    """As `tiny_config`, for a classifier."""
    values = tiny_config(model).model_dump(mode="json")
    values["data"] |= {"train": [{"tsv": "/nowhere/a.tsv"}], "labels": list(labels), "pairs": pairs}
    values["tokenizer"]["shared"] = True
    values["train"]["metric"] = "accuracy"
    return Config.model_validate({**values, "task": "classify"})


def tiny_classifier(folder: Path, spm: Path, cfg: Config) -> BundleFiles:
    """Writes the bundle of a random classifier to the folder."""
    size = Tokenizer.load(spm).vocab_size
    torch.manual_seed(3)
    model = new_network(cfg, size, size)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
        model.output.weight.normal_()  # zeros in a new one
    save_bundle(folder, model.state_dict(), cfg, spm, spm, training={})
    return read_bundle(folder, task="classify")


def tiny_tokenizer(folder: Path, cfg: Config, lines: Sequence[str] = SENTENCES) -> Path:
    """The file of a tokenizer for the lines, with the config's tag if it has one; each is trained once in a process."""
    path, tags = folder / "any.spm", [cfg.decode.tag] if cfg.decode.tag else []
    key = repr((lines, cfg.tokenizer.src, tags))
    if key not in _LEARNED:
        _LEARNED[key] = learn_model(lines, cfg.tokenizer.src, path, tags)
    write_bytes(path, _LEARNED[key])
    return path


def tiny_bundle(folder: Path, spm: Path, cfg: Config) -> Bundle:
    """Writes the bundle of a random model to the folder; its probabilities are far from even."""
    _save(folder, spm, cfg, _random_model(cfg, spm, seed=3, scale=1.5))
    return load_bundle(folder)


def save_tiny_bundle(
    folder: Path,
    test: dict[str, str] | None,
    *,
    train: dict[str, str] | None = None,
    dev: dict[str, str] | None = None,
    seed: int = 7,
    **shape: Any,
) -> None:
    """The bundle of a random model of one layer a side, whose config names these sets; it says whole pieces only."""
    nowhere = {"tsv": "/nowhere.tsv"}
    cfg = Config.model_validate(
        {
            "seed": seed,
            "data": {"train": [train or nowhere], "dev": dev or nowhere, "test": test},
            "tokenizer": {"src": {"vocab_size": 300}},
            "model": {"d_model": 16, "d_ff": 32, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1, **shape},
            "train": {"max_epochs": 1, "threads": 1},
            "decode": _DECODE,
        }
    )
    spm = tiny_tokenizer(folder.parent, cfg, SRC + REF)
    model = _random_model(cfg, spm, seed=seed, scale=3.0)
    with torch.no_grad():
        model.output.bias[: EOS_ID + 257] -= 30  # no end, no single bytes
    _save(folder, spm, cfg, model)


def _random_model(cfg: Config, spm: Path, *, seed: int, scale: float) -> Transformer:
    return tiny_transformer(Tokenizer.load(spm).vocab_size, seed=seed, scale=scale, **cfg.model.model_dump())


def _save(folder: Path, spm: Path, cfg: Config, model: Transformer) -> None:
    save_bundle(folder, model.state_dict(), cfg, spm, spm, training={})

"""Bundles of tiny random models of any shape: what they say means nothing, but all of it can be looked into."""

from pathlib import Path
from typing import Any

import torch

from mtkit.config.schema import Config
from mtkit.data.tokenizer import Tokenizer, train_tokenizer
from mtkit.decoding.bundle import Bundle, load_bundle, save_bundle
from mtkit.model.transformer import Transformer

SENTENCES = ["I love oranges.", "The cat sleeps under the table.", "Do you see the big house?", "It rains, it rains."]
# Every choice that the config has for the shape of a model, each at least once.
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "post-norm, learned positions": {"norm_position": "post", "positions": "learned", "max_positions": 64},
    "rotary, RMSNorm, SwiGLU, all tied": {
        **{"positions": "rotary", "norm": "rmsnorm", "activation": "swiglu", "tie": "all"},
    },
    "SSRU, nothing tied": {"decoder": "ssru", "positions": "marian", "tie": "none"},
}


def tiny_config(model: dict[str, Any], *, tag: str | None = None, **tokenizer: Any) -> Config:
    """model: what differs from a small model with two layers a side."""
    sizes = {"d_model": 16, "d_ff": 32, "n_heads": 2, "n_encoder_layers": 2, "n_decoder_layers": 2}
    side = {"vocab_size": 300, **tokenizer}
    corpus = {"src": "/nowhere/a.en", "tgt": "/nowhere/a.fr", "tag": tag}
    return Config.model_validate(
        {
            "data": {"train": [corpus], "dev": {"tsv": "/nowhere/dev.tsv"}, "max_tokens": 50},
            "tokenizer": {"src": side, "tgt": side, "shared": model.get("tie") == "all"},
            "model": {**sizes, **model},
            "train": {"max_steps": 2000, "threads": 1},
            "decode": {"beam_size": 3, "max_len_factor": 1.0, "max_len_constant": 4, "on_suspect": "off", "tag": tag},
        }
    )


def tiny_tokenizer(folder: Path, cfg: Config) -> Path:
    """The file of a tokenizer for SENTENCES, with the config's tag if it has one."""
    path = folder / "any.spm"
    train_tokenizer(SENTENCES, cfg.tokenizer.src, path, [cfg.decode.tag] if cfg.decode.tag else [])
    return path


def tiny_bundle(folder: Path, spm: Path, cfg: Config) -> Bundle:
    """Writes the bundle of a random model to the folder; its probabilities are far from even."""
    size = Tokenizer.load(spm).vocab_size
    torch.manual_seed(3)
    model = Transformer(cfg.model, size, size)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    save_bundle(folder, model.state_dict(), cfg, spm, spm, training={})
    return load_bundle(folder)

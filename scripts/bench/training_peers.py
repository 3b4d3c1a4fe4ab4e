"""Marian and JoeyNMT as trainers of the same network on the same pieces: their files, their commands, their logs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import marian
import numpy as np
import yaml

from mtkit.config.schema import Config

LOG_EVERY = 2  # updates from one line of a log to the next
_NEVER = 1_000_000_000
_UNUSED = ("<pad>", "<s>")  # rows of the vocabulary that keep the peers' matrices as large as mtkit's


@dataclass(frozen=True)
class Pieces:
    """The training pairs, cut into pieces, and all pieces of each side in the order of mtkit's ids."""

    src: list[list[str]]
    tgt: list[list[str]]
    src_vocabulary: list[str]
    tgt_vocabulary: list[str]

    @property
    def sizes(self) -> list[int]:
        """Tokens of each pair's longer side, its end counted."""
        return [max(len(src), len(tgt)) + 1 for src, tgt in zip(self.src, self.tgt, strict=True)]


def write_marian(cfg: Config, pieces: Pieces, folder: Path, threads: int, batch_words: int) -> list[str]:
    """Write what Marian reads; returns the arguments for its Python. batch_words: source words in a batch."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_text(pieces, range(len(pieces.src)), folder)
    for side, vocabulary in (("src", pieces.src_vocabulary), ("tgt", pieces.tgt_vocabulary)):
        names = ["</s>", "<unk>", *_UNUSED, *vocabulary[4:]]
        (folder / f"{side}.yml").write_text(
            yaml.safe_dump({name: number for number, name in enumerate(names)}, allow_unicode=True), encoding="utf-8"
        )
    options = marian.options(cfg, folder, threads, marian.Batches(batch_words, cfg.train.lr, cfg.train.warmup_steps))
    options |= {
        "vocabs": [str(folder / "src.yml"), str(folder / "tgt.yml")],
        "max-length": 1000,  # the text is chosen already
        "clip-norm": cfg.train.max_grad_norm,
        "exponential-smoothing": 0,  # the others keep no mean either
        "disp-freq": f"{LOG_EVERY}u",
    }
    (folder / "config.yml").write_text(yaml.safe_dump(options, sort_keys=False), encoding="utf-8")
    return ["-m", "pymarian", "train", "--no-reload", "--config", str(folder / "config.yml")]


def read_marian(log: str) -> list[tuple[float, float]]:
    """Target tokens a second and seconds of each line; Marian counts the ends of sentences, too."""
    found = re.findall(r"Time ([\d.]+)s : ([\d.]+) words/s", log)
    return [(float(speed), float(seconds)) for seconds, speed in found]


def write_joeynmt(cfg: Config, pieces: Pieces, folder: Path, *, ordered: bool) -> list[str]:
    """Write what JoeyNMT reads; returns the arguments for its Python.

    ordered: the text is laid out so that its batches, filled one line after the other, hold sentences of like length.
    """
    folder.mkdir(parents=True, exist_ok=True)
    batches = joeynmt_batches(pieces.sizes, cfg.train.n_batch_tokens, cfg.seed)
    order = [number for batch in batches for number in batch] if ordered else range(len(pieces.src))
    _write_text(pieces, order, folder)
    for side, vocabulary in (("src", pieces.src_vocabulary), ("tgt", pieces.tgt_vocabulary)):
        lines = ["<unk>", "<pad>", "<s>", "</s>", *vocabulary[4:]]
        (folder / f"{side}.vocab").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    config = _joeynmt_config(cfg, folder, shuffle=not ordered)
    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return ["-m", "joeynmt", "train", str(folder / "config.yaml"), "--skip-test"]


def joeynmt_batches(sizes: Sequence[int], batch_tokens: int, seed: int) -> list[list[int]]:
    """Pairs of like size together, in batches that end where JoeyNMT ends one, the batches in random order.

    It ends a batch with the pair that brings the number of pairs times the largest size to batch_tokens. The pairs
    that are left over at the end make no batch.
    """
    batches, batch = [], []
    for number in np.argsort(sizes, kind="stable").tolist():
        batch.append(number)
        if len(batch) * sizes[number] >= batch_tokens:
            batches.append(batch)
            batch = []
    return [batches[i] for i in np.random.default_rng(seed).permutation(len(batches))]


def read_joeynmt(log: str) -> list[float]:
    """Target tokens a second of each line, ends counted."""
    return [float(speed) for speed in re.findall(r"Tokens per Sec: +(\d+)", log)]


def _joeynmt_config(cfg: Config, folder: Path, *, shuffle: bool) -> dict[str, Any]:
    model, train = cfg.model, cfg.train
    layers = {
        "type": "transformer",
        "num_heads": model.n_heads,
        "hidden_size": model.d_model,
        "ff_size": model.d_ff,
        "dropout": model.residual_dropout,  # one for all places
        "layer_norm": model.norm_position,
        "embeddings": {"embedding_dim": model.d_model, "scale": True, "dropout": model.embedding_dropout},
    }
    sides = {"src": ("src", "src"), "trg": ("tgt", "tgt")}
    return {
        "name": "bench",
        "model_dir": str(folder / "model"),
        "use_cuda": False,
        "random_seed": cfg.seed,
        "data": {
            "train": str(folder / "train"),
            "dev": str(folder / "dev"),
            "dataset_type": "plain",
            **{
                key: {"lang": lang, "level": "word", "voc_file": str(folder / f"{side}.vocab")}
                for key, (lang, side) in sides.items()
            },
        },
        "testing": {"beam_size": 1, "max_output_length": 10},
        "training": {
            "optimizer": "adamw",
            "adam_betas": list(train.adam_betas),
            "learning_rate": train.lr,
            "learning_rate_min": 1e-12,
            "scheduling": "warmupinversesquareroot",
            "learning_rate_warmup": train.warmup_steps,
            "label_smoothing": train.label_smoothing,
            "clip_grad_norm": train.max_grad_norm,
            "normalization": "tokens",
            "loss": "crossentropy",
            "batch_type": "token",
            "batch_size": train.n_batch_tokens,
            "epochs": _NEVER,
            "logging_freq": LOG_EVERY,
            "validation_freq": _NEVER,
            "shuffle": shuffle,
            "overwrite": True,
        },
        "model": {
            "initializer": "xavier_uniform",
            "tied_softmax": model.tie != "none",
            "encoder": {**layers, "num_layers": model.n_encoder_layers},
            "decoder": {**layers, "num_layers": model.n_decoder_layers},
        },
    }


def _write_text(pieces: Pieces, order: Sequence[int], folder: Path) -> None:
    for side, sentences in (("src", pieces.src), ("tgt", pieces.tgt)):
        lines = [" ".join(sentences[number]) + "\n" for number in order]
        (folder / f"train.{side}").write_text("".join(lines), encoding="utf-8")
        (folder / f"dev.{side}").write_text("".join(lines[:2]), encoding="utf-8")

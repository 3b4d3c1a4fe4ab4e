"""A model with random weights: its translations are nonsense, but always the same. And files of text around it."""

import gzip
from pathlib import Path

import torch

from mtkit.config.schema import Config
from mtkit.data.special_ids import EOS_ID
from mtkit.data.tokenizer import train_tokenizer
from mtkit.decoding.bundle import save_bundle
from mtkit.model.transformer import Transformer

SRC = ["The cat sleeps.", "It rains.", "", "We eat under the table."]
REF = ["Le chat dort.", "Il pleut.", "", "Nous mangeons sous la table."]


def write_lines(path: Path | str, lines: list[str]) -> Path:
    opened = gzip.open if Path(path).suffix == ".gz" else open
    with opened(path, "wt", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    return Path(path)


def save_tiny_bundle(folder: Path, test: dict[str, str] | None, *, seed: int = 7, d_ff: int = 32) -> None:
    nowhere = {"tsv": "/nowhere.tsv"}
    sizes = {"d_model": 16, "d_ff": d_ff, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}
    config = Config.model_validate(
        {
            "seed": seed,
            "data": {"train": [nowhere], "dev": nowhere, "test": test},
            "tokenizer": {"src": {"vocab_size": 300}},
            "model": sizes,
            "train": {"max_epochs": 1, "threads": 1},
            "decode": {"beam_size": 3, "max_len_factor": 1.0, "max_len_constant": 4},
        }
    )
    spm = folder.parent / "any.spm"
    vocab_size = train_tokenizer(SRC + REF, config.tokenizer.src, spm).vocab_size
    torch.manual_seed(seed)
    model = Transformer(config.model, vocab_size, vocab_size)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)  # far from uniform, so that the beam size matters
        model.output.bias[: EOS_ID + 257] -= 30  # whole pieces only: no end, no single bytes
    save_bundle(folder, model.state_dict(), config, spm, spm, training={})

"""A teacher and its text, and stand-ins for what takes time in making a student."""

from pathlib import Path

import pytest
import torch
from pretended_students import SOURCES, StandIns

from mtkit.bundle import save_bundle
from mtkit.config.schema import Config
from mtkit.model.transformer import Transformer
from mtkit.runs.students import make
from mtkit.tokens.tokenizer import Tokenizer


@pytest.fixture
def texts(tmp_path) -> dict[str, str]:
    (tmp_path / "a.en").write_text("".join(f"{line}\n" for line in SOURCES))
    (tmp_path / "a.fr").write_text("".join(f"target {line}\n" for line in SOURCES))
    return {"src": str(tmp_path / "a.en"), "tgt": str(tmp_path / "a.fr")}


@pytest.fixture
def save_model(tmp_path, spm, texts):
    """save_model(folder, augment={...}, train=[...]): a bundle whose config has tokenizers of 300 and 400 pieces."""

    def save(folder: Path, augment: dict[str, float] | None = None, **data: object) -> Path:
        sizes = {"d_model": 16, "d_ff": 32, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}
        pieces = {side: {"type": "bpe", "vocab_size": size} for side, size in (("src", 300), ("tgt", 400))}
        corpora = {"train": [{**texts, "weight": 2.0}], "dev": texts, "src_lang": "en", "tgt_lang": "fr"}
        values = {"data": {**corpora, **data}, "tokenizer": pieces, "model": sizes, "train": {"threads": 1}}
        values["augment"] = augment or {}
        cfg = Config.model_validate(values)
        vocab_size = Tokenizer.load(spm).vocab_size
        model = Transformer(cfg.model, vocab_size, vocab_size)
        save_bundle(folder, model.state_dict(), cfg, spm, spm, training={"dev": {"bleu": 12.5}})
        return folder

    return save


@pytest.fixture
def teacher(save_model, tmp_path) -> Path:
    return save_model(tmp_path / "teacher")


@pytest.fixture
def work(monkeypatch, save_model) -> StandIns:
    torch.set_num_threads(1)
    work = StandIns(save_model)
    for name in ("with_teachers_text", "train", "export_bundle"):
        monkeypatch.setattr(make, name, getattr(work, name))
    monkeypatch.setattr(make, "_seconds_per_line", work.seconds_per_line)
    monkeypatch.setattr(make, "figures_of", work.figures)
    return work


@pytest.fixture
def mono(tmp_path) -> Path:
    (tmp_path / "mono.en").write_text("".join(f"line {n}\n" for n in range(100)))
    return tmp_path / "mono.en"

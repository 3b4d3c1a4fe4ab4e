"""Small models in other systems' formats, made here: tokenizers learnt from a few lines, random weights."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch

from mtkit.bundle import save_bundle
from mtkit.config.schema import Config, TokenizerConfig
from mtkit.data.special_ids import BOS_ID
from mtkit.data.tokenizer import train_tokenizer
from mtkit.interop.marian import write_npz
from mtkit.model.transformer import Transformer

ENGLISH = ["I love oranges.", "The cat sleeps under the table.", "Do you see the big house?", "It rains, it rains."] * 3
FRENCH = ["J'aime les oranges.", "Le chat dort sous la table.", "Tu vois la grande maison ?", "Il pleut, il pleut."] * 3


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def train_spm() -> Callable[..., bytes]:
    """train_spm(lines, **settings of SentencePiece) gives a model; its own ids are unk 0, bos 1, eos 2."""

    trained: dict[str, bytes] = {}

    def train(lines: list[str], **settings: Any) -> bytes:
        if (key := repr((lines, settings))) not in trained:
            trained[key] = learn(lines, settings)
        return trained[key]

    def learn(lines: list[str], settings: dict[str, Any]) -> bytes:
        model = io.BytesIO()
        settings = {"vocab_size": 60, "hard_vocab_limit": False, "num_threads": 1, **settings}
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=model, minloglevel=2, **settings
        )
        return model.getvalue()

    return train


@pytest.fixture(scope="session")
def english_spm(train_spm) -> bytes:
    return train_spm(ENGLISH)


@pytest.fixture(scope="session")
def french_spm(train_spm) -> bytes:
    return train_spm(FRENCH)


@pytest.fixture(scope="session")
def make_marian(train_spm) -> Callable[..., Path]:
    """make_marian(folder, ...) writes a random model of Marian's with its vocabularies; returns the .npz."""

    def make(
        folder: Path, *, tied: str = "tied-embeddings", pre: bool = True, as_mtkit: bool = False, **changes: Any
    ) -> Path:
        folder.mkdir(parents=True)
        # as Marian trains them: no <s> and no <pad>
        ids = {"eos_id": 0, "unk_id": 1, "bos_id": -1}
        if as_mtkit:
            ids = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3}
        one_vocabulary = tied in ("tied-embeddings-all", "tied-embeddings-src")
        src = train_spm(ENGLISH + FRENCH if one_vocabulary else ENGLISH, **ids)
        tgt = src if one_vocabulary else train_spm(FRENCH, **ids)
        (folder / "src.spm").write_bytes(src)
        (folder / "tgt.spm").write_bytes(tgt)
        sizes = [sentencepiece.SentencePieceProcessor(model_proto=spm).get_piece_size() for spm in (src, tgt)]
        parameters = marian_parameters(sizes, tied, "_pre" if pre else "", top=pre)
        options = {
            "type": "transformer",
            "dim-vocabs": sizes,
            "dim-emb": 16,
            "enc-depth": 1,
            "dec-depth": 2,
            "transformer-heads": 2,
            "transformer-dim-ffn": 32,
            "transformer-ffn-activation": "swish",
            "transformer-decoder-autoreg": "self-attention",
            "transformer-preprocess": "n" if pre else "",
            "transformer-postprocess": "da" if pre else "dan",
            "transformer-postprocess-top": "n" if pre else "",
            "transformer-postprocess-emb": "d",
            "transformer-no-projection": False,
            "transformer-guided-alignment-layer": "last",
            "tied-embeddings": tied == "tied-embeddings",
            "tied-embeddings-src": tied == "tied-embeddings-src",
            "tied-embeddings-all": tied == "tied-embeddings-all",
            **changes,
        }
        write_npz(folder / "model.npz", parameters, options)
        decoder = "relative-paths: true\nmodels: [model.npz]\nvocabs: [src.spm, tgt.spm]\nbeam-size: 5\nnormalize: 1\n"
        (folder / "model.npz.decoder.yml").write_text(decoder)
        return folder / "model.npz"

    return make


def marian_parameters(sizes: list[int], tied: str, suffix: str, *, top: bool) -> dict[str, Any]:
    """Random parameters under Marian's names: 16 wide, 32 inside, one encoder layer and two decoder layers."""
    rng = np.random.default_rng(1)

    def draw(*shape: int) -> Any:
        return (rng.standard_normal(shape) * 0.5).astype(np.float32)

    parameters = {"decoder_ff_logit_out_b": draw(1, sizes[1])}
    if tied in ("tied-embeddings-all", "tied-embeddings-src"):
        parameters["Wemb"] = draw(sizes[0], 16)
    else:
        parameters |= {"encoder_Wemb": draw(sizes[0], 16), "decoder_Wemb": draw(sizes[1], 16)}
    if tied in ("none", "tied-embeddings-src"):
        parameters["decoder_ff_logit_out_Wt"] = draw(sizes[1], 16)
    for layer in ("encoder_l1", "decoder_l1", "decoder_l2"):
        for block in ("self", "context")[: 1 if layer == "encoder_l1" else 2]:
            for part in "qkvo":
                parameters |= {f"{layer}_{block}_W{part}": draw(16, 16), f"{layer}_{block}_b{part}": draw(1, 16)}
            parameters |= {f"{layer}_{block}_Wo_ln_{what}{suffix}": draw(1, 16) for what in ("scale", "bias")}
        parameters |= {f"{layer}_ffn_W1": draw(16, 32), f"{layer}_ffn_b1": draw(1, 32)}
        parameters |= {f"{layer}_ffn_W2": draw(32, 16), f"{layer}_ffn_b2": draw(1, 16)}
        parameters |= {f"{layer}_ffn_ffn_ln_{what}{suffix}": draw(1, 16) for what in ("scale", "bias")}
    if top:
        parameters |= {f"{side}_top_ln_{w}": draw(1, 16) for side in ("encoder", "decoder") for w in ("scale", "bias")}
    return parameters


@pytest.fixture(scope="session")
def make_native(tmp_path_factory) -> Callable[..., Path]:
    """make_native(folder, tie, ...) writes a bundle as mtkit trains them; its model is random."""
    spm = tmp_path_factory.mktemp("native") / "any.spm"
    size = train_tokenizer(ENGLISH, TokenizerConfig(vocab_size=300), spm).vocab_size

    def make(folder: Path, tie: str, *, zero_start: bool = False, **model: Any) -> Path:
        side = {"vocab_size": 300}
        shape = {"d_model": 16, "d_ff": 32, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1, "tie": tie}
        cfg = Config.model_validate(
            {
                "data": {"train": [{"tsv": "/nowhere/a.tsv"}], "dev": {"tsv": "/nowhere/dev.tsv"}},
                "tokenizer": {"src": side, "tgt": side, "shared": tie == "all"},
                "model": {**shape, "norm_position": "post", **model},
                "train": {"max_epochs": 1},
            }
        )
        torch.manual_seed(3)
        network = Transformer(cfg.model, size, size)
        for parameter in network.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
        if zero_start:
            torch.nn.init.zeros_(network.tgt_embedding.weight.data[BOS_ID])
        save_bundle(folder, network.state_dict(), cfg, spm, spm, training={})
        return folder

    return make

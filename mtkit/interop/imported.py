"""A model of another system as a bundle: its config, its tokenizers, and where it came from."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from mtkit.bundle import Bundle, save_bundle
from mtkit.config.schema import Config, DecodeConfig, ModelConfig, TokenizerConfig
from mtkit.data.sentencepiece_file import parse
from mtkit.files import sha256_file
from mtkit.interop.vocabulary import Layout

_NORMALIZATIONS = ("nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity")


@dataclass(frozen=True)
class Languages:
    """What people call the two sides."""

    src: str = "src"
    tgt: str = "tgt"


@dataclass(frozen=True)
class Origin:
    """Where an imported model came from, as the manifest tells it; what an export needs to give it back as it was."""

    format: str
    file: str
    sha256: str
    src: Layout
    tgt: Layout
    details: Mapping[str, Any]  # of the format

    def as_json(self) -> dict[str, Any]:
        """For the manifest."""
        vocabulary = {"src": self.src.as_json(), "tgt": self.tgt.as_json()}
        named = {"format": self.format, "file": self.file, "sha256": self.sha256}
        return {"imported": {**named, "vocabulary": vocabulary, "details": dict(self.details)}}


def origin_of(path: Path, kind: str, src: Layout, tgt: Layout, details: Mapping[str, Any]) -> Origin:
    """The origin of what was read from the file."""
    return Origin(kind, path.name, sha256_file(path), src, tgt, details)


def origin_in(bundle: Bundle, kind: str) -> Origin:
    """What the bundle tells of its origin in this format; without that, mtkit's own layout of the vocabularies."""
    found = bundle.manifest.get("training", {}).get("imported", {})
    if found.get("format") != kind:
        src, tgt = (Layout.of_mtkit(side.vocab_size) for side in (bundle.src_tokenizer, bundle.tgt_tokenizer))
        return Origin(kind, "", "", src, tgt, {})
    src, tgt = (Layout.from_json(found["vocabulary"][side]) for side in ("src", "tgt"))
    return Origin(kind, found["file"], found["sha256"], src, tgt, found["details"])


def save_imported(
    out: Path,
    state: Mapping[str, Tensor],
    model: ModelConfig,
    tokenizers: tuple[bytes, bytes],
    decode: DecodeConfig,
    languages: Languages,
    origin: Origin,
) -> None:
    """Write the bundle; state and tokenizers (SentencePiece models) are in mtkit's order of ids."""
    cfg = _config(model, tokenizers, decode, languages)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{side}.spm") for side in ("src", "tgt")]
        for path, tokenizer in zip(paths, tokenizers, strict=True):
            path.write_bytes(tokenizer)
        save_bundle(out, state, cfg, *paths, training=origin.as_json())


def _config(model: ModelConfig, tokenizers: tuple[bytes, bytes], decode: DecodeConfig, languages: Languages) -> Config:
    src, tgt = map(_tokenizer_config, tokenizers)
    return Config.model_validate(
        {
            # Nobody knows what it learnt from. Names of files that do not exist keep the section as it is for all
            # other models; whoever trains on puts names of real ones there, and gets an error that says so until then.
            "data": {
                "src_lang": languages.src,
                "tgt_lang": languages.tgt,
                "train": [{"src": f"unknown/train.{languages.src}", "tgt": f"unknown/train.{languages.tgt}"}],
                "dev": {"src": f"unknown/dev.{languages.src}", "tgt": f"unknown/dev.{languages.tgt}"},
            },
            "tokenizer": {"src": src, "tgt": tgt, "shared": model.tie == "all"},
            "model": model.model_dump(),
            "train": {"max_epochs": 1},
            "decode": decode.model_dump(),
        }
    )


def _tokenizer_config(tokenizer: bytes) -> dict[str, Any]:
    """What of the tokenizer's settings the config has words for; they matter only if it is trained anew."""
    model = parse(tokenizer)
    defaults = TokenizerConfig()
    known = model.normalization in _NORMALIZATIONS
    return {
        "type": model.algorithm if model.algorithm in ("unigram", "bpe", "char") else defaults.type,
        "vocab_size": max(264, len(model.pieces)),
        "byte_fallback": model.byte_fallback,
        "normalization": model.normalization if known else defaults.normalization,
    }

"""A translator whose model copies: the translation of a line is the line."""

from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor, nn

from mtkit.config.decoding import DecodeConfig
from mtkit.engines.native import NativeEngine
from mtkit.model.transformer import Transformer
from mtkit.tokens.tokenizer import Tokenizer
from mtkit.translation.translator import Translator

ALPHABET = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ.,!?\n\u2028"


class Letters:
    """A tokenizer with one token per character; white space is normalised as SentencePiece does it."""

    vocab_size = 4 + len(ALPHABET)
    placeholders = None

    def encode(self, text: str) -> list[int]:
        return [4 + ALPHABET.index(c) for c in " ".join(text.split()) if c in ALPHABET]

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    encode_replaced = encode_batch

    def encode_translations(self, texts: list[str], srcs: list[str]) -> list[list[int]]:
        return self.encode_batch(texts)

    def piece_ids(self, pieces: list[str]) -> list[int]:
        return [4 + ALPHABET.index(piece) for piece in pieces]

    def byte_ids(self) -> list[int]:
        return []

    def normalize(self, text: str) -> str:
        return text

    def decode(self, ids: list[int]) -> str:
        return "".join(ALPHABET[i - 4] for i in ids)


LETTERS = cast(Tokenizer, Letters())


class CopyModel(nn.Module):
    """Predicts the source, token by token: the translation of a line is the line."""

    rounds_by_batch = True

    def __init__(self, positions: str = "sinusoidal", max_positions: int = 1024) -> None:
        super().__init__()
        self.cfg = SimpleNamespace(positions=positions, max_positions=max_positions, d_model=8)
        self.shapes: list[tuple[int, ...]] = []  # of the sources it was given

    def start_decoding(self, src: Tensor, beam_size: int) -> "CopyCache":
        self.shapes.append(tuple(src.shape))
        return CopyCache(src)

    def decode_step(self, last_ids: Tensor, cache: "CopyCache") -> Tensor:
        next_ids = cache.src[:, min(cache.length, cache.src.size(1) - 1)]
        cache.length += 1
        logits = torch.zeros(*last_ids.shape, Letters.vocab_size)
        return logits.scatter_(2, next_ids[:, None, None].expand(*last_ids.shape, 1), 20.0)

    def choose(self, *_: object) -> None: ...


class CopyCache:
    def __init__(self, src: Tensor) -> None:
        self.src = src
        self.length = 0

    def reorder(self, parents: Tensor) -> None:
        pass  # all hypotheses of a sentence continue alike

    def select(self, sentences: Tensor) -> None:
        self.src = self.src[sentences]


def copying(model: nn.Module | None = None, *, by_sentence: bool = False, **decode: Any) -> Translator:
    return Translator(
        NativeEngine([cast(Transformer, model or CopyModel())]),
        LETTERS,
        LETTERS,
        DecodeConfig(**({"on_suspect": "off"} | decode)),
        by_sentence=by_sentence,
    )

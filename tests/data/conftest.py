import logging
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from mtkit.config.schema import CorpusFiles, TokenizerConfig
from mtkit.data.tokenizer import Tokenizer, train_tokenizer

_TEXT = {
    "src": "the a cat dog house tree sees likes finds big small old red in on under and not today",
    "tgt": "le la un une chat chien maison arbre voit aime trouve grand petit vieux rouge dans sur sous et pas",
}


def _make_lines(side: str, n: int, seed: int = 0) -> list[str]:
    words = _TEXT[side].split()
    chance = random.Random(f"{side} {seed}")
    return [" ".join(chance.choices(words, k=chance.randint(1, 12))).capitalize() + "." for _ in range(n)]


@pytest.fixture(scope="session")
def make_lines() -> Callable[..., list[str]]:
    """make_lines(side, n, seed=0): n sentences of 1 to 12 words."""
    return _make_lines


@pytest.fixture(scope="session")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tokenizer, Tokenizer]:
    folder = tmp_path_factory.mktemp("tokenizers")
    cfg = TokenizerConfig(type="bpe", vocab_size=320)
    src, tgt = (train_tokenizer(_make_lines(side, 500), cfg, folder / f"{side}.spm") for side in ("src", "tgt"))
    return src, tgt


@pytest.fixture
def write_corpus(tmp_path: Path) -> Callable[..., CorpusFiles]:
    """write_corpus(src_lines, tgt_lines, name="train"): the lines as two files of tmp_path."""

    def write(src: list[str], tgt: list[str], name: str = "train") -> CorpusFiles:
        for side, lines in (("src", src), ("tgt", tgt)):
            (tmp_path / f"{name}.{side}").write_bytes("".join(line + "\n" for line in lines).encode())
        return CorpusFiles(src=tmp_path / f"{name}.src", tgt=tmp_path / f"{name}.tgt")

    return write


@pytest.fixture
def log_text(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """What was logged since the last call."""
    monkeypatch.setattr(logging.getLogger("mtkit"), "propagate", True)
    caplog.set_level(logging.INFO, "mtkit")

    def take() -> str:
        text = "\n".join(caplog.messages)
        caplog.clear()
        return text

    return take

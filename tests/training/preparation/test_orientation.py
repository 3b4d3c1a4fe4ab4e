"""Swapped files are noticed by their endings and by their text."""

from pathlib import Path
from typing import Any

import pytest
from tiny_corpus import write_corpus

from mtkit.config.schema import Config
from mtkit.errors import ConfigError, DataError
from mtkit.training.preparation.orientation import check_file_names
from mtkit.training.preparation.prepare import prepare
from mtkit.training.update.checkpoint import Checkpoints


def swapped(files: dict[str, str]) -> dict[str, str]:
    return {"src": files["tgt"], "tgt": files["src"]}


@pytest.mark.parametrize("key", ["train", "dev", "test"])
def test_endings_the_wrong_way_round_are_refused(config_of, corpus, tmp_path, key):
    data: dict[str, Any] = {**corpus, "test": corpus["dev"], "src_lang": "en", "tgt_lang": "fr"}
    check_file_names(config_of(tmp_path, data=data))
    data[key] = [swapped(corpus["train"][0])] if key == "train" else swapped(corpus["dev"])
    with pytest.raises(ConfigError, match=rf"data\.{key}.*train\.fr|data\.{key}.*dev\.fr"):
        check_file_names(config_of(tmp_path, data=data))


def test_a_tag_may_stand_for_the_other_direction(config_of, corpus, tmp_path):
    back = {**swapped(corpus["train"][0]), "tag": "<2en>"}
    data = {**corpus, "train": [*corpus["train"], back], "src_lang": "en", "tgt_lang": "fr"}
    check_file_names(config_of(tmp_path, data=data))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("which", ["data.dev", "data.train.1", "none"])
def test_text_the_wrong_way_round_is_refused_whatever_its_name(config_of, tmp_path, which, shared):
    files = {name: write_corpus(tmp_path, name, 60, seed=i) for i, name in enumerate(("train", "more", "dev"))}
    plain = {
        name: {side: str(Path(path).rename(tmp_path / f"{name}.{side}.txt")) for side, path in corpus.items()}
        for name, corpus in files.items()
    }
    if which == "data.dev":
        plain["dev"] = swapped(plain["dev"])
    if which == "data.train.1":
        plain["more"] = swapped(plain["more"])
    data = {"train": [plain["train"], plain["more"]], "dev": plain["dev"]}
    pieces = {"type": "unigram", "vocab_size": 300}
    tokenizer = {"src": pieces, "tgt": pieces, "shared": shared}
    cfg: Config = config_of(tmp_path / "run", data=data, tokenizer=tokenizer)
    (tmp_path / "run").mkdir()
    if which == "none":
        prepare(cfg, tmp_path / "run", Checkpoints(tmp_path / "checkpoints"))
    else:
        with pytest.raises(DataError, match=rf"{which}: .*its sides are swapped"):
            prepare(cfg, tmp_path / "run", Checkpoints(tmp_path / "checkpoints"))

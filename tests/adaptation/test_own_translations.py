"""The translations of general text that an adaptation mixes in are those that the model gives its users."""

import random

import pytest
from tiny_models import save_tiny_bundle, write_lines

from mtkit.adaptation import adapt as adapting
from mtkit.bundle import read_bundle
from mtkit.errors import DataError


def test_general_text_is_translated_by_the_models_own_search(tmp_path, monkeypatch):
    monkeypatch.setattr("mtkit.corpora.cleaning.clean.active_rules", lambda cfg: ["empty"])
    save_tiny_bundle(tmp_path / "base", None)
    draw = random.Random(1)
    rows = ["\t".join("".join(draw.choices(letters, k=30)) for letters in ("abcd ", "lmno ")) for _ in range(200)]
    memory = write_lines(tmp_path / "memory.tsv", rows)
    searches = []

    def stop(*args, **kwargs):
        searches.append(args[4].decode)
        raise DataError("enough")

    monkeypatch.setattr(adapting, "prepare_general", stop)
    with pytest.raises(DataError, match="enough"):
        adapting.adapt(tmp_path / "base", [memory], tmp_path / "out", "1m")
    assert [search.beam_size for search in searches] == [read_bundle(tmp_path / "base").config.decode.beam_size] != [1]

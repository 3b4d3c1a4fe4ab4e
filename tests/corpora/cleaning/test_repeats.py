"""Exact repeats over shards are those that one dictionary of all texts finds."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.corpora.cleaning import repeats
from mtkit.corpora.cleaning.repeats import Repeat, find_repeats, write_keys
from mtkit.jobs.executors import InProcess
from mtkit.jobs.job import Job, Stage, run_job

FIRST_LINE = 1_000_000_000_000  # more than 32 bits hold


@dataclass(frozen=True)
class WriteKeys:
    shards: list[list[str | None]]

    def __call__(self, index: int, folder: Path) -> Mapping[str, int]:
        texts = self.shards[index]
        write_keys(folder, "pair", texts, [FIRST_LINE + 1000 * index + line for line in range(len(texts))])
        return {}


def found(shards, partition_keys):
    """What find_repeats finds in each shard."""

    def make(job: Job) -> list[dict[int, Repeat]]:
        job.run(Stage("keys", WriteKeys(shards), len(shards)))
        again = find_repeats(job, "keys", len(shards), sum(map(len, shards)), "pair")
        per_shard = [again.of_shard(shard) for shard in range(len(shards))]
        job.finish(lambda: None)
        return per_shard

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeats, "_PARTITION_KEYS", partition_keys)
        return run_job(Path(folder) / "out", make, inputs=(), settings={}, executor=InProcess())


def expected(shards):
    """The same from one dictionary."""
    seen: dict[str, list[tuple[int, int]]] = {}
    per_shard = []
    for shard, texts in enumerate(shards):
        again = {}
        for index, text in enumerate(texts):
            if text is None:
                continue
            places = seen.setdefault(text, [])
            if places:
                first_shard, first_index = places[0]
                again[index] = Repeat(len(places), first_shard, FIRST_LINE + 1000 * first_shard + first_index)
            places.append((shard, index))
        per_shard.append(again)
    return per_shard


@settings(max_examples=15)
@given(
    st.lists(
        st.lists(st.one_of(st.none(), st.sampled_from(["", "a", "b", "ab", "é", "\0", "c d"])), max_size=8), max_size=4
    ),
    st.sampled_from([1, 3, 1000]),
)
def test_repeats_are_those_of_one_dictionary(shards, partition_keys):
    assert found(shards, partition_keys) == expected(shards)


def test_keys_that_agree_in_half_of_their_bits_are_not_the_same(monkeypatch):
    class Half:
        def __init__(self, text, digest_size):
            self.text = text

        def digest(self):
            return b"12345678" + self.text.ljust(8)  # the first 64 bits are equal for all

    monkeypatch.setattr("hashlib.blake2b", Half)
    shards = [["a", "b", "c", "b"], ["c", "d", "a"]]
    assert found(shards, 1) == expected(shards)


def test_the_keys_are_hashes_of_128_bits(tmp_path):
    write_keys(tmp_path, "pair", ["Hello"], [7])
    [[high], [low], [index], [line], [count]] = np.load(tmp_path / "pair.keys.npy").tolist()
    # printf Hello | b2sum -l 128
    assert (high.to_bytes(8, "little") + low.to_bytes(8, "little")).hex() == "ad10196e1159e75dd6be7d03f75be04f"
    assert (index, line, count) == (0, 7, 1)

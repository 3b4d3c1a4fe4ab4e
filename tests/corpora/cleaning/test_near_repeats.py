"""Near repeats over shards are those that one process finds in all pairs together, wherever they are cut."""

import random
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.corpora.cleaning import near_repeats
from mtkit.corpora.cleaning.near_duplicates import find_repeats
from mtkit.corpora.cleaning.near_repeats import NearRepeat, find_near_repeats, write_sketches
from mtkit.jobs.executors import InProcess
from mtkit.jobs.job import Job, Stage, run_job

Shard = list[tuple[str, str]]


@dataclass(frozen=True)
class WriteSketches:
    shards: list[Shard]

    def __call__(self, index: int, folder: Path) -> Mapping[str, int]:
        pairs = self.shards[index]
        lines = [1000 * index + row for row in range(len(pairs))]
        write_sketches(folder, pairs, [2 * row for row in range(len(pairs))], lines)  # every other pair was dropped
        return {}


def found(shards: list[Shard], partition_keys: int) -> list[dict[int, NearRepeat]]:
    def make(job: Job) -> list[dict[int, NearRepeat]]:
        job.run(Stage("rules", WriteSketches(shards), len(shards)))
        near = find_near_repeats(job, "rules", len(shards), sum(map(len, shards)))
        per_shard = [near.of_shard(shard) for shard in range(len(shards))]
        job.finish(lambda: None)
        return per_shard

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(near_repeats, "_PARTITION_KEYS", partition_keys)
        made = run_job(Path(folder) / "out", make, inputs=(), settings={}, executor=InProcess())
    assert made is not None
    return made


def pairs_with_repeats(n: int) -> Shard:
    rng = random.Random(5)
    words = ["".join(rng.choices("abcdefghiklmnoprstuvw", k=rng.randint(2, 9))) for _ in range(200)]
    pairs = [(" ".join(rng.choices(words, k=7)), " ".join(rng.choices(words, k=7))) for _ in range(n)]
    for i in rng.sample(range(1, n), n // 3):
        src, tgt = pairs[rng.randrange(i)]
        pairs[i] = (src.upper(), f"{tgt} !") if i % 2 else (src[:-1], tgt)
    return pairs


@pytest.fixture(scope="module")
def corpus() -> tuple[Shard, list[tuple[int, int]]]:
    """90 pairs, and the repeats among them: later, earlier."""
    pairs = pairs_with_repeats(90)
    later, earlier = find_repeats([pairs])
    assert len(later) > 25
    return pairs, list(zip(later.tolist(), earlier.tolist(), strict=True))


@given(cuts=st.lists(st.integers(0, 90), max_size=5), partition_keys=st.sampled_from([150, 400, 1 << 22]))
@settings(max_examples=12)
def test_where_the_corpus_is_cut_changes_nothing(corpus, cuts, partition_keys):
    pairs, repeats = corpus
    bounds = [0, *sorted(cuts), len(pairs)]
    shards = [pairs[begin:end] for begin, end in pairwise(bounds)]
    places = [(shard, row) for shard, rows in enumerate(shards) for row in range(len(rows))]
    expected: list[dict[int, NearRepeat]] = [{} for _ in shards]
    for one, first in repeats:
        (shard, row), (first_shard, first_row) = places[one], places[first]
        expected[shard][2 * row] = NearRepeat(first_shard, 1000 * first_shard + first_row)
    assert found(shards, partition_keys) == expected


def test_empty_shards_have_no_repeats():
    assert found([[], []], 100) == [{}, {}]
    assert found([[("", "")], [("", "")]], 100) == [{}, {}]

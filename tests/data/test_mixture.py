"""What an epoch draws from the corpora: temperature, weights, scores and stages."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.config.data import DataConfig
from mtkit.data.mixture import draws_of, epoch_pairs, mixtures_of, passes_of, scores_fingerprint, uniform, uses
from mtkit.errors import DataError


@pytest.fixture
def write(tmp_path):
    def write(name, lines):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return tmp_path / name

    return write


def encoded(*lines: list[int], lengths: Any = None) -> Any:
    """An encoded corpus, for each of the texts these line numbers."""
    n = sum(map(len, lines))
    lengths = np.full(n, 4, dtype=np.int32) if lengths is None else np.asarray(lengths, dtype=np.int32)
    return SimpleNamespace(
        sizes=[len(of_text) for of_text in lines],
        lines_of=lambda i: np.array(lines[i], dtype=np.int64),
        src_lengths=lengths,
        tgt_lengths=lengths,
        release=lambda: None,
    )


def data_of(*train: dict[str, Any], **keys: Any) -> DataConfig:
    return DataConfig(train=[dict(entry) for entry in train], dev={"tsv": "dev.tsv"}, **keys)


def test_the_shares_of_temperature_five_are_those_of_the_formula():
    # By hand: 32^(1/5) = 2, 1^(1/5) = 1, so two thirds and one third of the epoch's 33 pairs: 22 and 11.
    assert passes_of([32, 1], [1.0, 1.0], 5.0) == pytest.approx([22 / 32, 11.0])
    # Weight 2 for the small one: shares 2 to 2 of 32 + 2 pairs.
    assert passes_of([32, 1], [1.0, 2.0], 5.0) == pytest.approx([17 / 32, 17.0])


def test_at_a_high_temperature_the_weights_alone_are_the_shares():
    sizes, weights = [100_000, 300], [3.0, 1.0]
    drawn = [size * passes for size, passes in zip(sizes, passes_of(sizes, weights, 1000.0), strict=True)]
    assert drawn[0] / sum(drawn) == pytest.approx(0.75, abs=0.002)


@given(st.lists(st.tuples(st.integers(1, 10**6), st.floats(0.01, 100)), min_size=1, max_size=5), st.floats(1, 100))
def test_a_temperature_keeps_the_size_of_an_epoch_and_one_changes_nothing(corpora, temperature):
    sizes, weights = map(list, zip(*corpora, strict=True))
    assert passes_of(sizes, weights, 1.0) == weights
    of_epoch = sum(size * passes for size, passes in zip(sizes, passes_of(sizes, weights, temperature), strict=True))
    assert of_epoch == pytest.approx(sum(size * weight for size, weight in corpora))


def test_a_stage_draws_the_pairs_with_its_lowest_score(write):
    text, scores = write("a.tsv", ["x\ty"] * 6), write("a.scores", ["0.9\tgood", "0.1", "-1e3", "0.5", "0.89", "inf"])
    data = data_of({"tsv": "b.tsv"}, {"tsv": text, "scores": scores, "min_score": {0: 0.9, 0.5: 0.5, 0.75: None}})
    # Line 2 of the text was left out when it was encoded.
    corpus = encoded([1, 2], [1, 3, 4, 5, 6])
    drawn = [epoch_pairs(mixture, seed=1, epoch=0).tolist() for mixture in mixtures_of(data, corpus)]
    assert drawn == [[0, 1, 2, 6], [0, 1, 2, 4, 5, 6], [0, 1, 2, 3, 4, 5, 6]]


def test_weights_may_change_over_the_run_and_leave_a_corpus_out():
    data = data_of({"tsv": "a.tsv", "weight": {0.5: 0, 0: 1}}, {"tsv": "b.tsv", "weight": 2})
    mixtures = mixtures_of(data, encoded([1, 2, 3], [1]))
    assert [(mixture.begin, mixture.end) for mixture in mixtures] == [(0, 0.5), (0.5, 1)]
    assert [epoch_pairs(mixture, seed=1, epoch=3).tolist() for mixture in mixtures] == [[0, 1, 2, 3, 3], [3, 3]]


@pytest.mark.parametrize(
    ("lines", "facts"),
    [
        (["1", "nan", "1"], ("line 2", "'nan'", "not a number")),
        (["1", "", "1"], ("line 2", "''")),
        (["1", "1"], ("2 lines", "3 pairs", "data.train.1.scores")),
        (["0.1", "0.3", "0.2"], ("min_score=0.5", "data.train.1", "0.1 and 0.3", "above 0.2", "weight to 0")),
    ],
)
def test_scores_that_do_not_fit_the_text_are_refused(write, lines, facts):
    text, scores = write("a.tsv", ["x\ty"] * 3), write("a.scores", lines)
    data = data_of({"tsv": "b.tsv"}, {"tsv": text, "scores": scores, "min_score": 0.5})
    with pytest.raises(DataError) as error:
        mixtures_of(data, encoded([1], [1, 2, 3]))
    assert str(scores) in str(error.value)
    assert all(fact in str(error.value) for fact in facts), error.value


def test_minus_infinity_leaves_a_pair_out(write):
    text, scores = write("a.tsv", ["x\ty"] * 3), write("a.scores", ["-1e9", "-inf", "2"])
    data = data_of({"tsv": text, "scores": scores, "min_score": -1e300})
    [mixture] = mixtures_of(data, encoded([1, 2, 3]))
    assert mixture.sizes == [2]


def test_the_fingerprint_follows_the_scores_that_are_used(write):
    first, second = write("a.scores", ["1"]), write("b.scores", ["2"])
    one, other, unused = (
        scores_fingerprint(data_of({"tsv": "a.tsv", "scores": path, "min_score": lowest}))
        for path, lowest in ((first, 0.5), (second, 0.5), (second, None))
    )
    assert one != other
    assert unused == scores_fingerprint(data_of({"tsv": "a.tsv"})) == ""


def test_passes_and_shares_of_a_run_are_counted_by_hand():
    corpus = encoded(list(range(1, 9)), [1, 2], lengths=[3] * 8 + [7] * 2)
    mixture = uniform(corpus.sizes, [1.0, 5.0])
    big, small = uses(["big", "small"], [draws_of(mixture, corpus)], [3.0])
    # Three epochs: 24 pairs of 4 tokens with their ends, and 30 of 8.
    assert (big.passes, small.passes) == (3.0, 15.0)
    assert small.batch_share == pytest.approx(240 / (240 + 96))
    assert small.described("pair") == "small: 2 pairs, 71.4% of the batches, 15.0 passes"

"""The record of the words of a training text: what it counts, and that it is read as it was written."""

import zlib
from collections import Counter

import numpy as np
import pytest

from mtkit.errors import BundleError
from mtkit.tokens.word_record import WordRecord, load_words, record_words, save_words


def test_words_that_are_typed_letter_by_letter_are_counted():
    counts, *_ = record_words(10 * ["Two cats, two dogs.", "两只猫 两只", "see http://cats.org"])
    assert counts == Counter({"Two": 10, "cats": 10, "two": 10, "dogs": 10, "see": 10})


def test_a_bundle_does_not_list_rare_words(tmp_path):
    save_words(tmp_path / "words.npz", record_words([*10 * ["two cats"], *9 * ["Ms Miller has two"]]))
    record = load_words(tmp_path / "words.npz")
    assert record.counts == Counter({"two": 19, "cats": 10})
    assert record.rare == {zlib.crc32(word) for word in (b"ms", b"miller", b"has")}
    with np.load(tmp_path / "words.npz") as arrays:
        assert not any(b"iller" in arrays[name].tobytes() for name in arrays.files)


@pytest.mark.parametrize(
    "record",
    [
        WordRecord(Counter({"the": 3, "été": 2}), {"can": "?", "so": "", "can it": "."}, frozenset({3, 2**32 - 1})),
        WordRecord(Counter(), {}),
    ],
)
def test_a_record_is_read_as_it_was_written(tmp_path, record):
    save_words(tmp_path / "words.npz", record)
    assert load_words(tmp_path / "words.npz") == record


def test_a_record_without_openings_and_rare_words_is_one_of_words(tmp_path):
    np.savez(tmp_path / "words.npz", words=np.frombuffer(b"a\nb", np.uint8), counts=np.array([1, 2]))
    assert load_words(tmp_path / "words.npz") == WordRecord(Counter({"a": 1, "b": 2}), {})


def test_a_damaged_record_is_named(tmp_path):
    (tmp_path / "words.npz").write_bytes(b"PK")
    with pytest.raises(BundleError, match=r"words\.npz"):
        load_words(tmp_path / "words.npz")

"""Words of a source without a counterpart, by a lexicon written out by hand."""

from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from mtkit.alignment.coverage import Coverage, is_short, usual_ratio
from mtkit.bundle import read_bundle
from mtkit.errors import BundleError
from mtkit.tokens.tokenizer import Tokenizer

SRC = [
    "<pad>",
    "▁I",
    "▁love",
    "▁or",
    "anges",
    "▁and",
    "▁small",
    "▁dogs",
    ".",
    "▁Genf",
    "<ph1>",
    "橙",
    "子",
    "很",
    "小",
    "狗",
]
TGT = ["<pad>", "▁J'", "aime", "▁les", "▁oranges", "▁petits", "▁chiens", "▁et"]
# t(source | target)
KNOWN = {
    ("▁J'", "▁I"): 0.9,
    ("aime", "▁love"): 0.8,
    ("▁oranges", "▁or"): 0.5,
    ("▁et", "▁and"): 0.9,
    ("▁petits", "▁small"): 0.03,
    ("▁chiens", "▁dogs"): 0.019,
    ("▁oranges", "橙"): 0.5,
    ("▁oranges", "子"): 0.5,
}


class Pieces:
    def pieces(self, ids):
        return [SRC[i] for i in ids]

    def decode(self, ids):
        return "".join(self.pieces(ids)).replace("▁", " ")

    def untagged(self, ids):
        return list(ids)


def coverage() -> Coverage:
    entries = sorted((TGT.index(tgt) * len(SRC) + SRC.index(src), p) for (tgt, src), p in KNOWN.items())
    keys, probs = (np.array(column) for column in zip(*entries, strict=True))
    return Coverage(keys, probs.astype(np.float32), len(SRC), cast(Tokenizer, Pieces()))


def left_out(src: str, tgt: str, text: str = "", among: str = "") -> str:
    src_ids, tgt_ids = ([side.index(piece) for piece in line.split()] for side, line in ((SRC, src), (TGT, tgt)))
    return coverage().left_out(src_ids, tgt_ids, text, among)


def test_the_longest_run_of_words_without_a_counterpart():
    assert left_out("▁I ▁love ▁or anges ▁and ▁small ▁dogs .", "▁J' aime ▁les ▁oranges") == "and small dogs"
    assert left_out("▁small ▁dogs ▁and ▁dogs", "▁et ▁chiens") == "small dogs"  # less than 0.02 is no counterpart
    assert left_out("▁I ▁love ▁or anges", "▁J' aime ▁les ▁oranges") == ""


def test_a_word_counts_as_translated_if_one_of_its_tokens_is():
    assert left_out("▁or anges", "▁oranges") == ""


def test_a_few_letters_are_not_enough():
    assert left_out("▁and ▁I ▁love", "▁J' aime") == ""
    assert left_out("▁and ▁small ▁I", "▁J'") == "and small"


def test_copied_words_and_placeholders_are_not_left_out():
    assert left_out("▁Genf ▁and ▁small", "▁et ▁petits", "Genf et petits") == ""
    assert left_out("▁Genf . ▁dogs", "▁et", "genf et") == ""  # a single word of four letters is left
    assert left_out("▁and <ph1> ▁I", "▁J'") == ""


def test_each_chinese_character_is_a_word():
    assert left_out("橙 子 很 小 狗", "▁oranges") == "很 小 狗"


def test_words_that_were_left_out_before_must_be_translated_now():
    assert left_out("▁love ▁or anges ▁and ▁small ▁dogs", "aime ▁et", among="small dogs") == "small dogs"
    assert left_out("▁love ▁or anges ▁and ▁small ▁dogs", "aime ▁et ▁petits", among="small") == ""


def test_words_count_only_if_the_translation_is_short():
    assert is_short("I love oranges and small dogs.", "J'aime les oranges.", usual_ratio=1.18)
    assert not is_short("I love oranges and small dogs.", "J'aime les oranges et l'eau.", usual_ratio=1.18)
    # English is shorter than German, so that this one has all of its source
    assert not is_short("Wir haben gestern Abend Freunde eingeladen.", "We had friends over last night", 0.85)
    assert is_short("Wir haben gestern Abend Freunde eingeladen.", "We had friends over last night", 1.18)


def test_the_usual_length_is_that_of_the_training_text(shared_bundle):
    files = read_bundle(shared_bundle)
    for training, ratio in (({"target_letters_per_source_letter": 0.85}, 0.85), ({}, 1.185)):
        assert usual_ratio(replace(files, manifest={"training": training})) == ratio
    assert usual_ratio(None) == 1.185


def test_an_empty_side_leaves_nothing_out():
    assert left_out("", "▁et") == ""
    assert left_out("▁small ▁dogs", "") == "small dogs"


def test_a_file_without_a_lexicon_is_refused(tmp_path):
    path = tmp_path / "alignment.npz"
    for arrays in ({"backward_steps": np.arange(3)}, {"backward_steps": np.arange(3), "backward_probs": np.ones(2)}):
        with path.open("wb") as file:
            np.savez(file, **arrays, backward_size=np.array(3))
        with pytest.raises(BundleError, match=r"alignment\.npz"):
            Coverage.load(path, cast(Tokenizer, Pieces()))

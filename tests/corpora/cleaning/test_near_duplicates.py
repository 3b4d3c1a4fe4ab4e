"""Near duplicates against the comparison of all pairs of sets of 4-grams, and planted repeats."""

import random
import re
import string

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.corpora.cleaning.near_duplicates import N_KEYS, SKETCH_WIDTH, find_repeats, first_of_each, repeats, sketch

WORDS = ["".join(random.Random(n).choices("aeioubcdfglmnprst", k=3 + n % 6)) for n in range(400)]


def sentence(rng: random.Random, n_words: int) -> str:
    return " ".join(rng.choices(WORDS, k=n_words))


def pair(rng: random.Random, n_words: int = 9) -> tuple[str, str]:
    return sentence(rng, n_words), sentence(rng, n_words)


def ngrams(src: str, tgt: str) -> set[tuple[str, str]]:
    grams = set()
    for side, text in (("src", src), ("tgt", tgt)):
        key = re.sub(r"\d+", "0", " ".join(re.sub(r"[^\w]+", " ", text.casefold()).split()))
        padded = f" {key} "
        grams |= {(side, padded[i : i + 4]) for i in range(len(padded) - 3)}
    return grams


def likeness(one: tuple[str, str], other: tuple[str, str]) -> float:
    a, b = ngrams(*one), ngrams(*other)
    return len(a & b) / len(a | b)


def typos(text: str, rng: random.Random, n: int) -> str:
    chars = list(text)
    for _ in range(n):
        chars[rng.randrange(len(chars))] = rng.choice("xyzq")
    return "".join(chars)


def misspelt(original: tuple[str, str], rng: random.Random, most: int) -> tuple[str, str]:
    src, tgt = (typos(side, rng, rng.randint(0, most)) for side in original)
    return src, tgt


@pytest.mark.parametrize(("n_words", "least"), [(4, 0.7), (9, 0.7), (30, 0.7), (120, 0.6)])
def test_what_all_pairs_compared_say_is_found_and_nothing_else(n_words, least):
    """Near the limit of 80 % the sketches may be wrong by a few points (for long pairs by more), not further off."""
    rng = random.Random(n_words)
    originals = [pair(rng, n_words) for _ in range(300)]
    copies = [misspelt(original, rng, max(2, n_words // 2)) for original in originals]
    later, earlier = find_repeats([originals, copies])
    found = dict(zip(later.tolist(), earlier.tolist(), strict=True))
    truth = [likeness(one, other) for one, other in zip(originals, copies, strict=True)]
    clear = [n for n, share in enumerate(truth) if share >= 0.88]
    assert len(clear) > 20
    missed = [n for n in clear if found.get(300 + n) != n]
    assert len(missed) <= 0.03 * len(clear)
    assert set(found) <= {300 + n for n, share in enumerate(truth) if share >= least}


@pytest.mark.parametrize("n_words", [150, 600])  # pairs of 2,000 and 8,000 4-grams
def test_long_pairs_are_found_as_well_as_short_ones(n_words):
    def text_of(n: int) -> str:
        letters = "".join(rng.choices(string.ascii_lowercase, k=9 * n))
        return " ".join(letters[9 * i : 9 * i + length] for i, length in enumerate(rng.choices(range(3, 10), k=n)))

    def longer(texts: tuple[str, str], n: int) -> tuple[str, str]:
        return f"{texts[0]} {text_of(n)}", f"{texts[1]} {text_of(n)}"

    rng = random.Random(n_words)
    originals = [(text_of(n_words), text_of(n_words)) for _ in range(40)]
    near = [longer(original, n_words // 12) for original in originals]
    others = [longer(original, n_words // 2) for original in originals]
    assert min(map(likeness, originals[:4], near)) > 0.88 and max(map(likeness, originals[:4], others)) < 0.75
    assert len(find_repeats([originals, near])[0]) >= 38
    assert len(find_repeats([originals, others])[0]) <= 8


@pytest.mark.parametrize(
    "change",
    [
        lambda src, tgt: (src.upper(), tgt.title()),
        lambda src, tgt: (f"- {src}!", f"\N{LEFT-POINTING DOUBLE ANGLE QUOTATION MARK}{tgt}..."),
        lambda src, tgt: (src.replace("7", "1234"), tgt.replace("7", "99")),
        lambda src, tgt: (src.replace(" ", "\u00a0 "), tgt),
        lambda src, tgt: (f"Note: {src}", f"Nota: {tgt}"),
        lambda src, tgt: (f"{src} (ctd)", tgt),
    ],
    ids=["case", "punctuation", "numbers", "spaces", "prefix", "suffix"],
)
def test_usual_variants_repeat_their_original(change):
    rng = random.Random(3)
    originals = [(f"{src} 7 {tgt}", f"{tgt} 7 {src}") for src, tgt in (pair(rng) for _ in range(100))]
    later, earlier = find_repeats([originals, [change(*original) for original in originals]])
    assert later.tolist() == list(range(100, 200)) and earlier.tolist() == list(range(100))


def test_one_side_alone_makes_no_repeat():
    rng = random.Random(4)
    pairs = [pair(rng) for _ in range(50)]
    others = [(src, sentence(rng, 9)) for src, _ in pairs] + [(sentence(rng, 9), tgt) for _, tgt in pairs]
    swapped = [(tgt, src) for src, tgt in pairs]
    assert not len(find_repeats([pairs, others, swapped])[0])


def test_blank_pairs_repeat_nothing():
    later, earlier = find_repeats([[("", ""), ("  ", "\t"), ("", ""), ("a", ""), ("a", ""), ("!", "?"), ("!", "?")]])
    assert later.tolist() == [4, 6] and earlier.tolist() == [3, 5]


def test_of_many_equal_pairs_the_first_stays():
    later, earlier = find_repeats([[("Seite 1 von 3", "page 1 of 3")] * 3000])
    assert later.tolist() == list(range(1, 3000)) and earlier[0] == 0


def test_no_pairs_at_all():
    assert sketch([]).keys.shape == (0, N_KEYS)
    assert not len(find_repeats([])[0])


@pytest.fixture(scope="module")
def misspelt_pairs():
    rng = random.Random(9)
    base = [pair(rng, 5) for _ in range(20)]
    return [misspelt(rng.choice(base), rng, 1) for _ in range(80)]


@pytest.fixture(scope="module")
def repeats_of_all(misspelt_pairs):
    later, earlier = find_repeats([misspelt_pairs])
    assert len(later) > 20
    return later.tolist(), earlier.tolist()


@given(cuts=st.lists(st.integers(1, 20), min_size=1, max_size=12), n_partitions=st.integers(1, 7), seed=st.integers())
@settings(max_examples=20)
def test_neither_windows_nor_partitions_change_the_result(misspelt_pairs, repeats_of_all, cuts, n_partitions, seed):
    pairs = misspelt_pairs
    keys, indices, sketches, start = [], [], np.zeros((len(pairs), SKETCH_WIDTH), np.uint16), 0
    while start < len(pairs):
        window = pairs[start : start + cuts[start % len(cuts)]]
        made = sketch(window)
        sketches[start : start + len(window)] = made.sketches
        keys.append(made.keys.ravel())
        indices.append(np.repeat(np.arange(start, start + len(window)), N_KEYS))
        start += len(window)
    order = np.random.Generator(np.random.PCG64(abs(seed))).permutation(len(pairs) * N_KEYS)
    all_keys, all_indices = np.concatenate(keys)[order], np.concatenate(indices)[order]
    found = []
    for number in range(n_partitions):
        part = all_keys % np.uint64(n_partitions) == number
        found.append(repeats(all_keys[part], all_indices[part], sketches.__getitem__))
    later, earlier = first_of_each(*(np.concatenate(column) for column in zip(*found, strict=True)))
    assert (later.tolist(), earlier.tolist()) == repeats_of_all

"""Slips planted into the built-in corpus, and files that have nothing to do with each other."""

import random

import pytest

from mtkit.corpora.alignment.slips import diagnose
from mtkit.data.sample import read_sample

N = 350


@pytest.fixture(scope="module")
def pairs():
    return random.Random(5).sample(read_sample()["train"], N)


@pytest.fixture
def sides(pairs):
    return [src for src, _ in pairs], [tgt for _, tgt in pairs]


def right_share(diagnosis, sides, pairs):
    truth = set(pairs)
    texts = []
    for (a, b), (c, d), turned in zip(
        diagnosis.pairs.src.tolist(), diagnosis.pairs.tgt.tolist(), diagnosis.swapped.tolist(), strict=True
    ):
        src, tgt = " ".join(sides[0][a:b]), " ".join(sides[1][c:d])
        texts.append((tgt, src) if turned else (src, tgt))
    return sum(pair in truth for pair in texts) / len(pairs)


def test_files_without_a_slip_have_none(sides):
    diagnosis = diagnose(*sides)
    assert diagnosis.slips == []
    assert diagnosis.unplaced() == ([], [])
    assert diagnosis.is_related


def test_a_line_missing_on_either_side_is_named(sides, pairs):
    src, tgt = sides
    del tgt[100], src[225]
    diagnosis = diagnose(*sides)
    (kind, one, none), (other_kind, no_src, other) = [(slip.kind, slip.src, slip.tgt) for slip in diagnosis.slips]
    assert (kind, other_kind) == ("missing", "missing")
    assert abs(one[0] - 100) <= 3 and one[1] - one[0] == 1 and none[0] == none[1] == one[0]
    assert abs(other[0] - 224) <= 3 and other[1] - other[0] == 1 and no_src[0] == no_src[1]
    assert right_share(diagnosis, sides, pairs) >= 0.99


def test_a_large_block_missing_from_the_start_is_found(sides, pairs):
    del sides[0][:125]
    diagnosis = diagnose(*sides)
    [slip] = diagnosis.slips
    assert (slip.kind, slip.src) == ("missing", (0, 0))
    assert slip.tgt[0] == 0 and abs(slip.tgt[1] - 125) <= 3
    assert diagnosis.unplaced() == ([], list(range(slip.tgt[1])))


def test_two_lines_merged_into_one_are_joined_on_the_other_side(sides, pairs):
    tgt = sides[1]
    tgt[150:152] = [f"{tgt[150]} {tgt[151]}"]
    diagnosis = diagnose(*sides)
    assert [(slip.kind, slip.src, slip.tgt) for slip in diagnosis.slips] == [("merged", (150, 152), (150, 151))]
    assert len(diagnosis.pairs) == N - 1


def test_a_block_that_moved_is_brought_home(sides, pairs):
    tgt = sides[1]
    block = tgt[50:90]
    del tgt[50:90]
    tgt[250:250] = block
    diagnosis = diagnose(*sides)
    [slip] = [slip for slip in diagnosis.slips if slip.kind == "moved"]
    assert max(abs(slip.src[0] - 50), abs(slip.src[1] - 90), abs(slip.tgt[0] - 250), abs(slip.tgt[1] - 290)) <= 3
    assert right_share(diagnosis, sides, pairs) >= 0.99


def test_swapped_sides_are_swapped_back(sides, pairs):
    src, tgt = sides
    src[200:230], tgt[200:230] = tgt[200:230], src[200:230]
    diagnosis = diagnose(*sides)
    assert {slip.kind for slip in diagnosis.slips} == {"swapped"}
    assert min(slip.src[0] for slip in diagnosis.slips) in range(200, 204)
    assert max(slip.src[1] for slip in diagnosis.slips) in range(227, 231)
    assert right_share(diagnosis, sides, pairs) >= 0.985  # a line such as "Non." has no language of its own


def test_lines_of_something_else_are_left_aside(sides, pairs):
    src, tgt = sides
    src[175:175] = ["Lorem ipsum dolor sit amet", "consectetur adipiscing elit"] * 4
    tgt[175:175] = ["Заключительные положения", "Статья первая", "Статья вторая"]
    diagnosis = diagnose(*sides)
    assert right_share(diagnosis, sides, pairs) >= 0.99
    assert {slip.kind for slip in diagnosis.slips} == {"missing"}
    assert all(165 <= slip.src[0] <= 185 for slip in diagnosis.slips)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_noise_in_its_place_is_no_slip(sides, seed):
    src, tgt = sides
    rng = random.Random(seed)
    for line in {*rng.sample(range(N), N // 10), *range(150, 154)}:  # some of them neighbours
        tgt[line] = rng.choice([src[line], tgt[rng.randrange(N)], "Магазин на углу сегодня, к сожалению, закрыт."])
    tgt[250], tgt[252], src[250] = tgt[17], tgt[167], src[251]  # line 250 also fits line 251
    diagnosis = diagnose(src, tgt)
    assert diagnosis.slips == []
    assert diagnosis.unplaced() == ([], [])


def test_slips_in_text_with_noise_are_found_and_no_good_pair_is_lost(sides, pairs):
    src, tgt = sides
    rng = random.Random(4)
    noise = {line for line in rng.sample(range(N), N // 10) if not 95 < line < 105}
    for line in noise:
        tgt[line] = tgt[rng.randrange(N)]
    good = {pair for line, pair in enumerate(pairs) if line not in noise and line != 100}
    del tgt[100]
    [slip] = (diagnosis := diagnose(src, tgt)).slips
    assert slip.kind == "missing" and abs(slip.src[0] - 100) <= 3
    repaired = zip(diagnosis.pairs.src[:, 0].tolist(), diagnosis.pairs.tgt[:, 0].tolist(), strict=True)
    assert good <= {(src[i], tgt[j]) for i, j in repaired}


def test_files_without_any_relation_are_told_so(sides):
    shuffled = sides[1][:]
    random.Random(1).shuffle(shuffled)
    assert not diagnose(sides[0], shuffled).is_related


def test_a_file_in_another_order_is_no_line_by_line_translation(sides):
    assert not diagnose(sides[0], sides[1][::-1]).is_related


def test_lines_copied_from_the_source_are_not_called_swapped(sides):
    src, tgt = sides
    rare = [f"Die Straßenbahn {i} hält zwischen Hauptbahnhof und Rathausplatz{i}." for i in range(3)]
    src[90:90], tgt[90:90] = rare, rare
    assert diagnose(src, src).slips == []
    assert "swapped" not in {slip.kind for slip in diagnose(src, tgt).slips}


@pytest.mark.parametrize("src", [["One line."], ["", "", ""], ["!" * 5_000]])
def test_hardly_any_text_against_much_is_no_relation(src):
    much = [tgt for _, tgt in random.Random(5).sample(read_sample()["train"], 700)]
    diagnosis = diagnose(src, much)
    assert not diagnosis.is_related
    assert diagnosis.n_tgt == 700


def test_lines_that_are_repeated_are_no_passage_unlike_its_translation(sides):
    """Their words stand nowhere else, so that nothing tells whether the pair is right, however often it comes."""
    src, tgt = sides
    src[100:100], tgt[100:100] = ["Good morning."] * 40, ["Guten Morgen."] * 40
    assert diagnose(src, tgt).slips == []
    src[100:140] = [f"Good {('morning', 'day', 'night')[i % 3]}." for i in range(40)]
    assert diagnose(src, tgt).slips == []


def test_a_passage_that_translates_something_else_in_its_place_is_found(sides):
    tgt = sides[1]
    tgt[100:120] = tgt[320:340][::-1]
    assert ("unlike", True) in [(slip.kind, abs(slip.src[0] - 100) <= 3) for slip in diagnose(*sides).slips]


def test_files_of_which_most_lines_are_the_same_are_related(sides):
    """A third of the 1,392 lines away, where the next text is looked at for comparison, stands mostly the same line."""
    src, tgt = (
        [line for one in side[:348] for line in (one, same, same, same)]
        for side, same in zip(sides, ("Next", "Weiter"), strict=True)
    )
    diagnosis = diagnose(src, tgt)
    assert diagnosis.is_related and diagnosis.slips == []

"""Pairs by loss: in the order that scoring each pair by itself gives; noise put in comes out on top."""

import gzip
import math

import pytest
import torch

from mtkit.bundle import load_bundle
from mtkit.config.data import CorpusFiles
from mtkit.inspection.hard_pairs import rank_pairs, with_own_translations
from mtkit.scoring.scoring import BLANK, Scorer

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def bundle(bundle_of_a_run):
    return load_bundle(bundle_of_a_run)


@pytest.fixture(scope="module")
def dev(bundle):
    files = bundle.config.data.dev[0]
    return list(zip(files.src.read_text().splitlines(), files.tgt.read_text().splitlines(), strict=True))


def write(folder, name, pairs) -> CorpusFiles:
    src, tgt = folder / f"{name}.en", folder / f"{name}.fr"
    src.write_text("".join(f"{pair[0]}\n" for pair in pairs))
    tgt.write_text("".join(f"{pair[1]}\n" for pair in pairs))
    return CorpusFiles(src=src, tgt=tgt)


def test_the_order_is_that_of_each_pair_scored_alone(bundle, dev):
    ranking = rank_pairs(bundle, bundle.config.data.dev, 5, device=CPU)
    scorer = Scorer(bundle.model, bundle.src_tokenizer, bundle.tgt_tokenizer)
    alone = [scorer.score([pair])[0] for pair in dev]
    order = sorted(range(len(dev)), key=lambda number: alone[number].mean)[:5]
    assert [(hard.pair.line, hard.pair.src, hard.pair.tgt) for hard in ranking.hardest] == [
        (number + 1, *dev[number]) for number in order
    ]
    for hard, number in zip(ranking.hardest, order, strict=True):
        assert hard.nats_per_token == pytest.approx(-alone[number].mean, abs=1e-5)
        assert hard.n_tokens == alone[number].n_tokens
        assert hard.worst_nats == pytest.approx(-min(alone[number].log_probs), abs=1e-5)
        assert hard.worst_piece == alone[number].pieces[alone[number].log_probs.index(min(alone[number].log_probs))]
    total, n_tokens = sum(s.log_prob for s in alone), sum(s.n_tokens for s in alone)
    assert ranking.nats_per_token == pytest.approx(-total / n_tokens, abs=1e-5)
    middle = sorted(-score.mean for score in alone)[3:5]
    assert ranking.median == pytest.approx(sum(middle) / 2, abs=1e-5)
    assert middle[1] < ranking.percentile_99 <= ranking.hardest[0].nats_per_token
    assert (ranking.n_pairs, ranking.n_scored) == (8, 8)


def test_several_corpora_are_ranked_together_with_files_and_lines(bundle, dev, tmp_path):
    first, second = write(tmp_path, "a", dev[:3]), write(tmp_path, "b", dev[3:])
    apart = rank_pairs(bundle, [first, second], 8, device=CPU).hardest
    whole = rank_pairs(bundle, bundle.config.data.dev, 8, device=CPU).hardest
    assert [hard.pair.src for hard in apart] == [hard.pair.src for hard in whole]
    lines = [line if line <= 3 else line - 3 for line in (hard.pair.line for hard in whole)]
    assert [hard.pair.line for hard in apart] == lines
    assert {hard.pair.file for hard in apart} == {str(first.src), str(second.src)}


def test_equal_pairs_stay_in_the_order_of_the_text(bundle, tmp_path):
    ranking = rank_pairs(bundle, [write(tmp_path, "same", [("cat", "chat")] * 6)], 4, device=CPU)
    assert [hard.pair.line for hard in ranking.hardest] == [1, 2, 3, 4]


def test_blank_sources_are_counted_and_blank_targets_are_ranked(bundle, dev, tmp_path):
    pairs = [("", "chat"), *dev, ("dog", ""), (" ", "")]
    ranking = rank_pairs(bundle, [write(tmp_path, "blank", pairs)], 1, device=CPU)
    assert ranking.skipped.counts == {BLANK: 2}
    assert ranking.skipped.first[BLANK].endswith("blank.en:1")
    assert (ranking.n_pairs, ranking.n_scored) == (11, 9)
    assert (ranking.hardest[0].pair.line, ranking.hardest[0].worst_piece) == (10, "</s>")


def test_where_nothing_can_be_scored_the_figures_are_none(bundle, tmp_path):
    ranking = rank_pairs(bundle, [write(tmp_path, "none", [("", "")])], 3, device=CPU)
    assert ranking.hardest == [] and math.isnan(ranking.nats_per_token) and math.isnan(ranking.median)


@pytest.mark.parametrize(("sample", "lines"), [(4, [2, 4, 6, 8]), (1, [8]), (3, [3, 6, 8]), (100, list(range(1, 9)))])
def test_a_sample_is_spread_over_the_whole_text(bundle, sample, lines):
    ranking = rank_pairs(bundle, bundle.config.data.dev, 100, device=CPU, sample=sample)
    assert sorted(hard.pair.line for hard in ranking.hardest) == lines
    assert ranking.n_pairs == len(lines)


def test_wrong_pairs_have_the_highest_loss(bundle, tmp_path):
    """Of 120 pairs that the model has learnt three get another's target, of other length, and one another language."""
    [files] = bundle.config.data.train
    src, tgt = files.src.read_text().splitlines(), files.tgt.read_text().splitlines()
    wrong = {10: "rouge rouge rouge rouge rouge", 60: "un", 90: "chien deux chien deux", 110: src[110]}
    tgt = [wrong.get(number, text) for number, text in enumerate(tgt)]
    ranking = rank_pairs(bundle, [write(tmp_path, "noisy", list(zip(src, tgt, strict=True)))], 4, device=CPU)
    assert {hard.pair.line - 1 for hard in ranking.hardest} == set(wrong)


def test_own_translations_come_with_their_pairs_and_their_loss(bundle, dev):
    from mtkit.translation.translator import Translator

    ranking = rank_pairs(bundle, bundle.config.data.dev, 8, device=CPU)
    found = with_own_translations(bundle, ranking.hardest, device=CPU)
    assert [hard.pair for hard in found] == [hard.pair for hard in ranking.hardest]
    expected = Translator.load(bundle.folder, engine="native").translate([hard.pair.src for hard in found])
    translations = [hard.own for hard in found if hard.own is not None]
    assert [own.text for own in translations] == expected
    scorer = Scorer(bundle.model, bundle.src_tokenizer, bundle.tgt_tokenizer)
    for hard, own in zip(found, translations, strict=True):
        [score] = scorer.score([(hard.pair.src, own.text)])
        assert own.nats_per_token == pytest.approx(-score.mean, abs=1e-4)


def test_compressed_text_gives_the_same(bundle, dev, tmp_path):
    plain = write(tmp_path, "plain", dev)
    for side in ("en", "fr"):
        (tmp_path / f"plain.{side}.gz").write_bytes(gzip.compress((tmp_path / f"plain.{side}").read_bytes()))
    packed = CorpusFiles(src=tmp_path / "plain.en.gz", tgt=tmp_path / "plain.fr.gz")
    found = [[h.pair.src for h in rank_pairs(bundle, [files], 8, device=CPU).hardest] for files in (plain, packed)]
    assert found[0] == found[1]

"""The guide of attention: links against plain loops and planted word orders, and what training learns from them."""

import itertools
import math
import random

import numpy as np
import pytest
import torch
from tiny_updates import batch_of, random_pairs, updater_of

from mtkit.alignment.lexicon import AlignmentLexicon
from mtkit.data.encoded import EncodedSide
from mtkit.engines.lexicon import EMPTY_SHARE, EMPTY_WORD, Model1
from mtkit.model.transformer import Transformer
from mtkit.tokens.special_ids import EOS_ID, PAD_ID
from mtkit.training.update.loss import Guidance

TENSION = 4.0


def by_places(n_src: int, n_tgt: int, tgt_place: int) -> list[float]:
    """The chance of a target place to translate the empty word, then each source place (Dyer et al. 2013)."""
    odds = [math.exp(-TENSION * abs((i + 0.5) / n_src - (tgt_place + 0.5) / n_tgt)) for i in range(n_src)]
    return [EMPTY_SHARE, *((1 - EMPTY_SHARE) * value / sum(odds) for value in odds)]


def expectation_maximisation(pairs, n_iterations):
    """t(target | source) of IBM model 1 with links near the diagonal, by plain loops."""
    probs = {(s, t): 1.0 for src, tgt in pairs for s in (EMPTY_WORD, *src) for t in tgt}
    for _ in range(n_iterations):
        counts = dict.fromkeys(probs, 0.0)
        for src, tgt in pairs:
            for place, t in enumerate(tgt):
                prior = by_places(len(src), len(tgt), place)
                shares = [chance * probs[s, t] for chance, s in zip(prior, (EMPTY_WORD, *src), strict=True)]
                for s, share in zip((EMPTY_WORD, *src), shares, strict=True):
                    counts[s, t] += share / sum(shares)
        totals = {s: sum(count for (other, _), count in counts.items() if other == s) for s, _ in probs}
        probs = {(s, t): count / totals[s] for (s, t), count in counts.items()}
    return probs


def side_of(sentences) -> EncodedSide:
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int32)
    ids = np.array(list(itertools.chain.from_iterable(sentences)))
    return EncodedSide(ids, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), lengths)


def guide_of(pairs, vocab_size: int = 40) -> AlignmentLexicon:
    src, tgt = (side_of([pair[side] for pair in pairs]) for side in (0, 1))
    return AlignmentLexicon.learn(src, tgt, vocab_size, vocab_size)


def test_model_1_with_tension_is_that_of_plain_loops():
    pairs = random_pairs(30, longest=6, vocab_size=12)
    src, tgt = (
        (np.array(list(itertools.chain.from_iterable(side))), np.array([len(text) for text in side]))
        for side in zip(*pairs, strict=True)
    )
    lexicon = Model1(src, tgt, n_iterations=3, tension=TENSION).lexicon(with_empty_word=True)
    entries = zip(lexicon.src_ids.tolist(), lexicon.tgt_ids.tolist(), strict=True)
    assert dict(zip(entries, lexicon.probs.tolist(), strict=True)) == pytest.approx(expectation_maximisation(pairs, 3))


def test_links_are_those_on_which_both_directions_agree():
    pairs = random_pairs(40, longest=7, vocab_size=14)
    guide = guide_of(pairs)
    there = expectation_maximisation(pairs, 5)
    back = expectation_maximisation([(tgt, src) for src, tgt in pairs], 5)

    def link(probs, src, tgt, i, j):
        prior = by_places(len(src), len(tgt), j)
        return prior[i + 1] * probs[src[i], tgt[j]] / sum(
            chance * probs[s, tgt[j]] for chance, s in zip(prior, (EMPTY_WORD, *src), strict=True)
        )  # fmt: skip

    batch = batch_of(pairs[:8])
    found = guide.links(batch.src, batch.tgt_out)
    n_links = 0
    for row, (src, tgt) in zip(found, pairs[:8], strict=True):
        expected = torch.zeros_like(row)
        for j in range(len(tgt)):
            likely = [math.sqrt(link(there, src, tgt, i, j) * link(back, tgt, src, j, i)) for i in range(len(src))]
            kept = [value if value >= 0.5 else 0.0 for value in likely]
            n_links += sum(value > 0 for value in kept)
            for i, value in enumerate(kept):
                expected[j, i] = value / max(0.5, sum(kept))
        expected[len(tgt), len(src)] = 1.0  # the ends
        torch.testing.assert_close(row, expected, atol=1e-5, rtol=1e-4)
    assert n_links > 5, "or the test says little"


def reordered(n_pairs: int, seed: int):
    """Sentences whose target is the source's words, each 20 higher, a low one after its neighbour; and the links."""
    rng = random.Random(seed)
    pairs, links = [], []
    for _ in range(n_pairs):
        src = rng.sample(range(4, 20), rng.randint(3, 9))
        order = list(range(len(src)))
        for place in range(0, len(src) - 1, 2):
            if src[place] < 9:
                order[place], order[place + 1] = order[place + 1], order[place]
        pairs.append((src, [src[place] + 20 for place in order]))
        links.append(order)
    return pairs, links


def test_words_in_another_order_find_their_counterparts():
    pairs, links = reordered(300, seed=1)
    guide = guide_of(pairs)
    batch = batch_of(pairs)
    found = guide.links(batch.src, batch.tgt_out)
    for row, (src, tgt), order in zip(found, pairs, links, strict=True):
        assert row[: len(tgt)].argmax(1).tolist() == order
        torch.testing.assert_close(row.sum(1)[: len(tgt) + 1], torch.ones(len(tgt) + 1))
        assert not row[len(tgt) + 1 :].any()
        assert not row[:, len(src) + 1 :].any()


def test_tokens_that_the_guide_has_never_seen_have_no_links():
    guide = guide_of(reordered(50, seed=2)[0])
    batch = batch_of([([39, 38], [37])])
    links = guide.links(batch.src, batch.tgt_out)[0]
    assert links.tolist() == [[0, 0, 0], [0, 0, 1]]


def test_the_loss_is_the_cross_entropy_of_the_attention():
    guide = guide_of(reordered(300, seed=3)[0])
    batch = batch_of([([5, 9], [25, 29])])
    attention = torch.tensor([[[0.5, 0.25, 0.25], [0.2, 0.6, 0.2], [0.0, 0.1, 0.9]]])
    links = guide.links(batch.src, batch.tgt_out)
    assert links.argmax(-1).tolist() == [[0, 1, 2]]
    expected = -0.3 * sum(math.log(value) for value in (0.5, 0.6, 0.9))
    guidance = Guidance(guide, weight=0.3)
    assert float(guidance.loss_sum(attention, batch)) == pytest.approx(expected, abs=1e-3)
    assert float(guidance.loss_sum(attention.repeat(2, 1, 1), batch)) == pytest.approx(2 * expected, abs=2e-3)
    assert float(guidance.loss_sum(torch.zeros(1, 3, 3), batch)) < math.inf


@pytest.mark.parametrize("decoder", ["attention", "ssru"])
def test_training_teaches_the_first_head_to_align(decoder):
    pairs, _ = reordered(400, seed=4)
    test_pairs, links = reordered(40, seed=5)
    batch = batch_of(test_pairs)

    def share_of_right_links(model):
        with torch.no_grad():
            _, attention = model.eval().hidden_and_alignment(batch.src, batch.tgt_in)
        right = [
            found == true
            for row, order in zip(attention, links, strict=True)
            for found, true in zip(row.argmax(1).tolist(), order, strict=False)
        ]
        return sum(right) / len(right)

    shares = {}
    for weight, n_steps in ((0.0, 100), (0.5, 200)):
        torch.manual_seed(1)
        updater = updater_of(
            40, model={"decoder": decoder, "d_model": 32, "d_ff": 64, "n_heads": 4}, guided_alignment=weight
        )
        if weight:
            updater.guidance = Guidance(guide_of(pairs), weight)
        model = updater.model
        assert isinstance(model, Transformer)
        model.is_guided = weight > 0
        for step in range(1, n_steps + 1):
            updater.update([batch_of(pairs[step % 16 :: 16])], step, lr=5e-3)
            if step % 100 == 0:
                shares[weight, step] = share_of_right_links(model)
                model.train()
    assert shares[0.5, 200] > 0.75
    assert shares[0.5, 100] > shares[0.0, 100] + 0.25


def test_padding_is_neither_source_nor_target():
    guide = guide_of(reordered(100, seed=6)[0])
    short, long = ([5, 6, 7], [25, 26, 27]), ([8, 9, 10, 11, 12, 13], [28, 29, 30, 31, 32, 33])
    alone, together = batch_of([short]), batch_of([short, long])
    padded = guide.links(together.src, together.tgt_out)[0]
    torch.testing.assert_close(padded[:4, :4], guide.links(alone.src, alone.tgt_out)[0])
    assert (together.src[0] == PAD_ID).any()
    assert (together.src[0] == EOS_ID).sum() == 1

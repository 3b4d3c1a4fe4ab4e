"""Shortlists: IBM model 1 against an example worked out on paper, and decoding with a sentence's own tokens only."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import tiny_transformer

from mtkit.config.decoding import DecodeConfig
from mtkit.engines.lexicon import Model1, learn_lexicon
from mtkit.engines.native import NativeEngine
from mtkit.engines.shortlist import Shortlist
from mtkit.errors import BundleError
from mtkit.model import ops
from mtkit.model.quantization import quantize
from mtkit.model.transformer import Transformer
from mtkit.search.hypothesis import Hypothesis, Segment
from mtkit.tokens.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID

SPECIAL = [PAD_ID, UNK_ID, BOS_ID, EOS_ID]
N_SRC, N_TGT = 20, 40


def probabilities(src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]], n: int) -> dict[tuple[int, int], float]:
    lexicon = learn_lexicon(src, tgt, n_iterations=n)
    pairs = zip(lexicon.src_ids.tolist(), lexicon.tgt_ids.tolist(), strict=True)
    return dict(zip(pairs, lexicon.probs.tolist(), strict=True))


def test_one_iteration_of_ibm_model_1_equals_the_one_on_paper() -> None:
    # "the house" - "la maison", "the" - "la"; with the empty word the first has three sources, the second two.
    # Shares: la 1/3 each in the first, 1/2 each in the second; maison 1/3 each.
    # the: la 1/3 + 1/2, maison 1/3, so 5/7 and 2/7; house: la 1/3, maison 1/3, so a half each.
    the, house, la, maison = 10, 11, 20, 21
    probs = probabilities([[the, house], [the]], [[la, maison], [la]], 1)
    assert probs == pytest.approx({(the, la): 5 / 7, (the, maison): 2 / 7, (house, la): 1 / 2, (house, maison): 1 / 2})


def test_a_second_iteration_starts_from_the_first() -> None:
    # After iteration 1, the empty word has the probabilities of "the", la 5/7, maison 2/7: it is in the same sentences.
    # Iteration 2, first pair: la is shared 5/7 : 5/7 : 1/2, of a sum of 27/14; maison 2/7 : 2/7 : 1/2, of 15/14; so
    # house has la 7/27, maison 7/15. Second pair: halves.
    the, house, la, maison = 10, 11, 20, 21
    probs = probabilities([[the, house], [the]], [[la, maison], [la]], 2)
    assert probs[house, maison] == pytest.approx((7 / 15) / (7 / 15 + 7 / 27))
    assert probs[the, la] == pytest.approx((10 / 27 + 1 / 2) / (10 / 27 + 1 / 2 + 4 / 15))


def test_a_token_that_comes_twice_counts_twice() -> None:
    # source 10 10, target 20 21: three source positions share each target token, two of them are token 10
    probs = probabilities([[10, 10], [11]], [[20, 21], [21]], 1)
    assert probs == pytest.approx({(10, 20): 1 / 2, (10, 21): 1 / 2, (11, 21): 1.0})


def test_pairs_left_out_of_the_last_iteration_count_nothing() -> None:
    # The pairs of the first test: without the second, each source of the first has la 1/3 and maison 1/3.
    the, house, la, maison = 10, 11, 20, 21
    src = np.array([the, house, the]), np.array([2, 1])
    tgt = np.array([la, maison, la]), np.array([2, 1])
    model = Model1(src, tgt, n_iterations=1)
    found = {}
    for pair in (0, 1):
        lexicon = model.lexicon(without=np.array([pair]))
        entries = zip(lexicon.src_ids.tolist(), lexicon.tgt_ids.tolist(), strict=True)
        found[pair] = dict(zip(entries, lexicon.probs.tolist(), strict=True))
    assert found[0] == pytest.approx({(the, la): 1.0})
    half = dict.fromkeys([(the, la), (the, maison), (house, la), (house, maison)], 1 / 2)
    assert found[1] == pytest.approx(half)


def test_the_best_come_first_and_of_equals_the_lower_id() -> None:
    lexicon = learn_lexicon([[10, 11], [10]], [[21, 20], [20]], n_iterations=3)
    assert [ids.tolist() for ids in lexicon.best(13, 5)] == [[]] * 10 + [[20, 21], [21, 20], []]
    even = learn_lexicon([[10]], [[25, 23, 24]], n_iterations=3)
    assert even.best(11, 2)[10].tolist() == [23, 24]


def test_more_text_than_memory_allows_is_sampled_over_its_whole_length() -> None:
    src = [[10 + n // 100] for n in range(1000)]
    lexicon = learn_lexicon(src, src, max_links=200)  # two links a pair: a tenth of the pairs
    assert set(lexicon.src_ids.tolist()) == set(range(10, 20))
    assert learn_lexicon([[], [5]], [[7], []]).src_ids.size == 0  # nothing to learn


@pytest.fixture
def shortlist() -> Shortlist:
    random = np.random.default_rng(0)
    return Shortlist.from_lexicon([random.choice(N_TGT, 5, replace=False) for _ in range(N_SRC)], [7, 8], N_TGT)


def test_a_sentence_may_use_its_own_tokens_lists_and_what_is_always_allowed() -> None:
    shortlist = Shortlist.from_lexicon([[], [9, 5, 6], [5, 4], [30]], [12], 31)
    assert shortlist.ids_of([1, 2, 1]).tolist() == [*SPECIAL, 4, 5, 6, 9, 12]
    assert shortlist.ids_of([0]).tolist() == [*SPECIAL, 12]


def test_in_a_batch_each_may_use_what_it_may_use_alone(shortlist: Shortlist) -> None:
    sentences, extra = [[4, 5], [6], [6, 7, 8]], [(), (39,), ()]
    ids, allowed = shortlist.union(sentences, extra)
    for row, sentence, more in zip(allowed, sentences, extra, strict=True):
        assert ids[row].tolist() == sorted({*shortlist.ids_of(sentence).tolist(), *more})
    assert allowed.any(axis=0).all()  # each id is allowed for a sentence
    assert ids.tolist() == sorted(ids.tolist())


def test_a_file_keeps_it_without_pickled_objects(shortlist: Shortlist, tmp_path: Path) -> None:
    shortlist.save(tmp_path / "shortlist.npz")
    again = Shortlist.load(tmp_path / "shortlist.npz")
    for sentence in ([4, 5], [19], [0]):
        assert again.ids_of(sentence).tolist() == shortlist.ids_of(sentence).tolist()
    assert again.src_vocab_size == N_SRC
    np.savez(tmp_path / "pickled.npz", always=np.array([{}], dtype=object))
    with pytest.raises(BundleError, match=r"pickled\.npz: "):
        Shortlist.load(tmp_path / "pickled.npz")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "shortlist.npz").read_bytes()[:50])
    with pytest.raises(BundleError, match=r"cut\.npz: .*mtkit shortlist"):
        Shortlist.load(tmp_path / "cut.npz")


def test_ids_beyond_the_vocabulary_are_refused() -> None:
    with pytest.raises(ValueError, match=r"31\b.*\b31"):
        Shortlist.from_lexicon([[31]], [4], 31)
    with pytest.raises(ValueError, match=r"-1\b.*\b31"):
        Shortlist.from_lexicon([[30]], [-1], 31)


@pytest.fixture
def model() -> Transformer:
    return tiny_transformer(N_SRC, N_TGT, seed=2, tie="none")


def decode(
    model: Transformer, shortlist: Shortlist | None, segments: Sequence[Segment], n_best: int = 1, **settings: object
) -> list[list[Hypothesis]]:
    cfg = DecodeConfig.model_validate({"shortlist": shortlist is not None, **settings})
    results = dict(NativeEngine([model], shortlist=shortlist).decode(segments, cfg, n_best))
    return [results[n] for n in range(len(segments))]


SEGMENTS = [Segment([4, 5, 6], 8), Segment([7], 8), Segment([8, 9, 10, 11, 12], 8), Segment([6, 4], 8)]


@pytest.mark.parametrize("settings", [{"beam_size": 1}, {"beam_size": 3}, {"sampling": True, "seed": 3}])
def test_only_tokens_of_a_sentences_own_list_are_written_whatever_else_is_in_the_batch(
    model: Transformer, shortlist: Shortlist, settings: dict[str, Any]
) -> None:
    together = decode(model, shortlist, SEGMENTS, **settings)
    for segment, [hypothesis] in zip(SEGMENTS, together, strict=True):
        assert set(hypothesis.ids) <= set(shortlist.ids_of(segment.ids).tolist())
        [[alone]] = decode(model, shortlist, [segment], **settings)
        assert alone.ids == hypothesis.ids
        assert alone.log_prob == pytest.approx(hypothesis.log_prob, abs=1e-4)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_shortlist_of_all_tokens_changes_nothing(model: Transformer, beam_size: int) -> None:
    everything = Shortlist.from_lexicon([[]] * N_SRC, range(N_TGT), N_TGT)
    with_list = decode(model, everything, SEGMENTS, beam_size=beam_size, n_best=beam_size)
    without = decode(model, None, SEGMENTS, beam_size=beam_size, n_best=beam_size)
    for ours, theirs in zip(with_list, without, strict=True):
        assert [hypothesis.ids for hypothesis in ours] == [hypothesis.ids for hypothesis in theirs]
        assert [hypothesis.log_prob for hypothesis in ours] == pytest.approx(
            [hypothesis.log_prob for hypothesis in theirs], abs=1e-4
        )


def test_the_allowed_tokens_share_the_probability(model: Transformer) -> None:
    few = Shortlist.from_lexicon([[]] * N_SRC, [5, 9, 17], N_TGT)
    [[hypothesis]] = decode(model, few, [Segment([4, 5], 4)], beam_size=1)
    tgt_in = torch.tensor([[BOS_ID, *hypothesis.ids]])
    with torch.no_grad():
        logits = model(torch.tensor([[4, 5, EOS_ID]]), tgt_in)[0]
    written = [*hypothesis.ids, EOS_ID] if hypothesis.finished else hypothesis.ids
    allowed = [*SPECIAL, 5, 9, 17]
    expected = sum((logits[t, i] - logits[t, allowed].logsumexp(0)).item() for t, i in enumerate(written))
    assert hypothesis.log_prob == pytest.approx(expected, abs=1e-4)


def test_a_forced_beginning_is_written_even_if_it_is_on_no_list(model: Transformer) -> None:
    few = Shortlist.from_lexicon([[]] * N_SRC, [5, 9], N_TGT)
    [[hypothesis]] = decode(model, few, [Segment([4, 5], 6, prefix=(33, 21))], beam_size=2)
    assert hypothesis.ids[:2] == [33, 21]
    assert set(hypothesis.ids[2:]) <= {*SPECIAL, 5, 9, 33, 21}


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_selected_outputs_are_those_of_the_whole_layer(model: Transformer, precision: str) -> None:
    if precision == "bf16" and not ops.can_multiply("bf16", torch.device("cpu")):
        pytest.skip("this processor lacks the instructions")
    output = quantize(model, precision).output
    ids = torch.tensor([3, 7, 8, 30, 0])
    x = torch.randn(9, 16)
    with torch.no_grad():
        outputs, expected = output.select_outputs(ids)(x), output(x)[:, ids]
    tolerance = 0.05 if precision == "bf16" else 1e-5
    torch.testing.assert_close(outputs.float(), expected.float(), atol=tolerance, rtol=tolerance)


def test_a_joined_shortlist_allows_what_either_does_and_has_room_for_new_tokens() -> None:
    old = Shortlist.from_lexicon([[], [9], [7, 8]], [5], tgt_vocab_size=10)
    new = Shortlist.from_lexicon([[], [11], [7], [12]], [6], tgt_vocab_size=13)
    expected = [[5, 6], [5, 6, 9, 11], [5, 6, 7, 8], [5, 6, 12]]
    for joined in (old.joined(new), new.joined(old)):
        assert (joined.src_vocab_size, int(joined.tgt_vocab_size)) == (4, 13)
        assert [joined.ids_of([token]).tolist()[len(SPECIAL) :] for token in range(4)] == expected

"""Aligning documents made from the built-in corpus, of which the alignment is known."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.corpora.alignment.document_pairs import align_documents, read_sentences, write_pairs, write_unaligned
from mtkit.data.sample import read_sample
from mtkit.errors import DataError

N = 200


@pytest.fixture(scope="module")
def pairs():
    return random.Random(8).sample(read_sample()["train"], N)


@pytest.fixture
def documents(pairs):
    return [src for src, _ in pairs], [tgt for _, tgt in pairs]


def joined(sentences, place):
    sentences[place : place + 2] = [f"{sentences[place]} {sentences[place + 1]}"]


def test_every_kind_of_pair_is_found(documents, pairs):
    src, tgt = documents
    joined(tgt, 50)  # 2-1
    joined(src, 120)  # 1-2
    del src[150:153]
    del tgt[180]
    aligned = align_documents(src, tgt)
    made = [(pair.src, pair.tgt) for pair in aligned.pairs()]
    kinds = {pair.kind for pair in aligned.pairs()}
    assert {"2-1", "1-2", "1-1"} <= kinds <= {"2-1", "1-2", "1-1", "2-2"}
    assert (f"{pairs[50][0]} {pairs[51][0]}", f"{pairs[50][1]} {pairs[51][1]}") in made
    assert (f"{pairs[120][0]} {pairs[121][0]}", f"{pairs[120][1]} {pairs[121][1]}") in made
    truth = set(pairs)
    assert sum(pair in truth for pair in made) >= 0.98 * (N - 8)
    unaligned = aligned.unaligned()
    assert len(unaligned[0]) + len(unaligned[1]) in range(2, 9)
    assert aligned.is_related


def test_a_part_that_stands_elsewhere_is_found(documents, pairs):
    src, tgt = documents
    tgt[:] = tgt[:50] + tgt[110:] + tgt[50:110]
    aligned = align_documents(src, tgt)
    assert aligned.n_moved in range(57, 64)
    truth = set(pairs)
    assert sum((pair.src, pair.tgt) in truth for pair in aligned.pairs()) >= 0.98 * N


def test_the_sides_are_alike(documents):
    src, tgt = documents
    joined(tgt, 50)
    del src[150:153]
    there = align_documents(src, tgt)
    back = align_documents(tgt, src)
    spans = [sorted(zip(b.src.tolist(), b.tgt.tolist(), strict=True)) for b in (there.beads, back.beads)]
    turned = sorted((tgt_span, src_span) for src_span, tgt_span in spans[1])
    same = sum(span in turned for span in spans[0])
    assert same >= 0.99 * len(spans[0])  # folds of the lexicon follow the source's lines


def test_a_model_s_translations_speak_for_a_source_that_says_nothing(documents, pairs):
    tgt = documents[1]
    secret = [f"{'zq' * (1 + i % 3)} {i * 7919 % 1000}" for i in range(N)]  # nothing in common with the target
    del tgt[70:75]
    aligned = align_documents(secret, tgt, translations=[pair[1] for pair in pairs])
    expected = [[i, i + 1] for i in range(N) if i not in range(70, 75)]
    assert aligned.beads.src.tolist() == expected
    assert next(aligned.pairs()).src == secret[0]


def test_useless_translations_change_hardly_anything(documents):
    src, tgt = documents
    joined(tgt, 50)
    del src[150:153]
    of_other_lines = random.Random(3).sample(tgt, len(src))
    alone, together = (align_documents(src, tgt, found).beads for found in (None, of_other_lines))
    spans = [{*zip(map(tuple, b.src.tolist()), map(tuple, b.tgt.tolist()), strict=True)} for b in (alone, together)]
    assert len(spans[0] & spans[1]) >= 0.99 * len(spans[0])


@given(
    src=st.lists(st.sampled_from(["The", "cat", ".", "12", "!", "?", "Paris", "dort", "x"]), min_size=1, max_size=40),
    tgt=st.lists(st.sampled_from(["Le", "chat", ".", "12", "!", "?", "Paris", "sleeps", "y"]), min_size=1, max_size=40),
)
@settings(max_examples=30)
def test_every_sentence_is_in_one_pair_or_in_none(src, tgt):
    aligned = align_documents(src, tgt)
    for spans, rest, n in zip(
        (aligned.beads.src, aligned.beads.tgt), aligned.unaligned(), (len(src), len(tgt)), strict=True
    ):
        covered = [line for span in spans.tolist() for line in range(*span)]
        assert sorted(covered + rest) == list(range(n))


def test_one_sentence_against_many_is_one_pair_or_none(documents):
    aligned = align_documents(["One line."], documents[1])
    assert len(aligned.beads) <= 1
    assert len(aligned.unaligned()[1]) >= N - 2


def test_documents_without_any_relation_are_told_from_others(documents):
    shuffled = documents[1][:]
    random.Random(2).shuffle(shuffled)
    assert not align_documents(documents[0], shuffled).is_related


def test_short_documents_are_aligned_by_what_little_there_is(documents):
    src, tgt = (side[:12] for side in documents)
    aligned = align_documents(src, tgt)
    assert aligned.beads.src.tolist() == aligned.beads.tgt.tolist() == [[i, i + 1] for i in range(12)]
    assert aligned.is_related


def test_sentences_are_read_from_lines_and_paragraphs(tmp_path):
    path = tmp_path / "doc.en"
    path.write_text("A heading\n\nIt rains. Does it? Mr. Smith says so.\n  \nThe end.\n", encoding="utf-8")
    assert read_sentences(path) == ["A heading", "It rains.", "Does it?", "Mr. Smith says so.", "The end."]
    path.write_text("\n \n", encoding="utf-8")
    with pytest.raises(DataError, match=r"doc\.en: no text"):
        read_sentences(path)


def test_pairs_and_the_rest_are_written(documents, tmp_path):
    src, tgt = documents
    del tgt[10]
    aligned = align_documents(src, tgt)
    write_pairs(aligned, [tmp_path / "out.tsv"], ("en", "fr"), details=True)
    rows = [line.split("\t") for line in (tmp_path / "out.tsv").read_text(encoding="utf-8").splitlines()]
    assert rows[0][:3] == [src[0], tgt[0], "1-1"]
    assert float(rows[0][3]) == pytest.approx(float(np.asarray(aligned.beads.scores)[0]), abs=0.01)
    write_unaligned(aligned, (tmp_path / "a.en", tmp_path / "b.fr"), tmp_path / "rest.tsv")
    assert f"{tmp_path / 'a.en'}\t11\t{src[10]}" in (tmp_path / "rest.tsv").read_text(encoding="utf-8")

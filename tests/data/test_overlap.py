import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mtkit.config.schema import CorpusFiles, TokenizerConfig, tags_of
from mtkit.data import overlap
from mtkit.data.encoded import encode_corpus
from mtkit.data.overlap import pairs_also_in
from mtkit.data.tokenizer import train_tokenizer

WORDS = ["cat", "dog", "runs", "sleeps"]
TAGS = ["<a>", "<b>"]
sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
corpora = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=12)
tags = st.sampled_from([None, "<a>", "<a> <b>"])


@pytest.fixture(scope="module")
def tagging_tokenizers(tmp_path_factory):
    folder, cfg = tmp_path_factory.mktemp("tokenizers"), TokenizerConfig(vocab_size=300)
    lines = [" ".join(words) for words in itertools.permutations(WORDS)]
    return train_tokenizer(lines, cfg, folder / "src.spm", TAGS), train_tokenizer(lines, cfg, folder / "tgt.spm")


@given(dev=corpora, dev_tag=tags, train=st.lists(st.tuples(corpora, tags), min_size=1, max_size=3))
@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_shared_pairs_are_those_of_a_comparison_of_the_text(
    dev, dev_tag, train, tagging_tokenizers, tmp_path_factory, monkeypatch
):
    monkeypatch.setattr(overlap, "_PAIRS_AT_ONCE", 5)

    def encoded(*tagged):
        folder = tmp_path_factory.mktemp("text")
        for i, (pairs, _) in enumerate(tagged):
            (folder / f"{i}.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs), encoding="utf-8")
        files = [CorpusFiles(tsv=folder / f"{i}.tsv", tag=tag) for i, (_, tag) in enumerate(tagged)]
        src, tgt = tagging_tokenizers
        return encode_corpus(files, src, tgt, folder / "cache", max_tokens=None, max_length_ratio=None)

    text = [pair for pairs, _ in train for pair in pairs]
    n_tags = [len(tags_of(tag)) for tag in (dev_tag, *(tag for _, tag in train))]
    shared = pairs_also_in(encoded((dev, dev_tag)), encoded(*train), n_tags[0], n_tags[1:])
    assert shared == {i: text.index(pair) for i, pair in enumerate(dev) if pair in text}

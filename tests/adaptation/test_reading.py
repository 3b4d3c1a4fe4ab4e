"""Training reads a memory as a translator does: without what the model cannot know, which it puts back afterwards."""

from dataclasses import replace
from typing import Literal

import pytest
from tiny_models import write_lines

from mtkit.adaptation.memory import Memory
from mtkit.adaptation.reading import as_read
from mtkit.bundle import read_bundle
from mtkit.config.data import CorpusFiles
from mtkit.config.tokenizer import TokenizerConfig
from mtkit.errors import DataError
from mtkit.tokens.tokenizer import Tokenizer, train_tokenizer
from mtkit.translation.reading import Reader


@pytest.fixture(params=[True, False], ids=["bytes", "unk"])
def model(request, shared_bundle, tmp_path):
    """A bundle whose tokenizers know small letters, and have bytes or only <unk> for all other characters."""
    letters = "the cat sat on a mat le chat est la abcdefghijklmnopqrstuvwxyz"
    kind: Literal["unigram", "char"] = "unigram" if request.param else "char"
    pieces = TokenizerConfig(type=kind, byte_fallback=request.param, vocab_size=320)
    train_tokenizer([letters] * 50, pieces, tmp_path / "letters.spm")
    tokenizer = Tokenizer.load(tmp_path / "letters.spm")
    files = read_bundle(shared_bundle)
    data = files.config.data.model_copy(update={"src_lang": "en", "tgt_lang": "fr"})
    cfg = files.config.model_copy(update={"data": data})
    return replace(files, config=cfg, src_tokenizer=tokenizer, tgt_tokenizer=tokenizer)


def memory_of(rows, folder):
    """A memory with these pairs to train on."""
    nothing = CorpusFiles(tsv=write_lines(folder / "nothing.tsv", []))
    train = CorpusFiles(tsv=write_lines(folder / "train.tsv", ["\t".join(row) for row in rows]))
    return Memory(len(rows), len(rows), train, nothing, nothing, [])


READ = {
    ("the cat", "le chat"): ("the cat", "le chat"),
    ("the “cat”", "le “chat”"): ("the cat", "le chat"),
    ("a “cat”", "la „chat“"): ("a cat", "la chat"),
    ("a cat 12 sat", "12 chat est"): ("a cat sat", "chat est"),
    ("a cat 1,2 sat", "1.2 chat est"): ("a cat sat", "chat est"),
    ("on → a mat", "la mat"): ("on a mat", "la mat"),
    ("on 12 a mat", "la mat est"): None,  # the target has it as a word
    ("→", "→"): None,
}


def test_training_leaves_out_what_the_translator_takes_out_of_a_source(model, tmp_path):
    read, changed = as_read(memory_of(READ, tmp_path), model, tmp_path, "memory.tsv")
    assert [pair[:2] for pair in read.pairs("train")] == [row for row in READ.values() if row]
    assert "uses 5 pairs without characters" in changed
    assert "leaves out 2 pairs because of such characters" in changed
    assert as_read(read, model, tmp_path, "memory.tsv") == (read, "")


def test_the_model_learns_from_the_sources_that_its_translator_gives_it(model):
    reader = Reader([model.src_tokenizer], files=model, as_typed=True)
    sources = {src: row[0] for (src, _), row in READ.items() if row}
    assert [piece.replaced.text for piece in reader.cutter.encode([*sources])] == [*sources.values()]


def test_only_a_model_with_bytes_learns_to_write_what_its_source_lacks(model, tmp_path):
    rows = [("the cat", "le “chat”"), ("a mat", "la mat")]
    read, changed = as_read(memory_of(rows, tmp_path), model, tmp_path, "memory.tsv")
    has_bytes = bool(model.tgt_tokenizer.byte_ids())
    assert [pair[:2] for pair in read.pairs("train")] == rows[0 if has_bytes else 1 :]
    assert ("leaves out 1 pair because of characters that" in changed) is not has_bytes


def test_pairs_too_long_for_training_are_left_out_and_counted_with_the_key(model, tmp_path):
    most = model.config.data.max_tokens
    rows = [("a cat", "le chat"), ("the cat " * most, "le chat"), ("a mat", "la mat " * most), ("“a cat”", "le chat")]
    read, changed = as_read(memory_of(rows, tmp_path), model, tmp_path, "memory.tsv")
    assert [pair[:2] for pair in read.pairs("train")] == [rows[0], ("a cat", "le chat")]
    assert "uses 1 pair without characters" in changed
    assert "2 pairs because of their length" in changed and f"data.max_tokens={most}" in changed


def test_a_memory_of_which_nothing_can_be_learned_is_refused_with_the_reason_and_a_remedy(model, tmp_path):
    def message(rows):
        with pytest.raises(DataError) as raised:
            as_read(memory_of(rows, tmp_path), model, tmp_path, "memory.tsv")
        return str(raised.value)

    unknown = message([("a cat 12", "le chat est"), ("→", "→")])
    assert (
        unknown.startswith("memory.tsv: ") and "2 pairs because of characters that the model does not know" in unknown
    )
    remedy = "--new-pieces" if model.src_tokenizer.byte_ids() else "a model that knows these characters"
    assert remedy in unknown
    long = message([("the cat " * model.config.data.max_tokens, "le chat")])
    assert "1 pair because of their length" in long and "into sentences" in long

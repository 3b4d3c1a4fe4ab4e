"""Training reads a memory as a translator does: without what the model cannot know, which it puts back afterwards."""

from dataclasses import replace

import pytest
from tiny_models import write_lines

from mtkit.adaptation.memory import Memory
from mtkit.adaptation.reading import as_read
from mtkit.bundle import read_bundle
from mtkit.config.data import CorpusFiles
from mtkit.config.tokenizer import TokenizerConfig
from mtkit.tokens.tokenizer import Tokenizer, train_tokenizer
from mtkit.translation.reading import Reader


@pytest.fixture(params=[True, False], ids=["bytes", "unk"])
def model(request, shared_bundle, tmp_path):
    """A bundle whose tokenizers know small letters, and have bytes or only <unk> for all other characters."""
    letters = "the cat sat on a mat le chat est la abcdefghijklmnopqrstuvwxyz"
    cfg = TokenizerConfig(type="char" if not request.param else "unigram", byte_fallback=request.param, vocab_size=320)
    train_tokenizer([letters] * 50, cfg, tmp_path / "letters.spm")
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
    read, changed = as_read(memory_of(READ, tmp_path), model, tmp_path)
    assert [pair[:2] for pair in read.pairs("train")] == [row for row in READ.values() if row]
    assert "uses 5 pairs without characters" in changed
    assert "leaves out 2 pairs because of such characters" in changed
    assert as_read(read, model, tmp_path) == (read, "")


def test_the_model_learns_from_the_sources_that_its_translator_gives_it(model):
    reader = Reader([model.src_tokenizer], files=model, as_typed=True)
    sources = {src: row[0] for (src, _), row in READ.items() if row}
    assert [piece.replaced.text for piece in reader.cutter.encode([*sources])] == [*sources.values()]


def test_only_a_model_with_bytes_learns_to_write_what_its_source_lacks(model, tmp_path):
    rows = [("the cat", "le “chat”"), ("a mat", "la mat")]
    read, changed = as_read(memory_of(rows, tmp_path), model, tmp_path)
    has_bytes = bool(model.tgt_tokenizer.byte_ids())
    assert [pair[:2] for pair in read.pairs("train")] == rows[0 if has_bytes else 1 :]
    assert ("leaves out 1 pair because" in changed) is not has_bytes

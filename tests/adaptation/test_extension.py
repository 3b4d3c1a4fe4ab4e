"""A model with new pieces: its rows, and what it computes before it is tuned."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mtkit.adaptation.extension import extend, report_gain
from mtkit.bundle import NEW_PIECES, add_to_bundle, load_bundle, load_model, read_bundle, save_bundle
from mtkit.interop import marian
from mtkit.interop.ctranslate2 import export
from mtkit.interop.ctranslate2 import folder as ctranslate2
from mtkit.interop.huggingface import folder as huggingface
from mtkit.interop.imported import Languages
from mtkit.interop.parity import DEFAULT_TOLERANCES, ComparedText
from mtkit.pair_files.pairs import Pair
from mtkit.tokens.sentencepiece_file import PieceType, parse

TEXTS = {"src": "I love kubernetes.", "tgt": "J'aime le noeud."}
PAIRS = [Pair(TEXTS["src"], TEXTS["tgt"], "memory.tmx", 1)] * 6


@pytest.fixture(params=["all", "decoder", "none"])
def base(request, make_native, tmp_path):
    return read_bundle(make_native(tmp_path / "base", request.param))


@torch.no_grad()
def test_a_new_row_is_the_mean_of_the_rows_of_its_old_pieces(base, tmp_path):
    extended = extend(base, PAIRS, 50, tmp_path / "extended")
    old, new = load_model(base), load_model(extended)
    [token_id] = extended.src_tokenizer.piece_ids(["\u2581kubernetes"])
    assert token_id >= base.src_tokenizer.vocab_size
    ids = base.src_tokenizer.encode("kubernetes")
    torch.testing.assert_close(new.src_embedding.weight[token_id], old.src_embedding.weight[ids].mean(0))
    [token_id] = extended.tgt_tokenizer.piece_ids(["\u2581noeud"])
    ids = base.tgt_tokenizer.encode("noeud")
    torch.testing.assert_close(new.tgt_embedding.weight[token_id], old.tgt_embedding.weight[ids].mean(0))
    torch.testing.assert_close(new.output.weight[token_id], old.output.weight[ids].mean(0))
    torch.testing.assert_close(new.output.bias[token_id], old.output.bias[ids].mean())


@torch.no_grad()
def test_old_text_is_scored_as_before_but_for_the_share_of_the_new_rows(base, tmp_path):
    extended = extend(base, PAIRS, 50, tmp_path / "extended")
    n_old = base.tgt_tokenizer.vocab_size
    batches = [
        (files.src_tokenizer.encode("The cat"), files.tgt_tokenizer.encode("A cat")) for files in (base, extended)
    ]
    assert batches[0] == batches[1]
    src, tgt = (torch.tensor([ids]) for ids in batches[0])
    before, after = (load_model(files)(src, tgt)[0] for files in (base, extended))
    assert after.size(1) > n_old
    torch.testing.assert_close(before, after[:, :n_old])  # a wider product may round otherwise
    share = after.softmax(-1)[:, :n_old].sum(-1, keepdim=True)
    torch.testing.assert_close(after.log_softmax(-1)[:, :n_old], before.log_softmax(-1) + share.log())


def test_the_gain_is_described_for_each_side(base, tmp_path):
    extended = extend(base, PAIRS, 50, tmp_path / "extended")
    described = report_gain(base, extended, PAIRS, "the text")
    assert extended.manifest["training"][NEW_PIECES].keys() == {"src", "tgt"}
    for (side, text), line in zip(TEXTS.items(), described, strict=True):
        counts = [len(getattr(files, f"{side}_tokenizer").encode(text)) for files in (base, extended)]
        assert counts[1] < counts[0]
        assert f"{counts[0]:.1f} pieces" in line and f"{counts[1]:.1f} after" in line


def test_a_model_with_new_pieces_knows_the_words_of_its_base(make_native, tmp_path):
    base = make_native(tmp_path / "base", "all")
    add_to_bundle(base, "words.npz", lambda path: path.write_bytes(b"words"))
    extended = extend(read_bundle(base), PAIRS, 50, tmp_path / "extended")
    assert (extended.folder / "words.npz").read_bytes() == b"words"
    assert "words.npz" in extended.manifest["sha256"]


def test_text_that_needs_no_pieces_leaves_the_base(base, tmp_path):
    assert extend(base, PAIRS[:4], 50, tmp_path / "extended") is base
    assert not (tmp_path / "extended").exists()


@torch.no_grad()
@pytest.mark.parametrize("to", ["ctranslate2", "marian", "hf"])
def test_a_model_with_new_pieces_is_the_same_in_other_formats(make_native, tmp_path, to):
    base = make_native(tmp_path / "base", "all", positions="marian", zero_start=True)
    extended = extend(read_bundle(base), PAIRS, 50, tmp_path / "extended")
    exported, again = tmp_path / "exported", tmp_path / "again"
    languages = Languages("en", "fr")
    if to == "ctranslate2":
        text = ComparedText("text", None, [TEXTS["src"]], None)
        export.export_bundle(extended, exported, "float32", [text], DEFAULT_TOLERANCES["float32"], 1)
        ctranslate2.import_model(exported, again, languages)
    elif to == "marian":
        marian.export_bundle(extended.folder, exported)
        marian.import_model(exported / "model.npz", again, languages=languages)
    else:
        huggingface.export_bundle(extended.folder, exported)
        huggingface.import_model(exported, again, languages)
    other = read_bundle(again)
    outputs = []
    for files in (extended, other):
        src, tgt = (files.src_tokenizer.encode(TEXTS["src"]), files.tgt_tokenizer.encode(TEXTS["tgt"]))
        assert len(src) < len(read_bundle(base).src_tokenizer.encode(TEXTS["src"]))
        outputs.append(load_model(files)(torch.tensor([[*src, 3]]), torch.tensor([[2, *tgt]])))
    torch.testing.assert_close(*outputs, atol=1e-4, rtol=0)


@torch.no_grad()
def test_two_tokenizers_of_one_matrix_keep_common_ids(make_native, tmp_path):
    base = load_bundle(make_native(tmp_path / "one", "all"))
    model = parse(base.tgt_tokenizer.serialized())
    index = next(i for i, piece in enumerate(model.pieces) if piece.type is PieceType.NORMAL and len(piece.text) > 2)
    pieces = [*model.pieces]
    pieces[index] = replace(pieces[index], type=PieceType.UNUSED)
    other = model.with_pieces(pieces, {"pad": 0, "unk": 1, "bos": 2, "eos": 3}).serialize()
    (tmp_path / "tgt.spm").write_bytes(other)
    spm = tmp_path / "one" / "src.spm", tmp_path / "tgt.spm"
    save_bundle(tmp_path / "base", base.model.state_dict(), base.config, *spm, training={})
    extended = extend(read_bundle(tmp_path / "base"), PAIRS, 50, Path(tmp_path / "extended"))
    sides = [parse(one.serialized()).pieces for one in (extended.src_tokenizer, extended.tgt_tokenizer)]
    assert [piece.text for piece in sides[0]] == [piece.text for piece in sides[1]]
    [token_id] = extended.src_tokenizer.piece_ids(["\u2581kubernetes"])
    assert token_id in extended.src_tokenizer.encode("kubernetes")
    assert token_id not in extended.tgt_tokenizer.encode("kubernetes")
    assert load_model(extended).output.bias[token_id] <= -30

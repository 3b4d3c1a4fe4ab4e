"""Vocabularies in mtkit's order: the tokenizer cuts text as before, and each row follows its piece."""

import pytest
import sentencepiece
import torch
from fixtures.interop import ENGLISH, FRENCH
from hypothesis import example, given
from hypothesis import strategies as st

from mtkit.errors import DataError
from mtkit.interop.vocabulary import (
    BANNED,
    Layout,
    Vocabularies,
    Vocabulary,
    export_rows,
    import_bias,
    import_weight,
    names_of,
    original_names,
    original_spm,
    pieces_without_row,
    read_spm,
    spm_layout,
    src_tokenizer,
    text_spm,
    tgt_tokenizer,
)
from mtkit.tokens.sentencepiece_file import Piece, PieceType, parse
from mtkit.tokens.tokenizer import Tokenizer

LINES = ["the cat sleeps", "the cats sleep there", "these are the others", "ça va très bien", "où est-il ?"] * 4
TEXTS = st.text(st.sampled_from("thecasl pérçaù?- 𝔣☃\u2581"), max_size=30)


def processor(data: bytes) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_proto=data)


@pytest.fixture(scope="module", params=["unigram", "bpe", "char", "bytes"])
def original(request, train_spm) -> bytes:
    if request.param == "bytes":
        return train_spm(LINES, vocab_size=330, byte_fallback=True, eos_id=0, unk_id=1, bos_id=-1)
    return train_spm(LINES, model_type=request.param)


def rewritten(original: bytes, path) -> tuple[Tokenizer, Layout]:
    model = parse(original)
    layout = spm_layout(model)
    return Tokenizer(src_tokenizer(model, names_of(model), layout), path), layout


@pytest.fixture(scope="module")
def before_and_after(original, tmp_path_factory):
    """The model, the same in our order (Tokenizer checks the special ids), and its layout."""
    return processor(original), *rewritten(original, tmp_path_factory.getbasetemp())


@given(text=TEXTS)
@example(text="")
@example(text="  the ☃☃ cats <s> </s> <unk>")
def test_a_tokenizer_in_our_order_cuts_any_text_like_the_original(before_and_after, text):
    before, after, layout = before_and_after
    assert [layout.rows[token_id] for token_id in after.encode(text)] == before.encode(text)
    assert after.decode(after.encode(text)) == before.decode(before.encode(text))


def test_special_pieces_come_first_and_the_others_keep_their_order(train_spm, tmp_path):
    data = train_spm(LINES, eos_id=0, unk_id=1, bos_id=-1)
    tokenizer, layout = rewritten(data, tmp_path)
    old = names_of(parse(data))
    assert layout == Layout(len(old), unk=1, eos=0, pad=None, bos=None)
    assert layout.rows[:6] == [-1, 1, -1, 0, 2, 3]
    assert tokenizer.pieces(range(tokenizer.vocab_size)) == ["<pad>", "<unk>", "<start>", "</s>", *old[2:]]


def test_rows_follow_their_pieces_in_both_directions():
    layout = Layout(size=5, unk=3, eos=0, pad=4, bos=None, n_unknown=2)
    assert layout.rows == [4, 3, -1, 0, 1, 2, 3, 3]
    weight, bias = torch.arange(10.0).view(5, 2), torch.arange(5.0)
    start = torch.tensor([70.0, 80.0])
    imported = import_weight(weight, layout, start)
    assert imported.tolist() == [[8, 9], [6, 7], [70, 80], [0, 1], [2, 3], [4, 5], [6, 7], [6, 7]]
    assert import_weight(weight, layout)[2].tolist() == [0, 0]
    assert import_bias(bias, layout).tolist() == [4, 3, BANNED, 0, 1, 2, BANNED, BANNED]
    assert torch.equal(export_rows(imported, layout), weight)
    assert torch.equal(export_rows(import_bias(bias, layout), layout), bias)


@given(
    size=st.integers(4, 9), special=st.permutations(range(4)), n_unknown=st.integers(0, 2), lacking=st.integers(0, 3)
)
def test_an_export_undoes_an_import(size, special, n_unknown, lacking):
    unk, eos, pad, bos = special
    layout = Layout(size, unk, eos, None if lacking & 1 else pad, None if lacking & 2 else bos, n_unknown)
    weight = torch.rand(size, 3)
    imported = import_weight(weight, layout)
    assert torch.equal(export_rows(imported, layout), weight)
    assert len(imported) == size + n_unknown + lacking.bit_count()
    assert sorted(row for row in layout.rows[: len(layout.rows) - n_unknown] if row >= 0) == [*range(size)]


# Below: a list of names beside the tokenizers, as in OPUS-MT: one for both sides, in its own order.


@pytest.fixture(scope="module")
def names(english_spm, french_spm) -> list[str]:
    """The pieces of both sides without two of the source, and two tags."""
    both = {*names_of(parse(english_spm))[3:], *names_of(parse(french_spm))[3:]}
    return ["</s>", "<unk>", *sorted(both - {"▁rains", "s"}), ">>fra<<", ">>zlw-Latn<<", "<pad>"]


@pytest.fixture(scope="module")
def layout(english_spm, names) -> Layout:
    n_unknown = len(pieces_without_row(parse(english_spm), names))
    return Layout(len(names), unk=1, eos=0, pad=len(names) - 1, n_unknown=n_unknown)


@pytest.fixture(scope="module")
def both(english_spm, names, layout, tmp_path_factory) -> tuple[sentencepiece.SentencePieceProcessor, Tokenizer]:
    """The source's tokenizer before and after."""
    after = Tokenizer(src_tokenizer(parse(english_spm), names, layout), tmp_path_factory.getbasetemp())
    return processor(english_spm), after


@given(text=st.text(st.sampled_from("thecas dourn.☃"), max_size=30))
@example(text="the cats J m é the table")
def test_source_pieces_are_looked_up_by_name(both, names, layout, text):
    """Like transformers: cut the text, look each piece up by its text; <unk> if it is not in the list."""
    before, after = both
    ids = {name: row for row, name in enumerate(names)}
    wanted = [ids.get(piece, layout.unk) for piece in before.encode(text, out_type=str)]
    assert [layout.rows[token_id] for token_id in after.encode(text)] == wanted


def test_the_text_above_has_pieces_without_a_row_and_letters_of_the_target(both, names, layout):
    _, after = both
    assert layout.n_unknown == 2
    rows = [layout.rows[token_id] for token_id in after.encode("rains bs")]  # ▁rains ▁ b s
    assert rows == [layout.unk, names.index("▁"), names.index("b"), layout.unk]
    assert names[layout.rows[after.encode("J")[-1]]] == "J"


def test_the_tokenizer_whose_pieces_have_no_row_is_named_once(train_spm, tmp_path, log_text):
    src, tgt = (parse(train_spm(lines)) for lines in (ENGLISH, ENGLISH + FRENCH))
    pieces = sorted({*names_of(src), *names_of(tgt)} - {"b", "<unk>", "<s>", "</s>"})
    names = ["</s>", "<unk>", *pieces]

    def warned(*models):
        path = tmp_path / "vocab.json"
        of_src, of_tgt = (Vocabulary(path, model, names, Layout.from_names(names, path)) for model in models)
        Vocabularies.from_sides(of_src, of_tgt, "joint", shared=True).tokenizers()
        return [
            line.partition(" of the ")[2].partition("'s ")[0] for line in log_text().splitlines() if "no row" in line
        ]

    assert warned(src, tgt) == ["source tokenizer", "target tokenizer"]
    assert warned(src, src) == ["tokenizer"]


@pytest.mark.parametrize("tag", [">>fra<<", ">>zlw-Latn<<"])
def test_a_tag_at_the_beginning_is_one_token(english_spm, names, layout, tmp_path, tag):
    tokenizer = Tokenizer(src_tokenizer(parse(english_spm), names, layout), tmp_path)
    first, *others = tokenizer.encode(f"{tag} the cat")
    assert names[layout.rows[first]] == tag
    assert others == tokenizer.encode("the cat")


def test_a_tag_is_one_token_even_if_its_parts_are_pieces(english_spm, tmp_path):
    model = parse(english_spm)
    ids = {"unk": 0, "bos": 1, "eos": 2, "pad": None}
    model = parse(model.with_pieces([*model.pieces, Piece("▁>>fr", -3.0), Piece("a<<", -3.0)], ids).serialize())
    assert processor(model.serialize()).encode(">>fra<< a", out_type=str)[:2] == ["▁>>fr", "a<<"]
    names = ["</s>", "<unk>", *names_of(model)[3:], ">>fra<<"]
    tokenizer = Tokenizer(src_tokenizer(model, names, Layout(len(names), unk=1, eos=0)), tmp_path)
    assert tokenizer.pieces(tokenizer.encode(">>fra<< a")[:1]) == ["▁>>fra<<"]


def test_a_tag_is_one_token_of_bpe_too(train_spm, tmp_path):
    model = parse(train_spm(LINES, model_type="bpe"))
    names = ["</s>", "<unk>", *names_of(model)[3:], ">>fra<<"]
    layout = Layout(len(names), unk=1, eos=0)
    tokenizer = Tokenizer(src_tokenizer(model, names, layout), tmp_path)
    assert tokenizer.pieces(tokenizer.encode(">>fra<< the")[:1]) == ["▁>>fra<<"]


def test_the_target_decodes_every_name(french_spm, names, layout, english_spm, tmp_path):
    extra = pieces_without_row(parse(english_spm), names)
    tokenizer = Tokenizer(tgt_tokenizer(parse(french_spm), names, layout, extra), tmp_path)
    assert tokenizer.vocab_size == len(layout.rows)
    for token_id, row in enumerate(layout.rows[4:], start=4):
        assert tokenizer.decode([token_id, token_id]).replace(" ", "") == 2 * (
            names[row] if token_id < len(layout.rows) - layout.n_unknown else extra[token_id - len(layout.rows)].text
        ).replace("▁", "")


def test_the_target_is_cut_into_pieces_that_have_rows(french_spm, names, layout, english_spm, tmp_path):
    known = [name for name in names if name != "▁il"]
    smaller = Layout(len(known), unk=1, eos=0, pad=len(known) - 1, n_unknown=0)
    tokenizer = Tokenizer(tgt_tokenizer(parse(french_spm), known, smaller), tmp_path)
    assert max(tokenizer.encode("le chat dort, il pleut")) < len(smaller.rows)
    assert tokenizer.vocab_size == len(smaller.rows)


def test_an_export_restores_names_and_tokenizer(english_spm, names, layout, tmp_path):
    path = tmp_path / "src.spm"
    path.write_bytes(src_tokenizer(parse(english_spm), names, layout))
    assert original_names(read_spm(path), layout) == names
    back = parse(text_spm(read_spm(path), layout))
    in_text = {piece for piece in parse(english_spm).pieces if piece.type is PieceType.NORMAL}
    assert {piece for piece in back.pieces if piece.type is PieceType.NORMAL} == in_text
    assert src_tokenizer(back, names, layout) == path.read_bytes()


def test_a_target_list_without_some_bytes_is_refused(train_spm):
    model = parse(train_spm(LINES, vocab_size=330, byte_fallback=True))
    names = [name for name in names_of(model) if name != "<0x41>"]
    with pytest.raises(DataError, match="<0x41>"):
        tgt_tokenizer(model, names, Layout(len(names), unk=0, eos=2, bos=1))


def test_an_export_restores_the_ids_of_an_spm(original, tmp_path):
    path = tmp_path / "src.spm"
    model = parse(original)
    path.write_bytes(src_tokenizer(model, names_of(model), spm_layout(model)))
    back = original_spm(read_spm(path), spm_layout(model))
    assert parse(back).pieces == model.pieces
    assert spm_layout(parse(back)) == spm_layout(model)


def test_a_name_that_is_taken_is_not_given_twice(train_spm, tmp_path):
    """In this model <pad> and <start> are ordinary pieces."""
    model = parse(train_spm(LINES, user_defined_symbols=["<start>", "<pad>"]))
    tokenizer = Tokenizer(src_tokenizer(model, names_of(model), spm_layout(model)), tmp_path)
    assert tokenizer.pieces([0, 2]) == ["<<pad>>", "<s>"]


def test_a_model_without_an_end_of_sentence_is_refused(train_spm):
    with pytest.raises(DataError, match="</s>"):
        spm_layout(parse(train_spm(LINES, eos_id=-1)))


def test_a_damaged_or_missing_file_is_named(tmp_path, english_spm):
    path = tmp_path / "bad.spm"
    path.write_bytes(english_spm[:-40])
    with pytest.raises(DataError, match=r"bad\.spm: "):
        read_spm(path)
    with pytest.raises(DataError, match=r"none\.spm: "):
        read_spm(tmp_path / "none.spm")

"""SentencePiece files, compared with SentencePiece's own reader."""

import pytest
import sentencepiece

from mtkit.errors import DataError
from mtkit.tokens.sentencepiece_file import Piece, PieceType, parse


@pytest.mark.parametrize("algorithm", ["unigram", "bpe", "word", "char"])
def test_pieces_and_settings_equal_sentencepieces(train_spm, algorithm):
    data = train_spm(
        ["some words and some more words", "ça va très bien"],
        model_type=algorithm,
        byte_fallback=algorithm == "bpe",
        normalization_rule_name="nfkc_cf",
        user_defined_symbols=["<br>"],
        vocab_size=300 if algorithm == "bpe" else 30,
    )
    model, processor = parse(data), sentencepiece.SentencePieceProcessor(model_proto=data)
    ids = range(processor.get_piece_size())
    assert [piece.text for piece in model.pieces] == [processor.id_to_piece(n) for n in ids]
    assert [piece.score for piece in model.pieces] == [processor.get_score(n) for n in ids]
    assert [piece.type is PieceType.CONTROL for piece in model.pieces] == [processor.is_control(n) for n in ids]
    assert [piece.type is PieceType.UNKNOWN for piece in model.pieces] == [processor.is_unknown(n) for n in ids]
    assert [piece.type is PieceType.BYTE for piece in model.pieces] == [processor.is_byte(n) for n in ids]
    assert model.pieces[3] == Piece("<br>", 0.0, PieceType.USER_DEFINED)
    assert (model.algorithm, model.normalization) == (algorithm, "nfkc_cf")
    assert model.byte_fallback == (algorithm == "bpe")


def test_an_unchanged_model_keeps_every_byte(english_spm):
    assert parse(english_spm).serialize() == english_spm


def test_protobuf_reads_the_pieces_that_were_written(english_spm):
    """The oracle is the official description of the format, if protobuf is installed."""
    pytest.importorskip("google.protobuf", reason="protobuf is not installed")
    from sentencepiece import sentencepiece_model_pb2

    ModelProto = sentencepiece_model_pb2.ModelProto  # type: ignore[attr-defined]  # protobuf adds it on import
    pieces = [Piece("<p>", 0.0, PieceType.CONTROL), Piece("<u>", 0.0, PieceType.UNKNOWN), Piece("▁é", -1.5)]
    pieces.append(Piece("x" * 200, 2.0, PieceType.UNUSED))  # its length takes two bytes
    data = parse(english_spm).with_pieces(pieces, {"unk": 1, "pad": 0, "bos": None, "eos": None}).serialize()
    proto = ModelProto.FromString(data)
    assert [(p.piece, p.score, p.type) for p in proto.pieces] == [(p.text, p.score, p.type) for p in pieces]
    trainer = proto.trainer_spec
    assert (trainer.unk_id, trainer.pad_id, trainer.bos_id, trainer.eos_id) == (1, 0, -1, -1)
    assert (trainer.unk_piece, trainer.pad_piece, trainer.vocab_size) == ("<u>", "<p>", 4)
    original = ModelProto.FromString(english_spm)
    assert proto.normalizer_spec == original.normalizer_spec
    assert trainer.model_type == original.trainer_spec.model_type


@pytest.mark.parametrize("damage", [lambda b: b[:-3], lambda b: b"\x0b" + b, lambda b: b"", lambda b: b"not a model"])
def test_a_damaged_file_is_refused(english_spm, damage):
    with pytest.raises(DataError, match="not a SentencePiece model"):
        parse(damage(english_spm))

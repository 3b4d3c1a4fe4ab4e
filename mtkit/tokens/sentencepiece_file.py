"""Read the pieces and settings of a SentencePiece model file, change them, and write the file again.

The file is a protocol buffer, `ModelProto` of SentencePiece. Only the fields used here are decoded; all others keep
their bytes. Field numbers are those of sentencepiece_model.proto.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from mtkit.errors import DataError

_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3  # fields of ModelProto
_TEXT, _SCORE, _TYPE = 1, 2, 3  # fields of a piece
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types
_ALGORITHM, _VOCAB_SIZE, _BYTE_FALLBACK = 3, 4, 35  # fields of TrainerSpec
_SPECIAL_IDS = {"unk": 40, "bos": 41, "eos": 42, "pad": 43}
_SPECIAL_NAMES = {"unk": 45, "bos": 46, "eos": 47, "pad": 48}
_RULE, _TABLE_PATH = 1, 6  # fields of NormalizerSpec
_ALGORITHMS = ("unigram", "unigram", "bpe", "word", "char")


class PieceType(IntEnum):
    """What a piece is for."""

    NORMAL = 1
    UNKNOWN = 2  # replaces text without a piece; exactly one
    CONTROL = 3  # never matches text, decodes to nothing
    USER_DEFINED = 4  # always matched first
    UNUSED = 5  # never matches text, but decodes to itself
    BYTE = 6


@dataclass(frozen=True)
class Piece:
    """One entry of the vocabulary; its index is its id."""

    text: str
    score: float = 0.0
    type: PieceType = PieceType.NORMAL


@dataclass(frozen=True)
class Field:
    """One field of a message as in the file; value: an int for a varint, else bytes."""

    number: int
    wire_type: int
    value: int | bytes


@dataclass(frozen=True)
class SentencePieceModel:
    """The pieces in the order of their ids, and the rest of the file."""

    pieces: tuple[Piece, ...]
    rest: tuple[Field, ...]  # all other fields of the file

    @property
    def algorithm(self) -> str:
        """The type of the tokenizer: unigram, bpe, word or char."""
        return _ALGORITHMS[self._number(_TRAINER, _ALGORITHM)]

    @property
    def byte_fallback(self) -> bool:
        """Whether characters without a piece become bytes."""
        return bool(self._number(_TRAINER, _BYTE_FALLBACK))

    @property
    def normalization(self) -> str:
        """The name of the normalisation rule."""
        return b"".join(f.value for f in self._fields(_NORMALIZER, _RULE) if isinstance(f.value, bytes)).decode()

    def _number(self, section: int, number: int) -> int:
        values = [field.value for field in self._fields(section, number)]
        return int(values[-1]) if values else 0

    def _fields(self, section: int, number: int) -> list[Field]:
        sections = [field.value for field in self.rest if field.number == section and isinstance(field.value, bytes)]
        return [field for message in sections for field in _fields_of(message) if field.number == number]

    def with_pieces(self, pieces: Sequence[Piece], special_ids: Mapping[str, int | None]) -> "SentencePieceModel":
        """Return the model with other pieces; special_ids: of unk, bos, eos and pad, None for one it does not have.

        SentencePiece finds special ids by the names of their pieces, so these are set, too.
        """
        changed: dict[int, Field] = {_VOCAB_SIZE: Field(_VOCAB_SIZE, _VARINT, len(pieces))}
        for name, token_id in special_ids.items():
            value = 2**64 - 1 if token_id is None else token_id  # -1 as a varint
            changed[_SPECIAL_IDS[name]] = Field(_SPECIAL_IDS[name], _VARINT, value)
            if token_id is not None:
                text = pieces[token_id].text.encode("utf-8")
                changed[_SPECIAL_NAMES[name]] = Field(_SPECIAL_NAMES[name], _BYTES, text)
        dropped = {*changed, *_SPECIAL_NAMES.values()}
        old = b"".join(f.value for f in self.rest if f.number == _TRAINER and isinstance(f.value, bytes))
        fields = [field for field in _fields_of(old) if field.number not in dropped]
        trainer = b"".join(map(_as_bytes, [*fields, *(changed[number] for number in sorted(changed))]))
        others = [field for field in self.rest if field.number != _TRAINER]
        return replace(self, pieces=tuple(pieces), rest=(Field(_TRAINER, _BYTES, trainer), *others))

    def serialize(self) -> bytes:
        """Return the bytes of the file."""
        pieces = (Field(_PIECES, _BYTES, _piece_bytes(piece)) for piece in self.pieces)
        return b"".join(map(_as_bytes, [*pieces, *self.rest]))


def parse(model: bytes) -> SentencePieceModel:
    """Parse the bytes of a file. Raises DataError if it is not a SentencePiece model."""
    try:
        fields = list(_fields_of(model))
        pieces = [_piece(field.value) for field in fields if field.number == _PIECES and isinstance(field.value, bytes)]
    except (IndexError, ValueError, struct.error) as error:
        raise DataError(f"not a SentencePiece model, or damaged ({error})") from error
    if not pieces:
        raise DataError("not a SentencePiece model: it has no pieces")
    return SentencePieceModel(tuple(pieces), tuple(field for field in fields if field.number != _PIECES))


def with_rule_name(model: bytes, name: str) -> bytes:
    """Return the bytes of the file with this name for its normalisation rule, and without the path of its table.

    The table itself is also in the file, and stays.
    """

    def named(spec: bytes) -> bytes:
        others = (_as_bytes(field) for field in _fields_of(spec) if field.number not in (_RULE, _TABLE_PATH))
        return _as_bytes(Field(_RULE, _BYTES, name.encode("utf-8"))) + b"".join(others)

    return b"".join(
        _as_bytes(replace(field, value=named(field.value)))
        if field.number == _NORMALIZER and isinstance(field.value, bytes)
        else _as_bytes(field)
        for field in _fields_of(model)
    )


def _piece(message: bytes) -> Piece:
    text, score, kind = "", 0.0, PieceType.NORMAL
    for field in _fields_of(message):
        if field.number == _TEXT and isinstance(field.value, bytes):
            text = field.value.decode("utf-8")
        elif field.number == _SCORE and isinstance(field.value, bytes):
            [score] = struct.unpack("<f", field.value)
        elif field.number == _TYPE:
            kind = PieceType(int(field.value))
    return Piece(text, score, kind)


def _piece_bytes(piece: Piece) -> bytes:
    fields = [
        Field(_TEXT, _BYTES, piece.text.encode("utf-8")),
        Field(_SCORE, _FIXED32, struct.pack("<f", piece.score)),
    ]
    if piece.type is not PieceType.NORMAL:
        fields.append(Field(_TYPE, _VARINT, int(piece.type)))
    return b"".join(map(_as_bytes, fields))


def _fields_of(message: bytes) -> Iterator[Field]:
    offset = 0
    while offset < len(message):
        tag, offset = _varint(message, offset)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            value, offset = _varint(message, offset)
            yield Field(number, wire_type, value)
            continue
        if wire_type == _BYTES:
            length, offset = _varint(message, offset)
        elif wire_type in (_FIXED32, _FIXED64):
            length = 4 if wire_type == _FIXED32 else 8
        else:
            raise ValueError(f"wire type {wire_type} at byte {offset}")
        if offset + length > len(message):
            raise ValueError(f"a field of {length} bytes at byte {offset} is cut off")
        yield Field(number, wire_type, message[offset : offset + length])
        offset += length


def _varint(message: bytes, offset: int) -> tuple[int, int]:
    """Read a number, seven bits a byte, lowest first; return it and the offset after it."""
    value = shift = 0
    while True:
        byte = message[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
        shift += 7


def _as_bytes(field: Field) -> bytes:
    tag = _varint_bytes(field.number << 3 | field.wire_type)
    if isinstance(field.value, int):
        return tag + _varint_bytes(field.value)
    length = _varint_bytes(len(field.value)) if field.wire_type == _BYTES else b""
    return tag + length + field.value


def _varint_bytes(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)

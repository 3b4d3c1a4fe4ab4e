"""Another system's vocabulary in mtkit's order of ids, and back: tokenizers and the rows of matrices.

mtkit wants pad, unk, bos and eos at 0, 1, 2 and 3 on both sides; whatever else a vocabulary holds follows in its own
order. What the other system has no row for gets one that is never chosen.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from torch import Tensor

from mtkit.data.sentencepiece_file import Piece, PieceType, SentencePieceModel, parse
from mtkit.data.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from mtkit.data.tokenizer import SPACE
from mtkit.errors import BundleError, DataError

# The output bias of a row that the other system does not have: its probability is exactly 0. Finite in fp16, too.
BANNED = -30000.0
_N_SPECIAL = 4
_TAG = re.compile(r">>.+<<")  # OPUS-MT: which language to translate into, at the beginning of the source
_UNKNOWN_PENALTY = 10.0  # by how much an unknown character is unlikelier than the unlikeliest piece (SentencePiece's)
_FOUND_IN_TEXT = (PieceType.NORMAL, PieceType.USER_DEFINED, PieceType.BYTE)


@dataclass(frozen=True)
class Layout:
    """Where the special rows of the other system's vocabulary are; None: it has none. The others keep their order."""

    size: int  # its rows
    unk: int
    eos: int
    pad: int | None = None
    bos: int | None = None
    n_unknown: int = 0  # pieces of the tokenizer without a row of their own: they get the last ones, copies of unk's

    @classmethod
    def of_mtkit(cls, size: int) -> "Layout":
        """mtkit's own."""
        return cls(size, unk=UNK_ID, eos=EOS_ID, pad=PAD_ID, bos=BOS_ID)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Layout":
        """What `as_json` gave. Raises BundleError for anything else."""
        try:
            return cls(**values)
        except TypeError as error:
            raise BundleError(f"the manifest tells of a vocabulary in a way that is not understood: {error}") from error

    def as_json(self) -> dict[str, int | None]:
        """For a bundle's manifest."""
        return asdict(self)

    @property
    def others(self) -> list[int]:
        """The rows that are not special ones."""
        return [row for row in range(self.size) if row not in (self.pad, self.unk, self.bos, self.eos)]

    @property
    def rows(self) -> list[int]:
        """For each of mtkit's ids the row that it comes from; -1: none."""
        special = {PAD_ID: self.pad, UNK_ID: self.unk, BOS_ID: self.bos, EOS_ID: self.eos}
        first = [special[number] for number in range(_N_SPECIAL)]
        return [-1 if row is None else row for row in first] + self.others + [self.unk] * self.n_unknown


def bring_weight(weight: Tensor, layout: Layout, start: Tensor | None = None) -> Tensor:
    """A matrix (V, D) with its rows in mtkit's order; rows that it lacks are zeros, bos is start if given."""
    rows = torch.tensor(layout.rows)
    moved = weight[rows.clamp(min=0)]
    moved[rows < 0] = 0.0
    if start is not None and layout.bos is None:
        moved[BOS_ID] = start
    return moved


def bring_bias(bias: Tensor, layout: Layout) -> Tensor:
    """An output bias (V,) in mtkit's order; rows that it lacks are never chosen."""
    rows = torch.tensor(layout.rows)
    moved = bias[rows.clamp(min=0)]
    moved[rows < 0] = BANNED
    moved[len(rows) - layout.n_unknown :] = BANNED
    return moved


def take_back(weight: Tensor, layout: Layout) -> Tensor:
    """The inverse of both: the other system's rows, in its order."""
    rows = torch.tensor(layout.rows[: layout.size + layout.rows[:_N_SPECIAL].count(-1)])
    moved = torch.zeros(layout.size, *weight.shape[1:], dtype=weight.dtype)
    moved[rows[rows >= 0]] = weight[: len(rows)][rows >= 0]
    return moved


def bring_state(
    state: Mapping[str, Tensor], tie: str, src: Layout, tgt: Layout, start: Tensor | None = None
) -> dict[str, Tensor]:
    """A model's state with its vocabularies in mtkit's order; start: the embedding of bos, if tgt has no row for it."""
    moved = dict(state)
    moved["tgt_embedding.weight"] = bring_weight(state["tgt_embedding.weight"], tgt, start)
    moved["output.bias"] = bring_bias(state["output.bias"], tgt)
    moved["output.weight"] = moved["tgt_embedding.weight"]
    moved["src_embedding.weight"] = moved["tgt_embedding.weight"]
    if tie == "none":
        moved["output.weight"] = bring_weight(state["output.weight"], tgt)
    if tie != "all":
        moved["src_embedding.weight"] = bring_weight(state["src_embedding.weight"], src)
    return moved


def take_back_state(state: Mapping[str, Tensor], src: Layout, tgt: Layout) -> dict[str, Tensor]:
    """The inverse of `bring_state`."""
    layouts = {"src_embedding.weight": src}
    names = ("src_embedding.weight", "tgt_embedding.weight", "output.weight", "output.bias")
    return {**state, **{name: take_back(state[name], layouts.get(name, tgt)) for name in names}}


def read_spm(path: Path) -> SentencePieceModel:
    """The SentencePiece model in the file. Raises DataError if there is none."""
    try:
        data = path.read_bytes()
        model = parse(data)
        sentencepiece.SentencePieceProcessor(model_proto=data)
        return model
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (DataError, RuntimeError) as error:
        raise DataError(f"{path}: not a SentencePiece model, or a damaged one") from error


def spm_layout(model: SentencePieceModel) -> Layout:
    """Where the special pieces of a SentencePiece model are. Raises DataError if it has no end of sentence."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.serialize())
    if processor.eos_id() < 0:
        raise DataError("this SentencePiece model has no end of sentence (</s>), which a translation model needs")
    pad, bos = (None if number < 0 else number for number in (processor.pad_id(), processor.bos_id()))
    return Layout(len(model.pieces), unk=processor.unk_id(), eos=processor.eos_id(), pad=pad, bos=bos)


def names_of(model: SentencePieceModel) -> list[str]:
    """The pieces' texts in the order of their ids."""
    return [piece.text for piece in model.pieces]


def spelled_as_unknown(model: SentencePieceModel, names: Sequence[str]) -> list[Piece]:
    """The pieces that the tokenizer finds in text, but that the vocabulary does not know."""
    known = {*names, *(f"{SPACE}{name}" for name in names if _TAG.fullmatch(name))}
    return [piece for piece in model.pieces if piece.type in _FOUND_IN_TEXT and piece.text not in known]


def src_tokenizer(model: SentencePieceModel, names: Sequence[str], layout: Layout) -> bytes:
    """A tokenizer in mtkit's order of ids that cuts text into the same pieces as model does.

    names: what the other system calls its rows. Those that are no pieces of the model are never found in text, but
    for single characters and tags such as >>fra<<, which become pieces. (Where the other system makes one unknown
    token of several unknown characters in a row, each of them is one of its own here.)
    """
    known = _Known(model)

    def piece(name: str) -> Piece:
        return known.tag(name) if name not in known.by_text and _TAG.fullmatch(name) else known.piece(name)

    extra = spelled_as_unknown(model, names)
    return _rewritten(model, [piece(names[row]) for row in layout.others] + extra, names, layout)


def tgt_tokenizer(
    model: SentencePieceModel, names: Sequence[str], layout: Layout, extra: Sequence[Piece] = ()
) -> bytes:
    """A tokenizer in mtkit's order of ids that decodes every row's name, and cuts text into pieces among them.

    extra: pieces of the source side that have rows because the two sides share them; they are never found in text.
    """
    missing = [piece.text for piece in spelled_as_unknown(model, names) if piece.type is PieceType.BYTE]
    if missing:
        raise DataError(f"the vocabulary lacks {missing[0]} and other bytes that the target's tokenizer spells with")
    known = _Known(model)
    pieces = [known.piece(names[row]) for row in layout.others]
    unused = [Piece(piece.text, type=PieceType.UNUSED) for piece in extra]
    return _rewritten(model, pieces + unused, names, layout)


class _Known:
    """A model's pieces by their text, and what stands for a row whose name is none of them."""

    def __init__(self, model: SentencePieceModel) -> None:
        self.by_text = {piece.text: piece for piece in model.pieces}
        scores = [piece.score for piece in model.pieces if piece.type is PieceType.NORMAL] or [0.0]
        self.likeliest, self.unlikely = max(scores), min(scores) - _UNKNOWN_PENALTY
        self.unigram = model.algorithm == "unigram"

    def piece(self, name: str) -> Piece:
        """The piece of this name. A character becomes one: other systems look what is unknown up by its spelling."""
        if name in self.by_text:
            return self.by_text[name]
        return Piece(name, self.unlikely) if len(name) == 1 else Piece(name, type=PieceType.UNUSED)

    def tag(self, name: str) -> Piece:
        """A piece that is found at the beginning of a word.

        As likely as the likeliest piece, it beats whatever else a tag could be cut into. Other algorithms merge pairs,
        and find it only as what SentencePiece calls a user-defined piece.
        """
        kind = PieceType.NORMAL if self.unigram else PieceType.USER_DEFINED
        return Piece(f"{SPACE}{name}", self.likeliest, kind)


def _rewritten(model: SentencePieceModel, others: list[Piece], names: Sequence[str], layout: Layout) -> bytes:
    taken = {*names, *(piece.text for piece in others)}

    def special(row: int | None, default: str, kind: PieceType = PieceType.CONTROL) -> Piece:
        text = default if row is None else names[row]
        while row is None and text in taken:
            text = f"<{text}>"
        return Piece(text, type=kind)

    first = {
        PAD_ID: special(layout.pad, "<pad>"),
        UNK_ID: special(layout.unk, "<unk>", PieceType.UNKNOWN),
        BOS_ID: special(layout.bos, "<start>"),
        EOS_ID: special(layout.eos, "</s>"),
    }
    pieces = [first[number] for number in range(_N_SPECIAL)] + others
    ids = {"unk": UNK_ID, "bos": BOS_ID, "eos": EOS_ID, "pad": PAD_ID}
    return _with_pieces(model, pieces, ids)


def original_names(model: SentencePieceModel, layout: Layout) -> list[str]:
    """What the other system calls its rows: the inverse of `src_tokenizer` and `tgt_tokenizer`."""
    names = [""] * layout.size
    for row, piece in zip(layout.rows, model.pieces[: len(model.pieces) - layout.n_unknown], strict=False):
        if row >= 0:
            names[row] = _without_space(piece.text)
    return names


def original_spm(model: SentencePieceModel, layout: Layout) -> bytes:
    """The tokenizer as another system has it, its pieces being the rows."""
    pieces = take_back_pieces(model, layout)
    specials = {"unk": layout.unk, "bos": layout.bos, "eos": layout.eos, "pad": layout.pad}
    return _with_pieces(model, pieces, specials)


def text_spm(model: SentencePieceModel, layout: Layout) -> bytes:
    """The tokenizer as a system has it that keeps its vocabulary in a file of its own: only what cuts text."""
    extra = model.pieces[len(model.pieces) - layout.n_unknown :]
    added = _added(model)
    pieces = [piece for piece in (*take_back_pieces(model, layout), *extra) if piece.text not in added]
    texts = [piece.text for piece in pieces]
    numbers = {"unk": layout.unk, "bos": layout.bos, "eos": layout.eos, "pad": layout.pad}
    original = original_names(model, layout)
    specials = {name: None if row is None else texts.index(original[row]) for name, row in numbers.items()}
    return _with_pieces(model, pieces, specials)


def _with_pieces(model: SentencePieceModel, pieces: Sequence[Piece], special_ids: Mapping[str, int | None]) -> bytes:
    """The file with these pieces, and unchanged to the last byte if they are what it has."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.serialize())
    same = all(getattr(processor, f"{name}_id")() == (-1 if n is None else n) for name, n in special_ids.items())
    changed = model if same and tuple(pieces) == model.pieces else model.with_pieces(pieces, special_ids)
    return changed.serialize()


def take_back_pieces(model: SentencePieceModel, layout: Layout) -> list[Piece]:
    """The pieces in the order of the other system's rows."""
    by_row = {row: piece for row, piece in reversed([*zip(layout.rows, model.pieces, strict=True)]) if row >= 0}
    return [by_row[row] for row in range(layout.size)]


def _added(model: SentencePieceModel) -> set[str]:
    """The pieces that are there only because the other system's vocabulary has rows of these names."""
    added = {piece.text for piece in model.pieces if piece.type is PieceType.UNUSED}
    added |= {piece.text for piece in model.pieces if _without_space(piece.text) != piece.text}
    normal = [piece for piece in model.pieces if piece.type is PieceType.NORMAL and piece.text not in added]
    lowest = min((piece.score for piece in normal), default=0.0)
    second = min((piece.score for piece in normal if piece.score > lowest), default=lowest)
    if second - lowest > _UNKNOWN_PENALTY / 2:  # a gap that no trained model has: these are the unlikely characters
        added |= {piece.text for piece in normal if piece.score == lowest}
    return added


def _without_space(text: str) -> str:
    bare = text.removeprefix(SPACE)
    return bare if _TAG.fullmatch(bare) else text

"""Reorder another system's vocabulary (tokenizers and the rows of matrices) into mtkit's order of ids, and back.

mtkit has pad, unk, bos and eos at 0, 1, 2 and 3 on both sides; all other rows follow in their original order. A special
row that the other system lacks is added, but the model never chooses it.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import sentencepiece
import torch
from torch import Tensor

from mtkit.console import log
from mtkit.errors import BundleError, DataError
from mtkit.tokens.sentencepiece_file import Piece, PieceType, SentencePieceModel, parse
from mtkit.tokens.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from mtkit.tokens.tokenizer import SPACE, language_of_piece, language_piece

# The output bias of a row that the other system lacks: its probability is exactly 0. Finite in fp16, too.
BANNED = -30000.0
_N_SPECIAL = 4
_TAG = re.compile(r">>.+<<")  # OPUS-MT: the target language, at the beginning of the source
_NLLB = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")  # a language's code and token
_M2M100 = re.compile(r"__([a-z]{2,3}(?:[-_]\w+)?)__")  # a language's token
_UNKNOWN_PENALTY = 10.0  # score of an unknown character below that of the unlikeliest piece (SentencePiece's constant)
_MOST_MISSING = 0.05  # the share of pieces without a row; those of one model lack at most rare characters
MATCHING_TEXT = (PieceType.NORMAL, PieceType.USER_DEFINED, PieceType.BYTE)


@dataclass(frozen=True)
class Layout:
    """The special rows of the other system's vocabulary; None if a row is missing."""

    size: int  # rows
    unk: int
    eos: int
    pad: int | None = None
    bos: int | None = None
    n_unknown: int = 0  # pieces of the tokenizer without a row; each gets a copy of unk's, at the end

    @classmethod
    def native(cls, size: int) -> "Layout":
        """Return the layout of mtkit."""
        return cls(size, unk=UNK_ID, eos=EOS_ID, pad=PAD_ID, bos=BOS_ID)

    @classmethod
    def from_names(
        cls,
        names: list[str],
        path: Path,
        unk: str = "<unk>",
        eos: str = "</s>",
        pad: str = "<pad>",
        bos: str = "<s>",
    ) -> Self:
        """Find the special rows by their names. Raises DataError if unk or eos is missing, or if a name is invalid."""
        for row, name in enumerate(names):
            if not name.isprintable() and any("\ud800" <= character <= "\udfff" for character in name):
                raise DataError(f"{path}: the piece {name!r} of row {row} is not valid text; the file is damaged")
        rows = {name: row for row, name in enumerate(names)}
        if twice := [name for row, name in enumerate(names) if rows[name] != row]:
            raise DataError(f"{path}: the piece {twice[0]!r} occurs twice; the file is damaged")
        if missing := [name for name in (unk, eos) if name not in rows]:
            raise DataError(f"{path}: the vocabulary has no {missing[0]}")
        return cls(len(names), unk=rows[unk], eos=rows[eos], pad=rows.get(pad), bos=rows.get(bos))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Layout":
        """Return the layout that `as_json` wrote. Raises BundleError for anything else."""
        try:
            return cls(**values)
        except TypeError as error:
            raise BundleError(f"the manifest's description of a vocabulary is invalid: {error}") from error

    def as_json(self) -> dict[str, int | None]:
        """Return the values for a bundle's manifest."""
        return asdict(self)

    @property
    def special(self) -> dict[str, int | None]:
        """The special rows by SentencePiece's names for them."""
        return {"unk": self.unk, "bos": self.bos, "eos": self.eos, "pad": self.pad}

    @property
    def others(self) -> list[int]:
        """The rows that are not special."""
        return [row for row in range(self.size) if row not in self.special.values()]

    @property
    def rows(self) -> list[int]:
        """The row of each of mtkit's ids; -1: none."""
        special = {PAD_ID: self.pad, UNK_ID: self.unk, BOS_ID: self.bos, EOS_ID: self.eos}
        first = [special[token_id] for token_id in range(_N_SPECIAL)]
        return [-1 if row is None else row for row in first] + self.others + [self.unk] * self.n_unknown


def import_weight(weight: Tensor, layout: Layout, start: Tensor | None = None) -> Tensor:
    """Reorder a matrix (V, D) for mtkit; missing rows become zeros, except that bos becomes start if given."""
    rows = torch.tensor(layout.rows)
    moved = weight[rows.clamp(min=0)]
    moved[rows < 0] = 0.0
    if start is not None and layout.bos is None:
        moved[BOS_ID] = start
    return moved


def import_bias(bias: Tensor, layout: Layout) -> Tensor:
    """Reorder an output bias (V,) for mtkit; the model never chooses rows that are missing there."""
    rows = torch.tensor(layout.rows)
    moved = bias[rows.clamp(min=0)]
    moved[rows < 0] = BANNED
    moved[len(rows) - layout.n_unknown :] = BANNED
    return moved


def export_rows(weight: Tensor, layout: Layout) -> Tensor:
    """Return the other system's rows in its order: the inverse of `import_weight` and `import_bias`."""
    rows = torch.tensor(layout.rows[: layout.size + layout.rows[:_N_SPECIAL].count(-1)])
    moved = torch.zeros(layout.size, *weight.shape[1:], dtype=weight.dtype)
    moved[rows[rows >= 0]] = weight[: len(rows)][rows >= 0]
    return moved


def import_state(
    state: Mapping[str, Tensor], tie: str, src: Layout, tgt: Layout, start: Tensor | None = None
) -> dict[str, Tensor]:
    """Reorder the vocabularies of a model's state for mtkit; start: the embedding of bos if tgt has no row for it."""
    moved = dict(state)
    moved["tgt_embedding.weight"] = import_weight(state["tgt_embedding.weight"], tgt, start)
    moved["output.bias"] = import_bias(state["output.bias"], tgt)
    moved["output.weight"] = moved["tgt_embedding.weight"]
    moved["src_embedding.weight"] = moved["tgt_embedding.weight"]
    if tie == "none":
        moved["output.weight"] = import_weight(state["output.weight"], tgt)
    if tie != "all":
        moved["src_embedding.weight"] = import_weight(state["src_embedding.weight"], src)
    return moved


def export_state(state: Mapping[str, Tensor], src: Layout, tgt: Layout) -> dict[str, Tensor]:
    """Return the state in the other system's order: the inverse of `import_state`."""
    layouts = {"src_embedding.weight": src}
    names = ("src_embedding.weight", "tgt_embedding.weight", "output.weight", "output.bias")
    return {**state, **{name: export_rows(state[name], layouts.get(name, tgt)) for name in names}}


def read_spm(path: Path) -> SentencePieceModel:
    """Read a SentencePiece model. Raises DataError if the file is not one."""
    try:
        data = path.read_bytes()
        model = parse(data)
        sentencepiece.SentencePieceProcessor(model_proto=data)
        return model
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (DataError, RuntimeError) as error:
        raise DataError(f"{path}: not a SentencePiece model, or damaged") from error


def spm_layout(model: SentencePieceModel) -> Layout:
    """Return the layout of a SentencePiece model. Raises DataError if it has no end of sentence."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.serialize())
    if processor.eos_id() < 0:
        raise DataError("this SentencePiece model has no end-of-sentence piece (</s>), which a translation model needs")
    pad, bos = (None if token_id < 0 else token_id for token_id in (processor.pad_id(), processor.bos_id()))
    return Layout(len(model.pieces), unk=processor.unk_id(), eos=processor.eos_id(), pad=pad, bos=bos)


def names_of(model: SentencePieceModel) -> list[str]:
    """Return the texts of the pieces in the order of their ids."""
    return [piece.text for piece in model.pieces]


def pieces_without_row(model: SentencePieceModel, names: Sequence[str]) -> list[Piece]:
    """Return the pieces that the tokenizer cuts text into, but that the vocabulary does not contain."""
    known = {*names, *(f"{SPACE}{name}" for name in names if _TAG.fullmatch(name))}
    return [piece for piece in model.pieces if piece.type in MATCHING_TEXT and piece.text not in known]


def src_tokenizer(model: SentencePieceModel, names: Sequence[str], layout: Layout) -> bytes:
    """Build a tokenizer in mtkit's order of ids that cuts text into the same pieces as the model.

    names: the other system's names of its rows. Names that are not pieces of the model never match text, except single
    characters and tags such as >>fra<<, which become pieces. (The other system may merge several unknown characters in
    a row into one unknown token; here each of them is a token.)
    """
    known = _Known(model)

    def piece(name: str) -> Piece:
        return known.tag(name) if name not in known.by_text and _TAG.fullmatch(name) else known.piece(name)

    extra = pieces_without_row(model, names)
    return _rewritten(model, [piece(names[row]) for row in layout.others] + extra, names, layout)


def tgt_tokenizer(
    model: SentencePieceModel, names: Sequence[str], layout: Layout, extra: Sequence[Piece] = ()
) -> bytes:
    """Build a tokenizer in mtkit's order of ids that decodes the name of every row, and cuts text into these pieces.

    extra: pieces of the source side that have rows because both sides share them; they never match text.
    """
    missing = [piece.text for piece in pieces_without_row(model, names) if piece.type is PieceType.BYTE]
    if missing:
        raise DataError(f"the vocabulary lacks {missing[0]}, but the target's tokenizer falls back on bytes")
    known = _Known(model)
    pieces = [known.piece(names[row]) for row in layout.others]
    unused = [Piece(piece.text, type=PieceType.UNUSED) for piece in extra]
    return _rewritten(model, pieces + unused, names, layout)


class _Known:
    """The pieces of a model by their text, and the pieces to make of other names."""

    def __init__(self, model: SentencePieceModel) -> None:
        self.by_text = {piece.text: piece for piece in model.pieces}
        scores = [piece.score for piece in model.pieces if piece.type is PieceType.NORMAL] or [0.0]
        self.likeliest, self.unlikely = max(scores), min(scores) - _UNKNOWN_PENALTY
        self.unigram = model.algorithm == "unigram"

    def piece(self, name: str) -> Piece:
        """Return the piece of this name. A new character becomes one: other systems look pieces up by name."""
        if name in self.by_text:
            return self.by_text[name]
        if language_of_piece(name) is not None:
            return Piece(name, type=PieceType.CONTROL)
        return Piece(name, self.unlikely) if len(name) == 1 else Piece(name, type=PieceType.UNUSED)

    def tag(self, name: str) -> Piece:
        """Return a piece that matches at the beginning of a word.

        In a unigram model the score of the likeliest piece beats every other segmentation of the tag. Other algorithms
        merge pairs, and match only a user-defined piece.
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
    pieces = [first[token_id] for token_id in range(_N_SPECIAL)] + others
    ids = {"unk": UNK_ID, "bos": BOS_ID, "eos": EOS_ID, "pad": PAD_ID}
    return with_pieces(model, pieces, ids)


def original_names(model: SentencePieceModel, layout: Layout) -> list[str]:
    """Return the other system's names of its rows: the inverse of `src_tokenizer` and `tgt_tokenizer`."""
    names = [""] * layout.size
    for row, piece in zip(layout.rows, model.pieces[: len(model.pieces) - layout.n_unknown], strict=False):
        if row >= 0:
            names[row] = _without_space(piece.text)
    return names


def original_spm(model: SentencePieceModel, layout: Layout) -> bytes:
    """Return the tokenizer of a system whose rows are its pieces."""
    return with_pieces(model, _original_pieces(model, layout), layout.special)


def text_spm(model: SentencePieceModel, layout: Layout) -> bytes:
    """Return the tokenizer of a system with its vocabulary in a separate file: only the pieces that cut text."""
    extra = model.pieces[len(model.pieces) - layout.n_unknown :]
    added = added_names(model)
    pieces = [piece for piece in (*_original_pieces(model, layout), *extra) if piece.text not in added]
    texts = [piece.text for piece in pieces]
    names = original_names(model, layout)
    special = {name: None if row is None else texts.index(names[row]) for name, row in layout.special.items()}
    return with_pieces(model, pieces, special)


def with_pieces(model: SentencePieceModel, pieces: Sequence[Piece], special_ids: Mapping[str, int | None]) -> bytes:
    """Return the file with these pieces; the same bytes if it has them already."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.serialize())
    same = all(getattr(processor, f"{name}_id")() == (-1 if n is None else n) for name, n in special_ids.items())
    changed = model if same and tuple(pieces) == model.pieces else model.with_pieces(pieces, special_ids)
    return changed.serialize()


def _original_pieces(model: SentencePieceModel, layout: Layout) -> list[Piece]:
    """Return the pieces in the order of the other system's rows."""
    by_row = {row: piece for row, piece in reversed([*zip(layout.rows, model.pieces, strict=True)]) if row >= 0}
    return [by_row[row] for row in range(layout.size)]


def added_names(model: SentencePieceModel) -> set[str]:
    """Return the pieces that exist only because the other system has rows of these names."""
    added = {piece.text for piece in model.pieces if piece.type is PieceType.UNUSED}
    added |= {piece.text for piece in model.pieces if _without_space(piece.text) != piece.text}
    normal = [piece for piece in model.pieces if piece.type is PieceType.NORMAL and piece.text not in added]
    lowest = min((piece.score for piece in normal), default=0.0)
    second = min((piece.score for piece in normal if piece.score > lowest), default=lowest)
    if second - lowest > _UNKNOWN_PENALTY / 2:  # no trained model has such a gap: these are the added characters
        added |= {piece.text for piece in normal if piece.score == lowest}
    return added


def _without_space(text: str) -> str:
    bare = text.removeprefix(SPACE)
    return bare if _TAG.fullmatch(bare) else text


def is_of_nllb(code: str) -> bool:
    """Return whether NLLB names a language by such a code, fra_Latn; M2M-100 has fr."""
    return _NLLB.fullmatch(code) is not None


def with_language_pieces(names: Sequence[str], of_text: Collection[str] = ()) -> list[str]:
    """Return the names with mtkit's pieces for the tokens of languages, __fr__ of M2M-100 or fra_Latn of NLLB.

    of_text: names that only look like these, such as __str__: the tokenizer has pieces of text for them.
    """

    def renamed(name: str) -> str:
        if name in of_text:
            return name
        match = _M2M100.fullmatch(name)
        code = match[1] if match else name if is_of_nllb(name) else None
        return name if code is None else language_piece(code)

    return [renamed(name) for name in names]


def with_language_tokens(names: Sequence[str]) -> list[str]:
    """Return the names with the tokens of languages that M2M-100 or NLLB have: inverse of `with_language_pieces`."""
    codes = [language_of_piece(name) for name in names]
    return [
        name if code is None else code if is_of_nllb(code) else f"__{code}__"
        for name, code in zip(names, codes, strict=True)
    ]


def with_exchanged(names: Sequence[str], one: str, other: str) -> list[str]:
    """Return the names with these two in each other's place."""
    exchanged = {one: other, other: one}
    return [exchanged.get(name, name) for name in names]


def in_order(rows: Mapping[str, int], path: Path) -> list[str]:
    """Return the names by row. Raises DataError unless the rows are 0, 1, 2, ..."""
    names = sorted(rows, key=lambda name: rows[name])
    for expected, name in enumerate(names):
        if rows[name] != expected:
            raise DataError(f"{path}: {name!r} has the id {rows[name]} instead of {expected}: ids must be 0, 1, 2, ...")
    return names


@dataclass(frozen=True)
class Vocabulary:
    """The vocabulary of one side: the names of its rows, and the model that cuts text into them."""

    path: Path
    model: SentencePieceModel
    names: list[str]
    layout: Layout


def _check_missing(vocabulary: Vocabulary, tokenizer: str, missing: Sequence[Piece]) -> None:
    """Count and name the pieces of a tokenizer without a row. Raises DataError if they are more than a few percent."""
    missing = [piece for piece in missing if piece.type is not PieceType.BYTE]  # a text may never need bytes
    if not missing:
        return
    n_pieces = sum(piece.type in (PieceType.NORMAL, PieceType.USER_DEFINED) for piece in vocabulary.model.pieces)
    names = ", ".join(piece.text for piece in missing[:5]) + (", ..." if len(missing) > 5 else "")
    share = len(missing) / n_pieces
    fact = (
        f"{vocabulary.path}: {len(missing):,} of the {tokenizer}'s {n_pieces:,} pieces ({share:.1%}) have no row: "
        f"{names}"
    )
    if share > _MOST_MISSING:
        raise DataError(f"{fact}; the vocabulary and the tokenizer are of different models")
    log.warning(f"{fact}; the model reads them as unknown words")


@dataclass(frozen=True)
class Vocabularies:
    """The vocabularies of both sides."""

    src: Vocabulary
    tgt: Vocabulary
    kind: str  # what an export writes: spm or yml for Marian, joint or separate for MarianMT
    shared: bool  # both sides have one matrix
    extra: tuple[Piece, ...]  # of the source's tokenizer, without a row in the vocabulary

    @classmethod
    def from_sides(cls, src: Vocabulary, tgt: Vocabulary, kind: str, *, shared: bool) -> Self:
        """Join both sides; pieces of the source's tokenizer without a row get one."""
        extra = tuple(pieces_without_row(src.model, src.names))
        src = replace(src, layout=replace(src.layout, n_unknown=len(extra)))
        return cls(src, replace(tgt, layout=src.layout) if shared else tgt, kind, shared, extra)

    def with_bos(self, bos: int | None) -> Self:
        """Return the vocabularies with this row of the target as bos, and the source's of that name; None: new rows."""
        tgt = replace(self.tgt, layout=replace(self.tgt.layout, bos=bos))
        src_bos = self.src.layout.bos
        if self.shared:
            src_bos = bos
        elif bos is not None and self.tgt.names[bos] in self.src.names:
            src_bos = self.src.names.index(self.tgt.names[bos])
        return replace(self, src=replace(self.src, layout=replace(self.src.layout, bos=src_bos)), tgt=tgt)

    def tokenizers(self) -> tuple[bytes, bytes]:
        """Return SentencePiece models in mtkit's order of ids.

        Raises DataError if a vocabulary lacks more than a few percent of the pieces of its tokenizer.
        """
        one_model = self.src.model == self.tgt.model  # then a piece may be of one language only
        sides = {"source tokenizer": (self.src, self.tgt.names), "target tokenizer": (self.tgt, self.src.names)}
        if one_model:
            sides = {"tokenizer": sides["source tokenizer"]}
        for tokenizer, (side, others) in sides.items():
            names = [*side.names, *others] if one_model else side.names
            _check_missing(side, tokenizer, pieces_without_row(side.model, names))
        extra = self.extra if self.shared else ()
        return (
            src_tokenizer(self.src.model, self.src.names, self.src.layout),
            tgt_tokenizer(self.tgt.model, self.tgt.names, self.tgt.layout, extra),
        )

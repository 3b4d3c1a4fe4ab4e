"""Read and write the vocabulary of an M2M-100 folder (vocab.json) or of NLLB (ids of SentencePiece plus one).

The tokens of languages and other added tokens follow the pieces. Rows of the embedding beyond all of them exist only to
make its size a round number.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Self

from mtkit.bundle import Bundle
from mtkit.errors import DataError
from mtkit.files import write_text
from mtkit.interop.huggingface.config import read_json, row_ids
from mtkit.interop.imported import Languages
from mtkit.interop.vocabulary import (
    MATCHING_TEXT,
    Layout,
    Vocabularies,
    Vocabulary,
    added_names,
    in_order,
    is_of_nllb,
    original_names,
    read_spm,
    with_language_pieces,
    with_language_tokens,
    with_pieces,
)
from mtkit.tokens.sentencepiece_file import Piece, PieceType, SentencePieceModel
from mtkit.tokens.tokenizer import language_of_piece

SPM, _VOCAB = "sentencepiece.bpe.model", "vocab.json"
_CONFIG, _SPECIAL, _FAST = "tokenizer_config.json", "special_tokens_map.json", "tokenizer.json"
_FIRST = ("<s>", "<pad>", "</s>", "<unk>")  # fairseq's first rows
BOS, PAD, EOS, UNK = range(4)
_N_SPM_SPECIAL = 3  # <unk>, <s> and </s> of the SentencePiece model
_CLASS = {"m2m_100": "M2M100Tokenizer", "nllb": "NllbTokenizer"}
_FILLER = re.compile(r"madeupword\d+")  # fairseq's name of a row that exists only for the size
_MOST_FILLERS = 0.05  # share of the rows


@dataclass(frozen=True)
class ManyLanguages:
    """The vocabulary of both sides, and the languages that it has tokens for."""

    kind: str  # m2m_100 or nllb
    names: Vocabulary
    n_pieces: int  # rows before the added tokens
    languages: list[str]

    def both(self) -> Vocabularies:
        """Return it as the vocabularies of two sides, whose decoder starts from a row of its own."""
        return Vocabularies.from_sides(self.names, self.names, self.kind, shared=True).with_bos(None)


def read(folder: Path, n_rows: int) -> ManyLanguages:
    """Read the vocabulary of an embedding with n_rows.

    Raises MtkitError if a file is missing, if it names no language, or if it does not fit the embedding.
    """
    if not (folder / SPM).exists():  # newer versions of transformers save only tokenizer.json
        raise DataError(f"{folder / SPM}: No such file; copy it from the folder that the model comes from")
    model = read_spm(folder / SPM)
    if (folder / _VOCAB).is_file():
        kind, path = "m2m_100", folder / _VOCAB
        names = in_order(row_ids(path), path)
    else:
        kind, path = "nllb", folder / SPM
        names = [*_FIRST, *(piece.text for piece in model.pieces[_N_SPM_SPECIAL:])]
    n_pieces = len(names)
    for row, token in sorted(_added_tokens(folder, n_pieces).items()):
        if row > len(names):
            raise DataError(f"{folder}: the added token {token} has the id {row}, but there is none with {len(names)}")
        if row == len(names):  # lower ones are among the pieces
            names += with_language_pieces([token])
    languages = [code for name in names if (code := language_of_piece(name)) is not None]
    if not languages:
        raise DataError(f"{folder}: neither {_CONFIG}, {_FAST} nor {_SPECIAL} names the tokens of languages")
    n_fillers = n_rows - len(names)
    if not 0 <= n_fillers <= _MOST_FILLERS * n_rows:
        raise DataError(f"{path}: {len(names):,} pieces and added tokens, but the embedding has {n_rows:,} rows")
    names += [f"madeupword{number:04}" for number in range(n_fillers)]
    return ManyLanguages(kind, Vocabulary(path, model, names, Layout.from_names(names, path)), n_pieces, languages)


@dataclass(frozen=True)
class Rows:
    """The rows of a bundle's vocabulary in a folder of this kind."""

    kind: str  # m2m_100 or nllb
    layout: Layout
    names: list[str]
    n_pieces: int  # rows before the added tokens

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> Self:
        """Find the rows by the pieces: the languages' tokens and rows without text are behind those that cut text."""
        model = read_spm(bundle.src_tokenizer.path)
        extra = list(takewhile(lambda piece: piece.type in MATCHING_TEXT, reversed(model.pieces)))
        size = len(model.pieces) - len(extra) - 1  # without <start>
        layout = Layout(size, unk=UNK, eos=EOS, pad=PAD, n_unknown=len(extra))
        names = original_names(model, layout)
        codes = [language_of_piece(name) for name in names]
        n_pieces, code = next((row, code) for row, code in enumerate(codes) if code is not None)
        return cls("nllb" if is_of_nllb(code) else "m2m_100", layout, names, n_pieces)


def direction(folder: Path) -> Languages | None:
    """Return the languages that the tokenizer's config names; None unless it names both."""
    options = _read(folder / _CONFIG)
    src, tgt = options.get("src_lang"), options.get("tgt_lang")
    return Languages(str(src), str(tgt)) if src and tgt else None


def write(folder: Path, bundle: Bundle, rows: Rows) -> None:
    """Write the bundle's tokenizer in the form of the folder that it comes from."""
    kind, names, n_pieces = rows.kind, rows.names, rows.n_pieces
    (folder / SPM).write_bytes(_spm(read_spm(bundle.src_tokenizer.path), rows))
    added = {row: name for row, name in enumerate(names) if row >= n_pieces and not _FILLER.fullmatch(name)}
    tokens = dict(zip(added, with_language_tokens([*added.values()]), strict=True))
    languages = {"additional_special_tokens": [token for row, token in tokens.items() if token != added[row]]}
    data = bundle.config.data
    options: dict[str, Any] = {"tokenizer_class": _CLASS[kind], "src_lang": data.src_lang, "tgt_lang": data.tgt_lang}
    if kind == "m2m_100":
        _write(folder / _VOCAB, {name: row for row, name in enumerate(names[:n_pieces])})
        n_fillers = rows.layout.size - n_pieces - len(tokens)
        options |= {"language_codes": "m2m100", "num_madeup_words": n_fillers}
    else:  # without their ids, transformers would put <mask> before the languages
        tokens |= dict(enumerate(_FIRST))
        as_is = dict.fromkeys(("lstrip", "normalized", "rstrip", "single_word"), False)
        decoder = {str(row): {"content": tokens[row], **as_is, "special": True} for row in sorted(tokens)}
        options["added_tokens_decoder"] = decoder
    special = {f"{name}_token": _FIRST[row] for name, row in {"bos": BOS, "eos": EOS, "unk": UNK, "pad": PAD}.items()}
    _write(folder / _CONFIG, {**options, **special, **languages})
    _write(folder / _SPECIAL, {**special, **languages})


def _spm(model: SentencePieceModel, rows: Rows) -> bytes:
    """Return the SentencePiece model whose pieces are these, and those that had no row."""
    by_text = {piece.text: piece for piece in model.pieces}
    only_rows = added_names(model) if rows.kind == "m2m_100" else ()
    pieces = [by_text[name] for name in rows.names[len(_FIRST) : rows.n_pieces] if name not in only_rows]
    pieces += model.pieces[len(model.pieces) - rows.layout.n_unknown :]
    first = [Piece(_FIRST[row], type=PieceType.UNKNOWN if row == UNK else PieceType.CONTROL) for row in (UNK, BOS, EOS)]
    return with_pieces(model, [*first, *pieces], {"unk": 0, "bos": 1, "eos": 2, "pad": None})


def _added_tokens(folder: Path, n_pieces: int) -> dict[int, str]:
    """Return the tokens behind the pieces by their ids, which older folders leave to the order of the tokens."""
    options, fast, special = (_read(folder / name) for name in (_CONFIG, _FAST, _SPECIAL))
    entries = fast.get("added_tokens") or []
    if given := options.get("added_tokens_decoder"):
        entries = [{"id": row, **token} for row, token in given.items()]
    try:
        if entries:
            return {int(entry["id"]): str(entry["content"]) for entry in entries}
        lists = [
            values[key]
            for values in (special, options)
            for key in ("additional_special_tokens", "extra_special_tokens")
            if values.get(key)
        ]
        tokens = [token["content"] if isinstance(token, dict) else str(token) for token in (lists or [[]])[0]]
    except (TypeError, KeyError, ValueError) as error:
        raise DataError(f"{folder}: its added tokens cannot be read ({type(error).__name__}: {error})") from error
    return dict(enumerate(tokens, start=n_pieces))


def _read(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _write(path: Path, values: Mapping[str, Any]) -> None:
    write_text(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")

"""Text to token ids and back: a SentencePiece model a side, learnt from the training text."""

import copy
import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import sentencepiece

from mtkit.config.schema import TokenizerConfig, tags_of
from mtkit.console import log
from mtkit.data.sentencepiece_file import PieceType, parse
from mtkit.data.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from mtkit.errors import ConfigError, DataError
from mtkit.files import write_bytes

SPACE = "\u2581"  # how SentencePiece writes a space inside pieces
_RECORD = "tokenizers.json"
# A constant, not the machine's cores: the trainer adds up its statistics per thread, and so the pieces depend on it.
_TRAINING_THREADS = 4
# The trainer leaves out lines that hold its own marks; as spaces they cost nothing.
_TRAINER_MARKS = str.maketrans(dict.fromkeys("\0\t\u2581\u2585", " "))


class Tokenizer:
    """A SentencePiece model. `decode(encode(text)) == normalize(text)` for any text, given byte fallback.

    Normalised text is what the model's rule (such as NFKC) makes of the text, with U+2581 (SentencePiece's own mark)
    taken as a space. Every rule but `identity` also trims it and makes one space of several.
    """

    def __init__(self, model: bytes, path: Path) -> None:
        """model: a serialised SentencePiece model; path: where it comes from, for messages.

        Raises DataError if it is none, or if its special ids are not those of mtkit.
        """
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise DataError(f"{path}: not a SentencePiece model, or a damaged one") from error
        self.path = path
        self.fingerprint = hashlib.sha256(model).hexdigest()
        self.vocab_size: int = self._processor.get_piece_size()
        processor = self._processor
        found = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
        if found != (PAD_ID, UNK_ID, BOS_ID, EOS_ID):
            raise DataError(f"{path}: its pad, unk, bos and eos ids are {found}; they must be 0, 1, 2, 3")
        self._adds_prefix = self._processor.normalize("a").startswith(SPACE)
        self.tag: str | None = None
        self._tag_ids: list[int] = []

    def tagged(self, tag: str | None) -> "Tokenizer":
        """The same tokenizer, but that the ids of any text that is not blank begin with those of tag; None: with none.

        tag: one, or several with spaces between. Raises DataError if it has no such piece.
        """
        if tag == self.tag:
            return self
        other = copy.copy(self)
        other.tag, other._tag_ids = tag, [self._processor.piece_to_id(one) for one in tags_of(tag)]
        if UNK_ID in other._tag_ids:
            unknown = tags_of(tag)[other._tag_ids.index(UNK_ID)]
            raise DataError(f"{self.path}: it has no tag {unknown}; {_tags_known(self.serialized())}")
        return other

    def untagged(self, ids: Sequence[int]) -> list[int]:
        """The ids without the tags that they begin with."""
        n_tags = len(self._tag_ids)
        return list(ids[n_tags:] if list(ids[:n_tags]) == self._tag_ids else ids)

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """The tokenizer in the file. Raises DataError if there is none."""
        try:
            return cls(path.read_bytes(), path)
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error

    def encode(self, text: str) -> list[int]:
        """Token ids, without special ones; [] if normalisation leaves nothing of the text."""
        ids: list[int] = self._processor.encode(_spaced(text))
        return self._tag_ids + ids if ids else ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, computed in parallel."""
        found: list[list[int]] = self._processor.encode([_spaced(text) for text in texts])
        return [self._tag_ids + ids if ids else ids for ids in found] if self._tag_ids else found

    def decode(self, ids: Sequence[int]) -> str:
        """The text that the ids spell; special ids and its tag spell nothing, bytes that are no UTF-8 give U+FFFD."""
        text: str = self._processor.decode(self.untagged(ids))
        return text

    def normalize(self, text: str) -> str:
        """The text as the model sees it: what decode(encode(text)) gives back."""
        normalized: str = self._processor.normalize(_spaced(text)).decode("utf-8")
        if self._adds_prefix:
            normalized = normalized.removeprefix(SPACE)
        return normalized.replace(SPACE, " ")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """What each id stands for; a space shows as U+2581, a byte as <0x41>."""
        return [self._processor.id_to_piece(token_id) for token_id in ids]

    def piece_ids(self, pieces: Sequence[str]) -> list[int]:
        """The inverse of pieces. Raises DataError for a string that is no piece of this tokenizer."""
        ids = [self._processor.piece_to_id(piece) for piece in pieces]
        for token_id, piece in zip(ids, pieces, strict=True):
            if token_id == UNK_ID and piece != self._processor.id_to_piece(UNK_ID):
                raise DataError(f"{piece!r} is not a piece of {self.path}")
        return ids

    def serialized(self) -> bytes:
        """The model as the bytes of its file."""
        model: bytes = self._processor.serialized_model_proto()
        return model

    def byte_ids(self) -> list[int]:
        """The ids that stand for a single byte; none without byte fallback."""
        return [token_id for token_id in range(self.vocab_size) if self._processor.is_byte(token_id)]


def _spaced(text: str) -> bytes:
    """The text as the model is given it; raises UnicodeEncodeError where it holds half a surrogate pair."""
    return text.replace(SPACE, " ").encode("utf-8")


def _tags_known(model: bytes) -> str:
    tags = [piece.text for piece in parse(model).pieces if piece.type is PieceType.USER_DEFINED]
    if tags:
        return f"it has {', '.join(tags)}"
    return "it was trained without tags, which come from data.train[].tag of a run that begins from nothing"


def load_tokenizers(folder: Path) -> tuple[Tokenizer, Tokenizer]:
    """The source and the target tokenizer of a run or bundle folder."""
    return Tokenizer.load(folder / "src.spm"), Tokenizer.load(folder / "tgt.spm")


def train_tokenizer(lines: Iterable[str], cfg: TokenizerConfig, out: Path, tags: Sequence[str] = ()) -> Tokenizer:
    """Learn a tokenizer from the lines and write it to out; the same lines give the same bytes.

    tags: pieces that it has besides, each of which is never a part of another nor cut.
    All lines are held in memory by the trainer: see `sample`. A vocabulary larger than the text can carry is lowered.
    Raises DataError if the lines hold no text, ConfigError if vocab_size cannot hold the text's characters.
    """
    model = learn_model(lines, cfg, out, tags)
    write_bytes(out, model)
    return Tokenizer(model, out)


def learn_model(lines: Iterable[str], cfg: TokenizerConfig, out: Path, tags: Sequence[str] = ()) -> bytes:
    """Return what `train_tokenizer` writes; out is only named in messages."""
    model = io.BytesIO()
    identity = cfg.normalization == "identity"
    unreadable: list[DataError] = []

    def prepared() -> Iterator[str]:
        try:
            for line in lines:
                yield line.translate(_TRAINER_MARKS)
        except DataError as error:  # SentencePiece would bury it in a message of its own
            unreadable.append(error)
            raise

    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=prepared(),
            model_writer=model,
            model_type=cfg.type,
            vocab_size=cfg.vocab_size,
            hard_vocab_limit=False,
            character_coverage=cfg.character_coverage,
            byte_fallback=cfg.byte_fallback,
            normalization_rule_name=cfg.normalization,
            user_defined_symbols=list(tags),
            remove_extra_whitespaces=not identity,
            max_sentence_length=2**30,  # bytes; longer lines would be left out without a word
            num_threads=_TRAINING_THREADS,
            pad_id=PAD_ID,
            unk_id=UNK_ID,
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            minloglevel=2,  # errors come as exceptions, and nothing else is for the user
        )
    except RuntimeError as error:
        raise (unreadable[0] if unreadable else _explained(error, cfg, out)) from error
    return _checked_size(model.getvalue(), cfg, out)


def _checked_size(model: bytes, cfg: TokenizerConfig, out: Path) -> bytes:
    size = Tokenizer(model, out).vocab_size
    if size < cfg.vocab_size:
        log.warning(f"{out}: this text carries {size:,} {cfg.type} pieces, not {cfg.vocab_size:,}; vocabulary lowered")
    return model


def _explained(error: RuntimeError, cfg: TokenizerConfig, out: Path) -> ConfigError | DataError:
    if needed := re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error)):
        return ConfigError(
            f"{out}: tokenizer vocab_size={cfg.vocab_size} does not hold the special pieces, bytes and single "
            f"characters of this text ({needed[1]}); raise vocab_size, or lower "
            f"character_coverage={cfg.character_coverage:g}"
        )
    if re.search(r"!sentences_\.empty\(\)|\(all_chars_count\) > \(0\)", str(error)):
        return DataError(f"{out}: there is no text to learn a tokenizer from; every line is blank")
    return DataError(f"{out}: SentencePiece cannot learn from this text: {error}")


def sample(lines: Iterable[str], n_lines: int, n_wanted: int) -> Iterator[str]:
    """n_wanted of the n_lines lines, at equal distances over the whole; all of them if there are no more."""
    for number, line in enumerate(lines):
        if n_lines <= n_wanted or (number + 1) * n_wanted // n_lines > number * n_wanted // n_lines:
            yield line

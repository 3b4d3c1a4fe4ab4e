"""Turn text into token ids and back with a SentencePiece model, and train such a model."""

import copy
import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import sentencepiece

from mtkit.config.tags import TOKENS, is_tag, tags_of
from mtkit.config.tokenizer import TokenizerConfig
from mtkit.console import log
from mtkit.errors import ConfigError, DataError
from mtkit.files import write_bytes
from mtkit.languages import SIDES
from mtkit.text.characters import INVISIBLE
from mtkit.tokens.normalization import trainer_options
from mtkit.tokens.placeholders import Placeholders, Replaced
from mtkit.tokens.sentencepiece_file import PieceType, parse, with_rule_name
from mtkit.tokens.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID

SPACE = "\u2581"  # how SentencePiece writes a space inside pieces
_TAG_TYPES = (PieceType.NORMAL, PieceType.USER_DEFINED)
_LANGUAGE = re.compile(r"<lang:(.+)>")  # a piece that is the token of a language, and never matches text
# A constant, not the number of cores: the trainer sums its statistics per thread, so the pieces depend on it.
_TRAINING_THREADS = 4
# SentencePiece starts a pool of threads for each list, even of one text, which takes 0.4 ms; encoding a text by itself
# takes 4 microseconds.
_WORTH_THREADS = 128  # texts
_BYTE_PENALTY = 2.0  # nats by which a byte is rarer than the rarest piece
# The trainer skips lines that contain its own marks, so these become spaces.
_TRAINER_MARKS = str.maketrans(dict.fromkeys("\0\t\u2581\u2585", " "))


class Tokenizer:
    """A SentencePiece model. With byte fallback, `decode(encode(text)) == normalize(text)` for any text.

    Normalisation applies the model's rule (such as NFKC) and turns U+2581 (SentencePiece's own mark) into a space.
    Every rule but `identity` also trims the text and merges repeated spaces.
    """

    def __init__(self, model: bytes, path: Path) -> None:
        """model: a serialised SentencePiece model; path: its file, for messages.

        Raises DataError if it is not one, or if its special ids are not those of mtkit.
        """
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise DataError(f"{path}: not a SentencePiece model, or damaged") from error
        self.path = path
        self.fingerprint = hashlib.sha256(model).hexdigest()
        self.vocab_size: int = self._processor.get_piece_size()
        special_ids = tuple(getattr(self._processor, f"{name}_id")() for name in ("pad", "unk", "bos", "eos"))
        if special_ids != (PAD_ID, UNK_ID, BOS_ID, EOS_ID):
            raise DataError(f"{path}: its pad, unk, bos and eos ids are {special_ids}; they must be 0, 1, 2, 3")
        self._adds_prefix = self._processor.normalize("a").startswith(SPACE)
        self._unknowable = self._find_unknowable()
        self.tag: str | None = None
        self._tag_ids: list[int] = []
        self.placeholders: Placeholders | None = None

    def tagged(self, tag: str | None) -> "Tokenizer":
        """Return a copy that puts the ids of tag before those of each text that is not blank; None: no tag.

        tag: one tag, or several separated by spaces. Raises DataError if the model has no such piece.
        """
        if tag == self.tag:
            return self
        other = copy.copy(self)
        other.tag, other._tag_ids = tag, [self._tag_id(single) for single in tags_of(tag)]
        if UNK_ID in other._tag_ids:
            unknown = tags_of(tag)[other._tag_ids.index(UNK_ID)]
            raise DataError(f"{self.path}: it has no tag {unknown}; {self._known_tags()}")
        return other

    def tags(self) -> list[str]:
        """Return the tags that the model has as tokens, such as <2de>, or >>fra<< of OPUS-MT."""
        pieces = (piece for piece in parse(self.serialized()).pieces if piece.type in _TAG_TYPES)
        texts = (piece.text.removeprefix(SPACE) for piece in pieces)
        return [text for text in texts if is_tag(text)]

    def languages(self) -> list[str]:
        """Return the codes of the languages that the model has tokens for; [] for a model of one direction."""
        controls = (self._processor.id_to_piece(i) for i in range(self.vocab_size) if self._processor.is_control(i))
        return [code for piece in controls if (code := language_of_piece(piece)) is not None]

    def _tag_id(self, tag: str) -> int:
        """Return the id of a tag; imported unigram models have it with a space before it."""
        ids = (int(self._processor.piece_to_id(text)) for text in (tag, f"{SPACE}{tag}"))
        return next((token_id for token_id in ids if token_id != UNK_ID), UNK_ID)

    def _known_tags(self) -> str:
        if tags := self.tags():
            return f"it has {', '.join(tags)}"
        return "it was trained without tags: they come from data.train[].tag when a run trains its own tokenizers"

    def with_placeholders(self, patterns: Sequence[str]) -> "Tokenizer":
        """Return a copy that encodes each match of these patterns as a reserved token; without patterns, none.

        Raises DataError if the model has no reserved tokens.
        """
        other = copy.copy(self)
        other.placeholders = Placeholders(patterns) if patterns else None
        if patterns and any(self._processor.piece_to_id(token) == UNK_ID for token in TOKENS):
            raise DataError(
                f"{self.path}: it has no tokens {TOKENS[0]} to {TOKENS[-1]}, which data.placeholders needs; a run that "
                "trains its tokenizers with data.placeholders gives them such tokens"
            )
        return other

    def untagged(self, ids: Sequence[int]) -> list[int]:
        """Return the ids without the tags at their start."""
        n_tags = len(self._tag_ids)
        return list(ids[n_tags:] if list(ids[:n_tags]) == self._tag_ids else ids)

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Load a tokenizer. Raises DataError if the file cannot be read or is not one."""
        try:
            return cls(path.read_bytes(), path)
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error

    def encode(self, text: str) -> list[int]:
        """Return the token ids, without special ones; [] if normalisation removes all of the text."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text; of many, computed in parallel."""
        if self.placeholders is not None:
            texts = [self.placeholders.replace(text).text for text in texts]
        return self.encode_replaced(texts)

    def encode_translations(self, texts: Sequence[str], srcs: Sequence[str]) -> list[list[int]]:
        """Like encode_batch, but the placeholders of a text get the tokens that those of its source, in srcs, have."""
        if (placeholders := self.placeholders) is not None:
            rows = zip(texts, srcs, strict=True)
            texts = [placeholders.replace_translation(text, placeholders.replace(src)) for text, src in rows]
        return self.encode_replaced(texts)

    def encode_replaced(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of texts whose placeholders have been replaced already."""
        spaced = [self._spaced(text) for text in texts]
        encoded: list[list[int]]
        if len(spaced) < _WORTH_THREADS:
            encoded = [self._processor.encode(text) for text in spaced]
        else:
            encoded = self._processor.encode(spaced)
        return [self._tag_ids + ids if ids else ids for ids in encoded] if self._tag_ids else encoded

    def surfaces(self, text: str) -> list[tuple[str, int]]:
        """Return the pieces of a text with their ids; the piece of <unk> is the text that it stands for."""
        if self.placeholders is not None:
            text = self.placeholders.replace(text).text
        spaced = self._spaced(text)
        return list(zip(self._processor.encode(spaced, out_type=str), self._processor.encode(spaced), strict=True))

    def spans(self, text: str, src: str | None = None) -> list[tuple[int, int]]:
        """Return the span of characters (start, end) that each token of `encode` covers, without the tags.

        A space belongs to the word after it. Of several tokens of one character, some may have nothing.
        src: the source, if the text is a translation, to be encoded by `encode_translations`.
        """
        read = Replaced(text, {})
        if self.placeholders is not None:
            read = self.placeholders.replace(text if src is None else src)
            if src is not None:
                read = Replaced(self.placeholders.replace_translation(text, read), read.values)
        offsets: list[tuple[int, int]] = self._processor.encode(
            self._spaced(read.text).decode(), return_type="offset_mapping"
        )["offsets"]
        places = read.places()
        if self._unknowable is not None and self._unknowable.search(read.text):
            kept = [i for i, character in enumerate(read.text) if not self._unknowable.match(character)]
            places = [places[i] for i in (*kept, len(read.text))]
        return [(places[start], places[end]) for start, end in offsets]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of the ids; skip special ids and the tag, and decode invalid UTF-8 as U+FFFD.

        Reserved tokens stay: `placeholders.restore` replaces them.
        """
        text: str = self._processor.decode(self.untagged(ids))
        return text

    def normalize(self, text: str) -> str:
        """Return the text as the model sees it: decode(encode(text))."""
        normalized: str = self._processor.normalize(self._spaced(text)).decode("utf-8")
        if self._adds_prefix:
            normalized = normalized.removeprefix(SPACE)
        return normalized.replace(SPACE, " ")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the piece of each id; a space shows as U+2581, a byte as <0x41>."""
        return [self._processor.id_to_piece(token_id) for token_id in ids]

    def piece_ids(self, pieces: Sequence[str]) -> list[int]:
        """Return the id of each piece. Raises DataError for a string that is not a piece of this tokenizer."""
        ids = [self._processor.piece_to_id(piece) for piece in pieces]
        for token_id, piece in zip(ids, pieces, strict=True):
            if token_id == UNK_ID and piece != self._processor.id_to_piece(UNK_ID):
                raise DataError(f"{piece!r} is not a piece of {self.path}")
        return ids

    def piece_log_probs(self) -> npt.NDArray[np.float64] | None:
        """Return each piece's log-probability in the text that trained a unigram model: (V,); None for BPE."""
        scores = np.array([self._processor.get_score(token_id) for token_id in range(self.vocab_size)])
        if np.all(scores == np.round(scores)):  # BPE numbers its merges: 0, -1, -2, ...
            return None
        scores[scores == 0] = scores.min() - _BYTE_PENALTY  # special ids, tags and bytes have no probability
        return scores

    def _spaced(self, text: str) -> bytes:
        """Return the text as input of the model; raises UnicodeEncodeError if it contains half a surrogate pair."""
        if self._unknowable is not None:
            text = self._unknowable.sub("", text)
        return text.replace(SPACE, " ").encode("utf-8")

    def _find_unknowable(self) -> re.Pattern[str] | None:
        """Find the invisible characters that the rule of an older or imported model keeps, but that have no piece.

        Newer models drop them by their rule. A rule that keeps repeated spaces, identity, keeps everything.
        """
        if "  " in self._processor.normalize("a  a").replace(SPACE, " "):
            return None
        unknowable = [
            character
            for character in INVISIBLE
            if character != "\0"
            and self._processor.piece_to_id(character) == UNK_ID
            and character in self._processor.normalize(f"a{character}a")
        ]
        return re.compile(f"[{re.escape(''.join(unknowable))}]") if unknowable else None

    def serialized(self) -> bytes:
        """Return the bytes of the model's file."""
        model: bytes = self._processor.serialized_model_proto()
        return model

    def byte_ids(self) -> list[int]:
        """Return the ids of the single bytes; [] without byte fallback."""
        return [token_id for token_id in range(self.vocab_size) if self._processor.is_byte(token_id)]


def language_piece(code: str) -> str:
    """Return the piece that is the token of a language."""
    return f"<lang:{code}>"


def language_of_piece(piece: str) -> str | None:
    """Return the code of the language whose token this piece is; None for any other piece."""
    match = _LANGUAGE.fullmatch(piece)
    return match and match[1]


def load_tokenizers(folder: Path, placeholders: Sequence[str] = ()) -> tuple[Tokenizer, Tokenizer]:
    """Load the source and the target tokenizer of a run or bundle folder, with the patterns of its config."""
    src, tgt = (Tokenizer.load(folder / f"{side}.spm").with_placeholders(placeholders) for side in SIDES)
    return src, tgt


def train_tokenizer(lines: Iterable[str], cfg: TokenizerConfig, out: Path, tags: Sequence[str] = ()) -> Tokenizer:
    """Train a tokenizer on the lines and write it to out; the same lines give the same bytes.

    tags: additional pieces that are never split or merged. The trainer holds all lines in memory: see `sample`. A
    vocabulary larger than the text supports is lowered.
    Raises DataError if all lines are blank, ConfigError if vocab_size is too small for the text's characters.
    """
    model = learn_model(lines, cfg, out, tags)
    write_bytes(out, model)
    return Tokenizer(model, out)


def learn_model(lines: Iterable[str], cfg: TokenizerConfig, out: Path, tags: Sequence[str] = ()) -> bytes:
    """Train as `train_tokenizer` does, and return the bytes of the model; out is only named in messages."""
    model = io.BytesIO()
    unreadable: list[DataError] = []

    def prepared() -> Iterator[str]:
        try:
            for line in lines:
                yield line.translate(_TRAINER_MARKS)
        except DataError as error:  # SentencePiece would hide it in its own message
            unreadable.append(error)
            raise

    try:
        with trainer_options(cfg.normalization) as options:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=prepared(),
                model_writer=model,
                model_type=cfg.type,
                vocab_size=cfg.vocab_size,
                hard_vocab_limit=False,
                character_coverage=cfg.character_coverage,
                byte_fallback=cfg.byte_fallback,
                user_defined_symbols=list(tags),
                max_sentence_length=2**30,  # bytes; longer lines would be dropped silently
                num_threads=_TRAINING_THREADS,
                pad_id=PAD_ID,
                unk_id=UNK_ID,
                bos_id=BOS_ID,
                eos_id=EOS_ID,
                minloglevel=2,  # errors raise exceptions, and nothing else concerns the user
                **options,
            )
    except RuntimeError as error:
        raise (unreadable[0] if unreadable else _explained(error, cfg, out)) from error
    return _checked_size(with_rule_name(model.getvalue(), cfg.normalization), cfg, out)


def _checked_size(model: bytes, cfg: TokenizerConfig, out: Path) -> bytes:
    size = Tokenizer(model, out).vocab_size
    if size < cfg.vocab_size:
        tell = log.warning if "vocab_size" in cfg.model_fields_set else log.info
        tell(f"{out}: vocab_size lowered from {cfg.vocab_size:,} to {size:,}: this text has no more {cfg.type} pieces")
    return model


def _explained(error: RuntimeError, cfg: TokenizerConfig, out: Path) -> ConfigError | DataError:
    if needed := re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error)):
        return ConfigError(
            f"{out}: tokenizer vocab_size={cfg.vocab_size} is too small for the {needed[1]} special pieces, bytes and "
            f"single characters of this text; raise vocab_size, or lower character_coverage={cfg.character_coverage:g}"
        )
    if re.search(r"!sentences_\.empty\(\)|\(all_chars_count\) > \(0\)", str(error)):
        return DataError(f"{out}: no text to train a tokenizer on: every line is blank")
    return DataError(f"{out}: SentencePiece cannot train on this text: {error}")


def sample(lines: Iterable[str], n_lines: int, n_wanted: int) -> Iterator[str]:
    """Yield n_wanted of the n_lines lines at equal distances; all if there are no more."""
    for i, line in enumerate(lines):
        if n_lines <= n_wanted or (i + 1) * n_wanted // n_lines > i * n_wanted // n_lines:
            yield line

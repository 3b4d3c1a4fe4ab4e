"""Read lines as a model does: split them into pieces with token ids, and find their matches in a translation memory."""

from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from mtkit.bundle import BundleFiles, bundle_file
from mtkit.config.data import UNNAMED
from mtkit.config.decoding import DecodeConfig
from mtkit.config.tags import TOKENS
from mtkit.console import log
from mtkit.data.sides import Sides
from mtkit.pair_files.lines import as_one_line, check_text
from mtkit.text.capitals import Capitals, PartOf, Usual, is_in_capitals, is_in_small_letters, may_be_title
from mtkit.tokens.openings import missing_mark
from mtkit.tokens.placeholders import Replaced
from mtkit.tokens.protected import Protector
from mtkit.tokens.spelling import Respelt, Spelling
from mtkit.tokens.tokenizer import Tokenizer
from mtkit.tokens.word_record import FILE as WORDS_FILE
from mtkit.tokens.word_record import WordRecord, load_words
from mtkit.translation.direction import sides_of
from mtkit.translation.pieces import REMOVED, Cutter, Matcher, Piece

if TYPE_CHECKING:
    from mtkit.memory.index import Memory


class TrainingText:
    """Facts about the training text of a model; each is loaded on first use, because that takes milliseconds."""

    def __init__(self, files: BundleFiles | None) -> None:
        self._files = files

    @cached_property
    def sides(self) -> Sides | None:
        """The sides of the text, which help to detect text in a wrong language; None if they are unknown."""
        return None if self._files is None else sides_of(self._files)

    @cached_property
    def capitals(self) -> Capitals | None:
        """Writes text in capitals in the way that the model knows; None if the training text is unknown."""
        if self._files is None or self.sides is None:
            return None
        data = self._files.config.data
        return Capitals(self.sides.src.nats, data.src_lang, data.tgt_lang, self.sides.tgt.nats)

    @cached_property
    def spelling(self) -> Spelling | None:
        """What reads words with a typo; None if the words of the training text are unknown."""
        if self._files is None or self.words is None:
            return None
        return Spelling(self.words.counts, self._files.config.data.src_lang, self.words.rare)

    @cached_property
    def words(self) -> WordRecord | None:
        """The words of the source text; None if they are unknown."""
        path = None if self._files is None else bundle_file(self._files, WORDS_FILE)
        return None if path is None else load_words(path)

    @property
    def has_few_in_small_letters(self) -> bool:
        """Whether nearly all lines of the source text have a capital."""
        return self._files is not None and self._files.has_few_lines_in_small_letters


class Reader:
    """Splits lines into pieces, each encoded once."""

    def __init__(
        self,
        tokenizers: Sequence[Tokenizer],
        *,
        tag: str | None = None,
        files: BundleFiles | None = None,
        by_sentence: bool = False,
        as_typed: bool = False,
    ) -> None:
        """tokenizers: the source tokenizers of all models; the first one's placeholders apply.

        tag: token that begins each source. files: the first model's bundle; its training text decides how to read text
        in capitals and words with a typo. by_sentence: each sentence of a line is a piece. as_typed: read all as it is.
        Raises DataError if a tokenizer does not have the tag.
        """
        self.tokenizers = [*tokenizers] if tag is None else [tokenizer.tagged(tag) for tokenizer in tokenizers]
        self.placeholders = tokenizers[0].placeholders
        self.by_sentence = by_sentence
        self.matcher: Matcher | None = None
        self.training_text = TrainingText(files)
        self._has_terms = False
        self._words_of_terms: Collection[str] = ()
        self._as_typed = as_typed
        self._protect(Protector(tokenizers[0], src_lang=None if files is None else files.config.data.src_lang))

    def _protect(self, protector: Protector) -> None:
        """Set what is protected. Of the three cutters, `cutter` leaves out what the model cannot know.

        `whole` leaves out nothing, and `bare` leaves out all protected text.
        """
        self.protector = protector
        self.cutter, self.whole, self.bare = (
            Cutter(self.tokenizers, protector, removed, self._usual, self._respelt, self._missing_mark)
            for removed in REMOVED
        )

    def protecting(self, patterns: Sequence[str]) -> "Reader":
        """Return a reader that keeps text that matches these patterns unchanged."""
        other = copy(self)
        other._protect(self.protector.with_patterns(patterns))
        return other

    def with_memory(self, memory: "Memory | None", threshold: int) -> "Reader":
        """Return a reader that looks texts up in this memory; threshold: the lowest score of a match, in percent."""
        other = copy(self)
        other.matcher = None if memory is None else Matcher(memory, threshold, len(self.tokenizers))
        other._protect(self.protector)
        return other

    def with_terms(self, words: Collection[str] = ()) -> "Reader":
        """Return a reader that keeps the case of titles and small letters, because terms match text as written.

        words: of the terms, in lower case, which stay as they are, too.
        """
        other = copy(self)
        other._has_terms, other._words_of_terms = True, words
        other._protect(self.protector)
        return other

    def pieces(self, lines: Sequence[str], limit: int, first_line: int | None = None) -> list[list[Piece]]:
        """Split each line into at least one piece to translate: a blank line is a single blank piece.

        A piece is a sentence if the training text has one sentence a line, and a part of one that is too long.
        limit: the most tokens of a piece. first_line: number of the first line, for warnings about long lines; None: do
        not warn.
        Raises DataError, which names the line, for a line that is not text.
        """
        texts = ["\f".join(map(as_one_line, line.split("\f"))).strip() for line in checked(lines, first_line or 1)]
        settled = {} if self.matcher is None else self.matcher.settled_lines(texts)
        cut = []
        for index, whole in enumerate(self.cutter.lines(texts, whole=not self.by_sentence)):
            if index in settled:
                cut.append([settled[index]])
                continue
            parts = self._parts(whole, limit, None if first_line is None else index + first_line)
            cut.append(parts if self.matcher is None else [self.matcher.matched(part) for part in parts])
        return cut

    def _parts(self, whole: Sequence[Piece], limit: int, line: int | None) -> list[Piece]:
        """Return the pieces of a line, those that are too long in parts. line: its number, to warn about that."""
        parts = [part for piece in whole for part in self.cutter.cut(piece, limit)]
        n_tokens = sum(piece.n_tokens for piece in whole)
        n_excess = sum(map(self.cutter.excess_placeholders, whole))
        if len(parts) == 1 or (n_tokens <= limit and not n_excess):
            return parts
        if line is not None:
            many = f"{n_tokens} tokens are more than decode.max_src_tokens={limit}"
            if n_tokens <= limit:
                many = f"{n_excess} placeholders are more than {len(TOKENS)}"
            log.warning(f"line {line}: {many}; translated in {len(parts)} segments and joined again")
        return [replace(part, is_of_long=True) for part in parts]

    def sentences(self, piece: Piece) -> list[Piece]:
        """Return the sentences of a piece; [piece] if it is one sentence."""
        return self.cutter.sentences(piece)

    def replaced(self, text: str) -> Replaced:
        """Return the text as the model reads it, with a token for each placeholder."""
        return self.cutter.replaced(text)

    def _usual(self, text: str, part_of: PartOf | None) -> Usual | None:
        """Return a text in capitals, a title, or text without capitals, as ordinary sentences; None for other text.

        None, too, if the model has learnt such text.
        """
        if self._as_typed:
            return None
        may_differ = is_in_capitals(text) or (
            not self._has_terms
            and (may_be_title(text) or (is_in_small_letters(text) and self.training_text.has_few_in_small_letters))
        )
        capitals = self.training_text.capitals if may_differ else None
        return capitals.usual(text, part_of) if capitals else None

    def _respelt(self, text: str, kept: Sequence[str], part_of: PartOf | None) -> Respelt:
        """Return a text with words of the training text in the place of those with a typo. kept: parts that stay."""
        spelling = None if self._as_typed else self.training_text.spelling
        if spelling is None:
            return Respelt(text)
        return spelling.read(text, kept, self._words_of_terms, part_of.before if part_of else "")

    def _missing_mark(self, text: str) -> str:
        """Return the final mark with which the training text ends such a sentence; "" if it has one, or needs none."""
        words = None if self._as_typed else self.training_text.words
        return missing_mark(text, words.openings) if words else ""


def with_memory_of(reader: Reader, decode: DecodeConfig, files: BundleFiles | None) -> Reader:
    """Return a reader that uses decode.memory, if there is one. Raises DataError if it cannot be used."""
    if decode.memory is None:
        return reader
    from mtkit.memory.loading import load_memory  # here, because SQLite takes time to import

    langs = UNNAMED if files is None else (files.config.data.src_lang, files.config.data.tgt_lang)
    return reader.with_memory(load_memory(decode.memory, None if langs == UNNAMED else langs), decode.memory_threshold)


def checked(lines: Sequence[str], first_line: int = 1) -> Sequence[str]:
    """Return the lines. Raises DataError, which names the line, for one that is not text."""
    for number, line in enumerate(lines, start=first_line):
        check_text(line, number)
    return lines

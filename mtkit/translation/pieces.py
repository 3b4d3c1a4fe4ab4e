"""Split texts into pieces that the model can translate at once, with their token ids.

mtkit searches a line for protected text once. The tokenizers encode each piece once. If a piece is too long, they also
encode the parts that mtkit tries.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from mtkit.alignment.placing import readable, without
from mtkit.config.tags import TOKENS
from mtkit.pair_files.lines import as_one_line
from mtkit.text.capitals import Case, PartOf, Usual, is_in_capitals, is_in_small_letters
from mtkit.text.characters import without_invisible
from mtkit.text.inline import LONGEST_SENTENCE, Inline, cut, has_words_or_numbers
from mtkit.text.lines import BREAK_TAG
from mtkit.text.sentences import MASKS, part_spans, sentences
from mtkit.tokens.placeholders import Replaced
from mtkit.tokens.protected import NOTHING, Protected, Protector
from mtkit.tokens.spelling import Respelt
from mtkit.tokens.tokenizer import Tokenizer

if TYPE_CHECKING:
    from mtkit.memory.index import Match, Memory


@dataclass(frozen=True)
class Piece:
    """A text with the tokens that the model reads."""

    text: str  # one line, without white space around it
    ids: tuple[Sequence[int], ...]  # without EOS; by each source tokenizer, of which an ensemble may have several
    replaced: Replaced  # the text as the model reads it, with a token for each placeholder
    protected: Protected = NOTHING
    prefix: tuple[int, ...] = ()  # target tokens that begin the translation
    gap: str | None = None  # the white space before it; None: as much as the translation puts between its sentences
    case: Case | None = None  # how it is written, if the model reads it as ordinary sentences; see `Capitals.like`
    respelt: Respelt | None = None  # if the model reads words as others
    is_of_long: bool = False  # it belongs to a line that was too long for the model
    inline: Inline | None = None  # the text with what is protected as codes, if the model reads the text without it
    match: "Match | None" = None  # the best one of a translation memory

    @property
    def is_settled(self) -> bool:
        """Whether a translation memory has the translation, so that the model does not read the text."""
        return self.match is not None and self.match.is_exact

    @property
    def as_read(self) -> str:
        """The text with the words that the model reads in the place of those with a typo."""
        return self.respelt.text if self.respelt else self.text

    @property
    def is_blank(self) -> bool:
        """Whether the model has nothing to translate."""
        return not self.ids[0]

    @property
    def n_tokens(self) -> int:
        """The number of tokens from the tokenizer that needs the most."""
        return max(map(len, self.ids))

    @property
    def kept(self) -> list[str]:
        """The protected parts of the text."""
        return [self.text[start:end] for start, end in self.protected.spans]


class _Source(NamedTuple):
    """A text that becomes a piece."""

    text: str
    protected: Protected = NOTHING
    gap: str | None = None
    is_left: bool = False  # the model does not read it


Removed = Literal["unknown", "nothing", "all"]  # what the model does not read
REMOVED: tuple[Removed, ...] = get_args(Removed)


class Cutter:
    """Splits lines into sentences, and sentences that are too long into parts, and encodes them."""

    def __init__(
        self,
        tokenizers: Sequence[Tokenizer],
        protector: Protector,
        removed: Removed,
        usual: Callable[[str, PartOf | None], Usual | None] = lambda text, part_of: None,
        respelt: Callable[[str, Sequence[str], PartOf | None], Respelt] = lambda text, kept, part_of: Respelt(text),
        missing_mark: Callable[[str], str] = lambda text: "",
    ) -> None:
        """tokenizers: the source tokenizers of all models; the first one's placeholders apply.

        removed: what mtkit removes from a text before the model reads it: nothing, all protected parts if the model
        cannot know one of them, or all protected parts in any case.
        usual: returns a text in unusual case as the model should read it, or None; see `Capitals.usual`.
        respelt: returns a text with the words that the model should read; see `Spelling.read`.
        missing_mark: returns the final mark that the model should read after a sentence without one.
        """
        self.tokenizers = tokenizers
        self._usual, self._respelt, self._missing_mark = usual, respelt, missing_mark
        self.placeholders = tokenizers[0].placeholders
        self._protector = protector
        self._removed = removed

    def encode(self, texts: Sequence[str]) -> list[Piece]:
        """Return each text, which is one line without white space around it, as a single piece."""
        return self._encode([_Source(text, self._find(text)) for text in texts])

    def encode_again(self, pieces: Sequence[Piece]) -> list[Piece]:
        """Return the texts of another cutter's pieces as the model reads them by this one."""
        again = self._encode([_Source(piece.text, piece.protected, piece.gap) for piece in pieces])
        return [replace(one, prefix=piece.prefix) for one, piece in zip(again, pieces, strict=True)]

    def lines(self, lines: Sequence[str], *, whole: bool) -> list[list[Piece]]:
        """Return the pieces of each line: its sentences, and the text between them, which is not translated.

        whole: divide lines only where there are cells or written line breaks in them.
        """
        sources = [self._sources(line, self._find(line), whole=whole) for line in lines]
        pieces = iter(self._encode([source for of_line in sources for source in of_line]))
        return [[next(pieces) for _ in of_line] for of_line in sources]

    def sentences(self, piece: Piece) -> list[Piece]:
        """Return the sentences of a piece; [piece] if it is one sentence."""
        sources = self._sources(piece.text, piece.protected, whole=False)
        if len(sources) == 1:
            return [piece]
        first, *others = with_prefix(self._encode(sources), piece.prefix)
        return [replace(first, gap=piece.gap), *others]

    def protecting(self, protector: Protector) -> "Cutter":
        """Return a cutter for the same models that protects other text."""
        other = copy(self)
        other._protector = protector
        return other

    def _find(self, text: str) -> Protected:
        return NOTHING if self._removed == "nothing" else self._protector.find(text)

    def _encode(self, sources: Sequence[_Source], part_of: PartOf | None = None) -> list[Piece]:
        """Encode each source. part_of: the longer text, if the source is a part of a piece."""
        inlines = [self._inline(source) for source in sources]
        left = [
            source.text if inline is None else readable(inline) for source, inline in zip(sources, inlines, strict=True)
        ]
        kept = [[source.text[start:end] for start, end in source.protected.spans] for source in sources]
        respelt = [self._respelt(text, of_text, part_of) for text, of_text in zip(left, kept, strict=True)]
        replaced = [self.replaced(each.text) for each in respelt]
        usual = [self._usual(each.text, part_of) or Usual(each.text, None) for each in replaced]
        read = [replace(each, text=text) for each, (text, _) in zip(replaced, usual, strict=True)]
        # Its translation gets such a mark, too, which is then left out.
        marked = [each.text if part_of else each.text + self._missing_mark(each.text) for each in read]
        ids = zip(*(tokenizer.encode_replaced(marked) for tokenizer in self.tokenizers), strict=True)
        rows = zip(sources, ids, read, inlines, usual, respelt, strict=True)
        return [
            Piece(
                *(source.text, of_text, each, source.protected),
                gap=source.gap,
                inline=inline,
                case=case,
                respelt=words if words.words else None,
            )
            for source, of_text, each, inline, (_, case), words in rows
        ]

    def _inline(self, source: _Source) -> Inline | None:
        text, protected = source.text, source.protected
        if self._removed == "nothing" or not text:
            return None
        if source.is_left or (text.isprintable() and not has_words_or_numbers(text)):
            return without(as_one_line(text), [(0, len(text))])
        if not protected.spans or not (protected.unknown or self._removed == "all"):
            return None
        return without(text, protected.spans)

    def replaced(self, text: str) -> Replaced:
        """Return the text as the model reads it, with a token for each placeholder."""
        return self.placeholders.replace(text) if self.placeholders else Replaced(text, {})

    def _sources(self, line: str, protected: Protected, *, whole: bool) -> list[_Source]:
        marked = _Marked(line, protected)
        text = marked.text
        has_case = not (is_in_capitals(text) or is_in_small_letters(text))
        usual = None if has_case else self._usual(text, None)  # "IT RAINS. GO HOME." has two sentences
        # Numbers alone are for the model, too: it may write them in another way, or have learnt nothing but numbers.
        intervals = cut(text, read=usual and usual.text, lines_whole=whole) or cut(
            text, lines_whole=whole, is_wanted=has_words_or_numbers
        )
        sources: list[_Source] = []
        at = 0
        for start, end in [*intervals, (len(text), len(text))]:
            gap, kept = text[at:start], text[at:start].strip()
            before, after = (gap[: len(gap) - len(gap.lstrip())], gap[len(gap.rstrip()) :]) if kept else (gap, gap)
            if without_invisible(kept):
                sources.append(marked.source(at + len(before), start - len(after), as_one_line(before), is_left=True))
            if start < end:
                is_left = end - start > LONGEST_SENTENCE
                is_next = at == start and bool(sources)  # to another sentence
                sources.append(marked.source(start, end, None if is_next else as_one_line(after), is_left=is_left))
            at = end
        return sources or [_Source("")]

    def is_too_long(self, piece: Piece, limit: int) -> bool:
        """Return whether a piece has more than `limit` tokens, or more placeholders than there are tokens for them."""
        return piece.n_tokens > limit or bool(self.excess_placeholders(piece))

    def cut(self, piece: Piece, limit: int) -> list[Piece]:
        """Return the piece, or parts of it that have at most `limit` tokens and a token for each placeholder."""
        if not self.is_too_long(piece, limit):
            return [piece]
        protected = self._protector.find(piece.text) if self._removed == "nothing" else piece.protected
        marked = _Marked(piece.text, protected)
        encoded: dict[str, Piece] = {marked.text: piece}

        def encode(part: str) -> Piece:
            if part not in encoded:
                at = marked.text.index(part)
                part_of = PartOf(marked.text[:at], piece.case)
                [encoded[part]] = self._encode([marked.source(at, at + len(part))], part_of)
            return encoded[part]

        def fits(part: str) -> bool:
            return not self.is_too_long(encode(part), limit)

        first, *others = with_prefix([encode(part) for part in split_long(marked.text, fits)], piece.prefix)
        return [replace(first, gap=piece.gap), *others]

    def excess_placeholders(self, piece: Piece) -> int:
        """Return the number of placeholders in a piece if it exceeds the number of tokens for them, else 0."""
        if self.placeholders is None or len(piece.replaced.values) < len(TOKENS):
            return 0
        n_placeholders = len(self.placeholders.values(piece.text))
        return n_placeholders if n_placeholders > len(TOKENS) else 0


class Matcher:
    """Finds the matches of texts in a translation memory."""

    def __init__(self, memory: "Memory", threshold: int, n_tokenizers: int) -> None:
        """threshold: the lowest score of a match, in percent. n_tokenizers: source tokenizers of the translator."""
        self._memory = memory
        self._least = threshold / 100
        self._no_ids: tuple[Sequence[int], ...] = ((),) * n_tokenizers

    def settled_lines(self, lines: Sequence[str]) -> dict[int, Piece]:
        """Return the lines whose translations are in the memory, by index; a line of several cells never is."""
        matches = {index: self._memory.usable(line) for index, line in enumerate(lines) if "\f" not in line}
        return {index: self._settled(lines[index], match) for index, match in matches.items() if match}

    def matched(self, piece: Piece) -> Piece:
        """Return a piece with its best match, if it has one."""
        match = None if piece.is_blank else self._memory.best(piece.text, self._least)
        if match is None or not match.is_exact:
            return replace(piece, match=match)
        return replace(self._settled(piece.text, match), gap=piece.gap) if match.keeps_placeholders else piece

    def _settled(self, text: str, match: "Match") -> Piece:
        return Piece(text, self._no_ids, Replaced(text, {}), match=match)


def split_long(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Split a text into segments that fit, in order, without the white space between them; [text] if all of it fits.

    Each sentence becomes a segment, since models are trained on sentences. One that does not fit is cut into parts.
    """
    text = text.strip()
    if fits(text):
        return [text]
    return [sentence[start:end] for sentence in sentences(text) for start, end in part_spans(sentence, fits)]


def with_prefix(pieces: Sequence[Piece], prefix: tuple[int, ...]) -> list[Piece]:
    """Return a line's pieces, with the prefix set on the first one that the model reads."""
    first = next((index for index, piece in enumerate(pieces) if not piece.is_blank), 0)
    return [replace(piece, prefix=prefix) if index == first else piece for index, piece in enumerate(pieces)]


class _Marked:
    """A line with a single character, which no cut divides, in place of each part that must stay whole."""

    def __init__(self, line: str, protected: Protected) -> None:
        self._line, self._protected = line, protected
        self.text, self._places = line, list[int]()  # empty: each character has its own place
        if protected.whole:
            taken, parts, places, at = set(line), list[str](), list[int](), 0
            unused = (chr(code) for code in MASKS if chr(code) not in taken)
            breaks = {span for span in protected.spans if BREAK_TAG.fullmatch(line, *span)}  # not the model's own
            whole = (span for span in protected.whole if span not in breaks)
            for mark, (start, end) in zip(unused, whole, strict=False):
                parts += [line[at:start], mark]
                places += range(at, start + 1)
                at = end
            self.text, self._places = "".join([*parts, line[at:]]), [*places, *range(at, len(line) + 1)]

    def source(self, start: int, end: int, gap: str | None = None, *, is_left: bool = False) -> _Source:
        """Return the part of the line that stands between two places of the text."""
        if self._places:
            start, end = self._places[start], self._places[end]
        return _Source(self._line[start:end], self._protected.within(start, end), gap, is_left)

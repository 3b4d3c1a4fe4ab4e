"""Split texts into pieces that the model can translate at once, with their token ids.

The tokenizers encode each text once. If a text is too long, they also encode each part that is tried.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, get_args

from mtkit.alignment.placing import readable, without
from mtkit.config.tags import TOKENS
from mtkit.text.capitals import is_in_capitals
from mtkit.text.identifiers import is_identifier
from mtkit.text.inline import Inline
from mtkit.text.sentences import sentence_spans
from mtkit.tokens.placeholders import Placeholders, Replaced
from mtkit.tokens.protected import Protector, meets
from mtkit.tokens.tokenizer import Tokenizer
from mtkit.translation.segments import split_long


@dataclass(frozen=True)
class Piece:
    """A text with the tokens that the model reads."""

    text: str  # one line, without white space around it
    ids: tuple[Sequence[int], ...]  # without EOS; by each source tokenizer, of which an ensemble may have several
    replaced: Replaced  # the text as the model reads it, with a token for each placeholder
    prefix: tuple[int, ...] = ()  # target tokens that begin the translation
    gap: str = " "  # the white space before it, if it is not the first of its line
    in_capitals: bool = False  # the model reads it as ordinary sentences, and its translation becomes capitals
    is_of_long: bool = False  # it belongs to a line that was too long for the model
    inline: Inline | None = None  # the text with what is protected as codes, if the model reads the text without it

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing to translate."""
        return not self.ids[0]

    @property
    def n_tokens(self) -> int:
        """The number of tokens from the tokenizer that needs the most."""
        return max(map(len, self.ids))


Removed = Literal["unknown", "nothing", "all"]  # what the model does not read
REMOVED: tuple[Removed, ...] = get_args(Removed)


class Cutter:
    """Encodes texts, and splits those that are too long."""

    def __init__(
        self,
        tokenizers: Sequence[Tokenizer],
        protector: Protector,
        removed: Removed,
        lowered: Callable[[str], str | None] = lambda text: None,
    ) -> None:
        """tokenizers: the source tokenizers of all models; the first one's placeholders apply.

        removed: what the model reads a text without: nothing, all protected parts if it cannot know one of them, or all
        of them in any case.
        lowered: returns a text in capitals, or a title, as the model is to read it, or None; see `Capitals.lowered`.
        """
        self.tokenizers = tokenizers
        self._lowered = lowered
        self.placeholders = tokenizers[0].placeholders
        self._protector = protector
        self._removed = removed

    def encode(self, texts: Sequence[str]) -> list[Piece]:
        """Return each text, which is one line without white space around it, as a single piece."""
        inlines = [self._inline(text) for text in texts]
        left = [text if inline is None else readable(inline) for text, inline in zip(texts, inlines, strict=True)]
        replaced = [self.replaced(text) for text in left]
        lowered = [self._lowered(each.text) for each in replaced]
        read = [each if low is None else replace(each, text=low) for each, low in zip(replaced, lowered, strict=True)]
        ids = zip(
            *(tokenizer.encode_replaced([each.text for each in read]) for tokenizer in self.tokenizers), strict=True
        )
        raised = [low is not None and is_in_capitals(each.text) for each, low in zip(replaced, lowered, strict=True)]
        rows = zip(texts, ids, read, inlines, raised, strict=True)
        return [
            Piece(text, of_text, each, inline=inline, in_capitals=capitals)
            for text, of_text, each, inline, capitals in rows
        ]

    def protecting(self, protector: Protector) -> "Cutter":
        """Return one for the same models that protects other text."""
        other = copy(self)
        other._protector = protector
        return other

    def _inline(self, text: str) -> Inline | None:
        if self._removed == "nothing":
            return None
        is_marks = text and text.isprintable() and not any(map(str.isalnum, text))
        if is_marks or is_identifier(text):
            return without(text, [(0, len(text))])
        protected = self._protector.find(text)
        if not protected.spans or not (protected.has_unknown or self._removed == "all"):
            return None
        return without(text, protected.spans)

    def replaced(self, text: str) -> Replaced:
        """Return the text as the model reads it, with a token for each placeholder."""
        return self.placeholders.replace(text) if self.placeholders else Replaced(text, {})

    def sentences(self, piece: Piece) -> list[Piece]:
        """Return the sentences of a piece; [piece] if it is one sentence."""
        marked, values = self._marked(piece.text)
        spans = sentence_spans((piece.in_capitals and self._lowered(marked)) or marked)  # "NO. YES." has two
        if len(spans) == 1:
            return [piece]
        gaps = [piece.gap, *(marked[end:start] for (_, end), (start, _) in pairwise(spans))]
        encoded = self.encode([_unmarked(marked[start:end], values) for start, end in spans])
        parts = [replace(part, gap=gap) for part, gap in zip(encoded, gaps, strict=True)]
        return [replace(parts[0], prefix=piece.prefix), *parts[1:]]

    def is_too_long(self, piece: Piece, limit: int) -> bool:
        """Return whether a piece has more than `limit` tokens, or more placeholders than there are tokens for them."""
        return piece.n_tokens > limit or bool(self.excess_placeholders(piece))

    def cut(self, piece: Piece, limit: int) -> list[Piece]:
        """Return the piece, or parts of it that have at most `limit` tokens and a token for each placeholder."""
        if not self.is_too_long(piece, limit):
            return [piece]
        whole, values = self._marked(piece.text)
        encoded: dict[str, Piece] = {whole: piece}

        def part_of(marked_part: str) -> Piece:
            if marked_part not in encoded:
                [encoded[marked_part]] = self.encode([_unmarked(marked_part, values)])
            return encoded[marked_part]

        def fits(marked_part: str) -> bool:
            return not self.is_too_long(part_of(marked_part), limit)

        parts = [part_of(part) for part in split_long(whole, fits)]
        first = next((index for index, part in enumerate(parts) if not part.is_blank), 0)
        parts[first] = replace(parts[first], prefix=piece.prefix)
        return [replace(parts[0], gap=piece.gap), *parts[1:]]

    def _marked(self, text: str) -> tuple[str, dict[str, str]]:
        """Return the text with a single character, which no cut divides, for each kept part, and these by it."""
        placeholders = self.placeholders or Placeholders(())
        own = placeholders.spans(text)
        spans = [span for span in self._protector.find(text).spans if not meets(own, span)]
        return placeholders.marked(text, spans)

    def excess_placeholders(self, piece: Piece) -> int:
        """Return the number of placeholders in a piece if it exceeds the number of tokens for them, else 0."""
        if self.placeholders is None or len(piece.replaced.values) < len(TOKENS):
            return 0
        n_placeholders = len(self.placeholders.values(piece.text))
        return n_placeholders if n_placeholders > len(TOKENS) else 0


def _unmarked(marked: str, values: Mapping[str, str]) -> str:
    return "".join(values.get(character, character) for character in marked)

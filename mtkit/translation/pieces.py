"""Split texts into pieces that the model can translate at once, with their token ids.

The tokenizers encode each text once. If a text is too long, they also encode each part that is tried.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mtkit.config.tags import TOKENS
from mtkit.tokens.placeholders import Replaced
from mtkit.tokens.tokenizer import Tokenizer
from mtkit.translation.segments import split_long


@dataclass(frozen=True)
class Piece:
    """A text with the tokens that the model reads."""

    text: str  # one line, without white space around it
    ids: tuple[Sequence[int], ...]  # without EOS; by each source tokenizer, of which an ensemble may have several
    replaced: Replaced  # the text with a token for each placeholder
    prefix: tuple[int, ...] = ()  # target tokens that begin the translation

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing to translate."""
        return not self.ids[0]

    @property
    def n_tokens(self) -> int:
        """The number of tokens from the tokenizer that needs the most."""
        return max(map(len, self.ids))


class Cutter:
    """Encodes texts, and splits those that are too long."""

    def __init__(self, tokenizers: Sequence[Tokenizer]) -> None:
        """tokenizers: the source tokenizers of all models; the first one's placeholders apply."""
        self.tokenizers = tokenizers
        self.placeholders = tokenizers[0].placeholders

    def encode(self, texts: Sequence[str]) -> list[Piece]:
        """Return each text, which is one line without white space around it, as a single piece."""
        replaced = [self.replaced(text) for text in texts]
        read = [each.text for each in replaced]
        ids = zip(*(tokenizer.encode_replaced(read) for tokenizer in self.tokenizers), strict=True)
        return [Piece(*row) for row in zip(texts, ids, replaced, strict=True)]

    def replaced(self, text: str) -> Replaced:
        """Return the text as the model reads it, with a token for each placeholder."""
        return self.placeholders.replace(text) if self.placeholders else Replaced(text, {})

    def cut(self, piece: Piece, limit: int) -> list[Piece]:
        """Return the piece, or parts of it that have at most `limit` tokens and a token for each placeholder."""
        if piece.n_tokens <= limit and not self.excess_placeholders(piece):
            return [piece]
        marked, values = piece.text, dict[str, str]()
        if self.placeholders:
            marked, values = self.placeholders.marked(piece.text)  # no cut can go through a single character
        encoded: dict[str, Piece] = {marked: piece}

        def part_of(marked_part: str) -> Piece:
            if marked_part not in encoded:
                text = "".join(values.get(character, character) for character in marked_part)
                [encoded[marked_part]] = self.encode([text])
            return encoded[marked_part]

        def fits(marked_part: str) -> bool:
            return sum(map(marked_part.count, values)) <= len(TOKENS) and part_of(marked_part).n_tokens <= limit

        parts = [part_of(part) for part in split_long(marked, fits)]
        first = next((index for index, part in enumerate(parts) if not part.is_blank), 0)
        parts[first] = replace(parts[first], prefix=piece.prefix)
        return parts

    def excess_placeholders(self, piece: Piece) -> int:
        """Return the number of placeholders in a piece if it exceeds the number of tokens for them, else 0."""
        if self.placeholders is None or len(piece.replaced.values) < len(TOKENS):
            return 0
        n_placeholders = len(self.placeholders.values(piece.text))
        return n_placeholders if n_placeholders > len(TOKENS) else 0

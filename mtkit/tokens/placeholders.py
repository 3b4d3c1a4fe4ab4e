"""Replace the matches of `data.placeholders` in a text by reserved tokens, and put them back exactly as they were.

The tokenizers have a few reserved tokens, `<ph1>` to `<ph9>`, which the model learns to copy. A text that contains such
a token itself counts as a match too; after the ninth match, or where the other side of a pair lacks it, models read it
as `(ph1)`, in training and scoring only. The rest of the text determines the number of the first match, so that the
model meets all tokens equally often, and that equal texts with different matches are translated alike.
"""

import re
import zlib
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from mtkit.config.tags import TOKENS
from mtkit.errors import DataError

if TYPE_CHECKING:
    import regex

_TOKEN = re.compile("|".join(TOKENS))
_LIKE_TOKEN = re.compile(_TOKEN.pattern, re.IGNORECASE)  # which a tokenizer might make lower case
_LIMIT_S = 5.0  # seconds for one pattern on one text; a sentence takes microseconds


@dataclass(frozen=True)
class Replaced:
    """A text with reserved tokens, and the values that they replace."""

    text: str
    values: Mapping[str, str]  # by token, in the order of the text

    def places(self) -> list[int]:
        """Return the place in the original text of each character, and of the end; of a token's, the match's start."""
        places: list[int] = []
        end = shift = 0
        for match in _TOKEN.finditer(self.text) if self.values else ():
            places += [*range(end + shift, match.start() + shift), *[match.start() + shift] * len(match[0])]
            shift += len(self.values[match[0]]) - len(match[0])
            end = match.end()
        return [*places, *range(end + shift, len(self.text) + shift + 1)]


class Placeholders:
    """The patterns of a model. Where matches overlap, the first counts, and of those that begin there the longest."""

    def __init__(self, patterns: Sequence[str]) -> None:
        """patterns: regular expressions, as `data.placeholders` has checked them."""
        self.patterns = tuple(patterns)

    @cached_property
    def _compiled(self) -> "list[regex.Pattern[str]]":
        import regex  # here, and not before a text needs it: most sentences hold nothing that a pattern could match

        return [regex.compile(pattern) for pattern in self.patterns]

    def values(self, text: str) -> list[str]:
        """Return all matches in the order of the text, however many."""
        return [text[start:end] for start, end in self.spans(text)]

    def replace(self, text: str) -> Replaced:
        """Replace each match by a token of its own; those after the ninth stay in the text."""
        return _replaced(text, self.spans(text))

    def replace_translation(self, text: str, src: Replaced) -> str:
        """Replace the matches that the source also has by the same tokens; leave the others in the text."""
        tokens: defaultdict[str, deque[str]] = defaultdict(deque)
        for token, value in src.values.items():
            tokens[value].append(token)
        parts: list[str] = []
        end = 0
        for start, next_end in self.spans(text):
            if waiting := tokens[text[start:next_end]]:
                parts += [_without_tokens(text[end:start]), waiting.popleft()]
                end = next_end
        return "".join([*parts, _without_tokens(text[end:])])

    def replace_pair(self, src: str, tgt: str) -> tuple[str, str, bool]:
        """Replace the matches that both sides of a training pair have; leave the others in the text.

        Also return whether both sides have the same matches.
        """
        src_spans, tgt_spans = self.spans(src), self.spans(tgt)
        in_tgt = [tgt[start:end] for start, end in tgt_spans]
        common = []
        for start, end in src_spans:
            if src[start:end] in in_tgt:
                in_tgt.remove(src[start:end])
                common.append((start, end))
        replaced = _replaced(src, common)
        agree = len(common) == len(src_spans) == len(tgt_spans)
        return replaced.text, self.replace_translation(tgt, replaced), agree

    def without(self, text: str) -> str:
        """Replace each match by a space."""
        spans = self.spans(text)
        return _substituted(text, spans, [" "] * len(spans))

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the spans of the matches, in order, without overlap."""
        found = [match.span() for match in _LIKE_TOKEN.finditer(text)]
        for pattern in self._compiled:
            try:
                found += [match.span() for match in pattern.finditer(text, timeout=_LIMIT_S)]
            except TimeoutError:
                raise DataError(
                    f"data.placeholders: {pattern.pattern!r} takes more than {_LIMIT_S:.0f} seconds on a text of "
                    f"{len(text):,} characters ({text[:60]!r}); write it without repeats inside repeats, such as (a+)+"
                ) from None
        spans: list[tuple[int, int]] = []
        for start, end in sorted(found, key=lambda span: (span[0], -span[1])):
            if start < end and (not spans or start >= spans[-1][1]):
                spans.append((start, end))
        return spans


def with_own_tokens(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Number the tokens of replaced pairs that are to be joined to one, as if they had always been one.

    Return the first pairs, as many as there are tokens for.
    """
    first = zlib.crc32("".join(_TOKEN.sub("", src) for src, _ in pairs).encode("utf-8", "surrogatepass"))
    own: list[tuple[str, str]] = []
    n_values = 0
    for src, tgt in pairs:
        tokens = {token: TOKENS[(first + n_values + i) % len(TOKENS)] for i, token in enumerate(_TOKEN.findall(src))}
        n_values += len(tokens)
        if n_values > len(TOKENS):
            break
        own.append((_with_tokens(src, tokens), _with_tokens(tgt, tokens)))
    return own


def _with_tokens(text: str, tokens: Mapping[str, str]) -> str:
    """Replace each token by another."""
    return _TOKEN.sub(lambda match: tokens[match[0]], text)


def restore(text: str, values: Mapping[str, str]) -> tuple[str, int]:
    """Replace each token by its value, each value exactly once; also return how many had to be moved.

    A value whose token is missing comes at the end; a second token for it, or one without a value, is left out.
    """
    filled, missing, n_removed = _filled(text, values)
    return " ".join(filter(None, [filled.strip() if n_removed else filled, *missing])), len(missing) + n_removed


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace each token in the beginning of a text by its value; see `restore`."""
    return _filled(text, values)[0]


def _filled(text: str, values: Mapping[str, str]) -> tuple[str, list[str], int]:
    """Return the filled text, the values that it lacks, and how many tokens were removed."""
    left = dict(values)
    n_removed = 0

    def value(match: re.Match[str]) -> str:
        nonlocal n_removed
        n_removed += match[0] not in left
        return left.pop(match[0], "")

    filled = _TOKEN.sub(value, text)
    return filled, list(left.values()), n_removed


def _replaced(text: str, spans: Sequence[tuple[int, int]]) -> Replaced:
    rest = _substituted(text, spans, [""] * len(spans))
    first = zlib.crc32(rest.encode("utf-8", "surrogatepass"))
    tokens = [TOKENS[(first + index) % len(TOKENS)] for index in range(min(len(spans), len(TOKENS)))]
    values = {token: text[start:end] for token, (start, end) in zip(tokens, spans, strict=False)}
    return Replaced(_substituted(text, spans, tokens), values)


def _substituted(text: str, spans: Iterable[tuple[int, int]], substitutes: Iterable[str]) -> str:
    """Replace the first spans by these substitutes, and escape reserved tokens in the rest of the text."""
    parts: list[str] = []
    end = 0
    for (start, next_end), substitute in zip(spans, substitutes, strict=False):
        parts += [_without_tokens(text[end:start]), substitute]
        end = next_end
    return "".join([*parts, _without_tokens(text[end:])])


def _without_tokens(text: str) -> str:
    """Write `<ph1>` and the like as `(ph1)`, which no tokenizer takes for a token."""
    return _LIKE_TOKEN.sub(lambda match: f"({match[0][1:-1]})", text)

"""Share a text out over the cues of subtitles and over the lines of a cue, at the ends of words."""

import html
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mtkit.documents.subtitles.cues import TAG
from mtkit.text.characters import n_columns
from mtkit.text.sentences import FINAL, PAUSING, without_closing
from mtkit.text.words import STANDS_ALONE, UNSPACED

# Netflix, Timed Text Style Guide: general requirements, and the pages of most languages: two lines, 42 characters a
# line, 17 characters a second for adults (20 for English). East Asian characters count as two here.
MOST_IN_LINE = 42
MOST_PER_SECOND = 17.0
_WORD = re.compile(rf"\s*(?:(?:<[^<>]*>|\{{\\[^{{}}]*\}})+|[{UNSPACED}][^\w\s<{{]*|[^\s<{{{UNSPACED}]+|[<{{])")
_MOST_WORDS = 300  # of which the best shares are sought; of more, those in proportion are taken
_UNPUNCTUATED, _PAUSED = 0.3, 0.1  # what an end of a share costs there, where a share twice the wanted one costs 1
_TOO_MUCH = 4.0  # how much a character too many costs, compared to one that another share should have


@dataclass(frozen=True)
class Word:
    """A word with the tags and the white space before it."""

    text: str
    width: int


def tagged_words(text: str, read: Callable[[str], str] = str) -> list[Word]:
    """Return the words of a text with tags. read: returns a written text as a reader sees it."""
    words: list[Word] = []
    opening = ""  # tags that belong to the next word
    for match in _WORD.finditer(text):
        part = match[0]
        is_glued = bool(words) and not part[:1].isspace() and not opening and not _ends_word(words[-1].text, part)
        if TAG.match(part.lstrip()):
            if "</" in part and words and not opening and not part[:1].isspace():
                words[-1] = Word(words[-1].text + part, words[-1].width)
            else:
                opening += part
        elif is_glued:
            words[-1] = Word(words[-1].text + part, words[-1].width + n_columns(read(part)))
        else:
            words.append(Word(opening + part, n_columns(read(part))))
            opening = ""
    if opening:
        words = [*words[:-1], Word(words[-1].text + opening, words[-1].width)] if words else [Word(opening, 0)]
    return words


def _ends_word(word: str, part: str) -> bool:
    """Return whether a share may end between two parts without white space between them: in scripts without spaces."""
    return part[:1].isalnum() and any(map(STANDS_ALONE.match, (part, TAG.sub("", word)[-1:])))


def shares(words: Sequence[Word], wanted: Sequence[float], most: Sequence[float]) -> list[list[Word]]:
    """Divide words into as many shares as are wanted.

    wanted: how wide each should be; most: how wide each may be. Shares end after punctuation where this costs little;
    none is empty unless there are fewer words than shares.
    """
    if len(wanted) == 1:
        return [list(words)]
    total = sum(word.width for word in words)
    scale = total / sum(wanted) if sum(wanted) > 0 else 1.0
    targets = [max(1.0, scale * each) for each in wanted]
    if len(words) <= len(wanted) or len(words) > _MOST_WORDS:
        ends = _in_proportion(words, targets)
    else:
        ends = _cheapest(words, targets, most)
    return [list(words[a:b]) for a, b in zip([0, *ends[:-1]], ends, strict=True)]


def _in_proportion(words: Sequence[Word], targets: Sequence[float]) -> list[int]:
    """Return where shares end that are as wide as wanted, or one word each while there are words."""
    if len(words) <= len(targets):
        return [min(number + 1, len(words)) for number in range(len(targets))]
    ends, at, so_far, goal = [], 0, 0.0, 0.0
    for number, target in enumerate(targets):
        goal += target
        left = len(targets) - number - 1
        first = at
        while at < len(words) - left and (at == first or so_far + words[at].width / 2 <= goal):
            so_far += words[at].width
            at += 1
        ends.append(at)
    ends[-1] = len(words)
    return ends


def _cheapest(words: Sequence[Word], targets: Sequence[float], most: Sequence[float]) -> list[int]:
    """Return where the shares end that cost least together, none of them empty."""
    n, mean = len(words), sum(targets) / len(targets)
    widths = [0]
    for word in words:
        widths.append(widths[-1] + word.width)
    best = [0.0] + [float("inf")] * n
    starts: list[list[int]] = []
    for number, (target, limit) in enumerate(zip(targets, most, strict=True)):
        left = len(targets) - number - 1
        new, start_of = [float("inf")] * (n + 1), [0] * (n + 1)
        for end in range(number + 1, n - left + 1):
            at_end = _end_cost(words[end - 1]) if left else 0.0
            for start in range(number, end):
                wide = widths[end] - widths[start]
                excess = max(0.0, wide - limit) / mean
                cost = best[start] + ((wide - target) / mean) ** 2 + _TOO_MUCH * excess + at_end
                if cost < new[end]:
                    new[end], start_of[end] = cost, start
        best = new
        starts.append(start_of)
    ends = [n]
    for start_of in reversed(starts[1:]):
        ends.append(start_of[ends[-1]])
    return ends[::-1]


def _end_cost(word: Word) -> float:
    last = without_closing(html.unescape(TAG.sub("", word.text)))[-1:] or " "
    return 0.0 if last in FINAL else _PAUSED if last in PAUSING else _UNPUNCTUATED


def lines(words: Sequence[Word], most: int) -> list[str]:
    """Return the words as lines of up to MOST_IN_LINE characters, but no more lines than `most`."""
    total = sum(word.width for word in words)
    n_lines = max(1, min(most, len(words), -(-total // MOST_IN_LINE)))
    while True:
        found = shares(words, [1.0] * n_lines, [float(MOST_IN_LINE)] * n_lines)
        fits = all(sum(word.width for word in line) <= MOST_IN_LINE + 1 for line in found)
        if fits or n_lines >= min(most, len(words)):
            return ["".join(word.text for word in line).strip() for line in found]
        n_lines += 1

"""Put the inline codes of a source text into its translation, by the alignment of their words.

A pair of codes goes around the run of target words that corresponds most to the source words inside the pair and least
to those outside. Outer pairs are placed first, and inner ones within them. So each code of the source comes back once,
and pairs are nested as in the source, whatever the alignment says. Codes inside a word, as in H<sub>2</sub>O, go into
one word, behind the same letters as far as it has them.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

import numpy as np
import numpy.typing as npt

from mtkit.text.inline import Code, Inline, Interval, Span
from mtkit.text.words import STANDS_ALONE, word_spans

Floats = npt.NDArray[np.float64]
Words = tuple[list[Interval], list[Interval]]  # of a text and of its translation
SHIFTED = ("sub", "sup")  # names of codes of text below or above the line, which never go around a whole word instead
_WORD = (Code("", "open"), Code("", "close"))  # around the codes inside a word
_NOT_LAST, _NOT_FIRST = "([{«‹“„‚¿¡", ")]}»›.,;:!?…"  # marks that end, or begin, no part of a sentence
_ATTACHED_BEFORE, _ATTACHED_AFTER = _NOT_LAST + "'’\"/-", _NOT_FIRST + "”'’\"/-%"  # marks without a space between


@dataclass(frozen=True)
class Transfer:
    """A translation with the codes of its source."""

    text: str
    n_guessed: int  # codes, or pairs, whose place no alignment shows


def transfer(
    inline: Inline,
    translation: str,
    weights: Floats,
    write: Callable[[str], str] = str,
    words: Words | None = None,
    sentences: Sequence[tuple[Interval, Interval]] = (),
) -> Transfer:
    """Return the translation of inline.text with its codes.

    weights: (target words, source words); how strongly target and source words correspond. Rows add up to at
    most 1.
    write: turns text into that of the document, such as & into &amp;.
    words: of inline.text and of the translation; default: those of `word_spans`. No code divides a word that is not
    one of those, such as a placeholder.
    sentences: in order, the words of each, by their indices, and those of its translation. What surrounds sentences, or
    stands between them, does so in the translation, too.
    A translation that equals the text gets the segment as it is.
    """
    if translation == inline.text:
        return Transfer(inline.source, 0)
    if words is None:
        words = word_spans(inline.text), word_spans(translation)
    placer = _Placer(inline.text, translation, words, weights, write, sentences)
    text = placer.render(inline.spans, (0, len(placer.tgt)), (0, len(placer.src)), (0, len(translation)))
    return Transfer(text, placer.n_guessed)


@dataclass(frozen=True)
class _Item:
    """What replaces characters start to end of the translation; a single code replaces white space or nothing."""

    start: int
    end: int
    order: int  # among its siblings in the source
    text: str


class _Placer:
    def __init__(
        self,
        source: str,
        translation: str,
        words: Words,
        weights: Floats,
        write: Callable[[str], str],
        sentences: Sequence[tuple[Interval, Interval]],
    ) -> None:
        self.source, self.translation = source, translation
        self.starts = {src[0]: tgt[0] for src, tgt in sentences}
        self.ends = {src[1]: tgt[1] for src, tgt in sentences}
        self.src, self.tgt = words
        if weights.shape != (len(self.tgt), len(self.src)):
            raise ValueError(f"weights of {weights.shape} for {len(self.tgt)} target and {len(self.src)} source words")
        self.weights, self.write = _mutual(weights), write
        self.sums = np.concatenate([np.zeros((len(self.tgt), 1)), self.weights.cumsum(axis=1)], axis=1)
        self.is_mark = np.array([not _has_letters(translation, word) for word in self.tgt], dtype=bool)
        self.line_ends = [[match.start() for match in re.finditer("\n", text)] for text in (source, translation)]
        self.n_guessed = 0

    def render(self, spans: Sequence[Span], tgt: Interval, src: Interval, characters: Interval) -> str:
        """Return these characters of the translation with the spans, which stand side by side in the source.

        tgt, src: the words among which they stand.
        """
        spans = self._with_words(spans)
        runs = self._runs(spans, tgt, src)
        free = [place for place in range(tgt[0], tgt[1] + 1) if not any(a < place < b for a, b in runs.values())]
        items = []
        for order, span in enumerate(spans):
            if order in runs:
                items.append(self._pair(span, order, runs[order]))
            else:
                items.append(self._single(span, order, self._boundary(span, free, src), characters))
        text, at = "", characters[0]
        for item in sorted(items, key=lambda item: (item.start, item.order)):
            text += self.write(self.translation[at : item.start]) + item.text
            at = max(at, item.end)
        return text + self.write(self.translation[at : characters[1]])

    def _runs(self, spans: Sequence[Span], tgt: Interval, src: Interval) -> dict[int, Interval]:
        """Choose target words for each pair of codes with words inside, by the pair's index, as far as there are any.

        The pairs that the alignment shows best choose first. A pair around all source words is around all target words.
        """
        gains = {}
        runs: dict[int, Interval] = {}
        taken = np.zeros(len(self.tgt), dtype=bool)
        taken[: tgt[0]] = taken[tgt[1] :] = True
        for order, span in enumerate(spans):
            first, end = self._source_words(span)
            if (first, end) == src and first < end and tgt[0] < tgt[1]:
                is_word = span.codes is _WORD
                return {order: (self._copy(src, taken) or self._most_alike(span, tgt)) if is_word else tgt}
            start, stop = self.starts.get(first, len(self.tgt)), self.ends.get(end, 0)
            if first < end and start < stop and not taken[start:stop].any():  # two pairs may share a word
                runs[order] = start, stop
                taken[start:stop] = True
            elif span.codes is _WORD and (copy := self._copy((first, end), taken)):
                runs[order] = copy
                taken[copy[0] : copy[1]] = True
            elif first < end:
                inside = self.sums[:, end] - self.sums[:, first]
                gain = 2 * inside - self.sums[:, -1]
                gains[order] = np.where(self.is_mark, np.minimum(gain, 0), gain) if self._is_text(span) else gain
        best = {order: _best_run(gain, taken)[0] for order, gain in gains.items()}
        for order in sorted(gains, key=lambda order: -best[order]):
            score, run = _best_run(gains[order], taken)
            if score <= 0:
                self.n_guessed += 1
                run = self._guess(spans[order], taken)
            if run[0] < run[1]:
                is_word = spans[order].codes is _WORD
                run = self._most_alike(spans[order], run) if is_word else self._with_its_marks(run, spans[order], taken)
                runs[order] = run
                taken[run[0] : run[1]] = True
        return runs

    def _with_words(self, spans: Sequence[Span]) -> list[Span]:
        """Put a pair without markup around the codes inside each word, and inside words that no space divides."""
        grouped: list[Span] = []
        for span in spans:
            if (around := self._divided_by(span)) is None:
                grouped.append(span)
                continue
            start, end = around
            before: tuple[Span, ...] = ()
            if grouped and grouped[-1].codes is _WORD and start < grouped[-1].end:
                last = grouped.pop()
                start, end, before = min(start, last.start), max(end, last.end), last.inside
            grouped.append(Span(_WORD, start, end, (*before, span)))
        return grouped

    def _divided_by(self, span: Span) -> Interval | None:
        """Return the characters of the words around a span that begins or ends inside one; None if it does not."""
        if span.codes[0].text or span.codes[0].is_text or any(map(str.isspace, self.source[span.start : span.end])):
            return None
        touched = [word for word in self.src if word[0] < max(span.end, span.start + 1) and word[1] > span.start]
        if not touched:
            return None
        start, end = touched[0][0], touched[-1][1]
        before, after = (_has_letters(self.source, part) for part in ((start, span.start), (span.end, end)))
        is_divided = before and after if span.start == span.end else before or after
        return (start, end) if is_divided and self._whole.isdisjoint(touched) else None

    @cached_property
    def _whole(self) -> set[Interval]:
        """The source words that no code divides, such as placeholders; few texts have codes inside words at all."""
        return set(self.src).difference(word_spans(self.source))

    def _copy(self, words: Interval, taken: npt.NDArray[np.bool_]) -> Interval | None:
        """Return free target words that equal these source words: the k-th of them for the k-th, else the likeliest."""
        n = words[1] - words[0]

        def text(of_text: str, of_words: Sequence[Interval], index: int) -> str:
            return of_text[of_words[index][0] : of_words[index + n - 1][1]].lower()

        wanted = text(self.source, self.src, words[0])
        in_src = [i for i in range(len(self.src) - n + 1) if text(self.source, self.src, i) == wanted]
        in_tgt = [i for i in range(len(self.tgt) - n + 1) if text(self.translation, self.tgt, i) == wanted]
        if len(in_src) == len(in_tgt):
            in_tgt = [in_tgt[in_src.index(words[0])]]
        free = [i for i in in_tgt if not taken[i : i + n].any()]
        if not free:
            return None
        best = max(free, key=lambda i: float(self.weights[i : i + n, words[0] : words[1]].sum()))
        return best, best + n

    def _most_alike(self, span: Span, run: Interval) -> Interval:
        """Return the word of a run that begins and ends like a span and is likely to translate it."""
        first, end = self._source_words(span)

        def likeness(word: int) -> float:
            text = self.translation[slice(*self.tgt[word])]
            shared = sum(_shared_ends(self.source[span.start : span.end], text))
            return shared / (span.end - span.start) + float(self.weights[word, first:end].sum())

        best = max(range(*run), key=likeness)
        return best, best + 1

    def _source_words(self, span: Span) -> Interval:
        """Return which source words the span touches."""
        if span.start == span.end:
            return 0, 0
        inside = [index for index, (start, end) in enumerate(self.src) if start < span.end and end > span.start]
        return (inside[0], inside[-1] + 1) if inside else (0, 0)

    def _is_text(self, span: Span) -> bool:
        return _has_letters(self.source, (span.start, span.end))

    def _with_its_marks(self, run: Interval, span: Span, taken: npt.NDArray[np.bool_]) -> Interval:
        """Let a run end in as many marks as the span does, and begin with as many, as far as there are such."""
        first, end = self._source_words(span)
        start, stop = run
        n_first = self._n_marks(range(first, end))
        n_last = self._n_marks(range(end - 1, first - 1, -1)) if n_first < end - first else 0
        while not n_first and start + 1 < stop and self.is_mark[start]:
            start += 1
        while not n_last and start + 1 < stop and self.is_mark[stop - 1]:
            stop -= 1
        if self._is_text(span):
            while n_last and self._is_free_mark(stop, taken, _NOT_LAST):
                stop, n_last = stop + 1, n_last - 1
            while n_first and self._is_free_mark(start - 1, taken, _NOT_FIRST):
                start, n_first = start - 1, n_first - 1
        return start, stop

    def _n_marks(self, words: Iterable[int]) -> int:
        """Return how many of these source words, up to the first with letters, are marks."""
        return sum(1 for _ in takewhile(lambda word: not _has_letters(self.source, self.src[word]), words))

    def _is_free_mark(self, word: int, taken: npt.NDArray[np.bool_], others: str) -> bool:
        """Return whether a target word is a mark that no pair has taken, and not one of others."""
        is_free = 0 <= word < len(self.tgt) and self.is_mark[word] and not taken[word]
        return bool(is_free and self.translation[self.tgt[word][0]] not in others)

    def _guess(self, span: Span, taken: npt.NDArray[np.bool_]) -> Interval:
        """Return one free word, none if all are taken: the likeliest, else one without links at the like place."""
        free = np.flatnonzero(~taken & ~self.is_mark) if self._is_text(span) else np.empty(0)
        if not len(free):
            free = np.flatnonzero(~taken)
        if not len(free):
            return 0, 0
        first, end = self._source_words(span)
        inside = self.sums[free, end] - self.sums[free, first]
        like = (first + end) / 2 / len(self.src) * len(self.tgt) - 0.5
        distance = self.sums[free, -1] + abs(free - like) / len(self.tgt)
        word = int(free[inside.argmax() if inside.max() > 0 else distance.argmin()])
        return word, word + 1

    def _boundary(self, span: Span, free: Sequence[int], src: Interval) -> int:
        """Return between which target words a code of no words belongs: before the word of this index.

        Much of the words before it should translate the source words before the code, and much of those after it the
        words after; all the more its neighbours. A code that stands for a line break belongs where the line ends, and
        one before all words, or after all of them, stays there.
        """
        split = sum(start < span.start for start, _ in self.src)
        between_sentences = self.ends.get(split, self.starts.get(split))
        for place in (self._line_end(span), self._edge(split, free, src), between_sentences):
            if place is not None and place in free:
                return place
        before = self.sums[:, split] - self.sums[:, src[0]]
        after = self.sums[:, src[1]] - self.sums[:, split]
        cut = np.concatenate([[0.0], (before - after).cumsum()])

        def score(place: int) -> float:
            total = float(cut[place])
            if place > 0 and split > src[0]:
                total += float(self.weights[place - 1, split - 1])
            if place < len(self.tgt) and split < src[1]:
                total += float(self.weights[place, split])
            return total

        return max(free, key=score)

    def _edge(self, split: int, free: Sequence[int], src: Interval) -> int | None:
        """Return the place of a code with only marks, or nothing, on one side of it; None if words are on both."""
        start, stop = free[0], free[-1]
        if not any(_has_letters(self.source, word) for word in self.src[src[0] : split]):
            n_marks = next((n for n in range(stop - start) if not self.is_mark[start + n]), stop - start)
            return start + min(n_marks, split - src[0])
        if not any(_has_letters(self.source, word) for word in self.src[split : src[1]]):
            n_marks = next((n for n in range(stop - start) if not self.is_mark[stop - 1 - n]), stop - start)
            return stop - min(n_marks, src[1] - split)
        return None

    def _line_end(self, span: Span) -> int | None:
        """Return the first word of the line that a code begins; None if it begins none, or lines were lost."""
        src, tgt = self.line_ends
        if span.codes[0].text != "\n" or len(src) != len(tgt):
            return None
        return sum(start < tgt[bisect_left(src, span.start)] for start, _ in self.tgt)

    def _pair(self, span: Span, order: int, run: Interval) -> _Item:
        characters = self.tgt[run[0]][0], self.tgt[run[1] - 1][1]
        if span.inside and self.translation[slice(*characters)] == self.source[span.start : span.end]:
            return _Item(*characters, order, self._as_it_was(span))
        if span.codes is _WORD:
            return _Item(*characters, order, self._inside_word(span, characters))
        inside = self.render(span.inside, run, self._source_words(span), characters)
        return _Item(*characters, order, span.codes[0].markup + inside + span.codes[-1].markup)

    def _as_it_was(self, span: Span) -> str:
        """Return the text of a span, which is the same in the translation, with all codes in their places."""
        parts, at = [span.codes[0].markup], span.start
        for inner in span.inside:
            parts += [self.write(self.source[at : inner.start]), self._as_it_was(inner)]
            at = inner.end + (len(inner.codes[0].text) if len(inner.codes) == 1 else 0)
        if len(span.codes) == 1:
            return parts[0]
        return "".join([*parts, self.write(self.source[at : span.end]), span.codes[-1].markup])

    def _inside_word(self, word: Span, characters: Interval) -> str:
        """Return these characters of the translation with the codes of a source word.

        A code stays behind, or before, the letters that both words begin, or end, with. A pair whose place they do not
        show is around the whole word, but around one letter if that is the first, and around nothing if it is SHIFTED.
        """
        n_first, n_last = _shared_ends(self.source[word.start : word.end], self.translation[slice(*characters)])
        n_last *= n_last > 1 or n_first + n_last == word.end - word.start  # the plurals of dog and cão have one letter

        def place(index: int) -> int | None:
            if index - word.start <= n_first:
                return characters[0] + index - word.start
            return characters[1] - (word.end - index) if word.end - index <= n_last else None

        def render(spans: Sequence[Span], at: int, stop: int) -> str:
            text = ""
            for span in spans:
                start, end = place(span.start), place(span.end)
                if end is None and (span.start, span.end) == (word.start, word.start + 1):
                    end = characters[0] + 1
                if span.start == span.end:
                    start = end = stop if start is None else start
                elif start is None or end is None or start >= end:
                    is_shifted = span.codes[0].name in SHIFTED
                    self.n_guessed += is_shifted and (start is None or end is None)
                    start, end = stop if is_shifted else at, stop
                start = min(max(at, start), stop)
                end = min(max(start, end), stop)
                inside = render(span.inside, start, end)
                ending = span.codes[-1].markup if len(span.codes) > 1 else ""
                text += self.write(self.translation[at:start]) + span.codes[0].markup + inside + ending
                at = end
            return text + self.write(self.translation[at:stop])

        return render(word.inside, *characters)

    def _single(self, span: Span, order: int, place: int, characters: Interval) -> _Item:
        """Return codes without words, with the white space that they have in the source."""
        markup = "".join(code.markup for code in span.all_codes())
        if span.codes[0].is_text:
            return self._text(span, order, place, characters, markup)
        stands_for = span.codes[0].text if len(span.codes) == 1 else ""
        left, right = self.source[: span.start], self.source[span.start + len(stands_for) :]
        before, after = left[-1:].isspace(), right[:1].isspace()
        space = " " if len(span.codes) == 1 else ""
        at_start = place == 0 or self.tgt[place - 1][1] <= characters[0]
        at_end = place == len(self.tgt) or self.tgt[place][0] >= characters[1]
        if at_start:
            where = characters[0]
            return _Item(where, where, order, markup + space * (after and where < characters[1]))
        if at_end:
            where = characters[1]
            return _Item(where, where, order, space * (before and where > characters[0]) + markup)
        end, start = self.tgt[place - 1][1], self.tgt[place][0]
        if stands_for and not after:
            return _Item(end, start, order, space * before + markup)
        if before and not after:
            return _Item(start, start, order, space * (start == end) + markup)
        if before and start - end > 1:  # both of its spaces are there
            return _Item(end + 1, end + 1, order, markup)
        return _Item(end, end, order, space * before + markup)

    def _text(self, span: Span, order: int, place: int, characters: Interval, text: str) -> _Item:
        """Return text that stands between words, divided from them unless the source has it at one."""
        left, right = self.source[: span.start][-1:], self.source[span.start : span.start + 1]
        end = max(characters[0], self.tgt[place - 1][1]) if place else characters[0]
        start = min(characters[1], self.tgt[place][0]) if place < len(self.tgt) else characters[1]
        where = start if not left.strip() and right.strip() else end
        before, after = self.translation[characters[0] : where][-1:], self.translation[where : characters[1]][:1]
        space_before, space_after = _divides(left, before, _ATTACHED_BEFORE), _divides(right, after, _ATTACHED_AFTER)
        return _Item(where, where, order, " " * space_before + text + " " * space_after)


def is_between_words(text: str, span: Span) -> bool:
    """Return whether a text has words before and after a span; if not, its place needs no alignment."""
    return _has_letters(text, (0, span.start)) and _has_letters(text, (span.end, len(text)))


def _divides(src: str, tgt: str, attached: str) -> bool:
    """Return whether a space belongs between kept text and its new neighbour.

    src, tgt: the neighbouring characters in source and translation, "" at an end. attached: marks that take no space.
    """
    if not tgt.strip() or STANDS_ALONE.match(tgt):
        return False
    if tgt.isalnum():
        return not src.isalnum() or bool(STANDS_ALONE.match(src))
    return not src.strip() and tgt not in attached


def _shared_ends(src: str, tgt: str) -> tuple[int, int]:
    """Return with how many same characters, in either case, two words begin, and with how many others they end."""
    n = min(len(src), len(tgt))
    first = next((i for i in range(n) if src[i].lower() != tgt[i].lower()), n)
    return first, next((i for i in range(n - first) if src[-1 - i].lower() != tgt[-1 - i].lower()), n - first)


def _mutual(weights: Floats) -> Floats:
    """Return weights (target, source) that are large where two words correspond to each other and to few other words.

    A target word's weight for a source word counts less if other target words have weight for that source word, too.
    """
    shares = weights / np.maximum(weights.sum(axis=0, keepdims=True), 1e-6)
    return np.asarray(weights * shares**2)


def _has_letters(text: str, word: Interval) -> bool:
    return any(character.isalnum() for character in text[word[0] : word[1]])


def _best_run(gains: Floats, taken: npt.NDArray[np.bool_]) -> tuple[float, Interval]:
    """Return the largest sum of neighbouring gains that are not taken, and where they stand (Bentley 1984)."""
    best, where = 0.0, (0, 0)
    total, start = 0.0, 0
    for index, (gain, is_taken) in enumerate(zip(gains.tolist(), taken.tolist(), strict=True)):
        if is_taken or total <= 0:
            total, start = 0.0, index
        if is_taken:
            start = index + 1
            continue
        total += gain
        if total > best:
            best, where = total, (start, index + 1)
    return best, where

"""Score how likely lines of two texts translate each other: by a lexicon, by words spelled alike, by lengths."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mtkit.corpora.alignment.lengths import Lengths
from mtkit.corpora.alignment.words import Floats, Ints, Side, Vocabulary, ranges
from mtkit.engines.lexicon import Lexicon

BLOCK_LINES = 64  # consecutive source lines that are scored at once, with a lexicon learnt from other lines
_BY_CHANCE = 0.3  # of a sentence's words: those that the other side does not explain
_SPELLED_ALIKE = 0.3  # of the words without an entry in the lexicon: those that are spelled alike on the other side
_SYMBOLS_ALIKE = 0.8  # the same for numbers and punctuation
_LEAST_PROB = 0.005  # of an entry of the lexicon that is kept
LOWEST = -10.0  # nats of one line with one: a single free translation must not look like a slip
_NONE = np.float32(-np.inf)


@dataclass(frozen=True)
class Table:
    """t(other word | word), rows by word id; trust is what the rows are worth, from 0 (nothing known) to 1."""

    starts: Ints  # (words + 1,)
    others: Ints
    probs: Floats
    trust: Floats  # (words,)

    @classmethod
    def empty(cls, n_words: int) -> "Table":
        """Return a table without any knowledge of the languages."""
        zeros = np.zeros(n_words, np.float32)
        return cls(np.zeros(n_words + 1, np.int64), np.zeros(0, np.int64), zeros[:0], zeros)

    @classmethod
    def from_lexicon(cls, lexicon: Lexicon, counts: Ints) -> "Table":
        """Return the likely entries. counts: how often the lexicon's text has each word."""
        likely = lexicon.probs >= _LEAST_PROB
        owners = lexicon.src_ids[likely]
        starts = np.searchsorted(owners, np.arange(len(counts) + 1))
        trust = counts / (counts + 1.0)
        return cls(starts, lexicon.tgt_ids[likely], lexicon.probs[likely].astype(np.float32), trust.astype(np.float32))


@dataclass(frozen=True)
class Tables:
    """Lexicons of both directions, learned from other lines than those they score."""

    forward: Table
    backward: Table


@dataclass(frozen=True)
class Block:
    """Scores of pairing source lines (rows) with target lines (columns), in nats; above 0: rather a translation.

    one_one[i, j] pairs one line each; in two_one the source line before joins, in one_two the target line before, in
    two_two both; their first row or column has none. A blank line keeps the place of a missing one: 0.
    """

    one_one: Floats
    two_one: Floats
    one_two: Floats
    two_two: Floats


class Likeness:
    """Scores of any lines of two texts; a line's lexicon is learned without it, so that no pair proves itself."""

    def __init__(
        self,
        src: Side,
        tgt: Side,
        vocabulary: Vocabulary,
        folds: Sequence[Tables] | None = None,
        swapped: tuple[Ints, Ints] | None = None,
        lowest: float = LOWEST,
    ) -> None:
        """swapped: 1 at lines that are in the other text's language; lowest: the lowest score of one line with one."""
        n = len(vocabulary)
        self.src, self.tgt, self.vocabulary = src, tgt, vocabulary
        self.lengths = Lengths.from_totals(int(src.n_chars.sum()), int(tgt.n_chars.sum()))
        self.folds = folds or [Tables(Table.empty(n), Table.empty(n))]
        self.swapped, self.lowest = swapped, lowest
        keys, alike = vocabulary.keys, np.where(vocabulary.is_symbol, _SYMBOLS_ALIKE, _SPELLED_ALIKE)
        self._keys, self._alike = keys, np.where(keys < 0, 0, alike).astype(np.float32)
        self._frequency = [_frequency(side, n) for side in (src, tgt)]
        self._column = np.full(n, -1, np.int64)  # scratch: of a word in the block at hand

    def block(self, rows: range, cols: range) -> Block:
        """Return the scores of these source and target lines."""
        src, tgt = _Counts(self.src, rows), _Counts(self.tgt, cols)
        tables = self.folds[rows[-1] // BLOCK_LINES % len(self.folds)]
        scores = self._scores(src, tgt, tables)
        if self.swapped is not None:
            scores = self._with_swapped(scores, rows, cols, tables)
        forward, forward_merged, backward, backward_merged = scores
        a, b = src.n_chars[:, None], tgt.n_chars[None, :]
        a2, b2 = a + _shifted(src.n_chars)[:, None], b + _shifted(tgt.n_chars)[None, :]
        cost = self.lengths.cost
        one_one = np.maximum((forward + backward) / 2 - cost(a, b), self.lowest)
        one_one[(a == 0) | (b == 0)] = 0.0
        two_one = (forward_merged + _once(backward, _down(backward))) / 2 - cost(a2, b)
        one_two = (backward_merged + _once(forward, _right(forward))) / 2 - cost(a, b2)
        two_two = (forward_merged + _right(forward_merged) + backward_merged + _down(backward_merged)) / 2 - cost(
            a2, b2
        )
        two_one[0], one_two[:, 0], two_two[0], two_two[:, 0] = _NONE, _NONE, _NONE, _NONE
        return Block(*(np.asarray(s, np.float32) for s in (one_one, two_one, one_two, two_two)))

    def _scores(self, src: "_Counts", tgt: "_Counts", tables: Tables) -> list[Floats]:
        """Return log P(target | source) / P(target), the same of a source line joined to the one before, and reverse.

        All are (source lines, target lines).
        """
        forward = self._explained(src, tgt, tables.forward, self._frequency[1])
        backward = self._explained(tgt, src, tables.backward, self._frequency[0])
        return [*forward, *(scores.T for scores in backward)]

    def _explained(self, src: "_Counts", tgt: "_Counts", table: Table, frequency: Floats) -> list[Floats]:
        """Return log P(other line | line) / P(other line), by IBM model 1 smoothed with chance.

        The second result is of lines joined to the one before. frequency: of the words of the other text.
        """
        sums = src.counts @ self._ratios(src.words, tgt.words, table, frequency)
        sizes = src.counts.sum(axis=1, keepdims=True)
        results = []
        for total, n_words in ((sums, sizes), (sums + _down(sums), sizes + _down(sizes))):
            total = total * ((1 - _BY_CHANCE) / (n_words + 1))  # and the empty word
            results.append(np.log(total + np.float32(_BY_CHANCE)) @ tgt.counts.T)
        return results

    def _ratios(self, words: Ints, others: Ints, table: Table, frequency: Floats) -> Floats:
        """Return t(other | word) / u(other), (words, others), u being how frequent the other is.

        t is the table's, as far as that is trusted; for the rest, words spelled alike have a share of it.
        """
        trust, alike, u = table.trust[words], self._alike[words], frequency[others]
        ratios = np.repeat(((1 - trust) * (1 - alike))[:, None], len(others), axis=1)
        column = self._column
        column[others] = np.arange(len(others))
        starts, sizes = table.starts[words], table.starts[words + 1] - table.starts[words]
        entries, rows = ranges(starts, sizes), np.repeat(np.arange(len(words)), sizes)
        columns = column[table.others[entries]]
        here = columns >= 0
        rows, columns, entries = rows[here], columns[here], entries[here]
        ratios[rows, columns] += trust[rows] * table.probs[entries] / u[columns]
        column[others] = -1

        order = np.argsort(self._keys[others])
        keys, other_keys = self._keys[words], self._keys[others][order]
        first = np.searchsorted(other_keys, keys)
        n_same = np.where(alike > 0, np.searchsorted(other_keys, keys, side="right") - first, 0)
        rows, columns = np.repeat(np.arange(len(words)), n_same), order[ranges(first, n_same)]
        ratios[rows, columns] += ((1 - trust) * alike)[rows] / u[columns]
        return np.asarray(ratios)

    def _with_swapped(self, scores: list[Floats], rows: range, cols: range, tables: Tables) -> list[Floats]:
        """Score the lines that are in the other text's language in the opposite direction."""
        assert self.swapped is not None
        i, j = (
            np.flatnonzero(flags[lines.start : lines.stop])
            for flags, lines in zip(self.swapped, (rows, cols), strict=True)
        )
        if len(i) and len(j):
            backward, backward_merged, forward, forward_merged = self._scores(
                _Counts(self.tgt, cols), _Counts(self.src, rows), tables
            )
            place = np.ix_(i, j)
            for score, turned in zip(scores, (forward, forward_merged, backward, backward_merged), strict=True):
                score[place] = turned.T[place]
        return scores


class Mixture:
    """Scores of lines of two texts by one likeness, or by several that see the source in different ways.

    They form a mixture of models with equal weights: a pair that one of them accepts as a
    translation is one, whatever a worse one says.
    """

    def __init__(self, parts: Sequence[Likeness]) -> None:
        """parts: of the same number of lines; the first one's source is the text itself."""
        self.parts = parts
        self.src, self.tgt = parts[0].src, parts[0].tgt

    def block(self, rows: range, cols: range) -> Block:
        """Return the scores of these source and target lines."""
        blocks = [part.block(rows, cols) for part in self.parts]
        moves = zip(*((b.one_one, b.two_one, b.one_two, b.two_two) for b in blocks), strict=True)
        return Block(*(np.logaddexp.reduce(scores) - np.float32(np.log(len(blocks))) for scores in moves))


class _Counts:
    """Counts of each word of a stretch in each of its lines."""

    def __init__(self, side: Side, lines: range) -> None:
        self.n_chars = side.n_chars[lines.start : lines.stop]
        starts = side.starts[lines.start : lines.stop + 1]
        words, columns = np.unique(side.ids[starts[0] : starts[-1]], return_inverse=True)
        self.words = words.astype(np.int64)
        owners = np.repeat(np.arange(len(lines)), np.diff(starts))
        counts = np.bincount(owners * len(words) + columns.reshape(-1), minlength=len(lines) * len(words))
        self.counts: Floats = counts.reshape(len(lines), len(words)).astype(np.float32)


def _frequency(side: Side, n_words: int) -> Floats:
    counts = np.bincount(side.ids, minlength=n_words) + 0.5
    return np.asarray((counts / counts.sum()).astype(np.float32))


def _once(one: Floats, other: Floats) -> Floats:
    """Return the evidence of two lines together for a third, without counting twice what both share.

    So a line that repeats its neighbour gains nothing from being joined to it.
    """
    return np.asarray(np.maximum(one, other) + np.minimum(0, np.minimum(one, other)))


def _shifted(values: Ints) -> Ints:
    return np.concatenate([[0], values[:-1]])


def _down(matrix: Floats) -> Floats:
    return np.concatenate([np.zeros_like(matrix[:1]), matrix[:-1]])


def _right(matrix: Floats) -> Floats:
    return np.concatenate([np.zeros_like(matrix[:, :1]), matrix[:, :-1]], axis=1)

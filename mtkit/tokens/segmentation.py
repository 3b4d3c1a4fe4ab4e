"""Draw random segmentations into subwords for many stretches of text at once.

SentencePiece can sample, too, but with other random numbers in every process, whatever the seed.
"""

import itertools
import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mtkit.tokens.sentencepiece_file import Piece, PieceType

Int64s = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]

# Kept between calls: nodes of a lattice (about 80 bytes each), segmentations of the merge graph (about 400).
_MOST_NODES, _MOST_SEGMENTATIONS = 2_000_000, 400_000
_CHANCES = 2.0**30  # probabilities are multiples of its inverse, so that a node's index plus a probability is exact
_GOLDEN_GAMMA = np.uint64(0x9E3779B97F4A7C15)  # this and _mix: SplitMix64 (Steele, Lea and Flood 2014, figure 16)


def _mix(z: Keys) -> Keys:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def derived_keys(keys: Keys, numbers: npt.NDArray[Any]) -> Keys:
    """Return element `numbers` (from 0) of the random sequence that each key starts."""
    return _mix(keys + (numbers.astype(np.uint64) + np.uint64(1)) * _GOLDEN_GAMMA)


def uniform(keys: Keys, step: int) -> npt.NDArray[np.float64]:
    """Return a number in [0, 1) for each key, different at each step."""
    return (derived_keys(keys, np.full(1, step)) >> np.uint64(11)).astype(np.float64) * 2.0**-53


class Segmentation(Protocol):
    """The ways to segment a stretch of text, and their probabilities."""

    def sample(self, stretches: Sequence[tuple[int, ...]], indices: Int64s, keys: Keys) -> tuple[Int64s, Int64s]:
        """Return new ids for stretches[indices[0]], stretches[indices[1]], ..., end to end, and the length of each.

        stretches: each as the tokenizer's ids. keys (N,): the draws depend on nothing else.
        """


class UnigramSegmentation:
    """Segmentations by their probability under the unigram model, raised to alpha (Kudo 2018, section 3.2).

    Draws are exact, from left to right: the chance of a piece is its weight times that of all ways to continue.
    """

    def __init__(self, pieces: Sequence[Piece], alpha: float) -> None:
        self._pieces = pieces
        self._log_weights = {text: (i, alpha * pieces[i].score) for text, i in normal_pieces(pieces).items()}
        self._longest = max(map(len, self._log_weights), default=0)
        self._forget()

    def _forget(self) -> None:
        self._starts: dict[tuple[int, ...], int] = {}  # the first node of a stretch; node 0 is the last of all
        self._n_nodes = 1
        self._cumulated = array("d")  # node + summed probability of its edges up to this one
        self._targets = array("q")
        self._ids = array("q")

    def sample(self, stretches: Sequence[tuple[int, ...]], indices: Int64s, keys: Keys) -> tuple[Int64s, Int64s]:
        """See Segmentation."""
        if self._n_nodes > _MOST_NODES:
            self._forget()
        starts = np.array([self._start(stretch) for stretch in stretches], dtype=np.int64)
        cumulated = np.frombuffer(self._cumulated)
        targets, ids = np.frombuffer(self._targets, np.int64), np.frombuffer(self._ids, np.int64)
        nodes, walkers = starts[indices], np.arange(len(indices))
        step_walkers, step_ids = [], []  # of each step: the stretches that go on, and their next pieces
        for step in itertools.count():
            chances = np.floor(uniform(keys[walkers], step) * _CHANCES) / _CHANCES
            edges = np.searchsorted(cumulated, nodes + chances, side="right")
            step_walkers.append(walkers)
            step_ids.append(ids[edges])
            nodes = targets[edges]
            walkers, nodes = walkers[nodes > 0], nodes[nodes > 0]
            if not len(walkers):
                break
        order = np.argsort(np.concatenate(step_walkers), kind="stable")
        return np.concatenate(step_ids)[order], np.bincount(np.concatenate(step_walkers), minlength=len(indices))

    def _start(self, stretch: tuple[int, ...]) -> int:
        node = self._starts.get(stretch)
        if node is None:
            node = self._starts[stretch] = self._add_lattice(stretch)
        return node

    def _add_lattice(self, stretch: tuple[int, ...]) -> int:
        """Add nodes and edges for all segmentations of the stretch, from its end; return its first node."""
        if len(stretch) == 1 and self._pieces[stretch[0]].type is not PieceType.NORMAL:
            return self._add_node([(stretch[0], 0, 1.0)])
        text = "".join(self._pieces[i].text for i in stretch)
        nodes, totals = (
            [-1] * len(text) + [0],
            [-math.inf] * len(text) + [0.0],
        )  # totals: log of the summed weights from here to the end
        for begin in reversed(range(len(text))):
            edges = []
            for end in range(begin + 1, min(len(text), begin + self._longest) + 1):
                entry = self._log_weights.get(text[begin:end])
                if entry and totals[end] > -math.inf:
                    edges.append((entry[0], nodes[end], entry[1] + totals[end]))
            if edges:
                highest = max(weight for _, _, weight in edges)
                edges = [(i, target, math.exp(weight - highest)) for i, target, weight in edges]
                nodes[begin] = self._add_node(edges)
                totals[begin] = highest + math.log(sum(weight for _, _, weight in edges))
        return nodes[0]

    def _add_node(self, edges: Sequence[tuple[int, int, float]]) -> int:
        """Add a node with these edges (piece, target, weight); return it."""
        node = self._n_nodes
        *sums, total = itertools.accumulate(weight for _, _, weight in edges)
        self._cumulated.extend(node + round(weight / total * _CHANCES) / _CHANCES for weight in (*sums, total))
        self._ids.extend(edge[0] for edge in edges)
        self._targets.extend(edge[1] for edge in edges)
        self._n_nodes += 1
        return node


class BpeSegmentation:
    """Segmentations by BPE-dropout (Provilkov et al. 2020, algorithm 1).

    Starting from single characters, each step drops every possible merge with probability `dropout` and makes the best
    of the rest, until none is left. The merge made is then the n-th best with probability dropout^(n-1) (1 - dropout),
    which takes one random number.
    """

    def __init__(self, pieces: Sequence[Piece], dropout: float) -> None:
        self._pieces = pieces
        self._dropout = dropout
        self._normal = normal_pieces(pieces)
        self._merges = _merges(self._normal, pieces)
        self._forget()

    def _forget(self) -> None:
        self._indices: dict[tuple[int, ...], int] = {}  # of the segmentations seen so far
        self._segmentations: list[tuple[int, ...]] = []
        # Possible merges, grouped by segmentation, the best first.
        self._merge_starts = array("q", [0])
        self._places = array("q")  # of the left piece in the segmentation
        self._results = array("q")  # the merged piece
        self._targets = array("q")  # the new segmentation; -1 until first visited

    def sample(self, stretches: Sequence[tuple[int, ...]], indices: Int64s, keys: Keys) -> tuple[Int64s, Int64s]:
        """See Segmentation."""
        if len(self._segmentations) > _MOST_SEGMENTATIONS:
            self._forget()
        starts = [self._index(self._characters(stretch)) for stretch in stretches]
        at = np.array(starts, dtype=np.int64)[indices]
        walkers = np.arange(len(indices))
        for step in itertools.count():
            n_dropped = np.log1p(-uniform(keys[walkers], step)) / math.log(self._dropout)
            merge_starts = np.frombuffer(self._merge_starts, np.int64)
            merges = merge_starts[at[walkers]] + np.minimum(n_dropped, len(self._places)).astype(np.int64)
            goes_on = merges < merge_starts[at[walkers] + 1]
            del merge_starts  # an array.array cannot grow while numpy holds its buffer
            walkers, merges = walkers[goes_on], merges[goes_on]
            if not len(walkers):
                break
            at[walkers] = self._follow(merges)
        segmentations = [self._segmentations[i] for i in at.tolist()]
        lengths = np.fromiter(map(len, segmentations), np.int64, len(segmentations))
        return np.fromiter(itertools.chain.from_iterable(segmentations), np.int64, int(lengths.sum())), lengths

    def _follow(self, merges: Int64s) -> Int64s:
        """Return the segmentations that these merges produce."""
        targets = np.frombuffer(self._targets, np.int64)[merges]
        unvisited = np.unique(merges[targets < 0])
        origins = np.searchsorted(np.frombuffer(self._merge_starts, np.int64), unvisited, side="right") - 1
        for merge, origin in zip(unvisited.tolist(), origins.tolist(), strict=True):
            ids, place = self._segmentations[origin], self._places[merge]
            self._targets[merge] = self._index((*ids[:place], self._results[merge], *ids[place + 2 :]))
        return np.frombuffer(self._targets, np.int64)[merges]

    def _index(self, ids: tuple[int, ...]) -> int:
        index = self._indices.get(ids)
        if index is None:
            index = self._indices[ids] = len(self._segmentations)
            self._segmentations.append(ids)
            possible = []
            for place, pair in enumerate(itertools.pairwise(ids)):
                if merge := self._merges.get(pair):
                    possible.append((merge[0], place, merge[1]))
            possible.sort()  # at equal rank, the leftmost first
            self._places.extend(place for _, place, _ in possible)
            self._results.extend(result for _, _, result in possible)
            self._targets.extend(-1 for _ in possible)
            self._merge_starts.append(len(self._targets))
        return index

    def _characters(self, stretch: tuple[int, ...]) -> tuple[int, ...]:
        """Split the stretch into single characters, or return it unchanged if one of them has no piece."""
        if len(stretch) == 1 and self._pieces[stretch[0]].type is not PieceType.NORMAL:
            return stretch
        characters = [self._normal.get(character) for i in stretch for character in self._pieces[i].text]
        return stretch if None in characters else tuple(i for i in characters if i is not None)


def normal_pieces(pieces: Sequence[Piece]) -> dict[str, int]:
    """Return the ids of the pieces that spell text: without special pieces, bytes and tags."""
    return {piece.text: i for i, piece in enumerate(pieces) if piece.type is PieceType.NORMAL}


def _merges(normal: Mapping[str, int], pieces: Sequence[Piece]) -> dict[tuple[int, int], tuple[float, int]]:
    """Map two pieces that merge into a third to the rank of the merge (the lowest first) and the third piece."""
    merges = {}
    for text, i in normal.items():
        for middle in range(1, len(text)):
            left, right = normal.get(text[:middle]), normal.get(text[middle:])
            if left is not None and right is not None:
                merges[left, right] = (-pieces[i].score, i)
    return merges

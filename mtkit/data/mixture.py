"""Draw the pairs of an epoch from the corpora of a run, by their sizes, weights and scores and a temperature."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mtkit.config.data import DataConfig, TrainCorpus
from mtkit.config.stages import Stage
from mtkit.console import counted
from mtkit.data.corpus import checksum, corpus_name, count_pairs, require_files
from mtkit.data.encoded import EncodedCorpus, Lengths
from mtkit.errors import DataError
from mtkit.pair_files.lines import read_scores, require_regular

Scores = npt.NDArray[np.float64]
Eligible = npt.NDArray[np.bool_]
PairIndices = npt.NDArray[np.int32]

# Last numbers of the seeds of the generators here. A batch plan has a seed of the same length that ends in 0.
_TURNS, _ORDER = 1, 2


@dataclass(frozen=True)
class Mixture:
    """The pairs that an epoch draws from the corpora in one stage; the lists have an entry for each corpus."""

    begin: float  # share of the run from which it applies
    end: float
    sizes: list[int]  # pairs that take part
    passes: list[float]  # over these pairs in an epoch
    eligible: list[Eligible | None]  # (N,) of the corpus' pairs, whether they take part; None: all

    @property
    def n_pairs(self) -> float:
        """The number of pairs in an epoch, including repetitions."""
        return sum(size * passes for size, passes in zip(self.sizes, self.passes, strict=True))


def uniform(sizes: Sequence[int], weights: Sequence[float] | None = None) -> Mixture:
    """Return the mixture of a run without stages: all pairs, by weight (default: 1)."""
    return Mixture(0.0, 1.0, list(sizes), list(weights or [1.0] * len(sizes)), [None] * len(sizes))


def passes_of(sizes: Sequence[int], weights: Sequence[float], temperature: float) -> list[float]:
    """Return how often an epoch uses each pair of each corpus, so that weight x size^(1/temperature) sets its share.

    An epoch has as many pairs as with temperature 1, which gives the weights themselves (Arivazhagan et al. 2019,
    section 4.2, with p for each corpus multiplied by its weight).
    """
    if temperature == 1:
        return list(weights)
    parts = [weight * size ** (1 / temperature) for size, weight in zip(sizes, weights, strict=True)]
    n_pairs = sum(weight * size for size, weight in zip(sizes, weights, strict=True))
    return [part / sum(parts) * n_pairs / size if size else 0.0 for part, size in zip(parts, sizes, strict=True)]


def mixtures_of(data: DataConfig, corpus: EncodedCorpus) -> list[Mixture]:
    """Return the mixture of each stage of a run; corpus: data.train, encoded.

    Raises DataError if a corpus' scores cannot be read or do not fit its text, or leave it without pairs in a stage.
    """
    scores = [_scores_of(files, corpus, i) for i, files in enumerate(data.train)]
    masks: dict[tuple[int, float], Eligible] = {}  # by corpus and lowest score: stages share them
    mixtures = []
    for stage in data.stages:
        eligible: list[Eligible | None] = []
        for i, (of_corpus, lowest) in enumerate(zip(scores, stage.min_scores, strict=True)):
            if of_corpus is None or lowest is None:
                eligible.append(None)
                continue
            if (i, lowest) not in masks:
                masks[i, lowest] = of_corpus >= lowest
            eligible.append(masks[i, lowest])
            if stage.weights[i] and not masks[i, lowest].any():
                raise _nothing_left(data.train[i], f"data.train.{i}", of_corpus, lowest, stage)
        sizes = [n if mask is None else int(mask.sum()) for n, mask in zip(corpus.sizes, eligible, strict=True)]
        passes = passes_of(sizes, stage.weights, data.temperature)
        mixtures.append(Mixture(stage.begin, stage.end, sizes, passes, eligible))
    return mixtures


def _scores_of(files: TrainCorpus, corpus: EncodedCorpus, i: int) -> Scores | None:
    """Return the score of each encoded pair of corpus i; None if the corpus has no min_score."""
    if files.scores is None or files.min_score is None:
        return None
    scores = _read_scores(files, files.scores, i)
    return np.asarray(scores[corpus.lines_of(i) - 1])


def _read_scores(files: TrainCorpus, path: Path, i: int) -> Scores:
    """Return the score of each line of corpus i."""
    scores = np.fromiter(read_scores(path), np.float64)
    if len(scores) != (n_lines := count_pairs([files])):
        raise DataError(
            f"{path}: {len(scores):,} lines for {n_lines:,} pairs of {corpus_name(files)}; data.train.{i}.scores "
            "must have one line for each pair"
        )
    return scores


def _nothing_left(files: TrainCorpus, key: str, scores: Scores, lowest: float, stage: Stage) -> DataError:
    at_most = f"between {scores.min():g} and {scores.max():g}, half of them above {np.median(scores):g}"
    return DataError(
        f"{files.scores}: no pair of {corpus_name(files)} has the {key}.min_score={lowest:g} of {stage}: its scores "
        f"are {at_most if len(scores) else 'none'}; lower min_score, or set the weight to 0 there"
    )


@dataclass(frozen=True)
class Draw:
    """The pairs that an epoch draws from one corpus in one stage."""

    n_pairs: int  # that take part
    passes: float  # over them
    tokens_per_pair: float  # of the longer side, its end included: what a batch counts


def draws_of(mixture: Mixture, corpus: EncodedCorpus) -> list[Draw]:
    """Return how much an epoch of the mixture draws from each corpus."""
    lengths = np.maximum(corpus.src_lengths, corpus.tgt_lengths) + 1
    parts = np.split(lengths, np.cumsum(corpus.sizes)[:-1])
    corpus.release()
    return [
        Draw(size, passes, _mean(part if eligible is None else part[eligible]))
        for size, passes, eligible, part in zip(mixture.sizes, mixture.passes, mixture.eligible, parts, strict=True)
    ]


def _mean(lengths: Lengths) -> float:
    return float(lengths.mean()) if len(lengths) else 0.0


@dataclass(frozen=True)
class CorpusUse:
    """The share of one corpus in a run."""

    name: str
    n_pairs: int  # that take part in any stage
    batch_share: float  # of the tokens of all batches
    passes: float  # over these pairs; with scores the mean: pairs with a high score may come more often

    def described(self, one: str) -> str:
        """Describe the use in words. one: the word for a row of the corpus."""
        if not self.passes:
            return f"{self.name}: not used"
        rows, times = counted(self.n_pairs, one), f"{self.passes:.1f} passes"
        return f"{self.name}: {rows}, {self.batch_share:.1%} of the batches, {times}"


def uses(names: Sequence[str], stages: Sequence[Sequence[Draw]], epochs: Sequence[float]) -> list[CorpusUse]:
    """Return how much a run with this many epochs of each stage draws from each corpus. names: of the corpora."""
    drawn = []  # of each corpus: pairs that take part, pairs used, tokens used
    for of_corpus in zip(*stages, strict=True):
        used = [n_epochs * draw.passes * draw.n_pairs for draw, n_epochs in zip(of_corpus, epochs, strict=True)]
        n_pairs = max((draw.n_pairs for draw, n in zip(of_corpus, used, strict=True) if n), default=0)
        drawn.append(
            (n_pairs, sum(used), sum(n * draw.tokens_per_pair for draw, n in zip(of_corpus, used, strict=True)))
        )
    all_tokens = sum(n_tokens for *_, n_tokens in drawn) or 1.0
    return [
        CorpusUse(name, n_pairs, n_tokens / all_tokens, used / n_pairs if n_pairs else 0.0)
        for name, (n_pairs, used, n_tokens) in zip(names, drawn, strict=True)
    ]


def require_scores(data: DataConfig) -> None:
    """Raise DataError if a file of scores is missing, a pipe, or does not fit its text; before hours of other work."""
    for i, files in enumerate(data.train):
        if files.scores is not None:
            if not files.scores.exists():
                raise DataError(f"{files.scores}: no such file, though the config names it as data.train.{i}.scores")
            require_regular(files.scores)
            if files.min_score is not None:
                require_files(f"data.train.{i}", [files])
                _read_scores(files, files.scores, i)


def scores_fingerprint(data: DataConfig) -> str:
    """Return a checksum of the scores that select the pairs; "" without scores."""
    files = [files.scores if files.min_score is not None else None for files in data.train]
    if not any(files):
        return ""
    checksums = [path and checksum(path) for path in files]
    return hashlib.sha256(json.dumps(checksums).encode()).hexdigest()


def epoch_pairs(mixture: Mixture, *, seed: int, epoch: int) -> PairIndices:
    """Return the indices of an epoch's pairs, ascending; a pair that occurs several times is repeated.

    Each selected pair of a corpus occurs floor(passes) times; the fraction is the share of the pairs that occur once
    more. They take turns: after any number of epochs of a mixture, the counts of two selected pairs of a corpus differ
    by at most 1.
    """
    parts, first = [], 0
    for corpus, (size, passes, eligible) in enumerate(
        zip(mixture.sizes, mixture.passes, mixture.eligible, strict=True)
    ):
        if eligible is None:
            indices = np.arange(first, first + size, dtype=np.int32)
        else:
            indices = (first + np.flatnonzero(eligible)).astype(np.int32)
        times = int(passes)
        # Turns taken before and after this epoch. Rounding the sums, not each epoch's share, loses nothing over time.
        begin, end = (round(size * (passes - times) * n_epochs) for n_epochs in (epoch, epoch + 1))
        if end > begin:
            order = np.arange(size, dtype=np.int32)
            np.random.default_rng([seed, corpus, 0, _TURNS]).shuffle(order)
            counts = np.full(size, times, dtype=np.int32)
            counts[order[np.arange(begin, end) % size]] += 1
            indices = np.repeat(indices, counts)
        elif times != 1:
            indices = np.repeat(indices, times)
        parts.append(indices)
        first += size if eligible is None else len(eligible)
    return np.concatenate(parts)


def cut_into_windows(pairs: PairIndices, window_pairs: int, *, seed: int, epoch: int) -> list[PairIndices]:
    """Shuffle pairs (N,) and cut them into equal windows of at most window_pairs; a single window keeps its order."""
    n_windows = -(-len(pairs) // window_pairs)
    if n_windows < 2:
        return [pairs] * n_windows
    shuffled = pairs.copy()
    np.random.default_rng([seed, epoch, 0, _ORDER]).shuffle(shuffled)
    return np.array_split(shuffled, n_windows)

"""Minimum-Bayes-risk decoding: choose, among sampled translations, the one most similar to all of them.

The model's most likely translation can be an outlier; the one that agrees best with its samples is not (Eikema and
Aziz 2020). Similarity is sentence-level chrF2 (Popović 2015), exactly as sacreBLEU computes it, or any other utility.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.translation.candidates import Candidate

Utility = Callable[[str, Sequence[str]], Sequence[float]]  # source and draws to a number for each draw; highest wins
_ORDER = 6  # n-grams of 1 to 6 characters
_BETA = 2.0  # recall weighs this many times as much as precision


def expected_chrf(candidates: Sequence[str]) -> NDArray[np.float64]:
    """Return each candidate's mean chrF2 (0 to 100) with every candidate, itself included, as the reference.

    Each candidate is one draw: a text that was drawn twice weighs twice.
    """
    weights: dict[str, int] = {}
    for candidate in candidates:
        weights[candidate] = weights.get(candidate, 0) + 1
    texts = list(weights)
    means = pairwise_chrf(texts) @ np.array(list(weights.values()), dtype=np.float64) / len(candidates)
    # Rounded: the last bit of a sum must not decide between two texts that differ in white space only.
    value = dict(zip(texts, means.round(9).tolist(), strict=True))
    return np.array([value[candidate] for candidate in candidates])


def pairwise_chrf(texts: Sequence[str]) -> NDArray[np.float64]:
    """Return chrF2, 0 to 100, of every text (row) as the hypothesis and every text (column) as the reference."""
    n_texts = len(texts)
    precision, recall, orders = (np.zeros((n_texts, n_texts)) for _ in range(3))
    for n_grams, common in _common_ngrams([_characters(text) for text in texts]):
        both = (n_grams[:, None] > 0) & (n_grams[None, :] > 0)
        precision += np.where(both, common / np.maximum(n_grams[:, None], 1), 0.0)
        recall += np.where(both, common / np.maximum(n_grams[None, :], 1), 0.0)
        orders += both
    precision /= np.maximum(orders, 1)
    recall /= np.maximum(orders, 1)
    weighted = _BETA**2 * precision + recall
    return 100 * (1 + _BETA**2) * precision * recall / np.where(weighted > 0, weighted, 1.0)


def _characters(text: str) -> NDArray[np.int64]:
    """Return the code points of the text without its white space."""
    without_spaces = "".join(text.split())
    return np.frombuffer(without_spaces.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.int64)


def _common_ngrams(texts: Sequence[NDArray[np.int64]]) -> Any:
    """Yield, for each order, how many n-grams every text has (N,), and how many every two have in common (N, N).

    An n-gram counts as often as the text with fewer of it has it. "The k-th occurrence of this n-gram" is a binary
    feature of a text, so one matrix product counts the features that every two texts share.
    """
    owner = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    letters = _ranks(np.concatenate([*texts, np.zeros(0, dtype=np.int64)]))
    n_letters = int(letters.max(initial=0)) + 1
    grams = np.zeros(len(letters), dtype=np.int64)
    for order in range(1, _ORDER + 1):
        usable = max(len(letters) - order + 1, 0)
        grams = _ranks(grams[:usable] * n_letters + letters[order - 1 :])
        inside = owner[:usable] == owner[order - 1 :]
        features = _occurrences(grams[inside], owner[:usable][inside])
        owners = owner[:usable][inside]
        held = np.zeros((len(texts), int(features.max(initial=-1)) + 1), dtype=np.float32)
        held[owners, features] = 1.0
        yield held.sum(axis=1, dtype=np.float64), (held @ held.T).astype(np.float64)


def _ranks(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Replace each value by its rank among the distinct values."""
    return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _occurrences(grams: NDArray[np.int64], owners: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return one id for each pair of an n-gram and how often it came before in the same text."""
    if not len(grams):
        return grams
    pairs = owners * (int(grams.max()) + 1) + grams
    order = np.argsort(pairs, kind="stable")
    sorted_pairs = pairs[order]
    positions = np.arange(len(pairs))
    starts = np.concatenate([[True], sorted_pairs[1:] != sorted_pairs[:-1]])
    times = np.empty(len(pairs), dtype=np.int64)
    times[order] = positions - np.maximum.accumulate(np.where(starts, positions, 0))
    return _ranks(grams * (int(times.max()) + 1) + times)


def rank(candidates: Sequence[Candidate], src: str = "", utility: Utility | None = None) -> list[Candidate]:
    """Sort draws by their expected chrF, or by the utility, best first, each text once.

    A candidate's score becomes that expected chrF, 0 to 100, or its utility; its log_prob stays the model's.
    Raises ValueError if the utility does not return one finite number for each draw.
    """
    texts = [candidate.text for candidate in candidates]
    scores = expected_chrf(texts).tolist() if utility is None else [float(value) for value in utility(src, texts)]
    if len(scores) != len(texts) or not np.isfinite(scores).all():
        raise ValueError(f"utility of {src!r}: {len(texts)} draws need as many finite numbers, not {scores}")
    best_first = sorted(zip(scores, candidates, strict=True), key=lambda pair: -pair[0])
    distinct: dict[str, Candidate] = {}
    for score, candidate in best_first:
        distinct.setdefault(candidate.text, replace(candidate, score=score))
    return list(distinct.values())

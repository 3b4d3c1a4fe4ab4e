"""Minimum-Bayes-risk choice among sampled translations: candidates in, the one that is most like all of them out.

The model's likeliest translation can be an odd one; the one that agrees best with what the model says on average is
not (Eikema and Aziz 2020). Likeness is sentence-level chrF2 (Popović 2015) exactly as sacreBLEU computes it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mtkit.config.schema import DecodeConfig

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mtkit.translation.translator import Candidate, Searcher

_ORDER = 6  # n-grams of 1 to 6 characters
_BETA = 2.0  # recall counts so many times as much as precision
_EPSILON = 0.02  # Freitag et al. (2023): the best sampling for MBR leaves out what is less likely than this


def choose(candidates: Sequence[str]) -> int:
    """The number of the candidate with the highest expected chrF against all of them; of equals, the first.

    Each candidate is one draw, so a text that was drawn twice weighs twice. Raises ValueError if there are none.
    """
    if not candidates:
        raise ValueError("there is no candidate to choose")
    return int(np.argmax(expected_chrf(candidates)))


def expected_chrf(candidates: Sequence[str]) -> "NDArray[np.float64]":
    """Of each candidate the mean chrF2 (0 to 100) with every candidate as the reference, itself included."""
    weights: dict[str, int] = {}
    for candidate in candidates:
        weights[candidate] = weights.get(candidate, 0) + 1
    texts = list(weights)
    means = pairwise_chrf(texts) @ np.array(list(weights.values()), dtype=np.float64) / len(candidates)
    # Rounded: two texts that differ in white space only must not be told apart by the last bit of a sum.
    value = dict(zip(texts, means.round(9).tolist(), strict=True))
    return np.array([value[candidate] for candidate in candidates])


def pairwise_chrf(texts: Sequence[str]) -> "NDArray[np.float64]":
    """chrF2 of every text (row) as the hypothesis with every text (column) as the reference, 0 to 100."""
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


def _characters(text: str) -> "NDArray[np.int64]":
    """The text's characters, white space left out, as numbers."""
    without_spaces = "".join(text.split())
    return np.frombuffer(without_spaces.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.int64)


def _common_ngrams(texts: Sequence["NDArray[np.int64]"]) -> Any:
    """For each order, how many n-grams every text has (N,), and how many every two have in common (N, N).

    In common are so many of an n-gram as the text with fewer of them has. The k-th time that an n-gram occurs in a
    text is a feature that the text has or has not: the features that two texts share are counted by a matrix product.
    """
    owner = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    letters = _ranks(np.concatenate([*texts, np.zeros(0, dtype=np.int64)]))
    n_letters = int(letters.max(initial=0)) + 1
    grams = np.zeros(len(letters), dtype=np.int64)
    for order in range(1, _ORDER + 1):
        usable = max(len(letters) - order + 1, 0)
        grams = _ranks(grams[:usable] * n_letters + letters[order - 1 :])
        inside = owner[:usable] == owner[order - 1 :]
        features = _numbered(grams[inside], owner[:usable][inside])
        owners = owner[:usable][inside]
        held = np.zeros((len(texts), int(features.max(initial=-1)) + 1), dtype=np.float32)
        held[owners, features] = 1.0
        yield held.sum(axis=1, dtype=np.float64), (held @ held.T).astype(np.float64)


def _ranks(values: "NDArray[np.int64]") -> "NDArray[np.int64]":
    """Equal values as equal small numbers."""
    return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _numbered(grams: "NDArray[np.int64]", owners: "NDArray[np.int64]") -> "NDArray[np.int64]":
    """A number for each n-gram together with how many times it has come before in the same text."""
    if not len(grams):
        return grams
    pairs = owners * (int(grams.max()) + 1) + grams
    order = np.argsort(pairs, kind="stable")
    in_order = pairs[order]
    at = np.arange(len(pairs))
    starts = np.concatenate([[True], in_order[1:] != in_order[:-1]])
    times = np.empty(len(pairs), dtype=np.int64)
    times[order] = at - np.maximum.accumulate(np.where(starts, at, 0))
    return _ranks(grams * (int(times.max()) + 1) + times)


def sampling_settings(decode: DecodeConfig) -> DecodeConfig:
    """How samples are drawn: as the config says where it leaves anything out, else tokens of at least 2 % only."""
    unlimited = decode.top_k == 0 and decode.top_p == 1 and decode.epsilon == 0
    epsilon = _EPSILON if unlimited else decode.epsilon
    return decode.model_copy(
        update={"sampling": True, "mbr_samples": 0, "epsilon": epsilon, "beam_size": 1, "beam_groups": 1}
    )


def rerank(
    searcher: "Searcher",
    texts: Sequence[str],
    decode: DecodeConfig,
    *,
    n_best: int = 1,
    prefixes: Sequence[Sequence[int]] | None = None,
    first_line: int | None = None,
) -> "list[list[Candidate]]":
    """Of decode.mbr_samples draws for each text those with the highest expected chrF, best first, no text twice.

    A candidate's score is that expected chrF, 0 to 100; its log_prob is the model's, as ever. The draws depend on
    decode.seed and the text alone. first_line: the first text's number, for messages.
    """
    settings = sampling_settings(decode)
    drawn = searcher.search(texts, decode=settings, n_best=decode.mbr_samples, prefixes=prefixes, first_line=first_line)
    return [_ranked(candidates)[:n_best] for candidates in drawn]


def _ranked(candidates: "list[Candidate]") -> "list[Candidate]":
    scores = expected_chrf([candidate.text for candidate in candidates]).tolist()
    best_first = sorted(zip(scores, candidates, strict=True), key=lambda pair: -pair[0])
    distinct: dict[str, Candidate] = {}
    for score, candidate in best_first:
        distinct.setdefault(candidate.text, replace(candidate, score=score))
    return list(distinct.values())

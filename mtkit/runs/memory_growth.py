"""How far the memory of training on a CPU will still grow after a short probe.

oneDNN makes kernels for each new size of a matrix product, of which the latest are kept. Linear layers have few sizes,
but attention in bf16 has others for each shape of a batch, so that memory grows with the number of shapes that have
been seen, until the stores are full.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch

from mtkit.data.batching import Batch, plan_epoch
from mtkit.data.encoded import EncodedCorpus
from mtkit.runtime import kernels_kept
from mtkit.training.auto_batch import resident_memory

Shape = tuple[int, int, int]  # sentences (with R-Drop twice as many), source tokens, target tokens

_KERNEL_BYTES, _KERNEL_BYTES_R_DROP = 1_000_000, 2_000_000  # measured
_MOST_PAIRS, _MOST_EPOCHS = 500_000, 20  # looked at to count shapes


class Growth:
    """Resident memory against the number of shapes of batches, noted update by update."""

    def __init__(self) -> None:
        self._shapes: set[Shape] = set()
        self._points: list[tuple[int, float]] = []
        self._kernel_bytes = _KERNEL_BYTES

    def note(self, batches: Iterable[Batch], resident: float, r_drop: float = 0.0) -> None:
        """An update with these batches has been made, after which so many bytes were resident."""
        if r_drop:
            self._kernel_bytes = _KERNEL_BYTES_R_DROP
        for batch in batches:
            n_pairs, src_len = batch.src.shape
            self._shapes.add((2 * n_pairs if r_drop else n_pairs, src_len, batch.tgt_in.shape[1]))
        self._points.append((len(self._shapes), resident))

    def to_come(self, shapes: set[Shape]) -> float:
        """Bytes by which memory will still grow in a run whose batches have these shapes."""
        points = self._points[len(self._points) // 2 :]  # the first of them also make ready what stays
        if len({number for number, _ in points}) < 2:
            return 0.0
        numbers, sizes = np.array(points, dtype=np.float64).T
        spread = numbers - numbers.mean()
        per_shape = float(spread @ sizes / (spread @ spread))  # by least squares
        room = kernels_kept(torch.get_num_threads()) * self._kernel_bytes - per_shape * len(self._shapes)
        return max(0.0, min(per_shape * len(shapes - self._shapes), room))


def shapes_of_run(
    corpus: EncodedCorpus, *, batch_tokens: int, seed: int, n_batches: int, without_r_drop: float = 1.0
) -> set[Shape]:
    """The shapes of a run's batches; of a large corpus, those of a part of it, of a long run of its first epochs.

    without_r_drop: the share of the run before R-Drop begins, in which each sentence passes once.
    """
    every = -(-corpus.n_pairs // _MOST_PAIRS)
    src, tgt = corpus.src_lengths[::every], corpus.tgt_lengths[::every]
    shapes: list[Shape] = []
    for epoch in range(_MOST_EPOCHS):
        plan = plan_epoch(src, tgt, batch_tokens=batch_tokens, seed=seed, epoch=epoch)[:n_batches]
        shapes += [(len(rows), int(src[rows].max()) + 1, int(tgt[rows].max()) + 1) for rows in plan]
        n_batches -= len(plan)
        if n_batches <= 0:
            break
    n_once = round(without_r_drop * len(shapes))
    return {*shapes[:n_once], *((2 * n, src_len, tgt_len) for n, src_len, tgt_len in shapes[n_once:])}


def resident_now() -> float:
    """Bytes of this process that are in memory; at its height, where the system tells nothing else."""
    try:
        n_pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:  # not Linux
        return resident_memory()
    return float(n_pages * os.sysconf("SC_PAGE_SIZE"))

"""Measure the batch size that suits this machine, for train.batch_tokens: auto; the run's config.yaml records it.

On a GPU, this is the largest size whose longest sentences fit with a margin. On a CPU, where large batches gain
nothing, it is the smallest size that is nearly as fast as the fastest. Both leave enough updates in an epoch.
"""

import gc
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from mtkit.config.schema import Config
from mtkit.console import log
from mtkit.data.batching import Batch, Indices, make_batch
from mtkit.data.encoded import EncodedCorpus
from mtkit.errors import TrainingError
from mtkit.training.update.optimizer_step import Updater

_GPU_SHARE = 0.85  # of the free memory; the rest is for validation, fragmentation and other programs
_CPU_SHARE = 0.5
_MEASURED = (1024, 4096)  # two sizes tell the memory of all others, because it grows linearly
_TRIED_ON_CPU = (512, 1024, 2048, 4096, 8192, 16384)
_NEARLY = 0.97  # of the best speed: a smaller gain is not worth the fewer updates of larger batches
_TRY_S = 3.0  # on a CPU, for each size
_LEAST_UPDATES = 100  # of an epoch
_STEP = 256


def with_batch_tokens(cfg: Config, corpus: EncodedCorpus, make_updater: Callable[[Config], Updater]) -> Config:
    """Return cfg with a number for train.batch_tokens: the one in cfg, or for auto the one that suits this machine.

    make_updater: creates a temporary model to measure with. Raises TrainingError if even a small batch does not fit.
    """
    if cfg.train.batch_tokens != "auto":
        return cfg
    most = most_for(corpus, cfg.train.accumulate)
    updater = make_updater(_with(cfg, _MEASURED[0]))
    if updater.device.type == "cuda":
        batch_tokens, why = _largest_that_fits(updater, corpus, most)
        del updater
        gc.collect()  # compiled layers refer to themselves, which keeps their memory
        torch.cuda.empty_cache()
    else:
        batch_tokens, why = _fastest(updater, corpus, most)
    log.info(f"train.batch_tokens=auto: {batch_tokens:,} ({why})")
    return _with(cfg, batch_tokens)


def most_for(corpus: EncodedCorpus, accumulate: int) -> int:
    """Return the largest batch_tokens that leaves an epoch a hundred updates, and at least a few sentences each."""
    n_tokens = int(np.maximum(corpus.src_lengths, corpus.tgt_lengths).sum(dtype=np.int64)) + corpus.n_pairs
    return max(_STEP, n_tokens // (_LEAST_UPDATES * accumulate) // _STEP * _STEP)


def longest_batch(corpus: EncodedCorpus, batch_tokens: int) -> Batch:
    """Return a batch of this size from the longest sentences of the corpus, which needs the most memory."""
    return make_batch(corpus, pairs_of_length(corpus, batch_tokens, quantile=1.0))


def pairs_of_length(corpus: EncodedCorpus, batch_tokens: int, quantile: float) -> Indices:
    """Return the indices of pairs that fill a batch; the longest pair is at this quantile of the lengths."""
    sizes = np.maximum(corpus.src_lengths, corpus.tgt_lengths)
    order = np.argsort(sizes, kind="stable")
    end = max(1, round(quantile * len(order)))
    n = max(1, batch_tokens // (int(sizes[order[end - 1]]) + 1))
    return order[max(0, end - n) : end]


def _largest_that_fits(updater: Updater, corpus: EncodedCorpus, most: int) -> tuple[int, str]:
    free = torch.cuda.mem_get_info(updater.device)[0] + torch.cuda.memory_reserved(updater.device)
    allowed = _GPU_SHARE * free
    small, large = (_gpu_peak(updater, corpus, n_tokens) for n_tokens in _MEASURED)
    slope = max(1.0, (large - small) / (_MEASURED[1] - _MEASURED[0]))
    n_tokens = int((allowed - small) / slope + _MEASURED[0]) // _STEP * _STEP
    limit = (
        "larger batches would leave too few updates in an epoch"
        if n_tokens > most
        else "larger batches would not fit with a margin"
    )
    n_tokens = min(n_tokens, most)
    while n_tokens >= _STEP:
        peak = _gpu_peak(updater, corpus, n_tokens)
        if peak <= allowed * 1.02 and updater.batch_limit is None:
            return n_tokens, f"its longest sentences take {peak / 2**30:.1f} of {free / 2**30:.1f} GiB; {limit}"
        n_tokens, updater.batch_limit, limit = (
            n_tokens * 4 // 5 // _STEP * _STEP,
            None,
            "larger batches would not fit with a margin",
        )
    raise TrainingError("train.batch_tokens=auto: even a small batch does not fit into memory; make the model smaller")


def _gpu_peak(updater: Updater, corpus: EncodedCorpus, n_tokens: int) -> int:
    """Return the peak memory of an update with n_tokens tokens, in bytes."""
    batch = longest_batch(corpus, n_tokens)
    updater.update([batch], 1, 0.0)  # allocates the optimizer's state
    torch.cuda.reset_peak_memory_stats(updater.device)
    updater.update([batch], 1, 0.0)
    return torch.cuda.max_memory_allocated(updater.device)


def _fastest(updater: Updater, corpus: EncodedCorpus, most: int) -> tuple[int, str]:
    sizes = [n_tokens for n_tokens in _TRIED_ON_CPU if n_tokens <= most] or [most]
    allowed = _CPU_SHARE * available_memory()
    speeds: dict[int, float] = {}
    grown = 0.0
    for n_tokens in sizes:
        if 2 * grown > allowed:  # twice the size takes twice the memory
            break
        before = resident_memory()
        speeds[n_tokens] = _tokens_per_second(updater, corpus, n_tokens)
        grown = max(grown * 2, resident_memory() - before)
    best = max(speeds.values())
    n_tokens = min(n_tokens for n_tokens, speed in speeds.items() if speed >= _NEARLY * best)
    listed = ", ".join(f"{n_tokens:,}: {speed:,.0f}" for n_tokens, speed in speeds.items())
    return n_tokens, f"target tokens per second here: {listed}"


def _tokens_per_second(updater: Updater, corpus: EncodedCorpus, n_tokens: int) -> float:
    """Return the target tokens per second of updates with short, medium and long sentences in turn."""
    batches = [make_batch(corpus, pairs_of_length(corpus, n_tokens, quantile)) for quantile in (1.0, 0.25, 0.5, 0.75)]
    for batch in batches[:2]:
        updater.update([batch], 1, 0.0)
    started, n_done, n_rounds = time.perf_counter(), 0, 0
    while not n_rounds or time.perf_counter() - started < _TRY_S:
        n_done += sum(updater.update([batch], 1, 0.0).n_tgt_tokens for batch in batches)
        n_rounds += 1
    return n_done / (time.perf_counter() - started)


def least_memory(n_weights: int) -> int:
    """Return the bytes that training needs for weights, gradients and Adam's two means, in float32."""
    return 16 * n_weights


def available_memory() -> float:
    """Return the bytes that this process can still allocate, as far as the system reports them."""
    free = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    try:
        fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
        free = min(free, int(fields["MemAvailable"].split()[0]) * 1024.0)
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
        used = Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii")
        free = free if limit == "max" else min(free, float(limit) - float(used))
    except (OSError, KeyError, ValueError):  # not Linux, or no control groups
        pass
    return free


def resident_memory() -> float:
    """Return the peak of this process's resident memory, in bytes."""
    try:
        import resource
    except ImportError:  # not POSIX
        return 0.0
    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def _with(cfg: Config, n_tokens: int) -> Config:
    return cfg.model_copy(update={"train": cfg.train.model_copy(update={"batch_tokens": n_tokens})})

"""train.batch_tokens: auto: the batch size that suits this machine, found by trying; kept in the run's config.yaml.

On a GPU that is the largest whose longest sentences fit with a margin; on a CPU the smallest that is about as fast as
any, as there large batches bring nothing. Neither may leave an epoch with too few updates to learn from.
"""

import gc
import os
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
from mtkit.training.update import Updater

_GPU_SHARE = 0.85  # of the free memory; the rest is for translating, for fragments and for others
_CPU_SHARE = 0.5
_MEASURED = (1024, 4096)  # from the memory of these two that of the others follows: it grows in proportion
_TRIED_ON_CPU = (512, 1024, 2048, 4096, 8192, 16384)
_NEARLY = 0.97  # of the best speed: for less, a larger batch is not worth its fewer updates
_TRY_S = 3.0  # on a CPU, for each size
_LEAST_UPDATES = 100  # of an epoch
_STEP = 256


def with_batch_tokens(cfg: Config, corpus: EncodedCorpus, make_updater: Callable[[Config], Updater]) -> Config:
    """cfg with a number for train.batch_tokens: its own, or with auto the one that suits this machine.

    make_updater: a model to try with, and to forget. Raises TrainingError if not even a small batch fits.
    """
    if cfg.train.batch_tokens != "auto":
        return cfg
    most = most_for(corpus, cfg.train.accumulate)
    updater = make_updater(_with(cfg, _MEASURED[0]))
    if updater.device.type == "cuda":
        number, why = _largest_that_fits(updater, corpus, most)
        del updater
        gc.collect()  # compiled layers know themselves, and would keep the memory
        torch.cuda.empty_cache()
    else:
        number, why = _fastest(updater, corpus, most)
    log.info(f"train.batch_tokens=auto: {number:,} ({why})")
    return _with(cfg, number)


def most_for(corpus: EncodedCorpus, accumulate: int) -> int:
    """The largest batch_tokens that leaves an epoch a hundred updates; at least a few sentences' worth."""
    n_tokens = int(np.maximum(corpus.src_lengths, corpus.tgt_lengths).sum(dtype=np.int64)) + corpus.n_pairs
    return max(_STEP, n_tokens // (_LEAST_UPDATES * accumulate) // _STEP * _STEP)


def longest_batch(corpus: EncodedCorpus, batch_tokens: int) -> Batch:
    """A batch of this size from the corpus' longest sentences: none needs more memory."""
    return make_batch(corpus, _of_length(corpus, batch_tokens, quantile=1.0))


def _of_length(corpus: EncodedCorpus, batch_tokens: int, quantile: float) -> Indices:
    """As many pairs as make a batch, of which the longest is at this quantile of the corpus' lengths."""
    sizes = np.maximum(corpus.src_lengths, corpus.tgt_lengths)
    order = np.argsort(sizes, kind="stable")
    end = max(1, round(quantile * len(order)))
    n = max(1, batch_tokens // (int(sizes[order[end - 1]]) + 1))
    return order[max(0, end - n) : end]


def _largest_that_fits(updater: Updater, corpus: EncodedCorpus, most: int) -> tuple[int, str]:
    free = torch.cuda.mem_get_info(updater.device)[0] + torch.cuda.memory_reserved(updater.device)
    allowed = _GPU_SHARE * free
    small, large = (_gpu_peak(updater, corpus, number) for number in _MEASURED)
    slope = max(1.0, (large - small) / (_MEASURED[1] - _MEASURED[0]))
    number = int((allowed - small) / slope + _MEASURED[0]) // _STEP * _STEP
    limit = "more would leave an epoch too few updates" if number > most else "more would not fit with a margin"
    number = min(number, most)
    while number >= _STEP:
        peak = _gpu_peak(updater, corpus, number)
        if peak <= allowed * 1.02 and updater.batch_limit is None:
            return number, f"its longest sentences take {peak / 2**30:.1f} of {free / 2**30:.1f} GiB; {limit}"
        number, updater.batch_limit, limit = number * 4 // 5 // _STEP * _STEP, None, "more would not fit with a margin"
    raise TrainingError("train.batch_tokens=auto: not even a small batch fits into memory; make the model smaller")


def _gpu_peak(updater: Updater, corpus: EncodedCorpus, number: int) -> int:
    """Bytes in use at the height of an update with so many tokens."""
    batch = longest_batch(corpus, number)
    updater.update([batch], 1, 0.0)  # makes what stays: the optimizer's memory
    torch.cuda.reset_peak_memory_stats(updater.device)
    updater.update([batch], 1, 0.0)
    return torch.cuda.max_memory_allocated(updater.device)


def _fastest(updater: Updater, corpus: EncodedCorpus, most: int) -> tuple[int, str]:
    sizes = [number for number in _TRIED_ON_CPU if number <= most] or [most]
    allowed = _CPU_SHARE * available_memory()
    speeds: dict[int, float] = {}
    grown = 0.0
    for number in sizes:
        if 2 * grown > allowed:  # twice the size would take twice the memory
            break
        before = resident_memory()
        speeds[number] = _tokens_per_second(updater, corpus, number)
        grown = max(grown * 2, resident_memory() - before)
    best = max(speeds.values())
    number = min(number for number, speed in speeds.items() if speed >= _NEARLY * best)
    listed = ", ".join(f"{number:,}: {speed:,.0f}" for number, speed in speeds.items())
    return number, f"target tokens per second here: {listed}"


def _tokens_per_second(updater: Updater, corpus: EncodedCorpus, number: int) -> float:
    """Target tokens per second of updates with short, middling and long sentences in turn."""
    batches = [make_batch(corpus, _of_length(corpus, number, quantile)) for quantile in (1.0, 0.25, 0.5, 0.75)]
    for batch in batches[:2]:
        updater.update([batch], 1, 0.0)
    started, n_tokens, n_rounds = time.perf_counter(), 0, 0
    while not n_rounds or time.perf_counter() - started < _TRY_S:
        n_tokens += sum(updater.update([batch], 1, 0.0).n_tgt_tokens for batch in batches)
        n_rounds += 1
    return n_tokens / (time.perf_counter() - started)


def available_memory() -> float:
    """Bytes that this process could still have, as far as the system tells."""
    free = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    try:
        fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
        free = min(free, int(fields["MemAvailable"].split()[0]) * 1024.0)
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
        used = Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii")
        free = free if limit == "max" else min(free, float(limit) - float(used))
    except (OSError, KeyError, ValueError):  # another system than Linux, or no control groups
        pass
    return free


def resident_memory() -> float:
    """Bytes of this process that were in memory at its height."""
    try:
        import resource
    except ImportError:  # not POSIX
        return 0.0
    import sys

    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def _with(cfg: Config, number: int) -> Config:
    return cfg.model_copy(update={"train": cfg.train.model_copy(update={"batch_tokens": number})})

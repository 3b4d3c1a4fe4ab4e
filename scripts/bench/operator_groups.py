"""Where an update's time goes: torch's profile of mtkit's update, its operators sorted into a few groups."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile, record_function

from mtkit.config.schema import Config
from mtkit.data.batching import Batch, plan_epoch
from mtkit.model.transformer import Transformer
from mtkit.runtime import Precision, keep_freed_memory, set_threads
from mtkit.tokens.special_ids import BOS_ID, EOS_ID, PAD_ID
from mtkit.tokens.tokenizer import load_tokenizers
from mtkit.training.update.optimizer_step import Updater

_WARM_UP, _PROFILED = 3, 8  # updates
_LABEL = "group: "  # what this module's own ranges begin with

# The first group that one of its words fits counts; the words are parts of the names of operators, of the ranges
# around them, and of the nodes of the backward pass.
GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("optimizer", ("Optimizer.", "optimizer", "adamw", "clip", "foreach_norm", "linalg_vector_norm")),
    ("loss, products apart", ("Loss", "cross_entropy")),
    ("dropout", ("dropout", "Dropout", "random_", "bernoulli")),
    ("norms", ("layer_norm", "LayerNorm", "rms_norm", "RMSNorm")),
    ("softmax and attention", ("attention", "Attention", "softmax", "Softmax")),
    ("embeddings", ("embedding", "Embedding")),
)
_PRODUCTS = (
    "aten::mm",
    "aten::addmm",
    "aten::bmm",
    "aten::baddbmm",
    "aten::mkldnn_linear",
    "mkldnn::_linear_pointwise",
    "aten::addmv",
)


def profile_update(cfg: Config, precision: Precision) -> str:
    """A table: milliseconds of an update and their share, by group, with the largest operators of each.

    With one thread, which passes whole batches: of several, each does the same with its share of them.
    """
    set_threads(1)
    keep_freed_memory()
    updater, batches = _updater(cfg, precision)
    for step in range(1, _WARM_UP + 1):
        updater.update([next(batches)], step, 1e-4)
    handles = list(_label_modules(updater.model))
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        for step in range(_WARM_UP + 1, _WARM_UP + _PROFILED + 1):
            updater.update([next(batches)], step, 1e-4)
    for handle in handles:
        handle.remove()
    events = recorded.events()
    assert events is not None
    return as_table(group_times(events), precision)


def group_times(events: Iterable[FunctionEvent]) -> dict[str, dict[str, float]]:
    """Group to operator to milliseconds per update, each operator's own time without those that it calls."""
    events = [event for event in events if event.self_cpu_time_total > 0]
    # an operator of the backward pass belongs where the operator that it is the gradient of belongs
    forward: dict[int, str] = {}
    for event in events:
        if event.sequence_nr >= 0 and event.scope == 0:
            group = _group_of(_names(event))
            if group != "other":
                forward.setdefault(event.sequence_nr, group)
    times: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for event in events:
        if event.name in _PRODUCTS:
            group = "matrix products"
        else:
            group = _group_of(_names(event))
            if group == "other":
                group = next((forward[number] for number in _sequence_numbers(event) if number in forward), "other")
        times[group][event.name] += event.self_cpu_time_total / 1000 / _PROFILED
    return times


def as_table(times: dict[str, dict[str, float]], precision: str) -> str:
    """Lines for people, the largest group first."""
    total = sum(sum(operators.values()) for operators in times.values())
    lines = [f"an update in {precision}: {total:,.0f} ms (with the profiler's own cost)"]
    for group, operators in sorted(times.items(), key=lambda item: -sum(item[1].values())):
        own = sum(operators.values())
        largest = sorted(operators.items(), key=lambda item: -item[1])[:3]
        named = ", ".join(f"{name.removeprefix('aten::').removeprefix(_LABEL)} {ms:,.1f}" for name, ms in largest)
        lines.append(f"{group:<24}{own:>9,.1f} ms{own / total:>8.1%}   {named}")
    return "\n".join(lines)


def _updater(cfg: Config, precision: Precision) -> tuple[Updater, Iterator[Batch]]:
    """A model with its optimizer, and batches of the config's text without end."""
    from mtkit.data.corpus import read_pairs

    assert cfg.run_dir is not None
    tokenizers = load_tokenizers(cfg.run_dir)
    pairs = list(read_pairs(cfg.data.train))
    src, tgt = (
        tokenizer.encode_batch([getattr(pair, side) for pair in pairs])
        for tokenizer, side in zip(tokenizers, ("src", "tgt"), strict=True)
    )
    torch.manual_seed(cfg.seed)
    model = Transformer(cfg.model, tokenizers[0].vocab_size, tokenizers[1].vocab_size, PAD_ID)
    return Updater(model, cfg.train, cfg.seed, precision), text_batches(src, tgt, cfg.train.n_batch_tokens, cfg.seed)


def text_batches(src: list[list[int]], tgt: list[list[int]], batch_tokens: int, seed: int) -> Iterator[Batch]:
    """Batches of pairs of like length, epoch after epoch."""
    import numpy as np

    src_lengths, tgt_lengths = (np.array([len(ids) for ids in side], dtype=np.int32) for side in (src, tgt))
    epoch = 0
    while True:
        plan = plan_epoch(src_lengths, tgt_lengths, batch_tokens=batch_tokens, seed=seed, epoch=epoch)
        for indices in plan:
            chosen = indices.tolist()
            yield Batch(
                src=_pad([[*src[i], EOS_ID] for i in chosen]),
                tgt_in=_pad([[BOS_ID, *tgt[i]] for i in chosen]),
                tgt_out=_pad([[*tgt[i], EOS_ID] for i in chosen]),
                indices=indices,
                n_tgt_tokens=int(tgt_lengths[indices].sum()) + len(indices),
            )
        epoch += 1


def _pad(rows: list[list[int]]) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD_ID] * (longest - len(row)) for row in rows])


def _label_modules(model: torch.nn.Module) -> Iterator[Any]:
    """Have each dropout, norm and attention show as a range of its own in the profile."""
    open_ranges: list[record_function] = []

    def enter(module: torch.nn.Module, _: Any) -> None:
        open_ranges.append(record_function(_LABEL + type(module).__name__))
        open_ranges[-1].__enter__()  # type: ignore[no-untyped-call]  # torch's

    def leave(*_: Any) -> None:
        open_ranges.pop().__exit__(None, None, None)

    for module in model.modules():
        if any(kind in type(module).__name__ for kind in ("Dropout", "Norm", "Attention")):
            yield module.register_forward_pre_hook(enter)
            yield module.register_forward_hook(leave)


def _names(event: FunctionEvent) -> list[str]:
    """The operator's name and those of the ranges around it, innermost first."""
    names = []
    current: FunctionEvent | None = event
    while current is not None:
        names.append(current.name)
        current = current.cpu_parent
    return names


def _sequence_numbers(event: FunctionEvent) -> Iterator[int]:
    current: FunctionEvent | None = event
    while current is not None:
        if current.sequence_nr >= 0:
            yield current.sequence_nr
        current = current.cpu_parent


def _group_of(names: list[str]) -> str:
    """The group of the innermost range that belongs to one."""
    for name in names:
        for group, words in GROUPS:
            if any(word in name for word in words):
                return group
    return "other"

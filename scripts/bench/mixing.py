"""Print how often two pairs of a batch share a batch again in the next epoch, and the padding that this order costs.

.venv/bin/python scripts/bench/mixing.py --run runs/NAME --batch-tokens 1024 4096

The run needs its tokenizers and encoded text, which `mtkit train` writes before its first step.
"""

import argparse
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from mtkit.config.reading.loading import load_config
from mtkit.data import batching
from mtkit.data.batching import Indices, padding_share, plan_epoch
from mtkit.data.encoded import Lengths, encode_corpus
from mtkit.tokens.tokenizer import load_tokenizers

Plan = Callable[[int], list[Indices]]  # the batches of an epoch


def main() -> None:
    """Compare mtkit's order with no mixing and with free mixing of all pairs of one length."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True, help="run folder")
    parser.add_argument("--batch-tokens", type=int, nargs="+", default=[1024, 4096])
    parser.add_argument("--epochs", type=int, default=5)
    arguments = parser.parse_args()
    cfg = load_config(arguments.run / "config.yaml")
    corpus = encode_corpus(
        cfg.data.train,
        *load_tokenizers(arguments.run),
        arguments.run / "cache",
        max_tokens=cfg.data.max_tokens,
        max_length_ratio=cfg.data.max_length_ratio,
    )
    lengths = corpus.src_lengths, corpus.tgt_lengths
    print(f"{corpus.n_pairs:,} pairs\n")
    print("| batch tokens | differences mixed | batches | mates again | padding |\n|-|-|-|-|-|")
    for batch_tokens in arguments.batch_tokens:
        for mixed in (1, 2, batching._MIXED, 10_000):
            with_mixing = f"all ({mixed:,})" if mixed == 10_000 else f"{mixed}"
            again, padding, n_batches = measured(lengths, batch_tokens, mixed, arguments.epochs)
            chosen = " (mtkit)" if mixed == batching._MIXED else ""
            print(f"| {batch_tokens:,} | {with_mixing}{chosen} | {n_batches:,} | {again:.1%} | {padding:.1%} |")


def measured(lengths: tuple[Lengths, Lengths], batch_tokens: int, mixed: int, epochs: int) -> tuple[float, float, int]:
    """Return the share of mates that are mates again, the share of padding, and the batches of an epoch."""
    before, batching._MIXED = batching._MIXED, mixed
    plans = [plan_epoch(*lengths, batch_tokens=batch_tokens, seed=1, epoch=epoch) for epoch in range(epochs)]
    batching._MIXED = before
    again = np.mean([mates_again(first, second, len(lengths[0])) for first, second in pairwise(plans)])
    return float(again), padding_share(*lengths, plans[0]), len(plans[0])


def mates_again(first: Sequence[Indices], second: Sequence[Indices], n_pairs: int) -> float:
    """Return which share of the pairs' mates in the first plan's batches are mates in the second's, too."""
    in_first, in_second = (np.empty(n_pairs, dtype=np.int64) for _ in range(2))
    for batch_of, plan in ((in_first, first), (in_second, second)):
        for batch_index, indices in enumerate(plan):
            batch_of[indices] = batch_index
    together = np.unique(in_first * len(second) + in_second, return_counts=True)[1]
    sizes = np.bincount(in_first)
    return float((together * (together - 1)).sum() / (sizes * (sizes - 1)).sum())


if __name__ == "__main__":
    main()

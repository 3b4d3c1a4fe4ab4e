"""Memory and speed of the data path: tokenizers, encoding and batches of synthetic pairs made on the fly.

    .venv/bin/python scripts/bench/data.py --pairs 2000000

The peak is that of the process since its start, torch included.
"""

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mtkit.config.schema import CorpusFiles, TokenizerConfig
from mtkit.console import set_up_logging
from mtkit.data.batching import make_batch, padding_share, plan_epoch
from mtkit.data.corpus import SIDES, count_pairs, open_output, read_side
from mtkit.data.encoded import encode_corpus
from mtkit.data.tokenizer import sample, train_tokenizer

_SYLLABLES = ["ba", "co", "di", "fe", "gu", "la", "mi", "no", "pré", "ru", "sa", "té", "vi", "zo", "chan", "ment"]
_N_WORDS = 50_000
_SAMPLED_LINES = 20_000  # few: the trainer holds them in memory, and it is not what is measured here


def synthetic_pairs(n_pairs: int, seed: int) -> Iterator[tuple[str, str]]:
    """Pairs of 1 to 60 words (median 16), the words Zipf-distributed, the two sides of like length."""
    rng = np.random.default_rng(seed)
    src_words, tgt_words = ([_word(rng) for _ in range(_N_WORDS)] for _ in range(2))
    for _ in range(n_pairs):
        n_src = min(60, max(1, round(rng.lognormal(2.8, 0.5))))
        n_tgt = min(60, max(1, round(n_src * rng.normal(1.1, 0.15))))
        ranks = (_N_WORDS ** rng.random(n_src + n_tgt)).astype(int).tolist()  # density 1/rank
        yield (
            " ".join(src_words[rank - 1] for rank in ranks[:n_src]),
            " ".join(tgt_words[rank - 1] for rank in ranks[n_src:]),
        )


def _word(rng: np.random.Generator) -> str:
    return "".join(rng.choice(_SYLLABLES, size=rng.integers(1, 6)))


def peak_mib() -> float:
    """The most memory that this process has had resident so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def measure(n_pairs: int, batch_tokens: int, folder: Path) -> None:
    """Print time and peak memory of each stage as a table."""
    print(f"{'stage':<34}{'seconds':>10}{'peak MiB':>10}")
    started = time.perf_counter()

    def done(stage: str) -> None:
        nonlocal started
        print(f"{stage:<34}{time.perf_counter() - started:>10.1f}{peak_mib():>10.0f}", flush=True)
        started = time.perf_counter()

    done("start (libraries loaded)")
    corpus_files = CorpusFiles(src=folder / "train.src.gz", tgt=folder / "train.tgt.gz")
    with open_output(folder / "train.src.gz") as src_file, open_output(folder / "train.tgt.gz") as tgt_file:
        for src, tgt in synthetic_pairs(n_pairs, seed=1):
            print(src, file=src_file)
            print(tgt, file=tgt_file)
    done("text written")

    cfg = TokenizerConfig(vocab_size=8000)
    n_lines = count_pairs([corpus_files])
    src_tokenizer, tgt_tokenizer = (
        train_tokenizer(sample(read_side([corpus_files], side), n_lines, _SAMPLED_LINES), cfg, folder / f"{side}.spm")
        for side in SIDES
    )
    done(f"tokenizers ({_SAMPLED_LINES:,} lines)")

    corpus = encode_corpus(
        [corpus_files], src_tokenizer, tgt_tokenizer, folder / "cache", max_tokens=256, max_length_ratio=None
    )
    done("encoded")

    plan = plan_epoch(corpus.src_lengths, corpus.tgt_lengths, batch_tokens=batch_tokens, seed=1, epoch=0)
    done("epoch planned")

    n_tokens = sum(make_batch(corpus, indices).n_tgt_tokens for indices in plan)
    per_batch_ms = 1000 * (time.perf_counter() - started) / len(plan)
    done("every batch made")

    padding = padding_share(corpus.src_lengths, corpus.tgt_lengths, plan)
    print(f"{corpus.n_pairs:,} pairs, {n_tokens:,} target tokens, {len(plan):,} batches, {padding:.1%} padding")
    print(f"{per_batch_ms:.2f} ms a batch of {batch_tokens} tokens")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200_000)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    args = parser.parse_args()
    set_up_logging(quiet=False)
    with tempfile.TemporaryDirectory() as folder:
        measure(args.pairs, args.batch_tokens, Path(folder))


if __name__ == "__main__":
    main()

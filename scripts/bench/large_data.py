"""Start-up, memory and speed of the data path at any size: a corpus of synthetic pairs, made on the fly and removed.

    .venv/bin/python scripts/bench/large_data.py --pairs 20000000

Each stage is a process of its own, so that its peak of resident memory is its own (with the libraries, which the first
line tells). A start is all that `mtkit train` does before its first update: tokenizers, encoding, planning, a tiny
model. The feed is asked for updates as fast as it can make them; nothing is learnt from them.
"""

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

_SYLLABLES = ["ba", "co", "di", "fe", "gu", "la", "mi", "no", "pré", "ru", "sa", "té", "vi", "zo", "chan", "ment"]
_N_WORDS = 20_000
_CHUNK_PAIRS = 50_000
_TOKENIZER_LINES = 100_000  # the trainer of the tokenizers holds them in memory: its need depends on this alone


def write_corpus(folder: Path, name: str, n_pairs: int, seed: int) -> None:
    """Pairs of 1 to 60 words (median 16), the words Zipf-distributed, the two sides of like length."""
    rng = np.random.default_rng(seed)
    words = [np.array([_word(rng) for _ in range(_N_WORDS)], dtype=object) for _ in range(2)]
    with (folder / f"{name}.src").open("w") as src_file, (folder / f"{name}.tgt").open("w") as tgt_file:
        for first in range(0, n_pairs, _CHUNK_PAIRS):
            n = min(_CHUNK_PAIRS, n_pairs - first)
            n_src = np.clip(rng.lognormal(2.8, 0.5, n).round(), 1, 60).astype(int)
            n_tgt = np.clip((n_src * rng.normal(1.1, 0.15, n)).round(), 1, 60).astype(int)
            for file, lengths, lexicon in ((src_file, n_src, words[0]), (tgt_file, n_tgt, words[1])):
                ranks = (_N_WORDS ** rng.random(lengths.sum())).astype(int) - 1  # density 1/rank
                drawn, ends = lexicon[ranks].tolist(), lengths.cumsum().tolist()
                lines = (" ".join(drawn[begin:end]) for begin, end in zip([0, *ends], ends, strict=False))
                file.write("\n".join(lines) + "\n")


def _word(rng: np.random.Generator) -> str:
    return "".join(rng.choice(_SYLLABLES, size=rng.integers(1, 6)))


def config(folder: Path) -> Any:
    """A run that learns from the corpus with a tiny model."""
    from mtkit.config.schema import Config

    pieces = {"vocab_size": 8000, "max_sentences": _TOKENIZER_LINES}
    files = [{"src": str(folder / f"{name}.src"), "tgt": str(folder / f"{name}.tgt")} for name in ("train", "dev")]
    return Config.model_validate(
        {
            "run_dir": str(folder / "run"),
            "data": {"train": [files[0]], "dev": files[1]},
            "tokenizer": {"src": pieces, "tgt": pieces},
            "model": {"d_model": 32, "d_ff": 64},
            "train": {"batch_tokens": 4096, "max_epochs": 1, "device": "cpu", "precision": "fp32"},
        }
    )


def only_import(folder: Path) -> str:
    """Load the libraries."""
    import mtkit.runs.train  # noqa: F401

    return ""


def generate(folder: Path, n_pairs: int) -> str:
    """Write the corpus."""
    write_corpus(folder, "dev", 200, seed=2)
    write_corpus(folder, "train", n_pairs, seed=1)
    size = sum((folder / f"train.{side}").stat().st_size for side in ("src", "tgt"))
    return f"{size / 2**30:.2f} GiB of text"


def tokenizers(folder: Path) -> str:
    """Learn the tokenizers, as a run does that has none."""
    from mtkit.training.preparation.run_tokenizers import train_tokenizers

    train_tokenizers(config(folder), folder / "run")
    return f"learnt from {_TOKENIZER_LINES:,} lines a side"


def start(folder: Path) -> str:
    """All that comes before the first update."""
    from mtkit.training.preparation.prepare import prepare
    from mtkit.training.update.checkpoint import Checkpoints

    run = prepare(config(folder), folder / "run", Checkpoints(folder / "run" / "checkpoints"))
    size = sum(path.stat().st_size for path in (folder / "run" / "cache").rglob("*") if path.is_file())
    return f"{run.corpus.n_pairs:,} pairs, {size / 2**30:.2f} GiB in cache/"


def feed(folder: Path, seconds: float) -> str:
    """Make updates for some time, with the threads of the feed at work."""
    from mtkit.data.feed import Position
    from mtkit.training.preparation.prepare import prepare
    from mtkit.training.update.checkpoint import Checkpoints

    run = prepare(config(folder), folder / "run", Checkpoints(folder / "run" / "checkpoints"))
    waits: list[float] = []
    asked, position, n_tokens = time.perf_counter(), Position(), 0
    cpu_before = time.process_time()
    with run.feed:
        while not waits or time.perf_counter() - asked < seconds:
            before = time.perf_counter()
            batches, position = run.feed.next_after(position)
            waits.append(time.perf_counter() - before)
            n_tokens += sum(batch.n_tgt_tokens for batch in batches)
            if position.epoch:
                break
        cpu = time.process_time() - cpu_before
    took = time.perf_counter() - asked
    return (
        f"{n_tokens / took:,.0f} target tokens/s ({n_tokens / cpu:,.0f} per second of CPU), {position.epochs:.3f} "
        f"epochs; first update after {waits[0]:.2f} s, then at most {max(waits[1:], default=0.0):.2f} s"
    )


def run_stage(name: str, stage: Callable[..., str], *args: Any) -> None:
    """Run the stage in a process of its own and print its time, its peak of resident memory, and what it says."""
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_measured, args=(name, stage, *args))
    process.start()
    process.join()
    if process.exitcode:
        sys.exit(f"{name}: failed")


def _measured(name: str, stage: Callable[..., str], *args: Any) -> None:
    started = time.perf_counter()
    says = stage(*args)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    print(f"{name:<14}{seconds:>9.1f}{peak:>10.0f}  {says}", flush=True)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=60, help="how long the feed is asked for updates")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"{'stage':<14}{'seconds':>9}{'peak MiB':>10}")
        run_stage("libraries", only_import, folder)
        run_stage("text", generate, folder, args.pairs)
        run_stage("tokenizers", tokenizers, folder)
        run_stage("first start", start, folder)
        run_stage("second start", start, folder)
        run_stage("feed", feed, folder, args.seconds)


if __name__ == "__main__":
    main()

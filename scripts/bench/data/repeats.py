"""Memory and speed of finding exact repeats among many pairs: a synthetic corpus with planted ones, made and removed.

    .venv/bin/python scripts/bench/data/repeats.py --pairs 20000000 --workers 2

One pair in ten repeats an earlier one. The memory is the sum over all processes (proportional set size, Linux), looked
at every half second. The last line tells whether the pairs found are those planted.
"""

import argparse
import os
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mtkit.config.data import CorpusFiles
from mtkit.corpora.cleaning.cutting import Windows, cut
from mtkit.corpora.cleaning.repeats import Repeats, find_repeats, write_keys
from mtkit.jobs.executors import Executor, InProcess, Processes
from mtkit.jobs.job import Job, Stage, run_job

_REPEATED_SHARE = 0.1


def write_corpus(folder: Path, n_pairs: int) -> tuple[CorpusFiles, int]:
    """Write pairs of about 70 characters a side; return the corpus, and how many repeat an earlier one."""
    rng = random.Random(1)
    n_repeated, is_written = 0, bytearray(n_pairs)
    with (folder / "a.en").open("w") as src, (folder / "a.de").open("w") as tgt:
        for number in range(n_pairs):
            if number and rng.random() < _REPEATED_SHARE:
                number = rng.randrange(number)
            n_repeated += is_written[number]
            is_written[number] = True
            words = f"{number * 2654435761 % 2**32:08x}{number:08x}"
            src.write(f"The {words} of all that is said here about nothing in particular is said {words}.\n")
            tgt.write(f"Das {words} von allem, was hier über nichts Besonderes gesagt wird, heißt {words}.\n")
    return CorpusFiles(src=folder / "a.en", tgt=folder / "a.de"), n_repeated


@dataclass(frozen=True)
class Keys:
    """Stage one: the keys of the pairs."""

    windows: Windows

    def __call__(self, index: int, folder: Path) -> dict[str, int]:
        """Write a shard."""
        pairs = self.windows.read(index)
        write_keys(folder, "pair", [f"{pair.src}\t{pair.tgt}" for pair in pairs], [pair.line for pair in pairs])
        return {}


@dataclass(frozen=True)
class Kept:
    """Stage three: the pairs that repeat none."""

    windows: Windows
    repeats: Repeats

    def __call__(self, index: int, folder: Path) -> dict[str, int]:
        """Write a shard."""
        repeats, n_kept = self.repeats.of_shard(index), 0
        with (folder / "kept.tsv").open("w", encoding="utf-8", newline="\n") as file:
            for i, pair in enumerate(self.windows.read(index)):
                if i not in repeats:
                    n_kept += 1
                    file.write(f"{pair.src}\t{pair.tgt}\n")
        return {"kept": n_kept}


def remove_repeats(corpus: CorpusFiles, output: Path, executor: Executor) -> int:
    """Write the pairs without those that came before; return how many are left."""

    def make(job: Job) -> int:
        begin = time.perf_counter()
        windows = cut(job, [corpus])
        n = len(windows)
        print(f"cut              {time.perf_counter() - begin:7.1f} s", flush=True)
        begin = time.perf_counter()
        job.run(Stage("keys", Keys(windows), n, windows.sizes, "pair", windows.place))
        print(f"keys             {time.perf_counter() - begin:7.1f} s", flush=True)
        begin = time.perf_counter()
        repeats = find_repeats(job, "keys", n, sum(windows.sizes), "pair")
        print(f"compared         {time.perf_counter() - begin:7.1f} s ({repeats.n_partitions} parts)", flush=True)
        begin = time.perf_counter()
        counts = job.run(Stage("kept", Kept(windows, repeats), n, windows.sizes, "pair", windows.place))
        print(f"applied          {time.perf_counter() - begin:7.1f} s", flush=True)
        begin = time.perf_counter()
        job.finish(lambda: job.concatenate("kept", range(n), "kept.tsv", output))
        print(f"joined           {time.perf_counter() - begin:7.1f} s", flush=True)
        return sum(count["kept"] for count in counts)

    assert corpus.src is not None and corpus.tgt is not None
    begin = time.perf_counter()
    n_kept = run_job(output, make, inputs=[corpus.src, corpus.tgt], settings={}, executor=executor)
    print(f"all              {time.perf_counter() - begin:7.1f} s, checksums of the input included", flush=True)
    assert n_kept is not None
    return n_kept


@contextmanager
def peak_of_tree(peak: list[int]) -> Iterator[None]:
    """Note the greatest sum of memory, in kB, of this process and its children."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.5):
            peak.append(sum(map(pss, [os.getpid(), *children(os.getpid())])))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def children(pid: int) -> list[int]:
    """Return the children of a process and theirs."""
    own: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            own += map(int, task.read_text().split())
        except OSError:
            continue
    return [*own, *(far for child in own for far in children(child))]


def pss(pid: int) -> int:
    """Return a process' proportional set size in kB; 0 if it has ended."""
    try:
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(row.split()[1]) for row in rows if row.startswith("Pss:"))


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=20_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="keep the corpus here; the next start resumes an interrupted job")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = args.folder or Path(name)
        if (folder / "planted").exists():
            corpus = CorpusFiles(src=folder / "a.en", tgt=folder / "a.de")
            n_repeated = int((folder / "planted").read_text())
        else:
            corpus, n_repeated = write_corpus(folder, args.pairs)
            (folder / "planted").write_text(str(n_repeated))
        assert corpus.src is not None and corpus.tgt is not None
        n_bytes = corpus.src.stat().st_size + corpus.tgt.stat().st_size
        print(f"{args.pairs:,} pairs, {n_bytes / 1e9:.2f} GB, {n_repeated:,} repeat earlier ones", flush=True)
        peak: list[int] = []
        with peak_of_tree(peak):
            executor = InProcess() if args.workers == 1 else Processes(args.workers)
            n_kept = remove_repeats(corpus, folder / "kept.tsv", executor)
        print(f"peak memory of all processes: {max(peak) / 1e6:.2f} GB (proportional set size)")
        print(f"{args.pairs - n_kept:,} found, {n_repeated:,} planted")


if __name__ == "__main__":
    main()

"""Time the same work on the same pairs: in one plain loop, as a job in one process, in two, in two shares, on Ray.

    .venv/bin/python scripts/bench/data/jobs.py --pairs 200000 --rounds 3

The work is what rules do with a pair: look for faults and lost numbers. All outputs must have the same bytes. The ways
take turns; CPU seconds are of this process and all that it starts (Linux), so they hardly depend on what else runs.
"""

import argparse
import functools
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from large_data import write_corpus

from mtkit.config.data import CorpusFiles
from mtkit.corpora.cleaning.cutting import Windows, cut
from mtkit.data.corpus import read_pairs
from mtkit.files import sha256_file
from mtkit.jobs.executors import Executor, InProcess, Processes
from mtkit.jobs.job import Job, Share, Stage, run_job
from mtkit.jobs.on_ray import OnRay
from mtkit.pair_files.pairs import Pair
from mtkit.quality.faults import find_faults
from mtkit.quality.numbers import lost_numbers

NAME = "judged.tsv"
_ALONE = Share()


def judged(pairs: Iterable[Pair]) -> Iterable[str]:
    """Lines of source, target and what the rules found."""
    for pair in pairs:
        faults = [fault.kind for fault in find_faults(pair.src, pair.tgt)]
        yield f"{pair.src}\t{pair.tgt}\t{','.join(faults)}\t{len(lost_numbers(pair.src, pair.tgt))}\n"


@dataclass(frozen=True)
class Judge:
    """The work on one window."""

    windows: Windows

    def __call__(self, index: int, folder: Path) -> dict[str, int]:
        """Write a shard."""
        pairs = self.windows.read(index)
        with (folder / NAME).open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(judged(pairs))
        return {"pairs": len(pairs)}


def as_job(corpus: CorpusFiles, output: Path, executor: Executor, share: Share = _ALONE) -> None:
    """The work as a job."""

    def make(job: Job) -> None:
        windows = cut(job, [corpus])
        job.run(Stage("judge", Judge(windows), len(windows), windows.sizes, "pair", windows.place))
        job.finish(lambda: job.concatenate("judge", range(len(windows)), NAME, output))

    assert corpus.src is not None and corpus.tgt is not None
    run_job(output, make, inputs=[corpus.src, corpus.tgt], settings={}, executor=executor, share=share)


def in_a_loop(corpus: CorpusFiles, output: Path) -> None:
    """The work without a job."""
    with output.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(judged(read_pairs([corpus])))


def in_shares(folder: Path, output: Path) -> None:
    """The work as two processes that each know only their share."""
    shares = [
        subprocess.Popen([sys.executable, __file__, "--share", f"{index}/2", folder, output]) for index in range(2)
    ]
    assert [share.wait() for share in shares] == [0, 0]


class CpuTime(threading.Thread):
    """Adds up the CPU seconds of this process and its descendants in a with block, by looking twice a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._over = threading.Event()
        self._ticks: dict[int, int] = {}  # by process
        self._own = 0.0  # seconds that looking took

    def __enter__(self) -> "CpuTime":
        self._before = sum(os.times()[:2])
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()
        here = sum(os.times()[:2]) - self._before - self._own
        self.seconds = here + sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK")

    def run(self) -> None:
        """Look until the block is over."""
        while not self._over.wait(0.5):
            children: dict[int, list[int]] = {}
            ticks: dict[int, int] = {}
            for stat in Path("/proc").glob("[0-9]*/stat"):
                with suppress(OSError):
                    fields = stat.read_text().rsplit(") ", 1)[1].split()
                    pid = int(stat.parent.name)
                    children.setdefault(int(fields[1]), []).append(pid)
                    ticks[pid] = int(fields[11]) + int(fields[12])
            found = list(children.get(os.getpid(), []))
            for pid in found:
                found += children.get(pid, [])
                self._ticks[pid] = ticks[pid]
            self._own = time.thread_time()


def corpus_in(folder: Path) -> CorpusFiles:
    """The synthetic corpus."""
    return CorpusFiles(src=folder / "text.src", tgt=folder / "text.tgt")


def main() -> None:
    """Compare the ways."""
    parser = argparse.ArgumentParser()
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--pairs", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--share", type=Share.parse)
    parser.add_argument("--ways", default="loop,one,two,shares,ray")
    args = parser.parse_args()
    if args.share is not None:
        folder, output = args.paths
        as_job(corpus_in(folder), output, InProcess(), args.share)
        return
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_corpus(folder, "text", args.pairs, seed=1)
        corpus = corpus_in(folder)
        ways: dict[str, Callable[[Path], None]] = {
            "loop": functools.partial(in_a_loop, corpus),
            "one": lambda output: as_job(corpus, output, InProcess()),
            "two": lambda output: as_job(corpus, output, Processes(2)),
            "shares": lambda output: in_shares(folder, output),
            "ray": lambda output: as_job(corpus, output, OnRay(None, 2)),
        }
        seconds: dict[str, list[float]] = {way: [] for way in args.ways.split(",")}
        cpu: dict[str, list[float]] = {way: [] for way in seconds}
        checksums = set()
        for _ in range(args.rounds):
            for way, times in seconds.items():
                output = folder / "output"
                begin = time.perf_counter()
                with CpuTime() as used:
                    ways[way](output)
                times.append(time.perf_counter() - begin)
                cpu[way].append(used.seconds)
                checksums.add(sha256_file(output))
                output.unlink()
        assert len(checksums) == 1, checksums
        base = statistics.median(next(iter(seconds.values())))
        for way, times in seconds.items():
            median = statistics.median(times)
            spread = f"{min(times):.1f} to {max(times):.1f}"
            print(
                f"{way:7} {median:7.2f} s ({spread}) {args.pairs / median:9,.0f} pairs/s {median / base:.2f} of the "
                f"first; CPU {statistics.median(cpu[way]):.2f} s"
            )
        print(f"all outputs: sha256 {checksums.pop()[:16]}...")


if __name__ == "__main__":
    main()

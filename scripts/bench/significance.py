"""Measure how often tests call equal systems different, and how often they see a true difference.

    python scripts/bench/significance.py --src dev.en --ref dev.pt --system dev.en-pt.output

Equal systems are copies of the system's output that each lose a tenth of their words at random; a worse one loses more.
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mtkit.console import progress_bar, set_up_logging
from mtkit.evaluation.comparison.comparison import SortedTestSet, compare
from mtkit.evaluation.comparison.features import find_features
from mtkit.evaluation.comparison.systems import System
from mtkit.evaluation.metrics.buckets import PART_METRICS
from mtkit.evaluation.metrics.scores import DEFAULTS
from mtkit.evaluation.metrics.significance import (
    LEVEL,
    Chance,
    PairedDifference,
    paired_differences,
    sacrebleu_p_bootstrap,
)
from mtkit.evaluation.metrics.statistics import Statistics, extract
from mtkit.evaluation.metrics.sums import scores_of_sums
from mtkit.pair_files.lines import read_lines

TESTS: dict[str, Callable[[PairedDifference], float | None]] = {
    "mtkit": lambda one: one.p,
    "sacreBLEU's bootstrap": lambda one: one.sacrebleu_p_bootstrap,
    "sacreBLEU's randomization": lambda one: one.sacrebleu_p_randomization,
}
N_EQUAL = 12  # copies, of which any two are a pair
Counted = Sequence[list[Statistics]]


def main() -> None:
    """Print the tables."""
    args = arguments()
    set_up_logging(quiet=False)
    src, ref, output = [list(read_lines(path)) for path in (args.src, args.ref, args.system)]
    rng = np.random.default_rng(args.seed)
    equal = [with_less(output, 0.1, rng) for _ in range(N_EQUAL)]
    worse = [with_less(output, args.worse, rng) for _ in range(N_EQUAL)]
    if args.sizes:
        counted = extract([*equal, *worse], [ref], PART_METRICS, DEFAULTS)
        copies = counted[:N_EQUAL]
        print(f"| sentences | systems | metric | {' | '.join(TESTS)} |\n|-|-|-|{'-|' * len(TESTS)}")
        for n in args.sizes:
            for name, n_pairs, others in (
                ("equal", args.pairs, copies),
                ("unequal", args.pairs // 4, counted[N_EQUAL:]),
            ):
                found = rates(copies, others, n, n_pairs, rng)
                for metric in PART_METRICS:
                    print(f"| {n:,} | {name} | {metric} | {' | '.join(found[metric])} |", flush=True)
    if args.pages:
        print(pages(equal, src, ref, args, rng))


def arguments() -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--ref", type=Path, required=True)
    parser.add_argument("--system", type=Path, required=True, help="translations of src")
    parser.add_argument("--src-lang", default="en")
    parser.add_argument("--worse", type=float, default=0.13, help="share of words that a worse system loses")
    parser.add_argument("--sizes", type=int, nargs="*", default=[30, 60, 120, 500], help="sentences of a test set")
    parser.add_argument("--pairs", type=int, default=2000, help="pairs of equal systems for each size")
    parser.add_argument("--pages", type=int, default=200, help="whole comparisons of equal systems")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def with_less(lines: Sequence[str], share: float, rng: np.random.Generator) -> list[str]:
    """Return the lines without this share of their words."""
    return [" ".join(word for word in line.split() if rng.random() >= share) for line in lines]


def rates(systems: Counted, others: Counted, n: int, n_pairs: int, rng: np.random.Generator) -> dict[str, list[str]]:
    """Return by metric, for each test, how often its p is below the level, on random test sets of n sentences."""
    n_small = {metric: Counter[str]() for metric in PART_METRICS}
    with progress_bar(n_pairs, f"{n} sentences", "pair") as bar:
        for _ in range(n_pairs):
            first, second = rng.choice(N_EQUAL, size=2, replace=False)
            chosen = rng.choice(len(systems[0][0].rows), size=n, replace=False).tolist()
            pair = [part(systems[first], chosen), part(others[second], chosen)]
            [differences] = paired_differences(pair, Chance(2, 1000, int(rng.integers(2**31))))
            for metric, difference, gains in zip(PART_METRICS, differences, bootstrap_gains(pair, rng), strict=True):
                theirs = sacrebleu_p_bootstrap(gains, difference.difference)
                difference = replace(difference, sacrebleu_p_bootstrap=theirs)
                n_small[metric].update(name for name in TESTS if is_small(difference, name))
            bar.update()
    return {metric: [share(n_small[metric][name], n_pairs) for name in TESTS] for metric in PART_METRICS}


def bootstrap_gains(pair: Counted, rng: np.random.Generator) -> list[NDArray[np.float64]]:
    """Return the differences of the two systems, by metric, on 1,000 test sets drawn with replacement, all at once."""
    n = len(pair[0][0].rows)
    times = rng.multinomial(n, [1 / n] * n, size=1000).astype(np.float64)  # how often each sentence is drawn
    return [
        scores_of_sums(b.name, times @ np.array(b.rows)) - scores_of_sums(a.name, times @ np.array(a.rows))
        for a, b in zip(*pair, strict=True)
    ]


def is_small(difference: PairedDifference, test: str) -> bool:
    """Return whether this test calls the difference significant."""
    p = TESTS[test](difference)
    return p is not None and p < LEVEL and difference.difference != 0


def part(statistics: Sequence[Statistics], chosen: Sequence[int]) -> list[Statistics]:
    """Return the counts of the chosen sentences."""
    return [Statistics(one.name, one.metric, [one.rows[i] for i in chosen]) for one in statistics]


def share(n: int, of: int) -> str:
    """Return a share in per cent with two standard errors."""
    rate = n / of
    return f"{100 * rate:.1f} ± {200 * (rate * (1 - rate) / of) ** 0.5:.1f} %"


def pages(
    equal: Sequence[list[str]], src: list[str], ref: list[str], args: argparse.Namespace, rng: np.random.Generator
) -> str:
    """Return in what share of whole comparisons of equal systems any bucket is called significant."""
    test_set = SortedTestSet(src, [ref], find_features(src, [ref], src_lang=args.src_lang))
    n_any: Counter[str] = Counter()
    n_tests = 0
    for _ in range(args.pages):
        texts = [equal[i] for i in rng.choice(N_EQUAL, size=2, replace=False)]
        swap = rng.integers(2, size=len(ref))  # so that no two pages have the same pair of systems
        mixed = [[pair[k ^ s] for pair, s in zip(zip(*texts, strict=True), swap, strict=True)] for k in (0, 1)]
        chance = Chance(2, 1000, int(rng.integers(2**31)))
        found = compare([System("a", mixed[0]), System("b", mixed[1])], test_set, chance=chance)
        buckets = [bucket for feature in found.features if len(feature.buckets) > 1 for bucket in feature.buckets]
        tests = [one for bucket in buckets for by in bucket.differences for one in by.values() if one.p is not None]
        n_tests = len(tests)
        n_any.update(["corrected"] if any(one.is_sure for one in tests) else [])
        n_any.update(["uncorrected"] if any(is_small(one, "mtkit") for one in tests) else [])
    rows = {name: share(n_any[name], args.pages) for name in ("corrected", "uncorrected")}
    return json.dumps({f"pages with a star in any of {n_tests} tests": rows}, indent=2, ensure_ascii=False)


if __name__ == "__main__":
    main()

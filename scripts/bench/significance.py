"""Measure how often tests call equal systems different, and how often they see a true difference.

    python scripts/bench/significance.py --src test.en --ref test.fr --equal sample1.fr sample2.fr --unequal a.fr b.fr

equal: two outputs of one model, by sampling with two seeds. Each null pair of systems exchanges a random half of their
sentences. unequal: a system and a better one. The outputs of other systems serve as well.
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from mtkit.console import progress_bar, set_up_logging
from mtkit.data.corpus import read_lines
from mtkit.evaluation.comparison.comparison import SortedTestSet, compare
from mtkit.evaluation.comparison.features import find_features
from mtkit.evaluation.comparison.systems import System
from mtkit.evaluation.metrics.buckets import PART_METRICS
from mtkit.evaluation.metrics.scores import DEFAULTS
from mtkit.evaluation.metrics.significance import LEVEL, Chance, PairedDifference, paired_differences
from mtkit.evaluation.metrics.statistics import Statistics, extract

TESTS: dict[str, Callable[[PairedDifference], float]] = {
    "mtkit": lambda one: one.p or 1,
    "sacreBLEU's bootstrap": lambda one: one.sacrebleu_p_bootstrap or 1,
    "sacreBLEU's randomization": lambda one: one.sacrebleu_p_randomization or 1,
}
Texts = Sequence[list[str]]


def main() -> None:
    """Print the tables."""
    args = arguments()
    set_up_logging(quiet=False)
    src, ref, *texts = [list(read_lines(path)) for path in (args.src, args.ref, *args.equal, *args.unequal)]
    equal, unequal = texts[:2], texts[2:]
    rng = np.random.default_rng(args.seed)
    print(f"Share of p < {LEVEL} in {args.pairs:,} pairs of each kind; +- is two standard errors\n")
    print(f"| sentences | systems | metric | {' | '.join(TESTS)} |\n|-|-|-|{'-|' * len(TESTS)}")
    for n in args.sizes:
        for name, systems, are_exchanged in (
            ("equal: two samples of a model", equal, False),
            ("equal: exchanged at random", equal, True),
            ("unequal", unequal, False),
        ):
            found = rates(systems, ref, n, args, rng, exchange=are_exchanged)
            for metric in PART_METRICS:
                print(f"| {n:,} | {name} | {metric} | {' | '.join(found[metric])} |", flush=True)
    print(f"\n{pages(equal, src, ref, args, rng)}")


def arguments() -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--ref", type=Path, required=True)
    parser.add_argument("--equal", type=Path, nargs=2, required=True)
    parser.add_argument("--unequal", type=Path, nargs=2, required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=[30, 60, 120, 500])
    parser.add_argument("--pairs", type=int, default=2000, help="pairs of systems for each size")
    parser.add_argument("--pages", type=int, default=200, help="whole comparisons of equal systems")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def rates(
    systems: Texts, ref: list[str], n: int, args: argparse.Namespace, rng: np.random.Generator, *, exchange: bool
) -> dict[str, list[str]]:
    """Return by metric, for each test, in what share of random subsets of n sentences its p is below the level."""
    ours, theirs = extract(systems, [ref], PART_METRICS, DEFAULTS)
    n_small = {metric: Counter[str]() for metric in PART_METRICS}
    with progress_bar(args.pairs, f"{n} sentences", "pair") as bar:
        for _ in range(args.pairs):
            chosen = rng.choice(len(ref), size=n, replace=False)
            swap = rng.integers(2, size=n, dtype=bool) if exchange else np.zeros(n, dtype=bool)
            pair = [part(ours, theirs, chosen, swap), part(theirs, ours, chosen, swap)]
            [differences] = paired_differences(pair, Chance(1000, 2000, int(rng.integers(2**31))))
            for metric, difference in zip(PART_METRICS, differences, strict=True):
                small = [name for name, p in TESTS.items() if difference.difference and p(difference) < LEVEL]
                n_small[metric].update(small)
            bar.update()
    return {metric: [share(n_small[metric][name], args.pairs) for name in TESTS] for metric in PART_METRICS}


def part(
    ours: Sequence[Statistics], theirs: Sequence[Statistics], chosen: np.ndarray, swap: np.ndarray
) -> list[Statistics]:
    """Return the counts of the chosen sentences, those to swap from the other system."""
    return [
        Statistics(a.name, a.metric, [(b if swapped else a).rows[i] for i, swapped in zip(chosen, swap, strict=True)])
        for a, b in zip(ours, theirs, strict=True)
    ]


def share(n: int, of: int) -> str:
    """Return a share in per cent with two standard errors."""
    rate = n / of
    return f"{100 * rate:.1f} +- {200 * (rate * (1 - rate) / of) ** 0.5:.1f} %"


def pages(systems: Texts, src: list[str], ref: list[str], args: argparse.Namespace, rng: np.random.Generator) -> str:
    """Return in what share of whole comparisons of equal systems any bucket is called significant."""
    test_set = SortedTestSet(src, [ref], find_features(src, [ref], src_lang=args.src.name.split(".")[-1]))
    n_any: Counter[str] = Counter()
    for _ in range(args.pages):
        swap = rng.integers(2, size=len(ref))
        texts = [[pair[k ^ s] for pair, s in zip(zip(*systems, strict=True), swap, strict=True)] for k in (0, 1)]
        chance = Chance(1000, 2000, int(rng.integers(2**31)))
        found = compare([System("a", texts[0]), System("b", texts[1])], test_set, chance=chance)
        buckets = [bucket for feature in found.features if len(feature.buckets) > 1 for bucket in feature.buckets]
        tests = [one for bucket in buckets for by in bucket.differences for one in by.values() if one.p is not None]
        n_any.update({"Holm": any(one.is_sure for one in tests)})
        n_any.update({name: any(p(one) < LEVEL and one.difference for one in tests) for name, p in TESTS.items()})
    columns = {f"any of {len(tests)} tests in buckets, corrected (Holm)": "Holm", **{name: name for name in TESTS}}
    return json.dumps({name: share(n_any[key], args.pages) for name, key in columns.items()}, indent=2)


if __name__ == "__main__":
    main()

"""Plant near duplicates in a corpus, and measure how many mtkit or rensa finds, how fast, in how much memory."""

import argparse
import gzip
import json
import random
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from mtkit.corpora.cleaning.near_duplicates import MOST_PAIRS, find_repeats, sketch
from mtkit.pair_files.lines import windows
from mtkit.text.near_texts import loose_keys, squeezed

Pair = tuple[str, str]


def typo(text: str, rng: random.Random) -> str:
    """Swap, drop, double or replace one letter."""
    i = rng.randrange(len(text))
    return rng.choice(
        [
            text[:i] + text[i + 1 : i + 2] + text[i : i + 1] + text[i + 2 :],
            text[:i] + text[i + 1 :],
            text[: i + 1] + text[i:],
            text[:i] + rng.choice("aeinst") + text[i + 1 :],
        ]
    )


def _numbered(pair: Pair, rng: random.Random, low: int) -> Pair:
    number = rng.randrange(low, 10 * low)
    return f"{number} {pair[0]}", f"{number} {pair[1]}"


PLANTS: dict[str, Callable[[Pair, random.Random], Pair]] = {
    "case": lambda pair, rng: (pair[0].upper(), pair[1].lower()),
    "punctuation": lambda pair, rng: (f"\u201c{pair[0]}\u201d", f"- {pair[1]} \u2026"),
    "a number changed": lambda pair, rng: _numbered(pair, rng, 1000),
    "a typo on one side": lambda pair, rng: (typo(pair[0], rng), pair[1]),
    "a typo on each side": lambda pair, rng: (typo(pair[0], rng), typo(pair[1], rng)),
    "three typos on each side": lambda pair, rng: (
        typo(typo(typo(pair[0], rng), rng), rng),
        typo(typo(typo(pair[1], rng), rng), rng),
    ),
    "a prefix": lambda pair, rng: (f"Note: {pair[0]}", f"Hinweis: {pair[1]}"),
    "a suffix": lambda pair, rng: (f"{pair[0]} (continued)", f"{pair[1]} (Fortsetzung)"),
}


def main() -> None:
    """Print recall by kind, precision, pairs a second and the peak of memory as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("src", type=Path)
    parser.add_argument("tgt", type=Path)
    parser.add_argument("--pairs", type=int, default=100_000, help="read at most so many pairs")
    parser.add_argument("--plant", type=int, default=1000, help="near duplicates of each kind")
    parser.add_argument("--system", choices=["mtkit", "rensa"], default="mtkit")
    parser.add_argument("--speed", type=int, default=0, help="instead: sketch so many pairs (repeating the text)")
    args = parser.parse_args()
    pairs = list(zip(_lines(args.src, args.pairs), _lines(args.tgt, args.pairs), strict=True))
    print(json.dumps(_speed(pairs, args.speed) if args.speed else _quality(pairs, args.plant, args.system), indent=1))


def _lines(path: Path, n: int) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        return [line.rstrip("\n") for _, line in zip(range(n), file, strict=False)]


def _quality(pairs: list[Pair], n_planted: int, system: str) -> dict[str, object]:
    """Plant copies of pairs that themselves repeat nothing, and compare what is found with the sets of 4-grams."""
    rng = random.Random(1)
    find = _find_with_mtkit if system == "mtkit" else _find_with_rensa
    before = set(find(pairs))
    originals = [n for n in range(len(pairs)) if n not in before]
    planted: list[tuple[str, int, Pair]] = []
    for kind, change in PLANTS.items():
        planted += [(kind, n, change(_start(kind, pairs[n]), rng)) for n in rng.sample(originals, n_planted)]
    base = [*pairs]
    for kind, n, _ in planted:
        base[n] = _start(kind, base[n])
    started = time.perf_counter()
    found = find([*base, *(pair for _, _, pair in planted)])
    seconds = time.perf_counter() - started
    texts = [*base, *(pair for _, _, pair in planted)]
    recall = {}
    for kind in PLANTS:
        rows = [(len(pairs) + i, _likeness(base[n], pair)) for i, (name, n, pair) in enumerate(planted) if name == kind]
        near = [row in found for row, share in rows if share >= 0.8]
        recall[kind] = {
            "planted": sum(row in found for row, _ in rows) / n_planted,
            "that share 80 %": len(near) / n_planted,
            "of these": round(sum(near) / max(1, len(near)), 4),
        }
    shares = [_likeness(texts[later], texts[earlier]) for later, earlier in found.items()]
    return {
        "pairs": len(texts),
        "recall": recall,
        "found in the corpus itself": sum(later < len(pairs) for later in found),
        "of all found, share that has at least 80 % of 4-grams in common with its earlier pair": _part(shares, 0.8),
        "at least 75 %": _part(shares, 0.75),
        "pairs a second": round(len(texts) / seconds),
        "peak MiB": _peak_mib(),
    }


def _start(kind: str, pair: Pair) -> Pair:
    """Give the original of a changed number a number."""
    return (f"12 {pair[0]}", f"12 {pair[1]}") if kind == "a number changed" else pair


def _part(shares: Sequence[float], least: float) -> float:
    return round(sum(share >= least for share in shares) / max(1, len(shares)), 4)


def _likeness(one: Pair, other: Pair) -> float:
    a, b = _grams(one), _grams(other)
    return len(a & b) / len(a | b)


def _grams(pair: Pair) -> set[str]:
    grams = set()
    for side, key in zip("st", loose_keys([squeezed(text) for text in pair]), strict=True):
        padded = f" {key} "
        grams |= {side + padded[i : i + 4] for i in range(max(1, len(padded) - 3))}
    return grams


def _find_with_mtkit(pairs: list[Pair]) -> dict[int, int]:
    later, earlier = find_repeats(windows(pairs, MOST_PAIRS))
    return dict(zip(later.tolist(), earlier.tolist(), strict=True))


def _find_with_rensa(pairs: list[Pair]) -> dict[int, int]:
    """Find repeats with the same 4-grams, bands and values, verified by the 96 MinHash values (pip install rensa)."""
    from rensa import RMinHash, RMinHashLSH

    lsh, found = RMinHashLSH(threshold=0.8, num_perm=96, num_bands=16), {}
    digests = []
    for n, pair in enumerate(pairs):
        digest = RMinHash(num_perm=96, seed=42)
        digest.update(list(_grams(pair)))
        digests.append(digest)
        near = [m for m in lsh.query(digest) if digest.jaccard(digests[m]) >= 0.8]
        if near:
            found[n] = min(near)
        lsh.insert(n, digest)
    return found


def _speed(pairs: list[Pair], n: int) -> dict[str, object]:
    started, done = time.perf_counter(), 0
    while done < n:
        for window in windows(pairs, MOST_PAIRS):
            sketch(window)
            done += len(window)
    return {"pairs": done, "pairs sketched a second": round(done / (time.perf_counter() - started)), "MiB": _peak_mib()}


def _peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    main()

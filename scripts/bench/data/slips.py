"""Plant slips into line-aligned files and count which `mtkit data doctor` finds, and what its repair is worth.

Each case is a stretch of neighbouring pairs with 1 to 5 slips: lines missing or added on one side, two lines merged, a
block moved, sides swapped. A slip is found if a reported one starts, and one ends, within three lines of it; a run of
equal lines counts as one place, since none of them can be told from the others. A pair is right if the original text
has the two lines as a pair. It is lost if both files have its lines and the repaired ones do not have it. With --noise,
a share of the pairs is spoilt first, by the kinds of noise.py; pairs that stand where they belong are no slips.

    python scripts/bench/data/slips.py TATOEBA_FRA TATOEBA_DEU MULTI30K --cases 200 --clean 20
    python scripts/bench/data/slips.py TATOEBA_FRA TATOEBA_DEU MULTI30K --cases 0 --clean 50 --noise 0.1

The cases can be run in pieces: --first 0 --cases 50, --first 50 --cases 50, and so on.
"""

import argparse
import gzip
import json
import random
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import noise

from mtkit.corpora.alignment.slips import Diagnosis, Slip, diagnose

KINDS = ("missing", "added", "merged", "moved", "swapped")
BLOCKS = (1, 1, 1, 2, 5, 20, 100)  # lines of a slip, by chance
APART = 250  # lines between slips
NEAR = 3


@dataclass(frozen=True)
class Line:
    """A line, and the original lines that it holds."""

    text: str
    origins: tuple[int, ...]


@dataclass
class Case:
    """Two files with planted slips."""

    name: str
    sides: list[list[Line]]
    pairs: list[tuple[str, str]]  # of the original
    good: list[bool]  # whether each of them is without noise
    planted: list[tuple[str, int, list[Line]]] = field(default_factory=list)  # kind, side, lines to look at


@cache
def corpora(folders: tuple[Path, ...]) -> dict[str, tuple[list[str], list[str]]]:
    """Return the training text of each pair of languages in the folders."""
    found = {}
    for folder in folders:
        text = {}
        for path in sorted(folder.glob("train.??.gz")):
            text[path.name.split(".")[1]] = gzip.decompress(path.read_bytes()).decode("utf-8").splitlines()
        languages = sorted(text, key=lambda lang: ("en", "de", "fr").index(lang))
        for i, src in enumerate(languages):
            for tgt in languages[i + 1 :]:
                found[f"{folder.name} {src}-{tgt}"] = text[src], text[tgt]
    return found


def plant(case: Case, rng: random.Random, n_slips: int, pool: tuple[list[str], list[str]]) -> None:
    """Put slips into a case, at places far from each other."""
    n = len(case.sides[0])
    places: list[int] = []
    while len(places) < n_slips:
        place = rng.randrange(5, n - 120)
        if all(abs(place - other) > APART for other in places):
            places.append(place)
    for place in sorted(places, reverse=True):
        kind, side, size = rng.choice(KINDS), rng.randrange(2), rng.choice(BLOCKS)
        mine, theirs = case.sides[side], case.sides[1 - side]
        if kind == "missing":
            case.planted.append((kind, 1 - side, theirs[place : place + size]))
            del mine[place : place + size]
        elif kind == "added":
            start = rng.randrange(len(pool[side]) - size)
            new = [Line(text, ()) for text in pool[side][start : start + size]]
            case.planted.append((kind, side, new))
            mine[place:place] = new
        elif kind == "merged":
            one, two = mine[place : place + 2]
            mine[place : place + 2] = [Line(f"{one.text} {two.text}", one.origins + two.origins)]
            case.planted.append((kind, side, mine[place : place + 1]))
        elif kind == "moved":
            size = max(3, size)
            block = mine[place : place + size]
            del mine[place : place + size]
            goal = (
                place + rng.randrange(size + 5, min(n, len(mine)) - place)
                if len(mine) - place > size + 10
                else place - 2 * size
            )
            goal = max(0, goal)
            mine[goal:goal] = block
            case.planted.append((kind, side, block))
        else:
            span = slice(place, place + size)
            mine[span], theirs[span] = theirs[span], mine[span]
            case.planted.append((kind, side, mine[span]))


def make_case(number: int, options: argparse.Namespace) -> Case:
    """Return a stretch of a corpus with slips, and noise if the options say so."""
    rng = random.Random(f"{options.seed} {number}")
    text = corpora(tuple(options.folders))
    name = list(text)[number % len(text)]
    n_slips = rng.randint(1, 5) if number < options.first + options.cases else 0
    src, tgt = text[name]
    start = rng.randrange(len(src) - options.lines)
    end = start + options.lines
    pairs = list(zip(src[start:end], tgt[start:end], strict=True))
    kinds = [""] * len(pairs)
    if options.noise:
        spoilt = list(noise.plant(pairs, options.noise, number, options.kinds))
        pairs, kinds = [(a, b) for a, b, _ in spoilt], [kind for _, _, kind in spoilt]
    sides = [[Line(text, (i,)) for i, text in enumerate(side)] for side in zip(*pairs, strict=True)]
    case = Case(name, sides, pairs, [not kind for kind in kinds])
    plant(case, rng, n_slips, (src[:start] + src[end:], tgt[:start] + tgt[end:]))
    return case


def expected(case: Case, side: int, lines: list[Line]) -> tuple[range, range]:
    """Return where a report of these lines may start and end, in lines of their side."""
    index = {id(line): place for place, line in enumerate(case.sides[side])}
    first, last = index[id(lines[0])], index[id(lines[-1])] + 1
    return _place(case, side, first), _place(case, side, last)


def _place(case: Case, side: int, place: int) -> range:
    """Return the lines near a place; lines that equal their neighbour, on either side of the corpus, count as one."""
    text = [line.text for line in case.sides[side]]
    low, high = place, place
    while low > 0 and low < len(text) and text[low] == text[low - 1]:
        low -= 1
    while 0 < high < len(text) and text[high] == text[high - 1]:
        high += 1
    return range(low - NEAR, high + NEAR + 1)


def judge(case: Case, diagnosis: Diagnosis) -> dict[str, object]:
    """Return how many slips were found, and which; false alarms; right pairs."""
    spans = [[slip.src, slip.tgt] for slip in diagnosis.slips]
    explained = [False] * len(spans)
    missed, found, same_kind = [], Counter[str](), 0
    for kind, side, lines in case.planted:
        starts, ends = expected(case, side, lines)
        # a swapped or moved block may be described from the other side's place, so look at both
        starting = [k for k, span in enumerate(spans) if span[side][0] in starts]
        ending = [k for k, span in enumerate(spans) if span[side][1] in ends]
        for k, span in enumerate(spans):
            explained[k] |= any(span[side][e] in near for e in (0, 1) for near in (starts, ends))
            explained[k] |= starts.start <= span[side][0] and span[side][1] <= ends.stop
        if starting and ending:
            found[kind] += 1
            names = {"added": "missing"}
            same_kind += any(diagnosis.slips[k].kind == names.get(kind, kind) for k in starting)
        else:
            missed.append((kind, side, len(lines), starts.start + NEAR))
    for k, slip in enumerate(diagnosis.slips):  # where a moved block was before, lines are missing or the rest follows
        explained[k] |= any(_touches(case, slip, side, lines) for _, side, lines in case.planted)
    right = covered = 0
    originals, kept = set(case.pairs), Counter[tuple[str, str]]()
    for (a, b), (c, d), turned in zip(
        diagnosis.pairs.src.tolist(), diagnosis.pairs.tgt.tolist(), diagnosis.swapped.tolist(), strict=True
    ):
        src, tgt = case.sides[0][a:b], case.sides[1][c:d]
        origins = [[o for line in lines for o in line.origins] for lines in (src, tgt)]
        one, two = (" ".join(line.text for line in lines) for lines in ((tgt, src) if turned else (src, tgt)))
        right += (bool(origins[0]) and origins[0] == origins[1]) or (one, two) in originals
        covered += 1
        kept[one, two] += 1
    return {
        "planted": len(case.planted),
        "found": sum(found.values()),
        "same_kind": same_kind,
        "missed": missed,
        "false_alarms": [
            (slip.kind, slip.src, slip.tgt) for slip, ok in zip(diagnosis.slips, explained, strict=True) if not ok
        ],
        "pairs": covered,
        "right": right,
        "lost": (_good_pairs(case) - kept).total(),
    }


def _good_pairs(case: Case) -> Counter[tuple[str, str]]:
    """Return the pairs without noise that have a line of their own in both files."""
    alone = [{line.origins[0] for line in side if len(line.origins) == 1} for side in case.sides]
    return Counter(case.pairs[index] for index in alone[0] & alone[1] if case.good[index])


def _touches(case: Case, slip: Slip, side: int, lines: list[Line]) -> bool:
    """Return whether a slip is about where the partners of planted lines stand."""
    origins = {o for line in lines for o in line.origins}
    partners = [k for k, line in enumerate(case.sides[1 - side]) if origins & set(line.origins)]
    if not partners:
        return False
    span = (slip.src, slip.tgt)[1 - side]
    return any(min(partners) - NEAR <= edge <= max(partners) + 1 + NEAR for edge in span)


def run_case(number: int, options: argparse.Namespace) -> tuple[str, dict[str, object]]:
    """Return the corpus of a case and how mtkit did; print what was missed."""
    case = make_case(number, options)
    started = time.perf_counter()
    src, tgt = ([line.text for line in side] for side in case.sides)
    result = judge(case, diagnose(src, tgt))
    seconds = time.perf_counter() - started
    if options.verbose or result["missed"] or result["false_alarms"]:
        print(number, case.name, f"{seconds:.1f} s", json.dumps(result), file=sys.stderr, flush=True)
    return case.name, result


def main() -> None:
    """Print a row for each corpus; with --verbose also each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="number of the first case, to run them in parts")
    parser.add_argument("--clean", type=int, default=0, help="further cases without slips")
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--noise", type=float, default=0.0, help="share of the pairs to spoil")
    parser.add_argument("--kinds", nargs="+", choices=noise.KINDS, default=list(noise.KINDS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    totals: dict[str, Counter[str]] = {name: Counter() for name in [*corpora(tuple(options.folders)), "all"]}
    numbers = range(options.first, options.first + options.cases + options.clean)
    with ProcessPoolExecutor(options.workers) as pool:
        for name, result in pool.map(run_case, numbers, [options] * len(numbers)):
            alarms = result["false_alarms"]
            assert isinstance(alarms, list)
            for row in (name, "all"):
                totals[row].update({k: v for k, v in result.items() if isinstance(v, int)})
                totals[row].update(cases=1, alarms=len(alarms))
                totals[row]["not 99 %"] += result["right"] < 0.99 * result["pairs"]  # type: ignore[operator]
    print("corpus | cases | slips | found | of their kind | false alarms | right pairs | of | cases below 99 % | lost")
    for row, t in totals.items():
        columns = ("cases", "planted", "found", "same_kind", "alarms", "right", "pairs", "not 99 %", "lost")
        print(row, *(t[column] for column in columns), sep=" | ")


if __name__ == "__main__":
    main()

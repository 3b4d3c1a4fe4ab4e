"""Plant slips into line-aligned files and count which `mtkit data doctor` finds, and what its repair is worth.

Each case is a stretch of neighbouring pairs with 1 to 5 slips: lines missing or added on one side, two lines merged, a
block moved, sides swapped. A slip is found if a reported one starts, and one ends, within three lines of it; a run of
equal lines counts as one place, since none of them can be told from the others. A pair is right if the original text
has the two lines as a pair.

    python scripts/bench/data/slips.py TATOEBA_FRA TATOEBA_DEU MULTI30K --cases 200 --seed 1
"""

import argparse
import gzip
import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from mtkit.corpora.slips import Diagnosis, Slip, diagnose

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
    pairs: set[tuple[str, str]]  # of the original
    planted: list[tuple[str, int, list[Line]]] = field(default_factory=list)  # kind, side, lines to look at


def corpora(folders: list[Path]) -> dict[str, tuple[list[str], list[str]]]:
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


def make_case(name: str, text: tuple[list[str], list[str]], n_lines: int, rng: random.Random, n_slips: int) -> Case:
    """Return a stretch of a corpus with slips."""
    start = rng.randrange(len(text[0]) - n_lines)
    stretch = [[Line(t, (i,)) for i, t in enumerate(side[start : start + n_lines])] for side in text]
    case = Case(name, stretch, {(a.text, b.text) for a, b in zip(*stretch, strict=True)})
    pool = tuple(side[:start] + side[start + n_lines :] for side in text)
    plant(case, rng, n_slips, (pool[0], pool[1]))
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
    for (a, b), (c, d), turned in zip(
        diagnosis.pairs.src.tolist(), diagnosis.pairs.tgt.tolist(), diagnosis.swapped.tolist(), strict=True
    ):
        src, tgt = case.sides[0][a:b], case.sides[1][c:d]
        origins = [[o for line in lines for o in line.origins] for lines in (src, tgt)]
        texts = [" ".join(line.text for line in lines) for lines in (src, tgt)]
        texts = texts[::-1] if turned else texts
        right += (bool(origins[0]) and origins[0] == origins[1]) or (texts[0], texts[1]) in case.pairs
        covered += 1
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
        "share": 1 - len(diagnosis.unplaced()[0]) / max(1, diagnosis.n_src),
    }


def _touches(case: Case, slip: Slip, side: int, lines: list[Line]) -> bool:
    """Return whether a slip is about where the partners of planted lines stand."""
    origins = {o for line in lines for o in line.origins}
    partners = [k for k, line in enumerate(case.sides[1 - side]) if origins & set(line.origins)]
    if not partners:
        return False
    span = (slip.src, slip.tgt)[1 - side]
    return any(min(partners) - NEAR <= edge <= max(partners) + 1 + NEAR for edge in span)


def main() -> None:
    """Print a row for each corpus; with --verbose also each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="number of the first case, to run them in parts")
    parser.add_argument("--clean", type=int, default=0, help="further cases without slips")
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    text = corpora(args.folders)
    totals: dict[str, Counter[str]] = {name: Counter() for name in [*text, "all"]}
    for number in range(args.first, args.first + args.cases + args.clean):
        rng = random.Random(f"{args.seed} {number}")
        name = list(text)[number % len(text)]
        case = make_case(
            name, text[name], args.lines, rng, rng.randint(1, 5) if number < args.first + args.cases else 0
        )
        started = time.perf_counter()
        src, tgt = ([line.text for line in side] for side in case.sides)
        result = judge(case, diagnose(src, tgt))
        seconds = time.perf_counter() - started
        if args.verbose or result["missed"] or result["false_alarms"]:
            print(number, name, f"{seconds:.1f} s", json.dumps(result), file=sys.stderr, flush=True)
        for row in (name, "all"):
            alarms = result["false_alarms"]
            assert isinstance(alarms, list)
            totals[row].update({k: v for k, v in result.items() if isinstance(v, int)})
            totals[row].update(cases=1, alarms=len(alarms), worst=0)
            totals[row]["not 99 %"] += result["right"] < 0.99 * result["pairs"]  # type: ignore[operator]
    print("corpus | cases | slips | found | of their kind | false alarms | right pairs | cases below 99 %")
    for row, t in totals.items():
        share = f"{100 * t['right'] / max(1, t['pairs']):.3f} %"
        print(row, t["cases"], t["planted"], t["found"], t["same_kind"], t["alarms"], share, t["not 99 %"], sep=" | ")


if __name__ == "__main__":
    main()

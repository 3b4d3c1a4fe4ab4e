"""Clean synthetic pairs, duplicates among them, and report the most memory that all processes hold together.

    .venv/bin/python scripts/bench/data/clean_memory.py --pairs 20_000_000 --work build/clean-memory

One pair in ten repeats an earlier one. Memory is the sum of the processes' pages, shared ones divided by their
users (PSS in /proc), looked at twice a second.
"""

import argparse
import json
import random
import subprocess
import sys
import time
from pathlib import Path

EN = [
    "the",
    "my",
    "your",
    "old",
    "new",
    "red",
    "big",
    "house",
    "car",
    "dog",
    "cat",
    "man",
    "tree",
    "book",
    "sees",
    "likes",
]
DE = [
    "das",
    "mein",
    "dein",
    "alt",
    "neu",
    "rot",
    "groß",
    "Haus",
    "Auto",
    "Hund",
    "Katze",
    "Mann",
    "Baum",
    "Buch",
    "mag",
]
_PIECE = 100_000  # pairs


def generate(folder: Path, n: int) -> tuple[Path, Path]:
    """Write n pairs of 6 to 20 words; every tenth pair is one of the earlier ones."""
    rng = random.Random(1)
    paths = folder / "all.en", folder / "all.de"
    kept: list[tuple[str, str]] = []
    with paths[0].open("w") as src, paths[1].open("w") as tgt:
        for _ in range(0, n, _PIECE):
            pairs = []
            for i in range(_PIECE):
                if kept and i % 10 == 9:
                    pairs.append(rng.choice(kept))
                    continue
                length = rng.randint(6, 20)
                number = rng.randint(100, 10**9)
                src_text, tgt_text = (" ".join([*rng.choices(words, k=length), str(number)]) for words in (EN, DE))
                pairs.append((src_text, tgt_text))
            kept = kept[-_PIECE:] + pairs[::20]
            src.writelines(f"{pair[0]}\n" for pair in pairs)
            tgt.writelines(f"{pair[1]}\n" for pair in pairs)
    return paths


def pss_of_tree(pid: int) -> int:
    """Return the bytes that a process and its children hold."""
    total, waiting = 0, [pid]
    while waiting:
        current = waiting.pop()
        try:
            for line in Path(f"/proc/{current}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += 1024 * int(line.split()[1])
            for task in Path(f"/proc/{current}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return total


def main() -> None:
    """Generate, clean, watch, and print one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--work", type=Path, required=True, help="folder for the text")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--set", action="append", default=[], help="passed on, such as clean.near_duplicates=true")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    paths = generate(args.work, args.pairs)
    outputs = [str(args.work / f"clean.{lang}") for lang in ("en", "de")]
    command = [sys.executable, "-m", "mtkit", "data", "clean", *map(str, paths), "-o", outputs[0], "-o", outputs[1]]
    options = [part for text in args.set for part in ("--set", text)]
    started, most = time.monotonic(), 0
    with subprocess.Popen(
        [*command, "--json", "--restart", "--workers", str(args.workers), *options], stdout=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None:
            most = max(most, pss_of_tree(process.pid))
            time.sleep(0.5)
        assert process.stdout is not None
        result = json.loads(process.stdout.read())
    seconds = time.monotonic() - started
    print(f"{result['n_pairs']:,} pairs, {result['n_kept']:,} kept, {result['dropped']}")
    print(
        f"{seconds:.0f} s, {result['n_pairs'] / seconds:,.0f} pairs/s; at most {most / 2**20:,.0f} MiB in all processes"
    )


if __name__ == "__main__":
    main()

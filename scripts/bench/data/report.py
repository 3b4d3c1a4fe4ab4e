"""Report on synthetic pairs with `mtkit data report`, and print its time, CPU time and memory.

    .venv/bin/python scripts/bench/data/report.py --pairs 10_000_000 --work build/report

The pairs are those of clean_memory.py. Memory is the most that the process holds.
"""

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

from clean_memory import generate


def main() -> None:
    """Generate, report, and print one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--work", type=Path, required=True, help="folder for the text and the page")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    paths = generate(args.work, args.pairs)
    command = [sys.executable, "-m", "mtkit", "data", "report", *map(str, paths), "-o", str(args.work / "report.html")]
    started = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    seconds, used = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{args.pairs:,} pairs: {seconds:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of CPU time, "
        f"{args.pairs / seconds:,.0f} pairs/s, {used.ru_maxrss / 1024:,.0f} MiB"
    )


if __name__ == "__main__":
    main()

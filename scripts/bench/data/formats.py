"""Measure how many pairs a second each reader of parallel text reads, and the peak memory of its process.

    .venv/bin/python scripts/bench/data/formats.py --work build/formats --pairs 1000000

writes made-up pairs in every format into the work folder (what is there is used again), reads each file in a process
of its own, and prints a line for each: its size, pairs a second, and the process' peak memory (Linux only), also
beyond that of one which reads ten pairs. XLIFF and PO are written here; mtkit writes the other formats itself.
"""

import argparse
import random
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

from mtkit.pair_files.compression import open_output
from mtkit.pair_files.corpus_files import read_one_file, writing

LANGS = "en", "de"
WRITTEN = ("p.tsv", "p.csv", "p.jsonl", "p.tmx", "p.tsv.gz", "p.tsv.zst", "p.tmx.gz")
READ = """
import re, sys, time
from pathlib import Path
from mtkit.pair_files.corpus_files import read_one_file, read_two_files
from mtkit.pair_files.pairs import Tally
path = Path(sys.argv[1])
begin = time.perf_counter()
two = path, path.with_suffix(".de"), Tally()
pairs = read_two_files(*two) if path.suffix == ".en" else read_one_file(path, ("en", "de"))
n = sum(1 for _ in pairs)
seconds = time.perf_counter() - begin
print(n, seconds, int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024)
"""


def made_up(n: int) -> Iterator[tuple[str, str]]:
    """Yield pairs of 5 to 25 words."""
    rng = random.Random(1)
    words = ["".join(rng.choices("aeiounrstlmdäöü", k=rng.randint(2, 9))) for _ in range(5000)]
    for i in range(n):
        src, tgt = (" ".join(rng.choices(words, k=rng.randint(5, 25))) for _ in range(2))
        yield f"{src} {i} & more.", f"{tgt} {i} & mehr."


def pairs_of(folder: Path, n: int) -> Iterator[tuple[str, str]]:
    """Yield the pairs of the TSV once it is there, which takes less time than to make them up again."""
    table = folder / WRITTEN[0]
    return ((pair.src, pair.tgt) for pair in read_one_file(table, None)) if table.exists() else made_up(n)


def write_all(folder: Path, n: int) -> list[Path]:
    """Write the pairs in every format that is missing; return the files to read."""
    folder.mkdir(parents=True, exist_ok=True)
    for outputs in [*([name] for name in WRITTEN), ["p.en", "p.de"]]:
        if not (folder / outputs[0]).exists():
            with writing([folder / name for name in outputs], LANGS) as write:
                for src, tgt in pairs_of(folder, n):
                    write(src, tgt)
    if not (folder / "p.xlf").exists():
        with open_output(folder / "p.xlf") as file:
            file.write('<xliff version="1.2"><file source-language="en" target-language="de"><body>\n')
            for i, (src, tgt) in enumerate(pairs_of(folder, n)):
                sides = f"<source>{escape(src)}</source>\n<target state='translated'>{escape(tgt)}</target>"
                file.write(f'<trans-unit id="{i}">\n{sides}\n</trans-unit>\n')
            file.write("</body></file></xliff>\n")
    if not (folder / "p.po").exists():
        with open_output(folder / "p.po") as file:
            file.write('msgid ""\nmsgstr "Language: de\\n"\n\n')
            for src, tgt in pairs_of(folder, n):
                file.write(f'#: a.c:1\nmsgid "{src}"\nmsgstr "{tgt}"\n\n')
    if not (folder / "p.zip").exists():
        with zipfile.ZipFile(folder / "p.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for side in LANGS:
                archive.write(folder / f"p.{side}", f"P.en-de.{side}")
    return [folder / name for name in (*WRITTEN, "p.en", "p.xlf", "p.po", "p.zip")]


def measure(path: Path) -> tuple[int, float, float]:
    """Return the number of pairs, the seconds, and the peak memory in MiB of reading a file."""
    done = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True)
    n, seconds, memory = done.stdout.split()
    return int(n), float(seconds), float(memory)


def main() -> None:
    """Write, read and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for the files")
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--prepare", action="store_true", help="only write the files")
    args = parser.parse_args()
    [small, *_] = write_all(args.work / "small", 10)
    files = write_all(args.work / str(args.pairs), args.pairs)
    if args.prepare:
        return
    least = measure(small)[2]
    print(f"{'file':<12}{'MB':>8}{'pairs/s':>12}{'peak MiB':>10}{'beyond 10 pairs':>17}")
    for path in files:
        n, seconds, memory = measure(path)
        if n != args.pairs:
            raise SystemExit(f"{path}: {n:,} pairs instead of {args.pairs:,}")
        size = path.stat().st_size / 1e6
        print(f"{path.name:<12}{size:>8.0f}{n / seconds:>12,.0f}{memory:>10.0f}{memory - least:>17.0f}", flush=True)


if __name__ == "__main__":
    main()

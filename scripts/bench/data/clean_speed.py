"""Compare the speed of `mtkit data clean` with OpusFilter's, with the rules that both have, on the same pairs.

    python3 -m venv build/opusfilter && build/opusfilter/bin/pip install opusfilter 'py3langid<0.4'
    .venv/bin/python scripts/bench/data/clean_speed.py train.en train.de --opusfilter build/opusfilter --work speed

Both read the two plain files, clean spaces, drop pairs that are empty, too long, with words too long, of unlike
lengths, in another script, copied, with other numbers, in another language (both with py3langid, OpusFilter with an
older one of its versions) or repetitive, and write two files, each with two processes. mtkit's other rules are off.
They take turns; the ratio counts.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

_OFF = ("encoding", "urls", "placeholders", "tags", "duplicates")
_OPUSFILTER = """
common: {{output_directory: {work}, default_n_jobs: 2}}
steps:
  - type: preprocess
    parameters:
      inputs: [{src}, {tgt}]
      outputs: [spaced.src, spaced.tgt]
      preprocessors: [{{WhitespaceNormalizer: {{}}}}]
  - type: filter
    parameters:
      inputs: [spaced.src, spaced.tgt]
      outputs: [kept.src, kept.tgt]
      filters:
        - LengthFilter: {{unit: char, min_length: 1, max_length: 1000}}
        - LongWordFilter: {{threshold: 60}}
        - LengthRatioFilter: {{unit: char, threshold: 5}}
        - AlphabetRatioFilter: {{threshold: 0.3}}
        - CharacterScoreFilter: {{scripts: [Latin, Latin], thresholds: [0.6, 0.6]}}
        - LangidFilter: {{languages: [{src_lang}, {tgt_lang}], thresholds: [0, 0]}}
        - SimilarityFilter: {{threshold: 0.9, unit: word}}
        - NonZeroNumeralsFilter: {{threshold: 0.5}}
        - RepetitionFilter: {{}}
"""


def seconds(command: list[str], env: dict[str, str] | None = None) -> float:
    """Run a command and return its wall time."""
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr[-2000:]}")
    return time.monotonic() - started


def main() -> None:
    """Run both in turn and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("src", type=Path)
    parser.add_argument("tgt", type=Path)
    parser.add_argument("--opusfilter", type=Path, required=True, help="its virtual environment")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    src, tgt, work = (path.resolve() for path in (args.src, args.tgt, args.work))
    config = work / "opusfilter.yaml"
    langs = {"src_lang": src.suffix[1:], "tgt_lang": tgt.suffix[1:]}
    config.write_text(_OPUSFILTER.format(work=work, src=src, tgt=tgt, **langs))
    n = sum(1 for _ in src.open("rb"))
    ours = [sys.executable, "-m", "mtkit", "data", "clean", str(src), str(tgt), "--workers", "2", "--restart"]
    ours += ["-o", f"{work}/clean.{langs['src_lang']}", "-o", f"{work}/clean.{langs['tgt_lang']}"]
    ours += ["--set", "clean.repair=[spaces]", *(part for rule in _OFF for part in ("--set", f"clean.{rule}=false"))]
    theirs = [str(args.opusfilter / "bin" / "opusfilter"), str(config), "--overwrite"]
    env = {**os.environ, "PYTHONPATH": ""}
    for number in range(1, args.rounds + 1):
        mine, other = seconds(ours), seconds(theirs, env)
        print(
            f"{number}: mtkit {n / mine:,.0f} pairs/s, OpusFilter {n / other:,.0f} pairs/s, ratio {other / mine:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()

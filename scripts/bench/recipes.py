"""Train recipes for equal minutes, interleaved, with several seeds, and compare their BLEU on dev.

    D=data/tatoeba-en-de; .venv/bin/python scripts/bench/recipes.py --langs de en \\
        --train $D/train.de.gz $D/train.en.gz --dev $D/dev.de.gz $D/dev.en.gz --pairs 5000 10000 \\
        --minutes 6 --seeds 3 --work build/recipes --recipe defaults --recipe wide model.d_model=256 \\
        --recipe pieces tokenizer.src.vocab_size=8000

A recipe is a name and the settings that it adds to the defaults; the first one is the baseline. Run this alone on the
machine: each training has one thread and its own minutes, and those of a seed follow each other. --pairs are drawn at
random from --train, the same ones for all recipes. All of dev is translated at the end. The interval is of the
difference from the baseline over resampled dev sentences, all seeds together; the range is that of the seeds. The
script continues where it was stopped. `scripts/results/rule.tsv` keeps what the defaults rest on.

With --rungs 2 4 6, the recipes but the baseline are thinned by successive halving, with the first seed: all are trained
for 2 minutes, the better half on dev for 4, the better half of these for 6. The table then compares the baseline with
those that are left (of eight, one), after 6 minutes, for all seeds.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from mtkit.console import set_up_logging
from mtkit.evaluation.metrics.scores import corpus_bleu
from mtkit.evaluation.metrics.significance import compare
from mtkit.files import write_text
from mtkit.pair_files.lines import read_lines
from mtkit.translation.translator import Translator


def main() -> None:
    """Train what is missing, seed by seed, and print a table for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--langs", nargs=2, required=True, metavar=("SRC", "TGT"))
    parser.add_argument("--train", nargs=2, type=Path, required=True, metavar=("SRC", "TGT"))
    parser.add_argument("--dev", nargs=2, type=Path, required=True, metavar=("SRC", "TGT"))
    parser.add_argument("--pairs", nargs="+", type=int, required=True)
    parser.add_argument("--minutes", type=int, default=6)
    parser.add_argument("--rungs", type=int, nargs="+", metavar="MINUTES", help="in place of --minutes")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--recipe", nargs="+", action="append", required=True, metavar=("NAME", "KEY=VALUE"))
    arguments = parser.parse_args()
    set_up_logging(quiet=True)
    references = list(read_lines(arguments.dev[1]))
    minutes = arguments.rungs[-1] if arguments.rungs else arguments.minutes
    for n_pairs in arguments.pairs:
        baseline, *recipes = arguments.recipe
        for rung in arguments.rungs or []:
            scores = [corpus_bleu(learn(arguments, n_pairs, rung, 1, recipe), references) for recipe in recipes]
            ranked = sorted(zip(scores, recipes, strict=True), reverse=True)
            table = ", ".join(f"{name} {bleu:.2f}" for bleu, (name, *_) in ranked)
            print(f"{n_pairs:,} pairs, {rung} minutes: {table}", flush=True)
            recipes = [recipe for _, recipe in ranked[: max(1, len(ranked) // 2)]]
        translations: dict[str, list[list[str]]] = {}
        for seed in range(1, arguments.seeds + 1):
            for recipe in [baseline, *recipes]:
                texts = learn(arguments, n_pairs, minutes, seed, recipe)
                translations.setdefault(recipe[0], []).append(texts)
        print(f"{n_pairs:,} pairs, {minutes} minutes, {arguments.seeds} seeds")
        print("\n".join(rows(translations, references)), flush=True)


def learn(arguments: argparse.Namespace, n_pairs: int, minutes: int, seed: int, recipe: Sequence[str]) -> list[str]:
    """Train a recipe and translate dev, or return the translations that the folder of this run has."""
    name, *settings = recipe
    run_dir = arguments.work / f"{n_pairs}-{minutes}m-{name}-{seed}"
    train(run_dir, arguments, draw(arguments.train, n_pairs, arguments.work), minutes, [f"seed={seed}", *settings])
    return translate(run_dir, list(read_lines(arguments.dev[0])))


def draw(files: Sequence[Path], n_pairs: int, work: Path) -> list[Path]:
    """Write this many pairs, drawn at random, and return the two files."""
    outs = [work / f"{n_pairs}.{side}" for side in ("src", "tgt")]
    if not all(out.exists() for out in outs):
        pairs = list(zip(*(read_lines(path) for path in files), strict=True))
        sides = zip(*random.Random(1).sample(pairs, n_pairs), strict=True)
        for out, lines in zip(outs, sides, strict=True):
            write_text(out, "".join(f"{line}\n" for line in lines))
    return outs


def train(
    run_dir: Path, arguments: argparse.Namespace, files: Sequence[Path], minutes: int, settings: Sequence[str]
) -> None:
    """Train a run, unless it has its model."""
    if (run_dir / "model" / "manifest.json").exists():
        return
    src, tgt = (str(path.absolute()) for path in files)
    dev_src, dev_tgt = (str(path.absolute()) for path in arguments.dev)
    config = {
        "run_dir": str(run_dir.absolute()),
        "data": {
            "src_lang": arguments.langs[0],
            "tgt_lang": arguments.langs[1],
            "train": [{"src": src, "tgt": tgt}],
            "dev": {"src": dev_src, "tgt": dev_tgt},
        },
        "train": {"budget": f"{minutes}m", "threads": 1, "device": "cpu"},
    }
    path = run_dir.with_suffix(".yaml")
    write_text(path, json.dumps(config))  # which is YAML, too
    overrides = [part for setting in settings for part in ("--set", setting)]
    command = [sys.executable, "-m", "mtkit", "--quiet", "train", str(path), *overrides]
    if subprocess.run(command).returncode:
        sys.exit(f"{run_dir.name}: the training failed; give it more minutes, or repair or leave out its --recipe")


def translate(run_dir: Path, sources: Sequence[str]) -> list[str]:
    """Return the translations of dev, which the run's folder keeps."""
    path = run_dir / "dev.txt"
    if not path.exists():
        write_text(path, "".join(f"{text}\n" for text in Translator.load(run_dir / "model").translate(sources)))
    return list(read_lines(path))


def rows(translations: dict[str, list[list[str]]], references: Sequence[str]) -> list[str]:
    """Return a line for each recipe: mean BLEU, range over seeds, and difference from the first with its interval."""
    n_seeds = len(next(iter(translations.values())))
    joined = {name: [text for of_seed in texts for text in of_seed] for name, texts in translations.items()}
    systems = compare(joined, [list(references) * n_seeds], metrics=["BLEU"])
    lines = []
    for system in systems:
        scores = [corpus_bleu(texts, references) for texts in translations[system.name]]
        line = f"{system.name:<24} {statistics.fmean(scores):6.2f} ({min(scores):.2f} to {max(scores):.2f})"
        for one in system.differences:
            line += f"  {one.difference:+.2f} (95 %: {one.low:+.2f} to {one.high:+.2f})"
        lines.append(line)
    return lines


if __name__ == "__main__":
    main()

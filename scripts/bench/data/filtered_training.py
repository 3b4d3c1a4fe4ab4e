"""Train on noisy, cleaned and clean text, and compare: how much of the BLEU that wrong pairs cost is won back?

    B=.venv/bin/python; $B scripts/bench/data/filtered_training.py --train rest.en rest.fr --machine weak.fr \\
        --filter runs/filter-1 runs/filter-2 runs/filter-3 --data data/tatoeba-en-fr --work build/filtered

--train: clean text, which the filters have not seen; --share of its pairs are spoilt as by `pair_scores.py plant`. The
arms: `clean` (before it is spoilt), `noisy`, `rules` (`mtkit data clean`) and `filter` (the rules, and --min-score).
All train with the same model, batches and number of updates, that is for equal time; a seed has noise, a filter,
initial weights and an order of its own. What an arm wins back is (arm - noisy) / (clean - noisy). --min-score is chosen
on dev; the test set is translated once. The script continues where it was stopped.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sacrebleu.metrics.bleu import BLEU

from mtkit.config.reading.loading import load_config
from mtkit.console import set_up_logging
from mtkit.files import write_text
from mtkit.pair_files.lines import read_lines
from mtkit.runs.train import train
from mtkit.translation.translator import Translator

MTKIT = Path(sys.executable).with_name("mtkit")
ARMS = ("clean", "noisy", "rules", "filter")
CONFIG = """\
data:
  src_lang: en
  tgt_lang: fr
  train: [{{src: {src}, tgt: {tgt}}}]
  dev: {{src: {data}/dev.en.gz, tgt: {data}/dev.fr.gz}}
tokenizer: {{src: {{vocab_size: 4000}}, tgt: {{vocab_size: 4000}}}}
model: {{d_model: 128, d_ff: 512, n_heads: 4, n_encoder_layers: 3, n_decoder_layers: 3}}
train:
  {{batch_tokens: 1024, lr: 2.0e-3, schedule: cosine, warmup_steps: 300, max_steps: {steps}, threads: 1, device: cpu,
    log_every: 1000, validate_every: 1000000, validate_sentences: 100, average_best: 1}}
decode: {{beam_size: 4, on_suspect: "off"}}
"""


def main() -> None:
    """Plant, clean, train what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", nargs=2, type=Path, required=True, metavar=("SRC", "TGT"))
    parser.add_argument("--machine", type=Path, required=True, help="a weak system's translations of --train SRC")
    parser.add_argument("--filter", nargs="+", type=Path, required=True, help="a run of `train-filter` for each seed")
    parser.add_argument("--data", type=Path, required=True, help="folder with dev and test (.en.gz, .fr.gz)")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--share", type=float, default=0.3, help="of the pairs that are spoilt")
    parser.add_argument("--min-score", type=float, default=0.3)
    parser.add_argument("--steps", type=int, default=2400)
    arguments = parser.parse_args()
    set_up_logging(quiet=True)
    results = arguments.work / "results.jsonl"
    arguments.work.mkdir(parents=True, exist_ok=True)
    for seed, model in enumerate(arguments.filter, start=1):
        text = texts(arguments, seed, model)
        for arm in ARMS:
            if not any((row["arm"], row["seed"]) == (arm, seed) for row in rows_of(results)):
                row = run(arguments, arm, seed, text[arm])
                with results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                print(json.dumps(row), flush=True)
    print(table(rows_of(results)))


def texts(arguments: argparse.Namespace, seed: int, model: Path) -> dict[str, tuple[Path, Path]]:
    """Return the training files of each arm, made unless they are there."""
    folder: Path = arguments.work / f"text-{seed}"
    pairs, scores = folder / "pairs.tsv", folder / "scores.txt"
    cleaned = {arm: (folder / f"{arm}.en", folder / f"{arm}.fr") for arm in ARMS[1:]}
    if not pairs.exists():
        options = ["--share", arguments.share, "--machine", arguments.machine, "--seed", seed]
        call(
            sys.executable,
            Path(__file__).with_name("pair_scores.py"),
            "plant",
            *arguments.train,
            "--out",
            folder,
            *options,
        )
        for side, path in enumerate(cleaned["noisy"]):
            write_text(path, "".join(line.split("\t")[side] + "\n" for line in read_lines(pairs)))
    if not scores.exists():
        call(MTKIT, "data", "score", pairs, "-o", scores, "--model", model)
    limits = ["--set", f"clean.score={scores}", "--set", f"clean.min_score={arguments.min_score}"]
    for arm, options in (("rules", []), ("filter", limits)):
        src, tgt = cleaned[arm]
        if not tgt.exists():
            call(MTKIT, "data", "clean", *cleaned["noisy"], "-o", src, "-o", tgt, *options)
    return {"clean": tuple(arguments.train), **cleaned}


def call(*command: object) -> None:
    """Run a command; its messages go to stderr."""
    subprocess.run([*map(str, command)], check=True, stdout=sys.stderr)


def run(arguments: argparse.Namespace, arm: str, seed: int, text: tuple[Path, Path]) -> dict[str, Any]:
    """Train on one arm's text, and translate dev and test."""
    run_dir = arguments.work / f"{arm}-{seed}"
    path = arguments.work / f"{arm}-{seed}.yaml"
    src, tgt = (side.resolve() for side in text)
    write_text(path, CONFIG.format(src=src, tgt=tgt, data=arguments.data.resolve(), steps=arguments.steps))
    train(load_config(path, [f"run_dir={run_dir.resolve()}", f"seed={seed}"]))
    translator = Translator.load(run_dir, device="cpu", workers=1, threads=1)
    row: dict[str, Any] = {"arm": arm, "seed": seed, "pairs": sum(1 for _ in read_lines(src))}
    for split in ("dev", "test"):
        lines, ref = ([*read_lines(arguments.data / f"{split}.{lang}.gz")] for lang in ("en", "fr"))
        row[split] = BLEU().corpus_score(translator.translate(lines), [ref]).score
    return row


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the results so far."""
    return [json.loads(line) for line in read_lines(path)] if path.exists() else []


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the means over the seeds, and what each arm wins back of the BLEU that noise costs."""
    lines = ["| text | pairs | dev BLEU | test BLEU | won back |", "|-|-|-|-|-|"]
    means = {
        arm: [statistics.mean(row[key] for row in rows if row["arm"] == arm) for key in ("pairs", "dev", "test")]
        for arm in ARMS
        if any(row["arm"] == arm for row in rows)
    }
    for arm, (n_pairs, dev, test) in means.items():
        of_seeds = ", ".join(f"{row['test']:.1f}" for row in rows if row["arm"] == arm)
        share = (test - means["noisy"][2]) / (means["clean"][2] - means["noisy"][2]) if "noisy" in means else 0.0
        lines.append(f"| {arm} | {n_pairs:,.0f} | {dev:.2f} | {test:.2f} ({of_seeds}) | {share:.0%} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()

"""Compare ways to train on a large general and a small in-domain corpus, with equal updates, by a dev set of each.

    python scripts/bench/mix.py --general data/tatoeba-en-fr --domain data/multi30k --tgt fr --work build/mix

--general: a folder with train and dev (.en.gz and, with --tgt de, .de.gz); --domain: one with train and val; --pairs of
its train are used. Each way has the same model, updates and seeds; tokenizers learn from both corpora. Nothing looks at
a test set. The script continues where it was stopped, also within a run; results.jsonl has a line a run.
"""

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from mtkit.config.reading.loading import load_config
from mtkit.console import set_up_logging
from mtkit.files import write_text
from mtkit.pair_files.lines import read_lines
from mtkit.runs.train import train

WAYS = {  # name -> data.temperature, weight of the general corpus, weight of the in-domain corpus
    "general corpus alone": ("1", "1", "{0: 0}"),
    "both as they are": ("1", "1", "1"),
    "temperature 5": ("5", "1", "1"),
    "in-domain x 10": ("1", "1", "10"),
    "both, x 50 in the last fifth": ("1", "1", "{0: 1, 0.8: 50}"),
    "both, in-domain alone in the last fifth": ("1", "{0: 1, 0.8: 0}", "1"),
}
CONFIG = """\
data:
  temperature: {temperature}
  train:
    - {{src: {general}/train.en.gz, tgt: {general}/train.{tgt}.gz, weight: {of_general}}}
    - {{src: {work}/domain.en, tgt: {work}/domain.{tgt}, weight: {of_domain}}}
  dev:
    - {{src: {general}/dev.en.gz, tgt: {general}/dev.{tgt}.gz, name: general}}
    - {{src: {domain}/val.en.gz, tgt: {domain}/val.{tgt}.gz, name: domain}}
tokenizer: {{src: {{vocab_size: 4000}}, tgt: {{vocab_size: 4000}}}}
model: {{d_model: 128, d_ff: 512, n_heads: 4, n_encoder_layers: 2, n_decoder_layers: 2}}
train:
  {{batch_tokens: 1024, lr: 2.0e-3, schedule: cosine, max_steps: {steps}, warmup_steps: 150, threads: 1, device: cpu,
    log_every: 100, validate_every: 1000000, validate_sentences: {sentences}, average_best: 1}}
decode: {{beam_size: 4, on_suspect: "off"}}
"""


def main() -> None:
    """Train what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--general", type=Path, required=True)
    parser.add_argument("--domain", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="folder for runs and results")
    parser.add_argument("--tgt", default="de", help="target language; the source is English")
    parser.add_argument("--pairs", type=int, default=3000, help="of the in-domain corpus")
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--sentences", type=int, default=800, help="dev sentences to translate, of both sets together")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    arguments = parser.parse_args()
    set_up_logging(quiet=True)
    arguments.work.mkdir(parents=True, exist_ok=True)
    for language in ("en", arguments.tgt):
        lines = islice(read_lines(arguments.domain / f"train.{language}.gz"), arguments.pairs)
        write_text(arguments.work / f"domain.{language}", "".join(line + "\n" for line in lines))
    results = arguments.work / "results.jsonl"
    for seed in range(1, arguments.seeds + 1):
        for way in arguments.ways:
            if not any((row["way"], row["seed"]) == (way, seed) for row in rows_of(results)):
                row = run(arguments, way, seed)
                with results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                print(json.dumps(row), flush=True)
    print(table(rows_of(results)))


def run(arguments: argparse.Namespace, way: str, seed: int) -> dict[str, Any]:
    """Train; return the run's results."""
    name = f"{list(WAYS).index(way)}-{seed}"
    path = arguments.work / f"{name}.yaml"
    temperature, of_general, of_domain = WAYS[way]
    text = CONFIG.format(
        general=arguments.general.resolve(),
        domain=arguments.domain.resolve(),
        work=arguments.work.resolve(),
        tgt=arguments.tgt,
        temperature=temperature,
        of_general=of_general,
        of_domain=of_domain,
        steps=arguments.steps,
        sentences=arguments.sentences,
    )
    write_text(path, text)
    began = time.process_time()
    scores = train(load_config(path, [f"run_dir={arguments.work / name}", f"seed={seed}"])).dev_scores
    cpu_s = time.process_time() - began
    return {"way": way, "seed": seed, "steps": arguments.steps, "cpu_s": cpu_s, **scores}


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the results so far."""
    return [json.loads(line) for line in read_lines(path)] if path.exists() else []


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the means over the seeds of each way."""
    lines = [
        "| training | seeds | BLEU, general | BLEU, in-domain | loss, general | loss, in-domain |",
        "|-|-|-|-|-|-|",
    ]
    for way in WAYS:
        if own := [row for row in rows if row["way"] == way]:
            cells = [
                f"{statistics.mean(row[f'dev.{name}.{figure}'] for row in own):.{digits}f}"
                for figure, digits in (("bleu", 1), ("loss", 2))
                for name in ("general", "domain")
            ]
            lines.append(f"| {way} | {len(own)} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()

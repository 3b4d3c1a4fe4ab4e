"""Compare the kinds of positions after equal time: dev BLEU, speed, and sentences longer than any in training.

    python scripts/bench/positions.py --data data/tatoeba-en-fr --work build/positions --minutes 3.5

Time is the CPU time of one thread, so other programs disturb it little. First all kinds train in turn, some updates
each on the same batches; what an update costs gives each kind its number of updates. Then each trains with each seed.
Training leaves out sentences of more than --max-tokens tokens. The longer ones are two or three dev sentences in one
line, if both sides have more tokens than that; "apart" is the BLEU of the same sentences translated one by one.
Nothing looks at the test set. The script continues where it was stopped; results.jsonl has a line a run.
"""

import argparse
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sacrebleu.metrics.bleu import BLEU

from mtkit.config.reading.loading import load_config
from mtkit.config.schema import Config
from mtkit.console import set_up_logging
from mtkit.files import write_text
from mtkit.pair_files.lines import read_lines
from mtkit.runs.train import train
from mtkit.tokens.tokenizer import Tokenizer, load_tokenizers
from mtkit.training.preparation.prepare import prepare
from mtkit.training.trainer import Trainer
from mtkit.training.update.checkpoint import Checkpoints
from mtkit.translation.translator import Translator

KINDS = ("sinusoidal", "learned", "rotary", "relative", "alibi")
_UPDATES, _ROUNDS = 15, 8  # to measure what an update costs
CONFIG = """\
data:
  train: [{{src: {data}/train.en.gz, tgt: {data}/train.fr.gz}}]
  dev: {{src: {data}/dev.en.gz, tgt: {data}/dev.fr.gz}}
tokenizer: {{src: {{vocab_size: 4000}}, tgt: {{vocab_size: 4000}}}}
model: {{d_model: 128, d_ff: 512, n_heads: 4, n_encoder_layers: 3, n_decoder_layers: 3}}
train:
  {{batch_tokens: 1024, lr: 2.0e-3, schedule: cosine, max_steps: 1000000, max_epochs: 1000,
    threads: 1, device: cpu, log_every: 1000, validate_every: 1000000, validate_sentences: 100, average_best: 1}}
decode: {{beam_size: 4, on_suspect: "off"}}
"""


def main() -> None:
    """Measure, train what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with train, dev (.en.gz, .fr.gz)")
    parser.add_argument("--work", type=Path, required=True, help="folder for runs and results")
    parser.add_argument("--minutes", type=float, default=3.5, help="CPU minutes of training a run")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=20, help="longest sentence in training")
    parser.add_argument("--long", type=int, default=300, help="concatenations of two, and of three")
    parser.add_argument("--dev", type=int, default=2000, help="dev sentences")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--table", action="store_true", help="only print the table of the results so far")
    arguments = parser.parse_args()
    set_up_logging(quiet=True)
    arguments.work.mkdir(parents=True, exist_ok=True)
    results = arguments.work / "results.jsonl"
    if not arguments.table:
        costs = costs_of_updates(arguments)
        for seed in range(1, arguments.seeds + 1):
            for kind in arguments.kinds:
                if not any((row["kind"], row["seed"]) == (kind, seed) for row in rows_of(results)):
                    row = run(arguments, kind, seed, costs[kind])
                    with results.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")
                    print(json.dumps(row), flush=True)
    print(table(rows_of(results)))


def config(arguments: argparse.Namespace, kind: str, run_dir: Path, *settings: str) -> Config:
    """Return the config of a run."""
    path = arguments.work / "config.yaml"
    write_text(path, CONFIG.format(data=arguments.data.resolve()))
    return load_config(
        path, [f"run_dir={run_dir}", f"model.positions={kind}", f"data.max_tokens={arguments.max_tokens}", *settings]
    )


def costs_of_updates(arguments: argparse.Namespace) -> dict[str, float]:
    """Return the CPU seconds of an update of each kind, measured once, in turn."""
    path = arguments.work / "costs.json"
    if not path.exists():
        folders = {kind: arguments.work / "costs" / kind for kind in arguments.kinds}
        trainers = {}
        for kind, folder in folders.items():
            cfg = config(arguments, kind, folder)
            trainers[kind] = Trainer(prepare(cfg, folder, Checkpoints(folder / "checkpoints")))
        seconds: dict[str, list[float]] = {kind: [] for kind in trainers}
        with ExitStack() as feeds:
            for trainer in trainers.values():
                feeds.enter_context(trainer.feed)
            for number in range(_ROUNDS + 1):
                for kind, trainer in trainers.items():
                    began = time.process_time()
                    for _ in range(_UPDATES):
                        trainer.update()
                    if number:  # the first round compiles and warms up
                        seconds[kind].append((time.process_time() - began) / _UPDATES)
        measured = {kind: {"median": statistics.median(s), "rounds": s} for kind, s in seconds.items()}
        write_text(path, json.dumps(measured, indent=1) + "\n")
    return {kind: measured["median"] for kind, measured in json.loads(path.read_text(encoding="utf-8")).items()}


def run(arguments: argparse.Namespace, kind: str, seed: int, cost: float) -> dict[str, Any]:
    """Train and translate; return the run's results."""
    run_dir = arguments.work / f"{kind}-{seed}"
    n_steps = max(2, round(60 * arguments.minutes / cost))
    cfg = config(
        arguments,
        kind,
        run_dir,
        f"seed={seed}",
        f"train.max_steps={n_steps}",
        f"train.warmup_steps={min(300, n_steps // 4)}",
    )
    row: dict[str, Any] = {"kind": kind, "seed": seed, "steps": n_steps, "ms_per_update": 1000 * cost}
    began = time.process_time()
    train(cfg)
    row["cpu_s"] = time.process_time() - began
    translator = Translator.load(run_dir, device="cpu", engine="native", workers=1, threads=1)
    src, ref = ([*read_lines(arguments.data / f"dev.{language}.gz")][: arguments.dev] for language in ("en", "fr"))
    began = time.process_time()
    output = translator.translate(src)
    row |= {"lines": len(src), "decode_s": time.process_time() - began, "dev": bleu(output, ref)}
    for n, name in ((2, "two"), (3, "three")):
        groups = [*long_groups(src, ref, n, load_tokenizers(run_dir), arguments.max_tokens)][: arguments.long]
        joined = [" ".join(ref[i] for i in group) for group in groups]
        together = translator.translate([" ".join(src[i] for i in group) for group in groups])
        row[name] = {
            "n": len(groups),
            "apart": bleu([" ".join(output[i] for i in group) for group in groups], joined),
            "together": bleu(together, joined),
            "length": sum(map(len, together)) / max(1, sum(map(len, joined))),  # in characters, of the reference's
        }
    return row


def long_groups(
    src: Sequence[str], ref: Sequence[str], n: int, tokenizers: tuple[Tokenizer, Tokenizer], limit: int
) -> Iterator[tuple[int, ...]]:
    """Yield the indices of n neighbours that have more tokens together than any training sentence, on both sides."""
    for first in range(0, len(src) - n + 1, n):
        group = tuple(range(first, first + n))
        lengths = [
            len(tokenizer.encode(" ".join(lines[i] for i in group)))
            for tokenizer, lines in zip(tokenizers, (src, ref), strict=True)
        ]
        if min(lengths) > limit:
            yield group


def bleu(output: Sequence[str], ref: Sequence[str]) -> float:
    """Return sacreBLEU's score; 0 without lines."""
    return BLEU().corpus_score(output, [ref]).score if ref else 0.0


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the results so far."""
    return [json.loads(line) for line in read_lines(path)] if path.exists() else []


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the means of each kind's seeds, with the lowest and the highest dev BLEU."""
    lines = [
        "| positions | seeds | ms an update | updates | lines/s | dev BLEU | two: apart | together | three: apart "
        "| together | its length |",
        "|-|-|-|-|-|-|-|-|-|-|-|",
    ]
    for kind in KINDS:
        own = [row for row in rows if row["kind"] == kind]
        if not own:
            continue

        scores = [row["dev"] for row in own]
        parts = [
            kind,
            str(len(own)),
            f"{own[0]['ms_per_update']:.1f}",
            f"{own[0]['steps']:,}",
            f"{statistics.mean(row['lines'] / row['decode_s'] for row in own):.0f}",
            f"{statistics.mean(scores):.1f} ({min(scores):.1f} to {max(scores):.1f})",
            *(
                f"{statistics.mean(row[number][way] for row in own):.1f}"
                for number in ("two", "three")
                for way in ("apart", "together")
            ),
            f"{statistics.mean(row['three']['length'] for row in own):.0%}",
        ]
        lines.append(f"| {' | '.join(parts)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()

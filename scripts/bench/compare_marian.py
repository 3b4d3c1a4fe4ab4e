"""Compare mtkit and Marian on the same corpus, with the same tokenizers, shape, threads and minutes.

    .venv/bin/python scripts/bench/compare_marian.py --run runs/tatoeba-en-fr --minutes 30 --work build/marian-tatoeba

The run is a finished one of `mtkit train` with train.max_minutes set to the same number. Its config and tokenizers
are Marian's, too. Prints a table; WORK keeps it (table.txt, results.json) with the log and every translation.
Run again, it repeats only what is missing. README.md beside this file explains the settings.
"""

import argparse
import json
import logging
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import harmonic_mean

import marian

from mtkit.config.data import CorpusFiles
from mtkit.config.decoding import DecodeConfig
from mtkit.config.reading.loading import load_config
from mtkit.config.schema import Config
from mtkit.console import log, set_up_logging
from mtkit.data.corpus import read_pairs
from mtkit.errors import MtkitError
from mtkit.evaluation.metrics.scores import MetricScore, evaluate
from mtkit.evaluation.metrics.settings import MetricName
from mtkit.pair_files.compression import open_output
from mtkit.pair_files.lines import read_lines

_LENGTH_PENALTIES = (0.6, 1.0)  # Marian's example and Marian's presets (--normalize): dev decides which one counts
_METRICS: tuple[MetricName, ...] = ("BLEU", "chrF2")
_PARTS = ("dev", "test")


@dataclass(frozen=True)
class System:
    """One line of the table."""

    name: str
    minutes: float
    updates: int
    epochs: float
    tokens_per_s: float  # target tokens learnt from
    dev: list[MetricScore]
    test: list[MetricScore]


def main() -> None:
    """Run what the command line asks for."""
    arguments = parse_arguments()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # goes on when its terminal is closed
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends Marian, too
    arguments.work.mkdir(parents=True, exist_ok=True)
    set_up_logging(quiet=False)
    log.addHandler(logging.FileHandler(arguments.work / "compare.log", encoding="utf-8"))
    try:
        compare(arguments)
    except MtkitError as error:
        log.error(str(error))
        sys.exit(1)


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--run", type=Path, required=True, help="run folder of mtkit")
    parser.add_argument("--minutes", type=float, required=True, help="training time of Marian")
    parser.add_argument("--work", type=Path, required=True, help="folder for everything made here")
    parser.add_argument("--environment", type=Path, default=Path("build/venv-marian"), help="where Marian is, or goes")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="CPU threads")
    parser.add_argument("--batch-words", type=int, default=500, help="source tokens of a batch, per thread")
    parser.add_argument("--lr", type=float, default=1e-3, help="Marian's highest learning rate")
    parser.add_argument("--warmup", type=int, default=600, help="updates until it is reached")
    parser.add_argument("--beam-size", type=int, default=4, help="of both systems")
    parser.add_argument("--prepare", action="store_true", help="make the environment and the data, then stop")
    return parser.parse_args()


def compare(arguments: argparse.Namespace) -> None:
    """All of it, from the environment to the table."""
    work = arguments.work.resolve()
    environment = arguments.environment.absolute()
    marian.make_environment(environment)
    cfg = load_config(arguments.run / "config.yaml")
    n_pairs = write_data(cfg, arguments.run, work)
    if arguments.prepare:
        return
    decode = cfg.decode.model_copy(update={"beam_size": arguments.beam_size})
    systems = [*mtkit_system(arguments.run, work, arguments.beam_size, arguments.threads)]
    trained = train_marian(arguments, cfg, environment, work, n_pairs)
    systems.append(marian_system(environment, work, trained, decode, arguments.threads))
    results = json.dumps([asdict(system) for system in systems], indent=2)
    (work / "results.json").write_text(results + "\n", encoding="utf-8")
    table = "\n".join(as_table(systems))
    (work / "table.txt").write_text(table + "\n", encoding="utf-8")
    print(table)


def write_data(cfg: Config, run: Path, work: Path) -> int:
    """The corpora as plain text and the tokenizers, in work; returns the number of training pairs."""
    corpora: dict[str, Sequence[CorpusFiles]] = {
        "train": cfg.data.train,
        "dev": cfg.data.dev,
        "test": [cfg.data.test] if cfg.data.test else [],
    }
    n_pairs = {}
    for part, files in corpora.items():
        n_pairs[part] = 0
        with open_output(work / f"{part}.src") as src, open_output(work / f"{part}.tgt") as tgt:
            for pair in read_pairs(files):
                if part != "train" or (pair.src.strip() and pair.tgt.strip()):  # mtkit leaves blank ones out, too
                    n_pairs[part] += 1
                    src.write(f"{pair.src}\n")
                    tgt.write(f"{pair.tgt}\n")
    for side in ("src", "tgt"):
        shutil.copyfile(run / f"{side}.spm", work / f"{side}.spm")
    log.info(", ".join(f"{part}: {n:,} pairs" for part, n in n_pairs.items()))
    if not all(n_pairs.values()):
        raise MtkitError(f"{run}/config.yaml: data.train, data.dev and data.test must all have text")
    return n_pairs["train"]


def mtkit_system(run: Path, work: Path, beam_size: int, threads: int) -> list[System]:
    """mtkit's line; none if the run has no model yet."""
    from mtkit.training.metrics_log import read_metrics
    from mtkit.translation.translator import Translator

    if not (run / "model").exists():
        log.warning(f"{run} has no model: Marian alone is measured")
        return []
    # no second searches: Marian makes none
    translator = Translator.load(run, device="cpu", beam_size=beam_size, threads=threads, on_suspect="off")
    scores = {}
    for part in _PARTS:
        hypotheses = translator.translate(list(read_lines(work / f"{part}.src")))
        write_lines(work / f"{part}.mtkit.hyp", hypotheses)
        scores[part] = evaluate(hypotheses, list(read_lines(work / f"{part}.tgt")), metrics=_METRICS)
    entries = [entry for entry in read_metrics(run / "metrics.jsonl") if entry["kind"] == "train"]
    last = entries[-1]
    speed = harmonic_mean([entry["tokens_per_s"] for entry in entries])  # lines stand for equal numbers of updates
    manifest = json.loads((run / "model" / "manifest.json").read_text(encoding="utf-8"))
    minutes = manifest["training"]["minutes"]  # all of them: the last line of the log may be older than the last update
    return [System("mtkit", minutes, last["step"], last["epoch"], speed, **scores)]


def train_marian(
    arguments: argparse.Namespace, cfg: Config, environment: Path, work: Path, n_pairs: int
) -> marian.Trained:
    """Marian's training, unless work holds the result of the same one."""
    batches = marian.Batches(arguments.batch_words * arguments.threads, arguments.lr, arguments.warmup)
    options = marian.options(cfg, work, arguments.threads, batches)
    for difference in marian.differences(cfg.model):
        log.warning(difference)
    done = work / "trained.json"
    request = {"minutes": arguments.minutes, "options": options}
    if done.exists():
        record = json.loads(done.read_text(encoding="utf-8"))
        if record["request"] == request:
            log.info(f"{work}: trained already")
            return marian.Trained(**record["trained"])
        done.unlink()
    if (load := os.getloadavg()[0]) > 0.3:
        log.warning(f"this machine is not idle (load {load:.1f}): times will not be comparable")
    log.info(f"Marian learns for {arguments.minutes:g} minutes; its log: {work / 'marian.log'}")
    trained = marian.train(environment, work, options, arguments.minutes, n_pairs)
    log.info(f"its last line: {marian.last_progress(work / 'marian.log')}")
    done.write_text(json.dumps({"request": request, "trained": asdict(trained)}, indent=2), encoding="utf-8")
    return trained


def marian_system(environment: Path, work: Path, trained: marian.Trained, decode: DecodeConfig, threads: int) -> System:
    """Marian's line: decoded by CTranslate2 with the length penalty that gives the better BLEU on dev."""
    marian.convert(environment, work)
    references = {part: list(read_lines(work / f"{part}.tgt")) for part in _PARTS}

    def score(part: str, length_penalty: float) -> list[MetricScore]:
        hypotheses = work / f"{part}.marian-{length_penalty}.hyp"
        settings = decode.model_copy(update={"length_penalty": length_penalty})
        marian.translate(environment, work, work / f"{part}.src", hypotheses, settings, threads)
        return evaluate(list(read_lines(hypotheses)), references[part], metrics=_METRICS)

    dev = {length_penalty: score("dev", length_penalty) for length_penalty in _LENGTH_PENALTIES}
    best = max(_LENGTH_PENALTIES, key=lambda length_penalty: dev[length_penalty][0].score)
    figures = ", ".join(f"{length_penalty}: {scores[0].score:.2f}" for length_penalty, scores in dev.items())
    log.info(f"Marian's dev BLEU by length penalty: {figures}")
    tokens_per_s = trained.labels / (60 * trained.minutes)
    test = score("test", best)
    return System("Marian", trained.minutes, trained.updates, trained.epochs, tokens_per_s, dev[best], test)


def as_table(systems: Sequence[System]) -> list[str]:
    """Lines for people; the signatures below."""
    head = f"{'':<8}{'minutes':>8}{'updates':>9}{'epochs':>8}{'tokens/s':>10}"
    lines = [f"{head}{'dev BLEU':>10}{'test BLEU (95 %)':>24}{'test chrF (95 %)':>24}"]
    for system in systems:
        trained = f"{system.minutes:>8.1f}{system.updates:>9,}{system.epochs:>8.2f}{system.tokens_per_s:>10,.0f}"
        bleu, chrf = (f"{score.score:.2f} ({score.low:.2f}-{score.high:.2f})" for score in system.test)
        lines.append(f"{system.name:<8}{trained}{system.dev[0].score:>10.2f}{bleu:>24}{chrf:>24}")
    lines += [f"{score.name}: {score.signature}" for score in systems[0].test]
    return lines


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """One line of text each."""
    with open_output(path) as file:
        file.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    main()

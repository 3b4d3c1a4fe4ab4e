"""Measure how fast mtkit, Marian and JoeyNMT train, and which share of the machine's arithmetic they use.

    .venv/bin/python scripts/bench/train.py --src data/multi30k/train.en.gz --tgt data/multi30k/train.fr.gz

Every system trains the same network on the same pieces with its own command, reading and batch making included, in a
process of its own, one after the other, several rounds; its own log tells the speed. In each round the matrix products
of an update are timed by themselves: what the arithmetic needs at that rate, over what an update took, is the share
reached. Prints target tokens a second (lowest, median, highest round), ratios, shares and peak memory. README.md beside
this file says how each system counts a batch and where the peers come from.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import harmonic_mean, median
from typing import Any

import marian
import numpy as np
import training_peers as peers

from mtkit.config.reading.loading import dump_config
from mtkit.config.schema import Config
from mtkit.console import log, set_up_logging
from mtkit.cores import usable_cores
from mtkit.data.corpus import read_pairs
from mtkit.errors import MtkitError
from mtkit.tokens.tokenizer import Tokenizer
from mtkit.training.preparation.run_tokenizers import train_tokenizers

_SYSTEMS = ("mtkit-fp32", "mtkit-bf16", "marian", "joeynmt", "joeynmt-ordered")
_PRECISIONS = ("fp32", "bf16")
_UNTIMED = 5  # lines of each log: kernels are chosen, memory is taken
_START_S = 600  # the longest that a system may take until its first line


@dataclass(frozen=True)
class Measured:
    """What one process has done."""

    tokens_per_s: float  # target tokens, ends counted
    peak_bytes: int  # resident


@dataclass(frozen=True)
class System:
    """How to start a trainer, and how to read its log."""

    name: str
    command: list[str]
    log: Path
    speeds: Callable[[str], list[float]]  # of each line, all standing for the same number of updates
    prepare: Callable[[], None] = lambda: None  # before each start


def main() -> None:
    """Run what the command line asks for."""
    if sys.argv[1:2] == ["--products"]:
        print(json.dumps(measure_products(json.loads(sys.argv[2]))))
        return
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the system that runs, too
    set_up_logging(quiet=False)
    try:
        bench(arguments)
    except MtkitError as error:
        log.error(str(error))
        sys.exit(1)


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--src", type=Path, required=True, help="training text; .gz may be")
    parser.add_argument("--tgt", type=Path, required=True, help="its translation")
    parser.add_argument("--systems", nargs="+", choices=_SYSTEMS, default=list(_SYSTEMS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60, help="of each system in each round, from its first line")
    parser.add_argument("--threads", type=int, default=usable_cores(), help="CPU threads")
    parser.add_argument("--d-model", type=int, default=256)
    parser.add_argument("--d-ff", type=int, default=1024)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=3, help="of the encoder, and of the decoder")
    parser.add_argument("--vocab-size", type=int, default=6000, help="of each side")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--marian-words", type=int, help="source words in a batch of Marian; default: --batch-tokens")
    parser.add_argument("--dropout", type=float, default=0.3, help="in all places")
    parser.add_argument(
        "--marian-environment", type=Path, default=Path("build/venv-marian"), help="where it is, or goes"
    )
    parser.add_argument("--joeynmt", type=Path, default=Path("build/venv-joeynmt/bin/python"), help="has joeynmt")
    parser.add_argument("--work", type=Path, default=Path("build/bench-train"), help="folder for what is made here")
    parser.add_argument("--json", type=Path, help="write the results here, too")
    return parser.parse_args()


def bench(arguments: argparse.Namespace) -> None:
    """From the text to the table."""
    work = arguments.work.resolve()
    cfg = make_config(arguments, work)
    pieces = cut(cfg)
    shape = shape_of(cfg, pieces)
    log.info(
        f"{len(pieces.src):,} pairs, {shape['tgt_tokens']:,} target tokens; {shape['flops'] / 1e6:.1f} MFLOP per "
        f"target token; a typical batch: {shape['n_pairs']} pairs of {shape['src_len']} and {shape['tgt_len']} tokens"
    )
    if (load := os.getloadavg()[0]) > 0.3:
        log.warning(f"this machine is not idle (load {load:.1f}): figures will be too low, and shares untrue")
    systems = [make_system(name, arguments, cfg, pieces, work) for name in arguments.systems]
    measured: dict[str, list[Measured]] = {system.name: [] for system in systems}
    rates: dict[str, list[float]] = {precision: [] for precision in _PRECISIONS}
    for number in range(arguments.rounds):
        for system in systems:
            measured[system.name].append(run(system, arguments))
            log.info(f"round {number + 1}: {system.name} {measured[system.name][-1].tokens_per_s:,.0f} tokens/s")
        for precision in _PRECISIONS:
            rates[precision].append(run_products(cfg, shape, precision, arguments.threads))
            log.info(f"round {number + 1}: products in {precision} {rates[precision][-1] / 1e9:.0f} GFLOP/s")
    print(as_table(measured, rates, shape["flops"]))
    if arguments.json:
        record = {
            "shape": shape,
            "threads": arguments.threads,
            "seconds": arguments.seconds,
            "products_flops_per_s": rates,
            "systems": {name: [asdict(one) for one in rounds] for name, rounds in measured.items()},
        }
        arguments.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def make_config(arguments: argparse.Namespace, work: Path) -> Config:
    """mtkit's config; the peers' are made from it."""
    files = {"src": arguments.src.resolve(), "tgt": arguments.tgt.resolve()}
    tokenizer = {"vocab_size": arguments.vocab_size}
    places = ("embedding_dropout", "residual_dropout", "attention_dropout", "ffn_dropout")
    return Config.model_validate(
        {
            "run_dir": work / "mtkit",
            "data": {"train": [files], "dev": files},
            "tokenizer": {"src": tokenizer, "tgt": tokenizer},
            "model": {
                "d_model": arguments.d_model,
                "d_ff": arguments.d_ff,
                "n_heads": arguments.heads,
                "n_encoder_layers": arguments.layers,
                "n_decoder_layers": arguments.layers,
                **dict.fromkeys(places, arguments.dropout),
            },
            "train": {
                "batch_tokens": arguments.batch_tokens,
                "max_steps": 1_000_000_000,
                "validate_every": 1_000_000_000,
                "validate_sentences": 1,
                "log_every": peers.LOG_EVERY,
                "threads": arguments.threads,
                "device": "cpu",
            },
        }
    )


def cut(cfg: Config) -> peers.Pieces:
    """The pairs that mtkit learns from, as pieces."""
    assert cfg.run_dir is not None
    tokenizers = train_tokenizers(cfg, cfg.run_dir)
    pairs = list(read_pairs(cfg.data.train))
    src, tgt = (
        tokenizer.encode_batch([getattr(pair, side) for pair in pairs])
        for tokenizer, side in zip(tokenizers, ("src", "tgt"), strict=True)
    )
    longest = cfg.data.max_tokens
    kept = [both for both in zip(src, tgt, strict=True) if min(map(len, both)) > 0 and max(map(len, both)) <= longest]
    return peers.Pieces(
        [tokenizers[0].pieces(ids) for ids, _ in kept],
        [tokenizers[1].pieces(ids) for _, ids in kept],
        *(vocabulary(tokenizer) for tokenizer in tokenizers),
    )


def vocabulary(tokenizer: Tokenizer) -> list[str]:
    """All pieces in the order of their ids."""
    return tokenizer.pieces(range(tokenizer.vocab_size))


def shape_of(cfg: Config, pieces: peers.Pieces) -> dict[str, Any]:
    """The operations per target token, and a typical batch."""
    from model_flops import training_flops

    src, tgt = (np.array([len(sentence) + 1 for sentence in side]) for side in (pieces.src, pieces.tgt))
    flops = training_flops(cfg.model, len(pieces.tgt_vocabulary), src, tgt)
    src_len, tgt_len = round(src.mean()), round(tgt.mean())
    return {
        "flops": flops / int(tgt.sum()),
        "tgt_tokens": int(tgt.sum()),
        "src_tokens": int(src.sum()),
        "vocab_size": len(pieces.tgt_vocabulary),
        "n_pairs": round(cfg.train.n_batch_tokens / float(np.maximum(src, tgt).mean())),
        "src_len": src_len,
        "tgt_len": tgt_len,
    }


def make_system(name: str, arguments: argparse.Namespace, cfg: Config, pieces: peers.Pieces, work: Path) -> System:
    """Write the files of a system, and say how it is started."""
    output = work / f"{name}.log"
    if name.startswith("mtkit"):
        return mtkit_system(name, cfg, work)
    if name == "marian":
        environment = arguments.marian_environment.absolute()
        marian.make_environment(environment)
        words = arguments.marian_words or cfg.train.n_batch_tokens
        command = peers.write_marian(cfg, pieces, work / name, arguments.threads, words)
        speeds: Callable[[str], list[float]] = lambda text: [speed for speed, _ in peers.read_marian(text)]  # noqa: E731
        return System(name, [str(environment / "bin" / "python"), *command], output, speeds)
    if not arguments.joeynmt.exists():
        raise MtkitError(f"{arguments.joeynmt}: not there; README.md says how to install JoeyNMT, or leave out {name}")
    command = peers.write_joeynmt(cfg, pieces, work / name, ordered=name == "joeynmt-ordered")
    return System(name, [str(arguments.joeynmt.absolute()), *command], output, peers.read_joeynmt)


def mtkit_system(name: str, cfg: Config, work: Path) -> System:
    """`mtkit train` from the beginning each time, with the tokenizers and the encoded text that are there."""
    run_dir = cfg.run_dir
    assert run_dir is not None
    precision = name.removeprefix("mtkit-")
    path = work / f"{name}.yaml"
    path.write_text(
        dump_config(cfg.model_copy(update={"train": cfg.train.model_copy(update={"precision": precision})})),
        encoding="utf-8",
    )

    def from_the_beginning() -> None:
        shutil.rmtree(run_dir / "checkpoints", ignore_errors=True)
        for left in ("metrics.jsonl", "config.yaml"):
            (run_dir / left).unlink(missing_ok=True)

    command = [sys.executable, "-m", "mtkit", "train", "--config", str(path)]
    return System(name, command, run_dir / "metrics.jsonl", read_mtkit, from_the_beginning)


def read_mtkit(text: str) -> list[float]:
    """Target tokens a second of each line of a metrics.jsonl, ends counted."""
    entries = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
    return [entry["tokens_per_s"] for entry in entries if entry["kind"] == "train"]


def run(system: System, arguments: argparse.Namespace) -> Measured:
    """Let the system train for so long, then end it. Raises MtkitError if it ends by itself."""
    system.prepare()
    system.log.unlink(missing_ok=True)
    output = arguments.work / f"{system.name}.log"
    threads = str(arguments.threads)
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    with output.open("wb") as file:
        process = subprocess.Popen(
            system.command, env=environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            wait_for_lines(system, process, output, 1, _START_S)
            time.sleep(arguments.seconds)
            wait_for_lines(system, process, output, _UNTIMED + 2, _START_S)
        finally:
            process.kill()
            _, _, used = os.wait4(process.pid, 0)
            process.returncode = -signal.SIGKILL  # it is waited for already
    return Measured(harmonic_mean(lines_of(system)[_UNTIMED:]), used.ru_maxrss * 1024)


def wait_for_lines(
    system: System, process: "subprocess.Popen[bytes]", output: Path, n_lines: int, seconds: float
) -> None:
    """Until the system's log has so many lines."""
    end = time.monotonic() + seconds
    while len(lines_of(system)) < n_lines:
        # waitid leaves the process to be waited for by wait4, which tells its memory
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is not None or time.monotonic() > end:
            tail = "\n".join(output.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
            reason = f"no {n_lines} lines within {seconds:.0f} s" if ended is None else "it has ended"
            raise MtkitError(f"{system.name}: {reason}; the end of {output}:\n{tail}")
        time.sleep(0.2)


def lines_of(system: System) -> list[float]:
    """The speeds that its log tells so far."""
    return system.speeds(system.log.read_text(encoding="utf-8", errors="replace")) if system.log.exists() else []


def run_products(cfg: Config, shape: dict[str, Any], precision: str, threads: int) -> float:
    """Operations a second of an update's matrix products, measured in a process of its own."""
    task = {"model": cfg.model.model_dump(mode="json"), "shape": shape, "precision": precision, "threads": threads}
    command = [sys.executable, __file__, "--products", json.dumps(task)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return float(json.loads(done.stdout))


def measure_products(task: dict[str, Any]) -> float:
    """In its own process: the rate of all products of a typical update."""
    import torch
    from model_flops import measure, overall_rate, products

    from mtkit.config.model import ModelConfig

    torch.set_num_threads(task["threads"])
    shape, device = task["shape"], torch.device("cpu")
    found = products(
        ModelConfig.model_validate(task["model"]),
        shape["vocab_size"],
        shape["n_pairs"],
        shape["src_len"],
        shape["tgt_len"],
        device,
    )
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[task["precision"]]
    return overall_rate(measure(found, dtype, device))


def as_table(measured: dict[str, list[Measured]], rates: dict[str, list[float]], flops: float) -> str:
    """Lines for people: a system's speed, how many times each peer's it is, and its share of the products' rate.

    The ratio and the share are medians over the rounds, each of figures of one round.
    """
    names = [name for name in measured if not name.startswith("mtkit")]
    head = "".join(f"{'/ ' + name:>18}" for name in names)
    lines = [f"{'':<18}{'target tokens/s':>24}{head}{'share':>8}{'peak MiB':>10}"]
    for name, rounds in measured.items():
        speeds = [one.tokens_per_s for one in rounds]
        cells = "".join(f"{median(ratios(speeds, measured[peer])):>16.2f} x" for peer in names)
        precision = "bf16" if name.endswith("bf16") else "fp32"
        shares = [speed * flops / rate for speed, rate in zip(speeds, rates[precision], strict=True)]
        peak = max(one.peak_bytes for one in rounds) / 2**20
        lines.append(f"{name:<18}{spread(speeds)}{cells}{median(shares):>8.0%}{peak:>10,.0f}")
    for precision, found in rates.items():
        lines.append(
            f"products {precision:<9}{spread([rate / flops for rate in found])}   limit at {median(found) / 1e9:,.0f} "
            f"GFLOP/s ({min(found) / 1e9:,.0f}-{max(found) / 1e9:,.0f}), {flops / 1e6:.1f} MFLOP per target token"
        )
    return "\n".join([*lines, f"load {os.getloadavg()[0]:.1f}"])


def ratios(speeds: Sequence[float], peer: Sequence[Measured]) -> list[float]:
    """How many times the peer's speed, round by round."""
    return [mine / theirs.tokens_per_s for mine, theirs in zip(speeds, peer, strict=True)]


def spread(values: Sequence[float]) -> str:
    """Lowest, median, highest."""
    return f"{min(values):>8,.0f}{median(values):>8,.0f}{max(values):>8,.0f}"


if __name__ == "__main__":
    main()

"""How fast does mtkit's native engine decode, beside JoeyNMT's search? Both in PyTorch, with one thread.

    .venv/bin/python scripts/bench/compare_joeynmt.py --src data/multi30k/test_2016_flickr.en.gz

Random weights of one shape (256 wide, 3+3 layers, vocabularies of 6,000) and random sentences with the lengths of
those in --src. Both decode the same batches, never choose EOS, and give each sentence as many target tokens as its
batch's longest source has, since JoeyNMT has one limit for a batch. In turn, in fresh processes, several rounds.
Prints sentences a second (lowest, median, highest round). README.md beside this file says how to install JoeyNMT.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from mtkit.pair_files.lines import read_lines

_SHAPE = {"d_model": 256, "d_ff": 1024, "n_heads": 4, "n_layers": 3, "vocab_size": 6000}
_FIRST_ID = 4  # after the special ids of either


def main() -> None:
    """Run what the command line asks for."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure_native(json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")), sys.argv[3])))
        return
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--src", type=Path, help="lines whose lengths in words are taken; else a gamma distribution")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--batch-sentences", type=int, default=64, help="the default of both")
    parser.add_argument("--beam-sizes", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer", type=Path, default=Path("build/venv-joeynmt/bin/python"), help="has joeynmt")
    parser.add_argument("--work", type=Path, default=Path("build/compare-joeynmt"), help="folder for what is made here")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    batches = make_batches(arguments)
    limits = [max(map(len, batch)) + 1 for batch in batches]  # EOS counted
    n_tokens = sum(len(batch) * limit for batch, limit in zip(batches, limits, strict=True))
    n_sentences = sum(map(len, batches))
    print(f"{n_sentences} sentences into {n_tokens} tokens, batches of {arguments.batch_sentences}; sentences/s")
    peer = str(Path(__file__).with_name("peer_joeynmt.py"))
    for beam_size in arguments.beam_sizes:
        path = arguments.work / f"beam-{beam_size}.json"
        task = {**_SHAPE, "beam_size": beam_size, "batches": batches, "limits": limits}
        path.write_text(json.dumps(task), encoding="utf-8")
        commands = {
            "joeynmt": [str(arguments.peer), peer, str(path)],
            "native-fp32": [sys.executable, __file__, "--one", str(path), "fp32"],
            "native-int8": [sys.executable, __file__, "--one", str(path), "int8"],
        }
        speeds: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(arguments.rounds):
            for name, command in commands.items():
                speeds[name].append(n_sentences / run_one(command, n_tokens))
        print(as_table(beam_size, speeds), flush=True)


def make_batches(arguments: argparse.Namespace) -> list[list[list[int]]]:
    """Random sentences, those of like length in a batch."""
    rng = np.random.default_rng(1)
    if arguments.src:
        lengths = [len(line.split()) for line in read_lines(arguments.src)][: arguments.sentences]
    else:  # mean and variance of Multi30k's test set of 2016: 11.9 and 14.8
        lengths = [max(2, round(x)) for x in rng.gamma(shape=9.6, scale=1.24, size=arguments.sentences)]
    sentences = [rng.integers(_FIRST_ID, _SHAPE["vocab_size"], length).tolist() for length in sorted(lengths)]
    size = arguments.batch_sentences
    return [sentences[first : first + size] for first in range(0, len(sentences), size)]


def run_one(command: list[str], n_tokens: int) -> float:
    """Seconds of a system in a process of its own, which must have made so many target tokens."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    if found["tokens"] != n_tokens:
        sys.exit(f"{command[:2]} made {found['tokens']} tokens instead of {n_tokens}: the work is not the same")
    return float(found["seconds"])


def measure_native(task: dict[str, Any], precision: str) -> dict[str, float]:
    """In its own process: mtkit's engine on the task."""
    import torch

    from mtkit.config.decoding import DecodeConfig
    from mtkit.config.model import ModelConfig
    from mtkit.engines.native import NativeEngine
    from mtkit.model.transformer import Transformer
    from mtkit.search.hypothesis import Segment
    from mtkit.tokens.special_ids import EOS_ID

    torch.set_num_threads(1)
    torch.manual_seed(1)
    shape = ModelConfig(
        d_model=task["d_model"],
        d_ff=task["d_ff"],
        n_heads=task["n_heads"],
        n_encoder_layers=task["n_layers"],
        n_decoder_layers=task["n_layers"],
    )
    model = Transformer(shape, task["vocab_size"], task["vocab_size"]).eval()
    with torch.no_grad():
        model.output.bias[EOS_ID] = -1e4  # never chosen
    engine = NativeEngine([model], precision=precision)
    batches = [
        [Segment(ids, max_len=limit) for ids in batch]
        for batch, limit in zip(task["batches"], task["limits"], strict=True)
    ]
    segments = [segment for batch in batches for segment in batch]
    cfg = DecodeConfig(beam_size=task["beam_size"], batch_sentences=len(batches[0]), batch_tokens=10**9)
    list(engine.decode(batches[0], cfg, 1))  # first calls are slower
    started = time.perf_counter()
    n_tokens = sum(len(hypotheses[0].ids) for _, hypotheses in engine.decode(segments, cfg, 1))
    return {"seconds": time.perf_counter() - started, "tokens": n_tokens}


def as_table(beam_size: int, speeds: dict[str, list[float]]) -> str:
    """Lines for people."""
    lines = [f"beam {beam_size}; load {os.getloadavg()[0]:.1f}"]
    for name, rounds in speeds.items():
        ratio = median(rounds) / median(speeds["joeynmt"])
        lines.append(f"{name:<14}{min(rounds):>8.1f}{median(rounds):>8.1f}{max(rounds):>8.1f}{ratio:>8.2f} x")
    return "\n".join(lines)


if __name__ == "__main__":
    main()

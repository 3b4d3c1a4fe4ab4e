"""Measure how fast engines decode: mtkit's in each precision, mtkit's over CTranslate2, CTranslate2 itself, others.

    .venv/bin/python scripts/bench/decode.py --model runs/multi30k-en-fr --src test.en.gz --ref test.fr.gz

Every system decodes the same token ids, with the same limits on the length, in processes of its own, in turn, several
rounds. Prints a table for each beam size: sentences a second (lowest, median, highest round), BLEU, the highest
resident memory, and the median time of a sentence alone. `--shape base` takes the paper's base model with random
weights instead. README.md beside this file says more.
"""

import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from mtkit.bundle import find_model, load_bundle, read_bundle
from mtkit.config.decoding import DecodeConfig
from mtkit.config.model import ModelConfig
from mtkit.cores import usable_cores
from mtkit.engines.parallel import NativeInWorker, ParallelEngine
from mtkit.pair_files.lines import read_lines
from mtkit.search.hypothesis import Engine, Segment

_SYSTEMS = "native-fp32 native-bf16 native-int8 ctranslate2-float32 ctranslate2-int8 library-float32 library-int8"
_BASE = ModelConfig(d_model=512, d_ff=2048, n_heads=8, n_encoder_layers=6, n_decoder_layers=6)
_BASE_VOCABULARY = 32_000
_ALONE = 40  # sentences that are also timed one by one


@dataclass(frozen=True)
class RandomBase:
    """Makes a native engine of the paper's base shape with random weights, the same in every process."""

    precision: str
    threads: int = 1

    def __call__(self) -> Engine:
        """The engine."""
        import torch

        from mtkit.engines.native import NativeEngine
        from mtkit.runtime import keep_freed_memory

        torch.set_num_threads(self.threads)
        keep_freed_memory()  # as mtkit's own workers do
        return NativeEngine([random_base()], precision=self.precision)


def random_base() -> Any:
    """The model, the same at every call."""
    import torch

    from mtkit.model.transformer import Transformer

    torch.manual_seed(1)
    return Transformer(_BASE, _BASE_VOCABULARY, _BASE_VOCABULARY).eval()


def main() -> None:
    """Run what the command line asks for."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure_one(json.loads(sys.argv[2]))))
        return
    arguments = parse_arguments()
    arguments.model = find_model(arguments.model)
    arguments.work.mkdir(parents=True, exist_ok=True)
    task = make_task(arguments)
    names = [name for name in arguments.systems.split() if not (task["shape"] == "base" and "shortlist" in name)]
    others = dict(other.split("=", 1) for other in arguments.other)
    for beam_size in arguments.beam_sizes:
        records: dict[str, list[dict[str, Any]]] = {name: [] for name in [*names, *others]}
        for number in range(arguments.rounds):
            for name in names:
                records[name].append(run_one({**task, "system": name, "beam_size": beam_size, "alone": number == 0}))
                print(f"beam {beam_size} round {number + 1} {name}: {records[name][-1]['speed']:.1f}", file=sys.stderr)
            for name, command in others.items():
                records[name].append(run_other(command, task, arguments.src, beam_size))
        table = as_table(beam_size, records, arguments)
        print(table, flush=True)
        with (arguments.work / "decode.txt").open("a", encoding="utf-8") as file:
            print(table, file=file)


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True, help="bundle folder; with --shape base for its tokenizer")
    parser.add_argument("--src", type=Path, required=True, help="lines to translate; .gz may be")
    parser.add_argument("--ref", type=Path, help="their translations, for BLEU")
    parser.add_argument("--shape", choices=["model", "base"], default="model", help="base: random weights, 512 wide")
    parser.add_argument("--systems", default=_SYSTEMS, help="which, between quotes; native-int8-shortlist, too")
    parser.add_argument("--other", action="append", default=[], metavar="NAME=COMMAND", help="lines in, lines out")
    parser.add_argument("--beam-sizes", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=usable_cores(), help="processes or threads, one core each")
    parser.add_argument("--batch-greedy", type=int, default=128, help="sentences in a batch with beam size 1")
    parser.add_argument("--batch-beam", type=int, default=32, help="sentences in a batch with a beam")
    parser.add_argument("--work", type=Path, default=Path("build/bench-decode"), help="folder for what is made here")
    return parser.parse_args()


def make_task(arguments: argparse.Namespace) -> dict[str, Any]:
    """Describe the task for every system: the segments, and where the models are."""
    files = read_bundle(arguments.model)
    lines = list(read_lines(arguments.src))[: arguments.sentences]
    ids = [ids for ids in files.src_tokenizer.encode_batch(lines) if ids]
    base = arguments.shape == "base"
    # a random model never ends: as many tokens out as in
    limits = [len(segment) + 1 if base else 2 * len(segment) + 21 for segment in ids]
    exported = arguments.work / arguments.shape
    for quantization in ("float32", "int8"):
        export(arguments.model, exported / quantization, quantization, base)
    batches = {"1": arguments.batch_greedy, "": arguments.batch_beam}
    task = {"shape": arguments.shape, "model": str(arguments.model), "exported": str(exported), "batches": batches}
    path = (arguments.work / "segments.json").resolve()
    path.write_text(json.dumps(list(zip(ids, limits, strict=True))), encoding="utf-8")
    return {**task, "segments": str(path), "workers": arguments.workers}


def export(model: Path, folder: Path, quantization: str, base: bool) -> None:
    """The model for CTranslate2, with names for its pieces that our ids can be told from; made again at each start."""
    import shutil

    from mtkit.interop.ctranslate2.export import write_model

    network = random_base() if base else load_bundle(model).model
    sizes = network.src_embedding.num_embeddings, network.tgt_embedding.num_embeddings
    src, tgt = ([f"p{number}" for number in range(size)] for size in sizes)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_model(network, src, tgt, folder, quantization)  # type: ignore[arg-type]


def run_one(task: dict[str, Any]) -> dict[str, Any]:
    """A system's measurements, made in a process of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--one", json.dumps(task)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure_one(task: dict[str, Any]) -> dict[str, Any]:
    """In the system's own process: decode everything, and some sentences alone."""
    kind, *choices = task["system"].split("-")
    segments = [Segment(ids, max_len=limit) for ids, limit in json.loads(Path(task["segments"]).read_text())]
    batches = task["batches"]
    cfg = DecodeConfig(
        beam_size=task["beam_size"],
        batch_sentences=batches.get(str(task["beam_size"]), batches[""]),
        shortlist="shortlist" in choices,
    )
    engine = make_engine(kind, choices, task, task["workers"])
    list(engine.decode(segments[:: max(1, len(segments) // 100)], cfg, 1))  # first calls are slower
    started = time.perf_counter()
    found = {number: hypotheses[0].ids for number, hypotheses in engine.decode(segments, cfg, 1)}
    seconds = time.perf_counter() - started
    if isinstance(engine, ParallelEngine):
        engine.close()
        peaks = [peak_mib(resource.RUSAGE_SELF), *[peak_mib(resource.RUSAGE_CHILDREN)] * task["workers"]]
    else:
        peaks = [peak_mib(resource.RUSAGE_SELF)]
    alone = median(times_alone(kind, choices, task, segments, cfg)) if task["alone"] else None
    translations = [found[number] for number in range(len(segments))]
    return {"speed": len(segments) / seconds, "peak_mib": sum(peaks), "alone_ms": alone, "ids": translations}


def times_alone(
    kind: str, choices: Sequence[str], task: dict[str, Any], segments: Sequence[Segment], cfg: DecodeConfig
) -> Iterator[float]:
    """Milliseconds of some sentences, decoded one after the other by one thread of one process."""
    engine = make_engine(kind, choices, task, 0)
    step = max(1, len(segments) // _ALONE)
    list(engine.decode(segments[:3], cfg, 1))
    for segment in segments[::step]:
        started = time.perf_counter()
        list(engine.decode([segment], cfg, 1))
        yield 1000 * (time.perf_counter() - started)


def make_engine(kind: str, choices: Sequence[str], task: dict[str, Any], n_workers: int) -> Any:
    """An engine with so many workers; 0: in this process, with one thread."""
    if kind == "native":
        decode = DecodeConfig(precision=choices[0], shortlist="shortlist" in choices)
        make: Any = NativeInWorker((Path(task["model"]),), decode)
        if task["shape"] == "base":
            make = RandomBase(choices[0])
        return ParallelEngine(make, n_workers) if n_workers else make()
    folder = Path(task["exported"]) / choices[0]
    if kind == "ctranslate2":
        from mtkit.engines.ctranslate2 import CTranslate2Engine

        return CTranslate2Engine(folder, "cpu", threads=max(1, n_workers))
    return Library(folder, choices[0], max(1, n_workers))


@dataclass(frozen=True)
class _Found:
    ids: list[int]


class Library:
    """CTranslate2 by itself, without scores, as its users call it; each batch has the limit of its longest sentence."""

    def __init__(self, folder: Path, quantization: str, n_workers: int) -> None:
        import ctranslate2

        kind = "int8_float32" if quantization == "int8" else quantization
        self._translator = ctranslate2.Translator(
            str(folder), "cpu", compute_type=kind, inter_threads=n_workers, intra_threads=1
        )

    def decode(
        self, segments: Sequence[Segment], cfg: DecodeConfig, _n_best: int
    ) -> Iterator[tuple[int, list[_Found]]]:
        """As an engine of mtkit does."""
        by_length = sorted(range(len(segments)), key=lambda number: len(segments[number].ids), reverse=True)
        windows = [by_length[n : n + cfg.batch_sentences] for n in range(0, len(by_length), cfg.batch_sentences)]
        asked = [self._ask([segments[number] for number in window], cfg) for window in windows]
        for window, answers in zip(windows, asked, strict=True):
            for number, answer in zip(window, answers, strict=True):
                yield number, [_Found([int(piece[1:]) for piece in answer.result().hypotheses[0]])]

    def _ask(self, segments: Sequence[Segment], cfg: DecodeConfig) -> Any:
        return self._translator.translate_batch(
            [[f"p{token_id}" for token_id in segment.ids] for segment in segments],
            beam_size=cfg.beam_size,
            length_penalty=cfg.length_penalty,
            max_decoding_length=max(segment.max_len for segment in segments),
            max_batch_size=cfg.batch_sentences,
            asynchronous=True,
        )


def run_other(command: str, task: dict[str, Any], src: Path, beam_size: int) -> dict[str, Any]:
    """Measure a program that reads lines and writes lines; {beam} and {workers} in its command are filled in.

    Its start is what one line takes, and is not counted.
    """
    words = [word.format(beam=beam_size, workers=task["workers"]) for word in shlex.split(command)]
    lines = list(read_lines(src))[: len(json.loads(Path(task["segments"]).read_text()))]
    seconds, peaks = [], []
    for text in (lines[:1], lines):
        with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as printed:
            given.writelines(f"{line}\n" for line in text)
            given.seek(0)
            started = time.perf_counter()
            with subprocess.Popen(words, stdin=given, stdout=printed) as process:
                _, status, usage = os.wait4(process.pid, 0)  # its memory: as Linux counts, no less than ours
                process.returncode = os.waitstatus_to_exitcode(status)
            seconds.append(time.perf_counter() - started)
            if process.returncode:
                raise SystemExit(f"exit code {process.returncode}: {command}")
            peaks.append(in_mib(usage.ru_maxrss))
            printed.seek(0)
            texts = printed.read().splitlines()
    return {"speed": len(lines) / (seconds[1] - seconds[0]), "peak_mib": max(peaks), "alone_ms": None, "texts": texts}


def peak_mib(who: int) -> float:
    """The most memory that a process has had resident: this one, or the largest of its children so far."""
    return in_mib(resource.getrusage(who).ru_maxrss)


def in_mib(resident: int) -> float:
    """MiB of what the system says was resident: bytes on a Mac, else KiB."""
    return resident / 2**20 if sys.platform == "darwin" else resident / 2**10


def as_table(beam_size: int, records: dict[str, list[dict[str, Any]]], arguments: argparse.Namespace) -> str:
    """Lines for people."""
    lines = [
        f"{arguments.shape}, beam {beam_size}, {arguments.workers} workers; load {os.getloadavg()[0]:.1f}",
        f"{'':<26}{'sentences/s':>24}{'BLEU':>8}{'peak MiB':>10}{'alone ms':>10}",
    ]
    bleus = bleu_of(records, arguments)
    for name, rounds in records.items():
        speeds = sorted(record["speed"] for record in rounds)
        spread = f"{speeds[0]:.1f} {median(speeds):.1f} {speeds[-1]:.1f}"
        alone = next((f"{record['alone_ms']:.1f}" for record in rounds if record["alone_ms"]), "")
        peak = max(record["peak_mib"] for record in rounds)
        lines.append(f"{name:<26}{spread:>24}{bleus.get(name, ''):>8}{peak:>10.0f}{alone:>10}")
    return "\n".join(lines)


def bleu_of(records: dict[str, list[dict[str, Any]]], arguments: argparse.Namespace) -> dict[str, str]:
    """BLEU of each system's first round, if there are references and the model has learnt anything."""
    if arguments.ref is None or arguments.shape == "base":
        return {}
    from mtkit.evaluation.metrics.scores import evaluate

    decode = read_bundle(arguments.model).tgt_tokenizer.decode
    references = list(read_lines(arguments.ref))[: arguments.sentences]
    found = {}
    for name, rounds in records.items():
        texts = rounds[0].get("texts") or [decode(ids) for ids in rounds[0]["ids"]]
        found[name] = f"{evaluate(texts, references)[0].score:.2f}"
    return found


if __name__ == "__main__":
    main()

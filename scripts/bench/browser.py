"""An exported model in the real browser engine (WebAssembly, in Node) and in mtkit: BLEU, equal lines, and speed.

    npm install @browsermt/bergamot-translator@0.4.9
    mtkit export --to bergamot --model RUN --out build/exported
    .venv/bin/python scripts/bench/browser.py build/exported --src test.en.gz --ref test.fr.gz

The engine translates one line after the other, in one thread, as the page does. mtkit translates with the exported
model imported again: in fp32, in int8, and as the engine computes ("browser"): it rounds the inputs of products to
8 bits, and its sums of two products saturate at 16 bits. Lines that still differ have several sentences, which the
engine translates apart, or characters outside the vocabulary, which mtkit copies, or a rounding error decided.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from mtkit.bundle import BundleFiles, load_model, read_bundle
from mtkit.engines.native import NativeEngine
from mtkit.engines.shortlist import shortlist_of
from mtkit.evaluation.metrics.scores import corpus_bleu
from mtkit.interop.bergamot.folder import browser_model, import_model
from mtkit.interop.bergamot.page import PACKAGE, check_engine
from mtkit.pair_files.lines import read_lines
from mtkit.translation.translator import Translator

SCRIPT = Path(__file__).with_name("browser_engine.cjs")


def main() -> None:
    """Translate with both, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="folder that `mtkit export --to bergamot` wrote")
    parser.add_argument("--src", type=Path, required=True, help="text, one sentence a line")
    parser.add_argument("--ref", type=Path, required=True, help="its translations")
    parser.add_argument("--lines", type=int, default=1000, help="translate only the first lines, at most this many")
    parser.add_argument("--engine", type=Path, default=Path("node_modules", PACKAGE), help="the engine's npm package")
    args = parser.parse_args()
    check_engine(args.engine)
    if shutil.which("node") is None:
        sys.exit("this bench needs Node: https://nodejs.org")
    sources, references = (list(read_lines(path))[: args.lines] for path in (args.src, args.ref))
    with tempfile.TemporaryDirectory() as temporary:
        import_model(args.model, Path(temporary, "bundle"))
        bundle = read_bundle(Path(temporary, "bundle"))
        outputs = {name: translate(bundle, name, args.model, sources) for name in ("fp32", "int8", "browser")}
    answer = ask_engine(args.engine, args.model, sources)
    outputs["engine"] = answer["lines"]
    print(f"{len(sources)} lines   BLEU  = fp32  = engine")
    for name, lines in outputs.items():
        equal = [
            sum(a == b for a, b in zip(lines, outputs[other], strict=True)) / len(lines) for other in ("fp32", "engine")
        ]
        print(f"{name:<9}{corpus_bleu(lines, references):8.2f} {equal[0]:7.1%} {equal[1]:9.1%}")
    first, *others = answer["ms"]
    print(
        f"engine: ready in {answer['ready_ms']:.0f} ms, first line {first:.0f} ms, then a median of "
        f"{statistics.median(others):.1f} ms, 95 % below {statistics.quantiles(others, n=20)[-1]:.1f} ms"
    )


def translate(bundle: BundleFiles, precision: str, exported: Path, sources: list[str]) -> list[str]:
    """Translate with mtkit, without a second search for what looks suspect; "browser": as the engine computes."""
    model = load_model(bundle)
    if precision == "browser":
        model = browser_model(exported, model)
    engine = NativeEngine([model], "cpu", "int8" if precision == "int8" else "fp32", shortlist_of(bundle))
    decode = bundle.config.decode.model_copy(update={"on_suspect": "off"})
    return Translator(engine, bundle.src_tokenizer, bundle.tgt_tokenizer, decode).translate(sources)


def ask_engine(engine: Path, model: Path, sources: list[str]) -> dict[str, Any]:
    """Return the engine's lines, the milliseconds of each, and those until the model was loaded."""
    command = ["node", str(SCRIPT), str(engine.resolve()), str(model.resolve())]
    done = subprocess.run(command, input=json.dumps(sources), capture_output=True, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


if __name__ == "__main__":
    main()

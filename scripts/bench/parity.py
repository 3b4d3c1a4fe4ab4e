"""Does an imported model translate as it did where it came from? Greedy, line by line.

    .venv/bin/python scripts/bench/parity.py marian --model build/marian-tatoeba/model.npz --input test.en
    .venv/bin/python scripts/bench/parity.py marian --bundle runs/NAME/model --input test.en --reference test.fr
    .venv/bin/python scripts/bench/parity.py hf --model opus-mt-en-fr --input test.en
    .venv/bin/python scripts/bench/parity.py hf --bundle runs/post-norm/model --input test.en

marian: an .npz model, or a bundle that is exported as one first, against CTranslate2's conversion of it (float32) in
the environment of compare_marian.py; with --reference, also the log-probabilities of Marian itself, pair by pair.
hf: a MarianMT folder, or a bundle that is exported as one first, against transformers in an environment of its own.
Prints how many lines are equal, and those that are not.
"""

import argparse
import shutil
import sys
import venv
from pathlib import Path

import marian
import torch

from mtkit.bundle import load_bundle
from mtkit.config.decoding import DecodeConfig
from mtkit.console import log, set_up_logging
from mtkit.errors import MtkitError
from mtkit.interop import huggingface
from mtkit.interop import marian as marian_npz
from mtkit.pair_files.lines import read_lines
from mtkit.tokens.special_ids import BOS_ID, EOS_ID
from mtkit.translation.translator import Translator

_REQUIREMENTS = ("transformers==5.23.0", "torch==2.13.0", "sentencepiece==0.2.3")
_HERE = Path(__file__).parent
_SHOWN = 10
_MAX_LEN_CONSTANT = DecodeConfig().max_len_constant + 1  # mtkit leaves room for </s> beyond its limit


def main() -> None:
    """Run what the command line asks for."""
    arguments = parse_arguments()
    set_up_logging(quiet=False)
    arguments.work.mkdir(parents=True, exist_ok=True)
    try:
        lines = list(read_lines(arguments.input))[: arguments.lines]
        source = arguments.work / "source.txt"
        source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
        peer = (with_marian if arguments.kind == "marian" else with_transformers)(arguments, source)
        ours = Translator.load(
            arguments.work / "bundle",
            device="cpu",
            threads=arguments.threads,
            beam_size=1,
            engine="native",
            on_suspect="off",
        ).translate(lines)
    except MtkitError as error:
        log.error(str(error))
        sys.exit(1)
    report(lines, ours, peer)


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("kind", choices=["marian", "hf"], help="where the model comes from")
    model = parser.add_mutually_exclusive_group(required=True)
    model.add_argument("--model", type=Path, help="the .npz file, or the MarianMT folder")
    model.add_argument("--bundle", type=Path, help="a bundle of mtkit, exported first")
    parser.add_argument("--input", type=Path, required=True, help="source text")
    parser.add_argument("--reference", type=Path, help="marian: translations of the input, for Marian to score")
    parser.add_argument("--lines", type=int, default=1000, help="so many of its first lines")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    parser.add_argument("--work", type=Path, default=Path("build/parity"), help="folder for everything made here")
    parser.add_argument(
        "--environment", type=Path, help="the peer's; default: build/venv-marian, build/venv-transformers"
    )
    return parser.parse_args()


def with_marian(arguments: argparse.Namespace, source: Path) -> list[str]:
    """Import the model, or the exported bundle, as work/bundle; returns CTranslate2's translations."""
    environment = (arguments.environment or Path("build/venv-marian")).absolute()
    marian.make_environment(environment)
    work, model = arguments.work.resolve(), arguments.model
    if arguments.bundle is not None:
        marian_npz.export_bundle(arguments.bundle, work / "from-bundle")
        model = work / "from-bundle" / "model.npz"
    marian_npz.import_model(model, work / "bundle")
    exported = work / "exported"  # brings the vocabularies under the names that marian.convert expects
    marian_npz.export_bundle(work / "bundle", exported)
    shutil.copyfile(model, exported / "model.npz")
    if arguments.reference is not None:
        compare_scores(arguments, environment, source, exported)
    marian.convert(environment, exported)
    output, decode = work / "peer.txt", DecodeConfig(beam_size=1, max_len_constant=_MAX_LEN_CONSTANT)
    marian.translate(environment, exported, source.resolve(), output, decode, arguments.threads)
    return list(read_lines(output))


def compare_scores(arguments: argparse.Namespace, environment: Path, source: Path, exported: Path) -> None:
    """Print how far Marian's log-probabilities of the reference translations are from mtkit's."""
    target = arguments.work / "reference.txt"
    lines = list(read_lines(arguments.reference))[: arguments.lines]
    target.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    files = ["-v", f"{exported}/src.spm", f"{exported}/tgt.spm", "-t", str(source), str(target)]
    settings = ["--cpu-threads", str(arguments.threads), "--quiet"]
    command = ["python", "-m", "pymarian", "score", "-m", f"{exported}/model.npz", *files, *settings]
    theirs = [float(line) for line in marian.run_in(environment, command).split()]
    bundle = load_bundle(arguments.bundle or arguments.work / "bundle")
    differences = []
    for src_line, tgt_line, score in zip(read_lines(source), lines, theirs, strict=True):
        src, tgt = bundle.src_tokenizer.encode(src_line), bundle.tgt_tokenizer.encode(tgt_line)
        with torch.no_grad():
            logits = bundle.model(torch.tensor([[*src, EOS_ID]]), torch.tensor([[BOS_ID, *tgt]]))[0]
        log_prob = logits.log_softmax(dim=-1)[range(len(tgt) + 1), [*tgt, EOS_ID]].sum().item()
        differences.append(abs(log_prob - score))
    print(f"log-probabilities of {len(differences)} pairs: at most {max(differences):.1e} nats from Marian's")


def with_transformers(arguments: argparse.Namespace, source: Path) -> list[str]:
    """Import the model, or the exported bundle, as work/bundle; returns the translations of transformers."""
    environment = (arguments.environment or Path("build/venv-transformers")).absolute()
    if not (environment / "bin").exists():
        log.info(f"{environment}: installing {', '.join(_REQUIREMENTS)}")
        venv.create(environment, with_pip=True)
        marian.run_in(environment, ["python", "-m", "pip", "install", "--quiet", *_REQUIREMENTS])
    folder = arguments.model
    if arguments.bundle is not None:
        folder = arguments.work / "exported"
        huggingface.export_bundle(arguments.bundle, folder)
    huggingface.import_model(folder, arguments.work / "bundle")
    output, decode = arguments.work / "peer.txt", DecodeConfig(max_len_constant=_MAX_LEN_CONSTANT)
    settings = (arguments.threads, decode.max_len_factor, decode.max_len_constant)
    command = ["python", str(_HERE / "peer_transformers.py"), str(folder), str(source), str(output)]
    marian.run_in(environment, [*command, *map(str, settings)])
    return list(read_lines(output))


def report(lines: list[str], ours: list[str], peer: list[str]) -> None:
    """Print the count and the first differences."""
    different = [number for number in range(len(lines)) if ours[number].strip() != peer[number].strip()]
    print(f"{len(lines) - len(different)} of {len(lines)} lines are equal")
    for number in different[:_SHOWN]:
        print(f"line {number + 1}: {lines[number]}\n  mtkit: {ours[number]}\n  peer:  {peer[number]}")


if __name__ == "__main__":
    main()

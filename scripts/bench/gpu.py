"""Measure how fast mtkit trains and decodes on a GPU, and whether it computes the same as on the CPU.

    .venv/bin/python scripts/bench/gpu.py                    # 256, base and big, bf16, some minutes
    .venv/bin/torchrun --nproc-per-node 8 scripts/bench/gpu.py --only training      # on 8 GPUs
    .venv/bin/python scripts/bench/gpu.py --device cpu --shapes tiny --steps 5      # tries the script itself

Needs no data: sentences are random ids, and the target repeats the source, so that the loss must fall. Trains mtkit as
it is, with train.compile, and, where transformers is installed, Hugging Face's MarianMT on the same batches; each with
its share of the device's peak (model FLOP utilisation: `model_flops.py` says what is counted). Where CTranslate2 is
installed, it decodes the same batches with the same weights. Prints a table; `--json FILE` keeps it for programs. Exits
with 1 if the device's results are not the CPU's.
"""

import argparse
import copy
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import torch
from gpu_training import SYSTEMS, Training, as_line, is_main, train
from synthetic import SHAPES, Shape, now, random_lengths, source
from torch import Tensor

from mtkit.distributed.communicator import Communicator
from mtkit.distributed.launch import processes_of_job
from mtkit.engines.steps import ModelStep
from mtkit.model.gpu.graphs import with_graphs
from mtkit.model.inference import Decoder
from mtkit.model.quantization import quantize, supported_precision
from mtkit.model.transformer import Transformer
from mtkit.runtime import Precision, autocast, choose_device
from mtkit.search.beam import search
from mtkit.search.hypothesis import Hypothesis
from mtkit.search.step import SearchConfig
from mtkit.tokens.special_ids import BOS_ID, EOS_ID, PAD_ID

# Largest difference to the CPU's fp32 logits, in standard deviations of them: rounding of the sums, of the inputs.
_TOLERANCE: dict[Precision, float] = {"fp32": 1e-3, "bf16": 0.15, "fp16": 0.03}
# Least share of equal greedy translations. Random weights make near ties, which the rounding of bf16 decides.
_EQUAL: dict[Precision, float] = {"fp32": 0.95, "bf16": 0.3, "fp16": 0.0}


def main() -> None:
    """Measure what the command line asks for."""
    arguments = parse_arguments()
    with processes_of_job() as processes:
        device = processes.device(choose_device(arguments.device))
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)
        if is_main():
            print(f"{processes.size} x {name}, torch {torch.__version__}", flush=True)
        results = []
        for shape_name in arguments.shapes:
            for precision in arguments.precisions:
                results.append(measure(shape_name, precision, device, processes, arguments))
                if arguments.json and is_main():  # after each: a later one may not fit into memory
                    record = {"device": name, "devices": processes.size, "torch": torch.__version__}
                    record |= {"results": [asdict(result) for result in results]}
                    arguments.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    sys.exit(0 if all(result.is_right for result in results) else 1)


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N, mps or cpu")
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=["256", "base", "big"], help="networks")
    parser.add_argument(
        "--precisions", nargs="+", choices=list(_TOLERANCE), default=["bf16"], help="working precisions"
    )
    parser.add_argument(
        "--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS), help="that train; marianmt needs transformers"
    )
    parser.add_argument("--only", choices=["training", "decoding"], help="leave out the other")
    parser.add_argument("--steps", type=int, default=50, help="updates that are timed")
    parser.add_argument("--batch-tokens", type=int, help="instead of the shape's own")
    parser.add_argument("--sentences", type=int, default=512, help="sentences that are decoded")
    parser.add_argument("--batch-sentences", type=int, default=128, help="sentences decoded together")
    parser.add_argument("--json", type=Path, help="write the results here, too")
    return parser.parse_args()


@dataclass(frozen=True)
class Result:
    """What was found for one shape in one precision."""

    shape: str
    precision: Precision
    logits_error: float  # largest difference to the CPU's fp32 logits, in standard deviations of them
    same_greedy: float  # share of sentences that greedy search translates as on the CPU in fp32; 0 in fp16
    trainings: list[Training]
    decoding: dict[str, tuple[float, float]] = field(default_factory=dict)  # by system: sentences/s greedy, beam 4

    @property
    def is_right(self) -> bool:
        """Whether the device agrees with the CPU, and learns."""
        ours = [training.losses for training in self.trainings if training.system != "marianmt"]
        learns = all(last < first for first, last in ours)
        same = self.logits_error <= _TOLERANCE[self.precision] and self.same_greedy >= _EQUAL[self.precision]
        return same and learns


def measure(
    shape_name: str, precision: Precision, device: torch.device, processes: Communicator, arguments: argparse.Namespace
) -> Result:
    """Compare, train, decode; what is found is printed as it comes."""
    shape = SHAPES[shape_name]
    if arguments.batch_tokens:
        shape = replace(shape, batch_tokens=arguments.batch_tokens)
    torch.manual_seed(1)
    on_cpu = Transformer(shape.model, shape.vocab_size, shape.vocab_size, PAD_ID).eval()
    model = copy.deepcopy(on_cpu).to(device)
    logits_error, same_greedy = compare_with_cpu(model, on_cpu, shape.vocab_size, device, precision)
    equal = "" if precision == "fp16" else f", {same_greedy:.0%} of the greedy translations equal"
    say(f"{shape_name} {precision}: logits within {logits_error:.1e} of the CPU's{equal}")
    trainings = []
    for system in systems_of(arguments, processes):
        trainings.append(train(system, shape, device, precision, arguments.steps, processes))
        say(as_line(trainings[-1]))
    result = Result(shape_name, precision, logits_error, same_greedy, trainings)
    if arguments.only != "training" and processes.size == 1 and precision != "fp16":  # in which nothing is decoded
        result.decoding.update(decode_beside(model, shape, device, precision, arguments))
    if not result.is_right:
        say("    WRONG: the device's results are not the CPU's, or a loss did not fall")
    return result


def systems_of(arguments: argparse.Namespace, processes: Communicator) -> list[str]:
    """The systems that can train here."""
    if arguments.only == "decoding":
        return []
    systems = list(arguments.systems)
    if "marianmt" in systems and (processes.size > 1 or find_spec("transformers") is None):
        systems.remove("marianmt")
        say("    marianmt is left out: " + ("one process" if processes.size > 1 else "transformers") + " is needed")
    return systems


def say(text: str) -> None:
    """Print, once however many processes there are."""
    if is_main():
        print(text, flush=True)


@torch.inference_mode()
def compare_with_cpu(
    model: Transformer, on_cpu: Transformer, vocab_size: int, device: torch.device, precision: Precision
) -> tuple[float, float]:
    """The logits' error and the share of equal greedy translations, on a few sentences of unequal length."""
    lengths = random_lengths(np.random.default_rng(3), 24)
    src = source(lengths, vocab_size)
    expected = on_cpu(src, src)
    with autocast(device, precision):
        found = model(src.to(device), src.to(device)).float().cpu()
    real = src != PAD_ID  # the values at padding do not matter
    error = float((found - expected)[real].abs().max() / expected[real].std())
    if precision == "fp16":
        return error, 0.0
    theirs = translate(on_cpu, src, beam_size=1)
    ours = translate(decoder_of(model, device, precision), src.to(device), beam_size=1)
    equal = [mine[0].ids == yours[0].ids for mine, yours in zip(ours, theirs, strict=True)]
    return error, sum(equal) / len(equal)


@torch.inference_mode()
def decode_beside(
    model: Transformer, shape: Shape, device: torch.device, precision: Precision, arguments: argparse.Namespace
) -> dict[str, tuple[float, float]]:
    """Sentences per second of each system, greedy and with beam 4; prints each result at once.

    Each sentence is translated into as many tokens as it has itself, so that the work is the same for every model.
    CTranslate2 has one length for a batch: that of its longest sentence, and the batches are sorted by length.
    """
    model.eval()
    model.output.bias[EOS_ID] = -1e4  # the length limit alone ends them
    lengths = np.sort(random_lengths(np.random.default_rng(2), arguments.sentences))
    groups = np.split(lengths, range(arguments.batch_sentences, len(lengths), arguments.batch_sentences))
    batches = [source(group, shape.vocab_size) for group in groups]
    fast = decoder_of(model, device, precision)
    found = {}

    def time_both(system: str, decode: Callable[[Tensor, int], object]) -> None:
        both = [sentences_per_s(decode, batches, beam_size, device) for beam_size in (1, 4)]
        found[system] = both[0], both[1]
        say(f"    decoding, {system}: {both[0]:,.1f} sentences/s greedy, {both[1]:,.1f} beam 4")

    time_both("mtkit", lambda src, beam_size: translate(fast, src.to(device), beam_size))
    if find_spec("ctranslate2") is not None:
        with TemporaryDirectory() as folder:
            try:
                time_both("ctranslate2", ctranslate2_decoder(model, shape, device, precision, Path(folder)))
            except RuntimeError as error:  # its libraries of CUDA may be missing
                say(f"    decoding, ctranslate2: left out: {error}")
    return found


def ctranslate2_decoder(
    model: Transformer, shape: Shape, device: torch.device, precision: Precision, folder: Path
) -> Callable[[Tensor, int], object]:
    """A function that decodes a batch of ids (B, S) with a beam of the size that is given.

    It computes in float32 where CTranslate2 does not support the precision on the device.
    """
    import ctranslate2

    from mtkit.interop.ctranslate2.export import write_model

    pieces = [f"p{number}" for number in range(shape.vocab_size)]
    write_model(copy.deepcopy(model).float().cpu(), pieces, pieces, folder, "float32")
    kind = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}[precision]
    kind = kind if kind in ctranslate2.get_supported_compute_types(device.type) else "float32"
    translator = ctranslate2.Translator(str(folder), device=device.type, compute_type=kind)

    def decode(src: Tensor, beam_size: int) -> object:
        tokens = [[pieces[number] for number in row if number not in (PAD_ID, EOS_ID)] for row in src.tolist()]
        longest = src.size(1)
        return translator.translate_batch(
            tokens, beam_size=beam_size, min_decoding_length=longest, max_decoding_length=longest
        )

    return decode


def sentences_per_s(
    decode: Callable[[Tensor, int], object], batches: list[Tensor], beam_size: int, device: torch.device
) -> float:
    """How many sentences of the batches are decoded in a second: the median of three runs."""
    seconds = []
    for _ in range(4):  # the first, in which kernels are chosen and memory is taken, does not count
        started = now(device)
        for src in batches:
            decode(src, beam_size)
        seconds.append(now(device) - started)
    return sum(len(src) for src in batches) / median(seconds[1:])


def decoder_of(model: Transformer, device: torch.device, precision: Precision) -> Decoder:
    """What the native engine decodes with on a GPU; on a CPU the layers."""
    quantized = quantize(model, supported_precision(precision, device))
    return with_graphs(quantized, say) if device.type == "cuda" else quantized


def translate(model: Decoder, src: Tensor, beam_size: int) -> list[list[Hypothesis]]:
    """Search, to as many tokens as the source has."""
    max_lens = (src != PAD_ID).sum(dim=1)
    step = ModelStep(model, src, beam_size)
    results = search(step, max_lens, SearchConfig(beam_size), bos_id=BOS_ID, eos_id=EOS_ID)
    return [result.n_best for result in results]


if __name__ == "__main__":
    main()

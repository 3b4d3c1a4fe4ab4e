"""How fast mtkit trains and decodes on a GPU, and whether it computes there what it computes on the CPU.

    .venv/bin/python scripts/bench/gpu.py                    # both shapes, bf16 and fp32, some minutes
    .venv/bin/python scripts/bench/gpu.py --device cpu --shapes tiny --steps 5   # tries the script itself

Needs no data: sentences are random ids, and the target repeats the source, so that the loss must fall. Prints a table;
`--json FILE` keeps it for programs. Exits with 1 if the device's results are not the CPU's.
"""

import argparse
import copy
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mtkit.config.schema import ModelConfig, TrainConfig
from mtkit.data.batching import Batch, plan_epoch
from mtkit.data.encoded import Lengths
from mtkit.data.special_ids import BOS_ID, EOS_ID, PAD_ID
from mtkit.decoding.engine import Hypothesis
from mtkit.decoding.search import SearchConfig, search
from mtkit.decoding.steps import ModelStep
from mtkit.model.quantization import quantize
from mtkit.model.transformer import Transformer
from mtkit.runtime import Precision, autocast, choose_device
from mtkit.training.update import Updater

_FIRST_ID = EOS_ID + 1
_WARM_UP_STEPS = 5  # not timed: kernels are chosen, memory is taken
_MEAN_LENGTH, _LONGEST = 26, 100  # tokens: those of news text in a vocabulary of 37,000
# Largest difference to the CPU's fp32 logits, in standard deviations of them: rounding of the sums, of the inputs.
_TOLERANCE: dict[Precision, float] = {"fp32": 1e-3, "bf16": 0.15, "fp16": 0.03}


@dataclass(frozen=True)
class Shape:
    """A network with its vocabulary and batch."""

    model: ModelConfig
    vocab_size: int
    batch_tokens: int


SHAPES = {
    "tiny": Shape(ModelConfig(d_model=32, d_ff=64, n_heads=2, n_encoder_layers=1, n_decoder_layers=1), 500, 1000),
    "256": Shape(ModelConfig(), 8000, 25000),  # the 256-wide 3+3 layers of configs/tatoeba-en-fr.yaml
    "base": Shape(  # configs/transformer-base.yaml
        ModelConfig(
            d_model=512,
            d_ff=2048,
            n_heads=8,
            n_encoder_layers=6,
            n_decoder_layers=6,
            norm_position="post",
            tie="all",
        ),
        37000,
        25000,
    ),
}


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N, mps or cpu")
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=["256", "base"], help="networks")
    parser.add_argument(
        "--precisions", nargs="+", choices=list(_TOLERANCE), default=["bf16", "fp32"], help="working precisions"
    )
    parser.add_argument("--steps", type=int, default=50, help="updates that are timed")
    parser.add_argument("--sentences", type=int, default=512, help="sentences that are decoded")
    parser.add_argument("--batch-sentences", type=int, default=128, help="sentences decoded together")
    parser.add_argument("--json", type=Path, help="write the results here, too")
    arguments = parser.parse_args()
    device = choose_device(arguments.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)
    print(f"{name}, torch {torch.__version__}", flush=True)
    results = []
    for shape_name in arguments.shapes:
        for precision in arguments.precisions:
            results.append(measure(shape_name, precision, device, arguments))
            print(as_line(results[-1]), flush=True)
    if arguments.json:
        record = {"device": name, "torch": torch.__version__, "results": [asdict(result) for result in results]}
        arguments.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    sys.exit(0 if all(result.is_right for result in results) else 1)


@dataclass(frozen=True)
class Result:
    """What was found for one shape in one precision."""

    shape: str
    precision: Precision
    logits_error: float  # largest difference to the CPU's fp32 logits, in standard deviations of them
    same_greedy: float  # share of sentences that greedy search translates as on the CPU in fp32
    losses: tuple[float, float]  # nats per token, of the first and the last update
    tokens_per_s: float  # target tokens, in training
    peak_bytes: int  # of the device's memory, in training; 0 where it cannot be told
    greedy_per_s: float  # sentences
    beam_4_per_s: float  # sentences

    @property
    def is_right(self) -> bool:
        """Whether the device agrees with the CPU, and learns."""
        return self.logits_error <= _TOLERANCE[self.precision] and self.losses[1] < self.losses[0]


def measure(shape_name: str, precision: Precision, device: torch.device, arguments: argparse.Namespace) -> Result:
    """Compare, train, decode."""
    shape = SHAPES[shape_name]
    torch.manual_seed(1)
    on_cpu = Transformer(shape.model, shape.vocab_size, shape.vocab_size, PAD_ID).eval()
    model = copy.deepcopy(on_cpu).to(device)
    logits_error, same_greedy = compare_with_cpu(model, on_cpu, shape.vocab_size, device, precision)
    losses, tokens_per_s, peak_bytes = train(model, shape, device, precision, arguments.steps)
    speeds = [decode(model, shape, device, precision, arguments, beam_size) for beam_size in (1, 4)]
    return Result(shape_name, precision, logits_error, same_greedy, losses, tokens_per_s, peak_bytes, *speeds)


def as_line(result: Result) -> str:
    """The result for people."""
    return (
        f"{result.shape} {result.precision}: {'right' if result.is_right else 'WRONG'} "
        f"(logits within {result.logits_error:.1e} of the CPU's, {result.same_greedy:.0%} of the greedy translations "
        f"equal; loss {result.losses[0]:.2f} -> {result.losses[1]:.2f})\n"
        f"    training {result.tokens_per_s:,.0f} target tokens/s, {result.peak_bytes / 2**30:.2f} GiB; "
        f"decoding {result.greedy_per_s:,.1f} sentences/s greedy, {result.beam_4_per_s:,.1f} beam 4"
    )


@torch.inference_mode()
def compare_with_cpu(
    model: Transformer, on_cpu: Transformer, vocab_size: int, device: torch.device, precision: Precision
) -> tuple[float, float]:
    """The logits' error and the share of equal greedy translations, on a few sentences of unequal length."""
    batch = next(synthetic_batches(vocab_size, batch_tokens=600))
    expected = on_cpu(batch.src, batch.tgt_in)
    with autocast(device, precision):
        found = model(batch.src.to(device), batch.tgt_in.to(device)).float().cpu()
    error = float((found - expected).abs().max() / expected.std())
    theirs = translate(on_cpu, batch.src, beam_size=1)
    ours = translate(quantize(model, precision), batch.src.to(device), beam_size=1)
    equal = [mine[0].ids == yours[0].ids for mine, yours in zip(ours, theirs, strict=True)]
    return error, sum(equal) / len(equal)


def train(
    model: Transformer, shape: Shape, device: torch.device, precision: Precision, n_steps: int
) -> tuple[tuple[float, float], float, int]:
    """The first and last loss, target tokens per second, and the largest memory."""
    updater = Updater(model, TrainConfig(max_steps=100000), seed=1, precision=precision)
    batches = synthetic_batches(shape.vocab_size, shape.batch_tokens)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    losses, n_tokens, started = [], 0, 0.0
    for step in range(1, _WARM_UP_STEPS + n_steps + 1):
        if step == _WARM_UP_STEPS + 1:
            n_tokens, started = 0, now(device)
        stats = updater.update([next(batches)], step, lr=5e-4)
        losses.append(stats.loss_sum / stats.n_tgt_tokens)
        n_tokens += stats.n_tgt_tokens
    seconds = now(device) - started
    peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0
    return (losses[0], losses[-1]), n_tokens / seconds, peak


@torch.inference_mode()
def decode(
    model: Transformer,
    shape: Shape,
    device: torch.device,
    precision: Precision,
    arguments: argparse.Namespace,
    beam_size: int,
) -> float:
    """Sentences per second, each translated into as many tokens as it has itself."""
    model.eval()
    model.output.bias[EOS_ID] = -1e4  # the length limit alone ends them: the work is the same for every model
    lengths = np.sort(random_lengths(np.random.default_rng(2), arguments.sentences))
    groups = np.split(lengths, range(arguments.batch_sentences, len(lengths), arguments.batch_sentences))
    batches = [source(group, shape.vocab_size).to(device) for group in groups]
    fast = quantize(model, precision)
    translate(fast, batches[0], beam_size)  # not timed
    started = now(device)
    for src in batches:
        translate(fast, src, beam_size)
    return len(lengths) / (now(device) - started)


def translate(model: Transformer, src: Tensor, beam_size: int) -> list[list[Hypothesis]]:
    """Search, to as many tokens as the source has."""
    max_lens = (src != PAD_ID).sum(dim=1)
    step = ModelStep(model, src, beam_size)
    results = search(step, max_lens, SearchConfig(beam_size), bos_id=BOS_ID, eos_id=EOS_ID)
    return [result.n_best for result in results]


def synthetic_batches(vocab_size: int, batch_tokens: int) -> Iterator[Batch]:
    """Batches without end, made like those of real text; the target is the source."""
    rng = np.random.default_rng(1)
    lengths = random_lengths(rng, 20000)
    epoch = 0
    while True:
        for indices in plan_epoch(lengths, lengths, batch_tokens=batch_tokens, seed=1, epoch=epoch):
            src = source(lengths[indices], vocab_size, seed=int(indices[0]))
            first = torch.full((len(indices), 1), BOS_ID)
            tgt_in = torch.cat([first, src[:, :-1].masked_fill(src[:, :-1] == EOS_ID, PAD_ID)], dim=1)
            yield Batch(src, tgt_in, src, indices, int((src != PAD_ID).sum()))
        epoch += 1


def random_lengths(rng: np.random.Generator, n: int) -> Lengths:
    """Sentence lengths in tokens, spread as in news text: many about the mean, a few very long ones."""
    return np.clip(rng.gamma(shape=3.0, scale=_MEAN_LENGTH / 3, size=n).astype(np.int32), 1, _LONGEST)


def source(lengths: Lengths, vocab_size: int, seed: int = 0) -> Tensor:
    """Random ids (B, longest + 1), each row ending in EOS, padded."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(_FIRST_ID, vocab_size, size=(len(lengths), int(lengths.max()) + 1))
    positions = np.arange(ids.shape[1])
    ids[positions == lengths[:, None]] = EOS_ID
    ids[positions > lengths[:, None]] = PAD_ID
    return torch.from_numpy(ids)


def now(device: torch.device) -> float:
    """Seconds on a clock, once the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
    return time.perf_counter()


if __name__ == "__main__":
    main()

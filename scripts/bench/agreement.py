"""Does the fast training path compute what a plain one computes? Gradients, learning curves, BLEU.

    .venv/bin/python scripts/bench/agreement.py                                     # the built-in sample corpus
    .venv/bin/python scripts/bench/agreement.py --src data/multi30k/train.en.gz --tgt data/multi30k/train.fr.gz \\
        --dev-src data/multi30k/val.en.gz --dev-tgt data/multi30k/val.fr.gz --pairs 5000 --steps 600

First the gradient of one update, dropout off, fp32: mtkit's against that of torch's own nn.Transformer layers with the
same weights and F.cross_entropy; exits with 1 if they differ by more than 1e-4 of their length. Then small runs with
dropout, of several seeds: the fast path in fp32 and in bf16, and a plain one, which is those layers of torch with its
own dropout and AdamW. Prints the loss on dev along the way and BLEU at the end, mean and deviation of each arm.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from statistics import mean, stdev

import torch
import torch.nn.functional as F
from operator_groups import text_batches
from plain_transformer import PlainTransformer
from torch import nn

from mtkit.config.data import CorpusFiles
from mtkit.config.decoding import DecodeConfig
from mtkit.config.model import ModelConfig
from mtkit.config.tokenizer import TokenizerConfig
from mtkit.config.training import TrainConfig
from mtkit.console import set_up_logging
from mtkit.data.batching import Batch
from mtkit.data.corpus import read_pairs
from mtkit.data.sample import write_sample
from mtkit.engines.native import NativeEngine
from mtkit.evaluation.metrics.scores import corpus_bleu
from mtkit.model.transformer import Transformer
from mtkit.runtime import Precision
from mtkit.tokens.special_ids import PAD_ID
from mtkit.tokens.tokenizer import Tokenizer, train_tokenizer
from mtkit.training.update.optimizer_step import Updater, batch_loss
from mtkit.training.update.schedule import learning_rate
from mtkit.translation.translator import Translator

ARMS: dict[str, tuple[bool, Precision]] = {  # whether the path is the plain one, and the precision
    "plain fp32": (True, "fp32"),
    "fast fp32": (False, "fp32"),
    "fast bf16": (False, "bf16"),
}
_TOLERANCE = 1e-4
Update = Callable[[Batch, int, float], object]  # of a batch, with the step's number and learning rate
Finish = Callable[[], None]  # gives the model the weights learnt so far


@dataclass(frozen=True)
class Task:
    """What all arms learn from and are scored on."""

    src: list[list[int]]
    tgt: list[list[int]]
    dev: list[Batch]
    dev_src: list[str]
    dev_tgt: list[str]
    tokenizers: tuple[Tokenizer, Tokenizer]


@dataclass(frozen=True)
class Outcome:
    """What became of one run."""

    arm: str
    seed: int
    losses: list[float]  # on dev, nats per target token, at equal distances
    bleu: float
    seconds: float


def main() -> None:
    """Compare, as the command line says."""
    arguments = parse_arguments()
    set_up_logging(quiet=False)
    torch.set_num_threads(arguments.threads)
    task = make_task(arguments)
    model_cfg = ModelConfig(
        d_model=arguments.d_model,
        d_ff=4 * arguments.d_model,
        n_heads=4,
        n_encoder_layers=arguments.layers,
        n_decoder_layers=arguments.layers,
    )
    difference = gradient_difference(model_cfg, task)
    print(f"gradients, fp32, no dropout: they differ by {difference:.1e} of their length", flush=True)
    outcomes = []
    for seed in range(1, arguments.seeds + 1):
        for arm in arguments.arms:
            outcomes.append(learn(arm, seed, with_dropout(model_cfg, arguments.dropout), task, arguments))
            last = outcomes[-1]
            print(f"{arm}, seed {seed}: dev loss {last.losses[-1]:.3f}, BLEU {last.bleu:.2f}", file=sys.stderr)
    if outcomes:
        print(as_table(outcomes, arguments))
    if arguments.json:
        record = {"gradient_difference": difference, "runs": [asdict(outcome) for outcome in outcomes]}
        arguments.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    sys.exit(0 if difference <= _TOLERANCE else 1)


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--src", type=Path, help="training text; default: the built-in sample corpus")
    parser.add_argument("--tgt", type=Path, help="its translation")
    parser.add_argument("--dev-src", type=Path, help="text to be scored on")
    parser.add_argument("--dev-tgt", type=Path, help="its translation")
    parser.add_argument("--pairs", type=int, default=3000, help="training pairs")
    parser.add_argument("--dev-pairs", type=int, default=200)
    parser.add_argument("--vocab-size", type=int, default=1500, help="of each side")
    parser.add_argument("--d-model", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2, help="of the encoder, and of the decoder")
    parser.add_argument("--dropout", type=float, default=0.1, help="in all places")
    parser.add_argument("--batch-tokens", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=300, help="updates of each run")
    parser.add_argument("--points", type=int, default=5, help="how often the loss on dev is taken")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each arm; 0: the gradients alone")
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--work", type=Path, default=Path("build/agreement"), help="folder for what is made here")
    parser.add_argument("--json", type=Path, help="write the results here, too")
    return parser.parse_args()


def make_task(arguments: argparse.Namespace) -> Task:
    """Read the text and learn its pieces."""
    work = arguments.work
    work.mkdir(parents=True, exist_ok=True)
    if arguments.src:
        train_files = CorpusFiles(src=arguments.src, tgt=arguments.tgt)
        dev_files = CorpusFiles(src=arguments.dev_src, tgt=arguments.dev_tgt)
    else:
        write_sample(work)
        train_files, dev_files = (
            CorpusFiles(src=work / f"{part}.en", tgt=work / f"{part}.fr") for part in ("train", "dev")
        )
    pairs = list(islice(read_pairs([train_files]), arguments.pairs))
    dev = list(islice(read_pairs([dev_files]), arguments.dev_pairs))
    pieces = TokenizerConfig(vocab_size=arguments.vocab_size)
    sides = ("src", "tgt")
    src, tgt = (
        train_tokenizer([getattr(pair, side) for pair in pairs], pieces, work / f"{side}.spm") for side in sides
    )
    dev_src, dev_tgt = (
        t.encode_batch([getattr(pair, side) for pair in dev]) for t, side in zip((src, tgt), sides, strict=True)
    )
    one_epoch = text_batches(dev_src, dev_tgt, 10**9, seed=1)
    return Task(
        src.encode_batch([pair.src for pair in pairs]),
        tgt.encode_batch([pair.tgt for pair in pairs]),
        [next(one_epoch)],
        [pair.src for pair in dev],
        [pair.tgt for pair in dev],
        (src, tgt),
    )


def with_dropout(cfg: ModelConfig, p: float) -> ModelConfig:
    """The same network with this dropout everywhere."""
    places = ("embedding_dropout", "residual_dropout", "attention_dropout", "ffn_dropout")
    return cfg.model_copy(update=dict.fromkeys(places, p))


def new_model(cfg: ModelConfig, task: Task, seed: int) -> Transformer:
    """With weights of that seed."""
    torch.manual_seed(seed)
    src, tgt = task.tokenizers
    return Transformer(cfg, src.vocab_size, tgt.vocab_size, PAD_ID)


def gradient_difference(cfg: ModelConfig, task: Task) -> float:
    """The length of the difference of both paths' gradients over that of the gradient, for a batch of the text."""
    model = new_model(with_dropout(cfg, 0.0), task, seed=1)
    batch = next(text_batches(task.src, task.tgt, 1000, seed=1))
    plain = PlainTransformer(model).train()
    plain.loss(batch.src, batch.tgt_in, batch.tgt_out, label_smoothing=0.1).backward()  # type: ignore[no-untyped-call]
    loss, _ = batch_loss(model, batch, 0.1, "fp32")
    (loss / batch.n_tgt_tokens).backward()  # type: ignore[no-untyped-call]
    apart, length = 0.0, 0.0
    for name, parameter in model.named_parameters():
        expected = plain.gradient(name)
        assert parameter.grad is not None
        apart += float((parameter.grad - expected).pow(2).sum())
        length += float(expected.pow(2).sum())
    return math.sqrt(apart / length)


def learn(arm: str, seed: int, cfg: ModelConfig, task: Task, arguments: argparse.Namespace) -> Outcome:
    """One run of an arm; the seed fixes the first weights and the batches, the same for all arms."""
    is_plain, precision = ARMS[arm]
    started = time.monotonic()
    model = new_model(cfg, task, seed)
    train_cfg = TrainConfig(max_steps=arguments.steps, schedule="cosine", lr=2e-3, warmup_steps=arguments.steps // 10)
    batches = text_batches(task.src, task.tgt, arguments.batch_tokens, seed)
    every = max(1, arguments.steps // arguments.points)
    losses = []
    update, finish = plain_update(model, train_cfg) if is_plain else fast_update(model, train_cfg, seed, precision)
    for step in range(1, arguments.steps + 1):
        update(next(batches), step, learning_rate(train_cfg, step, step / arguments.steps))
        if step % every == 0:
            finish()
            losses.append(dev_loss(model, task))
    finish()
    model.eval()
    decode = DecodeConfig(beam_size=1, on_suspect="off")
    translations = Translator(NativeEngine([model]), *task.tokenizers, decode).translate(task.dev_src)
    return Outcome(arm, seed, losses, corpus_bleu(translations, task.dev_tgt), time.monotonic() - started)


def fast_update(model: Transformer, cfg: TrainConfig, seed: int, precision: Precision) -> tuple[Update, Finish]:
    """mtkit's own."""
    updater = Updater(model, cfg, seed, precision)
    return lambda batch, step, lr: updater.update([batch], step, lr), lambda: None


def plain_update(model: Transformer, cfg: TrainConfig) -> tuple[Update, Finish]:
    """torch's layers, loss and optimizer, from the model's weights; finishing brings them back to the model."""
    plain = PlainTransformer(model).train()
    optimizer = torch.optim.AdamW(plain.parameters(), betas=cfg.adam_betas, eps=cfg.adam_eps, weight_decay=0.0)

    def update(batch: Batch, _step: int, lr: float) -> None:
        optimizer.zero_grad()
        loss = plain.loss(batch.src, batch.tgt_in, batch.tgt_out, cfg.label_smoothing)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(plain.parameters(), cfg.max_grad_norm)
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.step()

    return update, lambda: plain.copy_to(model)


@torch.no_grad()
def dev_loss(model: Transformer, task: Task) -> float:
    """Nats per target token, without smoothing, of all arms in the same way: fp32, all logits at once."""
    model.eval()
    total = sum(
        float(F.cross_entropy(model(b.src, b.tgt_in).flatten(0, 1), b.tgt_out.flatten(), ignore_index=PAD_ID))
        for b in task.dev
    )
    return total / len(task.dev)


def as_table(outcomes: list[Outcome], arguments: argparse.Namespace) -> str:
    """Lines for people: each arm's loss on dev along the way, and its BLEU."""
    every = max(1, arguments.steps // arguments.points)
    head = "".join(f"{f'step {every * (i + 1)}':>17}" for i in range(len(outcomes[0].losses)))
    lines = [f"{'dev loss':<14}{head}{'BLEU':>17}{'seconds':>9}"]
    for arm in dict.fromkeys(outcome.arm for outcome in outcomes):
        runs = [outcome for outcome in outcomes if outcome.arm == arm]
        columns = [*zip(*(run.losses for run in runs), strict=True), tuple(run.bleu for run in runs)]
        cells = "".join(f"{figure(column):>17}" for column in columns)
        lines.append(f"{arm:<14}{cells}{mean(run.seconds for run in runs):>9.0f}")
    return "\n".join(lines)


def figure(values: tuple[float, ...]) -> str:
    """Mean and standard deviation."""
    return f"{mean(values):.3f} ± {stdev(values) if len(values) > 1 else 0.0:.3f}"


if __name__ == "__main__":
    main()

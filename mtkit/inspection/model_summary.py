"""Summarize a model from its config: layers and shapes along one sentence, parameters and multiply-adds by part.

The model is built on torch's meta device, without memory for weights: a large one takes no longer than a small one, and
an untrained config can be summarized, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from mtkit.bundle import BundleFiles
from mtkit.config.schema import Config, Task
from mtkit.data.corpus import first_missing
from mtkit.data.examples import with_found_labels
from mtkit.errors import ConfigError, UsageError
from mtkit.model.attention import CrossAttention, SelfAttention
from mtkit.model.dropout import Dropout
from mtkit.model.network import Network
from mtkit.model.networks import new_network
from mtkit.model.positions import NoPositions
from mtkit.model.transformer import Transformer
from mtkit.pair_files.lines import as_one_line
from mtkit.tokens.tokenizer import Tokenizer, load_tokenizers

Shape = tuple[int, ...]
PARTS = (
    "source embedding",
    "target embedding",
    "positions",
    "encoder self-attention",
    "encoder feed-forward",
    "encoder norms",
    "decoder self-attention",
    "cross-attention",
    "decoder feed-forward",
    "decoder norms",
    "output",
)


@dataclass(frozen=True)
class Layer:
    """One call of a module."""

    name: str  # as in the state_dict
    kind: str
    inputs: list[Shape]
    output: Shape
    parameters: int  # with those of its submodules and shared ones


@dataclass(frozen=True)
class PartSummary:
    """The parameters of a part of the model, and the multiply-adds of its matrix products."""

    name: str  # one of PARTS
    parameters: int  # a shared matrix counts in the first part that has it
    src_multiply_adds: int  # computed once per sentence, before the first target token
    tgt_multiply_adds: int

    @property
    def multiply_adds(self) -> int:
        """Return those of the whole pair."""
        return self.src_multiply_adds + self.tgt_multiply_adds


@dataclass(frozen=True)
class ModelSummary:
    """A model's layers and parts, and the multiply-adds of one sentence pair."""

    task: Task
    src_vocab_size: int
    tgt_vocab_size: int  # of a classifier: the number of labels
    n_src: int  # tokens, <end> counted; of a classifier also <start>, and of a pair both texts
    n_tgt: int  # of a classifier 1: the label
    layers: list[Layer]  # in the order of their calls
    parts: list[PartSummary]  # without those that the model lacks
    shared: dict[str, str]  # second name of a shared weight: first name

    @property
    def parameters(self) -> int:
        """Return the number of parameters; shared ones count once."""
        return sum(part.parameters for part in self.parts)

    @property
    def multiply_adds(self) -> int:
        """Return those of the whole pair."""
        return sum(part.multiply_adds for part in self.parts)


@dataclass(frozen=True)
class Architecture:
    """A model's config and vocabulary sizes, with its tokenizers if it has any yet."""

    config: Config  # of a classifier with its labels
    src_vocab_size: int
    tgt_vocab_size: int
    tokenizers: tuple[Tokenizer, Tokenizer] | None

    @property
    def is_classifier(self) -> bool:
        """Whether the model is a classifier."""
        return self.config.task == "classify"

    @property
    def tags(self) -> list[str]:
        """The values that decode.tag can have."""
        return [] if self.tokenizers is None else self.tokenizers[0].tags()

    @property
    def languages(self) -> list[str]:
        """The values that decode.src_lang and decode.tgt_lang can have; [] for a model of one direction."""
        return self.tokenizers[0].languages() if self.tokenizers is not None and self.config.model.end_first else []

    @classmethod
    def from_bundle(cls, files: BundleFiles) -> "Architecture":
        """Return the architecture of a trained model without reading its weights."""
        src, tgt = files.src_tokenizer.tagged(files.config.decode.tag), files.tgt_tokenizer
        return cls(files.config, src.vocab_size, tgt.vocab_size, (src, tgt))

    @classmethod
    def from_config(cls, config: Config) -> "Architecture":
        """Return a config's architecture; vocabulary sizes are those of the run's tokenizers, else of the config.

        A classifier's labels are those of the config, else of the training text. Raises DataError if neither has any.
        """
        if config.task == "classify" and not (config.data.labels and first_missing(config.data.train)):
            config = config.model_copy(update={"data": with_found_labels(config.data)})
        folder = config.run_dir
        if folder is not None and all((folder / name).is_file() for name in ("src.spm", "tgt.spm")):
            src, tgt = load_tokenizers(folder, config.data.placeholders)
            return cls(config, src.vocab_size, tgt.vocab_size, (src.tagged(config.decode.tag), tgt))
        sides = config.tokenizer
        tgt_size = sides.src.vocab_size if sides.shared else sides.tgt.vocab_size
        return cls(config, sides.src.vocab_size, tgt_size, None)

    def n_tokens(self, sentence: str, target: str | None) -> tuple[int, int]:
        """Return the numbers of source and target tokens, <end> counted; without a target both are equal.

        Of a classifier, all tokens that it reads are source tokens; a pair without a second text has one of the first's
        length. Raises UsageError if there are no tokenizers, a side is blank, or a text too many.
        """
        if self.is_classifier and target is not None and not self.config.data.pairs:
            raise UsageError("--target: this classifier reads single texts; leave it out")
        if self.tokenizers is None:
            raise UsageError(
                "the run of the config has no tokenizers to count tokens with: give --tokens instead of a sentence, "
                "or run `mtkit train-tokenizer` first"
            )
        src, tgt = self.tokenizers
        n_src = len(src.encode(as_one_line(sentence).strip()))
        n_tgt = n_src if target is None else len(tgt.encode(as_one_line(target).strip()))
        if not n_src or not n_tgt:
            raise UsageError(f"the {'target' if n_src else 'sentence'} is blank: give some text")
        if self.is_classifier:
            return 1 + n_src + 1 + (n_tgt + 1 if self.config.data.pairs else 0), 1
        return n_src + 1, n_tgt + 1

    def summary(self, n_src: int, n_tgt: int) -> ModelSummary:
        """Return the summary for one pair of these lengths; of a classifier, for n_src tokens in all."""
        return summarize(self.config, self.src_vocab_size, self.tgt_vocab_size, n_src, n_tgt)


def summarize(config: Config, src_vocab_size: int, tgt_vocab_size: int, n_src: int, n_tgt: int) -> ModelSummary:
    """Run the config's model on one pair of n_src and n_tgt tokens, <end> counted, as in training, and count its work.

    A classifier reads n_src tokens and gives a label.

    Only matrix products count: elementwise operations (norms, softmax, activations, cells of a recurrent decoder) cost
    little beside them.
    Raises UsageError if a side is longer than the model's learned positions, ConfigError if one matrix must serve two
    different vocabularies.
    """
    cfg, is_classifier = config.model, config.task == "classify"
    if is_classifier:
        tgt_vocab_size, n_tgt = len(config.data.labels), 1
    if cfg.positions == "learned" and max(n_src, n_tgt) > cfg.max_positions:
        raise UsageError(f"{max(n_src, n_tgt)} tokens, including <end>, exceed model.max_positions={cfg.max_positions}")
    try:
        with torch.device("meta"):
            model = new_network(config, src_vocab_size, tgt_vocab_size).eval()
            src, tgt_in = torch.zeros(1, n_src, dtype=torch.long), torch.zeros(1, n_tgt, dtype=torch.long)
    except ValueError as error:
        raise ConfigError(f"model: {error}") from error
    with torch.no_grad(), _recorded_calls(model) as log:
        model(src, tgt_in)
    calls = log.calls()
    unique = dict(model.named_parameters())  # a shared one appears once, under its first name
    first_names = {id(parameter): name for name, parameter in unique.items()}
    every = model.named_parameters(remove_duplicate=False)
    return ModelSummary(
        config.task,
        src_vocab_size,
        tgt_vocab_size,
        n_src,
        n_tgt,
        [call.layer for call in calls],
        [part for part in (_part(name, unique, calls) for name in PARTS) if part.parameters or part.multiply_adds],
        {name: first_names[id(parameter)] for name, parameter in every if name not in unique},
    )


def part_of(name: str) -> str:
    """Return which of PARTS a weight or a module belongs to, by its name in the model."""
    stack, *inner = name.split(".")
    side = "encoder" if stack.startswith("encoder") else "decoder"
    if stack in ("encoder_layers", "decoder_layers") and len(inner) > 1:
        match inner[1]:
            case "self_attention":
                return f"{side} self-attention"
            case "cross_attention":
                return "cross-attention"
            case "feed_forward":
                return f"{side} feed-forward"
        return f"{side} norms"
    return _ENDS.get(stack) or f"{side} norms"


_ENDS = {
    "src_embedding": "source embedding",
    "tgt_embedding": "target embedding",
    "src_positions": "positions",
    "tgt_positions": "positions",
    "output": "output",
}


def _part(part: str, parameters: Mapping[str, nn.Parameter], calls: Sequence["_Call"]) -> PartSummary:
    own = [call for call in calls if call.multiply_adds and part_of(call.layer.name) == part]
    return PartSummary(
        part,
        sum(parameter.numel() for name, parameter in parameters.items() if part_of(name) == part),
        sum(call.multiply_adds for call in own if _is_on_source_side(call.layer.name)),
        sum(call.multiply_adds for call in own if not _is_on_source_side(call.layer.name)),
    )


def _is_on_source_side(name: str) -> bool:
    return name.startswith("encoder") or name.endswith("cross_attention.kv_proj")


@dataclass(frozen=True)
class _Call:
    """One call of a module and its multiply-adds, without those of its submodules."""

    layer: Layer
    multiply_adds: int


class _CallLog:
    """Calls of modules, in the order in which they begin."""

    def __init__(self) -> None:
        self._calls: list[_Call | None] = []  # None: has not ended yet
        self._open: list[int] = []  # indices of those

    def begin(self, *_: object) -> None:
        """Forward pre-hook."""
        self._open.append(len(self._calls))
        self._calls.append(None)

    def end(self, name: str, module: nn.Module, inputs: tuple[object, ...], out: Tensor) -> None:
        """Forward hook."""
        self._calls[self._open.pop()] = _call(name, module, [x for x in inputs if isinstance(x, Tensor)], out)

    def embedding(self, sides: Iterator[tuple[str, nn.Embedding]], _: nn.Module, __: object, out: Tensor) -> None:
        """Forward hook of word dropout, the first module to see an embedding: a look-up calls none."""
        name, module = next(sides)
        layer = Layer(name, "Embedding", [tuple(out.shape[:2])], tuple(out.shape), module.weight.numel())
        self._calls.append(_Call(layer, 0))

    def calls(self) -> list[_Call]:
        """Return those that have ended."""
        return [call for call in self._calls if call is not None]


@contextmanager
def _recorded_calls(model: Network) -> Iterator[_CallLog]:
    """Record the calls of the model's modules during the block, without those that change nothing."""
    log = _CallLog()
    hooks = []
    for name, module in model.named_modules():
        if not isinstance(module, Dropout | nn.Identity | NoPositions):
            hooks.append(module.register_forward_pre_hook(log.begin))
            hooks.append(module.register_forward_hook(partial(log.end, name or "model")))
    sides = [("src_embedding", model.src_embedding)]
    if isinstance(model, Transformer):
        sides.append(("tgt_embedding", model.tgt_embedding))
    hooks.append(model.word_dropout.register_forward_hook(partial(log.embedding, iter(sides))))
    try:
        yield log
    finally:
        for hook in hooks:
            hook.remove()


def _call(name: str, module: nn.Module, inputs: list[Tensor], out: Tensor) -> _Call:
    layer = Layer(
        name,
        type(module).__name__,
        [tuple(x.shape) for x in inputs],
        tuple(out.shape),
        sum(parameter.numel() for parameter in module.parameters()),
    )
    products = 0
    if isinstance(module, nn.Linear):
        products = out.numel() * module.in_features
    elif isinstance(module, SelfAttention):  # queries with keys, weights with values
        products = 2 * out.numel() * out.size(1) * (1 if module.relative is None else 3)  # 2 L distances beside L keys
    elif isinstance(module, CrossAttention):
        products = 2 * out.numel() * inputs[1].size(2)
    return _Call(layer, products)

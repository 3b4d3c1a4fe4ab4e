"""Read the tensors of a Hugging Face folder as the state of mtkit's model, and name a state as such tensors."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from mtkit.config.model import ModelConfig
from mtkit.errors import MtkitError
from mtkit.interop.huggingface.config import read_json
from mtkit.model.positions import FAIRSEQ_FIRST, SinusoidalPositions, SinusoidKind
from mtkit.model.transformer import Transformer

WEIGHTS, _OLD_WEIGHTS = "model.safetensors", "pytorch_model.bin"
OUTPUT_BIAS = "final_logits_bias"
# the last letter differs between the architectures
_POSITIONS = {f"model.{side}.embed_positions.weight{s}" for side in ("encoder", "decoder") for s in ("", "s")}
SHARED = "model.shared.weight"
_SIDES = {"src": "model.encoder.embed_tokens.weight", "tgt": "model.decoder.embed_tokens.weight"}
_OUTPUT = "lm_head.weight"


def read_weights(folder: Path) -> tuple[Path, dict[str, Tensor]]:
    """Return the weights' file, or the index of several, and the tensors.

    Raises MtkitError if it is missing, or contains anything but tensors of floating-point numbers.
    """
    for name in (WEIGHTS, _OLD_WEIGHTS):
        path, index = folder / name, folder / f"{name}.index.json"
        if path.is_file():
            return path, _tensors(path)
        if index.is_file():
            return index, {key: tensor for part in _parts(index) for key, tensor in _tensors(part).items()}
    raise MtkitError(f"{folder}: contains neither {WEIGHTS} nor {_OLD_WEIGHTS}")


def _parts(index: Path) -> list[Path]:
    """Return the files that the index of a large model names."""
    names = read_json(index).get("weight_map")
    files = [*names.values()] if isinstance(names, dict) else []
    if not files or not all(isinstance(file, str) and Path(file).name == file for file in files):
        raise MtkitError(f"{index}: its weight_map does not name the files of the weights")
    parts = [index.with_name(file) for file in dict.fromkeys(files)]
    if missing := [part for part in parts if not part.is_file()]:
        raise MtkitError(f"{missing[0]}: missing, though {index.name} names it; copy the folder again, as a whole")
    return parts


def _tensors(path: Path) -> dict[str, Tensor]:
    try:
        path.open("rb").close()  # the libraries do not say that permission is missing
    except OSError as error:
        raise MtkitError(f"{path}: cannot be read ({error.strerror or error})") from error
    tensors = _load_safe(path) if path.suffix == Path(WEIGHTS).suffix else _load_old(path)
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            kind = str(tensor.dtype).removeprefix("torch.")
            raise MtkitError(f"{path}: the tensor {name} is {kind}; only floating-point weights are supported")
    return tensors


def _load_safe(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except SafetensorError as error:
        raise MtkitError(f"{path}: not a safetensors file, or damaged ({error})") from error


def _load_old(path: Path) -> dict[str, Tensor]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch asks its users to report pickles that it does not read
            tensors = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged files raise errors of many types
        # we hide torch's message, because it advises the user to let the file run code
        raise MtkitError(
            f"{path}: refused: it is damaged, or contains more than tensors ({type(error).__name__}); "
            f"ask its author for {WEIGHTS}"
        ) from error
    if not isinstance(tensors, dict) or not all(isinstance(value, Tensor) for value in tensors.values()):
        raise MtkitError(f"{path}: refused: it contains more than named tensors")
    return dict(tensors)


def positions_of(tensors: dict[str, Tensor], path: Path, kinds: Sequence[SinusoidKind]) -> SinusoidKind:
    """Remove the tables of positions from tensors; return which of these kinds they are, by default the first."""
    found = set()
    for name in sorted(_POSITIONS & {*tensors}):
        table = tensors.pop(name)
        fits = [kind for kind in kinds if _holds(table.float(), kind, max(1e-4, torch.finfo(table.dtype).eps))]
        if not fits:
            raise MtkitError(f"{path}: {name} does not hold sinusoids; other positions are not supported")
        found.add(fits[0])
    if len(found) > 1:
        raise MtkitError(f"{path}: encoder and decoder have different positions; this is not supported")
    return found.pop() if found else kinds[0]


def _holds(table: Tensor, kind: SinusoidKind, atol: float) -> bool:
    if table.dim() != 2 or table.size(1) < 2 or table.size(1) % 2:
        return False
    table = table[FAIRSEQ_FIRST:] if kind == "fairseq" else table  # before them there is a row for padding
    return torch.allclose(table, SinusoidalPositions(table.size(1), kind).table_of(*table.shape), atol=atol)


def to_state(tensors: Mapping[str, Tensor], cfg: ModelConfig, path: Path) -> dict[str, Tensor]:
    """Return the model's state, the vocabularies in the folder's order."""
    left = dict(tensors)
    every = [SHARED, *_SIDES.values(), _OUTPUT]
    tied = [_SIDES["tgt"], _OUTPUT] if cfg.tie == "decoder" else [_SIDES["tgt"]]
    src = _table(left, every if cfg.tie == "all" else [_SIDES["src"]], path)
    tgt = src if cfg.tie == "all" else _table(left, tied, path)
    output = _table(left, [_OUTPUT], path) if cfg.tie == "none" else tgt
    with torch.device("meta"):
        model = Transformer(cfg, src.size(0), tgt.size(0)).state_dict()
    ends = {"src_embedding.weight": src, "tgt_embedding.weight": tgt, "output.weight": output}
    for name, table in ends.items():
        if table.shape != model[name].shape:
            shape, expected = tuple(table.shape), tuple(model[name].shape)
            raise MtkitError(f"{path}: the matrix of {name} is {shape}, but the config asks for {expected}")
    n_rows = tgt.size(0)
    bias = _take(left, OUTPUT_BIAS, torch.Size([1, n_rows]), path)[0] if OUTPUT_BIAS in left else torch.zeros(n_rows)
    state = {**ends, "output.bias": bias}
    for ours, theirs in _entries(cfg):
        shape = torch.Size([model[ours].size(0) // len(theirs), *model[ours].shape[1:]])
        state[ours] = torch.cat([_take(left, name, shape, path) for name in theirs])
    if unknown := sorted({*left} - {*every}):
        raise MtkitError(f"{path}: unknown tensors: {', '.join(unknown[:5])}")
    return state


def to_tensors(state: Mapping[str, Tensor], cfg: ModelConfig) -> dict[str, Tensor]:
    """Return the folder's tensors: the inverse of `to_state`."""
    tensors = {OUTPUT_BIAS: state["output.bias"][None]}
    if cfg.tie == "all":
        tensors[SHARED] = state["tgt_embedding.weight"]
    else:
        tensors |= {name: state[f"{side}_embedding.weight"] for side, name in _SIDES.items()}
    if cfg.tie == "none":
        tensors[_OUTPUT] = state["output.weight"]
    if cfg.positions == "marian":
        table = SinusoidalPositions(cfg.d_model, "marian").table_of(512, cfg.d_model)
        tensors |= {f"model.{side}.embed_positions.weight": table for side in ("encoder", "decoder")}
    for ours, theirs in _entries(cfg):
        tensors |= dict(zip(theirs, state[ours].chunk(len(theirs)), strict=True))
    return {name: tensor.contiguous().clone() for name, tensor in tensors.items()}


def _table(tensors: Mapping[str, Tensor], names: list[str], path: Path) -> Tensor:
    """Return the first of these tensors that exists: a shared matrix is stored once, under any of its names."""
    for name in names:
        if name in tensors and tensors[name].dim() == 2:
            return tensors[name].float()
    raise MtkitError(f"{path}: the tensor {names[0]} is missing")


def _take(left: dict[str, Tensor], name: str, shape: torch.Size, path: Path) -> Tensor:
    """Remove the tensor from left; return it as float32."""
    tensor = left.pop(name, None)
    if tensor is None:
        raise MtkitError(f"{path}: the tensor {name} is missing")
    if tensor.shape != shape:
        raise MtkitError(f"{path}: the tensor {name} is {tuple(tensor.shape)}, but the config asks for {tuple(shape)}")
    return tensor.float()


def _entries(cfg: ModelConfig) -> Iterator[tuple[str, list[str]]]:
    """Yield mtkit's name of each tensor but embeddings and output, and the names of the tensors that it joins."""
    if cfg.norm_position == "pre":
        for side in ("encoder", "decoder"):
            for kind in ("weight", "bias"):
                yield f"{side}_norm.{kind}", [f"model.{side}.layer_norm.{kind}"]
    for side, n_layers in (("encoder", cfg.n_encoder_layers), ("decoder", cfg.n_decoder_layers)):
        for layer in range(n_layers):
            ours, theirs = f"{side}_layers.{layer}", f"model.{side}.layers.{layer}"
            parts = {
                "self_attention.qkv_proj": [f"self_attn.{part}_proj" for part in "qkv"],
                "self_attention.out_proj": ["self_attn.out_proj"],
                "self_attention_residual.norm": ["self_attn_layer_norm"],
                "feed_forward.in_proj": ["fc1"],
                "feed_forward.out_proj": ["fc2"],
                "feed_forward_residual.norm": ["final_layer_norm"],
            }
            if side == "decoder":
                parts |= {
                    "cross_attention.q_proj": ["encoder_attn.q_proj"],
                    "cross_attention.kv_proj": ["encoder_attn.k_proj", "encoder_attn.v_proj"],
                    "cross_attention.out_proj": ["encoder_attn.out_proj"],
                    "cross_attention_residual.norm": ["encoder_attn_layer_norm"],
                }
            for our_part, their_parts in parts.items():
                for kind in ("weight", "bias"):
                    yield f"{ours}.{our_part}.{kind}", [f"{theirs}.{part}.{kind}" for part in their_parts]

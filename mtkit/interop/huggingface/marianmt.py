"""Import folders of Hugging Face's MarianMT (OPUS-MT) as bundles, and export bundles as such folders.

The imported model gives the same results as in transformers: it has the paper's sinusoids, and its decoder starts from
the embedding of the start token, usually <pad>. We read weights from safetensors, or from a `pytorch_model.bin` that
contains only tensors.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from mtkit.bundle import Bundle, load_bundle
from mtkit.config.model import ModelConfig
from mtkit.errors import MtkitError
from mtkit.files import atomic_folder
from mtkit.interop.handover import write_readme
from mtkit.interop.huggingface import marianmt_vocabulary
from mtkit.interop.huggingface.config import config_files, decode_config, generation, model_config, read_json
from mtkit.interop.imported import Languages, Origin, check_sides, save_imported
from mtkit.interop.vocabulary import BANNED, Vocabularies, export_state, import_state
from mtkit.model.positions import sinusoid_table
from mtkit.model.transformer import Transformer
from mtkit.tokens.special_ids import BOS_ID, PAD_ID

FORMAT = "huggingface marian"
_WEIGHTS, _OLD_WEIGHTS = "model.safetensors", "pytorch_model.bin"
_OUTPUT_BIAS = "final_logits_bias"
_POSITIONS = tuple(f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder"))
_SHARED = "model.shared.weight"
_SIDES = {"src": "model.encoder.embed_tokens.weight", "tgt": "model.decoder.embed_tokens.weight"}
_OUTPUT = "lm_head.weight"


def import_model(folder: Path, out: Path, languages: Languages | None = None) -> None:
    """Write the model in a folder as a bundle; languages: by default those in the tokenizer's config.

    Raises MtkitError, naming the file and the key or tensor, if mtkit cannot compute the model.
    """
    config = read_json(folder / "config.json")
    generation_file, generate = generation(folder, config)
    path, tensors = _read_weights(folder)
    cfg = model_config(config, _positions(tensors, path), folder / "config.json")
    state = _to_state(tensors, cfg, path)
    both = marianmt_vocabulary.read(folder, shared=cfg.tie == "all")
    start = _check(folder, config, both, {side: state[f"{side}_embedding.weight"].size(0) for side in ("src", "tgt")})
    layout = both.tgt.layout
    both = both.with_bos(None if start in (layout.pad, layout.unk, layout.eos) else start)
    src, tgt = both.src.layout, both.tgt.layout
    state = import_state(state, cfg.tie, src, tgt, state["tgt_embedding.weight"][start])
    details: dict[str, Any] = {"separate_vocabs": both.kind == "separate", "start": start}
    bad_words = generate.get("bad_words_ids")
    if tgt.pad is not None and isinstance(bad_words, list) and [tgt.pad] in bad_words:
        details["pad_bias"] = float(state["output.bias"][PAD_ID])
        state["output.bias"][PAD_ID] = BANNED
    origin = Origin.from_file(path, FORMAT, src, tgt, details)
    named = languages or marianmt_vocabulary.languages(folder)
    check_sides((both.src.model, both.tgt.model), named, folder)
    decode = decode_config(generate, generation_file)
    save_imported(out, state, cfg, both.tokenizers(), decode, named, origin)


def export_bundle(folder: Path, out: Path) -> None:
    """Write a bundle as a folder that transformers loads as MarianMT.

    Raises MtkitError, naming the key, if MarianMT cannot compute the model.
    """
    bundle = load_bundle(folder)
    origin = Origin.from_bundle(bundle, FORMAT)
    cfg = bundle.config.model
    state = export_state(bundle.model.state_dict(), origin.src, origin.tgt)
    pad_bias, start = origin.details.get("pad_bias"), origin.details.get("start", BOS_ID)
    if pad_bias is not None:
        state["output.bias"][origin.tgt.pad] = pad_bias
    if "start" in origin.details and origin.tgt.bos is None:
        _check_start(bundle, state["tgt_embedding.weight"][start], folder)
    ids = {
        "vocab_size": origin.src.size,
        "decoder_vocab_size": origin.tgt.size,
        "pad_token_id": _pad(origin, folder),
        "eos_token_id": origin.tgt.eos,
        "decoder_start_token_id": start,
        "bad_words_ids": None if pad_bias is None else [[origin.tgt.pad]],
    }
    files = config_files(cfg, ids, bundle.config.decode, folder)
    separate = bool(origin.details.get("separate_vocabs", cfg.tie != "all"))
    with atomic_folder(out) as temporary:
        marianmt_vocabulary.write(temporary, bundle, origin, separate=separate)
        save_file(_to_tensors(state, cfg), temporary / _WEIGHTS, metadata={"format": "pt"})
        for name, values in files.items():
            text = json.dumps(values, indent=2) + "\n"
            (temporary / name).write_text(text, encoding="utf-8", newline="\n")
        write_readme(temporary, bundle, "hf")


def _check(folder: Path, config: Mapping[str, Any], both: Vocabularies, n_rows: Mapping[str, int]) -> int:
    """Check that vocabularies, config and matrices belong together; return the id that the decoder starts with."""
    for side, vocabulary in (("src", both.src), ("tgt", both.tgt)):
        if n_rows[side] != (size := vocabulary.layout.size):
            raise MtkitError(f"{vocabulary.path}: {size} entries, but the {side} embedding has {n_rows[side]} rows")
    path, eos = folder / "config.json", both.tgt.layout.eos
    if (eos_id := config.get("eos_token_id", eos)) != eos:
        raise MtkitError(f"{path}: eos_token_id: {eos_id}, but {both.tgt.path.name} has </s> at {eos}")
    start = config.get("decoder_start_token_id", config.get("pad_token_id"))
    if not isinstance(start, int) or not 0 <= start < both.tgt.layout.size:
        raise MtkitError(f"{path}: decoder_start_token_id: {start} is not an id of the vocabulary")
    return start


def _check_start(bundle: Bundle, start: Tensor, folder: Path) -> None:
    if not torch.equal(bundle.model.tgt_embedding.weight[BOS_ID], start):
        raise MtkitError(
            f"{folder}: its embedding of <start> has changed since the import, and MarianMT has no row for it"
        )


def _pad(origin: Origin, folder: Path) -> int:
    if origin.tgt.pad is None or origin.src.pad != origin.tgt.pad:
        raise MtkitError(f"{folder}: MarianMT needs <pad> at the same id in both vocabularies")
    return origin.tgt.pad


def _read_weights(folder: Path) -> tuple[Path, dict[str, Tensor]]:
    """Return the weights' file and its tensors. Raises MtkitError if it is missing or contains more than tensors."""
    path, old = folder / _WEIGHTS, folder / _OLD_WEIGHTS
    if path.is_file():
        try:
            return path, load_file(path)
        except SafetensorError as error:
            raise MtkitError(f"{path}: not a safetensors file, or damaged ({error})") from error
    if not old.is_file():
        raise MtkitError(f"{folder}: contains neither {_WEIGHTS} nor {_OLD_WEIGHTS}")
    try:
        tensors = torch.load(old, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged files raise errors of many types
        # we hide torch's message, because it advises the user to let the file run code
        raise MtkitError(
            f"{old}: refused: it is damaged, or contains more than tensors ({type(error).__name__}); "
            f"ask its author for {_WEIGHTS}"
        ) from error
    if not isinstance(tensors, dict) or not all(isinstance(value, Tensor) for value in tensors.values()):
        raise MtkitError(f"{old}: refused: it contains more than named tensors")
    return old, dict(tensors)


def _positions(tensors: dict[str, Tensor], path: Path) -> str:
    """Remove the tables of positions from tensors; return their kind, by default that of transformers."""
    kinds = set()
    for name in _POSITIONS:
        if (table := tensors.pop(name, None)) is None:
            continue
        atol = max(1e-4, torch.finfo(table.dtype).eps)
        fits = [
            kind
            for kind, marian in {"sinusoidal": False, "marian": True}.items()
            if torch.allclose(table.float(), sinusoid_table(*table.shape, marian=marian), atol=atol)
        ]
        if not fits:
            raise MtkitError(f"{path}: {name} does not hold sinusoids; other positions are not supported")
        kinds.add(fits[0])
    if len(kinds) > 1:
        raise MtkitError(f"{path}: encoder and decoder have different positions; this is not supported")
    return kinds.pop() if kinds else "sinusoidal"


def _to_state(tensors: Mapping[str, Tensor], cfg: ModelConfig, path: Path) -> dict[str, Tensor]:
    """Return the model's state, the vocabularies in the folder's order."""
    left = dict(tensors)
    every = [_SHARED, *_SIDES.values(), _OUTPUT]
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
    bias = _take(left, _OUTPUT_BIAS, torch.Size([1, n_rows]), path)[0] if _OUTPUT_BIAS in left else torch.zeros(n_rows)
    state = {**ends, "output.bias": bias}
    for ours, theirs in _entries(cfg):
        shape = torch.Size([model[ours].size(0) // len(theirs), *model[ours].shape[1:]])
        state[ours] = torch.cat([_take(left, name, shape, path) for name in theirs])
    if unknown := sorted({*left} - {*every}):
        raise MtkitError(f"{path}: unknown tensors: {', '.join(unknown[:5])}")
    return state


def _to_tensors(state: Mapping[str, Tensor], cfg: ModelConfig) -> dict[str, Tensor]:
    """Return the folder's tensors: the inverse of `_to_state`."""
    tensors = {_OUTPUT_BIAS: state["output.bias"][None]}
    if cfg.tie == "all":
        tensors[_SHARED] = state["tgt_embedding.weight"]
    else:
        tensors |= {name: state[f"{side}_embedding.weight"] for side, name in _SIDES.items()}
    if cfg.tie == "none":
        tensors[_OUTPUT] = state["output.weight"]
    if cfg.positions == "marian":
        tensors |= {name: sinusoid_table(512, cfg.d_model, marian=True) for name in _POSITIONS}
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

"""A model's weights as a safetensors file, and back."""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from mtkit.config.schema import ModelConfig
from mtkit.errors import BundleError
from mtkit.model.transformer import Transformer


def save_weights(path: Path, model_state: Mapping[str, Tensor], cfg: ModelConfig) -> None:
    """Write a model's `state_dict()` as float32, shared weights once."""
    vocab_sizes = [model_state[f"{side}_embedding.weight"].size(0) for side in ("src", "tgt")]
    second_names = _second_names(_new_model(cfg, *vocab_sizes))
    weights = {
        name: weight.detach().to("cpu", torch.float32).contiguous()
        for name, weight in model_state.items()
        if name not in second_names
    }
    save_file(weights, path)


def load_weights(path: Path, cfg: ModelConfig, src_vocab_size: int, tgt_vocab_size: int) -> Transformer:
    """The model, on the CPU and in evaluation mode.

    Raises BundleError if the file is none, or holds the weights of another shape of model.
    """
    model = _new_model(cfg, src_vocab_size, tgt_vocab_size)
    try:
        missing, unexpected = model.load_state_dict(load_file(path), strict=False)
    except (SafetensorError, RuntimeError) as error:
        raise BundleError(f"{path}: the weights do not fit config.yaml and the tokenizers: {error}") from None
    absent = sorted(set(missing) - _second_names(model))
    if absent or unexpected:
        raise BundleError(f"{path}: weights missing: {absent or 'none'}; unknown: {sorted(unexpected) or 'none'}")
    return model.eval()


def _new_model(cfg: ModelConfig, src_vocab_size: int, tgt_vocab_size: int) -> Transformer:
    with torch.random.fork_rng(devices=[]):  # its initial weights are of no use: leave the caller's random state alone
        return Transformer(cfg, src_vocab_size, tgt_vocab_size)


def _second_names(model: Transformer) -> set[str]:
    """The further names of weights that are shared."""
    names = {name for name, _ in model.named_parameters()}
    return {name for name, _ in model.named_parameters(remove_duplicate=False)} - names

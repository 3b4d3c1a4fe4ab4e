"""Import Marian's `.npz` transformers as bundles, and export bundles as such models.

The imported model gives the same results as Marian in training and scoring: it has Marian's sinusoids, and its decoder
starts from zeros. (With norms before the layers, Marian 1.12 differs in decoding: after the first step it does not
normalise the keys and values of self-attention.) Marian's layer normalisation adds 1e-6 to the variance where torch
adds 1e-5, which changed the log-probabilities of whole sentences by less than 1e-4 nats. We never read pickled data.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from numpy.typing import NDArray
from torch import Tensor

from mtkit.arrays import read_arrays
from mtkit.bundle import Bundle, load_bundle
from mtkit.config.decoding import DecodeConfig
from mtkit.config.model import ModelConfig
from mtkit.errors import MtkitError
from mtkit.files import atomic_folder
from mtkit.interop import marian_vocabulary
from mtkit.interop.handover import write_readme
from mtkit.interop.imported import Languages, Origin, check_sides, checked, number, save_imported
from mtkit.interop.marian_options import DESCRIPTION, as_description, model_config, model_options, read_description
from mtkit.interop.support import export_problems
from mtkit.interop.vocabulary import BANNED, export_state, import_state
from mtkit.model.transformer import Transformer
from mtkit.tokens.special_ids import UNK_ID

FORMAT = "marian npz"
Parameters = Mapping[str, NDArray[Any]]
_SIDES = {"src_embedding": "encoder_Wemb", "tgt_embedding": "decoder_Wemb"}
_OUTPUT = "decoder_ff_logit_out"


_MOST_GROWTH = 100  # how often larger an unpacked file may be; compression hardly shrinks learned weights


@dataclass(frozen=True)
class _Entry:
    """A tensor of mtkit, and the parameters of Marian that it joins, in this order."""

    ours: str
    theirs: tuple[str, ...]


def import_model(
    path: Path,
    out: Path,
    vocabularies: marian_vocabulary.Sources | None = None,
    languages: Languages | None = None,
) -> None:
    """Write the model in an `.npz` file as a bundle.

    vocabularies: by default those that the model's decoder config names.
    Raises MtkitError, naming the file and the key or parameter, if mtkit cannot compute the model.
    """
    parameters, options = read_npz(path)
    cfg = model_config(options, path)
    both = marian_vocabulary.read(vocabularies or marian_vocabulary.beside(path), shared=cfg.tie == "all")
    state = to_state(parameters, cfg, path)
    for side, vocabulary in (("src", both.src), ("tgt", both.tgt)):
        n_rows = state[f"{side}_embedding.weight"].size(0)
        if n_rows != vocabulary.layout.size:
            raise MtkitError(
                f"{vocabulary.path}: {vocabulary.layout.size} entries, but {path} has {n_rows} of its {side} side; "
                "give the vocabularies that the model was trained with"
            )
    bos = both.tgt.layout.bos
    if bos is not None and state["tgt_embedding.weight"][bos].count_nonzero():
        both = both.with_bos(None)  # Marian's decoder starts from zeros: this <s> is an output only
    src, tgt = both.src.layout, both.tgt.layout
    state = import_state(state, cfg.tie, src, tgt)
    details: dict[str, Any] = {"vocabulary": both.kind}
    if not marian_vocabulary.decoder_options(path).get("allow-unk"):  # without the option Marian never writes <unk>
        details["unk_bias"] = float(state["output.bias"][UNK_ID])
        state["output.bias"][UNK_ID] = BANNED
    origin = Origin.from_file(path, FORMAT, src, tgt, details)
    languages = languages or Languages()
    check_sides((both.src.model, both.tgt.model), languages, path)
    save_imported(out, state, cfg, both.tokenizers(), _decode_config(path), languages, origin)


def export_bundle(folder: Path, out: Path) -> None:
    """Write a bundle as a folder with `model.npz`, its vocabularies and a decoder config.

    Raises MtkitError, naming the key, if Marian cannot compute the model.
    """
    bundle = load_bundle(folder)
    cfg = bundle.config.model
    if problems := export_problems(cfg, "marian", bundle.model):
        raise MtkitError(f"{folder}: {'; '.join(problems)}")
    origin = Origin.from_bundle(bundle, FORMAT)
    options = model_options(cfg, (origin.src.size, origin.tgt.size))
    state = export_state(bundle.model.state_dict(), origin.src, origin.tgt)
    if (unk_bias := origin.details.get("unk_bias")) is not None:
        state["output.bias"][origin.tgt.unk] = unk_bias
    parameters = to_parameters(state, cfg)
    options["tied-embeddings-src"] = cfg.tie == "none" and "Wemb" in parameters
    with atomic_folder(out) as temporary:
        names = marian_vocabulary.write(temporary, bundle, origin)
        write_npz(temporary / "model.npz", parameters, options)
        decoder = {"relative-paths": True, "models": ["model.npz"], "vocabs": names, "allow-unk": unk_bias is None}
        text = yaml.safe_dump({**decoder, **_decoder_options(bundle)}, sort_keys=False)
        (temporary / "model.npz.decoder.yml").write_text(text, encoding="utf-8", newline="\n")
        write_readme(temporary, bundle, "marian")


def to_state(parameters: Parameters, cfg: ModelConfig, path: Path | str) -> dict[str, Tensor]:
    """Return the model's state, the vocabularies in Marian's order; path: for messages.

    Raises MtkitError for a parameter that is missing, unknown, or does not have the shape that cfg asks for.
    """
    left = dict(parameters)
    state = _ends(left, cfg, path)
    with torch.device("meta"):
        expected = Transformer(cfg, state["src_embedding.weight"].size(0), state["output.bias"].numel()).state_dict()
    for entry in _entries(cfg):
        n_parts, (n_out, *n_in) = len(entry.theirs), expected[entry.ours].shape
        # Marian's matrices are (in, out), its vectors are matrices of one row
        shape = [*(n_in or [1]), n_out // n_parts]
        parts = [_take(left, name, shape, path) for name in entry.theirs]
        state[entry.ours] = torch.cat([part.T if n_in else part[0] for part in parts]).contiguous()
    if left:
        names = ", ".join(sorted(left)[:5]) + (", ..." if len(left) > 5 else "")
        raise MtkitError(f"{path}: unknown parameters: {names}")
    return state


def to_parameters(state: Mapping[str, Tensor], cfg: ModelConfig) -> dict[str, NDArray[Any]]:
    """Return Marian's parameters: the inverse of `to_state`."""
    parameters: dict[str, Tensor] = {}
    same = torch.equal(state["src_embedding.weight"], state["tgt_embedding.weight"])
    if cfg.tie == "all" or (cfg.tie == "none" and same):
        parameters["Wemb"] = state["tgt_embedding.weight"]
    else:
        parameters |= {theirs: state[f"{ours}.weight"] for ours, theirs in _SIDES.items()}
    if cfg.tie == "none":
        parameters[f"{_OUTPUT}_Wt"] = state["output.weight"]
    parameters[f"{_OUTPUT}_b"] = state["output.bias"][None]
    for entry in _entries(cfg):
        for name, part in zip(entry.theirs, state[entry.ours].chunk(len(entry.theirs)), strict=True):
            parameters[name] = part.T if part.dim() == 2 else part[None]
    return {name: parameters[name].contiguous().numpy() for name in sorted(parameters)}


def layer_parameters(cfg: ModelConfig, layer: str) -> tuple[str, ...]:
    """Return Marian's matrices that mtkit joins in the linear layer of this name."""
    [entry] = [entry for entry in _entries(cfg) if entry.ours == f"{layer}.weight"]
    return entry.theirs


def _ends(left: dict[str, NDArray[Any]], cfg: ModelConfig, path: Path | str) -> dict[str, Tensor]:
    """Remove embeddings and output from left; return them under mtkit's names."""
    shared = "Wemb" in left
    src = _take(left, "Wemb" if shared else _SIDES["src_embedding"], [-1, cfg.d_model], path)
    tgt = src if shared else _take(left, _SIDES["tgt_embedding"], [-1, cfg.d_model], path)
    output = tgt
    if cfg.tie == "none" and f"{_OUTPUT}_W" in left:  # the name in older versions
        output = _take(left, f"{_OUTPUT}_W", [cfg.d_model, tgt.size(0)], path).T.contiguous()
    elif cfg.tie == "none":
        output = _take(left, f"{_OUTPUT}_Wt", [tgt.size(0), cfg.d_model], path)
    bias = _take(left, f"{_OUTPUT}_b", [1, tgt.size(0)], path)[0]
    names = ("src_embedding.weight", "tgt_embedding.weight", "output.weight", "output.bias")
    return dict(zip(names, (src, tgt, output, bias), strict=True))


def _entries(cfg: ModelConfig) -> Iterator[_Entry]:
    """Yield all tensors but embeddings and output."""
    for side, n_layers in (("encoder", cfg.n_encoder_layers), ("decoder", cfg.n_decoder_layers)):
        for layer in range(n_layers):
            ours, theirs = f"{side}_layers.{layer}", f"{side}_l{layer + 1}"
            if side == "decoder" and cfg.decoder == "ssru":
                yield _Entry(f"{ours}.self_attention.in_proj.weight", (f"{theirs}_rnn_W", f"{theirs}_rnn_Wf"))
                yield _Entry(f"{ours}.self_attention.forget_bias", (f"{theirs}_rnn_bf",))
                norm = f"{theirs}_rnn" if cfg.norm_position == "pre" else f"{theirs}_rnn_ffn"
                yield from _norm(cfg, f"{ours}.self_attention_residual.norm", norm)
            else:
                yield from _linear(f"{ours}.self_attention.qkv_proj", f"{theirs}_self", "qkv")
                yield from _linear(f"{ours}.self_attention.out_proj", f"{theirs}_self", "o")
                yield from _norm(cfg, f"{ours}.self_attention_residual.norm", f"{theirs}_self_Wo")
            if side == "decoder":
                yield from _linear(f"{ours}.cross_attention.q_proj", f"{theirs}_context", "q")
                yield from _linear(f"{ours}.cross_attention.kv_proj", f"{theirs}_context", "kv")
                yield from _linear(f"{ours}.cross_attention.out_proj", f"{theirs}_context", "o")
                yield from _norm(cfg, f"{ours}.cross_attention_residual.norm", f"{theirs}_context_Wo")
            yield from _linear(f"{ours}.feed_forward.in_proj", f"{theirs}_ffn", "1")
            yield from _linear(f"{ours}.feed_forward.out_proj", f"{theirs}_ffn", "2")
            yield from _norm(cfg, f"{ours}.feed_forward_residual.norm", f"{theirs}_ffn_ffn")
        if cfg.norm_position == "pre":
            yield _Entry(f"{side}_norm.weight", (f"{side}_top_ln_scale",))
            yield _Entry(f"{side}_norm.bias", (f"{side}_top_ln_bias",))


def _linear(ours: str, theirs: str, parts: str) -> Iterator[_Entry]:
    yield _Entry(f"{ours}.weight", tuple(f"{theirs}_W{part}" for part in parts))
    yield _Entry(f"{ours}.bias", tuple(f"{theirs}_b{part}" for part in parts))


def _norm(cfg: ModelConfig, ours: str, theirs: str) -> Iterator[_Entry]:
    suffix = "_pre" if cfg.norm_position == "pre" else ""
    yield _Entry(f"{ours}.weight", (f"{theirs}_ln_scale{suffix}",))
    yield _Entry(f"{ours}.bias", (f"{theirs}_ln_bias{suffix}",))


def _take(left: dict[str, NDArray[Any]], name: str, shape: Sequence[int], path: Path | str) -> Tensor:
    """Remove the parameter from left; return it. shape: -1 allows any size."""
    array = left.pop(name, None)
    if array is None:
        raise MtkitError(f"{path}: the parameter {name} is missing")
    if array.ndim != len(shape) or any(w not in (-1, n) for w, n in zip(shape, array.shape, strict=True)):
        actual, expected = (" x ".join("any" if n < 0 else str(n) for n in sizes) for sizes in (array.shape, shape))
        raise MtkitError(f"{path}: the parameter {name} is {actual}, but the model's options ask for {expected}")
    if array.dtype.kind != "f":
        raise MtkitError(f"{path}: the parameter {name} contains {array.dtype} instead of floating-point numbers")
    return torch.from_numpy(array.astype(np.float32))


def read_npz(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read the parameters and the options of a model. Raises MtkitError if the file is not one of Marian's."""
    try:
        arrays = read_arrays(path, _MOST_GROWTH)
    except ValueError as error:
        raise MtkitError(f"{path}: not an .npz file of plain arrays, or damaged ({error})") from error
    description = arrays.pop(DESCRIPTION, None)
    if description is None:
        raise MtkitError(f"{path}: not a Marian model: {DESCRIPTION} is missing")
    return arrays, read_description(description.tobytes(), path)


def write_npz(path: Path, parameters: Parameters, options: Mapping[str, Any]) -> None:
    """Write a file like Marian's, except for the padding of the description."""
    arrays: dict[str, Any] = {**parameters, DESCRIPTION: np.frombuffer(as_description(options), dtype=np.int8)}
    np.savez(path, **arrays)


def _decode_config(path: Path) -> DecodeConfig:
    """Return the decode section for the model's decoder config, as far as mtkit has its keys."""
    options, decoder = marian_vocabulary.decoder_options(path), path.with_name(f"{path.name}.decoder.yml")
    settings: dict[str, Any] = {}
    if (beam_size := options.get("beam-size")) is not None:
        settings["beam_size"] = beam_size
    # Marian divides a score by length^normalize, mtkit by the length or by ((5 + length) / 6)^length_penalty.
    if options.get("normalize") is not None:
        alpha = number(options, "normalize", 0.0, decoder)
        settings["length_normalization"] = {0.0: "none", 1.0: "average"}.get(alpha, "gnmt")
        settings["length_penalty"] = alpha
    return checked(DecodeConfig, settings, decoder)


def _decoder_options(bundle: Bundle) -> dict[str, Any]:
    decode = bundle.config.decode
    alpha = {"none": 0.0, "average": 1.0}.get(decode.length_normalization, decode.length_penalty)
    return {"beam-size": decode.beam_size, "normalize": alpha}

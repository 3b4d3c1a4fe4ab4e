"""Import folders of Hugging Face's MarianMT (OPUS-MT) as bundles, and export bundles as such folders.

The imported model gives the same results as in transformers: it has the paper's sinusoids, and its decoder starts from
the embedding of the start token, usually <pad>.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from mtkit.bundle import Bundle, load_bundle
from mtkit.errors import MtkitError
from mtkit.files import atomic_folder
from mtkit.interop.handover import write_readme
from mtkit.interop.huggingface import marianmt_vocabulary
from mtkit.interop.huggingface.config import config_files, decode_config, generation, model_config
from mtkit.interop.huggingface.tensors import WEIGHTS, positions_of, read_weights, to_state, to_tensors
from mtkit.interop.imported import Languages, Origin, check_sides, save_imported
from mtkit.interop.vocabulary import BANNED, Vocabularies, export_state, import_state
from mtkit.tokens.special_ids import BOS_ID, PAD_ID

FORMAT = "huggingface marian"


def import_model(folder: Path, config: Mapping[str, Any], out: Path, languages: Languages | None) -> None:
    """Write the model in a folder as a bundle; arguments and errors as for `folder.import_model`.

    config: the content of config.json.
    """
    generation_file, generate = generation(folder, config)
    path, tensors = read_weights(folder)
    cfg = model_config(config, positions_of(tensors, path, ("sinusoidal", "marian")), folder / "config.json")
    state = to_state(tensors, cfg, path)
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
    decode = decode_config(generate, generation_file, config)
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
        save_file(to_tensors(state, cfg), temporary / WEIGHTS, metadata={"format": "pt"})
        for name, values in files.items():
            text = json.dumps(values, indent=2) + "\n"
            (temporary / name).write_text(text, encoding="utf-8", newline="\n")
        write_readme(temporary, bundle, "hf")


def _check(folder: Path, config: Mapping[str, Any], both: Vocabularies, n_rows: Mapping[str, int]) -> int:
    """Check that vocabularies, config and matrices belong together; return the id that the decoder starts with."""
    for side, vocabulary in (("src", both.src), ("tgt", both.tgt)):
        if n_rows[side] != (size := vocabulary.layout.size):
            raise MtkitError(
                f"{vocabulary.path}: {size} entries, but the {side} embedding has {n_rows[side]} rows; the files are "
                "of different models, or the others are tokens that were added to the tokenizer, which mtkit does not "
                "read"
            )
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

"""Import folders of M2M-100 and NLLB as bundles, and export such bundles again.

Both have one architecture and one vocabulary for many languages. Each language has a token, which comes before a
source; in the decoder, the target language's comes after </s>.

Training changes the embedding of <start>, which stands for the target language in the decoder, but not that language's
row of the output. The folder of a tuned model therefore has a separate output matrix (tie_word_embeddings: false).
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from mtkit.bundle import NEW_PIECES, load_bundle
from mtkit.config.model import ModelConfig
from mtkit.errors import MtkitError
from mtkit.files import atomic_folder, write_text
from mtkit.interop.handover import write_readme
from mtkit.interop.huggingface import m2m100_vocabulary
from mtkit.interop.huggingface.config import config_files, decode_config, generation, model_config
from mtkit.interop.huggingface.tensors import (
    OUTPUT_BIAS,
    SHARED,
    WEIGHTS,
    positions_of,
    read_weights,
    to_state,
    to_tensors,
)
from mtkit.interop.imported import Languages, Origin, direction, save_imported
from mtkit.interop.vocabulary import Layout, export_state, import_state
from mtkit.tokens.special_ids import BOS_ID
from mtkit.tokens.tokenizer import language_piece

FORMAT = "huggingface m2m_100"
_EMBEDDINGS, _OUTPUT = ("src_embedding.weight", "tgt_embedding.weight"), "output.weight"


def import_model(folder: Path, config: Mapping[str, Any], out: Path, languages: Languages | None) -> None:
    """Write the model in a folder as a bundle; arguments and errors as for `folder.import_model`.

    config: the content of config.json. languages: the direction that the bundle translates in by default.
    """
    generation_file, generate = generation(folder, config)
    path, tensors = read_weights(folder)
    cfg = model_config(config, positions_of(tensors, path, ("fairseq",)), folder / "config.json")
    state = to_state(tensors, cfg, path)
    vocabulary = m2m100_vocabulary.read(folder, n_rows=state["tgt_embedding.weight"].size(0))
    _check_ids(folder / "config.json", config, vocabulary.names.layout)
    chosen = direction(folder, vocabulary.languages, languages or m2m100_vocabulary.direction(folder))
    both = vocabulary.both()
    layout = both.tgt.layout
    start = both.tgt.names.index(language_piece(chosen.tgt))
    embedding = state["tgt_embedding.weight"][start]
    if cfg.tie == "none":
        cfg, state = _tied(cfg, state, start, folder)
    state = import_state(state, cfg.tie, layout, layout, embedding)
    origin = Origin.from_file(path, FORMAT, layout, layout, {})
    decode = decode_config(generate, generation_file, config)
    save_imported(out, state, cfg, both.tokenizers(), decode, chosen, origin)


def export_bundle(folder: Path, out: Path) -> None:
    """Write a bundle as a folder that transformers loads as M2M-100 or NLLB.

    Raises MtkitError if the model has new pieces, or if training has given it an output bias.
    """
    bundle = load_bundle(folder)
    if NEW_PIECES in bundle.manifest.get("training", {}):
        raise MtkitError(
            f"{folder}: M2M-100 and NLLB have no place for the pieces of `mtkit adapt --new-pieces`; adapt the model "
            "without that option to export it"
        )
    rows = m2m100_vocabulary.Rows.from_bundle(bundle)
    [language] = bundle.tgt_tokenizer.piece_ids([language_piece(bundle.config.data.tgt_lang)])
    state, start = bundle.model.state_dict(), bundle.model.tgt_embedding.weight[BOS_ID].detach()
    is_tuned = not torch.equal(state[_OUTPUT][language], start)
    state = export_state(state, rows.layout, rows.layout)
    if is_tuned:
        embedding = state["tgt_embedding.weight"].clone()
        embedding[rows.layout.rows[language]] = start
        state |= dict.fromkeys(_EMBEDDINGS, embedding)
        tensors = to_tensors(state, bundle.config.model.model_copy(update={"tie": "none"}))
        tensors[SHARED] = embedding  # old versions of transformers take it for both sides
    else:
        tensors = to_tensors(state, bundle.config.model)
    if tensors.pop(OUTPUT_BIAS).any():
        raise MtkitError(
            f"{folder}: training has given the output a bias, which M2M-100 and NLLB lack; train it again, "
            "since mtkit now leaves the bias as it is"
        )
    ids = {
        "vocab_size": rows.layout.size,
        "bos_token_id": m2m100_vocabulary.BOS,
        "pad_token_id": rows.layout.pad,
        "eos_token_id": rows.layout.eos,
        "decoder_start_token_id": rows.layout.eos,
    }
    files = config_files(bundle.config.model, ids, bundle.config.decode, folder)
    files["config.json"]["tie_word_embeddings"] = not is_tuned
    with atomic_folder(out) as temporary:
        m2m100_vocabulary.write(temporary, bundle, rows)
        save_file(tensors, temporary / WEIGHTS, metadata={"format": "pt"})
        for name, values in files.items():
            write_text(temporary / name, json.dumps(values, indent=2) + "\n")
        write_readme(temporary, bundle, "hf")


def _tied(
    cfg: ModelConfig, state: Mapping[str, Tensor], start: int, folder: Path
) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Return a tuned model with the output matrix for all, whose row `start` alone differs from the embeddings.

    start: the row of the target language. Raises MtkitError if another row differs.
    """
    src, tgt = (state[name] for name in _EMBEDDINGS)
    others = (tgt != state[_OUTPUT]).any(1).nonzero().flatten().tolist()
    if not torch.equal(src, tgt) or {*others} - {start}:
        raise MtkitError(
            f"{folder / 'config.json'}: tie_word_embeddings: false is supported only where the matrices differ in the "
            "row of the target language alone, as in a tuned model that mtkit exported; choose that language with "
            "--tgt-lang"
        )
    return cfg.model_copy(update={"tie": "all"}), {**state, **dict.fromkeys(_EMBEDDINGS, state[_OUTPUT])}


def _check_ids(path: Path, config: Mapping[str, Any], layout: Layout) -> None:
    """Raise MtkitError unless the decoder starts from </s>, and special tokens have the ids that the vocabulary has."""
    ids = {"eos_token_id": layout.eos, "decoder_start_token_id": layout.eos, "pad_token_id": layout.pad}
    for key, expected in ids.items():
        if (value := config.get(key, expected)) != expected:
            raise MtkitError(f"{path}: {key}: {value} is not supported; only {expected}, as in M2M-100 and NLLB")

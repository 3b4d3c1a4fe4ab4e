"""Import folders of M2M-100 and NLLB as bundles, and export such bundles again.

Both have one architecture and one vocabulary for many languages. Each language has a token, which comes before a
source; in the decoder, the target language's comes after </s>.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from mtkit.bundle import NEW_PIECES, load_bundle
from mtkit.errors import MtkitError
from mtkit.files import atomic_folder, write_text
from mtkit.interop.handover import write_readme
from mtkit.interop.huggingface import m2m100_vocabulary
from mtkit.interop.huggingface.config import config_files, decode_config, generation, model_config
from mtkit.interop.huggingface.tensors import OUTPUT_BIAS, WEIGHTS, positions_of, read_weights, to_state, to_tensors
from mtkit.interop.imported import Languages, Origin, direction, save_imported
from mtkit.interop.vocabulary import Layout, export_state, import_state
from mtkit.tokens.special_ids import BOS_ID
from mtkit.tokens.tokenizer import language_piece

FORMAT = "huggingface m2m_100"


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
    state = import_state(state, cfg.tie, layout, layout, state["tgt_embedding.weight"][start])
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
    state = bundle.model.state_dict()
    [language] = bundle.tgt_tokenizer.piece_ids([language_piece(bundle.config.data.tgt_lang)])
    state["tgt_embedding.weight"][language] = state["tgt_embedding.weight"][BOS_ID]  # <start>, which was trained for it
    state = export_state(state, rows.layout, rows.layout)
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
    with atomic_folder(out) as temporary:
        m2m100_vocabulary.write(temporary, bundle, rows)
        save_file(tensors, temporary / WEIGHTS, metadata={"format": "pt"})
        for name, values in files.items():
            write_text(temporary / name, json.dumps(values, indent=2) + "\n")
        write_readme(temporary, bundle, "hf")


def _check_ids(path: Path, config: Mapping[str, Any], layout: Layout) -> None:
    """Raise MtkitError unless the decoder starts from </s>, and special tokens have the ids that the vocabulary has."""
    ids = {"eos_token_id": layout.eos, "decoder_start_token_id": layout.eos, "pad_token_id": layout.pad}
    for key, expected in ids.items():
        if (value := config.get(key, expected)) != expected:
            raise MtkitError(f"{path}: {key}: {value} is not supported; only {expected}, as in M2M-100 and NLLB")

"""Give a model new pieces: larger tokenizers, and a row for each piece, which is the mean of its old pieces' rows."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from mtkit.bundle import (
    FACTS,
    NEW_PIECES,
    BundleFiles,
    copies_from,
    load_model,
    read_bundle,
    save_bundle,
)
from mtkit.console import counted, log
from mtkit.languages import SIDES, Side
from mtkit.pair_files.pairs import Pair
from mtkit.tokens.new_pieces import NewPiece, learn_pieces, with_new_pieces
from mtkit.tokens.tokenizer import Tokenizer
from mtkit.tokens.word_record import FILE as WORDS_FILE

_NEVER = -30.0  # output bias of a piece that a translation must not have; imported models have lower ones

_Learned = Mapping[Side, Sequence[NewPiece]]


def extend(base: BundleFiles, pairs: Sequence[Pair], most: int, folder: Path) -> BundleFiles:
    """Write the model with up to `most` new pieces for each tokenizer, learned from pairs, to a folder; return it.

    Returns the base if its tokenizers cut the text well already. Raises DataError for tokenizers that cannot have more.
    """
    learned = _learn(base, pairs, most)
    if not any(learned.values()):
        log.info(f"--new-pieces: {base.folder} cuts no frequent word of the memory into several pieces")
        return base
    is_tied = base.config.model.tie == "all"  # ids mean the same on both sides, whose tokenizers may differ
    both = list({piece.text: piece for side in SIDES for piece in learned[side]}.values())
    added = {side: both if is_tied else learned[side] for side in SIDES}
    state = _grown(load_model(base).state_dict(), added, {piece.text for piece in learned["tgt"]})
    facts = {key: fact for key, fact in base.manifest.get("training", {}).items() if key in FACTS}
    with tempfile.TemporaryDirectory() as temporary:
        paths = {side: Path(temporary, f"{side}.spm") for side in SIDES}
        for side, path in paths.items():
            model = (base.folder / f"{side}.spm").read_bytes()
            path.write_bytes(with_new_pieces(model, [piece.text for piece in added[side]], learned[side]))
        n_new = {side: len(learned[side]) for side in SIDES}
        training, words = facts | {NEW_PIECES: n_new}, copies_from(base, [WORDS_FILE])
        save_bundle(folder, state, base.config, paths["src"], paths["tgt"], training=training, added=words)
    return read_bundle(folder)


def _learn(base: BundleFiles, pairs: Sequence[Pair], most: int) -> dict[Side, list[NewPiece]]:
    src, tgt = ([getattr(pair, side) for pair in pairs] for side in SIDES)
    if base.src_tokenizer.fingerprint == base.tgt_tokenizer.fingerprint:
        return dict.fromkeys(SIDES, learn_pieces(base.src_tokenizer, [*src, *tgt], most))
    return {"src": learn_pieces(base.src_tokenizer, src, most), "tgt": learn_pieces(base.tgt_tokenizer, tgt, most)}


def _grown(
    state: Mapping[str, Tensor], added: Mapping[Side, Sequence[NewPiece]], written: set[str]
) -> dict[str, Tensor]:
    """Return the state with a row for each added piece. written: the texts of those that a translation may have."""
    sides: dict[str, Side] = {"src_embedding.weight": "src", "tgt_embedding.weight": "tgt", "output.weight": "tgt"}
    grown = {**state}
    for name, side in sides.items():
        rows = [state[name][list(piece.old_ids)].mean(0) for piece in added[side]]
        grown[name] = torch.cat([state[name], torch.stack(rows)]) if rows else state[name]
    bias = state["output.bias"]
    allowed = torch.where(bias <= _NEVER, 0.0, bias)
    biases = [
        allowed[list(piece.old_ids)].mean() if piece.text in written else bias.new_tensor(_NEVER)
        for piece in added["tgt"]
    ]
    grown["output.bias"] = torch.cat([bias, torch.stack(biases)]) if biases else bias
    return grown


def report_gain(base: BundleFiles, extended: BundleFiles, pairs: Sequence[Pair], name: str) -> list[str]:
    """Return, and log, for each side how many pieces a line of the text has before and after. name: of the text."""
    described = []
    n_new = extended.manifest["training"][NEW_PIECES]
    for side, words in zip(SIDES, ("source", "target"), strict=True):
        lines = [getattr(pair, side) for pair in pairs]
        before, after = (_pieces_a_line(getattr(files, f"{side}_tokenizer"), lines) for files in (base, extended))
        gain = f"{before:.1f} pieces a line of {name} before, {after:.1f} after"
        described.append(f"{words} side: {counted(n_new[side], 'new piece')}; {gain}")
        log.info(described[-1])
    return described


def _pieces_a_line(tokenizer: Tokenizer, lines: Sequence[str]) -> float:
    return sum(map(len, tokenizer.encode_batch(lines))) / max(1, len(lines))

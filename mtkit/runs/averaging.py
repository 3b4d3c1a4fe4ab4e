"""Average the weights of a run's checkpoints, or of models of the same shape, and write a bundle."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from mtkit.alignment.coverage import FILE as ALIGNMENT_FILE
from mtkit.bundle import (
    FACTS,
    MANIFEST,
    NEW_PIECES,
    SHARE_OF_SMALL,
    BundleFiles,
    FileWriters,
    copies_from,
    load_network,
    read_bundle,
    save_bundle,
)
from mtkit.config.reading.differences import differences
from mtkit.config.reading.loading import load_written_config
from mtkit.console import log
from mtkit.data.sides import FILE as SIDES_FILE
from mtkit.distributed.weights import load_weights
from mtkit.engines.shortlist import SHORTLIST
from mtkit.errors import BundleError, CheckpointError, UsageError
from mtkit.interop.vocabulary import BANNED
from mtkit.model.networks import network_to_load
from mtkit.runs.record import read_record
from mtkit.tokens.tokenizer import load_tokenizers
from mtkit.tokens.word_record import FILE as WORDS_FILE
from mtkit.training.update.checkpoint import Checkpoints


def average_checkpoints(run_dir: Path, steps: Sequence[int], out: Path) -> list[int]:
    """Write a bundle with the mean of the run's weights at these steps; default: at all steps that the run keeps.

    Returns the steps. Raises UsageError for a step that the run does not keep, CheckpointError for a damaged one.
    """
    checkpoints = Checkpoints(run_dir / "checkpoints")
    kept = checkpoints.kept_steps()
    if not kept:
        raise CheckpointError(f"{run_dir}: not the folder of a run: {checkpoints.folder} is empty or missing")
    if missing := sorted(set(steps) - set(kept)):
        listed, available = (", ".join(map(str, each)) for each in (missing, kept))
        raise UsageError(f"{checkpoints.folder}: no step {listed}; the run keeps {available}")
    steps = sorted(set(steps)) or kept
    for step in steps:
        if not checkpoints.has_weights(step):
            raise CheckpointError(f"{checkpoints.folder}: the weights of step {step} are damaged; leave it out")
    cfg, (src, tgt) = load_written_config(run_dir / "config.yaml"), load_tokenizers(run_dir)
    model = network_to_load(cfg, src.vocab_size, tgt.vocab_size)
    load_weights(model, checkpoints.mean_weights(steps))
    spm = run_dir / "src.spm", run_dir / "tgt.spm"
    facts = read_record(run_dir).get("text", {}).get("facts", {})
    training = {"step": steps[-1], "averaged_steps": steps, **facts}
    is_finished = (run_dir / "model" / MANIFEST).exists()
    added = _files_of_text(read_bundle(run_dir / "model", task="any")) if is_finished else {}
    save_bundle(out, model.state_dict(), cfg, *spm, training=training, added=added)
    return steps


def average_bundles(folders: Sequence[Path], out: Path) -> None:
    """Write a bundle with the mean of the bundles' weights and the config of the first.

    Raises BundleError if architectures or tokenizers differ.
    """
    first, *others = bundles = [read_bundle(folder, task="any") for folder in folders]
    for other in others:
        _check_alike(first, other)
    if len({_beginning(bundle) for bundle in bundles}) > 1:
        log.warning(
            "according to their configs (train.init_from), these models did not start from the same model; the mean "
            "of independently trained models is useless: compare the mean with them (mtkit evaluate)"
        )
    sums: dict[str, Tensor] = {}
    for bundle in bundles:  # one model in memory at a time
        for name, weight in load_network(bundle).state_dict().items():
            sums[name] = sums[name] + weight if name in sums else weight.double()
    means = {name: (total / len(bundles)).to(torch.float32) for name, total in sums.items()}
    checksums = [bundle.manifest["sha256"]["model.safetensors"] for bundle in bundles]
    spm = first.folder / "src.spm", first.folder / "tgt.spm"
    of_first = first.manifest.get("training", {})
    facts = {key: of_first[key] for key in FACTS if key in of_first}
    training = {"averaged_models": checksums, **facts}
    save_bundle(out, means, first.config, *spm, training=training, added=_files_of_text(first))


def interpolated(base: Mapping[str, Tensor], tuned: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    """Return base + share x (tuned - base) of the weights of two models, by name; 0: those of the base.

    A mean of a model and one tuned from it keeps more of what both know (Wortsman et al. 2022, WiSE-FT). A token that
    an imported model never writes, such as <unk>, stays so, even if the tuned one has learned to write it.
    """
    means = {name: torch.lerp(weight.double(), tuned[name].double(), share) for name, weight in base.items()}
    weights = {name: mean.to(torch.float32) for name, mean in means.items()}
    if (bias := base.get("output.bias")) is not None:
        weights["output.bias"] = torch.where(bias <= BANNED / 2, bias, weights["output.bias"])
    return weights


def save_interpolated(base: BundleFiles, tuned: BundleFiles, share: float, out: Path) -> None:
    """Write a bundle with `interpolated` weights, and the config of the tuned model, but without its dev scores.

    The decode section and what is recorded of the training text come from the base: the text of the tuning is only a
    small part of what the model has learned from, and in a lexicon of little text most words have no counterpart.
    Raises BundleError if architectures or tokenizers differ.
    """
    _check_alike(base, tuned)
    weights = interpolated(load_network(base).state_dict(), load_network(tuned).state_dict(), share)
    of_base, of_tuned = (files.manifest.get("training", {}) for files in (base, tuned))
    training = {key: fact for key, fact in of_tuned.items() if not key.startswith("dev") and key not in FACTS}
    training |= {key: of_base[key] for key in (*FACTS, NEW_PIECES) if key in of_base}
    shares = [facts.pop(SHARE_OF_SMALL, None) for facts in (training, dict(of_tuned))]
    if None not in shares:  # the memory, too, may teach the model small letters
        training[SHARE_OF_SMALL] = max(shares)
    training["share_of_tuned_weights"] = share
    cfg = tuned.config.model_copy(update={"decode": base.config.decode})
    spm = tuned.folder / "src.spm", tuned.folder / "tgt.spm"
    added = {**_files_of_text(base), **copies_from(tuned, [SHORTLIST, WORDS_FILE])}  # these have the words of both
    save_bundle(out, weights, cfg, *spm, training=training, added=added)


def _files_of_text(files: BundleFiles) -> FileWriters:
    """Return copies of what a bundle records of its training text, and what holds for other weights, too."""
    return copies_from(files, [ALIGNMENT_FILE, SIDES_FILE, WORDS_FILE, SHORTLIST])


def _beginning(bundle: BundleFiles) -> Path:
    """Return the run or bundle that the model was fine-tuned from, or else the model's own."""
    start = bundle.config.train.init_from or bundle.config.run_dir or bundle.folder
    return (start.parent if start.name == "model" else start).resolve()


def _check_alike(first: BundleFiles, other: BundleFiles) -> None:
    if (first.config.task, first.config.data.labels) != (other.config.task, other.config.data.labels):
        raise BundleError(f"{other.folder}: its task or its labels differ from those of {first.folder}")
    shapes = [bundle.config.model.model_dump(mode="json") for bundle in (first, other)]
    unlike = [entry for entry in differences(*shapes) if not entry[0].endswith("_dropout")]
    if unlike:
        listed = "; ".join(f"model.{key}: {one} there, {two} here" for key, one, two in unlike)
        raise BundleError(f"{other.folder}: its architecture differs from that of {first.folder}: {listed}")
    for side in ("src", "tgt"):
        if getattr(first, f"{side}_tokenizer").fingerprint != getattr(other, f"{side}_tokenizer").fingerprint:
            raise BundleError(
                f"{other.folder}: its {side}.spm differs from that of {first.folder}, so "
                "the same ids mean different tokens"
            )

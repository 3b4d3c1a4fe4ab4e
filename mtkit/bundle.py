"""Save, verify and load a bundle: one folder with everything that translating needs.

It contains `config.yaml`, `src.spm`, `tgt.spm`, `model.safetensors` and `manifest.json`, which has the sha256 of each
of them, and of files added later: `alignment.npz`, `words.npz`, `sides.npz`, `ctranslate2/`, `int8.json`,
`shortlist.npz`, `confidence.json`.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, cast

from mtkit.config.reading.loading import dump_config, load_written_config
from mtkit.config.reading.problems import Override
from mtkit.config.schema import Config
from mtkit.errors import BundleError, UsageError
from mtkit.files import atomic_file, atomic_folder, parse_json, sha256_file, write_text
from mtkit.tokens.languages import in_languages
from mtkit.tokens.special_ids import BOS_ID
from mtkit.tokens.tokenizer import Tokenizer, load_tokenizers
from mtkit.version import __version__

if TYPE_CHECKING:
    from torch import Tensor

    from mtkit.model.network import Network
    from mtkit.model.transformer import Transformer

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
_WEIGHTS = "model.safetensors"
SHAPING_FILES = (_WEIGHTS, "src.spm", "tgt.spm")  # the files that identify a model, whatever was added to its folder
FILES = ("config.yaml", "src.spm", "tgt.spm", _WEIGHTS)
# What a run folder contains before its training ends
_RUN_FILES = ("config.yaml", "tokenizers.json", "checkpoints", "metrics.jsonl")

# In the manifest, under "training": the share of lines of the training text that have more than one sentence, and of
# its sources without a capital, the letters of its target side for each one of its source side, and the rates of
# `augment`, by name
SHARE_OF_SEVERAL, SHARE_OF_SMALL, LETTERS_RATIO, AUGMENTED = FACTS = (
    "lines_with_several_sentences",
    "lines_in_small_letters",
    "target_letters_per_source_letter",
    "augmented",
)
# In the same place: the keys that mtkit chose because the config left them out; absent in older bundles
CHOSEN = "chosen_by_mtkit"
LEXICON_START = "lexicon_start"  # the same: whether the first weights knew the lexicon; absent in older bundles
NEW_PIECES = "new_pieces"  # the same: how many `mtkit adapt --new-pieces` has added, by side; absent without any

FileWriters = Mapping[str, Callable[[Path], object]]  # what writes a file to the given path, by its name in a bundle

_FEW_SEVERAL = 0.02  # share of training lines with several sentences; below it, a model learns single sentences
_FEW_SMALL = 0.02  # share of training lines without a capital; below it, a model does not learn them

_OTHER_TASK = {  # what to say of a model with this task where the other is needed
    "translate": "a translator, not a classifier; use it with `mtkit translate`, name another --model, or train a "
    "classifier: task: classify",
    "classify": "a classifier, not a translator; use it with `mtkit classify`, or name another --model",
}


@dataclass(frozen=True)
class BundleFiles:
    """A bundle without its weights."""

    folder: Path
    config: Config
    src_tokenizer: Tokenizer
    tgt_tokenizer: Tokenizer
    manifest: Mapping[str, Any]
    # the target token whose embedding <start> gets, because another language was chosen than the weights are for
    start_id: int | None = field(default=None, kw_only=True)

    @property
    def shaping_checksums(self) -> list[str]:
        """The checksums of the files that identify the model."""
        return [self.manifest["sha256"][name] for name in SHAPING_FILES]

    @property
    def language_id(self) -> int | None:
        """The token of the target language, for a model of many: <start> for the language that the weights are for."""
        if not self.config.model.end_first:
            return None
        return BOS_ID if self.start_id is None else self.start_id

    @property
    def has_one_sentence_a_line(self) -> bool:
        """Whether nearly all lines of the training text have one sentence, as far as training recorded it."""
        share = self.manifest.get("training", {}).get(SHARE_OF_SEVERAL)
        return not isinstance(share, int | float) or share < _FEW_SEVERAL

    @property
    def has_few_lines_in_small_letters(self) -> bool:
        """Whether training recorded that nearly all lines of its source text have a capital."""
        share = self.manifest.get("training", {}).get(SHARE_OF_SMALL)
        return isinstance(share, int | float) and share < _FEW_SMALL


def check_ensemble(members: Sequence[BundleFiles]) -> None:
    """Raise BundleError if the models cannot be an ensemble."""
    first, *others = members
    for other in others:
        mine, theirs = first.config.data.placeholders, other.config.data.placeholders
        if mine != theirs:
            raise BundleError(
                f"{first.folder} and {other.folder} cannot be an ensemble: data.placeholders is {mine} and {theirs}; "
                "choose models that were trained with the same patterns"
            )
        if other.tgt_tokenizer.fingerprint != first.tgt_tokenizer.fingerprint:
            raise BundleError(
                f"{first.folder} and {other.folder} cannot be an ensemble: their target tokenizers differ "
                f"({first.tgt_tokenizer.vocab_size:,} and {other.tgt_tokenizer.vocab_size:,} pieces); choose models of "
                "one target tokenizer, such as those of one config and text with other seeds"
            )


@dataclass(frozen=True)
class Bundle(BundleFiles):
    """A bundle with its model, on the CPU and in evaluation mode."""

    model: "Transformer"


def save_bundle(
    folder: Path,
    model_state: "Mapping[str, Tensor]",
    cfg: Config,
    src_spm: Path,
    tgt_spm: Path,
    *,
    training: Mapping[str, Any],
    added: FileWriters = MappingProxyType({}),
) -> None:
    """Write a bundle atomically; an old bundle in this folder stays until the new one is complete.

    model_state: the model's `state_dict()`; weights are stored as float32, shared ones once.
    training: JSON about the model's origin, for the manifest: data fingerprint, dev scores.
    added: further files.
    Raises BundleError, and writes nothing, if a weight is NaN or infinite.
    """
    from safetensors.torch import save_file

    weights = _stored_weights(model_state, cfg)
    _refuse_not_finite(f"{folder}: not written, because the weight", weights)
    with atomic_folder(folder) as temporary:
        (temporary / "config.yaml").write_text(dump_config(cfg), encoding="utf-8", newline="\n")
        shutil.copyfile(src_spm, temporary / "src.spm")
        shutil.copyfile(tgt_spm, temporary / "tgt.spm")
        save_file(weights, temporary / _WEIGHTS)
        for name, write in added.items():
            write(temporary / name)
        manifest = {
            "format_version": FORMAT_VERSION,
            "mtkit_version": __version__,
            "sha256": {name: sha256_file(temporary / name) for name in (*FILES, *added)},
            "training": dict(training),
        }
        (temporary / MANIFEST).write_text(_as_text(manifest), encoding="utf-8", newline="\n")


def read_bundle(
    folder: Path, overrides: Sequence[str] = (), *, task: Literal["translate", "classify", "any"] = "translate"
) -> BundleFiles:
    """Read and verify a bundle without its weights and without torch.

    overrides: changes to the config's decode section, such as "decode.beam_size=1". task: of the model.
    Raises BundleError if a file is missing or differs from the manifest, or for a model with another task, and
    ConfigError for a wrong override.
    """
    for override in overrides:
        if not override.strip().startswith("decode."):
            raise UsageError(
                f"{Override(0, override).place}: only keys of the decode section can change after training; "
                "see `mtkit config --schema`"
            )
    manifest = _read_manifest(folder)
    for name in FILES:
        if name != _WEIGHTS:
            _verify(folder / name, str(manifest["sha256"].get(name)))
    config = load_written_config(folder / "config.yaml", overrides)
    if task not in ("any", config.task):
        raise BundleError(f"{folder}: {_OTHER_TASK[config.task]}")
    src_tokenizer, tgt_tokenizer = load_tokenizers(folder, config.data.placeholders)
    config, start_id = in_languages(config, (src_tokenizer, tgt_tokenizer), folder)
    return BundleFiles(folder, config, src_tokenizer, tgt_tokenizer, manifest, start_id=start_id)


def load_network(files: BundleFiles) -> "Network":
    """Load the bundle's model, on the CPU and in evaluation mode. Raises BundleError if its weights are damaged."""
    path = files.folder / _WEIGHTS
    _verify(path, str(files.manifest["sha256"].get(_WEIGHTS)))
    vocab_sizes = files.src_tokenizer.vocab_size, files.tgt_tokenizer.vocab_size
    network = _load_weights(path, files.config, *vocab_sizes)
    if files.start_id is not None:
        weight = cast("Transformer", network).tgt_embedding.weight.data
        weight[BOS_ID] = weight[files.start_id]
    return network


def load_model(files: BundleFiles) -> "Transformer":
    """Load a translator's model, as `load_network` does."""
    return cast("Transformer", load_network(files))


def load_bundle(folder: Path, overrides: Sequence[str] = ()) -> Bundle:
    """Read and verify a translator's bundle and its model; arguments and errors as for `read_bundle`."""
    files = read_bundle(folder, overrides)
    return Bundle(**vars(files), model=load_model(files))


def add_to_bundle(bundle: BundleFiles | Path, name: str, write: Callable[[Path], object]) -> None:
    """Add a file, or a folder if its name has no suffix, to a bundle and its manifest; replace an old one.

    bundle: the bundle for which it was made, or the folder of whatever model is there now.
    write: writes it to the given path; a folder exists already. If it raises, the bundle stays as it was. If the
    process is killed before the manifest is complete, the bundle counts as having no such file.

    Raises BundleError if the folder has another model by now than the bundle that was read.
    """
    folder = bundle if isinstance(bundle, Path) else bundle.folder
    place = folder / name
    with (atomic_file if place.suffix else atomic_folder)(place) as temporary:
        write(temporary)
        files = [temporary] if place.suffix else [path for path in sorted(temporary.rglob("*")) if path.is_file()]
        checksums = {
            (place / path.relative_to(temporary)).relative_to(folder).as_posix(): sha256_file(path) for path in files
        }
        known = _read_manifest(folder)["sha256"]
        now = [known.get(part) for part in SHAPING_FILES]
        if isinstance(bundle, BundleFiles) and bundle.shaping_checksums != now:
            raise BundleError(
                f"{folder}: contains another model since this command read it, so {name} was not added; run the "
                "command again"
            )
        _set_checksums(folder, name, {})
    _set_checksums(folder, name, checksums)


def _set_checksums(folder: Path, name: str, checksums: Mapping[str, str]) -> None:
    """Record a file, or those of a folder, in the manifest in place of earlier ones; {}: it is not there."""
    manifest = _read_manifest(folder)  # each time, because another process may have added files meanwhile
    others = {key: value for key, value in manifest["sha256"].items() if key.split("/")[0] != name}
    write_text(folder / MANIFEST, _as_text({**manifest, "sha256": {**others, **checksums}}))


def copies_from(files: BundleFiles, names: Iterable[str]) -> FileWriters:
    """Return what copies those of these files that a bundle has to another bundle."""
    paths = {name: bundle_file(files, name) for name in names}
    return {name: partial(shutil.copyfile, path) for name, path in paths.items() if path is not None}


def verify_bundle(folder: Path) -> None:
    """Verify all files that a bundle's manifest names. Raises BundleError if one is missing or differs."""
    for name, checksum in _read_manifest(folder)["sha256"].items():
        _verify(folder / name, checksum)


def bundle_file(files: BundleFiles, name: str) -> Path | None:
    """Verify a file or folder in the bundle and return its path; None if the bundle does not have it.

    Raises BundleError if it differs from what was added, or if a folder has a file that was not added.
    """
    checksums = {key: value for key, value in files.manifest["sha256"].items() if key.split("/")[0] == name}
    if not checksums:
        return None
    for key, checksum in checksums.items():
        _verify(files.folder / key, checksum)
    place = files.folder / name
    for path in sorted(place.rglob("*")):
        if path.is_file() and path.relative_to(files.folder).as_posix() not in checksums:
            raise BundleError(f"{path}: not in the bundle's {MANIFEST}, so it may not belong here; remove it")
    return place


def weights_checksum(folder: Path) -> str:
    """Return the checksum of a bundle's weights."""
    return str(_read_manifest(folder)["sha256"].get(_WEIGHTS))


def find_model(path: Path | None = None) -> Path:
    """Return the bundle folder of a run or bundle folder; default: $MTKIT_MODEL, or else the newest run in ./runs.

    Raises BundleError with the content of the folder and the remedy if it is neither.
    """
    if path is not None:
        return _bundle_in(path)
    if named := os.environ.get("MTKIT_MODEL"):
        try:
            return _bundle_in(Path(named))
        except BundleError as error:
            raise BundleError(f"$MTKIT_MODEL: {error}") from None
    bundles = [manifest.parent for manifest in Path("runs").glob(f"*/model/{MANIFEST}")]
    if bundles:
        return max(bundles, key=_made_at)
    unfinished = [str(run) for run in sorted(Path("runs").glob("*")) if _is_run(run)]
    runs = f"{', '.join(unfinished)}: training has not finished" if unfinished else "there is no run in ./runs"
    raise BundleError(f"no model: {runs}; give --model, set $MTKIT_MODEL, or train one: mtkit demo, mtkit train")


def _made_at(bundle: Path) -> int:
    """Return when the weights were written; the manifest also changes whenever a file is added."""
    weights = bundle / _WEIGHTS
    return (weights if weights.exists() else bundle / MANIFEST).stat().st_mtime_ns


def _bundle_in(path: Path) -> Path:
    for folder in (path, path / "model"):
        if (folder / MANIFEST).is_file():
            return folder
    if not path.exists():
        hint = hint_of_hub(path) or "a model is a run or bundle folder, such as runs/NAME"
        raise BundleError(f"{path}: no such folder; {hint}")
    if not path.is_dir():
        hint = f"; did you mean {path.parent}?" if is_run_or_bundle(path.parent) else ", such as runs/NAME"
        raise BundleError(f"{path}: a file, but a model is a run or bundle folder{hint}")
    if any((path / name).exists() for name in ("model.safetensors", "src.spm")) and not _is_run(path):
        raise BundleError(f"{path}: a bundle without its {MANIFEST}; {_remedy(path)}")
    if _is_run(path) and (path / "model").is_dir():
        raise BundleError(f"{path / 'model'}: a bundle without its {MANIFEST}; {_remedy(path / 'model')}")
    if _is_run(path):
        raise BundleError(
            f"{path} has no model/ yet: its training has not finished; run `mtkit train` with its config to continue"
        )
    names = sorted(entry.name for entry in path.iterdir())
    content = f"it contains {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}" if names else "it is empty"
    raise BundleError(f"{path} is not a model folder: {content}; expected a run folder, or a bundle with {MANIFEST}")


def hint_of_hub(path: Path) -> str:
    """Return what to do if a missing path looks like the name of a model of the Hugging Face Hub; else ""."""
    if path.is_absolute() or len(path.parts) != 2 or Path(path.parts[0]).exists():
        return ""
    return (
        "if this is a model of the Hugging Face Hub: mtkit downloads nothing; download it first, for example with hf "
        f"download {path.as_posix()} --local-dir FOLDER, then use mtkit import FOLDER --out runs/NAME"
    )


def is_run_or_bundle(folder: Path) -> bool:
    """Return whether a folder is a run, finished or not, or a bundle."""
    return _is_run(folder) or (folder / MANIFEST).is_file()


def _is_run(path: Path) -> bool:
    return any((path / name).exists() for name in _RUN_FILES) and not (path / "model.safetensors").exists()


def _remedy(folder: Path) -> str:
    """Return how to replace a damaged bundle."""
    remedy = "copy the bundle again, with all of its files"
    if folder.name == "model" and (folder.parent / "checkpoints").is_dir():
        remedy += f", or remove {folder} and run `mtkit train` again: its checkpoints are enough to write the bundle"
    return remedy


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        manifest = parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BundleError(f"{folder}: not a bundle, since it has no {MANIFEST}") from None
    except ValueError as error:
        raise BundleError(f"{path}: not valid JSON ({error}); {_remedy(folder)}") from None
    if not isinstance(manifest, dict) or "format_version" not in manifest:
        raise BundleError(f"{path}: not the manifest of an mtkit bundle, since it has no format_version")
    version = manifest["format_version"]
    if version != FORMAT_VERSION:
        raise BundleError(
            f"{path}: bundle format {version}, but this mtkit {__version__} reads format {FORMAT_VERSION}; "
            f"use the mtkit that wrote it ({manifest.get('mtkit_version', 'unknown version')})"
        )
    if not isinstance(manifest.get("sha256"), dict):
        raise BundleError(f"{path}: no sha256 of the files; {_remedy(folder)}")
    return manifest


def _verify(path: Path, expected: str) -> None:
    if not path.is_file():
        raise BundleError(f"{path}: missing from the bundle; {_remedy(path.parent)}")
    actual = sha256_file(path)
    if actual != expected:
        raise BundleError(
            f"{path}: {path.name} has changed since the bundle was written "
            f"(sha256 {actual[:12]}..., but {expected[:12]}... in {MANIFEST}); {_remedy(path.parent)}"
        )


def _as_text(manifest: Mapping[str, Any]) -> str:
    return json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"


# The CTranslate2 engine needs no torch: the functions for weights import it, not the module.


def _stored_weights(model_state: "Mapping[str, Tensor]", cfg: Config) -> "dict[str, Tensor]":
    """Return what a bundle stores of a model's `state_dict()`: float32, shared weights once."""
    import torch

    from mtkit.model.networks import network_to_load

    embeddings = [model_state.get(f"{side}_embedding.weight") for side in ("src", "tgt")]  # a classifier has one
    vocab_sizes = [0 if embedding is None else embedding.size(0) for embedding in embeddings]
    second_names = _second_names(network_to_load(cfg, *vocab_sizes))
    return {
        name: weight.detach().to("cpu", torch.float32).contiguous()
        for name, weight in model_state.items()
        if name not in second_names
    }


def _load_weights(path: Path, cfg: Config, src_vocab_size: int, tgt_vocab_size: int) -> "Network":
    """Load a model onto the CPU, in evaluation mode.

    Raises BundleError if the file contains no weights, weights of another shape, a NaN or an infinity.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    from mtkit.model.networks import count_network_weights, network_to_load

    n_weights, size = count_network_weights(cfg, src_vocab_size, tgt_vocab_size), path.stat().st_size
    if 4 * n_weights > size:  # float32; checked before memory is taken for them
        raise BundleError(
            f"{path}: the weights do not fit config.yaml and the tokenizers: {n_weights:,} weights need more than "
            f"the {size:,} bytes of the file"
        )
    model = network_to_load(cfg, src_vocab_size, tgt_vocab_size)
    try:
        weights = load_file(path)
        missing, unexpected = model.load_state_dict(weights, strict=False)
    except (SafetensorError, RuntimeError) as error:
        raise BundleError(f"{path}: the weights do not fit config.yaml and the tokenizers: {error}") from None
    absent = sorted(set(missing) - _second_names(model))
    if absent or unexpected:
        raise BundleError(f"{path}: weights missing: {absent or 'none'}; unknown: {sorted(unexpected) or 'none'}")
    _refuse_not_finite(f"{path}: the weight", weights)
    return model.eval()


def _refuse_not_finite(subject: str, weights: "Mapping[str, Tensor]") -> None:
    """Raise BundleError for a NaN or an infinity, because some ways of decoding would hide it and translate wrongly.

    subject: the beginning of the message, before the name of the tensor.
    """
    from mtkit.model.networks import find_not_finite

    if (name := find_not_finite(weights)) is not None:
        raise BundleError(
            f"{subject} {name} contains NaN or infinity; average earlier checkpoints (`mtkit average --checkpoints`), "
            "convert the model again, or train again with a lower train.lr"
        )


def _second_names(model: "Network") -> set[str]:
    """Return the further names of shared weights."""
    names = {name for name, _ in model.named_parameters()}
    return {name for name, _ in model.named_parameters(remove_duplicate=False)} - names

"""A bundle: one folder with all that translating needs, verified when it is read. Reading it needs no torch.

`config.yaml`, `src.spm`, `tgt.spm`, `model.safetensors` and `manifest.json`, which holds the sha256 of each of them,
and of what was added later: `ctranslate2/`, `shortlist.npz`, `confidence.json`.
"""

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtkit.config.loading import dump_config, load_config
from mtkit.config.schema import Config, ModelConfig
from mtkit.data.tokenizer import Tokenizer
from mtkit.errors import BundleError, UsageError
from mtkit.files import atomic_file, atomic_folder, sha256_file, write_text
from mtkit.version import __version__

if TYPE_CHECKING:
    from torch import Tensor

    from mtkit.model.transformer import Transformer

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
_WEIGHTS = "model.safetensors"
SHAPING_FILES = (_WEIGHTS, "src.spm", "tgt.spm")  # what a model is, whatever was added to its folder
FILES = ("config.yaml", "src.spm", "tgt.spm", _WEIGHTS)
_RUN_FILES = (
    "config.yaml",
    "tokenizers.json",
    "checkpoints",
    "metrics.jsonl",
)  # what a run folder has before its training ends


@dataclass(frozen=True)
class BundleFiles:
    """A bundle without its weights."""

    folder: Path
    config: Config
    src_tokenizer: Tokenizer
    tgt_tokenizer: Tokenizer
    manifest: Mapping[str, Any]


@dataclass(frozen=True)
class Bundle(BundleFiles):
    """A trained model with everything around it; the model is on the CPU and in evaluation mode."""

    model: "Transformer"


def save_bundle(
    folder: Path,
    model_state: "Mapping[str, Tensor]",
    cfg: Config,
    src_spm: Path,
    tgt_spm: Path,
    *,
    training: Mapping[str, Any],
) -> None:
    """Write a bundle in one move; a bundle that stood there before is replaced only once the new one is whole.

    model_state: the model's `state_dict()`; weights are stored as float32, shared ones once.
    training: what the manifest tells about the model's origin, as JSON: data fingerprint, dev scores.
    """
    with atomic_folder(folder) as temporary:
        (temporary / "config.yaml").write_text(dump_config(cfg), encoding="utf-8", newline="\n")
        shutil.copyfile(src_spm, temporary / "src.spm")
        shutil.copyfile(tgt_spm, temporary / "tgt.spm")
        _save_weights(temporary / _WEIGHTS, model_state, cfg.model)
        manifest = {
            "format_version": FORMAT_VERSION,
            "mtkit_version": __version__,
            "sha256": {name: sha256_file(temporary / name) for name in FILES},
            "training": dict(training),
        }
        (temporary / MANIFEST).write_text(_as_text(manifest), encoding="utf-8", newline="\n")


def read_bundle(folder: Path, overrides: Sequence[str] = ()) -> BundleFiles:
    """Read and verify all of a bundle but its weights, and without torch.

    overrides: changes of the config's decode section, such as "decode.beam_size=1".
    Raises BundleError, naming the file, if one is missing or is not the one that the bundle was made with, and
    ConfigError for an override that cannot be.
    """
    for override in overrides:
        if not override.strip().startswith("decode."):
            raise UsageError(
                f"--set {override}: only keys of the decode section can change once a model is trained; "
                "see `mtkit config --schema`"
            )
    manifest = _read_manifest(folder)
    for name in FILES:
        if name != _WEIGHTS:
            _verify(folder / name, str(manifest["sha256"].get(name)))
    config = load_config(folder / "config.yaml", overrides)
    src_tokenizer, tgt_tokenizer = Tokenizer.load(folder / "src.spm"), Tokenizer.load(folder / "tgt.spm")
    return BundleFiles(folder, config, src_tokenizer, tgt_tokenizer, manifest)


def load_model(files: BundleFiles) -> "Transformer":
    """The bundle's model, on the CPU and in evaluation mode. Raises BundleError if its weights are damaged."""
    path = files.folder / _WEIGHTS
    _verify(path, str(files.manifest["sha256"].get(_WEIGHTS)))
    vocab_sizes = files.src_tokenizer.vocab_size, files.tgt_tokenizer.vocab_size
    return _load_weights(path, files.config.model, *vocab_sizes)


def load_bundle(folder: Path, overrides: Sequence[str] = ()) -> Bundle:
    """Read and verify a whole bundle; overrides: as `read_bundle` takes them.

    Raises BundleError, naming the file, if one is missing or is not the one that the bundle was made with.
    """
    files = read_bundle(folder, overrides)
    return Bundle(**vars(files), model=load_model(files))


def add_to_bundle(folder: Path, name: str, write: Callable[[Path], None]) -> None:
    """Put a file, or a folder if its name has no suffix, into a bundle in place of an older one of this name.

    write: makes it at the path that it is given; the folder is there already. If it raises, nothing has changed.
    The manifest gets the checksums; killed between the two, the bundle is as if it had no such file.
    """
    place = folder / name
    with (atomic_file if place.suffix else atomic_folder)(place) as temporary:
        write(temporary)
        made = [temporary] if place.suffix else [path for path in sorted(temporary.rglob("*")) if path.is_file()]
        checksums = {
            (place / path.relative_to(temporary)).relative_to(folder).as_posix(): sha256_file(path) for path in made
        }
        manifest = _read_manifest(folder)  # only now: writing can take minutes, in which other files may be added
        others = {key: value for key, value in manifest["sha256"].items() if key.split("/")[0] != name}
        write_text(folder / MANIFEST, _as_text({**manifest, "sha256": others}))
    write_text(folder / MANIFEST, _as_text({**manifest, "sha256": {**others, **checksums}}))


def bundle_file(files: BundleFiles, name: str) -> Path | None:
    """A file or folder that was added to the bundle, verified; None if there is none of this name.

    Raises BundleError if it is not what was added, or if a folder holds a file that was not.
    """
    checksums = {key: value for key, value in files.manifest["sha256"].items() if key.split("/")[0] == name}
    if not checksums:
        return None
    for key, checksum in checksums.items():
        _verify(files.folder / key, checksum)
    place = files.folder / name
    for path in sorted(place.rglob("*")):
        if path.is_file() and path.relative_to(files.folder).as_posix() not in checksums:
            raise BundleError(f"{path}: the bundle's {MANIFEST} does not know it, so it may not belong here; remove it")
    return place


def find_model(path: Path | None = None) -> Path:
    """The bundle folder meant by a run or bundle folder; without one by $MTKIT_MODEL, else the newest run in ./runs.

    Raises BundleError that says what was found there instead, and what to do.
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
    found = f"of {', '.join(unfinished)} none has finished training" if unfinished else "there is no run in ./runs"
    raise BundleError(f"no model: {found}; give --model, set $MTKIT_MODEL, or train one: mtkit demo, mtkit train")


def _made_at(bundle: Path) -> int:
    """When its weights were written; the manifest is written again whenever a file is added."""
    weights = bundle / _WEIGHTS
    return (weights if weights.exists() else bundle / MANIFEST).stat().st_mtime_ns


def _bundle_in(path: Path) -> Path:
    for folder in (path, path / "model"):
        if (folder / MANIFEST).is_file():
            return folder
    if not path.exists():
        raise BundleError(f"{path}: no such folder; a model is a run or bundle folder, such as runs/NAME")
    if not path.is_dir():
        raise BundleError(f"{path}: a file, but a model is a run or bundle folder; perhaps {path.parent}?")
    if any((path / name).exists() for name in ("model.safetensors", "src.spm")) and not _is_run(path):
        raise BundleError(f"{path}: a bundle without its {MANIFEST}; {_remedy(path)}")
    if _is_run(path) and (path / "model").is_dir():
        raise BundleError(f"{path / 'model'}: a bundle without its {MANIFEST}; {_remedy(path / 'model')}")
    if _is_run(path):
        raise BundleError(
            f"{path} has no model/ yet: its training has not finished; `mtkit train` with its config goes on with it"
        )
    names = sorted(entry.name for entry in path.iterdir())
    held = f"it holds {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}" if names else "it is empty"
    raise BundleError(f"{path} is not a model folder: {held}; expected a run folder, or a bundle with a {MANIFEST}")


def _is_run(path: Path) -> bool:
    return any((path / name).exists() for name in _RUN_FILES) and not (path / "model.safetensors").exists()


def _remedy(folder: Path) -> str:
    """How to come by a whole bundle instead of a damaged one."""
    remedy = "copy the bundle again, with all of its files"
    if folder.name == "model" and (folder.parent / "checkpoints").is_dir():
        remedy += f", or remove {folder} and run `mtkit train` again: the run's checkpoints make it anew"
    return remedy


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BundleError(f"{folder}: no {MANIFEST}, so this is not a bundle") from None
    except ValueError as error:
        raise BundleError(f"{path}: not valid JSON ({error}); {_remedy(folder)}") from None
    if not isinstance(manifest, dict) or "format_version" not in manifest:
        raise BundleError(f"{path}: no format_version, so this is not an mtkit bundle")
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
    found = sha256_file(path)
    if found != expected:
        raise BundleError(
            f"{path}: {path.name} is not the file this model was made with "
            f"(sha256 {found[:12]}..., the manifest says {expected[:12]}...); {_remedy(path.parent)}"
        )


def _as_text(manifest: Mapping[str, Any]) -> str:
    return json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"


# The CTranslate2 engine needs no torch: the functions for weights import it, not the module.


def _save_weights(path: Path, model_state: "Mapping[str, Tensor]", cfg: ModelConfig) -> None:
    """Write a model's `state_dict()` as float32, shared weights once."""
    import torch
    from safetensors.torch import save_file

    vocab_sizes = [model_state[f"{side}_embedding.weight"].size(0) for side in ("src", "tgt")]
    second_names = _second_names(_new_model(cfg, *vocab_sizes))
    weights = {
        name: weight.detach().to("cpu", torch.float32).contiguous()
        for name, weight in model_state.items()
        if name not in second_names
    }
    save_file(weights, path)


def _load_weights(path: Path, cfg: ModelConfig, src_vocab_size: int, tgt_vocab_size: int) -> "Transformer":
    """Load a model onto the CPU, in evaluation mode.

    Raises BundleError if the file holds no weights, or those of another shape of model.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    model = _new_model(cfg, src_vocab_size, tgt_vocab_size)
    try:
        missing, unexpected = model.load_state_dict(load_file(path), strict=False)
    except (SafetensorError, RuntimeError) as error:
        raise BundleError(f"{path}: the weights do not fit config.yaml and the tokenizers: {error}") from None
    absent = sorted(set(missing) - _second_names(model))
    if absent or unexpected:
        raise BundleError(f"{path}: weights missing: {absent or 'none'}; unknown: {sorted(unexpected) or 'none'}")
    return model.eval()


def _new_model(cfg: ModelConfig, src_vocab_size: int, tgt_vocab_size: int) -> "Transformer":
    import torch

    from mtkit.model.transformer import Transformer

    with torch.random.fork_rng(devices=[]):  # initialising the weights must not move the caller's random state
        return Transformer(cfg, src_vocab_size, tgt_vocab_size)


def _second_names(model: "Transformer") -> set[str]:
    """Return the further names of shared weights."""
    names = {name for name, _ in model.named_parameters()}
    return {name for name, _ in model.named_parameters(remove_duplicate=False)} - names

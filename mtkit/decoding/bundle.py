"""A bundle: one folder with all that translating needs, verified when it is read.

`config.yaml`, `src.spm`, `tgt.spm`, `model.safetensors` and `manifest.json`, which holds the sha256 of each of them.
"""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from mtkit import __version__
from mtkit.config.loading import dump_config, load_config
from mtkit.config.schema import Config, ModelConfig
from mtkit.data.tokenizer import Tokenizer
from mtkit.errors import BundleError
from mtkit.files import atomic_folder, sha256_file
from mtkit.model.transformer import Transformer

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
FILES = ("config.yaml", "src.spm", "tgt.spm", "model.safetensors")
_RUN_FILES = (
    "config.yaml",
    "tokenizers.json",
    "checkpoints",
    "metrics.jsonl",
)  # what a run folder has before its training ends


@dataclass(frozen=True)
class Bundle:
    """A trained model with everything around it; the model is on the CPU and in evaluation mode."""

    config: Config
    src_tokenizer: Tokenizer
    tgt_tokenizer: Tokenizer
    model: Transformer
    manifest: Mapping[str, Any]


def save_bundle(
    folder: Path,
    model_state: Mapping[str, Tensor],
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
    vocab_sizes = [model_state[f"{side}_embedding.weight"].size(0) for side in ("src", "tgt")]
    second_names = _second_names(_new_model(cfg.model, *vocab_sizes))
    weights = {
        name: weight.detach().to("cpu", torch.float32).contiguous()
        for name, weight in model_state.items()
        if name not in second_names
    }
    with atomic_folder(folder) as temporary:
        (temporary / "config.yaml").write_text(dump_config(cfg), encoding="utf-8", newline="\n")
        shutil.copyfile(src_spm, temporary / "src.spm")
        shutil.copyfile(tgt_spm, temporary / "tgt.spm")
        save_file(weights, temporary / "model.safetensors")
        manifest = {
            "format_version": FORMAT_VERSION,
            "mtkit_version": __version__,
            "sha256": {name: sha256_file(temporary / name) for name in FILES},
            "training": dict(training),
        }
        text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
        (temporary / MANIFEST).write_text(text, encoding="utf-8", newline="\n")


def load_bundle(folder: Path) -> Bundle:
    """Read and verify a bundle.

    Raises BundleError, naming the file, if one is missing or is not the one that the bundle was made with.
    """
    manifest = _read_manifest(folder)
    for name in FILES:
        _verify(folder / name, str(manifest["sha256"].get(name)))
    config = load_config(folder / "config.yaml")
    src_tokenizer, tgt_tokenizer = Tokenizer.load(folder / "src.spm"), Tokenizer.load(folder / "tgt.spm")
    model = _load_model(folder / "model.safetensors", config.model, src_tokenizer.vocab_size, tgt_tokenizer.vocab_size)
    return Bundle(config, src_tokenizer, tgt_tokenizer, model, manifest)


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
    manifests = sorted(Path("runs").glob(f"*/model/{MANIFEST}"), key=lambda found: found.stat().st_mtime_ns)
    if manifests:
        return manifests[-1].parent
    unfinished = [str(run) for run in sorted(Path("runs").glob("*")) if _is_run(run)]
    found = f"of {', '.join(unfinished)} none has finished training" if unfinished else "there is no run in ./runs"
    raise BundleError(f"no model: {found}; give --model, set $MTKIT_MODEL, or train one: mtkit demo, mtkit train")


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


def _load_model(path: Path, cfg: ModelConfig, src_vocab_size: int, tgt_vocab_size: int) -> Transformer:
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

"""run.json: what a run works with (text, tokenizers, model) and where it was started, for the report to tell."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import nn

from mtkit.console import log
from mtkit.cores import usable_cores
from mtkit.data.corpus import SIDES, corpus_name, read_side
from mtkit.data.tokenizer_report import report_by_counts
from mtkit.files import write_text
from mtkit.training.prepare import Prepared

_PACKAGES = ("mtkit", "torch", "sentencepiece", "sacrebleu", "numba", "numpy")
_MOST_STARTS = 50  # of those that are kept; the first stays


def note_start(run: Prepared, step: int, made_with: Mapping[str, str], teachers: Sequence[Path] = ()) -> None:
    """Write the run's run.json, with this start of it at the end of its list; step: the updates made before.

    made_with: what its checkpoints say about the machine; teachers: those whose translations it learns from (its config
    names the text alone). A failure is a warning: the run does not depend on it.
    """
    try:
        known = read_record(run.run_dir)
        device = next(run.updater.model.parameters()).device
        start = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "step": step,
            "machine": machine(device),
            "software": software(),
            "made_with": dict(made_with),
        }
        starts = [*known.get("starts", []), start] if step else [start]
        fingerprints = [run.corpus.fingerprint, run.validator.corpus.fingerprint]
        text = known["text"] if known.get("fingerprints") == fingerprints else _text(run)
        text["dev"]["n_in_training"] = run.n_dev_in_train  # earlier versions did not count them
        record = {
            "starts": starts[:1] + starts[1:][-_MOST_STARTS:],
            "fingerprints": fingerprints,
            "text": text,
            "teachers": list(map(str, teachers)) or (known.get("teachers", []) if step else []),
            "n_translated": len(run.validator.pairs),
            "epoch": asdict(run.epoch_size),
            "parameters": parameters_by_part(run.updater.model),
        }
        write_text(run.run_dir / "run.json", json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    except Exception as error:
        log.warning(f"{run.run_dir / 'run.json'}: cannot be written ({error}); the report will lack what it tells")


def read_record(run_dir: Path) -> dict[str, Any]:
    """What run.json holds; nothing if there is none that can be read."""
    try:
        record = json.loads((run_dir / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def parameters_by_part(model: nn.Module) -> dict[str, int]:
    """Number of weights by part of the model, and `total`; a shared matrix counts where it comes first."""
    counts: dict[str, int] = {}
    for name, parameter in model.named_parameters():  # a shared one comes once
        part = name.partition(".")[0].removesuffix("_layers").removesuffix("_norm")
        counts[part] = counts.get(part, 0) + parameter.numel()
    return {**counts, "total": sum(counts.values())}


def _text(run: Prepared) -> dict[str, Any]:
    """Pairs by what became of them, by corpus, and how the tokenizers cut the dev text."""
    corpora = run.cfg.data.train
    tokenizers = {}
    for side, tokenizer in zip(SIDES, run.validator.tokenizers, strict=True):
        encoded = run.corpus.src if side == "src" else run.corpus.tgt
        dev_lines = read_side([run.cfg.data.dev], side)
        figures = report_by_counts(tokenizer, dev_lines, encoded.occurrences(tokenizer.vocab_size))
        tokenizers[side] = {**asdict(figures), "n_training_tokens": len(encoded.ids)}
    run.corpus.release()
    return {
        "counts": asdict(run.corpus.counts),
        "corpora": [
            {"name": corpus_name(corpus), "n_kept": n_kept, "weight": corpus.weight, "tag": corpus.tag}
            for corpus, n_kept in zip(corpora, run.corpus.sizes, strict=True)
        ],
        "dev": {"name": corpus_name(run.cfg.data.dev), "n_pairs": run.validator.corpus.n_pairs},
        "tokenizers": tokenizers,
    }


def machine(device: torch.device) -> dict[str, str]:
    """Name to value: processor, cores, memory, system, and the GPU if the device is one."""
    found = {
        "processor": _processor(),
        "CPU cores": str(usable_cores()),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.release()} ({platform.machine()})",
    }
    if device.type == "cuda":
        gpu = torch.cuda.get_device_properties(device)
        found["GPU"] = f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB"
    return {name: value for name, value in found.items() if value}


def software() -> dict[str, str]:
    """Name to version, of Python and of the packages that a result depends on."""
    found = {"Python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # not installed as a package: run from its folder
            continue
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def _memory() -> str:
    try:
        n_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not POSIX
        return ""
    return f"{n_bytes / 2**30:.0f} GiB"

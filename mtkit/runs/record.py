"""Write run.json: the text, tokenizers, model and machines of a run, for its report."""

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
from mtkit.data.corpus import corpus_name
from mtkit.files import parse_json, write_text
from mtkit.tokens.changed_characters import Changes
from mtkit.training.preparation.prepared import Prepared
from mtkit.training.validation.dev_sets import parts_of

_PACKAGES = ("mtkit", "torch", "sentencepiece", "sacrebleu", "numba", "numpy")
_MOST_STARTS = 50  # in the record; it always keeps the first


def note_start(run: Prepared, step: int, made_with: Mapping[str, str], teachers: Sequence[Path] = ()) -> None:
    """Write the run's run.json, and append this start to its list. step: number of updates before it.

    made_with: the machine, as checkpoints record it; teachers: the models that translated the training text (the config
    names only that text). A failure causes only a warning.
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
        parts = parts_of(run.validator)
        fingerprints = [run.train_fingerprint, run.validator.fingerprint]
        text = known["text"] if known.get("fingerprints") == fingerprints else _text(run)
        # Older versions counted only the pairs of dev, or none, and had one dev set.
        text["dev"]["n_in_training"] = sum(run.overlaps[part.label].counts["pair"] for part in run.cfg.data.dev)
        text["dev_sets"] = [
            {"label": part.label, "name": corpus_name(part), "n_pairs": validator.n_pairs}
            for part, validator in zip(run.cfg.data.dev, parts, strict=True)
        ]
        _report_changes(text["tokenizers"])
        text["stages"] = [[asdict(draw) for draw in draws] for draws in run.draws]
        text["overlap"] = {name: asdict(overlap) for name, overlap in run.overlaps.items()}
        record = {
            "starts": starts[:1] + starts[1:][-_MOST_STARTS:],
            "fingerprints": fingerprints,
            "text": text,
            "teachers": list(map(str, teachers)) or (known.get("teachers", []) if step else []),
            "n_translated": run.validator.n_sentences,
            "n_translated_of": {
                part.label: validator.n_sentences for part, validator in zip(run.cfg.data.dev, parts, strict=True)
            },
            "epoch": asdict(run.epoch_size),
            "learning_curve": run.learning_curve and asdict(run.learning_curve),
            "tokens_an_update": run.tokens_an_update,
            "parameters": parameters_by_part(run.updater.model),
        }
        write_text(run.run_dir / "run.json", json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    except Exception as error:
        log.warning(f"{run.run_dir / 'run.json'}: cannot write the file ({error}); the report will be incomplete")


def read_record(run_dir: Path) -> dict[str, Any]:
    """Return the content of run.json; empty if it is missing or unreadable."""
    try:
        record = parse_json((run_dir / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def parameters_by_part(model: nn.Module) -> dict[str, int]:
    """Count the weights by part of the model, and `total`; a shared matrix counts for the first of its parts."""
    counts: dict[str, int] = {}
    for name, parameter in model.named_parameters():  # a shared one comes once
        part = name.partition(".")[0].removesuffix("_layers").removesuffix("_norm")
        counts[part] = counts.get(part, 0) + parameter.numel()
    return {**counts, "total": sum(counts.values())}


def _report_changes(tokenizers: Mapping[str, Mapping[str, Any]]) -> None:
    """Log the characters of the dev text that normalisation changes; warn of those that no translation can contain."""
    for side, figures in tokenizers.items():
        changes = Changes.from_json(figures["changed"]) if "changed" in figures else None
        if changes is None or not changes.characters:
            continue
        if side == "tgt" and changes.visible:
            log.warning(
                f"data.dev, {side}: normalisation changes characters, so no translation can contain them: {changes}; "
                "keep them with tokenizer.tgt.normalization=nfc (with tokenizer.shared, tokenizer.src.normalization)"
            )
        else:
            log.info(f"data.dev, {side}: normalisation changes characters: {changes}")


def _text(run: Prepared) -> dict[str, Any]:
    """Return the counts of pairs, the corpora, and the figures of the tokenizers on the dev text."""
    corpora = run.cfg.data.train
    n_tokens = {"src": len(run.corpus.src.ids), "tgt": len(run.corpus.tgt.ids)}
    figures = run.text.tokenizer_figures()
    tokenizers = {side: {**asdict(f), "n_training_tokens": n_tokens[side]} for side, f in figures.items()}
    run.corpus.release()
    return {
        "counts": asdict(run.corpus.counts),
        "corpora": [
            {
                "name": corpus_name(corpus),
                "n_kept": n_kept,
                "weight": corpus.weight,
                "min_score": corpus.min_score,
                "tag": corpus.tag,
            }
            for corpus, n_kept in zip(corpora, run.corpus.sizes, strict=True)
        ],
        "dev": {"name": ", ".join(map(corpus_name, run.cfg.data.dev)), "n_pairs": run.validator.n_pairs},
        "tokenizers": tokenizers,
        "facts": run.text.facts,
    }


def machine(device: torch.device) -> dict[str, str]:
    """Return processor, cores, memory, system, and the GPU if the device is one, by name."""
    facts = {
        "processor": _processor(),
        "CPU cores": str(usable_cores()),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.release()} ({platform.machine()})",
    }
    if device.type == "cuda":
        gpu = torch.cuda.get_device_properties(device)
        facts["GPU"] = f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB"
    return {name: value for name, value in facts.items() if value}


def software() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on, by name."""
    versions = {"Python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:  # not installed, but run from its folder
            continue
    return versions


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

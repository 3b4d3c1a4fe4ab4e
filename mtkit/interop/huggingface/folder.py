"""Import a folder of Hugging Face's transformers as a bundle, and export a bundle as such a folder."""

from pathlib import Path

from mtkit.bundle import read_bundle
from mtkit.interop.huggingface import m2m100, marianmt
from mtkit.interop.huggingface.config import M2M100, read_json
from mtkit.interop.imported import Languages


def import_model(folder: Path, out: Path, languages: Languages | None = None) -> None:
    """Write the model in a folder as a bundle; languages: by default those in the tokenizer's config.

    Raises MtkitError, naming the file and the key or tensor, if mtkit cannot compute the model.
    """
    config = read_json(folder / "config.json")
    architecture = m2m100 if config.get("model_type") == M2M100 else marianmt  # which refuses other types
    architecture.import_model(folder, config, out, languages)


def export_bundle(folder: Path, out: Path) -> None:
    """Write a bundle as a folder that transformers loads.

    Raises MtkitError, naming the key, if neither MarianMT nor M2M-100 can compute the model.
    """
    architecture = m2m100 if read_bundle(folder).config.model.end_first else marianmt
    architecture.export_bundle(folder, out)

"""A part of the built-in sample corpus, for benches whose runs have to be short."""

from itertools import islice
from pathlib import Path

from mtkit.data.sample import write_sample


def write_sample_part(folder: Path, n_train: int) -> list[str]:
    """Write n_train training pairs, 50 of dev and 50 of test; returns where they are, as settings for --set."""
    write_sample(folder)
    settings = []
    for key, part, n in (("train.0", "train", n_train), ("dev", "dev", 50), ("test", "test", 50)):
        for side, language in (("src", "en"), ("tgt", "fr")):
            path = folder / f"{part}.{language}"
            with path.open(encoding="utf-8") as file:
                lines = list(islice(file, n))
            path.write_text("".join(lines), encoding="utf-8")
            settings.append(f"data.{key}.{side}={path.resolve()}")
    return settings

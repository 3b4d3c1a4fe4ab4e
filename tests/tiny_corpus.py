"""A tiny parallel corpus whose translation is word by word, learnt in seconds."""

import random
from pathlib import Path

WORDS = {"one": "un", "two": "deux", "red": "rouge", "blue": "bleu", "cat": "chat", "dog": "chien", "sees": "voit"}


def write_corpus(folder: Path, name: str, n_pairs: int, seed: int) -> dict[str, str]:
    """Word-by-word "translations" of random words; returns the files as a config names them."""
    rng = random.Random(seed)
    sources = [rng.choices(list(WORDS), k=rng.randint(2, 5)) for _ in range(n_pairs)]
    (folder / f"{name}.en").write_text("".join(" ".join(words) + "\n" for words in sources), encoding="utf-8")
    targets = [[WORDS[word] for word in words] for words in sources]
    (folder / f"{name}.fr").write_text("".join(" ".join(words) + "\n" for words in targets), encoding="utf-8")
    return {"src": str(folder / f"{name}.en"), "tgt": str(folder / f"{name}.fr")}

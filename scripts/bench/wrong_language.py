"""Measure how often text of the right and of a wrong language is noticed, on parallel text.

For both directions of a language pair, with two tokenizers and with one for both sides: train tokenizers on the
training text, then count false alarms on source text, and detections on target text and on text of other languages.

    python scripts/bench/wrong_language.py FOLDER SRC TGT [OTHER_TEXT.gz ...] --part test
"""

import argparse
import itertools
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mtkit.config.tokenizer import TokenizerConfig
from mtkit.data.sides import FEW_WORDS, Resemblance, Sides
from mtkit.pair_files.lines import read_lines, windows
from mtkit.tokens.tokenizer import Tokenizer, train_tokenizer

LINES_A_FILE = 100
TYPED, FILE = 3, 20  # margins of mtkit.translation.direction


def counts(tokenizer: Tokenizer, lines: list[str]) -> npt.NDArray[np.int64]:
    """Return how often each piece occurs: (V,)."""
    ids = list(itertools.chain.from_iterable(tokenizer.encode_batch(lines)))
    return np.bincount(ids, minlength=tokenizer.vocab_size)


def models(folder: Path, languages: list[str], vocab_size: int) -> dict[str, Sides]:
    """Return the sides of four models, by name."""
    text = {lang: list(read_lines(folder / f"train.{lang}.gz")) for lang in languages}
    made: dict[str, Sides] = {}
    cfg = TokenizerConfig(vocab_size=vocab_size)
    with tempfile.TemporaryDirectory() as temporary:
        own = {lang: train_tokenizer(text[lang], cfg, Path(temporary, lang)) for lang in languages}
        both = train_tokenizer(itertools.chain(*text.values()), cfg, Path(temporary, "both"))
    for src, tgt in (languages, languages[::-1]):
        separate = Sides.from_tokenizers(own[src], own[tgt])
        assert separate is not None
        made[f"{src}-{tgt}"] = separate
        made[f"{src}-{tgt}, shared"] = Sides.from_counts(both, both, counts(both, text[src]), counts(both, text[tgt]))
    return made


def noticed(sides: Sides, lines: list[str], *limits: int) -> bool:
    """Return whether mtkit would say that this text is not in the source language; limits: of Resemblance.verdict."""
    return Resemblance(sides).add(lines).verdict(*limits) in ("tgt", "neither")


def main() -> None:
    """Print a row for each model and text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("languages", nargs=2)
    parser.add_argument("others", nargs="*", type=Path)
    parser.add_argument("--part", default="test", help="such as test: the files PART.LANG.gz")
    parser.add_argument("--vocab-size", type=int, default=8000)
    args = parser.parse_args()
    texts = {path.name: path for path in args.others}
    texts |= {f"{args.part}.{lang}": args.folder / f"{args.part}.{lang}.gz" for lang in args.languages}
    print(f"{'model':<16}{'text':<34}{'lines':>7}{'noticed':>9}{f'files of {LINES_A_FILE}':>14}{'noticed':>9}")
    for name, sides in models(args.folder, args.languages, args.vocab_size).items():
        for label, path in texts.items():
            lines = list(read_lines(path))
            typed = np.mean([noticed(sides, [line], TYPED, FEW_WORDS) for line in lines])
            files = [noticed(sides, part, FILE) for part in windows(lines, LINES_A_FILE)]
            print(
                f"{name:<16}{label:<34}{len(lines):>7,}{typed:>9.2%}{len(files):>14}{np.mean(files):>9.2%}", flush=True
            )


if __name__ == "__main__":
    main()

"""Measure the server's language detection by length of text: right, wrong and unsure, and what it does not serve.

    .venv/bin/python scripts/bench/detection.py --served en,fr --words en=RUN/src.spm --words fr=RUN/tgt.spm \\
        en=dev.en.gz fr=dev.fr.gz de=val.de.gz pt=dev.pt.gz

Each file holds lines of one language; a language may have several files. Those that are not served should be "unsure".
Every other line is for choosing the constants (--half tune), the others are for the report. Words and runs of words are
taken from the lines at random. "limited" is py3langid's best answer among the served languages, as other servers give
it; it is never unsure. --words names tokenizers of a served model, whose training text has this language.
"""

import argparse
import random
import timeit
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from mtkit.data.sides import Side
from mtkit.pair_files.lines import read_lines
from mtkit.quality.language import Identifier
from mtkit.serving.detection import Detector
from mtkit.tokens.tokenizer import Tokenizer

Answer = Callable[[str], str | None]
_MOST = 1000  # texts of a language and a length


def cuttings(lines: Sequence[str], rng: random.Random) -> dict[str, list[str]]:
    """Return texts of each length, and changed ones, made of lines of one language."""
    texts: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        words = line.split()
        alphabetic = [bare for word in words if (bare := word.strip(".,;:!?\"'«»()")).isalpha() and len(bare) > 1]
        if alphabetic:
            texts["1 word"].append(rng.choice(alphabetic))
        if len(words) >= (n := rng.choice((2, 3))):
            start = rng.randrange(len(words) - n + 1)
            texts["2-3 words"].append(" ".join(words[start : start + n]))
        if 4 <= len(words) <= 8:
            texts["4-8 words"].append(line)
            texts["4-8, capitals"].append(line.upper())
            texts["4-8, no accents"].append(without_accents(line))
        if len(words) >= 12:
            texts["12+ words"].append(line)
    return {kind: list(dict.fromkeys(found))[:_MOST] for kind, found in texts.items()}


def without_accents(text: str) -> str:
    """Return the text as a careless typist writes it."""
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))


def side_of(path: Path) -> Side:
    """Return what a tokenizer knows of its language."""
    tokenizer = Tokenizer.load(path)
    log_probs = tokenizer.piece_log_probs()
    assert log_probs is not None, f"{path} is not a unigram tokenizer"
    return Side(tokenizer, log_probs)


def shares(answers: Sequence[str | None], language: str) -> tuple[float, float]:
    """Return the percentage of right and of wrong answers."""
    right = sum(answer == language for answer in answers)
    wrong = sum(answer not in (language, None) for answer in answers)
    return 100 * right / max(1, len(answers)), 100 * wrong / max(1, len(answers))


def main() -> None:
    """Print a table for each kind of text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="LANG=FILE")
    parser.add_argument("--served", required=True, metavar="LANG,LANG")
    parser.add_argument("--words", action="append", default=[], metavar="LANG=TOKENIZER")
    parser.add_argument("--half", choices=("tune", "report"), default="report")
    args = parser.parse_args()

    text: dict[str, list[str]] = defaultdict(list)
    for language, path in (entry.split("=", 1) for entry in args.files):
        text[language] += read_lines(Path(path))
    served = args.served.split(",")
    words = {language: side_of(Path(path)) for language, path in (entry.split("=", 1) for entry in args.words)}
    limited = Identifier(served)
    without_words, with_words = Detector(served), Detector(served, words)
    detectors: dict[str, Answer] = {
        "limited": lambda text: limited.langs[int(limited.probabilities([text]).argmax())],
        "without words": lambda text: without_words.detect(text).language,
    }
    if words:
        detectors["with words"] = lambda text: with_words.detect(text).language

    parts = {}
    for language, lines in text.items():
        distinct = list(dict.fromkeys(lines))
        random.Random(0).shuffle(distinct)
        half = distinct[::2] if args.half == "tune" else distinct[1::2]
        parts[language] = cuttings(half, random.Random(1))
    foreign = [language for language in text if language not in served]
    print(f"served: {', '.join(served)}; not served: {', '.join(foreign)}; means over languages, in percent")
    for kind in dict.fromkeys(kind for part in parts.values() for kind in part):
        print(f"{kind}")
        for name, detect in detectors.items():
            results = {
                language: shares(list(map(detect, part[kind])), language)
                for language, part in parts.items()
                if part[kind]
            }
            right, wrong = ([results[language][i] for language in served if language in results] for i in (0, 1))
            taken = {language: results[language][1] for language in foreign if language in results}
            worst = max(taken, key=taken.__getitem__, default="")
            print(
                f"  {name:14}right {sum(right) / len(right):5.1f}  wrong {sum(wrong) / len(wrong):4.1f}"
                + (f"  not served, but accepted {sum(taken.values()) / len(taken):5.1f}" if taken else "")
                + (f" (most: {worst} {taken[worst]:.1f})" if taken else "")
            )
    example = "My sister went to the market yesterday, and bought three cats and a dog."
    for name, detect in detectors.items():
        ms = min(timeit.repeat(lambda detect=detect: detect(example), number=100, repeat=5)) * 10  # type: ignore[misc]
        print(f"{name}: {ms:.2f} ms for {len(example)} characters")


if __name__ == "__main__":
    main()

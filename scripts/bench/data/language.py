"""Compare py3langid, as mtkit uses it, with lingua and heliport: accuracy, unsure answers, speed and memory.

    pip install --no-deps --target build/peers lingua-language-detector heliport
    PYTHONPATH=build/peers .venv/bin/python scripts/bench/data/language.py en=train.en.gz de=train.de.gz pt=dev.pt.gz

Each file holds lines of one language; a line that several files have is left out. Short lines have 5 to 25 characters,
long ones at least 50; of each, as many lines of every language, at most --lines together. Each identifier chooses among
the same languages, those of the files and the usual intruders; heliport ranks all that it knows, of which the others
are passed over. A peer that is not installed is left out. Memory is what a process of its own needs at most. "best" is
the share of right answers if the identifier may not be unsure.
"""

import argparse
import importlib.util
import random
import resource
import time
from collections import Counter
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from pathlib import Path

from mtkit.pair_files.lines import read_lines
from mtkit.quality.language import Identifier

# Returns the best language of each line, and whether that is sure.
Identify = Callable[[Sequence[str]], list[tuple[str, bool]]]
INTRUDERS = "en de fr es pt it nl pl ru sv da cs ro hu fi tr".split()  # noqa: SIM905
_SURE = 0.9
_ALL_LANGUAGES = 1000  # more than heliport knows
# heliport (GPL, for comparison only) answers with ISO 639-3.
_THREE_LETTERS = dict(
    zip(
        INTRUDERS,
        "eng deu fra spa por ita nld pol rus swe dan ces ron hun fin tur".split(),  # noqa: SIM905
        strict=True,
    )
)


def with_py3langid(langs: Sequence[str]) -> Identify:
    """Return mtkit's identifier."""
    identifier = Identifier(langs)

    def identify(lines: Sequence[str]) -> list[tuple[str, bool]]:
        probabilities = identifier.probabilities(lines)
        return [(identifier.langs[row.argmax()], bool(row.max() >= _SURE)) for row in probabilities]

    return identify


def with_lingua(langs: Sequence[str]) -> Identify:
    """Return lingua in its more accurate mode; below the same probability, the answer is unsure."""
    import lingua

    codes = [getattr(lingua.IsoCode639_1, lang.upper()) for lang in langs]
    detector = lingua.LanguageDetectorBuilder.from_iso_codes_639_1(*codes).build()

    def identify(lines: Sequence[str]) -> list[tuple[str, bool]]:
        answers = []
        for line in lines:
            best = detector.compute_language_confidence_values(line)[0]
            answers.append((best.language.iso_code_639_1.name.lower(), best.value >= _SURE))
        return answers

    return identify


def with_heliport(langs: Sequence[str]) -> Identify:
    """Return heliport, with its own thresholds for what is sure."""
    import heliport

    detector = heliport.Identifier()
    codes = {_THREE_LETTERS[lang]: lang for lang in langs}

    def identify(lines: Sequence[str]) -> list[tuple[str, bool]]:
        answers = []
        for line in lines:
            ranked = (codes[code] for code in detector.identify_topk(line, _ALL_LANGUAGES) if code in codes)
            answers.append((next(ranked, ""), detector.identify(line) in codes))
        return answers

    return identify


def chosen(lines: Sequence[str], n: int) -> dict[str, list[str]]:
    """Return up to n short and n long lines, at random with a fixed seed."""
    kinds = {"short": [x for x in lines if 5 <= len(x) <= 25], "long": [x for x in lines if len(x) >= 50]}
    return {kind: random.Random(1).sample(found, min(n, len(found))) for kind, found in kinds.items()}


def measured(
    make: Callable[[Sequence[str]], Identify], langs: Sequence[str], texts: dict[str, dict[str, list[str]]]
) -> list[str]:
    """Return rows of the table, measured in this process."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    identify = make(langs)
    identify(["This loads what is loaded late.", "Das lädt, was spät geladen wird.", "Ceci charge le reste, ça va."])
    rows = []
    for kind in ("short", "long"):
        n = right = wrong = best = 0
        spent = 0.0
        worst = ("", 2.0)
        for lang, by_kind in texts.items():
            started = time.process_time()
            answers = identify(by_kind[kind])
            spent += time.process_time() - started
            n += len(answers)
            best += sum(answer == lang for answer, _ in answers)
            right += answers.count((lang, True))
            wrong += sum(answer != lang and sure for answer, sure in answers)
            if answers:
                worst = min(worst, (lang, answers.count((lang, True)) / len(answers)), key=lambda item: item[1])
        shares = f"{right / n:>7.1%} {wrong / n:>7.2%} {1 - (right + wrong) / n:>7.1%} {best / n:>7.1%}"
        rows.append(f"{make.__name__[5:]:<10} {kind:<6} {n:>6,} {shares} {n / spent:>9,.0f}  {worst[0]} {worst[1]:.1%}")
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return [*rows, f"{make.__name__[5:]:<10} needs {memory:,.0f} MiB more"]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="LANG=FILE")
    parser.add_argument("--lines", type=int, default=1000, help="of each kind, over all languages")
    args = parser.parse_args()
    files = {lang: Path(path) for lang, _, path in (text.partition("=") for text in args.files)}
    langs = list(dict.fromkeys([*files, *INTRUDERS]))
    lines = {lang: dict.fromkeys(map(str.strip, read_lines(path))) for lang, path in files.items()}
    n_files = Counter(line for found in lines.values() for line in found)
    texts = {
        lang: chosen([line for line in found if n_files[line] == 1], args.lines // len(files))
        for lang, found in lines.items()
    }
    print(f"{'':<10} {'lines':<6} {'n':>6} {'right':>7} {'wrong':>7} {'unsure':>7} {'best':>7} {'lines/s':>9}  least")
    for make in (with_py3langid, with_lingua, with_heliport):
        if importlib.util.find_spec(make.__name__[5:]) is None:
            continue
        with get_context("spawn").Pool(1) as pool:
            for row in pool.apply(measured, (make, langs, texts)):
                print(row, flush=True)


if __name__ == "__main__":
    main()

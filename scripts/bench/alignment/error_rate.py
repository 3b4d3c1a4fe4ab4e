"""Measure word alignments against a hundred sentence pairs aligned by hand: precision, recall and alignment error rate.

    .venv/bin/python scripts/bench/alignment/error_rate.py text > build/gold.tsv
    mtkit score --alignments --model runs/en-fr < build/gold.tsv | cut -f 5 > build/attention.txt
    .venv/bin/python scripts/bench/alignment/error_rate.py score build/attention.txt

`text` prints the pairs; `score` reads links such as 0-0 1-2, a line a pair, between words that white space separates.
AER is 1 - (|A and S| + |A and P|) / (|A| + |S|) of the links A, the sure links S and the possible ones P, which include
the sure (Och and Ney 2003, section 5.1). Where several words of the gold pairs form one between spaces (J' and aime),
their links are its links.
"""

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

GOLD = Path(__file__).with_name("gold.en-fr.txt")
_JOINS_RIGHT, _JOINS_LEFT = re.compile(r".*['’]"), re.compile(r"[.,]|-\w.*")  # in French; English has only [.,?]
_ENGLISH_LEFT = re.compile(r"[.,?]")
Links = set[tuple[int, int]]


@dataclass(frozen=True)
class GoldPair:
    """A sentence pair as text, with the links of its words, counted between white space."""

    src: str
    tgt: str
    sure: Links
    possible: Links  # the sure ones among them


def read_gold() -> list[GoldPair]:
    """Return the pairs. Raises ValueError with file and line if one is badly formed."""
    pairs = []
    for number, line in enumerate(GOLD.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.startswith("#"):
            try:
                pairs.append(_pair(line))
            except ValueError as error:
                raise ValueError(f"{GOLD}:{number}: {error}") from None
    return pairs


def _pair(line: str) -> GoldPair:
    left, middle, right = line.partition(" ||| ")
    if not middle:
        raise ValueError("no |||")
    src_words, entries = left.split(), [entry.rpartition("/") for entry in right.split()]
    src, src_places = _joined(src_words, re.compile(r"(?!)"), _ENGLISH_LEFT)
    tgt, tgt_places = _joined([word for word, _, _ in entries], _JOINS_RIGHT, _JOINS_LEFT)
    sure, possible = set(), set()
    for place, (_, _, references) in zip(tgt_places, entries, strict=True):
        for reference in filter(None, references.split("+")):
            link = src_places[_position(reference.removesuffix("?") or "?", src_words)], place
            possible.add(link)
            if reference == "?" or not reference.endswith("?"):
                sure.add(link)
    return GoldPair(src, tgt, sure, possible)


def _position(reference: str, words: list[str]) -> int:
    """Return where `word`, or `word#2`, the second of its kind, stands."""
    word, _, number = reference.partition("#")
    places = [index for index, other in enumerate(words) if other == word]
    if len(places) < int(number or 1):
        raise ValueError(f"{reference} is not in the source")
    return places[int(number or 1) - 1]


def _joined(words: list[str], joins_right: re.Pattern[str], joins_left: re.Pattern[str]) -> tuple[str, list[int]]:
    """Return the words as text, and for each the index of its word between white space."""
    text, places = "", []
    for word in words:
        space = bool(text) and not joins_left.fullmatch(word) and not joins_right.fullmatch(text)
        text += " " * space + word
        places.append(text.count(" "))
    return text, places


def read_links(lines: Iterator[str]) -> list[Links]:
    """Return the links of each line, such as 0-0 1-2."""
    return [{(int(i), int(j)) for i, _, j in (link.partition("-") for link in line.split())} for line in lines]


def error_rate(gold: list[GoldPair], found: list[Links]) -> tuple[float, float, float]:
    """Return precision (by possible links), recall (of sure ones) and AER."""
    n_found, n_sure = sum(map(len, found)), sum(len(pair.sure) for pair in gold)
    n_right = sum(len(links & pair.possible) for pair, links in zip(gold, found, strict=True))
    n_met = sum(len(links & pair.sure) for pair, links in zip(gold, found, strict=True))
    return n_right / max(1, n_found), n_met / n_sure, 1 - (n_met + n_right) / (n_found + n_sure)


def main() -> None:
    """Print the pairs, or scores of alignments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("text", help="print source, tab, target")
    score = commands.add_parser("score", help="print precision, recall and AER of each file")
    score.add_argument("alignments", nargs="+", type=Path)
    args = parser.parse_args()
    gold = read_gold()
    if args.command == "text":
        print("\n".join(f"{pair.src}\t{pair.tgt}" for pair in gold))
        return
    for path in args.alignments:
        found = read_links(iter(path.read_text(encoding="utf-8").splitlines()))
        if len(found) != len(gold):
            raise SystemExit(f"{path}: {len(found)} lines for {len(gold)} pairs")
        precision, recall, rate = error_rate(gold, found)
        print(f"{path}: precision {precision:.1%}, recall {recall:.1%}, AER {rate:.1%}")


if __name__ == "__main__":
    main()

"""Plant tags around words of sentences, translate them, and measure whether the tags end around the right words.

    B=".venv/bin/python scripts/bench/alignment/markup.py"
    $B translate --model runs/en-fr --src test.en.gz --lines 2000 > build/tags.jsonl
    $B words build/tags.jsonl --train train.en.gz train.fr.gz > build/words.txt
    for n in 1 2 3; do
      eflomal-align --input build/words.txt --forward-links build/there$n --reverse-links build/back$n
    done
    $B judge build/tags.jsonl build/there? build/back?

The judge is another program's alignment (eflomal, GPL, from PyPI in an environment of its own), in both directions, and
several times, since it draws at random. A pair of tags is without doubt if every tagged word has links, all alignments
agree on them, and none links a target word between these to another source word. It is right if it encloses the tagged
words' target words, and besides them none that all link to others: an article may be inside or not. Words are those
between which tags may stand: "J'ai" is two.
"""

import argparse
import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mtkit.config.data import CorpusFiles
from mtkit.data.corpus import read_pairs
from mtkit.documents.marked_lines import MarkedLines
from mtkit.pair_files.lines import read_lines
from mtkit.text.words import word_spans
from mtkit.translation.translator import Translator

_TAG = re.compile(r"</?[a-c]>")
Links = set[tuple[int, int]]  # source word, target word


def plant(line: str, rng: random.Random) -> tuple[str, dict[str, range]]:
    """Return the line with one to three pairs of tags around one to three words each, and their words."""
    words = line.split()
    places: dict[str, range] = {}
    for tag in "abc"[: rng.randint(1, 3)]:
        size = rng.randint(1, min(3, len(words)))
        start = rng.randrange(len(words) - size + 1)
        if all(set(range(start, start + size)).isdisjoint(other) for other in places.values()):
            places[tag] = range(start, start + size)
    for tag, where in places.items():
        words[where[0]] = f"<{tag}>{words[where[0]]}"
        words[where[-1]] = f"{words[where[-1]]}</{tag}>"
    return " ".join(words), places


def translate(args: argparse.Namespace) -> None:
    """Print a line of JSON for each sentence with tags: its source and its translation."""
    rng = random.Random(1)
    lines = [line for line in read_lines(args.src) if len(line.split()) > 2][: args.lines]
    planted = [plant(line, rng)[0] for line in lines]
    marked = MarkedLines(Translator.load(args.model, engine="native"))
    for start in range(0, len(planted), 200):
        part = planted[start : start + 200]
        for source, found in zip(part, marked.translate(part), strict=True):
            print(json.dumps([source, found], ensure_ascii=False), flush=True)
    marked.report()


def read_rows(path: Path) -> list[tuple[str, str]]:
    """Return what `translate` has printed."""
    return [(source, found) for source, found in map(json.loads, read_lines(path))]


def words(args: argparse.Namespace) -> None:
    """Print the words of the training pairs and of the translations for an aligner, source ||| target."""
    train = ((pair.src, pair.tgt) for pair in read_pairs([CorpusFiles(src=args.train[0], tgt=args.train[1])]))
    rows = ((_TAG.sub("", source), _TAG.sub("", found)) for source, found in read_rows(args.tags))
    for pair in (*train, *rows):
        print(" ||| ".join(" ".join(side[a:b].lower() for a, b in word_spans(side)) or "." for side in pair))


def tagged_words(text: str, tag: str) -> set[int]:
    """Return the words of the text without tags that stand, at least in part, between these, if they have letters."""
    start, end = (len(_TAG.sub("", text[: text.index(mark)])) for mark in (f"<{tag}>", f"</{tag}>"))
    plain = _TAG.sub("", text)
    return {
        index
        for index, (first, last) in enumerate(word_spans(plain))
        if first < end and last > start and any(map(str.isalnum, plain[first:last]))
    }


def expected(alignments: Sequence[Links], tagged: set[int]) -> tuple[set[int], set[int]] | None:
    """Return the target words that belong to these source words, and those of others, if there is no doubt."""
    agreed, found = set.intersection(*alignments), set.union(*alignments)
    own = {t for s, t in agreed if s in tagged}
    if any(all(s != word for s, _ in agreed) for word in tagged) or own != {t for s, t in found if s in tagged}:
        return None
    if any(min(own) <= t <= max(own) for s, t in found if s not in tagged):
        return None
    return own, {t for s, t in agreed if s not in tagged}


def read_links(path: Path, n: int) -> list[Links]:
    """Return the links of the last n lines of a file, as 0-0 1-2."""
    links = ((link.split("-") for link in line.split()) for line in [*read_lines(path)][-n:])
    return [{(int(s), int(t)) for s, t in of_line} for of_line in links]


def judge(args: argparse.Namespace) -> None:
    """Print some wrong places, and a line of figures."""
    rows = read_rows(args.tags)
    counts: Counter[str] = Counter()
    wrong = []
    directions = (read_links(path, len(rows)) for path in args.links)
    for (source, found), *alignments in zip(rows, *directions, strict=True):
        counts["lines"] += 1
        counts["valid"] += Counter(_TAG.findall(found)) == Counter(_TAG.findall(source)) and _is_nested(found)
        for tag in sorted({mark.strip("</>") for mark in _TAG.findall(source)}):
            counts["pairs"] += 1
            right = expected(alignments, tagged_words(source, tag))
            if right is None:
                continue
            counts["sure"] += 1
            (own, others), tagged = right, tagged_words(found, tag)
            is_right = own <= tagged and not tagged & others
            counts["right"] += is_right
            if not is_right:
                wrong.append(f"{source}\n  {found}  <{tag}> expected around {sorted(own)}")
    print("\n".join(random.Random(1).sample(wrong, min(args.show, len(wrong)))))
    valid, share = counts["valid"] / counts["lines"], counts["right"] / max(1, counts["sure"])
    print(f"{counts['lines']:,} lines, {valid:.2%} of them with all tags, well nested")
    print(f"{counts['pairs']:,} pairs of tags, {counts['sure']:,} without doubt, {share:.1%} of these right")


def _is_nested(text: str) -> bool:
    waiting: list[str] = []
    for tag in _TAG.findall(text):
        if not tag.startswith("</"):
            waiting.append(tag.strip("<>"))
        elif not waiting or waiting.pop() != tag.strip("</>"):
            return False
    return not waiting


def main() -> None:
    """Parse the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("translate")
    one.add_argument("--model", type=Path, required=True, help="run or bundle")
    one.add_argument("--src", type=Path, required=True)
    one.add_argument("--lines", type=int, default=2000)
    one.set_defaults(act=translate)
    two = commands.add_parser("words")
    two.add_argument("tags", type=Path)
    two.add_argument("--train", nargs=2, type=Path, required=True)
    two.set_defaults(act=words)
    three = commands.add_parser("judge")
    three.add_argument("tags", type=Path)
    three.add_argument("links", nargs="+", type=Path)
    three.add_argument("--show", type=int, default=10, help="wrong places to print")
    three.set_defaults(act=judge)
    args = parser.parse_args()
    args.act(args)


if __name__ == "__main__":
    main()

"""Plant placeholders for names and numbers that both sides of a corpus have, and count those that translations keep.

placeholders.py plant --src S --tgt T --out NAME [--share 0.8] [--only]   writes NAME.src and NAME.tgt
placeholders.py score --src S --tgt T --ref R                             counts, and BLEU with and without them
"""

import argparse
import random
import re
from collections import Counter
from pathlib import Path

import sacrebleu

from mtkit.pair_files.lines import read_lines

PATTERNS = [r"\{\w+\}", r"%(?:\d\$)?[sd]", r"https?://\S*[\w/]", r"\d+(?:[.:]\d+)?"]
_ANY = re.compile("|".join(PATTERNS))
_WORD = re.compile(r"(?<![\w'’])(?:[A-Z][a-zé]+|\d+)(?![\w'’])")
_MOST = 3  # in a pair


def new_value(rng: random.Random) -> str:
    """Return a variable, a printf code, an address or a number."""
    name = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz_", k=rng.randint(2, 10))).strip("_") or "x"
    number = f"{rng.randint(1, 99999)}{rng.choice(['', '.5', ':30'])}"
    values = [f"{{{name}}}", rng.choice(["%s", "%d", "%1$s", "%2$s"]), f"https://{name}.org/{rng.randint(1, 9999)}"]
    return rng.choices([*values, number], weights=[45, 15, 20, 20])[0]


def planted(src: str, tgt: str, share: float, rng: random.Random) -> tuple[str, str]:
    """Return the pair with placeholders for this share of the words that each side has once."""
    counts = Counter(_WORD.findall(src)), Counter(_WORD.findall(tgt))
    for word in [word for word in counts[0] if counts[0][word] == counts[1][word] == 1 and len(word) > 1][:_MOST]:
        value = new_value(rng)
        if rng.random() < share and value not in src:
            src, tgt = (re.sub(rf"(?<![\w'’]){word}(?![\w'’])", value, text, count=1) for text in (src, tgt))
    return src, tgt


def plant(args: argparse.Namespace) -> None:
    """Write the corpus with placeholders; with --only, just the pairs that have one."""
    rng = random.Random(args.seed)
    pairs = [planted(*pair, args.share, rng) for pair in zip(read_lines(args.src), read_lines(args.tgt), strict=True)]
    if args.only:
        pairs = [pair for pair in pairs if _ANY.search(pair[0]) and _counts(pair[0]) == _counts(pair[1])]
    for side, ending in enumerate(("src", "tgt")):
        Path(f"{args.out}.{ending}").write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    print(f"{len(pairs):,} pairs, {sum(bool(_ANY.search(src)) for src, _ in pairs):,} with placeholders")


def score(args: argparse.Namespace) -> None:
    """Print how many placeholders of the sources are in the translations, and BLEU."""
    srcs, tgts, refs = (list(read_lines(path)) for path in (args.src, args.tgt, args.ref))
    n_asked = n_kept = n_whole = 0
    for src, tgt in zip(srcs, tgts, strict=True):
        asked = _counts(src)
        kept = {value: min(n, tgt.count(value)) for value, n in asked.items()}
        n_asked, n_kept = n_asked + asked.total(), n_kept + sum(kept.values())
        n_whole += kept == asked
    print(f"{n_kept:,} of {n_asked:,} placeholders kept; all of them in {n_whole:,} of {len(srcs):,} sentences")
    bare = [[_ANY.sub("X", text) for text in texts] for texts in (tgts, refs)]
    bleu = sacrebleu.corpus_bleu(tgts, [refs]).score, sacrebleu.corpus_bleu(bare[0], [bare[1]]).score
    print(f"BLEU {bleu[0]:.2f}; with X for each placeholder {bleu[1]:.2f}")


def _counts(text: str) -> Counter[str]:
    return Counter(_ANY.findall(text))


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for run in (plant, score):
        command = commands.add_parser(run.__name__)
        command.set_defaults(run=run)
        command.add_argument("--src", type=Path, required=True)
        command.add_argument("--tgt", type=Path, required=True)
        if run is plant:
            command.add_argument("--out", required=True)
            command.add_argument("--share", type=float, default=1.0)
            command.add_argument("--only", action="store_true")
            command.add_argument("--seed", type=int, default=7)
        else:
            command.add_argument("--ref", type=Path, required=True)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()

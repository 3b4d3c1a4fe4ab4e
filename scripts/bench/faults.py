"""Measure how many planted faults the review finds, its false alarms, and what its second searches do to BLEU.

    .venv/bin/python scripts/bench/faults.py --src dev.en.gz --ref dev.fr.gz --langs en-fr --model runs/tatoeba-en-fr

Every fault is planted, with a seed, in clean translations: the references and, with --model, the model's own. Numbers
are changed or dropped where the translation has one in digits; a made-up URL is put into source and translation first.
Use dev data: rules must not be tuned on test sets.
"""

import argparse
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mtkit.config.data import CorpusFiles
from mtkit.data.corpus import evenly_spaced, read_pairs
from mtkit.evaluation.metrics.scores import corpus_bleu
from mtkit.quality.faults import FAULT_KINDS, Fault, FaultKind, find_faults
from mtkit.translation.review import Review

Pair = tuple[str, str]  # source and translation
Plant = Callable[[str, str, random.Random], Pair | None]  # None: nowhere to plant it


@dataclass(frozen=True)
class Planted:
    """A way to spoil a translation, and the kinds of fault that count as detecting it."""

    name: str
    plant: Plant
    kinds: frozenset[FaultKind]


def _emptied(src: str, text: str, rng: random.Random) -> Pair:
    return src, ""


def _looped(src: str, text: str, rng: random.Random) -> Pair:
    words = text.split()
    tail = words[-rng.randint(1, min(4, len(words))) :]
    return src, " ".join(words + tail * rng.randint(3, 8))


def _doubled(src: str, text: str, rng: random.Random) -> Pair | None:
    return (src, f"{text} {text}") if len(text.split()) >= 4 else None


def _truncated(src: str, text: str, rng: random.Random) -> Pair | None:
    words = text.split()
    return (src, " ".join(words[: round(0.3 * len(words))])) if len(words) >= 4 else None


def _copied(src: str, text: str, rng: random.Random) -> Pair | None:
    return (src, src) if len(src.split()) >= 3 and src != text else None


def _number_dropped(src: str, text: str, rng: random.Random) -> Pair | None:
    return _with_number(src, text, rng, lambda number: "")


def _number_changed(src: str, text: str, rng: random.Random) -> Pair | None:
    def changed(number: str) -> str:
        at = rng.randrange(len(number))
        digit = rng.choice([d for d in "123456789" if d != number[at]])
        return number[:at] + digit + number[at + 1 :]

    return _with_number(src, text, rng, changed)


def _with_number(src: str, text: str, rng: random.Random, change: Callable[[str], str]) -> Pair | None:
    """Change one of the translation's numbers that the source has, too."""
    in_src = re.findall(r"\d+", src)
    matches = [match for match in re.finditer(r"\d+", text) if match[0] in in_src]
    if not matches:
        return None
    match = rng.choice(matches)
    return src, (text[: match.start()] + change(match[0]) + text[match.end() :]).strip()


def _url_dropped(src: str, text: str, rng: random.Random) -> Pair:
    url = _url(rng)
    return f"{src} {url}", text


def _url_broken(src: str, text: str, rng: random.Random) -> Pair:
    url = _url(rng)
    at = rng.randrange(len(url))
    return f"{src} {url}", f"{text} {url[:at]}{rng.choice(['', ' ', 'qq'])}{url[at + 1 :]}"


def _url(rng: random.Random) -> str:
    name, page = ("".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(2))
    host = f"{rng.choice(['https://', 'http://', 'www.', 'https://www.'])}{name}.{rng.choice(['com', 'org', 'fr'])}"
    return rng.choice([host, f"{host}/{page}/", f"{host}/{page}?q={rng.randrange(1000)}"])


FAULTS = (
    Planted("emptied", _emptied, frozenset({"empty"})),
    Planted("tail looped 3 to 8 times", _looped, frozenset({"loop", "length"})),
    Planted("doubled (4 words)", _doubled, frozenset({"loop", "length"})),
    Planted("cut to 30 % of its words", _truncated, frozenset({"length", "empty"})),
    Planted("source copied (3 words)", _copied, frozenset({"copy"})),
    Planted("number dropped", _number_dropped, frozenset({"number", "empty"})),
    Planted("number changed", _number_changed, frozenset({"number"})),
    Planted("URL dropped", _url_dropped, frozenset({"url"})),
    Planted("URL broken", _url_broken, frozenset({"url"})),
)


def recall(planted: Planted, pairs: Sequence[Pair], tgt_lang: str, seed: int) -> tuple[int, int]:
    """How many of the planted faults are found, and how many there were."""
    rng = random.Random(seed)
    found, n_planted = 0, 0
    for src, text in pairs:
        spoilt = planted.plant(src, text, rng) if text.strip() and src.strip() else None
        if spoilt is None:
            continue
        n_planted += 1
        found += any(fault.kind in planted.kinds for fault in find_faults(*spoilt, tgt_lang=tgt_lang))
    return found, n_planted


def alarms(pairs: Sequence[Pair], tgt_lang: str) -> Iterator[tuple[Pair, tuple[Fault, ...]]]:
    """The pairs with faults."""
    for src, text in pairs:
        if faults := find_faults(src, text, tgt_lang=tgt_lang):
            yield (src, text), faults


def print_table(sets: dict[str, list[Pair]], tgt_lang: str, seed: int, n_shown: int) -> None:
    """Recall by planted fault, then alarms on what nothing was planted in."""
    print(f"{'planted fault':<28}" + "".join(f"{'found in ' + name:>26}" for name in sets))
    for planted in FAULTS:
        cells = []
        for pairs in sets.values():
            found, n_planted = recall(planted, pairs, tgt_lang, seed)
            cells.append(f"{found / n_planted:7.2%} of {n_planted:>6,}" if n_planted else "none planted")
        print(f"{planted.name:<28}" + "".join(f"{cell:>26}" for cell in cells))
    for name, pairs in sets.items():
        raised = list(alarms(pairs, tgt_lang))
        kinds = Counter(kind for _, faults in raised for kind in {fault.kind for fault in faults})
        by_kind = ", ".join(f"{kind} {kinds[kind]}" for kind in FAULT_KINDS if kinds[kind])
        share = len(raised) / len(pairs)
        print(f"alarms on clean {name}: {len(raised):,} of {len(pairs):,} = {share:.2%} ({by_kind or 'none'})")
        for (src, text), faults in raised[:n_shown]:
            print(f"    {', '.join(f'{fault.kind} {fault.detail}' for fault in faults)}: {src} | {text}")


def translate(model: Path, pairs: Sequence[Pair], tgt_lang: str) -> list[Pair]:
    """The model's translations, unguarded; prints what second searches make of them, and both BLEU scores."""
    from mtkit.translation.translator import Translator

    translator = Translator.load(model, device="cpu")
    sources, references = [src for src, _ in pairs], [ref for _, ref in pairs]
    decode = translator.decode.model_copy(update={"on_suspect": "retry"})
    review = Review(translator, decode, tgt_lang=tgt_lang, rules_in_beam=translator.engine.name == "native")
    candidates = translator.search(sources)
    plain = [n_best[0].text for n_best in candidates]
    guarded = [line.text for line in review.window(sources, candidates)]
    n_changed = sum(a != b for a, b in zip(plain, guarded, strict=True))
    before, after = corpus_bleu(plain, references), corpus_bleu(guarded, references)
    print(f"BLEU {before:.2f} with on_suspect=off, {after:.2f} with retry, which changed {n_changed} lines")
    print(review.tally.message() or "nothing is suspect")
    for src, old, new in zip(sources, plain, guarded, strict=True):
        if old != new:
            print(f"    {src} | {old} -> {new}")
    return list(zip(sources, plain, strict=True))


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--ref", type=Path, required=True)
    parser.add_argument("--langs", default="src-tgt", help="such as en-fr; a known target language knows its numbers")
    parser.add_argument("--model", type=Path, help="run or bundle folder")
    parser.add_argument("--limit", type=int, help="only so many lines, evenly chosen")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print the first N alarms on clean text")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    pairs: list[Pair] = [(pair.src, pair.tgt) for pair in read_pairs([CorpusFiles(src=args.src, tgt=args.ref)])]
    pairs = evenly_spaced(pairs, args.limit) if args.limit else pairs
    tgt_lang = args.langs.partition("-")[2]
    sets = {"references": pairs}
    if args.model:
        sets["outputs"] = translate(args.model, pairs, tgt_lang)
    print_table(sets, tgt_lang, args.seed, args.show)


if __name__ == "__main__":
    main()

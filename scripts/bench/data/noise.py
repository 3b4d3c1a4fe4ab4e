"""Plant noise of known kinds at known lines into a clean corpus, and measure which share of it the rules find.

    .venv/bin/python scripts/bench/data/noise.py train.en.gz train.de.gz --out noisy --share 0.2

writes noisy.en, noisy.de and noisy.places.tsv (line from 1, kind), and prints how many lines of each kind
`mtkit data clean` would drop, by which rules, and how many of the lines without noise. The seed fixes everything.
"""

import argparse
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from mtkit.config.cleaning import CleanConfig
from mtkit.config.data import CorpusFiles
from mtkit.data.corpus import read_pairs
from mtkit.languages import language_in_name
from mtkit.pair_files.lines import windows

Sides = tuple[str, str]
Plant = Callable[[str, str, random.Random, "Other"], Sides | None]  # None: this pair has nowhere to plant it
_LEAST_LETTERS = 12  # of a side: shorter pairs get no noise, because nobody could tell
INTRUDERS = {  # sentences in third languages, written for this bench
    "nl": ["De winkel op de hoek is vandaag helaas gesloten.", "Wij hebben gisteren een nieuwe fiets gekocht.",
           "Morgen gaat het waarschijnlijk de hele dag regenen.", "Kun je mij vertellen waar het station is?"],
    "es": ["La tienda de la esquina está cerrada hoy.", "Ayer compramos una bicicleta nueva para mi hermana.",
           "Mañana probablemente lloverá durante todo el día.", "¿Puedes decirme dónde está la estación?"],
    "it": ["Il negozio all'angolo oggi purtroppo è chiuso.", "Ieri abbiamo comprato una bicicletta nuova.",
           "Domani probabilmente pioverà tutto il giorno.", "Puoi dirmi dove si trova la stazione?"],
    "ru": ["Магазин на углу сегодня, к сожалению, закрыт.", "Вчера мы купили новый велосипед для сестры.",
           "Завтра, наверное, весь день будет дождь.", "Скажите, пожалуйста, где находится вокзал?"],
    "pl": ["Sklep na rogu jest dziś niestety zamknięty.", "Wczoraj kupiliśmy nowy rower dla mojej siostry.",
           "Jutro prawdopodobnie przez cały dzień będzie padać.", "Czy możesz mi powiedzieć, gdzie jest dworzec?"],
}  # fmt: skip


class Other:
    """Draws other lines of the corpus."""

    def __init__(self, pairs: Sequence[Sides]) -> None:
        self.pairs = pairs

    def tgt(self, rng: random.Random) -> str:
        """Return a random target line."""
        return rng.choice(self.pairs)[1]


def _misaligned(src: str, tgt: str, rng: random.Random, other: Other) -> Sides | None:
    drawn = other.tgt(rng)
    return (src, drawn) if drawn != tgt else None


def _copied(src: str, tgt: str, rng: random.Random, other: Other) -> Sides | None:
    return (src, src) if src != tgt else None


def _wrong_language(src: str, tgt: str, rng: random.Random, other: Other) -> Sides | None:
    return src, rng.choice(INTRUDERS[rng.choice(sorted(INTRUDERS))])


def _truncated(src: str, tgt: str, rng: random.Random, other: Other) -> Sides | None:
    words = tgt.split()
    return (src, " ".join(words[: max(1, len(words) // 4)])) if len(words) >= 8 else None


def _merged(src: str, tgt: str, rng: random.Random, other: Other) -> Sides | None:
    return src, f"{tgt} {other.tgt(rng)} {other.tgt(rng)}"


def _number_changed(src: str, tgt: str, rng: random.Random, other: Other) -> Sides | None:
    number = rng.randint(13, 9999)
    return f"{src} ({number})", f"{tgt} ({number + rng.randint(1, 10)})"


def _address_lost(src: str, tgt: str, rng: random.Random, other: Other) -> Sides | None:
    return f"{src} https://www.example.org/page{rng.randint(1, 99)}", tgt


def _markup_lost(src: str, tgt: str, rng: random.Random, other: Other) -> Sides | None:
    return f"<b>{src}</b>", tgt


def _repeated(src: str, tgt: str, rng: random.Random, other: Other) -> Sides | None:
    words = tgt.split()
    tail = " ".join(words[-rng.randint(1, min(3, len(words))) :])
    return src, f"{tgt} {' '.join([tail] * rng.randint(4, 8))}"


def _mojibake(src: str, tgt: str, rng: random.Random, other: Other) -> Sides | None:
    broken = tgt.encode().decode("cp1252", "replace")
    return (src, broken) if broken != tgt else None


def _lost_characters(src: str, tgt: str, rng: random.Random, other: Other) -> Sides | None:
    broken = "".join(c if c.isascii() else "\ufffd" for c in tgt)
    return (src, broken) if broken != tgt else None


def _table_row(src: str, tgt: str, rng: random.Random, other: Other) -> Sides | None:
    cells = " | ".join(f"{rng.randint(0, 999)}.{rng.randint(0, 99):02d}" for _ in range(6))
    return f"{cells} |", f"{cells} |"


KINDS: dict[str, Plant] = {
    "misaligned": _misaligned,
    "copied": _copied,
    "wrong language": _wrong_language,
    "truncated": _truncated,
    "merged": _merged,
    "number changed": _number_changed,
    "address lost": _address_lost,
    "markup lost": _markup_lost,
    "repeated": _repeated,
    "mojibake": _mojibake,  # repaired, not dropped
    "lost characters": _lost_characters,
    "table row": _table_row,
}


def plant(
    pairs: Sequence[Sides], share: float, seed: int, kinds: Sequence[str] = tuple(KINDS)
) -> Iterator[tuple[str, str, str]]:
    """Yield each pair as source, target and the kind of its noise, "" for none; about `share` of the pairs get some."""
    rng, other = random.Random(seed), Other(pairs)
    for src, tgt in pairs:
        kind = rng.choice(list(kinds)) if rng.random() < share and min(len(src), len(tgt)) >= _LEAST_LETTERS else ""
        spoilt = KINDS[kind](src, tgt, rng, other) if kind else None
        yield (*spoilt, kind) if spoilt else (src, tgt, "")


def main() -> None:
    """Plant, write, judge, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("src", type=Path)
    parser.add_argument("tgt", type=Path)
    parser.add_argument("--out", help="start of the names of the files to write; default: none are written")
    parser.add_argument("--share", type=float, default=0.2, help="of the pairs that get noise")
    parser.add_argument("--pairs", type=int, default=50_000, help="pairs to read, evenly spaced")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    langs = language_in_name(args.src) or "src", language_in_name(args.tgt) or "tgt"
    read = [(pair.src, pair.tgt) for pair in read_pairs([CorpusFiles(src=args.src, tgt=args.tgt)])]
    read = read[:: max(1, len(read) // args.pairs)]
    planted = list(plant(read, args.share, args.seed))
    if args.out:
        _write(args.out, langs, planted)
    _print_found(planted, langs)


def _write(out: str, langs: Sides, planted: Sequence[tuple[str, str, str]]) -> None:
    for side, lang in enumerate(langs):
        Path(f"{out}.{lang}").write_text("".join(f"{pair[side]}\n" for pair in planted), encoding="utf-8")
    lines = (f"{line}\t{kind}\n" for line, (_, _, kind) in enumerate(planted, start=1) if kind)
    Path(f"{out}.places.tsv").write_text("".join(lines), encoding="utf-8")


def _print_found(planted: Sequence[tuple[str, str, str]], langs: Sides) -> None:
    from mtkit.corpora.cleaning.clean import judge
    from mtkit.pair_files.pairs import Pair

    rules: dict[str, Counter[str]] = defaultdict(Counter)
    n_of_kind = Counter(kind for _, _, kind in planted)
    n_repaired = 0
    for window in windows(list(enumerate(planted, start=1)), 4096):
        pairs = [Pair(src, tgt, "", line) for line, (src, tgt, _) in window]
        judged = judge(pairs, langs, CleanConfig())
        for (_, (_, tgt, kind)), text, rejection in zip(window, judged.tgt, judged.rejections, strict=True):
            if rejection:
                rules[kind][rejection.rule] += 1
            elif kind == "mojibake":
                n_repaired += text != tgt
    print(f"{'noise':<16} {'pairs':>7} {'dropped':>8}  rules")
    for kind in [*KINDS, ""]:
        n, found = n_of_kind[kind], rules[kind].total()
        shares = ", ".join(f"{rule} {count / max(n, 1):.1%}" for rule, count in rules[kind].most_common(5))
        print(f"{kind or 'none':<16} {n:>7,} {found / max(n, 1):>8.2%}  {shares}")
    print(f"of the {n_of_kind['mojibake']:,} pairs with mojibake {n_repaired:,} were kept with another text")


if __name__ == "__main__":
    main()

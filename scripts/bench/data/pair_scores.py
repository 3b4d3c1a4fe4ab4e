"""Plant wrong pairs of eight kinds into clean text, and measure how well scores tell them from the good ones.

    B=.venv/bin/python scripts/bench/data/pair_scores.py
    $B plant test.en.gz test.fr.gz --out build/noisy --share 0.2 --machine weak.fr
    mtkit data score build/noisy/pairs.tsv --model runs/filter -o build/noisy/filter.txt
    mtkit score --model runs/en-fr < build/noisy/pairs.tsv > build/noisy/forward.tsv
    mtkit score --model runs/fr-en < build/noisy/swapped.tsv > build/noisy/backward.tsv
    $B auc build/noisy classifier=filter.txt dual=forward.tsv+backward.tsv cosine=cosine.txt --fit build/noisy-dev

--machine: translations of the source text by a weak system, line by line. The kinds of mistakes are those from which
`mtkit data train-filter` makes its negatives; unrelated, copied, truncated and wrong-language pairs are made here, by
other code. Scores are files with a number a line, higher for better pairs. Two files of `mtkit score` joined by
+ are the dual conditional cross-entropy of two models (Junczys-Dowmunt 2018, section 3.1). AUC is the probability that
a good pair scores higher than one with noise, with a 95 % bootstrap interval. All scores but the first are also
combined: by the mean of their ranks, and, with --fit, by a logistic regression on such a folder of dev text.
"""

import argparse
import itertools
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mtkit.config.data import CorpusFiles
from mtkit.corpora.filter import negatives
from mtkit.corpora.filter.pair_judge import Regression
from mtkit.data.corpus import read_pairs
from mtkit.languages import language_in_name
from mtkit.pair_files.lines import read_lines

Sides = tuple[str, str]
Floats = npt.NDArray[np.float64]
_DETAILS = ("number", "name", "negation", "replaced")
_WORDS = ("missing", "order", "added")
_RESAMPLES = 200
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


class Planter:
    """Makes the eight kinds of wrong pairs."""

    def __init__(self, pairs: Sequence[Sides], langs: Sides, machine: Sequence[str] | None, seed: int) -> None:
        self.pairs, self.machine = pairs, machine
        self.rng = random.Random(seed)
        self.mistakes = negatives.Mistakes(pairs, langs, seed)

    def plant(self, kind: str, index: int) -> Sides | None:
        """Return pair `index` with a mistake of this kind; None if it has no place for it."""
        src, tgt = self.pairs[index]
        if kind == "machine":
            text = self.machine[index] if self.machine else tgt
            return (src, text) if text.strip() and text != tgt else None
        if kind == "unrelated":
            other = self.rng.choice(self.pairs)[1]
            return (src, other) if other != tgt else None
        if kind == "copied":
            return (src, src) if src != tgt else None
        if kind == "wrong language":
            return src, self.rng.choice(INTRUDERS[self.rng.choice(sorted(INTRUDERS))])
        if kind == "truncated":
            words = tgt.split()
            return (src, " ".join(words[: max(1, len(words) // 4)])) if len(words) >= 8 else None
        parts = {"similar": ("similar",), "detail": _DETAILS, "words": _WORDS}[kind]
        for part in self.rng.sample(parts, len(parts)):
            spoilt = negatives.KINDS[part](self.mistakes, index, self.rng)
            if spoilt and spoilt != (src, tgt):
                return spoilt
        return None


KINDS = ("unrelated", "similar", "detail", "words", "truncated", "copied", "wrong language", "machine")


def plant(args: argparse.Namespace) -> None:
    """Write pairs.tsv, swapped.tsv and kinds.txt, with "good" for pairs without noise."""
    langs = language_in_name(args.src) or "src", language_in_name(args.tgt) or "tgt"
    pairs = [(pair.src, pair.tgt) for pair in read_pairs([CorpusFiles(src=args.src, tgt=args.tgt)])]
    planter = Planter(pairs, langs, list(read_lines(args.machine)) if args.machine else None, args.seed)
    names = itertools.cycle(KINDS if args.machine else KINDS[:-1])
    args.out.mkdir(parents=True, exist_ok=True)
    with (
        (args.out / "pairs.tsv").open("w") as out,
        (args.out / "swapped.tsv").open("w") as swapped,
        (args.out / "kinds.txt").open("w") as kinds,
    ):
        for index, pair in enumerate(pairs):
            kind = next(names) if planter.rng.random() < args.share else "good"
            spoilt = pair if kind == "good" else planter.plant(kind, index)
            src, tgt = spoilt or pair
            out.write(f"{src}\t{tgt}\n")
            swapped.write(f"{tgt}\t{src}\n")
            kinds.write(f"{kind if spoilt else 'good'}\n")


def auc(good: Floats, bad: Floats) -> float:
    """Return the probability that a good pair scores higher than a bad one, ties counted half (Mann-Whitney)."""
    values = np.concatenate([good, bad])
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return float((ranks[: len(good)].sum() - len(good) * (len(good) + 1) / 2) / (len(good) * len(bad)))


def read_scores(folder: Path, files: str) -> Floats:
    """Return the scores in a file, or the dual cross-entropy of two."""
    columns = [_column(folder / name) for name in files.split("+")]
    if len(columns) == 1:
        return columns[0]
    forward, backward = columns
    dual = -np.abs(forward - backward) + 0.5 * (forward + backward)
    return np.where(np.isnan(dual), -1e9, dual)


def _column(path: Path) -> Floats:
    rows = [line.split("\t") for line in read_lines(path)]
    return np.array([float(row[2] if len(row) > 1 else row[0] or "nan") for row in rows])  # 2: per token


def compare(args: argparse.Namespace) -> None:
    """Print the AUC of each score, and of all but the first together, for each kind and for all."""
    kinds = np.array(list(read_lines(args.folder / "kinds.txt")))
    scores, others = _all_scores(args.folder, args.scores)
    if len(others) > 1:
        scores["ranks of " + "+".join(others)] = np.mean([_standardised(scores[name]) for name in others], axis=0)
    if len(others) > 1 and args.fit:
        of_dev = np.array(list(read_lines(args.fit / "kinds.txt"))) == "good"
        fitted = Regression.fit(_columns(_all_scores(args.fit, args.scores)[0], others), of_dev)
        scores["fitted " + "+".join(others)] = fitted.probabilities(_columns(scores, others))
    present = [kind for kind in KINDS if (kinds == kind).any()]
    print(f"{'score':<28}", *(f"{kind[:10]:>10}" for kind in present), f"{'all':>8}  95 %")
    for name, values in scores.items():
        if len(values) != len(kinds):
            raise SystemExit(f"{name}: {len(values):,} scores for {len(kinds):,} pairs")
        good = values[kinds == "good"]
        by_kind = [auc(good, values[kinds == kind]) for kind in present]
        low, high = _interval(values, kinds == "good")
        total = auc(good, values[kinds != "good"])
        print(f"{name:<28}", *(f"{value:>10.4f}" for value in by_kind), f"{total:>8.4f}  {low:.4f} to {high:.4f}")
    print(
        f"{(kinds == 'good').sum():,} good pairs;", ", ".join(f"{(kinds == kind).sum():,} {kind}" for kind in present)
    )


def _all_scores(folder: Path, texts: Sequence[str]) -> tuple[dict[str, Floats], list[str]]:
    """Return the scores by their names, and all names but the first."""
    scores = {name: read_scores(folder, files) for name, _, files in (text.partition("=") for text in texts)}
    return scores, list(scores)[1:]


def _columns(scores: Mapping[str, Floats], names: Sequence[str]) -> Floats:
    """Return what a regression sees; a score that is missing counts as the least."""
    return np.stack([np.maximum(scores[name], -20.0) for name in names], axis=1)


def _standardised(values: Floats) -> Floats:
    """Return the ranks of the values, 0 to 1."""
    return values.argsort(kind="stable").argsort(kind="stable") / max(1, len(values) - 1)


def _interval(values: Floats, is_good: npt.NDArray[np.bool_]) -> tuple[float, float]:
    rng = np.random.default_rng(1)
    draws = (rng.integers(len(values), size=len(values)) for _ in range(_RESAMPLES))
    aucs = [auc(values[draw][is_good[draw]], values[draw][~is_good[draw]]) for draw in draws]
    low, high = np.percentile(aucs, [2.5, 97.5])
    return float(low), float(high)


def main() -> None:
    """Parse the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    planting = commands.add_parser("plant")
    planting.add_argument("src", type=Path)
    planting.add_argument("tgt", type=Path)
    planting.add_argument("--out", type=Path, required=True)
    planting.add_argument("--share", type=float, default=0.2)
    planting.add_argument("--machine", type=Path)
    planting.add_argument("--seed", type=int, default=1)
    planting.set_defaults(act=plant)
    comparing = commands.add_parser("auc")
    comparing.add_argument("folder", type=Path)
    comparing.add_argument("scores", nargs="+")
    comparing.add_argument("--fit", type=Path, help="folder of dev text with the same scores")
    comparing.set_defaults(act=compare)
    args = parser.parse_args()
    args.act(args)


if __name__ == "__main__":
    main()

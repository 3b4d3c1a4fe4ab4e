"""Measure what required terms do to translations of real sentences: the terms met, and BLEU with and without them.

The terms come from the training text: word pairs that occur in the same sentence pairs far more often than chance
(Dice coefficient of source word and target word). All terms of a sentence are in its reference. --invented writes the
targets backwards, in terms and references: words that the model never saw, as the names of products are.
"""

import argparse
import json
import re
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from mtkit.pair_files.lines import read_lines
from mtkit.translation.terminology import Terminology, TermReport
from mtkit.translation.translator import Translator

_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_MIN_COUNT, _MAX_COUNT = (
    5,
    1500,
)  # sentence pairs with the source word: rarer pairs are chance, more frequent words function words
_MIN_LETTERS = 4


def word_pairs(src: Sequence[str], tgt: Sequence[str], min_dice: float) -> dict[str, list[str]]:
    """Return, for each source word, its target words with at least this Dice coefficient, best first."""
    of_src: Counter[str] = Counter()
    of_tgt: Counter[str] = Counter()
    together: Counter[tuple[str, str]] = Counter()
    bags = [(words(s), words(t)) for s, t in zip(src, tgt, strict=True)]
    for src_words, tgt_words in bags:
        of_src.update(src_words)
        of_tgt.update(tgt_words)
    for src_words, tgt_words in bags:
        usual = [word for word in src_words if _MIN_COUNT <= of_src[word] <= _MAX_COUNT]
        known = [word for word in tgt_words if _MIN_COUNT <= of_tgt[word] <= _MAX_COUNT]
        together.update((s, t) for s in usual for t in known)
    pairs: dict[str, list[tuple[float, str]]] = {}
    for (s, t), n in together.items():
        dice = 2 * n / (of_src[s] + of_tgt[t])
        if n >= _MIN_COUNT and dice >= min_dice and s != t:
            pairs.setdefault(s, []).append((dice, t))
    return {s: [t for _, t in sorted(targets, reverse=True)] for s, targets in pairs.items()}


def words(text: str) -> set[str]:
    """Return a text's words of some length, in lower case."""
    return {word for word in _WORD.findall(text.lower()) if len(word) >= _MIN_LETTERS}


def sentences_with_terms(
    src: Sequence[str], references: Sequence[str], pairs: dict[str, list[str]], n_sentences: int
) -> tuple[list[int], dict[str, str]]:
    """Return the first sentences with a term, and the terms: one target a source word, the commonest in references.

    A sentence whose reference lacks the target of one of its terms is left out.
    """
    votes: dict[str, Counter[str]] = {}
    for line, reference in zip(src, references, strict=True):
        present = words(reference)
        for word in words(line) & pairs.keys():
            votes.setdefault(word, Counter()).update([t for t in pairs[word] if t in present][:1])
    terms = {word: counts.most_common(1)[0][0] for word, counts in votes.items() if counts}
    chosen = []
    for index, (line, reference) in enumerate(zip(src, references, strict=True)):
        used = words(line) & terms.keys()
        if used and all(terms[word] in words(reference) for word in used):
            chosen.append(index)
    chosen = chosen[:n_sentences]
    occurring = {word for index in chosen for word in words(src[index])}
    return chosen, {word: target for word, target in sorted(terms.items()) if word in occurring}


def invented(reference: str, targets: set[str]) -> str:
    """Return the reference with each of the target words written backwards."""
    return _WORD.sub(lambda match: match[0][::-1] if match[0].lower() in targets else match[0], reference)


def main() -> None:
    """Build the terms, translate with and without them, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--train", type=Path, nargs=2, required=True, metavar=("SRC", "TGT"))
    parser.add_argument(
        "--text", type=Path, nargs=2, required=True, metavar=("SRC", "TGT"), help="dev to tune, test to report"
    )
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--min-dice", type=float, default=0.15)
    parser.add_argument("--invented", action="store_true", help="targets the model never saw: each word backwards")
    parser.add_argument("--work", type=Path, default=Path("build/terminology"))
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    train_src, train_tgt, text_src, text_tgt = (list(read_lines(path)) for path in (*args.train, *args.text))
    chosen, terms = sentences_with_terms(
        text_src, text_tgt, word_pairs(train_src, train_tgt, args.min_dice), args.sentences
    )
    src, references = ([side[index] for index in chosen] for side in (text_src, text_tgt))
    if args.invented:
        references = [invented(reference, set(terms.values())) for reference in references]
        terms = {source: target[::-1] for source, target in terms.items()}
    path = args.work / "terms.tsv"
    path.write_text("source\ttarget\n" + "".join(f"{s}\t{t}\n" for s, t in terms.items()), encoding="utf-8")
    print(f"{len(src)} sentences, {len(terms)} terms in {path}")
    results = {}
    for name, terminology in (("plain", None), ("with terms", path)):
        translator = Translator.load(args.model, engine="native", terminology=terminology)
        session, start = translator.session(), time.perf_counter()
        results[name] = [translation.text for translation in session.translate(src)]
        elapsed = time.perf_counter() - start
        report = TermReport(Terminology.load(path, translator.tgt_tokenizer))
        for line, (source, output) in enumerate(zip(src, results[name], strict=True), start=1):
            report.add(source, output, line)
        bleu = BLEU().corpus_score(results[name], [references])
        chrf = CHRF().corpus_score(results[name], [references])
        print(
            f"{name:<12} {report.n_met:>4} of {report.n_required} terms met, BLEU {bleu.score:.2f}, "
            f"chrF2 {chrf.score:.2f}, {session.review.tally.n_faulty} suspect, {elapsed:.0f} s"
        )
    rows = [
        {"src": s, "reference": r, "plain": p, "with terms": w}
        for s, r, p, w in zip(src, references, results["plain"], results["with terms"], strict=True)
    ]
    (args.work / "sentences.json").write_text(json.dumps(rows, ensure_ascii=False, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
